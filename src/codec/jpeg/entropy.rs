//! Whether the entropy-coded data of a sequential scan is whole: every code is one of its tables', the blocks are as many as the
//! frame wants, and nothing is left behind them (ITU-T T.81, F.2.2). No sample is computed, so it takes a small part of decoding.
//!
//! It is asked before a picture goes to a decoder that does not tell damage from data.

/// Bits that are looked up at once; longer codes are rare.
const LOOKED_UP: u32 = 10;

/// A step for all values of these bits.
type Steps = [Step; 1 << LOOKED_UP];

/// A Huffman table, made to be walked along: of a symbol only how many bits it takes and how far it leads matter.
pub(super) struct Huffman {
    /// The step of one symbol, by the next bits; [`Step::NONE`] where the code is longer than those.
    short: Box<Steps>,
    /// The steps of all symbols together that these bits hold whole; not of means, which are one a block.
    packed: Box<Steps>,
    /// For each length of a code: the first code and how many there are, and where their symbols begin.
    lengths: [Codes; 16],
    /// The steps of all symbols, by rising codes.
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Default)]
struct Codes {
    first: u32,
    count: u32,
    symbols: u32,
}

/// What a symbol does, or several.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Step {
    /// Bits of the code and of the value behind it; 0 if there is no such code.
    bits: u8,
    /// How many coefficients it leads on.
    coefficients: u8,
    /// Whether the block ends there.
    ends: bool,
}

impl Step {
    const NONE: Self = Self { bits: 0, coefficients: 0, ends: false };

    /// The mean of a block: a category of at most 11 (table F.1).
    fn mean(symbol: u8, length: u8) -> Option<Self> {
        (symbol <= 11).then_some(Self { bits: length + symbol, coefficients: 1, ends: false })
    }

    /// A run of zeros and a coefficient of a category of at most 10 (table F.2), 16 zeros, or the end of the block.
    fn detail(symbol: u8, length: u8) -> Option<Self> {
        match (symbol >> 4, symbol & 15) {
            (15, 0) => Some(Self { bits: length, coefficients: 16, ends: false }),
            (_, 0) => Some(Self { bits: length, coefficients: 0, ends: true }),
            (run, size @ 1..=10) => Some(Self { bits: length + size, coefficients: run + 1, ends: false }),
            _ => None,
        }
    }

    /// Both, if the second is a code that `bits` bits hold whole, behind the first.
    fn and(self, next: Self, bits: u32) -> Option<Self> {
        let both = self.bits + next.bits;
        let holds = next.bits > 0 && u32::from(both) <= bits && !self.ends;
        holds.then(|| Self {
            bits: both,
            coefficients: self.coefficients + next.coefficients,
            ends: next.ends,
        })
    }
}

impl Huffman {
    /// Reads one table of a DHT segment, behind its class and number; returns it and what follows. `None` if it is not one of a
    /// baseline picture.
    pub(super) fn read(content: &[u8], of_means: bool) -> Option<(Self, &[u8])> {
        let (counts, behind) = content.split_first_chunk::<16>()?;
        let all: usize = counts.iter().map(|&count| usize::from(count)).sum();
        let (symbols, behind) = behind.split_at_checked(all)?;
        let mut table = Self {
            short: Box::new([Step::NONE; 1 << LOOKED_UP]),
            packed: Box::new([Step::NONE; 1 << LOOKED_UP]),
            lengths: [Codes::default(); 16],
            steps: Vec::with_capacity(all),
        };
        let mut code = 0_u32;
        let mut symbols = symbols.iter();
        for (length, &count) in (1_u8..).zip(counts) {
            let count = u32::from(count);
            if code + count > 1 << length {
                return None;
            }
            table.lengths[usize::from(length) - 1] =
                Codes { first: code, count, symbols: table.steps.len() as u32 };
            for &symbol in symbols.by_ref().take(count as usize) {
                let step = if of_means { Step::mean(symbol, length) } else { Step::detail(symbol, length) }?;
                table.steps.push(step);
                table.enter(code, u32::from(length), step);
                code += 1;
            }
            code <<= 1;
        }
        if !of_means {
            table.pack();
        }
        Some((table, behind))
    }

    fn pack(&mut self) {
        for (bits, packed) in self.packed.iter_mut().enumerate() {
            *packed = self.short[bits];
            while packed.bits > 0
                && let rest = (bits << packed.bits) % (1 << LOOKED_UP)
                && let Some(more) = packed.and(self.short[rest], LOOKED_UP)
            {
                *packed = more;
            }
        }
    }

    fn enter(&mut self, code: u32, length: u32, step: Step) {
        if length <= LOOKED_UP {
            let spare = LOOKED_UP - length;
            self.short[(code << spare) as usize..((code + 1) << spare) as usize].fill(step);
        }
    }

    /// The step of the symbol that the bits, 32 of them, begin with.
    fn one(&self, bits: u32) -> Step {
        let step = self.short[(bits >> (32 - LOOKED_UP)) as usize];
        if step.bits > 0 { step } else { self.long(bits) }
    }

    /// The step of as many symbols as can be looked up, of which `left` coefficients may be more in the block.
    fn some(&self, bits: u32, left: u32) -> Step {
        let step = self.packed[(bits >> (32 - LOOKED_UP)) as usize];
        // A block of 64 coefficients ends without a symbol that says so.
        let most = left - u32::from(step.ends);
        if step.bits > 0 && u32::from(step.coefficients) <= most { step } else { self.one(bits) }
    }

    #[cold]
    fn long(&self, bits: u32) -> Step {
        let of_length = |length: u32| {
            let codes = self.lengths[length as usize - 1];
            let number = (bits >> (32 - length)).checked_sub(codes.first)?;
            (number < codes.count).then(|| self.steps[(codes.symbols + number) as usize])
        };
        (LOOKED_UP + 1..=16).find_map(of_length).unwrap_or(Step::NONE)
    }
}

/// The tables of one block of an MCU: for its mean, and for its other coefficients.
pub(super) type Block<'t> = (&'t Huffman, &'t Huffman);

/// Whether `data` begins with so many MCUs of these blocks, and then comes a marker; returns what follows the data. There are no
/// restart markers.
pub(super) fn walk<'d>(data: &'d [u8], blocks: &[Block<'_>], mcus: u64) -> Option<&'d [u8]> {
    let mut bits = Bits { data, at: 0, held: 0, count: 0 };
    for _ in 0..mcus {
        for &block in blocks {
            bits.block(block)?;
        }
    }
    // What is left is the padding of the last byte.
    (bits.count < 8 && bits.at_marker()).then(|| &data[bits.at..])
}

/// The data, bit by bit.
struct Bits<'d> {
    data: &'d [u8],
    /// The next byte to be taken.
    at: usize,
    /// The next bits, the first on top. Below those that count may be more, which are the data's all the same.
    held: u64,
    count: u32,
}

impl Bits<'_> {
    /// Goes past a block.
    #[inline]
    fn block(&mut self, (means, details): Block<'_>) -> Option<()> {
        let bits = self.next();
        self.take(means.one(bits))?;
        let mut left = 63;
        while left > 0 {
            let step = details.some(self.next(), left);
            self.take(step)?;
            if step.ends {
                return Some(());
            }
            left = left.checked_sub(step.coefficients.into())?;
        }
        Some(())
    }

    /// The next 32 bits, zeros behind the last.
    #[inline]
    fn next(&mut self) -> u32 {
        if self.count < 32 {
            self.fill();
        }
        (self.held >> 32) as u32
    }

    /// Goes past a step.
    #[inline]
    fn take(&mut self, step: Step) -> Option<()> {
        let bits = u32::from(step.bits);
        if bits == 0 || bits > self.count {
            return None;
        }
        self.held <<= bits;
        self.count -= bits;
        Some(())
    }

    /// Takes bytes until more than 32 bits are there, or a marker.
    #[inline]
    fn fill(&mut self) {
        if let Some(&bytes) = self.data[self.at..].first_chunk::<8>() {
            let word = u64::from_be_bytes(bytes);
            if !has_ff(word) {
                let taken = (63 - self.count) / 8;
                self.held |= word >> self.count;
                self.at += taken as usize;
                self.count += taken * 8;
                return;
            }
        }
        self.fill_slowly();
    }

    #[cold]
    fn fill_slowly(&mut self) {
        // What was held beyond the count may not be the data's here.
        self.held &= !(u64::MAX >> self.count);
        while self.count <= 56 {
            let (byte, length) = match self.data[self.at..] {
                [0xff, 0, ..] => (0xff, 2),
                [0xff, ..] | [] => return,
                [byte, ..] => (byte, 1),
            };
            self.held |= u64::from(byte) << (56 - self.count);
            self.at += length;
            self.count += 8;
        }
    }

    fn at_marker(&self) -> bool {
        matches!(self.data[self.at..], [0xff, marker, ..] if marker != 0)
    }
}

/// Whether one of the eight bytes is 0xff.
const fn has_ff(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let zeros = !word;
    zeros.wrapping_sub(ONES) & !zeros & (ONES << 7) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes 0, 10 and 110 for these symbols.
    fn table(symbols: [u8; 3], of_means: bool) -> Huffman {
        let counts = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let content = [&counts[..], &symbols].concat();
        Huffman::read(&content, of_means).unwrap().0
    }

    #[test]
    fn blocks_are_counted_and_nothing_may_be_left() {
        let (means, details) = (table([0, 2, 11], true), table([0, 0x21, 0xf0], false));
        // Mean of 2 bits, two zeros and a coefficient of 1 bit, end; mean of 0 bits, end; padding.
        let data = [0b1011_1010, 0b0011_1111, 0xff, 0xd9];
        let blocks = [(&means, &details)];
        assert_eq!(walk(&data, &blocks, 2), Some(&data[2..]));
        assert_eq!(walk(&data, &blocks, 1), None, "more than the padding is left");
        assert_eq!(walk(&data, &blocks, 3), None, "111 is no code");
        assert_eq!(walk(&data[..2], &blocks, 2), None, "no marker follows");
        assert_eq!(walk(&[0b1011_1010, 0xff, 0xd9], &blocks, 2), None, "cut short");
    }

    #[test]
    fn a_block_has_64_coefficients_and_no_more() {
        let (means, details) = (table([0, 1, 2], true), table([0xf0, 0xe1, 0xf1], false));
        // The mean; three times 16 zeros; 14 zeros and a coefficient of 1 bit.
        let whole = [0b0000_1011, 0xff, 0xd9];
        assert!(walk(&whole, &[(&means, &details)], 1).is_some());
        let more = [0b0000_1101, 0xff, 0xd9];
        assert!(walk(&more, &[(&means, &details)], 1).is_none());
    }

    #[test]
    fn a_stuffed_byte_is_skipped_and_a_marker_ends_the_data() {
        let (means, details) = (table([0, 2, 11], true), table([0, 0x21, 0xf0], false));
        let blocks = [(&means, &details)];
        // Mean of 0 bits, end; mean of 11 bits, all ones; end; padding.
        let stuffed = [0b0011_0111, 0xff, 0, 0b0111_1111, 0xff, 0xd9];
        assert_eq!(walk(&stuffed, &blocks, 2), Some(&stuffed[4..]));
        let marker = [0b0011_0111, 0xff, 0b0111_1111, 0xff, 0xd9];
        assert_eq!(walk(&marker, &blocks, 2), None);
    }

    #[test]
    fn tables_that_no_baseline_picture_has_are_refused() {
        let counts = |short: u8| [&[short][..], &[0; 15]].concat();
        assert!(Huffman::read(&[counts(3), vec![0, 1, 2]].concat(), true).is_none(), "3 codes of one bit");
        assert!(Huffman::read(&[counts(1), vec![12]].concat(), true).is_none(), "a mean of 12 bits");
        assert!(
            Huffman::read(&[counts(1), vec![0x0b]].concat(), false).is_none(),
            "a coefficient of 11 bits"
        );
        assert!(Huffman::read(&counts(1), false).is_none(), "no symbol");
    }

    #[test]
    fn a_byte_of_ones_is_found_wherever_it_is() {
        assert!((0..8).all(|byte| has_ff(0xff << (8 * byte)) && !has_ff(0xfe << (8 * byte))));
        assert!(!has_ff(0x7f80_01fe_fd00_80f7) && has_ff(u64::MAX));
    }
}
