//! The result of a run, as text for people and as JSON for programs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::Event;
use super::listing::Listing;
use super::paint::painted;
use super::remade::Remade;
use crate::config::{Report, Style};
use crate::error::{Exit, PictureError};
use crate::fs::paths::{self, Shown};
use crate::picture::remark::{Remark, recommended};
use crate::progress::timings::Timings;
use crate::selection::{Purpose, Reserved};
use crate::source::Skip;
use codec::Range;

/// The most reasons for failures that are listed. `--verbose` and JSON have every failure.
const LISTED: usize = 20;

/// The most pictures to name with a reason that they share.
const NAMED: usize = 3;

/// What becomes of overviews and masks beside pictures.
const SIDECARS: &str = "overviews beside pictures (.ovr) show the old contrast, and masks beside them (.msk) are not read; \
    `gdaladdo -ro OUT.tif 2 4 8` makes overviews again, and \
    `gdal_translate --config GDAL_TIFF_INTERNAL_MASK YES IN.tif NEW.tif` puts a mask into the TIFF, where it is used and kept";

/// The result of a run.
///
/// As JSON, a path is a string if it is UTF-8, otherwise an object with its bytes as numbers,
/// `{"bytes": [99, 97, 102, 233]}`: no name is lost.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The output folder; empty if there is none.
    #[serde(serialize_with = "paths::as_json")]
    pub out: PathBuf,
    /// Pictures that were planned, or would be in a dry run.
    pub planned: u64,
    /// Planned pictures that were done, skipped or failed, or listed by a dry run.
    #[serde(skip)]
    pub settled: u64,
    /// The progress of files that are read in parts.
    #[serde(skip)]
    pub(crate) begun: HashMap<PathBuf, Begun>,
    /// Pictures done.
    pub done: u64,
    /// The planned work; `None` unless it is a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Vec<Would>>,
    /// Files and folders skipped, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// The skipped ones with reserved names, by the glob that matches such names.
    pub left_out: BTreeMap<String, u64>,
    /// Pictures done with a remark, by remark.
    pub remarks: BTreeMap<Remark, u64>,
    /// The first of these pictures, by remark.
    #[serde(skip)]
    pub(crate) remarked: BTreeMap<Remark, BTreeSet<PathBuf>>,
    /// The range of all values except a few outliers, of the pictures with such outliers.
    #[serde(skip)]
    pub(crate) inner_range: Option<Range>,
    /// Outputs with other settings that were made again, or would be in a dry run.
    #[serde(flatten)]
    pub(crate) remade: Remade,
    /// Failures, in the order in which they happened.
    pub failed: Vec<Failure>,
    /// Pictures that were not done because the run was stopped, by the user or because no output
    /// can be made.
    pub left: u64,
    /// Whether the user stopped the run.
    pub stopped: bool,
    /// Whether the run consulted a ledger of earlier work.
    #[serde(skip)]
    pub resumed: bool,
    /// Whether the user named the only output directly.
    #[serde(skip)]
    pub single: bool,
    /// Whether `--include` or `--exclude` was given.
    #[serde(skip)]
    pub selective: bool,
    /// Whether a glob of `--include` looks like a list of globs.
    #[serde(skip)]
    pub commas: bool,
    /// Pixels of the pictures done.
    pub pixels: u64,
    /// Bytes of their inputs.
    pub bytes_in: u64,
    /// Bytes of their outputs.
    pub bytes_out: u64,
    /// Seconds from start to end.
    pub seconds: f64,
    /// Pictures done, by device.
    pub devices: BTreeMap<String, u64>,
    /// Notes about devices.
    pub notes: Vec<String>,
    /// Where the time went, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// The pictures one by one, if requested.
    #[serde(skip)]
    pub(crate) listing: Option<Listing>,
}

/// The progress of a file that is read in parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Begun {
    pixels: u64,
    share: f64,
}

/// A file or folder that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The file or folder.
    #[serde(serialize_with = "paths::as_json")]
    pub input: PathBuf,
    /// The reason, as a sentence.
    pub error: String,
    /// The reason without the details of this picture.
    #[serde(skip)]
    pub kind: String,
    /// Whether it is a sidecar file that was not copied.
    #[serde(skip)]
    pub is_sidecar: bool,
}

/// A picture that a run would process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Would {
    /// The file that would be read.
    #[serde(serialize_with = "paths::as_json")]
    pub input: PathBuf,
    /// The file that would be written.
    #[serde(serialize_with = "paths::as_json")]
    pub output: PathBuf,
}

impl Summary {
    /// Creates the summary of a run that has done no work yet, with the fields that the report
    /// needs.
    pub fn new(out: &Path, report: Report) -> Self {
        Self {
            out: out.to_owned(),
            planned: 0,
            settled: 0,
            begun: HashMap::new(),
            done: 0,
            would: None,
            skipped: BTreeMap::new(),
            left_out: BTreeMap::new(),
            remarks: BTreeMap::new(),
            remarked: BTreeMap::new(),
            inner_range: None,
            remade: Remade::default(),
            failed: Vec::new(),
            left: 0,
            stopped: false,
            resumed: false,
            single: false,
            selective: false,
            commas: false,
            pixels: 0,
            bytes_in: 0,
            bytes_out: 0,
            seconds: 0.0,
            devices: BTreeMap::new(),
            notes: Vec::new(),
            timings: report.timings.then(Timings::default),
            listing: report.lists.then(Listing::default),
        }
    }

    /// Counts an event.
    pub(super) fn count(&mut self, event: Event) {
        match event {
            Event::Planned { count } => self.planned += count as u64,
            Event::Part { input, pixels, completed } => {
                let begun = self.begun.entry(input).or_default();
                begun.pixels += pixels;
                begun.share = completed.share();
            }
            Event::Done { input, pixels, bytes_in, bytes_out, device, times, .. } => {
                self.begun.remove(&input);
                self.settled += 1;
                self.done += 1;
                self.pixels += pixels;
                self.bytes_in += bytes_in;
                self.bytes_out += bytes_out;
                *self.devices.entry(device.to_string()).or_default() += 1;
                if let Some(timings) = &mut self.timings {
                    timings.stages.add_all(&times);
                }
            }
            Event::Skipped { input, why, planned } => {
                self.settled += u64::from(planned);
                if let Skip::Reserved(purpose) = why
                    && let Some(name) = Reserved::find(&input, purpose)
                {
                    *self.left_out.entry(name.to_string()).or_default() += 1;
                }
                *self.skipped.entry(why).or_default() += 1;
            }
            Event::Remade { remake, .. } => self.remade.add(remake),
            Event::Remarked { input, remark, range } => {
                self.inner_range = Range::of_all([self.inner_range, range]);
                self.add_remark(input, remark);
            }
            Event::Failed { input, error, planned } => {
                self.begun.remove(&input);
                self.settled += u64::from(planned);
                let is_sidecar = matches!(error, PictureError::Sidecar(_));
                let (error, kind) = (error.to_string(), error.kind());
                self.failed.push(Failure { input, error, kind, is_sidecar });
            }
            Event::Would { input, output } => {
                self.settled += 1;
                self.would.get_or_insert_default().push(Would { input, output });
            }
            Event::Device { note, .. } => self.notes.push(note),
            Event::Load(load) => {
                if let Some(timings) = &mut self.timings {
                    timings.load = load;
                }
            }
            Event::Stopping => self.stopped = true,
        }
        self.left = self.planned.saturating_sub(self.settled);
    }

    /// Adds a remark about a picture. Remarks that differ in numbers alone are merged, with the
    /// greatest number.
    fn add_remark(&mut self, input: PathBuf, remark: Remark) {
        let alike = self.remarks.keys().find_map(|key| key.joined(remark).map(|joined| (*key, joined)));
        let (key, joined) = alike.unwrap_or((remark, remark));
        let count = self.remarks.remove(&key).unwrap_or_default();
        let mut named = self.remarked.remove(&key).unwrap_or_default();
        named.insert(input);
        if named.len() > NAMED {
            named.pop_last();
        }
        self.remarks.insert(joined, count + 1);
        self.remarked.insert(joined, named);
    }

    /// Forgets a stop that came after every picture had ended.
    pub(super) fn forget_idle_stop(&mut self) {
        self.stopped &= self.planned == 0 || self.left > 0;
    }

    /// Returns the exit code of the process.
    pub fn exit(&self) -> Exit {
        if self.stopped {
            Exit::Stopped
        } else if self.failed.is_empty() {
            Exit::Done
        } else {
            Exit::SomeFailed
        }
    }

    /// Writes the summary in the form that `report` asks for: as one JSON object to standard
    /// output, as text to standard error, or not at all.
    ///
    /// # Errors
    /// If the JSON, which a reader waits for, could not be written.
    pub fn print(&self, report: Report) -> io::Result<()> {
        if report.json {
            return writeln!(io::stdout(), "{}", self.to_json());
        }
        self.print_failures(report);
        if report.style != Style::Quiet {
            let _ = write!(anstream::stderr(), "{}", painted(&self.text()));
        }
        Ok(())
    }

    /// Reports all failures, unless each was reported when it happened.
    pub fn print_failures(&self, report: Report) {
        if !report.names_failures_at_once() {
            let _ = write!(anstream::stderr(), "{}", painted(&self.failures()));
        }
    }

    /// Returns the summary as one JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every key of the summary is text")
    }

    /// Returns the number of completed pictures, with the shares of files that are read in parts.
    pub(super) fn through(&self) -> f64 {
        self.settled as f64 + self.begun.values().map(|begun| begun.share).sum::<f64>()
    }

    /// Returns the progress of the run after `elapsed`: pictures, speed, failures so far, time
    /// left.
    pub(super) fn progress(&self, elapsed: Duration) -> String {
        let (seconds, through) = (elapsed.as_secs_f64(), self.through());
        let mut text = format!("{}/{}", self.settled, pictures(self.planned));
        if !self.begun.is_empty() {
            let percent = 100.0 * through / self.planned.max(1) as f64;
            let _ = write!(text, ", {percent:.0} %");
        }
        let pixels = self.pixels + self.begun.values().map(|begun| begun.pixels).sum::<u64>();
        let _ = write!(text, ", {}", speed(pixels, seconds));
        if !self.failed.is_empty() {
            let _ = write!(text, ", {} failed", self.failed.len());
        }
        if self.stopped {
            text.push_str(", stopping");
        } else if through > 0.0 && self.left > 0 {
            let seconds = seconds / through * (self.planned as f64 - through);
            let _ = write!(text, ", {} left", time(seconds));
        }
        text
    }

    /// Returns the lines that end a run.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("text can always be written to memory");
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        if self.stopped && self.planned == 0 {
            return writeln!(text, "Stopped before any picture was started");
        }
        if self.planned == 0 && self.skipped.is_empty() && self.failed.is_empty() {
            let left = if self.selective { " that match --include and --exclude" } else { "" };
            let repeat =
                if self.commas { "; give --include once per glob, not a list with commas" } else { "" };
            return writeln!(text, "Nothing to do: no files found{left}{repeat}");
        }
        let verbs = match self.would {
            Some(_) => ["would be made again"; 2],
            None => ["was made again", "were made again"],
        };
        if let Some(remade) = self.remade.sentence(verbs) {
            writeln!(text, "Note: {remade}")?;
        }
        match &self.would {
            Some(would) => writeln!(text, "Would do: {}", pictures(would.len() as u64))?,
            None => self.write_done(text)?,
        }
        if !self.skipped.is_empty() {
            writeln!(text, "Skipped: {}", self.reasons_to_skip().join(", "))?;
        }
        if !self.left_out.is_empty() {
            let names: Vec<_> = self.left_out.iter().map(|(glob, count)| format!("{count} {glob}")).collect();
            writeln!(text, "  by name: {} (--include '*' --include NAME takes them)", names.join(", "))?;
        }
        if self.skipped.contains_key(&Skip::Reserved(Purpose::Sidecar)) {
            writeln!(text, "Note: {SIDECARS}")?;
        }
        let is_said = |(remark, count): &(&Remark, &u64)| !remark.is_about_all() || **count == self.done;
        for (remark, count) in self.remarks.iter().filter(is_said) {
            write!(text, "Note: {}", remark.of(*count))?;
            if let Some(range) = self.inner_range.filter(|_| remark.recommends_range()) {
                write!(text, "; {}", recommended(range))?;
            }
            if let Some(inputs) = self.remarked.get(remark).filter(|_| remark.names_pictures()) {
                write!(text, ": {}", names(inputs.iter().map(PathBuf::as_path), *count as usize))?;
            }
            writeln!(text)?;
        }
        if !self.failed.is_empty() {
            let failed = if self.would.is_some() { "Would fail" } else { "Failed" };
            let sidecars = match self.failed.iter().filter(|failure| failure.is_sidecar).count() {
                0 => String::new(),
                1 => ", 1 of them a sidecar file that was not copied".to_owned(),
                count => format!(", {count} of them sidecar files that were not copied"),
            };
            writeln!(text, "{failed}: {}{sidecars} (see above)", self.failed.len())?;
        }
        match (self.left, self.stopped) {
            (0, _) => {}
            (left, true) => {
                writeln!(text, "Stopped: {} not started; {}", pictures(left), self.after_a_stop())?;
            }
            (left, false) => {
                writeln!(text, "Stopped: {} not done, because no output can be written", pictures(left))?;
            }
        }
        Ok(())
    }

    /// Returns why files and folders were skipped. DICOM objects without pictures are counted
    /// together.
    fn reasons_to_skip(&self) -> Vec<String> {
        let (mut reasons, mut without, mut names) = (Vec::new(), 0, Vec::new());
        for (why, &count) in &self.skipped {
            if let Skip::Object(object) = why {
                without += count;
                names.push(object.name(count == 1));
            } else {
                reasons.push(why.of(count, self.resumed));
            }
        }
        if without > 0 {
            let pictures = if without == 1 { "a picture" } else { "pictures" };
            reasons.push(format!("{without} without {pictures}: {}", names.join(", ")));
        }
        reasons
    }

    /// Returns the effect of running the same command again. Without an output folder it makes
    /// histograms, and there is no record of the finished ones.
    fn after_a_stop(&self) -> &'static str {
        if self.out.as_os_str().is_empty() && !self.single {
            "running it again starts over (a table is written to a file only when it is complete)"
        } else {
            "run the same command again to continue"
        }
    }

    fn write_done(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "Done: {}", pictures(self.done))?;
        if self.done > 0 {
            let (size, time) = (megapixels(self.pixels), time(self.seconds));
            let speed = speed(self.pixels, self.seconds);
            write!(text, ", {size} in {time} ({speed})")?;
            if !self.out.as_os_str().is_empty() {
                let at = if self.single { "look at" } else { "look in" };
                write!(text, "; {at} {}", Shown(&self.out))?;
            }
        }
        writeln!(text)?;
        if self.devices.len() > 1 {
            let each: Vec<_> =
                self.devices.iter().map(|(device, count)| format!("{device} {count}")).collect();
            writeln!(text, "  by {}", each.join(", "))?;
        }
        if let Some(timings) = self.timings.as_ref().filter(|_| self.done > 0) {
            write!(text, "{timings}")?;
        }
        Ok(())
    }

    /// Returns the lines about the failures, grouped by reason.
    pub fn failures(&self) -> String {
        let mut groups: Vec<Vec<&Failure>> = Vec::new();
        let mut places = HashMap::new();
        for failure in &self.failed {
            let place = *places.entry(failure.kind.as_str()).or_insert(groups.len());
            groups.resize_with(groups.len().max(place + 1), Vec::new);
            groups[place].push(failure);
        }
        let mut text: String = groups.iter().take(LISTED).map(|group| group_line(group)).collect();
        let others: usize = groups.iter().skip(LISTED).map(Vec::len).sum();
        if others > 0 {
            let _ = writeln!(text, "failed: {others} more for other reasons (--verbose lists all)");
        }
        text
    }
}

/// Returns the line about failures for the same reason, at least one.
fn group_line(group: &[&Failure]) -> String {
    if let [Failure { input, error, .. }] = group {
        return format!("failed: {}: {error}\n", Shown(input));
    }
    let mut inputs: Vec<&Path> = group.iter().map(|failure| failure.input.as_path()).collect();
    inputs.sort_unstable();
    format!("failed: {} x {}: {}\n", group.len(), group[0].kind, names(inputs.into_iter(), group.len()))
}

/// Names the first of `count` pictures.
fn names<'p>(inputs: impl Iterator<Item = &'p Path>, count: usize) -> String {
    let names: Vec<_> = inputs.take(NAMED).map(|input| Shown(input).to_string()).collect();
    let more = match count.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more (--verbose lists all)"),
    };
    names.join(", ") + &more
}

impl Skip {
    /// Returns the reason for one file or folder.
    pub(super) const fn of_one(self) -> &'static str {
        match self {
            Self::AlreadyDone => "already done",
            Self::NotAPicture => "not a picture",
            Self::Object(object) => object.name(true),
            Self::NotAFile => "not a regular file",
            Self::Link => "a link that is not followed",
            Self::LinkLoop => "a link that leads back to itself",
            Self::ListedFolder => "a folder on the list",
            Self::Reserved(Purpose::SystemFolder) => "a system folder",
            Self::Reserved(Purpose::Backup) => "a backup",
            Self::Reserved(Purpose::Incomplete) => "a temporary name, of a file that is not complete yet",
            Self::Reserved(Purpose::Sidecar) => "overviews or a mask of the picture beside it",
        }
    }

    /// Returns the reason for a number of files or folders, with a remedy if there is one.
    fn of(self, count: u64, resumed: bool) -> String {
        let one = count == 1;
        match self {
            Self::AlreadyDone if resumed => {
                format!("{count} already done (--overwrite instead of --resume processes them again)")
            }
            Self::AlreadyDone => format!("{count} already done (--overwrite processes them again)"),
            Self::NotAPicture => format!("{count} not {}", if one { "a picture" } else { "pictures" }),
            Self::Object(object) => format!("{count} {}", object.name(one)),
            Self::NotAFile => format!("{count} not {}", if one { "a regular file" } else { "regular files" }),
            Self::Link if one => "1 link that is not followed (--links follow takes it)".into(),
            Self::Link => format!("{count} links that are not followed (--links follow takes them)"),
            Self::LinkLoop if one => "1 link that leads back to itself".into(),
            Self::LinkLoop => format!("{count} links that lead back to themselves"),
            Self::ListedFolder => {
                format!("{count} {} on the list", if one { "folder" } else { "folders" })
            }
            Self::Reserved(Purpose::SystemFolder) if one => "1 system folder".into(),
            Self::Reserved(Purpose::SystemFolder) => {
                format!("{count} system folders")
            }
            Self::Reserved(Purpose::Backup) => format!("{count} backup{}", if one { "" } else { "s" }),
            Self::Reserved(Purpose::Incomplete) => {
                format!("{count} under {}", if one { "a temporary name" } else { "temporary names" })
            }
            Self::Reserved(Purpose::Sidecar) => {
                let s = if one { "" } else { "s" };
                format!("{count} file{s} of overviews or masks beside pictures")
            }
        }
    }
}

/// Returns a number of pictures in words.
pub(crate) fn pictures(count: u64) -> String {
    format!("{count} {}", if count == 1 { "picture" } else { "pictures" })
}

pub(crate) fn megapixels(pixels: u64) -> String {
    short(pixels as f64 / 1e6) + " MP"
}

fn speed(pixels: u64, seconds: f64) -> String {
    let rate = if seconds > 0.0 { pixels as f64 / 1e6 / seconds } else { 0.0 };
    short(rate) + " MP/s"
}

/// Formats a number with as many digits as are worth reading.
fn short(value: f64) -> String {
    match value {
        _ if value >= 10.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..100 => format!("{whole} s"),
        100..6000 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
