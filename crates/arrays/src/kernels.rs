//! The kernels of one GPU.

use cuda::{Device, LoadedKernels, Result};
use equalize::Pixel;

/// The kernels of one GPU, and its limits.
#[derive(Debug)]
pub struct Kernels {
    pub(crate) multiprocessors: u32,
    /// The most shared memory that a block can have, in bytes.
    pub(crate) shared: u32,
    pub(crate) loaded: LoadedKernels,
}

impl Kernels {
    /// Returns the kernels of a GPU, to be loaded when they are first used.
    ///
    /// # Errors
    /// If the driver does not report the GPU's limits.
    pub fn new(device: Device) -> Result<Self> {
        Ok(Self {
            multiprocessors: device.multiprocessors()?,
            shared: device.shared_memory()?,
            loaded: LoadedKernels::new(device)?,
        })
    }

    /// Returns the kernels by name.
    pub fn loaded(&self) -> &LoadedKernels {
        &self.loaded
    }

    /// Returns the number of multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Returns the most shared memory that a block can have, in bytes.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Returns how many levels' 16-bit counters fit into a block's shared memory.
    ///
    /// `taken` bytes are for other uses. The number is rounded down to have equal ranges make up
    /// all 65536 levels.
    pub fn range16(&self, taken: u32) -> u32 {
        let mut range = 65_536;
        while range * 2 > self.shared - taken {
            range /= 2;
        }
        range
    }

    /// Returns a grid of blocks that share pictures, along x, with the pictures along y.
    ///
    /// A block takes `pixels_a_block` pixels, or more if there would be more than `blocks` blocks
    /// per multiprocessor in all.
    pub(crate) fn spread(
        &self,
        pixels: u64,
        number: u32,
        pixels_a_block: u64,
        blocks: u32,
    ) -> (u32, u32, u32) {
        let most = u64::from(blocks * self.multiprocessors) / u64::from(number.max(1));
        (pixels.div_ceil(pixels_a_block).clamp(1, most.max(1)) as u32, number, 1)
    }
}

/// Returns the second part of kernels' names: the way in which pixels are read.
pub(crate) const fn kind(pixel: Pixel, per_channel: bool) -> &'static str {
    match (pixel, per_channel) {
        (Pixel::Gray, _) => "_gray",
        (Pixel::GrayAlpha, _) => "_gray_alpha",
        (Pixel::Rgb, false) => "_rgb_luma",
        (Pixel::Rgb, true) => "_rgb_channels",
        (Pixel::Rgba, false) => "_rgba_luma",
        (Pixel::Rgba, true) => "_rgba_channels",
    }
}

/// Returns the most threads of a block of the kernels that work on packs.
pub(crate) const fn threads(pixel: Pixel) -> u32 {
    if matches!(pixel, Pixel::Rgb) { 512 } else { 1024 }
}

/// Returns the blocks of so many threads that a multiprocessor holds.
pub(crate) const fn blocks(pixel: Pixel) -> u32 {
    2048 / threads(pixel)
}
