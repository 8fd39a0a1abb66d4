//! Notifications, one when failures begin, and one when they have ended: posted to a URL, or passed
//! to a command.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tracing::{debug, warn};

use crate::config::Notify;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::ledger::ServiceReport;
use crate::progress::pictures;

/// Messages that may wait to be sent.
const WAITING: usize = 16;
/// The pauses before a message is sent again.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];
/// How long one attempt to post may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a command may take, which may have to wait for another machine.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval of checks whether a command has ended.
const TICK: Duration = Duration::from_millis(20);

/// A notification, sent as one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Message {
    event: &'static str,
    /// A sentence for people.
    text: String,
    host: String,
    #[serde(serialize_with = "crate::fs::paths::as_json")]
    out: PathBuf,
    /// Pictures that failed for good since failures began.
    failed: u64,
    /// The last of them and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<String>,
    /// Why no pictures are begun, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// Decides when to send notifications.
pub(crate) struct Notifications {
    /// `None` without a receiver.
    to: Option<Sender<Message>>,
    out: PathBuf,
    quiet: Duration,
    failed: u64,
    latest: Option<String>,
    last_failure: Option<Instant>,
    /// Whether the begin of failures was reported.
    is_told: bool,
    /// Whether since then there was a time when no pictures were begun.
    was_held: bool,
}

impl Notifications {
    /// Starts the thread that sends messages, if there is a receiver. Failures have ended once
    /// there were none for the time `quiet`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(notify: Option<&Notify>, quiet: Duration, out: &Path) -> Result<Self, Error> {
        let to = notify.cloned().map(|notify| {
            let (to, messages) = bounded(WAITING);
            let thread = thread::Builder::new().name("notify".into());
            thread.spawn(move || send_all(&notify, &messages)).map(|_| to).map_err(Error::thread)
        });
        let to = to.transpose()?;
        Ok(Self {
            to,
            out: out.to_owned(),
            quiet,
            failed: 0,
            latest: None,
            last_failure: None,
            is_told: false,
            was_held: false,
        })
    }

    /// Records a picture that failed for good.
    pub(crate) fn failed(&mut self, input: &Path, reason: &str, now: Instant) {
        self.failed += 1;
        self.latest = Some(format!("{}: {reason}", Shown(input)));
        self.last_failure = Some(now);
    }

    /// Sends a message if the service's state requires one.
    pub(crate) fn look(&mut self, service: &ServiceReport, now: Instant) {
        if let Some(message) = self.next(service, now)
            && let Some(to) = &self.to
            && to.try_send(message).is_err()
        {
            warn!("a notification is lost: those before it could not be sent yet");
        }
    }

    fn next(&mut self, service: &ServiceReport, now: Instant) -> Option<Message> {
        let missing = || format!("missing: {}", service.missing.join(", "));
        let trouble = service.held.clone().or_else(|| (!service.missing.is_empty()).then(missing));
        let fails = self.last_failure.is_some_and(|at| now.saturating_duration_since(at) < self.quiet);
        let is_bad = trouble.is_some() || fails;
        self.was_held |= trouble.is_some();
        if is_bad == self.is_told {
            return None;
        }
        self.is_told = is_bad;
        let out = Shown(&self.out);
        let text = match (&trouble, &self.latest) {
            (Some(why), _) => format!("histeqd begins no pictures for {out}: {why}"),
            (None, Some(latest)) if is_bad => format!("pictures for {out} fail: {latest}"),
            _ => self.ended(),
        };
        let message = Message {
            event: if is_bad { "failures-began" } else { "failures-ended" },
            text,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            out: self.out.clone(),
            failed: self.failed,
            latest: self.latest.clone(),
            trouble,
        };
        if !is_bad {
            (self.failed, self.latest, self.last_failure, self.was_held) = (0, None, None, false);
        }
        Some(message)
    }

    /// Returns the message that failures have ended: either the obstacle to all pictures is gone,
    /// or merely no more pictures fail.
    fn ended(&self) -> String {
        let (out, failed) = (Shown(&self.out), pictures(self.failed));
        match (self.was_held, self.failed) {
            (true, 0) => format!("histeqd works again for {out}; no picture failed"),
            (true, _) => format!("histeqd works again for {out}; {failed} failed meanwhile"),
            (false, _) => format!(
                "no more pictures for {out} have failed for {} s; {failed} failed before, for good (`histeqd status {out} --failures` lists all)",
                self.quiet.as_secs()
            ),
        }
    }
}

/// Sends messages until there can be no more.
fn send_all(notify: &Notify, messages: &Receiver<Message>) {
    for message in messages {
        let text = serde_json::to_string(&message).expect("numbers and texts");
        let mut pauses = PAUSES.into_iter();
        while let Err(why) = send(notify, &text) {
            let Some(pause) = pauses.next() else {
                warn!("--notify: {why}; given up: {}", message.text);
                break;
            };
            debug!("--notify: {why}; retried in {} s", pause.as_secs());
            thread::sleep(pause);
        }
    }
}

/// Sends a message. The error is a sentence.
fn send(notify: &Notify, text: &str) -> Result<(), String> {
    match notify {
        Notify::Url(url) => post(url, text),
        Notify::Command(command) => run(command, text, COMMAND_TIMEOUT),
    }
}

fn post(url: &str, text: &str) -> Result<(), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
    let sent = agent.post(url).header("Content-Type", "application/json").send(text);
    // The part after the host may be a secret.
    let host = url.split('/').take(3).collect::<Vec<_>>().join("/");
    sent.map(drop).map_err(|error| format!("{host}/… cannot be posted to: {error}"))
}

/// Runs a command with the text as its input. One that takes longer than `timeout` is ended, with
/// all processes that it has started.
fn run(command: &str, text: &str, timeout: Duration) -> Result<(), String> {
    let status = input(text).and_then(|input| {
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", command]).stdin(input).stdout(Stdio::null()).process_group(0).spawn()?;
        let until = Instant::now() + timeout;
        while Instant::now() < until {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(TICK);
        }
        kill_process_group(Pid::from_child(&child), Signal::KILL)?;
        child.wait().map(|_| None)
    });
    match status.map_err(|error| format!("`{command}` cannot be run: {error}"))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("`{command}` ended with {status}")),
        None => Err(format!("`{command}` did not end within {} s and was killed", timeout.as_secs())),
    }
}

/// Returns a file with this content. Writing to a pipe would wait for a command that does not read.
fn input(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("notification", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_when_failures_begin_and_once_when_they_have_ended() {
        let quiet = Duration::from_secs(600);
        let mut notifications = Notifications::start(None, quiet, Path::new("done")).unwrap();
        let (fine, now) = (ServiceReport::default(), Instant::now());
        assert_eq!(notifications.next(&fine, now), None);
        notifications.failed(Path::new("in/a.png"), "damaged", now);
        notifications.failed(Path::new("in/b.png"), "damaged too", now);
        let began = notifications.next(&fine, now).unwrap();
        assert_eq!((began.event, began.failed), ("failures-began", 2));
        assert_eq!(began.text, "pictures for done fail: in/b.png: damaged too");
        assert_eq!(notifications.next(&fine, now), None, "it was told");

        let held = ServiceReport { held: Some("no room".into()), ..ServiceReport::default() };
        assert_eq!(notifications.next(&held, now + quiet), None, "it has not ended");
        let ended = notifications.next(&fine, now + quiet).unwrap();
        assert_eq!(
            (ended.event, ended.text.as_str()),
            ("failures-ended", "histeqd works again for done; 2 pictures failed meanwhile")
        );
        notifications.failed(Path::new("in/c.png"), "damaged", now);
        assert_eq!(notifications.next(&fine, now).unwrap().event, "failures-began");
        let ended = notifications.next(&fine, now + quiet).unwrap();
        let told = "no more pictures for done have failed for 600 s; 1 picture failed before, for good (`histeqd status done --failures` lists all)";
        assert_eq!((ended.event, ended.text.as_str()), ("failures-ended", told));
        let began = notifications.next(&held, now + quiet).unwrap();
        assert_eq!(began.text, "histeqd begins no pictures for done: no room");
        assert_eq!((began.failed, began.trouble.as_deref()), (0, Some("no room")));
        assert_eq!(
            notifications.next(&fine, now + quiet).unwrap().text,
            "histeqd works again for done; no picture failed"
        );
    }

    #[test]
    fn what_cannot_be_sent_is_said_without_secrets() {
        let why = send(&Notify::Url("http://127.0.0.1:1/secret".into()), "{}").unwrap_err();
        assert!(
            why.starts_with("http://127.0.0.1:1/… cannot be posted to: ") && !why.contains("secret"),
            "{why}"
        );
        assert!(send(&Notify::Command("exit 3".into()), "{}").unwrap_err().contains("`exit 3` ended with"));
        assert_eq!(send(&Notify::Command("grep -q event".into()), "{\"event\":1}"), Ok(()));
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_what_it_started_and_the_next_one_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let hangs = format!("sleep 1000 & echo $! > '{}'; wait", started.display());
        let why = run(&hangs, "{}", Duration::from_secs(1)).unwrap_err();
        assert!(why.ends_with("did not end within 1 s and was killed"), "{why}");
        let stat = format!("/proc/{}/stat", std::fs::read_to_string(started).unwrap().trim());
        // It may be waiting for its new parent to collect its status.
        let is_over = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        (0..1000).take_while(|_| !is_over()).for_each(|_| thread::sleep(Duration::from_millis(1)));
        assert!(is_over(), "what it started goes on");
        assert_eq!(run("grep -q event", "{\"event\":1}", COMMAND_TIMEOUT), Ok(()));
    }

    #[test]
    fn a_command_that_does_not_read_holds_nobody_up() {
        assert_eq!(run("true", &"long".repeat(1 << 20), COMMAND_TIMEOUT), Ok(()));
    }
}
