//! One plane of a picture, padded to whole tiles, and changed in place.

use std::ops::Range;

use bytemuck::Zeroable;

use super::tiles::{Geometry, reflect};
use crate::colour::{self, Plane};
use crate::layout::Pixel;
use crate::sample::Sample;
use crate::strength::Strength;

/// Makes a buffer as long as asked for, without more memory than that needs. What it holds is not specified.
pub(super) fn fit<T: Zeroable + Clone>(buffer: &mut Vec<T>, length: usize) {
    buffer.reserve_exact(length.saturating_sub(buffer.len()));
    buffer.resize(length, T::zeroed());
}

/// The buffers that a [`PaddedPlane`] works with, reused from picture to picture.
pub(super) struct Rows<S> {
    /// The rows of the padded plane below the picture, without the padding on their right.
    padding: Vec<S>,
    /// Some pixels of a row before they are changed.
    before: Vec<S>,
    /// The same pixels afterwards.
    after: Vec<S>,
}

impl<S> Default for Rows<S> {
    fn default() -> Self {
        Self { padding: Vec::new(), before: Vec::new(), after: Vec::new() }
    }
}

impl<S> Rows<S> {
    /// Bytes that the buffers grow to.
    pub(super) fn bytes(tiles: &Geometry, width: usize, height: usize) -> usize {
        let below = (tiles.rows * tiles.tile_height - height) * width;
        (below + width.max(tiles.tile_width) + width) * size_of::<S>()
    }

    /// Bytes that the buffers take.
    #[cfg(test)]
    pub(super) fn bytes_taken(&self) -> usize {
        [&self.padding, &self.before, &self.after]
            .map(|buffer| buffer.capacity() * size_of::<S>())
            .iter()
            .sum()
    }
}

/// One plane of interleaved samples.
pub(super) struct PaddedPlane<'a, S> {
    samples: &'a mut [S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
    rows: &'a mut Rows<S>,
}

impl<'a, S: Sample> PaddedPlane<'a, S> {
    /// Takes a plane of a picture `width` pixels wide. It has no padding yet.
    pub(super) fn new(
        samples: &'a mut [S],
        width: usize,
        (pixel, plane): (Pixel, Plane),
        rows: &'a mut Rows<S>,
    ) -> Self {
        fit(&mut rows.before, width);
        fit(&mut rows.after, width);
        Self { samples, width, pixel, plane, rows }
    }

    pub(super) const fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.samples.len() / self.stride()
    }

    fn stride(&self) -> usize {
        self.width * self.pixel.channels()
    }

    /// Saves the padding below, before the rows that it is copied from are overwritten.
    pub(super) fn pad(&mut self, tiles: &Geometry) {
        let (width, height) = (self.width, self.height());
        let mut padding = std::mem::take(&mut self.rows.padding);
        fit(&mut padding, (tiles.rows * tiles.tile_height - height) * width);
        for (row, y) in padding.chunks_exact_mut(width).zip(height..) {
            self.read(reflect(y, height), 0, row);
        }
        self.rows.padding = padding;
        // A tile of a picture one pixel wide may be wider than the picture.
        let longest = width.max(tiles.tile_width);
        fit(&mut self.rows.before, longest);
    }

    /// Copies the values of consecutive pixels of row `y` of the picture, from column `x` on.
    fn read(&self, y: usize, x: usize, values: &mut [S]) {
        let channels = self.pixel.channels();
        let from = &self.samples[y * self.stride() + x * channels..][..values.len() * channels];
        colour::read(from, self.pixel, self.plane, values);
    }

    /// Returns the values of consecutive pixels of a row of the padded plane: the samples themselves where the plane has them side by
    /// side, or a copy.
    pub(super) fn values(&mut self, y: usize, across: Range<usize>) -> &[S] {
        let (width, height) = (self.width, self.height());
        if across.end <= width {
            if y >= height {
                return &self.rows.padding[(y - height) * width..][across];
            }
            if self.pixel == Pixel::Gray {
                return &self.samples[y * width..][across];
            }
        }
        self.copy(y, across)
    }

    /// Returns a copy of the values of consecutive pixels of a row of the padded plane.
    pub(super) fn copy(&mut self, y: usize, across: Range<usize>) -> &mut [S] {
        let (width, height) = (self.width, self.height());
        let mut buffer = std::mem::take(&mut self.rows.before);
        let inside = across.end.min(width).saturating_sub(across.start);
        let (values, beyond) = buffer[..across.len()].split_at_mut(inside);
        if let Some(below) = y.checked_sub(height) {
            let row = &self.rows.padding[below * width..][..width];
            values.copy_from_slice(&row[across.start.min(width)..][..inside]);
            for (value, x) in beyond.iter_mut().zip(across.start + inside..) {
                *value = row[reflect(x, width)];
            }
        } else {
            self.read(y, across.start.min(width), values);
            for (value, x) in beyond.iter_mut().zip(across.start + inside..) {
                self.read(y, reflect(x, width), std::slice::from_mut(value));
            }
        }
        self.rows.before = buffer;
        &mut self.rows.before[..across.len()]
    }

    /// Changes consecutive pixels of a row of the picture: `equalize` overwrites their values with their equalized ones, towards which they
    /// go as far as `strength` says.
    pub(super) fn change(
        &mut self,
        y: usize,
        across: Range<usize>,
        strength: Strength,
        equalize: impl FnOnce(&mut [S]),
    ) {
        let channels = self.pixel.channels();
        let at = y * self.stride() + across.start * channels;
        let samples = &mut self.samples[at..][..across.len() * channels];
        if self.pixel == Pixel::Gray && strength == Strength::FULL {
            return equalize(samples);
        }
        let before = &mut self.rows.before[..across.len()];
        let after = &mut self.rows.after[..across.len()];
        colour::read(samples, self.pixel, self.plane, before);
        after.copy_from_slice(before);
        equalize(after);
        strength.weaken(before, after);
        colour::write(samples, self.pixel, self.plane, before, after);
    }
}
