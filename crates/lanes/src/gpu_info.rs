//! The properties of a GPU.

use serde::{Deserialize, Serialize};

/// The properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Index in CUDA's order, as CUDA_VISIBLE_DEVICES leaves it.
    pub ordinal: u32,
    /// The product's name.
    pub name: String,
    /// `GPU-` and the UUID, as nvidia-smi prints it.
    pub uuid: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Bytes of device memory.
    pub memory: u64,
    /// Current generation and width of the PCIe link, if the system reports them.
    pub pcie: Option<(u32, u32)>,
    /// The CUDA version that the driver supports, in CUDA's encoding: 12040 is 12.4.
    pub driver_cuda: u32,
    /// Version of the kernel driver, if the system reports it.
    pub driver: Option<String>,
    /// The version of nvJPEG2000, or the reason why it cannot be used.
    ///
    /// nvJPEG2000 decodes JPEG 2000. `None` if it was not requested.
    pub nvjpeg2000: Option<Result<String, String>>,
    /// The same for nvCOMP, which inflates and deflates.
    pub nvcomp: Option<Result<String, String>>,
    /// The reason why histeqd cannot use the GPU, if any.
    pub refused: Option<String>,
}

/// The GPUs, or the reason why there are no GPUs.
pub type GpuList = Result<Vec<GpuInfo>, String>;
