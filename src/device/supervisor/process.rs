//! The end of a worker process.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Waits for at most `time` for the end of the process; returns `None` if it still runs then.
pub(super) fn ended_within(child: &mut Child, time: Duration) -> io::Result<Option<ExitStatus>> {
    const NAP: Duration = Duration::from_millis(5);
    let start = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || start.elapsed() >= time {
            return Ok(status);
        }
        std::thread::sleep(NAP);
    }
}

/// Describes the end of a worker process as a sentence.
pub(super) fn describe(status: &io::Result<Option<ExitStatus>>) -> String {
    let status = status.as_ref().ok().and_then(Option::as_ref);
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("its worker ended with code {code}"),
        Some((None, Some(signal))) => format!("its worker was ended by signal {signal}"),
        _ => "its worker ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_not_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(ended_within(&mut child, Duration::from_millis(20)).unwrap().is_none());
        child.kill().unwrap();
        let status = ended_within(&mut child, Duration::from_secs(60));
        assert_eq!(describe(&status), "its worker was ended by signal 9");
    }
}
