//! Whether the entropy-coded data of a sequential scan is whole: every code is one of its tables', the blocks are as many as the
//! frame wants, and nothing is left behind them (T.81, F.2.2). No sample is computed, so it takes a small part of decoding.
//!
//! It is asked before a picture goes to a decoder that does not tell damage from data.

use super::bits::{BitReader, unstuff};
use super::huffman::{Codes, Decoder, SHORT};
use super::leaf;

/// The most bits of the difference between two means, in 8-bit baseline pictures (table F.1).
const MOST_OF_MEAN: u8 = 11;

/// The most bits of another coefficient (table F.2).
const MOST_OF_DETAIL: u8 = 10;

/// Bits that are looked up together. More pack more symbols, but take longer to prepare.
const LOOKED_UP: u32 = 11;

/// The codes of a baseline picture, by their numbers, made to be walked along.
pub(in crate::codec::jpeg) struct BaselineCodes {
    means: [Option<Decoder>; 4],
    details: [Option<Details>; 4],
}

impl BaselineCodes {
    /// Reads the contents of DHT segments. `None` if not all of their codes are those of a baseline picture.
    pub(in crate::codec::jpeg) fn read(segments: &[&[u8]]) -> Option<Self> {
        let mut codes = Codes::default();
        segments.iter().try_for_each(|segment| codes.define(segment))?;
        let Codes { means, details } = codes;
        let all = |codes: &[Option<Decoder>; 4], fits: fn(u8) -> bool| {
            codes.iter().flatten().flat_map(Decoder::symbols).all(|&symbol| fits(symbol))
        };
        let fit = all(&means, |size| size <= MOST_OF_MEAN) && all(&details, |s| s & 15 <= MOST_OF_DETAIL);
        fit.then(|| Self { means, details: details.map(|code| code.map(Details::new)) })
    }

    /// The codes of a component's blocks, by the numbers that a scan header has for it.
    pub(in crate::codec::jpeg) fn of_block(&self, numbers: u8) -> Option<BlockCodes<'_>> {
        Some(BlockCodes {
            means: self.means.get(usize::from(numbers >> 4))?.as_ref()?,
            details: self.details.get(usize::from(numbers & 15))?.as_ref()?,
        })
    }
}

/// Whether `data` begins with so many MCUs of these blocks, and then comes a marker: which. There are no restart markers.
pub(in crate::codec::jpeg) fn walk(data: &[u8], blocks: &[BlockCodes<'_>], mcus: u64) -> Option<u8> {
    let mut unstuffed = Vec::new();
    let (marker, _) = unstuff(data, &mut unstuffed)?;
    // Behind the data there are zeros without end, for which nobody should wait. A block takes two bits at least.
    if mcus * blocks.len() as u64 > unstuffed.len() as u64 * 4 {
        return None;
    }
    leaf::run(
        #[inline(always)]
        || {
            let mut bits = BitReader::new(&unstuffed);
            for _ in 0..mcus {
                for block in blocks {
                    block.walk(&mut bits)?;
                }
            }
            bits.finish()
        },
    )?;
    Some(marker)
}

/// The codes of one block of an MCU: of its mean, and of its other coefficients.
#[derive(Clone, Copy)]
pub(in crate::codec::jpeg) struct BlockCodes<'c> {
    means: &'c Decoder,
    details: &'c Details,
}

impl BlockCodes<'_> {
    /// Goes past a block.
    #[inline(always)]
    fn walk(&self, bits: &mut BitReader<'_>) -> Option<()> {
        // A fill lasts for a mean, of 27 bits at most, and a step of 26, or for two steps.
        bits.fill();
        let size = self.means.take(bits)?;
        bits.skip(size.into());
        let mut left = self.details.take(bits, 63)?;
        while left > 0 {
            bits.fill();
            left = self.details.take(bits, left)?;
            if left > 0 {
                left = self.details.take(bits, left)?;
            }
        }
        Some(())
    }
}

/// A code of the coefficients other than means. Of a symbol only how many bits it takes and how far it leads matter.
struct Details {
    decoder: Decoder,
    /// For the next [`LOOKED_UP`] bits the step of all symbols that they hold whole, or of the first if they hold its code at least;
    /// otherwise [`Step::NONE`].
    packed: Box<[Step; 1 << LOOKED_UP]>,
}

impl Details {
    fn new(decoder: Decoder) -> Self {
        let first = |bits: usize| match decoder.first(bits as u32 >> (LOOKED_UP - SHORT)) {
            Some((length, symbol)) => Step::new(symbol, length),
            None => Step::NONE,
        };
        let single: [Step; 1 << LOOKED_UP] = std::array::from_fn(first);
        let mut packed = Box::new(single);
        for (bits, packed) in packed.iter_mut().enumerate() {
            while packed.bits > 0
                && let rest = (bits << packed.bits) % (1 << LOOKED_UP)
                && let Some(more) = packed.and(single[rest])
            {
                *packed = more;
            }
        }
        Self { decoder, packed }
    }

    /// Goes past as many symbols as are looked up together, where `left` coefficients, at least one, may be more in the block.
    /// Returns how many are then left.
    #[inline(always)]
    fn take(&self, bits: &mut BitReader<'_>, left: u32) -> Option<u32> {
        let step = self.packed[bits.peek(LOOKED_UP) as usize];
        // A block of 64 coefficients ends without a symbol that says so.
        let most = left - u32::from(step.ends);
        if u32::from(step.coefficients) > most {
            return self.take_one(bits, left);
        }
        bits.skip(step.bits.into());
        step.leaves(left)
    }

    /// The same for one symbol.
    #[inline(always)]
    fn take_one(&self, bits: &mut BitReader<'_>, left: u32) -> Option<u32> {
        let step = Step::new(self.decoder.take(bits)?, 0);
        bits.skip(step.bits.into());
        step.leaves(left)
    }
}

/// What a symbol does, or several.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Step {
    /// Bits of the code and of the value behind it.
    bits: u8,
    /// How many coefficients it leads on.
    coefficients: u8,
    /// Whether the block ends there.
    ends: bool,
}

impl Step {
    /// No step: it leads beyond every block.
    const NONE: Self = Self { bits: 0, coefficients: u8::MAX, ends: false };

    /// The step of a symbol with a code of this length: 16 zeros, the end of the block, or a run of zeros and a coefficient.
    #[inline(always)]
    fn new(symbol: u8, length: u8) -> Self {
        match (symbol >> 4, symbol & 15) {
            (15, 0) => Self { bits: length, coefficients: 16, ends: false },
            (_, 0) => Self { bits: length, coefficients: 0, ends: true },
            (run, size) => Self { bits: length + size, coefficients: run + 1, ends: false },
        }
    }

    /// Both, if [`LOOKED_UP`] bits hold the second whole, behind the first.
    fn and(self, next: Self) -> Option<Self> {
        let bits = self.bits + next.bits;
        let holds = next.bits > 0 && u32::from(bits) <= LOOKED_UP && !self.ends;
        holds.then(|| Self { bits, coefficients: self.coefficients + next.coefficients, ends: next.ends })
    }

    /// How many of so many coefficients it leaves. `None` if it leads further.
    #[inline(always)]
    fn leaves(self, left: u32) -> Option<u32> {
        if self.ends { Some(0) } else { left.checked_sub(self.coefficients.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DHT segment's table with codes 0, 10 and 110 for these symbols.
    fn table(place: u8, symbols: [u8; 3]) -> Vec<u8> {
        let counts = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        [&[place][..], &counts, &symbols].concat()
    }

    fn codes(means: [u8; 3], details: [u8; 3]) -> BaselineCodes {
        BaselineCodes::read(&[&table(0, means), &table(0x10, details)]).unwrap()
    }

    #[test]
    fn blocks_are_counted_and_nothing_may_be_left() {
        let codes = codes([0, 2, 11], [0, 0x21, 0xf0]);
        let blocks = [codes.of_block(0).unwrap()];
        // Mean of 2 bits, two zeros and a coefficient of 1 bit, end; mean of 0 bits, end; padding.
        let data = [0b1011_1010, 0b0011_1111, 0xff, 0xd9];
        assert_eq!(walk(&data, &blocks, 2), Some(0xd9));
        assert_eq!(walk(&data, &blocks, 1), None, "more than the padding is left");
        assert_eq!(walk(&data, &blocks, 3), None, "111 is no code");
        assert_eq!(walk(&data[..2], &blocks, 2), None, "no marker follows");
        assert_eq!(walk(&[0b1011_1010, 0xff, 0xd9], &blocks, 2), None, "cut short");
    }

    #[test]
    fn a_block_has_64_coefficients_and_no_more() {
        let codes = codes([0, 1, 2], [0xf0, 0xe1, 0xf1]);
        let blocks = [codes.of_block(0).unwrap()];
        // The mean; three times 16 zeros; 14 zeros and a coefficient of 1 bit.
        let whole = [0b0000_1011, 0xff, 0xd9];
        assert!(walk(&whole, &blocks, 1).is_some());
        let more = [0b0000_1101, 0xff, 0xd9];
        assert!(walk(&more, &blocks, 1).is_none());
    }

    #[test]
    fn the_end_of_a_block_is_not_looked_for_behind_its_last_coefficient() {
        // 0: a coefficient of 1 bit; 10: end.
        let codes = codes([0, 1, 2], [0x01, 0x00, 0xf0]);
        let blocks = [codes.of_block(0).unwrap()];
        // A mean of 0 bits and 63 coefficients, then a mean of 1 bit and an end.
        let data = [&[0; 15][..], &[0b0000_0001, 0b0110_1111, 0xff, 0xd9]].concat();
        assert!(walk(&data, &blocks, 2).is_some());
    }

    #[test]
    fn a_stuffed_byte_is_skipped_and_a_marker_ends_the_data() {
        let codes = codes([0, 2, 11], [0, 0x21, 0xf0]);
        let blocks = [codes.of_block(0).unwrap()];
        // Mean of 0 bits, end; mean of 11 bits, all ones; end; padding.
        let stuffed = [0b0011_0111, 0xff, 0, 0b0111_1111, 0xff, 0xd9];
        assert!(walk(&stuffed, &blocks, 2).is_some());
        let marker = [0b0011_0111, 0xff, 0b0111_1111, 0xff, 0xd9];
        assert_eq!(walk(&marker, &blocks, 2), None);
        let restart = [0b0011_0111, 0xff, 0xd0, 0b0111_1111, 0xff, 0xd9];
        assert_eq!(walk(&restart, &blocks, 2), None);
        let filled = [&stuffed[..4], &[0xff; 3], &[0xda]].concat();
        assert_eq!(walk(&filled, &blocks, 2), Some(0xda), "fill bytes may come before a marker");
        let filled = [&stuffed[..1], &[0xff], &stuffed[1..]].concat();
        assert_eq!(walk(&filled, &blocks, 2), None, "fill bytes lead to no data");
    }

    #[test]
    fn long_codes_are_walked_too() {
        // Means: 0 for no bits. Others: 0 for the end; 12 bits for a coefficient of 10, and for 16 zeros.
        let mut counts = [0; 16];
        (counts[0], counts[11]) = (1, 2);
        let details = [&[0x10][..], &counts, &[0, 0x0a, 0xf0]].concat();
        let codes = BaselineCodes::read(&[&table(0, [0, 1, 2]), &details]).unwrap();
        let blocks = [codes.of_block(0).unwrap()];
        // A mean of 0 bits, 12 bits for a coefficient with 10 bits, end; the same with 16 zeros, and padding.
        let data = [0b0100_0000, 0b0000_0101, 0b0101_0100, 0b0100_0000, 0b0000_1011, 0xff, 0xd9];
        assert!(walk(&data, &blocks, 2).is_some());
        let wrong = [0b0100_0000, 0b0001_0101, 0b0101_0100, 0xff, 0xd9];
        assert!(walk(&wrong, &blocks, 1).is_none(), "no code");
    }

    #[test]
    fn tables_that_no_baseline_picture_has_are_refused() {
        let read = |place: u8, short: u8, symbols: &[u8]| {
            BaselineCodes::read(&[&[&[place, short][..], &[0; 15], symbols].concat()]).is_some()
        };
        assert!(read(0, 1, &[11]) && !read(0, 1, &[12]), "a mean of 12 bits");
        assert!(read(0x10, 1, &[0x0a]) && !read(0x10, 1, &[0x0b]), "a coefficient of 11 bits");
        assert!(!read(0, 3, &[0, 1, 2]), "3 codes of one bit");
        assert!(!read(0x10, 1, &[]), "no symbol");
        assert!(!read(0x20, 1, &[0]) && !read(4, 1, &[0]), "no such place");
    }
}
