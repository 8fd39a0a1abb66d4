//! Huffman codes (T.81, annexes C and K.2).

use super::bits::BitReader;

/// Codes up to this length, in bits, are decoded in one step.
pub(super) const SHORT: u32 = 10;

/// A code and its value are decoded together in one step if they have at most this many bits.
const VALUED: u32 = 11;

/// The length of the longest code, in bits.
const LONGEST: usize = 16;

/// The most bits of a difference between two DC coefficients.
///
/// It is for 8-bit baseline pictures (table F.1).
const MAX_DC_BITS: u8 = 11;

/// The most bits of an AC coefficient in these (table F.2).
const MAX_AC_BITS: u8 = 10;

/// The symbols without a coefficient (table F.2): the end of a block, and sixteen zeros.
///
/// Decoders disagree on other symbols without bits.
const NO_VALUE: [u8; 2] = [0x00, 0xf0];

/// The Huffman codes of a picture, by their table numbers.
#[derive(Default)]
pub(super) struct Codes {
    /// The codes for DC coefficients.
    pub(super) dc: [Option<Decoder>; 4],
    /// The codes for AC coefficients.
    pub(super) ac: [Option<Decoder>; 4],
}

impl Codes {
    /// Takes the content of a DHT segment (T.81, B.2.4.2).
    ///
    /// `None` if it is invalid.
    pub(super) fn define(&mut self, mut content: &[u8]) -> Option<()> {
        while let Some((&which, rest)) = content.split_first() {
            let (counts, rest) = rest.split_first_chunk()?;
            let symbols = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            if symbols > 256 {
                return None;
            }
            let (symbols, rest) = rest.split_at_checked(symbols)?;
            let codes = match which >> 4 {
                // Differences of samples have at most 16 bits, those of DC coefficients one less.
                0 if symbols.iter().all(|&size| size <= 16) => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            *codes.get_mut(usize::from(which & 15))? = Some(Decoder::new(counts, symbols)?);
            content = rest;
        }
        Some(())
    }
}

/// A complete description of a code (T.81, annex C).
#[derive(Clone, Copy)]
pub struct CanonicalCode<'c> {
    /// By length: a bound for the next 16 bits.
    ///
    /// It is the least number that does not begin with a code of at most this length.
    pub end: &'c [u32; LONGEST + 1],
    /// By length: the distance from a code to the index of its symbol.
    pub place: &'c [i32; LONGEST + 1],
    /// All symbols, at most 256.
    pub symbols: &'c [u8],
}

/// A code with the tables for reading.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// By the next [`SHORT`] bits: the code they begin with.
    ///
    /// Its length is in the upper byte, its symbol in the lower; 0 for a longer code.
    short: Box<[u16; 1 << SHORT]>,
    /// By the next [`VALUED`] bits: the symbol and value they begin with.
    valued: Box<[Valued; 1 << VALUED]>,
    /// As in [`CanonicalCode`].
    end: [u32; LONGEST + 1],
    /// As in [`CanonicalCode`].
    place: [i32; LONGEST + 1],
    symbols: Vec<u8>,
}

impl Decoder {
    /// Makes a decoder from the number of codes of each length, from 1 to 16, and their symbols.
    ///
    /// `None` if no such code is possible.
    pub(super) fn new(counts: &[u8; LONGEST], symbols: &[u8]) -> Option<Self> {
        let mut short = Box::new([0; 1 << SHORT]);
        let mut valued = Box::new([Valued(0); 1 << VALUED]);
        let (mut end, mut place) = ([0; LONGEST + 1], [0; LONGEST + 1]);
        let (mut code, mut next) = (0u32, 0usize);
        for (length, &count) in (1..).zip(counts) {
            place[length as usize] = next as i32 - code as i32;
            for &symbol in symbols.get(next..next + usize::from(count))? {
                if length <= SHORT {
                    beginning_with(code, SHORT - length, &mut *short)?
                        .fill((length as u16) << 8 | u16::from(symbol));
                    Valued::fill(beginning_with(code, VALUED - length, &mut *valued)?, length, symbol);
                }
                code += 1;
            }
            // More codes than this length allows, or one of all ones (T.81, C.2).
            if code >= 1 << length {
                return None;
            }
            end[length as usize] = code << (16 - length);
            next += usize::from(count);
            code <<= 1;
        }
        Some(Self { short, valued, end, place, symbols: symbols[..next].to_vec() })
    }

    /// Returns whether all its symbols are those of differences of DC coefficients.
    ///
    /// They are for 8-bit baseline pictures.
    pub(super) fn is_of_baseline_dc(&self) -> bool {
        self.symbols.iter().all(|&size| size <= MAX_DC_BITS)
    }

    /// Returns whether all its symbols are those of AC coefficients in 8-bit baseline pictures.
    pub(super) fn is_of_baseline_ac(&self) -> bool {
        self.symbols.iter().all(|symbol| match symbol & 15 {
            0 => NO_VALUE.contains(symbol),
            bits => bits <= MAX_AC_BITS,
        })
    }

    /// Returns the description that the tables were made from.
    pub(super) fn canonical(&self) -> CanonicalCode<'_> {
        CanonicalCode { end: &self.end, place: &self.place, symbols: &self.symbols }
    }

    /// Takes a symbol. At least 16 bits must be in the buffer.
    ///
    /// `None` if they do not begin with a code.
    #[inline(always)]
    pub(super) fn take(&self, bits: &mut BitReader<'_>) -> Option<u8> {
        let mut entry = self.short[bits.peek(SHORT) as usize];
        if entry == 0 {
            entry = self.long(bits.peek(16))?;
        }
        bits.skip(u32::from(entry >> 8));
        Some(entry as u8)
    }

    /// Takes a symbol with its value.
    ///
    /// Returns the number of zeros before the value, and the value. `None` if the symbol has no
    /// value, or if both are too long for one step.
    #[inline(always)]
    pub(super) fn take_valued(&self, bits: &mut BitReader<'_>) -> Option<(u32, i16)> {
        let entry = self.valued[bits.peek(VALUED) as usize];
        if !entry.has_value() {
            return None;
        }
        bits.skip(entry.bits());
        Some((entry.zeros(), entry.value()))
    }

    /// Like [`Decoder::take_valued`], but also takes the end of a sequential block.
    ///
    /// The end is returned as [`Valued::END`] zeros.
    #[inline(always)]
    pub(super) fn take_valued_or_end(&self, bits: &mut BitReader<'_>) -> Option<(u32, i16)> {
        let entry = self.valued[bits.peek(VALUED) as usize];
        if entry.bits() == 0 {
            return None;
        }
        bits.skip(entry.bits());
        Some((entry.zeros(), entry.value()))
    }

    /// Finds the code of more than [`SHORT`] bits that these 16 bits begin with.
    ///
    /// Returns it as an entry of `short`.
    #[cold]
    fn long(&self, next: u32) -> Option<u16> {
        let length = (SHORT as usize + 1..=LONGEST).find(|&length| next < self.end[length])?;
        let place = (next >> (LONGEST - length)) as i32 + self.place[length];
        let symbol = self.symbols.get(usize::try_from(place).ok()?)?;
        Some((length as u16) << 8 | u16::from(*symbol))
    }
}

/// Returns the entries of a table with indices that begin with a code.
///
/// `spare` bits follow the code. `None` if they are beyond the table.
fn beginning_with<T>(code: u32, spare: u32, table: &mut [T]) -> Option<&mut [T]> {
    let first = (code << spare) as usize;
    table.get_mut(first..first + (1 << spare))
}

/// A symbol and its value.
///
/// The lowest byte has the number of bits of both, the next the zeros before the value, and the
/// bits above have the value. For the end of a block, it has [`Valued::END`] zeros and no value. It
/// is 0 for other symbols without a value, and if both are too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Valued(u32);

impl Valued {
    /// In place of the number of zeros: the block has no more values.
    pub(super) const END: u32 = 128;

    /// Fills the entries of all bits that begin with a symbol's code, which has this length.
    fn fill(entries: &mut [Self], length: u32, symbol: u8) {
        let (zeros, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        if symbol == 0 {
            entries.fill(Self(Self::END << 8 | length));
        } else if size > 0 && length + size <= VALUED {
            let same_value = entries.len() >> size;
            for (bits, entries) in (0..).zip(entries.chunks_exact_mut(same_value)) {
                entries.fill(Self((extended(bits, size) as u32) << 16 | zeros << 8 | (length + size)));
            }
        }
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 & 0xff
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        self.0 >> 8 & 0xff
    }

    #[inline(always)]
    fn value(self) -> i16 {
        (self.0 >> 16) as i16
    }

    /// Values of symbols are never 0.
    #[inline(always)]
    fn has_value(self) -> bool {
        self.0 >> 16 != 0
    }
}

/// Returns the value of `size` bits: a negative one if the first bit is 0.
///
/// This is EXTEND in T.81, F.2.2.1.
#[inline(always)]
pub(super) fn extended(bits: u32, size: u32) -> i32 {
    let value = bits as i32;
    if value >> size.saturating_sub(1) == 0 { value - (1 << size) + 1 } else { value }
}

/// Returns the bits of a value, and their number (T.81, F.1.2.1).
#[inline(always)]
pub(super) fn coded(value: i32) -> (u32, u32) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let bits = (value + (value >> 31)) as u32 & ((1 << size) - 1);
    (bits, size)
}

/// A code for writing.
#[derive(Debug)]
pub(super) struct Encoder {
    /// By symbol: its code and the code's length.
    codes: [(u16, u8); 256],
    counts: [u8; LONGEST],
    symbols: Vec<u8>,
}

impl Encoder {
    /// Returns the code that takes the fewest bits for symbols of these frequencies.
    pub(super) fn optimal(frequencies: &[u32; 256]) -> Self {
        let mut symbols: Vec<u8> = (0..=255).filter(|&s| frequencies[usize::from(s)] > 0).collect();
        symbols.sort_by_key(|&symbol| std::cmp::Reverse(frequencies[usize::from(symbol)]));
        let rarest_first = symbols.iter().rev().map(|&symbol| u64::from(frequencies[usize::from(symbol)]));
        // An additional symbol, the rarest of all, reserves the code of all ones, which must not be
        // used (T.81, C.2).
        let counts = limit(lengths(std::iter::once(0).chain(rarest_first).collect()));
        let mut codes = [(0, 0); 256];
        let (mut code, mut next) = (0, symbols.iter());
        for (length, &count) in (1..).zip(&counts) {
            for &symbol in next.by_ref().take(usize::from(count)) {
                codes[usize::from(symbol)] = (code, length);
                code += 1;
            }
            code <<= 1;
        }
        Self { codes, counts, symbols }
    }

    /// Returns the code of a symbol and its length.
    #[inline(always)]
    pub(super) fn code(&self, symbol: u8) -> (u32, u32) {
        let (code, length) = self.codes[usize::from(symbol)];
        (u32::from(code), u32::from(length))
    }

    /// Returns the code for a value after fewer than 16 zeros, followed by the value's bits.
    ///
    /// The second number is their total number of bits. For the difference of two DC coefficients,
    /// `zeros` is 0.
    #[inline(always)]
    pub(super) fn valued(&self, zeros: u32, value: i32) -> (u32, u32) {
        let (bits, size) = coded(value);
        let (code, length) = self.code((zeros << 4 | size) as u8);
        (code << size | bits, length + size)
    }

    /// Returns the content of a DHT segment for this code, with `place` as its class and number.
    pub(super) fn definition(&self, place: u8) -> Vec<u8> {
        [&[place], &self.counts[..], &self.symbols].concat()
    }
}

/// A code for writing AC coefficients.
///
/// For small values, the code and the value's bits are looked up in one step.
#[derive(Debug)]
pub(super) struct AcEncoder {
    encoder: Encoder,
    /// By number of zeros and by value: all bits, and their number in the lowest byte.
    small: Box<[[u32; 2 * Self::SMALL]; 16]>,
}

impl AcEncoder {
    /// Small values are those from `-SMALL` to `SMALL - 1`.
    const SMALL: usize = 16;

    pub(super) fn new(encoder: Encoder) -> Self {
        let small = Box::new(std::array::from_fn(|zeros| {
            std::array::from_fn(|i| {
                let (bits, count) = encoder.valued(zeros as u32, i as i32 - Self::SMALL as i32);
                bits << 8 | count
            })
        }));
        Self { encoder, small }
    }

    /// Like [`Encoder::valued`].
    #[inline(always)]
    pub(super) fn valued(&self, zeros: u32, value: i16) -> (u32, u32) {
        let values = &self.small[zeros as usize % 16];
        match values.get(usize::from((value as u16).wrapping_add(Self::SMALL as u16))) {
            Some(entry) => (entry >> 8, entry & 0xff),
            None => self.encoder.valued(zeros, value.into()),
        }
    }

    /// Like [`Encoder::code`].
    #[inline(always)]
    pub(super) fn code(&self, symbol: u8) -> (u32, u32) {
        self.encoder.code(symbol)
    }

    /// Like [`Encoder::definition`].
    pub(super) fn definition(&self, place: u8) -> Vec<u8> {
        self.encoder.definition(place)
    }
}

/// A bound on the length of Huffman's codes.
///
/// The frequencies for longer ones would have to grow like the Fibonacci numbers.
const DEEPEST: usize = 64;

/// Returns the number of codes of each length for these frequencies, in ascending order.
///
/// The length is not limited (Huffman's algorithm).
fn lengths(mut weights: Vec<u64>) -> [u32; DEEPEST] {
    let leaves = weights.len();
    // The two nodes of least weight get a parent, again and again. It is appended, which keeps
    // parents in ascending order as well.
    let mut parents = vec![0; leaves];
    let (mut vectorized, mut parent) = (0, leaves);
    for new in leaves..2 * leaves - 1 {
        let mut least = || {
            let from_leaves =
                vectorized < leaves && (parent == new || weights[vectorized] <= weights[parent]);
            let next = if from_leaves { &mut vectorized } else { &mut parent };
            *next += 1;
            *next - 1
        };
        let (one, other) = (least(), least());
        weights.push(weights[one] + weights[other]);
        parents.push(0);
        (parents[one], parents[other]) = (new, new);
    }
    let mut depths = vec![0; parents.len()];
    for node in (0..parents.len() - 1).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    let mut counts = [0; DEEPEST];
    depths[..leaves].iter().for_each(|&depth: &usize| counts[depth] += 1);
    counts
}

/// Shortens codes that are too long, at the expense of others.
///
/// Removes one of the longest (T.81, figure K.3).
fn limit(mut counts: [u32; DEEPEST]) -> [u8; LONGEST] {
    for length in (LONGEST + 1..DEEPEST).rev() {
        while counts[length] > 0 {
            let shorter = (1..length - 1).rev().find(|&shorter| counts[shorter] > 0);
            let shorter = shorter.expect("codes of one length alone are no longer than 9 bits");
            counts[length] -= 2;
            counts[length - 1] += 1;
            counts[shorter + 1] += 2;
            counts[shorter] -= 1;
        }
    }
    if let Some(longest) = counts[1..].iter_mut().rfind(|count| **count > 0) {
        *longest -= 1;
    }
    std::array::from_fn(|i| counts[i + 1] as u8)
}

#[cfg(test)]
mod tests {
    use super::super::bits::{BitReader, BitWriter, end_of_data, unstuff};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        // Equal frequencies; Fibonacci numbers, which lead to codes of 30 bits without the limit; a
        // single symbol; squares.
        let mut fibonacci = [0; 256];
        (fibonacci[0], fibonacci[1]) = (1, 1);
        (2..30).for_each(|i| fibonacci[i] = fibonacci[i - 1] + fibonacci[i - 2]);
        let single = std::array::from_fn(|i| u32::from(i == 77));
        for frequencies in [[1; 256], fibonacci, single, std::array::from_fn(|i| i as u32 * i as u32)] {
            let symbols: Vec<u8> = (0..=255).filter(|&s| frequencies[usize::from(s)] > 0).collect();
            let encoder = Encoder::optimal(&frequencies);
            let mut file = Vec::new();
            let mut writer = BitWriter::new(&mut file);
            for &symbol in &symbols {
                let (code, length) = encoder.code(symbol);
                writer.put(code, length);
            }
            writer.flush();
            file.extend([0xff, 0xd9]);
            let mut codes = Codes::default();
            codes.define(&encoder.definition(0x10)).unwrap();
            let decoder = codes.ac[0].take().unwrap();
            let mut data = Vec::new();
            let (end, marker, behind) = end_of_data(&file).unwrap();
            assert_eq!((marker, behind), (0xd9, &[][..]));
            unstuff(&file[..end], &mut data).unwrap();
            let mut reader = BitReader::new(&data);
            for &symbol in &symbols {
                reader.fill();
                assert_eq!(decoder.take(&mut reader), Some(symbol));
            }
            assert_eq!(reader.finish(), Some(()));
        }
    }

    #[test]
    fn frequent_symbols_have_short_codes() {
        let frequencies = std::array::from_fn(|i| [8, 4, 2, 1].get(i).copied().unwrap_or(0));
        let encoder = Encoder::optimal(&frequencies);
        let lengths = [0, 1, 2, 3].map(|symbol| encoder.code(symbol).1);
        assert_eq!(lengths, [1, 2, 3, 4]);
    }

    #[test]
    fn small_values_have_the_codes_that_they_have() {
        let ac = AcEncoder::new(Encoder::optimal(&[1; 256]));
        for (zeros, value) in (0..16).flat_map(|zeros| (-40..40).map(move |value| (zeros, value))) {
            assert_eq!(ac.valued(zeros, value), ac.encoder.valued(zeros, value.into()));
        }
    }

    #[test]
    fn codes_that_cannot_be_are_refused() {
        let counts = |first: &[u8]| std::array::from_fn(|i| first.get(i).copied().unwrap_or(0));
        assert!(Decoder::new(&counts(&[2]), &[1, 2]).is_none());
        assert!(Decoder::new(&counts(&[3]), &[1, 2, 3]).is_none());
        assert!(Decoder::new(&counts(&[0, 5]), &[1, 2, 3, 4, 5]).is_none());
        assert!(Decoder::new(&counts(&[1, 1]), &[1]).is_none());
    }
}
