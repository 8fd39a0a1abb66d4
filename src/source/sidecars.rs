//! Files beside pictures that belong to them: their georeference, as GDAL and others write it, and
//! the metadata of photographs.
//!
//! They are no pictures. With `--sidecars copy` they go beside the outputs; without it they stay
//! where they are, which is told.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Naming, Permissions, Settings, SidecarsChoice, Times};
use crate::error::PictureError;
use crate::fs::input::InputRoots;
use crate::fs::paths::{Shown, folder_of};
use crate::fs::stamp::Stamp;
use crate::picture::recipe::Recipe;
use crate::picture::record::{Digest, Origin, Record};
use crate::publish::{Publisher, Replaces};
use crate::selection::{Links, promises_a_picture};
use crate::source::job::Job;

/// Extensions in the place of the picture's: world files, and the coordinate system.
const EXTENSIONS: [&str; 13] =
    ["tfw", "tifw", "tiffw", "jgw", "jpgw", "jpegw", "pgw", "pngw", "bpw", "gfw", "j2w", "wld", "prj"];

/// Ends of names, after the picture's with its extension or without.
const ENDS: [&str; 3] = [".aux.xml", ".xmp", "_rpc.txt"];

/// Ends of names of masks, after the picture's with its extension: they have its size, and no
/// levels.
const MASKS: [&str; 2] = [".msk", ".msk.ovr"];

/// The end of the name of GDAL's metadata.
const PAM: &str = ".aux.xml";

/// More bytes than metadata of a picture have.
const LONGEST: u64 = 32 << 20;

/// The same of GDAL's metadata, which are parsed: the time for that may grow by the square of their
/// length.
const LONGEST_PAM: u64 = 256 << 10;

/// The settings that a copy is made with. The path of the sidecar file follows them in its recipe.
const RECIPE: &str = "sidecars = \"copy\"\n";

/// The most files that a note names.
const NAMED: usize = 3;

/// Returns a note about files beside the pictures of jobs that are not copied to their outputs.
pub(super) fn note(jobs: &[Job], settings: &Settings) -> Option<String> {
    if matches!(settings.naming, Naming::StandardOutput | Naming::Nothing) {
        return None;
    }
    let inputs: Vec<_> =
        jobs.iter().map(|job| &*job.input).filter(|input| is_named_as_sidecar(input)).collect();
    if inputs.is_empty() {
        return None;
    }
    let stay = |job: &&Job| settings.sidecars == SidecarsChoice::Leave || !are_copied(job);
    let pictures = jobs.iter().filter(stay).map(|job| &*job.input);
    let pictures = Pictures::of(pictures.filter(|input| promises_a_picture(input)));
    told(&inputs.into_iter().filter(|input| pictures.have(input)).collect::<Vec<_>>())
}

/// The names of pictures, with and without extensions.
pub(super) struct Pictures(HashSet<PathBuf>);

impl Pictures {
    /// Returns the names of these files, except sidecar files.
    pub(super) fn of<'p>(files: impl Iterator<Item = &'p Path>) -> Self {
        let pictures = files.filter(|file| owners(file).is_empty());
        Self(pictures.flat_map(|picture| [picture.to_owned(), picture.with_extension("")]).collect())
    }

    /// Returns whether a file would belong to one of them.
    pub(super) fn have(&self, sidecar: &Path) -> bool {
        owners(sidecar).iter().any(|owner| self.0.contains(owner))
    }
}

/// Returns whether a file has the name of a sidecar file.
pub(crate) fn is_named_as_sidecar(input: &Path) -> bool {
    !owners(input).is_empty()
}

/// Returns the sidecar file that an output with this recipe is a copy of; `None` if it is another
/// output.
pub(crate) fn original(recipe: &Recipe) -> Option<&Path> {
    recipe.text().strip_prefix(RECIPE).map(Path::new)
}

/// Returns the names, with or without extension, of pictures to which a file would belong.
fn owners(input: &Path) -> Vec<PathBuf> {
    let by_extension = input.extension().and_then(|own| {
        EXTENSIONS
            .iter()
            .any(|extension| own.eq_ignore_ascii_case(extension))
            .then(|| input.with_extension(""))
    });
    ENDS.iter().filter_map(|end| before(input, end)).chain(by_extension).collect()
}

/// Returns a path without this end, in any case, if it has it.
fn before(path: &Path, end: &str) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let (before, own) = bytes.split_at_checked(bytes.len().checked_sub(end.len())?)?;
    own.eq_ignore_ascii_case(end.as_bytes()).then(|| OsStr::from_bytes(before).into())
}

/// Returns whether the sidecar files of a job's input can go beside its output: it is a file here,
/// and has one output.
fn are_copied(job: &Job) -> bool {
    !job.settings.target.splits && !job.is_folder && job.object.is_none()
}

/// Copies sidecar files.
pub(crate) struct Copies<'a> {
    roots: InputRoots,
    /// Whether a sidecar file may be a link.
    follows_links: bool,
    max_bytes: u64,
    times: Times,
    permissions: Permissions,
    publisher: &'a Publisher,
    root: &'a Path,
    /// The sidecar files in the folders of the inputs so far.
    folders: Mutex<HashMap<PathBuf, Arc<Names>>>,
    /// Held during a copy: two sidecar files may have copies of one name.
    turn: Mutex<()>,
}

impl<'a> Copies<'a> {
    /// Returns the copying to the tree below `root`, unless sidecar files are to stay.
    pub(crate) fn of(settings: &Settings, publisher: &'a Publisher, root: &'a Path) -> Option<Self> {
        let (roots, max_bytes) = (settings.roots.clone(), settings.limits.max_bytes);
        let follows_links = settings.selection.links != Links::Never;
        let &Settings { times, permissions, .. } = settings;
        let (folders, turn) = (Mutex::default(), Mutex::default());
        let copies =
            Self { roots, follows_links, max_bytes, times, permissions, publisher, root, folders, turn };
        (settings.sidecars == SidecarsChoice::Copy).then_some(copies)
    }

    /// Copies the sidecar files of a job's input. Returns those that cannot be copied, each with
    /// the reason.
    pub(crate) fn for_job(&self, job: &Job) -> Vec<(PathBuf, PictureError)> {
        if are_copied(job) { self.beside(&job.input, &job.output) } else { Vec::new() }
    }

    /// Copies the sidecar files of an input that are no copies yet beside its output. Returns those
    /// that cannot be copied, each with the reason.
    pub(crate) fn beside(&self, input: &Path, output: &Path) -> Vec<(PathBuf, PictureError)> {
        let there = match self.names(folder_of(input)) {
            Ok(there) => there,
            Err(why) => {
                let why = format!("its folder cannot be listed: {why}");
                return vec![(input.to_owned(), PictureError::Sidecar(why))];
            }
        };
        let copies = of(input, output, &there).into_iter().filter(|(from, to)| from != to);
        let failed = copies.filter_map(|(from, to)| {
            let why = self.copy(&from, &to).err()?;
            let why = match fs::read_link(&from) {
                Ok(target) => format!("it is a link to {}: {why}", Shown(&target)),
                Err(_) => why,
            };
            Some((from, PictureError::Sidecar(why)))
        });
        failed.collect()
    }

    /// Returns the sidecar files in a folder, which is listed once.
    fn names(&self, folder: &Path) -> io::Result<Arc<Names>> {
        let mut folders = lock(&self.folders);
        if let Some(known) = folders.get(folder) {
            return Ok(Arc::clone(known));
        }
        let names = Arc::new(Names::of(folder, self.follows_links)?);
        folders.insert(folder.to_owned(), Arc::clone(&names));
        Ok(names)
    }

    /// Copies a sidecar file that may have gone. Replaces only a copy of the same file that nobody
    /// has changed.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), String> {
        let _turn = lock(&self.turn);
        let file = match self.roots.open(from) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && from.is_symlink() => {
                return Err("its target is missing".to_owned());
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(|why| why.to_string())?,
        };
        let metadata = file.metadata().map_err(|why| why.to_string())?;
        let input = Stamp::of(&metadata, false);
        let path = path::absolute(from).map_err(|why| why.to_string())?;
        let recipe = [RECIPE.as_bytes(), path.as_os_str().as_bytes()].concat();
        let settings = Digest::of(&recipe);
        if metadata.is_dir() {
            return Ok(());
        }
        if !metadata.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        let another = || format!("{} is another file of that name", Shown(to));
        let record = Record::of(to);
        match record {
            Some(record) if !record.has_settings(settings) => return Err(another()),
            // Somebody may have added to it since.
            Some(record) if record.is_from(&input) => return Ok(()),
            // File systems without extended attributes keep no records.
            _ => {}
        }
        let is_mask = MASKS.iter().any(|end| before(from, end).is_some());
        let longest = if before(from, PAM).is_some() { LONGEST_PAM } else { LONGEST };
        let limit = if is_mask { self.max_bytes } else { self.max_bytes.min(longest) };
        if input.size > limit {
            return Err(format!("it has {} bytes, and {limit} is the limit", input.size));
        }
        let opened = file.try_clone().map_err(|why| why.to_string())?;
        let Some(mut content) = content(from, file, limit).map_err(|why| why.to_string())? else {
            let outdated = || format!("nothing is left of it to copy; remove {}, its old copy", Shown(to));
            return record.map_or(Ok(()), |_| Err(outdated()));
        };
        let mut copy = self.publisher.begin(self.root, to).map_err(|why| why.to_string())?;
        copy.replace(Replaces::Own);
        let origin = Origin { input, settings };
        copy.record(origin, Recipe::new(&String::from_utf8_lossy(&recipe), None));
        if self.times == Times::Keep {
            copy.modified_at(input.modified());
        }
        if self.permissions == Permissions::Keep {
            copy.permit(fs::Permissions::from_mode(metadata.mode() & 0o777));
        }
        io::copy(&mut content, copy.file()).map_err(|why| copy.unwritten(why).to_string())?;
        let now = opened.metadata().map_err(|why| why.to_string())?;
        if Stamp::of(&now, false) != input {
            return Err(PictureError::Changed.to_string());
        }
        match copy.publish() {
            Err(why) if why.is_of_another() => Err(another()),
            published => published.map(drop).map_err(|why| why.to_string()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of files in a folder that may be sidecar files, by the same in lower case.
#[derive(Default)]
struct Names(HashMap<Vec<u8>, Vec<OsString>>);

impl Names {
    /// Lists a folder, with its links if they are followed.
    fn of(folder: &Path, follows_links: bool) -> io::Result<Self> {
        let mut names = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if follows_links || !entry.file_type()?.is_symlink() {
                names.add(entry.file_name());
            }
        }
        Ok(names)
    }

    fn add(&mut self, name: OsString) {
        let lower = name.as_bytes().to_ascii_lowercase();
        let extension = Path::new(OsStr::from_bytes(&lower)).extension();
        // World files of any format end in a w.
        let is_world = extension.is_some_and(|own| own.as_bytes().ends_with(b"w"));
        let mut ends = ENDS.iter().chain(&MASKS);
        if is_world
            || EXTENSIONS.iter().any(|one| extension == Some(OsStr::new(one)))
            || ends.any(|end| lower.ends_with(end.as_bytes()))
        {
            self.0.entry(lower).or_default().push(name);
        }
    }

    /// Returns the ends of the names that are `start` and this end in any case.
    fn after<'n>(&'n self, start: &'n OsStr, end: &str) -> impl Iterator<Item = &'n OsStr> {
        let start = start.as_bytes();
        let names = self.0.get(&[start, end.as_bytes()].concat().to_ascii_lowercase());
        let ends = names.into_iter().flatten().filter_map(move |name| name.as_bytes().strip_prefix(start));
        ends.map(OsStr::from_bytes)
    }
}

/// Returns the content of a copy; `None` if only statements about the old pixels would be left.
fn content(from: &Path, file: File, limit: u64) -> io::Result<Option<Box<dyn Read>>> {
    let mut file = file.take(limit);
    if before(from, PAM).is_none() {
        return Ok(Some(Box::new(file)));
    }
    let mut xml = String::new();
    file.read_to_string(&mut xml)?;
    let kept = codec::pam_of_new_pixels(&xml).map_err(io::Error::other)?;
    Ok(kept.map(|kept| Box::new(io::Cursor::new(kept)) as Box<dyn Read>))
}

/// Returns the sidecar files of an input among the names in its folder, each with its copy.
fn of(input: &Path, output: &Path, there: &Names) -> Vec<(PathBuf, PathBuf)> {
    let (bare, bare_output) = (input.with_extension(""), output.with_extension(""));
    let named = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    let (name, bare_name) = (named(input), named(&bare));
    let own = input.extension().and_then(OsStr::to_str);
    let others = own.zip(output.extension().and_then(OsStr::to_str));
    let worlds = others.into_iter().flat_map(|(own, other)| worlds(own).into_iter().zip(worlds(other)));
    let worlds: Vec<_> = worlds.collect();
    let others = EXTENSIONS.iter().filter(|name| worlds.iter().all(|(from, _)| from != *name));
    let others: Vec<_> = others.map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
    let mut names = Vec::new();
    for (from, to) in worlds.into_iter().chain(others) {
        for end in there.after(&bare_name, &format!(".{from}")) {
            let is_upper = !end.as_bytes().iter().any(u8::is_ascii_lowercase);
            let other = match from == to {
                true => end.to_owned(),
                false if is_upper => format!(".{}", to.to_uppercase()).into(),
                false => format!(".{to}").into(),
            };
            names.push((with_end(&bare, end), with_end(&bare_output, &other)));
        }
    }
    // A mask of another name is a picture.
    let masks = MASKS.iter().filter(|_| promises_a_picture(input));
    for end in ENDS.iter().chain(masks) {
        let whole = there.after(&name, end);
        names.extend(whole.map(|end| (with_end(input, end), with_end(output, end))));
    }
    for end in ENDS.iter().filter(|_| bare != input || bare_output != output) {
        let without = there.after(&bare_name, end);
        names.extend(without.map(|end| (with_end(&bare, end), with_end(&bare_output, end))));
    }
    names
}

/// Returns the extensions of world files of a picture with this extension: its first and last
/// letter, or all of it, and a w.
fn worlds(extension: &str) -> Vec<String> {
    let extension = extension.to_lowercase();
    let (mut letters, whole) = (extension.chars(), format!("{extension}w"));
    let ends = letters.next().zip(letters.last());
    ends.map_or_else(Vec::new, |(first, last)| vec![format!("{first}{last}w"), whole])
}

fn with_end(path: &Path, end: &OsStr) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn told(sidecars: &[&Path]) -> Option<String> {
    let first = sidecars.iter().take(NAMED).map(|sidecar| Shown(sidecar).to_string());
    let names = first.collect::<Vec<_>>().join(", ");
    let more = match sidecars.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!(" and {more} more"),
        _ => String::new(),
    };
    let (files, them) = match sidecars.len() {
        0 => return None,
        1 => ("1 file beside a picture, with its georeference or metadata, is".into(), "it"),
        count => (format!("{count} files beside pictures, with their georeference or metadata, are"), "them"),
    };
    Some(format!(
        "note: {files} not copied: {names}{more}; copy {them} beside the outputs (.aux.xml without its statistics, which are those of the input)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_name_of_the_output_and_the_world_file_its_kind() {
        let place = |from: &str| {
            let mut there = Names::default();
            there.add(Path::new(from).file_name().unwrap().to_owned());
            let names = of(Path::new("in/a.TIF"), Path::new("out/b.2.png"), &there);
            let found = names.iter().find(|(name, _)| name == Path::new(from));
            found.map(|(_, to)| to.to_str().unwrap().to_owned())
        };
        for (from, to) in [
            ("in/a.tfw", "out/b.2.pgw"),
            ("in/a.TIFW", "out/b.2.PNGW"),
            ("in/a.Tfw", "out/b.2.pgw"),
            ("in/a.pgw", "out/b.2.pgw"),
            ("in/a.wld", "out/b.2.wld"),
            ("in/a.prj", "out/b.2.prj"),
            ("in/a.Prj", "out/b.2.Prj"),
            ("in/a.Aux.xml", "out/b.2.Aux.xml"),
            ("in/a.TIF.aux.xml", "out/b.2.png.aux.xml"),
            ("in/a.xmp", "out/b.2.xmp"),
            ("in/a.TIF.XMP", "out/b.2.png.XMP"),
            ("in/a_RPC.TXT", "out/b.2_RPC.TXT"),
            ("in/a.TIF.msk", "out/b.2.png.msk"),
        ] {
            assert_eq!(place(from).as_deref(), Some(to), "{from}");
        }
        for none in ["in/a.TIF.ovr", "in/a.msk", "in/a.xml", "in/a.TIF", "in/A.tfw"] {
            assert_eq!(place(none), None, "{none}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_picture_of_its_name() {
        for (name, expected) in [
            ("in/a.tfw", &["in/a"][..]),
            ("in/a.TIFW", &["in/a"]),
            ("in/a.tif.aux.xml", &["in/a.tif"]),
            ("in/a.jpg.xmp", &["in/a.jpg"]),
            ("in/a_RPC.TXT", &["in/a"]),
            ("in/a.xml", &[]),
            ("in/a.tif", &[]),
        ] {
            assert_eq!(
                owners(Path::new(name)),
                expected.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{name}"
            );
        }
    }
}
