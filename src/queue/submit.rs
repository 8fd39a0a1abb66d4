//! `histeqd submit`: publishes pictures to process.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use histeqd_queue::{DeadLetter, Limits, Published, Queue, QueueError};

use super::message::{Message, Picture};
use super::signature::Signatures;
use super::unusable;
use crate::cli::SubmitCommand;
use crate::config::{InputFile, OrNone, Settings, Written};
use crate::device::backoff::Backoff;
use crate::error::{Error, Exit, PictureError};
use crate::fs::paths::Shown;
use crate::progress::{painted, pictures};
use crate::publish::with_leftovers_removed;
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Skip, Skipped};

/// The most bytes of a message's paths, well below the limit of servers.
const LONGEST: usize = 128 * 1024;
/// How long a server may be gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pauses while the queue is full or its server gone.
pub(super) const PAUSES: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(2) };

/// The numbers of pictures and messages by result.
#[derive(Default)]
struct Count {
    published: usize,
    messages: usize,
    waiting: usize,
}

/// Publishes the pictures that the command line names and that are not done.
///
/// # Errors
/// When the command line is invalid, or the queue cannot be used.
pub fn submit(command: SubmitCommand, stop: &Stop) -> Result<Exit, Error> {
    let signatures = Signatures::of(command.key_file())?;
    let (settings, place, access, limits) = command.resolve()?;
    let settings = with_whole_paths(settings)?;
    settings.written.check_carried().map_err(Error::Usage)?;
    let queue = Queue::connect(&place, &access).map_err(|why| unusable(&why))?;
    queue.create(&limits).map_err(|why| unusable(&why))?;
    let mut plan = match store::is_url(&settings.out) {
        true => source::scan(&settings, stop),
        false => with_leftovers_removed(&settings.out, usize::MAX, || source::scan(&settings, stop))
            .map_err(Error::thread)?,
    }?;
    plan.refuse_image_folders("workers of a queue take files; run histeqd on it without submit");
    let submission = Submission { queue: &queue, signatures, written: &settings.written, limits, stop };
    let count = submission.publish(plan.jobs)?;
    if stop.asked() {
        say(&format!("stopped; {}", counts(&count, &plan.skipped)));
        return Ok(Exit::Stopped);
    }
    for (input, why) in &plan.failed {
        say(&failure(input, why));
    }
    say(&counts(&count, &plan.skipped));
    Ok(if plan.failed.is_empty() { Exit::Done } else { Exit::SomeFailed })
}

fn say(line: &str) {
    // Standard error may have no reader.
    let _ = writeln!(anstream::stderr(), "{}", painted(line));
}

fn failure(input: &Path, why: &PictureError) -> String {
    format!("failed: {}: {why}", Shown(input))
}

fn counts(count: &Count, skipped: &[Skipped]) -> String {
    let done = skipped.iter().filter(|skipped| skipped.why == Skip::AlreadyDone).count();
    let Count { published, messages, waiting } = count;
    let plural = if *messages == 1 { "" } else { "s" };
    format!(
        "{} submitted in {messages} message{plural}; {waiting} waiting already, {done} done already",
        pictures(*published as u64)
    )
}

/// Returns the absolute path of a file, without `..`.
fn whole(path: &Path) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(path).and_then(|path| {
        match path.components().any(|part| part == Component::ParentDir) {
            true => path.canonicalize(),
            false => Ok(path),
        }
    });
    absolute.map_err(|why| Error::Usage(format!("{} cannot be used: {why}", Shown(path))))
}

/// Returns the settings with absolute paths, because workers have other current folders.
pub(super) fn with_whole_paths(mut settings: Settings) -> Result<Settings, Error> {
    for Written { reference, lut, .. } in [&mut settings.written, &mut settings.flags] {
        if let Some(OrNone::Some(InputFile(file))) = reference {
            *file = whole(file)?;
        }
        for path in lut.iter_mut().flatten() {
            *path = whole(path)?;
        }
    }
    // A URL is absolute.
    let named = settings.inputs.iter_mut().chain([&mut settings.out]).filter(|path| !store::is_url(path));
    for path in named {
        *path = whole(path)?;
    }
    settings.picture = Arc::new(settings.picture.as_ref().clone().spelled(&settings.written));
    Ok(settings)
}

struct Submission<'a> {
    queue: &'a Queue,
    signatures: Signatures,
    written: &'a Written,
    limits: Limits,
    stop: &'a Stop,
}

impl Submission<'_> {
    /// Publishes jobs, and removes the dead letters of pictures among them that failed before.
    fn publish(&self, jobs: Vec<Job>) -> Result<Count, Error> {
        let dead = dead_by_name(self.queue).map_err(|why| unusable(&why))?;
        let mut count = Count::default();
        for message in messages(jobs, self.written) {
            match self.add(&message)? {
                Published::Added => {
                    count.published += message.pictures.len();
                    count.messages += 1;
                    forget_dead(self.queue, &message, &dead).map_err(|why| unusable(&why))?;
                }
                Published::Already => count.waiting += message.pictures.len(),
                // Only a stop ends the wait for room.
                Published::Full => return Ok(count),
            }
        }
        Ok(count)
    }

    /// Publishes a message as soon as there is room.
    fn add(&self, message: &Message) -> Result<Published, Error> {
        let letter = self.signatures.sign(message.letter());
        let (mut tries, mut gone, mut was_full) = (0, None, false);
        loop {
            match self.queue.publish(&letter.name, letter.payload.clone()) {
                Ok(Published::Full) => {
                    if !std::mem::replace(&mut was_full, true) && tries == 0 {
                        say("the queue is full; waiting for the workers");
                    }
                    gone = None;
                }
                Ok(done) => return Ok(done),
                Err(why) if !why.is_transient() => return Err(unusable(&why)),
                Err(QueueError::Missing(_)) => {
                    self.queue.create(&self.limits).map_err(|why| unusable(&why))?;
                }
                Err(why) => {
                    let since = *gone.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        let why = format!("{why}; run the same command again, it continues where it stopped");
                        return Err(Error::CannotRun(why));
                    }
                }
            }
            if self.stop.asked() {
                return Ok(Published::Full);
            }
            tries += 1;
            sleep(PAUSES.after(tries));
        }
    }
}

/// Removes the dead letters about pictures of a message, whatever state the pictures were in.
pub(super) fn forget_dead(
    queue: &Queue,
    message: &Message,
    dead: &HashMap<String, DeadLetter>,
) -> Result<(), QueueError> {
    if dead.is_empty() {
        return Ok(());
    }
    let mut names = message.pictures.iter().map(|picture| message.dead_name(picture));
    names.try_for_each(|name| dead.get(&name).map_or(Ok(()), |letter| queue.forget_dead(letter)))
}

/// Returns the dead letters by their names.
///
/// # Errors
/// When the server does not answer.
pub(super) fn dead_by_name(queue: &Queue) -> Result<HashMap<String, DeadLetter>, QueueError> {
    Ok(queue.dead()?.into_iter().map(|letter| (letter.name.clone(), letter)).collect())
}

/// Combines jobs into messages: consecutive small pictures of the same settings together, a large
/// one alone.
pub(super) fn messages(jobs: Vec<Job>, written: &Written) -> impl Iterator<Item = Message> {
    let mut jobs = jobs.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = jobs.next()?;
        let length = |job: &Job| job.input.as_os_str().len() + job.output.as_os_str().len();
        let (mut bytes, mut paths) = (first.bytes, length(&first));
        let settings = Arc::clone(&first.settings);
        let mut together = vec![first];
        let mut fits = |job: &Job| {
            bytes = bytes.saturating_add(job.bytes);
            // Text that is not UTF-8 takes up to four times the space.
            paths += length(job);
            let is_alike = job.settings.digest() == settings.digest();
            is_alike && bytes <= Batches::MAX_BYTES && 4 * paths <= LONGEST
        };
        while together.len() < Batches::MAX
            && let Some(job) = jobs.next_if(&mut fits)
        {
            together.push(job);
        }
        Some(Message::new(written.carried(&settings), together.into_iter().map(Picture::of).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize, bytes: u64) -> Job {
        Job::for_tests(&format!("/in/{number}.png"), bytes)
    }

    #[test]
    fn small_pictures_share_a_message_and_large_ones_have_their_own() {
        let sizes = |jobs: Vec<Job>| -> Vec<usize> {
            messages(jobs, &Written::default()).map(|message| message.pictures.len()).collect()
        };
        assert_eq!(sizes((0..70).map(|number| job(number, 4096)).collect()), [32, 32, 6]);
        assert_eq!(sizes((0..5).map(|number| job(number, 1 << 20)).collect()), [1; 5]);
        assert_eq!(
            sizes(vec![job(0, 9), job(1, 1 << 20), job(2, 9), job(3, u64::MAX), job(4, 9)]),
            [1, 1, 1, 1, 1]
        );
        assert_eq!(sizes((0..4).map(|number| job(number, 100 << 10)).collect()), [2, 2]);
        let long =
            |number| Job { input: format!("/{}/{number}", "x".repeat(10_000)).into(), ..job(number, 9) };
        assert_eq!(sizes((0..7).map(long).collect()), [3, 3, 1]);
        assert!(sizes(Vec::new()).is_empty());
    }
}
