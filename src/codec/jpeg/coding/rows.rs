//! A component that is written, row of blocks by row: its samples are transformed on the way, its coefficients are there.

use super::coefficients::{Blocks, Coefficients, samples_of_blocks};
use super::dct::{Quantizer, forward};
use crate::codec::jpeg::libjpeg::{BLOCK, Plane};

/// What a component is written from.
#[derive(Clone, Copy, Debug)]
pub(in crate::codec::jpeg) enum Part<'a> {
    Samples(Plane<&'a [u8]>),
    /// Quantized as they are to be written.
    Coefficients(&'a Coefficients),
}

/// Rows of blocks of a component that follow each other.
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

    /// Blocks in a row.
    pub(super) fn across(&self) -> usize {
        match self {
            Self::Samples { width, .. } => width.div_ceil(BLOCK),
            Self::Coefficients { across, .. } => *across,
        }
    }

    /// Takes the first so many rows away, or as many as there are.
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

    /// The blocks of all rows; they may be put into `space`. `None` if memory runs out.
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

    /// The mean of the last block.
    pub(super) fn last_mean(self) -> Option<i16> {
        match self {
            Self::Samples { samples, width, quantizer } => {
                let last = samples.chunks(width * BLOCK).next_back()?;
                let [(_, block), _] =
                    forward(&samples_of_blocks(last, width, (self.across() - 1) * BLOCK), quantizer);
                Some(block[0])
            }
            Self::Coefficients { blocks, .. } => blocks.last_mean(),
        }
    }
}
