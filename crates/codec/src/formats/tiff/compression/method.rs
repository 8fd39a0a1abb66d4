//! Compression methods of strips and tiles, and their decompression.

use fdeflate::{DecompressionError, Decompressor};
use weezl::{BitOrder, LzwStatus};

use crate::CodecError;
use crate::coding::inflate::damage;
use crate::formats::foreign::{RECOMPRESS, RECOMPRESS_JPEG_2000, RECOMPRESS_LERC};
use crate::formats::tiff::compression::fax::{self, Coding};
use crate::formats::tiff::compression::zstd;
use crate::formats::tiff::{malformed, unsupported};

/// The compression of strips that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Stored,
    Lzw,
    Deflate,
}

impl Compression {
    /// Returns the value of the tag Compression.
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::Stored => 1,
            Self::Lzw => 5,
            Self::Deflate => 8,
        }
    }
}

/// The value of the tag Compression for JPEG as in TIFF 6.0.
///
/// One stream is the whole picture, or tables and data lie anywhere.
pub(crate) const OLD_JPEG: u64 = 6;

/// The values of the tag Compression that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    PackBits,
    Lzw,
    Deflate,
    Fax(Coding),
    Zstd,
    Jpeg,
    WebP,
}

impl Method {
    /// Reads a value of the tag Compression, and one of T4Options.
    ///
    /// # Errors
    /// Names the method if it is not supported.
    pub(crate) fn new(number: u64, fax_options: u64) -> Result<Self, CodecError> {
        let (name, remedy) = match number {
            1 => return Ok(Self::Stored),
            2 => return Ok(Self::Fax(Coding::Rle)),
            3 => return Ok(Self::Fax(Coding::Group3 { changes: fax_options & 1 == 1 })),
            4 => return Ok(Self::Fax(Coding::Group4)),
            5 => return Ok(Self::Lzw),
            OLD_JPEG | 7 => return Ok(Self::Jpeg),
            8 | 32946 => return Ok(Self::Deflate),
            32771 => return Ok(Self::Fax(Coding::RleWords)),
            50000 => return Ok(Self::Zstd),
            50001 => return Ok(Self::WebP),
            32773 => return Ok(Self::PackBits),
            33003 | 33005 | 34712 => ("JPEG 2000", RECOMPRESS_JPEG_2000),
            34887 => ("LERC", RECOMPRESS_LERC),
            34925 => ("LZMA", RECOMPRESS),
            _ => return Err(unsupported(format!("a TIFF compressed by method {number}"))),
        };
        Err(CodecError::unsupported(format!("a TIFF compressed by {name}"), remedy))
    }

    /// Returns the compression that a picture of this method is written with.
    pub(crate) fn written(self) -> Compression {
        match self {
            Self::Stored => Compression::Stored,
            // Every reader has both, and PackBits makes photographs no smaller.
            Self::Lzw | Self::PackBits => Compression::Lzw,
            Self::Fax(_) | Self::Zstd | Self::Jpeg | Self::WebP | Self::Deflate => Compression::Deflate,
        }
    }

    /// Returns whether the tag Predictor applies.
    ///
    /// Writers that copy tags also put it where it does not.
    pub(crate) fn is_predicted(self) -> bool {
        matches!(self, Self::Lzw | Self::Deflate | Self::Zstd)
    }
}

/// Bytes of heap of an LZW decoder: 14 for each of 4,096 strings, and the longest string.
const LZW_BYTES: u64 = 60 << 10;

/// A strip or tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) width: u32,
    /// Bytes of a row.
    pub(crate) row: usize,
    /// Bytes of all rows.
    pub(crate) bytes: u64,
}

/// Returns the bytes of heap for decompressing a strip or tile, beyond its data and small change.
pub(crate) fn heap_bytes(method: Method, part: u64) -> u64 {
    match method {
        Method::Lzw => LZW_BYTES,
        Method::Zstd => zstd::heap_bytes(part),
        _ => 0,
    }
}

/// The decompressor that is worth reusing.
#[derive(Default)]
pub(crate) struct Decompression {
    lzw: Option<weezl::decode::Decoder>,
}

impl Decompression {
    /// Fills `target`, rows of a strip or tile, from `data`. Surplus data are ignored.
    pub(crate) fn run(
        &mut self,
        method: Method,
        data: &[u8],
        part: Part,
        target: &mut [u8],
    ) -> Result<(), CodecError> {
        match method {
            Method::PackBits => pack_bits(data, target).map_err(|_| short("PackBits")),
            Method::Lzw => {
                refuse_old_lzw(data)?;
                unpack_lzw(self.lzw.get_or_insert_with(lzw_decoder), data, target)
            }
            Method::Deflate => inflate(data, part.bytes, target),
            Method::Fax(coding) => fax::decode(coding, data, part.width, part.row, target),
            Method::Zstd => zstd::decode(data, part.bytes, target),
            Method::Stored | Method::Jpeg | Method::WebP => unreachable!("read otherwise"),
        }
    }
}

fn short(name: &str) -> CodecError {
    malformed(format!("its {name} data end before its last row"))
}

/// Refuses LZW from before TIFF 6.0, which has the lowest bit of codes first.
///
/// It begins with the Clear code, 256, too.
fn refuse_old_lzw(data: &[u8]) -> Result<(), CodecError> {
    match data {
        [0, second, ..] if second & 1 == 1 => Err(unsupported("a TIFF with LZW of the kind before TIFF 6.0")),
        _ => Ok(()),
    }
}

fn lzw_decoder() -> weezl::decode::Decoder {
    // Data after the last row are ignored.
    let configuration = weezl::decode::Configuration::with_tiff_size_switch(BitOrder::Msb, 8);
    configuration.with_yield_on_full_buffer(true).build()
}

/// Decompresses LZW (TIFF 6.0, section 13).
fn unpack_lzw(
    decoder: &mut weezl::decode::Decoder,
    mut data: &[u8],
    mut target: &mut [u8],
) -> Result<(), CodecError> {
    decoder.reset();
    while !target.is_empty() {
        let step = decoder.decode_bytes(data, target);
        data = &data[step.consumed_in..];
        target = &mut target[step.consumed_out..];
        match step.status {
            Ok(LzwStatus::Ok) => {}
            Ok(LzwStatus::Done | LzwStatus::NoProgress) if target.is_empty() => {}
            Ok(LzwStatus::Done | LzwStatus::NoProgress) => return Err(short("LZW")),
            Err(_) => return Err(malformed("its LZW data are damaged")),
        }
    }
    Ok(())
}

/// The data ended.
struct Short;

/// Decodes PackBits (TIFF 6.0, section 9).
///
/// It has a count and that many bytes, or a negative count and a byte to repeat.
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

/// Decompresses the start of a zlib stream (RFC 1950) into `target`; the whole has `most` bytes.
///
/// The data after the target are read too, for the checksum: damaged data may go on.
fn inflate(mut data: &[u8], most: u64, target: &mut [u8]) -> Result<(), CodecError> {
    let (mut decompressor, mut filled) = (Decompressor::new(), 0);
    while !decompressor.is_done() && filled < target.len() {
        let (read, written) = decompressor.read(data, target, filled, true).map_err(damaged_deflate)?;
        data = &data[read..];
        filled += written;
        if read + written == 0 {
            break;
        }
    }
    if filled < target.len() {
        return Err(short("deflate"));
    }
    let beyond = most.saturating_sub(target.len() as u64).saturating_add(most);
    if decompressor.is_done() { Ok(()) } else { inflate_rest(&mut decompressor, data, target, beyond) }
}

/// Reads a stream to its end, which has to come within `most` bytes after `start`.
fn inflate_rest(
    decompressor: &mut Decompressor,
    mut data: &[u8],
    start: &[u8],
    most: u64,
) -> Result<(), CodecError> {
    // The longest reach of matches.
    const WINDOW: usize = 32 << 10;
    let mut buffer = start[start.len().saturating_sub(WINDOW)..].to_vec();
    let (mut filled, mut passed) = (buffer.len(), 0);
    buffer.resize(3 * WINDOW, 0);
    while !decompressor.is_done() {
        let (read, written) = decompressor.read(data, &mut buffer, filled, true).map_err(damaged_deflate)?;
        data = &data[read..];
        filled += written;
        passed += written as u64;
        if passed > most {
            return Err(malformed("its deflate data continue after its last row"));
        }
        if filled == buffer.len() {
            buffer.copy_within(filled - WINDOW.., 0);
            filled = WINDOW;
        } else if read + written == 0 {
            return Err(short("deflate"));
        }
    }
    Ok(())
}

fn damaged_deflate(error: DecompressionError) -> CodecError {
    match error {
        DecompressionError::InsufficientInput => short("deflate"),
        error => malformed(format!("its deflate data are damaged ({})", damage(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decompresses codes of nine bits to `length` bytes.
    fn from_codes(codes: &[u16], length: usize) -> Result<Vec<u8>, String> {
        let bits: String = codes.iter().map(|code| format!("{code:09b}")).collect();
        let bytes = bits.as_bytes().chunks(8).map(|bits| {
            let bits = format!("{:0<8}", std::str::from_utf8(bits).unwrap());
            u8::from_str_radix(&bits, 2).unwrap()
        });
        let (data, mut target) = (bytes.collect::<Vec<u8>>(), vec![0xee; length]);
        let unpacked = unpack_lzw(&mut lzw_decoder(), &data, &mut target);
        unpacked.map(|()| target).map_err(|error| error.to_string())
    }

    #[test]
    fn lzw_is_read_as_far_as_its_codes_have_a_meaning() {
        // The Clear code at the start may be missing, and there may be two in a row.
        assert_eq!(from_codes(&[65, 66, 256, 256, 67, 258], 5), Ok(b"ABCCC".to_vec()));
        // A string after the Clear code, and strings that do not exist yet.
        for codes in [&[256, 258][..], &[256, 65, 259], &[256, 65, 258, 260]] {
            let error = from_codes(codes, 100).unwrap_err();
            assert!(error.contains("its LZW data are damaged"), "{codes:?}: {error}");
        }
        for codes in [&[256, 65][..], &[256, 65, 66, 257, 65], &[]] {
            let error = from_codes(codes, 3).unwrap_err();
            assert!(error.contains("its LZW data end before its last row"), "{codes:?}: {error}");
        }
        // Data after the last row are ignored.
        assert_eq!(from_codes(&[256, 65, 511], 1), Ok(b"A".to_vec()));
    }

    #[test]
    fn pack_bits_are_counts_and_bytes() {
        // The example in TIFF 6.0, and a byte without effect.
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
