//! Devices: where slots are equalized. One small trait, the CPU and the GPUs behind it, and who there is to choose from.

mod choose;
pub mod cpu;
pub mod find;
pub mod gpu;
mod insist;

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
use crate::progress::Event;
use crate::slot::{DeviceId, SlotPool};
use crate::split;
use crate::timings::Meter;
use crate::worker::{Unit, WorkerArgs};
use choose::{choose, nvjpeg, some, usable, without_nvjpeg};
use cpu::CpuDevice;
use find::Finder;
use gpu::GpuDevice;
pub use insist::Insist;

/// A device takes filled slots and sends them on equalized.
///
/// Whatever happens to the device, no task is lost: it comes out of the far end equalized, or its job goes back to be
/// decoded again for another device, or its failure is reported.
pub trait Device: Send + Sync {
    /// The name that the summary and messages use.
    fn name(&self) -> Arc<str>;

    /// How it is now.
    fn state(&self) -> DeviceState;

    /// Takes a task whose slot belongs to this device. Returns at once; never blocks on the device's work.
    fn submit(&self, task: Task);

    /// No more tasks will come: lets the device's threads and processes end.
    fn close(&self);
}

/// How a device is.
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
    /// How long it had pictures in its hands, where that is not told by the processor's load.
    #[serde(skip)]
    pub busy: Option<Duration>,
    /// Processor time that its processes had, those that have ended.
    #[serde(skip)]
    pub processor: Duration,
}

/// What is known of a GPU that could be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Place in CUDA's order, as CUDA_VISIBLE_DEVICES leaves it.
    pub ordinal: u32,
    /// The product's name.
    pub name: String,
    /// `GPU-` and the UUID, as nvidia-smi prints it.
    pub uuid: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Bytes of device memory.
    pub memory: u64,
    /// Generation and lanes of the PCIe link as it is now, where the system tells.
    pub pcie: Option<(u32, u32)>,
    /// The CUDA version that the driver offers, as it counts: 12040 is 12.4.
    pub driver_cuda: u32,
    /// Version of the kernel driver, where the system tells.
    pub driver: Option<String>,
    /// The version of nvJPEG, which decodes and encodes JPEGs on it, or why there is none; where that was asked.
    pub nvjpeg: Option<Result<String, String>>,
    /// Why histeqd would not use it.
    pub refused: Option<String>,
}

/// The GPUs, or why there are none.
pub type GpuList = Result<Vec<GpuInfo>, String>;

/// How many lanes work one GPU. Measured: three fill the bus with large pictures, four with smaller ones as well.
const GPU_LANES: usize = 4;

/// How many workers a GPU has that decode and encode JPEGs. nvJPEG keeps an H100's seven JPEG engines busy only from several processes:
/// measured, 1,430 megapixels a second by one of them, 2,820 by two.
const JPEG_WORKERS: u32 = 2;

/// How many lanes such a worker has. One decodes while others equalize and encode; more were measured to gain nothing.
const JPEG_LANES: usize = 3;

/// How many slots more the CPU has for each lane, of small pictures, and how many at most. Measured with two cores on 100,000 gray pictures
/// of 64x64: none, 3.3 s; 6 for each lane, 2.7; 14, 2.2; 30, 2.0.
const SMALL_SLOTS: usize = 30;
const MOST_SMALL_SLOTS: usize = 256;

/// How long the CPU works alone before GPUs are looked for. CUDA takes a second to start and cores from the first pictures: a
/// batch that is through by then is better off without. So often it is also looked whether GPUs have come to pay.
const HEAD_START: Duration = Duration::from_millis(300);

/// A GPU pays where equalizing takes at least this part of the processor's time: what it is given and gives back costs as much as what
/// it takes over. Measured with 16 cores and an H100 on PGMs: it made runs slower at a quarter, and no slower at two fifths.
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

/// What devices need of the pipeline.
pub struct Surroundings<'a> {
    /// The run's settings.
    pub settings: &'a Settings,
    /// How many pictures there are at most.
    pub pictures: usize,
    /// Where slots come from.
    pub pool: &'a Arc<SlotPool>,
    /// The cores, which the CPU's lanes keep busy.
    pub cores: &'a Arc<Cores>,
    /// Where equalized pictures go.
    pub equalized: &'a Sender<Task>,
    /// Where the devices' news go.
    pub events: &'a Sender<Event>,
    /// Ends the run early when a device that the user insists on cannot be used.
    pub insist: &'a Insist,
}

impl Devices {
    /// Starts the CPU, which can work at once, and what else the user wants, which joins when it is ready.
    ///
    /// # Errors
    /// When the user insists on a GPU that cannot be used, or the system gives no thread.
    pub fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        around: &Surroundings<'_>,
    ) -> Result<(), Error> {
        let split = around.settings.split_channels;
        let threads = around.settings.threads;
        let lanes = if split { threads } else { threads.min(around.pictures) };
        // One that a decoder fills while an encoder empties another: more did not keep the cores busier, and took more pages.
        let slots = (2 * lanes).max(if split { split::SLOTS } else { 1 });
        let id = around.pool.join(false, slots, Box::new(|_| ()));
        let small = if split { 0 } else { (SMALL_SLOTS * lanes).min(MOST_SMALL_SLOTS) };
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
                // They decode no JPEG, and encode none of the planes that they get.
                starter.workers(scope, &units, jpeg != JpegChoice::Cpu, &start)?;
                if jpeg == JpegChoice::Gpu { starter.decoders(scope, &units, &start) } else { Ok(()) }
            }
            DeviceChoice::Auto if jpeg == JpegChoice::Gpu => {
                starter.insisted(scope, &start, |found| some(usable(found, &start)))
            }
            DeviceChoice::Auto => {
                // A service has them ready, whatever comes; channels that are to be split over devices need some.
                let (always, meter) = (around.settings.watch || split, Meter::start());
                let pays = move || always || lanes_take_much(cpu.time(), meter.read().1);
                Builder::new()
                    .name("find-gpus".to_owned())
                    .spawn_scoped(scope, move || starter.whatever_there_is(scope, pays, &start))
                    .map(drop)
                    .map_err(Error::thread)
            }
            DeviceChoice::All => starter.insisted(scope, &start, |found| choose(found, None)),
            DeviceChoice::Listed(names) => {
                starter.insisted(scope, &start, |found| choose(found, Some(names)))
            }
        }
    }

    /// Adds the next device. One that comes after the end is closed at once.
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

    /// Hands the task to the device that its slot belongs to.
    pub fn submit(&self, task: Task) {
        self.get(task.slot.device()).submit(task);
    }

    /// The names of the devices that did a picture, each once: one, or several and a `+` between.
    pub fn names(&self, ids: &[DeviceId]) -> Arc<str> {
        let names: BTreeSet<Arc<str>> = ids.iter().map(|&id| self.get(id).name()).collect();
        names.into_iter().reduce(|all, name| format!("{all}+{name}").into()).expect("some device did it")
    }

    /// How each device is.
    pub fn states(&self) -> Vec<DeviceState> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.devices.iter().map(|device| device.state()).collect()
    }

    /// Lets all devices end; to be called when no task is under way any more.
    pub fn close(&self) {
        self.finder.call_off();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.closed = true;
        members.devices.iter().for_each(|device| device.close());
    }

    /// What is to be dropped when the run is over: it lets go of the devices, and with them of all that they hold of the run.
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
    /// Every GPU that can be used, as soon as that pays, or JPEGs have come that it could decode, if there is still work then; what
    /// cannot is said, and the CPU does the work.
    fn whatever_there_is(
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
            // Most machines have none, and nobody asked.
            Err(_) if !self.verbose && !find::may_be_there(Path::new("/")) => return,
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

    /// Looks from time to time whether something has come to be so; `false` if the work is through before.
    fn in_time(&self, so: impl Fn() -> bool) -> bool {
        loop {
            if self.devices.finder.called_off_within(HEAD_START) {
                return false;
            }
            if so() {
                return true;
            }
        }
    }

    /// The GPUs that are chosen; the CPU does not start before them.
    fn insisted(
        &self,
        scope: &'scope Scope<'scope, '_>,
        start: &WorkerStart,
        choose: impl FnOnce(&[GpuInfo]) -> Result<Vec<Unit>, Error>,
    ) -> Result<(), Error> {
        let found = self.devices.finder.gpus().map_err(|reason| {
            let without = "the default, auto for --devices and --jpeg, works without one";
            Error::CannotRun(format!("no GPU can be used: {reason}; {without}"))
        })?;
        let chosen = choose(&found)?;
        if let (JpegChoice::Gpu, Some(Err(reason))) = (self.jpeg, nvjpeg(&found)) {
            return Err(Error::CannotRun(format!(
                "no GPU can decode JPEG, as --jpeg gpu wants: {reason}; --jpeg auto works without that"
            )));
        }
        self.pool.wait_for_accelerators(true);
        start.insist.on();
        self.with_decoders(scope, &chosen, &found, start)
    }

    /// The GPUs' workers, and where it is wanted and nvJPEG is there, those for JPEGs.
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

    /// Workers that decode and encode JPEGs. They start when the first JPEG comes.
    fn decoders(
        &self,
        scope: &'scope Scope<'scope, '_>,
        units: &[Unit],
        start: &WorkerStart,
    ) -> Result<(), Error> {
        // Without them the processor decodes, and that is all right unless the user says otherwise.
        let insist = if self.jpeg == JpegChoice::Gpu { start.insist.clone() } else { Insist::default() };
        let start = WorkerStart { insist, ..start.clone() };
        let each = units.iter().flat_map(|&unit| (0..JPEG_WORKERS).map(move |number| (unit, number)));
        each.map(|(unit, number)| WorkerArgs { unit, lanes: JPEG_LANES, jpeg: Some(number) })
            .try_for_each(|args| self.worker(scope, args, 0, &start).map(drop))
    }

    /// The workers for pixels; `encode`: they may encode what they equalize.
    fn workers(
        &self,
        scope: &'scope Scope<'scope, '_>,
        units: &[Unit],
        encode: bool,
        start: &WorkerStart,
    ) -> Result<(), Error> {
        // Every decoder and encoder may hold one, and each lane one that it works on and one that is queued behind it.
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
        let (id, device) = GpuDevice::new(args, slots, start, &self.pool);
        self.devices.add(id, Arc::clone(&device) as Arc<dyn Device>);
        device.supervise_in(scope, start.equalized.clone()).map_err(Error::thread)?;
        Ok(id)
    }
}

/// Whether GPUs pay where the lanes took so much of so many seconds of processor time.
fn lanes_take_much(lanes: Duration, all: f64) -> bool {
    lanes.as_secs_f64() >= WORTH_A_GPU * all
}

/// What is the same for every worker of a run.
#[derive(Clone)]
pub struct WorkerStart {
    /// How long a device may take for one picture.
    pub timeout: Duration,
    /// Whether a device that fails again and again is given up for good, and not tried again after long pauses.
    pub for_good: bool,
    /// Where equalized pictures go.
    pub equalized: Sender<Task>,
    /// Where the devices' news go.
    pub events: Sender<Event>,
    /// What becomes of the run if it cannot start.
    pub insist: Insist,
}

impl WorkerStart {
    fn note(&self, what: String) {
        // Without a listener there is nobody to tell.
        let _ = self.events.send(Event::Device { note: what, trouble: false });
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
