//! What a run computes with: its memory, cores and devices, for the pipeline and for those who monitor it.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::Devices;
use crate::fs::files;
use crate::progress::timings::{Load, Meter};
use crate::slot::device_state::DeviceState;
use crate::slot::rates::Rates;
use crate::slot::{SlotPool, SlotUse, limit_heap_retention};
use codec::Cores;

/// The slots, the cores and the devices of a run, or of the runs of a service.
pub struct Machine {
    /// The slots of all devices.
    pub pool: Arc<SlotPool>,
    /// The cores that its threads may keep busy.
    pub cores: Arc<Cores>,
    /// What its pictures cost.
    pub rates: Rates,
    /// The devices.
    pub devices: Devices,
}

impl Machine {
    /// Creates a machine without devices, whose slots take at most `memory` bytes, with cores for `threads` threads.
    pub fn new(memory: u64, threads: usize) -> Self {
        limit_heap_retention(memory, threads);
        let (pool, cores) = (Arc::new(SlotPool::new(memory)), Arc::new(Cores::new(threads).within(memory)));
        pool.bound_files(files::FileLimit::allowed().slots());
        Self { pool, cores, rates: Rates::default(), devices: Devices::default() }
    }

    /// Returns the state of each device with the use of its slots.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceState, SlotUse)> {
        self.devices.states().into_iter().zip(self.pool.slots())
    }

    /// Returns how busy the machine was since the meter was started, with `threads` threads. To be called once the workers have ended.
    pub(super) fn load(&self, meter: &Meter, threads: usize) -> Load {
        let (seconds, processor) = meter.read();
        let cores = available_parallelism().map_or(threads, NonZero::get).max(threads);
        let states = self.devices.states();
        let workers = states.iter().map(|state| state.processor).sum::<Duration>().as_secs_f64();
        let devices: BTreeMap<_, _> =
            states.into_iter().filter_map(|state| Some((state.name, state.busy?.as_secs_f64()))).collect();
        Load { seconds, threads, cores, publishers: 0, processor, workers, devices }
    }
}
