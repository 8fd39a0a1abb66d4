//! Deflate (RFC 1951) for rows that are filtered or predicted: each block has Huffman codes of its own, and its only matches are runs
//! of zeros. What filters leave of a photograph is noise around zero, in which searching for other matches costs much and finds little
//! (the idea is fdeflate's, which has one code for all pictures).

use super::output::Output;
use crate::equalize::histogram::Tally;

/// The longest code. Four of them, behind a byte begun, are what [`Bits::push`] can take.
const LONGEST: usize = 12;
/// The lengths of matches that have symbols: 257 + n stands for lengths from `LENGTH_BASES[n]` on.
const LENGTH_BASES: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
    227, 258,
];
const LONGEST_MATCH: usize = 258;
/// Literals, the end of the block, and lengths of matches.
const SYMBOLS: usize = 257 + LENGTH_BASES.len();
const END_OF_BLOCK: usize = 256;
/// What is written as a run begins with so many zeros, at a multiple of so many bytes. Shorter ones do as well as literals.
const WORD: usize = 16;
/// More bytes than a block takes beside the codes of its own.
const BLOCK_OVERHEAD: usize = 512;

/// Compresses a stream block by block.
#[derive(Default)]
pub(super) struct Deflater {
    /// Bits that do not yet make a byte, the first one lowest.
    pending: u64,
    /// How many; fewer than 8 between blocks.
    count: u32,
    runs: Vec<Run>,
}

/// Zeros in a row.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    length: usize,
}

impl Run {
    /// The match lengths that the run is written as, after its first zero as a literal; and how many zeros are left then.
    fn matches(self) -> (impl Iterator<Item = usize>, usize) {
        let (longest, rest) = ((self.length - 1) / LONGEST_MATCH, (self.length - 1) % LONGEST_MATCH);
        let (last, left) = if rest < 3 { (None, rest) } else { (Some(rest), 0) };
        (std::iter::repeat_n(LONGEST_MATCH, longest).chain(last), left)
    }
}

impl Deflater {
    /// Compresses `data` in blocks of `length` bytes, the `last` ones of their stream or not, with a tally of bytes.
    pub(super) fn blocks(
        &mut self,
        data: &[u8],
        length: usize,
        last: bool,
        tally: &mut Tally,
        out: &mut Output,
    ) {
        let mut blocks = data.chunks(length).peekable();
        while let Some(block) = blocks.next() {
            tally.clear();
            tally.add(block);
            self.block(block, tally.counts(), last && blocks.peek().is_none(), out);
        }
    }

    /// Compresses `data` as a block, the `last` one of its stream or not. `counts`: how often each byte occurs in it.
    fn block(&mut self, data: &[u8], counts: &[u64], last: bool, out: &mut Output) {
        self.find_runs(data);
        let codes = Codes::new(&self.frequencies(counts));
        // A byte takes at most 12 bits, and every piece is stored as a whole word.
        let mut bits = self.bits(out.room(data.len() / 2 * 3 + BLOCK_OVERHEAD));
        codes.write(last, &mut bits);
        let mut at = 0;
        for run in &self.runs {
            codes.write_literals(&data[at..=run.start], &mut bits);
            let (matches, left) = run.matches();
            matches.for_each(|length| codes.write_match(length, &mut bits));
            at = run.start + run.length - left;
        }
        codes.write_literals(&data[at..], &mut bits);
        codes.write_symbol(END_OF_BLOCK, &mut bits);
        if last {
            bits.end_byte();
        }
        (self.pending, self.count) = (bits.pending, bits.count);
        let written = bits.at;
        out.advance(written);
    }

    /// Has what comes next begin at a byte: behind an empty stored block, if need be.
    pub(super) fn end_byte(&mut self, out: &mut Output) {
        if self.count > 0 {
            const STORED: u64 = 0;
            let mut bits = self.bits(out.room(BLOCK_OVERHEAD));
            bits.push(STORED << 1, 3);
            bits.end_byte();
            // Its length, and that again with all bits turned.
            bits.push(0xffff_0000, 32);
            let written = bits.at;
            out.advance(written);
            (self.pending, self.count) = (0, 0);
        }
    }

    /// Goes on with the bits that do not yet make a byte.
    fn bits<'o>(&self, out: &'o mut [u8]) -> Bits<'o> {
        Bits { out, at: 0, pending: self.pending, count: self.count }
    }

    fn frequencies(&self, counts: &[u64]) -> [u32; SYMBOLS] {
        let mut frequencies = [0; SYMBOLS];
        for (frequency, &count) in frequencies.iter_mut().zip(counts) {
            *frequency = count as u32;
        }
        frequencies[END_OF_BLOCK] = 1;
        for run in &self.runs {
            let (matches, left) = run.matches();
            frequencies[0] -= (run.length - 1 - left) as u32;
            matches.for_each(|length| frequencies[length_symbol(length).symbol] += 1);
        }
        frequencies
    }

    fn find_runs(&mut self, data: &[u8]) {
        self.runs.clear();
        let (words, _) = data.as_chunks::<WORD>();
        let mut at = 0;
        while let Some(found) = words[at..].iter().position(|word| *word == [0; WORD]) {
            let start = (at + found) * WORD;
            let zeros =
                data[start..].as_chunks::<WORD>().0.iter().take_while(|word| **word == [0; WORD]).count();
            let end = start + zeros * WORD;
            let length = zeros * WORD + data[end..].iter().take_while(|&&byte| byte == 0).count();
            self.runs.push(Run { start, length });
            at += found + zeros;
        }
    }
}

/// Bits on their way into `out`, whose end is far enough off.
struct Bits<'a> {
    out: &'a mut [u8],
    at: usize,
    pending: u64,
    count: u32,
}

impl Bits<'_> {
    /// Appends the lowest `count` bits, the rest being 0; at most 56.
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

    /// The same bits, to be gone on with.
    fn reborrow(&mut self) -> Bits<'_> {
        Bits { out: self.out, at: self.at, pending: self.pending, count: self.count }
    }

    /// Fills the byte that is begun.
    fn end_byte(&mut self) {
        self.push(0, (8 - self.count) % 8);
    }
}

/// A length's symbol, and what follows it.
struct LengthSymbol {
    symbol: usize,
    extra: u64,
    extra_bits: u32,
}

/// By match length: which of [`LENGTH_BASES`] it belongs to.
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

fn length_symbol(length: usize) -> LengthSymbol {
    let number = usize::from(LENGTH_NUMBERS[length]);
    let extra_bits = if number < 8 || number == 28 { 0 } else { number as u32 / 4 - 1 };
    LengthSymbol {
        symbol: 257 + number,
        extra: (length - usize::from(LENGTH_BASES[number])) as u64,
        extra_bits,
    }
}

/// A symbol's code as it is written: its bits, the first one lowest, and above [`CODE_BITS`] bits their number.
type Code = u32;
const CODE_BITS: u32 = 16;

/// The codes of a block.
struct Codes {
    codes: [Code; SYMBOLS],
}

impl Codes {
    fn new(frequencies: &[u32; SYMBOLS]) -> Self {
        let lengths = code_lengths(frequencies);
        let mut next = [0_u16; LONGEST + 1];
        for length in 1..=LONGEST {
            let shorter =
                lengths.iter().filter(|&&own| usize::from(own) == length - 1 && own > 0).count() as u16;
            next[length] = (next[length - 1] + shorter) << 1;
        }
        let codes = lengths.map(|length| {
            let length = u32::from(length);
            let code = next[length as usize];
            next[length as usize] += u16::from(length > 0);
            u32::from(code.reverse_bits()).unbounded_shr(CODE_BITS - length) | length << CODE_BITS
        });
        Self { codes }
    }

    /// The head of a block: its kind, and the lengths of its codes in four bits each.
    fn write(&self, last: bool, bits: &mut Bits<'_>) {
        const DYNAMIC: u64 = 2;
        const DISTANCES: usize = 2;
        bits.push(u64::from(last) | DYNAMIC << 1, 3);
        bits.push((SYMBOLS as u64 - 257) | (DISTANCES as u64 - 1) << 5 | (19 - 4) << 10, 14);
        // The lengths 0 to 15 have codes of four bits; there are no repetitions.
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        order.iter().for_each(|&length| bits.push(if length < 16 { 4 } else { 0 }, 3));
        let lengths = self.codes.iter().map(|code| code >> CODE_BITS);
        for length in lengths.chain([1; DISTANCES]) {
            bits.push(u64::from(length.reverse_bits() >> 28), 4);
        }
    }

    fn write_literals(&self, data: &[u8], bits: &mut Bits<'_>) {
        let code = |byte: u8| {
            let code = self.codes[usize::from(byte)];
            (u64::from(code as u16), code >> CODE_BITS)
        };
        let both = |(low, low_bits): (u64, u32), (high, high_bits): (u64, u32)| {
            (low | high << low_bits, low_bits + high_bits)
        };
        let (fours, rest) = data.as_chunks::<4>();
        // In a copy of its own, which no store into the output can concern.
        let mut own = bits.reborrow();
        for &[a, b, c, d] in fours {
            let (four, count) = both(both(code(a), code(b)), both(code(c), code(d)));
            own.push(four, count);
        }
        (bits.at, bits.pending, bits.count) = (own.at, own.pending, own.count);
        rest.iter().for_each(|&byte| self.write_symbol(usize::from(byte), bits));
    }

    fn write_symbol(&self, symbol: usize, bits: &mut Bits<'_>) {
        let code = self.codes[symbol];
        bits.push(u64::from(code as u16), code >> CODE_BITS);
    }

    /// A repetition of the byte before.
    fn write_match(&self, length: usize, bits: &mut Bits<'_>) {
        let LengthSymbol { symbol, extra, extra_bits } = length_symbol(length);
        self.write_symbol(symbol, bits);
        // The distance 1 has a code of one bit, 0.
        bits.push(extra, extra_bits + 1);
    }
}

/// Lengths of a prefix code, at most [`LONGEST`] each, as good as Huffman's but for that limit; 0 where a symbol does not occur.
/// At least two symbols occur.
fn code_lengths(frequencies: &[u32; SYMBOLS]) -> [u8; SYMBOLS] {
    let mut symbols: Vec<usize> = (0..SYMBOLS).filter(|&symbol| frequencies[symbol] > 0).collect();
    symbols.sort_by_key(|&symbol| frequencies[symbol]);
    let mut weights: Vec<u32> = symbols.iter().map(|&symbol| frequencies[symbol]).collect();
    depths(&mut weights);
    let mut of_length = [0_usize; LONGEST + 1];
    weights.iter().for_each(|&depth| of_length[(depth as usize).min(LONGEST)] += 1);
    // Codes that were cut take more than there is; each step gives a shorter code away to two longer ones.
    let mut taken: usize =
        of_length.iter().enumerate().map(|(length, &codes)| codes << (LONGEST - length)).sum();
    while taken > 1 << LONGEST {
        let shorter = (1..LONGEST).rev().find(|&length| of_length[length] > 0).expect("some code is shorter");
        of_length[LONGEST] -= 1;
        of_length[shorter] -= 1;
        of_length[shorter + 1] += 2;
        taken -= 1;
    }
    let mut lengths = [0; SYMBOLS];
    let by_length =
        (1..=LONGEST).rev().flat_map(|length| std::iter::repeat_n(length as u8, of_length[length]));
    for (&symbol, length) in symbols.iter().zip(by_length) {
        lengths[symbol] = length;
    }
    lengths
}

/// Replaces weights, in ascending order, by the depths of their leaves in a Huffman tree (Moffat and Katajainen, *In-Place Calculation
/// of Minimum-Redundancy Codes*, 1995).
fn depths(weights: &mut [u32]) {
    let count = weights.len();
    // Weights become the weights of inner nodes, and then the numbers of their parents.
    let (mut leaf, mut root) = (0, 0);
    for next in 0..count - 1 {
        let mut lighter = |weights: &mut [u32]| {
            if leaf >= count || (root < next && weights[root] < weights[leaf]) {
                let weight = std::mem::replace(&mut weights[root], next as u32);
                root += 1;
                weight
            } else {
                leaf += 1;
                weights[leaf - 1]
            }
        };
        let sum = lighter(weights) + lighter(weights);
        weights[next] = sum;
    }
    // Parents become depths, from the root down.
    weights[count - 2] = 0;
    for node in (0..count - 2).rev() {
        weights[node] = weights[weights[node] as usize] + 1;
    }
    // Of the places at each depth those that are no inner nodes are leaves.
    let (mut places, mut depth, mut inner, mut leaf) = (1, 0, count as isize - 2, count);
    while places > 0 {
        let mut nodes = 0;
        while inner >= 0 && weights[inner as usize] == depth {
            nodes += 1;
            inner -= 1;
        }
        for _ in nodes..places {
            leaf -= 1;
            weights[leaf] = depth;
        }
        places = 2 * nodes;
        depth += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn counts(data: &[u8]) -> [u64; 256] {
        let mut counts = [0; 256];
        data.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        counts
    }

    /// Compresses blocks, and has them decompressed by another's hand; `each_ends` says whether each ends with a byte.
    fn comes_back(blocks: &[&[u8]], each_ends: bool) {
        let (mut deflater, mut out) = (Deflater::default(), Output::default());
        for (number, block) in blocks.iter().enumerate() {
            deflater.block(block, &counts(block), number + 1 == blocks.len(), &mut out);
            if each_ends {
                deflater.end_byte(&mut out);
                assert_eq!(deflater.count, 0);
            }
        }
        let mut back = Vec::new();
        flate2::read::DeflateDecoder::new(out.bytes()).read_to_end(&mut back).unwrap();
        assert_eq!(back, blocks.concat());
    }

    fn there_and_back(blocks: &[&[u8]]) {
        comes_back(blocks, false);
        comes_back(blocks, true);
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..length).map(|_| next() as u8).collect()
    }

    #[test]
    fn one_byte_noise_and_zeros_come_back() {
        there_and_back(&[&[0]]);
        there_and_back(&[&[7]]);
        there_and_back(&[&[0; 100_000]]);
        there_and_back(&[&noise(100_000)]);
        there_and_back(&[&noise(1001), &[0; 33], &[1; 3], &noise(5)]);
    }

    #[test]
    fn runs_of_every_length_come_back_wherever_they_begin() {
        let mut data = Vec::new();
        for length in (0..300).chain(514..524) {
            data.extend(noise(length % 23 + 1));
            data.extend(std::iter::repeat_n(0, length));
        }
        there_and_back(&[&data]);
    }

    #[test]
    fn blocks_that_end_at_any_bit_come_back() {
        let blocks: Vec<_> = (1..40).map(noise).collect();
        there_and_back(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>());
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
        let data: Vec<u8> = noise(80_000).into_iter().map(|byte| byte & 3).collect();
        let mut out = Output::default();
        Deflater::default().block(&data, &counts(&data), true, &mut out);
        let length = out.bytes().len();
        // Two bits for three of the four, three for the fourth, which shares a prefix with the end of the block.
        assert!((22_400..22_900).contains(&length), "{length} bytes for 180,000 bits");
    }
}
