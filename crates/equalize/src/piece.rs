//! The samples that an operation changes, in place or from a source, and their pieces for threads.

use crate::executor::{Executor, Team};
use crate::layout::Pixel;
use crate::sample::Sample;

/// The samples of some pixels.
pub(super) struct Piece<'a, S> {
    /// The old samples, unless they are in the place of the new ones.
    pub(super) source: Option<&'a [S]>,
    /// The place of the new samples.
    pub(super) samples: &'a mut [S],
}

impl<'a, S: Sample> Piece<'a, S> {
    /// Returns samples that are changed in place.
    pub(super) fn in_place(samples: &'a mut [S]) -> Self {
        Self { source: None, samples }
    }

    /// Returns the old samples.
    pub(super) fn old(&self) -> &[S] {
        self.source.unwrap_or(self.samples)
    }

    /// Cuts a picture into pieces of whole pixels.
    pub(super) fn cut<E: Executor>(self, pixel: Pixel, team: &Team<'_, E>) -> Vec<Self> {
        let length = team.piece(self.samples.len()).next_multiple_of(pixel.channels());
        let mut sources = self.source.map(|source| source.chunks(length));
        let next = |samples| Self { source: sources.as_mut().and_then(Iterator::next), samples };
        self.samples.chunks_mut(length).map(next).collect()
    }

    /// Copies the old samples to the place of the new ones, unless they are there.
    pub(super) fn copy<E: Executor>(self, pixel: Pixel, team: &Team<'_, E>) {
        team.for_each(self.cut(pixel, team), |Self { source, samples }| {
            if let Some(source) = source {
                samples.copy_from_slice(source);
            }
        });
    }
}
