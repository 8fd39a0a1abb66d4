//! What is known about a GPU.

use serde::{Deserialize, Serialize};

/// What is known about a GPU.
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
    /// Generation and width of the PCIe link at present, if the system tells.
    pub pcie: Option<(u32, u32)>,
    /// The CUDA version that the driver supports, in CUDA's encoding: 12040 is 12.4.
    pub driver_cuda: u32,
    /// Version of the kernel driver, if the system tells.
    pub driver: Option<String>,
    /// The version of nvJPEG2000, which decodes JPEG 2000, or why it cannot be used; `None` if nobody asked for that.
    pub nvjpeg2000: Option<Result<String, String>>,
    /// The same of nvCOMP, which inflates and deflates.
    pub nvcomp: Option<Result<String, String>>,
    /// Why histeqd cannot use it, if so.
    pub refused: Option<String>,
}

/// The GPUs, or why there are none.
pub type GpuList = Result<Vec<GpuInfo>, String>;
