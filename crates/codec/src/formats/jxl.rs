//! JPEG XL, by the `jxl-oxide` crate: read, and written in another format.
//!
//! Pixels are decoded upright, and EXIF is corrected to that. Animations, inks and floating-point
//! samples are refused.

mod boxes;
mod exif;
mod preview;
mod profile;
mod wide;

use boxes::{Boxes, Content};
use exif::upright;
use jxl_oxide::image::ExtraChannelInfo;
use jxl_oxide::{
    AllocTracker, EnumColourEncoding, ExtraChannelType, ImageStream, InitializeResult, JxlImage,
    RenderingIntent,
};
use preview::WithoutPreview;
use wide::Wide;

use crate::metadata::{Metadata, MetadataBytes, without_exif_prefix};
use crate::picture::Other;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::alpha::divide_alpha_out;
use crate::samples::stated::Stated;
use crate::{CodecError, Format, Limits, MemoryNeeds};
use equalize::{Depth, Layout, Pixel};

/// Bytes that are given to the decoder at a time.
const CHUNK: usize = 64 << 10;

/// Bytes of heap that the decoder may take in addition to those for its samples.
const FIXED_BYTES: u64 = 32 << 20;

/// Bytes that the decoder may take for each sample: floats, before and after its filters.
const BYTES_PER_SAMPLE: u64 = 20;

/// The number of copies of a profile that the decoder keeps.
const PROFILES: u64 = 2;

const ANIMATED: &str =
    "extract the frames first, as in `djxl IN OUT.apng` and `ffmpeg -i OUT.apng OUT-%03d.png`";
const CONVERT: &str = "convert it first, as in `djxl IN OUT.pfm` (libjxl)";

/// An opened JPEG XL.
#[derive(Debug)]
struct Source {
    image: JxlImage,
    layout: Layout,
    /// Channels that are neither colours nor alpha.
    others: usize,
    is_premultiplied: bool,
    had_preview: bool,
    /// The way from light to levels, if the decoder gives light.
    wide: Option<Wide>,
    metadata: Metadata,
    /// Bytes of the codestream, which the decoder keeps.
    kept_bytes: u64,
}

/// Reads the headers; `bytes` is the whole file.
pub(super) fn open(bytes: &[u8], limits: &Limits) -> Result<Box<dyn Decode>, CodecError> {
    let tracker = AllocTracker::with_limit(FIXED_BYTES as usize);
    let boxes = Boxes::of(bytes)?;
    let without_preview = WithoutPreview::of(&boxes.codestream, &tracker)?;
    let all = without_preview.as_ref().map(|without| without.pieces(&boxes.codestream));
    let all = all.as_deref().unwrap_or(&boxes.codestream);
    profile::check(all)?;
    let (mut image, pieces) = begin(all, &tracker)?;
    let (layout, others) = layout(&image)?;
    // Checked before the decoder takes memory in proportion to the picture.
    limits.check(&layout, layout.bytes(), || Some(MemoryNeeds::of_pixels(layout)))?;
    let samples = samples_bytes(&layout, others);
    tracker.expand_limit(usize::try_from(samples).unwrap_or(usize::MAX - FIXED_BYTES as usize));
    for chunk in pieces.iter().flat_map(|piece| piece.chunks(CHUNK)) {
        image.feed_bytes(chunk).map_err(malformed)?;
    }
    image.finalize().map_err(malformed)?;
    if !image.is_loading_done() || image.num_loaded_keyframes() == 0 {
        return Err(malformed("it is truncated"));
    }
    if image.num_loaded_keyframes() > 1 {
        return Err(CodecError::unsupported("an animated JPEG XL", ANIMATED));
    }
    let alpha = image.image_header().metadata.ec_info.iter().find_map(ExtraChannelInfo::alpha_associated);
    let mut metadata = metadata(&image, &boxes)?;
    let wide = wide(&image, &layout)?;
    let (wide, icc) = wide.map_or((None, metadata.icc.take()), |(wide, icc)| (Some(wide), Some(icc)));
    metadata.icc = icc;
    if wide.is_some() {
        image.request_color_encoding(EnumColourEncoding::srgb_linear(RenderingIntent::Relative));
    }
    let kept_bytes = boxes.codestream.iter().map(|piece| piece.len() as u64).sum();
    let is_premultiplied = alpha == Some(true);
    let had_preview = without_preview.is_some();
    Ok(Box::new(Source { image, layout, others, is_premultiplied, had_preview, wide, metadata, kept_bytes }))
}

impl Decode for Source {
    fn facts(&self) -> Facts {
        let bits = self.image.image_header().metadata.bit_depth.bits_per_sample();
        Facts {
            stated: Some(Stated::spread(bits)),
            metadata: MetadataBytes { native: 0, carried: self.metadata.bytes() },
            ..Facts::of(self.layout)
        }
    }

    fn needs(&self) -> Needs {
        let profiles = self.image.original_icc().map_or(0, |icc| PROFILES * icc.len() as u64);
        let samples = samples_bytes(&self.layout, self.others);
        let fixed = FIXED_BYTES.saturating_add(self.kept_bytes).saturating_add(profiles);
        Needs::of_heap(samples.saturating_add(fixed))
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let layout = self.layout;
        let render = self.image.render_frame(0).map_err(malformed)?;
        let mut stream = if layout.pixel.has_alpha() { render.stream() } else { render.stream_no_alpha() };
        let (channels, found) = (layout.pixel.channels(), stream.channels() as usize);
        // Gray that is coded as three colours comes as these.
        let is_repeated = layout.pixel.colour_channels() == 1 && found == channels + 2;
        if (stream.width(), stream.height()) != (layout.width, layout.height)
            || found != channels && !is_repeated
        {
            return Err(malformed("its frame is not as large as it says"));
        }
        match (layout.depth, &self.wide) {
            (Depth::Eight, None) if !is_repeated => {
                stream.write_to_buffer(slot);
            }
            (Depth::Sixteen, None) if !is_repeated => {
                let mut row = vec![0u16; layout.width as usize * channels];
                for to in slot.chunks_exact_mut(2 * row.len()) {
                    stream.write_to_buffer(&mut row);
                    to.copy_from_slice(bytemuck::cast_slice(&row));
                }
            }
            (_, wide) => write_rows(&mut stream, wide.as_ref(), &layout, slot),
        }
        if self.is_premultiplied && layout.pixel.has_alpha() {
            divide_alpha_out(slot, &layout);
        }
        let native = Box::new(Other {
            lost_channel: self.others > 0,
            lost_preview: self.had_preview,
            ..Other::default()
        });
        Ok(Payload { layout, metadata: self.metadata, native, mapped: None })
    }
}

/// Writes a picture row by row of floats, which are light if there is a way from it to levels.
///
/// Of gray that comes as three colours, the first one is taken.
fn write_rows(stream: &mut ImageStream<'_>, wide: Option<&Wide>, layout: &Layout, slot: &mut [u8]) {
    let (channels, found) = (layout.pixel.channels(), stream.channels() as usize);
    let mut row = vec![0_f32; layout.width as usize * found];
    for to in slot.chunks_exact_mut(layout.width as usize * channels * layout.depth.bytes()) {
        stream.write_to_buffer(&mut row);
        if let Some(wide) = wide {
            wide.apply(&mut row, found);
        }
        let is_kept = |at: &usize| found == channels || at.is_multiple_of(found) || at % found > 2;
        let levels = (0..row.len()).filter(is_kept).map(|at| row[at].clamp(0.0, 1.0));
        match layout.depth {
            Depth::Eight => {
                to.iter_mut().zip(levels).for_each(|(to, level)| *to = (level * 255.0 + 0.5) as u8);
            }
            Depth::Sixteen => to.as_chunks_mut::<2>().0.iter_mut().zip(levels).for_each(|(to, level)| {
                *to = ((level * 65535.0 + 0.5) as u16).to_ne_bytes();
            }),
        }
    }
}

/// Returns the way from light to the levels of a lossy picture, and its profile, if it has one with
/// primaries of its own.
///
/// # Errors
/// If its primaries span no colour space.
fn wide(image: &JxlImage, layout: &Layout) -> Result<Option<(Wide, Vec<u8>)>, CodecError> {
    let is_lossy = image.image_header().metadata.xyb_encoded;
    if !is_lossy || layout.pixel.colour_channels() == 1 || image.hdr_type().is_some() {
        return Ok(None);
    }
    let icc = image.original_icc().map_or_else(|| image.rendered_icc(), <[u8]>::to_vec);
    Ok(Wide::of(&icc)?.map(|wide| (wide, icc)))
}

/// Reads the header of the picture from the pieces of a codestream; returns the pieces after it.
fn begin<'b>(pieces: &[&'b [u8]], tracker: &AllocTracker) -> Result<(JxlImage, Vec<&'b [u8]>), CodecError> {
    let mut waiting = JxlImage::builder().alloc_tracker(tracker.clone()).build_uninit();
    let mut wanted = 4096;
    for (number, mut rest) in pieces.iter().copied().enumerate() {
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(rest.len().min(wanted));
            let read = waiting.feed_bytes(chunk).map_err(malformed)?;
            if read == 0 && behind.is_empty() {
                return Err(malformed("it is truncated"));
            }
            rest = &rest[read..];
            wanted = if read == 0 { 2 * wanted } else { CHUNK };
            match waiting.try_init().map_err(malformed)? {
                InitializeResult::NeedMoreData(more) => waiting = more,
                InitializeResult::Initialized(image) => {
                    let left = [rest].into_iter().chain(pieces[number + 1..].iter().copied());
                    return Ok((image, left.collect()));
                }
            }
        }
    }
    Err(malformed("it is truncated"))
}

/// Returns the layout of the pixels, and the number of further channels.
fn layout(image: &JxlImage) -> Result<(Layout, usize), CodecError> {
    let header = &image.image_header().metadata;
    let format = image.pixel_format();
    if format.has_black() || header.ec_info.iter().any(ExtraChannelInfo::is_black) {
        return Err(CodecError::unsupported("a CMYK JPEG XL", super::foreign::TO_RGB));
    }
    let bits = header.bit_depth.bits_per_sample();
    let is_float = matches!(header.bit_depth, jxl_oxide::image::BitDepth::FloatSample { .. });
    if is_float || bits > 16 {
        return Err(CodecError::unsupported(
            "a JPEG XL of floating-point samples or of more than 16 bits",
            CONVERT,
        ));
    }
    let pixel = match (format.is_grayscale(), format.has_alpha()) {
        (true, false) => Pixel::Gray,
        (true, true) => Pixel::GrayAlpha,
        (false, false) => Pixel::Rgb,
        (false, true) => Pixel::Rgba,
    };
    let depth = if bits > 8 { Depth::Sixteen } else { Depth::Eight };
    let layout = Layout { width: image.width(), height: image.height(), pixel, depth };
    // Spot colours are drawn.
    let others = header.ec_info.iter().filter(|channel| {
        !matches!(channel.ty, ExtraChannelType::Alpha { .. } | ExtraChannelType::SpotColour { .. })
    });
    Ok((layout, others.count()))
}

fn samples_bytes(layout: &Layout, others: usize) -> u64 {
    // Gray is decoded as three channels too.
    let channels = (3 + usize::from(layout.pixel.has_alpha()) + others) as u64;
    layout.pixels().saturating_mul(channels * BYTES_PER_SAMPLE)
}

/// Returns the metadata. The profile is that of the pixels, unless they are sRGB.
fn metadata(image: &JxlImage, boxes: &Boxes<'_>) -> Result<Metadata, CodecError> {
    const SRGB: [u8; 2] = [1, 13];
    let is_srgb = image.rendered_cicp().is_some_and(|code| code[..2] == SRGB);
    let exif = boxes.exif.map(Content::read).transpose()?.and_then(|exif| tiff_of_exif(&exif));
    Ok(Metadata {
        icc: (!is_srgb).then(|| image.rendered_icc()),
        exif: exif.and_then(without_exif_prefix).map(upright),
        xmp: boxes.xmp.map(Content::read).transpose()?,
        ..Metadata::default()
    })
}

/// Returns the content of an EXIF box, after the number of bytes to skip and these bytes.
fn tiff_of_exif(content: &[u8]) -> Option<Vec<u8>> {
    let (offset, payload) = content.split_first_chunk()?;
    payload.get(u32::from_be_bytes(*offset) as usize..).map(<[u8]>::to_vec)
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped with it")]
fn malformed(reason: impl ToString) -> CodecError {
    CodecError::malformed(Format::JpegXl, reason.to_string())
}
