//! A component that is written, row of blocks by row: its samples are transformed on the way, its coefficients are there.

use std::slice::Chunks;

use super::coefficients::{Blocks, Coefficients};
use super::dct::Quantizer;
use crate::codec::jpeg::libjpeg::{BLOCK, Plane, QuantTable};

/// What a component is written from.
#[derive(Clone, Copy, Debug)]
pub(in crate::codec::jpeg) enum Part<'a> {
    Samples(Plane<&'a [u8]>),
    /// Quantized as they are to be written.
    Coefficients(&'a Coefficients),
}

/// The rows of a component that are still to come.
pub(super) enum Rows<'a> {
    Samples { bands: Chunks<'a, u8>, width: usize, quantizer: Box<Quantizer>, row: Coefficients },
    Coefficients { across: usize, blocks: Blocks<'a> },
}

impl<'a> Rows<'a> {
    pub(super) fn new(part: &Part<'a>, divisors: &QuantTable) -> Self {
        match part {
            Part::Samples(Plane { data, width, .. }) => Self::Samples {
                bands: data.chunks(width * BLOCK),
                width: *width,
                quantizer: Box::new(Quantizer::new(divisors)),
                row: Coefficients::of_rows(width.div_ceil(BLOCK)),
            },
            Part::Coefficients(all) => Self::Coefficients { across: all.across(), blocks: all.blocks() },
        }
    }

    /// Blocks in a row.
    pub(super) fn across(&self) -> usize {
        match self {
            Self::Samples { row, .. } => row.across(),
            Self::Coefficients { across, .. } => *across,
        }
    }

    /// The blocks of so many more rows, or of as many as are left. `None` if memory runs out.
    #[inline(always)]
    pub(super) fn next(&mut self, rows: usize) -> Option<Blocks<'_>> {
        match self {
            Self::Samples { bands, width, quantizer, row } => {
                row.clear();
                for band in bands.by_ref().take(rows) {
                    row.transform(band, *width, quantizer)?;
                }
                Some(row.blocks())
            }
            Self::Coefficients { across, blocks } => Some(blocks.take_first(rows * *across)),
        }
    }

    /// Leaves out so many rows.
    pub(super) fn skip(&mut self, rows: usize) {
        match self {
            Self::Samples { bands, .. } => bands.by_ref().take(rows).for_each(drop),
            Self::Coefficients { across, blocks } => {
                blocks.take_first(rows * *across);
            }
        }
    }
}
