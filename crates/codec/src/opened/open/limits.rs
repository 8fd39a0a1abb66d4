//! The error of a file that is too long, with all limits that its picture is known to exceed.

use std::fs::File;

use crate::io::input;
use crate::parts::opening::Header;
use crate::picture::decode::Decode;
use crate::{CodecError, Format, Limits, MemoryNeeds, Target};

/// Returns the error of a file of this length that is too long to be read.
///
/// It has all limits that its picture exceeds and the needs of that, as far as its head in `buffer`
/// shows, or else a longer one.
pub(super) fn with_all_limits(
    why: CodecError,
    format: Format,
    file: &mut File,
    buffer: &mut Vec<u8>,
    length: u64,
    limits: &Limits,
    target: &Target,
) -> CodecError {
    let outcome = limits_of_head(format, buffer, length, limits, target)
        .or_else(|| {
            input::read_longer_head(file, buffer).ok()?;
            limits_of_head(format, buffer, length, limits, target)
        })
        .or_else(|| limits_of_frames(format, file, buffer, length, limits, target));
    match outcome {
        Some((Err(all), _)) => all,
        Some((Ok(()), needs)) => why.needing(needs),
        None => why,
    }
}

/// Whether a picture is within the limits, and its needs.
type Outcome = (Result<(), CodecError>, Option<MemoryNeeds>);

/// Returns the limits and needs by the head of a file of this length.
fn limits_of_head(
    format: Format,
    head: &[u8],
    length: u64,
    limits: &Limits,
    target: &Target,
) -> Option<Outcome> {
    let mut ended = format.ended(head)?;
    // Copies of the file that a source of its head does not count.
    let unseen = format.file_copies() * length;
    let source = format.open_whole(&mut ended, limits, target).ok()?;
    limits_of(format, source, length, unseen, limits, target)
}

/// Returns the limits and needs by an animation's frames, unless the whole file is too long.
fn limits_of_frames(
    format: Format,
    file: &File,
    head: &[u8],
    length: u64,
    limits: &Limits,
    target: &Target,
) -> Option<Outcome> {
    input::check_length(length, limits).ok()?;
    // The longest frame is no longer than the file, and the metadata of a GIF are a part of it.
    let (unseen, mut found) = (length, None);
    format.survey(file, head, length, &mut |source| {
        found = limits_of(format, source, length, unseen, limits, target);
    });
    found
}

/// Returns the limits and needs of a picture, with `unseen` bytes more than its head shows.
fn limits_of(
    format: Format,
    source: Box<dyn Decode + '_>,
    length: u64,
    unseen: u64,
    limits: &Limits,
    target: &Target,
) -> Option<Outcome> {
    let header = Header { source, file_bytes: length.saturating_add(unseen), pages: None };
    let opened = header.opened(format, target, false).ok()?;
    Some((opened.check_limits(limits, length), opened.needs()))
}
