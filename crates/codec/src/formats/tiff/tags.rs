//! The tags, and the list of those that travel with the picture.

use crate::formats::tiff::describe::arrangement::{self, Change};
use crate::formats::tiff::describe::{gdal, imagej};
pub(super) use crate::metadata::exif::fractions;
use crate::metadata::exif::{RESOLUTION_UNIT, X_RESOLUTION, Y_RESOLUTION, resolution};
use crate::metadata::ifd::{self, Directory, Value};
use crate::metadata::{Georeference, Metadata, Resolution, geotiff};

/// NewSubfileType: an odd value marks a smaller version of another page.
pub(super) const KIND: u16 = 254;
/// SubfileType, the same in older files: 2 marks a smaller version.
pub(super) const OLD_KIND: u16 = 255;
pub(super) const WIDTH: u16 = 256;
pub(super) const HEIGHT: u16 = 257;
pub(super) const BITS_PER_SAMPLE: u16 = 258;
pub(super) const COMPRESSION: u16 = 259;
pub(super) const PHOTOMETRIC: u16 = 262;
pub(super) const FILL_ORDER: u16 = 266;
pub(super) const DESCRIPTION: u16 = 270;
/// The manufacturer of the camera.
pub(super) const MAKE: u16 = 271;
pub(super) const STRIP_OFFSETS: u16 = 273;
pub(super) const SAMPLES_PER_PIXEL: u16 = 277;
pub(super) const ROWS_PER_STRIP: u16 = 278;
pub(super) const STRIP_BYTE_COUNTS: u16 = 279;
/// MaxSampleValue: the greatest sample, or the greatest that there may be.
pub(super) const MAX_SAMPLE: u16 = 281;
pub(super) const PLANAR_CONFIGURATION: u16 = 284;
/// T4Options: bit 0 is set if rows may be coded as changes against the row before.
pub(super) const FAX_OPTIONS: u16 = 292;
pub(super) const PREDICTOR: u16 = 317;
pub(super) const COLOUR_MAP: u16 = 320;
pub(super) const TILE_WIDTH: u16 = 322;
pub(super) const TILE_LENGTH: u16 = 323;
pub(super) const TILE_OFFSETS: u16 = 324;
pub(super) const TILE_BYTE_COUNTS: u16 = 325;
pub(super) const SUB_IFDS: u16 = 330;
/// The inks of a [`SEPARATED`] picture's samples: 1 for CMYK.
pub(super) const INK_SET: u16 = 332;
pub(super) const EXTRA_SAMPLES: u16 = 338;
pub(super) const SAMPLE_FORMAT: u16 = 339;
pub(super) const JPEG_TABLES: u16 = 347;
/// The offset and length of the stream of an old-style JPEG that is the whole picture.
pub(super) const JPEG_STREAM: u16 = 513;
pub(super) const JPEG_STREAM_LENGTH: u16 = 514;
pub(super) const YCBCR_COEFFICIENTS: u16 = 529;
pub(super) const YCBCR_SUBSAMPLING: u16 = 530;
pub(super) const REFERENCE_BLACK_WHITE: u16 = 532;
pub(super) const XMP: u16 = 700;
/// MetaMorph's STK: a value for every plane of a stack.
pub(super) const STACK_PLANES: u16 = 33629;
/// The number of slices of a volume.
pub(super) const DEPTH: u16 = 32997;
pub(super) const ICC: u16 = 34675;

/// GDAL's facts of the picture, as XML, and the no-data value.
const GDAL_METADATA: u16 = 42112;
pub(super) const GDAL_NODATA: u16 = 42113;

/// The lengths of the parts of [`IMAGEJ`], and ImageJ's metadata.
const IMAGEJ_LENGTHS: u16 = 50838;
const IMAGEJ: u16 = 50839;

/// Photoshop's layers, which it shows instead of the picture.
pub(super) const LAYERS: u16 = 37724;
/// The version of DNG, Adobe's raw format.
pub(super) const DNG_VERSION: u16 = 50706;
/// Hamamatsu's tags of a slide (NDPI): where stages and lenses were, and where pixels lie in its
/// own arrangement. By the first one readers know such a file.
const HAMAMATSU: std::ops::RangeInclusive<u16> = 65420..=65458;
/// Micro-Manager's metadata of a page. A table behind the header belongs to it.
pub(super) const MICRO_MANAGER: u16 = 51123;

/// Values of [`PHOTOMETRIC`].
///
/// The last two are raw sensor data, with one of the filter's colours per pixel or with all of
/// them.
pub(super) const WHITE_IS_ZERO: u16 = 0;
pub(super) const BLACK_IS_ZERO: u16 = 1;
pub(super) const RGB: u16 = 2;
pub(super) const PALETTE: u16 = 3;
/// A mask of valid pixels.
pub(super) const MASK: u16 = 4;
/// Inks.
pub(super) const SEPARATED: u64 = 5;
pub(super) const YCBCR: u64 = 6;
pub(super) const CFA: u64 = 32803;
pub(super) const LINEAR_RAW: u64 = 34892;

/// A value of [`KIND`]: a smaller version of another picture.
pub(super) const SMALLER: u64 = 1;

/// Values of [`SAMPLE_FORMAT`].
pub(super) const UNSIGNED: u64 = 1;
pub(super) const SIGNED: u64 = 2;
pub(super) const FLOAT: u64 = 3;

/// Values of [`EXTRA_SAMPLES`]: anything, premultiplied alpha, and alpha that is not premultiplied.
pub(super) const UNSPECIFIED: u64 = 0;
pub(super) const ASSOCIATED: u64 = 1;
pub(super) const UNASSOCIATED: u64 = 2;

/// Tags of the places of pixels, which may be long.
pub(super) const PLACES: [u16; 4] = [STRIP_OFFSETS, STRIP_BYTE_COUNTS, TILE_OFFSETS, TILE_BYTE_COUNTS];

/// Tags of the pixels' storage or contrast: they are written anew or have become false.
const STORAGE: [u16; 48] = [
    KIND,
    OLD_KIND,
    WIDTH,
    HEIGHT,
    BITS_PER_SAMPLE,
    COMPRESSION,
    PHOTOMETRIC,
    // Thresholding and its cells.
    263,
    264,
    265,
    FILL_ORDER,
    STRIP_OFFSETS,
    SAMPLES_PER_PIXEL,
    ROWS_PER_STRIP,
    STRIP_BYTE_COUNTS,
    // Least and greatest sample.
    280,
    MAX_SAMPLE,
    PLANAR_CONFIGURATION,
    // Free space, gray response, fax options, transfer function.
    288,
    289,
    290,
    291,
    FAX_OPTIONS,
    293,
    301,
    PREDICTOR,
    COLOUR_MAP,
    // Halftones.
    321,
    TILE_WIDTH,
    TILE_LENGTH,
    TILE_OFFSETS,
    TILE_BYTE_COUNTS,
    SUB_IFDS,
    INK_SET,
    // The inks' names, their number and the range of dots.
    333,
    334,
    336,
    EXTRA_SAMPLES,
    SAMPLE_FORMAT,
    // Least and greatest sample of any format.
    340,
    341,
    JPEG_TABLES,
    YCBCR_COEFFICIENTS,
    YCBCR_SUBSAMPLING,
    // The position of the shared differences of colour.
    531,
    REFERENCE_BLACK_WHITE,
    LAYERS,
    GDAL_NODATA,
];

/// Tags of essential metadata: XMP, IPTC, Photoshop's, EXIF, the profile and GPS.
pub(super) const METADATA: [u16; 6] =
    [XMP, 33723, 34377, ifd::SUB_DIRECTORIES[0], ICC, ifd::SUB_DIRECTORIES[1]];

/// Tags that EXIF may have in its first directory too: they describe the picture, not its storage.
const SHARED_WITH_EXIF: [u16; 21] = [
    DESCRIPTION,
    271,
    272,
    274,
    X_RESOLUTION,
    Y_RESOLUTION,
    RESOLUTION_UNIT,
    305,
    306,
    315,
    316,
    // The rating, out of 5 and in percent.
    18246,
    18249,
    33432,
    // Windows' title, comment, author, keywords and subject.
    40091,
    40092,
    40093,
    40094,
    40095,
    ifd::SUB_DIRECTORIES[0],
    ifd::SUB_DIRECTORIES[1],
];

/// Returns the bytes of heap that [`kept`] takes for texts before, during and after corrections.
pub(super) fn heap_bytes(directory: &Directory) -> u64 {
    let corrected =
        [DESCRIPTION, GDAL_METADATA, IMAGEJ].map(|tag| directory.bytes(tag).map_or(0, <[u8]>::len));
    4 * corrected.iter().sum::<usize>() as u64
}

/// Returns the tags to pass on, corrected.
///
/// Those in `still_true` are kept although they describe storage or contrast.
pub(super) fn kept(directory: Directory, change: Change, still_true: &[u16]) -> Directory {
    let is_ndpi = directory.get(*HAMAMATSU.start()).is_some();
    let is_storage = |tag: u16| {
        STORAGE.contains(&tag) || (512..=521).contains(&tag) || is_ndpi && HAMAMATSU.contains(&tag)
    };
    let is_kept = |tag: u16| !is_storage(tag) || still_true.contains(&tag);
    let entries = directory.entries.into_iter().filter(|(tag, _)| is_kept(*tag));
    let corrected = entries.filter_map(|(tag, value)| Some((tag, corrected(tag, value, change)?)));
    let mut kept = Directory { entries: corrected.collect(), ..Directory::default() };
    correct_imagej(&mut kept);
    kept
}

/// Returns the value of a tag without the parts that become false; `None` if all do.
fn corrected(tag: u16, value: Value, change: Change) -> Option<Value> {
    let Value::Data { kind, bytes } = value else { return Some(value) };
    let bytes = match tag {
        DESCRIPTION => {
            arrangement::description(imagej::description(bytes, change.leaves, change.samples), change)?
        }
        GDAL_METADATA => gdal::metadata(bytes),
        _ => bytes,
    };
    Some(Value::Data { kind, bytes })
}

/// Removes the display range from ImageJ's metadata.
///
/// The metadata go altogether if they have no other part, or if they make no sense.
fn correct_imagej(kept: &mut Directory) {
    /// More parts than the metadata of one picture have.
    const MAX_PARTS: usize = 1 << 16;
    let lengths = kept.numbers(IMAGEJ_LENGTHS).filter(|lengths| lengths.count() <= MAX_PARTS);
    let lengths = lengths.map(|lengths| lengths.iter().collect::<Vec<_>>());
    let corrected =
        lengths.zip(kept.bytes(IMAGEJ)).and_then(|(lengths, bytes)| imagej::metadata(&lengths, bytes));
    kept.entries.retain(|(tag, _)| ![IMAGEJ_LENGTHS, IMAGEJ].contains(tag));
    if let Some((lengths, bytes)) = corrected {
        kept.set(IMAGEJ_LENGTHS, Value::longs(&lengths));
        kept.set(IMAGEJ, Value::Data { kind: 1, bytes });
    }
}

/// Returns whether the page declares itself one of several, and has no other subfile type.
pub(super) fn is_page(directory: &Directory) -> bool {
    const PAGE: u64 = 2;
    directory.number(KIND) == Some(PAGE)
}

/// Returns about how many bytes [`metadata`] has.
pub(super) fn metadata_bytes(directory: &Directory) -> u64 {
    let carried = directory
        .entries
        .iter()
        .filter(|(tag, _)| [ICC, XMP].contains(tag) || SHARED_WITH_EXIF.contains(tag));
    carried.map(|(_, value)| value.bytes()).sum()
}

/// Returns the metadata that other formats have a place for.
pub(super) fn metadata(directory: &Directory) -> Metadata {
    let [icc, xmp] = [ICC, XMP].map(|tag| directory.bytes(tag).map(<[u8]>::to_vec));
    // A georeference stays among the tags.
    Metadata { icc, exif: exif(directory), xmp, resolution: resolution(directory), georeference: None }
}

/// Makes EXIF from a TIFF's own tags.
fn exif(directory: &Directory) -> Option<Vec<u8>> {
    let mut shared = directory.borrowed();
    shared.retain(|(tag, _)| SHARED_WITH_EXIF.contains(tag));
    (!shared.is_empty()).then(|| ifd::write_file(&shared))
}

/// Makes a TIFF's tags from the metadata of a picture in another format, except for the profile.
pub(super) fn from_metadata(metadata: &Metadata) -> Directory {
    let exif = metadata.exif.as_deref().and_then(ifd::first);
    let mut directory = exif.unwrap_or_default();
    directory.entries.retain(|(tag, _)| SHARED_WITH_EXIF.contains(tag));
    if let Some(Georeference::Tags(tags)) = &metadata.georeference {
        geotiff::tags(tags).for_each(|(tag, value)| directory.set(tag, value));
    }
    if let Some(xmp) = &metadata.xmp {
        directory.set(XMP, Value::Data { kind: 1, bytes: xmp.clone() });
    }
    if let Some(Resolution { x, y }) = metadata.resolution {
        for (tag, hundredths) in [(X_RESOLUTION, x), (Y_RESOLUTION, y)] {
            let bytes = [hundredths.to_le_bytes(), 100_u32.to_le_bytes()].concat();
            directory.set(tag, Value::Data { kind: 5, bytes });
        }
        directory.set(RESOLUTION_UNIT, Value::shorts(&[2]));
    }
    directory
}
