//! A GPU that is open in this process.

use std::sync::OnceLock;

use super::driver::{self, Context, Device};
use super::facts::describe;
use super::kernels::Kernels;
use super::nvcomp::NvComp;
use super::nvjpeg2000::NvJpeg2000;
use crate::gpu_info::GpuInfo;
use crate::lane::EngineError;
use tracing::trace_span;

/// The number of lanes that a GPU's free memory is divided among.
const MAX_LANES: u64 = 4;

/// One GPU, shared by its lanes.
pub(crate) struct GpuEngine {
    pub(super) context: Context,
    pub(super) kernels: Kernels,
    /// Bytes of device memory that one lane may take.
    pub(super) lane_memory: u64,
    /// Each is started on first use.
    nvjpeg2000: OnceLock<Result<NvJpeg2000, String>>,
    nvcomp: OnceLock<Result<NvComp, String>>,
    pub(super) info: GpuInfo,
}

impl GpuEngine {
    /// Opens the GPU with this index in CUDA's order.
    ///
    /// A lane takes at most `lane_memory` bytes of its memory, and by default an equal share.
    ///
    /// # Errors
    /// If there is no such GPU, or it cannot be used.
    pub(crate) fn open(ordinal: u32, lane_memory: Option<u64>) -> Result<Self, EngineError> {
        let starting = trace_span!("start the driver").entered();
        driver::load().map_err(EngineError)?;
        let device = Device::get(ordinal)?;
        let info = describe(device, ordinal)?;
        if let Some(reason) = info.refused {
            return Err(EngineError(reason));
        }
        drop(starting);
        let _span = trace_span!("make a context").entered();
        let context = Context::new(device)?;
        let share = driver::free_memory()? / 10 * 9 / MAX_LANES;
        let lane_memory = lane_memory.map_or(share, |bytes| bytes.min(share));
        let (nvjpeg2000, nvcomp) = (OnceLock::new(), OnceLock::new());
        let kernels = Kernels::new(device)?;
        Ok(Self { context, kernels, lane_memory, nvjpeg2000, nvcomp, info })
    }

    /// Returns nvJPEG2000, started in the current context, or the reason why it is unavailable.
    ///
    /// The context must be this engine's.
    pub(super) fn nvjpeg2000(&self) -> Result<&NvJpeg2000, String> {
        let open = || trace_span!("start nvJPEG2000").in_scope(|| NvJpeg2000::open(self.info.driver_cuda));
        let nvjpeg2000 = self.nvjpeg2000.get_or_init(open);
        nvjpeg2000.as_ref().map_err(String::clone)
    }

    /// As [`GpuEngine::nvjpeg2000`], for nvCOMP.
    pub(super) fn nvcomp(&self) -> Result<&NvComp, String> {
        let open = || trace_span!("load nvCOMP").in_scope(|| NvComp::open(self.info.driver_cuda));
        self.nvcomp.get_or_init(open).as_ref().map_err(String::clone)
    }

    /// Opens the first GPU for a test, or reports that it is skipped.
    #[cfg(test)]
    pub(super) fn open_or_skip() -> Option<Self> {
        use std::io::Write;

        let opened = Self::open(0, None);
        if let Err(error) = &opened {
            let required = std::env::var_os("HISTEQD_REQUIRE_CUDA").is_some_and(|value| value == "1");
            assert!(!required, "HISTEQD_REQUIRE_CUDA=1, but {error}");
            // Written directly, because libtest captures the output of passing tests.
            let _ = writeln!(std::io::stderr(), "SKIPPED, not tested on a GPU: {error}");
        }
        opened.ok()
    }
}
