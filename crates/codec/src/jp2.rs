//! JPEG 2000, in JP2 files or as bare codestreams, by the `hayro-jpeg2000` crate: read, and written in another format. Inks, signed samples and
//! components of different depths are refused.

use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext, Image};

use super::decode::{Decode, Describe, Wanted};
use super::metadata::{Metadata, MetadataBytes};
use super::samples::rescale;
use super::stated::Stated;
use super::{CodecError, Format, Limits, Native, Other, Payload};
use equalize::{Depth, Layout, Pixel};

/// Bytes that the decoder takes for each sample: coefficients, samples, and what it knows of their blocks.
const A_SAMPLE: u64 = 24;

/// The most tiles (T.800, A.4.2).
const MAX_TILES: u64 = 65535;

/// The most components of a picture that is read: red, green, blue and alpha, or three of a palette.
const MAX_COMPONENTS: usize = 4;

const CONVERT: &str = "convert it first, as in `opj_decompress -i IN -o OUT.png` (OpenJPEG)";

/// An opened JPEG 2000.
pub(super) struct Source<'a> {
    image: Image<'a>,
    layout: Layout,
    stated: Option<Stated>,
    icc: Option<Vec<u8>>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// Reads the headers; `bytes` is the whole file.
    pub(super) fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, CodecError> {
        let size = Size::find(bytes).ok_or_else(|| malformed("its header is cut short or damaged"))?;
        // Before the decoder takes memory for what is proportional to them.
        let least = size.layout(Pixel::Gray);
        limits.check(&least, least.bytes())?;
        if size.tiles > MAX_TILES {
            return Err(malformed("it has more tiles than can be numbered"));
        }
        if !(1..=MAX_COMPONENTS).contains(&size.components)
            || size.is_signed
            || !size.is_uniform
            || size.bits > 16
        {
            let what = "a JPEG 2000 of signed samples, of more than 16 bits, of different depths or of more than 4 components";
            return Err(CodecError::unsupported(what, CONVERT));
        }
        let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
        let image = Image::new(bytes, &settings).map_err(malformed)?;
        let (channels, icc) = match image.color_space() {
            ColorSpace::Gray => (1, None),
            ColorSpace::RGB => (3, None),
            ColorSpace::Icc { profile, num_channels } => (*num_channels, Some(profile.to_vec())),
            ColorSpace::CMYK => (4, None),
            ColorSpace::Unknown { .. } => (0, None),
        };
        let pixel = match (channels, image.has_alpha()) {
            (1, false) => Pixel::Gray,
            (1, true) => Pixel::GrayAlpha,
            (3, false) => Pixel::Rgb,
            (3, true) => Pixel::Rgba,
            _ => return Err(CodecError::unsupported("a JPEG 2000 that is neither gray nor RGB", CONVERT)),
        };
        // The codestream of a palette has its indices.
        let stated = (!size.has_palette).then(|| Stated::spread(size.bits));
        Ok(Self { image, layout: size.layout(pixel), stated, icc })
    }
}

impl Describe for Source<'_> {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn stated(&self) -> Option<Stated> {
        self.stated
    }

    fn metadata(&self) -> MetadataBytes {
        MetadataBytes { native: 0, carried: self.icc.as_ref().map_or(0, Vec::len) as u64 }
    }

    fn heap_bytes(&self) -> u64 {
        self.layout.pixels().saturating_mul(A_SAMPLE * self.layout.pixel.channels() as u64)
    }
}

impl Decode for Source<'_> {
    fn decode(self: Box<Self>, slot: &mut [u8], _wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let Self { image, layout, icc, .. } = *self;
        let mut context = DecoderContext::default();
        let decoded = image.decode(&mut context).map_err(malformed)?;
        let (planes, channels) = (decoded.components(), layout.pixel.channels());
        let samples = layout.pixels() as usize;
        if planes.len() != channels || planes.iter().any(|plane| plane.samples().len() != samples) {
            return Err(malformed("it has other samples than its header says"));
        }
        let bits = u32::from(planes[0].bit_depth());
        let is_of_depth = (bits > 8) == (layout.depth == Depth::Sixteen) && (1..=16).contains(&bits);
        if !is_of_depth || planes.iter().any(|plane| u32::from(plane.bit_depth()) != bits) {
            return Err(CodecError::unsupported("a JPEG 2000 with a palette of another depth", CONVERT));
        }
        let most = (1 << bits) - 1;
        for (channel, plane) in planes.iter().enumerate() {
            let levels = plane.samples().iter().map(|&sample| (sample + 0.5).clamp(0.0, most as f32) as u32);
            match layout.depth {
                Depth::Eight => {
                    let places = slot[channel..].iter_mut().step_by(channels);
                    places.zip(levels).for_each(|(to, level)| *to = rescale(level, most, 255) as u8);
                }
                Depth::Sixteen => {
                    let places = slot.as_chunks_mut::<2>().0[channel..].iter_mut().step_by(channels);
                    let level = |level| (rescale(level, most, 65_535) as u16).to_ne_bytes();
                    places.zip(levels).for_each(|(to, found)| *to = level(found));
                }
            }
        }
        let metadata = Metadata { icc, ..Metadata::default() };
        Ok(Payload { layout, metadata, native: Native::Other(Other::default()), mapped: None })
    }
}

/// What the first segment of a codestream says (T.800, A.5.1).
struct Size {
    width: u32,
    height: u32,
    tiles: u64,
    components: usize,
    bits: u32,
    is_signed: bool,
    /// Whether all components have the same type.
    is_uniform: bool,
    /// Whether there is a palette before the codestream.
    has_palette: bool,
}

impl Size {
    /// Finds the codestream in a file, and reads it.
    fn find(bytes: &[u8]) -> Option<Self> {
        const START: [u8; 4] = *b"\xff\x4f\xff\x51";
        let at = memchr::memmem::find(bytes, &START)?;
        // Behind the length and what decoders need.
        let content = bytes.get(at + START.len() + 4..)?;
        let word = |number: usize| Some(u32::from_be_bytes(*content.get(4 * number..)?.first_chunk()?));
        let [right, bottom, left, top] = [word(0)?, word(1)?, word(2)?, word(3)?];
        let [tile_width, tile_height, tile_left, tile_top] = [word(4)?, word(5)?, word(6)?, word(7)?];
        let side = |end: u32, start: u32| end.checked_sub(start).filter(|&side| side > 0);
        let count = |end: u32, start: u32, tile: u32| {
            let span = u64::from(side(end, start)?);
            (tile > 0).then(|| span.div_ceil(tile.into()))
        };
        let &[high, low] = content.get(32..)?.first_chunk()?;
        let components = usize::from(u16::from_be_bytes([high, low]));
        let (each, _) = content.get(34..)?.get(..3 * components)?.as_chunks::<3>();
        let depth = each.first()?[0];
        Some(Self {
            width: side(right, left)?,
            height: side(bottom, top)?,
            tiles: count(right, tile_left, tile_width)?.checked_mul(count(bottom, tile_top, tile_height)?)?,
            components,
            bits: u32::from(depth & 0x7f) + 1,
            is_signed: depth & 0x80 != 0,
            is_uniform: each.iter().all(|component| component[0] == depth),
            has_palette: memchr::memmem::find(&bytes[..at], b"pclr").is_some(),
        })
    }

    fn layout(&self, pixel: Pixel) -> Layout {
        let depth = if self.bits > 8 { Depth::Sixteen } else { Depth::Eight };
        Layout { width: self.width, height: self.height, pixel, depth }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped with it")]
fn malformed(reason: impl ToString) -> CodecError {
    CodecError::malformed(Format::Jpeg2000, reason.to_string())
}
