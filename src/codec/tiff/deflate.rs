//! Deflate streams of strips (RFC 1950), in the quicker of two ways that does not make them much longer.
//!
//! What the predictor leaves of a photograph has no repetitions worth searching for: Huffman codes and runs of zeros make it as short as
//! zlib does, at a tenth of its time. Drawings, texts, masks, palettes that were expanded and channels that say the same would become
//! up to several times as long without matches. Nothing tells in advance how much matches are worth in a strip, so zlib is asked for a
//! sixteenth of it.

use simd_adler32::Adler32;

use super::super::deflate::Deflater;
use super::super::output::Output;
use super::super::zlib::Zlib;
use crate::equalize::histogram::Tally;

/// zlib's effort: beyond this, photographs take much longer for little.
const LEVEL: u32 = 4;
/// Bytes in the middle of a strip on which both ways are tried.
const SAMPLE: usize = 16 << 10;
/// Matches are left out where they gain less than one of so many bytes.
const WORTH: usize = 20;
/// What codes alone make shorter than one of so many bytes is flat for the most part, so matches are tried on all of it: the sample may
/// have missed what is not.
const FLAT: usize = 4;
/// Bytes of a block, which has codes of its own.
const BLOCK: usize = 128 << 10;

/// Compresses strips, one after the other, each to a stream of its own.
pub(super) struct Encoder {
    deflater: Deflater,
    tally: Tally,
    /// What is tried.
    other: Output,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self { deflater: Deflater::default(), tally: Tally::new(256), other: Output::default() }
    }

    /// Replaces what is in `out` by the stream of `data`, of which there is some.
    pub(super) fn encode(&mut self, data: &[u8], out: &mut Output) {
        if self.matches_pay(middle(data, SAMPLE), out) {
            return by_matches(data, out);
        }
        self.by_codes(data, out);
        if out.bytes().len() < data.len() / FLAT {
            by_matches(data, &mut self.other);
            if self.other.bytes().len() < out.bytes().len() {
                std::mem::swap(out, &mut self.other);
            }
        }
    }

    fn matches_pay(&mut self, sample: &[u8], out: &mut Output) -> bool {
        self.by_codes(sample, out);
        by_matches(sample, &mut self.other);
        let (codes, matches) = (out.bytes().len(), self.other.bytes().len());
        matches + matches / WORTH < codes
    }

    /// By Huffman codes and runs of zeros.
    fn by_codes(&mut self, data: &[u8], out: &mut Output) {
        // A window of 32 KiB, and that little was tried.
        begin(&[0x78, 0x01], out);
        self.deflater.blocks(data, BLOCK, true, &mut self.tally, out);
        end(data, out);
    }
}

/// By zlib, with matches.
fn by_matches(data: &[u8], out: &mut Output) {
    begin(&[0x78, 0x5e], out);
    let mut zlib = Zlib::new(LEVEL, &[]);
    zlib.append(data, out);
    zlib.end(true, out);
    end(data, out);
}

fn begin(header: &[u8; 2], out: &mut Output) {
    out.clear();
    out.push(header);
}

fn end(data: &[u8], out: &mut Output) {
    let mut checksum = Adler32::new();
    checksum.write(data);
    out.push(&checksum.finish().to_be_bytes());
}

/// So many bytes from the middle, or all there are.
fn middle(data: &[u8], length: usize) -> &[u8] {
    let beside = data.len().saturating_sub(length);
    &data[beside / 2..][..data.len() - beside]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::samples::tests::{differences, noise};
    use std::io::Read;

    const CODES: u8 = 0x01;
    const MATCHES: u8 = 0x5e;

    /// Compresses data, has them decompressed by another's hand, and says in which way they were compressed, and to how many bytes.
    fn there_and_back(encoder: &mut Encoder, data: &[u8]) -> (u8, usize) {
        let mut out = Output::default();
        out.push(b"what was there before");
        encoder.encode(data, &mut out);
        let (mut back, mut decoder) = (Vec::new(), flate2::read::ZlibDecoder::new(out.bytes()));
        decoder.read_to_end(&mut back).unwrap();
        assert!(back == data, "{} bytes", data.len());
        assert_eq!(decoder.total_in() as usize, out.bytes().len(), "nothing is behind the stream");
        (out.bytes()[1], out.bytes().len())
    }

    #[test]
    fn photographs_and_noise_are_left_to_codes() {
        let encoder = &mut Encoder::new();
        for data in [differences(300_000), noise(300_000, 1), differences(20_000), noise(5000, 2)] {
            assert_eq!(there_and_back(encoder, &data).0, CODES, "{} bytes", data.len());
        }
    }

    #[test]
    fn what_is_repeated_is_left_to_matches() {
        let encoder = &mut Encoder::new();
        let rows = noise(1000, 1).repeat(260);
        let masks = [vec![0; 700], vec![255], vec![0; 299], vec![1]].concat().repeat(200);
        let text = include_bytes!("deflate.rs").to_vec();
        for data in [rows, masks, text, vec![7; 100_000], vec![0; 100_000]] {
            assert_eq!(there_and_back(encoder, &data).0, MATCHES, "{} bytes", data.len());
        }
    }

    #[test]
    fn what_the_sample_missed_is_found() {
        let encoder = &mut Encoder::new();
        // Beside noise in the middle nearly nothing, but that repeated.
        let pattern = [vec![0; 90], noise(10, 1)].concat().repeat(1200);
        let data = [&pattern[..], &noise(SAMPLE, 2), &pattern[..]].concat();
        assert_eq!(there_and_back(encoder, &data).0, MATCHES);
    }

    #[test]
    fn a_stream_is_the_same_whatever_was_encoded_before() {
        let (mut used, data) = (Encoder::new(), [differences(100_000), noise(1000, 4).repeat(50)]);
        there_and_back(&mut used, &noise(10_001, 1));
        for data in &data {
            let [mut first, mut second] = [Output::default(), Output::default()];
            used.encode(data, &mut first);
            Encoder::new().encode(data, &mut second);
            assert!(first.bytes() == second.bytes());
        }
    }

    #[test]
    fn few_bytes_come_back() {
        for length in [1, 2, 3, 100, SAMPLE - 1, SAMPLE, SAMPLE + 1, BLOCK, BLOCK + 1] {
            there_and_back(&mut Encoder::new(), &noise(length, 5));
            there_and_back(&mut Encoder::new(), &vec![0; length]);
        }
    }
}
