//! The kernels of one GPU, loaded when they are needed.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cuda::{Device, Function, Launch, Module, Result, Stream};
use equalize::Pixel;

/// Makes an array of pointers to a kernel's arguments.
macro_rules! arguments {
    ($($argument:ident),*) => { &mut [$((&raw const $argument).cast_mut().cast::<std::ffi::c_void>()),*] };
}
pub(crate) use arguments;

/// The dynamic shared memory that any kernel may use without opting in, in bytes: 48 KiB less the most that a kernel takes statically.
const USUAL_SHARED: u32 = 6 << 10;

/// The files of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum File {
    Global8,
    Global16,
    Planes,
    Clahe8,
    Clahe16,
}

impl File {
    const fn module(self) -> histeqd_kernels::Module {
        match self {
            Self::Global8 => histeqd_kernels::BATCH_GLOBAL8,
            Self::Global16 => histeqd_kernels::BATCH_GLOBAL16,
            Self::Planes => histeqd_kernels::BATCH_PLANES,
            Self::Clahe8 => histeqd_kernels::BATCH_CLAHE8,
            Self::Clahe16 => histeqd_kernels::BATCH_CLAHE16,
        }
    }
}

/// A kernel's name in two parts: what it does, and the kind of pixels if there is a kernel for each.
pub(crate) type Name = (&'static str, &'static str);

/// The kernels of one GPU, and its limits.
pub(crate) struct Kernels {
    pub(crate) multiprocessors: u32,
    /// The most shared memory that a block can have, in bytes.
    pub(crate) shared: u32,
    /// Whether all blocks of a grid can be made to run at once.
    pub(crate) has_grids: bool,
    capability: (u32, u32),
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    modules: HashMap<File, Module>,
    functions: HashMap<Name, Function>,
}

impl Kernels {
    pub(crate) fn new(device: Device) -> Result<Self> {
        Ok(Self {
            multiprocessors: device.multiprocessors()?,
            shared: device.shared_memory()?,
            has_grids: device.has_grids_and_pools()?.0,
            capability: device.compute_capability()?,
            loaded: Mutex::default(),
        })
    }

    fn function(&self, file: File, name: Name, shared: u32) -> Result<Function> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.functions.get(&name) {
            return Ok(*function);
        }
        let module = match loaded.modules.get(&file) {
            Some(module) => *module,
            None => Module::load(&file.module(), self.capability)?,
        };
        loaded.modules.insert(file, module);
        let function =
            module.function(&[name.0, name.1].concat(), if shared > USUAL_SHARED { shared } else { 0 })?;
        loaded.functions.insert(name, function);
        Ok(function)
    }

    /// Launches a kernel, always with the same shared memory.
    ///
    /// # Safety
    /// As [`Function::launch`].
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        (file, name): (File, Name),
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let function = self.function(file, name, launch.shared)?;
        // SAFETY: guaranteed by the caller.
        unsafe { function.launch(stream, launch, arguments) }
    }

    /// Launches a kernel so that all its blocks run at once. Its shared memory may differ from launch to launch, up to the `most`.
    ///
    /// # Safety
    /// As [`Function::launch`].
    pub(crate) unsafe fn launch_together(
        &self,
        stream: &Stream,
        (file, name): (File, Name),
        (launch, most): (Launch, u32),
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let function = self.function(file, name, most)?;
        // SAFETY: guaranteed by the caller.
        unsafe { function.launch_together(stream, launch, arguments) }
    }

    /// Returns a grid of blocks that share pictures and take `pixels_a_block` pixels each, or more if there would be more than `blocks` a
    /// multiprocessor in all; along x, with the pictures along y.
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

/// The second part of kernels' names: how the pixels of a picture are read.
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

/// Returns how many levels' 16-bit counters fit into a block's shared memory beside `taken` bytes, rounded down so that equal ranges make up all
/// 65536 levels.
pub(crate) fn range16(shared: u32, taken: u32) -> u32 {
    let mut range = 65_536;
    while range * 2 > shared - taken {
        range /= 2;
    }
    range
}
