//! The needs of a picture: its memory and its slots.

use super::super::Purpose;
use super::super::passes::is_adaptive;
use super::Loader;
use crate::config::JpegChoice;
use crate::device::task::Pass;
use crate::error::{PictureError, Undivided};
use crate::picture::band_tiles::Bands;
use crate::picture::boxes::Divided;
use crate::slot::rates::{Class, Decodable};
use crate::slot::schedule::{Attempts, Patience, Request, starts};
use crate::slot::{Held, Needs, Room, Slot, SlotError, Slots, most_at_once};
use codec::coders::CompressedJpeg;
use codec::pages::Pages;
use codec::{CodecError, MemoryNeeds, Opened};
use equalize::{Layout, planes};
use lanes::Order;
use tracing::trace_span;

/// A bound, for most files, on the difference between the needs of their pages, in bytes: in tags,
/// and in the longest of the compressed strips.
const DIFFERENCE: u64 = 64 << 10;

/// The slot or slots of a picture, before they are filled.
pub(super) enum EmptySlots {
    /// For its pixels, which the CPU decodes.
    Pixels(Slots),
    /// For its file, which a device decodes.
    Compressed(Slot, CompressedJpeg),
}

impl Loader<'_> {
    /// Returns the description of the picture for a device that processes it alone, if a device
    /// may.
    pub(super) fn compressed(&self, opened: &Opened<'_>) -> Option<CompressedJpeg> {
        let wanted = self.run.settings.jpeg != JpegChoice::Cpu && self.order.is_for_jpegs();
        if wanted { opened.compressed(&self.settings.target) } else { None }
    }

    /// Waits for the slots of a picture. The slots it gets decide whether the CPU or a device
    /// decodes and encodes it.
    pub(super) fn take_empty(
        &self,
        opened: &Opened<'_>,
        held: &Held,
        attempts: &Attempts,
    ) -> Result<EmptySlots, SlotError> {
        let Some(jpeg) = self.compressed(opened) else {
            return self.take_slots(opened, held, attempts).map(EmptySlots::Pixels);
        };
        let request = self.request(opened, attempts);
        let needs = Needs {
            pixels: self.bytes_of_pixels(opened),
            aside: self.bytes_aside(opened),
            compressed: self.order.slot_bytes(&jpeg),
            compressed_aside: opened.metadata_heap_bytes(),
        };
        let patience = self.patience(opened);
        let _span = trace_span!("wait for a slot").entered();
        Ok(match self.run.machine.pool.take_either(needs, held.bytes(), request, patience)? {
            Room::Pixels(slot) => EmptySlots::Pixels(slot.into()),
            Room::Compressed(slot) => EmptySlots::Compressed(slot, jpeg),
        })
    }

    /// Returns how long a JPEG waits for a device that decodes.
    fn patience(&self, opened: &Opened<'_>) -> Patience {
        let machine = self.run.machine;
        let (layout, threads) = (opened.layout(), self.run.settings.threads);
        let (class, least) = (Class::new(opened.format(), &layout), starts::least_time_of_jpeg(&layout));
        if self.run.settings.jpeg == JpegChoice::Gpu {
            Patience::WhileAnyMayCome
        } else if machine.rates.cores_add_little(class, &layout, least, threads) {
            Patience::WhileUp
        } else {
            Patience::Little
        }
    }

    /// Records the expected work of the picture, for the decision whether GPUs start.
    pub(super) fn foresee(&self, opened: &Opened<'_>) {
        let (layout, format) = (opened.layout(), opened.format());
        let (least, decodable) = match self.order {
            _ if self.compressed(opened).is_some() => (starts::least_time_of_jpeg(&layout), Decodable::Jpeg),
            Order::Nothing | Order::Count { .. } => return,
            Order::Equalize(operation)
            | Order::EqualizeFrames { operation, .. }
            | Order::Apply(operation) => {
                if let Some(coder) = opened.block_coder() {
                    (starts::least_time_of_codestream(&layout, coder), Decodable::Codestream)
                } else if opened.may_be_inflated() {
                    (starts::least_time_of_streams(&layout), Decodable::Streams)
                } else {
                    let formats = [format, self.settings.target.format.unwrap_or(format)];
                    (starts::least_time(formats, &layout, operation.method), Decodable::Nothing)
                }
            }
        };
        self.run.machine.rates.foresee(least, decodable);
    }

    /// Returns the facts that decide on the picture's device.
    fn request<'r>(&self, opened: &Opened<'_>, attempts: &'r Attempts) -> Request<'r> {
        let class = Class::new(opened.format(), &opened.layout());
        Request { attempts, worth: self.run.machine.rates.worth(class) }
    }

    /// Waits for slots for the pixels of a picture.
    pub(super) fn take_slots(
        &self,
        opened: &Opened<'_>,
        held: &Held,
        attempts: &Attempts,
    ) -> Result<Slots, SlotError> {
        let (bytes, aside, held) = (self.bytes_of_pixels(opened), self.bytes_aside(opened), held.bytes());
        match planes::layout(&opened.layout()).filter(|_| self.run.settings.split_channels) {
            Some(plane) => {
                self.run.machine.pool.take_split(bytes, aside, self.order.slot_bytes(&plane), held, attempts)
            }
            None => {
                let request = self.request(opened, attempts);
                self.run.machine.pool.take(bytes, aside, held, request).map(Slots::from)
            }
        }
    }

    /// Returns the bytes that the decoder and the devices need in the slot of a picture; for a
    /// band, in the pass that needs the most, which prevents a refusal in a later pass.
    pub(super) fn bytes_of_pixels(&self, opened: &Opened<'_>) -> u64 {
        let layout = opened.layout();
        let of_passes = [Order::Count { equalize: None }, Order::Apply(self.settings.operation)];
        let has_tiles = self.run.purpose == Purpose::Equalize && is_adaptive(&self.settings.operation);
        let has_passes = matches!(self.divided, Divided::Bands(_)) && !has_tiles;
        let of_passes = of_passes.iter().filter(|_| has_passes).map(|order| order.slot_bytes(&layout));
        let of_decoder = (self.lead(opened) + opened.slot_bytes()) as u64;
        of_passes.fold(self.order.slot_bytes(&layout).max(of_decoder), u64::max)
    }

    /// Bytes that decoder and lane need in addition to the slot.
    pub(super) fn bytes_aside(&self, opened: &Opened<'_>) -> u64 {
        opened.heap_bytes() + self.scratch_bytes(&opened.layout())
    }

    /// Bytes that lanes need for a picture in addition to its slot, and the tables of the boxes
    /// that volumes are divided into.
    pub(super) fn scratch_bytes(&self, layout: &Layout) -> u64 {
        self.order.scratch_bytes(layout).saturating_add(self.table_bytes(layout, self.divided))
    }

    fn table_bytes(&self, layout: &Layout, divided: Divided) -> u64 {
        match self.order {
            Order::Nothing => divided.table_bytes(layout, &self.settings.operation),
            _ => 0,
        }
    }

    /// Returns the error of a picture or page that found no slot. For a picture that is not
    /// processed in parts, it states that.
    pub(super) fn lacking(
        &self,
        error: SlotError,
        opened: &Opened<'_>,
        pages: Option<&Pages>,
    ) -> PictureError {
        let SlotError::LargerThanMemory { needed, allowed } = error else { return error.into() };
        match pages {
            None => {
                let why = self.keeps_whole().unwrap_or(Undivided::Format(opened.format()));
                PictureError::WholeTooLarge { needed, allowed, why }
            }
            Some(pages) => {
                let needed = self.enough_for(pages, &opened.layout(), needed);
                let needed = if pages.pictures() > 1 { needed.next_multiple_of(DIFFERENCE) } else { needed };
                SlotError::LargerThanMemory { needed, allowed }.into()
            }
        }
    }

    /// Returns the memory that is enough for the pages of a file, given that one needs `needed`
    /// bytes: with more memory, bands have more rows.
    fn enough_for(&self, pages: &Pages, layout: &Layout, needed: u64) -> u64 {
        let Some(bands) = Bands::of(pages) else { return needed };
        let tables = |each| self.table_bytes(layout, Divided::Bands(Bands { each, ..bands }));
        let beside = u128::from(needed.saturating_sub(tables(bands.each)));
        // The other needs grow no faster than the rows.
        let of_rows = |rows: u32| {
            let bytes = (beside * u128::from(rows)).div_ceil(bands.each.into());
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let mut enough = needed;
        loop {
            let more = match pages.rows_of_bands(most_at_once(enough)) {
                Some(each) => of_rows(each).saturating_add(tables(each)),
                None => of_rows(bands.height).saturating_add(self.bytes_of_whole(layout, bands.height)),
            };
            if more <= enough {
                return enough;
            }
            enough = more;
        }
    }

    /// Returns the bytes that lanes need in addition to the pixels of a picture of this many rows,
    /// if it is processed at once, given the layout of a band.
    fn bytes_of_whole(&self, layout: &Layout, height: u32) -> u64 {
        let (whole, order) = (Layout { height, ..*layout }, Order::Equalize(self.settings.operation));
        let behind = order.slot_bytes(&whole).saturating_sub(whole.bytes());
        behind.saturating_add(order.scratch_bytes(&whole))
    }

    /// Returns the offset in a cache line at which the pixels should begin: 0 if counts or LUTs,
    /// which have to be aligned, follow them.
    pub(super) fn lead(&self, opened: &Opened<'_>) -> usize {
        if self.order.needs_pixels_alone() { opened.lead() } else { 0 }
    }

    /// Adds `--memory` to an error about a picture's size, if that would be the next obstacle.
    pub(super) fn with_memory(&self, error: CodecError) -> CodecError {
        let (_, allowed) = self.run.machine.pool.memory();
        error.within_memory(allowed, |needs| self.bytes_of_needs(needs))
    }

    /// Returns the bytes of memory that a picture with these needs takes in all.
    fn bytes_of_needs(&self, needs: &MemoryNeeds) -> u64 {
        let divided = needs
            .height_of_bands
            .map_or(Divided::ONE, |height| Divided::Bands(Bands { height, each: needs.layout.height }));
        let pass = if needs.height_of_bands.is_some() { Pass::Count } else { Pass::Only };
        let this = Self { order: self.run.order_of(self.settings, &pass, divided), divided, ..*self };
        let behind = this.order.slot_bytes(&needs.layout).saturating_sub(needs.layout.bytes());
        needs.bytes.saturating_add(behind).saturating_add(this.scratch_bytes(&needs.layout))
    }
}
