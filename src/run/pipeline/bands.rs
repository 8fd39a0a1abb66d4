//! CLAHE of pictures that go through the pipeline in bands: see [`crate::picture::band_tiles`].
//!
//! A counted band waits for all the tables that it needs, and the next band until it may be
//! counted. A waiting band holds no slot, and another part of its picture is always in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Run;
use super::load::park;
use super::passes::is_adaptive;
use crate::device::task::{Page, Pass, Picture, Processed, QueuedJob, Stack, StackId, Tables};
use crate::error::PictureError;
use crate::picture::band_tiles::{BandTiles, Bands};

/// The waiting bands of each picture.
#[derive(Default)]
pub struct WaitingBands(Mutex<HashMap<StackId, Vec<QueuedJob>>>);

impl WaitingBands {
    /// Adds a waiting band, unless its picture is given up.
    fn add(&self, stack: &Arc<Stack>, work: QueuedJob) {
        let mut all = self.lock();
        if !stack.is_over() {
            all.entry(stack.id()).or_default().push(work);
        }
    }

    /// Takes the bands that need not wait any more.
    fn take_ready(&self, stack: &Arc<Stack>) -> Vec<QueuedJob> {
        let mut all = self.lock();
        let waiting = all.remove(&stack.id()).unwrap_or_default();
        let (ready, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(may_go_on);
        if !others.is_empty() {
            all.insert(stack.id(), others);
        }
        ready
    }

    /// Drops the bands of a picture that is given up.
    pub(super) fn forget(&self, stack: &Arc<Stack>) {
        let waiting = self.lock().remove(&stack.id());
        drop(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StackId, Vec<QueuedJob>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a waiting band may be counted or equalized.
fn may_go_on(work: &QueuedJob) -> bool {
    let Some(page) = &work.page else { return true };
    let band = page.band();
    match &work.pass {
        Pass::Apply(Tables::Bands(tiles), _) => tiles.may_be_equalized(band),
        // The first band makes the tiles, which are those of one picture at a time.
        _ if band == 0 => page.tiles_before().is_none_or(|tiles| tiles.are_through()),
        _ => page.tiles().is_some_and(|tiles| tiles.may_be_counted(band)),
    }
}

/// Returns whether a page is a band that is counted in tiles.
fn is_counted_in_tiles(work: &QueuedJob) -> bool {
    let are_bands = work.page.as_ref().is_some_and(|page| page.stack.pages.are_bands());
    are_bands && is_adaptive(&work.job.settings.operation) && matches!(work.pass, Pass::Count)
}

impl Run<'_> {
    /// Queues the page that follows this one, once it may be opened.
    pub(super) fn open_next(&self, work: &QueuedJob, next: Page) {
        let stack = Arc::clone(&next.stack);
        let next = work.other(next, work.pass.clone());
        if is_counted_in_tiles(&next) {
            self.waiting.add(&stack, next);
            self.go_on_with_bands(&stack);
        } else {
            next.queue_again();
        }
    }

    fn go_on_with_bands(&self, stack: &Arc<Stack>) {
        self.waiting.take_ready(stack).into_iter().for_each(QueuedJob::queue_again);
    }

    /// Takes a band that was decoded to find the levels of its picture; returns any other page or
    /// picture. After the last one, bands go through the next pass.
    pub(super) fn look_at_band(&self, finished: Processed) -> Option<Processed> {
        let work = &finished.picture.work;
        let (Pass::FindLevels(next), Some(page)) = (&work.pass, work.page.clone()) else {
            return Some(finished);
        };
        let next = (**next).clone();
        let Processed { slot, picture, .. } = finished;
        drop(slot);
        let Picture { decoded, work, .. } = *picture;
        let Some(bits) = decoded.used_bits() else {
            self.fail_work(work, PictureError::Changed);
            return None;
        };
        page.note_used_bits(bits);
        let is_last = page.stack.note_prepared();
        self.report_part(&work.job, &page, decoded.layout.pixels());
        if is_last {
            work.other(page.stack.begin_again(), next).queue_again();
        }
        None
    }

    /// Takes a band with tiles, to find its levels or to count it; returns any other page or
    /// picture.
    pub(super) fn count_band(&self, finished: Processed) -> Option<Processed> {
        let work = &finished.picture.work;
        let act = match work.pass {
            Pass::Survey => Self::survey_band,
            _ if is_counted_in_tiles(work) => Self::count_in_tiles,
            _ => return Some(finished),
        };
        match (work.page.clone(), tiles_of(&finished.picture)) {
            (Some(page), Some(tiles)) => act(self, finished, &page, &tiles),
            _ => self.fail_work(finished.picture.work, PictureError::PagesDiffer),
        }
        None
    }

    /// Records the levels that occur in a band. After the last one, bands are counted.
    fn survey_band(&self, finished: Processed, page: &Page, tiles: &Arc<BandTiles>) {
        let Processed { slot, picture, .. } = finished;
        let layout = picture.decoded.layout;
        let pixels = &slot.bytes()[..layout.bytes() as usize];
        tiles.look(page.band(), layout.pixel, pixels);
        drop(slot);
        let is_last = page.stack.note_prepared();
        self.report_part(&picture.work.job, page, layout.pixels());
        if is_last {
            let first = page.stack.begin_again();
            picture.work.other(first, Pass::Count).queue_again();
        }
    }

    /// Counts a band, which then waits for its tables.
    fn count_in_tiles(&self, finished: Processed, page: &Page, tiles: &Arc<BandTiles>) {
        let Processed { slot, picture, .. } = finished;
        let layout = picture.decoded.layout;
        let pixels = &slot.bytes()[..layout.bytes() as usize];
        tiles.count(page.band(), layout.pixel, pixels);
        page.stack.note_prepared();
        self.report_part(&picture.work.job, page, layout.pixels());
        let (work, parked) = park(self, slot, *picture);
        let pass = Pass::Apply(Tables::Bands(Arc::clone(tiles)), parked);
        self.waiting.add(&page.stack, QueuedJob { pass, ..work });
        self.go_on_with_bands(&page.stack);
    }

    /// Equalizes a band that has its tables.
    pub(super) fn equalize_band(&self, finished: &mut Processed) {
        let Picture { decoded, work, .. } = &*finished.picture;
        if let (Pass::Apply(Tables::Bands(tiles), _), Some(page)) = (&work.pass, &work.page) {
            let (pixel, bytes) = (decoded.layout.pixel, decoded.layout.bytes() as usize);
            tiles.equalize(page.band(), pixel, &mut finished.slot.bytes_mut()[..bytes]);
            self.go_on_with_bands(&page.stack);
        }
    }
}

/// Returns the tiles of a band's picture, which the first band makes; `None` if the operation has
/// no tiles, or this band differs in kind.
fn tiles_of(picture: &Picture) -> Option<Arc<BandTiles>> {
    let Picture { decoded, work, .. } = picture;
    let (layout, levels) = (decoded.layout, decoded.levels());
    let page = work.page.as_ref()?;
    let bands = Bands::of(&page.stack.pages)?;
    let operation = &work.job.settings.operation;
    let tiles = page.tiles_or(|| BandTiles::new(&layout, levels, bands, operation))?;
    tiles.is_of(&layout, levels).then_some(tiles)
}
