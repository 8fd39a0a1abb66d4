//! The planes of a picture that stays in its own components.
//!
//! This module has their sizes and their order in memory.

use super::BLOCK;
use super::libjpeg::Plane;
use super::markers::{Factors, Markers, largest_factors};
use equalize::Layout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaneSize {
    pub(super) width: usize,
    pub(super) rows: usize,
}

impl PlaneSize {
    /// Returns the size of a plane with one sample per pixel.
    pub(super) fn of_pixels(layout: &Layout) -> Self {
        Self { width: layout.width as usize, rows: layout.height as usize }
    }

    pub(super) fn bytes(self) -> usize {
        self.width * self.rows
    }

    pub(super) fn plane<D>(self, data: D) -> Plane<D> {
        Plane { data, width: self.width, rows: self.rows }
    }
}

/// The samples of luma, or the pixels, that a sample of chroma covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) across: usize,
    pub(super) down: usize,
}

impl Cover {
    /// Returns the size of the chroma of a picture with luma of this size.
    pub(super) fn size(self, luma: PlaneSize) -> PlaneSize {
        PlaneSize { width: luma.width.div_ceil(self.across), rows: luma.rows.div_ceil(self.down) }
    }
}

/// The sizes of the chroma planes, padded to whole blocks.
///
/// Cr follows Cb in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChromaSize {
    pub(super) blue: PlaneSize,
    pub(super) red: PlaneSize,
}

impl ChromaSize {
    pub(super) fn bytes(self) -> usize {
        self.blue.bytes() + self.red.bytes()
    }

    pub(super) fn planes_mut(self, samples: &mut [u8]) -> [Plane<&mut [u8]>; 2] {
        let (cb, cr) = samples.split_at_mut(self.blue.bytes());
        [self.blue.plane(cb), self.red.plane(cr)]
    }

    pub(super) fn planes(self, samples: &[u8]) -> [Plane<&[u8]>; 2] {
        let (cb, cr) = samples[..self.bytes()].split_at(self.blue.bytes());
        [self.blue.plane(cb), self.red.plane(cr)]
    }
}

impl Markers<'_> {
    pub(super) fn plane_size(&self, component: usize) -> PlaneSize {
        plane_size(self.width, self.height, &self.components, self.components[component])
    }

    pub(super) fn chroma_size(&self) -> ChromaSize {
        ChromaSize { blue: self.plane_size(1), red: self.plane_size(2) }
    }
}

/// Returns the size of a component's plane, padded to whole blocks.
///
/// See T.81, A.1.1 and A.2.4.
pub(super) fn plane_size(width: u32, height: u32, all: &[Factors], component: Factors) -> PlaneSize {
    let (most_h, most_v) = largest_factors(all);
    let [width, rows] = [(width, component.horizontal, most_h), (height, component.vertical, most_v)].map(
        |(side, factor, most)| {
            (side as usize * usize::from(factor)).div_ceil(usize::from(most) * BLOCK) * BLOCK
        },
    );
    PlaneSize { width, rows }
}
