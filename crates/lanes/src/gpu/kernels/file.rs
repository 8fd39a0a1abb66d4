//! The files of kernels, and how they are loaded.

use crate::gpu::driver::{Module, Result};

/// The files of kernels; a file is loaded when its first kernel is needed.
#[derive(Clone, Copy)]
pub(super) enum File {
    Global8,
    Global16,
    Planes,
    Clahe8,
    Clahe16,
    JpegScan,
    #[cfg(feature = "faults")]
    Trap,
}

impl File {
    const fn module(self) -> histeqd_kernels::Module {
        match self {
            Self::Global8 => histeqd_kernels::GLOBAL8,
            Self::Global16 => histeqd_kernels::GLOBAL16,
            Self::Planes => histeqd_kernels::PLANES,
            Self::Clahe8 => histeqd_kernels::CLAHE8,
            Self::Clahe16 => histeqd_kernels::CLAHE16,
            Self::JpegScan => histeqd_kernels::JPEG_SCAN,
            #[cfg(feature = "faults")]
            Self::Trap => histeqd_kernels::TRAP,
        }
    }

    /// Loads the file for a GPU of this compute capability.
    pub(super) fn load(self, capability: (u32, u32)) -> Result<Module> {
        Module::load(&self.module(), capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuEngine;

    #[test]
    fn the_driver_takes_what_is_compiled_for_its_gpu() {
        let Some(engine) = GpuEngine::open_or_skip() else { return };
        let capability = engine.kernels.capability;
        let refused = std::env::var_os("CUDA_FORCE_PTX_JIT").is_some_and(|value| value == "1");
        for file in [File::Global8, File::Global16, File::Planes, File::Clahe8, File::Clahe16, File::JpegScan]
        {
            let Some(cubin) = file.module().cubin(capability) else { continue };
            assert_eq!(Module::from_cubin(&cubin).is_err(), refused);
            file.load(capability).unwrap();
        }
    }
}
