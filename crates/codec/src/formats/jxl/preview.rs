//! The preview of a codestream (ISO/IEC 18181-1), which is taken out before the decoder has it.
//!
//! The decoder misreads its size where that is a ratio, and its length where the picture is larger.

use std::sync::Arc;

use jxl_bitstream::{Bitstream, BitstreamResult, U};
use jxl_color::icc::read_icc;
use jxl_frame::FrameContext;
use jxl_oxide::image::{ImageHeader, SizeHeader};
use jxl_oxide::{AllocTracker, Frame, JxlThreadPool};
use jxl_oxide_common::Bundle;

use super::{malformed, profile};
use crate::CodecError;
use crate::samples::size::Size;

/// Bits of the signature.
const SIGNATURE: usize = 16;
/// Width by height, by their number.
const RATIOS: [(u32, u32); 7] = [(1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1)];

/// A header that replaces the first bytes of a codestream with a preview.
pub(super) struct WithoutPreview {
    header: Vec<u8>,
    replaced: usize,
}

impl WithoutPreview {
    /// Finds the preview of a codestream in pieces; `None` if it has none that can be found.
    pub(super) fn of(codestream: &[&[u8]], tracker: &AllocTracker) -> Result<Option<Self>, CodecError> {
        let start = profile::start(codestream);
        let Ok(Some(place)) = Place::read(&start) else { return Ok(None) };
        let plain = place.without(&start, None);
        profile::check(&[&plain])?;
        let mut bits = Bitstream::new(&plain);
        let Ok(header) = ImageHeader::parse(&mut bits, ()) else { return Ok(None) };
        if header.metadata.colour_encoding.want_icc() {
            read_icc(&mut bits).map_err(malformed)?;
        }
        let end = bits.num_read_bits();
        let frames = (end + place.end - place.flag - 1).div_ceil(8);
        let small = place.without(&start, Some(Size { width: place.width, height: place.height }));
        let small = ImageHeader::parse(&mut Bitstream::new(&small), ()).map_err(malformed)?;
        let context = FrameContext {
            image_header: Arc::new(small),
            tracker: Some(tracker),
            pool: JxlThreadPool::none(),
        };
        let mut bits = Bitstream::new(start.get(frames..).unwrap_or_default());
        let frame = Frame::parse(&mut bits, context).map_err(malformed)?;
        let replaced = frames + bits.num_read_bits() / 8 + frame.toc().total_byte_size();
        let mut header = Bits::default();
        header.copy(&plain, 0, end);
        Ok(Some(Self { header: header.into_bytes(), replaced }))
    }

    /// Returns the pieces of a codestream with the header in place of its first bytes.
    pub(super) fn pieces<'p>(&'p self, codestream: &[&'p [u8]]) -> Vec<&'p [u8]> {
        let mut left = self.replaced;
        let rest = codestream.iter().map(|piece| {
            let (before, behind) = piece.split_at(left.min(piece.len()));
            left -= before.len();
            behind
        });
        [&*self.header].into_iter().chain(rest).collect()
    }
}

/// The offsets in bits of what the header of a codestream says of its preview.
struct Place {
    /// The end of the size of the picture.
    size_end: usize,
    /// The bit that says that there is a preview.
    flag: usize,
    /// The end of the size of the preview.
    end: usize,
    /// The size of the preview.
    width: u32,
    height: u32,
}

impl Place {
    fn read(start: &[u8]) -> BitstreamResult<Option<Self>> {
        let mut bits = Bitstream::new(start);
        bits.skip_bits(SIGNATURE)?;
        SizeHeader::parse(&mut bits, ())?;
        let size_end = bits.num_read_bits();
        let is_default = bits.read_bool()?;
        if is_default || !bits.read_bool()? {
            return Ok(None);
        }
        // The orientation, and the size at which it is to be shown.
        bits.skip_bits(3)?;
        if bits.read_bool()? {
            SizeHeader::parse(&mut bits, ())?;
        }
        let flag = bits.num_read_bits();
        if !bits.read_bool()? {
            return Ok(None);
        }
        let in_eights = bits.read_bool()?;
        let height = side(&mut bits, in_eights)?;
        let width = match bits.read_bits(3)? {
            0 => side(&mut bits, in_eights)?,
            number => {
                let (across, down) = RATIOS[number as usize - 1];
                (u64::from(height) * u64::from(across) / u64::from(down)) as u32
            }
        };
        Ok(Some(Self { size_end, flag, end: bits.num_read_bits(), width, height }))
    }

    /// Returns the start of a codestream without a preview, and of another size if one is given.
    fn without(&self, start: &[u8], size: Option<Size>) -> Vec<u8> {
        let mut bits = Bits::default();
        match size {
            None => bits.copy(start, 0, self.size_end),
            Some(Size { width, height }) => {
                bits.copy(start, 0, SIGNATURE);
                // Not in eights, of 30 bits each, with no ratio between them.
                bits.put(0b110, 3);
                bits.put(height - 1, 30);
                bits.put(0b11_000, 5);
                bits.put(width - 1, 30);
            }
        }
        bits.copy(start, self.size_end, self.flag);
        bits.put(0, 1);
        bits.copy(start, self.end, 8 * start.len());
        bits.into_bytes()
    }
}

/// Reads a side of a preview.
fn side(bits: &mut Bitstream<'_>, in_eights: bool) -> BitstreamResult<u32> {
    match in_eights {
        true => Ok(8 * bits.read_u32(16, 32, 1 + U(5), 33 + U(9))?),
        false => bits.read_u32(1 + U(6), 65 + U(8), 321 + U(10), 1345 + U(12)),
    }
}

/// Bits that are written, the low ones of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// The bits that are no whole byte yet, and their number.
    rest: u64,
    count: usize,
}

impl Bits {
    /// Writes up to 32 bits.
    fn put(&mut self, bits: u32, count: usize) {
        self.rest |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.rest as u8);
            self.rest >>= 8;
            self.count -= 8;
        }
    }

    /// Writes the bits of some bytes from one offset to another.
    fn copy(&mut self, from: &[u8], at: usize, end: usize) {
        let mut at = at;
        while at < end {
            let (byte, first) = (from[at / 8], at % 8);
            let count = (8 - first).min(end - at);
            self.put(u32::from(byte >> first) & ((1 << count) - 1), count);
            at += count;
        }
    }

    /// Returns all bits, the last byte filled up with zeros.
    fn into_bytes(mut self) -> Vec<u8> {
        self.put(0, 7);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_where_they_are_copied_to() {
        let mut bits = Bits::default();
        bits.put(0b101, 3);
        bits.copy(&[0b1100_1010, 0b0000_0111], 1, 11);
        assert_eq!(bits.into_bytes(), [0b0010_1101, 0b0001_1111]);
        let mut whole = Bits::default();
        whole.copy(&[1, 2], 0, 16);
        assert_eq!(whole.into_bytes(), [1, 2]);
    }
}
