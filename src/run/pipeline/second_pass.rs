//! The two passes through the pipeline of pictures that share LUTs: see [`crate::run::together`].

use std::sync::Arc;

use super::Run;
use super::load::park;
use super::passes::{self, Basis, is_adaptive};
use crate::config::{PictureSettings, Together};
use crate::device::task::{Content, Done, Page, Pass, Picture, Processed, QueuedJob, Tables};
use crate::error::{PictureError, Refusal};
use crate::picture::boxes::{Divided, StackBoxes};
use crate::picture::counts::Counts;
use crate::picture::kind::kind_of;
use crate::run::together::{self, Complete, PictureCounts};
use crate::source::Job;
use equalize::{Layout, Levels, Operation, count};
use lanes::Order;

impl Run<'_> {
    /// Returns the basis of the tables of pictures with these settings.
    pub(super) fn basis<'s>(&self, settings: &'s PictureSettings) -> Basis<'s> {
        Basis::of(settings, self.settings.split_channels)
    }

    /// Returns the order for a picture with these settings, in this pass, or for an object that is
    /// divided into boxes.
    pub(super) fn order_of(&self, settings: &PictureSettings, pass: &Pass, divided: Divided) -> Order {
        passes::order(self.purpose, settings.operation, pass, divided)
    }

    /// Takes the counts that a device has made.
    pub(super) fn count(&self, finished: Processed) {
        let Some(finished) = self.look_at_band(finished).and_then(|finished| self.count_band(finished))
        else {
            return;
        };
        let Processed { mut slot, content, order, picture, .. } = finished;
        let (layout, levels) = (picture.decoded.layout, picture.decoded.levels());
        let has_own_range = picture.decoded.has_own_range() && !is_alone_in_bands(&picture);
        if has_own_range && picture.work.job.settings.together != Together::STACK {
            return self.fail_work(picture.work, PictureError::OwnRange);
        }
        let operation = Operation { levels, ..picture.work.job.settings.operation };
        let counts = match order {
            Order::Nothing if is_adaptive(&operation) => {
                if let Err(why) = count_boxes(&picture, slot.bytes_mut()) {
                    return self.fail_work(picture.work, why);
                }
                Vec::new()
            }
            Order::Nothing => {
                let pixels = &slot.bytes()[..layout.bytes() as usize];
                count::equalized_planes(pixels, &layout, &operation)
            }
            _ => order.parts(slot.bytes_mut(), content.front(&layout)).1.to_vec(),
        };
        if let Some(page) = &picture.work.page {
            page.stack.note_prepared();
            self.report_part(&picture.work.job, page, layout.pixels());
        }
        let rescale = picture.decoded.rescale();
        let channel = together::sample_channel(&picture.work.job.settings, picture.work.page.as_ref());
        let counted = PictureCounts { layout, levels, channel, counts: &counts, rescale, has_own_range };
        let (work, parked) = match content {
            Content::Pixels => park(self, slot, *picture),
            Content::Compressed(_) | Content::Encoded(_) => (picture.work, None),
        };
        self.go_on(self.groups.add(work, parked, &counted));
    }

    /// Notifies the group of a picture that it failed, or that it is left out, which breaks the
    /// group.
    pub(super) fn go_on_without(&self, work: &QueuedJob, breaks: bool) {
        if matches!(work.pass, Pass::Count) {
            self.go_on(self.groups.go_on_without(&work.job, work.page.as_ref(), breaks));
        } else if let Some(page) = &work.page {
            // Other pages or bands of it may be counted and wait, each with a sender of the
            // decoders' queue.
            self.groups.forget(page);
        }
    }

    /// Leaves out all pictures in incomplete groups, because others of their groups will not come.
    pub(super) fn abandon_groups(&self) {
        self.go_on(self.groups.abandon());
    }

    fn go_on(&self, complete: Complete) {
        self.note_counts(&complete);
        let is_parked = |work: &QueuedJob| matches!(work.pass, Pass::Apply(_, Some(_)));
        let (kept, go_on): (Vec<_>, Vec<_>) = complete.go_on.into_iter().partition(|work| self.is_kept(work));
        kept.iter().for_each(|work| self.unpark(work));
        let again = go_on.iter().filter(|work| !is_parked(work));
        store::announce(&self.settings.storage, again.filter_map(|work| work.job.object.as_ref()));
        go_on.into_iter().for_each(QueuedJob::queue_again);
        complete.refused.into_iter().for_each(|work| self.fail_work(work, PictureError::OtherRescale));
        for (work, slice) in complete.broken {
            self.fail_work(work, Refusal::BrokenVolume { slice }.into());
        }
        complete.left_out.iter().for_each(|work| self.outlet.miss(&work.job));
    }

    /// Keeps the counts of a file, or of a part of it, for a run that continues if this one is
    /// killed.
    fn note_counts(&self, Complete { go_on, counts, .. }: &Complete) {
        if let Some(QueuedJob { job, page: Some(page), .. }) = go_on.first()
            && together::is_alone(job)
            && !counts.is_empty()
        {
            let part = together::part_of(job, page, page.index);
            self.outlet.note(job, page, &note_of(part), &|| counts.to_json());
        }
    }

    /// Skips counting for the pages of a file, given the first, if an earlier run has counted them.
    pub(super) fn pass_over_counting(&self, work: &mut QueuedJob) {
        let (job, Some(page), Pass::Count) = (&work.job, &work.page, &work.pass) else { return };
        let counts_of = |part| Counts::from_json(&self.outlet.noted(job, page, &note_of(part))?).ok();
        let Some(tables) = together::known_tables(job, page, counts_of) else { return };
        let stack = Arc::clone(&page.stack);
        stack.note_all_opened();
        let mut passes = tables.into_iter().map(|tables| Pass::Apply(tables, None));
        let Some(first) = passes.next() else { return };
        for (index, pass) in (1..).zip(passes) {
            let other = work.other(Page { stack: Arc::clone(&stack), index }, pass);
            if !self.is_kept(&other) {
                other.queue_again();
            }
        }
        work.pass = first;
    }

    /// Frees the memory of pixels that are not needed any more.
    fn unpark(&self, work: &QueuedJob) {
        if let Pass::Apply(_, Some(parked)) = work.pass {
            drop(self.machine.pool.unpark(parked));
        }
    }

    /// Returns whether a page was written by an earlier run; it then counts as done.
    fn is_kept(&self, work: &QueuedJob) -> bool {
        work.page.as_ref().is_some_and(|page| self.passes_over(&work.job, page))
    }

    /// Returns the first page of a file that is still to do, from this one on: earlier runs may
    /// have written some.
    pub(super) fn first_to_do(&self, job: &Job, mut page: Page) -> Option<Page> {
        while self.passes_over(job, &page) {
            page = page.has_slot(None)?;
        }
        Some(page)
    }

    /// Counts a page as done if an earlier run has written it, and returns whether it has.
    fn passes_over(&self, job: &Job, page: &Page) -> bool {
        let Some(pixels) = self.outlet.kept(job, page).filter(|_| !page.stack.is_over()) else {
            return false;
        };
        page.stack.add(Done { pixels, ..Done::default() });
        self.report_part(job, page, pixels);
        true
    }
}

/// Returns the name of the note of the counts of a part of a file.
fn note_of(part: usize) -> String {
    format!("counts-{part}")
}

/// Returns whether a picture is a band of one that shares no table, which gives all bands one
/// range.
fn is_alone_in_bands(picture: &Picture) -> bool {
    let job = &picture.work.job;
    let Some(stack) = picture.work.page.as_ref().map(|page| &page.stack) else { return false };
    let pages = &stack.pages;
    let is_by_itself = match job.settings.together {
        Together::PAGE => true,
        Together::STACK => !stack.joins_channels,
        _ => pages.pictures() == 1,
    };
    together::is_alone(job) && pages.are_bands() && is_by_itself
}

/// Adds a slice to the counts of its boxes.
///
/// # Errors
/// If it differs in kind from the others.
fn count_boxes(picture: &Picture, slot: &[u8]) -> Result<(), PictureError> {
    let Picture { decoded, work, .. } = picture;
    let (layout, levels, input) = (decoded.layout, decoded.levels(), &work.job.input);
    let Some(part) = work.part() else { return Err(PictureError::PagesDiffer) };
    let operation = &work.job.settings.operation;
    let boxes = part.boxes.get_or(|| StackBoxes::new(input, &layout, levels, part.divided, operation));
    let Some(boxes) = boxes else { return Err(PictureError::PagesDiffer) };
    if boxes.is_of(&layout, levels) {
        boxes.count(part.extent(&layout), layout.pixel, &slot[..layout.bytes() as usize]);
        return Ok(());
    }
    if work.page.is_some() {
        return Err(PictureError::PagesDiffer);
    }
    let (other, their_layout, their_levels) = boxes.first();
    let (own, others) = (slice_kind(&layout, levels), slice_kind(their_layout, their_levels));
    Err(Refusal::SlicesDiffer { own, other: other.to_owned(), others }.into())
}

/// Returns the size and kind of a slice in words.
fn slice_kind(layout: &Layout, levels: Levels) -> String {
    let alpha = if layout.pixel.has_alpha() { " with alpha" } else { "" };
    format!("{}x{} pixels of {}{alpha}", layout.width, layout.height, kind_of(layout, levels))
}

/// Equalizes a slice of an object with counted boxes.
pub(super) fn equalize_boxes(finished: &mut Processed) {
    let Picture { decoded, work, .. } = &*finished.picture;
    if let (Pass::Apply(Tables::Boxes(boxes), _), Some(part)) = (&work.pass, work.part()) {
        let (layout, bytes) = (decoded.layout, decoded.layout.bytes() as usize);
        boxes.equalize(part.extent(&layout), layout.pixel, &mut finished.slot.bytes_mut()[..bytes]);
    }
}
