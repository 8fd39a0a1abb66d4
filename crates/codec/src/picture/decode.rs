//! The trait of every format's reader: the facts about an opened picture, its needs, and its
//! decoding.

use std::fmt::Debug;

use crate::coding::codestream::{BlockCoder, CodestreamDecoder};
use crate::coding::compressed::CompressedJpeg;
use crate::coding::streams::StreamCoder;
use crate::io::cores::Cores;
use crate::metadata::MetadataBytes;
use crate::picture::decoded::Payload;
use crate::samples::mapped::{self, Purpose};
use crate::samples::size::Size;
use crate::samples::stated::Stated;
use crate::{CodecError, Format, Target, WorkspaceNeeds};
use equalize::colour::Gray;
use equalize::{ByteOrder, Layout, Pixel};

/// The facts about a picture whose header has been read.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The layout that the decoder delivers.
    pub(crate) layout: Layout,
    /// The number of frames that lie below each other.
    pub(crate) frames: usize,
    /// The bytes of the metadata once it is decoded.
    pub(crate) metadata: MetadataBytes,
    /// How far past the start of a cache line the pixels begin.
    ///
    /// 0 unless they lie in the file as they will in the slot.
    pub(crate) lead: usize,
    /// The byte order that decoding 16-bit samples costs least in.
    pub(crate) byte_order: ByteOrder,
    /// Whether the colours are a palette of grays, and the picture should become gray.
    pub(crate) is_gray: bool,
    /// The file's no-data value, if samples are levels.
    pub(crate) no_data: Option<f64>,
    /// Whether the file marks the pixels that are valid.
    pub(crate) has_mask: bool,
    /// Whether samples that are levels still have white as 0 when they are decoded.
    pub(crate) is_inverted: bool,
    /// The levels that the file states, if samples are levels.
    pub(crate) stated: Option<Stated>,
    /// The form of samples that are not levels.
    pub(crate) mapped: Option<mapped::Form>,
    /// Whether samples can be made again of levels, where the output has a place for them.
    pub(crate) restores: bool,
    /// Whether it has enough streams of deflate for a [`StreamCoder`].
    pub(crate) may_be_inflated: bool,
    /// The coding of its blocks, if it is compressed as JPEG 2000.
    pub(crate) block_coder: Option<BlockCoder>,
}

impl Facts {
    /// Returns those of one frame of plain levels, without metadata.
    pub(crate) fn of(layout: Layout) -> Self {
        Self {
            layout,
            frames: 1,
            metadata: MetadataBytes::default(),
            lead: 0,
            byte_order: ByteOrder::Native,
            is_gray: false,
            no_data: None,
            has_mask: false,
            is_inverted: false,
            stated: None,
            mapped: None,
            restores: true,
            may_be_inflated: false,
            block_coder: None,
        }
    }

    /// Returns the layout of the pixels in the slot, `gray` or as the decoder delivers them.
    pub(crate) fn layout_in(&self, gray: Option<Gray>) -> Layout {
        in_gray(self.layout, gray)
    }

    /// Returns the same without the mask that there may be in the place of alpha.
    pub(crate) fn visible_in(&self, gray: Option<Gray>) -> Layout {
        let layout = self.layout;
        let visible = self.mapped.as_ref().map_or(layout, |form| form.visible(Size::of(&layout)));
        in_gray(Layout { depth: layout.depth, ..visible }, gray)
    }
}

/// The memory that decoding a picture takes, apart from its pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// The most bytes of heap beyond small change.
    pub(crate) heap: u64,
    /// The bytes that samples take in the slot beyond the pixels that they become.
    pub(crate) beyond: u64,
    /// The bytes of the chroma planes that are kept for the encoder.
    pub(crate) chroma: u64,
    /// The workspace that makes decoding faster.
    pub(crate) workspace: WorkspaceNeeds,
}

impl Needs {
    /// Returns those of a decoder that needs heap only.
    pub(crate) fn of_heap(heap: u64) -> Self {
        Self { heap, ..Self::default() }
    }
}

/// The memory for decoding a picture.
pub(crate) struct Room<'r> {
    /// Room for the pixels and [`Needs::beyond`].
    pub(crate) slot: &'r mut [u8],
    /// A workspace as large as [`Needs::workspace`], or shorter.
    ///
    /// It has any owner, and is released as soon as it is not needed any more.
    pub(crate) workspace: Box<dyn AsMut<[u8]> + 'r>,
}

/// A picture whose header has been read, and its decoder on the CPU.
pub(crate) trait Decode: Debug {
    /// Returns the facts that its header states.
    fn facts(&self) -> Facts;

    /// Returns the memory that decoding takes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Returns the bytes of heap that encoding pixels of this layout takes.
    ///
    /// Only if the format is one that keeps more of this picture than its pixels.
    fn encoder_bytes(&self, _to: Format, _layout: &Layout) -> Option<u64> {
        None
    }

    /// Returns the bytes of the samples in the output, as pixels of this layout, if known before.
    ///
    /// Samples that are not levels are made again if `restores` is set.
    fn stored_bytes(&self, _layout: &Layout, _restores: bool) -> Option<u64> {
        None
    }

    /// Decodes into the slot of `room`.
    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError>;

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
    /// The byte order that 16-bit samples get: the machine's, or [`Facts::byte_order`].
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
