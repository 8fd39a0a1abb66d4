//! The start of devices: of the CPU at once, of the workers of GPUs when they are wanted.
//!
//! CUDA takes a third of a second to start in each process, and the driver lets few processes start
//! at a time. Therefore the first workers of expected GPUs start while another process still asks
//! for the list of GPUs; those for JPEGs start before those for pixels, if there are JPEGs; and a
//! worker starts only when there is work for it that outlasts its start, see
//! [`starts`](crate::slot::schedule::starts).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Builder, Scope};

use super::choose::{choose, decoders, some, usable};
use super::cpu::CpuDevice;
use super::early::EarlyWorkers;
use super::find;
use super::machine::Machine;
use super::outlook::{self, Outlook};
use super::required::RequiredDevices;
use super::supervisor::{Slots, WorkerDevice};
use super::{Context, Device};
use crate::config::{DeviceChoice, JpegChoice, Style};
use crate::device::task;
use crate::device::worker::WorkerArgs;
use crate::error::Error;
use crate::progress::timings::{Load, Meter};
use crate::slot::rates::Decoders;
use crate::slot::schedule::DeviceId;
use crate::slot::schedule::starts::{Workers, most_lanes, time_of_jpegs};
use crate::slot::{Kind, Start};
use lanes::{GpuInfo, Unit};

/// Lanes per GPU. Measured: three fill the bus with large pictures, four with smaller ones too.
const GPU_LANES: usize = 4;

/// Lanes per worker for JPEGs.
///
/// While one decodes, others equalize and encode. Measured: more gain no time.
const JPEG_LANES: usize = 3;

/// Additional CPU slots for small pictures, per lane, and the most in total.
///
/// Measured with two cores on 100,000 gray pictures of 64x64: 3.3 s without any, 2.7 s with 6 per
/// lane, 2.2 s with 14, 2.0 s with 30.
const SMALL_SLOTS: usize = 30;
const MAX_SMALL_SLOTS: usize = 256;

/// Starts the devices, does `work` with them, and ends them; returns the load of the machine.
///
/// The CPU can work at once, and the other devices that the user wants join when they are ready.
///
/// # Errors
/// If the user insists on a GPU that cannot be used, or the system cannot start a thread; otherwise
/// those of `work`.
pub fn while_started(context: Context<'_>, work: impl FnOnce() -> Result<(), Error>) -> Result<Load, Error> {
    let Context { settings, machine, stop, .. } = context;
    // The listener to the events waits for the last sender, and the devices hold some.
    let _cleared = OnDrop(|| machine.devices.clear());
    let (meter, required) = (Meter::start(), RequiredDevices::new(stop.clone()));
    thread::scope(|scope| {
        // The scope waits for the devices' threads, even if the work panics.
        let _closed = OnDrop(|| machine.devices.close());
        let starter = Starter { scope, context, required: required.clone() };
        let cpu = starter.cpu()?;
        if starter.chosen(cpu)? == Joined::All {
            machine.pool.have_joined();
        }
        work()
    })?;
    required.failure().map_or_else(|| Ok(machine.load(&meter, settings.threads)), Err)
}

/// The extent to which the devices have joined the pool.
#[derive(PartialEq, Eq)]
enum Joined {
    All,
    /// A thread still looks for more, and reports when they have joined.
    Some,
}

/// A function to call on drop, whichever way that comes.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The starter of the devices of a run or a service.
struct Starter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    context: Context<'scope>,
    /// The requirement that workers can start.
    required: RequiredDevices,
}

impl<'scope> Starter<'scope, '_> {
    /// Starts the CPU.
    fn cpu(&self) -> Result<Arc<CpuDevice>, Error> {
        let Context { settings, workload, machine, .. } = self.context;
        let (pool, split_channels) = (&machine.pool, settings.split_channels);
        let lanes = if split_channels { settings.threads } else { workload.occupies(settings.threads) };
        // Per lane, one slot that a decoder fills while an encoder empties another: more did not
        // keep the cores busier, and took more pages.
        let slots = (2 * lanes).max(if split_channels { task::SLOTS_OF_SPLIT } else { 1 });
        let id = pool.join_cpu(slots);
        let small = if split_channels { 0 } else { (SMALL_SLOTS * lanes).min(MAX_SMALL_SLOTS) };
        pool.add(id, small, Kind::Small);
        let cpu = CpuDevice::start(self.scope, lanes, slots + small, &machine.cores, &machine.waits);
        let cpu = Arc::new(cpu.map_err(Error::thread)?);
        machine.devices.add(id, Arc::clone(&cpu) as Arc<dyn Device>);
        Ok(cpu)
    }

    /// Returns whether workers start at once and stay, whatever work comes.
    ///
    /// A service's first folder is to be as fast as its next.
    fn keeps_ready(&self) -> bool {
        self.context.settings.never_ends
    }

    /// Returns the workers on this many GPUs that start whatever work comes, if any do.
    fn always(&self, gpus: usize) -> Option<Workers> {
        let settings = self.context.settings;
        match (settings.split_channels, self.keeps_ready()) {
            // Channels that are to be split over devices need some.
            (true, _) => Some(Workers::ALL),
            (false, true) => Some(Workers { lanes: most_lanes(gpus, settings.threads), ..Workers::ALL }),
            (false, false) => None,
        }
    }

    /// Starts the workers that the user wants.
    fn chosen(self, cpu: Arc<CpuDevice>) -> Result<Joined, Error> {
        let Context { settings, events, .. } = self.context;
        let joined = match &settings.devices {
            DeviceChoice::Cpu => Ok(()),
            DeviceChoice::CpuWorkers(number) => {
                let units: Vec<Unit> = (0..*number).map(Unit::Cpu).collect();
                self.context.machine.pool.wait_for_workers(true);
                self.context.machine.pool.want(Workers::ALL);
                self.required.demand();
                // These workers decline to decode JPEGs.
                let decode = settings.jpeg == JpegChoice::Gpu;
                let mut units = Units { all: &units, found: &[], early: EarlyWorkers::default(), decode };
                self.workers(&mut units)
            }
            DeviceChoice::Auto if settings.jpeg == JpegChoice::Gpu => {
                self.insisted(cpu, true, |found| some(usable(found, events)))
            }
            DeviceChoice::Auto => {
                let finding = Builder::new().name("find-gpus".to_owned());
                let started = finding.spawn_scoped(self.scope, move || self.available(cpu));
                return started.map(|_| Joined::Some).map_err(Error::thread);
            }
            // The channels of one picture are spread over all GPUs, so pictures wait for these.
            DeviceChoice::All => self.insisted(cpu, settings.split_channels, |found| choose(found, None)),
            DeviceChoice::Listed(names) => self.insisted(cpu, true, |found| choose(found, Some(names))),
        };
        joined.map(|()| Joined::All)
    }

    /// Starts usable GPUs as they pay.
    ///
    /// GPUs that cannot be used are reported, and the CPU does the work.
    fn available(&self, cpu: Arc<CpuDevice>) {
        let Context { settings, machine: Machine { pool, devices, .. }, events, .. } = self.context;
        let outlook = Outlook::new(self.context, cpu);
        let joining = OnDrop(|| pool.have_joined());
        let expected = find::expected(&settings.devices);
        let always = self.always(expected.len());
        if always.is_none() && !outlook.wait_until_it_pays(Decoders::ALL) {
            return;
        }
        pool.want(always.unwrap_or_else(|| outlook.first(expected.len())));
        let mut early = self.early(&expected, pool.has_compressed() && pool.wanted().engines > 0);
        if let Err(error) = self.ahead(&expected, &mut early) {
            return events.note(error.to_string(), false);
        }
        let verbose = settings.report.style == Style::Verbose;
        let found = match devices.finder.gpus() {
            Ok(found) => found,
            // Most machines have no GPU, and the user did not ask for one.
            Err(_) if !verbose && !find::nvidia_hardware_present(Path::new("/")) => return,
            Err(reason) => return events.note(format!("no GPU is used: {reason}"), false),
        };
        let decoders = decoders(&found);
        // Pictures do not wait for a decoder that does not come.
        let joining = Some(joining).filter(|_| decoders.codestreams);
        if always.is_none() && decoders != Decoders::ALL && !outlook.wait_until_it_pays(decoders) {
            return;
        }
        let units = usable(&found, events);
        if let Err(error) = self.with_decoders(&units, &found, early) {
            events.note(error.to_string(), false);
        }
        drop(joining);
        // The kernel kills early workers when the thread that started them ends, so this thread
        // goes on.
        outlook.follow(units.len());
    }

    /// Starts the GPUs that the user insists on.
    ///
    /// With `alone`, the CPU leaves all first attempts to them.
    fn insisted(
        self,
        cpu: Arc<CpuDevice>,
        alone: bool,
        choose: impl FnOnce(&[GpuInfo]) -> Result<Vec<Unit>, Error>,
    ) -> Result<(), Error> {
        let Context { settings, workload, machine: Machine { pool, devices, .. }, .. } = self.context;
        let expected = find::expected(&settings.devices);
        // No picture is opened before the GPUs are found: only the lengths of the files are known.
        let rest = time_of_jpegs(workload.jpeg_bytes, settings.threads);
        let Workers { engines, .. } = Workers::default().with_more(
            Workers::default(),
            outlook::machine(&self.context, expected.len()),
            rest,
        );
        pool.want(Workers { engines: engines.max(1), ..Workers::ALL });
        let early = self.early(&expected, settings.jpeg == JpegChoice::Gpu || engines > 0);
        let found = devices.finder.gpus().map_err(|reason| {
            let without = "use --devices auto and --jpeg auto (the defaults) to run without a GPU";
            Error::CannotRun(format!("no GPU can be used: {reason}; {without}"))
        })?;
        let chosen = choose(&found)?;
        pool.wait_for_workers(alone);
        self.required.demand();
        self.with_decoders(&chosen, &found, early)?;
        let outlook = Outlook::new(self.context, cpu);
        let follow = move || outlook.follow(chosen.len());
        let started = Builder::new().name("follow".to_owned()).spawn_scoped(self.scope, follow);
        started.map(drop).map_err(Error::thread)
    }

    /// Starts the wanted workers of the GPUs that are likely to be used.
    ///
    /// They are for JPEGs if there are some, otherwise for pixels.
    fn early(&self, expected: &[u32], jpegs: bool) -> EarlyWorkers {
        let Context { settings, machine: Machine { pool, devices, .. }, .. } = self.context;
        devices.have_workers.store(!expected.is_empty(), Ordering::Relaxed);
        let (units, wanted) = (expected.iter().copied().map(Unit::Gpu), pool.wanted());
        match jpegs && settings.jpeg != JpegChoice::Cpu {
            true => EarlyWorkers::start(units.take(wanted.engines).map(for_jpegs)),
            false => EarlyWorkers::start(units.take(wanted.lanes).map(for_pixels)),
        }
    }

    /// Lets the early workers for pixels join before CUDA's list of GPUs is there.
    ///
    /// Where there are many GPUs, the list takes CUDA a second. Workers of a service wait for it,
    /// because it has the UUIDs by which they are started again.
    fn ahead(&self, expected: &[u32], early: &mut EarlyWorkers) -> Result<(), Error> {
        let slots = Slots { pixels: self.slots_each(expected.len()), ..Slots::default() };
        let all = expected.iter().map(|&gpu| for_pixels(Unit::Gpu(gpu)));
        for args in all.filter(|_| !self.keeps_ready()) {
            if early.has(&args) {
                let id = self.worker(&args, slots, Start::Now, &[], early, self.required.clone())?;
                early.note_joined(&args, id);
            }
        }
        Ok(())
    }

    /// Returns the number of slots for pixels of each of this many GPUs.
    ///
    /// Every decoder and encoder may hold one, and each lane one in work and one in its queue.
    fn slots_each(&self, gpus: usize) -> usize {
        let Context { settings, machine, .. } = self.context;
        // If not all GPUs start, a few may have to serve all threads.
        let sharing = machine.pool.wanted().lanes.clamp(1, gpus.max(1));
        2 * GPU_LANES + (2 * settings.threads).div_ceil(sharing) + 1
    }

    /// Starts the workers of the GPUs, and those for JPEGs unless the CPU is to decode them.
    fn with_decoders(&self, units: &[Unit], found: &[GpuInfo], early: EarlyWorkers) -> Result<(), Error> {
        let decode = self.context.settings.jpeg != JpegChoice::Cpu;
        self.workers(&mut Units { all: units, found, early, decode })
    }

    /// Adds the workers of these units.
    fn workers(&self, units: &mut Units<'_>) -> Result<(), Error> {
        let Context { settings, machine: Machine { pool, .. }, .. } = self.context;
        let slots = self.slots_each(units.all.len());
        for (number, &unit) in units.all.iter().enumerate() {
            if units.decode {
                self.decoder(number, unit, units)?;
            }
            // A thread that decodes has one codestream decoded at a time, and other workers may not
            // be ready yet.
            let (is_cpu, does) = (matches!(unit, Unit::Cpu(_)), decoders(units.found));
            let codestreams = if is_cpu || does.codestreams { settings.threads } else { 0 };
            // Threads that encode have streams deflated as well.
            let streams = if is_cpu || does.streams { 2 * settings.threads } else { 0 };
            let is_kept_ready = self.keeps_ready() && number < pool.wanted().lanes;
            let start = if is_kept_ready { Start::Now } else { Start::Lanes(number) };
            let slots = Slots { pixels: slots, codestreams, streams };
            let args = for_pixels(unit);
            match units.early.joined(&args) {
                Some(id) => {
                    pool.add(id, codestreams, Kind::Codestream);
                    pool.add(id, streams, Kind::Streams);
                }
                None => {
                    self.worker(&args, slots, start, units.found, &mut units.early, self.required.clone())?;
                }
            }
        }
        Ok(())
    }

    /// Adds the worker for JPEGs on the unit of this number.
    fn decoder(&self, number: usize, unit: Unit, units: &mut Units<'_>) -> Result<(), Error> {
        // Without it the CPU decodes, which is fine unless the user asks for GPUs.
        let insisted = self.context.settings.jpeg == JpegChoice::Gpu;
        let required = if insisted { self.required.clone() } else { RequiredDevices::default() };
        let start = if self.keeps_ready() { Start::Now } else { Start::Engines(number) };
        let args = for_jpegs(unit);
        self.worker(&args, Slots::default(), start, units.found, &mut units.early, required).map(drop)
    }

    fn worker(
        &self,
        args: &WorkerArgs,
        slots: Slots,
        start: Start,
        found: &[GpuInfo],
        early: &mut EarlyWorkers,
        required: RequiredDevices,
    ) -> Result<DeviceId, Error> {
        let devices = &self.context.machine.devices;
        devices.have_workers.store(true, Ordering::Relaxed);
        let early = early.take(args);
        let start = if early.is_some() { Start::Now } else { start };
        let args = WorkerArgs { uuid: uuid(args.unit, found), ..args.clone() };
        let (id, device) = WorkerDevice::new(args, slots, start, early, required, &self.context);
        devices.add(id, Arc::clone(&device) as Arc<dyn Device>);
        device.supervise_in(self.scope).map_err(Error::thread)?;
        Ok(id)
    }
}

/// The units of a run, and the work of their workers.
struct Units<'u> {
    all: &'u [Unit],
    /// The list of GPUs.
    found: &'u [GpuInfo],
    early: EarlyWorkers,
    /// Whether there are workers for JPEGs.
    decode: bool,
}

/// Returns the arguments of a unit's worker for pixels.
fn for_pixels(unit: Unit) -> WorkerArgs {
    WorkerArgs { unit, lanes: GPU_LANES, uuid: None, is_for_jpegs: false }
}

/// Returns the arguments of a unit's worker for JPEGs.
fn for_jpegs(unit: Unit) -> WorkerArgs {
    WorkerArgs { unit, lanes: JPEG_LANES, uuid: None, is_for_jpegs: true }
}

/// Returns the UUID of a unit, if it is a GPU of the list.
fn uuid(unit: Unit, found: &[GpuInfo]) -> Option<String> {
    let Unit::Gpu(ordinal) = unit else { return None };
    found.iter().find(|gpu| gpu.ordinal == ordinal).map(|gpu| gpu.uuid.clone())
}
