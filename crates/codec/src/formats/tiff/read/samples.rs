//! The samples of a TIFF by its tags: their type, their meaning, and the predictor.

use crate::CodecError;
use crate::formats::foreign::{CHANNELS, EACH_CHANNEL, SCALE, TO_RGB};
use crate::formats::tiff::compression::method::{Method, OLD_JPEG};
use crate::formats::tiff::{malformed, tags, unsupported};
use crate::metadata::ifd::{Directory, Numbers};
use crate::samples::mapped::{Alpha, Kind};
use equalize::Depth;

/// The most channels in addition to the colours.
pub(crate) const MAX_BEHIND: usize = 16;

/// The meaning of samples as colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Gray and RGB as they are.
    Direct,
    /// Gray with 0 as white.
    WhiteIsZero,
    /// Palette indices.
    Palette,
    /// Brightness and two differences of colour.
    YCbCr,
    /// Amounts of four inks.
    Cmyk,
}

impl Colours {
    /// Returns whether samples are amounts of light, or of its absence.
    pub(crate) const fn are_of_light(self) -> bool {
        matches!(self, Self::Direct | Self::WhiteIsZero)
    }
}

/// The transformation of samples that makes them easier to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predictor {
    /// As they are.
    None,
    /// As differences.
    Horizontal,
    /// As differences of the bytes of floats, those of equal weight together.
    Float,
}

/// Returns whether the picture is an old-style JPEG.
fn is_old_jpeg(directory: &Directory) -> bool {
    directory.number(tags::COMPRESSION) == Some(OLD_JPEG)
}

/// Returns the number of samples of a pixel. Old-style JPEGs need not state it.
pub(crate) fn samples(directory: &Directory) -> usize {
    let is_of_colours = matches!(directory.number(tags::PHOTOMETRIC), None | Some(2 | tags::YCBCR));
    let unstated = if is_old_jpeg(directory) && is_of_colours { 3 } else { 1 };
    directory.number(tags::SAMPLES_PER_PIXEL).unwrap_or(unstated) as usize
}

/// Returns whether the components of JPEGs are Y, Cb and Cr.
///
/// Those of old-style ones are if the tag says RGB or is missing, as libtiff has it.
pub(crate) fn is_ycbcr(directory: &Directory) -> bool {
    match directory.number(tags::PHOTOMETRIC) {
        Some(tags::YCBCR) => true,
        None | Some(2) => is_old_jpeg(directory) && samples(directory) == 3,
        Some(_) => false,
    }
}

/// Returns the bits of a sample. Some writers state them of more samples than a pixel has.
pub(crate) fn bits(directory: &Directory, samples: usize) -> Result<u32, CodecError> {
    let Some(all) = directory.numbers(tags::BITS_PER_SAMPLE) else {
        return Ok(if is_old_jpeg(directory) { 8 } else { 1 });
    };
    let mut all = all.iter().take(samples.max(1));
    match all.next() {
        Some(bits @ (1..=16 | 24 | 32 | 64)) if all.all(|other| other == bits) => Ok(bits as u32),
        Some(bits) if bits > 16 && all.all(|other| other == bits) => {
            Err(CodecError::unsupported(format!("a TIFF of {bits} bits a sample"), SCALE))
        }
        _ => Err(unsupported("a TIFF whose samples have different depths")),
    }
}

/// Returns whether samples of a format are unsigned; unspecified ones are taken for unsigned.
const fn is_unsigned(format: u64) -> bool {
    matches!(format, tags::UNSIGNED | 4)
}

/// Returns the type of samples of this many bits that are not levels; `None` if they are.
pub(crate) fn kind(directory: &Directory, bits: u32, samples: usize) -> Result<Option<Kind>, CodecError> {
    let formats = directory.numbers(tags::SAMPLE_FORMAT).into_iter().flat_map(Numbers::iter);
    let mut formats = formats.take(samples.max(1));
    let format = formats.next().unwrap_or(tags::UNSIGNED);
    if formats.any(|other| other != format && !(is_unsigned(other) && is_unsigned(format))) {
        return Err(unsupported("a TIFF whose samples have different formats"));
    }
    let name = match (format, bits) {
        (tags::SIGNED, 8) => return Ok(Some(Kind::Signed8)),
        (tags::SIGNED, 16) => return Ok(Some(Kind::Signed16)),
        (tags::SIGNED, 32) => return Ok(Some(Kind::Signed32)),
        (tags::SIGNED, 64) => return Ok(Some(Kind::Signed64)),
        (tags::FLOAT, 16) => return Ok(Some(Kind::Float16)),
        (tags::FLOAT, 32) => return Ok(Some(Kind::Float32)),
        (tags::FLOAT, 64) => return Ok(Some(Kind::Float64)),
        (_, 24) if is_unsigned(format) => return Ok(Some(Kind::Unsigned24)),
        (_, 32) if is_unsigned(format) => return Ok(Some(Kind::Unsigned32)),
        (_, 64) if is_unsigned(format) => return Ok(Some(Kind::Unsigned64)),
        (_, 1..=16) if is_unsigned(format) => return Ok(None),
        (tags::SIGNED, _) => "signed",
        (tags::FLOAT, _) => "floating-point",
        _ => return Err(CodecError::unsupported("a TIFF of complex samples", SCALE)),
    };
    Err(CodecError::unsupported(format!("a TIFF of {name} samples of {bits} bits"), SCALE))
}

/// Returns the meaning of samples as colours, and the number of a pixel's samples that are colours.
///
/// Some writers do not state it.
pub(crate) fn colours(
    directory: &Directory,
    method: Method,
    samples: usize,
    has_display_colours: bool,
) -> Result<(Colours, usize), CodecError> {
    let is_cmyk = matches!(directory.number(tags::INK_SET), None | Some(1)) && samples >= 4;
    match directory.number(tags::PHOTOMETRIC) {
        Some(0) => Ok((Colours::WhiteIsZero, 1)),
        Some(1) => Ok((Colours::Direct, 1)),
        Some(2) => Ok((Colours::Direct, 3)),
        Some(3) if has_display_colours => Ok((Colours::Direct, 1)),
        Some(3) => Ok((Colours::Palette, 1)),
        Some(tags::SEPARATED) if is_cmyk => Ok((Colours::Cmyk, 4)),
        Some(tags::SEPARATED) => Err(CodecError::unsupported("a TIFF of other inks than CMYK", TO_RGB)),
        // libjpeg converts it to RGB.
        Some(tags::YCBCR) if method == Method::Jpeg => Ok((Colours::Direct, 3)),
        Some(tags::YCBCR) => Ok((Colours::YCbCr, 3)),
        Some(4) => Err(unsupported("a TIFF transparency mask")),
        Some(8..=10) => Err(unsupported("a CIELab TIFF")),
        Some(other) => Err(unsupported(format!("a TIFF of photometric interpretation {other}"))),
        None if matches!(method, Method::Fax(_)) => Ok((Colours::WhiteIsZero, 1)),
        None if is_cmyk && directory.get(tags::INK_SET).is_some() => Ok((Colours::Cmyk, 4)),
        None if samples == 1 => Ok((Colours::Direct, 1)),
        None if samples == 3 => Ok((Colours::Direct, 3)),
        None => Err(malformed("the meaning of its samples is not stated (no photometric interpretation)")),
    }
}

/// Returns whether each level of one channel of 8 or 16 bits has a colour.
pub(crate) fn is_palette_of_levels(directory: &Directory) -> bool {
    directory.number(tags::PHOTOMETRIC) == Some(tags::PALETTE.into())
        && matches!(directory.number(tags::BITS_PER_SAMPLE), Some(8 | 16))
        && directory.number(tags::SAMPLES_PER_PIXEL).unwrap_or(1) == 1
}

/// Returns whether a palette of all levels of 8 or 16 bits only gives them a colour: evenly, from
/// black on.
pub(crate) fn is_palette_of_one_colour(directory: &Directory) -> bool {
    let depth =
        if directory.number(tags::BITS_PER_SAMPLE) == Some(16) { Depth::Sixteen } else { Depth::Eight };
    let levels = depth.levels();
    let map: Vec<u64> = directory.numbers(tags::COLOUR_MAP).into_iter().flat_map(Numbers::iter).collect();
    let top = levels as u64 - 1;
    // Palettes of 16 bits may be made of 256 colours.
    let steps = (levels / Depth::Eight.levels()) as u64;
    let is_even = |channel: &[u64]| {
        let most = channel[levels - 1];
        // Writers round in one way or another, some to 8 of 16 bits.
        let rounding = (most + top) * steps;
        channel.iter().zip(0..).all(|(value, level)| (value * top).abs_diff(most * level) <= rounding)
    };
    map.len() == 3 * levels && map.iter().any(|&value| value > 0) && map.chunks_exact(levels).all(is_even)
}

/// Returns the kind of alpha, the count of other samples after the colours, and of those before it.
pub(crate) fn behind(
    directory: &Directory,
    samples: usize,
    colours: Colours,
    colour_samples: usize,
) -> Result<(Option<Alpha>, usize, usize), CodecError> {
    let count =
        samples.checked_sub(colour_samples).ok_or_else(|| malformed("it has fewer samples than colours"))?;
    if count > MAX_BEHIND {
        return Err(CodecError::unsupported(
            format!("a TIFF of {count} channels besides its colours"),
            CHANNELS,
        ));
    }
    let declared = directory.numbers(tags::EXTRA_SAMPLES).filter(|_| count > 0);
    let mut kinds = declared.into_iter().flat_map(Numbers::iter).take(count).map(|kind| match kind {
        tags::ASSOCIATED => Some(Alpha::Premultiplied),
        tags::UNASSOCIATED => Some(Alpha::Straight),
        _ => None,
    });
    let alpha = kinds.by_ref().enumerate().find_map(|(at, kind)| Some((at, kind?)));
    let (before, alpha) = alpha.map_or((0, None), |(at, kind)| (at, Some(kind)));
    let others = count - usize::from(alpha.is_some());
    // No place for alpha that belongs to several channels.
    if others > 0 && colour_samples == 1 && colours.are_of_light() {
        let what = format!("a TIFF page of {} channels besides colours, with alpha", others + 1);
        return Err(CodecError::unsupported(what, EACH_CHANNEL));
    }
    Ok((alpha, others, before))
}

/// Returns how many pixels across and down share their differences in a YCbCr picture.
pub(crate) fn subsampling(
    directory: &Directory,
    bits: u32,
    samples: usize,
    planar: bool,
    predictor: Predictor,
) -> Result<(u32, u32), CodecError> {
    let factors = directory.numbers(tags::YCBCR_SUBSAMPLING);
    let factors = [0, 1].map(|at| factors.map_or(Some(2), |factors| factors.get(at)));
    let [Some(across @ (1 | 2 | 4)), Some(down @ (1 | 2 | 4))] = factors else {
        return Err(malformed("its YCbCr subsampling is not 1, 2 or 4"));
    };
    if bits != 8 {
        return Err(unsupported(format!("a YCbCr TIFF of {bits} bits")));
    }
    if (across, down) != (1, 1) && (samples != 3 || predictor != Predictor::None) {
        return Err(unsupported("a subsampled YCbCr TIFF with further channels or a predictor"));
    }
    let rows = directory.number(tags::TILE_LENGTH).or_else(|| directory.number(tags::ROWS_PER_STRIP));
    let is_one_strip = rows.is_none_or(|rows| rows >= directory.number(tags::HEIGHT).unwrap_or(0));
    let is_whole = rows.is_some_and(|rows| rows.is_multiple_of(down));
    let tile = directory.number(tags::TILE_WIDTH).unwrap_or(0);
    if planar && !((is_one_strip || is_whole) && tile.is_multiple_of(across)) {
        return Err(unsupported(
            "a YCbCr TIFF whose strips or tiles end within shared differences of colour",
        ));
    }
    Ok((across as u32, down as u32))
}

pub(crate) fn predictor(
    directory: &Directory,
    method: Method,
    bits: u32,
    kind: Option<Kind>,
) -> Result<Predictor, CodecError> {
    match directory.number(tags::PREDICTOR).filter(|_| method.is_predicted()).unwrap_or(1) {
        0 | 1 => Ok(Predictor::None),
        _ if !bits.is_multiple_of(8) || bits == 24 => {
            Err(unsupported(format!("a TIFF with a predictor for samples of {bits} bits")))
        }
        2 => Ok(Predictor::Horizontal),
        3 if kind.is_some_and(Kind::is_float) => Ok(Predictor::Float),
        other => Err(unsupported(format!("a TIFF with predictor {other}"))),
    }
}
