//! What a TIFF's tags say about its pixels, and whether that can be read and written back whole.

use serde::Deserialize;

use super::super::ifd::{self, Directory, Form};
use super::super::{CodecError, Limits};
use super::reader::Reader;
use super::write::Compression;
use super::{malformed, tags};
use crate::picture::{Depth, Layout, Pixel};

/// How samples become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// Gray and RGB as they are.
    Direct,
    /// Gray upside down.
    WhiteIsZero,
    /// Indices of colours.
    Palette,
}

/// The pixels of a TIFF.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) form: Form,
    /// As they are delivered.
    pub(super) layout: Layout,
    /// Samples of a pixel as they are stored.
    pub(super) samples: usize,
    /// Bits of a sample as it is stored, 1 to 16.
    pub(super) bits: u32,
    pub(super) planar: bool,
    /// Whether it has tiles rather than strips.
    pub(super) tiled: bool,
    /// Width and rows of the strips or tiles, where they are read one by one, tiles with what lies beyond the picture's edge.
    pub(super) part: Option<(u32, u32)>,
    pub(super) colours: Colours,
    /// The value of the tag ExtraSamples, if there is one extra sample.
    pub(super) extra_sample: Option<u16>,
    pub(super) compression: Compression,
    /// The value of the tag Compression.
    pub(super) method: u64,
}

impl Header {
    /// Reads and judges the tags.
    pub(super) fn new(directory: &Directory, form: Form) -> Result<Self, CodecError> {
        let number = |tag, default: u64| directory.number(tag).unwrap_or(default);
        let side = |tag| u32::try_from(number(tag, 0)).ok().filter(|&n| n > 0);
        let (Some(width), Some(height)) = (side(tags::WIDTH), side(tags::HEIGHT)) else {
            return Err(malformed("it has no width or height"));
        };
        refuse_formats(directory)?;
        let bits = bits(directory)?;
        let samples = number(tags::SAMPLES_PER_PIXEL, 1) as usize;
        let method = number(tags::COMPRESSION, 1);
        let compression = compression(method)?;
        let (colours, colour_samples) = colours(directory, method)?;
        let extra_sample = extra_sample(directory, samples, colour_samples)?;
        refuse_depths(directory, bits, method, colours)?;
        let alpha = extra_sample.is_some();
        let pixel = match (colours, colour_samples) {
            (Colours::Palette, _) => Pixel::Rgb,
            (_, 1) if alpha => Pixel::GrayAlpha,
            (_, 1) => Pixel::Gray,
            (_, _) if alpha => Pixel::Rgba,
            _ => Pixel::Rgb,
        };
        let planar = number(tags::PLANAR_CONFIGURATION, 1) == 2 && samples > 1;
        let is_ycbcr = directory.number(tags::PHOTOMETRIC) == Some(tags::YCBCR);
        if planar && (!matches!(bits, 8 | 16) || is_ycbcr) {
            return Err(unsupported(format!("a TIFF in separate planes of {bits} bits or of YCbCr")));
        }
        let depth = if bits > 8 { Depth::Sixteen } else { Depth::Eight };
        let layout = Layout { width, height, pixel, depth };
        // Of LZW's tiles the tiff crate, row by row, loses what its decoder still holds when the end of a row is the end of a code.
        let tiled = directory.get(tags::TILE_OFFSETS).is_some();
        let one_by_one = planar || method == tags::JPEG || tiled && method == tags::LZW;
        let part = if one_by_one { Some(part(directory, &layout, tiled)?) } else { None };
        Ok(Self {
            form,
            layout,
            samples,
            bits,
            planar,
            tiled,
            part,
            colours,
            extra_sample,
            compression,
            method,
        })
    }

    /// Refuses tiles whose pixels would take more memory than the limits let a picture take.
    pub(super) fn check_parts(&self, limits: &Limits) -> Result<(), CodecError> {
        match self.part {
            Some((width, rows)) if self.buffer_bytes() > limits.max_bytes => Err(CodecError::TooLarge {
                what: format!("a tile of {width}x{rows} pixels"),
                limit: format!("{} bytes", limits.max_bytes),
                flag: "--max-bytes",
            }),
            _ => Ok(()),
        }
    }

    /// Whether samples are narrower than the ones delivered.
    pub(super) fn is_packed(&self) -> bool {
        !matches!(self.bits, 8 | 16)
    }

    /// Whether the samples are delivered as they are stored, but for the order of their bytes.
    pub(super) fn is_direct(&self) -> bool {
        !self.is_packed() && self.colours != Colours::Palette
    }

    /// Bytes of a row of `width` pixels as they are stored.
    pub(super) fn row_bytes(&self, width: u32) -> usize {
        (width as usize * self.samples * self.bits as usize).div_ceil(8)
    }

    /// In how many planes its samples are stored.
    pub(super) fn planes(&self) -> usize {
        if self.planar { self.samples } else { 1 }
    }

    /// Bytes of a row of a strip or tile.
    pub(super) fn part_row_bytes(&self, (width, _): (u32, u32)) -> usize {
        self.row_bytes(width) / self.planes()
    }

    /// Bytes of the largest strip or tile that passes through a buffer, which one as wide as the picture does not, but of a plane.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let row = self.row_bytes(self.layout.width);
        let bytes = |part| (self.part_row_bytes(part) as u64).saturating_mul(u64::from(part.1));
        self.part.filter(|&part| self.planar || self.part_row_bytes(part) != row).map_or(0, bytes)
    }

    /// The width that the decoder is to believe: that of whole tiles, where it would cut those at the edge.
    pub(super) fn told_width(&self) -> u32 {
        let width = self.layout.width;
        self.part.and_then(|(part, _)| width.checked_next_multiple_of(part)).unwrap_or(width)
    }

    /// What to tell the decoder instead of the truth, so that it delivers samples as they are stored and leaves it to us to make
    /// colours of them: packed bits are gray bytes, palette indices and inverted gray are gray, an extra sample is alpha, and there is
    /// no predictor where the compression has none.
    pub(super) fn disguise(&self, directory: &Directory) -> Vec<(u16, u32)> {
        let mut tags = Vec::new();
        let mut width = self.told_width();
        // Group 4 needs the true width. One bit that goes without saying cannot be said otherwise, and is delivered as it is.
        let says_bits = directory.get(tags::BITS_PER_SAMPLE).is_some();
        if self.is_packed() && self.method != tags::GROUP_4 && says_bits {
            tags.extend([(tags::BITS_PER_SAMPLE, 8), (tags::SAMPLES_PER_PIXEL, 1)]);
            width = self.row_bytes(width) as u32;
            let tile = directory.number(tags::TILE_WIDTH).and_then(|width| u32::try_from(width).ok());
            tags.extend(tile.map(|width| (tags::TILE_WIDTH, self.row_bytes(width) as u32)));
            tags.push((tags::PHOTOMETRIC, u32::from(tags::BLACK_IS_ZERO)));
        } else if matches!(self.colours, Colours::WhiteIsZero | Colours::Palette) {
            tags.push((tags::PHOTOMETRIC, u32::from(tags::BLACK_IS_ZERO)));
        }
        if self.extra_sample.is_some() {
            tags.push((tags::EXTRA_SAMPLES, u32::from(tags::UNASSOCIATED)));
        }
        if width != self.layout.width {
            tags.push((tags::WIDTH, width));
        }
        if !is_predicted(self.method) {
            tags.push((tags::PREDICTOR, 1));
        }
        tags
    }
}

/// The width and rows of strips or tiles.
fn part(directory: &Directory, layout: &Layout, tiled: bool) -> Result<(u32, u32), CodecError> {
    let side = |tag| directory.number(tag).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
    if !tiled {
        let rows = side(tags::ROWS_PER_STRIP).unwrap_or(layout.height);
        return Ok((layout.width, rows.min(layout.height)));
    }
    let sides = side(tags::TILE_WIDTH).zip(side(tags::TILE_LENGTH));
    sides.ok_or_else(|| malformed("its tiles have no width or length"))
}

/// Refuses a file in which there is more than one picture.
pub(super) fn refuse_further_pictures(
    bytes: &mut Reader<'_>,
    form: Form,
    directory: &Directory,
    mut next: u64,
) -> Result<(), CodecError> {
    const MOST: usize = 10_000;
    let mut pages = 1;
    while let Some(offset) = usize::try_from(next).ok().filter(|&offset| offset > 0) {
        next = match ifd::next(bytes, form, offset) {
            Ok(further) => further,
            Err(error) if error.raw_os_error().is_some() => return Err(error.into()),
            Err(_) => break,
        };
        pages += 1;
        if pages == MOST {
            break;
        }
    }
    let remedy = "split it into single pictures first";
    if pages > 1 {
        return Err(CodecError::unsupported(format!("a TIFF of {pages} pages"), remedy));
    }
    if directory.get(tags::SUB_IFDS).is_some() {
        return Err(CodecError::unsupported("a TIFF with further pictures in sub-directories", remedy));
    }
    if is_stack(directory) {
        return Err(CodecError::unsupported("a stack of pictures in one TIFF page", remedy));
    }
    Ok(())
}

/// Whether there are further pictures behind the one that a directory describes.
fn is_stack(directory: &Directory) -> bool {
    let planes = directory.bytes(tags::STACK_PLANES).map_or(1, |planes| planes.len() / 24); // six LONGs a plane
    let slices = directory.number(tags::DEPTH).unwrap_or(1);
    let description = String::from_utf8_lossy(directory.bytes(tags::DESCRIPTION).unwrap_or_default());
    let number = |tag| directory.number(tag).unwrap_or(1);
    let samples = [tags::WIDTH, tags::HEIGHT, tags::SAMPLES_PER_PIXEL].map(number);
    planes > 1
        || slices > 1
        || is_imagej_stack(&description)
        || is_tifffile_stack(&description, product(&samples))
}

/// ImageJ puts the further pictures of a large stack behind the first, and tells their number in the description alone.
fn is_imagej_stack(description: &str) -> bool {
    let images = description.lines().find_map(|line| line.strip_prefix("images="));
    description.starts_with("ImageJ=")
        && images.and_then(|n| n.trim().parse().ok()).is_some_and(|n: u64| n > 1)
}

/// Tifffile may do so too, and then tells the shape of all of them in the only description.
fn is_tifffile_stack(description: &str, samples: u64) -> bool {
    #[derive(Deserialize)]
    struct Series {
        shape: Vec<u64>,
        truncated: bool,
    }
    let series = serde_json::from_str(description.trim_end_matches('\0'));
    series.is_ok_and(|Series { shape, truncated }| truncated && product(&shape) > samples)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}

fn bits(directory: &Directory) -> Result<u32, CodecError> {
    let all = directory.numbers(tags::BITS_PER_SAMPLE).unwrap_or_else(|| vec![1]);
    match all.first() {
        Some(&bits @ 1..=16) if all.iter().all(|&other| other == bits) => Ok(bits as u32),
        Some(&bits) if bits > 16 => Err(unsupported(format!("a TIFF of {bits} bits a sample"))),
        _ => Err(unsupported("a TIFF whose samples have different depths")),
    }
}

fn compression(method: u64) -> Result<Compression, CodecError> {
    let name = match method {
        tags::STORED => return Ok(Compression::Stored),
        tags::LZW | 32773 => return Ok(Compression::Lzw), // PackBits has had its day; every reader has both
        tags::GROUP_4 | tags::JPEG | tags::DEFLATE | tags::OLD_DEFLATE => return Ok(Compression::Deflate),
        2 | 3 => "CCITT RLE or group 3",
        6 => "old-style JPEG",
        32771 => "CCITT RLE",
        33003 | 33005 | 34712 => "JPEG 2000",
        34925 => "LZMA",
        50000 => "Zstandard",
        50001 => "WebP",
        _ => return Err(unsupported(format!("a TIFF compressed by method {method}"))),
    };
    Err(unsupported(format!("a TIFF compressed by {name}")))
}

/// Whether the tag Predictor means anything with a compression. Writers that copy tags put it where it does not.
fn is_predicted(method: u64) -> bool {
    matches!(method, tags::LZW | tags::DEFLATE | tags::OLD_DEFLATE)
}

/// How samples become colours, and how many of a pixel's do.
fn colours(directory: &Directory, method: u64) -> Result<(Colours, usize), CodecError> {
    match directory.number(tags::PHOTOMETRIC) {
        Some(0) => Ok((Colours::WhiteIsZero, 1)),
        Some(1) => Ok((Colours::Direct, 1)),
        Some(2) => Ok((Colours::Direct, 3)),
        Some(3) => Ok((Colours::Palette, 1)),
        Some(5) => Err(unsupported("a CMYK TIFF")),
        Some(tags::YCBCR) if method == tags::JPEG => Ok((Colours::Direct, 3)), // libjpeg makes RGB of it
        Some(tags::YCBCR) => Err(unsupported("a YCbCr TIFF without JPEG")),
        Some(4) => Err(unsupported("a TIFF transparency mask")),
        Some(8..=10) => Err(unsupported("a CIELab TIFF")),
        Some(other) => Err(unsupported(format!("a TIFF of photometric interpretation {other}"))),
        None => Err(malformed("it does not say what its samples mean (no photometric interpretation)")),
    }
}

fn extra_sample(
    directory: &Directory,
    samples: usize,
    colour_samples: usize,
) -> Result<Option<u16>, CodecError> {
    match samples.checked_sub(colour_samples) {
        Some(0) => Ok(None),
        Some(1) if directory.number(tags::PHOTOMETRIC) == Some(3) => {
            Err(unsupported("a TIFF palette with alpha"))
        }
        Some(1) => {
            let kind = directory.number(tags::EXTRA_SAMPLES);
            // RGB of four samples that does not say what the fourth is means alpha by custom.
            Ok(Some(kind.map_or(tags::UNASSOCIATED, |kind| kind as u16)))
        }
        Some(extra) => Err(unsupported(format!("a TIFF of {extra} channels besides its colours"))),
        None => Err(malformed("it has fewer samples than colours")),
    }
}

fn refuse_formats(directory: &Directory) -> Result<(), CodecError> {
    let formats = directory.numbers(tags::SAMPLE_FORMAT).unwrap_or_default();
    let name = formats.iter().find_map(|format| match format {
        1 | 4 => None, // unsigned; nothing said
        2 => Some("signed"),
        3 => Some("floating-point"),
        _ => Some("complex"),
    });
    name.map_or(Ok(()), |name| {
        Err(CodecError::unsupported(
            format!("a TIFF of {name} samples"),
            "scale it to unsigned 8 or 16 bits first",
        ))
    })
}

/// Refuses depths in combinations that are not decoded right.
fn refuse_depths(directory: &Directory, bits: u32, method: u64, colours: Colours) -> Result<(), CodecError> {
    // The tiff crate reads all but JPEG as if the highest bit came first.
    if directory.number(tags::FILL_ORDER) == Some(2) && method != tags::JPEG {
        return Err(unsupported("a TIFF whose bits run from right to left (fill order 2)"));
    }
    let packed = !matches!(bits, 8 | 16);
    if packed && is_predicted(method) && directory.number(tags::PREDICTOR).is_some_and(|p| p > 1) {
        return Err(unsupported(format!("a TIFF with a predictor for samples of {bits} bits")));
    }
    let tile = directory.number(tags::TILE_WIDTH).unwrap_or(0);
    if packed && !tile.is_multiple_of(8) {
        return Err(unsupported(format!("a TIFF with tiles of {tile} samples of {bits} bits across")));
    }
    if bits != 8 && method == tags::JPEG || bits != 1 && method == tags::GROUP_4 {
        return Err(unsupported(format!("a TIFF of {bits} bits compressed by JPEG or CCITT group 4")));
    }
    if bits > 8 && colours == Colours::Palette {
        return Err(unsupported(format!("a TIFF of {bits}-bit palette indices")));
    }
    Ok(())
}

fn unsupported(what: impl Into<String>) -> CodecError {
    CodecError::unsupported(what, "convert it to an 8- or 16-bit gray or RGB TIFF first")
}
