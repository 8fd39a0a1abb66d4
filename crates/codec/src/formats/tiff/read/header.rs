//! The pixels of a TIFF by its tags, checked for whether they can be read and written in full.

use crate::CodecError;
use crate::formats::foreign::RECOMPRESS;
use crate::formats::tiff::compression::method::{Method, OLD_JPEG};
use crate::formats::tiff::read::channels::Channels;
use crate::formats::tiff::read::refused::{refuse_depths, refuse_kinds};
use crate::formats::tiff::read::samples::{
    Colours, Predictor, behind, bits, colours, is_palette_of_levels, is_palette_of_one_colour, kind,
    predictor, samples, subsampling,
};
use crate::formats::tiff::read::values::{self, FirstPage};
use crate::formats::tiff::{malformed, tags, unsupported};
use crate::metadata::ifd::{Directory, Form};
use crate::samples::mapped::{Alpha, BAND, Form as Samples, Kind, NoData};
use crate::samples::size::Size;
use crate::samples::stated::Stated;
use equalize::{Depth, Layout, Levels, Pixel};

/// The pixels of a TIFF.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) form: Form,
    /// The layout of the decoded pixels.
    pub(crate) layout: Layout,
    /// The first row of the picture that is decoded, and the number of rows in the file.
    pub(crate) first_row: u32,
    pub(crate) file_rows: u32,
    /// Stored samples per pixel; 1 if the picture is a channel of several that are not colours.
    pub(crate) samples: usize,
    /// The channels of the page that are pictures by themselves.
    pub(crate) channels: Channels,
    /// The number of this one among them.
    pub(crate) channel: usize,
    /// Stored bits per sample: 1 to 16, or those of the kind.
    pub(crate) bits: u32,
    /// The type of samples that are not levels.
    pub(crate) kind: Option<Kind>,
    /// The stated levels of unsigned samples.
    pub(crate) stated: Option<Stated>,
    /// Whether the palette only displays levels, which are the measurement.
    ///
    /// It is ImageJ's look-up table, or the colour of an OME-TIFF's channel.
    pub(crate) has_display_colours: bool,
    /// The no-data value, if any sample can have it.
    pub(crate) no_data: Option<f64>,
    /// The value of samples that were never written.
    pub(crate) filling: f64,
    pub(crate) planar: bool,
    /// The numbers of pixels across and down that share their differences of colour.
    pub(crate) subsampling: (u32, u32),
    /// Whether it has tiles rather than strips.
    pub(crate) tiled: bool,
    /// The size of the strips or tiles; tiles include their part beyond the picture's edge.
    pub(crate) part: Size,
    pub(crate) colours: Colours,
    /// The kind of alpha, if the first sample after the colours is declared as alpha.
    pub(crate) alpha: Option<Alpha>,
    /// The number of samples after the colours other than alpha: near infrared, masks, padding.
    ///
    /// Only a sample that is declared as alpha is alpha.
    pub(crate) others: usize,
    /// The number of these that lie before alpha.
    pub(crate) before_alpha: usize,
    pub(crate) method: Method,
    /// Whether a single JPEG stream, which is no strip, is the whole picture.
    pub(crate) is_one_stream: bool,
    /// How samples were made easier to compress.
    pub(crate) predictor: Predictor,
    /// Whether the lowest bit of a byte comes first.
    pub(crate) lsb_first: bool,
}

impl Header {
    /// Reads and checks the tags of a page, or of one `channel` if it has several.
    ///
    /// `first` are the properties that the first page states for all, and `no_data` is the user's
    /// value.
    pub(crate) fn new(
        directory: &Directory,
        form: Form,
        first: &FirstPage,
        channel: usize,
        no_data: Option<f64>,
    ) -> Result<Self, CodecError> {
        let (Some(width), Some(height)) = (side(directory, tags::WIDTH), side(directory, tags::HEIGHT))
        else {
            return Err(malformed("it has no width or height"));
        };
        let samples = samples(directory);
        let bits = bits(directory, samples)?;
        let kind = kind(directory, bits, samples)?;
        let compression = directory.number(tags::COMPRESSION);
        let method = Method::new(compression.unwrap_or(1), directory.number(tags::FAX_OPTIONS).unwrap_or(0))?;
        let has_display_colours = is_palette_of_levels(directory)
            && (first.is_imagejs
                || first.has_ome_channels
                || first.is_ome && is_palette_of_one_colour(directory));
        let planes = first.planes(directory, samples);
        let (colours, colour_samples) = match planes {
            Some(_) if directory.number(tags::PHOTOMETRIC) == Some(tags::RGB.into()) => (Colours::Direct, 1),
            _ => colours(directory, method, samples, has_display_colours)?,
        };
        let channels = match planes {
            Some(_) if colours.are_of_light() => Channels::of_planes(samples)?,
            _ => Channels::of(directory, samples, colours, colour_samples, method)?,
        };
        refuse_depths(bits, samples, method, directory)?;
        let samples = if channels == Channels::ONE { samples } else { 1 };
        let (alpha, others, before_alpha) = behind(directory, samples, colours, colour_samples)?;
        let predictor = predictor(directory, method, bits, kind)?;
        if kind.is_some() {
            refuse_kinds(method, colours, before_alpha)?;
        }
        let pixel = pixel(colours, colour_samples, alpha.is_some());
        let planar = directory.number(tags::PLANAR_CONFIGURATION) == Some(2) && samples > 1;
        let is_ycbcr = directory.number(tags::PHOTOMETRIC) == Some(tags::YCBCR);
        if planar && is_ycbcr && method == Method::Jpeg {
            return Err(unsupported("a YCbCr TIFF of JPEG in separate planes"));
        }
        let subsampling = match colours {
            Colours::YCbCr => subsampling(directory, bits, samples, planar, predictor)?,
            _ => (1, 1),
        };
        let depth = if bits > 8 { Depth::Sixteen } else { Depth::Eight };
        let layout = Layout { width, height, pixel, depth };
        let of_file = values::no_data(directory, first).and_then(|value| values::sample(value, bits, kind));
        let of_user = no_data.and_then(|value| values::sample(value, bits, kind));
        let may_lack_data = kind.is_some() || colours.are_of_light() && !values::are_sparse(directory);
        let no_data = of_user.or(of_file.filter(|_| may_lack_data));
        let is_one_stream = compression == Some(OLD_JPEG);
        if is_one_stream && (directory.get(tags::JPEG_STREAM).is_none() || planar) {
            return Err(CodecError::unsupported("a TIFF of old-style JPEG in pieces", RECOMPRESS));
        }
        let tiled = directory.get(tags::TILE_WIDTH).is_some() && !is_one_stream;
        let part = if is_one_stream { Size { width, height } } else { part(directory, &layout, tiled)? };
        let mut header = Self {
            form,
            layout,
            first_row: 0,
            file_rows: height,
            samples,
            channels,
            channel,
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
            header.layout = samples.layout(Size { width, height });
        }
        Ok(header)
    }

    /// Returns the form of samples that are not levels.
    pub(crate) fn mapped(&self) -> Option<Samples> {
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
            step: None,
            is_part: self.is_band(),
        })
    }

    /// Returns the user's no-data value if it differs from the file's.
    pub(crate) fn no_data_of_user(&self) -> Option<f64> {
        self.no_data.filter(|value| value.to_bits() != self.filling.to_bits())
    }

    /// Returns the bytes of a stored sample, if it has whole bytes.
    pub(crate) fn sample_bytes(&self) -> usize {
        (self.bits / 8) as usize
    }

    /// Returns whether samples are stored in fewer bits than they are decoded to.
    pub(crate) fn is_packed(&self) -> bool {
        !self.bits.is_multiple_of(8)
    }

    /// Returns whether decoded samples lie where the stored ones do: not packed, and no palette.
    pub(crate) fn is_direct(&self) -> bool {
        !self.is_packed() && self.kind.is_none() && self.colours.are_of_light() && self.before_alpha == 0
    }

    /// Returns whether samples are unpacked on the way from strips or tiles to the rows.
    pub(crate) fn unpacks_parts(&self) -> bool {
        (self.planar || self.is_interleaved()) && self.is_packed()
    }

    /// Returns the bytes of a sample in the rows of the picture, if it has whole bytes there.
    pub(crate) fn placed_bytes(&self) -> usize {
        if self.is_packed() { self.layout.depth.bytes() } else { self.sample_bytes() }
    }

    /// Returns the bytes of a row of `width` pixels in the picture, as stored or unpacked.
    pub(crate) fn row_bytes(&self, width: u32) -> usize {
        if self.unpacks_parts() {
            return width as usize * self.samples * self.layout.depth.bytes();
        }
        (width as usize * self.samples * self.bits as usize).div_ceil(8)
    }

    /// Returns the decoded bytes of the `others` channels if samples are levels; else 0.
    pub(crate) fn other_bytes(&self) -> u64 {
        let Layout { depth, .. } = self.layout;
        if self.kind.is_none() {
            self.layout.pixels().saturating_mul((self.others * depth.bytes()) as u64)
        } else {
            0
        }
    }

    /// Returns the bytes that the stored samples take beyond the decoded pixels and other channels.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let spare = if self.colours == Colours::Cmyk { self.layout.depth.bytes() } else { 0 };
        self.layout.pixels().saturating_mul(spare as u64)
    }

    /// Returns whether samples of other channels that are not colours lie between the picture's.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.channels.stride() > 1
    }

    /// Returns the number of strips or tiles before the first of the picture.
    pub(crate) fn parts_before(&self) -> usize {
        let planes = if self.channels.planar { self.channel } else { 0 };
        self.across().saturating_mul(self.down()).saturating_mul(planes)
    }

    /// Returns the number of planes in which the samples are stored.
    pub(crate) fn planes(&self) -> usize {
        if self.planar { self.samples } else { 1 }
    }

    /// Returns the number of strips or tiles of all planes and channels.
    pub(crate) fn all_parts(&self) -> usize {
        let channels = if self.channels.planar { self.channels.count } else { 1 };
        let of_plane = self.across().saturating_mul(self.down());
        of_plane.saturating_mul(self.planes()).saturating_mul(channels)
    }

    /// Returns the rows of a strip or tile.
    pub(crate) fn rows(&self) -> usize {
        self.part.height as usize
    }

    /// Returns the number of strips or tiles of a plane in a row of them.
    pub(crate) fn across(&self) -> usize {
        self.layout.width.div_ceil(self.part.width) as usize
    }

    /// Returns the number of strips or tiles of a plane in a column of them.
    pub(crate) fn down(&self) -> usize {
        self.file_rows.div_ceil(self.part.height) as usize
    }

    /// Restricts decoding to these rows.
    pub(crate) fn narrow(&mut self, first_row: u32, rows: u32) {
        self.first_row = first_row;
        self.layout.height = rows;
    }

    /// Returns the size of the tiles, if the picture is written in such tiles again.
    ///
    /// It is where they are of the usual kind, and their parts beyond its edges are small: a few
    /// tiles of a small picture may lie there nearly whole.
    pub(crate) fn tile_to_keep(&self) -> Option<Size> {
        const MOST_BYTES: u64 = 8 << 20;
        const SPARE: u64 = 32 << 20;
        let Size { width, height } = self.part;
        let sample = self.kind.map_or(self.layout.depth.bytes(), Kind::bytes);
        let pixel = (self.samples * self.channels.stride() * sample) as u64;
        let tile = u64::from(width).saturating_mul(height.into()).saturating_mul(pixel);
        let tiles = (self.across() as u64).saturating_mul(self.down() as u64);
        let picture =
            u64::from(self.layout.width).saturating_mul(self.file_rows.into()).saturating_mul(pixel);
        let is_usual = width.is_multiple_of(16) && height.is_multiple_of(16) && tile <= MOST_BYTES;
        let has_little_beyond = tiles.saturating_mul(tile) <= picture.saturating_mul(2).saturating_add(SPARE);
        (self.tiled && is_usual && has_little_beyond).then_some(self.part)
    }

    /// Returns whether samples are labels: places in a palette, with unrelated neighbours.
    pub(crate) fn is_of_labels(&self) -> bool {
        self.colours == Colours::Palette
    }

    /// Returns whether pixels have the same samples as those of another picture.
    pub(crate) fn has_samples_of(&self, other: &Self) -> bool {
        let samples = |header: &Self| {
            let Self { samples, bits, kind, colours, channels, alpha, others, before_alpha, .. } = *header;
            (samples, bits, kind, colours, channels, alpha, others, before_alpha)
        };
        samples(self) == samples(other)
    }

    /// Returns the size of the picture in the file.
    pub(crate) fn size(&self) -> Size {
        Size { width: self.layout.width, height: self.file_rows }
    }

    /// Returns whether some rows are left out.
    pub(crate) fn is_band(&self) -> bool {
        self.layout.height < self.file_rows
    }

    /// Returns the bytes of a row of a strip or tile.
    pub(crate) fn part_row_bytes(&self) -> usize {
        let samples = if self.planar { 1 } else { self.samples * self.channels.stride() };
        (self.part.width as usize * samples * self.bits as usize).div_ceil(8)
    }

    /// Returns whether pixels share their differences of colour.
    pub(crate) fn is_subsampled(&self) -> bool {
        self.subsampling != (1, 1)
    }

    /// Returns how many pixels across and down share a sample of a plane.
    pub(crate) fn shared(&self, plane: usize) -> (u32, u32) {
        if plane > 0 { self.subsampling } else { (1, 1) }
    }

    /// Returns the bytes of a row of units, pixels with shared differences, in a strip or tile.
    pub(crate) fn units_bytes(&self) -> usize {
        let (across, down) = self.subsampling;
        self.part.width.div_ceil(across) as usize * (across * down + 2) as usize
    }

    /// Returns the bytes of some rows of a strip or tile.
    pub(crate) fn rows_bytes(&self, rows: u32) -> u64 {
        if self.is_subsampled() && !self.planar {
            (self.units_bytes() as u64).saturating_mul(rows.div_ceil(self.subsampling.1).into())
        } else {
            (self.part_row_bytes() as u64).saturating_mul(rows.into())
        }
    }

    /// Returns the bytes of a strip or tile.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.rows_bytes(self.part.height)
    }

    /// Returns whether the rows of strips or tiles are those of the picture.
    pub(crate) fn is_straight(&self) -> bool {
        !self.planar
            && !self.is_subsampled()
            && !self.is_interleaved()
            && self.part_row_bytes() == self.row_bytes(self.layout.width)
    }

    /// Returns the bytes of the buffer for a strip or tile on its way to the picture, or 0.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        match self.is_straight() {
            true => 0,
            false if self.is_interleaved() => {
                self.rows_bytes(self.part.height.min(self.rows_at_once() as u32))
            }
            false => self.part_bytes(),
        }
    }

    /// Returns how many rows are read at once: whole strips or tiles, unless stored in strips.
    pub(crate) fn rows_at_once(&self) -> usize {
        let row = self.row_bytes(self.layout.width) * self.channels.stride();
        if self.method == Method::Stored && !self.tiled {
            return (BAND / row).max(1);
        }
        let part = row.saturating_mul(self.rows());
        BAND.div_ceil(part).saturating_mul(self.rows()).min(self.layout.height as usize)
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

/// Returns a width or height.
fn side(directory: &Directory, tag: u16) -> Option<u32> {
    u32::try_from(directory.number(tag)?).ok().filter(|&side| side > 0)
}

/// Returns the size of the strips or tiles.
fn part(directory: &Directory, layout: &Layout, tiled: bool) -> Result<Size, CodecError> {
    if !tiled {
        let rows = side(directory, tags::ROWS_PER_STRIP).unwrap_or(layout.height);
        return Ok(Size { width: layout.width, height: rows.min(layout.height) });
    }
    let sides = side(directory, tags::TILE_WIDTH).zip(side(directory, tags::TILE_LENGTH));
    let (width, height) = sides.ok_or_else(|| malformed("its tiles have no width or length"))?;
    Ok(Size { width, height })
}
