//! The pixels of a frame, read row by row as samples of whole bytes in the machine's order.
//!
//! Compressed pixels are decompressed first.

use super::data::Data;
use super::dataset::fault;
use super::description::{Description, Photometric};
use super::fragments::Fragments;
use super::transfer::Compression;
use super::{malformed, rle, truncated_pixels};
use crate::CodecError;
use crate::coding::codestream::CodestreamDecoder;
use crate::formats::jpeg::{self, Embedded};
use crate::formats::jpeg2000;
use crate::io::reader::resize;
use crate::samples::mapped::{BAND, Rows};
use crate::samples::size::Size;
use crate::samples::swap_bytes;

/// A frame that can be read row by row.
pub(super) struct Frame<'f> {
    description: &'f Description,
    photometric: Photometric,
    planar: bool,
    swapped: bool,
    stored: Stored<'f>,
}

/// The samples as they are stored without compression.
enum Stored<'f> {
    /// In the file: the offset of all pixels, and the distance of this frame from it in bits.
    File(&'f Data<'f>, u64, u64),
    Memory(Vec<u8>),
}

impl<'f> Frame<'f> {
    /// Returns a frame that lies in the file without compression.
    ///
    /// The pixels of all frames begin at `start`.
    pub(super) fn stored(
        description: &'f Description,
        data: &'f Data<'f>,
        start: u64,
        length: u64,
        frame: u32,
    ) -> Result<Self, CodecError> {
        let (bits, frames) = (description.frame_bits(), u64::from(description.frames));
        let mut photometric = description.photometric;
        let mut bits = bits;
        if photometric == Photometric::Ybr422 {
            // Some programs state that pixels have their chroma in common, and write all of it.
            let whole = description.frame_samples() * 8;
            if bytes_of(whole, frames).is_some_and(|needed| length >= needed) {
                (photometric, bits) = (Photometric::Ybr, whole);
            }
        }
        if bytes_of(bits, frames).is_none_or(|needed| length < needed) {
            return Err(truncated_pixels());
        }
        if length / bits.div_ceil(8) > frames {
            return Err(malformed(format!("it holds more pixels than {frames} frames have")));
        }
        let stored = Stored::File(data, start, bits * u64::from(frame));
        let (planar, swapped) = (description.planar, description.swapped);
        Ok(Self { description, photometric, planar, swapped, stored })
    }

    /// Decompresses a frame, which a `decoder` may do if it is a codestream.
    pub(super) fn decompressed(
        description: &'f Description,
        data: &Data<'_>,
        fragments: &Fragments,
        frame: u32,
        decoder: Option<&dyn CodestreamDecoder>,
    ) -> Result<Self, CodecError> {
        let stream = fragments.load(data, frame)?;
        let mut pixels = Vec::new();
        resize(&mut pixels, frame_bytes(description) as usize)?;
        let (samples, bytes) = (description.samples, description.sample_bytes());
        let mut photometric = description.photometric;
        let size = description.size();
        match description.compression {
            Compression::None => {
                if (stream.len() as u64) < description.frame_bits().div_ceil(8) {
                    return Err(truncated_pixels());
                }
                let (planar, stored) = (description.planar, Stored::Memory(stream));
                return Ok(Self { description, photometric, planar, swapped: false, stored });
            }
            Compression::Rle => rle::decode(&stream, samples, bytes, &mut pixels)?,
            Compression::Jpeg | Compression::JpegLs => match jpeg::process(&stream) {
                Some(jpeg::Process::EightBit) => {
                    if bytes != 1 {
                        return Err(malformed("a JPEG of 8 bits in place of longer samples"));
                    }
                    let ycbcr = samples == 3 && jpeg::is_ycbcr(&stream, photometric == Photometric::Ybr);
                    let Size { width, height: rows } = size;
                    // Frames are padded to an even length, after the end of the stream.
                    let embedded = Embedded { width, rows, components: samples, bits: 8, ycbcr };
                    embedded.decode(&stream, &mut pixels).map_err(of_stream)?;
                    photometric = if samples == 3 { Photometric::Rgb } else { photometric };
                }
                Some(jpeg::Process::Deep) => {
                    let values = jpeg::decode_deep(&stream, size, samples).map_err(of_stream)?;
                    put(&values, bytes, &mut pixels)?;
                }
                Some(jpeg::Process::Ls) => {
                    let values = jpeg::ls::decode(&stream, size, samples).map_err(of_stream)?;
                    put(&values, bytes, &mut pixels)?;
                }
                None => return Err(malformed("its compressed pixels are not a JPEG")),
            },
            Compression::Jpeg2000 | Compression::HighThroughput => {
                jpeg2000::decode(stream, size, samples, bytes, decoder, &mut pixels).map_err(of_stream)?;
            }
        }
        if description.compression != Compression::Rle && !description.may_have_overlays {
            check_bits(description, &pixels)?;
        }
        let stored = Stored::Memory(pixels);
        Ok(Self { description, photometric, planar: false, swapped: false, stored })
    }

    /// Returns the number of planes, each of one sample a pixel; 1 if all samples lie together.
    fn planes(&self) -> usize {
        if self.planar { self.description.samples } else { 1 }
    }

    /// Returns the bits of a row of one plane as they are stored.
    fn row_bits(&self) -> u64 {
        let description = self.description;
        let samples = match self.photometric {
            Photometric::Ybr422 => 2,
            _ => description.samples / self.planes(),
        };
        u64::from(description.width) * samples as u64 * u64::from(description.allocated)
    }

    /// Returns the bits that are stored before those of the frame.
    fn skipped_bits(&self) -> u64 {
        match &self.stored {
            Stored::File(_, _, bits) => *bits,
            Stored::Memory(_) => 0,
        }
    }

    /// Reads rows of one plane as they are stored.
    fn fetch(&self, plane: usize, first: usize, rows: usize, into: &mut Vec<u8>) -> Result<(), CodecError> {
        let bits = self.row_bits();
        let rows_before = plane as u64 * u64::from(self.description.height) + first as u64;
        let before = self.skipped_bits() + bits * rows_before;
        // Rows and frames of single bits follow each other without a gap.
        let (start, end) = (before / 8, (before + bits * rows as u64).div_ceil(8));
        if self.swapped && self.description.allocated == 8 {
            return self.fetch_pairs(start, end, into);
        }
        let at = into.len();
        resize(into, at + (end - start) as usize)?;
        match &self.stored {
            Stored::File(data, offset, _) => data.read_at(&mut into[at..], offset + start).map_err(fault),
            Stored::Memory(bytes) => {
                let found = bytes.get(start as usize..end as usize).ok_or_else(truncated_pixels)?;
                into[at..].copy_from_slice(found);
                Ok(())
            }
        }
    }

    /// Reads bytes of which each pair is a word of the other byte order.
    fn fetch_pairs(&self, start: u64, end: u64, into: &mut Vec<u8>) -> Result<(), CodecError> {
        let Stored::File(data, offset, _) = &self.stored else { return Err(truncated_pixels()) };
        let first = start / 2 * 2;
        let mut pairs = Vec::new();
        resize(&mut pairs, (end.next_multiple_of(2) - first) as usize)?;
        data.read_at(&mut pairs, offset + first).map_err(fault)?;
        swap_bytes(&mut pairs, 2);
        into.extend_from_slice(&pairs[(start - first) as usize..(end - first) as usize]);
        Ok(())
    }

    /// Converts stored samples, as bits or whole bytes, with the planes one after the other.
    fn convert(&self, stored: &[u8], first: usize, into: &mut [u8]) {
        let description = self.description;
        match (description.allocated, self.photometric) {
            _ if description.is_packed() => {
                let skipped = ((self.skipped_bits() + self.row_bits() * first as u64) % 8) as usize;
                unpack(stored, skipped, description.allocated, into, description.sample_bytes());
            }
            (_, Photometric::Ybr422) => {
                // Two lumas are followed by the chroma of both. A row of an odd width ends with the
                // chroma of one.
                let pairs = stored.chunks(4).zip(into.chunks_mut(6));
                for (pair, pixels) in pairs {
                    let chroma = &pair[pair.len() - 2..];
                    for (luma, pixel) in pair[..pair.len() - 2].iter().zip(pixels.chunks_exact_mut(3)) {
                        pixel.copy_from_slice(&[*luma, chroma[0], chroma[1]]);
                    }
                }
            }
            (8, _) => self.arrange::<1>(stored, into),
            (16, _) => self.arrange::<2>(stored, into),
            (32, _) => self.arrange::<4>(stored, into),
            _ => self.arrange::<8>(stored, into),
        }
        if matches!(self.photometric, Photometric::Ybr | Photometric::Ybr422) {
            into.as_chunks_mut().0.iter_mut().for_each(to_rgb);
        }
    }

    /// Puts the samples of a pixel together, in the machine's order and without unused bits.
    fn arrange<const N: usize>(&self, stored: &[u8], into: &mut [u8]) {
        let (description, planes) = (self.description, self.planes());
        let (stored, into) = (stored.as_chunks::<N>().0, into.as_chunks_mut::<N>().0);
        if planes == 1 {
            into.copy_from_slice(&stored[..into.len()]);
        } else {
            for (plane, samples) in stored.chunks_exact(stored.len() / planes).enumerate() {
                for (to, sample) in into.iter_mut().skip(plane).step_by(planes).zip(samples) {
                    *to = *sample;
                }
            }
        }
        if N > 1 && self.swapped != cfg!(target_endian = "big") {
            into.iter_mut().for_each(|sample| sample.reverse());
        }
        if description.stored < description.allocated {
            let above = description.allocated - description.shift - description.stored;
            into.iter_mut().for_each(|sample| extract(sample, description.signed, above, description.shift));
        }
    }
}

/// Returns the bytes of frames of so many bits.
fn bytes_of(bits: u64, frames: u64) -> Option<u64> {
    Some(bits.checked_mul(frames)?.div_ceil(8))
}

/// Unpacks samples of fewer than 16 bits, the lowest bit first, that begin after `skipped` bits.
fn unpack(packed: &[u8], skipped: usize, bits: u32, into: &mut [u8], bytes: usize) {
    let starts = (skipped..).step_by(bits as usize);
    for (start, sample) in starts.zip(into.chunks_exact_mut(bytes)) {
        let [a, b, c] = [0, 1, 2].map(|at| packed.get(start / 8 + at).copied().unwrap_or(0));
        let window = u32::from_le_bytes([a, b, c, 0]);
        let value = (window >> (start % 8) & ((1 << bits) - 1)) as u16;
        match sample {
            [byte] => *byte = value as u8,
            _ => sample.copy_from_slice(&value.to_ne_bytes()),
        }
    }
}

/// Removes the `above` highest and the `below` lowest bits of a sample.
#[inline(always)]
fn extract<const N: usize>(sample: &mut [u8; N], signed: bool, above: u32, below: u32) {
    macro_rules! of {
        ($unsigned:ty) => {
            if let Ok(bytes) = <[u8; size_of::<$unsigned>()]>::try_from(&sample[..]) {
                let value = <$unsigned>::from_ne_bytes(bytes) << above;
                let value = if signed {
                    (value.cast_signed() >> (above + below)).cast_unsigned()
                } else {
                    value >> (above + below)
                };
                sample.copy_from_slice(&value.to_ne_bytes());
            }
        };
    }
    match N {
        1 => of!(u8),
        2 => of!(u16),
        _ => of!(u32),
    }
}

/// Converts a pixel of Y, Cb and Cr (PS3.3, C.7.6.3.1.2; ITU-R BT.601 over the full range).
fn to_rgb(pixel: &mut [u8; 3]) {
    // The factors are those of JFIF, times 2 to the power of 16.
    let [y, cb, cr] = pixel.map(i32::from);
    let (cb, cr) = (cb - 128, cr - 128);
    let sums = [91_881 * cr, -22_554 * cb - 46_802 * cr, 116_130 * cb];
    *pixel = sums.map(|sum| (((y << 16) + sum + 32_768) >> 16).clamp(0, 255) as u8);
}

impl Rows for Frame<'_> {
    type Tool = Vec<u8>;

    fn at_once(&self) -> usize {
        at_once(self.description)
    }

    fn tool_bytes(&self) -> u64 {
        rows_bytes(self.description)
    }

    fn read(&self, tool: &mut Vec<u8>, first: usize, into: &mut [u8]) -> Result<(), CodecError> {
        let description = self.description;
        let rows = into.len() / (description.width as usize * description.pixel_bytes());
        tool.clear();
        for plane in 0..self.planes() {
            self.fetch(plane, first, rows, tool)?;
        }
        let Some(palette) = &description.palette else {
            self.convert(tool, first, into);
            return Ok(());
        };
        let mut numbers = vec![0; rows * description.width as usize * description.sample_bytes()];
        self.convert(tool, first, &mut numbers);
        let colours = into.chunks_exact_mut(description.pixel_bytes());
        for (number, colour) in numbers.chunks_exact(description.sample_bytes()).zip(colours) {
            palette.put(value(number, description.signed), colour);
        }
        Ok(())
    }
}

/// Returns the value of a sample of one or two bytes.
fn value(sample: &[u8], signed: bool) -> i32 {
    match (sample, signed) {
        ([byte], false) => (*byte).into(),
        ([byte], true) => byte.cast_signed().into(),
        ([a, b], false) => u16::from_ne_bytes([*a, *b]).into(),
        ([a, b], true) => i16::from_ne_bytes([*a, *b]).into(),
        _ => 0,
    }
}

/// Returns how many rows are read at a time.
pub(super) fn at_once(description: &Description) -> usize {
    (BAND / (description.width as usize * description.pixel_bytes())).max(1)
}

/// Returns the most bytes of heap that reading rows takes.
///
/// These are the rows as they are stored, or the numbers of their colours too.
pub(super) fn rows_bytes(description: &Description) -> u64 {
    let pixels = at_once(description) as u64 * u64::from(description.width);
    pixels * (2 * description.samples * description.sample_bytes()) as u64
}

/// Returns the bytes of a frame that is not compressed, without shared or packed samples.
pub(super) fn frame_bytes(description: &Description) -> u64 {
    description.frame_samples() * description.sample_bytes() as u64
}

/// Returns the most bytes of heap for decompressing a frame, without its data before and after.
pub(super) fn decoder_bytes(description: &Description, compressed: u64) -> u64 {
    let samples = description.frame_samples();
    match description.compression {
        Compression::None | Compression::Rle => 0,
        Compression::Jpeg | Compression::JpegLs => 3 * samples,
        // The stream may be copied, to find out where its packets end.
        Compression::Jpeg2000 | Compression::HighThroughput => jpeg2000::most_bytes(samples) + compressed,
    }
}

/// Puts values into samples of so many bytes, the low one first.
fn put(values: &[u16], bytes: usize, into: &mut [u8]) -> Result<(), CodecError> {
    match bytes {
        1 if values.iter().any(|&value| value > 255) => {
            return Err(malformed("a JPEG of more bits than the file that contains it states"));
        }
        1 => into.iter_mut().zip(values).for_each(|(to, &value)| *to = value as u8),
        _ => {
            for (to, value) in into.chunks_exact_mut(bytes).zip(values) {
                to[..2].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// Refuses samples with bits above the stored ones, other than those of their sign.
///
/// Without these bits they would be other values.
fn check_bits(description: &Description, pixels: &[u8]) -> Result<(), CodecError> {
    let stored = description.stored + description.shift;
    let bytes = description.sample_bytes();
    if stored >= 8 * bytes as u32 || bytes > 2 {
        return Ok(());
    }
    let above = u16::MAX << stored & (u16::MAX >> (16 - 8 * bytes));
    let sign = 1 << (stored - 1);
    let fit = pixels.chunks_exact(bytes).all(|sample| {
        let value = match *sample {
            [low, high] => u16::from_le_bytes([low, high]),
            _ => sample[0].into(),
        };
        value & above == 0 || value & (above | sign) == above | sign
    });
    if fit {
        return Ok(());
    }
    Err(malformed(format!(
        "its compressed samples have more than the {} bits that are stored",
        description.stored
    )))
}

/// Turns an error of a damaged stream into one of the file.
fn of_stream(error: CodecError) -> CodecError {
    match error {
        CodecError::Malformed { reason, .. } => {
            malformed(format!("its compressed pixels are damaged: {reason}"))
        }
        other => other,
    }
}
