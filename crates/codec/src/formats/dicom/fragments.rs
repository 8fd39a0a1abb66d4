//! The fragments of compressed frames (PS3.5, A.4).

use std::ops::Range;

use super::data::Data;
use super::dataset::{BYTES_OF_FRAGMENT, PixelData, fault, truncated};
use super::header::Header;
use super::{malformed, tags};
use crate::CodecError;
use crate::formats::elements::Encoding;
use crate::io::reader::{Bytes, resize};

/// More fragments than any program writes, unless there are as many frames.
const MAX_FRAGMENTS: u64 = 1 << 16;

/// The places of a file's compressed frames.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// The places of all fragments in the file.
    places: Vec<Range<u64>>,
    /// The number of each frame's first fragment, then the number of all fragments.
    starts: Vec<usize>,
}

impl Fragments {
    /// Finds the fragments of `frames` frames.
    ///
    /// If there is no table of offsets before them, `extended` may be one, of 64-bit numbers.
    pub(super) fn find(
        data: &mut Data<'_>,
        pixels: &PixelData,
        encoding: Encoding,
        frames: u32,
        extended: &[u8],
    ) -> Result<Self, CodecError> {
        let most = pixels.items.saturating_sub(1);
        if most > MAX_FRAGMENTS.max(frames.into()) {
            return Err(malformed("more fragments than any program writes"));
        }
        if most < frames.into() {
            return Err(other_number(most as usize, frames as usize));
        }
        let (mut at, mut table, mut places) = (pixels.at, None, Vec::with_capacity(most as usize));
        loop {
            let item = Header::read(data, at, encoding).map_err(fault)?;
            at += item.bytes as u64;
            let length = match (item.tag, item.length) {
                (tags::SEQUENCE_END, _) => break,
                (tags::ITEM, Some(length)) => u64::from(length),
                _ => return Err(malformed("its compressed pixels are not in fragments")),
            };
            if at + length > data.length() as u64 {
                return Err(truncated());
            }
            if table.is_none() {
                // A table of another length is ignored.
                let stated = if length == 4 * u64::from(frames) { length as usize } else { 0 };
                let bytes = data.copy(at as usize, stated).map_err(fault)?;
                let words = bytes.as_chunks().0.iter();
                table = Some(words.map(|word| encoding.u32(*word).into()).collect::<Vec<u64>>());
            } else {
                places.push(at..at + length);
            }
            at += length;
        }
        let (table, frames) = (table.filter(|table| !table.is_empty()), frames as usize);
        let table = table.unwrap_or_else(|| offsets(extended));
        let starts = match starts(&places, &table, frames) {
            None if table.len() != frames => starts_by_content(data, &places, frames)?,
            starts => starts,
        };
        let starts = starts.ok_or_else(|| other_number(places.len(), frames))?;
        Ok(Self { places, starts })
    }

    /// Returns the bytes of the table of fragments.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.places.len() as u64 * BYTES_OF_FRAGMENT
    }

    /// Returns the bytes of a frame.
    pub(super) fn bytes(&self, frame: u32) -> u64 {
        self.of(frame).iter().map(|place| place.end - place.start).sum()
    }

    fn of(&self, frame: u32) -> &[Range<u64>] {
        let frame = frame as usize;
        &self.places[self.starts[frame]..self.starts[frame + 1]]
    }

    /// Reads a frame, whose fragments follow each other.
    pub(super) fn load(&self, data: &Data<'_>, frame: u32) -> Result<Vec<u8>, CodecError> {
        let mut bytes = Vec::new();
        resize(&mut bytes, self.bytes(frame) as usize)?;
        let mut left = &mut bytes[..];
        for place in self.of(frame) {
            let (into, behind) = left.split_at_mut((place.end - place.start) as usize);
            data.read_at(into, place.start).map_err(fault)?;
            left = behind;
        }
        Ok(bytes)
    }
}

fn other_number(fragments: usize, frames: usize) -> CodecError {
    malformed(format!("{fragments} fragments of {frames} frames"))
}

/// Returns the number of each frame's first fragment.
///
/// All belong to a single frame; otherwise there is a table of offsets, or each frame has one
/// fragment.
fn starts(places: &[Range<u64>], table: &[u64], frames: usize) -> Option<Vec<usize>> {
    let first = places.first()?.start;
    let mut starts: Vec<usize> = if frames == 1 {
        vec![0]
    } else if table.len() == frames {
        // Offsets are those of the items, with headers of eight bytes, from the first one on.
        let numbers = table.iter().map(|offset| {
            let start = first.checked_add(*offset)?;
            places.binary_search_by_key(&start, |place| place.start).ok()
        });
        numbers.collect::<Option<_>>()?
    } else if places.len() == frames {
        (0..frames).collect()
    } else {
        return None;
    };
    starts.push(places.len());
    starts.is_sorted_by(|before, behind| before < behind).then_some(starts)
}

/// Returns the offsets of an extended table. Its numbers are little-endian by now.
fn offsets(table: &[u8]) -> Vec<u64> {
    table.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

/// Returns the number of each frame's first fragment, where there is no table.
///
/// Streams of JPEG and JPEG 2000 begin and end with their marks, and a frame is padded to an even
/// length after them.
fn starts_by_content(
    data: &Data<'_>,
    places: &[Range<u64>],
    frames: usize,
) -> Result<Option<Vec<usize>>, CodecError> {
    let (mut starts, mut is_ended) = (Vec::new(), true);
    for (number, place) in places.iter().enumerate() {
        let few = (place.end - place.start).min(MARKS as u64) as usize;
        let (mut head, mut tail) = ([0; MARKS], [0; MARKS]);
        data.read_at(&mut head[..few], place.start).map_err(fault)?;
        data.read_at(&mut tail[..few], place.end - few as u64).map_err(fault)?;
        if is_ended && begins_stream(&head) {
            starts.push(number);
        }
        is_ended = ends_stream(&tail[..few]);
    }
    let is_whole = is_ended && starts.len() == frames && starts.first() == Some(&0);
    starts.push(places.len());
    Ok(is_whole.then_some(starts))
}

/// Bytes at either end of a fragment that are checked for marks.
const MARKS: usize = 4;

fn begins_stream(head: &[u8; MARKS]) -> bool {
    const CODESTREAM: [u8; MARKS] = *b"\xff\x4f\xff\x51";
    head.starts_with(b"\xff\xd8\xff") || *head == CODESTREAM
}

/// Returns whether these bytes end with the end mark of a JPEG or a codestream, and a padding byte.
fn ends_stream(tail: &[u8]) -> bool {
    const END: &[u8] = b"\xff\xd9";
    tail.ends_with(END) || tail.split_last().is_some_and(|(_, before)| before.ends_with(END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_belong_to_the_frames_that_the_table_tells_or_one_to_each() {
        let places = [100..108, 116..120, 128..130];
        assert_eq!(starts(&places, &[], 1), Some(vec![0, 3]));
        assert_eq!(starts(&places, &[], 3), Some(vec![0, 1, 2, 3]));
        assert_eq!(starts(&places, &[0, 28], 2), Some(vec![0, 2, 3]));
        for table in [&[][..], &[0, 27], &[0, 0], &[28, 0]] {
            assert_eq!(starts(&places, table, 2), None, "{table:?}");
        }
        assert_eq!(starts(&[], &[], 1), None);
    }
}
