//! The worker's answers, and the further way of the slots that they return.

use std::collections::hash_map::Entry;
use std::path::Path;

use super::worker::Loan;
use super::{End, MAX_DECLINED, WorkerDevice};
use crate::device::task::{Content, Offload, OffloadTask};
use crate::fs::paths::Shown;
use crate::progress::timings::Stage;
use crate::slot::SlotId;

impl WorkerDevice {
    /// Passes on a slot that the worker has finished.
    ///
    /// `encoded` are the bytes of the file that it holds instead of the content that it had.
    pub(super) fn done(&self, slot: SlotId, encoded: Option<u64>) -> Result<(), End> {
        let returned = self.returned(slot, |loan| match loan {
            Loan::Picture(task) if task.encodes() => {
                encoded.is_some_and(|bytes| bytes <= task.slot.bytes().len() as u64)
            }
            Loan::Picture(_) => encoded.is_none(),
            Loan::Offload(_) => false,
        })?;
        let Loan::Picture(mut task) = returned else { return Ok(()) };
        task.content = encoded.map_or(task.content, Content::Encoded);
        task.mark(Stage::Device);
        task.pass_on();
        Ok(())
    }

    /// Passes on the result of offloaded work, which is in its slot.
    pub(super) fn offloaded(&self, slot: SlotId) -> Result<(), End> {
        if let Loan::Offload(task) = self.returned(slot, |loan| matches!(loan, Loan::Offload(_)))? {
            self.link.lock().offloaded.add(&task.offload);
            task.pass_on();
        }
        Ok(())
    }

    /// Passes on a slot with content that the worker leaves to others.
    ///
    /// `in_a_row` is the number of slots of pixels that it has left since it last completed a
    /// picture.
    pub(super) fn declined(&self, slot: SlotId, reason: &str, in_a_row: &mut u32) -> Result<(), End> {
        let loan = self.returned(slot, |_| true)?;
        let is_pixels =
            matches!(&loan, Loan::Picture(task) if !matches!(task.content, Content::Compressed(_)));
        if !reason.is_empty() {
            let what = match &loan {
                _ if is_pixels => "left to other devices",
                Loan::Offload(OffloadTask { offload: Offload::Streams(_), .. }) => "compressed on the CPU",
                _ => "decoded on the CPU",
            };
            self.report_once(loan.input(), what, reason);
        }
        let task = match loan {
            Loan::Offload(task) => {
                task.decline();
                return Ok(());
            }
            Loan::Picture(task) => task,
        };
        if !is_pixels {
            self.link.lock().left += 1;
            task.decline();
            return Ok(());
        }
        task.redo(self.id);
        *in_a_row += 1;
        if *in_a_row < MAX_DECLINED {
            return Ok(());
        }
        Err(End::Failed(format!("it left {in_a_row} pictures in a row to other devices: {reason}")))
    }

    /// Reports a picture that the worker leaves to others, and the reason.
    ///
    /// Only the first is reported for each `what`, the place where it is processed instead.
    fn report_once(&self, input: &Path, what: &'static str, reason: &str) {
        if self.link.lock().worker.as_mut().is_some_and(|worker| !worker.told.insert(what)) {
            return;
        }
        self.note(&format!("{} and similar pictures are {what}: {reason}", Shown(input)), false);
    }

    /// Takes back a slot that the worker has answered.
    ///
    /// If the answer is impossible, the slot stays lent: the worker may still write to it.
    fn returned(&self, slot: SlotId, can_be: impl FnOnce(&Loan) -> bool) -> Result<Loan, End> {
        let mut state = self.link.lock();
        let worker = state.worker.as_mut();
        let Some(Entry::Occupied(lent)) = worker.map(|worker| worker.lent.entry(slot)) else {
            return Err(End::Failed(format!("its worker returned slot {slot}, which it did not have")));
        };
        if !can_be(&lent.get().loan) {
            return Err(End::Failed(format!("its worker did something else with slot {slot}")));
        }
        let loan = lent.remove().loan;
        state.note_use(self.args.lanes);
        drop(state);
        if let Loan::Picture(_) = loan {
            self.pool.take_back(self.id, 1);
        }
        Ok(loan)
    }
}
