//! A file of several pages, each of which goes through the pipeline like a picture. All of them make one output, or none does.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::picture::band_tiles::BandTiles;
use crate::picture::boxes::{BoxPart, CountedBoxes, Divided};
use crate::picture::preview::Sides;
use crate::picture::remark::Remark;
use crate::progress::timings::Times;
use crate::slot::schedule::DeviceId;
use codec::{LevelCount, PageWriter, Pages, Range, Target, Volumes};

/// A page of a file that has several.
#[derive(Clone)]
pub struct Page {
    /// The file's pages.
    pub stack: Arc<Stack>,
    /// Its number, from 0.
    pub index: usize,
}

impl Page {
    /// Returns the first page, and has the pages be slices of volumes if these are to have boxes. `joins_channels` says whether
    /// those of a channel have a table together where nothing is refused for it.
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

    /// Returns the number of the picture that it is, or a band of.
    pub(crate) fn picture(&self) -> usize {
        self.stack.pages.picture_of(self.index)
    }

    /// Returns its number among the bands of its picture.
    pub(crate) fn band(&self) -> u32 {
        self.stack.pages.band_of(self.index) as u32
    }

    /// Returns the tiles of its picture, if it is a band and there are any yet.
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

    /// Notes the bits that are not 0 in all samples of a band.
    pub(crate) fn note_used_bits(&self, bits: u16) {
        *self.stack.lock().used_bits.entry(self.picture()).or_default() |= bits;
    }

    /// Returns the target with which it is opened after all bands have told which bits they use, if they had to; pages of
    /// one table have the levels that their file tells.
    pub(crate) fn target(&self, target: &Target) -> Target {
        let found = self.stack.lock().used_bits.get(&self.picture()).copied();
        let wanted = if self.stack.joins_channels { target.levels.of_several() } else { target.levels };
        Target { levels: found.map_or(wanted, LevelCount::of_used_bits), ..*target }
    }

    /// Returns which part it is of what boxes divide.
    pub(crate) fn part(&self) -> BoxPart<'_> {
        let Stack { pages, volumes, boxes, .. } = &*self.stack;
        let slice = volumes.as_ref().map(|volumes| volumes.slice(self.index));
        BoxPart {
            divided: Divided::of(pages, volumes.as_ref(), self.index),
            boxes: &boxes[slice.map_or(0, |slice| slice.volume)],
            slice: slice.map_or(0, |slice| slice.index),
        }
    }

    /// Tells that the page has its slot, and the bytes that its samples will take in the output if that is known. Returns the page that is to
    /// be opened next. Pages are opened one after the other, so that a page never waits for a slot that a later one has.
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

/// What the pages of a file share.
pub struct Stack {
    /// Where they are.
    pub pages: Pages,
    /// What writes them.
    pub writer: PageWriter,
    /// The volumes whose slices they are, if these are divided into boxes.
    volumes: Option<Volumes>,
    /// The boxes of each volume.
    boxes: Vec<CountedBoxes>,
    /// The tiles of each picture in bands, once one has come; none if it has none.
    tiles: Vec<OnceLock<Option<Arc<BandTiles>>>>,
    /// Whether the pages of a channel have a table together where nothing is refused for it.
    pub(crate) joins_channels: bool,
    state: Mutex<StackState>,
    /// Told when something is to be told of one more page, or the file is given up.
    added: Condvar,
}

/// What tells one stack from another as long as both are under way: where it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(usize);

#[derive(Default)]
struct StackState {
    /// How many pages have been opened in this pass, and in any.
    opened: usize,
    announced: usize,
    /// In how many passes they are opened.
    passes: usize,
    /// How many pages are through a pass before the last one, each in each.
    prepared: usize,
    written: usize,
    /// The bits that are not 0 in all samples of each picture in bands, as far as bands have told.
    used_bits: HashMap<usize, u16>,
    /// Whether a page has failed, or all of them are given up.
    is_over: bool,
    done: Done,
}

/// What is to be told of the pages that were written.
#[derive(Clone, Default)]
pub(crate) struct Done {
    pub(crate) pixels: u64,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) remarks: Vec<Remark>,
    /// The range of all values but the few that stretch it, if any do.
    pub(crate) inner_range: Option<Range>,
    pub(crate) times: Times,
    /// What it looks like, as far as a report is to show it and that was seen.
    pub(crate) sides: Sides,
}

impl Stack {
    /// Returns what tells it from other stacks that are under way.
    pub fn id(self: &Arc<Self>) -> StackId {
        StackId(Arc::as_ptr(self) as usize)
    }

    /// Returns the number of the volume that a page is a slice of, if boxes divide volumes.
    pub(crate) fn volume_of(&self, page: usize) -> Option<usize> {
        self.volumes.as_ref().map(|volumes| volumes.slice(page).volume)
    }

    /// Gives up the file. Returns whether that is news.
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

    /// Notes that all pages may be opened in any order, as in a second pass.
    pub(crate) fn note_all_opened(&self) {
        self.lock().opened = self.pages.len();
    }

    /// Has all pages be opened once more, from the first on, which is returned.
    pub(crate) fn begin_again(self: &Arc<Self>) -> Page {
        self.lock().opened = 0;
        Page { stack: Arc::clone(self), index: 0 }
    }

    /// Notes in how many passes the pages are opened.
    pub(crate) fn expect(&self, passes: usize) {
        self.lock().passes = passes;
    }

    /// Notes that a page is through a pass, and will be opened again or written later. Returns whether all are, if no page goes through two at once.
    pub(crate) fn note_prepared(&self) -> bool {
        let mut state = self.lock();
        state.prepared += 1;
        state.prepared.is_multiple_of(self.pages.len())
    }

    /// Returns how many pages are through, of how many, in all passes.
    pub(crate) fn through(&self) -> (usize, usize) {
        let state = self.lock();
        (state.prepared + state.written, state.passes.max(1) * self.pages.len())
    }

    /// Adds what is to be told of a page that is written.
    pub(crate) fn add(&self, page: Done) {
        let mut state = self.lock();
        state.written += 1;
        let done = &mut state.done;
        done.pixels += page.pixels;
        done.times.add_all(&page.times);
        done.devices.extend(page.devices);
        done.devices.sort_unstable();
        done.devices.dedup();
        done.remarks.extend(page.remarks);
        done.remarks.sort_unstable();
        done.remarks.dedup();
        done.sides = mem::take(&mut done.sides).or(page.sides);
        done.inner_range = Range::of_all([done.inner_range, page.inner_range]);
        self.added.notify_all();
    }

    /// Returns what is to be told of all pages, once that is added of those that others have written just now, or the file is given up.
    pub(crate) fn all(&self) -> Done {
        let is_short = |state: &mut StackState| state.written < self.pages.len() && !state.is_over;
        let state = self.added.wait_while(self.lock(), is_short).unwrap_or_else(PoisonError::into_inner);
        state.done.clone()
    }

    fn lock(&self) -> MutexGuard<'_, StackState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
