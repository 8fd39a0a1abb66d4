//! Palettes (PS3.3, C.7.9): three tables of 8 or 16 bits, whole or in segments.

use std::cmp::Ordering;

use super::dataset::DataSet;
use super::{malformed, tags};
use crate::CodecError;
use equalize::Depth;

/// The classes of pictures and films of ultrasound.
const ULTRASOUND: [&str; 2] = ["1.2.840.10008.5.1.4.1.1.6.1", "1.2.840.10008.5.1.4.1.1.3.1"];

/// The colours that samples are numbers of.
#[derive(Debug)]
pub(super) struct Palette {
    /// The sample that has the first colour.
    first: i32,
    depth: Depth,
    /// Red, green and blue of each colour.
    colours: Vec<[u16; 3]>,
}

impl Palette {
    pub(super) fn read(set: &DataSet, signed: bool) -> Result<Self, CodecError> {
        let descriptor = set.words(tags::PALETTES[0]).ok_or_else(missing)?;
        let &[count, first, bits] = descriptor.first_chunk().ok_or_else(missing)?;
        // The table of 65,536 colours does not fit into 16 bits.
        let count = if count == 0 { 1 << 16 } else { usize::from(count) };
        let first = if signed { first.cast_signed().into() } else { first.into() };
        let stored = match bits {
            8 => Depth::Eight,
            16 => Depth::Sixteen,
            _ => return Err(malformed(format!("a palette of {bits} bits"))),
        };
        let mut colours = vec![[0; 3]; count];
        let is_segmented = set.value(tags::SEGMENTED_PALETTES[0]).is_some();
        for channel in 0..3 {
            let table = match is_segmented {
                true => segmented(set, tags::SEGMENTED_PALETTES[channel], count, stored),
                false => channel_of(set, tags::PALETTE_DATA[channel], count, stored),
            };
            let table = table.ok_or_else(missing)?;
            for (colour, value) in colours.iter_mut().zip(table) {
                colour[channel] = value;
            }
        }
        let is_ultrasound = set.text(tags::SOP_CLASS).is_some_and(|class| ULTRASOUND.contains(&class));
        let depth = reduced(&mut colours, stored, is_ultrasound);
        Ok(Self { first, depth, colours })
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// Appends the colour of a sample. Samples outside the palette have its first or last colour.
    pub(super) fn put(&self, sample: i32, into: &mut [u8]) {
        let number = sample.saturating_sub(self.first).clamp(0, self.colours.len() as i32 - 1);
        let colour = &self.colours[number as usize];
        match self.depth {
            Depth::Eight => into.iter_mut().zip(colour).for_each(|(to, &value)| *to = value as u8),
            Depth::Sixteen => {
                for (to, value) in into.as_chunks_mut().0.iter_mut().zip(colour) {
                    *to = value.to_ne_bytes();
                }
            }
        }
    }
}

fn missing() -> CodecError {
    malformed("its palette is missing or cut short")
}

/// Returns the depth of colours.
///
/// Colours of 16 bits become 8-bit ones if they are such in the upper halves of words, or if they
/// are those of ultrasound, which has no deeper colours except in palettes (PS3.3, C.8.5.6.1.15).
fn reduced(colours: &mut [[u16; 3]], stored: Depth, is_ultrasound: bool) -> Depth {
    let values = colours.as_flattened_mut();
    if stored == Depth::Eight || !is_ultrasound && values.iter().any(|value| value & 0xff != 0) {
        return stored;
    }
    values.iter_mut().for_each(|value| *value >>= 8);
    Depth::Eight
}

/// Returns the entries of one channel.
///
/// Entries of 8 bits are bytes, in pairs that are words, or the lower halves of words.
fn channel_of(set: &DataSet, tag: u32, count: usize, depth: Depth) -> Option<Vec<u16>> {
    let words = set.words(tag)?;
    if depth == Depth::Sixteen || words.len() >= count {
        return Some(words).filter(|words| words.len() >= count);
    }
    let bytes: Vec<u16> = words.iter().flat_map(|word| word.to_le_bytes()).map(u16::from).collect();
    Some(bytes).filter(|bytes| bytes.len() >= count)
}

/// Returns the entries of one channel, from a table in segments.
fn segmented(set: &DataSet, tag: u32, count: usize, depth: Depth) -> Option<Vec<u16>> {
    let words = set.words(tag)?;
    let data = match depth {
        Depth::Sixteen => words,
        Depth::Eight => words.iter().flat_map(|word| word.to_le_bytes()).map(u16::from).collect(),
    };
    let mut segments = Segments { data: &data, depth, count, entries: Vec::new() };
    segments.expand(0, None)?;
    (segments.entries.len() >= count).then_some(segments.entries)
}

/// A table in segments (PS3.3, C.7.9.2), and its entries so far.
struct Segments<'d> {
    data: &'d [u16],
    depth: Depth,
    /// The number of entries that there are to be.
    count: usize,
    entries: Vec<u16>,
}

impl Segments<'_> {
    /// Adds the entries of `segments` segments, or of all, from a place on; `None` if damaged.
    fn expand(&mut self, mut at: usize, segments: Option<usize>) -> Option<()> {
        const DISCRETE: u16 = 0;
        const LINEAR: u16 = 1;
        const INDIRECT: u16 = 2;
        for _ in 0..segments.unwrap_or(usize::MAX) {
            if self.entries.len() >= self.count {
                return Some(());
            }
            let &[kind, length] = self.data.get(at..)?.first_chunk()?;
            let (length, content) = (usize::from(length), at + 2);
            at = content;
            match kind {
                DISCRETE => {
                    at += length;
                    self.entries.extend(self.data.get(content..at)?);
                }
                LINEAR => {
                    at += 1;
                    self.go_to(*self.data.get(content)?, length)?;
                }
                // Segments within segments are not nested any further.
                INDIRECT if segments.is_none() => {
                    let (offset, numbers) = self.offset(content)?;
                    at += numbers;
                    self.expand(offset, Some(length))?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds entries on a line from the last one to another, which becomes the last.
    ///
    /// Halves are rounded to even, as in other readers.
    fn go_to(&mut self, end: u16, length: usize) -> Option<()> {
        let start = i64::from(*self.entries.last()?);
        let (steps, rise) = (length as i64, i64::from(end) - start);
        self.entries.extend((1..=steps).map(|step| {
            let whole = start + (step * rise).div_euclid(steps);
            let up = match (2 * (step * rise).rem_euclid(steps)).cmp(&steps) {
                Ordering::Less => 0,
                Ordering::Equal => whole % 2,
                Ordering::Greater => 1,
            };
            (whole + up) as u16
        }));
        Some(())
    }

    /// Returns the offset in an indirect segment, in bytes of the table, and its count of numbers.
    fn offset(&self, at: usize) -> Option<(usize, usize)> {
        let numbers = self.data.get(at..)?;
        match self.depth {
            Depth::Eight => {
                let bytes = numbers.first_chunk::<4>()?.map(usize::from);
                Some((bytes[3] << 24 | bytes[2] << 16 | bytes[1] << 8 | bytes[0], 4))
            }
            Depth::Sixteen => {
                let &[low, high] = numbers.first_chunk()?;
                Some(((usize::from(high) << 16 | usize::from(low)) / 2, 2))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(data: &[u16], depth: Depth, count: usize) -> Option<Vec<u16>> {
        let mut segments = Segments { data, depth, count, entries: Vec::new() };
        segments.expand(0, None)?;
        Some(segments.entries)
    }

    #[test]
    fn segments_are_lists_lines_and_copies() {
        let expected = [5, 7, 8, 9, 10, 8, 6];
        assert_eq!(expanded(&[0, 2, 5, 7, 1, 3, 10, 1, 2, 6], Depth::Sixteen, 7).unwrap(), expected);
        // The second segment once more, from byte 8 on.
        let copied = expanded(&[0, 2, 5, 7, 1, 3, 10, 2, 1, 8, 0], Depth::Sixteen, 8).unwrap();
        assert_eq!(copied, [5, 7, 8, 9, 10, 10, 10, 10]);
        let of_bytes = expanded(&[0, 2, 5, 7, 2, 1, 0, 0, 0, 0], Depth::Eight, 4).unwrap();
        assert_eq!(of_bytes, [5, 7, 5, 7]);
    }

    #[test]
    fn damaged_segments_end() {
        for data in [&[0, 3, 1][..], &[1, 2, 5], &[3, 0], &[2, 1, 0, 0], &[0, 1, 9, 2, 1, 0], &[]] {
            assert_eq!(expanded(data, Depth::Sixteen, 4), None, "{data:?}");
        }
        // A segment of no length, over and over.
        assert_eq!(expanded(&[0, 0, 2, 2, 0, 0], Depth::Sixteen, 4), None);
    }
}
