//! The destinations of the blocks that are read.

use super::coefficients::{Coefficients, Quantized, Requantizer};
use super::dct::{self, Excess, Levels};
use super::{Block, ZIGZAG, natural, vectorized};
use crate::formats::jpeg::libjpeg::{MAX_QUANT, Plane, QuantTable};
use crate::formats::jpeg::{BLOCK, PlaneSize};

/// The output for chroma components without planes to decode into.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats::jpeg) enum Rest<'t> {
    Nothing,
    /// Their coefficients, requantized with these tables, one per component of the picture.
    ///
    /// Without tables they stay as they are.
    Coefficients(Option<&'t [QuantTable]>),
}

/// The output for one component.
pub(super) enum ComponentOutput<'a> {
    Nothing,
    Samples(Box<Samples<'a>>),
    Coefficients(Coefficients, Option<Box<Requantizer>>),
    /// All coefficients as they are, in any range.
    Blocks(BlockGrid),
}

/// The column and the row of a block among those of its component.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlace {
    pub(super) x: usize,
    pub(super) y: usize,
}

/// The blocks of a component, row by row.
pub(super) struct BlockGrid {
    across: usize,
    pub(super) blocks: Vec<Block>,
}

impl<'a> ComponentOutput<'a> {
    /// Makes an output of samples, in `plane`, for a component of `size`, which may be larger.
    ///
    /// `divisors` are in zigzag order.
    pub(super) fn samples(
        plane: &'a mut Plane<&mut [u8]>,
        size: PlaneSize,
        divisors: &'a QuantTable,
    ) -> Self {
        debug_assert!(plane.width <= size.width && plane.rows <= size.rows);
        let plane = Plane { data: &mut *plane.data, width: plane.width, rows: plane.rows };
        Self::Samples(Box::new(Samples { plane, divisors, excess: Excess::default(), waiting: None }))
    }

    /// Makes the output that `rest` requests for a component of `size`.
    ///
    /// It is quantized with `from`, in zigzag order. `None` if there is no memory for it, or if its
    /// divisors could not be written back as they are.
    pub(super) fn of_rest(
        rest: Rest<'_>,
        component: usize,
        size: PlaneSize,
        from: &QuantTable,
    ) -> Option<Self> {
        let (1.., Rest::Coefficients(tables)) = (component, rest) else { return Some(Self::Nothing) };
        if tables.is_none() && from.iter().any(|divisor| !(1..=MAX_QUANT).contains(divisor)) {
            return None;
        }
        let to = tables.and_then(|tables| tables.get(component)).filter(|to| **to != natural(from));
        let requantizer = to.map(|to| Box::new(Requantizer::new(from, to)));
        Some(Self::Coefficients(Coefficients::with_room(size)?, requantizer))
    }

    /// Takes the block at this place.
    ///
    /// The order is arbitrary for samples, but row by row for coefficients. Values of `block`
    /// without a bit in `nonzero` are zero, and its first one is too. `None` if the block is a case
    /// for libjpeg, or if memory runs out.
    #[inline(always)]
    pub(super) fn take(&mut self, place: BlockPlace, dc: i16, nonzero: u64, block: &Block) -> Option<()> {
        match self {
            Self::Nothing => {}
            Self::Samples(samples) => samples.take(place, dc, nonzero, block),
            Self::Coefficients(all, requantizer) => all.push(dc, nonzero, block, requantizer.as_deref())?,
            Self::Blocks(grid) => grid.put(place, dc, block)?,
        }
        Some(())
    }

    /// Returns the coefficients, if they were requested.
    ///
    /// `None` if the component is a case for libjpeg.
    pub(super) fn finish(self) -> Option<Option<Coefficients>> {
        match self {
            Self::Nothing | Self::Blocks(_) => Some(None),
            Self::Samples(samples) => samples.finish().map(|()| None),
            Self::Coefficients(all, _) => Some(Some(all)),
        }
    }
}

impl Coefficients {
    /// Transforms blocks back, and calls `take` with each row of samples, from the top.
    ///
    /// The blocks were quantized by this table.
    pub(in crate::formats::jpeg) fn for_each_row(&self, table: &QuantTable, mut take: impl FnMut(&[u8])) {
        let divisors = ZIGZAG.map(|place| table[usize::from(place)]);
        let size = PlaneSize { width: self.across() * BLOCK, rows: BLOCK };
        let (mut blocks, mut samples) = (self.blocks(), vec![0; size.bytes()]);
        while let row @ 1.. = blocks.len().min(self.across()) {
            let row = blocks.take_first(row);
            let mut plane = size.plane(&mut samples[..]);
            let mut output = ComponentOutput::samples(&mut plane, size, &divisors);
            vectorized::run(
                #[inline(always)]
                || {
                    for (x, (dc, nonzero, values)) in row.enumerate() {
                        output.take(BlockPlace { x, y: 0 }, dc, nonzero, &whole_block(nonzero, values));
                    }
                },
            );
            // Samples of values too large for libjpeg are inexact.
            output.finish();
            samples.chunks_exact(size.width).for_each(&mut take);
        }
    }

    /// Returns whether the blocks can become samples and be requantized here as libjpeg would.
    ///
    /// They were quantized by this table.
    pub(in crate::formats::jpeg) fn are_usual(&self, table: &QuantTable) -> bool {
        /// The sum of a block's values up to which no step of the transform exceeds 14 bits.
        ///
        /// It is 2^14 / (4 * 1.39), rounded down to a power of 2.
        const SMALL: u64 = 1 << 11;
        let divisors = ZIGZAG.map(|place| table[usize::from(place)]);
        let most = divisors[1..].iter().map(|&by| u64::from(by)).max().unwrap_or(0);
        let mut excess = Excess::default();
        for (dc, nonzero, values) in self.blocks() {
            let sum: u64 = values.iter().map(|value| u64::from(value.unsigned_abs())).sum();
            if u64::from(dc.unsigned_abs()) * u64::from(divisors[0]) + sum * most <= SMALL {
                continue;
            }
            let mut block = whole_block(nonzero, values);
            block[0] = dc;
            let products = || {
                block
                    .iter()
                    .zip(&divisors)
                    .map(|(value, &by)| u64::from(value.unsigned_abs()) * u64::from(by))
            };
            if products().sum::<u64>() > SMALL {
                if products().any(|product| product >= dct::USUAL) {
                    return false;
                }
                dct::inverse([Levels { dc, ac: &block }; 2], &divisors, &mut excess);
            }
        }
        !excess.found()
    }

    /// Returns the mean of each block, row by row.
    ///
    /// The blocks were quantized by this table.
    pub(in crate::formats::jpeg) fn block_means(&self, table: &QuantTable) -> Vec<u16> {
        let mut excess = Excess::default();
        let mean = |(dc, ..): Quantized<'_>| dct::inverse_flat(dc, table, &mut excess)[0][0].into();
        self.blocks().map(mean).collect()
    }
}

/// Returns a block with these values at the bits of the mask.
#[inline(always)]
pub(super) fn whole_block(nonzero: u64, values: &[i16]) -> Block {
    let (mut block, mut left) = ([0; 64], nonzero);
    for &value in values {
        block[left.trailing_zeros() as usize % BLOCK.pow(2)] = value;
        left &= left.wrapping_sub(1);
    }
    block
}

impl BlockGrid {
    /// Makes a grid of zero blocks.
    ///
    /// `None` if there is no memory for them.
    pub(super) fn new(across: usize, down: usize) -> Option<Self> {
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(across * down).ok()?;
        blocks.resize(across * down, [0; 64]);
        Some(Self { across, blocks })
    }

    fn put(&mut self, BlockPlace { x, y }: BlockPlace, dc: i16, block: &Block) -> Option<()> {
        let place = self.blocks.get_mut(y * self.across + x)?;
        *place = *block;
        place[0] = dc;
        Some(())
    }
}

/// A plane that is decoded from blocks, two at a time.
pub(super) struct Samples<'a> {
    plane: Plane<&'a mut [u8]>,
    divisors: &'a QuantTable,
    excess: Excess,
    /// The first block of a pair.
    waiting: Option<Waiting>,
}

/// A block that waits for a second one, to be transformed together.
struct Waiting {
    place: BlockPlace,
    dc: i16,
    block: Block,
}

impl Samples<'_> {
    #[inline(always)]
    fn take(&mut self, place: BlockPlace, dc: i16, nonzero: u64, block: &Block) {
        if nonzero == 0 {
            put(&mut self.plane, place, &dct::inverse_flat(dc, self.divisors, &mut self.excess));
        } else if let Some(first) = &self.waiting {
            let both = [Levels { dc: first.dc, ac: &first.block }, Levels { dc, ac: block }];
            let samples = dct::inverse(both, self.divisors, &mut self.excess);
            put(&mut self.plane, first.place, &samples[0]);
            put(&mut self.plane, place, &samples[1]);
            self.waiting = None;
        } else {
            self.waiting = Some(Waiting { place, dc, block: *block });
        }
    }

    /// Transforms a single remaining block.
    ///
    /// `None` if the component is a case for libjpeg.
    fn finish(mut self) -> Option<()> {
        if let Some(Waiting { place, dc, block }) = self.waiting.take() {
            let [samples, _] = dct::inverse([Levels { dc, ac: &block }; 2], self.divisors, &mut self.excess);
            put(&mut self.plane, place, &samples);
        }
        (!self.excess.found()).then_some(())
    }
}

/// Copies the samples of a block into a plane, except for those beyond its edges.
#[inline(always)]
fn put(plane: &mut Plane<&mut [u8]>, BlockPlace { x, y }: BlockPlace, samples: &[[u8; BLOCK]; BLOCK]) {
    let (left, width) = (x * BLOCK, plane.width);
    let Some(band) = plane.data.get_mut(y * BLOCK * width..) else { return };
    let rows = band.chunks_exact_mut(width).zip(samples);
    if left + BLOCK <= width {
        rows.for_each(|(row, samples)| row[left..left + BLOCK].copy_from_slice(samples));
    } else {
        for (row, samples) in rows {
            let inside = &mut row[left..];
            inside.copy_from_slice(&samples[..inside.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_that_no_picture_has_are_not_usual() {
        let of = |dc: i16, ac: i16, divisor: u16| {
            let mut all = Coefficients::with_room(PlaneSize { width: 8, rows: 8 }).expect("there is memory");
            let mut block = [0; 64];
            block[1..].fill(ac);
            all.push(dc, if ac == 0 { 0 } else { u64::MAX - 1 }, &block, None)
                .expect("baseline has codes for it");
            all.are_usual(&[divisor; 64])
        };
        assert!(of(0, 0, 255) && of(-1000, 1, 1) && of(120, 10, 2));
        // More than libjpeg's range in the first pass, and more than can be requantized.
        assert!(!of(0, 600, 6) && !of(1000, 0, 5));
    }
}
