//! The kernels of `kernels/ladder.cu`, each with a typed launch function that checks sizes.
//!
//! The launches are safe because [`Memory`] lives until the process ends and is never exposed as a
//! slice.
#![allow(unsafe_code)]

use std::ffi::c_void;

use super::cuda::{Memory, Texture, variable};
use lanes::gpu::driver::{Device, Launch, LoadedKernels, Result, Stream};
use lanes::gpu::kernels::{Tiling, arguments};

use histeqd_kernels::LADDER;

/// Bytes of 256 counts or LUT entries.
pub(super) const TABLE_BYTES: usize = 256 * 4;

/// Threads per block.
const BLOCK: u32 = 256;

/// Blocks of the strided kernels per multiprocessor: of 256 threads each, as many as fit at once.
const BLOCKS_A_MULTIPROCESSOR: u32 = 8;

/// The grid of the partial histograms: blocks across and down, as published.
const PARTIAL_GRID: (u32, u32, u32) = (16, 16, 1);

/// Bytes of all partial histograms of three channels.
pub(super) const PARTIALS_BYTES: usize = 16 * 16 * 3 * TABLE_BYTES;

/// The method of counting a histogram.
#[derive(Clone, Copy)]
pub(super) enum Counting {
    Global,
    Shared,
    Strided,
    Replicated,
}

/// The memory from which a kernel reads the LUT.
#[derive(Clone, Copy)]
pub(super) enum LutIn {
    Global(Memory),
    Shared(Memory),
    /// In constant memory, in the module's own variable.
    Constant,
    /// In a linear texture of words.
    Texture(Texture),
}

/// The memory from which the interpolation reads the tiles' LUTs.
#[derive(Clone, Copy)]
pub(super) enum TileLutsIn {
    Global(Memory),
    /// In a linear texture of bytes, point-sampled.
    Texture(Texture),
    /// In a layered texture, one layer per level, with interpolation between a layer's texels.
    Layers(Texture),
}

/// The kernels of one GPU.
pub(super) struct LadderKernels {
    loaded: LoadedKernels,
    multiprocessors: u32,
}

impl LadderKernels {
    /// Returns the kernels for a GPU with a current context.
    pub(super) fn new(device: Device) -> Result<Self> {
        Ok(Self { loaded: LoadedKernels::new(device)?, multiprocessors: device.multiprocessors()? })
    }

    /// Returns the memory of the LUT in constant memory.
    pub(super) fn constant_lut(&self) -> Result<Memory> {
        Ok(variable(self.loaded.module(&LADDER)?, "ladder_constant_lut")?.part(0, TABLE_BYTES))
    }

    /// # Safety
    /// The arguments must be those of the kernel, and the memory they point to as large as the
    /// kernel expects.
    unsafe fn launch(
        &self,
        stream: &Stream,
        name: &'static str,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: the caller's promise; the memory lives until the process ends, and no slice of it
        // exists.
        unsafe { self.loaded.launch(stream, &LADDER, (name, ""), launch, arguments) }
    }

    /// Adds the histogram of pixels to 256 counts.
    pub(super) fn count(
        &self,
        stream: &Stream,
        counting: Counting,
        pixels: Memory,
        counts: Memory,
    ) -> Result<()> {
        assert_eq!(counts.bytes(), TABLE_BYTES);
        let (count, strided) = (count_of(pixels), BLOCKS_A_MULTIPROCESSOR * self.multiprocessors);
        let (name, blocks) = match counting {
            Counting::Global => ("ladder_count_global", u32::MAX),
            Counting::Shared => ("ladder_count_shared", u32::MAX),
            Counting::Strided => ("ladder_count_strided", strided),
            Counting::Replicated => ("ladder_count_replicated", strided),
        };
        let launch = line(count.div_ceil(BLOCK).min(blocks));
        let (pixels, counts) = (pixels.address(), counts.address());
        // SAFETY: the parameters of ladder_count_*; `count` pixels and 256 counts are there.
        unsafe { self.launch(stream, name, launch, arguments![pixels, count, counts]) }
    }

    /// Makes a LUT from 256 counts.
    pub(super) fn lut(&self, stream: &Stream, counts: Memory, lut: Memory) -> Result<()> {
        assert_eq!((counts.bytes(), lut.bytes()), (TABLE_BYTES, TABLE_BYTES));
        let (counts, lut) = (counts.address(), lut.address());
        // SAFETY: the parameters of ladder_lut; both are 256 words.
        unsafe { self.launch(stream, "ladder_lut", line(1), arguments![counts, lut]) }
    }

    /// Applies the LUT to pixels.
    pub(super) fn apply(&self, stream: &Stream, lut: LutIn, pixels: Memory, out: Memory) -> Result<()> {
        assert_eq!(pixels.bytes(), out.bytes());
        let count = count_of(pixels);
        let (launch, pixels, out) = (line(count.div_ceil(BLOCK)), pixels.address(), out.address());
        let (name, lut) = match lut {
            LutIn::Constant => {
                let arguments = arguments![pixels, out, count];
                // SAFETY: the parameters of ladder_apply_constant; `count` pixels are there.
                return unsafe { self.launch(stream, "ladder_apply_constant", launch, arguments) };
            }
            LutIn::Global(lut) => ("ladder_apply_global", whole_table(lut)),
            LutIn::Shared(lut) => ("ladder_apply_shared", whole_table(lut)),
            LutIn::Texture(texture) => ("ladder_apply_texture", texture.0),
        };
        // SAFETY: the parameters of the other ladder_apply_*; `count` pixels are there, and 256
        // entries or a texture, which may be read at any position.
        unsafe { self.launch(stream, name, launch, arguments![pixels, out, count, lut]) }
    }

    /// Counts each tile: 256 counts per tile.
    pub(super) fn tile_counts(
        &self,
        stream: &Stream,
        tiling: Tiling,
        pixels: Memory,
        counts: Memory,
    ) -> Result<()> {
        let tiles = tiles_of(&tiling, pixels);
        assert_eq!(counts.bytes(), tiles as usize * TABLE_BYTES);
        let (pixels, counts) = (pixels.address(), counts.address());
        let arguments = arguments![pixels, tiling, counts];
        // SAFETY: the parameters of ladder_tile_counts; the tiles' pixels and counts are there.
        unsafe { self.launch(stream, "ladder_tile_counts", line(tiles), arguments) }
    }

    /// Makes the LUT of each tile, of 256 bytes.
    ///
    /// `luts` gets the entries tile by tile, `layers` level by level.
    pub(super) fn tile_luts(
        &self,
        stream: &Stream,
        tiling: Tiling,
        pixels: Memory,
        (luts, layers): (Memory, Memory),
    ) -> Result<()> {
        let tiles = tiles_of(&tiling, pixels);
        assert_eq!((luts.bytes(), layers.bytes()), (tiles as usize * 256, tiles as usize * 256));
        let (pixels, luts, layers) = (pixels.address(), luts.address(), layers.address());
        let arguments = arguments![pixels, tiling, luts, layers];
        // SAFETY: the parameters of ladder_tile_luts; the tiles' pixels and LUTs are there.
        unsafe { self.launch(stream, "ladder_tile_luts", line(tiles), arguments) }
    }

    /// Applies the LUTs of the surrounding tiles to pixels.
    pub(super) fn interpolate(
        &self,
        stream: &Stream,
        tiling: Tiling,
        luts: TileLutsIn,
        (pixels, out): (Memory, Memory),
    ) -> Result<()> {
        let tiles = tiles_of(&tiling, pixels);
        assert_eq!(pixels.bytes(), out.bytes());
        let (name, luts) = match luts {
            TileLutsIn::Global(luts) => {
                assert_eq!(luts.bytes(), tiles as usize * 256);
                ("ladder_interpolate_global", luts.address())
            }
            TileLutsIn::Texture(texture) => ("ladder_interpolate_texture", texture.0),
            TileLutsIn::Layers(texture) => ("ladder_interpolate_filtered", texture.0),
        };
        let grid = (tiling.width.div_ceil(16), tiling.height.div_ceil(16), 1);
        let launch = Launch { grid, block: (16, 16, 1), shared: 0 };
        let (pixels, out) = (pixels.address(), out.address());
        // SAFETY: the parameters of ladder_interpolate_*; the pixels are there, and the LUTs or a
        // texture, which may be read at any position.
        unsafe { self.launch(stream, name, launch, arguments![pixels, out, tiling, luts]) }
    }

    /// Counts channels `first`, `first + step`, … of interleaved RGB pixels.
    ///
    /// They are counted in partial histograms, which are added up in 3 x 256 counts.
    pub(super) fn count_channels(
        &self,
        stream: &Stream,
        (pixels, width, height): (Memory, u32, u32),
        (partials, counts): (Memory, Memory),
        (first, step): (u32, u32),
    ) -> Result<()> {
        assert_eq!(pixels.bytes(), width as usize * height as usize * 3);
        assert_eq!((partials.bytes(), counts.bytes()), (PARTIALS_BYTES, 3 * TABLE_BYTES));
        assert!(step > 0, "or the kernel would not end");
        let (pixels, partials, counts) = (pixels.address(), partials.address(), counts.address());
        let launch = Launch { grid: PARTIAL_GRID, block: (32, 4, 1), shared: 0 };
        let blocks = PARTIAL_GRID.0 * PARTIAL_GRID.1;
        let partial = arguments![pixels, width, height, partials, first, step];
        // SAFETY: the parameters of ladder_partial and ladder_add_partials; pixels, partial
        // histograms and counts are there.
        unsafe {
            self.launch(stream, "ladder_partial", launch, partial)?;
            let add = Launch { grid: (6, 1, 1), block: (128, 1, 1), shared: 0 };
            self.launch(stream, "ladder_add_partials", add, arguments![partials, blocks, counts])
        }
    }
}

/// Returns the launch of a one-dimensional grid of blocks.
fn line(blocks: u32) -> Launch {
    Launch { grid: (blocks, 1, 1), block: (BLOCK, 1, 1), shared: 0 }
}

fn count_of(pixels: Memory) -> u32 {
    u32::try_from(pixels.bytes()).expect("fewer pixels than 2^32")
}

fn whole_table(lut: Memory) -> u64 {
    assert_eq!(lut.bytes(), TABLE_BYTES);
    lut.address()
}

/// Returns the number of tiles, after checking that they make up the picture without padding.
fn tiles_of(tiling: &Tiling, pixels: Memory) -> u32 {
    assert_eq!(
        (tiling.tile_width * tiling.tiles_x, tiling.tile_height * tiling.tiles_y),
        (tiling.width, tiling.height)
    );
    assert_eq!(pixels.bytes(), tiling.width as usize * tiling.height as usize);
    tiling.tiles_x * tiling.tiles_y
}
