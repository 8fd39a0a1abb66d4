//! Checks whether the entropy-coded data of a sequential scan are whole.
//!
//! All codes must be in its tables, there must be as many blocks as the frame requires, and no data
//! after them (T.81, F.2.2). No sample is computed, which makes this take a fraction of the time of
//! decoding.
//!
//! This has to be known before a picture goes to a decoder that does not detect damage.
//! `kernels/jpeg_scan.cu` answers most cases on the GPU; the code here decides those that the
//! kernel leaves open, and serves to verify the kernel.

use super::bits::{BitReader, end_of_data, unstuff};
use super::huffman::{CanonicalCode, Codes, Decoder, SHORT};
use super::vectorized;
use crate::jpeg::markers::EOI;

/// The number of bits that are looked up together.
///
/// More bits hold more symbols, but the table takes longer to prepare.
const LOOKED_UP: u32 = 11;

/// A scan of all components of a baseline picture, without restart markers.
pub struct BaselineScan<'a> {
    codes: Codes,
    /// For each block of an MCU, the numbers of its codes for DC and for AC.
    blocks: Vec<(usize, usize)>,
    mcus: u64,
    /// The entropy-coded data, with their stuffing.
    data: &'a [u8],
}

impl<'a> BaselineScan<'a> {
    /// Makes a scan.
    ///
    /// `segments` are the contents of the DHT segments; `blocks` has, for each block of an MCU, the
    /// numbers of its codes, packed as in a scan header; `behind_header` is everything after the
    /// scan header. `None` if the codes are not those of a baseline picture, if there are too few
    /// data for that many blocks, or if the picture does not end after the data.
    pub(in crate::jpeg) fn new(
        segments: &[&[u8]],
        blocks: &[u8],
        mcus: u64,
        behind_header: &'a [u8],
    ) -> Option<Self> {
        let mut codes = Codes::default();
        segments.iter().try_for_each(|segment| codes.define(segment))?;
        let fit = codes.dc.iter().flatten().all(Decoder::is_of_baseline_dc)
            && codes.ac.iter().flatten().all(Decoder::is_of_baseline_ac);
        let blocks: Vec<_> =
            blocks.iter().map(|block| (usize::from(block >> 4), usize::from(block & 15))).collect();
        let has = |codes: &[Option<Decoder>; 4], number: usize| matches!(codes.get(number), Some(Some(_)));
        let known = blocks.iter().all(|&(dc, ac)| has(&codes.dc, dc) && has(&codes.ac, ac));
        let (end, marker, _) = end_of_data(behind_header)?;
        // The bit reader returns endless zeros after the data: data that are too short must not be
        // walked. A block takes at least two bits.
        let fill = mcus.checked_mul(blocks.len() as u64)? <= end as u64 * 4;
        (fit && known && fill && marker == EOI).then(|| Self {
            codes,
            blocks,
            mcus,
            data: &behind_header[..end],
        })
    }

    /// Returns the entropy-coded data, with their stuffing.
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the number of blocks of whole data.
    pub const fn blocks(&self) -> u64 {
        self.mcus * self.blocks.len() as u64
    }

    /// Returns the codes of each block of an MCU, for DC and for AC.
    pub fn codes(&self) -> Vec<[CanonicalCode<'_>; 2]> {
        let codes = self.blocks.iter().filter_map(|&(dc, ac)| {
            Some([self.codes.dc[dc].as_ref()?.canonical(), self.codes.ac[ac].as_ref()?.canonical()])
        });
        codes.collect()
    }

    /// Returns whether the data are whole: exactly as many valid blocks as required.
    pub fn is_whole(&self) -> bool {
        let ac_codes = self.codes.ac.each_ref().map(|code| code.as_ref().map(AcCodes::new));
        let blocks = self.blocks.iter().map(|&(dc, ac)| {
            Some(BlockCodes { dc: self.codes.dc[dc].as_ref()?, ac: ac_codes[ac].as_ref()? })
        });
        let Some(blocks) = blocks.collect::<Option<Vec<_>>>() else { return false };
        let mut data = Vec::new();
        unstuff(self.data, &mut data).is_some() && walk(&data, &blocks, self.mcus).is_some()
    }
}

/// Walks past this many MCUs of these blocks.
///
/// `None` if there are fewer or more, or if a code is invalid.
fn walk(unstuffed: &[u8], blocks: &[BlockCodes<'_>], mcus: u64) -> Option<()> {
    vectorized::run(
        #[inline(always)]
        || {
            let mut bits = BitReader::new(unstuffed);
            for _ in 0..mcus {
                for block in blocks {
                    block.walk(&mut bits)?;
                }
            }
            bits.finish()
        },
    )
}

/// The codes of a block of an MCU.
struct BlockCodes<'c> {
    dc: &'c Decoder,
    ac: &'c AcCodes<'c>,
}

impl BlockCodes<'_> {
    /// Walks past a block.
    #[inline(always)]
    fn walk(&self, bits: &mut BitReader<'_>) -> Option<()> {
        // One fill is enough for a DC coefficient, of at most 27 bits, and a step of at most 26; or
        // for two steps.
        bits.fill();
        let size = self.dc.take(bits)?;
        bits.skip(size.into());
        let mut left = self.ac.take(bits, 63)?;
        while left > 0 {
            bits.fill();
            left = self.ac.take(bits, left)?;
            if left > 0 {
                left = self.ac.take(bits, left)?;
            }
        }
        Some(())
    }
}

/// A code for AC coefficients.
///
/// Of a symbol, only the number of its bits and the number of its coefficients matter.
struct AcCodes<'c> {
    decoder: &'c Decoder,
    /// By the next [`LOOKED_UP`] bits: the step of their symbols.
    ///
    /// It is that of all symbols that they hold whole, or else of the first symbol, if the bits
    /// hold at least its code, of no more than [`SHORT`] bits; otherwise [`Step::NONE`].
    packed: Box<[Step; 1 << LOOKED_UP]>,
}

impl<'c> AcCodes<'c> {
    fn new(decoder: &'c Decoder) -> Self {
        let single: [Step; 1 << LOOKED_UP] =
            std::array::from_fn(|bits| match decoder.first(bits as u32 >> (LOOKED_UP - SHORT)) {
                Some((length, symbol)) => Step::new(symbol, length),
                None => Step::NONE,
            });
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

    /// Walks past as many symbols as are looked up together.
    ///
    /// `left` is the number of coefficients that the block may still have, at least one. Returns
    /// the number left afterwards.
    #[inline(always)]
    fn take(&self, bits: &mut BitReader<'_>, left: u32) -> Option<u32> {
        let step = self.packed[bits.peek(LOOKED_UP) as usize];
        // After the last of its 64 coefficients a block has no end symbol; one that was looked up
        // would be the next block's.
        let most = left - u32::from(step.ends);
        if u32::from(step.coefficients) > most {
            return self.take_one(bits, left);
        }
        bits.skip(step.bits.into());
        step.leaves(left)
    }

    /// [`AcCodes::take`] for one symbol.
    #[inline(always)]
    fn take_one(&self, bits: &mut BitReader<'_>, left: u32) -> Option<u32> {
        let step = Step::new(self.decoder.take(bits)?, 0);
        bits.skip(step.bits.into());
        step.leaves(left)
    }
}

/// The effect of one or several symbols.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Step {
    /// The number of bits of the codes and of the values after them.
    bits: u8,
    /// The number of coefficients, including zeros.
    coefficients: u8,
    /// Whether the block ends afterwards.
    ends: bool,
}

impl Step {
    /// No step: it covers more coefficients than any block has.
    const NONE: Self = Self { bits: 0, coefficients: u8::MAX, ends: false };

    /// Returns the step of a symbol with a code of this length.
    ///
    /// The symbol is 16 zeros, the end of the block, or a run of zeros and a coefficient.
    #[inline(always)]
    fn new(symbol: u8, length: u8) -> Self {
        match (symbol >> 4, symbol & 15) {
            (15, 0) => Self { bits: length, coefficients: 16, ends: false },
            (_, 0) => Self { bits: length, coefficients: 0, ends: true },
            (run, size) => Self { bits: length + size, coefficients: run + 1, ends: false },
        }
    }

    /// Returns this step and the next as one, if [`LOOKED_UP`] bits hold both whole.
    fn and(self, next: Self) -> Option<Self> {
        let bits = self.bits + next.bits;
        let holds = next.bits > 0 && u32::from(bits) <= LOOKED_UP && !self.ends;
        holds.then(|| Self { bits, coefficients: self.coefficients + next.coefficients, ends: next.ends })
    }

    /// Returns the number of coefficients left after this step, of `left` before.
    ///
    /// `None` if it covers more than these.
    #[inline(always)]
    fn leaves(self, left: u32) -> Option<u32> {
        if self.ends { Some(0) } else { left.checked_sub(self.coefficients.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a table for a DHT segment, with the codes 0, 10 and 110 for these symbols.
    fn table(place: u8, symbols: [u8; 3]) -> Vec<u8> {
        let counts = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        [&[place][..], &counts, &symbols].concat()
    }

    /// Returns whether exactly this many blocks follow a scan header.
    ///
    /// The end of the picture must follow the blocks.
    fn is_whole(tables: [&[u8]; 2], blocks: u64, behind_header: &[u8]) -> bool {
        BaselineScan::new(&tables, &[0], blocks, behind_header).is_some_and(|scan| scan.is_whole())
    }

    #[test]
    fn blocks_are_counted_and_nothing_may_be_left() {
        let tables = [&*table(0, [0, 2, 11]), &table(0x10, [0, 0x21, 0xf0])];
        // DC of 2 bits, two zeros and a coefficient of 1 bit, end; DC of 0 bits, end; padding.
        let data = [0b1011_1010, 0b0011_1111, 0xff, 0xd9];
        assert!(is_whole(tables, 2, &data));
        assert!(!is_whole(tables, 1, &data), "more than the padding is left");
        assert!(!is_whole(tables, 3, &data), "111 is no code");
        assert!(!is_whole(tables, 2, &data[..2]), "no marker follows");
        assert!(!is_whole(tables, 2, &[data[0], data[1], 0xff, 0xda]), "it is not the end");
        assert!(!is_whole(tables, 2, &[0b1011_1010, 0xff, 0xd9]), "cut short");
    }

    #[test]
    fn a_block_has_64_coefficients_and_no_more() {
        let tables = [&*table(0, [0, 1, 2]), &table(0x10, [0xf0, 0xe1, 0xf1])];
        // DC; three times 16 zeros; 14 zeros and a coefficient of 1 bit.
        assert!(is_whole(tables, 1, &[0b0000_1011, 0xff, 0xd9]));
        assert!(!is_whole(tables, 1, &[0b0000_1101, 0xff, 0xd9]));
    }

    #[test]
    fn the_end_of_a_block_is_not_looked_for_behind_its_last_coefficient() {
        // 0: a coefficient of 1 bit; 10: end.
        let tables = [&*table(0, [0, 1, 2]), &table(0x10, [0x01, 0x00, 0xf0])];
        // A DC of 0 bits and 63 coefficients, then a DC of 1 bit and an end.
        let data = [&[0; 15][..], &[0b0000_0001, 0b0110_1111, 0xff, 0xd9]].concat();
        assert!(is_whole(tables, 2, &data));
    }

    #[test]
    fn a_stuffed_byte_is_skipped_and_a_marker_ends_the_data() {
        let tables = [&*table(0, [0, 2, 11]), &table(0x10, [0, 0x21, 0xf0])];
        // DC of 0 bits, end; DC of 11 bits, all ones; end; padding.
        let stuffed = [0b0011_0111, 0xff, 0, 0b0111_1111, 0xff, 0xd9];
        assert!(is_whole(tables, 2, &stuffed));
        assert!(!is_whole(tables, 2, &[0b0011_0111, 0xff, 0b0111_1111, 0xff, 0xd9]));
        assert!(!is_whole(tables, 2, &[0b0011_0111, 0xff, 0xd0, 0b0111_1111, 0xff, 0xd9]), "a restart");
        let filled = [&stuffed[..4], &[0xff; 3], &[0xd9]].concat();
        assert!(is_whole(tables, 2, &filled), "fill bytes may come before a marker");
        let filled = [&stuffed[..1], &[0xff], &stuffed[1..]].concat();
        assert!(!is_whole(tables, 2, &filled), "fill bytes lead to no data");
    }

    #[test]
    fn long_codes_are_walked_too() {
        // DC: 0 for no bits. AC: 0 for the end; 12-bit codes for a coefficient of 10 bits, and for
        // 16 zeros.
        let mut counts = [0; 16];
        (counts[0], counts[11]) = (1, 2);
        let tables = [&*table(0, [0, 1, 2]), &[&[0x10][..], &counts, &[0, 0x0a, 0xf0]].concat()];
        // A DC of 0 bits, a 12-bit code and a coefficient of 10 bits, end; a DC of 0 bits, 16
        // zeros, end, and padding.
        let data = [0b0100_0000, 0b0000_0101, 0b0101_0100, 0b0100_0000, 0b0000_1011, 0xff, 0xd9];
        assert!(is_whole(tables, 2, &data));
        let wrong = [0b0100_0000, 0b0001_0101, 0b0101_0100, 0xff, 0xd9];
        assert!(!is_whole(tables, 1, &wrong), "no code");
    }

    #[test]
    fn tables_that_no_baseline_picture_has_are_refused() {
        let one = |place: u8, short: u8, symbols: &[u8]| [&[place, short][..], &[0; 15], symbols].concat();
        let read = |dc: &[u8], ac: &[u8]| BaselineScan::new(&[dc, ac], &[0], 1, &[0, 0xff, 0xd9]).is_some();
        let (dc, ac) = (one(0, 1, &[11]), one(0x10, 1, &[0x0a]));
        assert!(read(&dc, &ac));
        assert!(!read(&one(0, 1, &[12]), &ac), "a DC of 12 bits");
        assert!(!read(&dc, &one(0x10, 1, &[0x0b])), "a coefficient of 11 bits");
        assert!(!read(&one(0, 3, &[0, 1, 2]), &ac), "3 codes of one bit");
        assert!(!read(&dc, &one(0x10, 1, &[0x10])), "a symbol that has no meaning");
        assert!(!read(&dc, &one(0x10, 1, &[])), "no symbol");
        assert!(!read(&dc, &one(0x20, 1, &[0])), "no such class");
        assert!(!read(&dc, &one(0x11, 1, &[0])), "another number");
        assert!(!read(&dc, &[&ac[..], &one(4, 1, &[0])].concat()), "no such number");
    }
}
