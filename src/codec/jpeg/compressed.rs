//! JPEGs that a GPU decodes and encodes: which ones, and how its streams become output files.
//!
//! A GPU only decodes files of common kinds, and only undamaged ones: nvJPEG has been seen to accept damaged data without an error and to
//! leave its output buffer unchanged, so the GPU looks for damage first. Everything else is left to the CPU, and so are all error messages.

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::coding::BaselineScan;
use super::encode::encode_malformed;
use super::markers::{
    APP0, APP15, COM, Component, DHT, DQT, DRI, EOI, SOF0, SOI, SOS, Segment, next_marker, segment,
};
use super::{Density, Native, largest_factors};
use crate::codec::{CodecError, JpegQuality};
use crate::picture::{Depth, Layout, Pixel};

/// The chroma subsampling of a JPEG, of the kinds that nvJPEG writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampling {
    /// No chroma.
    Gray,
    /// 4:4:4, one sample per pixel.
    Full,
    /// 4:2:2, one sample for two pixels side by side.
    HalfWidth,
    /// 4:4:0, one sample for two pixels one above the other.
    HalfHeight,
    /// 4:2:0, one sample for a square of four pixels.
    Quarter,
}

impl Sampling {
    /// Returns the number of planes.
    pub const fn planes(self) -> usize {
        if matches!(self, Self::Gray) { 1 } else { 3 }
    }
}

/// A compressed JPEG at the start of a slot, which a GPU can decode, equalize and encode by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedJpeg {
    /// Bytes of the file.
    pub bytes: u64,
    /// The layout of its luma.
    pub layout: Layout,
    /// Its chroma subsampling.
    pub sampling: Sampling,
    /// How the output is quantized.
    pub quality: JpegQuality,
}

impl CompressedJpeg {
    /// Returns the bytes of slot that it takes: room for the file, and for nearly every output. (More contrast takes more bits. A picture
    /// whose output does not fit is done by the CPU.)
    pub const fn slot_bytes(&self) -> u64 {
        2 * self.bytes + self.layout.pixels() / 8 + (64 << 10)
    }
}

/// A component in the frame header.
struct Part {
    id: u8,
    factors: Component,
    quantization: usize,
}

/// The headers and tables of a baseline JPEG with one scan.
pub(super) struct Header<'a> {
    width: u32,
    height: u32,
    parts: Vec<Part>,
    quantization: [Option<&'a [u8]>; 4],
    /// The contents of the DHT segments.
    codes: Vec<&'a [u8]>,
    /// The content of the scan header.
    scan: &'a [u8],
    /// The entropy-coded data and what follows.
    data: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the segments before the first scan. `None` unless the picture is one for a GPU: baseline, without restart markers, and with
    /// 8-bit quantization tables.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut header = Self {
            width: 0,
            height: 0,
            parts: Vec::new(),
            quantization: [None; 4],
            codes: Vec::new(),
            scan: &[],
            data: &[],
        };
        let mut rest = bytes.get(2..)?;
        loop {
            let (marker, behind) = next_marker(rest).ok()?;
            let (segment, behind) = segment(marker, behind).ok()?;
            rest = behind;
            match marker {
                SOS => {
                    (header.scan, header.data) = (segment.content, behind);
                    return Some(header);
                }
                SOF0 => header.frame(segment.content)?,
                DQT => header.quantization_tables(segment.content)?,
                DHT => header.codes.push(segment.content),
                DRI if segment.content == [0, 0] => {}
                // Another kind of frame, restart markers, or a marker that does not belong here.
                0xc1..=0xcf | DRI | 0x01 | 0xd0..=0xd9 => return None,
                _ => {}
            }
        }
    }

    fn frame(&mut self, content: &[u8]) -> Option<()> {
        let &[8, h0, h1, w0, w1, _, ref parts @ ..] = content else { return None };
        self.height = u16::from_be_bytes([h0, h1]).into();
        self.width = u16::from_be_bytes([w0, w1]).into();
        let part = |&[id, factors, table]: &[u8; 3]| Part {
            id,
            factors: Component { horizontal: factors >> 4, vertical: factors & 15 },
            quantization: usize::from(table),
        };
        self.parts = parts.as_chunks().0.iter().map(part).collect();
        Some(())
    }

    fn quantization_tables(&mut self, mut content: &'a [u8]) -> Option<()> {
        while let Some((&number @ 0..4, behind)) = content.split_first() {
            let (table, behind) = behind.split_at_checked(64)?;
            self.quantization[usize::from(number)] = Some(table);
            content = behind;
        }
        content.is_empty().then_some(())
    }

    /// Describes the picture. `None` if a GPU could not write it back with its sampling and tables.
    pub(super) fn describe(&self, bytes: usize, quality: JpegQuality) -> Option<CompressedJpeg> {
        let sampling = self.sampling()?;
        let table = |part: &Part| *self.quantization.get(part.quantization)?;
        let tables: Vec<&[u8]> = self.parts.iter().map(table).collect::<Option<_>>()?;
        // nvJPEG writes one table for both chroma components, and may go by the usual table numbers.
        let usual = self.parts.iter().zip([0, 1, 1]).all(|(part, number)| part.quantization == number);
        let keeps = usual || quality != JpegQuality::Keep;
        let same = tables.iter().skip(2).all(|red| *red == tables[1]);
        if !keeps || !same || tables.iter().any(|table| table.contains(&0)) {
            return None;
        }
        let (width, height) = (self.width, self.height);
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        Some(CompressedJpeg { bytes: bytes as u64, layout, sampling, quality })
    }

    fn sampling(&self) -> Option<Sampling> {
        match self.factors()[..] {
            [Component::FULL] => Some(Sampling::Gray),
            [Component { horizontal, vertical }, Component::FULL, Component::FULL] => {
                match (horizontal, vertical) {
                    (1, 1) => Some(Sampling::Full),
                    (2, 1) => Some(Sampling::HalfWidth),
                    (1, 2) => Some(Sampling::HalfHeight),
                    (2, 2) => Some(Sampling::Quarter),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the scan, if it has all components and is the only one.
    fn scan(&self) -> Option<BaselineScan<'a>> {
        let [count, ref selectors @ .., 0, 63, 0] = *self.scan else { return None };
        let (selectors, rest) = selectors.as_chunks::<2>();
        if usize::from(count) != self.parts.len() || selectors.len() != self.parts.len() || !rest.is_empty() {
            return None;
        }
        let mut blocks = Vec::new();
        for ((part, factors), &[id, codes]) in self.parts.iter().zip(self.factors()).zip(selectors) {
            if part.id != id {
                return None;
            }
            // The blocks of this component in an MCU (T.81, A.2).
            let count = usize::from(factors.horizontal * factors.vertical);
            blocks.extend(std::iter::repeat_n(codes, count));
        }
        BaselineScan::new(&self.codes, &blocks, self.mcus(), self.data)
    }

    fn factors(&self) -> Vec<Component> {
        self.parts.iter().map(|part| part.factors).collect()
    }

    fn mcus(&self) -> u64 {
        let (horizontal, vertical) = largest_factors(&self.factors());
        let across = self.width.div_ceil(8 * u32::from(horizontal));
        let down = self.height.div_ceil(8 * u32::from(vertical));
        u64::from(across) * u64::from(down)
    }
}

impl<'a> BaselineScan<'a> {
    /// Finds the scan of a file. `None` if the file is not of a [`CompressedJpeg`]'s kind, or is damaged; the entropy-coded data themselves
    /// are only checked by [`BaselineScan::is_whole`].
    pub fn read(file: &'a [u8]) -> Option<Self> {
        let header = Header::read(file)?;
        header.sampling()?;
        header.scan()
    }
}

/// Writes the stream that a GPU encoded, with the source's application data and comments in place of the GPU's, and returns the bytes
/// written.
pub(super) fn write(
    native: &Native,
    layout: &Layout,
    stream: &[u8],
    out: &mut File,
) -> Result<u64, CodecError> {
    let (tables, scan) = take_apart(stream)?;
    if !tables.iter().any(|table| table.marker == SOF0 && is_frame_of(native, layout, table.content)) {
        return Err(encode_malformed("it is another picture"));
    }
    if !scan.ends_with(&[0xff, EOI]) {
        return Err(encode_malformed("it does not end"));
    }
    let mut head = vec![0xff, SOI];
    if let Some(density) = native.density {
        put(&mut head, Segment { marker: APP0, content: &jfif(density) });
    }
    for (marker, content) in &native.kept {
        put(&mut head, Segment { marker: *marker, content });
    }
    tables.into_iter().for_each(|table| put(&mut head, table));
    out.write_all(&head)?;
    out.write_all(scan)?;
    Ok((head.len() + scan.len()) as u64)
}

/// Returns whether a frame header has this size and sampling.
fn is_frame_of(native: &Native, layout: &Layout, frame: &[u8]) -> bool {
    let &[8, h0, h1, w0, w1, _, ref parts @ ..] = frame else { return false };
    let size = (u16::from_be_bytes([w0, w1]).into(), u16::from_be_bytes([h0, h1]).into());
    let factors = |part: &[u8; 3]| Component { horizontal: part[1] >> 4, vertical: part[1] & 15 };
    size == (layout.width, layout.height)
        && parts.as_chunks().0.iter().map(factors).eq(native.components.iter().copied())
}

/// Splits a stream into its tables and frame header, without application data and comments, and everything from the SOS marker on.
fn take_apart(stream: &[u8]) -> Result<(Vec<Segment<'_>>, &[u8]), CodecError> {
    let nonsense = |error: CodecError| encode_malformed(error.to_string());
    let mut tables = Vec::new();
    let mut rest = stream.get(2..).ok_or_else(|| encode_malformed("it is empty"))?;
    loop {
        let (marker, behind) = next_marker(rest).map_err(nonsense)?;
        if marker == SOS {
            return Ok((tables, rest));
        }
        let (segment, behind) = segment(marker, behind).map_err(nonsense)?;
        rest = behind;
        if !matches!(marker, APP0..=APP15 | COM) {
            tables.push(segment);
        }
    }
}

fn put(head: &mut Vec<u8>, Segment { marker, content }: Segment<'_>) {
    let length = u16::try_from(content.len() + 2).expect("it came from a segment");
    head.extend([0xff, marker]);
    head.extend(length.to_be_bytes());
    head.extend(content);
}

/// Returns the content of a JFIF segment without a thumbnail, version 1.01 like libjpeg's.
fn jfif(Density { unit, x, y }: Density) -> [u8; 14] {
    let ([x0, x1], [y0, y1]) = (x.to_be_bytes(), y.to_be_bytes());
    [b'J', b'F', b'I', b'F', 0, 1, 1, unit, x0, x1, y0, y1, 0, 0]
}

#[cfg(test)]
mod tests;
