//! A component to be written, as rows of blocks.
//!
//! Samples are transformed on the way, coefficients are taken as they are.

use super::coefficients::{Blocks, Coefficients, samples_of_blocks};
use super::dct::{Quantizer, forward};
use crate::formats::jpeg::BLOCK;
use crate::formats::jpeg::libjpeg::Plane;

/// The source of a component to be written.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats::jpeg) enum Part<'a> {
    Samples(Plane<&'a [u8]>),
    /// Coefficients, already quantized for the output.
    Coefficients(&'a Coefficients),
}

/// Consecutive rows of blocks of a component.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows<'a> {
    Samples { samples: &'a [u8], width: usize, quantizer: &'a Quantizer },
    Coefficients { across: usize, blocks: Blocks<'a> },
}

impl<'a> Rows<'a> {
    pub(super) fn new(part: &Part<'a>, quantizer: &'a Quantizer) -> Self {
        match part {
            Part::Samples(Plane { data, width, .. }) => {
                Self::Samples { samples: data, width: *width, quantizer }
            }
            Part::Coefficients(all) => Self::Coefficients { across: all.across(), blocks: all.blocks() },
        }
    }

    /// Returns the number of blocks in a row.
    pub(super) fn across(&self) -> usize {
        match self {
            Self::Samples { width, .. } => width.div_ceil(BLOCK),
            Self::Coefficients { across, .. } => *across,
        }
    }

    /// Splits off and returns the first `rows` rows, or as many as there are.
    #[inline(always)]
    pub(super) fn take_first(&mut self, rows: usize) -> Self {
        match self {
            Self::Samples { samples, width, quantizer } => {
                let (first, others) = samples.split_at(samples.len().min(rows * BLOCK * *width));
                *samples = others;
                Self::Samples { samples: first, width: *width, quantizer }
            }
            Self::Coefficients { across, blocks } => {
                Self::Coefficients { across: *across, blocks: blocks.take_first(rows * *across) }
            }
        }
    }

    /// Returns the blocks of all rows.
    ///
    /// Computed blocks are stored in `space`. `None` if memory runs out.
    #[inline(always)]
    pub(super) fn blocks<'s>(self, space: &'s mut Coefficients) -> Option<Blocks<'s>>
    where
        'a: 's,
    {
        match self {
            Self::Samples { samples, width, quantizer } => {
                space.clear();
                for band in samples.chunks(width * BLOCK) {
                    space.transform(band, width, quantizer)?;
                }
                Some(space.blocks())
            }
            Self::Coefficients { blocks, .. } => Some(blocks),
        }
    }

    /// Returns the DC coefficient of the last block.
    pub(super) fn last_dc(self) -> Option<i16> {
        match self {
            Self::Samples { samples, width, quantizer } => {
                let last = samples.chunks(width * BLOCK).next_back()?;
                let [(_, block), _] =
                    forward(&samples_of_blocks(last, width, (self.across() - 1) * BLOCK), quantizer);
                Some(block[0])
            }
            Self::Coefficients { blocks, .. } => blocks.last_dc(),
        }
    }
}
