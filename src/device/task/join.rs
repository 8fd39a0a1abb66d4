//! A picture with its planes on several devices.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::picture::{Content, Picture, Processed};
use super::planes::{luma_of, merge};
use crate::progress::timings::Stage;
use crate::slot::Slot;
use equalize::planes::{self, PLANES};
use equalize::{Layout, count};
use lanes::Order;

/// A picture with its planes on devices.
pub(super) struct Join {
    input: PathBuf,
    /// The number of threads that may work on the picture.
    threads: usize,
    /// `None` once the picture is complete or given up.
    state: Mutex<Option<Parts>>,
}

/// The parts of a picture that are back.
struct Parts {
    picture: Box<Picture>,
    order: Order,
    /// The picture's own slot.
    whole: Slot,
    planes: [Option<Slot>; PLANES],
}

impl Join {
    /// Creates the join of a picture with its pixels in the slot `whole`.
    ///
    /// At most `threads` threads put it together.
    pub(super) fn new(picture: Box<Picture>, order: Order, whole: Slot, threads: usize) -> Self {
        let input = picture.work.job.input.clone();
        let parts = Parts { picture, order, whole, planes: [const { None }; PLANES] };
        Self { input, threads, state: Mutex::new(Some(parts)) }
    }

    /// Returns the path of the picture's file.
    pub(super) fn input(&self) -> &Path {
        &self.input
    }

    /// Takes back a finished plane; returns the picture if that was the last one.
    pub(super) fn arrive(&self, number: usize, slot: Slot) -> Option<Processed> {
        let mut state = self.lock();
        let parts = state.as_mut()?;
        parts.planes[number] = Some(slot);
        if parts.planes.iter().any(Option::is_none) {
            return None;
        }
        let parts = state.take()?;
        drop(state);
        Some(parts.put_together(self.threads))
    }

    /// Gives up the picture because a plane is lost; returns it to be done again.
    ///
    /// `None` if it was given up before.
    pub(super) fn give_up(&self) -> Option<Box<Picture>> {
        self.lock().take().map(|parts| parts.picture)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Parts>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn put_together(self, threads: usize) -> Processed {
        let Self { mut picture, order, mut whole, planes } = self;
        picture.clock.mark(Stage::Device);
        let layout = picture.decoded.layout;
        let plane_layout = planes::layout(&layout).expect("the picture has colour");
        let mut planes = planes.map(|slot| slot.expect("all planes are there"));
        let devices = planes.each_ref().map(Slot::device).to_vec();
        let (pixels, counts) = order.parts(whole.bytes_mut(), &layout);
        let from = planes.each_mut().map(|slot| order.parts(slot.bytes_mut(), &plane_layout));
        let plane_counts = from.each_ref().map(|(_, counts)| &**counts);
        let mut stages = counts.chunks_mut(count::length(&layout));
        if let Some(first) = stages.next() {
            collect(first, plane_counts, &layout, 0);
        }
        if order.equalizes() {
            let after = stages.next();
            let plane_pixels = from.each_ref().map(|(pixels, _)| &**pixels);
            let luma = merge(plane_pixels, &layout, pixels, after.is_some(), threads);
            if let Some(after) = after {
                collect(after, plane_counts, &layout, 1);
                luma_of(after, &layout).copy_from_slice(&luma);
            }
        }
        Processed { slot: whole, content: Content::Pixels, order, picture, devices }
    }
}

/// Copies the planes' counts of a stage to their places among those of the whole picture.
///
/// Stage 0 is before equalization, stage 1 after it.
fn collect(counts: &mut [u64], planes: [&[u64]; PLANES], layout: &Layout, stage: usize) {
    let levels = layout.depth.levels();
    // A plane has counts of itself, and of alpha if there is one.
    let each = levels * planes::plane_channels(layout.pixel);
    for (to, plane) in counts.chunks_mut(levels).zip(planes) {
        to.copy_from_slice(&plane[stage * each..][..levels]);
    }
    if layout.pixel.has_alpha() {
        counts[PLANES * levels..][..levels].copy_from_slice(&planes[0][stage * each + levels..][..levels]);
    }
}
