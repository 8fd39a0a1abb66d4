//! Loading a picture into its slots: decoded by the CPU, or still compressed for a device that
//! decodes it.

mod needs;

use std::borrow::Cow;
use std::fs::File;
use std::mem;
use std::sync::Arc;

use super::masks::{Covered, mask_of};
use super::passes::{BandFacts, PageFacts};
use super::{Purpose, Run};
use crate::config::{PictureSettings, Settings, Together};
use crate::device::offload::DeviceCoder;
use crate::device::task::{Content, InputFile, Page, Pass, Picture, QueuedJob, Tables};
use crate::error::{PictureError, Refusal, Undivided};
use crate::fs::input::InputRoots;
use crate::fs::stamp::{Stamp, Tree};
use crate::picture::band_tiles::{self, Bands};
use crate::picture::boxes::Divided;
use crate::picture::kind::kind_of;
use crate::picture::luts::Luts;
use crate::picture::preview::Shown;
use crate::progress::timings::{Clock, Stage};
use crate::run::together;
use crate::slot::rates::{Class, Way};
use crate::slot::schedule::{Attempts, Request};
use crate::slot::{Held, ParkedId, Slot, SlotError, Slots, Unparked};
use crate::source::Job;
use crate::source::holes::has_holes;
use codec::coders::{CompressedJpeg, Help};
use codec::multiscales::Medium;
use codec::pages::{PageRef, Pages};
use codec::{self, Budget, CodecError, Decoded, Limits, Opened, Target};
use equalize::Layout;
use lanes::Order;
use needs::EmptySlots;
use tracing::trace_span;

/// A picture in its slots.
pub(super) struct Loaded {
    pub(super) slots: Slots,
    pub(super) content: Content,
    pub(super) class: Class,
    pub(super) decoded: Decoded,
    pub(super) file: InputFile,
}

impl Loaded {
    /// Returns the kind of device that equalizes the picture, if the CPU decoded it and one device
    /// gets all of it.
    pub(super) fn way(&self) -> Option<Way> {
        let is_compared = self.slots.planes.is_empty() && !matches!(self.content, Content::Compressed(_));
        is_compared.then(|| if self.slots.whole.memory().is_private() { Way::Cpu } else { Way::Worker })
    }
}

/// The parts of a [`Loaded`].
type Filled = (Slots, Content, Decoded);

/// Opens a job's input, and records its stamp; also returns its size.
fn open_input(job: &mut Job, limits: &Limits, roots: &InputRoots) -> Result<(Medium, u64), PictureError> {
    if let Some(image) = &job.image {
        job.stamp = Some(image.stamp());
        return Ok((Medium::Image(image.store()), image.stamp().size));
    }
    open_file(job, limits, roots).map(|(file, length)| (Medium::File(file), length))
}

fn open_file(job: &mut Job, limits: &Limits, roots: &InputRoots) -> Result<(File, u64), PictureError> {
    if let Some(object) = &job.object {
        let length = object.entry().size;
        if length > limits.max_bytes {
            return Err(too_long(length, limits).into());
        }
        let file = object.open().map_err(PictureError::of_store)?;
        job.stamp = Some(Stamp::of_object(object.entry()));
        return Ok((file, length));
    }
    if let Some(spooled) = &job.spooled {
        let file = spooled.open().map_err(PictureError::Read)?;
        let length = file.metadata().map_err(PictureError::Read)?.len();
        return Ok((file, length));
    }
    let file = roots.open(&job.input).map_err(PictureError::of_input)?;
    let metadata = file.metadata().map_err(PictureError::Read)?;
    if !(if job.is_folder { metadata.is_dir() } else { metadata.is_file() }) {
        return Err(Refusal::NotAFile.into());
    }
    // The file may be replaced before its output is published, which the stamp shows.
    if !job.is_folder {
        job.stamp.get_or_insert_with(|| Stamp::of(&metadata, job.lasting_inodes));
        return Ok((file, metadata.len()));
    }
    if job.changes.is_none() {
        let tree = Tree::of(&job.input).map_err(PictureError::Read)?;
        job.stamp.get_or_insert_with(|| tree.stamp());
        job.changes = Some(tree.changes);
    }
    Ok((file, job.stamp.map_or(0, |stamp| stamp.size)))
}

/// Reads the header of the opened medium, or of this page of it.
fn open_picture<'a>(
    held: &mut Held,
    medium: &'a mut Medium,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    page: Option<PageRef<'_>>,
) -> Result<Opened<'a>, CodecError> {
    match (medium, page) {
        (Medium::Image(store), page) => codec::multiscales::open_image(held, store, limits, target, page),
        (Medium::File(file), Some(page)) => codec::pages::open_page(held, file, buffer, limits, target, page),
        (Medium::File(file), None) => codec::open_within(held, file, buffer, limits, target),
    }
}

fn too_long(length: u64, limits: &Limits) -> CodecError {
    CodecError::too_long(format!("an object of {length} bytes"), limits.max_bytes, Some(length))
}

impl Budget for Held {
    fn hold(&mut self, bytes: u64) -> Result<(), u64> {
        Self::hold(self, bytes).map_err(|error| match error {
            SlotError::LargerThanMemory { allowed, .. } => allowed,
            // These concern only pictures that hold memory or take a slot.
            SlotError::GivenUp | SlotError::System { .. } => 0,
        })
    }

    fn most_at_once(&self) -> u64 {
        Self::most_at_once(self)
    }

    fn memory(&self) -> u64 {
        Self::memory(self)
    }

    fn buffer(&mut self) -> Vec<u8> {
        Self::buffer(self)
    }
}

/// Bytes of capacity that a decoding thread's own buffer may have. A longer file gets a buffer for
/// the time being.
pub(super) const OWN_BUFFER: usize = 1 << 20;

/// Loads pictures for a pass through the pipeline.
#[derive(Clone, Copy)]
pub(super) struct Loader<'r> {
    pub(super) run: &'r Run<'r>,
    /// The pictures' own settings.
    pub(super) settings: &'r PictureSettings,
    /// The order for the devices.
    pub(super) order: Order,
    /// The object to divide into boxes, if any.
    pub(super) divided: Divided,
}

/// The facts about a picture that waits for others, apart from its pixels.
struct ParkedPicture {
    decoded: Decoded,
    class: Class,
    file: InputFile,
}

impl Loader<'_> {
    /// Returns whether pictures may go through the pipeline in bands: where these share only
    /// counts.
    fn may_be_cut(&self) -> bool {
        self.keeps_whole().is_none()
    }

    /// Returns why all pictures go through the pipeline as a whole, if they do.
    fn keeps_whole(&self) -> Option<Undivided> {
        match self.run.purpose {
            Purpose::Count { equalized: true } => Some(Undivided::CountedLater),
            _ if self.settings.operation.method.has_boxes() => Some(Undivided::Slice),
            _ if self.run.settings.split_channels => Some(Undivided::SplitChannels),
            _ => None,
        }
    }

    /// Returns the facts about the bands of a picture, given the layout of one; `None` if these
    /// pages are not bands.
    fn band_facts(&self, pages: &Pages, layout: &Layout) -> Option<BandFacts> {
        let bands = Bands::of(pages)?;
        Some(BandFacts { need_survey: band_tiles::needs_look(layout, bands, &self.settings.operation) })
    }

    /// Returns the counts of the reference for a picture; empty if the order needs no reference.
    fn reference_for(&self, decoded: &Decoded, channel: Option<u16>) -> Result<Cow<'_, [u64]>, Refusal> {
        let (layout, levels) = (&decoded.layout, decoded.levels());
        match (&self.settings.reference, self.order.operation()) {
            (Some(reference), Some(operation)) => {
                Ok(reference.counts(layout, levels, channel, operation.colour)?)
            }
            _ => Ok(Cow::default()),
        }
    }

    /// Returns the channel of a page, if channels that are not colours have tables of their own.
    fn channel_of(&self, page: Option<&Page>) -> Option<u16> {
        together::sample_channel(self.settings, page)
    }

    /// Fills in the data that devices get in addition to the pixels of a picture.
    fn give(
        &self,
        slot: &mut [u8],
        content: Content,
        decoded: &Decoded,
        channel: Option<u16>,
    ) -> Result<(), Refusal> {
        if let Order::Equalize(_) | Order::Count { .. } = self.order {
            let reference = self.reference_for(decoded, channel)?;
            let given = self.order.given(slot, content.front(&decoded.layout));
            given.copy_from_slice(bytemuck::cast_slice(&reference));
        }
        Ok(())
    }

    /// Reads a picture's header, and checks it for reasons to fail.
    pub(super) fn read_header(&self, job: &mut Job, buffer: &mut Vec<u8>) -> Result<(), PictureError> {
        self.holding(buffer, |held, buffer| {
            let (limits, target) = (&self.run.settings.limits, &self.settings.target);
            let (mut medium, _) = open_input(job, limits, &self.run.settings.roots)?;
            let opened = open_picture(held, &mut medium, buffer, limits, target, None);
            let mut opened = opened.map_err(|why| self.with_memory(why))?;
            let pages = opened.take_pages();
            let opened = self.masked(opened, job, pages.as_ref().map(|pages| pages.page(0)), held)?;
            self.check_pages(&opened, pages.as_ref(), job.slice.as_ref())?;
            let divided = self.divided_by(pages.as_ref(), job);
            let order = self.run.order_of(self.settings, &Pass::Only, divided);
            let order = order.of_frames(opened.frames() as u32);
            let this = Self { order, divided, ..*self };
            this.check_order(&opened, job)?;
            let bands = pages.as_ref().and_then(|pages| self.band_facts(pages, &opened.layout()));
            let order_of = |pass| self.run.order_of(self.settings, &pass, divided);
            let order = bands.map_or(order, |bands| order_of(bands.first_pass()));
            let this = Self { order, ..this };
            let needed = this.bytes_of_pixels(&opened).saturating_add(this.bytes_aside(&opened));
            let admitted = self.run.machine.pool.admits(needed.saturating_add(held.bytes()));
            admitted.map_err(|why| this.lacking(why, &opened, pages.as_ref()))
        })
    }

    /// Decodes a picture into slots, or copies its file there if a device decodes it.
    pub(super) fn load(
        &self,
        work: &mut QueuedJob,
        buffer: &mut Vec<u8>,
        clock: &mut Clock,
    ) -> Result<Loaded, PictureError> {
        let _span = trace_span!("load").entered();
        self.holding(buffer, |held, buffer| self.load_holding(held, work, buffer, clock))
    }

    /// Runs `act` on a picture that reserves memory meanwhile, and starts over whenever the picture
    /// has to give that up.
    fn holding<T>(
        &self,
        buffer: &mut Vec<u8>,
        mut act: impl FnMut(&mut Held, &mut Vec<u8>) -> Result<T, PictureError>,
    ) -> Result<T, PictureError> {
        let mut again = None;
        loop {
            let mut held = Held::nothing(&self.run.machine.pool).with_bands(self.may_be_cut());
            let result = act(&mut held, buffer);
            if buffer.capacity() > OWN_BUFFER {
                held.keep(mem::take(buffer));
            } else {
                drop(held);
            }
            if !matches!(result, Err(PictureError::Slot(SlotError::GivenUp))) {
                return result;
            }
            again.get_or_insert_with(|| self.run.machine.pool.begin_again());
        }
    }

    /// Loads a picture, with memory reserved for its file until it has its slots.
    fn load_holding(
        &self,
        held: &mut Held,
        work: &mut QueuedJob,
        buffer: &mut Vec<u8>,
        clock: &mut Clock,
    ) -> Result<Loaded, PictureError> {
        if let Pass::Apply(tables, parked) = &mut work.pass
            && let Some((content, pixels)) = parked.take().and_then(|id| self.run.machine.pool.unpark(id))
            && let Ok(picture) = content.downcast()
        {
            let channel = self.channel_of(work.page.as_ref());
            return self.load_parked(*picture, pixels, tables, channel, &work.attempts, clock);
        }
        let working = self.run.machine.cores.work();
        let limits = &self.run.settings.limits;
        let (mut medium, known) = codec::waiting_for_file(|| {
            let (medium, bytes) = open_input(&mut work.job, limits, &self.run.settings.roots)?;
            let has_holes = matches!(&medium, Medium::File(file) if has_holes(file));
            Ok::<_, PictureError>((medium, InputFile { bytes, has_holes }))
        })?;
        let page = work.page.as_ref().map(|Page { stack, index }| stack.pages.page(*index));
        let is_found = !matches!(work.pass, Pass::FindLevels(_));
        let target = work.page.as_ref().filter(|_| is_found).map(|page| page.target(&self.settings.target));
        let target = target.as_ref().unwrap_or(&self.settings.target);
        let opened = open_picture(held, &mut medium, buffer, limits, target, page);
        let mut opened = opened.map_err(|why| self.with_memory(why))?;
        let pages = opened.take_pages();
        if work.page.is_none() {
            self.check_pages(&opened, pages.as_ref(), work.job.slice.as_ref())?;
        }
        if let Some(pages) = pages {
            self.run.machine.rates.expect(pages.len() - 1);
            let joins_channels = self.joins_channels(&opened, &pages);
            if joins_channels {
                let levels = opened.levels().of_several();
                opened = opened.with_levels(levels);
            }
            let facts = PageFacts {
                share_channels: joins_channels,
                bands: self.band_facts(&pages, &opened.layout()),
                look_for_levels: opened.looks_for_levels(),
            };
            work.pass = self.run.basis(self.settings).first_pass_of(self.run.purpose, facts);
            let page = Page::first(pages, self.settings.operation.method.has_boxes(), joins_channels);
            let stack = Arc::clone(&page.stack);
            page.notes(&work.job.input).into_iter().for_each(|note| self.run.events.note(note, true));
            work.page = Some(page);
            self.run.pass_over_counting(work);
            stack.expect(work.pass.passes());
        }
        let place = work.page.as_ref().map(|page| page.stack.pages.page(page.index));
        let opened = self.masked(opened, &work.job, place, held)?;
        if work.page.is_none() && matches!(work.pass, Pass::Count) && together::is_alone(&work.job) {
            // It is the only one of its group.
            work.pass = Pass::Only;
        }
        let divided = divided_by(work);
        let order = self.run.order_of(self.settings, &work.pass, divided);
        let this = Self { order: order.of_frames(opened.frames() as u32), divided, ..*self };
        this.load_opened(opened, held, work, known, working, clock)
    }

    /// Returns whether the pages of each channel of a file, given its first page, share a table
    /// though the user does not insist on it.
    fn joins_channels(&self, opened: &Opened<'_>, pages: &Pages) -> bool {
        self.settings.together == Together::STACK && pages.share_channels() && !opened.has_own_range()
    }

    /// Applies the mask of a picture, or of one of its pages, if it has one: masked pixels do not
    /// count.
    fn masked<'o>(
        &self,
        opened: Opened<'o>,
        job: &Job,
        page: Option<PageRef<'_>>,
        held: &mut Held,
    ) -> Result<Opened<'o>, PictureError> {
        let Settings { inputs, limits, .. } = self.run.settings;
        let Some(masks) = &self.settings.masks else { return Ok(opened) };
        let path = masks.find(inputs, &job.input)?;
        let mask = mask_of(masks, path, Covered::of(&opened, page), limits, held)?;
        Ok(opened.with_mask(mask))
    }

    /// Loads a picture that has been opened.
    fn load_opened(
        &self,
        opened: Opened<'_>,
        held: &Held,
        work: &mut QueuedJob,
        file: InputFile,
        working: impl Drop,
        clock: &mut Clock,
    ) -> Result<Loaded, PictureError> {
        self.check_order(&opened, &work.job)?;
        clock.mark(Stage::Decode);
        drop(working);
        let class = Class::new(opened.format(), &opened.layout());
        self.foresee(&opened);
        let empty = self.take_empty(&opened, held, &work.attempts);
        let pages = work.page.as_ref().map(|page| &page.stack.pages);
        let empty = empty.map_err(|why| self.lacking(why, &opened, pages))?;
        let next = work.page.as_ref().and_then(|page| page.has_slot(opened.stored_page_bytes()));
        let next = match work.pass {
            Pass::Only => next.and_then(|next| self.run.first_to_do(&work.job, next)),
            Pass::FindLevels(_) | Pass::Survey | Pass::Count | Pass::Apply(..) => next,
        };
        if let Some(next) = next {
            self.run.open_next(work, next);
        }
        let _working = self.run.machine.cores.work();
        clock.mark(Stage::Slot);
        let (mut slots, content, decoded) = match empty {
            EmptySlots::Compressed(slot, jpeg) => self.copy_file(opened, slot, jpeg, held, work)?,
            EmptySlots::Pixels(slots) => self.decode(opened, slots, work)?,
        };
        if !matches!(content, Content::Compressed(_)) && work.before.is_none() {
            work.before = self.shown(work, &slots.whole, &decoded);
        }
        if let Pass::Apply(tables, _) = &work.pass {
            let channel = self.channel_of(work.page.as_ref());
            self.give_tables(&mut slots.whole, content, &decoded, tables, channel)?;
        }
        clock.mark(Stage::Decode);
        Ok(Loaded { slots, content, class, decoded, file })
    }

    /// Returns a small version of a picture that was decoded into this slot, if a report shows it
    /// and its colours are those of its file.
    fn shown(&self, work: &QueuedJob, slot: &Slot, decoded: &Decoded) -> Option<Box<Shown>> {
        let target = &self.settings.target;
        let pages = work.shown_of().filter(|_| target.gray.is_none())?;
        Shown::of_slot(decoded, slot.bytes(), target, false, pages).map(Box::new)
    }

    /// Stores the LUTs for a picture after its pixels, if its tables are LUTs.
    fn give_tables(
        &self,
        slot: &mut Slot,
        content: Content,
        decoded: &Decoded,
        tables: &Tables,
        channel: Option<u16>,
    ) -> Result<(), PictureError> {
        match tables {
            Tables::Luts(luts) => self.give_luts(slot, content, decoded, luts, channel),
            Tables::Boxes(boxes) if boxes.is_of(&decoded.layout, decoded.levels()) => Ok(()),
            Tables::Bands(tiles) if tiles.is_of(&decoded.layout, decoded.levels()) => Ok(()),
            // Its pages were of one kind: the file has been replaced.
            Tables::Boxes(_) | Tables::Bands(_) => Err(PictureError::Changed),
        }
    }

    /// Stores the LUTs for a picture after its pixels.
    fn give_luts(
        &self,
        slot: &mut Slot,
        content: Content,
        decoded: &Decoded,
        luts: &Luts,
        channel: Option<u16>,
    ) -> Result<(), PictureError> {
        let layout = &decoded.layout;
        let Some(luts) = luts.of_layout(layout, decoded.levels(), channel) else {
            self.reference_for(decoded, channel)?;
            if self.settings.luts.is_some() {
                return Err(Refusal::Uncounted { kind: kind_of(layout, decoded.levels()) }.into());
            }
            // Pictures of its kind were counted: the file has been replaced.
            return Err(PictureError::Changed);
        };
        self.order.given(slot.bytes_mut(), content.front(layout)).copy_from_slice(luts);
        Ok(())
    }

    /// Loads a picture with its pixels still in memory.
    fn load_parked(
        &self,
        picture: ParkedPicture,
        pixels: Unparked,
        tables: &Tables,
        channel: Option<u16>,
        attempts: &Attempts,
        clock: &mut Clock,
    ) -> Result<Loaded, PictureError> {
        let ParkedPicture { decoded, class, file } = picture;
        let machine = self.run.machine;
        let layout = decoded.layout;
        let aside = decoded.heap_bytes(&self.settings.target) + self.scratch_bytes(&layout);
        let request = Request { attempts, worth: machine.rates.worth(class) };
        let mut slot = machine.pool.take_parked(pixels, self.order.slot_bytes(&layout), aside, request)?;
        clock.mark(Stage::Slot);
        self.give_tables(&mut slot, Content::Pixels, &decoded, tables, channel)?;
        clock.mark(Stage::Decode);
        Ok(Loaded { slots: slot.into(), content: Content::Pixels, class, decoded, file })
    }

    /// Copies the file into the slot, for a device that decodes it; decodes it here if it turns out
    /// to be unsuitable.
    fn copy_file(
        &self,
        opened: Opened<'_>,
        mut slot: Slot,
        jpeg: CompressedJpeg,
        held: &Held,
        work: &QueuedJob,
    ) -> Result<Filled, PictureError> {
        match opened.pass_on(slot.bytes_mut()) {
            Ok(decoded) => {
                slot.keep_aside(decoded.metadata_heap_bytes(&self.settings.target));
                let (content, channel) = (Content::Compressed(jpeg), self.channel_of(work.page.as_ref()));
                self.give(slot.bytes_mut(), content, &decoded, channel)?;
                Ok((slot.into(), content, decoded))
            }
            Err(opened) => {
                drop(slot);
                let slots = self.take_slots(&opened, held, &work.attempts)?;
                self.decode(*opened, slots, work)
            }
        }
    }

    /// Decodes a picture into its slots.
    fn decode(&self, opened: Opened<'_>, mut slots: Slots, work: &QueuedJob) -> Result<Filled, PictureError> {
        let (machine, attempts, input) = (self.run.machine, &work.attempts, &work.job.input);
        let coder = DeviceCoder::new(machine, attempts, input);
        let opened = opened.with_decoder(&coder);
        // The CPU's lanes would convert byte orders no faster than the codecs do, and this process
        // does not convert any.
        let is_for_worker = !slots.whole.memory().is_private() && self.order != Order::Nothing;
        let opened = if is_for_worker { opened.keep_byte_orders() } else { opened };
        let workspace = slots.whole.workspace(opened.workspace());
        slots.whole.begin_at(self.lead(&opened));
        let slot = slots.whole.bytes_mut();
        let help = Help { cores: &machine.cores, coder: Some(&coder) };
        let decoded = opened.decode(slot, workspace, help)?;
        let channel = self.channel_of(work.page.as_ref());
        self.give(slots.whole.bytes_mut(), Content::Pixels, &decoded, channel)?;
        let scratch = self.scratch_bytes(&decoded.layout);
        slots.whole.keep_aside(decoded.heap_bytes(&self.settings.target) + scratch);
        Ok((slots, Content::Pixels, decoded))
    }
}

/// Returns the object to divide into boxes that the file of a job belongs to, as far as is known.
pub(super) fn divided_by(work: &QueuedJob) -> Divided {
    work.part().map_or(Divided::ONE, |part| part.divided)
}

/// Keeps the pixels of a picture that waits for others in memory, if there is room.
pub(super) fn park(run: &Run<'_>, slot: Slot, picture: Picture) -> (QueuedJob, Option<ParkedId>) {
    let Picture { decoded, work, class, file, .. } = picture;
    let pixels = decoded.layout.bytes();
    let beside = decoded.heap_bytes(&work.job.settings.target);
    let content = || Box::new(ParkedPicture { decoded, class, file }) as Box<_>;
    (work, run.machine.pool.park(slot, pixels, beside, content))
}
