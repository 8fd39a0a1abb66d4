//! The search for GPUs.
//!
//! A short-lived worker process asks CUDA, and the main process never loads it.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::config::{DeviceChoice, DeviceName};
use crate::device::worker::{LIST_ARGS, PROGRAM, VISIBLE, abandon};
use lanes::{GpuInfo, GpuList};

/// The time limit for CUDA's answer: several times the need of machines with many GPUs.
const DEADLINE: Duration = Duration::from_secs(60);
/// The time limit for the end of a killed process. In a driver that hangs, it may never end.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// NVIDIA's PCI vendor ID.
const NVIDIA: &str = "0x10de";
/// The PCI class of display controllers.
const DISPLAY: &str = "0x03";
/// The interval of checks whether the query was called off.
const TICK: Duration = Duration::from_millis(100);

/// Returns the output of `histeqd devices`.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("cpu    {cores} {}\n", if cores == 1 { "core" } else { "cores" });
    match Finder::default().gpus() {
        Ok(gpus) => {
            gpus.iter().for_each(|gpu| text.push_str(&line(gpu)));
            // The libraries are the same for all GPUs.
            if let Some(gpu) = gpus.first() {
                text.extend(
                    gpu.nvjpeg2000.as_ref().map(|found| decoder_line("JPEG 2000", "nvJPEG2000", found)),
                );
                text.extend(gpu.nvcomp.as_ref().map(|found| decoder_line("deflate", "nvCOMP", found)));
            }
        }
        Err(reason) => text.push_str(&format!("no GPU: {reason}\n")),
    }
    text
}

/// Returns whether there seems to be an NVIDIA GPU, whatever CUDA reports.
///
/// Judges by the files below `root`.
pub fn nvidia_hardware_present(root: &Path) -> bool {
    is_on_the_bus(root) || is_behind_windows(root) || is_on_the_chip(root)
}

/// Returns the indexes of the GPUs that a run with this choice will probably use.
///
/// Only as far as they are known without CUDA.
pub(super) fn expected(choice: &DeviceChoice) -> Vec<u32> {
    match choice {
        DeviceChoice::Listed(names) => names
            .iter()
            .filter_map(|name| match name {
                DeviceName::Index(index) => Some(*index),
                DeviceName::Uuid(_) => None,
            })
            .collect(),
        _ => (0..shown(gpus_on_the_bus(Path::new("/")), env::var(VISIBLE).ok().as_deref())).collect(),
    }
}

/// Returns how many of this many GPUs CUDA shows with this value of `CUDA_VISIBLE_DEVICES`.
fn shown(gpus: u32, visible: Option<&str>) -> u32 {
    let listed = |list: &str| list.split(',').filter(|name| !name.trim().is_empty()).count() as u32;
    visible.map_or(gpus, |list| gpus.min(listed(list)))
}

/// Counts the GPUs on the PCI bus below `root`.
///
/// They are NVIDIA's display controllers; NVIDIA makes other devices too.
fn gpus_on_the_bus(root: &Path) -> u32 {
    let devices = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    let is = |path: &Path, name, start: &str| {
        fs::read_to_string(path.join(name)).is_ok_and(|text| text.starts_with(start))
    };
    devices
        .filter(|device| is(&device.path(), "vendor", NVIDIA) && is(&device.path(), "class", DISPLAY))
        .count() as u32
}

/// Looks for a device by NVIDIA on the PCI bus. The kernel has a folder for each device.
fn is_on_the_bus(root: &Path) -> bool {
    let devices = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    let mut vendors = devices.filter_map(|device| fs::read_to_string(device.path().join("vendor")).ok());
    vendors.any(|vendor| vendor.trim_end() == NVIDIA)
}

/// Looks for a GPU under WSL.
///
/// WSL shows all GPUs as one device, and has this Windows library if Windows has NVIDIA's driver.
fn is_behind_windows(root: &Path) -> bool {
    ["dev/dxg", "usr/lib/wsl/lib/libcuda.so"].iter().all(|file| root.join(file).exists())
}

/// Looks for a Tegra chip, as on Jetson, which has its GPU on the chip.
///
/// `compatible` lists the names of compatible hardware as NUL-terminated strings.
fn is_on_the_chip(root: &Path) -> bool {
    let names = fs::read(root.join("proc/device-tree/compatible")).unwrap_or_default();
    names.split(|byte| *byte == 0).any(|name| name.starts_with(b"nvidia,tegra"))
}

fn line(gpu: &GpuInfo) -> String {
    let (major, minor) = gpu.compute_capability;
    let memory = gpu.memory >> 20;
    let link = gpu
        .pcie
        .map_or_else(|| "unknown".to_owned(), |(generation, lanes)| format!("{generation}.0 x{lanes}"));
    let driver = gpu.driver.as_deref().unwrap_or("unknown");
    let (cuda, cuda_minor) = (gpu.driver_cuda / 1000, gpu.driver_cuda % 1000 / 10);
    let refused =
        gpu.refused.as_ref().map_or_else(String::new, |reason| format!("       not used: {reason}\n"));
    format!(
        "gpu{}   {}, compute capability {major}.{minor}, {memory} MiB, PCIe {link}, driver {driver} (CUDA {cuda}.{cuda_minor})\n       {}\n{refused}",
        gpu.ordinal, gpu.name, gpu.uuid
    )
}

fn decoder_line(format: &str, library: &str, found: &Result<String, String>) -> String {
    match found {
        Ok(version) => format!("{format} on the GPU: yes, by {library} {version}\n"),
        Err(reason) => format!("{format} on the GPU: no, {reason}\n"),
    }
}

/// A query for the GPUs that can be called off while it runs.
#[derive(Default)]
pub struct Finder {
    state: Mutex<Query>,
    cancelled: Condvar,
}

#[derive(Default)]
struct Query {
    cancelled: bool,
    asked: Option<Child>,
}

impl Query {
    fn kill(&mut self) {
        if let Some(child) = &mut self.asked {
            // This can only fail if the child has already ended.
            let _ = child.kill();
        }
    }
}

impl Finder {
    /// Returns the GPUs that CUDA shows, usable or not, or why there are none.
    ///
    /// If the query was called off, there are no GPUs. The start of the driver can take a second.
    pub fn gpus(&self) -> GpuList {
        let found =
            self.ask().unwrap_or_else(|error| Err(format!("the process that asks CUDA failed: {error}")));
        // A query that was called off was killed: its failure is no statement about the GPUs.
        if self.lock().cancelled { Ok(Vec::new()) } else { found }
    }

    fn lock(&self) -> MutexGuard<'_, Query> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for at most `time`; returns whether the query was called off.
    pub fn cancelled_within(&self, time: Duration) -> bool {
        let waited = self.cancelled.wait_timeout_while(self.lock(), time, |state| !state.cancelled);
        waited.unwrap_or_else(PoisonError::into_inner).0.cancelled
    }

    /// Calls off the query. Its answer is then an empty list.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        self.cancelled.notify_all();
        state.kill();
    }

    fn ask(&self) -> io::Result<GpuList> {
        let Some(mut stdout) = self.begin()? else { return Ok(Ok(Vec::new())) };
        let (tell, told) = crossbeam_channel::bounded(1);
        // This thread is not waited for: in a driver that hangs, it may never end.
        thread::Builder::new().name("ask-cuda".to_owned()).spawn(move || {
            let mut answer = String::new();
            let read = stdout.read_to_string(&mut answer).map(|_| answer);
            // The listener may have given up.
            let _ = tell.send(read);
        })?;
        let Some(answer) = self.wait_for(&told) else {
            self.leave();
            return Ok(Err(format!(
                "CUDA did not answer within {} s; check whether the driver hangs (nvidia-smi, dmesg)",
                DEADLINE.as_secs()
            )));
        };
        let answer = answer?;
        let child = self.lock().asked.take();
        let status = child.expect("only this function takes the child").wait()?;
        if !status.success() {
            return Ok(Err(format!("the process that asks CUDA ended with {status}")));
        }
        serde_json::from_str(&answer).map_err(io::Error::other)
    }

    /// Kills the query without waiting for its end.
    fn leave(&self) {
        if let Some(child) = self.lock().asked.take() {
            abandon(child);
        }
    }

    /// Waits for the answer; returns `None` if it does not come in time.
    ///
    /// That is within [`DEADLINE`], and within [`END_DEADLINE`] after the query was called off.
    fn wait_for<T>(&self, told: &Receiver<T>) -> Option<T> {
        let mut until = Instant::now() + DEADLINE;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match told.recv_timeout(left.min(TICK)) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.lock().cancelled => {
                    until = until.min(Instant::now() + END_DEADLINE);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        None
    }

    fn begin(&self) -> io::Result<Option<impl Read + use<>>> {
        let mut state = self.lock();
        if state.cancelled {
            return Ok(None);
        }
        let mut child = Command::new(PROGRAM)
            .args(LIST_ARGS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take();
        state.asked = Some(child);
        Ok(stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn put(root: &TempDir, name: &str, content: &[u8]) {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn each_library_has_a_line_of_its_own() {
        let line = |found| decoder_line("JPEG 2000", "nvJPEG2000", &found);
        assert_eq!(line(Ok("0.11".to_owned())), "JPEG 2000 on the GPU: yes, by nvJPEG2000 0.11\n");
        assert_eq!(line(Err("it is not there".to_owned())), "JPEG 2000 on the GPU: no, it is not there\n");
    }

    #[test]
    fn a_gpu_may_be_there_where_something_of_nvidia_is_on_the_bus() {
        let root = tempfile::tempdir().unwrap();
        assert!(!nvidia_hardware_present(root.path()));
        fs::create_dir_all(root.path().join("sys/bus/pci/devices/0000:00:00.0")).unwrap();
        put(&root, "sys/bus/pci/devices/0000:00:01.0/vendor", b"0x8086\n");
        assert!(!nvidia_hardware_present(root.path()));
        put(&root, "sys/bus/pci/devices/0000:00:02.0/vendor", b"0x10de\n");
        assert!(nvidia_hardware_present(root.path()));
    }

    #[test]
    fn gpus_on_the_bus_are_counted_without_nvidia_s_other_devices() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(gpus_on_the_bus(root.path()), 0);
        for (number, (vendor, class)) in
            [("0x10de", "0x030200"), ("0x10de", "0x068000"), ("0x10de", "0x030000"), ("0x8086", "0x030000")]
                .iter()
                .enumerate()
        {
            put(&root, &format!("sys/bus/pci/devices/{number}/vendor"), vendor.as_bytes());
            put(&root, &format!("sys/bus/pci/devices/{number}/class"), class.as_bytes());
        }
        assert_eq!(gpus_on_the_bus(root.path()), 2);
        assert_eq!([None, Some("1"), Some("0,1,2"), Some("")].map(|visible| shown(2, visible)), [2, 1, 2, 0]);
    }

    #[test]
    fn a_gpu_may_be_there_under_windows_with_nvidia_s_driver() {
        let root = tempfile::tempdir().unwrap();
        put(&root, "dev/dxg", b"");
        assert!(!nvidia_hardware_present(root.path()));
        put(&root, "usr/lib/wsl/lib/libcuda.so", b"");
        assert!(nvidia_hardware_present(root.path()));
    }

    #[test]
    fn a_gpu_may_be_there_on_a_chip_of_nvidia_s() {
        let root = tempfile::tempdir().unwrap();
        put(&root, "proc/device-tree/compatible", b"raspberrypi,4-model-b\0brcm,bcm2711\0");
        assert!(!nvidia_hardware_present(root.path()));
        put(&root, "proc/device-tree/compatible", b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0");
        assert!(nvidia_hardware_present(root.path()));
    }
}
