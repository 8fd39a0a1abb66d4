//! Compression by TIFF's LZW (TIFF 6.0, section 13).
//!
//! Codes have the highest bit first, and get longer one code earlier than necessary.
//!
//! The table of strings is a hash table that never moves anything: a string is found by one load,
//! or it is not there. Its buckets have room for three strings each, and a string that finds its
//! bucket full is not remembered. The result is still LZW, as a decoder does not need strings with
//! codes that are never written; scanned texts get a hundredth longer, photographs not at all. The
//! gain is a loop without branches to mispredict: in photographs, whether a byte continues a string
//! is as good as random.

use std::hint::select_unpredictable;

use crate::io::output::Output;

/// Forgets all strings.
const CLEAR: usize = 256;
/// Ends the data.
const END: usize = 257;
/// The first code that is given to a string.
const FIRST: usize = 258;
/// The fewest and most bits of a code.
const SHORTEST_CODE: u32 = 9;
const LONGEST_CODE: u32 = 12;
/// More than the largest code.
const CODES: usize = 1 << LONGEST_CODE;
/// The number of codes between two Clear codes, as in libtiff.
///
/// It is one fewer than the specification's, which some decoders do not accept.
const MAX_CODES: usize = CODES - 2 - FIRST;
/// Bits of a place in a bucket: a string's code, its last byte, and a flag that the place is free.
///
/// The rest of the string, which has a code of its own, follows from the bucket's index and the
/// last byte, see [`place`].
const STRING_BITS: u32 = LONGEST_CODE + 8 + 1;
/// A bucket with its three places for strings free.
///
/// The uppermost place is taken last. The uppermost bit of a bucket is always 0.
const FREE: u64 = u64::MAX >> 1;
/// A last byte of 1 in each of the three places.
const LAST_BYTES: u64 = (1 | 1 << STRING_BITS | 1 << (2 * STRING_BITS)) << LONGEST_CODE;

/// Compresses strips, one after the other, each to a stream of its own.
pub(crate) struct Encoder {
    buckets: Box<[u64; CODES]>,
    /// The codes to be written since the last Clear.
    codes: Box<[u16; CODES]>,
    count: usize,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { buckets: Box::new([FREE; CODES]), codes: Box::new([0; CODES]), count: 0 }
    }

    /// Appends the compressed stream of `data` to `out`.
    pub(crate) fn encode(&mut self, data: &[u8], out: &mut Output) {
        // At most twelve bits per byte, a Clear after thousands of bytes, and each piece is stored
        // as a whole word.
        let room = out.room(data.len() / 2 * 3 + data.len() / 1024 + 32);
        let mut bits = Bits { out: room, at: 0, pending: 0, count: 0 };
        bits.push(CLEAR as u64, SHORTEST_CODE);
        self.clear();
        if let Some((&first, mut rest)) = data.split_first() {
            let mut string = u32::from(first);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(MAX_CODES - self.count));
                string = self.extend(string, now);
                rest = later;
                self.clear_if_full(&mut bits);
            }
            self.codes[self.count] = string as u16;
            self.count += 1;
            self.clear_if_full(&mut bits);
        }
        self.write_codes(END, &mut bits);
        let written = bits.end();
        out.advance(written);
    }

    /// Extends the string with the code `string` by `bytes`, no more than there are codes left.
    ///
    /// Returns the code to be written next.
    fn extend(&mut self, mut string: u32, bytes: &[u8]) -> u32 {
        let mut count = self.count;
        for &byte in bytes {
            let place = &mut self.buckets[place(string, byte)];
            let bucket = *place;
            // The XOR leaves only the string's code in a place with this last byte. With each place
            // shifted to the top of a word, its word is then the smallest.
            let rests = bucket ^ (u64::from(byte) * LAST_BYTES);
            let [third, second, first] = [1, 1 + STRING_BITS, 1 + 2 * STRING_BITS].map(|up| rests << up);
            // Without such a place, the byte begins a new string. This word is greater than any
            // code, and smaller than the words of other strings, which have codes greater than
            // bytes.
            let begins = u64::from(1 << LONGEST_CODE | u32::from(byte)) << (64 - STRING_BITS);
            let next = (third.min(begins).min(second.min(first)) >> (64 - STRING_BITS)) as usize;
            let is_new = next >> LONGEST_CODE;
            self.codes[count % CODES] = string as u16;
            let new = u64::from(byte) << LONGEST_CODE | (FIRST + count) as u64;
            let is_full = bucket >> (3 * STRING_BITS - 1) == 0;
            *place =
                select_unpredictable((is_new == 0) | is_full, bucket, (bucket << STRING_BITS | new) & FREE);
            string = (next % CODES) as u32;
            count += is_new;
        }
        self.count = count;
        string
    }

    fn clear_if_full(&mut self, bits: &mut Bits<'_>) {
        if self.count == MAX_CODES {
            self.write_codes(CLEAR, bits);
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.buckets.fill(FREE);
        self.count = 0;
    }

    /// Writes the codes, and `last` after them.
    fn write_codes(&mut self, last: usize, bits: &mut Bits<'_>) {
        self.codes[self.count] = last as u16;
        let codes = &self.codes[..=self.count];
        // The decoder knows one string fewer than there are codes; code lengths change one code
        // earlier still.
        let [ten, eleven, twelve] = [10, 11, 12].map(|length| codes.len().min((1 << (length - 1)) - FIRST));
        bits.push_codes::<9>(&codes[..ten]);
        bits.push_codes::<10>(&codes[ten..eleven]);
        bits.push_codes::<11>(&codes[eleven..twelve]);
        bits.push_codes::<12>(&codes[twelve..]);
    }
}

/// Returns the bucket of a string and the byte that continues it.
///
/// All strings with the same last byte have different ones.
#[inline(always)]
fn place(string: u32, byte: u8) -> usize {
    // The golden ratio scatters bytes.
    let scattered = u32::from(byte).wrapping_mul(0x9e37_79b1) >> (u32::BITS - LONGEST_CODE);
    (string ^ scattered) as usize % CODES
}

/// Writes bits to `out`, which must have room for a whole word each time.
struct Bits<'a> {
    out: &'a mut [u8],
    at: usize,
    /// The lowest `count` bits do not fill a byte yet; those above are written.
    pending: u64,
    count: u32,
}

impl Bits<'_> {
    /// Appends the lowest `count` bits of `bits`, the others being 0; 1 to 56.
    #[inline(always)]
    fn push(&mut self, bits: u64, count: u32) {
        self.pending = self.pending << count | bits;
        self.count += count;
        let word = self.pending << (u64::BITS - self.count);
        self.out[self.at..][..8].copy_from_slice(&word.to_be_bytes());
        self.at += self.count as usize / 8;
        self.count %= 8;
    }

    /// Appends codes of `LENGTH` bits.
    fn push_codes<const LENGTH: u32>(&mut self, codes: &[u16]) {
        let (fours, rest) = codes.as_chunks::<4>();
        for four in fours {
            let together = four.iter().fold(0, |codes, &code| codes << LENGTH | u64::from(code));
            self.push(together, 4 * LENGTH);
        }
        rest.iter().for_each(|&code| self.push(u64::from(code), LENGTH));
    }

    /// Returns the number of bytes, including a last one that is not full.
    fn end(&self) -> usize {
        self.at + usize::from(self.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::{differences, noise};

    fn encoded(encoder: &mut Encoder, data: &[u8]) -> Vec<u8> {
        let mut out = Output::default();
        encoder.encode(data, &mut out);
        out.bytes().to_vec()
    }

    /// Compresses data, checks another implementation's result, and returns the compressed size.
    fn there_and_back(encoder: &mut Encoder, data: &[u8]) -> usize {
        let stream = encoded(encoder, data);
        let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
        let back = decoder.decode(&stream).unwrap();
        assert!(decoder.has_ended(), "{} bytes without an end", data.len());
        assert!(back == data, "{} bytes", data.len());
        stream.len()
    }

    /// Returns the size to which another implementation compresses data.
    fn by_another(data: &[u8]) -> usize {
        let mut encoder = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
        encoder.encode(data).unwrap().len()
    }

    /// Bytes without a repeated pair of neighbours, each with a code: a walk along a graph's edges.
    fn all_different(length: usize) -> Vec<u8> {
        let pairs = (0..=255_u8).flat_map(|a| (0..a).flat_map(move |b| [a, b]));
        pairs.take(length).collect()
    }

    #[test]
    fn the_specifications_example() {
        let stream = encoded(&mut Encoder::new(), &[7, 7, 7, 8, 8, 7, 7, 6, 6]);
        // Codes 256, 7, 258, 8, 8, 258, 6, 6, 257 of nine bits each.
        let mut bits = Bits { out: &mut [0; 32], at: 0, pending: 0, count: 0 };
        bits.push_codes::<9>(&[256, 7, 258, 8, 8, 258, 6, 6, 257]);
        let expected = bits.end();
        assert_eq!(stream, bits.out[..expected]);
    }

    #[test]
    fn nothing_one_byte_and_noise_come_back() {
        let encoder = &mut Encoder::new();
        assert_eq!(encoded(encoder, &[]), [0x80, 0x40, 0x40], "Clear and end");
        there_and_back(encoder, &[]);
        for byte in [0, 1, 254, 255] {
            there_and_back(encoder, &[byte]);
            there_and_back(encoder, &vec![byte; 1_000_000]);
        }
        there_and_back(encoder, &noise(300_000, 1));
    }

    #[test]
    fn codes_get_longer_and_the_table_full_at_any_length() {
        let encoder = &mut Encoder::new();
        // Lengths at which the codes get longer, and at which the table is full for the first and
        // the second time.
        for around in [254, 766, 1790, MAX_CODES, 2 * MAX_CODES] {
            for length in around - 5..around + 6 {
                for data in [noise(length, 1), all_different(length)] {
                    there_and_back(encoder, &data);
                }
            }
        }
    }

    #[test]
    fn a_stream_is_the_same_whatever_was_encoded_before() {
        let (used, data) = (&mut Encoder::new(), differences(100_000));
        there_and_back(used, &noise(10_001, 1));
        assert!(encoded(used, &data) == encoded(&mut Encoder::new(), &data));
    }

    #[test]
    fn streams_are_no_longer_than_those_of_who_remembers_everything() {
        let encoder = &mut Encoder::new();
        let text: Vec<u8> = include_str!("lzw.rs").bytes().collect();
        let (ramp, photograph) =
            ((0..400_000).map(|at| u8::from(at % 99 == 0)).collect(), differences(400_000));
        for (data, percent) in [(photograph, 100), (text, 101), (vec![7; 500_000], 101), (ramp, 102)] {
            let (own, other) = (there_and_back(encoder, &data), by_another(&data));
            assert!(100 * own <= percent * other + 100, "{own} bytes instead of {other}");
        }
    }
}
