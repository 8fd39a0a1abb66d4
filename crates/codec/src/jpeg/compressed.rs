//! JPEGs that a GPU decodes and encodes: which ones, and how its streams become output files.
//!
//! A GPU only decodes files of common kinds, and only undamaged ones: nvJPEG has been seen to accept damaged data without an error and to
//! leave its output buffer unchanged, so the GPU looks for damage first. Everything else is left to the CPU, and so are all error messages.
//! histeqd's own coder on GPUs takes more kinds than nvJPEG, and finds damage itself.

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::coding::{BaselineOutput, BaselinePicture, BaselineScan};
use super::markers::{
    APP0, APP15, COM, DHT, DQT, DRI, EOI, Factors, FrameHeader, SOF0, SOI, SOS, Segment, next_marker,
    segment, write_segment,
};
use super::{Native, encode_malformed};
use crate::{CodecError, JpegQuality};
use equalize::{Depth, Layout, Pixel};

/// A coder of JPEGs on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JpegCoder {
    /// histeqd's own, whose files have the bytes of the CPU.
    Histeqd,
    /// NVIDIA's library.
    NvJpeg,
}

/// The chroma subsampling of a JPEG, of the kinds that nvJPEG writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampling {
    /// No chroma.
    Gray,
    /// 4:4:4: one sample per pixel.
    Full,
    /// 4:2:2: one sample for two pixels, left and right.
    HalfWidth,
    /// 4:4:0: one sample for two pixels, top and bottom.
    HalfHeight,
    /// 4:2:0: one sample for a square of four pixels.
    Quarter,
}

impl Sampling {
    /// Returns the number of planes.
    pub const fn planes(self) -> usize {
        if matches!(self, Self::Gray) { 1 } else { 3 }
    }
}

/// A compressed JPEG at the start of a slot, for a GPU to decode, equalize and encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedJpeg {
    /// Bytes of the file.
    pub bytes: u64,
    /// The layout of its luma.
    pub layout: Layout,
    /// Its chroma subsampling.
    pub sampling: Sampling,
    /// The quantization of the output.
    pub quality: JpegQuality,
}

impl CompressedJpeg {
    /// Returns the bytes of its slot: room for the file, and for nearly every output.
    ///
    /// (More contrast takes more bits. A picture with an output that does not fit is left to the
    /// CPU.)
    pub const fn slot_bytes(&self) -> u64 {
        2 * self.bytes + self.layout.pixels() / 8 + (64 << 10)
    }
}

/// The most segments of Huffman codes: more than a baseline JPEG can use.
const MAX_CODES: usize = 64;

/// The 8-bit quantization tables by their numbers.
type Quantization<'a> = [Option<&'a [u8]>; 4];

/// The headers and tables of a baseline JPEG with one scan.
pub(super) struct Header<'a> {
    frame: FrameHeader,
    quantization: Quantization<'a>,
    /// MCUs of a restart interval; 0 if there are no restarts.
    interval: u16,
    /// The contents of the DHT segments.
    codes: Vec<&'a [u8]>,
    /// The content of the scan header.
    scan: &'a [u8],
    /// The entropy-coded data and the rest of the file.
    data: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the segments before the first scan. `None` unless the picture is one for a GPU: baseline, with at most one restart interval,
    /// and with 8-bit quantization tables.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (mut frame, mut quantization, mut codes, mut interval) = (None, [None; 4], Vec::new(), None);
        let mut rest = bytes.get(2..)?;
        loop {
            let (marker, behind) = next_marker(rest).ok()?;
            let (segment, behind) = segment(marker, behind).ok()?;
            rest = behind;
            match marker {
                SOS => {
                    let scan = segment.content;
                    let interval = interval.unwrap_or_default();
                    return Some(Self { frame: frame?, quantization, interval, codes, scan, data: behind });
                }
                SOF0 => frame = Some(FrameHeader::parse(segment).ok()?),
                DQT => take_tables(segment.content, &mut quantization)?,
                DHT if codes.len() < MAX_CODES => codes.push(segment.content),
                DRI => {
                    let stated = u16::from_be_bytes(segment.content.try_into().ok()?);
                    if interval.replace(stated).is_some_and(|before| before != stated) {
                        return None;
                    }
                }
                // Another kind of frame, or a marker that does not belong here.
                // Or more Huffman codes than there is a use for.
                0xc1..=0xcf | 0x01 | 0xd0..=0xd9 => return None,
                _ => {}
            }
        }
    }

    /// Describes the picture. `None` if the coder could not write it back with its sampling, tables and restarts.
    pub(super) fn describe(
        &self,
        bytes: usize,
        quality: JpegQuality,
        coder: JpegCoder,
    ) -> Option<CompressedJpeg> {
        let sampling = self.sampling()?;
        let components = &self.frame.components;
        let tables = components.iter().map(|component| *self.quantization.get(component.table)?);
        let tables: Vec<&[u8]> = tables.collect::<Option<_>>()?;
        let is_kept = match coder {
            JpegCoder::Histeqd => true,
            JpegCoder::NvJpeg => self.interval == 0 && self.is_kept_by_nvjpeg(&tables, quality),
        };
        if !is_kept || tables.iter().any(|table| table.contains(&0)) {
            return None;
        }
        let FrameHeader { width, height, .. } = self.frame;
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        Some(CompressedJpeg { bytes: bytes as u64, layout, sampling, quality })
    }

    /// Returns whether nvJPEG, which writes one table for both chroma components and may go by the usual table numbers, writes these tables
    /// of the components.
    fn is_kept_by_nvjpeg(&self, tables: &[&[u8]], quality: JpegQuality) -> bool {
        let components = self.frame.components.iter();
        let are_usual = components.zip([0, 1, 1]).all(|(component, number)| component.table == number);
        let is_shared = tables.iter().skip(2).all(|red| *red == tables[1]);
        is_shared && (are_usual || quality != JpegQuality::Keep)
    }

    fn sampling(&self) -> Option<Sampling> {
        const FULL: Factors = Factors::FULL;
        match self.frame.factors()[..] {
            [FULL] => Some(Sampling::Gray),
            [luma, FULL, FULL] => match (luma.horizontal, luma.vertical) {
                (1, 1) => Some(Sampling::Full),
                (2, 1) => Some(Sampling::HalfWidth),
                (1, 2) => Some(Sampling::HalfHeight),
                (2, 2) => Some(Sampling::Quarter),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the scan, if it has all components and is the only one.
    fn scan(&self) -> Option<BaselineScan<'a>> {
        let [count, ref selectors @ .., 0, 63, 0] = *self.scan else { return None };
        let (selectors, rest) = selectors.as_chunks::<2>();
        let components = &self.frame.components;
        if usize::from(count) != components.len() || selectors.len() != components.len() || !rest.is_empty() {
            return None;
        }
        let mut blocks = Vec::new();
        for (component, &[id, codes]) in components.iter().zip(selectors) {
            if component.id != id {
                return None;
            }
            // The blocks of this component in an MCU (T.81, A.2).
            let count = usize::from(component.factors.horizontal * component.factors.vertical);
            blocks.extend(std::iter::repeat_n(codes, count));
        }
        let (across, down) = self.frame.mcus();
        BaselineScan::new(&self.codes, &blocks, across as u64 * down as u64, self.data)
    }
}

/// Takes the tables in a segment. `None` unless all of them are of 8 bits.
fn take_tables<'a>(mut content: &'a [u8], tables: &mut Quantization<'a>) -> Option<()> {
    while let Some((&number @ 0..4, behind)) = content.split_first() {
        let (table, behind) = behind.split_at_checked(64)?;
        tables[usize::from(number)] = Some(table);
        content = behind;
    }
    content.is_empty().then_some(())
}

impl<'a> BaselineScan<'a> {
    /// Finds the scan of a file. `None` if the file is not of the kinds of [`CompressedJpeg`] for nvJPEG, or is damaged; the entropy-coded
    /// data themselves are only checked by [`BaselineScan::is_whole`].
    pub fn read(file: &'a [u8]) -> Option<Self> {
        let header = Header::read(file).filter(|header| header.interval == 0)?;
        header.sampling()?;
        header.scan()
    }
}

/// Returns whether the Huffman codes of a [`CompressedJpeg`] are valid, and its entropy-coded data
/// have the parts and the end that the coder needs, as far as can be seen without reading codes.
pub(super) fn has_scan(file: &[u8], quality: JpegQuality, coder: JpegCoder) -> bool {
    match coder {
        JpegCoder::Histeqd => BaselinePicture::read(file)
            .is_some_and(|picture| BaselineOutput::new(&picture, quality).is_some()),
        JpegCoder::NvJpeg => BaselineScan::read(file).is_some(),
    }
}

/// Writes the stream that a GPU encoded, and returns the bytes written.
///
/// The source's application data and comments replace the GPU's.
pub(super) fn write(
    native: &Native,
    layout: &Layout,
    stream: &[u8],
    out: &mut File,
) -> Result<u64, CodecError> {
    let (tables, scan) = take_apart(stream)?;
    if !tables.iter().any(|table| is_frame_of(native, layout, *table)) {
        return Err(encode_malformed("it is another picture"));
    }
    if !scan.ends_with(&[0xff, EOI]) {
        return Err(encode_malformed("it does not end"));
    }
    let mut head = vec![0xff, SOI];
    if let Some(density) = native.density {
        write_segment(&mut head, APP0, &density.jfif());
    }
    for (marker, content) in &native.kept {
        write_segment(&mut head, *marker, content);
    }
    for table in tables {
        write_segment(&mut head, table.marker, table.content);
    }
    out.write_all(&head)?;
    out.write_all(scan)?;
    Ok((head.len() + scan.len()) as u64)
}

/// Returns whether a segment is the frame header of a baseline picture of this size and sampling.
fn is_frame_of(native: &Native, layout: &Layout, segment: Segment<'_>) -> bool {
    segment.marker == SOF0
        && FrameHeader::parse(segment).is_ok_and(|frame| {
            (frame.width, frame.height) == (layout.width, layout.height)
                && frame.factors() == native.components
        })
}

/// Splits a stream into its tables and frame header, and everything from the SOS marker on.
///
/// Application data and comments are left out.
fn take_apart(stream: &[u8]) -> Result<(Vec<Segment<'_>>, &[u8]), CodecError> {
    let mut tables = Vec::new();
    let mut rest = stream.get(2..).ok_or_else(|| encode_malformed("it is empty"))?;
    loop {
        let (marker, behind) = next_marker(rest).map_err(|error| encode_malformed(error.to_string()))?;
        if marker == SOS {
            return Ok((tables, rest));
        }
        let (segment, behind) =
            segment(marker, behind).map_err(|error| encode_malformed(error.to_string()))?;
        rest = behind;
        if !matches!(marker, APP0..=APP15 | COM) {
            tables.push(segment);
        }
    }
}

#[cfg(test)]
mod tests;
