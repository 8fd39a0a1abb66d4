//! The traits of every format's reader: the description of an opened picture, and its decoding.

use std::fmt::Debug;

use crate::io::cores::Cores;
use crate::metadata::MetadataBytes;
use crate::picture::decoded::Payload;
use crate::samples::mapped::{self, Purpose};
use crate::samples::stated::Stated;
use crate::{
    BlockCoder, CodecError, CodestreamDecoder, CompressedJpeg, Format, StreamCoder, Target, WorkspaceNeeds,
};
use equalize::colour::Gray;
use equalize::{ByteOrder, Layout, Pixel};

/// A picture after its header has been read: its form, and the needs of decoding it.
pub(crate) trait Describe: Debug {
    /// Returns the layout that the decoder delivers.
    fn layout(&self) -> Layout;

    /// Returns the bytes of the metadata once it is decoded.
    fn metadata(&self) -> MetadataBytes {
        MetadataBytes::default()
    }

    /// Returns the number of frames that lie below each other.
    fn frames(&self) -> usize {
        1
    }

    /// Returns the most bytes of heap that decoding takes beyond small change.
    fn heap_bytes(&self) -> u64 {
        0
    }

    /// Returns the bytes of heap that encoding pixels of this layout takes.
    ///
    /// Only if the format is one that keeps more of this picture than its pixels.
    fn encoder_bytes(&self, _to: Format, _layout: &Layout) -> Option<u64> {
        None
    }

    /// Returns the bytes that samples take in the slot beyond the pixels that they become.
    fn beyond_bytes(&self) -> u64 {
        0
    }

    /// Returns the bytes of the samples in the output, as pixels of this layout, if known before.
    ///
    /// Samples that are not levels are made again if `restores` is set.
    fn stored_bytes(&self, _layout: &Layout, _restores: bool) -> Option<u64> {
        None
    }

    /// Returns how far past the start of a cache line the pixels begin.
    ///
    /// 0 unless they lie in the file as they will in the slot.
    fn lead(&self) -> usize {
        0
    }

    /// Returns the byte order that decoding 16-bit samples costs least in.
    fn byte_order(&self) -> ByteOrder {
        ByteOrder::Native
    }

    /// Returns whether the colours are a palette of grays, and the picture should become gray.
    fn is_gray(&self) -> bool {
        false
    }

    /// Returns the file's no-data value, if samples are levels.
    fn no_data(&self) -> Option<f64> {
        None
    }

    /// Returns whether the file marks the pixels that are valid.
    fn has_mask(&self) -> bool {
        false
    }

    /// Returns whether samples that are levels still have white as 0 when they are decoded.
    fn is_inverted(&self) -> bool {
        false
    }

    /// Returns the levels that the file states, if samples are levels.
    fn stated(&self) -> Option<Stated> {
        None
    }

    /// Returns the form of samples that are not levels.
    fn mapped(&self) -> Option<mapped::Form> {
        None
    }

    /// Returns whether samples can be made again of levels, where the output has a place for them.
    fn restores(&self) -> bool {
        true
    }

    /// Returns whether it has enough streams of deflate for a [`StreamCoder`].
    fn may_be_inflated(&self) -> bool {
        false
    }

    /// Returns how its blocks are coded, if it is compressed as JPEG 2000.
    fn block_coder(&self) -> Option<BlockCoder> {
        None
    }
}

/// A picture that the processor decodes.
pub(crate) trait Decode: Describe {
    /// Decodes into `slot`, which has room for the pixels and [`Describe::beyond_bytes`].
    fn decode(self: Box<Self>, slot: &mut [u8], wanted: &Wanted<'_>) -> Result<Payload, CodecError>;

    /// Returns the workspace that makes decoding faster.
    fn workspace(&self) -> WorkspaceNeeds {
        WorkspaceNeeds::default()
    }

    /// Decodes as [`Decode::decode`] does, in a workspace of that size or a shorter one.
    fn decode_with(
        self: Box<Self>,
        slot: &mut [u8],
        _workspace: Box<dyn AsMut<[u8]> + '_>,
        wanted: &Wanted<'_>,
    ) -> Result<Payload, CodecError> {
        self.decode(slot, wanted)
    }

    /// Returns the bytes of the chroma planes that are kept for the encoder.
    fn chroma_bytes(&self) -> u64 {
        0
    }

    /// Returns the description for a device that does all work on the picture, if it can.
    fn compressed(&self, _target: &Target) -> Option<CompressedJpeg> {
        None
    }

    /// Returns whether a device is likely to find the entropy-coded data intact.
    fn has_scan(&self) -> bool {
        false
    }

    /// Copies the file as it is to the start of `slot`, for a device, if it [`Decode::has_scan`].
    fn pass_on(self: Box<Self>, _slot: &mut [u8]) -> Payload {
        unreachable!("no device works on it")
    }
}

/// The purpose and the helpers of decoding a picture.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'w> {
    /// The byte order that 16-bit samples get: the machine's, or that of [`Describe::byte_order`].
    pub(crate) byte_order: ByteOrder,
    /// The layout and the format that will be written.
    pub(crate) written: Layout,
    pub(crate) output: Format,
    /// Whether it is a page that leaves the others of its file.
    pub(crate) leaves: bool,
    /// The use of samples that are not levels.
    pub(crate) purpose: Purpose,
    /// The cores, of which idle ones may help.
    pub(crate) cores: &'w Cores,
    /// A device that may decode a codestream.
    pub(crate) decoder: Option<&'w dyn CodestreamDecoder>,
    /// A device that may inflate streams.
    pub(crate) coder: Option<&'w dyn StreamCoder>,
}

/// Returns a layout in which colours are `gray`, or as they are.
pub(crate) fn in_gray(layout: Layout, gray: Option<Gray>) -> Layout {
    match (gray.is_some(), layout.pixel) {
        (true, Pixel::Rgb) => Layout { pixel: Pixel::Gray, ..layout },
        (true, Pixel::Rgba) => Layout { pixel: Pixel::GrayAlpha, ..layout },
        _ => layout,
    }
}

impl dyn Decode + '_ {
    /// Returns the layout of the pixels in the slot, `gray` or as the decoder delivers them.
    pub(crate) fn layout_in(&self, gray: Option<Gray>) -> Layout {
        in_gray(self.layout(), gray)
    }

    /// Returns the same without the mask that there may be in the place of alpha.
    pub(crate) fn visible_in(&self, gray: Option<Gray>) -> Layout {
        let (layout, mapped) = (self.layout(), self.mapped());
        let visible = mapped.map_or(layout, |form| form.visible(layout.width, layout.height));
        in_gray(Layout { depth: layout.depth, ..visible }, gray)
    }
}
