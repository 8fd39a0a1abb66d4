//! Palettes (PS3.3, C.7.9): three tables of 8 or 16 bits.

use super::dataset::DataSet;
use super::{malformed, tags, unsupported};
use crate::CodecError;
use equalize::Depth;

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
        if set.value(tags::SEGMENTED_PALETTE).is_some() {
            return Err(unsupported("a DICOM file with a segmented palette", super::CONVERT));
        }
        let missing = || malformed("its palette is missing or cut short");
        let descriptor = set.words(tags::PALETTES[0]).ok_or_else(missing)?;
        let &[count, first, bits] = descriptor.first_chunk().ok_or_else(missing)?;
        // The table of 65,536 colours does not fit into 16 bits.
        let count = if count == 0 { 1 << 16 } else { usize::from(count) };
        let first = if signed { first.cast_signed().into() } else { first.into() };
        let depth = match bits {
            8 => Depth::Eight,
            16 => Depth::Sixteen,
            _ => return Err(malformed(format!("a palette of {bits} bits"))),
        };
        let mut colours = vec![[0; 3]; count];
        for (channel, tag) in tags::PALETTE_DATA.into_iter().enumerate() {
            let table = channel_of(set, tag, count, depth).ok_or_else(missing)?;
            for (colour, value) in colours.iter_mut().zip(table) {
                colour[channel] = value;
            }
        }
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

/// Returns the entries of one channel. Those of 8 bits are bytes, in pairs that are words, or the lower halves of words.
fn channel_of(set: &DataSet, tag: u32, count: usize, depth: Depth) -> Option<Vec<u16>> {
    let words = set.words(tag)?;
    if depth == Depth::Sixteen || words.len() >= count {
        return Some(words).filter(|words| words.len() >= count);
    }
    let bytes: Vec<u16> = words.iter().flat_map(|word| word.to_le_bytes()).map(u16::from).collect();
    Some(bytes).filter(|bytes| bytes.len() >= count)
}
