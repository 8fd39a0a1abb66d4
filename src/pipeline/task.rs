//! What travels between the stages.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::remark::Remark;
use crate::slot::{Attempts, DeviceId, Slot};
use crate::source::Job;
use crate::split::Join;
use crate::timings::{Clock, Stage};
use codec::{CompressedJpeg, Decoded};
use equalize::Layout;
use equalize::{self, Method, Operation};
use lanes::Order;

/// A job in the pipeline, with its history so far.
pub struct Work {
    /// The picture's input and output.
    pub job: Job,
    /// What became of the attempts so far, and thus which devices may still take it.
    pub attempts: Attempts,
    pub(super) redo: Sender<Work>,
}

impl Work {
    /// Returns whether a device already had the picture.
    pub(super) fn was_started(&self) -> bool {
        self.attempts != Attempts::default()
    }
}

/// A picture without its pixels, decoded or to be decoded by a device.
pub struct Picture {
    /// What the pixels are, and what the encoder will need.
    pub decoded: Decoded,
    /// The job that it belongs to.
    pub work: Work,
    /// Size of its input file in bytes.
    pub bytes_in: u64,
    /// Whether that file has holes.
    pub has_holes: bool,
    /// Time spent in each stage since its decoding was last begun.
    pub clock: Clock,
}

impl Picture {
    /// Sends the job back to be decoded again, for the devices that the changed attempts admit.
    pub(super) fn redo(self, change: impl FnOnce(&mut Attempts)) {
        let mut work = self.work;
        change(&mut work.attempts);
        let back = work.redo.clone();
        // The queue is closed only if the decoders panicked; that panic then ends the run.
        let _ = back.send(work);
    }
}

/// A slot on its way through a device.
pub struct Task {
    /// The slot.
    pub slot: Slot,
    /// What the slot holds at its start.
    pub content: Content,
    /// The layout of the pixels, even while they are compressed.
    pub layout: Layout,
    /// What a device does with the pixels.
    pub order: Order,
    part: Part,
}

/// What a task's slot holds at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pixels, before or after the device's work.
    Pixels,
    /// The planes of a JPEG, in this many bytes, and its file behind them, for a device that may encode the picture too.
    Planes(CompressedJpeg, u64),
    /// A file that a device decodes, equalizes and encodes.
    Compressed(CompressedJpeg),
    /// What a device encoded, in this many bytes.
    Encoded(u64),
}

/// The part of a picture that a task processes.
enum Part {
    /// All of it.
    Whole(Box<Picture>),
    /// One of its planes.
    Plane { number: usize, join: Arc<Join> },
}

impl Task {
    pub(super) fn whole(slot: Slot, content: Content, order: Order, picture: Box<Picture>) -> Self {
        Self { slot, content, layout: picture.decoded.layout, order, part: Part::Whole(picture) }
    }

    /// Creates the task for plane `number` of a picture that `join` puts back together.
    pub fn plane(slot: Slot, layout: Layout, order: Order, number: usize, join: Arc<Join>) -> Self {
        Self { slot, content: Content::Pixels, layout, order, part: Part::Plane { number, join } }
    }

    /// Returns the path of the picture's input.
    pub fn input(&self) -> &Path {
        match &self.part {
            Part::Whole(picture) => &picture.work.job.input,
            Part::Plane { join, .. } => join.input(),
        }
    }

    /// Adds the time since the last mark to this stage. Does nothing for planes, several of which are under way at once: the clock of their
    /// picture is marked when it is put together.
    pub fn mark(&mut self, stage: Stage) {
        if let Part::Whole(picture) = &mut self.part {
            picture.clock.mark(stage);
        }
    }

    /// Gives the slot back, and has the job decoded again for another device, because this one failed or does not do this picture.
    pub fn redo(self, device: DeviceId) {
        self.give_back(|attempts| attempts.failed_on.push(device));
    }

    /// Gives the slot back, and has the job decoded by the CPU, because the device does not decode this picture.
    pub fn decline(self) {
        self.give_back(|attempts| attempts.declined = true);
    }

    fn give_back(self, change: impl FnOnce(&mut Attempts)) {
        drop(self.slot);
        let picture = match self.part {
            Part::Whole(picture) => Some(picture),
            Part::Plane { join, .. } => join.give_up(),
        };
        if let Some(picture) = picture {
            picture.redo(change);
        }
    }

    /// Returns the picture that the device is done with, if all of its parts are.
    pub(super) fn finish(self) -> Option<Finished> {
        let Self { slot, content, order, part, .. } = self;
        match part {
            Part::Whole(picture) => {
                Some(Finished { devices: vec![slot.device()], slot, content, order, picture })
            }
            Part::Plane { number, join } => join.arrive(number, slot),
        }
    }
}

/// A picture that the devices are done with.
pub struct Finished {
    /// Its pixels and counts, or what a device encoded.
    pub slot: Slot,
    /// Which of these the slot holds.
    pub content: Content,
    /// What the devices did.
    pub order: Order,
    /// The rest of the picture.
    pub picture: Box<Picture>,
    /// The devices that processed it.
    pub devices: Vec<DeviceId>,
}

impl Finished {
    /// Returns what is worth telling about what the device made of the picture, before it is encoded.
    pub(super) fn remark(&self) -> Option<Remark> {
        let Order::Equalize(Operation { method: Method::Clahe(_), .. }) = self.order else { return None };
        if self.content != Content::Pixels {
            return None;
        }
        let layout = &self.picture.decoded.layout;
        let pixels = &self.slot.bytes()[..layout.bytes() as usize];
        equalize::is_narrow(pixels, layout).then_some(Remark::NarrowRange)
    }
}
