//! Codestreams of JPEG 2000 that are handed to another decoder: their selection, and the result.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use codec::coders::{BlockCoder, Codestream, CodestreamDecoder, decode_codestream};
use codec::{CodecError, Cores};

use super::{LIMITS, TARGET, pixels};
use crate::harness::project;

/// The files, and whether they are handed over.
const FILES: [(&str, bool); 11] = [
    ("codec/jp2-12.jp2", true),
    ("codec/jp2-gray-16.jp2", true),
    ("codec/jp2-rgb.j2k", true),
    ("codec/j2k-open-length.j2k", true),
    ("codec/j2k-subsampled.j2k", true),
    ("codec/jp2-rest.jp2", true),
    ("codec/ht-12-twin.j2k", true),
    ("dicom/mr-jpeg-2000.dcm", true),
    // With bytes that are not packets, with alpha, and with loss.
    ("codec/j2k-padding.j2k", false),
    ("codec/jp2-rgba-tiles.jp2", false),
    ("codec/jp2-lossy.jp2", false),
];

fn data(name: &str) -> PathBuf {
    project().join("tests/data").join(name)
}

/// Decodes as the CPU does, or leaves everything to it.
#[derive(Debug, Default)]
struct Other {
    declines: bool,
    asked: AtomicUsize,
}

impl CodestreamDecoder for Other {
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(into.len() as u64, codestream.decoded_bytes());
        if self.declines {
            into.fill(0xa5);
            return false;
        }
        if codestream.coder == BlockCoder::Usual {
            decode_codestream(codestream, bytes, into).unwrap();
            return true;
        }
        let twin = fs::read(data("codec/ht-12-twin.j2k")).unwrap();
        decode_codestream(&Codestream { bytes: twin.len() as u64, ..*codestream }, &twin, into).unwrap();
        true
    }
}

/// Decodes a file with the help of a decoder, if there is one.
fn decode_by(path: &Path, decoder: Option<&dyn CodestreamDecoder>) -> Result<Vec<u8>, CodecError> {
    let (mut file, mut buffer) = (File::open(path)?, Vec::new());
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, &TARGET)?;
    assert!(opened.block_coder().is_some());
    let mut slot = vec![0x5a; opened.slot_bytes()];
    let opened = match decoder {
        Some(decoder) => opened.with_decoder(decoder),
        None => opened,
    };
    let decoded = opened.decode(&mut slot, Vec::new(), &Cores::none())?;
    Ok(pixels(&decoded, &slot).to_vec())
}

#[test]
fn plain_codestreams_are_handed_over_and_make_the_same_pixels() {
    for (name, is_plain) in FILES {
        let expected = decode_by(&data(name), None).unwrap();
        for declines in [false, true] {
            let other = Other { declines, ..Other::default() };
            assert!(decode_by(&data(name), Some(&other)).unwrap() == expected, "{name}");
            assert_eq!(other.asked.into_inner(), usize::from(is_plain), "{name}");
        }
    }
}

#[test]
fn high_throughput_is_decoded_elsewhere_or_refused_with_what_to_do() {
    let (file, twin) = (data("codec/ht-12.j2c"), data("codec/ht-12-twin.j2k"));
    let expected = decode_by(&twin, None).unwrap();
    assert!(decode_by(&file, Some(&Other::default())).unwrap() == expected);
    let declining = Other { declines: true, ..Other::default() };
    for decoder in [None, Some(&declining as &dyn CodestreamDecoder)] {
        let error = decode_by(&file, decoder).unwrap_err().to_string();
        assert!(error.starts_with("a high-throughput JPEG 2000 is not supported"), "{error}");
        assert!(error.contains("nvJPEG2000") && error.contains("ojph_expand"), "{error}");
    }
}
