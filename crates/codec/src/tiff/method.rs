//! How strips and tiles are compressed, and how to decompress them.

use std::convert::Infallible;

use fax::decoder::{DecodeStatus, Group4Decoder};
use fdeflate::{DecompressionError, Decompressor};

use super::super::CodecError;
use super::super::foreign::RECOMPRESS;
use super::lzw::{self, Damage};
use super::{malformed, unsupported};
use crate::inflate::damage;

/// How strips are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Stored,
    Lzw,
    Deflate,
}

impl Compression {
    /// Returns the value of the tag Compression.
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Stored => 1,
            Self::Lzw => 5,
            Self::Deflate => 8,
        }
    }
}

/// The values of the tag Compression that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    PackBits,
    Lzw,
    Deflate,
    Group4,
    Jpeg,
}

impl Method {
    /// Reads a value of the tag Compression.
    ///
    /// # Errors
    /// Names the method if it is not supported.
    pub(super) fn new(number: u64) -> Result<Self, CodecError> {
        let name = match number {
            1 => return Ok(Self::Stored),
            4 => return Ok(Self::Group4),
            5 => return Ok(Self::Lzw),
            7 => return Ok(Self::Jpeg),
            8 | 32946 => return Ok(Self::Deflate),
            32773 => return Ok(Self::PackBits),
            2 | 3 => "CCITT RLE or group 3",
            6 => "old-style JPEG",
            32771 => "CCITT RLE",
            33003 | 33005 | 34712 => "JPEG 2000",
            34925 => "LZMA",
            50000 => "Zstandard",
            50001 => "WebP",
            _ => return Err(unsupported(format!("a TIFF compressed by method {number}"))),
        };
        Err(CodecError::unsupported(format!("a TIFF compressed by {name}"), RECOMPRESS))
    }

    /// Returns how a picture of this compression is written.
    pub(super) fn written(self) -> Compression {
        match self {
            Self::Stored => Compression::Stored,
            Self::Lzw | Self::PackBits => Compression::Lzw, // every reader has both, and PackBits makes photographs no smaller
            Self::Group4 | Self::Jpeg | Self::Deflate => Compression::Deflate,
        }
    }

    /// Returns whether the tag Predictor means anything. Writers that copy tags also put it where it does not.
    pub(super) fn is_predicted(self) -> bool {
        matches!(self, Self::Lzw | Self::Deflate)
    }
}

/// Bytes of any value that must follow the compressed data.
pub(super) const PADDING: usize = lzw::PADDING;

/// Returns the bytes of heap that decompression takes besides the data, beyond small change.
pub(super) fn heap_bytes(method: Method) -> u64 {
    if method == Method::Lzw { lzw::DECODER_BYTES } else { 0 }
}

/// The decompressor that is worth reusing.
#[derive(Default)]
pub(super) struct Decompression {
    lzw: Option<lzw::Decoder>,
}

impl Decompression {
    /// Fills `target`, rows of `width` pixels in `row` bytes, from `data`, whose last [`PADDING`] bytes are not part of the compressed
    /// data. Data beyond what is needed are ignored.
    pub(super) fn run(
        &mut self,
        method: Method,
        data: &[u8],
        (width, row): (u32, usize),
        target: &mut [u8],
    ) -> Result<(), CodecError> {
        let bare = &data[..data.len() - PADDING];
        match method {
            Method::PackBits => pack_bits(bare, target).map_err(|_| short("PackBits")),
            Method::Lzw => {
                refuse_old_lzw(bare)?;
                let decoder = self.lzw.get_or_insert_default();
                decoder.decode(data, target).map_err(|damage| match damage {
                    Damage::Short => short("LZW"),
                    Damage::Code => malformed("its LZW data are damaged"),
                })
            }
            Method::Deflate => inflate(bare, target),
            Method::Group4 => group_4(bare, width, row, target),
            Method::Stored | Method::Jpeg => unreachable!("read otherwise"),
        }
    }
}

fn short(name: &str) -> CodecError {
    malformed(format!("its {name} data end before its last row"))
}

/// Refuses LZW from before TIFF 6.0, which has the lowest bit of codes first. It begins with the Clear code, 256, too.
fn refuse_old_lzw(data: &[u8]) -> Result<(), CodecError> {
    match data {
        [0, second, ..] if second & 1 == 1 => Err(unsupported("a TIFF with LZW of the kind before TIFF 6.0")),
        _ => Ok(()),
    }
}

/// The data ended.
struct Short;

/// Decodes PackBits (TIFF 6.0, section 9): a count and that many bytes, or a negative count and a byte to repeat.
fn pack_bits(mut data: &[u8], target: &mut [u8]) -> Result<(), Short> {
    let mut left = target;
    while !left.is_empty() {
        let (&count, rest) = data.split_first().ok_or(Short)?;
        let count = count.cast_signed();
        let length = usize::from(count.unsigned_abs()) + 1;
        let target = length.min(left.len());
        data = match count {
            i8::MIN => rest,
            0.. => {
                let (bytes, rest) = rest.split_at_checked(length).ok_or(Short)?;
                left.split_off_mut(..target).ok_or(Short)?.copy_from_slice(&bytes[..target]);
                rest
            }
            _ => {
                let (&byte, rest) = rest.split_first().ok_or(Short)?;
                left.split_off_mut(..target).ok_or(Short)?.fill(byte);
                rest
            }
        };
    }
    Ok(())
}

/// Decompresses a zlib stream (RFC 1950). Its checksum is verified if it ends where the target is full.
fn inflate(mut data: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
    let (mut decompressor, mut filled) = (Decompressor::new(), 0);
    while !decompressor.is_done() {
        let (read, written) = decompressor.read(data, target, filled, true).map_err(|error| match error {
            DecompressionError::InsufficientInput => short("deflate"),
            error => malformed(format!("its deflate data are damaged ({})", damage(&error))),
        })?;
        data = &data[read..];
        filled += written;
        if read + written == 0 {
            break;
        }
    }
    if filled < target.len() { Err(short("deflate")) } else { Ok(()) }
}

/// Decodes rows of bits, black ones set.
fn group_4(data: &[u8], width: u32, row: usize, target: &mut [u8]) -> Result<(), CodecError> {
    let damaged = || malformed("its CCITT group 4 data are damaged or end early");
    let narrow = u16::try_from(width);
    let narrow = narrow.map_err(|_| unsupported("a TIFF of CCITT group 4 wider than 65535 pixels"))?;
    let bytes = data.iter().map(|&byte| Ok::<_, Infallible>(byte));
    let Ok(mut decoder) = Group4Decoder::new(bytes, narrow);
    for row in target.chunks_exact_mut(row) {
        match decoder.advance() {
            Ok(DecodeStatus::Incomplete) => draw(decoder.transition(), width as usize, row),
            Ok(DecodeStatus::End) => return Err(short("CCITT group 4")),
            Err(_) => return Err(damaged()),
        }
    }
    Ok(())
}

/// Sets the black pixels of a row: from every other change of colour to the next one, or to the end of the row.
fn draw(changes: &[u16], width: usize, row: &mut [u8]) {
    row.fill(0);
    for black in changes.chunks(2) {
        let end = black.get(1).map_or(width, |&end| usize::from(end)).min(width);
        let start = usize::from(black[0]).min(end);
        for bit in start..end.min(start.next_multiple_of(8)) {
            row[bit / 8] |= 0x80 >> (bit % 8);
        }
        let (first, last) = (start.div_ceil(8), end / 8);
        if first <= last {
            row[first..last].fill(0xff);
            for bit in last * 8..end {
                row[last] |= 0x80 >> (bit % 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_black_are_drawn_to_the_bit() {
        const WIDTH: usize = 43;
        for start in 0..WIDTH {
            for end in start + 1..=WIDTH {
                let changes: Vec<u16> =
                    [start, end].into_iter().filter(|&at| at < WIDTH).map(|at| at as u16).collect();
                let mut row = [0xff; WIDTH.div_ceil(8)];
                draw(&changes, WIDTH, &mut row);
                let black: Vec<usize> =
                    (0..8 * row.len()).filter(|bit| row[bit / 8] & 0x80 >> (bit % 8) != 0).collect();
                assert_eq!(black, (start..end).collect::<Vec<_>>(), "{start}..{end}");
            }
        }
        let mut row = [0; 2];
        draw(&[1, 2, 4, 12], 16, &mut row);
        assert_eq!(row, [0b0100_1111, 0b1111_0000]);
    }

    #[test]
    fn pack_bits_are_counts_and_bytes() {
        // The example in TIFF 6.0, and a byte that does nothing.
        let packed = b"\xfe\xaa\x02\x80\x00\x2a\xfd\xaa\x80\x03\x80\x00\x2a\x22\xf7\xaa";
        let expected =
            [&[0xaa; 3][..], &[0x80, 0x00, 0x2a], &[0xaa; 4], &[0x80, 0x00, 0x2a, 0x22], &[0xaa; 10]]
                .concat();
        for length in 0..=expected.len() {
            let mut target = vec![1; length];
            assert!(pack_bits(packed, &mut target).is_ok());
            assert_eq!(target, expected[..length]);
        }
        assert!(pack_bits(packed, &mut [0; 25]).is_err());
        assert!(pack_bits(&packed[..packed.len() - 1], &mut [0; 24]).is_err());
        assert!(pack_bits(&[5, 1, 2], &mut [0; 2]).is_err());
    }
}
