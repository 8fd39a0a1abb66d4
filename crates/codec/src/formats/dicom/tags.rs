//! The tags that are known (PS3.6).

use crate::formats::elements::Tag;

/// The group of items and delimiters.
pub(super) const ITEMS: u32 = 0xfffe;
pub(super) const ITEM: Tag = 0xfffe_e000;
pub(super) const ITEM_END: Tag = 0xfffe_e00d;
pub(super) const SEQUENCE_END: Tag = 0xfffe_e0dd;

/// The group of the file meta information.
pub(super) const META: u32 = 2;
pub(super) const META_LENGTH: Tag = 0x0002_0000;
pub(super) const META_VERSION: Tag = 0x0002_0001;
pub(super) const META_CLASS: Tag = 0x0002_0002;
pub(super) const META_INSTANCE: Tag = 0x0002_0003;
pub(super) const TRANSFER_SYNTAX: Tag = 0x0002_0010;
pub(super) const IMPLEMENTATION: Tag = 0x0002_0012;
pub(super) const IMPLEMENTATION_NAME: Tag = 0x0002_0013;

pub(super) const IMAGE_TYPE: Tag = 0x0008_0008;
pub(super) const SOP_CLASS: Tag = 0x0008_0016;
pub(super) const SOP_INSTANCE: Tag = 0x0008_0018;
pub(super) const MODALITY: Tag = 0x0008_0060;
pub(super) const SERIES_DESCRIPTION: Tag = 0x0008_103e;
pub(super) const REFERENCED_CLASS: Tag = 0x0008_1150;
pub(super) const REFERENCED_INSTANCE: Tag = 0x0008_1155;
pub(super) const DERIVATION: Tag = 0x0008_2111;
pub(super) const SOURCE_IMAGES: Tag = 0x0008_2112;
/// Whether pixels are gray or have colours, of one kind or another.
pub(super) const PIXEL_PRESENTATION: Tag = 0x0008_9205;

pub(super) const SERIES_INSTANCE: Tag = 0x0020_000e;
pub(super) const SERIES_NUMBER: Tag = 0x0020_0011;
pub(super) const INSTANCE_NUMBER: Tag = 0x0020_0013;
/// ImagePositionPatient and ImageOrientationPatient.
pub(super) const POSITION: Tag = 0x0020_0032;
pub(super) const ORIENTATION: Tag = 0x0020_0037;
/// The UID that the parts of one long file share.
pub(super) const CONCATENATION: Tag = 0x0020_9161;
/// The way in which frames are organized, such as tiles of one picture.
pub(super) const ORGANIZATION_TYPE: Tag = 0x0020_9311;
/// The columns and rows of the picture that frames are tiles of.
pub(super) const TOTAL_MATRIX: [Tag; 2] = [0x0048_0006, 0x0048_0007];
/// The properties that all frames have in common, and those of each.
pub(super) const SHARED_GROUPS: Tag = 0x5200_9229;
pub(super) const FRAME_GROUPS: Tag = 0x5200_9230;

/// Acquisition of magnetic resonance frames, which only original ones state (PS3.3, C.8.13.4).
pub(super) const OF_ORIGINAL_RESONANCE: [Tag; 18] = [
    0x0018_0023,
    0x0018_9005,
    0x0018_9008,
    0x0018_9011,
    0x0018_9012,
    0x0018_9014,
    0x0018_9015,
    0x0018_9017,
    0x0018_9018,
    0x0018_9024,
    0x0018_9025,
    0x0018_9029,
    0x0018_9032,
    0x0018_9033,
    0x0018_9034,
    0x0018_9093,
    0x0018_9094,
    0x0018_9172,
];

pub(super) const SAMPLES: Tag = 0x0028_0002;
pub(super) const PHOTOMETRIC: Tag = 0x0028_0004;
pub(super) const PLANAR: Tag = 0x0028_0006;
pub(super) const FRAMES: Tag = 0x0028_0008;
pub(super) const ROWS: Tag = 0x0028_0010;
pub(super) const COLUMNS: Tag = 0x0028_0011;
pub(super) const PIXEL_SPACING: Tag = 0x0028_0030;
pub(super) const BITS_ALLOCATED: Tag = 0x0028_0100;
pub(super) const BITS_STORED: Tag = 0x0028_0101;
pub(super) const HIGH_BIT: Tag = 0x0028_0102;
pub(super) const REPRESENTATION: Tag = 0x0028_0103;
pub(super) const SMALLEST: Tag = 0x0028_0106;
pub(super) const LARGEST: Tag = 0x0028_0107;
pub(super) const PADDING: Tag = 0x0028_0120;
pub(super) const PADDING_LIMIT: Tag = 0x0028_0121;
pub(super) const FLOAT_PADDING: Tag = 0x0028_0122;
pub(super) const DOUBLE_PADDING: Tag = 0x0028_0123;
pub(super) const FLOAT_PADDING_LIMIT: Tag = 0x0028_0124;
pub(super) const DOUBLE_PADDING_LIMIT: Tag = 0x0028_0125;
pub(super) const WINDOW_CENTER: Tag = 0x0028_1050;
pub(super) const WINDOW_WIDTH: Tag = 0x0028_1051;
pub(super) const RESCALE_INTERCEPT: Tag = 0x0028_1052;
pub(super) const RESCALE_SLOPE: Tag = 0x0028_1053;
pub(super) const RESCALE_TYPE: Tag = 0x0028_1054;
/// The type of rescaled values of an unknown unit.
pub(super) const UNSPECIFIED: &[u8] = b"US";
/// The unit of rescaled values of positron emission.
pub(super) const UNITS: Tag = 0x0054_1001;
/// The divisor of these values.
const UPTAKE_TYPE: Tag = 0x0054_1006;
/// The meaning of stored values, with a unit.
pub(super) const VALUE_MAPPINGS: Tag = 0x0040_9096;
/// The descriptors of the red, green and blue palettes.
pub(super) const PALETTES: [Tag; 3] = [0x0028_1101, 0x0028_1102, 0x0028_1103];
/// The data of the red, green and blue palettes.
pub(super) const PALETTE_DATA: [Tag; 3] = [0x0028_1201, 0x0028_1202, 0x0028_1203];
/// The data of the red, green and blue palettes, in segments.
pub(super) const SEGMENTED_PALETTES: [Tag; 3] = [0x0028_1221, 0x0028_1222, 0x0028_1223];
pub(super) const LOSSY: Tag = 0x0028_2110;
pub(super) const ICC: Tag = 0x0028_2000;
pub(super) const COLOR_SPACE: Tag = 0x0028_2002;

pub(super) const FLOATS: Tag = 0x7fe0_0008;
pub(super) const DOUBLES: Tag = 0x7fe0_0009;
pub(super) const PIXEL_DATA: Tag = 0x7fe0_0010;
/// The elements that hold pixels: floats of 32 and 64 bits, and integers.
pub(super) const PIXELS: [Tag; 3] = [FLOATS, DOUBLES, PIXEL_DATA];

/// The groups of overlays.
pub(super) const OVERLAYS: std::ops::RangeInclusive<u32> = 0x6000..=0x60ff;
/// The number, within such a group, of the bits of an overlay that has bytes of its own.
pub(super) const OVERLAY_DATA: u32 = 0x3000;

/// Elements that are not true of the new pixels.
///
/// How they were stored, to be shown or signed; values that they stood for; pictures of the old
/// ones.
const UNTRUE: [Tag; 36] = [
    0x0028_0050,
    0x0028_0060,
    0x0028_0061,
    0x0028_0062,
    0x0028_0063,
    0x0028_0065,
    0x0028_0066,
    SMALLEST,
    LARGEST,
    0x0028_0104,
    0x0028_0105,
    0x0028_0108,
    0x0028_0109,
    0x0028_0110,
    0x0028_0111,
    WINDOW_CENTER,
    WINDOW_WIDTH,
    0x0028_1055,
    0x0028_1056,
    0x0028_1200,
    0x0028_3000,
    0x0028_3010,
    0x0028_1199,
    0x0028_1100,
    0x0028_1111,
    0x0028_1112,
    0x0028_1113,
    0x0028_1211,
    0x0028_1212,
    0x0028_1213,
    VALUE_MAPPINGS,
    UPTAKE_TYPE,
    0x0088_0200,
    0x4ffe_0001,
    0xfffa_fffa,
    0xfffc_fffc,
];

/// Offsets of compressed frames, where these are not before the fragments.
pub(super) const FRAME_OFFSETS: Tag = 0x7fe0_0001;
/// Offsets and lengths of frames.
const FRAME_TABLES: [Tag; 2] = [FRAME_OFFSETS, 0x7fe0_0002];

/// Returns whether an element is not true of the new pixels or file.
///
/// The lengths of groups are not true of the new file.
pub(super) fn is_untrue(tag: Tag) -> bool {
    let is_group_length = tag & 0xffff == 0;
    // Elements of the file meta information are written anew, wherever they were.
    let is_meta = tag >> 16 <= META;
    let palettes = [PALETTES, PALETTE_DATA, SEGMENTED_PALETTES];
    let is_palette = palettes.as_flattened().contains(&tag);
    is_group_length || is_meta || is_palette || UNTRUE.contains(&tag) || FRAME_TABLES.contains(&tag)
}
