//! Devices: where slots are equalized. A small trait, its implementations for the CPU and for worker processes, and the choice among them.

mod choose;
pub mod cpu;
pub mod find;
mod insist;
pub mod supervisor;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::Sender;
use serde::{Deserialize, Serialize};

use crate::config::{DeviceChoice, JpegChoice, Settings, Style};
use crate::cores::Cores;
use crate::error::Error;
use crate::pipeline::Task;
use crate::progress::Events;
use crate::slot::{DeviceId, SlotPool};
use crate::split;
use crate::timings::Meter;
use crate::worker::{Unit, WorkerArgs};
use choose::{choose, nvjpeg, some, usable, without_nvjpeg};
use cpu::CpuDevice;
use find::Finder;
pub use insist::Insist;
use supervisor::WorkerDevice;

/// A device: takes filled slots and passes them on equalized.
///
/// Whatever happens to the device, no task is lost: it comes out equalized, or its job goes back to be decoded again for another device, or
/// its failure is reported.
pub trait Device: Send + Sync {
    /// Returns the name that the summary and messages use.
    fn name(&self) -> Arc<str>;

    /// Returns its current state.
    fn state(&self) -> DeviceState;

    /// Takes a task whose slot belongs to this device. Does not wait for the picture; may wait for room in a worker's socket.
    fn submit(&self, task: Task);

    /// Lets the device's threads and processes end, because no more tasks will come.
    fn close(&self);
}

/// The state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its name.
    pub name: String,
    /// Whether it works now.
    pub up: bool,
    /// Why it does not, as a sentence.
    pub trouble: Option<String>,
    /// How often it failed.
    pub failures: u64,
    /// How long it has had pictures to work on; `None` where the processor's load tells that.
    #[serde(skip)]
    pub busy: Option<Duration>,
    /// Processor time of its worker processes that have ended.
    #[serde(skip)]
    pub processor: Duration,
}

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
    /// The version of nvJPEG, which decodes and encodes JPEGs on the GPU, or why it cannot be used; `None` if nobody asked for that.
    pub nvjpeg: Option<Result<String, String>>,
    /// Why histeqd cannot use it, if so.
    pub refused: Option<String>,
}

/// The GPUs, or why there are none.
pub type GpuList = Result<Vec<GpuInfo>, String>;

/// Lanes per GPU. Measured: three fill the bus with large pictures, four with smaller ones as well.
const GPU_LANES: usize = 4;

/// Workers per GPU that decode and encode JPEGs. nvJPEG keeps an H100's seven JPEG engines busy only from several processes: measured,
/// 1,430 megapixels a second from one, 2,820 from two.
const JPEG_WORKERS: u32 = 2;

/// Lanes per such worker. While one decodes, others equalize and encode; more were measured to gain nothing.
const JPEG_LANES: usize = 3;

/// Additional CPU slots for small pictures, per lane and in total at most. Measured with two cores on 100,000 gray pictures of 64x64: 3.3 s
/// with none, 2.7 s with 6 per lane, 2.2 s with 14, 2.0 s with 30.
const SMALL_SLOTS: usize = 30;
const MAX_SMALL_SLOTS: usize = 256;

/// How long the CPU works alone before GPUs are looked for. CUDA takes a second to start and takes cores away from the first pictures, so a
/// batch that is finished by then is better off without it. This is also the interval of checks whether GPUs pay.
const HEAD_START: Duration = Duration::from_millis(300);

/// A GPU pays if equalizing takes at least this share of the processor time; otherwise handing pictures to it and taking them back costs as
/// much as the work that it takes over. Measured with 16 cores and an H100 on PGMs: it made runs slower at a quarter, and no slower at two
/// fifths.
const WORTH_A_GPU: f64 = 1.0 / 3.0;

/// The devices of a run, in the order in which they joined.
#[derive(Default)]
pub struct Devices {
    members: RwLock<Members>,
    finder: Finder,
}

#[derive(Default)]
struct Members {
    closed: bool,
    devices: Vec<Arc<dyn Device>>,
}

/// What devices need from the pipeline.
pub struct Surroundings<'a> {
    /// The run's settings.
    pub settings: &'a Settings,
    /// The most pictures that there are.
    pub pictures: usize,
    /// Where slots come from.
    pub pool: &'a Arc<SlotPool>,
    /// The cores, which the CPU's lanes keep busy.
    pub cores: &'a Arc<Cores>,
    /// Where equalized pictures go.
    pub equalized: &'a Sender<Task>,
    /// Where notes about the devices go.
    pub events: &'a Events,
    /// Ends the run early when a device that the user insists on cannot be used.
    pub insist: &'a Insist,
}

impl Devices {
    /// Starts the CPU, which can work at once, and the other devices that the user wants, which join when they are ready.
    ///
    /// # Errors
    /// If the user insists on a GPU that cannot be used, or the system cannot start a thread.
    pub fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        around: &Surroundings<'_>,
    ) -> Result<(), Error> {
        let split = around.settings.split_channels;
        let threads = around.settings.threads;
        let lanes = if split { threads } else { threads.min(around.pictures) };
        // Per lane, one slot that a decoder fills while an encoder empties another: more did not keep the cores busier, and took more
        // pages.
        let slots = (2 * lanes).max(if split { split::SLOTS } else { 1 });
        let id = around.pool.join(false, slots, Box::new(|_| ()));
        let small = if split { 0 } else { (SMALL_SLOTS * lanes).min(MAX_SMALL_SLOTS) };
        around.pool.add_small(id, small);
        let cpu = CpuDevice::start(scope, lanes, slots + small, around.cores, around.equalized)
            .map_err(Error::thread)?;
        let cpu = Arc::new(cpu);
        self.add(id, Arc::clone(&cpu) as Arc<dyn Device>);
        let jpeg = around.settings.jpeg;
        let verbose = around.settings.report.style == Style::Verbose;
        let starter = Starter { devices: self, pool: Arc::clone(around.pool), threads, jpeg, verbose };
        let timeout = around.settings.device_timeout;
        let start = WorkerStart {
            timeout,
            for_good: !around.settings.watch,
            equalized: around.equalized.clone(),
            events: around.events.clone(),
            insist: around.insist.clone(),
        };
        match &around.settings.devices {
            DeviceChoice::Cpu => Ok(()),
            DeviceChoice::CpuWorkers(number) => {
                let units: Vec<Unit> = (0..*number).map(Unit::Cpu).collect();
                around.pool.wait_for_accelerators(true);
                start.insist.on();
                // These workers decline to decode JPEGs, and to encode planes.
                starter.workers(scope, &units, jpeg != JpegChoice::Cpu, &start)?;
                if jpeg == JpegChoice::Gpu { starter.decoders(scope, &units, &start) } else { Ok(()) }
            }
            DeviceChoice::Auto if jpeg == JpegChoice::Gpu => {
                starter.insisted(scope, &start, |found| some(usable(found, &start)))
            }
            DeviceChoice::Auto => {
                // A service keeps GPUs ready, whatever comes; channels that are to be split over devices need some.
                let (always, meter) = (around.settings.watch || split, Meter::start());
                let pays = move || always || lanes_take_much(cpu.time(), meter.read().1);
                Builder::new()
                    .name("find-gpus".to_owned())
                    .spawn_scoped(scope, move || starter.start_available(scope, pays, &start))
                    .map(drop)
                    .map_err(Error::thread)
            }
            DeviceChoice::All => starter.insisted(scope, &start, |found| choose(found, None)),
            DeviceChoice::Listed(names) => {
                starter.insisted(scope, &start, |found| choose(found, Some(names)))
            }
        }
    }

    /// Adds the next device; one that comes after [`Devices::close`] is closed at once.
    fn add(&self, id: DeviceId, device: Arc<dyn Device>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(id, members.devices.len(), "devices are added in the order in which they join the pool");
        if members.closed {
            device.close();
        }
        members.devices.push(device);
    }

    fn get(&self, id: DeviceId) -> Arc<dyn Device> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner).devices[id])
    }

    /// Submits the task to the device that its slot belongs to.
    pub fn submit(&self, task: Task) {
        self.get(task.slot.device()).submit(task);
    }

    /// Returns the names of the devices that did a picture, each once, joined by `+`.
    pub fn names(&self, ids: &[DeviceId]) -> Arc<str> {
        let names: BTreeSet<Arc<str>> = ids.iter().map(|&id| self.get(id).name()).collect();
        names.into_iter().reduce(|all, name| format!("{all}+{name}").into()).expect("some device did it")
    }

    /// Returns the state of each device.
    pub fn states(&self) -> Vec<DeviceState> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.devices.iter().map(|device| device.state()).collect()
    }

    /// Lets all devices end. To be called once no task is under way.
    pub fn close(&self) {
        self.finder.cancel();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.closed = true;
        members.devices.iter().for_each(|device| device.close());
    }

    /// Returns a guard to be dropped when the run is over: it releases the devices, and with them everything of the run that they hold.
    pub fn until_dropped(&self) -> impl Drop {
        Ending(self)
    }
}

struct Ending<'a>(&'a Devices);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.members.write().unwrap_or_else(PoisonError::into_inner).devices.clear();
    }
}

/// Starts worker processes for a run.
struct Starter<'a> {
    devices: &'a Devices,
    pool: Arc<SlotPool>,
    threads: usize,
    jpeg: JpegChoice,
    verbose: bool,
}

impl<'scope> Starter<'scope> {
    /// Starts every usable GPU once that pays, or once JPEGs have come that it could decode, if there is still work by then. GPUs that
    /// cannot be used are reported, and the CPU does the work.
    fn start_available(
        &self,
        scope: &'scope Scope<'scope, '_>,
        pays: impl Fn() -> bool,
        start: &WorkerStart,
    ) {
        if !self.in_time(|| pays() || self.pool.decoders_wanted(|| true)) {
            return;
        }
        let found = match self.devices.finder.gpus() {
            Ok(found) => found,
            // Most machines have no GPU, and the user did not ask for one.
            Err(_) if !self.verbose && !find::nvidia_hardware_present(Path::new("/")) => return,
            Err(reason) => return start.note(format!("no GPU is used: {reason}")),
        };
        let decodes = matches!(nvjpeg(&found), Some(Ok(_)));
        if !decodes && !pays() && !self.in_time(&pays) {
            return;
        }
        if let Err(error) = self.with_decoders(scope, &usable(&found, start), &found, start) {
            start.note(error.to_string());
        }
    }

    /// Checks a condition at intervals of [`HEAD_START`] until it is true; `false` if the work is finished before.
    fn in_time(&self, so: impl Fn() -> bool) -> bool {
        loop {
            if self.devices.finder.cancelled_within(HEAD_START) {
                return false;
            }
            if so() {
                return true;
            }
        }
    }

    /// Starts the GPUs that the user insists on; the CPU leaves all first tries to them.
    fn insisted(
        &self,
        scope: &'scope Scope<'scope, '_>,
        start: &WorkerStart,
        choose: impl FnOnce(&[GpuInfo]) -> Result<Vec<Unit>, Error>,
    ) -> Result<(), Error> {
        let found = self.devices.finder.gpus().map_err(|reason| {
            let without = "use --devices auto and --jpeg auto (the defaults) to run without a GPU";
            Error::CannotRun(format!("no GPU can be used: {reason}; {without}"))
        })?;
        let chosen = choose(&found)?;
        if let (JpegChoice::Gpu, Some(Err(reason))) = (self.jpeg, nvjpeg(&found)) {
            return Err(Error::CannotRun(format!(
                "no GPU can decode JPEGs, which --jpeg gpu needs: {reason}; use --jpeg auto"
            )));
        }
        self.pool.wait_for_accelerators(true);
        start.insist.on();
        self.with_decoders(scope, &chosen, &found, start)
    }

    /// Starts the GPUs' workers and, if that is wanted and nvJPEG can be used, those for JPEGs.
    fn with_decoders(
        &self,
        scope: &'scope Scope<'scope, '_>,
        units: &[Unit],
        found: &[GpuInfo],
        start: &WorkerStart,
    ) -> Result<(), Error> {
        without_nvjpeg(self.jpeg, found).into_iter().for_each(|note| start.note(note));
        let with_jpegs = self.jpeg != JpegChoice::Cpu && matches!(nvjpeg(found), Some(Ok(_)));
        self.workers(scope, units, with_jpegs, start)?;
        if with_jpegs { self.decoders(scope, units, start) } else { Ok(()) }
    }

    /// Adds the workers that decode and encode JPEGs. Their processes start when the first JPEG comes.
    fn decoders(
        &self,
        scope: &'scope Scope<'scope, '_>,
        units: &[Unit],
        start: &WorkerStart,
    ) -> Result<(), Error> {
        // Without them the CPU decodes, which is fine unless the user says otherwise.
        let insist = if self.jpeg == JpegChoice::Gpu { start.insist.clone() } else { Insist::default() };
        let start = WorkerStart { insist, ..start.clone() };
        let each = units.iter().flat_map(|&unit| (0..JPEG_WORKERS).map(move |number| (unit, number)));
        each.map(|(unit, number)| WorkerArgs { unit, lanes: JPEG_LANES, jpeg: Some(number) })
            .try_for_each(|args| self.worker(scope, args, 0, &start).map(drop))
    }

    /// Adds the workers for pixels; `encode`: whether they may encode what they equalize.
    fn workers(
        &self,
        scope: &'scope Scope<'scope, '_>,
        units: &[Unit],
        encode: bool,
        start: &WorkerStart,
    ) -> Result<(), Error> {
        // Every decoder and encoder may hold a slot, and each lane one that it works on and one that is queued behind it.
        let slots = 2 * GPU_LANES + (2 * self.threads).div_ceil(units.len().max(1)) + 1;
        units.iter().map(|&unit| WorkerArgs { unit, lanes: GPU_LANES, jpeg: None }).try_for_each(|args| {
            let id = self.worker(scope, args, slots, start)?;
            if encode {
                self.pool.encodes(id);
            }
            Ok(())
        })
    }

    fn worker(
        &self,
        scope: &'scope Scope<'scope, '_>,
        args: WorkerArgs,
        slots: usize,
        start: &WorkerStart,
    ) -> Result<DeviceId, Error> {
        let (id, device) = WorkerDevice::new(args, slots, start, &self.pool);
        self.devices.add(id, Arc::clone(&device) as Arc<dyn Device>);
        device.supervise_in(scope, start.equalized.clone()).map_err(Error::thread)?;
        Ok(id)
    }
}

/// Whether GPUs pay if the lanes took this much of `all` seconds of processor time.
fn lanes_take_much(lanes: Duration, all: f64) -> bool {
    lanes.as_secs_f64() >= WORTH_A_GPU * all
}

/// What all workers of a run have in common.
#[derive(Clone)]
pub struct WorkerStart {
    /// How long a device may take for one picture.
    pub timeout: Duration,
    /// Whether a device that keeps failing is given up for good, instead of being tried again after long pauses.
    pub for_good: bool,
    /// Where equalized pictures go.
    pub equalized: Sender<Task>,
    /// Where notes about the devices go.
    pub events: Events,
    /// What becomes of the run if the device cannot start.
    pub insist: Insist,
}

impl WorkerStart {
    fn note(&self, what: String) {
        self.events.note(what, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_pays_where_equalizing_is_a_good_part_of_the_work() {
        let of_a_second = |lanes| lanes_take_much(Duration::from_millis(lanes), 1.0);
        assert_eq!([250, 320, 340, 1000].map(of_a_second), [false, false, true, true]);
    }
}
