//! The start of a run's devices: the CPU at once, the workers of GPUs when they are wanted.
//!
//! CUDA takes a third of a second to start in each process, and the driver lets few processes start at a time. So the first workers of each
//! GPU that is expected start while another process still asks which GPUs there are; those for JPEGs start before those for pixels, if
//! there are JPEGs; and none starts before there is something for it to do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::Sender;

use super::choose::{choose, nvjpeg, some, usable, without_nvjpeg};
use super::cpu::CpuDevice;
use super::early::EarlyWorkers;
use super::find;
use super::supervisor::WorkerDevice;
use super::{Context, Device, RequiredDevices};
use crate::config::{DeviceChoice, JpegChoice, Style};
use crate::error::Error;
use crate::schedule::DeviceId;
use crate::slot::{Kind, Start};
use crate::task;
use crate::task::Task;
use crate::timings::Meter;
use crate::worker::WorkerArgs;
use lanes::{GpuInfo, Unit};

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

/// How often it is looked whether GPUs pay: the CPU works alone at first. CUDA takes cores away from the first pictures, so a batch that is
/// finished by the time it has started is better off without it.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long the rest of the work has to last for GPUs to be started: by then they have worked for as long as they took to start.
const WORTH_A_START: Duration = Duration::from_millis(1500);

/// If no picture is done by then, the rest is thought to last.
const NOTHING_DONE: Duration = Duration::from_millis(250);

/// A GPU pays if equalizing takes at least this share of the processor time; otherwise handing pictures to it and taking them back costs as
/// much as the work that it takes over. Measured with 16 cores and an H100 on PGMs: it made runs slower at a quarter, and no slower at two
/// fifths.
const WORTH_A_GPU: f64 = 1.0 / 3.0;

/// Starts the CPU, which can work at once, and the other devices that the user wants, which join when they are ready. What is equalized is
/// sent to `equalized`.
///
/// # Errors
/// If the user insists on a GPU that cannot be used, or the system cannot start a thread.
pub fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: Context<'scope>,
    equalized: &Sender<Task>,
) -> Result<(), Error> {
    let starter = Starter { scope, context, equalized: equalized.clone() };
    let cpu = starter.cpu()?;
    starter.chosen(cpu)
}

/// Starts devices for a run.
struct Starter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    context: Context<'scope>,
    equalized: Sender<Task>,
}

impl<'scope> Starter<'scope, '_> {
    /// Starts the CPU.
    fn cpu(&self) -> Result<Arc<CpuDevice>, Error> {
        let Context { settings, pool, cores, threads, .. } = self.context;
        let split_channels = settings.split_channels;
        let lanes = if split_channels { settings.threads } else { threads };
        // Per lane, one slot that a decoder fills while an encoder empties another: more did not keep the cores busier, and took more
        // pages.
        let slots = (2 * lanes).max(if split_channels { task::SLOTS_OF_SPLIT } else { 1 });
        let id = pool.join_cpu(slots);
        let small = if split_channels { 0 } else { (SMALL_SLOTS * lanes).min(MAX_SMALL_SLOTS) };
        pool.add(id, small, Kind::Small);
        let cpu = CpuDevice::start(self.scope, lanes, slots + small, cores, &self.equalized);
        let cpu = Arc::new(cpu.map_err(Error::thread)?);
        self.context.devices.add(id, Arc::clone(&cpu) as Arc<dyn Device>);
        Ok(cpu)
    }

    /// Starts the workers that the user wants.
    fn chosen(self, cpu: Arc<CpuDevice>) -> Result<(), Error> {
        let Context { settings, events, .. } = self.context;
        match &settings.devices {
            DeviceChoice::Cpu => Ok(()),
            #[cfg(feature = "faults")]
            DeviceChoice::CpuWorkers(number) => {
                let units: Vec<Unit> = (0..*number).map(Unit::Cpu).collect();
                self.context.pool.wait_for_workers(true);
                self.context.required.demand();
                // These workers decline to decode JPEGs, and to encode planes.
                let (encode, decode) = (settings.jpeg != JpegChoice::Cpu, settings.jpeg == JpegChoice::Gpu);
                let mut units =
                    Units { all: &units, found: &[], early: EarlyWorkers::default(), encode, decode };
                self.workers(&mut units)
            }
            DeviceChoice::Auto if settings.jpeg == JpegChoice::Gpu => {
                self.required(true, |found| some(usable(found, events)))
            }
            DeviceChoice::Auto => {
                // A service keeps GPUs ready, whatever comes; channels that are to be split over devices need some.
                let (always, meter) = (settings.watch || settings.split_channels, Meter::start());
                let Context { pool, pictures, rates, .. } = self.context;
                let pays = move |decodes: bool| {
                    let (seconds, processor) = meter.read();
                    let lasts = rest_lasts(rates.pictures(), pictures, seconds);
                    let is_for_decoders = decodes && pool.has_come(Start::WithCompressed);
                    always || lasts && (is_for_decoders || lanes_take_much(cpu.time(), processor))
                };
                Builder::new()
                    .name("find-gpus".to_owned())
                    .spawn_scoped(self.scope, move || self.available(pays))
                    .map(drop)
                    .map_err(Error::thread)
            }
            // The channels of one picture are to be spread over all GPUs, which have to be there for that.
            DeviceChoice::All => self.required(settings.split_channels, |found| choose(found, None)),
            DeviceChoice::Listed(names) => self.required(true, |found| choose(found, Some(names))),
        }
    }

    /// Starts every usable GPU once `pays` says so, which gets to know whether GPUs decode JPEGs, as far as that is known. GPUs that cannot
    /// be used are reported, and the CPU does the work.
    fn available(&self, pays: impl Fn(bool) -> bool) {
        let Context { settings, devices, events, .. } = self.context;
        if !self.in_time(|| pays(true)) {
            return;
        }
        let verbose = settings.report.style == Style::Verbose;
        let early = self.early();
        let found = match devices.finder.gpus() {
            Ok(found) => found,
            // Most machines have no GPU, and the user did not ask for one.
            Err(_) if !verbose && !find::nvidia_hardware_present(Path::new("/")) => return,
            Err(reason) => return events.note(format!("no GPU is used: {reason}"), false),
        };
        if !matches!(nvjpeg(&found), Some(Ok(_))) && !pays(false) && !self.in_time(|| pays(false)) {
            return;
        }
        if let Err(error) = self.with_decoders(&usable(&found, events), &found, early) {
            events.note(error.to_string(), false);
        }
        // The kernel kills the early workers when the thread ends that started them.
        while !devices.finder.cancelled_within(Duration::from_secs(3600)) {}
    }

    /// Checks a condition at intervals of [`INTERVAL`] until it is true; `false` if the work is finished before.
    fn in_time(&self, so: impl Fn() -> bool) -> bool {
        loop {
            if self.context.devices.finder.cancelled_within(INTERVAL) {
                return false;
            }
            if so() {
                return true;
            }
        }
    }

    /// Starts the GPUs that the user insists on. `alone`: the CPU leaves all first attempts to them.
    fn required(
        &self,
        alone: bool,
        choose: impl FnOnce(&[GpuInfo]) -> Result<Vec<Unit>, Error>,
    ) -> Result<(), Error> {
        let Context { settings, pool, devices, required, .. } = self.context;
        let early = self.early();
        let found = devices.finder.gpus().map_err(|reason| {
            let without = "use --devices auto and --jpeg auto (the defaults) to run without a GPU";
            Error::CannotRun(format!("no GPU can be used: {reason}; {without}"))
        })?;
        let chosen = choose(&found)?;
        if let (JpegChoice::Gpu, Some(Err(reason))) = (settings.jpeg, nvjpeg(&found)) {
            return Err(Error::CannotRun(format!(
                "no GPU can decode JPEGs, which --jpeg gpu needs: {reason}; use --jpeg auto"
            )));
        }
        pool.wait_for_workers(alone);
        required.demand();
        self.with_decoders(&chosen, &found, early)
    }

    /// Starts the first workers of each GPU that is likely to be used.
    fn early(&self) -> EarlyWorkers {
        let Context { settings, pool, .. } = self.context;
        let jpegs = settings.jpeg != JpegChoice::Cpu
            && (settings.jpeg == JpegChoice::Gpu || pool.has_come(Start::WithCompressed));
        let expected = find::expected(&settings.devices);
        self.context.devices.have_workers.store(!expected.is_empty(), Ordering::Relaxed);
        let units = expected.into_iter().map(Unit::Gpu);
        match jpegs {
            true => EarlyWorkers::start(
                (0..JPEG_WORKERS).flat_map(|n| units.clone().map(move |unit| for_jpegs(unit, n))),
            ),
            false => EarlyWorkers::start(units.map(for_pixels)),
        }
    }

    /// Starts the GPUs' workers and, if that is wanted and nvJPEG can be used, those for JPEGs.
    fn with_decoders(&self, units: &[Unit], found: &[GpuInfo], early: EarlyWorkers) -> Result<(), Error> {
        let jpeg = self.context.settings.jpeg;
        without_nvjpeg(jpeg, found).into_iter().for_each(|note| self.context.events.note(note, false));
        let with_jpegs = jpeg != JpegChoice::Cpu && matches!(nvjpeg(found), Some(Ok(_)));
        self.workers(&mut Units { all: units, found, early, encode: with_jpegs, decode: with_jpegs })
    }

    /// Adds the workers of these units.
    fn workers(&self, units: &mut Units<'_>) -> Result<(), Error> {
        let Context { settings, pool, .. } = self.context;
        // Every decoder and encoder may hold a slot, and each lane one that it works on and one that is queued behind it.
        let slots = 2 * GPU_LANES + (2 * settings.threads).div_ceil(units.all.len().max(1)) + 1;
        for &unit in units.all {
            let first = if units.decode { Some(self.decoders(unit, units)?) } else { None };
            // A service keeps GPUs ready, whatever comes.
            let start = match first {
                Some(first) if !settings.watch => Start::WithPixelsOrAfter(first),
                _ => Start::Now,
            };
            let id = self.worker(&for_pixels(unit), slots, start, units, self.context.required.clone())?;
            if units.encode {
                pool.encodes(id);
            }
        }
        Ok(())
    }

    /// Adds the workers that decode and encode JPEGs on a unit; returns the first of them.
    fn decoders(&self, unit: Unit, units: &mut Units<'_>) -> Result<DeviceId, Error> {
        // Without them the CPU decodes, which is fine unless the user says otherwise.
        let insisted = self.context.settings.jpeg == JpegChoice::Gpu;
        let required = || if insisted { self.context.required.clone() } else { RequiredDevices::default() };
        let ids: Vec<DeviceId> = (0..JPEG_WORKERS)
            .map(|number| self.worker(&for_jpegs(unit, number), 0, Start::WithCompressed, units, required()))
            .collect::<Result<_, _>>()?;
        Ok(ids[0])
    }

    fn worker(
        &self,
        args: &WorkerArgs,
        slots: usize,
        start: Start,
        units: &mut Units<'_>,
        required: RequiredDevices,
    ) -> Result<DeviceId, Error> {
        self.context.devices.have_workers.store(true, Ordering::Relaxed);
        let early = units.early.take(args);
        let start = if early.is_some() { Start::Now } else { start };
        let args = WorkerArgs { uuid: uuid(args.unit, units.found), ..args.clone() };
        let (id, device) = WorkerDevice::new(args, slots, (start, early), required, &self.context);
        self.context.devices.add(id, Arc::clone(&device) as Arc<dyn Device>);
        device.supervise_in(self.scope, self.equalized.clone()).map_err(Error::thread)?;
        Ok(id)
    }
}

/// The units of a run, and what their workers do.
struct Units<'u> {
    all: &'u [Unit],
    /// The GPUs that there are.
    found: &'u [GpuInfo],
    early: EarlyWorkers,
    /// Whether the workers for pixels may encode what they equalize.
    encode: bool,
    /// Whether there are workers for JPEGs.
    decode: bool,
}

/// Returns how the worker for pixels of a unit is started.
fn for_pixels(unit: Unit) -> WorkerArgs {
    WorkerArgs { unit, lanes: GPU_LANES, uuid: None, jpeg: None }
}

/// Returns how the worker for JPEGs with this number of a unit is started.
fn for_jpegs(unit: Unit, number: u32) -> WorkerArgs {
    WorkerArgs { unit, lanes: JPEG_LANES, uuid: None, jpeg: Some(number) }
}

/// Returns the UUID of a unit, if it is a GPU that was found.
fn uuid(unit: Unit, found: &[GpuInfo]) -> Option<String> {
    let Unit::Gpu(ordinal) = unit else { return None };
    found.iter().find(|gpu| gpu.ordinal == ordinal).map(|gpu| gpu.uuid.clone())
}

/// Returns whether GPUs pay if the lanes took this much of `all` seconds of processor time.
fn lanes_take_much(lanes: Duration, all: f64) -> bool {
    lanes.as_secs_f64() >= WORTH_A_GPU * all
}

/// Returns whether the rest of the pictures is likely to take longer than GPUs take to start, when `done` of `all` took this many seconds.
fn rest_lasts(done: usize, all: usize, seconds: f64) -> bool {
    let rest = all.saturating_sub(done) as f64;
    match done {
        0 => seconds > NOTHING_DONE.as_secs_f64(),
        _ => rest * seconds / done as f64 > WORTH_A_START.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_started_for_as_much_work_as_outlasts_their_start() {
        assert_eq!([0.1, 0.3].map(|seconds| rest_lasts(0, 5, seconds)), [false, true]);
        assert!(rest_lasts(100, 10_000, 0.3));
        assert!(!rest_lasts(100, 400, 0.3));
        assert!(!rest_lasts(100, 100, 5.0));
        assert!(rest_lasts(100, usize::MAX, 0.3));
    }

    #[test]
    fn a_gpu_pays_where_equalizing_is_a_good_part_of_the_work() {
        let of_a_second = |lanes| lanes_take_much(Duration::from_millis(lanes), 1.0);
        assert_eq!([250, 320, 340, 1000].map(of_a_second), [false, false, true, true]);
    }
}
