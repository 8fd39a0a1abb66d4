//! One plane of a picture, padded to whole tiles: read as a whole, and changed in blocks.

use std::ops::Range;

use bytemuck::Zeroable;

use super::tiles::{Geometry, reflect};
use crate::colour::{self, Plane, Relight};
use crate::layout::Pixel;
use crate::sample::Sample;
use crate::strength::Strength;

/// Makes a buffer at least `length` long, and returns its first `length` values.
///
/// It takes no more memory than needed. The contents are unspecified; fresh memory is not touched.
pub(super) fn fit<T: Zeroable + Clone>(buffer: &mut Vec<T>, length: usize) -> &mut [T] {
    if buffer.len() < length {
        // The old memory is freed first.
        *buffer = Vec::new();
        *buffer = vec![T::zeroed(); length];
    }
    &mut buffer[..length]
}

/// The buffers of a thread for some pixels of a row.
pub(super) struct Rows<S> {
    /// The pixels' values before they are changed.
    pub(super) before: Vec<S>,
    /// The same pixels afterwards.
    after: Vec<S>,
}

impl<S> Default for Rows<S> {
    fn default() -> Self {
        Self { before: Vec::new(), after: Vec::new() }
    }
}

impl<S> Rows<S> {
    /// Returns the bytes that the buffers grow to.
    pub(super) fn bytes(tiles: &Geometry, width: usize) -> usize {
        // A tile of a picture one pixel wide may be wider than the picture.
        (width.max(tiles.tile_width) + width) * size_of::<S>()
    }

    /// Returns the bytes that the buffers take.
    #[cfg(test)]
    pub(super) fn bytes_taken(&self) -> usize {
        (self.before.capacity() + self.after.capacity()) * size_of::<S>()
    }
}

/// The place of a plane's values among interleaved samples.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a, S> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixel: Pixel,
    pub(super) plane: Plane,
    /// The change of colours with a new luma.
    pub(super) relight: Relight,
    /// The table from values to their exposed levels, the input of the method.
    pub(super) exposure: Option<&'a [S]>,
}

impl<S: Sample> Shape<'_, S> {
    /// Returns the number of samples of so many pixels.
    pub(super) const fn samples(&self, pixels: usize) -> usize {
        pixels * self.pixel.channels()
    }

    /// Returns the number of values of the padded plane below the picture.
    ///
    /// The padding on their right is not included.
    pub(super) const fn padding(&self, tiles: &Geometry) -> usize {
        (tiles.rows * tiles.tile_height - self.height) * self.width
    }

    /// Saves the padding below, before its source rows are overwritten.
    pub(super) fn pad(&self, samples: &[S], tiles: &Geometry, padding: &mut Vec<S>) {
        let padding = fit(padding, self.padding(tiles));
        let plane = PaddedPlane { shape: *self, samples, padding: &[] };
        for (row, y) in padding.chunks_exact_mut(self.width).zip(self.height..) {
            plane.read(reflect(y, self.height), 0, row);
        }
    }

    /// Moves equalized values towards the exposed levels of the old ones, by `strength`.
    fn weaken(&self, strength: Strength, before: &[S], after: &mut [S]) {
        /// Values at a time: few enough to stay in the L1 cache.
        const STEP: usize = 1024;
        match self.exposure {
            Some(table) if strength != Strength::FULL => {
                let mut exposed = [S::zeroed(); STEP];
                for (before, after) in before.chunks(STEP).zip(after.chunks_mut(STEP)) {
                    let exposed = &mut exposed[..before.len()];
                    exposed.copy_from_slice(before);
                    S::map(exposed, table);
                    strength.weaken(exposed, after);
                }
            }
            _ => strength.weaken(before, after),
        }
    }

    /// Changes pixels: `equalize` overwrites their values with the equalized ones.
    ///
    /// The exposed values go towards these by `strength`.
    pub(super) fn change(
        &self,
        samples: &mut [S],
        strength: Strength,
        rows: &mut Rows<S>,
        equalize: impl FnOnce(&mut [S]),
    ) {
        if self.pixel == Pixel::Gray && strength == Strength::FULL {
            return equalize(samples);
        }
        let pixels = samples.len() / self.pixel.channels();
        let Rows { before, after } = rows;
        let before = fit(before, pixels);
        colour::read(samples, self.pixel, self.plane, before);
        if self.pixel == Pixel::Gray {
            equalize(samples);
            return self.weaken(strength, before, samples);
        }
        let after = fit(after, pixels);
        after.copy_from_slice(before);
        equalize(after);
        self.weaken(strength, before, after);
        colour::write(samples, self.pixel, self.plane, self.relight, before, after);
    }
}

/// One plane of interleaved samples.
#[derive(Clone, Copy)]
pub(super) struct PaddedPlane<'a, S> {
    pub(super) shape: Shape<'a, S>,
    pub(super) samples: &'a [S],
    /// The rows below the picture, as [`Shape::pad`] saves them.
    pub(super) padding: &'a [S],
}

impl<'a, S: Sample> PaddedPlane<'a, S> {
    /// Copies the values of consecutive pixels of row `y` of the picture, from column `x` on.
    fn read(&self, y: usize, x: usize, values: &mut [S]) {
        let Shape { width, pixel, plane, .. } = self.shape;
        let from = &self.samples[self.shape.samples(y * width + x)..][..self.shape.samples(values.len())];
        colour::read(from, pixel, plane, values);
    }

    /// Returns the values of consecutive pixels of a row of the padded plane.
    ///
    /// They are the samples themselves where the plane has them adjacent, or a copy.
    pub(super) fn values<'b>(&self, y: usize, across: Range<usize>, buffer: &'b mut Vec<S>) -> &'b [S]
    where
        'a: 'b,
    {
        let Shape { width, height, pixel, .. } = self.shape;
        if across.end <= width {
            if y >= height {
                return &self.padding[(y - height) * width..][across];
            }
            if pixel == Pixel::Gray {
                return &self.samples[y * width..][across];
            }
        }
        self.copy(y, across, buffer)
    }

    /// Returns a copy of the values of consecutive pixels of a row of the padded plane.
    pub(super) fn copy<'b>(&self, y: usize, across: Range<usize>, buffer: &'b mut Vec<S>) -> &'b mut [S] {
        let Shape { width, height, .. } = self.shape;
        let inside = across.end.min(width).saturating_sub(across.start);
        let copy = fit(buffer, across.len());
        let (values, beyond) = copy.split_at_mut(inside);
        if let Some(below) = y.checked_sub(height) {
            let row = &self.padding[below * width..][..width];
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
        copy
    }
}
