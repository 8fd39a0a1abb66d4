//! The decoders' queues: new jobs, and jobs that come back from a device to be decoded again.

use crossbeam_channel::{Receiver, Sender, never, select};

use crate::device::task::{Pass, QueuedJob};
use crate::slot::schedule::Attempts;
use crate::source::Job;

/// The decoders' two queues.
#[derive(Clone)]
pub(super) struct Queues {
    pub(super) fresh: Receiver<Vec<QueuedJob>>,
    pub(super) redo: Receiver<QueuedJob>,
}

impl Queues {
    /// Returns the next work, or `None` when all pictures are done.
    pub(super) fn next(&mut self) -> Option<Vec<QueuedJob>> {
        // Returned work is finished first, to keep few files open.
        if let Ok(work) = self.redo.try_recv() {
            return Some(vec![work]);
        }
        loop {
            select! {
                recv(self.redo) -> work => return work.ok().map(|work| vec![work]),
                recv(self.fresh) -> batch => match batch {
                    Ok(batch) => return Some(batch),
                    Err(_) => self.fresh = never(),
                },
            }
        }
    }
}

/// The entrance of the pipeline. As long as it exists, the decoders wait for work.
pub(super) struct Intake {
    pub(super) fresh: Sender<Vec<QueuedJob>>,
    pub(super) redo: Sender<QueuedJob>,
}

impl Intake {
    /// Queues a batch of jobs for the decoders; blocks while the queue is full. `pass` returns the
    /// first pass of a job.
    pub(super) fn give(&self, batch: Vec<Job>, pass: impl Fn(&Job) -> Pass) {
        let work = |job| {
            let (pass, attempts, redo) = (pass(&job), Attempts::default(), self.redo.clone());
            QueuedJob { job, page: None, pass, attempts, before: None, redo }
        };
        // The queue is closed only if the decoders panicked; that panic then ends the run.
        let _ = self.fresh.send(batch.into_iter().map(work).collect());
    }
}
