//! Files to pixels and back: the only place that knows picture formats.
//!
//! ```
//! use std::io::Write;
//!
//! use histeqd_codec::{Cores, Format, Limits, Target, encode, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target {
//!     format: Some(Format::Png),
//!     ..Target::AS_STORED
//! };
//! let limits = Limits { max_pixels: 1 << 28, max_bytes: 1 << 30 };
//! let mut input = tempfile::NamedTempFile::new()?;
//! input.write_all(b"P5 2 1 255 \x10\x20")?;
//!
//! let mut bytes = Vec::new();
//! let mut file = input.reopen()?;
//! let picture = open(&mut file, &mut bytes, &limits, &target)?;
//! let mut pixels = vec![0; picture.slot_bytes()];
//! let workspace = vec![0; picture.workspace().bytes as usize];
//! let decoded = picture.decode(&mut pixels, workspace, &Cores::none())?;
//! assert_eq!(pixels, [0x10, 0x20]);
//!
//! let mut output = tempfile::tempfile()?;
//! encode(&decoded, &mut pixels, &target, &mut Vec::new(), &Cores::none(), &mut output)?;
//! # Ok(())
//! # }
//! ```
//!
//! [`open`] reads a file's header and checks it against the limits and the output format, before
//! memory is taken for pixels; [`Opened::decode`] puts the pixels at the front of a buffer (a
//! slot); [`encode`] writes the contents of the slot. Whatever else a format has to carry along (a
//! JPEG's chroma) stays private to [`Decoded`]; for a device that encodes,
//! [`Opened::decode_planes`] puts it after the pixels. A device that converts byte orders itself
//! gets them as they are in the file ([`Opened::keep_byte_orders`]). [`Cores`] has idle cores help
//! with one large picture.
//!
//! Samples that are not levels (signed integers, integers of more than 16 bits, floats) become
//! levels in the slot, and samples again in the output.
//!
//! A file may have several pages. [`Opened::take_pages`] returns where they are, [`open_page`]
//! opens each, and a [`PageWriter`] writes them back into one file, in whatever order they come.
//!
//! The frames of an animation are one picture: they lie below each other in the slot.
//!
//! Pictures that could not be written back in full (complex samples) are refused here, by name.
//! CMYK becomes RGB.

// Parts that formats share may be unused where a format is left out of the build.
#![cfg_attr(
    not(all(feature = "dicom", feature = "jpeg2000", feature = "jxl", feature = "zarr")),
    allow(dead_code, unused_imports)
)]

use std::fs::File;

use equalize::{ByteOrders, Layout, Levels};

mod animation;
mod bands;
mod bmp;
mod budget;
mod codestream;
mod cores;
mod decode;
mod deflate;
mod depth;
#[cfg_attr(not(feature = "dicom"), path = "left_out/dicom.rs")]
mod dicom;
mod elements;
mod error;
mod fill_value;
mod foreign;
mod format;
mod gif;
mod guard;
mod ifd;
mod image_store;
mod inflate;
mod inks;
mod input;
mod jpeg;
#[cfg_attr(not(feature = "jpeg2000"), path = "left_out/jpeg2000.rs")]
mod jpeg2000;
#[cfg_attr(not(feature = "jxl"), path = "left_out/jxl.rs")]
mod jxl;
mod levels;
mod mapped;
mod metadata;
mod multiscales;
mod no_data;
mod object;
mod opened;
mod output;
mod pages;
mod pfm;
mod png;
mod pnm;
mod preview;
mod range;
mod reader;
mod remark;
mod representation;
mod samples;
mod shrink;
mod slice;
mod stated;
mod streams;
mod target;
mod tiff;
mod uncounted;
mod volumes;
mod webp;
mod window;
mod xmp;
#[cfg_attr(not(feature = "zarr"), path = "left_out/zarr.rs")]
mod zarr;

use animation::Animation;
pub use budget::{Budget, Unbounded};
pub use codestream::{BlockCoder, Codestream, CodestreamDecoder};
pub use cores::{Core, Cores};
pub use error::{CodecError, Limit, MemoryNeeds};
pub use fill_value::FillValue;
pub use foreign::{names_foreign, names_unwritten, refused_by_name};
pub use format::{Format, may_have_pages};
pub use gif::QuantizationError;
use guard::guard;
pub use guard::{panic_message, silence_contained_panics};
pub use image_store::{ImageStore, Medium, MediumRef};
pub use input::{waited_for_files, waiting_for_file};
pub use jpeg::{
    BaselineComponent, BaselineOutput, BaselinePicture, CanonicalCode, Codebook, CompressedJpeg, Divisors,
};
pub use jpeg2000::decode_codestream;
use levels::Scale;
use mapped::Mapped;
use metadata::MetadataBytes;
pub use metadata::{Georeference, Metadata, Resolution};
pub use multiscales::{
    Axis, DOCUMENTS as IMAGE_DOCUMENTS, GroupError, LONGEST as LONGEST_DOCUMENT, METADATA as IMAGE_METADATA,
    Multiscales, groups_of_labels, image_document, is_collection_folder, is_image_folder, is_labels_folder,
    lists_labels, says_image,
};
pub use object::Object;
pub use opened::{Opened, has_several, open, open_image, open_page, open_within, slice_of};
pub use pages::{PageWriter, Pages};
pub use preview::Preview;
pub use range::Range;
pub use remark::{BytesBehind, Remark};
pub use slice::{OrderedBy, Slice, SliceOrder};
pub use streams::{CodedStreams, Help, StreamCoder, StreamWork, Streams, code_streams};
pub use target::{Derivation, JpegQuality, LevelCount, Limits, PngLevel, Target};
pub use uncounted::Mask;
use uncounted::Uncounted;
pub use volumes::{NoVolumes, SliceOf, Volumes};
pub use window::Window;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Working memory for a decoder; memory that another picture has used before is faster to get.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkspaceNeeds {
    /// Bytes of the workspace, included in [`Opened::heap_bytes`].
    pub bytes: u64,
    /// The most bytes that a decoder with the workspace needs beyond [`Opened::heap_bytes`].
    pub beside: u64,
}

/// The description of a picture's pixels in a slot, and the encoder's other needs.
#[derive(Debug)]
pub struct Decoded {
    /// The layout of the pixels at the front of the slot.
    pub layout: Layout,
    /// The byte order of the pixels as decoded, and the one in which they are to be encoded.
    pub byte_orders: ByteOrders,
    /// Whether every pixel is fully transparent, and all are left out of the counts.
    is_invisible: bool,
    /// The format of the source.
    pub format: Format,
    /// The metadata that travels with the pixels.
    pub metadata: Metadata,
    native: Native,
    /// How levels map to samples, for samples that are not levels.
    mapped: Option<Box<Mapped>>,
    /// How many levels there are, and how they become samples.
    scale: Scale,
    /// The pixels that do not count while devices work on the picture.
    uncounted: Option<Uncounted>,
    /// The level of pixels without data, as it is in the slot.
    no_data: Option<u16>,
    /// The loss of colour, where the palette had to have fewer colours.
    quantized: Option<QuantizationError>,
    /// Whether it is a band of a picture.
    is_band: bool,
    /// The bits that are not 0 in all samples of a band, if levels are looked for.
    used_bits: Option<u16>,
    /// Bytes of the file that were in memory.
    file_bytes: u64,
}

impl Decoded {
    /// Returns the bytes of heap in use until the picture is encoded, the encoder's included.
    ///
    /// They are the metadata; a JPEG's coefficients, and an output about as long as the input; some
    /// rows of a PNG or TIFF, a single one of which can be as long as the picture. Small change is
    /// not counted.
    pub fn heap_bytes(&self, target: &Target) -> u64 {
        let to = target.format_for(self.format);
        let encoder = match (&self.native, to) {
            (Native::Jpeg(native), Format::Jpeg) => native.heap_bytes() + self.file_bytes,
            (Native::Tiff(native), Format::Tiff) if self.restored().is_some() => native.aside_bytes(),
            (Native::Zarr(native), Format::Zarr) => native.heap_bytes(),
            _ if self.restored().is_some() => 0,
            (Native::Tiff(native), Format::Tiff) => native.heap_bytes(&target.layout_for(self.layout)),
            _ => {
                let frame = target.layout_for(self.frame_layout());
                encoder_bytes(to, &frame, self.is_band) + self.animation().map_or(0, Animation::bytes)
            }
        };
        let rows =
            self.restored().map_or(0, |mapped| tiff::bytes_of_rows(mapped.form().row_bytes(&self.layout)));
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

    /// Reduces frames to as many colours as a GIF holds, if a GIF is asked for, and notes the loss.
    ///
    /// To be called after [`Decoded::reduce_depth`].
    pub fn reduce_colours(&mut self, slot: &mut [u8], target: &Target) {
        if target.format == Some(Format::Gif) {
            self.quantized = gif::reduce(self, pixels_of(&self.layout, slot));
        }
    }

    /// Has the frames of an animation written as pictures of their own; returns their number.
    ///
    /// From here on, this describes each frame; their pixels still lie below each other in the
    /// slot. To be called after [`Decoded::reduce_depth`] and [`Decoded::reduce_colours`].
    pub fn separate_frames(&mut self) -> usize {
        let frames = self.frames();
        self.layout = self.frame_layout();
        match &mut self.native {
            Native::Png(native) => native.animation = None,
            Native::WebP(native) => native.animation = None,
            Native::Gif(native) => native.animation.delays.truncate(1),
            _ => {}
        }
        frames
    }

    /// Returns how the frames are played, if it is an animation.
    fn animation(&self) -> Option<&Animation> {
        match &self.native {
            Native::Png(native) => native.animation.as_ref(),
            Native::WebP(native) => native.animation.as_ref(),
            Native::Gif(native) => Some(&native.animation),
            Native::Jpeg(_)
            | Native::Pnm(_)
            | Native::Pfm(_)
            | Native::Tiff(_)
            | Native::Bmp(_)
            | Native::Dicom(_)
            | Native::Zarr(_)
            | Native::Other { .. } => None,
        }
    }

    /// Returns how many levels the pixels in the slot have.
    pub fn levels(&self) -> Levels {
        self.scale.levels
    }

    /// Returns the bits that are not 0 in all samples of a band.
    ///
    /// Only if it was opened with [`LevelCount::Seen`], and its picture does not state its levels.
    ///
    /// The bits of all bands together give the levels: the bands are to be opened again with
    /// [`LevelCount::of_used_bits`] of their union.
    pub fn used_bits(&self) -> Option<u16> {
        self.used_bits
    }

    /// Returns whether the pixels stand for samples that are not levels.
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
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
        if let Native::Dicom(native) = &self.native { native.rescale() } else { None }
    }

    /// Returns the mapping that makes samples of levels again, if samples are restored.
    fn restored(&self) -> Option<&Mapped> {
        self.mapped.as_deref().filter(|mapped| mapped.restores)
    }

    /// Returns the bytes of heap that the metadata takes until the picture is encoded.
    pub fn metadata_heap_bytes(&self, target: &Target) -> u64 {
        self.metadata_bytes().encoded(target.format_for(self.format))
    }

    fn metadata_bytes(&self) -> MetadataBytes {
        let native = match &self.native {
            Native::Png(native) => native.metadata_bytes(),
            Native::Jpeg(native) => native.metadata_bytes(),
            Native::Tiff(native) => native.metadata_bytes(),
            Native::Dicom(native) => native.metadata_bytes(),
            Native::Pnm(_)
            | Native::Pfm(_)
            | Native::Bmp(_)
            | Native::WebP(_)
            | Native::Gif(_)
            | Native::Zarr(_)
            | Native::Other(_) => 0,
        };
        MetadataBytes { native, carried: self.metadata.bytes() }
    }
}

/// Returns the bytes of heap that encoding takes, if only pixels have to be encoded.
fn encoder_bytes(to: Format, layout: &Layout, is_band: bool) -> u64 {
    match to {
        Format::Png if is_band => png::heap_bytes(layout) + png::waiting_bytes(layout),
        Format::Png => png::heap_bytes(layout),
        Format::Tiff => tiff::heap_bytes(layout),
        Format::WebP => webp::encoder_bytes(layout),
        Format::Jpeg => jpeg::encoder_bytes(layout),
        Format::Gif => gif::encoder_bytes(layout),
        Format::Pnm | Format::Bmp | Format::JpegXl | Format::Jpeg2000 | Format::Dicom | Format::Zarr => 0,
    }
}

/// The part of a decoded picture that only the source's own format knows.
#[derive(Debug)]
enum Native {
    Png(png::Native),
    Jpeg(Box<jpeg::Native>),
    Pnm(pnm::Native),
    Pfm(pfm::Native),
    Tiff(Box<tiff::Native>),
    Bmp(bmp::Native),
    WebP(webp::Native),
    Gif(gif::Native),
    /// A picture that is not written back in the same form.
    Other(Other),
    Dicom(dicom::Native),
    Zarr(zarr::Native),
}

/// Losses to report of a picture that is not written back in the same form.
#[derive(Clone, Copy, Debug, Default)]
struct Other {
    /// Whether its colours were inks.
    had_inks: bool,
    /// Whether channels that are neither colour nor alpha were left out.
    lost_channel: bool,
    /// Whether a preview was left out.
    lost_preview: bool,
}

/// The result of a format's decoder, except for the pixels.
#[derive(Debug)]
struct Payload {
    layout: Layout,
    metadata: Metadata,
    native: Native,
    mapped: Option<Box<Mapped>>,
}

/// Encodes the picture in the slot, and writes it to `out` from its current position on.
///
/// Returns the number of bytes written. The encoder works in the slot, and its contents are lost.
/// `scratch` is worth reusing. Idle cores may `help`, or cores and a device for streams.
///
/// # Errors
/// [`CodecError::Io`], [`CodecError::CannotRepresent`] if the pixels or the metadata do not fit
/// into the format, or [`CodecError::Encoder`].
pub fn encode<'h>(
    decoded: &Decoded,
    slot: &mut [u8],
    target: &Target,
    scratch: &mut Vec<u8>,
    help: impl Into<Help<'h>>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let (format, help) = (target.format_for(decoded.format), help.into());
    let cores = help.cores;
    format.check(&decoded.frame_layout())?;
    guard(
        format,
        |reason| CodecError::encoder(format, reason),
        || match format {
            Format::Png => png::encode(decoded, slot, target.png_level, cores, out),
            Format::Jpeg => jpeg::encode(decoded, slot, target.jpeg_quality, scratch, cores, out),
            Format::Pnm => match (&decoded.native, decoded.restored()) {
                (Native::Pfm(native), Some(mapped)) => {
                    pfm::encode((decoded, native, mapped), slot, cores, out)
                }
                _ => pnm::encode(decoded, slot, out),
            },
            Format::Tiff => tiff::encode(decoded, slot, help, out),
            Format::Bmp => bmp::encode(decoded, slot, scratch, out),
            Format::WebP => webp::encode(decoded, slot, scratch, out),
            Format::Gif => gif::encode(decoded, slot, out),
            Format::JpegXl | Format::Jpeg2000 => unreachable!("it was checked that it is written"),
            Format::Dicom => dicom::encode(decoded, slot, target, cores, out),
            Format::Zarr => unreachable!("it has pages, which a PageWriter writes"),
        },
    )
}

/// Writes a JPEG that a GPU encoded, with the picture's metadata, to `out` from its position on.
///
/// Returns the number of bytes written.
///
/// # Errors
/// [`CodecError::Io`], or [`CodecError::Encoder`] if the stream is invalid.
pub fn write_encoded(decoded: &Decoded, stream: &[u8], out: &mut File) -> Result<u64, CodecError> {
    jpeg::write_encoded(decoded, stream, out)
}

/// Returns the bytes of the pixels at the front of a slot.
fn pixels_of<'s>(layout: &Layout, slot: &'s mut [u8]) -> &'s mut [u8] {
    let bytes = usize::try_from(layout.bytes()).expect("pixels in memory have an address");
    &mut slot[..bytes]
}
