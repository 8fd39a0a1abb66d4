//! What a TIFF's tags say about its pixels, and whether these can be read and written back in full.

use super::super::CodecError;
use super::super::foreign::{CHANNELS, DEVELOP, EACH_CHANNEL, MOSAIC, RECOMPRESS, SCALE, SPLIT, TO_RGB};
use super::super::ifd::{Directory, Form, Numbers, Value};
use super::method::{Method, OLD_JPEG};
use super::values::{self, FirstPage};
use super::{arrangement, imagej, malformed, tags, unsupported};
use crate::mapped::{Alpha, Form as Samples, Kind, NoData};
use crate::reader::Reader;
use crate::stated::Stated;
use equalize::{Depth, Layout, Levels, Pixel};

/// The most channels besides the colours.
const MAX_BEHIND: usize = 16;

/// How samples become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
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
    const fn are_of_light(self) -> bool {
        matches!(self, Self::Direct | Self::WhiteIsZero)
    }
}

/// The pixels of a TIFF.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) form: Form,
    /// The layout of the decoded pixels.
    pub(super) layout: Layout,
    /// Stored samples per pixel.
    pub(super) samples: usize,
    /// Stored bits per sample: 1 to 16, or those of the kind.
    pub(super) bits: u32,
    /// The type of samples that are no levels.
    pub(super) kind: Option<Kind>,
    /// What is said of the levels of unsigned samples.
    pub(super) stated: Option<Stated>,
    /// Whether the palette is a look-up table of ImageJ's: colours in which levels are displayed, while the levels are what was measured.
    pub(super) has_display_colours: bool,
    /// The value of samples that are none, if any sample has it.
    pub(super) no_data: Option<f64>,
    /// The value that stands where nothing was written.
    pub(super) filling: f64,
    pub(super) planar: bool,
    /// How many pixels across and down share their differences of colour.
    pub(super) subsampling: (u32, u32),
    /// Whether it has tiles rather than strips.
    pub(super) tiled: bool,
    /// Width and rows of the strips or tiles; tiles include what lies beyond the picture's edge.
    pub(super) part: (u32, u32),
    pub(super) colours: Colours,
    /// What the first sample behind the colours is to them, if it is declared as alpha.
    pub(super) alpha: Option<Alpha>,
    /// The samples behind the colours besides alpha: near infrared, masks, padding. Only what is declared as alpha is alpha.
    pub(super) others: usize,
    /// How many of these lie before alpha.
    pub(super) before_alpha: usize,
    pub(super) method: Method,
    /// Whether a single JPEG stream, which is no strip, is the whole picture.
    pub(super) is_one_stream: bool,
    /// How samples were made easier to compress.
    pub(super) predictor: Predictor,
    /// Whether the lowest bit of a byte comes first.
    pub(super) lsb_first: bool,
}

impl Header {
    /// Reads and checks the tags of a page. `first` is what the first page says for all, and `no_data` what the user does.
    pub(super) fn new(
        directory: &Directory,
        form: Form,
        first: &FirstPage,
        no_data: Option<f64>,
    ) -> Result<Self, CodecError> {
        let number = |tag, default: u64| directory.number(tag).unwrap_or(default);
        let side = |tag| u32::try_from(number(tag, 0)).ok().filter(|&n| n > 0);
        let (Some(width), Some(height)) = (side(tags::WIDTH), side(tags::HEIGHT)) else {
            return Err(malformed("it has no width or height"));
        };
        let samples = number(tags::SAMPLES_PER_PIXEL, 1) as usize;
        let bits = bits(directory, samples)?;
        let kind = kind(directory, bits, samples)?;
        let method = Method::new(number(tags::COMPRESSION, 1), number(tags::FAX_OPTIONS, 0))?;
        let has_display_colours = first.is_imagejs && is_palette_of_levels(directory);
        let (colours, colour_samples) = colours(directory, method, samples, has_display_colours)?;
        let (alpha, others, before_alpha) = behind(directory, samples, (colours, colour_samples))?;
        refuse_depths((bits, samples), method, directory)?;
        let predictor = predictor(directory, method, bits, kind)?;
        if kind.is_some() {
            refuse_kinds(method, colours, before_alpha)?;
        }
        let pixel = pixel(colours, colour_samples, alpha.is_some());
        let planar = number(tags::PLANAR_CONFIGURATION, 1) == 2 && samples > 1;
        let is_ycbcr = directory.number(tags::PHOTOMETRIC) == Some(tags::YCBCR);
        if planar && is_ycbcr && method == Method::Jpeg {
            return Err(unsupported("a YCbCr TIFF of JPEG in separate planes"));
        }
        let subsampling = match colours {
            Colours::YCbCr => subsampling(directory, (bits, samples), planar, predictor)?,
            _ => (1, 1),
        };
        let depth = if bits > 8 { Depth::Sixteen } else { Depth::Eight };
        let layout = Layout { width, height, pixel, depth };
        let of_file = values::no_data(directory, first).and_then(|value| values::sample(value, bits, kind));
        let of_user = no_data.and_then(|value| values::sample(value, bits, kind));
        let may_lack_data = kind.is_some() || colours.are_of_light() && !values::are_sparse(directory);
        let no_data = of_user.or(of_file.filter(|_| may_lack_data));
        let is_one_stream = directory.number(tags::COMPRESSION) == Some(OLD_JPEG);
        if is_one_stream && (directory.get(tags::JPEG_STREAM).is_none() || planar) {
            return Err(CodecError::unsupported("a TIFF of old-style JPEG in pieces", RECOMPRESS));
        }
        let tiled = directory.get(tags::TILE_WIDTH).is_some() && !is_one_stream;
        let part = if is_one_stream { (width, height) } else { part(directory, &layout, tiled)? };
        let mut header = Self {
            form,
            layout,
            samples,
            bits,
            kind,
            stated: values::stated(directory, bits, first).filter(|_| colours.are_of_light()),
            has_display_colours,
            no_data,
            filling: of_file.unwrap_or(0.0),
            planar,
            subsampling,
            tiled,
            part,
            colours,
            alpha,
            others,
            before_alpha,
            method,
            is_one_stream,
            predictor,
            lsb_first: directory.number(tags::FILL_ORDER) == Some(2),
        };
        if let Some(samples) = header.mapped() {
            header.layout = samples.layout(width, height);
        }
        Ok(header)
    }

    /// Returns the form of samples that are no levels.
    pub(super) fn mapped(&self) -> Option<Samples> {
        let inverted = self.colours == Colours::WhiteIsZero;
        let Self { alpha, others, no_data, .. } = *self;
        let colours = self.samples - usize::from(alpha.is_some()) - others;
        self.kind.map(|kind| Samples {
            kind,
            colours,
            alpha,
            others,
            inverted,
            no_data: no_data.map(NoData::value),
            ends: kind.whole_range(),
            stated: None,
            levels: Levels::All,
            is_bounded: false,
        })
    }

    /// Returns the value of samples that are none if the user says another than the file.
    pub(super) fn no_data_of_user(&self) -> Option<f64> {
        self.no_data.filter(|value| value.to_bits() != self.filling.to_bits())
    }

    /// Returns the bytes of a stored sample, if it has whole bytes.
    pub(super) fn sample_bytes(&self) -> usize {
        (self.bits / 8) as usize
    }

    /// Returns whether samples are stored in fewer bits than they are decoded to.
    pub(super) fn is_packed(&self) -> bool {
        !self.bits.is_multiple_of(8)
    }

    /// Returns whether decoded samples lie where the stored ones do, because they need neither unpacking nor a palette.
    pub(super) fn is_direct(&self) -> bool {
        !self.is_packed() && self.kind.is_none() && self.colours.are_of_light() && self.before_alpha == 0
    }

    /// Returns whether the samples of planes are unpacked before they become pixels.
    pub(super) fn unpacks_planes(&self) -> bool {
        self.planar && self.is_packed()
    }

    /// Returns the bytes of a row of `width` pixels, as stored unless planes are unpacked.
    pub(super) fn row_bytes(&self, width: u32) -> usize {
        if self.unpacks_planes() {
            return width as usize * self.samples * self.layout.depth.bytes();
        }
        (width as usize * self.samples * self.bits as usize).div_ceil(8)
    }

    /// Returns the bytes of the channels that are neither colour nor alpha and lie between levels, decoded; 0 if there are none.
    pub(super) fn other_bytes(&self) -> u64 {
        let Layout { depth, .. } = self.layout;
        if self.kind.is_none() {
            self.layout.pixels().saturating_mul((self.others * depth.bytes()) as u64)
        } else {
            0
        }
    }

    /// Returns the bytes that the stored samples take beyond the pixels and the channels beside them, decoded.
    pub(super) fn spare_bytes(&self) -> u64 {
        let spare = if self.colours == Colours::Cmyk { self.layout.depth.bytes() } else { 0 };
        self.layout.pixels().saturating_mul(spare as u64)
    }

    /// Returns the number of planes in which the samples are stored.
    pub(super) fn planes(&self) -> usize {
        if self.planar { self.samples } else { 1 }
    }

    /// Returns the rows of a strip or tile.
    pub(super) fn rows(&self) -> usize {
        self.part.1 as usize
    }

    /// Returns the number of strips or tiles of a plane beside each other.
    pub(super) fn across(&self) -> usize {
        self.layout.width.div_ceil(self.part.0) as usize
    }

    /// Returns the number of strips or tiles of a plane below each other.
    pub(super) fn down(&self) -> usize {
        self.layout.height.div_ceil(self.part.1) as usize
    }

    /// Returns the bytes of a row of a strip or tile.
    pub(super) fn part_row_bytes(&self) -> usize {
        if self.planar {
            (self.part.0 as usize * self.bits as usize).div_ceil(8)
        } else {
            self.row_bytes(self.part.0)
        }
    }

    /// Returns whether pixels share their differences of colour.
    pub(super) fn is_subsampled(&self) -> bool {
        self.subsampling != (1, 1)
    }

    /// Returns how many pixels across and down share a sample of a plane.
    pub(super) fn shared(&self, plane: usize) -> (u32, u32) {
        if plane > 0 { self.subsampling } else { (1, 1) }
    }

    /// Returns the bytes of the units of a strip or tile beside each other: those of pixels that share their differences of colour.
    pub(super) fn units_bytes(&self) -> usize {
        let (across, down) = self.subsampling;
        self.part.0.div_ceil(across) as usize * (across * down + 2) as usize
    }

    /// Returns the bytes of some rows of a strip or tile.
    pub(super) fn rows_bytes(&self, rows: u32) -> u64 {
        if self.is_subsampled() && !self.planar {
            (self.units_bytes() as u64).saturating_mul(rows.div_ceil(self.subsampling.1).into())
        } else {
            (self.part_row_bytes() as u64).saturating_mul(rows.into())
        }
    }

    /// Returns the bytes of a strip or tile.
    pub(super) fn part_bytes(&self) -> u64 {
        self.rows_bytes(self.part.1)
    }

    /// Returns whether the rows of strips or tiles are those of the picture.
    pub(super) fn is_straight(&self) -> bool {
        !self.planar && !self.is_subsampled() && self.part_row_bytes() == self.row_bytes(self.layout.width)
    }

    /// Returns the bytes of the buffer that a strip or tile passes through on its way to the picture; 0 if it needs none.
    pub(super) fn buffer_bytes(&self) -> u64 {
        if self.is_straight() { 0 } else { self.part_bytes() }
    }
}

fn pixel(colours: Colours, samples: usize, alpha: bool) -> Pixel {
    match (colours, samples, alpha) {
        (Colours::Palette, _, false) | (_, 2.., false) => Pixel::Rgb,
        (Colours::Palette, _, true) | (_, 2.., true) => Pixel::Rgba,
        (.., true) => Pixel::GrayAlpha,
        (.., false) => Pixel::Gray,
    }
}

/// Returns the width and rows of the strips or tiles.
fn part(directory: &Directory, layout: &Layout, tiled: bool) -> Result<(u32, u32), CodecError> {
    let side = |tag| directory.number(tag).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
    if !tiled {
        let rows = side(tags::ROWS_PER_STRIP).unwrap_or(layout.height);
        return Ok((layout.width, rows.min(layout.height)));
    }
    let sides = side(tags::TILE_WIDTH).zip(side(tags::TILE_LENGTH));
    sides.ok_or_else(|| malformed("its tiles have no width or length"))
}

/// Refuses a camera's raw file, and stacks whose further pictures no page and no known description tells of.
pub(super) fn refuse_others(bytes: &Reader<'_>, directory: &Directory) -> Result<(), CodecError> {
    if is_camera_raw(bytes, directory) {
        return Err(CodecError::unsupported("a camera raw file", DEVELOP));
    }
    if directory.number(tags::PHOTOMETRIC) == Some(tags::CFA) {
        return Err(CodecError::unsupported(
            "a TIFF of the samples behind a sensor's colour filter (CFA)",
            MOSAIC,
        ));
    }
    // MetaMorph has one RATIONAL per plane, though six LONGs lie at its offset.
    let planes = directory.get(tags::STACK_PLANES).map_or(1, Value::count);
    if planes > 1 || directory.number(tags::DEPTH).unwrap_or(1) > 1 {
        return Err(CodecError::unsupported("a stack of pictures in one TIFF page", SPLIT));
    }
    Ok(())
}

/// Returns whether the file is a camera's raw file (DNG, NEF, ARW, CR2 and the like), whose first directory often has only a preview.
fn is_camera_raw(bytes: &Reader<'_>, directory: &Directory) -> bool {
    let mut mark = [0; 4];
    let is_canons = bytes.read_at(&mut mark, 8).is_ok() && mark == *b"CR\x02\0";
    let has = |tag| directory.get(tag).is_some();
    let is_of_a_sensor = matches!(directory.number(tags::PHOTOMETRIC), Some(tags::CFA | tags::LINEAR_RAW));
    let is_of_a_sensor = is_of_a_sensor && (has(tags::DNG_VERSION) || has(tags::MAKE));
    let is_preview = directory.number(tags::KIND).is_some_and(|kind| kind & 1 == 1);
    let has_the_raw_below = has(tags::SUB_IFDS) && (has(tags::DNG_VERSION) || is_preview && has(tags::MAKE));
    is_canons || is_of_a_sensor || has_the_raw_below
}

/// Returns how many pictures lie behind each other, beginning with the only one that has a directory: ImageJ and tifffile store large stacks
/// so, and tell their number in the description. 1 if it tells of no others.
pub(super) fn told_pictures(directory: &Directory) -> u64 {
    let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
    let number = |tag| directory.number(tag).unwrap_or(1);
    let samples = product(&[tags::WIDTH, tags::HEIGHT, tags::SAMPLES_PER_PIXEL].map(number)).max(1);
    let of_tifffile = || {
        let series = arrangement::series(description).filter(|series| series.truncated)?;
        Some(product(&series.shape) / samples)
    };
    imagej::images(description).or_else(of_tifffile).unwrap_or(1).max(1)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}

/// Returns the bits of a sample. Some writers state them of more samples than a pixel has.
fn bits(directory: &Directory, samples: usize) -> Result<u32, CodecError> {
    let Some(all) = directory.numbers(tags::BITS_PER_SAMPLE) else { return Ok(1) };
    let mut all = all.iter().take(samples.max(1));
    match all.next() {
        Some(bits @ (1..=16 | 24 | 32 | 64)) if all.all(|other| other == bits) => Ok(bits as u32),
        Some(bits) if bits > 16 && all.all(|other| other == bits) => {
            Err(CodecError::unsupported(format!("a TIFF of {bits} bits a sample"), SCALE))
        }
        _ => Err(unsupported("a TIFF whose samples have different depths")),
    }
}

/// Returns whether each level of one channel of 8 bits has a colour.
fn is_palette_of_levels(directory: &Directory) -> bool {
    directory.number(tags::PHOTOMETRIC) == Some(tags::PALETTE.into())
        && directory.number(tags::BITS_PER_SAMPLE) == Some(8)
        && directory.number(tags::SAMPLES_PER_PIXEL).unwrap_or(1) == 1
}

/// Returns how samples become colours, and how many samples of a pixel do. Some writers do not say it.
fn colours(
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
        Some(tags::YCBCR) if method == Method::Jpeg => Ok((Colours::Direct, 3)), // libjpeg converts it to RGB
        Some(tags::YCBCR) => Ok((Colours::YCbCr, 3)),
        Some(4) => Err(unsupported("a TIFF transparency mask")),
        Some(8..=10) => Err(unsupported("a CIELab TIFF")),
        Some(other) => Err(unsupported(format!("a TIFF of photometric interpretation {other}"))),
        None if matches!(method, Method::Fax(_)) => Ok((Colours::WhiteIsZero, 1)),
        None if is_cmyk && directory.get(tags::INK_SET).is_some() => Ok((Colours::Cmyk, 4)),
        None if samples == 1 => Ok((Colours::Direct, 1)),
        None if samples == 3 => Ok((Colours::Direct, 3)),
        None => Err(malformed("it does not say what its samples mean (no photometric interpretation)")),
    }
}

/// Returns how many pixels of a YCbCr picture across and down share their differences of colour.
fn subsampling(
    directory: &Directory,
    (bits, samples): (u32, usize),
    planar: bool,
    predictor: Predictor,
) -> Result<(u32, u32), CodecError> {
    let factors = directory.numbers(tags::YCBCR_SUBSAMPLING);
    let factor = |at| factors.map_or(Some(2), |factors| factors.get(at));
    let (Some(across @ (1 | 2 | 4)), Some(down @ (1 | 2 | 4))) = (factor(0), factor(1)) else {
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

/// Returns what is alpha of the samples behind the colours, how many others there are, and how many of these lie before it.
fn behind(
    directory: &Directory,
    samples: usize,
    (colours, colour_samples): (Colours, usize),
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
    // Which of them is to be enhanced, and how, nothing tells.
    if others > 0 && colour_samples == 1 && colours.are_of_light() {
        let what = format!("a TIFF of {} channels in one page that are no colours", others + 1);
        return Err(CodecError::unsupported(what, EACH_CHANNEL));
    }
    Ok((alpha, others, before))
}

/// Returns the type of samples of this many bits that are no levels; `None` if they are.
fn kind(directory: &Directory, bits: u32, samples: usize) -> Result<Option<Kind>, CodecError> {
    let formats = directory.numbers(tags::SAMPLE_FORMAT).into_iter().flat_map(Numbers::iter);
    let mut formats = formats.take(samples.max(1));
    let format = formats.next().unwrap_or(tags::UNSIGNED);
    // What is not specified is taken for unsigned.
    let is_unsigned = |format| matches!(format, tags::UNSIGNED | 4);
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

/// Refuses what cannot be done right with samples that are no levels.
fn refuse_kinds(method: Method, colours: Colours, before_alpha: usize) -> Result<(), CodecError> {
    if before_alpha > 0 {
        return Err(CodecError::unsupported(
            "a TIFF of such samples whose alpha is behind other channels",
            CHANNELS,
        ));
    }
    if colours == Colours::Cmyk {
        return Err(CodecError::unsupported("a CMYK TIFF of signed, long or floating-point samples", TO_RGB));
    }
    if method == Method::Jpeg {
        return Err(CodecError::unsupported("a TIFF of signed samples compressed by JPEG", SCALE));
    }
    if colours == Colours::Palette {
        return Err(malformed("its palette indices are signed, long or floats"));
    }
    Ok(())
}

/// How samples are stored so that they are easier to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    /// As they are.
    None,
    /// As differences.
    Horizontal,
    /// As differences of the bytes of floats, those of equal weight together.
    Float,
}

fn predictor(
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

/// Refuses depths that cannot be decoded correctly in combination with other properties.
fn refuse_depths(
    (bits, samples): (u32, usize),
    method: Method,
    directory: &Directory,
) -> Result<(), CodecError> {
    let packed = !bits.is_multiple_of(8);
    let tile = directory.number(tags::TILE_WIDTH).unwrap_or(0);
    if packed && !tile.is_multiple_of(8) {
        return Err(unsupported(format!("a TIFF with tiles of {tile} samples of {bits} bits across")));
    }
    let is_fax = matches!(method, Method::Fax(_));
    if !matches!(bits, 8 | 12 | 16) && method == Method::Jpeg || bits != 1 && is_fax {
        return Err(CodecError::unsupported(
            format!("a TIFF of {bits} bits compressed by JPEG or CCITT's codes for faxes"),
            "store it as a TIFF of 8 or 16 bits, compressed otherwise, first",
        ));
    }
    let planar = samples > 1 && directory.number(tags::PLANAR_CONFIGURATION) == Some(2);
    if method == Method::WebP && (bits != 8 || planar || !matches!(samples, 3 | 4)) {
        return Err(malformed("it is compressed by WebP, but its samples are not RGB or RGBA of 8 bits"));
    }
    if samples > 1 && is_fax {
        return Err(unsupported(format!(
            "a TIFF of {samples} samples a pixel compressed by CCITT's codes for faxes"
        )));
    }
    Ok(())
}
