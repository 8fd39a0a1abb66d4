//! Pictures made small: means of boxes of their samples.

use equalize::{Pixel, simd};

/// Rows of a box that are enough for a mean.
const ROWS: usize = 3;

/// Means of boxes of samples, from rows that come one by one.
///
/// Of high boxes, only evenly spread rows are added.
pub(crate) struct Means {
    pixel: Pixel,
    /// Pixels of a box across and down.
    across: usize,
    down: usize,
    /// The step between rows that are added.
    every: usize,
    /// The sums of the box's rows that are added, and the number of their visible pixels.
    sums: Vec<u32>,
    visible: Vec<u32>,
    /// The rows of the box that have come.
    rows: usize,
    means: Vec<u16>,
}

impl Means {
    /// Takes rows of `width` pixels, for boxes of so many pixels across and down.
    pub(crate) fn new(width: usize, pixel: Pixel, across: usize, down: usize) -> Self {
        let visible = vec![0; if pixel.has_alpha() { width } else { 0 }];
        let sums = vec![0; width * pixel.channels()];
        let every = (down / ROWS).max(1);
        Self { pixel, across, down, every, sums, visible, rows: 0, means: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn add<S: Copy + Into<u32>>(&mut self, row: &[S]) {
        let Self { pixel, sums, visible, .. } = self;
        if !self.rows.is_multiple_of(self.every) {
            // The other rows are enough.
        } else if pixel.has_alpha() {
            let channels = pixel.channels();
            let pixels = row.chunks_exact(channels).zip(sums.chunks_exact_mut(channels));
            for ((pixel, sums), visible) in pixels.zip(visible) {
                let alpha: u32 = pixel[channels - 1].into();
                sums[channels - 1] += alpha;
                if alpha > 0 {
                    *visible += 1;
                    let colours = sums.iter_mut().zip(pixel).take(channels - 1);
                    colours.for_each(|(sum, &sample)| *sum += sample.into());
                }
            }
        } else {
            simd::vectorized!(sums.iter_mut().zip(row).for_each(
                #[inline(always)]
                |(sum, &sample)| *sum += sample.into()
            ));
        }
        self.rows += 1;
        if self.rows == self.down {
            self.end_boxes();
        }
    }

    /// Makes means of the rows that were added since the last ones.
    fn end_boxes(&mut self) {
        let (channels, colours) = (self.pixel.channels(), self.pixel.colour_channels());
        let rows = self.rows.div_ceil(self.every);
        let mut visible = self.visible.chunks(self.across);
        for sums in self.sums.chunks(self.across * channels) {
            let pixels = (sums.len() / channels * rows) as u64;
            let seen = visible.next().map_or(pixels, |seen| total(seen.iter()).max(1));
            for channel in 0..channels {
                let sum = match channels {
                    1 => total(sums.iter()),
                    _ => total(sums[channel..].iter().step_by(channels)),
                };
                let count = if channel < colours { seen } else { pixels };
                self.means.push(((sum + count / 2) / count) as u16);
            }
        }
        self.sums.fill(0);
        self.visible.fill(0);
        self.rows = 0;
    }

    /// Returns the means, row by row.
    pub(crate) fn finish(mut self) -> Vec<u16> {
        if self.rows > 0 {
            self.end_boxes();
        }
        self.means
    }
}

#[inline(always)]
fn total<'n>(numbers: impl Iterator<Item = &'n u32>) -> u64 {
    numbers.map(|&number| u64::from(number)).sum()
}

/// A plane of chroma with samples that are means of boxes of a component's samples.
pub(crate) struct SmallPlane {
    pub(crate) samples: Vec<u16>,
    /// Samples in a row, and rows.
    pub(crate) across: usize,
    pub(crate) down: usize,
    /// Samples of the component in a box, across and down.
    pub(crate) step: [usize; 2],
    /// The component's sampling factors, and the largest of the picture.
    pub(crate) factors: [usize; 2],
    pub(crate) most: [usize; 2],
}

impl SmallPlane {
    /// Returns the places in a row of the samples at these columns of the picture.
    pub(crate) fn columns(&self, columns: impl Iterator<Item = usize>) -> Vec<usize> {
        columns.map(|column| self.place(column, 0).min(self.across - 1)).collect()
    }

    /// Returns the samples at this row of the picture.
    pub(crate) fn row(&self, row: usize) -> &[u16] {
        &self.samples[self.place(row, 1).min(self.down - 1) * self.across..][..self.across]
    }

    fn place(&self, pixel: usize, direction: usize) -> usize {
        pixel * self.factors[direction] / self.most[direction] / self.step[direction]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_boxes_and_of_what_is_visible() {
        let mut means = Means::new(3, Pixel::Gray, 2, 2);
        [[0_u8, 2, 7], [4, 6, 8], [1, 2, 9]].iter().for_each(|row| means.add(row));
        assert_eq!(means.finish(), [3, 8, 2, 9]);
        let mut means = Means::new(2, Pixel::GrayAlpha, 2, 2);
        means.add(&[200_u16, 100, 7, 0]);
        assert_eq!(means.finish(), [200, 50]);
        let mut means = Means::new(1, Pixel::Rgb, 1, 9);
        (0..12_u8).for_each(|row| means.add(&[row, 10 * row, 100]));
        assert_eq!(means.finish(), [3, 30, 100, 9, 90, 100], "of rows 0, 3 and 6, and of 9");
    }
}
