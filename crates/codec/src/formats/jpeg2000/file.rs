//! Files of JPEG 2000, as JP2 or bare codestreams: read, and written in another format.
//!
//! Inks, signed samples and components of different depths are refused.

use std::ops::Range;

use hayro_jpeg2000::{ColorSpace, DecodedImage, Image};

use super::boxes::boxes;
use super::georeference;
use super::{SETTINGS, SizSegment, block_coder, decoder_bytes, find, is_decoded_elsewhere, with_decoded};
use crate::coding::codestream::{BlockCoder, CodestreamDecoder};
use crate::metadata::{Georeference, Metadata, MetadataBytes};
use crate::picture::Other;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::rescale;
use crate::samples::stated::Stated;
use crate::{CodecError, Format, Limits, MemoryNeeds};
use equalize::{Depth, Layout, Pixel};

/// The most tiles (T.800, A.4.2).
const MAX_TILES: u64 = 65535;

/// The most components that are read: red, green, blue and alpha, or three of a palette.
const MAX_COMPONENTS: usize = 4;

/// The boxes that rearrange components: a palette, a map to it, and the kinds of channels.
const REARRANGED: [&[u8; 4]; 3] = [b"pclr", b"cmap", b"cdef"];

/// The enumerated colour spaces of samples that are shown as they are: sRGB and gray.
const SHOWN_AS_THEY_ARE: [u32; 2] = [16, 17];

const CONVERT: &str = "convert it first, as in `opj_decompress -i IN -o OUT.png` (OpenJPEG)";

/// An opened JPEG 2000.
#[derive(Debug)]
struct Source<'a> {
    bytes: &'a [u8],
    layout: Layout,
    stated: Option<Stated>,
    icc: Option<Vec<u8>>,
    georeference: Option<Georeference>,
    /// The most bytes that the decoder takes.
    decoder_bytes: u64,
    /// The offset of the codestream, and its first marker segment.
    codestream: (usize, SizSegment),
    /// Whether its components are the channels of the picture.
    is_direct: bool,
}

/// Corrects a file that the decoder would reject: see [`super::mend`].
fn mend(bytes: &mut [u8]) {
    let whole = bytes.len();
    let (start, end) = match codestream_box(bytes) {
        Some(place) => (place.start, place.end),
        None => (0, whole),
    };
    if let Some(found) = find(&bytes[start..end]) {
        super::mend(&mut bytes[start + found..end]);
    }
}

/// Returns the place of the codestream's box in a JP2 file.
fn codestream_box(bytes: &[u8]) -> Option<Range<usize>> {
    boxes(bytes).find(|(kind, _)| kind == b"jp2c").map(|(_, place)| place)
}

/// Returns the number of channels that a palette's box maps the components to.
fn mapped_channels(bytes: &[u8]) -> usize {
    let maps = header_boxes(bytes).filter(|(kind, _)| kind == b"cmap");
    maps.map(|(_, content)| content.len() / 4).max().unwrap_or(0)
}

/// Returns a file without the bytes after its last box, unless they may be a box.
///
/// A box must have a printable type.
fn without_rest(bytes: &[u8]) -> &[u8] {
    let Some(codestream) = codestream_box(bytes) else { return bytes };
    let end = boxes(bytes).map(|(_, place)| place.end).last().unwrap_or(0);
    let kind = bytes.get(end + 4..end + 8);
    let may_be_box =
        kind.is_some_and(|kind| kind.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '));
    if codestream.end <= end && !may_be_box { &bytes[..end] } else { bytes }
}

/// Reads the headers of `bytes`, the whole file, which is mended.
pub(crate) fn open<'a>(bytes: &'a mut [u8], limits: &Limits) -> Result<Box<dyn Decode + 'a>, CodecError> {
    mend(bytes);
    Ok(Box::new(Source::open(bytes, limits)?))
}

impl<'a> Source<'a> {
    fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, CodecError> {
        let bytes = without_rest(bytes);
        let start = find(bytes);
        let size = start.and_then(|start| Some((start, SizSegment::parse(&bytes[start..])?)));
        let (start, size) = size.ok_or_else(|| malformed("its header is cut short or damaged"))?;
        // Checked before the decoder takes memory in proportion to them.
        let least = layout(&size, Pixel::Gray);
        limits.check(&least, least.bytes(), || Some(MemoryNeeds::of_pixels(least)))?;
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
        if size.is_subsampled {
            return Err(CodecError::unsupported("a JPEG 2000 with subsampled components", CONVERT));
        }
        let is_direct = is_direct(bytes, start);
        if block_coder(&bytes[start..]) == BlockCoder::HighThroughput {
            return Self::high_throughput(bytes, start, size, is_direct);
        }
        let image = Image::new(bytes, &SETTINGS).map_err(malformed)?;
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
        let has_palette = memchr::memmem::find(&bytes[..start], b"pclr").is_some();
        let stated = (!has_palette).then(|| Stated::spread(size.bits));
        let channels = mapped_channels(bytes).max(pixel.channels());
        let decoder_bytes = decoder_bytes(&bytes[start..], &size, channels);
        let is_direct = is_direct && pixel.channels() == size.components && !pixel.has_alpha();
        let layout = layout(&size, pixel);
        let (georeference, codestream) = (georeference::read(bytes), (start, size));
        Ok(Self { bytes, layout, stated, icc, georeference, decoder_bytes, codestream, is_direct })
    }

    /// Describes a codestream that only a device decodes.
    fn high_throughput(
        bytes: &'a [u8],
        start: usize,
        size: SizSegment,
        is_direct: bool,
    ) -> Result<Self, CodecError> {
        let pixel = match size.components {
            1 if is_direct => Pixel::Gray,
            3 if is_direct => Pixel::Rgb,
            _ => return Err(only_on_gpu()),
        };
        let (layout, stated) = (layout(&size, pixel), Some(Stated::spread(size.bits)));
        let (icc, georeference, codestream) = (profile(bytes), georeference::read(bytes), (start, size));
        Ok(Self { bytes, layout, stated, icc, georeference, decoder_bytes: 0, codestream, is_direct })
    }

    /// Has a device decode the picture into the slot, if it can.
    fn is_decoded_elsewhere(&self, decoder: Option<&dyn CodestreamDecoder>, slot: &mut [u8]) -> bool {
        let (start, size) = &self.codestream;
        let bytes = self.layout.depth.bytes();
        if !self.is_direct || !is_decoded_elsewhere(&self.bytes[*start..], size, bytes, decoder, slot) {
            return false;
        }
        let most = (1 << size.bits) - 1;
        match self.layout.depth {
            Depth::Eight if size.bits < 8 => {
                slot.iter_mut().for_each(|to| *to = rescale(u32::from(*to), most, 255) as u8);
            }
            Depth::Sixteen if size.bits < 16 => slot.as_chunks_mut::<2>().0.iter_mut().for_each(|to| {
                let level = u32::from(u16::from_le_bytes(*to));
                *to = (rescale(level, most, 65_535) as u16).to_ne_bytes();
            }),
            Depth::Eight | Depth::Sixteen => {}
        }
        true
    }
}

/// Returns whether the components of a file are gray, or red, green and blue, in this order.
///
/// `start` is the offset of its codestream.
fn is_direct(bytes: &[u8], start: usize) -> bool {
    if start == 0 {
        return true;
    }
    let headers: Vec<([u8; 4], &[u8])> = header_boxes(bytes).collect();
    let colours = headers.iter().filter(|(kind, _)| kind == b"colr").map(|(_, content)| *content);
    let is_shown = |content: &[u8]| match *content {
        [1, _, _, a, b, c, d, ..] => SHOWN_AS_THEY_ARE.contains(&u32::from_be_bytes([a, b, c, d])),
        [2, _, _, ..] => true,
        _ => false,
    };
    let is_rearranged = headers.iter().any(|(kind, _)| REARRANGED.contains(&kind));
    !is_rearranged && colours.clone().count() == 1 && colours.into_iter().all(is_shown)
}

/// Returns the boxes that describe the picture.
fn header_boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let headers = boxes(bytes).filter(|(kind, _)| kind == b"jp2h").map(|(_, place)| &bytes[place]);
    headers.flat_map(|header| boxes(header).map(move |(kind, place)| (kind, &header[place])))
}

/// Returns the ICC profile of a file.
fn profile(bytes: &[u8]) -> Option<Vec<u8>> {
    header_boxes(bytes).find_map(|(kind, content)| match content {
        [2, _, _, profile @ ..] if kind == *b"colr" => Some(profile.to_vec()),
        _ => None,
    })
}

fn only_on_gpu() -> CodecError {
    CodecError::unsupported("a high-throughput JPEG 2000", super::ON_GPU)
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let georeference = self.georeference.as_ref().map_or(0, Georeference::bytes);
        let carried = self.icc.as_ref().map_or(0, Vec::len) as u64 + georeference;
        Facts {
            stated: self.stated,
            metadata: MetadataBytes { native: 0, carried },
            block_coder: Some(block_coder(&self.bytes[self.codestream.0..])),
            ..Facts::of(self.layout)
        }
    }

    fn needs(&self) -> Needs {
        // The file may be copied, to find where its packets end, and the decoder copies its input.
        Needs::of_heap(self.decoder_bytes.saturating_add(2 * self.bytes.len() as u64))
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let is_decoded = self.is_decoded_elsewhere(wanted.decoder, slot);
        let Self { bytes, layout, icc, georeference, codestream: (start, _), .. } = *self;
        if !is_decoded && block_coder(&bytes[start..]) == BlockCoder::HighThroughput {
            return Err(only_on_gpu());
        }
        if !is_decoded {
            with_decoded(bytes, |decoded| take(decoded, &layout, slot)).map_err(malformed)??;
        }
        let metadata = Metadata { icc, georeference, ..Metadata::default() };
        Ok(Payload { layout, metadata, native: Box::new(Other::default()), mapped: None })
    }
}

/// Takes over the samples that were decoded.
fn take(decoded: &DecodedImage<'_>, layout: &Layout, slot: &mut [u8]) -> Result<(), CodecError> {
    let (planes, channels) = (decoded.components(), layout.pixel.channels());
    let samples = layout.pixels() as usize;
    if planes.len() != channels || planes.iter().any(|plane| plane.samples().len() != samples) {
        return Err(malformed("its samples differ from its header"));
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
                places
                    .zip(levels)
                    .for_each(|(to, level)| *to = (rescale(level, most, 65_535) as u16).to_ne_bytes());
            }
        }
    }
    Ok(())
}

fn layout(size: &SizSegment, pixel: Pixel) -> Layout {
    let depth = if size.bits > 8 { Depth::Sixteen } else { Depth::Eight };
    Layout { width: size.width, height: size.height, pixel, depth }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped with it")]
fn malformed(reason: impl ToString) -> CodecError {
    CodecError::malformed(Format::Jpeg2000, reason.to_string())
}
