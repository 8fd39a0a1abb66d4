//! `histeqd pause` and `histeqd resume`: make a running service begin no more pictures, and begin
//! them again.

use crate::cli::PauseCommand;
use crate::commands::socket::{self, Answer};
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::ledger;
use crate::progress::pictures;

/// Makes the service begin no more pictures; it finishes those in progress. Returns the message for
/// the user.
///
/// # Errors
/// When no service runs for the output folder, or it refuses.
pub fn pause(command: &PauseCommand) -> Result<String, Error> {
    let waiting = ask(command, "/pause")?;
    Ok(format!("paused, with {waiting} waiting; continue with `histeqd resume {}`\n", Shown(&command.out)))
}

/// Makes the service begin pictures again. Returns the message for the user.
///
/// # Errors
/// As for [`pause()`].
pub fn resume(command: &PauseCommand) -> Result<String, Error> {
    let waiting = ask(command, "/resume")?;
    Ok(format!("resumed, with {waiting} waiting\n"))
}

/// Sends the request for a change. Returns the number of waiting pictures, in words.
fn ask(command: &PauseCommand, url: &str) -> Result<String, Error> {
    let folder = ledger::folder(&command.out, command.state.as_deref());
    match socket::ask(&folder, "POST", url, "") {
        Ok(Some(Answer { status: 200, body })) => body.parse().map(pictures).map_err(socket::refusal),
        Ok(Some(Answer { body, .. })) => Err(socket::refusal(body.trim_end())),
        Err(error) => Err(socket::refusal(error)),
        Ok(None) => Err(Error::CannotRun(format!(
            "no service runs for {} (give --state if its ledger is elsewhere)",
            Shown(&command.out)
        ))),
    }
}
