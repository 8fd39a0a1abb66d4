//! A picture after its header has been read: its needs, and its pixels.

mod levels;
mod open;
pub(crate) mod pages;

use levels::{DecodedSamples, SlotLevels};
pub use open::{has_several, open, open_image, open_page, open_within, slice_of};

use crate::coding::codestream::{BlockCoder, CodestreamDecoder};
use crate::coding::compressed::CompressedJpeg;
use crate::coding::streams::Help;
use crate::io::input;
use crate::opened::pages::Pages;
use crate::picture::animation;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::picture::guard::guard;
use crate::samples::levels::{Scale, are_looked_for};
use crate::samples::mapped::{self, Purpose};
use crate::samples::uncounted::{self, Mask};
use crate::{CodecError, Decoded, Format, LevelCount, Limits, MemoryNeeds, Range, Target, WorkspaceNeeds};
use equalize::colour::Gray;
use equalize::{ByteOrder, ByteOrders, Depth, Layout};

/// A picture with its header read and accepted.
#[derive(Debug)]
pub struct Opened<'a> {
    format: Format,
    /// The format of the output.
    output: Format,
    /// The layout of the output.
    written: Layout,
    gray: Option<Gray>,
    /// Whether samples stay in the byte orders of the files.
    keeps_byte_orders: bool,
    /// The values between which levels are spread, if they are not the picture's own.
    range: Option<Range>,
    /// The number of levels that samples are taken to have.
    levels: LevelCount,
    /// The no-data value, if samples are levels.
    no_data: Option<f64>,
    /// The mask of the pixels that count.
    mask: Option<Mask>,
    source: Box<dyn Decode + 'a>,
    facts: Facts,
    needs: Needs,
    /// Bytes of the file in memory.
    file_bytes: u64,
    /// The pages of the file, if there are several and this is the first.
    pages: Option<Pages>,
    /// Whether it is a band of a picture.
    is_band: bool,
    /// Whether it is a page that leaves the others of its file.
    leaves: bool,
    /// A device that may decode a codestream.
    decoder: Option<&'a dyn CodestreamDecoder>,
}

impl<'a> Opened<'a> {
    /// Returns the format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the pages of the file if there are several.
    ///
    /// This is the first of them, and the others are for [`open_page`].
    pub fn take_pages(&mut self) -> Option<Pages> {
        self.pages.take()
    }

    /// Returns the number of frames, which lie below each other, of an animation; otherwise 1.
    pub fn frames(&self) -> usize {
        self.facts.frames
    }

    /// Returns the layout of one frame of the output.
    fn written_frame(&self) -> Layout {
        self.written.frame(self.frames() as u32)
    }

    /// Returns the bytes of the samples in a [`PageWriter`](pages::PageWriter)'s file, if known.
    pub fn stored_page_bytes(&self) -> Option<u64> {
        self.source.stored_bytes(&self.written, self.restored().is_some())
    }

    /// Returns the layout of the pixels in the slot, with alpha if some may not count.
    pub fn layout(&self) -> Layout {
        let layout = self.facts.layout_in(self.gray);
        if self.may_hide() { uncounted::with_alpha(layout) } else { layout }
    }

    /// Adds a mask of pixels that do not count.
    ///
    /// It is as large as the picture or as a frame of it.
    #[must_use]
    pub fn with_mask(self, mask: Mask) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// Returns whether pixels that are levels may not count.
    fn may_hide(&self) -> bool {
        self.mask.is_some() || self.no_data.is_some() || self.facts.has_mask
    }

    /// Returns the bytes of slot that [`Opened::decode`] needs.
    ///
    /// They are those of the pixels as they are in the file, or with alpha.
    pub fn slot_bytes(&self) -> usize {
        let bytes = self.stored_bytes().max(if self.may_hide() { self.layout().bytes() } else { 0 });
        usize::try_from(bytes).expect("within the limits, so it has an address")
    }

    /// Returns how far past a multiple of a cache line's 64 bytes the pixels should start.
    ///
    /// It is as far as in the file, which lets whole lines be copied from one to the other.
    pub fn lead(&self) -> usize {
        if self.may_hide() { 0 } else { self.facts.lead }
    }

    /// Returns the bytes of heap that decoding takes, beyond small change and the allowed budget.
    ///
    /// They are those of metadata, a JPEG's coefficients and the like. They are no less than
    /// encoding takes later, because memory is only released in between.
    pub fn heap_bytes(&self) -> u64 {
        let restored = self.restored();
        let kept = restored.map_or(0, |form| form.kept_bytes(self.written.pixels()));
        let own = self.source.encoder_bytes(self.output, &self.written);
        let encoder = match restored {
            Some(form) => mapped::bytes_of_rows(form.row_bytes(&self.written)) + own.unwrap_or(0),
            None => own.unwrap_or_else(|| self.output.encoder_bytes(&self.written_frame(), self.is_band)),
        };
        let metadata = self.facts.metadata;
        let uncovered = self.facts.layout_in(self.gray);
        let hidden = if self.may_hide() { uncounted::heap_bytes(&uncovered) } else { 0 };
        let mask = self.mask.as_ref().map_or(0, Mask::heap_bytes);
        let most = (self.needs.heap + metadata.decoded()).max(encoder + metadata.encoded(self.output));
        kept + hidden + mask + most
    }

    /// Returns the form of samples that are not levels, if the output restores them.
    fn restored(&self) -> Option<mapped::Form> {
        let has_place = self.output.restores(self.format);
        let is_reduced = self.written.depth != self.facts.layout.depth;
        self.facts.mapped.filter(|_| has_place && !is_reduced && self.facts.restores)
    }

    /// Returns the bytes of heap that the picture's metadata takes until it is encoded.
    pub fn metadata_heap_bytes(&self) -> u64 {
        self.facts.metadata.encoded(self.output)
    }

    /// Returns whether levels are looked for in this band: see [`Decoded::used_bits`].
    pub fn looks_for_levels(&self) -> bool {
        let Facts { layout, mapped, stated, .. } = self.facts;
        self.is_band && mapped.is_none() && are_looked_for(self.levels, stated, layout.depth)
    }

    /// Returns whether levels are spread over the picture's own values.
    ///
    /// Equal levels of two such pictures are different values.
    pub fn has_own_range(&self) -> bool {
        let form = self.facts.mapped.map(|form| form.with_levels(self.levels));
        self.range.is_none() && form.is_some_and(|form| form.ends.is_none())
    }

    /// Returns the number of levels that samples are taken to have.
    pub fn levels(&self) -> LevelCount {
        self.levels
    }

    /// Sets the number of levels, instead of the target's.
    #[must_use]
    pub fn with_levels(self, levels: LevelCount) -> Self {
        Self { levels, ..self }
    }

    /// Returns the workspace that makes decoding faster.
    pub fn workspace(&self) -> WorkspaceNeeds {
        self.needs.workspace
    }

    /// Leaves 16-bit samples in the byte orders of the files, where that saves work.
    ///
    /// [`Opened::decode`] then delivers those of the input, and [`encode`](super::encode) expects
    /// those of the output.
    ///
    /// [`Decoded::byte_orders`] has these orders; a program that changes the pixels in between has
    /// to convert them.
    #[must_use]
    pub fn keep_byte_orders(self) -> Self {
        Self { keeps_byte_orders: true, ..self }
    }

    /// Sets a decoder that is asked to decode a codestream before the CPU does.
    #[must_use]
    pub fn with_decoder(self, decoder: &'a dyn CodestreamDecoder) -> Self {
        Self { decoder: Some(decoder), ..self }
    }

    /// Returns whether it has enough streams of deflate for a
    /// [`StreamCoder`](crate::coders::StreamCoder).
    pub fn may_be_inflated(&self) -> bool {
        self.facts.may_be_inflated
    }

    /// Returns its block coder if it is compressed as JPEG 2000, for a [`CodestreamDecoder`].
    pub fn block_coder(&self) -> Option<BlockCoder> {
        self.facts.block_coder
    }

    fn byte_orders(&self) -> ByteOrders {
        // Samples are made of levels in the machine's order, and levels of samples. A sample that
        // would get the level of those without a value is moved off it in the machine's order.
        let may_lack_values = self.facts.mapped.is_some_and(|form| form.no_data.is_some());
        let is_hidden = self.may_hide() || may_lack_values;
        let in_place = self.levels == LevelCount::Full && !is_hidden && self.restored().is_none();
        if !self.keeps_byte_orders || !in_place {
            return ByteOrders::NATIVE;
        }
        // Colours are made gray in the machine's order.
        let is_stored = self.layout() == self.source_layout();
        let from = if is_stored { self.facts.byte_order } else { ByteOrder::Native };
        let is_deep = self.written.depth == Depth::Sixteen;
        let to = if is_deep { self.output.byte_order() } else { ByteOrder::Native };
        ByteOrders { from, to }
    }

    /// Decodes into the front of `slot`, which must have at least [`Opened::slot_bytes`] bytes.
    ///
    /// Its contents are unspecified after an error. `workspace` is the memory that
    /// [`Opened::workspace`] asks for, all zero; if it is shorter, the decoder allocates memory of
    /// its own. It is dropped as soon as it is not needed any more. Idle cores may `help`, or cores
    /// and a device for streams.
    ///
    /// # Errors
    /// Mostly [`CodecError::Malformed`], which includes a file that ends too early: half a picture
    /// is never returned.
    pub fn decode<'h>(
        self,
        slot: &mut [u8],
        workspace: impl AsMut<[u8]>,
        help: impl Into<Help<'h>>,
    ) -> Result<Decoded, CodecError> {
        let Help { cores, coder } = help.into();
        let needed = self.slot_bytes();
        let slot = &mut slot[..needed];
        let (format, gray, written, is_band) = (self.format, self.gray, self.written, self.is_band);
        let byte_orders = self.byte_orders();
        let (restores, levels) = (self.restored().is_some(), self.levels);
        let purpose = Purpose { range: self.range, of_all: None, gray, restores, levels };
        let facts = &self.facts;
        let samples = DecodedSamples {
            stated: facts.stated,
            inverted: facts.is_inverted,
            count: levels,
            no_data: self.no_data,
            mask: self.mask.as_ref(),
            gray,
            are_looked_at: self.looks_for_levels(),
        };
        let (byte_order, output, leaves, decoder) =
            (byte_orders.from, self.output, self.leaves, self.decoder);
        let wanted = Wanted { byte_order, written, output, leaves, purpose, cores, decoder, coder };
        let stored = if self.may_hide() { self.stored_bytes() as usize } else { slot.len() };
        let (whole, slot) = (slot, 0..stored);
        let mut payload = guard(
            format,
            |reason| CodecError::malformed(format, reason),
            || {
                let room = Room { slot: &mut whole[slot], workspace: Box::new(workspace) };
                self.source.decode(room, &wanted)
            },
        )?;
        let SlotLevels { layout, scale, is_invisible, uncounted, no_data, used_bits } =
            samples.into_levels(&mut payload, whole)?;
        Ok(Decoded {
            layout,
            byte_orders,
            is_invisible,
            format,
            metadata: payload.metadata,
            native: payload.native,
            mapped: payload.mapped,
            has_fewer_levels: scale.levels.are_fewer(layout.depth),
            scale,
            uncounted,
            no_data,
            quantized: None,
            is_band,
            used_bits,
            file_bytes: self.file_bytes,
        })
    }

    /// Returns the description for a GPU that does all work on the picture, if that is possible.
    pub fn compressed(&self, target: &Target) -> Option<CompressedJpeg> {
        // Devices do not check samples, and do not know masks.
        if matches!(self.levels, LevelCount::Number(..256)) || self.may_hide() {
            return None;
        }
        self.source.compressed(target)
    }

    /// Copies the file unchanged into the front of `slot`, with room for it, for a GPU to decode.
    ///
    /// Gives `self` back if the picture is not an [`Opened::compressed`] one, or is not worth
    /// showing to a GPU: its Huffman codes are invalid, or its entropy-coded data has no end.
    ///
    /// # Errors
    /// Returns `self`.
    pub fn pass_on(self, slot: &mut [u8]) -> Result<Decoded, Box<Self>> {
        if !self.source.has_scan() {
            return Err(Box::new(self));
        }
        let Self { format, file_bytes, source, .. } = self;
        let Payload { layout, metadata, native, mapped } = source.pass_on(slot);
        let (byte_orders, is_invisible) = (ByteOrders::NATIVE, false);
        Ok(Decoded {
            layout,
            byte_orders,
            is_invisible,
            format,
            metadata,
            native,
            mapped,
            scale: Scale::default(),
            has_fewer_levels: false,
            uncounted: None,
            no_data: None,
            quantized: None,
            is_band: false,
            used_bits: None,
            file_bytes,
        })
    }

    /// Returns the layout that the format's decoder delivers.
    fn source_layout(&self) -> Layout {
        self.facts.layout
    }

    /// Returns the bytes of the pixels as they are in the file.
    fn stored_bytes(&self) -> u64 {
        self.source_layout().bytes().saturating_add(self.needs.beyond)
    }

    /// Refuses a picture that the target cannot represent, or that is over the limits.
    ///
    /// `length` is that of its file.
    fn check(&self, limits: &Limits, length: u64, target: &Target) -> Result<(), CodecError> {
        if !target.splits {
            animation::check(self.frames(), self.format, self.output)?;
        }
        self.check_limits(limits, length)?;
        self.output.check_source(self.format)?;
        self.output.check(&self.written_frame())
    }

    /// Refuses pixels and a file over the limits, such that each limit needs to be raised once.
    fn check_limits(&self, limits: &Limits, length: u64) -> Result<(), CodecError> {
        let (mut layout, mut bytes) =
            (self.source_layout(), self.stored_bytes().saturating_add(self.needs.chroma));
        if let Some(height) = self.pages.as_ref().and_then(Pages::height_of_bands) {
            bytes = (bytes / u64::from(layout.height)).saturating_mul(height.into());
            layout.height = height;
        }
        match limits.check(&layout, bytes, || None) {
            Ok(()) => input::check_length(length, limits).map_err(|why| why.needing(self.needs())),
            Err(_) => limits.check(&layout, bytes.max(length), || self.needs()),
        }
    }

    /// Returns the needs of the picture, if they can be expressed in numbers.
    fn needs(&self) -> Option<MemoryNeeds> {
        /// More than any machine has: sums of such numbers would overflow.
        const BEYOND: u64 = 1 << 48;
        if self.stored_bytes() > BEYOND {
            return None;
        }
        let layout = self.layout();
        let height_of_bands = self.pages.as_ref().and_then(Pages::height_of_bands);
        let pixels = (self.lead() + self.slot_bytes()) as u64;
        let bytes = (pixels + self.heap_bytes()).saturating_add(self.file_bytes);
        Some(MemoryNeeds { layout, height_of_bands, bytes })
    }
}
