//! `histeqd explain`: the settings that outputs were made with, from the records on the outputs and
//! from a ledger.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use codec::Format;
use serde::Serialize;
use store::{Storage, Url};
use walkdir::{DirEntry, WalkDir};

use crate::cli::ExplainCommand;
use crate::config::PictureSettings;
use crate::config::outputs::{OutputKey, reported_keys};
use crate::error::{Error, Exit};
use crate::fs::paths::{self, Shown, absolute};
use crate::ledger::{self, Ledger, LedgerError, Recorded};
use crate::picture::recipe::Recipe;
use crate::picture::record::{Digest, Record};
use crate::source::sidecars;
use crate::terminal_text::OneLine;

/// Returns the answer to `histeqd explain`, and its exit code: whether histeqd made every output,
/// and all are unchanged since.
///
/// # Errors
/// When an output does not exist, or a folder has no outputs.
pub fn describe(command: &ExplainCommand) -> Result<(String, Exit), Error> {
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for named in &command.outputs {
        for output in outputs(named)? {
            let explained = Explained::of(&output, command.state.as_deref())?;
            if explained.is_untouched != Some(true) {
                exit = Exit::SomeFailed;
            }
            text += &if command.json { explained.to_json() } else { explained.to_text() };
        }
    }
    Ok((text, exit))
}

/// Returns the outputs below a folder, in the order of their names; or the path itself, if it is no
/// folder.
fn outputs(named: &Path) -> Result<Vec<PathBuf>, Error> {
    if store::is_url(named) || !named.is_dir() {
        return Ok(vec![named.to_owned()]);
    }
    let unknown = |why: &dyn fmt::Display| Error::CannotRun(format!("{}: {why}", Shown(named)));
    let entries = WalkDir::new(named).follow_root_links(true).sort_by_file_name().into_iter();
    let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
    let mut found = Vec::new();
    for entry in entries.filter_entry(shown) {
        let entry = entry.map_err(|why| unknown(&why))?;
        let path = entry.path();
        if entry.file_type().is_file() && (Format::of_name(path).is_some() || Record::of(path).is_some()) {
            found.push(entry.into_path());
        }
    }
    if found.is_empty() { Err(unknown(&"no outputs in this folder")) } else { Ok(found) }
}

/// Where the settings were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// The output itself.
    Output,
    Ledger,
}

/// All that is known about how an output was made.
#[derive(Debug)]
struct Explained {
    output: PathBuf,
    /// Its record.
    record: Option<Record>,
    /// Whether a file that histeqd made has the time and length that it was made with.
    is_untouched: Option<bool>,
    /// The keys that decided how it looks.
    keys: Option<(Vec<OutputKey>, Source)>,
    /// Whether it is a copy of a sidecar file, which is its input.
    is_copy: bool,
    /// The file that it was made from.
    input: Option<PathBuf>,
    /// Why the ledger could not be used.
    trouble: Option<String>,
}

impl Explained {
    fn of(output: &Path, state: Option<&Path>) -> Result<Self, Error> {
        if store::is_url(output) { Self::of_object(output) } else { Self::of_file(output, state) }
    }

    fn of_object(output: &Path) -> Result<Self, Error> {
        let unknown = |why: &dyn fmt::Display| Error::CannotRun(format!("{}: {why}", Shown(output)));
        let url = Url::parse(output).map_err(|why| unknown(&why))?;
        let found = Storage::new(0).bucket(&url).and_then(|bucket| bucket.head(&url));
        let found = found.map_err(|why| unknown(&why))?.ok_or_else(|| unknown(&"no such object"))?;
        let record = Record::of_found(&found);
        let is_untouched = record.map(|record| record.is_of_length(found.entry.size));
        let recipe = record.and_then(|record| Recipe::of_found(&found, &record));
        Ok(Self::by(output, record, is_untouched, recipe.as_ref()))
    }

    fn of_file(output: &Path, state: Option<&Path>) -> Result<Self, Error> {
        let unknown = |why: &dyn fmt::Display| Error::CannotRun(format!("{}: {why}", Shown(output)));
        let metadata = fs::metadata(output).map_err(|why| unknown(&why))?;
        if !metadata.is_file() {
            return Err(unknown(&"not a regular file; name outputs or an output folder"));
        }
        let file = output.canonicalize().map_err(|why| unknown(&why))?;
        let record = Record::of(&file);
        let is_untouched = record.map(|record| record.is_untouched(&metadata));
        let recipe = record.and_then(|record| Recipe::of(&file, &record));
        let mut explained = Self::by(output, record, is_untouched, recipe.as_ref());
        match recorded(&[absolute(output), file], state) {
            Ok(Some(recorded)) => explained.add(recorded, &metadata),
            Ok(None) => {}
            Err(why) => explained.trouble = Some(why.to_string()),
        }
        Ok(explained)
    }

    /// Returns the explanation that an output's own record gives.
    fn by(
        output: &Path,
        record: Option<Record>,
        is_untouched: Option<bool>,
        recipe: Option<&Recipe>,
    ) -> Self {
        let keys = recipe.and_then(|recipe| reported_keys(recipe.text()));
        let keys = keys.map(|keys| (keys, Source::Output));
        let input = recipe.and_then(sidecars::original).map(Path::to_owned);
        let (output, is_copy) = (output.to_owned(), input.is_some());
        Self { output, record, is_untouched, keys, is_copy, input, trouble: None }
    }

    /// Adds a ledger's entry on an output of this name, unless the output carries the record of
    /// another picture.
    fn add(&mut self, recorded: Recorded, metadata: &Metadata) {
        let Recorded { input, stamp, settings, bytes_out } = recorded;
        let settings = PictureSettings::of_fingerprint(&settings);
        if let Some(record) = self.record {
            let of_settings = settings.map(|settings| Digest::of(settings.as_bytes()));
            if !record.is_from(&stamp) || of_settings.is_some_and(|digest| !record.has_settings(digest)) {
                return;
            }
        }
        self.input = Some(input);
        self.is_untouched = self.is_untouched.or(Some(metadata.len() == bytes_out));
        let keys = settings.and_then(reported_keys).map(|keys| (keys, Source::Ledger));
        self.keys = self.keys.take().or(keys);
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("text can always be written to memory");
        text
    }

    fn write_text(&self, text: &mut String) -> fmt::Result {
        write!(text, "{}: ", Shown(&self.output))?;
        match self.is_untouched {
            Some(true) => writeln!(text, "made by histeqd, unchanged since")?,
            Some(false) => writeln!(text, "made by histeqd; copied, touched or changed since")?,
            None => writeln!(text, "no record of histeqd; settings unknown")?,
        }
        if let Some(original) = self.input.as_ref().filter(|_| self.is_copy) {
            return writeln!(text, "  copy of the sidecar file {}", Shown(original));
        }
        match (&self.keys, self.record) {
            (Some((keys, source)), _) => write_keys(text, keys, *source)?,
            (None, Some(record)) => {
                let digest = record.settings();
                writeln!(
                    text,
                    "  settings: unknown; only their digest is recorded ({digest}): made by an older version, or the settings are long or name files"
                )?;
            }
            (None, None) if self.input.is_some() => {
                writeln!(text, "  settings: unknown; the ledger has only their digest")?;
            }
            (None, None) => {}
        }
        if let Some(input) = &self.input {
            writeln!(text, "  input, by the ledger: {}", Shown(input))?;
        }
        self.trouble.as_ref().map_or(Ok(()), |why| writeln!(text, "  ledger: {}", OneLine(why)))
    }

    fn to_json(&self) -> String {
        let told = Answer {
            output: &self.output,
            unchanged: self.is_untouched,
            settings: self.keys.as_ref().map(|(keys, _)| {
                let set = keys.iter().filter(|key| !key.is_default);
                set.map(|key| (key.name.as_str(), key.value.as_str())).collect()
            }),
            settings_from: self.keys.as_ref().map(|(_, source)| *source),
            digest: self.record.map(|record| record.settings().to_string()),
            input: self.input.as_deref().map(JsonPath),
            incomplete: self.trouble.as_deref(),
        };
        serde_json::to_string(&told).expect("every key is text") + "\n"
    }
}

fn write_keys(text: &mut String, keys: &[OutputKey], source: Source) -> fmt::Result {
    let (left, set): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.is_default);
    let by = if source == Source::Ledger { ", by the ledger" } else { "" };
    let flags: Vec<_> = set.iter().map(|key| key.flag.as_str()).collect();
    match flags[..] {
        [] => writeln!(text, "  settings{by}: all are the defaults")?,
        _ => writeln!(text, "  settings{by}: {}", OneLine(&flags.join(" ")))?,
    }
    let left: Vec<_> = left.iter().map(|key| format!("{} {}", key.name, key.value)).collect();
    if left.is_empty() { Ok(()) } else { writeln!(text, "  left at their defaults: {}", left.join(", ")) }
}

/// Looks up how an output with one of these paths was made, in the ledger in `state` or else in the
/// innermost parent folder that has one.
fn recorded(paths: &[PathBuf], state: Option<&Path>) -> Result<Option<Recorded>, LedgerError> {
    let above =
        paths.iter().flat_map(|path| path.ancestors().skip(1)).map(|folder| folder.join(ledger::FOLDER));
    let folder = state
        .map(Path::to_owned)
        .or_else(|| above.into_iter().find(|folder| folder.join(ledger::FILE).exists()));
    let Some(ledger) = folder.map(|folder| Ledger::read(&folder)).transpose()?.flatten() else {
        return Ok(None);
    };
    for path in paths {
        if let Some(recorded) = ledger.recorded(path)? {
            return Ok(Some(recorded));
        }
    }
    Ok(None)
}

/// An answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(serialize_with = "paths::as_json")]
    output: &'a Path,
    unchanged: Option<bool>,
    settings: Option<BTreeMap<&'a str, &'a str>>,
    settings_from: Option<Source>,
    digest: Option<String>,
    input: Option<JsonPath<'a>>,
    incomplete: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonPath<'a>(#[serde(serialize_with = "paths::as_json")] &'a Path);
