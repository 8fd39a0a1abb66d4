//! A GPU as a worker's backend, and the list of the GPUs there are.
#![allow(unsafe_code)]

use std::fs;
use std::iter;
use std::path::Path;
use std::sync::OnceLock;

use super::cuda::{self, Context, CudaError, Device};
use super::kernels::Kernels;
use super::lane::GpuLane;
use super::nvjpeg::{self, NvJpeg};
use super::nvjpeg_lane::NvJpegLane;
use super::{Engine, EngineError, JpegLane, Lane, LaneError};
use crate::device::{GpuInfo, GpuList};
use crate::slot::Memory;

/// The lowest compute capability that the kernels are built for, major and minor.
const OLDEST: (u32, u32) = (3, 7);

/// The number of lanes that a GPU's free memory is divided among.
const MAX_LANES: u64 = 4;

/// Lists the GPUs that CUDA shows to this process, or says why there are none.
pub(super) fn list() -> GpuList {
    cuda::load()?;
    let text = |error: CudaError| error.to_string();
    let count = Device::count().map_err(text)?;
    (0..count)
        .map(|ordinal| Device::get(ordinal).and_then(|device| describe(device, ordinal)).map_err(text))
        .map(|gpu| gpu.map(|gpu| GpuInfo { nvjpeg: Some(nvjpeg::version(gpu.driver_cuda)), ..gpu }))
        .collect()
}

/// Returns the index of the GPU with this UUID, which is the `usual` one unless GPUs have come or gone since the list was made.
///
/// # Errors
/// If CUDA does not show it to this process.
pub(super) fn locate(uuid: &str, usual: u32) -> Result<u32, EngineError> {
    cuda::load().map_err(EngineError)?;
    let count = Device::count()?;
    let is_it = |ordinal: &u32| Device::get(*ordinal).and_then(Device::uuid).is_ok_and(|its| its == uuid);
    let mut ordinals = iter::once(usual).chain(0..count).filter(|ordinal| *ordinal < count);
    ordinals.find(is_it).ok_or_else(|| EngineError(format!("the GPU with the UUID {uuid} is gone")))
}

fn describe(device: Device, ordinal: u32) -> cuda::Result<GpuInfo> {
    let compute_capability = device.compute_capability()?;
    let refused = (compute_capability < OLDEST).then(|| {
        let ((major, minor), (oldest_major, oldest_minor)) = (compute_capability, OLDEST);
        format!("compute capability {major}.{minor} is too old; {oldest_major}.{oldest_minor} or newer is required")
    });
    Ok(GpuInfo {
        ordinal,
        name: device.name()?,
        uuid: device.uuid()?,
        compute_capability,
        memory: device.memory()?,
        pcie: pcie_link(&device.pci_bus_id()?),
        driver_cuda: cuda::driver_version()?,
        driver: kernel_driver(),
        nvjpeg: None,
        refused,
    })
}

/// Reads the generation and width of the PCIe link to a device.
fn pcie_link(bus_id: &str) -> Option<(u32, u32)> {
    let folder = Path::new("/sys/bus/pci/devices").join(bus_id);
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    let speed = read("current_link_speed")?;
    let generation = match speed.split_whitespace().next()? {
        "2.5" => 1,
        "5.0" | "5" => 2,
        "8.0" | "8" => 3,
        "16.0" | "16" => 4,
        "32.0" | "32" => 5,
        "64.0" | "64" => 6,
        _ => return None,
    };
    Some((generation, read("current_link_width")?.trim().parse().ok()?))
}

/// Reads the version of the loaded kernel driver.
fn kernel_driver() -> Option<String> {
    let version = fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(version.trim().to_owned())
}

/// One GPU, shared by its lanes.
pub(super) struct GpuEngine {
    pub(super) context: Context,
    pub(super) kernels: Kernels,
    /// Bytes of device memory that one lane may take.
    pub(super) lane_memory: u64,
    /// Started on first use.
    nvjpeg: OnceLock<Result<NvJpeg, String>>,
    info: GpuInfo,
}

impl GpuEngine {
    /// Opens the GPU with this index in CUDA's order. A lane takes at most `lane_memory` bytes of its memory, and by default an equal
    /// share.
    ///
    /// # Errors
    /// If there is no such GPU, or it cannot be used.
    pub(super) fn open(ordinal: u32, lane_memory: Option<u64>) -> Result<Self, EngineError> {
        cuda::load().map_err(EngineError)?;
        let device = Device::get(ordinal)?;
        let info = describe(device, ordinal)?;
        if let Some(reason) = info.refused {
            return Err(EngineError(reason));
        }
        let context = Context::new(device)?;
        let share = cuda::free_memory()? / 10 * 9 / MAX_LANES;
        let lane_memory = lane_memory.map_or(share, |bytes| bytes.min(share));
        Ok(Self { context, kernels: Kernels::new(device)?, lane_memory, nvjpeg: OnceLock::new(), info })
    }

    /// Returns nvJPEG, started in the current context, which must be this engine's; or why it is unavailable.
    pub(super) fn nvjpeg(&self) -> Result<&NvJpeg, String> {
        let nvjpeg = self.nvjpeg.get_or_init(|| NvJpeg::open(self.info.driver_cuda));
        nvjpeg.as_ref().map_err(String::clone)
    }
}

impl Engine for GpuEngine {
    fn info(&self) -> Option<GpuInfo> {
        Some(self.info.clone())
    }

    fn pin(&self, memory: &mut Memory) -> Result<(), EngineError> {
        self.context.bind()?;
        // SAFETY: the worker unpins memory before it unmaps it.
        unsafe { cuda::pin(memory.bytes_mut())? };
        Ok(())
    }

    fn unpin(&self, memory: &mut Memory) {
        if self.context.bind().is_ok() {
            cuda::unpin(memory.bytes_mut());
        }
    }

    fn lane(&self) -> Result<Box<dyn Lane + '_>, EngineError> {
        Ok(Box::new(GpuLane::new(self)?))
    }

    fn jpeg_lane(&self) -> Result<Box<dyn JpegLane + '_>, EngineError> {
        self.context.bind()?;
        Ok(Box::new(NvJpegLane::new(self, self.nvjpeg().map_err(EngineError)?)?))
    }
}

impl From<CudaError> for EngineError {
    fn from(error: CudaError) -> Self {
        Self(error.to_string())
    }
}

impl From<CudaError> for LaneError {
    fn from(error: CudaError) -> Self {
        Self::Device(error.into())
    }
}
