//! JPEGs that a GPU decodes and encodes: which ones, and how its streams become output files.
//!
//! A GPU only decodes undamaged files of common kinds. Everything else is left to the CPU, and so
//! are all error messages.

use std::fs::File;
use std::io::Write;

use super::coding::{BaselineOutput, BaselinePicture};
use super::markers::{
    APP0, APP15, COM, DHT, DQT, DRI, EOI, Factors, FrameHeader, SOF0, SOI, SOS, Segment, next_marker,
    segment, write_segment,
};
use super::{Native, encode_malformed};
use crate::coding::compressed::CompressedJpeg;
use crate::{CodecError, JpegQuality};
use equalize::{Depth, Layout, Pixel};

/// The 8-bit quantization tables by their numbers.
type Quantization<'a> = [Option<&'a [u8]>; 4];

/// The frame header and the quantization tables of a baseline JPEG.
pub(super) struct Header<'a> {
    frame: FrameHeader,
    quantization: Quantization<'a>,
}

impl<'a> Header<'a> {
    /// Reads the segments before the first scan.
    ///
    /// `None` unless the picture is one for a GPU: baseline, with at most one restart interval, and
    /// with 8-bit quantization tables.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (mut frame, mut quantization, mut interval) = (None, [None; 4], None);
        let mut rest = bytes.get(2..)?;
        loop {
            let (marker, behind) = next_marker(rest).ok()?;
            let (segment, behind) = segment(marker, behind).ok()?;
            rest = behind;
            match marker {
                SOS => return Some(Self { frame: frame?, quantization }),
                SOF0 => frame = Some(FrameHeader::parse(segment).ok()?),
                DQT => take_tables(segment.content, &mut quantization)?,
                DHT => {}
                DRI => {
                    let stated = u16::from_be_bytes(segment.content.try_into().ok()?);
                    if interval.replace(stated).is_some_and(|before| before != stated) {
                        return None;
                    }
                }
                // Another kind of frame, or a marker that does not belong here.
                0xc1..=0xcf | 0x01 | 0xd0..=0xd9 => return None,
                _ => {}
            }
        }
    }

    /// Describes the picture. `None` if a GPU could not write it back with its sampling and tables.
    pub(super) fn describe(
        &self,
        bytes: usize,
        pixel: Pixel,
        quality: JpegQuality,
    ) -> Option<CompressedJpeg> {
        let components = &self.frame.components;
        let tables = components.iter().map(|component| *self.quantization.get(component.table)?);
        let tables: Vec<&[u8]> = tables.collect::<Option<_>>()?;
        let is_usual =
            matches!(self.frame.factors()[..], [Factors::FULL] | [_, Factors::FULL, Factors::FULL]);
        if !is_usual || tables.iter().any(|table| table.contains(&0)) {
            return None;
        }
        let FrameHeader { width, height, .. } = self.frame;
        let layout = Layout { width, height, pixel, depth: Depth::Eight };
        Some(CompressedJpeg { bytes: bytes as u64, layout, quality })
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

/// Returns whether a GPU is likely to decode the scan of a [`CompressedJpeg`].
///
/// The Huffman codes are then valid, and the entropy-coded data have the parts and the end that a
/// GPU needs, as far as can be seen without reading codes.
pub(super) fn has_scan(file: &[u8], quality: JpegQuality) -> bool {
    BaselinePicture::read(file).is_some_and(|picture| BaselineOutput::new(&picture, quality).is_some())
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
