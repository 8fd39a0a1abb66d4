//! Profile, EXIF, XMP and resolution from the chunks of a PNG (PNG third edition, section 11.3).

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::chunks::Chunks;
use crate::codec::metadata::{Metadata, Resolution, strip_exif_prefix};

/// The keyword of the iTXt chunk that holds XMP.
const XMP_KEYWORD: &[u8] = b"XML:com.adobe.xmp";

/// More bytes than any profile or XMP packet has. A few compressed bytes may claim any number.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the metadata, only from the first chunk of each kind: there should be no others, and decompressing any number of them could take
/// any time. As in other programs, a damaged chunk counts as no metadata.
pub(super) fn read(chunks: &Chunks<'_>) -> Result<Metadata, String> {
    let is_xmp = |content: &&[u8]| split_at_zero(content).is_some_and(|(keyword, _)| keyword == XMP_KEYWORD);
    Ok(Metadata {
        icc: chunks.all(b"iCCP").next().and_then(icc).transpose()?,
        exif: chunks.all(b"eXIf").find_map(strip_exif_prefix).map(<[u8]>::to_vec),
        xmp: chunks.all(b"iTXt").find(is_xmp).and_then(xmp).transpose()?,
        resolution: chunks.all(b"pHYs").find_map(resolution),
    })
}

/// Returns the content of an iTXt chunk with an XMP packet: keyword, not compressed, no language, no translated keyword.
pub(super) fn xmp_chunk(xmp: &[u8]) -> Vec<u8> {
    [XMP_KEYWORD, &[0; 5], xmp].concat()
}

/// Reads the profile of an iCCP chunk: a name, the compression method (there is only one), and the compressed profile.
fn icc(content: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let (_, behind) = split_at_zero(content)?;
    let compressed = behind.strip_prefix(&[0])?;
    decompress(compressed, "colour profile")
}

/// Reads the packet of an iTXt chunk: keyword, compression flag and method, language, translated keyword, text.
fn xmp(content: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let (_, behind) = split_at_zero(content)?;
    let (&[compressed, method], behind) = behind.split_first_chunk()?;
    let (_, behind) = split_at_zero(behind)?;
    let (_, text) = split_at_zero(behind)?;
    let text = match (compressed, method) {
        (0, _) => Ok(text.to_vec()),
        (1, 0) => decompress(text, "XMP")?,
        _ => return None,
    };
    match &text {
        Ok(packet) if str::from_utf8(packet).is_err() => None,
        _ => Some(text),
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

fn decompress(compressed: &[u8], what: &str) -> Option<Result<Vec<u8>, String>> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(compressed).take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let fits = bytes.len() as u64 <= MAX_BYTES;
    Some(if fits { Ok(bytes) } else { Err(format!("its {what} has more than {} MiB", MAX_BYTES >> 20)) })
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

    #[test]
    fn profiles_and_packets_are_found_compressed_or_not() {
        let profile = vec![7; 1000];
        assert_eq!(icc(&[b"name\0\0", compressed(&profile).as_slice()].concat()), Some(Ok(profile.clone())));
        assert_eq!(icc(&[b"name\0\x01", compressed(&profile).as_slice()].concat()), None);
        assert_eq!(icc(b"name\0\0damaged"), None);
        assert_eq!(icc(b"name"), None);

        let itxt = |flag: u8, text: &[u8]| xmp(&[XMP_KEYWORD, &[0, flag, 0], b"en\0packet\0", text].concat());
        let packet = b"<x:xmpmeta/>";
        assert_eq!(itxt(0, packet), Some(Ok(packet.to_vec())));
        assert_eq!(itxt(1, &compressed(packet)), Some(Ok(packet.to_vec())));
        assert_eq!(itxt(0, b"\xff"), None);
        assert_eq!(itxt(1, packet), None);
        assert_eq!(itxt(2, packet), None);
        assert_eq!(xmp(&xmp_chunk(packet)), Some(Ok(packet.to_vec())));
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let too_much = vec![b' '; MAX_BYTES as usize + 1];
        let error = xmp(&[XMP_KEYWORD, &[0, 1, 0, 0, 0], &compressed(&too_much)].concat());
        assert_eq!(error, Some(Err("its XMP has more than 16 MiB".into())));
        let whole = icc(&[b"name\0\0", compressed(&too_much[1..]).as_slice()].concat());
        assert!(whole == Some(Ok(too_much[1..].to_vec())));
    }
}
