//! The properties of the available GPUs.

use std::fs;
use std::iter;
use std::path::Path;

use super::driver::{self, CudaError, Device};
use super::{nvcomp, nvjpeg2000};
use crate::gpu_info::{GpuInfo, GpuList};
use crate::lane::EngineError;
use tracing::trace_span;

/// The lowest compute capability that the kernels are built for, major and minor.
const OLDEST: (u32, u32) = (3, 7);

/// Lists the GPUs that CUDA shows to this process, or returns why there are no GPUs.
pub fn list() -> GpuList {
    driver::load()?;
    let text = |error: CudaError| error.to_string();
    let count = Device::count().map_err(text)?;
    (0..count)
        .map(|ordinal| Device::get(ordinal).and_then(|device| describe(device, ordinal)).map_err(text))
        .map(|gpu| gpu.map(with_libraries))
        .collect()
}

/// Adds the availability of NVIDIA's libraries for a GPU.
fn with_libraries(gpu: GpuInfo) -> GpuInfo {
    GpuInfo {
        nvjpeg2000: Some(nvjpeg2000::version(gpu.driver_cuda)),
        nvcomp: Some(nvcomp::version(gpu.driver_cuda)),
        ..gpu
    }
}

/// Returns the index of a GPU in this process: the one with this UUID, if known.
///
/// `usual` is its index where CUDA shows all GPUs. It is the same here unless GPUs have come or
/// gone since, or this process is shown no other.
///
/// # Errors
/// If CUDA does not show it to this process.
pub fn locate(uuid: Option<&str>, usual: u32) -> Result<u32, EngineError> {
    trace_span!("start the driver").in_scope(driver::load).map_err(EngineError)?;
    let count = Device::count()?;
    let Some(uuid) = uuid else { return Ok(if count == 1 { 0 } else { usual }) };
    let is_it = |ordinal: &u32| Device::get(*ordinal).and_then(Device::uuid).is_ok_and(|its| its == uuid);
    let mut ordinals = iter::once(usual).chain(0..count).filter(|ordinal| *ordinal < count);
    ordinals.find(is_it).ok_or_else(|| EngineError(format!("the GPU with the UUID {uuid} is gone")))
}

pub(super) fn describe(device: Device, ordinal: u32) -> driver::Result<GpuInfo> {
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
        driver_cuda: driver::driver_version()?,
        driver: kernel_driver(),
        nvjpeg2000: None,
        nvcomp: None,
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
