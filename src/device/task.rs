//! The tasks of devices. A [`Task`] is a slot on its way through a device.
//!
//! It holds a whole picture, or a plane of one that is split by channel. With `--split-channels`, a
//! colour picture is decoded into a slot of the main process, as usual. Several threads then split
//! it into planes, each in a slot of its own on a device of its own, so that every device sees only
//! its planes, over its own bus. The last plane to come back completes the `Join`, and the results
//! are merged into the picture's own slot. Luma, which needs all channels, is counted here along
//! the way.

mod join;
mod offload;
mod picture;
mod planes;
mod stack;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::progress::timings::Stage;
use crate::slot::Slot;
use crate::slot::schedule::{Attempts, DeviceId};
use codec::Decoded;
use equalize::planes::PLANES;
use equalize::{ByteOrders, Layout, count};
use join::Join;
use lanes::Order;
pub(crate) use offload::Answer;
pub use offload::{Offload, OffloadTask};
pub use picture::{Content, InputFile, Pass, Picture, Processed, QueuedJob, Tables};
use planes::{luma_of, separate};
pub(crate) use stack::Done;
pub use stack::{Page, Stack, StackId};

/// The slots that a split picture takes at once: its own, and one for each plane.
pub const SLOTS_OF_SPLIT: usize = 1 + PLANES;

/// A slot on its way through a device.
pub struct Task {
    /// The slot.
    pub slot: Slot,
    /// The content at the start of the slot.
    pub content: Content,
    /// The layout of the pixels, even while they are compressed.
    pub layout: Layout,
    /// The byte orders of the pixels before and after the device's work.
    pub byte_orders: ByteOrders,
    /// The work of a device on the pixels.
    pub order: Order,
    part: Part,
    /// The destination after the device: the encoders of its run.
    equalized: Sender<Task>,
}

/// The part of a picture that a task processes.
enum Part {
    /// All of it.
    Whole(Box<Picture>),
    /// One of its planes.
    Plane { number: usize, join: Arc<Join> },
}

impl Task {
    /// Creates the task for a picture in one slot.
    pub(crate) fn whole(
        slot: Slot,
        content: Content,
        order: Order,
        picture: Box<Picture>,
        equalized: &Sender<Self>,
    ) -> Self {
        let Decoded { layout, byte_orders, .. } = picture.decoded;
        let equalized = equalized.clone();
        Self { slot, content, layout, byte_orders, order, part: Part::Whole(picture), equalized }
    }

    /// Returns the path of the picture's input.
    pub fn input(&self) -> &Path {
        match &self.part {
            Part::Whole(picture) => &picture.work.job.input,
            Part::Plane { join, .. } => join.input(),
        }
    }

    /// Returns whether a file takes the place of the slot's content.
    pub(crate) fn encodes(&self) -> bool {
        matches!(self.content, Content::Compressed(_)) && self.order.equalizes()
    }

    /// Adds the time since the last mark to this stage.
    ///
    /// Has no effect for planes, several of which are under way at once: the clock of their picture
    /// is marked when it is put together.
    pub fn mark(&mut self, stage: Stage) {
        if let Part::Whole(picture) = &mut self.part {
            picture.clock.mark(stage);
        }
    }

    /// Adds the processor time that the picture took of a core; for planes, as [`Task::mark`].
    pub fn took(&mut self, processor: Duration) {
        if let Part::Whole(picture) = &mut self.part {
            picture.clock.took(processor);
        }
    }

    /// Passes the task on after the device's work.
    pub(crate) fn pass_on(self) {
        let equalized = self.equalized.clone();
        // The encoders are only gone if they panicked; that panic then ends the run.
        let _ = equalized.send(self);
    }

    /// Gives the slot back, and has the job decoded again for another device.
    ///
    /// This one failed or does not take this picture.
    pub fn redo(self, device: DeviceId) {
        self.give_back(|attempts| attempts.failed_on.push(device));
    }

    /// Gives the slot back, and has the job decoded by the CPU.
    ///
    /// The device does not decode this picture.
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

    /// Returns the finished picture.
    ///
    /// `None` while other planes of it are under way, or if it was given up.
    pub(crate) fn finish(self) -> Option<Processed> {
        let Self { slot, content, order, part, .. } = self;
        match part {
            Part::Whole(picture) => {
                Some(Processed { devices: vec![slot.device()], slot, content, order, picture })
            }
            Part::Plane { number, join } => join.arrive(number, slot),
        }
    }
}

/// Splits the picture in the slot `whole` into planes, one in each of `slots`; returns their tasks.
///
/// Each slot also gets the order's input for its plane.
///
/// # Panics
/// If the picture has no colour, or there are not as many slots as planes.
pub fn split(
    picture: Box<Picture>,
    order: Order,
    mut whole: Slot,
    slots: Vec<Slot>,
    threads: usize,
    equalized: &Sender<Task>,
) -> impl Iterator<Item = Task> {
    let layout = picture.decoded.layout;
    let plane_layout = equalize::planes::layout(&layout).expect("the picture has colour");
    let mut slots: [Slot; PLANES] = slots.try_into().unwrap_or_else(|_| panic!("a slot a plane"));
    let (pixels, counts) = order.parts(whole.bytes_mut(), &layout);
    let to = slots.each_mut().map(|slot| order.parts(slot.bytes_mut(), &plane_layout).0);
    let luma = separate(pixels, &layout, to, !counts.is_empty(), threads);
    if let Some(first) = counts.chunks_mut(count::length(&layout)).next() {
        luma_of(first, &layout).copy_from_slice(&luma);
    }
    let given = order.given(whole.bytes_mut(), &layout);
    for (number, slot) in slots.iter_mut().enumerate() {
        let of_plane = order.given(slot.bytes_mut(), &plane_layout);
        of_plane.copy_from_slice(&given[number * of_plane.len()..][..of_plane.len()]);
    }
    let join = Arc::new(Join::new(picture, order, whole, threads));
    slots.into_iter().enumerate().map(move |(number, slot)| Task {
        slot,
        content: Content::Pixels,
        layout: plane_layout,
        byte_orders: ByteOrders::NATIVE,
        order,
        part: Part::Plane { number, join: Arc::clone(&join) },
        equalized: equalized.clone(),
    })
}
