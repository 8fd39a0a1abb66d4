//! PFM: PNM's form for floats of 32 bits.
//!
//! Source: <https://www.pauldebevec.com/Research/HDR/PFM/>,
//! <https://netpbm.sourceforge.net/doc/pfm.html>. Rows are stored from bottom to top. The sign of
//! the scale is the byte order, and the scale comes back as it was written.

use std::fs::File;
use std::io::{ErrorKind, Write};

use super::check_end;
use crate::io::budget::Budget;
use crate::io::cores::Cores;
use crate::io::reader::Reader;
use crate::parts::opening::{self, Found, Opening};
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::mapped::{self, BAND, Form, Kind, Mapped, NoData, Rows};
use crate::samples::size::Size;
use crate::samples::{pixels_of, swap_bytes};
use crate::{CodecError, Decoded, Format, Limits, Metadata, picture};

/// The part of a PFM's header that is written back.
#[derive(Clone, Debug)]
pub(super) struct Native {
    scale: String,
}

impl picture::Native for Native {}

/// An opened PFM.
#[derive(Debug)]
pub(super) struct Source<'a> {
    file: Reader<'a>,
    header: Header,
    /// The offset of the samples.
    start: u64,
    /// The no-data value.
    no_data: Option<f64>,
}

/// The fields of a header.
#[derive(Clone, Debug, PartialEq)]
struct Header {
    colours: usize,
    width: u32,
    height: u32,
    scale: String,
    /// Bytes of the header, including the white space byte that ends it.
    length: usize,
}

impl Header {
    fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// Parses the header at the front of `bytes`.
    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let truncated = "its header is truncated or longer than 16 KiB";
        let (mut words, mut at) = ([""; 4], 0);
        for word in &mut words {
            at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let length = bytes[at..].iter().position(u8::is_ascii_whitespace).ok_or(truncated)?;
            *word = str::from_utf8(&bytes[at..at + length]).map_err(|_| "its header is not text")?;
            at += length;
        }
        let [magic, width, height, scale] = words;
        let [width, height] = [width, height].map(|side| side.parse().ok().filter(|&n: &u32| n > 0));
        let (width, height) = width.zip(height).ok_or("a width or height that is not 1 to 4294967295")?;
        if !scale.parse().is_ok_and(|scale: f64| scale != 0.0 && scale.is_finite()) {
            return Err("a scale that is 0 or not a number");
        }
        let colours = if magic == "PF" { 3 } else { 1 };
        Ok(Self { colours, width, height, scale: scale.to_owned(), length: at + 1 })
    }

    fn row_bytes(&self) -> u64 {
        u64::from(self.width) * (self.colours * Kind::Float32.bytes()) as u64
    }
}

/// Returns whether a PNM is a PFM.
pub(super) fn is_pfm(head: &[u8]) -> bool {
    matches!(head, [b'P', b'F' | b'f', ..])
}

fn is_big_endian(scale: &str) -> bool {
    !scale.starts_with('-')
}

/// Opens a file.
pub(super) fn open<'a, 'o>(file: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let Opening { file, buffer, limits, budget, target, .. } = file;
    let source = Source::open(file, buffer, limits, budget, target.no_data)?;
    Ok(Found::Header(opening::Header::of(source)))
}

impl<'a> Source<'a> {
    /// Reads the header from `buffer`, which holds the file's head.
    pub(super) fn open(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
        budget: &mut dyn Budget,
        no_data: Option<f64>,
    ) -> Result<Self, CodecError> {
        let header = Header::parse(buffer).map_err(malformed)?;
        let written_on_windows = buffer[header.length - 1..].starts_with(b"\r\n");
        let file = Reader::new(file, buffer, limits, budget)?;
        let mut start = header.length as u64;
        let raster = header.row_bytes().saturating_mul(header.height.into());
        // Only the length of the file distinguishes a line end of two bytes from one before a
        // sample that begins with byte 10.
        start += u64::from(written_on_windows && file.file_bytes().checked_sub(raster) == Some(start + 1));
        Ok(Self { file, header, start, no_data })
    }

    /// Returns the form of the samples.
    pub(super) fn form(&self) -> Form {
        let colours = self.header.colours;
        Form {
            colours,
            no_data: self.no_data.map(|value| NoData::value(f64::from(value as f32))),
            ..Form::of(Kind::Float32)
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<(), CodecError> {
        self.file.read_at(into, offset).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => malformed("truncated: samples are missing"),
            _ => error.into(),
        })
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let form = self.form();
        Facts { mapped: Some(form), ..Facts::of(form.layout(self.header.size())) }
    }

    fn needs(&self) -> Needs {
        Needs::of_heap(mapped::heap_bytes(self, self.header.row_bytes() as usize))
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let size = self.header.size();
        let end = self.start + self.header.row_bytes() * u64::from(size.height);
        let mut rest = vec![0; self.file.file_bytes().saturating_sub(end).min(64) as usize];
        self.read_at(&mut rest, end)?;
        check_end(&rest)?;
        let (layout, mapped) = mapped::decode(&*self, self.form(), size, wanted.purpose, slot, wanted.cores)?;
        let native = Box::new(Native { scale: self.header.scale });
        Ok(Payload { layout, metadata: Metadata::default(), native, mapped: Some(Box::new(mapped)) })
    }
}

impl Rows for Source<'_> {
    type Tool = ();

    fn at_once(&self) -> usize {
        at_once(self.header.row_bytes())
    }

    fn tool_bytes(&self) -> u64 {
        0
    }

    fn read(&self, _tool: &mut (), first: usize, into: &mut [u8]) -> Result<(), CodecError> {
        let row = self.header.row_bytes();
        let below = u64::from(self.header.height) - first as u64 - into.len() as u64 / row;
        self.read_at(into, self.start + below * row)?;
        turn(into, row as usize, &self.header.scale);
        Ok(())
    }
}

/// Returns how many rows of this many bytes are read or written at a time.
fn at_once(row: u64) -> usize {
    (BAND as u64 / row).max(1) as usize
}

/// Reverses the order of rows, and converts between the byte order of the scale and the machine's.
fn turn(samples: &mut [u8], row: usize, scale: &str) {
    let rows = samples.len() / row;
    let (above, below) = samples.split_at_mut(rows / 2 * row);
    for (top, bottom) in above.chunks_exact_mut(row).zip(below.rchunks_exact_mut(row)) {
        top.swap_with_slice(bottom);
    }
    if is_big_endian(scale) != cfg!(target_endian = "big") {
        swap_bytes(samples, Kind::Float32.bytes());
    }
}

/// Writes samples that are made of the levels in `slot`.
pub(super) fn encode(
    decoded: &Decoded,
    native: &Native,
    mapped: &Mapped,
    slot: &mut [u8],
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let magic = if layout.pixel.colour_channels() == 1 { "Pf" } else { "PF" };
    let header = format!("{magic}\n{} {}\n{}\n", layout.width, layout.height, native.scale);
    out.write_all(header.as_bytes())?;
    let row = mapped.form().row_bytes(&layout);
    let alone = Cores::none();
    let cores = if row > BAND as u64 { &alone } else { cores };
    let pieces = mapped.pieces(&layout, pixels_of(&layout, slot), at_once(row));
    cores.in_order(
        pieces.into_iter().rev(),
        Vec::new,
        |samples, piece| {
            piece.make_samples(samples);
            turn(samples, row as usize, &native.scale);
        },
        |samples| out.write_all(samples),
    )?;
    Ok(header.len() as u64 + row * u64::from(layout.height))
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Pnm, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_four_words() {
        let header = |colours, width, height, scale: &str, length| Header {
            colours,
            width,
            height,
            scale: scale.to_owned(),
            length,
        };
        assert_eq!(Header::parse(b"PF\n3 2\n-1.0\n"), Ok(header(3, 3, 2, "-1.0", 12)));
        assert_eq!(Header::parse(b"Pf 30\t2\r\n2e1 \n"), Ok(header(1, 30, 2, "2e1", 13)));
        for broken in [
            &b"PF\n3 2\n-1.0"[..],
            b"PF\n0 2\n1 ",
            b"PF\n3 -2\n1 ",
            b"PF\n3 2\n0 ",
            b"PF\n3 2\nx ",
            b"PF\n3 2\nnan ",
            b"PF\n3 4294967296\n1 ",
            b"PF\n\xff 1\n1 ",
            b"Pf\n",
        ] {
            assert!(Header::parse(broken).is_err(), "{broken:?}");
        }
    }
}
