//! Ways of equalizing the gray picture with CLAHE on the GPU.

use crate::cuda::{Layers, Memory, Place, Texel, Texture, finish};
use crate::gpu::{Gpu, tiling};
use crate::kernels::{TABLE_BYTES, TileLutsIn};
use crate::measure::{Measured, Result, near_pixels};
use crate::picture::{CLAHE, TestPicture};
use equalize::clahe::fill_lut;
use equalize::clip::Clipping;
use lanes::gpu::driver;
use lanes::gpu::kernels::Tiling;

/// Entries of a tile's LUT, one byte each.
const LUT_BYTES: usize = 256;

fn tiles(tiling: &Tiling) -> usize {
    tiling.tiles_x as usize * tiling.tiles_y as usize
}

/// A kernel counts the tiles; the host clips the counts and makes the LUTs.
pub(super) fn host_luts(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let (geometry, stream) = (picture.geometry(), &gpu.stream);
    let clipping = Clipping::new(CLAHE.clip_limit, geometry.area(), picture.layout.depth.levels());
    let tiling = tiling(&picture.layout, &geometry);
    let counts = Memory::new(Place::Device, tiles(&tiling) * TABLE_BYTES)?;
    let host_counts = Memory::new(Place::Pinned, counts.bytes())?;
    let luts = Memory::new(Place::Device, tiles(&tiling) * LUT_BYTES)?;
    let host_luts = Memory::new(Place::Pinned, luts.bytes())?;
    let count = |i| gpu.kernels.tile_counts(stream, tiling, gpu.picture(i), counts);
    let interpolate = |i| {
        let pictures = (gpu.picture(i), gpu.result(i));
        gpu.kernels.interpolate(stream, tiling, TileLutsIn::Global(luts), pictures)
    };
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), stream)?;
        count(0)?;
        counts.copy_to(host_counts, stream)?;
        finish(stream)?;
        let mut entries = vec![0_u8; host_luts.bytes()];
        let counted = host_counts.read_words(stream)?;
        for (lut, counts) in entries.chunks_exact_mut(LUT_BYTES).zip(counted.chunks_exact(LUT_BYTES)) {
            let counts: Vec<u64> = counts.iter().copied().map(u64::from).collect();
            fill_lut(&counts, &clipping, geometry.scale, lut);
        }
        host_luts.write(&entries, stream)?;
        host_luts.copy_to(luts, stream)?;
        interpolate(0)?;
        gpu.result(0).copy_to(gpu.host_result, stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_pixels(gpu.host_result, &picture.clahe)?;
    let kernels = gpu.kernel_time(|i| count(i).and_then(|()| interpolate(i)))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(whole)?))
}

/// One kernel makes the LUTs, which the interpolation reads through a texture.
pub(super) fn texture(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let luts = Luts::new(picture)?;
    let texture = TileLutsIn::Texture(Texture::line(luts.by_tile, Texel::Byte)?);
    let clahe = |i| {
        luts.make(gpu, i)?;
        gpu.kernels.interpolate(&gpu.stream, luts.tiling, texture, (gpu.picture(i), gpu.result(i)))
    };
    gpu.once(|| whole(gpu, clahe))?;
    let right = gpu.same_pixels(gpu.host_result, &picture.clahe)?;
    Ok(right.kernels(gpu.kernel_time(clahe)?).whole(gpu.whole_time(|| whole(gpu, clahe))?))
}

/// The texture unit interpolates, with 9-bit weights: the result is close but not identical.
pub(super) fn filtered(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let luts = Luts::new(picture)?;
    let grid = (luts.tiling.tiles_x as usize, luts.tiling.tiles_y as usize);
    let layers = Layers::new((grid.0, grid.1, LUT_BYTES))?;
    let texture = TileLutsIn::Layers(layers.texture);
    let clahe = |i| {
        luts.make(gpu, i)?;
        layers.fill(luts.by_level, &gpu.stream)?;
        gpu.kernels.interpolate(&gpu.stream, luts.tiling, texture, (gpu.picture(i), gpu.result(i)))
    };
    gpu.once(|| whole(gpu, clahe))?;
    let near = near_pixels(&gpu.host_result.read(&gpu.stream)?, &picture.clahe)?;
    Ok(near.kernels(gpu.kernel_time(clahe)?).whole(gpu.whole_time(|| whole(gpu, clahe))?))
}

/// With the kernels that a lane uses, in place.
pub(super) fn own(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let own = gpu.own.clahe_of(&picture.layout)?;
    let start = || {
        gpu.host_picture.copy_to(gpu.result(0), &gpu.stream)?;
        own.run(&gpu.stream, gpu.result(0))?;
        gpu.result(0).copy_to(gpu.host_result, &gpu.stream)
    };
    gpu.once(start)?;
    let right = gpu.same_pixels(gpu.host_result, &picture.clahe)?;
    let kernels = gpu.kernel_time_in_place(|i| own.run(&gpu.stream, gpu.result(i)))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(start)?))
}

/// The tiles' LUTs, both tile by tile and level by level.
struct Luts {
    tiling: Tiling,
    by_tile: Memory,
    by_level: Memory,
}

impl Luts {
    fn new(picture: &TestPicture) -> Result<Self> {
        let tiling = tiling(&picture.layout, &picture.geometry());
        let memory = || Memory::new(Place::Device, tiles(&tiling) * LUT_BYTES);
        Ok(Self { tiling, by_tile: memory()?, by_level: memory()? })
    }

    fn make(&self, gpu: &Gpu, copy: usize) -> driver::Result<()> {
        let luts = (self.by_tile, self.by_level);
        gpu.kernels.tile_luts(&gpu.stream, self.tiling, gpu.picture(copy), luts)
    }
}

/// Runs `clahe` on the first copy of the picture, from host memory to host memory.
fn whole(gpu: &Gpu, clahe: impl Fn(usize) -> driver::Result<()>) -> driver::Result<()> {
    gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
    clahe(0)?;
    gpu.result(0).copy_to(gpu.host_result, &gpu.stream)
}
