//! The resources of a run: its memory, cores and devices, for the pipeline and for monitoring.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::Devices;
use crate::fs::files;
use crate::progress::timings::{Load, Meter, Waits};
use crate::slot::device_state::{DeviceState, DeviceUse};
use crate::slot::rates::Rates;
use crate::slot::{SlotPool, SlotUse, limit_heap_retention};
use codec::Cores;

/// The slots, the cores and the devices of a run, or of all runs of a service.
pub struct Machine {
    /// The slots of all devices.
    pub pool: Arc<SlotPool>,
    /// The cores that its threads may keep busy.
    pub cores: Arc<Cores>,
    /// The costs of its pictures.
    pub rates: Rates,
    /// The time that its threads waited.
    pub waits: Arc<Waits>,
    /// The devices.
    pub devices: Devices,
}

impl Machine {
    /// Creates a machine without devices, with at most `memory` bytes of slots and `threads` cores.
    pub fn new(memory: u64, threads: usize) -> Self {
        limit_heap_retention(memory, threads);
        let (pool, cores) = (Arc::new(SlotPool::new(memory)), Arc::new(Cores::new(threads).within(memory)));
        pool.bound_files(files::FileLimit::allowed().slots());
        Self { pool, cores, rates: Rates::default(), waits: Arc::default(), devices: Devices::default() }
    }

    /// Returns the state of each device and the use of its slots.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceState, SlotUse)> {
        self.devices.states().into_iter().zip(self.pool.slots())
    }

    /// Returns the load of the machine since the meter was started, with `threads` threads.
    ///
    /// Must be called only after the workers have ended.
    pub(super) fn load(&self, meter: &Meter, threads: usize) -> Load {
        let (seconds, processor) = meter.read();
        let cores = available_parallelism().map_or(threads, NonZero::get).max(threads);
        let states = self.devices.states();
        let workers = states.iter().map(|state| state.processor).sum::<Duration>().as_secs_f64();
        let [core_wait, reading, writing] = self.waits.seconds();
        Load {
            seconds,
            threads,
            cores,
            publishers: 0,
            processor,
            workers,
            core_wait,
            reading,
            writing,
            memory_wait: self.pool.waited_for_memory().as_secs_f64(),
            decoded: counts(&states, |state| state.offloaded.codestreams),
            inflated: counts(&states, |state| state.offloaded.inflated),
            deflated: counts(&states, |state| state.offloaded.deflated),
            left: counts(&states, |state| state.left),
            devices: of_workers(&states, |use_of| use_of.busy),
            ready: of_workers(&states, |use_of| use_of.ready),
            full: of_workers(&states, |use_of| use_of.full),
        }
    }
}

/// Returns a count for each device, except for counts of 0.
fn counts(states: &[DeviceState], of: impl Fn(&DeviceState) -> u64) -> BTreeMap<String, u64> {
    let counts = states.iter().map(|state| (state.name.clone(), of(state)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Returns the seconds of one kind of use of each device other than the CPU.
fn of_workers(states: &[DeviceState], time: impl Fn(DeviceUse) -> Duration) -> BTreeMap<String, f64> {
    let seconds = |state: &DeviceState| Some((state.name.clone(), time(state.in_use?).as_secs_f64()));
    states.iter().filter_map(seconds).collect()
}
