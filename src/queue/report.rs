//! `histeqd status --queue` and `histeqd retry --queue`.

use std::fmt::Write;
use std::time::Duration;

use histeqd_queue::{Place, Published, Queue, Stats};
use serde::Serialize;

use super::account::Account;
use super::message::{Dead, Message};
use super::signature::Signatures;
use super::unusable;
use crate::cli::{self, RetryCommand};
use crate::commands::retry::{Wanted, patterns};
use crate::error::Error;
use crate::progress::pictures;
use crate::terminal_text::OneLine;

/// The time that workers have to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most dead letters to list for people.
const SHOWN: usize = 20;

/// The state of a queue, for programs.
#[derive(Serialize)]
struct Report {
    queue: String,
    /// Messages without a worker.
    waiting: u64,
    /// Messages with a worker.
    in_progress: u64,
    workers: Vec<Account>,
    dead: Vec<Dead>,
}

/// Returns the answer to `histeqd status --queue`.
///
/// # Errors
/// When there is no such queue, or its server does not answer.
pub fn describe(place: &Place, json: bool) -> Result<String, Error> {
    let queue = Queue::connect(place, &cli::access()?).map_err(|why| unusable(&why))?;
    let Stats { waiting, in_progress, .. } = queue.stats().map_err(|why| unusable(&why))?;
    let answers = queue.ask(PATIENCE).map_err(|why| unusable(&why))?;
    let mut workers: Vec<Account> =
        answers.iter().filter_map(|answer| serde_json::from_slice(answer).ok()).collect();
    workers.sort_by(|one, other| one.worker.cmp(&other.worker));
    let dead = queue.dead().map_err(|why| unusable(&why))?;
    // Reading alone needs no key.
    let unchecked = Signatures::of(None)?;
    let dead = dead.iter().filter_map(|letter| Dead::parse(unchecked.check(&letter.payload).ok()?)).collect();
    let report = Report { queue: place.to_string(), waiting, in_progress, workers, dead };
    if json {
        return Ok(serde_json::to_string(&report).expect("numbers and texts") + "\n");
    }
    Ok(text(&report))
}

fn text(report: &Report) -> String {
    let Report { queue, waiting, in_progress, workers, dead } = report;
    let mut text = format!(
        "queue        {queue}\nwaiting      {}\nin progress  {}\nworkers      {}\n",
        messages(*waiting),
        messages(*in_progress),
        workers.len()
    );
    // Writing to a string cannot fail.
    for Account { worker, seconds, done, last_minute, failed, in_progress, devices, waits } in workers {
        let _ = write!(
            text,
            "  {}: {} in progress, {done} done in {seconds} s, {last_minute} in the last minute, {failed} failed",
            OneLine(worker),
            pictures(*in_progress as u64)
        );
        for (device, count) in devices {
            let _ = write!(text, "; {} {count}", OneLine(device));
        }
        if let Some(why) = waits {
            let _ = write!(text, "; takes no more for now: {}", OneLine(why));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "failed       {}", dead.len());
    for dead in dead.iter().take(SHOWN) {
        let _ = writeln!(text, "  {dead}");
    }
    if dead.len() > SHOWN {
        let _ = writeln!(text, "  and {} more (--json lists all)", dead.len() - SHOWN);
    }
    text
}

fn messages(count: u64) -> String {
    format!("{count} message{}", if count == 1 { "" } else { "s" })
}

/// Puts the pictures that were put aside, or a selection of them, back into the queue, or forgets
/// them. Returns the message for the user.
///
/// # Errors
/// When there is no such queue, its server does not answer, or it is full.
pub fn retry(command: &RetryCommand) -> Result<String, Error> {
    let Some(place) = &command.queue else { return Ok(String::new()) };
    let patterns = patterns(command)?;
    let wanted = Wanted::new(&patterns).map_err(Error::Usage)?;
    let signatures = Signatures::of(command.key_file.as_deref())?;
    let queue = Queue::connect(place, &cli::access()?).map_err(|why| unusable(&why))?;
    let (mut count, mut unread) = (0, 0);
    for letter in queue.dead().map_err(|why| unusable(&why))? {
        let said = signatures.check(&letter.payload).ok();
        let message = said.and_then(Dead::parse).and_then(|dead| dead.message);
        let is_wanted = match &message {
            Some(message) => message.pictures.iter().any(|one| wanted.has(&one.input)),
            None => patterns.is_empty(),
        };
        match message.filter(|_| !command.forget) {
            _ if !is_wanted => continue,
            Some(message) => put_back(&queue, &signatures, &message)?,
            None if command.forget => {}
            None => {
                unread += 1;
                continue;
            }
        }
        queue.forget_dead(&letter).map_err(|why| unusable(&why))?;
        count += 1;
    }
    let unread = unread_ones(unread);
    match count {
        0 if !unread.is_empty() => Ok(unread),
        0 if patterns.is_empty() => Ok("no picture has failed for good\n".into()),
        _ if command.forget => Ok(format!("{} forgotten\n", pictures(count))),
        0 => Err(Error::CannotRun(format!(
            "no failed picture matches; `histeqd status --queue {place}` lists them"
        ))),
        count => Ok(format!("{} will be retried\n{unread}", pictures(count))),
    }
}

/// Returns a line about failed messages that are not tried again, with the remedy; an empty text if
/// there are no such ones.
fn unread_ones(count: u64) -> String {
    let (s, them) = if count == 1 { ("", "it") } else { ("s", "them") };
    match count {
        0 => String::new(),
        _ => format!(
            "{count} failed message{s} cannot be tried again, unreadable or not signed with the key given here; submit the pictures again, and retry --forget takes {them} off the list\n"
        ),
    }
}

/// Puts a picture back into the queue.
fn put_back(queue: &Queue, signatures: &Signatures, message: &Message) -> Result<(), Error> {
    let again = signatures.sign(message.letter());
    match queue.publish(&again.name, again.payload).map_err(|why| unusable(&why))? {
        Published::Added | Published::Already => Ok(()),
        Published::Full => {
            Err(Error::CannotRun("the queue is full; try again once workers have made room".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_it_and_several_are_them() {
        assert_eq!(unread_ones(0), "");
        let one = unread_ones(1);
        assert!(
            one.starts_with("1 failed message cannot") && one.ends_with("takes it off the list\n"),
            "{one}"
        );
        let two = unread_ones(2);
        assert!(two.starts_with("2 failed messages cannot") && two.contains("takes them off"), "{two}");
    }
}
