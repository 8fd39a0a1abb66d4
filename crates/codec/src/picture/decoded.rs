//! A decoded picture: what is known of the pixels in a slot until they are encoded.

use std::any::Any;

use super::animation::Animation;
use super::native::Native;
use super::remark::QuantizationError;
use crate::metadata::{Metadata, MetadataBytes};
use crate::samples::levels::Scale;
use crate::samples::mapped::{self, Mapped};
use crate::samples::uncounted::{Mask, Uncounted};
use crate::{CodecError, Format, Range, Target};
use equalize::{ByteOrders, Layout, Levels};

/// Working memory for a decoder; memory that another picture has used before is faster to get.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkspaceNeeds {
    /// Bytes of the workspace, included in [`heap_bytes`](crate::Opened::heap_bytes).
    pub bytes: u64,
    /// The most bytes that a decoder with the workspace needs beyond
    /// [`heap_bytes`](crate::Opened::heap_bytes).
    pub additional: u64,
}

/// The description of a picture's pixels in a slot, and the encoder's other needs.
#[derive(Debug)]
pub struct Decoded {
    /// The layout of the pixels at the front of the slot.
    pub layout: Layout,
    /// The byte order of the pixels as decoded, and the one in which they are to be encoded.
    pub byte_orders: ByteOrders,
    /// Whether every pixel is fully transparent, and all are left out of the counts.
    pub(crate) is_invisible: bool,
    /// The format of the source.
    pub format: Format,
    /// The metadata that travels with the pixels.
    pub metadata: Metadata,
    pub(crate) native: Box<dyn Native>,
    /// How levels map to samples, for samples that are not levels.
    pub(crate) mapped: Option<Box<Mapped>>,
    /// How many levels there are, and how they become samples.
    pub(crate) scale: Scale,
    /// Whether samples were taken to have fewer levels than they have room for.
    pub(crate) has_fewer_levels: bool,
    /// The pixels that do not count while devices work on the picture.
    pub(crate) uncounted: Option<Uncounted>,
    /// The level of pixels without data, as it is in the slot.
    pub(crate) no_data: Option<u16>,
    /// The loss of colour, where the palette had to have fewer colours.
    pub(crate) quantized: Option<QuantizationError>,
    /// Whether it is a band of a picture.
    pub(crate) is_band: bool,
    /// The bits that are not 0 in all samples of a band, if levels are looked for.
    pub(crate) used_bits: Option<u16>,
    /// Bytes of the file that were in memory.
    pub(crate) file_bytes: u64,
}

impl Decoded {
    /// Returns the bytes of heap in use until the picture is encoded, the encoder's included.
    ///
    /// They are the metadata; a JPEG's coefficients, and an output about as long as the input; some
    /// rows of a PNG or TIFF, a single one of which can be as long as the picture. Small change is
    /// not counted.
    pub fn heap_bytes(&self, target: &Target) -> u64 {
        let to = target.format_for(self.format);
        let restored = self.restored();
        let own = if to == self.format {
            let written = target.layout_for(self.layout);
            self.native.encoder_bytes(&written, self.file_bytes, restored.is_some())
        } else {
            None
        };
        let encoder = own.unwrap_or_else(|| match restored {
            Some(_) => 0,
            None => {
                let frame = target.layout_for(self.frame_layout());
                to.encoder_bytes(&frame, self.is_band) + self.animation().map_or(0, Animation::bytes)
            }
        });
        let rows = restored.map_or(0, |mapped| mapped::bytes_of_rows(mapped.form().row_bytes(&self.layout)));
        let mapped = self.mapped.as_ref().map_or(0, |mapped| mapped.heap_bytes());
        let uncounted = self.uncounted.as_ref().map_or(0, Uncounted::heap_bytes);
        encoder + rows + mapped + uncounted + self.metadata_bytes().encoded(to)
    }

    /// Returns the number of frames that lie below each other, 1 unless it is an animation.
    pub fn frames(&self) -> usize {
        self.animation().map_or(1, Animation::frames)
    }

    /// Returns the layout of a frame: that of the pixels, unless it is an animation.
    pub(crate) fn frame_layout(&self) -> Layout {
        self.layout.frame(self.frames() as u32)
    }

    /// Has the frames of an animation written as pictures of their own; returns their number.
    ///
    /// From here on, this describes each frame; their pixels still lie below each other in the
    /// slot. To be called after [`Decoded::reduce_depth`] and [`Decoded::reduce_colours`].
    pub fn separate_frames(&mut self) -> usize {
        let frames = self.frames();
        self.layout = self.frame_layout();
        self.native.separate();
        frames
    }

    /// Returns how the frames are played, if it is an animation.
    pub(crate) fn animation(&self) -> Option<&Animation> {
        self.native.animation()
    }

    /// Returns how many levels the pixels in the slot have.
    pub fn levels(&self) -> Levels {
        self.scale.levels
    }

    /// Returns the bits that are not 0 in all samples of a band.
    ///
    /// Only if it was opened with [`Seen`](crate::LevelCount::Seen), and its picture does not state
    /// its levels.
    ///
    /// The bits of all bands together give the levels: the bands are to be opened again with
    /// [`of_used_bits`](crate::LevelCount::of_used_bits) of their union.
    pub fn used_bits(&self) -> Option<u16> {
        self.used_bits
    }

    /// Returns whether the pixels stand for samples that are not levels.
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Returns whether a range of values decides over which of them levels are spread.
    ///
    /// It does not for signed integers of 8 and 16 bits, which have the ends of their type.
    pub fn heeds_range(&self) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.form().ends.is_none())
    }

    /// Returns whether samples were taken to have fewer levels than they have room for.
    pub fn has_fewer_levels(&self) -> bool {
        self.has_fewer_levels
    }

    /// Returns whether there is a no-data value that its samples can have.
    pub fn has_no_data_value(&self) -> bool {
        let of_samples = self.mapped.as_ref().is_some_and(|mapped| mapped.form().no_data.is_some());
        self.no_data.is_some() || of_samples
    }

    /// Returns whether it is a segmentation, whose levels are labels.
    pub fn is_segmentation(&self) -> bool {
        self.native.is_segmentation()
    }

    /// Returns whether its file has smaller versions of it, written or not.
    pub fn had_overviews(&self) -> bool {
        self.native.had_overviews()
    }

    /// Returns whether levels are spread over the picture's own range.
    ///
    /// They then stand for other samples than those of another picture.
    pub fn has_own_range(&self) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.spread.has_own_range)
    }

    /// Returns the range of all values but a few, about from the 0.1th to the 99.9th percentile, or
    /// but one.
    ///
    /// Only if these stretch the range that levels are spread over to more than six times as
    /// much.
    pub fn inner_range(&self) -> Option<Range> {
        Some(self.mapped.as_ref()?.spread.inner_range?.range)
    }

    /// Returns slope and intercept from samples to values, if levels stand for stored samples.
    ///
    /// Where these differ from picture to picture, equal levels are other values.
    pub fn rescale(&self) -> Option<[f64; 2]> {
        self.native.rescale()
    }

    /// Returns the mapping that makes samples of levels again, if samples are restored.
    pub(crate) fn restored(&self) -> Option<&Mapped> {
        self.mapped.as_deref().filter(|mapped| mapped.restores)
    }

    /// Returns the bytes of heap that the metadata takes until the picture is encoded.
    pub fn metadata_heap_bytes(&self, target: &Target) -> u64 {
        self.metadata_bytes().encoded(target.format_for(self.format))
    }

    pub(crate) fn metadata_bytes(&self) -> MetadataBytes {
        MetadataBytes { native: self.native.metadata_bytes(), carried: self.metadata.bytes() }
    }

    /// Returns the part that only the source's own format knows, if that is of this type.
    pub(crate) fn native_of<T: Native>(&self) -> Option<&T> {
        let native: &dyn Any = &*self.native;
        native.downcast_ref()
    }
}

impl Mask {
    /// Returns the mask of a decoded picture, with its gray pixels at the front of `slot`.
    ///
    /// Black and transparent pixels do not count; they stay as they are if it `keeps` them.
    ///
    /// # Errors
    /// If there is no memory for it.
    ///
    /// # Panics
    /// If the picture is not gray.
    pub fn new(decoded: &Decoded, slot: &[u8], keeps: bool) -> Result<Self, CodecError> {
        Self::of_pixels(&decoded.layout, slot, keeps)
    }
}

/// The result of a format's decoder, except for the pixels.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) layout: Layout,
    pub(crate) metadata: Metadata,
    pub(crate) native: Box<dyn Native>,
    pub(crate) mapped: Option<Box<Mapped>>,
}
