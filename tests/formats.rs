//! The codecs, from file to file.

mod codestreams;
mod corpus;
mod deep;
pub(crate) mod dicom;
mod inks;
mod jpeg;

mod mapped;
mod metadata;
mod pictures;
mod read_only;
mod roundtrip;
mod streams;
mod tiff;
mod xmp;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use codec::{self, CodecError, Cores, Decoded, Limits, Target};
use equalize::{Depth, Layout};

/// The target of most tests: the source's own format.
pub(crate) const TARGET: Target = Target::AS_STORED;

/// Limits that let the test pictures through and still protect the machine.
pub(crate) const LIMITS: Limits = Limits { max_pixels: 1 << 26, max_bytes: 1 << 28 };

/// Decodes a file into a slot that is exactly as long as the decoder asks for.
pub(crate) fn decode_file(
    path: &Path,
    limits: &Limits,
    target: &Target,
) -> Result<(Decoded, Vec<u8>), CodecError> {
    let mut file = File::open(path)?;
    let mut buffer = Vec::new();
    let opened = codec::open(&mut file, &mut buffer, limits, target)?;
    let layout = opened.layout();
    let mut slot = vec![0x5a; opened.slot_bytes()];
    let workspace = vec![0; opened.workspace().bytes as usize];
    let decoded = opened.decode(&mut slot, workspace, &Cores::new(3))?;
    // Only the decoder knows whether a mask is needed.
    let without_mask = Layout { pixel: decoded.layout.pixel, ..layout };
    let may_differ = layout.pixel.channels() > decoded.layout.pixel.channels();
    let expected = if may_differ { without_mask } else { layout };
    assert_eq!(decoded.layout, expected, "the header and the decoder agree");
    Ok((decoded, slot))
}

/// Decodes the content of a file.
pub(crate) fn decode(bytes: &[u8], target: &Target) -> Result<(Decoded, Vec<u8>), CodecError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    decode_file(file.path(), &LIMITS, target)
}

/// Encodes a picture, and returns the content of the file.
pub(crate) fn encode(decoded: &Decoded, mut slot: Vec<u8>, target: &Target) -> Result<Vec<u8>, CodecError> {
    let mut file = tempfile::tempfile().unwrap();
    let length = codec::encode(decoded, &mut slot, target, &mut Vec::new(), &Cores::new(0), &mut file)?;
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, length, "the length that is told is the file's");
    Ok(bytes)
}

/// Returns whether two pictures are the same: in their levels, if the files have levels, and
/// otherwise except for a level here and there, as the levels of samples are rounded.
pub(crate) fn are_alike(one: (&Decoded, &[u8]), other: (&Decoded, &[u8])) -> bool {
    let [one_pixels, other_pixels] = [one, other].map(|(decoded, slot)| pixels(decoded, slot));
    if !one.0.is_mapped() || one.0.layout.depth == Depth::Eight {
        return one_pixels == other_pixels;
    }
    let [one, other] = [one_pixels, other_pixels].map(|pixels| pixels.as_chunks::<2>().0.iter());
    let level = |bytes: &[u8; 2]| u16::from_ne_bytes(*bytes);
    one.len() == other.len() && one.zip(other).all(|(one, other)| level(one).abs_diff(level(other)) <= 1)
}

/// The bytes of the pixels at the front of a slot.
pub(crate) fn pixels<'s>(decoded: &Decoded, slot: &'s [u8]) -> &'s [u8] {
    &slot[..decoded.layout.bytes() as usize]
}
