//! The CPU as a device: the reference that every other backend equals byte for byte.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender};

use super::Device;
use crate::equalize::{Scratch, equalize};
use crate::pipeline::Task;

/// The CPU: one lane a core, each a thread of this process.
pub struct CpuDevice {
    work: Mutex<Option<Sender<Task>>>,
}

impl CpuDevice {
    /// Starts `lanes` lanes; at most `slots` tasks can be under way at once. What they finish goes to `equalized`.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        lanes: usize,
        slots: usize,
        equalized: &Sender<Task>,
    ) -> std::io::Result<Self> {
        let (work, tasks) = crossbeam_channel::bounded(slots);
        for number in 0..lanes {
            let (tasks, equalized) = (tasks.clone(), equalized.clone());
            std::thread::Builder::new()
                .name(format!("lane-cpu-{number}"))
                .spawn_scoped(scope, move || lane(&tasks, &equalized))?;
        }
        Ok(Self { work: Mutex::new(Some(work)) })
    }
}

fn lane(tasks: &Receiver<Task>, equalized: &Sender<Task>) {
    let mut scratch = Scratch::default();
    for mut task in tasks {
        let (layout, operation) = (task.layout(), task.operation);
        let pixels = &mut task.slot.bytes_mut()[..layout.bytes() as usize];
        equalize(pixels, &layout, &operation, &mut scratch);
        if equalized.send(task).is_err() {
            return;
        }
    }
}

impl Device for CpuDevice {
    fn name(&self) -> Arc<str> {
        "cpu".into()
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
