//! Profile, EXIF, XMP and resolution from the chunks of a PNG (PNG third edition, section 11.3).

use std::io::{self, Read};

use flate2::read::ZlibDecoder;

use super::chunks::Chunks;
use crate::metadata::{Metadata, Resolution, strip_exif_prefix};

/// The keyword of the iTXt chunk that holds XMP.
const XMP_KEYWORD: &[u8] = b"XML:com.adobe.xmp";

/// More bytes than any profile or XMP packet has.
///
/// A few compressed bytes may claim any number, and unpacking them takes time.
const MAX_BYTES: u64 = 64 << 20;

/// The metadata as they are in the file, only from the first chunk of each kind.
///
/// There should be no others, and decompressing any number of them could take any time. As in other
/// programs, a damaged chunk counts as missing.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    icc: Option<Data<'a>>,
    exif: Option<&'a [u8]>,
    xmp: Option<Data<'a>>,
    resolution: Option<Resolution>,
}

impl<'a> Parts<'a> {
    /// Finds them.
    ///
    /// # Errors
    /// If they unpack to too much.
    pub(super) fn find(chunks: &Chunks<'a>) -> Result<Self, String> {
        let is_xmp =
            |content: &&[u8]| split_at_zero(content).is_some_and(|(keyword, _)| keyword == XMP_KEYWORD);
        Ok(Self {
            icc: chunks.all(b"iCCP").next().and_then(icc).transpose()?,
            exif: chunks.all(b"eXIf").find_map(strip_exif_prefix),
            xmp: chunks.all(b"iTXt").find(is_xmp).and_then(xmp).transpose()?,
            resolution: chunks.all(b"pHYs").find_map(resolution),
        })
    }

    /// Returns the bytes that they have once they are read.
    pub(super) fn bytes(&self) -> u64 {
        let Self { icc, exif, xmp, .. } = self;
        let unpacked: u64 = [icc, xmp].into_iter().flatten().map(Data::bytes).sum();
        unpacked + exif.map_or(0, <[u8]>::len) as u64
    }

    /// Reads them.
    pub(super) fn read(&self) -> Metadata {
        Metadata {
            icc: self.icc.and_then(Data::read),
            exif: self.exif.map(<[u8]>::to_vec),
            xmp: self.xmp.and_then(Data::read).filter(|packet| str::from_utf8(packet).is_ok()),
            resolution: self.resolution,
            georeference: None,
        }
    }
}

/// Data that may be compressed.
#[derive(Clone, Copy, Debug)]
enum Data<'a> {
    Stored(&'a [u8]),
    /// With the number of bytes that they unpack to.
    Deflated(&'a [u8], u64),
}

impl<'a> Data<'a> {
    /// Unpacks compressed data to learn their length; `None` if they are damaged.
    ///
    /// `what` names them in the error for too many bytes.
    fn deflated(compressed: &'a [u8], what: &str) -> Option<Result<Self, String>> {
        let mut unpacked = ZlibDecoder::new(compressed).take(MAX_BYTES + 1);
        let bytes = io::copy(&mut unpacked, &mut io::sink()).ok()?;
        let fits = bytes <= MAX_BYTES;
        let data = Self::Deflated(compressed, bytes);
        Some(if fits { Ok(data) } else { Err(format!("its {what} has more than {} MiB", MAX_BYTES >> 20)) })
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Stored(bytes) => bytes.len() as u64,
            Self::Deflated(_, bytes) => *bytes,
        }
    }

    fn read(self) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::Stored(bytes) => return Some(bytes.to_vec()),
            Self::Deflated(compressed, _) => compressed,
        };
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        ZlibDecoder::new(compressed).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Returns the content of an iTXt chunk with an XMP packet.
///
/// Keyword, not compressed, no language, no translated keyword.
pub(super) fn xmp_chunk(xmp: &[u8]) -> Vec<u8> {
    [XMP_KEYWORD, &[0; 5], xmp].concat()
}

/// Finds the profile of an iCCP chunk.
///
/// It has a name, the compression method (there is only one), and the compressed profile.
fn icc(content: &[u8]) -> Option<Result<Data<'_>, String>> {
    let (_, behind) = split_at_zero(content)?;
    Data::deflated(behind.strip_prefix(&[0])?, "colour profile")
}

/// Finds the packet of an iTXt chunk.
///
/// It has a keyword, compression flag and method, language, translated keyword, and text.
fn xmp(content: &[u8]) -> Option<Result<Data<'_>, String>> {
    let (_, behind) = split_at_zero(content)?;
    let (&[compressed, method], behind) = behind.split_first_chunk()?;
    let (_, behind) = split_at_zero(behind)?;
    let (_, text) = split_at_zero(behind)?;
    match (compressed, method) {
        (0, _) => Some(Ok(Data::Stored(text))),
        (1, 0) => Data::deflated(text, "XMP"),
        _ => None,
    }
}

/// Reads a pHYs chunk, if its unit is the metre.
fn resolution(content: &[u8]) -> Option<Resolution> {
    let &[x0, x1, x2, x3, y0, y1, y2, y3, 1] = content else { return None };
    Resolution::per_metre([u32::from_be_bytes([x0, x1, x2, x3]), u32::from_be_bytes([y0, y1, y2, y3])])
}

fn split_at_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(0, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Reads the data that were found, and compares their length with the announced one.
    fn read(found: Option<Result<Data<'_>, String>>) -> Option<Vec<u8>> {
        let data = found?.unwrap();
        let bytes = data.read()?;
        assert_eq!(bytes.len() as u64, data.bytes());
        Some(bytes)
    }

    #[test]
    fn profiles_and_packets_are_found_compressed_or_not() {
        let profile = vec![7; 1000];
        let icc = |content: &[u8]| read(super::icc(content));
        let xmp = |content: &[u8]| read(super::xmp(content));
        assert_eq!(icc(&[b"name\0\0", compressed(&profile).as_slice()].concat()), Some(profile.clone()));
        assert_eq!(icc(&[b"name\0\x01", compressed(&profile).as_slice()].concat()), None);
        assert_eq!(icc(b"name\0\0damaged"), None);
        assert_eq!(icc(b"name"), None);

        let itxt = |flag: u8, text: &[u8]| xmp(&[XMP_KEYWORD, &[0, flag, 0], b"en\0packet\0", text].concat());
        let packet = b"<x:xmpmeta/>";
        assert_eq!(itxt(0, packet), Some(packet.to_vec()));
        assert_eq!(itxt(1, &compressed(packet)), Some(packet.to_vec()));
        assert_eq!(itxt(1, packet), None);
        assert_eq!(itxt(2, packet), None);
        assert_eq!(xmp(&xmp_chunk(packet)), Some(packet.to_vec()));
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let too_much = vec![b' '; MAX_BYTES as usize + 1];
        let packed = [XMP_KEYWORD, &[0, 1, 0, 0, 0], &compressed(&too_much)].concat();
        let error = xmp(&packed);
        assert_eq!(error.unwrap().unwrap_err(), "its XMP has more than 64 MiB");
        let packed = [b"name\0\0", compressed(&too_much[1..]).as_slice()].concat();
        let whole = icc(&packed);
        assert!(read(whole) == Some(too_much[1..].to_vec()));
    }
}
