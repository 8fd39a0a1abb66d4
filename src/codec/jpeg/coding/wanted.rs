//! What becomes of the blocks that are read.

use super::coefficients::{Coefficients, Requantizer};
use super::dct::{self, Excess};
use super::{Block, natural};
use crate::codec::jpeg::PlaneSize;
use crate::codec::jpeg::libjpeg::{BLOCK, MOST_QUANT, Plane, QuantTable};

/// What is wanted of the chroma that has no planes.
#[derive(Clone, Copy, Debug)]
pub(in crate::codec::jpeg) enum Rest<'t> {
    Nothing,
    /// Its coefficients, quantized by these of all components' tables, or as they are.
    Coefficients(Option<&'t [QuantTable]>),
}

/// What is wanted of one component.
pub(super) enum Wanted<'a> {
    Nothing,
    Samples(Box<Samples<'a>>),
    Coefficients(Coefficients, Option<Box<Requantizer>>),
}

impl<'a> Wanted<'a> {
    /// Into a plane, of a component of at least that size, with these divisors in zigzag order.
    pub(super) fn samples(
        plane: &'a mut Plane<&mut [u8]>,
        size: PlaneSize,
        divisors: &'a QuantTable,
    ) -> Self {
        debug_assert!(plane.width <= size.width && plane.rows <= size.rows);
        let plane = Plane { data: &mut *plane.data, width: plane.width, rows: plane.rows };
        Self::Samples(Box::new(Samples { plane, divisors, excess: Excess::default(), waiting: None }))
    }

    /// Of a component of that size, with these divisors in zigzag order. `None` if there is no memory for it.
    pub(super) fn of_rest(
        rest: Rest<'_>,
        component: usize,
        size: PlaneSize,
        from: &QuantTable,
    ) -> Option<Self> {
        let (1.., Rest::Coefficients(tables)) = (component, rest) else { return Some(Self::Nothing) };
        if tables.is_none() && from.iter().any(|divisor| !(1..=MOST_QUANT).contains(divisor)) {
            return None;
        }
        let to = tables.and_then(|tables| tables.get(component)).filter(|to| **to != natural(from));
        let requantizer = to.map(|to| Box::new(Requantizer::new(from, to)));
        Some(Self::Coefficients(Coefficients::with_room(size)?, requantizer))
    }

    /// Takes the block of that column and row: samples in any order, coefficients row by row. What has no bit in `nonzero` is zero,
    /// and the block's first place too. `None` if libjpeg should look at it, or if memory runs out.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        place: (usize, usize),
        mean: i16,
        nonzero: u64,
        block: &Block,
    ) -> Option<()> {
        match self {
            Self::Nothing => {}
            Self::Samples(samples) => samples.take(place, mean, nonzero, block),
            Self::Coefficients(all, requantizer) => all.push(mean, nonzero, block, requantizer.as_deref())?,
        }
        Some(())
    }

    /// The coefficients, if they were wanted. `None` if libjpeg should look at the component.
    pub(super) fn finish(self) -> Option<Option<Coefficients>> {
        match self {
            Self::Nothing => Some(None),
            Self::Samples(samples) => samples.finish().map(|()| None),
            Self::Coefficients(all, _) => Some(Some(all)),
        }
    }
}

/// A plane that is made of blocks, two by two.
pub(super) struct Samples<'a> {
    plane: Plane<&'a mut [u8]>,
    divisors: &'a QuantTable,
    excess: Excess,
    /// The first of two.
    waiting: Option<Waiting>,
}

/// A block that waits for another.
struct Waiting {
    place: (usize, usize),
    mean: i16,
    block: Block,
}

impl Samples<'_> {
    #[inline(always)]
    fn take(&mut self, place: (usize, usize), mean: i16, nonzero: u64, block: &Block) {
        if nonzero == 0 {
            put(&mut self.plane, place, &dct::inverse_flat(mean, self.divisors, &mut self.excess));
        } else if let Some(first) = &self.waiting {
            let both = [(first.mean, &first.block), (mean, block)];
            let samples = dct::inverse(both, self.divisors, &mut self.excess);
            put(&mut self.plane, first.place, &samples[0]);
            put(&mut self.plane, place, &samples[1]);
            self.waiting = None;
        } else {
            self.waiting = Some(Waiting { place, mean, block: *block });
        }
    }

    /// `None` if libjpeg should look at the component.
    fn finish(mut self) -> Option<()> {
        if let Some(Waiting { place, mean, block }) = self.waiting.take() {
            let [samples, _] = dct::inverse([(mean, &block); 2], self.divisors, &mut self.excess);
            put(&mut self.plane, place, &samples);
        }
        (!self.excess.found()).then_some(())
    }
}

/// Puts samples into a plane, as far as it reaches.
#[inline(always)]
fn put(plane: &mut Plane<&mut [u8]>, (x, y): (usize, usize), samples: &[[u8; BLOCK]; BLOCK]) {
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
