//! The CPU as a device: the reference that every other backend equals byte for byte.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender};

use super::{Device, DeviceState};
use crate::cores::Cores;
use crate::pipeline::Task;
use crate::timings::Stage;
use crate::worker::{CpuLane, Lane};

/// The CPU: one lane a core, each a thread of this process.
pub struct CpuDevice {
    work: Mutex<Option<Sender<Task>>>,
}

impl CpuDevice {
    /// Starts `lanes` lanes; at most `slots` tasks can be under way at once. They keep `cores` busy. What they finish goes to `equalized`.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        lanes: usize,
        slots: usize,
        cores: &Arc<Cores>,
        equalized: &Sender<Task>,
    ) -> std::io::Result<Self> {
        let (work, tasks) = crossbeam_channel::bounded(slots);
        for number in 0..lanes {
            let (tasks, cores, equalized) = (tasks.clone(), Arc::clone(cores), equalized.clone());
            std::thread::Builder::new()
                .name(format!("lane-cpu-{number}"))
                .spawn_scoped(scope, move || run_lane(&tasks, &cores, &equalized))?;
        }
        Ok(Self { work: Mutex::new(Some(work)) })
    }
}

fn run_lane(tasks: &Receiver<Task>, cores: &Cores, equalized: &Sender<Task>) {
    let mut lane = CpuLane::default();
    for mut task in tasks {
        task.mark(Stage::Queue);
        let working = cores.work();
        let (layout, order) = (task.layout, task.order);
        lane.carry_out(task.slot.bytes_mut(), &layout, &order).expect("the CPU does not fail");
        drop(working);
        task.mark(Stage::Device);
        if equalized.send(task).is_err() {
            return;
        }
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

    fn close(&self) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
