//! The chroma of a picture in its own planes, reduced in size.

use super::coding::Coefficients;
use super::encode::{Followed, new_tables};
use super::libjpeg::{Plane, QuantTable};
use super::markers::{Factors, largest_factors};
use super::{BLOCK, Chroma, JpegQuality, Native};
use crate::io::cores::Cores;
use crate::samples::shrink::{Means, SmallPlane};
use equalize::{Layout, Pixel};

impl Native {
    /// Returns the chroma that is kept for the picture in the slot, reduced in size.
    ///
    /// Luma is reduced by means of squares of `step` pixels, and chroma to match. `None` if there
    /// is no chroma.
    pub(super) fn small_planes_of(
        &self,
        slot: &[u8],
        layout: &Layout,
        quality: JpegQuality,
        step: usize,
    ) -> Option<[SmallPlane; 2]> {
        let chroma = self.chroma.as_ref()?;
        if self.covered.is_some() {
            return match self.following(chroma, slot, quality, &Cores::none()).ok()? {
                Followed::Coefficients(all) => self.small_of(&all, layout, quality, step),
                Followed::Samples(size, samples) => self.small_planes(size.planes(&samples), layout, step),
            };
        }
        match chroma {
            Chroma::Coefficients(all) => self.small_of(all, layout, quality, step),
            Chroma::Samples(size, samples) => self.small_planes(size.planes(samples), layout, step),
        }
    }

    /// Reduces coefficients, which are quantized for the output.
    fn small_of(
        &self,
        all: &[Coefficients],
        layout: &Layout,
        quality: JpegQuality,
        step: usize,
    ) -> Option<[SmallPlane; 2]> {
        let tables = new_tables(quality).ok()?;
        let tables = tables.as_ref().unwrap_or(&self.tables);
        let of = |component: usize| {
            let (coefficients, table) = (all.get(component - 1)?, tables.get(component)?);
            let mut plane = Shrinking::new(self, layout, component, step)?;
            if plane.step.iter().all(|&step| step >= BLOCK / 2) {
                return plane.of_blocks(coefficients, table);
            }
            coefficients.for_each_row(table, |row| plane.add(row));
            Some(plane.finish())
        };
        Some([of(1)?, of(2)?])
    }

    fn small_planes(
        &self,
        planes: [Plane<&[u8]>; 2],
        layout: &Layout,
        step: usize,
    ) -> Option<[SmallPlane; 2]> {
        let small = |component: usize, Plane { data, width, .. }: Plane<&[u8]>| {
            let mut plane = Shrinking::new(self, layout, component, step)?;
            data.chunks_exact(width).for_each(|row| plane.add(row));
            Some(plane.finish())
        };
        let [blue, red] = planes;
        Some([small(1, blue)?, small(2, red)?])
    }
}

/// A component in the process of reduction.
struct Shrinking {
    /// Samples across and down, without those that pad blocks.
    size: [usize; 2],
    /// As in [`SmallPlane`].
    step: [usize; 2],
    factors: [usize; 2],
    most: [usize; 2],
    means: Means,
    /// Rows to come.
    left: usize,
}

impl Shrinking {
    fn new(native: &Native, layout: &Layout, component: usize, step: usize) -> Option<Self> {
        let (horizontal, vertical) = largest_factors(&native.components);
        let most = [horizontal, vertical].map(usize::from);
        let Factors { horizontal, vertical } = *native.components.get(component)?;
        let factors = [horizontal, vertical].map(usize::from);
        let pixels = [layout.width, layout.height].map(|side| side as usize);
        let size: [usize; 2] = std::array::from_fn(|i| (pixels[i] * factors[i]).div_ceil(most[i]));
        let step: [usize; 2] = std::array::from_fn(|i| (step * factors[i] / most[i]).max(1));
        let means = Means::new(size[0], Pixel::Gray, step[0], step[1]);
        Some(Self { size, step, factors, most, means, left: size[1] })
    }

    /// Adds a row, which may be padded.
    fn add(&mut self, row: &[u8]) {
        if self.left > 0 {
            self.means.add(&row[..self.size[0]]);
            self.left -= 1;
        }
    }

    fn finish(self) -> SmallPlane {
        let Self { size, step, factors, most, means, .. } = self;
        let [across, down] = std::array::from_fn(|i| size[i].div_ceil(step[i]));
        SmallPlane { samples: means.finish(), across, down, step, factors, most }
    }

    /// Takes the mean of each block, which is one of its coefficients.
    ///
    /// That is close enough if boxes are about as large.
    fn of_blocks(self, coefficients: &Coefficients, table: &QuantTable) -> Option<SmallPlane> {
        let samples = coefficients.block_means(table);
        let across = coefficients.across();
        let down = samples.len().checked_div(across).filter(|&rows| rows > 0)?;
        let Self { factors, most, .. } = self;
        Some(SmallPlane { samples, across, down, step: [BLOCK; 2], factors, most })
    }
}
