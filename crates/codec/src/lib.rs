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
//! JPEG's chroma) stays private to [`Decoded`]. A device that converts byte orders itself gets them
//! as they are in the file ([`Opened::keep_byte_orders`]), and one that does all work on a JPEG
//! gets the file ([`Opened::pass_on`]). [`Cores`] has idle cores help with one large picture.
//!
//! Samples that are not levels (signed integers, integers of more than 16 bits, floats) become
//! levels in the slot, and samples again in the output.
//!
//! A file may have several pages. [`Opened::take_pages`] returns where they are,
//! [`pages::open_page`] opens each, and a [`pages::PageWriter`] writes them back into one file, in
//! whatever order they come.
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

mod coding;
mod encode;
mod error;
mod format;
mod formats;
mod io;
mod metadata;
mod opened;
mod parts;
mod picture;
mod samples;
mod target;

pub use encode::{encode, write_encoded};
pub use error::object::Object;
pub use error::{CodecError, Limit, MemoryNeeds};
pub use format::Format;
pub use formats::foreign::{names_foreign, names_unwritten, refused_by_name};
pub use formats::may_have_pages;
pub use io::budget::{Budget, Unbounded};
pub use io::cores::{Core, Cores};
pub use io::input::{waited_for_files, waiting_for_file};
pub use metadata::pam::pam_of_new_pixels;
pub use metadata::{Georeference, Metadata, Resolution};
pub use opened::{Opened, has_several, open, open_within};
pub use picture::decoded::{Decoded, WorkspaceNeeds};
pub use picture::guard::{panic_message, silence_contained_panics};
pub use picture::preview::Preview;
pub use picture::remark::{BytesBehind, QuantizationError, Remark};
pub use samples::fill_value::FillValue;
pub use samples::size::Size;
pub use samples::uncounted::Mask;
pub use target::range::Range;
pub use target::window::Window;
pub use target::{Derivation, JpegQuality, LevelCount, Limits, PngLevel, Target};

/// Baseline JPEGs, for a coder on a device: their scans, and the tables and codes of their outputs.
pub mod baseline {
    pub use crate::formats::jpeg::{
        BaselineComponent, BaselineOutput, BaselinePicture, CanonicalCode, Codebook, Divisors,
    };
}

/// The documents of OME-Zarr, and the kinds of folders and objects that they describe.
pub mod multiscales {
    pub use crate::io::image_store::{ImageStore, Medium, MediumRef};
    pub use crate::metadata::multiscales::{
        Axis, DOCUMENTS, GroupError, LONGEST, METADATA, Multiscales, groups_of_labels, image_document,
        is_collection_folder, is_image_folder, is_labels_folder, lists_labels, may_say_collection,
        says_image,
    };
    pub use crate::opened::open_image;
}

/// Pages of a file, or bands of a picture, with their readers and writers.
pub mod pages {
    pub use crate::opened::open_page;
    pub use crate::opened::pages::{PageRef, PageWriter, Pages};
    pub use crate::parts::pages::PageOutput;
}

/// Volumes: the order of their slices, and the pages of a file that are slices of them.
pub mod volumes {
    pub use crate::opened::slice_of;
    pub use crate::parts::slice::{Gaps, OrderedBy, Slice, SliceOrder};
    pub use crate::parts::volumes::{NoVolumes, SliceOf, Volumes};
}

/// Work that a device can do for a reader or writer: compressed streams, codestreams and JPEGs.
pub mod coders {
    pub use crate::coding::codestream::{BlockCoder, Codestream, CodestreamDecoder};
    pub use crate::coding::compressed::CompressedJpeg;
    pub use crate::coding::streams::{CodedStreams, Help, StreamCoder, StreamWork, Streams, code_streams};
    pub use crate::formats::jpeg2000::decode_codestream;
}
