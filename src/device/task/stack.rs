//! A file of several pages, each of which goes through the pipeline like a picture.
//!
//! Together they make one output, or none at all.

use std::collections::HashMap;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::fs::paths::Shown;
use crate::picture::band_tiles::BandTiles;
use crate::picture::boxes::{BoxPart, CountedBoxes, Divided};
use crate::picture::preview::Sides;
use crate::picture::remark::Remark;
use crate::progress::CompletedParts;
use crate::progress::timings::Times;
use crate::slot::schedule::DeviceId;
use codec::pages::{PageWriter, Pages};
use codec::volumes::{Gaps, Volumes};
use codec::{LevelCount, Range, Target};

/// A page of a file that has several.
#[derive(Clone)]
pub struct Page {
    /// The file's pages.
    pub stack: Arc<Stack>,
    /// Its number, from 0.
    pub index: usize,
}

impl Page {
    /// Returns the first page of a file.
    ///
    /// With `has_boxes`, the pages are slices of volumes that boxes divide, if they can be.
    /// `joins_channels` is whether the pages of a channel share a table where that is possible.
    pub(crate) fn first(pages: Pages, has_boxes: bool, joins_channels: bool) -> Self {
        let writer = pages.writer();
        let volumes = if has_boxes { pages.volumes().ok() } else { None };
        let count = volumes.as_ref().map_or(1, Volumes::count);
        let boxes = (0..count).map(|_| CountedBoxes::default()).collect();
        let pictures = if pages.are_bands() { pages.pictures() } else { 0 };
        let tiles = (0..pictures).map(|_| OnceLock::new()).collect();
        let (state, added) = (Mutex::default(), Condvar::new());
        let stack = Stack { pages, writer, volumes, boxes, tiles, joins_channels, state, added };
        Self { stack: Arc::new(stack), index: 0 }
    }

    /// Returns notes on irregularities of the file's volumes: slices without a position, and
    /// seemingly missing ones.
    pub(crate) fn notes(&self, input: &Path) -> Vec<String> {
        let Some(volumes) = &self.stack.volumes else { return Vec::new() };
        let unplaced = volumes.are_unplaced().then(|| {
            format!(
                "the frames of {} have no planes in common (ImagePositionPatient, ImageOrientationPatient), so they are taken as its dimensions or vectors number them, or else as they are stored",
                Shown(input)
            )
        });
        let gaps = volumes.gaps().map(|Gaps { slices: missing, around: (before, behind) }| {
            let seem = if missing == 1 { "slice seems" } else { "slices seem" };
            format!(
                "{missing} {seem} to be missing in {}, the first between frames {} and {}; those around it are taken for neighbours",
                Shown(input),
                before + 1,
                behind + 1
            )
        });
        unplaced.into_iter().chain(gaps).collect()
    }

    /// Returns the number of its picture: it is this picture or a band of it.
    pub(crate) fn picture(&self) -> usize {
        self.stack.pages.picture_of(self.index)
    }

    /// Returns its number among the bands of its picture.
    pub(crate) fn band(&self) -> u32 {
        self.stack.pages.band_of(self.index) as u32
    }

    /// Returns the tiles of its picture, if it is a band and they have been made.
    pub(crate) fn tiles(&self) -> Option<&Arc<BandTiles>> {
        self.stack.tiles.get(self.picture())?.get()?.as_ref()
    }

    /// Returns the tiles of its picture, which the first band makes.
    pub(crate) fn tiles_or(&self, make: impl FnOnce() -> Option<BandTiles>) -> Option<Arc<BandTiles>> {
        self.stack.tiles.get(self.picture())?.get_or_init(|| make().map(Arc::new)).clone()
    }

    /// Returns the tiles of the picture before its own, if there is one.
    pub(crate) fn tiles_before(&self) -> Option<&Arc<BandTiles>> {
        self.stack.tiles.get(self.picture().checked_sub(1)?)?.get()?.as_ref()
    }

    /// Records the used bits of a band, which are 1 in any of its samples.
    pub(crate) fn note_used_bits(&self, bits: u16) {
        *self.stack.lock().used_bits.entry(self.picture()).or_default() |= bits;
    }

    /// Returns the target for opening it.
    ///
    /// If the bands had to report their used bits, these decide on the levels. Otherwise, pages
    /// that share a table have the levels that their file states.
    pub(crate) fn target(&self, target: &Target) -> Target {
        let found = self.stack.lock().used_bits.get(&self.picture()).copied();
        let wanted = if self.stack.joins_channels { target.levels.of_several() } else { target.levels };
        Target { levels: found.map_or(wanted, LevelCount::of_used_bits), ..*target }
    }

    /// Returns it as a slice of an object that boxes divide.
    pub(crate) fn part(&self) -> BoxPart<'_> {
        let Stack { pages, volumes, boxes, .. } = &*self.stack;
        let slice = volumes.as_ref().map(|volumes| volumes.slice(self.index));
        BoxPart {
            divided: Divided::of(pages, volumes.as_ref(), self.index),
            boxes: &boxes[slice.map_or(0, |slice| slice.volume)],
            slice: slice.map_or(0, |slice| slice.index),
        }
    }

    /// Records that the page has its slot; returns the page to be opened next.
    ///
    /// `bytes` is the size of its samples in the output, if that is known. Pages are opened one
    /// after the other, so that a page never waits for a slot that a later one has.
    pub(crate) fn has_slot(&self, bytes: Option<u64>) -> Option<Self> {
        let mut state = self.stack.lock();
        if state.opened > self.index {
            // It was sent back by a device.
            return None;
        }
        state.opened += 1;
        if state.opened > state.announced {
            state.announced += 1;
            self.stack.writer.announce(bytes);
        }
        let index = self.index + 1;
        (index < self.stack.pages.len()).then(|| Self { stack: Arc::clone(&self.stack), index })
    }
}

/// The state that the pages of a file share.
pub struct Stack {
    /// The pages, by their places in the file.
    pub pages: Pages,
    /// The writer of the output.
    pub writer: PageWriter,
    /// The volumes that they are slices of, if boxes divide these.
    volumes: Option<Volumes>,
    /// The boxes of each volume.
    boxes: Vec<CountedBoxes>,
    /// The tiles of each picture in bands, once the first band has come; `None` if it has no tiles.
    tiles: Vec<OnceLock<Option<Arc<BandTiles>>>>,
    /// Whether the pages of a channel share a table where that is possible.
    pub(crate) joins_channels: bool,
    state: Mutex<StackState>,
    /// Notified when a page has been added, or the file is given up.
    added: Condvar,
}

/// The identity of a stack while it is under way: its address in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(usize);

#[derive(Default)]
struct StackState {
    /// The number of pages that have been opened in this pass, and in any.
    opened: usize,
    announced: usize,
    /// The number of passes.
    passes: usize,
    /// The number of pages that are through a pass before the last, summed over these passes.
    prepared: usize,
    written: usize,
    /// The used bits of each picture in bands, as far as known: bits that are 1 in any sample.
    used_bits: HashMap<usize, u16>,
    /// Whether a page has failed, or all of them are given up.
    is_over: bool,
    done: Done,
}

/// The report about the pages that were written.
#[derive(Clone, Default)]
pub(crate) struct Done {
    pub(crate) pixels: u64,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) remarks: Vec<Remark>,
    /// The range of all values but the few that stretch it, if any do.
    pub(crate) inner_range: Option<Range>,
    pub(crate) times: Times,
    /// Both versions for a report, as far as it shows them and pixels were in memory.
    pub(crate) sides: Sides,
}

impl Stack {
    /// Returns its identity among the stacks that are under way.
    pub fn id(self: &Arc<Self>) -> StackId {
        StackId(Arc::as_ptr(self) as usize)
    }

    /// Returns the number of a page's volume, if boxes divide volumes.
    pub(crate) fn volume_of(&self, page: usize) -> Option<usize> {
        self.volumes.as_ref().map(|volumes| volumes.slice(page).volume)
    }

    /// Gives up the file; returns whether it was not given up before.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = self.lock();
        let is_news = !state.is_over;
        state.is_over = true;
        self.added.notify_all();
        is_news
    }

    /// Returns whether the file is given up.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Records that all pages may be opened in any order, as in a second pass.
    pub(crate) fn note_all_opened(&self) {
        self.lock().opened = self.pages.len();
    }

    /// Has all pages opened once more; returns the first.
    pub(crate) fn begin_again(self: &Arc<Self>) -> Page {
        self.lock().opened = 0;
        Page { stack: Arc::clone(self), index: 0 }
    }

    /// Sets the number of passes.
    pub(crate) fn expect(&self, passes: usize) {
        self.lock().passes = passes;
    }

    /// Records that a page is through a pass, and will be opened again or written later.
    ///
    /// Returns whether all pages are, provided that no page goes through two passes at once.
    pub(crate) fn note_prepared(&self) -> bool {
        let mut state = self.lock();
        state.prepared += 1;
        state.prepared.is_multiple_of(self.pages.len())
    }

    /// Returns the pages that are through, in all passes.
    pub(crate) fn completed(&self) -> CompletedParts {
        let state = self.lock();
        let (number, passes) = (state.prepared + state.written, state.passes.max(1));
        CompletedParts { number, all: passes * self.pages.len() }
    }

    /// Adds the report about a page that is written.
    pub(crate) fn add(&self, page: Done) {
        let mut state = self.lock();
        state.written += 1;
        let is_first = state.written == 1;
        let done = &mut state.done;
        let of_others = done.remarks.clone();
        done.pixels += page.pixels;
        done.times.add_all(&page.times);
        done.devices.extend(page.devices);
        done.devices.sort_unstable();
        done.devices.dedup();
        let is_of_both = |remark: &Remark| {
            !remark.is_about_all() || is_first || page.remarks.contains(remark) && of_others.contains(remark)
        };
        done.remarks.extend(&page.remarks);
        done.remarks.retain(is_of_both);
        done.remarks.sort_unstable();
        done.remarks.dedup();
        done.sides = mem::take(&mut done.sides).or(page.sides);
        done.inner_range = Range::of_all([done.inner_range, page.inner_range]);
        self.added.notify_all();
    }

    /// Returns the report about all pages.
    ///
    /// Waits until other threads have added the pages that they have just written, or the file is
    /// given up.
    pub(crate) fn all(&self) -> Done {
        let is_short = |state: &mut StackState| state.written < self.pages.len() && !state.is_over;
        let state = self.added.wait_while(self.lock(), is_short).unwrap_or_else(PoisonError::into_inner);
        state.done.clone()
    }

    fn lock(&self) -> MutexGuard<'_, StackState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
