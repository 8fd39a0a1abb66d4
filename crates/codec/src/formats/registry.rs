//! The registry: a row of facts for each format. Only this file names all of them.

use std::fs::File;
use std::path::Path;

#[cfg(feature = "dicom")]
use super::dicom;
#[cfg(feature = "jxl")]
use super::jxl;
use super::{bmp, elements, gif, jpeg, jpeg2000, png, pnm, tiff, webp};
use crate::coding::streams::Help;
#[cfg(not(feature = "zarr"))]
use crate::io::budget::Budget;
#[cfg(feature = "dicom")]
use crate::io::budget::Unbounded;
#[cfg(not(feature = "zarr"))]
use crate::io::image_store::MediumRef;
use crate::metadata::{Metadata, MetadataBytes, Resolution};
use crate::parts::banded::BandSink;
use crate::parts::bands::BandRows;
#[cfg(not(feature = "zarr"))]
use crate::parts::opening::Header;
use crate::parts::opening::{Found, Opening};
use crate::parts::pages::PageSink;
#[cfg(not(feature = "zarr"))]
use crate::parts::pages::Place;
use crate::parts::slice::Slice;
use crate::picture::decode::Decode;
use crate::picture::remark::QuantizationError;
use crate::{CodecError, Decoded, Format, Limits, Target};
use equalize::{ByteOrder, Depth, Layout, Pixel};

/// The facts of a format.
struct Row {
    /// The name that users know.
    name: &'static str,
    /// The usual file name extensions in lower case; new files get the first.
    extensions: &'static [&'static str],
    /// The media type that files are served with.
    media_type: &'static str,
    /// Returns whether a file that begins with these bytes is in the format.
    is_head: fn(&[u8]) -> bool,
    /// The default output format, which is the same if it is written at all.
    written: Format,
    /// The default output format of pictures that may get more colours than they have.
    recoloured: Format,
    /// Whether files may have several pages.
    has_pages: bool,
    /// Whether files may be animations.
    has_frames: bool,
    /// Whether files are written in bands.
    has_bands: bool,
    /// Whether the unit of samples is stated, and windows of their values.
    has_units: bool,
    /// Whether samples may have 16 bits.
    has_deep_samples: bool,
    has_alpha: bool,
    /// The largest width and height, in pixels.
    max_side: u32,
    /// Whether there is a place for XMP and for EXIF.
    has_exif_and_xmp: bool,
    /// Whether there is a place for a georeference.
    has_georeference: bool,
    /// Returns whether a resolution can be stated outside EXIF.
    states_resolution: fn(Resolution) -> bool,
    /// Whether the highest level is stated, which then need not be that of the depth.
    states_top: bool,
    /// The profiles that are kept.
    profile: Profile,
    /// How often metadata that are carried over are in memory while they are encoded.
    metadata_copies: u64,
    /// The byte order of 16-bit samples, where encoding them in it costs least.
    byte_order: ByteOrder,
    /// Returns whether samples of the source's format that are not levels are made again of levels.
    restores: fn(Format) -> bool,
    /// The facts that only a source in the same format has, if there are such.
    only_of_itself: Option<&'static str>,
    /// Reduces frames to as many colours as a file holds, and returns the loss if there is one.
    reduce_colours: Option<ReduceColours>,
    /// Returns the least rows of each band but the last, by the columns of the picture.
    least_rows_of_band: fn(u32) -> u32,
    /// Returns how many rows of a picture of this layout are written together.
    rows_of_strip: fn(&Layout) -> u32,
    /// Returns the bytes of heap that encoding takes, if only pixels have to be encoded.
    ///
    /// They may be those of bands of a picture.
    encoder_bytes: fn(&Layout, bool) -> u64,
    /// Opens a file, unless it has to be read as a whole.
    open: for<'a, 'o> fn(Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError>,
    /// Opens a file that was read as a whole. Some files are mended first.
    open_whole: OpenWhole,
    /// Returns a file with this head and no more of its pixels, if it shows the layout.
    ended: fn(&[u8]) -> Option<Vec<u8>>,
    /// Passes on the source of an animation, without the data of its frames, if it can be opened.
    survey: Survey,
    /// Copies of a file that its coders take, and that the needs by its head do not count.
    file_copies: u64,
    /// The contents of a file that no page can have alone, and the remedy.
    only_of_all_pages: Option<[&'static str; 2]>,
    /// Returns the place of a picture in a series, as a slice.
    slice_of: ReadSlice,
    /// Returns the writer that makes pictures of bands.
    sink_of_bands: fn(BandRows) -> Box<dyn PageSink>,
    /// Writes the pixels of a slot.
    encode: fn(&Decoded, &mut [u8], Encoding<'_>) -> Result<u64, CodecError>,
}

type ReduceColours = fn(&Decoded, &mut [u8]) -> Option<QuantizationError>;

type ReadSlice = fn(&mut File, &mut Vec<u8>, &Limits) -> Result<Option<Slice>, CodecError>;

type Survey = fn(&File, head: &[u8], length: u64, &mut dyn FnMut(Box<dyn Decode + '_>));

type OpenWhole = for<'a> fn(&'a mut [u8], &Limits, &Target) -> Result<Box<dyn Decode + 'a>, CodecError>;

/// The profiles that a format keeps.
#[derive(Clone, Copy)]
enum Profile {
    None,
    /// Those for pixels of the picture's kind.
    OfPixels,
    /// Those for RGB, in which it stores gray as well.
    OfRgb,
}

/// The settings of an encoder, and its help.
pub(crate) struct Encoding<'e> {
    pub(crate) target: &'e Target,
    /// A buffer that is worth reusing.
    pub(crate) scratch: &'e mut Vec<u8>,
    pub(crate) help: Help<'e>,
    pub(crate) out: &'e mut File,
}

/// The facts of a format that is read as a whole and not written.
const PLAIN: Row = Row {
    name: "",
    extensions: &[],
    media_type: "",
    is_head: |_| false,
    written: Format::Tiff,
    recoloured: Format::Tiff,
    has_pages: false,
    has_frames: false,
    has_bands: false,
    has_units: false,
    has_deep_samples: false,
    has_alpha: true,
    max_side: u32::MAX,
    has_exif_and_xmp: false,
    has_georeference: false,
    states_resolution: |_| false,
    states_top: false,
    profile: Profile::None,
    metadata_copies: 0,
    byte_order: ByteOrder::Native,
    restores: |_| false,
    only_of_itself: None,
    reduce_colours: None,
    least_rows_of_band: |_| 1,
    rows_of_strip: |_| 1,
    encoder_bytes: |_, _| 0,
    open: |opening| Ok(Found::Whole(opening)),
    open_whole: in_parts,
    ended: |_| None,
    survey: |_, _, _, _| {},
    file_copies: 0,
    only_of_all_pages: None,
    slice_of: |_, _, _| Ok(None),
    sink_of_bands: no_bands,
    encode: never,
};

const fn row(format: Format) -> &'static Row {
    match format {
        Format::Png => &PNG,
        Format::Jpeg => &JPEG,
        Format::Tiff => &TIFF,
        Format::Pnm => &PNM,
        Format::Bmp => &BMP,
        Format::WebP => &WEBP,
        Format::Gif => &GIF,
        Format::JpegXl => &JPEG_XL,
        Format::Jpeg2000 => &JPEG_2000,
        Format::Dicom => &DICOM,
        Format::Zarr => &ZARR,
    }
}

static PNG: Row = Row {
    name: "PNG",
    extensions: &["png", "apng"],
    media_type: "image/png",
    is_head: |head| head.starts_with(b"\x89PNG\r\n\x1a\n"),
    written: Format::Png,
    recoloured: Format::Png,
    has_frames: true,
    has_bands: true,
    has_deep_samples: true,
    max_side: i32::MAX as u32,
    has_exif_and_xmp: true,
    states_resolution: |_| true,
    profile: Profile::OfPixels,
    metadata_copies: 2,
    byte_order: ByteOrder::BIG_ENDIAN,
    least_rows_of_band: png::least_rows,
    encoder_bytes: |layout, is_band| {
        png::heap_bytes(layout) + if is_band { png::waiting_bytes(layout) } else { 0 }
    },
    open: png::open,
    open_whole: |bytes, _, _| Ok(Box::new(png::Source::open(bytes)?)),
    ended: png::ended,
    sink_of_bands: |rows| Box::new(png::Writer::new(rows)),
    encode: |decoded, slot, to| png::encode(decoded, slot, to.target.png_level, to.help.cores, to.out),
    survey: png::survey,
    ..PLAIN
};

static JPEG: Row = Row {
    name: "JPEG",
    extensions: &["jpg", "jpeg", "jpe", "jfif"],
    media_type: "image/jpeg",
    is_head: |head| head.starts_with(b"\xff\xd8\xff"),
    written: Format::Jpeg,
    recoloured: Format::Jpeg,
    has_alpha: false,
    // Libjpeg's limit, a little below the standard's.
    max_side: 65500,
    has_exif_and_xmp: true,
    states_resolution: jpeg::can_state,
    profile: Profile::OfPixels,
    metadata_copies: 3,
    encoder_bytes: |layout, _| jpeg::encoder_bytes(layout),
    open_whole: |bytes, _, target| jpeg::open(bytes, target),
    ended: jpeg::ended,
    encode: |decoded, slot, to| {
        jpeg::encode(decoded, slot, to.target.jpeg_quality, to.scratch, to.help.cores, to.out)
    },
    file_copies: 2,
    ..PLAIN
};

static TIFF: Row = Row {
    name: "TIFF",
    extensions: &["tif", "tiff", "svs"],
    media_type: "image/tiff",
    is_head: |head| matches!(head, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..]),
    written: Format::Tiff,
    recoloured: Format::Tiff,
    has_pages: true,
    has_bands: true,
    has_deep_samples: true,
    has_exif_and_xmp: true,
    has_georeference: true,
    states_resolution: |_| true,
    profile: Profile::OfPixels,
    metadata_copies: 2,
    restores: |from| from != Format::Dicom,
    rows_of_strip: tiff::rows_of_strip,
    encoder_bytes: |layout, _| tiff::heap_bytes(layout),
    open: tiff::open,
    sink_of_bands: |rows| Box::new(tiff::Writer::of_plain_bands(rows)),
    encode: |decoded, slot, to| tiff::encode(decoded, slot, to.help, to.out),
    ..PLAIN
};

static PNM: Row = Row {
    name: "PNM",
    extensions: &["pnm", "pgm", "ppm", "pam", "pbm", "pfm"],
    media_type: "image/x-portable-anymap",
    is_head: pnm::is_head,
    written: Format::Pnm,
    recoloured: Format::Pnm,
    has_bands: true,
    has_deep_samples: true,
    states_top: true,
    byte_order: ByteOrder::BIG_ENDIAN,
    restores: |from| from == Format::Pnm,
    open: pnm::open,
    sink_of_bands: |rows| Box::new(BandSink::new(rows, pnm::write_band)),
    encode: |decoded, slot, to| pnm::encode(decoded, slot, to.help.cores, to.out),
    ..PLAIN
};

static BMP: Row = Row {
    name: "BMP",
    extensions: &["bmp", "dib"],
    media_type: "image/bmp",
    is_head: bmp::is_head,
    written: Format::Bmp,
    recoloured: Format::Bmp,
    has_bands: true,
    max_side: i32::MAX as u32,
    states_resolution: |_| true,
    profile: Profile::OfRgb,
    open: bmp::open,
    open_whole: |bytes, _, _| Ok(Box::new(bmp::Source::mended(bytes)?)),
    ended: |head| Some(head.to_vec()),
    sink_of_bands: |rows| Box::new(BandSink::new(rows, bmp::write_band)),
    encode: |decoded, slot, to| bmp::encode(decoded, slot, to.scratch, to.out),
    ..PLAIN
};

static WEBP: Row = Row {
    name: "WebP",
    extensions: &["webp"],
    media_type: "image/webp",
    is_head: |head| matches!(head, [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..]),
    written: Format::WebP,
    recoloured: Format::WebP,
    has_frames: true,
    max_side: 16383,
    has_exif_and_xmp: true,
    profile: Profile::OfRgb,
    metadata_copies: 3,
    encoder_bytes: |layout, _| webp::encoder_bytes(layout),
    open_whole: |bytes, _, _| Ok(Box::new(webp::Source::open(bytes)?)),
    ended: webp::ended,
    encode: |decoded, slot, to| webp::encode(decoded, slot, to.scratch, to.out),
    ..PLAIN
};

static GIF: Row = Row {
    name: "GIF",
    extensions: &["gif"],
    media_type: "image/gif",
    is_head: |head| matches!(head, [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..]),
    written: Format::Gif,
    recoloured: Format::Png,
    has_frames: true,
    max_side: u16::MAX as u32,
    reduce_colours: Some(gif::reduce),
    encoder_bytes: |layout, _| gif::encoder_bytes(layout),
    open_whole: |bytes, _, _| Ok(Box::new(gif::Source::open(bytes)?)),
    encode: |decoded, slot, to| gif::encode(decoded, slot, to.out),
    survey: gif::survey,
    ..PLAIN
};

static JPEG_XL: Row = Row {
    name: "JPEG XL",
    extensions: &["jxl"],
    media_type: "image/jxl",
    is_head: |head| matches!(head, [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..]),
    written: Format::Tiff,
    recoloured: Format::Tiff,
    has_deep_samples: true,
    has_exif_and_xmp: true,
    states_resolution: |_| true,
    #[cfg(feature = "jxl")]
    open_whole: |bytes, limits, _| jxl::open(bytes, limits),
    #[cfg(not(feature = "jxl"))]
    open_whole: |_, _, _| Err(left_out(Format::JpegXl, "jxl")),
    ..PLAIN
};

static JPEG_2000: Row = Row {
    name: "JPEG 2000",
    extensions: &["jp2", "j2k", "j2c", "jph", "jpx", "jpf"],
    media_type: "image/jp2",
    is_head: |head| matches!(head, [0xff, 0x4f, 0xff, 0x51, ..] | [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..]),
    written: Format::Tiff,
    recoloured: Format::Tiff,
    has_deep_samples: true,
    has_exif_and_xmp: true,
    states_resolution: |_| true,
    open_whole: |bytes, limits, _| jpeg2000::open(bytes, limits),
    ..PLAIN
};

static DICOM: Row = Row {
    name: "DICOM",
    extensions: &["dcm", "dicom", "ima"],
    media_type: "application/dicom",
    is_head: elements::is_head,
    written: Format::Dicom,
    recoloured: Format::Dicom,
    has_pages: true,
    has_units: true,
    has_deep_samples: true,
    max_side: u16::MAX as u32,
    states_resolution: |_| true,
    restores: |_| true,
    only_of_itself: Some("patient and study"),
    #[cfg(feature = "dicom")]
    open: dicom::open,
    #[cfg(not(feature = "dicom"))]
    open: |_| Err(left_out(Format::Dicom, "dicom")),
    #[cfg(feature = "dicom")]
    slice_of: |file, buffer, limits| dicom::slice_of(file, buffer, limits, &mut Unbounded),
    #[cfg(not(feature = "dicom"))]
    slice_of: |_, _, _| Err(left_out(Format::Dicom, "dicom")),
    #[cfg(feature = "dicom")]
    encode: |decoded, slot, to| dicom::encode(decoded, slot, to.target, to.help.cores, to.out),
    only_of_all_pages: Some([
        "a single frame with the description of all frames",
        "use --format png, jpeg or tiff",
    ]),
    ..PLAIN
};

static ZARR: Row = Row {
    name: "OME-Zarr",
    extensions: &["zarr"],
    media_type: "application/vnd.zarr",
    is_head: |_| false,
    written: Format::Zarr,
    recoloured: Format::Zarr,
    has_pages: true,
    has_deep_samples: true,
    restores: |_| true,
    ..PLAIN
};

/// Takes the place of a reader of whole files in a format that is read in parts.
fn in_parts<'a>(_: &'a mut [u8], _: &Limits, _: &Target) -> Result<Box<dyn Decode + 'a>, CodecError> {
    unreachable!("the format is read in parts")
}

/// Returns the error for a file of a format that the build lacks.
#[cfg(not(all(feature = "dicom", feature = "jxl", feature = "zarr")))]
const fn left_out(format: Format, feature: &'static str) -> CodecError {
    CodecError::LeftOut { format, feature }
}

/// Opens an image that is a tree of values, or a page of it.
#[cfg(feature = "zarr")]
pub(crate) use super::zarr::open as open_folder;

/// Refuses an image that is a tree of values.
#[cfg(not(feature = "zarr"))]
pub(crate) fn open_folder(
    _: MediumRef<'_>,
    _: &Limits,
    _: &dyn Budget,
    _: &Target,
    _: Option<Place>,
) -> Result<Header<'static>, CodecError> {
    Err(left_out(Format::Zarr, "zarr"))
}

/// Takes the place of an encoder that is never called, after [`Format::check`].
///
/// A format is never written, or its pages are, by a writer of pages.
fn never(_: &Decoded, _: &mut [u8], _: Encoding<'_>) -> Result<u64, CodecError> {
    unreachable!("pictures are not written in the format")
}

/// Takes the place of a writer of bands that is never made: see [`Format::has_bands`].
fn no_bands(_: BandRows) -> Box<dyn PageSink> {
    unreachable!("the format is not written in bands")
}

/// Returns the writer of pages of another format, which become those of a TIFF.
pub(crate) fn sink_of_pages(count: usize) -> Box<dyn PageSink> {
    Box::new(tiff::Writer::new(count))
}

// Every variant but the last, which is one of folders, is in `Format::ALL`, in the same order.
const _: () = {
    let mut index = 0;
    while index < Format::ALL.len() {
        assert!(Format::ALL[index] as usize == index);
        index += 1;
    }
    assert!(Format::Zarr as usize == index);
};

impl Format {
    /// The format of images that are folders.
    pub(crate) const OF_FOLDERS: Self = Self::Zarr;

    /// Every format of files.
    pub const ALL: [Self; 10] = [
        Self::Png,
        Self::Jpeg,
        Self::Tiff,
        Self::Pnm,
        Self::Bmp,
        Self::WebP,
        Self::Gif,
        Self::JpegXl,
        Self::Jpeg2000,
        Self::Dicom,
    ];

    /// Returns the default output format of pictures of this one.
    ///
    /// It is the same format, if that is written at all.
    pub const fn written(self) -> Self {
        row(self).written
    }

    /// Returns the default output format of pictures that may get more colours than they have.
    pub(crate) const fn recoloured(self) -> Self {
        row(self).recoloured
    }

    /// Returns whether pictures are written in this format.
    pub fn is_written(self) -> bool {
        self.written() == self
    }

    /// Returns the name that users know.
    pub const fn name(self) -> &'static str {
        row(self).name
    }

    /// Returns the usual file name extensions in lower case; new files get the first.
    pub const fn extensions(self) -> &'static [&'static str] {
        row(self).extensions
    }

    /// Returns the media type that files in the format are served with.
    ///
    /// PNM has no registered one; this is the customary one.
    pub const fn media_type(self) -> &'static str {
        row(self).media_type
    }

    /// Returns the format that the extension of a file's name stands for, in any case.
    pub fn of_name(path: &Path) -> Option<Self> {
        let own = path.extension()?.to_str()?;
        Self::ALL
            .into_iter()
            .find(|format| format.extensions().iter().any(|known| known.eq_ignore_ascii_case(own)))
    }

    /// How many bytes at the start of a file are enough to detect its format.
    pub const HEAD: usize = 2 << 10;

    /// Detects the format from the first bytes of a file, [`Format::HEAD`] or more.
    pub fn sniff(head: &[u8]) -> Option<Self> {
        // DICOM, the last of all, may begin as another format does.
        Self::ALL.into_iter().rev().find(|&format| (row(format).is_head)(head))
    }

    /// Returns whether files in the format may have several pages.
    pub(crate) const fn has_pages(self) -> bool {
        row(self).has_pages
    }

    /// Returns whether files in the format may be animations.
    pub(crate) const fn has_frames(self) -> bool {
        row(self).has_frames
    }

    /// Returns whether files in the format are written in bands.
    pub(crate) const fn has_bands(self) -> bool {
        row(self).has_bands
    }

    /// Returns whether files in the format state the unit of their samples, and windows of values.
    pub(crate) const fn has_units(self) -> bool {
        row(self).has_units
    }

    /// Returns whether the format has a place for XMP and for EXIF.
    pub(crate) const fn supports_exif_and_xmp(self) -> bool {
        row(self).has_exif_and_xmp
    }

    /// Returns whether the format has a place for a georeference.
    pub(crate) const fn supports_georeference(self) -> bool {
        row(self).has_georeference
    }

    /// Returns whether files in the format can state a resolution outside EXIF.
    pub(crate) fn states_resolution(self, resolution: Resolution) -> bool {
        (row(self).states_resolution)(resolution)
    }

    /// Returns whether files in the format state their highest level.
    pub(crate) const fn states_top(self) -> bool {
        row(self).states_top
    }

    /// Returns the copies of a file that coders take, and that the needs by its head do not count.
    pub(crate) const fn file_copies(self) -> u64 {
        row(self).file_copies
    }

    /// Returns the contents of a file that no page can have alone, and the remedy.
    pub(crate) const fn only_of_all_pages(self) -> Option<[&'static str; 2]> {
        row(self).only_of_all_pages
    }

    /// Returns whether an image is a folder.
    pub(crate) fn is_folder(self) -> bool {
        self == Self::OF_FOLDERS
    }

    /// Passes on the source of an animation, without the data of its frames, if it can be opened.
    ///
    /// The file has this head and length.
    pub(crate) fn survey(
        self,
        file: &File,
        head: &[u8],
        length: u64,
        take: &mut dyn FnMut(Box<dyn Decode + '_>),
    ) {
        (row(self).survey)(file, head, length, take);
    }

    /// Returns the byte order of 16-bit samples that encoding costs least in.
    pub(crate) const fn byte_order(self) -> ByteOrder {
        row(self).byte_order
    }

    /// Returns whether samples that are not levels are made again, if the source is in `from`.
    pub(crate) fn restores(self, from: Self) -> bool {
        (row(self).restores)(from)
    }

    /// Returns the least rows of each band but the last, by the columns of the picture.
    pub(crate) const fn least_rows_of_band(self) -> fn(u32) -> u32 {
        row(self).least_rows_of_band
    }

    /// Returns how many rows of a picture of this layout are written together.
    pub(crate) fn rows_of_strip(self, layout: &Layout) -> u32 {
        (row(self).rows_of_strip)(layout)
    }

    /// Returns the bytes of heap that encoding takes, if only pixels have to be encoded.
    pub(crate) fn encoder_bytes(self, layout: &Layout, is_band: bool) -> u64 {
        (row(self).encoder_bytes)(layout, is_band)
    }

    /// Opens a file, unless it has to be read as a whole.
    pub(crate) fn open<'a, 'o>(self, opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
        (row(self).open)(opening)
    }

    /// Opens a file that was read as a whole. Some files are mended first.
    pub(crate) fn open_whole<'a>(
        self,
        bytes: &'a mut [u8],
        limits: &Limits,
        target: &Target,
    ) -> Result<Box<dyn Decode + 'a>, CodecError> {
        (row(self).open_whole)(bytes, limits, target)
    }

    /// Returns a file with this head and no more of its pixels, if it shows the layout.
    ///
    /// The pixels of an animation are those of all frames, and other formats check their own sides.
    pub(crate) fn ended(self, head: &[u8]) -> Option<Vec<u8>> {
        (row(self).ended)(head)
    }

    /// Returns the place of a picture in a series, as a slice, if the format states one.
    pub(crate) fn slice_of(
        self,
        file: &mut File,
        buffer: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<Option<Slice>, CodecError> {
        (row(self).slice_of)(file, buffer, limits)
    }

    /// Returns the writer that makes pictures of bands, after [`Format::has_bands`].
    pub(crate) fn sink_of_bands(self, rows: BandRows) -> Box<dyn PageSink> {
        (row(self).sink_of_bands)(rows)
    }

    /// Reduces frames to as many colours as a file holds, and returns the loss if there is one.
    pub(crate) fn reduce_colours(self, decoded: &Decoded, pixels: &mut [u8]) -> Option<QuantizationError> {
        row(self).reduce_colours.and_then(|reduce| reduce(decoded, pixels))
    }

    /// Writes the pixels of a slot, after [`Format::check`].
    pub(crate) fn encode(
        self,
        decoded: &Decoded,
        slot: &mut [u8],
        to: Encoding<'_>,
    ) -> Result<u64, CodecError> {
        (row(self).encode)(decoded, slot, to)
    }

    /// Checks that the format can hold a picture of another one.
    pub(crate) fn check_source(self, source: Self) -> Result<(), CodecError> {
        let Some(facts) = row(self).only_of_itself.filter(|_| source != self) else { return Ok(()) };
        Err(CodecError::cannot_represent(
            self,
            format!("a {source}, whose {facts} are unknown"),
            format!("use another --format for files other than {self}"),
        ))
    }

    /// Checks that the format can hold pixels of this layout.
    ///
    /// # Errors
    /// [`CodecError::CannotRepresent`], which names formats that can.
    pub fn check(self, layout: &Layout) -> Result<(), CodecError> {
        let row = row(self);
        let (what, remedy) = if !self.is_written() {
            ("a picture that is written here".to_owned(), "use another --format")
        } else if !row.has_deep_samples && layout.depth == Depth::Sixteen {
            ("16-bit samples".to_owned(), "use --depth 8, or --format png, tiff or pnm")
        } else if !row.has_alpha && layout.pixel.has_alpha() {
            ("transparency".to_owned(), "use --format png, tiff, webp or pnm")
        } else if layout.width.max(layout.height) > row.max_side {
            (format!("{}x{} pixels", layout.width, layout.height), "use --format png, tiff or pnm")
        } else {
            return Ok(());
        };
        Err(CodecError::cannot_represent(self, what, remedy))
    }
}

impl Metadata {
    /// Returns the ICC profile if a picture of this kind keeps it in a format.
    ///
    /// WebP has no gray, and gray BMPs have a palette of RGB colours: their profiles have to be for
    /// RGB.
    pub(crate) fn icc_in(&self, format: Format, pixel: Pixel) -> Option<&[u8]> {
        match row(format).profile {
            Profile::OfPixels => self.icc_for(pixel),
            Profile::OfRgb => self.icc_for(Pixel::Rgb),
            Profile::None => None,
        }
    }
}

impl MetadataBytes {
    /// Returns the bytes of metadata while it is encoded.
    ///
    /// They are the decoded parts, as segments, tags or chunks, and those in the output, of which a
    /// buffer that grows may hold two copies.
    pub(crate) fn encoded(self, to: Format) -> u64 {
        self.decoded() + row(to).metadata_copies * self.carried
    }
}

/// Returns whether a file of this name may have several pages, before it is opened.
pub fn may_have_pages(path: &Path) -> bool {
    Format::of_name(path).is_none_or(Format::has_pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dicom_is_known_with_and_without_its_preamble() {
        let explicit = [&b"\x08\0\x05\0CS\x02\0ab"[..], b"\x08\0\x08\0CS\x02\0cd"].concat();
        let implicit = [&b"\x08\0\0\0\x04\0\0\0abcd"[..], b"\x08\0\x08\0\x02\0\0\0cd"].concat();
        let big_endian = [&b"\0\x08\0\x05CS\0\x02ab"[..], b"\0\x08\0\x08CS\0\x02cd"].concat();
        let mut marked = b"II*\0\x08\0\0\0".to_vec();
        marked.resize(128, 0);
        marked.extend(b"DICM");
        for head in [&explicit, &implicit, &big_endian, &marked] {
            assert_eq!(Format::sniff(head), Some(Format::Dicom), "{head:?}");
        }
        marked.insert(128, 0);
        assert_eq!(Format::sniff(&marked), Some(Format::Tiff));
        for head in [&explicit[10..], &explicit[..17], &explicit[..10]] {
            assert_eq!(Format::sniff(head), None, "{head:?}");
        }
    }

    #[test]
    fn a_text_that_begins_like_a_pnm_is_none() {
        let is_pnm = |head: &[u8]| Format::sniff(head) == Some(Format::Pnm);
        for text in
            ["P1 is urgent", "P5\tone", "P2 5 things", "P3 4:2:0", "P7 is", "P7\n1 2", "P5x", "P512 512 255 "]
        {
            assert!(!is_pnm(text.as_bytes()), "{text}");
        }
        let pnms =
            ["P5 1 1 255 ", "P5\r\n# by hand\n1 1\n255\n", "P7\nWIDTH 4", "P7\n#\n", "P5", "P6\n", "P2\n3"];
        for pnm in pnms {
            assert!(is_pnm(pnm.as_bytes()), "{pnm}");
        }
    }
}
