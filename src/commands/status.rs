//! `histeqd status`: the state of a running service, or else of the ledger of an output folder, for
//! people and for programs.

use std::fmt::{self, Write};
use std::path::Path;

use crate::cli::StatusCommand;
use crate::commands::socket::{self, Answer};
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::ledger::{self, FailedPicture, FailureSearch, FoundFailures, Ledger, Report, ServiceReport};
use crate::terminal_text::OneLine;

/// Seconds of silence after which a service, which reports every few seconds, counts as gone.
const SILENT: u64 = 15;

/// Returns the answer to `histeqd status`.
///
/// # Errors
/// When there is no ledger, or it cannot be read.
pub fn describe(command: &StatusCommand) -> Result<String, Error> {
    let folder = ledger::folder(command.out(), command.state.as_deref());
    if command.failures {
        return describe_failures(&folder, command.json);
    }
    let url = if command.json { "/status" } else { "/status.txt" };
    let told = match socket::ask(&folder, "GET", url, "") {
        Ok(Some(Answer { status: 200, body })) => body,
        // If the service cannot be asked or does not answer, the ledger has its last report.
        _ => {
            let report = Ledger::read(&folder)?.ok_or_else(|| no_ledger(&folder))?.report()?;
            if command.json { json(&report) } else { text(&report) }
        }
    };
    Ok(if command.json { told + "\n" } else { told })
}

/// Returns all pictures that failed for good.
fn describe_failures(folder: &Path, as_json: bool) -> Result<String, Error> {
    let ledger = Ledger::read(folder)?.ok_or_else(|| no_ledger(folder))?;
    let FoundFailures { failures, .. } =
        ledger.failures(&FailureSearch { text: String::new(), limit: usize::MAX })?;
    if as_json {
        return Ok(serde_json::to_string(&failures).expect("numbers and texts") + "\n");
    }
    Ok(failures.iter().map(failure_line).collect())
}

fn failure_line(failure: &FailedPicture) -> String {
    format!("{} ago: {}: {}\n", time(failure.seconds_ago), Shown(&failure.input), OneLine(&failure.reason))
}

/// Returns the error of a folder without a ledger.
pub(crate) fn no_ledger(folder: &Path) -> Error {
    Error::CannotRun(format!(
        "there is no ledger in {}; only --watch and --resume create one (give --state if it is elsewhere)",
        Shown(folder)
    ))
}

/// Formats a report as one JSON object.
pub fn json(report: &Report) -> String {
    serde_json::to_string(report).expect("numbers and texts")
}

/// Formats a report as lines of text.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, report);
    text
}

fn write(to: &mut String, report: &Report) -> fmt::Result {
    write_counts(to, report)?;
    if let Some(service) = there(report) {
        write_devices(to, service)?;
    }
    write_failures(to, report)
}

fn write_counts(to: &mut String, report: &Report) -> fmt::Result {
    writeln!(
        to,
        "daemon    {}",
        report.service.as_ref().map_or("none yet".into(), |own| service(own, report.answered))
    )?;
    if let Some(why) = &report.incomplete {
        writeln!(to, "ledger    {}", OneLine(why))?;
    }
    write!(to, "done      {}", report.done)?;
    if let Some(seconds) = report.last_done_seconds_ago {
        write!(to, ", the last one {} ago", time(seconds))?;
    }
    writeln!(to, ", {} of outputs", bytes(report.bytes_out))?;
    let megapixels = report.last_hour_pixels as f64 / 1e6;
    writeln!(
        to,
        "rate      {} in the last minute, {} ({megapixels:.0} MP) in the last hour",
        report.last_minute, report.last_hour
    )?;
    writeln!(to, "failed    {} for good, {} to be retried", report.failed, report.retrying)?;
    writeln!(to, "skipped   {} that are not pictures", report.skipped)?;
    if let Some(service) = &report.service {
        write!(
            to,
            "waiting   {} ready, {} incomplete, {} pausing after a failure, {} in progress, {} to be moved or deleted",
            service.waiting, service.incomplete, service.pausing, service.running, service.leaving
        )?;
        // The counts above come from the ledger itself and are current; these are as old as the
        // service's report.
        let age = service.seconds_ago;
        writeln!(to, "{}", if age > 0 { format!("; as of {} ago", time(age)) } else { String::new() })?;
    }
    Ok(())
}

/// Writes why files stay in the inbox, and the state of each device.
fn write_devices(to: &mut String, service: &ServiceReport) -> fmt::Result {
    if let Some(why) = &service.staying {
        writeln!(to, "staying   {}", OneLine(why))?;
    }
    for device in &service.devices {
        let how = device.trouble.as_deref().unwrap_or(if device.idle { "idle" } else { "works" });
        write!(to, "device    {}: {}", OneLine(&device.name), OneLine(how))?;
        if device.failures > 0 {
            let times = if device.failures == 1 { "time" } else { "times" };
            write!(to, " (failed {} {times} so far)", device.failures)?;
        }
        writeln!(to)?;
    }
    Ok(())
}

fn write_failures(to: &mut String, report: &Report) -> fmt::Result {
    for failure in &report.failures {
        write!(to, "  {}", failure_line(failure))?;
    }
    for retry in &report.retries {
        let (when, again) = (time(retry.seconds_ago), again(retry, there(report)));
        writeln!(to, "  {when} ago, retried {again}: {}: {}", Shown(&retry.input), OneLine(&retry.reason))?;
    }
    Ok(())
}

/// Returns when a picture is tried again, which depends on who does it: the running service, its
/// next start, or a later run.
fn again(retry: &FailedPicture, service: Option<&ServiceReport>) -> String {
    match retry.again_in_seconds {
        _ if service.is_none() => "at the next start".into(),
        None => "by a later run".into(),
        Some(0) => "soon".into(),
        Some(seconds) => format!("in {}", time(seconds)),
    }
}

fn service(service: &ServiceReport, answered: bool) -> String {
    let mut text = format!("process {}", service.pid);
    let since = time(service.seconds_ago);
    if service.stopped {
        return text + &format!(", stopped {since} ago");
    }
    if is_silent(service) {
        let why = if answered { "its main loop hangs" } else { "it does not answer: it was killed" };
        return text + &format!(", no sign of life for {since}; {why}");
    }
    if !answered {
        text.push_str(&format!(", without an answer here (last report {since} ago)"));
    }
    match &service.held {
        Some(why) => text.push_str(&format!(", waits: {}", OneLine(why))),
        None if service.paused => text.push_str(", paused; continue with `histeqd resume`"),
        None => text.push_str(", running"),
    }
    for folder in &service.missing {
        let _ = write!(text, "; {} is missing", OneLine(folder));
    }
    for why in &service.unusable {
        let _ = write!(text, "; pictures of a folder are held back: {}", OneLine(why));
    }
    text
}

fn is_silent(service: &ServiceReport) -> bool {
    service.seconds_ago > SILENT
}

/// Returns the service that a report is about, unless it has gone.
fn there(report: &Report) -> Option<&ServiceReport> {
    report.service.as_ref().filter(|service| !service.stopped && (report.answered || !is_silent(service)))
}

fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{} kB", count / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::device_state::DeviceState;

    fn failed(input: &str, reason: &str, again_in_seconds: Option<u64>) -> FailedPicture {
        FailedPicture { input: input.into(), reason: reason.into(), seconds_ago: 7, again_in_seconds }
    }

    fn report() -> Report {
        Report {
            answered: true,
            done: 12,
            failed: 1,
            retrying: 2,
            bytes_out: 3_400_000,
            last_done_seconds_ago: Some(130),
            failures: vec![failed("in/a\n.png", "damaged PNG", None)],
            retries: vec![failed("in/b.png", "no room", Some(4)), failed("in/c.png", "no room", Some(0))],
            service: Some(ServiceReport {
                pid: 5,
                waiting: 4,
                staying: Some("in/d.png cannot be removed: no rights".into()),
                devices: vec![
                    DeviceState { name: "cpu".into(), up: true, ..DeviceState::default() },
                    DeviceState { name: "gpu1".into(), up: true, idle: true, ..DeviceState::default() },
                    DeviceState {
                        name: "gpu0".into(),
                        trouble: Some("it died; retried in 9 s".into()),
                        failures: 3,
                        ..DeviceState::default()
                    },
                ],
                ..ServiceReport::default()
            }),
            ..Report::default()
        }
    }

    #[test]
    fn people_are_told_in_lines() {
        let text = text(&report());
        for line in [
            "daemon    process 5, running\n",
            "done      12, the last one 2 min ago, 3.4 MB of outputs\n",
            "failed    1 for good, 2 to be retried\n",
            "waiting   4 ready, ",
            "staying   in/d.png cannot be removed: no rights\n",
            "device    cpu: works\ndevice    gpu1: idle\ndevice    gpu0: it died; retried in 9 s (failed 3 times so far)\n",
            "  7 s ago: \"in/a\\n.png\": damaged PNG\n",
            "  7 s ago, retried in 4 s: in/b.png: no room\n",
            "  7 s ago, retried soon: in/c.png: no room\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }

    #[test]
    fn what_a_service_said_is_told_with_its_age() {
        let mut report = report();
        assert!(text(&report).contains(" 0 to be moved or deleted\n"));
        report.service.as_mut().unwrap().seconds_ago = 12;
        assert!(text(&report).contains("process 5, running\n"));
        assert!(text(&report).contains(" 0 to be moved or deleted; as of 12 s ago\n"));
        let value: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(value["daemon"]["seconds_ago"], 12);
    }

    #[test]
    fn a_service_that_is_gone_or_waits_is_told_from_one_that_runs() {
        let silent = ServiceReport { pid: 5, seconds_ago: 3600, ..ServiceReport::default() };
        assert_eq!(
            service(&silent, false),
            "process 5, no sign of life for 60 min; it does not answer: it was killed"
        );
        assert_eq!(service(&silent, true), "process 5, no sign of life for 60 min; its main loop hangs");
        let recent = ServiceReport { pid: 5, seconds_ago: 2, ..ServiceReport::default() };
        assert_eq!(
            service(&recent, false),
            "process 5, without an answer here (last report 2 s ago), running"
        );
        let stopped = ServiceReport { pid: 5, seconds_ago: 3600, stopped: true, ..ServiceReport::default() };
        assert_eq!(service(&stopped, false), "process 5, stopped 60 min ago");
        let held = ServiceReport {
            pid: 5,
            held: Some("no room".into()),
            missing: vec!["in".into()],
            unusable: vec!["in/a/histeqd.toml:1: no".into()],
            ..ServiceReport::default()
        };
        assert_eq!(
            service(&held, true),
            "process 5, waits: no room; in is missing; pictures of a folder are held back: in/a/histeqd.toml:1: no"
        );
        let retry = failed("in/b.png", "no room", Some(4));
        assert_eq!(again(&retry, Some(&held)), "in 4 s");
        for gone in [Some(stopped), Some(silent), None] {
            let report = Report { service: gone, ..Report::default() };
            assert_eq!(again(&retry, there(&report)), "at the next start");
        }
    }

    #[test]
    fn programs_are_told_in_json() {
        let value: serde_json::Value = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(value["done"], 12);
        assert_eq!(value["failures"][0]["reason"], "damaged PNG");
        assert_eq!(value["daemon"]["waiting"], 4);
    }
}
