//! The description of an opened TIFF, and the needs of reading and writing it, by its header.

use crate::Format;
use crate::formats::tiff::compression::method;
use crate::formats::tiff::strips::{Raster, Shape};
use crate::formats::tiff::{Colours, Method, Source, cut, row_bytes, tags};
use crate::metadata::MetadataBytes;
use crate::picture::decode::{Facts, Needs};
use crate::samples::LINE;
use crate::samples::mapped::bytes_of_rows;
use equalize::Layout;

impl Source<'_> {
    /// Returns the bytes of the channels that are neither colour nor alpha.
    ///
    /// They lie between the pixels at first, and then on the heap.
    pub(super) fn other_bytes(&self) -> u64 {
        self.header.other_bytes()
    }

    /// Returns the strips or tiles of the picture, if they are prescribed for the output.
    pub(super) fn shape(&self) -> Option<Shape> {
        let header = &self.header;
        let is_cut = header.is_band() || header.tile_to_keep().is_some();
        is_cut.then(|| cut::shape(header))
    }

    /// Returns the raster of the output: pixels of a layout, or samples if it `restores` them.
    fn raster(&self, layout: &Layout, restores: bool) -> Raster {
        let raster = match self.header.mapped() {
            Some(form) if restores => Raster::of_form(&form, layout),
            // Samples that become levels lose the channels after their colours.
            Some(_) => Raster::of_levels(layout, 0),
            None => Raster::of_levels(layout, self.header.others),
        };
        Raster { shape: self.shape(), ..raster }
    }

    /// Returns the bytes of heap that an encoder takes beyond rows, for tiles and overviews.
    pub(super) fn aside_bytes(&self) -> u64 {
        let own = self.raster(&self.header.layout, true);
        let raster = Raster { others: own.others + self.header.channels.stride() - 1, ..own };
        let tile = raster.tile().map_or(0, |_| bytes_of_rows((raster.part_row() * raster.rows()) as u64));
        let row_of_tiles = raster.tile().map_or(0, |_| (raster.row() * raster.rows()) as u64);
        let row_of_tiles = match (self.header.is_interleaved(), self.header.kind) {
            // Its channels, one after the other, and all of them together.
            (true, _) => 2 * row_of_tiles,
            (false, Some(_)) => row_of_tiles,
            (false, None) => 0,
        };
        let pyramid = self.pyramid.heap_bytes(&raster, &own, self.header.is_band());
        let masks = self.pyramid.bytes_of_masks();
        tile.saturating_add(row_of_tiles).saturating_add(pyramid).saturating_add(masks)
    }

    pub(super) fn facts(&self) -> Facts {
        let header = &self.header;
        Facts {
            mapped: header.mapped(),
            no_data: header.no_data.filter(|_| header.kind.is_none()),
            may_be_inflated: self.may_be_inflated,
            is_inverted: header.colours == Colours::WhiteIsZero,
            stated: header.stated,
            lead: self.lead(),
            has_mask: self.pyramid.mask_of_picture(header).is_some(),
            metadata: MetadataBytes {
                native: self.directory.bytes_of_values(),
                carried: tags::metadata_bytes(&self.directory),
            },
            ..Facts::of(header.layout)
        }
    }

    /// Returns how far past the start of a cache line the pixels begin, if they lie in the file as
    /// in the slot.
    fn lead(&self) -> usize {
        let header = &self.header;
        let is_whole = header.is_straight() && header.is_direct() && !header.is_band();
        let straight = header.method == Method::Stored && is_whole;
        let start = if straight { self.start } else { 0 };
        if start.is_multiple_of(header.layout.depth.bytes() as u64) {
            (start % LINE as u64) as usize
        } else {
            0
        }
    }

    /// Returns the needs for reading a strip or tile, or for correcting texts.
    pub(super) fn needs(&self) -> Needs {
        let header = &self.header;
        let mask = self.pyramid.mask_of_picture(header);
        let mask = mask.map_or(0, |mask| mask.heap_bytes(header.layout.height));
        let tool = self.tool_bytes.max(self.other_bytes()).max(tags::heap_bytes(&self.directory));
        let beyond = header.other_bytes().saturating_add(header.spare_bytes());
        Needs { beyond, ..Needs::of_heap(mask + tool) }
    }

    pub(super) fn stored_bytes(&self, layout: &Layout, restores: bool) -> Option<u64> {
        let has_masks = !self.header.is_band() && !self.pyramid.masks.is_empty();
        if self.header.method.written() != method::Compression::Stored || has_masks {
            return None;
        }
        let raster = self.raster(layout, restores);
        let overviews = if self.header.is_band() { 0 } else { self.pyramid.stored_bytes(&raster)? };
        raster.all_bytes().checked_add(overviews)
    }

    pub(super) fn encoder_bytes(&self, to: Format, layout: &Layout) -> Option<u64> {
        let bytes = match self.header.other_bytes() {
            0 => self.aside_bytes() + bytes_of_rows(row_bytes(layout, self.header.channels.stride() - 1)),
            other => self.aside_bytes() + other + bytes_of_rows(row_bytes(layout, self.header.others)),
        };
        (to == Format::Tiff).then_some(bytes)
    }
}
