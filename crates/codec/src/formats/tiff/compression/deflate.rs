//! Deflate compression of strips, to zlib streams (RFC 1950).

use simd_adler32::Adler32;

use crate::coding::deflate::{BLOCK, Deflater, Effort};
use crate::io::output::Output;

/// The zlib header: a window of 32 KiB, and the fastest level.
pub(crate) const HEADER: [u8; 2] = [0x78, 0x01];

/// Compresses strips, one after the other, each to a stream of its own.
pub(crate) struct Encoder(Deflater);

impl Encoder {
    pub(crate) fn new() -> Self {
        Self(Deflater::new(Effort::Matches))
    }

    /// Replaces the contents of `out` with the stream of `data`, which must not be empty.
    pub(crate) fn encode(&mut self, data: &[u8], out: &mut Output) {
        out.clear();
        out.push(&HEADER);
        self.0.blocks(data, BLOCK, true, out);
        out.push(&adler32(data).to_be_bytes());
    }
}

/// Returns the checksum of data.
pub(crate) fn adler32(data: &[u8]) -> u32 {
    let mut checksum = Adler32::new();
    checksum.write(data);
    checksum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::{differences, noise};
    use std::io::Read;

    /// Compresses data, and checks that another implementation decompresses them.
    fn there_and_back(encoder: &mut Encoder, data: &[u8]) {
        let mut out = Output::default();
        out.push(b"what was there before");
        encoder.encode(data, &mut out);
        let (mut back, mut decoder) = (Vec::new(), flate2::read::ZlibDecoder::new(out.bytes()));
        decoder.read_to_end(&mut back).unwrap();
        assert!(back == data, "{} bytes", data.len());
        assert_eq!(decoder.total_in() as usize, out.bytes().len(), "nothing is behind the stream");
    }

    #[test]
    fn a_stream_is_the_same_whatever_was_encoded_before() {
        let (mut used, data) = (Encoder::new(), [differences(100_000), noise(1000, 4).repeat(50)]);
        there_and_back(&mut used, &noise(1000, 4).repeat(11));
        for data in &data {
            let [mut first, mut second] = [Output::default(), Output::default()];
            used.encode(data, &mut first);
            Encoder::new().encode(data, &mut second);
            assert!(first.bytes() == second.bytes());
        }
    }

    #[test]
    fn few_bytes_and_many_come_back() {
        for length in [1, 2, 3, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            there_and_back(&mut Encoder::new(), &noise(length, 5));
            there_and_back(&mut Encoder::new(), &vec![0; length]);
        }
    }
}
