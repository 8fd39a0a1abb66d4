//! Reading files into the reused buffer, within the limits.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::budget::{Budget, SMALL_CHANGE, ask};
use crate::{CodecError, Limits};

/// Bytes that are read to detect the format; also the longest header that a PNM may have.
pub(crate) const HEAD: u64 = 16 << 10;

/// Capacity that the buffer keeps however small the next file is.
const KEPT: usize = SMALL_CHANGE as usize;

thread_local! {
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns how long this thread has waited for files so far.
///
/// It waits in reads of this crate, and in [`waiting_for_file`].
pub fn waited_for_files() -> Duration {
    WAITED.get()
}

/// Opens a file or reads from one, and counts the time of waiting for it.
///
/// The time on a core is not counted.
pub fn waiting_for_file<T>(read: impl FnOnce() -> T) -> T {
    let (begun, before) = (Instant::now(), thread_time());
    let read = read();
    let waited = begun.elapsed().saturating_sub(thread_time().saturating_sub(before));
    WAITED.set(WAITED.get() + waited);
    read
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Reads the first [`HEAD`] bytes, or a shorter file, into `buffer`; returns the file's length.
pub(crate) fn read_head(file: &mut File, buffer: &mut Vec<u8>) -> Result<u64, CodecError> {
    let length = file.metadata()?.len();
    buffer.clear();
    // One huge file should not pin its memory for the thousand small ones that follow.
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).max(KEPT);
    if buffer.capacity() / 2 > wanted {
        buffer.shrink_to(wanted);
    }
    // Without spare capacity, the first reads would be small ones.
    buffer.try_reserve(HEAD as usize).map_err(|_| CodecError::OutOfMemory { bytes: Some(HEAD) })?;
    waiting_for_file(|| file.take(HEAD).read_to_end(buffer))?;
    Ok(length)
}

/// Refuses a file whose length is over the limit.
pub(crate) fn check_length(length: u64, limits: &Limits) -> Result<(), CodecError> {
    if length > limits.max_bytes {
        return Err(too_long(&length.to_string(), Some(length), limits));
    }
    Ok(())
}

/// Asks whether a file of this length may be read as a whole.
pub(crate) fn admit(length: u64, limits: &Limits, budget: &mut dyn Budget) -> Result<(), CodecError> {
    check_length(length, limits)?;
    ask(budget, length, "a file")
}

/// Reads on after the head of a file, up to [`SMALL_CHANGE`], which takes no budget.
pub(crate) fn read_longer_head(file: &mut File, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
    let left = SMALL_CHANGE.saturating_sub(buffer.len() as u64);
    waiting_for_file(|| file.take(left).read_to_end(buffer))?;
    Ok(())
}

/// Reads the rest of a file after its head, as far as the budget allows; returns all of it.
pub(crate) fn read_rest<'b>(
    file: &mut File,
    buffer: &'b mut Vec<u8>,
    limits: &Limits,
    budget: &mut dyn Budget,
) -> Result<&'b mut [u8], CodecError> {
    admit(file.metadata()?.len(), limits, budget)?;
    read_admitted(file, buffer, limits, budget)
}

/// Reads the rest of a file that has been [admitted](admit); returns all of it.
pub(crate) fn read_admitted<'b>(
    file: &mut File,
    buffer: &'b mut Vec<u8>,
    limits: &Limits,
    budget: &mut dyn Budget,
) -> Result<&'b mut [u8], CodecError> {
    let about = file.metadata()?;
    let length = about.len();
    if length > SMALL_CHANGE {
        let mut used = budget.buffer();
        used.clear();
        used.extend_from_slice(buffer);
        *buffer = used;
    }
    let left = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(buffer.len());
    buffer.try_reserve_exact(left).map_err(|_| CodecError::OutOfMemory { bytes: Some(length) })?;
    // Only a regular file has a length that could be checked and asked for beforehand; growth
    // meanwhile is ignored.
    let most = if about.is_file() { length } else { limits.max_bytes.saturating_add(1) };
    let left = most.saturating_sub(buffer.len() as u64);
    waiting_for_file(|| file.take(left).read_to_end(buffer))?;
    if buffer.len() as u64 > limits.max_bytes {
        return Err(too_long(&format!("more than {}", limits.max_bytes), None, limits));
    }
    Ok(buffer)
}

/// Reads until `into` is full or the file ends; returns the number of bytes read.
pub(crate) fn read_full(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match waiting_for_file(|| file.read(&mut into[filled..])) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn too_long(bytes: &str, length: Option<u64>, limits: &Limits) -> CodecError {
    CodecError::too_long(format!("a file of {bytes} bytes"), limits.max_bytes, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_what_is_there_is_no_wait() {
        let wait = |read: fn()| {
            let before = waited_for_files();
            waiting_for_file(read);
            waited_for_files() - before
        };
        assert!(wait(|| std::thread::sleep(Duration::from_millis(30))) >= Duration::from_millis(20));
        let computing = || {
            let begun = thread_time();
            while thread_time() - begun < Duration::from_millis(3) {}
        };
        // Other processes may have the core for a while.
        assert!((0..200).any(|_| wait(computing) < Duration::from_millis(1)));
    }
}
