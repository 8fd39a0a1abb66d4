//! The start of a run's devices: the CPU at once, the workers of GPUs when they are wanted.

use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::Sender;

use super::choose::{choose, nvjpeg, some, usable, without_nvjpeg};
use super::cpu::CpuDevice;
use super::find;
use super::supervisor::WorkerDevice;
use super::{Context, Device, RequiredDevices};
use crate::config::{DeviceChoice, JpegChoice, Settings, Style};
use crate::error::Error;
use crate::schedule::DeviceId;
use crate::slot::Kind;
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

/// How long the CPU works alone before GPUs are looked for. CUDA takes a second to start and takes cores away from the first pictures, so a
/// batch that is finished by then is better off without it. This is also the interval of checks whether GPUs pay.
const HEAD_START: Duration = Duration::from_millis(300);

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
        let Context { settings: &Settings { threads, split_channels, .. }, pool, cores, pictures, .. } =
            self.context;
        let lanes = if split_channels { threads } else { threads.min(pictures) };
        // Per lane, one slot that a decoder fills while an encoder empties another: more did not keep the cores busier, and took more
        // pages.
        let slots = (2 * lanes).max(if split_channels { task::SLOTS_OF_SPLIT } else { 1 });
        let id = pool.join(false, slots, Box::new(|_| ()));
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
                self.workers(&units, &[], settings.jpeg != JpegChoice::Cpu)?;
                if settings.jpeg == JpegChoice::Gpu { self.decoders(&units, &[]) } else { Ok(()) }
            }
            DeviceChoice::Auto if settings.jpeg == JpegChoice::Gpu => {
                self.required(|found| some(usable(found, events)))
            }
            DeviceChoice::Auto => {
                // A service keeps GPUs ready, whatever comes; channels that are to be split over devices need some.
                let (always, meter) = (settings.watch || settings.split_channels, Meter::start());
                let pays = move || always || lanes_take_much(cpu.time(), meter.read().1);
                Builder::new()
                    .name("find-gpus".to_owned())
                    .spawn_scoped(self.scope, move || self.available(pays))
                    .map(drop)
                    .map_err(Error::thread)
            }
            DeviceChoice::All => self.required(|found| choose(found, None)),
            DeviceChoice::Listed(names) => self.required(|found| choose(found, Some(names))),
        }
    }

    /// Starts every usable GPU once that pays, or once JPEGs have come that it could decode, if there is still work by then. GPUs that
    /// cannot be used are reported, and the CPU does the work.
    fn available(&self, pays: impl Fn() -> bool) {
        let Context { settings, pool, devices, events, .. } = self.context;
        if !self.in_time(|| pays() || pool.decoders_wanted(|| true)) {
            return;
        }
        let verbose = settings.report.style == Style::Verbose;
        let found = match devices.finder.gpus() {
            Ok(found) => found,
            // Most machines have no GPU, and the user did not ask for one.
            Err(_) if !verbose && !find::nvidia_hardware_present(Path::new("/")) => return,
            Err(reason) => return events.note(format!("no GPU is used: {reason}"), false),
        };
        let decodes = matches!(nvjpeg(&found), Some(Ok(_)));
        if !decodes && !pays() && !self.in_time(&pays) {
            return;
        }
        if let Err(error) = self.with_decoders(&usable(&found, events), &found) {
            events.note(error.to_string(), false);
        }
    }

    /// Checks a condition at intervals of [`HEAD_START`] until it is true; `false` if the work is finished before.
    fn in_time(&self, so: impl Fn() -> bool) -> bool {
        loop {
            if self.context.devices.finder.cancelled_within(HEAD_START) {
                return false;
            }
            if so() {
                return true;
            }
        }
    }

    /// Starts the GPUs that the user insists on; the CPU leaves all first tries to them.
    fn required(&self, choose: impl FnOnce(&[GpuInfo]) -> Result<Vec<Unit>, Error>) -> Result<(), Error> {
        let Context { settings, pool, devices, required, .. } = self.context;
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
        pool.wait_for_workers(true);
        required.demand();
        self.with_decoders(&chosen, &found)
    }

    /// Starts the GPUs' workers and, if that is wanted and nvJPEG can be used, those for JPEGs.
    fn with_decoders(&self, units: &[Unit], found: &[GpuInfo]) -> Result<(), Error> {
        let jpeg = self.context.settings.jpeg;
        without_nvjpeg(jpeg, found).into_iter().for_each(|note| self.context.events.note(note, false));
        let with_jpegs = jpeg != JpegChoice::Cpu && matches!(nvjpeg(found), Some(Ok(_)));
        self.workers(units, found, with_jpegs)?;
        if with_jpegs { self.decoders(units, found) } else { Ok(()) }
    }

    /// Adds the workers that decode and encode JPEGs. Their processes start when the first JPEG comes.
    fn decoders(&self, units: &[Unit], found: &[GpuInfo]) -> Result<(), Error> {
        // Without them the CPU decodes, which is fine unless the user says otherwise.
        let insisted = self.context.settings.jpeg == JpegChoice::Gpu;
        let required = if insisted { self.context.required.clone() } else { RequiredDevices::default() };
        let each = units.iter().flat_map(|&unit| (0..JPEG_WORKERS).map(move |number| (unit, number)));
        let args = |(unit, number)| {
            let uuid = uuid(unit, found);
            WorkerArgs { unit, lanes: JPEG_LANES, uuid, jpeg: Some(number) }
        };
        each.map(args).try_for_each(|args| self.worker(args, 0, required.clone()).map(drop))
    }

    /// Adds the workers for pixels; `encode`: whether they may encode what they equalize.
    fn workers(&self, units: &[Unit], found: &[GpuInfo], encode: bool) -> Result<(), Error> {
        let Context { settings, pool, required, .. } = self.context;
        // Every decoder and encoder may hold a slot, and each lane one that it works on and one that is queued behind it.
        let slots = 2 * GPU_LANES + (2 * settings.threads).div_ceil(units.len().max(1)) + 1;
        let args = |&unit| WorkerArgs { unit, lanes: GPU_LANES, uuid: uuid(unit, found), jpeg: None };
        units.iter().map(args).try_for_each(|args| {
            let id = self.worker(args, slots, required.clone())?;
            if encode {
                pool.encodes(id);
            }
            Ok(())
        })
    }

    fn worker(&self, args: WorkerArgs, slots: usize, required: RequiredDevices) -> Result<DeviceId, Error> {
        let (id, device) = WorkerDevice::new(args, slots, required, &self.context);
        self.context.devices.add(id, Arc::clone(&device) as Arc<dyn Device>);
        device.supervise_in(self.scope, self.equalized.clone()).map_err(Error::thread)?;
        Ok(id)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_pays_where_equalizing_is_a_good_part_of_the_work() {
        let of_a_second = |lanes| lanes_take_much(Duration::from_millis(lanes), 1.0);
        assert_eq!([250, 320, 340, 1000].map(of_a_second), [false, false, true, true]);
    }
}
