//! A component's coefficients, quantized for the output, in the order of its blocks.

use std::ops::RangeInclusive;

use super::Block;
use super::dct::{Quantizer, forward, requantized};
use crate::formats::jpeg::libjpeg::QuantTable;
use crate::formats::jpeg::{BLOCK, PlaneSize};

/// The largest AC coefficient that baseline codes can express (T.81, table F.2).
const MAX_AC: i16 = 1023;

/// The DC coefficients that 8-bit samples can have.
///
/// All of their differences have codes (table F.1).
const DC_RANGE: RangeInclusive<i16> = -MAX_AC - 1..=MAX_AC;

/// The coefficients of a component.
///
/// The nonzero ones, a fraction of all, are stored contiguously for quick access when a scan is
/// written.
#[derive(Debug)]
pub(in crate::formats::jpeg) struct Coefficients {
    /// Blocks in a row.
    across: usize,
    dc: Vec<i16>,
    /// A mask for every block: bit `k` is set if AC coefficient `k` is not zero.
    nonzero: Vec<u64>,
    /// The nonzero AC coefficients.
    ac: Vec<i16>,
}

impl Coefficients {
    /// Makes an empty list of blocks, with room for those of a plane.
    ///
    /// `None` if there is no memory for it.
    pub(super) fn with_room(size: PlaneSize) -> Option<Self> {
        let (across, down) = (size.width.div_ceil(BLOCK), size.rows.div_ceil(BLOCK));
        let mut room = Self::of_rows(across);
        room.dc.try_reserve_exact(across * down).ok()?;
        room.nonzero.try_reserve_exact(across * down).ok()?;
        Some(room)
    }

    /// Makes an empty list of blocks, `across` in a row.
    pub(super) fn of_rows(across: usize) -> Self {
        Self { across, dc: Vec::new(), nonzero: Vec::new(), ac: Vec::new() }
    }

    /// Returns the bytes of memory in use.
    ///
    /// Memory that was only reserved does not count: it has never been touched.
    pub(in crate::formats::jpeg) fn heap_bytes(&self) -> u64 {
        let small = self.dc.len() + self.ac.len();
        (small * size_of::<i16>() + self.nonzero.len() * size_of::<u64>()) as u64
    }

    /// Returns the number of blocks in a row.
    pub(in crate::formats::jpeg) fn across(&self) -> usize {
        self.across
    }

    pub(super) fn clear(&mut self) {
        self.dc.clear();
        self.nonzero.clear();
        self.ac.clear();
    }

    /// Appends a block, requantized if there is a requantizer.
    ///
    /// `None` if baseline codes cannot express it, or if memory runs out.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        dc: i16,
        nonzero: u64,
        block: &Block,
        requantizer: Option<&Requantizer>,
    ) -> Option<()> {
        self.ac.try_reserve(BLOCK * BLOCK).ok()?;
        if let Some(Requantizer { from, to }) = requantizer {
            let dc =
                to.requantize(0, dc, from[0])?.clamp((*DC_RANGE.start()).into(), (*DC_RANGE.end()).into());
            let (nonzero, block) = requantized(block, from, to, MAX_AC)?;
            self.append(dc as i16, nonzero, &block);
            return Some(());
        }
        let first = self.ac.len();
        self.append(dc, nonzero, block);
        let largest = self.ac[first..].iter().fold(0, |most, value| value.unsigned_abs().max(most));
        (DC_RANGE.contains(&dc) && largest <= MAX_AC as u16).then_some(())
    }

    /// Appends a block, for which there must be room.
    #[inline(always)]
    fn append(&mut self, dc: i16, nonzero: u64, block: &Block) {
        append_chosen(block, nonzero, &mut self.ac);
        self.dc.push(dc);
        self.nonzero.push(nonzero);
    }

    /// Transforms and quantizes a row of blocks, appends it and returns it.
    ///
    /// `None` if memory runs out.
    #[inline(always)]
    pub(super) fn transform(
        &mut self,
        band: &[u8],
        width: usize,
        quantizer: &Quantizer,
    ) -> Option<Blocks<'_>> {
        let (first, first_ac) = (self.dc.len(), self.ac.len());
        self.ac.try_reserve(self.across * BLOCK * BLOCK).ok()?;
        for x in (0..width).step_by(2 * BLOCK) {
            let blocks = forward(&samples_of_blocks(band, width, x), quantizer);
            for (nonzero, block) in blocks.iter().take((width - x).div_ceil(BLOCK)) {
                self.append(block[0], *nonzero, block);
            }
        }
        Some(Blocks { dc: &self.dc[first..], nonzero: &self.nonzero[first..], ac: &self.ac[first_ac..] })
    }

    /// Appends the blocks of others. `None` if memory runs out.
    pub(super) fn join(&mut self, others: &Self) -> Option<()> {
        self.ac.try_reserve(others.ac.len()).ok()?;
        self.dc.extend_from_slice(&others.dc);
        self.nonzero.extend_from_slice(&others.nonzero);
        self.ac.extend_from_slice(&others.ac);
        Some(())
    }

    /// Returns all blocks.
    pub(super) fn blocks(&self) -> Blocks<'_> {
        Blocks { dc: &self.dc, nonzero: &self.nonzero, ac: &self.ac }
    }
}

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks<'a> {
    dc: &'a [i16],
    nonzero: &'a [u64],
    ac: &'a [i16],
}

/// A block: its DC coefficient, the mask of its nonzero AC coefficients, and their values.
pub(super) type Quantized<'a> = (i16, u64, &'a [i16]);

impl<'a> Blocks<'a> {
    /// Splits off and returns the first `count` blocks, or as many as there are.
    #[inline(always)]
    pub(super) fn take_first(&mut self, count: usize) -> Self {
        let count = count.min(self.dc.len());
        let (dc, other_dc) = self.dc.split_at(count);
        let (nonzero, other_nonzero) = self.nonzero.split_at(count);
        let of_them = nonzero.iter().map(|mask| mask.count_ones() as usize).sum();
        let (ac, other_ac) = self.ac.split_at(of_them);
        *self = Self { dc: other_dc, nonzero: other_nonzero, ac: other_ac };
        Self { dc, nonzero, ac }
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.dc.len()
    }

    /// Returns the DC coefficient of the last block.
    pub(super) fn last_dc(&self) -> Option<i16> {
        self.dc.last().copied()
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Quantized<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Quantized<'a>> {
        let (&first, dc) = self.dc.split_first()?;
        let (&nonzero, others) = self.nonzero.split_first()?;
        let (ac, other_ac) = self.ac.split_at(nonzero.count_ones() as usize);
        *self = Self { dc, nonzero: others, ac: other_ac };
        Some((first, nonzero, ac))
    }
}

/// Requantizes coefficients directly, without going through samples.
#[derive(Debug)]
pub(super) struct Requantizer {
    /// The divisors of the source, in zigzag order.
    from: QuantTable,
    to: Quantizer,
}

impl Requantizer {
    pub(super) fn new(from: &QuantTable, to: &QuantTable) -> Self {
        Self { from: *from, to: Quantizer::new(to) }
    }
}

/// Appends the values of a block that have a bit in `which`, in order.
///
/// There must be room for them. Always copies four at a time, since mispredicting their number
/// takes longer than copying too many.
#[inline(always)]
fn append_chosen(values: &Block, mut which: u64, to: &mut Vec<i16>) {
    let length = to.len() + which.count_ones() as usize;
    while which != 0 {
        let mut four = [0; 4];
        for value in &mut four {
            *value = values[which.trailing_zeros() as usize % values.len()];
            which &= which.wrapping_sub(1);
        }
        to.extend_from_slice(&four);
    }
    to.truncate(length);
}

/// Returns the samples of two adjacent blocks, from column `x` of a band on.
///
/// Beyond the band its edge is repeated, which takes the fewest bits.
#[inline(always)]
pub(super) fn samples_of_blocks(band: &[u8], width: usize, x: usize) -> [[u8; 2 * BLOCK]; BLOCK] {
    let mut samples = [[0; 2 * BLOCK]; BLOCK];
    if x + 2 * BLOCK <= width && band.len() == width * BLOCK {
        for (samples, row) in samples.iter_mut().zip(band.chunks_exact(width)) {
            samples.copy_from_slice(&row[x..x + 2 * BLOCK]);
        }
    } else {
        let lowest = band.len() / width - 1;
        for (y, samples) in samples.iter_mut().enumerate() {
            let row = &band[y.min(lowest) * width..];
            for (i, sample) in samples.iter_mut().enumerate() {
                *sample = row[(x + i).min(width - 1)];
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: PlaneSize = PlaneSize { width: 8, rows: 8 };

    fn push(dc: i16, ac: i16, requantizer: Option<&Requantizer>) -> Option<(i16, Vec<i16>)> {
        let mut block = [0; 64];
        block[5] = ac;
        let mut all = Coefficients::with_room(SIZE).unwrap();
        all.push(dc, u64::from(ac != 0) << 5, &block, requantizer)?;
        Some((all.dc[0], all.ac))
    }

    #[test]
    fn chosen_values_are_appended() {
        let values: Block = std::array::from_fn(|i| i as i16 - 32);
        for which in [0, 1, 1 << 63, u64::MAX, 0x8000_0100_0020_0401] {
            let mut appended = vec![7];
            append_chosen(&values, which, &mut appended);
            let chosen = values.iter().enumerate().filter(|(i, _)| which >> i & 1 == 1);
            assert_eq!(appended, [7].into_iter().chain(chosen.map(|(_, value)| *value)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_no_baseline_code_has_bits_for_is_not_taken() {
        assert_eq!(push(-1024, 1023, None), Some((-1024, vec![1023])));
        assert_eq!(push(1023, -1023, None), Some((1023, vec![-1023])));
        for (dc, ac) in [(1024, 0), (-1025, 0), (0, 1024), (0, -1024)] {
            assert_eq!(push(dc, ac, None), None, "{dc} {ac}");
        }
    }

    #[test]
    fn coefficients_are_rounded_to_the_new_quantization() {
        let to = |divisor| Requantizer::new(&[6; 64], &[divisor; 64]);
        assert_eq!(push(-7, 3, Some(&to(4))), Some((-11, vec![5])), "-10.5 and 4.5");
        assert_eq!(push(1, 1, Some(&to(20))), Some((0, vec![])), "0.3");
        assert_eq!(push(-171, 171, Some(&to(1))), Some((-1024, vec![1023])), "1026 is more than there is");
        assert_eq!(push(0, 3000, Some(&to(4))), None, "18000 is in no picture");
    }
}
