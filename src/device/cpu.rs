//! The CPU as a device: the reference that every other backend matches byte for byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use tracing::trace_span;

use super::Device;
use crate::device::task::{OffloadTask, Task};
use crate::progress::timings::{Stage, Waits, thread_time};
use crate::slot::device_state::DeviceState;
use codec::Cores;
use equalize::Executor;
use lanes::{CpuLane, Lane};

/// The CPU. Its lanes are threads of this process.
pub struct CpuDevice {
    work: Mutex<Option<Sender<Task>>>,
    /// The processor time of the lanes so far, in nanoseconds.
    taken: Arc<AtomicU64>,
}

impl CpuDevice {
    /// Starts `lanes` lanes, which keep `cores` busy.
    ///
    /// At the end, they add to `waits` the time that they waited. At most `slots` tasks can be
    /// under way at once.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        lanes: usize,
        slots: usize,
        cores: &Arc<Cores>,
        waits: &Arc<Waits>,
    ) -> std::io::Result<Self> {
        let (work, tasks) = crossbeam_channel::bounded(slots);
        let taken = Arc::<AtomicU64>::default();
        for number in 0..lanes {
            let (tasks, cores, taken) = (tasks.clone(), Arc::clone(cores), Arc::clone(&taken));
            let waits = Arc::clone(waits);
            std::thread::Builder::new().name(format!("lane-cpu-{number}")).spawn_scoped(
                scope,
                move || {
                    run_lane(&tasks, &cores, &taken);
                    waits.add_lane();
                },
            )?;
        }
        Ok(Self { work: Mutex::new(Some(work)), taken })
    }

    /// Returns the processor time of the lanes so far.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.taken.load(Ordering::Relaxed))
    }
}

fn run_lane(tasks: &Receiver<Task>, cores: &Cores, taken: &AtomicU64) {
    let helpers = Helpers { cores, time: AtomicU64::new(0) };
    let mut lane = CpuLane::new(&helpers);
    for mut task in tasks {
        task.mark(Stage::Queue);
        let working = cores.work();
        let (layout, byte_orders, order) = (task.layout, task.byte_orders, task.order);
        let span = trace_span!("equalize").entered();
        let before = thread_time();
        let slot = task.slot.bytes_mut();
        lane.carry_out(slot, &layout, byte_orders, &order).expect("the CPU does not fail");
        let time = thread_time() - before + Duration::from_nanos(helpers.time.swap(0, Ordering::Relaxed));
        taken.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        task.took(time);
        drop((span, working));
        task.mark(Stage::Device);
        task.pass_on();
    }
}

/// The idle cores that help a lane.
struct Helpers<'c> {
    cores: &'c Cores,
    /// Their processor time for the current picture, in nanoseconds.
    time: AtomicU64,
}

impl Executor for Helpers<'_> {
    fn threads(&self) -> usize {
        self.cores.threads()
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        let lane = thread::current().id();
        self.cores.for_each(threads, pieces, |piece| {
            if thread::current().id() == lane {
                return work(piece);
            }
            let before = thread_time();
            work(piece);
            self.time.fetch_add((thread_time() - before).as_nanos() as u64, Ordering::Relaxed);
        });
    }
}

impl Device for CpuDevice {
    fn name(&self) -> Arc<str> {
        "cpu".into()
    }

    fn state(&self) -> DeviceState {
        DeviceState { name: "cpu".to_owned(), up: true, ..DeviceState::default() }
    }

    fn submit(&self, task: Task) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let work = work.as_ref().expect("the pipeline closes a device after its last task");
        work.send(task).expect("the lanes outlive the sender");
    }

    fn offload(&self, task: OffloadTask) {
        // The CPU has no slots for this: the waiting thread does it itself.
        drop(task);
    }

    fn close(&self) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
