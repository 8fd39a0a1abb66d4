//! Deflate (RFC 1951) for rows that are filtered or predicted.
//!
//! Each block has Huffman codes of its own, and matches where they pay off. The filtered rows of a
//! photograph are noise around zero, in which matches other than runs of zeros cost much and gain
//! little (the idea is fdeflate's, which has one code for all pictures). Graphics and masks get
//! several times smaller with matches. The beginning of a block decides whether the rest of it is
//! searched.

use std::ops::Range;

use crate::io::output::Output;
use equalize::histogram::Tally;

mod codes;
mod matches;

use codes::Codes;
use matches::{BIT, Finder, LONGEST_MATCH, Match, Trial};

/// Bytes of a block of strips, which has Huffman codes of its own.
pub(crate) const BLOCK: usize = 128 << 10;
/// The longest code.
///
/// Four such codes fit into one [`Bits::push`], and so do the two codes of a match with their extra
/// bits.
const LONGEST: usize = 12;
/// The longest code in the alphabet of code lengths.
const LONGEST_OF_LENGTH: usize = 7;
/// The shortest match length of each length symbol: `LENGTH_BASES[n]` for symbol 257 + n.
pub(crate) const LENGTH_BASES: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
    227, 258,
];
/// The number of symbols for literals, the end of the block, and match lengths.
const SYMBOLS: usize = 257 + LENGTH_BASES.len();
pub(crate) const END_OF_BLOCK: usize = 256;
/// The number of symbols for distances.
const DISTANCES: usize = 30;
/// More bytes than a block takes in addition to its encoded content.
const BLOCK_OVERHEAD: usize = 512;
/// Bytes at the beginning of a block in which matches have to pay off.
const SAMPLE: usize = 4 << 10;
/// The cost of a byte below which a block is nearly flat.
///
/// Matches are quick to find in it and always pay off.
const FLAT: u64 = BIT + BIT / 2;

/// The choice of blocks that are searched for matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Only nearly flat blocks.
    Flat,
    /// Also blocks with a beginning that gets shorter by an eighth with matches.
    Matches,
}

impl Effort {
    /// Returns the trial of matches in a block in which a byte costs `literal` on average, if any.
    fn trial(self, literal: u64) -> Option<Trial> {
        match self {
            _ if literal < FLAT => Some(Trial { bytes: 0, saved: 0 }),
            Self::Flat => None,
            Self::Matches => Some(Trial { bytes: SAMPLE, saved: SAMPLE as u64 * literal / 8 }),
        }
    }
}

/// Compresses a stream block by block.
pub(crate) struct Deflater {
    effort: Effort,
    /// Bits that do not fill a byte yet, the first one lowest.
    pending: u64,
    /// The number of pending bits; fewer than 8 between blocks.
    count: u32,
    tally: Tally,
    finder: Finder,
}

impl Deflater {
    pub(crate) fn new(effort: Effort) -> Self {
        Self { effort, pending: 0, count: 0, tally: Tally::new(256), finder: Finder::default() }
    }

    /// Compresses `data` in blocks of `length` bytes, which end the stream if they are the `last`.
    ///
    /// Data that were compressed before do not affect the result.
    pub(crate) fn blocks(&mut self, data: &[u8], length: usize, last: bool, out: &mut Output) {
        self.finder.clear();
        for start in (0..data.len()).step_by(length) {
            let end = data.len().min(start + length);
            self.block(data, start..end, last && end == data.len(), out);
        }
    }

    /// Compresses a block of `data`; the stream ends with it if it is the `last`.
    fn block(&mut self, data: &[u8], range: Range<usize>, last: bool, out: &mut Output) {
        let block = &data[range.clone()];
        self.tally.clear();
        self.tally.add(block);
        let counts = self.tally.counts();
        let literal = literal_cost(counts, block.len());
        if !self.finder.search(data, range, literal, self.effort.trial(literal)) {
            self.finder.runs(block);
        }
        let matches = &self.finder.matches;
        let (frequencies, distances) = frequencies(block, matches, counts);
        let codes = BlockCodes {
            symbols: Codes::new(&frequencies, LONGEST),
            distances: Codes::new(&distances, LONGEST),
        };
        // A literal takes at most 12 bits, and a match no more than its bytes would as literals: at
        // most 42 bits for four bytes or more, at most 29 for a run, which has three or more. Each
        // push stores a whole word.
        let room = out.room(block.len() / 2 * 3 + BLOCK_OVERHEAD);
        let mut bits = Bits { out: room, at: 0, pending: self.pending, count: self.count };
        codes.write(last, &mut bits);
        codes.write_content(block, matches, &mut bits);
        if last {
            bits.end_byte();
        }
        (self.pending, self.count) = (bits.pending, bits.count);
        let written = bits.at;
        out.advance(written);
    }

    /// Makes the next data begin on a byte boundary, after an empty stored block if need be.
    pub(crate) fn end_byte(&mut self, out: &mut Output) {
        if self.count > 0 {
            const STORED: u64 = 0;
            let room = out.room(BLOCK_OVERHEAD);
            let mut bits = Bits { out: room, at: 0, pending: self.pending, count: self.count };
            bits.push(STORED << 1, 3);
            bits.end_byte();
            // The length 0, and its complement.
            bits.push(0xffff_0000, 32);
            let written = bits.at;
            out.advance(written);
            (self.pending, self.count) = (0, 0);
        }
    }
}

/// Returns about how many bytes data take without matches, as their frequencies suggest.
pub(crate) fn literal_bytes(data: &[u8]) -> u64 {
    let mut tally = Tally::new(256);
    tally.add(data);
    literal_cost(tally.counts(), data.len()) * data.len() as u64 / BIT / 8
}

/// Returns the average cost of a byte as a literal, in units of 1/[`BIT`] of a bit.
///
/// It is the entropy of the bytes' frequencies, but at least a bit for each.
fn literal_cost(counts: &[u64], bytes: usize) -> u64 {
    let all = log(bytes as u64);
    let occurring = counts.iter().filter(|&&count| count > 0);
    occurring.map(|&count| count * (all - log(count)).max(BIT)).sum::<u64>() / bytes as u64
}

/// Returns the base-2 logarithm of a number above 0, in units of 1/[`BIT`].
///
/// It is interpolated linearly between powers of 2.
fn log(number: u64) -> u64 {
    let whole = number.ilog2();
    u64::from(whole) * BIT + ((u128::from(number) * u128::from(BIT)) >> whole) as u64 - BIT
}

/// Counts each symbol and each distance symbol of a block, given the `counts` of its bytes.
fn frequencies(block: &[u8], matches: &[Match], counts: &[u64]) -> ([u32; SYMBOLS], [u32; DISTANCES]) {
    let (mut frequencies, mut distances) = ([0; SYMBOLS], [0; DISTANCES]);
    // Two tables, which spare a byte from waiting for the one before, which may be the same.
    let mut covered = [[0_u32; 256]; 2];
    let mut at = 0;
    for found in matches {
        let (start, length) = (at + found.literals as usize, usize::from(found.length));
        at = start + length;
        frequencies[length_symbol(length).symbol] += 1;
        distances[distance_symbol(found.distance).symbol] += 1;
        if found.distance == 1 {
            covered[0][usize::from(block[start])] += length as u32;
            continue;
        }
        let (pairs, rest) = block[start..at].as_chunks::<2>();
        for pair in pairs {
            covered.iter_mut().zip(pair).for_each(|(table, &byte)| table[usize::from(byte)] += 1);
        }
        rest.iter().for_each(|&byte| covered[0][usize::from(byte)] += 1);
    }
    for (byte, (frequency, &count)) in frequencies.iter_mut().zip(counts).enumerate() {
        *frequency = count as u32 - covered[0][byte] - covered[1][byte];
    }
    frequencies[END_OF_BLOCK] = 1;
    // A complete code has at least two symbols.
    distances[..2].iter_mut().for_each(|frequency| *frequency = (*frequency).max(1));
    (frequencies, distances)
}

/// Writes bits to `out`, which must have room for a whole word each time.
struct Bits<'a> {
    out: &'a mut [u8],
    at: usize,
    pending: u64,
    count: u32,
}

impl Bits<'_> {
    /// Appends the lowest `count` bits of `bits`, the others being 0; at most 56.
    #[inline(always)]
    fn push(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.count;
        self.count += count;
        self.out[self.at..][..8].copy_from_slice(&self.pending.to_le_bytes());
        let bytes = self.count / 8;
        self.at += bytes as usize;
        self.pending >>= bytes * 8;
        self.count %= 8;
    }

    /// Appends four groups of bits, each with its count; at most 56 in all.
    #[inline(always)]
    fn push_four(&mut self, [a, b, c, d]: [(u64, u32); 4]) {
        // Combined in pairs, which do not have to wait for each other.
        let (bits, count) = joined(joined(a, b), joined(c, d));
        self.push(bits, count);
    }

    /// Returns a copy that continues writing to the same output.
    fn reborrow(&mut self) -> Bits<'_> {
        Bits { out: self.out, at: self.at, pending: self.pending, count: self.count }
    }

    /// Fills up the byte that was begun.
    fn end_byte(&mut self) {
        self.push(0, (8 - self.count) % 8);
    }
}

/// The symbol of a length or of a distance, and the extra bits that follow it.
struct Symbol {
    symbol: usize,
    extra: u64,
    extra_bits: u32,
}

/// By match length: the index of its base in [`LENGTH_BASES`].
const LENGTH_NUMBERS: [u8; LONGEST_MATCH + 1] = {
    let (mut numbers, mut length, mut number) = ([0; LONGEST_MATCH + 1], 3, 0);
    while length <= LONGEST_MATCH {
        if number + 1 < LENGTH_BASES.len() && LENGTH_BASES[number + 1] as usize == length {
            number += 1;
        }
        numbers[length] = number as u8;
        length += 1;
    }
    numbers
};

fn length_symbol(length: usize) -> Symbol {
    let number = usize::from(LENGTH_NUMBERS[length]);
    let extra_bits = if number < 8 || number == 28 { 0 } else { number as u32 / 4 - 1 };
    Symbol { symbol: 257 + number, extra: (length - usize::from(LENGTH_BASES[number])) as u64, extra_bits }
}

fn distance_symbol(distance: u16) -> Symbol {
    let before = u32::from(distance) - 1;
    if before < 4 {
        return Symbol { symbol: before as usize, extra: 0, extra_bits: 0 };
    }
    // The symbol holds the two highest bits; the lower ones follow it.
    let extra_bits = before.ilog2() - 1;
    let extra = u64::from(before) & ((1 << extra_bits) - 1);
    Symbol { symbol: (2 * extra_bits + (before >> extra_bits)) as usize, extra, extra_bits }
}

/// The Huffman codes of a block.
struct BlockCodes {
    symbols: Codes<SYMBOLS>,
    distances: Codes<DISTANCES>,
}

impl BlockCodes {
    /// Writes the head of a block: its type, and the lengths of its codes.
    fn write(&self, last: bool, bits: &mut Bits<'_>) {
        const DYNAMIC: u64 = 2;
        bits.push(u64::from(last) | DYNAMIC << 1, 3);
        let (symbols, distances) = (self.symbols.lengths(257), self.distances.lengths(1));
        let (symbols, distances): (Vec<u8>, Vec<u8>) = (symbols.collect(), distances.collect());
        bits.push((symbols.len() as u64 - 257) | (distances.len() as u64 - 1) << 5 | (19 - 4) << 10, 14);
        let lengths = pack(&[symbols, distances].concat());
        let mut frequencies = [0; 19];
        lengths.iter().for_each(|length| frequencies[length.symbol] += 1);
        let codes = Codes::new(&frequencies, LONGEST_OF_LENGTH);
        for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15] {
            bits.push(u64::from(codes.of(symbol).1), 3);
        }
        for Symbol { symbol, extra, extra_bits } in lengths {
            let (code, code_bits) = codes.of(symbol);
            bits.push(code | extra << code_bits, code_bits + extra_bits);
        }
    }

    /// Writes the content of a block, and its end.
    fn write_content(&self, block: &[u8], matches: &[Match], bits: &mut Bits<'_>) {
        let mut at = 0;
        for found in matches {
            let start = at + found.literals as usize;
            self.write_literals(&block[at..start], bits);
            let (length, distance) = (length_symbol(found.length.into()), distance_symbol(found.distance));
            bits.push_four([
                self.symbols.of(length.symbol),
                (length.extra, length.extra_bits),
                self.distances.of(distance.symbol),
                (distance.extra, distance.extra_bits),
            ]);
            at = start + usize::from(found.length);
        }
        self.write_literals(&block[at..], bits);
        let (code, code_bits) = self.symbols.of(END_OF_BLOCK);
        bits.push(code, code_bits);
    }

    fn write_literals(&self, data: &[u8], bits: &mut Bits<'_>) {
        let (fours, rest) = data.as_chunks::<4>();
        // In a local copy, which no store to the output can alias.
        let mut own = bits.reborrow();
        fours.iter().for_each(|four| own.push_four(four.map(|byte| self.symbols.of(byte.into()))));
        // The remaining bytes. Missing ones add no bits: their number does not matter.
        own.push_four(
            [0, 1, 2, 3].map(|at| rest.get(at).map_or((0, 0), |&byte| self.symbols.of(byte.into()))),
        );
        (bits.at, bits.pending, bits.count) = (own.at, own.pending, own.count);
    }
}

/// Returns two groups of bits as one.
#[inline(always)]
fn joined(low: (u64, u32), high: (u64, u32)) -> (u64, u32) {
    (low.0 | high.0 << low.1, low.1 + high.1)
}

/// Returns code lengths as symbols (section 3.2.7), some of which stand for several zeros.
fn pack(lengths: &[u8]) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    for alike in lengths.chunk_by(|one, next| one == next) {
        let mut left = alike.len();
        while alike[0] == 0 && left >= 3 {
            let count = left.min(138);
            symbols.push(match count {
                ..11 => Symbol { symbol: 17, extra: count as u64 - 3, extra_bits: 3 },
                _ => Symbol { symbol: 18, extra: count as u64 - 11, extra_bits: 7 },
            });
            left -= count;
        }
        symbols.extend((0..left).map(|_| Symbol { symbol: alike[0].into(), extra: 0, extra_bits: 0 }));
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::matches::WINDOW;
    use super::*;
    use crate::samples::tests::{differences, noise};
    use std::io::Read;

    const EFFORTS: [Effort; 2] = [Effort::Flat, Effort::Matches];

    /// Compresses pieces in blocks, decompresses them elsewhere, and returns their compressed size.
    ///
    /// Each piece ends on a byte boundary if `each_ends` is set.
    fn comes_back(pieces: &[&[u8]], effort: Effort, block: usize, each_ends: bool) -> usize {
        let (mut deflater, mut out) = (Deflater::new(effort), Output::default());
        for (number, piece) in pieces.iter().enumerate() {
            deflater.blocks(piece, block, number + 1 == pieces.len(), &mut out);
            if each_ends {
                deflater.end_byte(&mut out);
                assert_eq!(deflater.count, 0);
            }
        }
        let (mut back, mut decoder) = (Vec::new(), flate2::read::DeflateDecoder::new(out.bytes()));
        decoder.read_to_end(&mut back).unwrap();
        assert!(back == pieces.concat());
        assert_eq!(decoder.total_in() as usize, out.bytes().len(), "nothing is behind the stream");
        out.bytes().len()
    }

    fn there_and_back(pieces: &[&[u8]]) {
        for effort in EFFORTS {
            for block in [usize::MAX, 40_000, 1000] {
                comes_back(pieces, effort, block, false);
                comes_back(pieces, effort, block, true);
            }
        }
    }

    /// Returns the compressed size of data.
    fn size(data: &[u8], effort: Effort) -> usize {
        comes_back(&[data], effort, 128 << 10, false)
    }

    fn zlib(data: &[u8]) -> usize {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
        std::io::Write::write_all(&mut encoder, data).unwrap();
        encoder.finish().unwrap().len()
    }

    #[test]
    fn one_byte_noise_and_zeros_come_back() {
        there_and_back(&[&[0]]);
        there_and_back(&[&[7]]);
        there_and_back(&[&[0; 100_000]]);
        there_and_back(&[&[9; 100_000]]);
        there_and_back(&[&noise(100_000, 1)]);
        there_and_back(&[&noise(1001, 1), &[0; 33], &[1; 3], &noise(5, 2)]);
    }

    #[test]
    fn runs_of_every_length_come_back_wherever_they_begin() {
        let mut data = Vec::new();
        for length in (0..300).chain(514..524) {
            data.extend(noise(length % 23 + 1, length as u32));
            data.extend(std::iter::repeat_n(0, length));
        }
        there_and_back(&[&data]);
    }

    #[test]
    fn repetitions_of_every_length_and_distance_come_back() {
        let mut data = noise(70_000, 1);
        for length in (3..270).chain(500..530) {
            let distance = (length * 251) % WINDOW + 1;
            (0..length).for_each(|_| data.push(data[data.len() - distance]));
            data.extend(noise(length % 5, length as u32));
        }
        // As far back as possible, and one byte further.
        for distance in [WINDOW, WINDOW + 1, 1, 2, 3] {
            (0..40_000).for_each(|_| data.push(data[data.len() - distance]));
        }
        there_and_back(&[&data]);
    }

    #[test]
    fn blocks_that_end_at_any_bit_come_back() {
        let pieces: Vec<_> = (1..40).map(|length| noise(length, 1)).collect();
        there_and_back(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    #[test]
    fn codes_are_no_longer_than_they_may_be() {
        // Fibonacci numbers make the deepest tree.
        let (mut data, mut a, mut b) = (Vec::new(), 1, 1);
        for byte in 0..20 {
            data.extend(std::iter::repeat_n(byte, a));
            (a, b) = (b, a + b);
        }
        there_and_back(&[&data]);
    }

    #[test]
    fn likely_bytes_take_few_bits() {
        let data: Vec<u8> = noise(80_000, 1).into_iter().map(|byte| byte & 3).collect();
        // Two bits for three of the four values, three for the fourth, which shares a prefix with
        // the end of the block.
        let length = size(&data, Effort::Flat);
        assert!((22_400..22_900).contains(&length), "{length} bytes for 180,000 bits");
    }

    #[test]
    fn what_is_repeated_gets_as_short_as_by_zlib() {
        let rows = noise(1000, 1).repeat(260);
        let masks = [vec![0; 700], vec![255], vec![0; 299], vec![1]].concat().repeat(200);
        // Hardly anything but repetitions, around noise in the middle.
        let pattern = [vec![0; 90], noise(10, 1)].concat().repeat(1200);
        let island = [&pattern[..], &noise(SAMPLE, 2), &pattern[..]].concat();
        for data in [rows, masks, island] {
            let (searched, zlib) = (size(&data, Effort::Matches), zlib(&data));
            assert!(searched < zlib + zlib / 3, "{searched} bytes, zlib {zlib}");
        }
    }

    #[test]
    fn photographs_get_no_longer_by_a_search() {
        for data in [differences(300_000), noise(300_000, 1), differences(20_000), noise(5000, 2)] {
            let [flat, searched] = EFFORTS.map(|effort| size(&data, effort));
            assert!(searched <= flat + flat / 500, "{searched} bytes, {flat} by runs alone");
        }
    }

    #[test]
    fn a_flat_block_has_a_short_head() {
        // 388 matches of two bits each.
        let length = size(&[0; 100_000], Effort::Flat);
        assert!(length < 97 + 25, "{length} bytes");
    }
}
