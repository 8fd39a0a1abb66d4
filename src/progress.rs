//! Progress reports: events come in, lines or a bar go out on standard error, and a [`Summary`]
//! remains.

pub(crate) mod listing;
mod paint;
mod parts;
mod remade;
mod summary;
pub mod timings;
pub mod trace;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config::{Report, Style};
use crate::error::PictureError;
use crate::fs::paths::Shown;
use crate::picture::preview::Sides;
use crate::picture::remark::Remark;
use crate::progress::timings::{Load, Times};
use crate::source::stop::Stop;
use crate::source::{Job, Remake, Skip};
use codec::{Range, refused_by_name};
pub use paint::painted;
pub use parts::CompletedParts;
pub(crate) use remade::Remade;
pub use summary::{Failure, Summary};
pub(crate) use summary::{megapixels, pictures};

/// How often the bar is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// Columns of the bar, if they fit next to the message, and of the shortest bar worth drawing.
const BAR: usize = 30;
const SHORT_BAR: usize = 10;
/// Steps of the bar for a picture.
const STEPS: u64 = 1000;
/// Columns of a terminal of unknown width.
const COLUMNS: usize = 80;
/// How often a line is written if there is no terminal for a bar.
const LINE: Duration = Duration::from_secs(10);
/// Capacity of the queue of events: large enough that a picture hardly ever waits for the terminal,
/// and small enough that a run starts at once.
const WAITING: usize = 512;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// More pictures are going to be done.
    Planned {
        /// How many.
        count: usize,
    },
    /// A part of a file that takes long has completed a pass: a page, or a band of a large picture.
    Part {
        /// The file that is read.
        input: PathBuf,
        /// Its pixels, or their share if there are several passes.
        pixels: u64,
        /// The completed parts of the file.
        completed: CompletedParts,
    },
    /// A picture is done.
    Done {
        /// The file that was read.
        input: PathBuf,
        /// The file that was written; empty if pictures have no outputs of their own.
        output: PathBuf,
        /// Width times height.
        pixels: u64,
        /// Bytes of the file that was read.
        bytes_in: u64,
        /// Bytes of the file that was written.
        bytes_out: u64,
        /// The devices that equalized it, as the user knows them: `cpu`, `gpu0`.
        device: Arc<str>,
        /// The time that it spent in each stage.
        times: Times,
        /// Small versions of it for a report, if they are wanted and were made.
        sides: Sides,
    },
    /// There is a remark about a picture that is done.
    Remarked {
        /// The file that was read.
        input: PathBuf,
        /// The remark.
        remark: Remark,
        /// The `--range` that it recommends, if any.
        range: Option<Range>,
    },
    /// The output of a picture that is done, or would be in a dry run, existed before and was made
    /// with other settings.
    Remade {
        /// The file that was read.
        input: PathBuf,
        /// The known facts about the previous output.
        remake: Remake,
    },
    /// A file or folder was skipped.
    Skipped {
        /// The file or folder.
        input: PathBuf,
        /// The reason.
        why: Skip,
        /// Whether it was among the planned pictures.
        planned: bool,
    },
    /// A picture, or a folder that could hold some, failed.
    Failed {
        /// The file or folder.
        input: PathBuf,
        /// The reason.
        error: PictureError,
        /// Whether it was among the planned pictures.
        planned: bool,
    },
    /// In a dry run: a picture that would be done.
    Would {
        /// The file that would be read.
        input: PathBuf,
        /// The file that would be written.
        output: PathBuf,
    },
    /// A note about a device for the user.
    Device {
        /// The note, as a sentence.
        note: String,
        /// Whether it reports a problem.
        trouble: bool,
    },
    /// The pipeline has ended, with this utilization of its parts.
    Load(Load),
    /// The user has stopped the run: pictures in progress are finished, and no more are begun.
    Stopping,
}

impl Event {
    /// Returns the event for a job that failed: a failure, or a skip if it is a file in a folder
    /// that turned out to be no picture. DICOM objects without pictures, named like pictures, are
    /// skipped too.
    pub fn failure(job: Job, error: PictureError) -> Self {
        if let Some(object) = error.object().filter(|_| !job.named) {
            Self::Skipped { input: job.input, why: Skip::Object(object), planned: true }
        } else if error.is_not_a_picture() && !job.must_be_a_picture() {
            Self::Skipped { input: job.input, why: Skip::NotAPicture, planned: true }
        } else {
            let named = if error.is_of_no_known_format() { refused_by_name(&job.input) } else { None };
            let error = named.map_or(error, PictureError::from);
            Self::Failed { input: job.input, error, planned: true }
        }
    }
}

/// The sending end of a queue of events.
#[derive(Clone, Debug)]
pub struct Events(Sender<Event>);

impl Events {
    /// Creates a queue of at most `waiting` events, and returns its two ends.
    pub fn queue(waiting: usize) -> (Self, Receiver<Event>) {
        let (sender, receiver) = bounded(waiting);
        (Self(sender), receiver)
    }

    /// Sends an event.
    pub fn send(&self, event: Event) {
        // The listener outlives every sender, unless it failed; then there is no receiver left.
        let _ = self.0.send(event);
    }

    /// Sends a note about a device or the ledger; `trouble` marks a problem.
    pub fn note(&self, note: String, trouble: bool) {
        self.send(Event::Device { note, trouble });
    }
}

/// The thread that listens to events.
#[derive(Debug)]
pub struct Reporter {
    events: Events,
    thread: JoinHandle<io::Result<Summary>>,
}

impl Reporter {
    /// Starts to listen to events, and for the user's request to stop. `out` is the folder that the
    /// summary refers the user to.
    ///
    /// # Errors
    /// The system's error, if no thread can be started.
    pub fn start(report: Report, out: &Path, stop: &Stop) -> io::Result<Self> {
        let (events, incoming) = Events::queue(WAITING);
        let voice = Voice::new(report, Summary::new(out, report), stop.clone());
        let thread = thread::Builder::new().name("progress".into()).spawn(move || voice.listen(&incoming))?;
        Ok(Self { events, thread })
    }

    /// Returns a sender for events.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Waits until every other sender is gone and everything is reported, and returns the summary.
    ///
    /// # Errors
    /// If the list of a dry run, which is its result, could not be written.
    pub fn finish(self) -> io::Result<Summary> {
        drop(self.events);
        self.thread.join().expect("the progress thread does not panic")
    }
}

/// The output of the reporter.
struct Voice {
    report: Report,
    bar: Option<ProgressBar>,
    summary: Summary,
    stop: Stop,
    /// The result so far of writing the list of a dry run.
    list: io::Result<()>,
    started: Instant,
    last: Instant,
}

impl Voice {
    fn new(report: Report, summary: Summary, stop: Stop) -> Self {
        let bar = (report.style != Style::Quiet && io::stderr().is_terminal()).then(bar);
        let now = Instant::now();
        Self { report, bar, summary, stop, list: Ok(()), started: now, last: now }
    }

    fn listen(mut self, events: &Receiver<Event>) -> io::Result<Summary> {
        loop {
            match events.recv_timeout(FRAME) {
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.notice_stop();
            self.show_progress();
        }
        self.notice_stop();
        self.summary.forget_idle_stop();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.summary.seconds = self.started.elapsed().as_secs_f64();
        self.list.map(|()| self.summary)
    }

    fn hear(&mut self, event: Event) {
        if let Some(line) = line(&event, self.report) {
            self.write_line(&line);
        }
        if let (Event::Would { input, output }, false, Ok(())) = (&event, self.report.json, &self.list) {
            self.list = self.say(io::stdout(), &format!("{} -> {}", Shown(input), Shown(output)));
        }
        if let Some(listing) = &mut self.summary.listing {
            listing.hear(&event);
        }
        self.summary.count(event);
    }

    fn notice_stop(&mut self) {
        if self.stop.asked_by_user() && !self.summary.stopped {
            self.hear(Event::Stopping);
        }
    }

    fn show_progress(&mut self) {
        let pause = if self.bar.is_some() { FRAME } else { LINE };
        if self.last.elapsed() < pause || self.report.style == Style::Quiet {
            return;
        }
        self.last = Instant::now();
        let progress = self.summary.progress(self.started.elapsed());
        match &self.bar {
            Some(bar) => {
                bar.set_style(style(columns(), &progress));
                bar.update(|state| {
                    state.set_len(self.summary.planned * STEPS);
                    state.set_pos((self.summary.through() * STEPS as f64) as u64);
                });
                bar.set_message(progress);
            }
            None => self.write_line(&progress),
        }
    }

    /// Writes a line to standard error. It may have no reader; that is no reason to stop.
    fn write_line(&self, line: &str) {
        let _ = self.say(anstream::stderr(), &painted(line));
    }

    /// Writes a line, with the bar hidden meanwhile.
    fn say(&self, mut to: impl Write, line: &str) -> io::Result<()> {
        let mut write = || writeln!(to, "{line}");
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

fn bar() -> ProgressBar {
    ProgressBar::new(0).with_style(style(columns(), ""))
}

/// Returns the columns of the terminal that the bar is drawn in.
fn columns() -> usize {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS,
    }
}

fn style(columns: usize, message: &str) -> ProgressStyle {
    ProgressStyle::with_template(&template(columns, message)).expect("the template is a right one")
}

/// Returns a template with the bar and the message on one line, because a line that wraps cannot be
/// erased: a bar as long as there is room, or just as much of the message as fits.
fn template(columns: usize, message: &str) -> String {
    // One column is for the space between them; the other stays free, because some terminals wrap a
    // line that fills the last column.
    match columns.saturating_sub(message.chars().count() + 2).min(BAR) {
        room @ SHORT_BAR.. => format!("{{bar:{room}}} {{msg}}"),
        _ => "{wide_msg}".to_owned(),
    }
}

/// Returns the line to report for an event, if any.
fn line(event: &Event, report: Report) -> Option<String> {
    let verbose = report.style == Style::Verbose;
    match event {
        Event::Failed { input, error, .. } if report.names_failures_at_once() => {
            Some(format!("failed: {}: {error}", Shown(input)))
        }
        _ if report.style == Style::Quiet => None,
        Event::Device { note, .. } => Some(note.clone()),
        Event::Stopping => {
            Some("stopping: finishing the pictures in progress; press Ctrl-C again to quit at once".into())
        }
        Event::Skipped { input, why, .. } if verbose || *why == Skip::LinkLoop => {
            Some(format!("skipped: {}: {}", Shown(input), why.of_one()))
        }
        Event::Done { input, output, device, .. } if verbose && output.as_os_str().is_empty() => {
            Some(format!("done: {} ({device})", Shown(input)))
        }
        Event::Done { input, output, device, .. } if verbose => {
            Some(format!("done: {} -> {} ({device})", Shown(input), Shown(output)))
        }
        Event::Remarked { input, remark, range } if verbose && !remark.is_about_all() => {
            Some(format!("note: {}: {}", Shown(input), remark.of_one_with(*range)))
        }
        Event::Remade { input, remake } if verbose => {
            let difference = remake.difference.as_ref();
            let difference = difference.map_or_else(String::new, |difference| format!(": {difference}"));
            Some(format!("note: {}: its output had other settings{difference}", Shown(input)))
        }
        Event::Failed { .. }
        | Event::Planned { .. }
        | Event::Part { .. }
        | Event::Would { .. }
        | Event::Remade { .. }
        | Event::Remarked { .. }
        | Event::Skipped { .. }
        | Event::Done { .. }
        | Event::Load(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::CodecError;
    use std::io::ErrorKind;

    fn job(input: &str, named: bool) -> Job {
        Job { named, ..Job::for_tests(input, 0) }
    }

    fn done() -> Event {
        Event::Done {
            input: "in/a b.png".into(),
            output: "out/a b.png".into(),
            pixels: 1,
            bytes_in: 2,
            bytes_out: 3,
            device: "cpu".into(),
            times: Times::default(),
            sides: Sides::default(),
        }
    }

    fn failed() -> Event {
        let error = PictureError::Read(ErrorKind::PermissionDenied.into());
        Event::Failed { input: "in/x\n.png".into(), error, planned: true }
    }

    fn said_as(style: Style) -> Report {
        Report { style, ..Report::default() }
    }

    fn device(note: &str) -> Event {
        Event::Device { note: note.into(), trouble: true }
    }

    fn looped() -> Event {
        Event::Skipped { input: "in/loop".into(), why: Skip::LinkLoop, planned: false }
    }

    #[test]
    fn failures_are_said_at_once_unless_a_text_sums_them_up() {
        let json = Report { json: true, ..Report::default() };
        for report in [said_as(Style::Quiet), said_as(Style::Verbose), json] {
            let said = line(&failed(), report).unwrap();
            assert_eq!(said, r#"failed: "in/x\n.png": cannot be read: permission denied"#);
        }
        assert_eq!(line(&failed(), Report::default()), None);
    }

    #[test]
    fn no_picture_is_a_failure_only_where_one_was_promised() {
        let fails = |input, named| match Event::failure(job(input, named), CodecError::NotAPicture.into()) {
            Event::Failed { .. } => true,
            Event::Skipped { why: Skip::NotAPicture, planned: true, .. } => false,
            other => panic!("{other:?}"),
        };
        assert!(!fails("in/notes.txt", false));
        assert!(fails("in/notes.txt", true));
        assert!(fails("in/a.png", false));
        let unreadable = PictureError::Read(ErrorKind::PermissionDenied.into());
        assert!(matches!(Event::failure(job("in/notes.txt", false), unreadable), Event::Failed { .. }));
    }

    #[test]
    fn the_bar_leaves_room_for_the_message() {
        let message = "2/300 pictures, 6.3 MP/s, 1 failed, 4 min 58 s left";
        let templates = [200, 83, 82, 63, 62, 20, 0].map(|columns| template(columns, message));
        let (whole, less) = ("{bar:30} {msg}", "{bar:29} {msg}");
        let none = "{wide_msg}";
        assert_eq!(templates, [whole, whole, less, "{bar:10} {msg}", none, none, none]);
    }

    #[test]
    fn quiet_says_nothing_else() {
        let events = [done(), looped(), device("GPU 0 failed"), Event::Stopping];
        assert!(events.iter().all(|event| line(event, said_as(Style::Quiet)).is_none()));
    }

    #[test]
    fn normal_names_what_is_odd_and_verbose_everything() {
        assert_eq!(line(&done(), said_as(Style::Normal)), None);
        assert_eq!(line(&done(), said_as(Style::Verbose)).unwrap(), "done: in/a b.png -> out/a b.png (cpu)");
        assert_eq!(
            line(&looped(), said_as(Style::Normal)).unwrap(),
            "skipped: in/loop: a link that leads back to itself"
        );
        let old = Event::Skipped { input: "in/a.png".into(), why: Skip::AlreadyDone, planned: false };
        assert_eq!(line(&old, said_as(Style::Normal)), None);
        assert_eq!(line(&old, said_as(Style::Verbose)).unwrap(), "skipped: in/a.png: already done");
        assert_eq!(line(&device("GPU 0 failed"), said_as(Style::Normal)).unwrap(), "GPU 0 failed");
    }

    #[test]
    fn the_reporter_returns_what_was_counted_when_all_senders_are_gone() {
        let report = Report { style: Style::Quiet, ..Report::default() };
        let reporter = Reporter::start(report, Path::new("out"), &Stop::default()).unwrap();
        let events = reporter.events();
        let sender = thread::spawn(move || {
            events.send(Event::Planned { count: 2 });
            events.send(done());
            events.send(done());
        });
        sender.join().unwrap();
        let summary = reporter.finish().unwrap();
        assert_eq!((summary.planned, summary.settled, summary.done), (2, 2, 2));
    }

    #[test]
    fn a_stop_counts_when_it_left_something() {
        let stopped = |stop: &Stop, pictures| {
            let report = Report { style: Style::Quiet, ..Report::default() };
            let reporter = Reporter::start(report, Path::new("out"), stop).unwrap();
            let events = reporter.events();
            events.send(Event::Planned { count: 2 });
            (0..pictures).for_each(|_| events.send(done()));
            drop(events);
            reporter.finish().unwrap().stopped
        };
        let (asked, aborted) = (Stop::default(), Stop::default());
        asked.ask();
        aborted.abort();
        assert_eq!([1, 2].map(|pictures| stopped(&asked, pictures)), [true, false]);
        assert!(!stopped(&aborted, 1) && !stopped(&Stop::default(), 1));
    }
}
