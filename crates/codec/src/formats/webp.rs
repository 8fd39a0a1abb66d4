//! WebP, by the `image-webp` crate.
//!
//! Output is lossless, whatever the source was: there is no lossy encoder here, and compressing an
//! equalized lossy picture again would lose quality twice.

use std::fs::File;
use std::io::{Cursor, Write};

use image_webp::{ColorType, DecodingError, EncodingError, LoopCount, WebPDecoder, WebPEncoder};

use crate::io::reader::resize;
use crate::metadata::{Metadata, MetadataBytes, without_exif_prefix};
use crate::picture::animation::Animation;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::mapped::Mapped;
use crate::samples::pixels_of;
use crate::samples::size::Size;
use crate::{CodecError, Decoded, Format, Remark, Target, picture};
use equalize::{Depth, Layout, Pixel};

mod chunks;
mod frames;

pub(super) use chunks::ended;
use chunks::of_file;
use frames::Frames;

/// The most bytes of heap that the decoder takes for each pixel, in addition to the pixels.
///
/// They are the planes of a lossy picture, and its alpha as RGBA and by itself.
const DECODER_BYTES: u64 = 7;

/// The part of a WebP that remarks on the output need.
#[derive(Debug)]
pub(super) struct Native {
    pub(super) lossy: bool,
    /// How it is played, if it is an animation.
    pub(super) animation: Option<Animation>,
}

impl picture::Native for Native {
    fn animation(&self) -> Option<&Animation> {
        self.animation.as_ref()
    }

    fn separate(&mut self) {
        self.animation = None;
    }

    fn remarks(&self, _: &Target, to: Format, _: Option<&Mapped>) -> Vec<Option<Remark>> {
        vec![(self.lossy && to == Format::WebP).then_some(Remark::NowLossless)]
    }
}

/// An opened WebP.
pub(super) struct Source<'a> {
    decoder: WebPDecoder<Cursor<&'a [u8]>>,
    layout: Layout,
    frames: Option<Frames<'a>>,
    metadata_bytes: u64,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// Reads the chunks; `bytes` is the whole file.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(decode_error)?;
        // A chunk may claim any length.
        decoder.set_memory_limit(metadata_bytes(bytes) as usize);
        let (width, height) = decoder.dimensions();
        // The decoder would allocate memory for the picture's width and height before comparing
        // them with the canvas's.
        let picture = of_file(bytes).find_map(|chunk| chunk.size());
        if picture.is_some_and(|size| size != Size { width, height }) {
            return Err(malformed("its picture has other sides than its canvas"));
        }
        let pixel = if decoder.has_alpha() { Pixel::Rgba } else { Pixel::Rgb };
        let layout = Layout { width, height, pixel, depth: Depth::Eight };
        let frames = match (decoder.is_animated(), decoder.loop_count()) {
            (false, _) => None,
            (true, LoopCount::Forever) => Some(Frames::find(bytes, layout, 0)?),
            (true, LoopCount::Times(plays)) => Some(Frames::find(bytes, layout, plays.get().into())?),
        };
        let layout = frames.as_ref().map_or(layout, |frames| frames.stacked);
        Ok(Self { decoder, layout, frames, metadata_bytes: metadata_bytes(bytes) })
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        Facts {
            frames: self.frames.as_ref().map_or(1, |frames| frames.animation.frames()),
            metadata: MetadataBytes { native: 0, carried: self.metadata_bytes },
            ..Facts::of(self.layout)
        }
    }

    fn needs(&self) -> Needs {
        let of_still = || DECODER_BYTES * self.layout.pixels();
        Needs::of_heap(self.frames.as_ref().map_or_else(of_still, Frames::heap_bytes))
    }

    fn decode(mut self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        match &self.frames {
            None => self.decoder.read_image(slot).map_err(decode_error)?,
            Some(frames) => frames.decode(slot)?,
        }
        let exif = self.decoder.exif_metadata().map_err(decode_error)?;
        let metadata = Metadata {
            icc: self.decoder.icc_profile().map_err(decode_error)?,
            exif: exif.and_then(without_exif_prefix),
            xmp: self.decoder.xmp_metadata().map_err(decode_error)?,
            ..Metadata::default()
        };
        let animation = self.frames.map(|frames| frames.animation);
        let native = Box::new(Native { lossy: self.decoder.is_lossy(), animation });
        Ok(Payload { layout: self.layout, metadata, native, mapped: None })
    }
}

/// Returns the bytes of heap for a part of a TIFF of this size: the decoder's, and its pixels.
pub(super) fn part_heap_bytes(part: Size) -> u64 {
    (DECODER_BYTES + 4) * part.pixels()
}

/// Decodes a strip or tile of a TIFF, and keeps as many of its first rows as fit into `target`.
///
/// It is at most of this size, and of 3 or 4 samples a pixel. Encoders leave out alpha
/// that is nowhere transparent.
pub(super) fn decode_part(
    bytes: &[u8],
    part: Size,
    samples: usize,
    target: &mut [u8],
) -> Result<(), CodecError> {
    let source = Source::open(bytes)?;
    let layout = source.layout;
    let needed = target.len() / (part.width as usize * samples);
    if source.frames.is_some()
        || layout.width != part.width
        || !(needed..=part.height as usize).contains(&(layout.height as usize))
    {
        let Layout { width, height, .. } = layout;
        return Err(malformed(format!("its {width}x{height} pixels do not match the file that contains it")));
    }
    let mut pixels = Vec::new();
    resize(&mut pixels, layout.bytes() as usize)?;
    let mut decoder = source.decoder;
    decoder.read_image(&mut pixels).map_err(decode_error)?;
    for (to, from) in target.chunks_exact_mut(samples).zip(pixels.chunks_exact(layout.pixel_bytes())) {
        to[..3].copy_from_slice(&from[..3]);
        if let Some(alpha) = to.get_mut(3) {
            *alpha = from.get(3).copied().unwrap_or(u8::MAX);
        }
    }
    Ok(())
}

/// Returns the bytes of the chunks of metadata that are in the file.
fn metadata_bytes(bytes: &[u8]) -> u64 {
    let metadata = of_file(bytes).filter(|chunk| [b"ICCP", b"EXIF", b"XMP "].contains(&&chunk.kind));
    metadata.map(|chunk| chunk.bytes() as u64).sum()
}

/// Returns the bytes of heap that encoding takes.
///
/// They are a copy of the pixels as RGBA and the frame, then the frame and the file, each of which
/// may be as long as the pixels.
pub(super) fn encoder_bytes(layout: &Layout) -> u64 {
    4 * layout.pixels() + layout.bytes()
}

/// Writes the pixels of `slot`.
pub(super) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    scratch: &mut Vec<u8>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let colour = match layout.pixel {
        Pixel::Gray => ColorType::L8,
        Pixel::GrayAlpha => ColorType::La8,
        Pixel::Rgb => ColorType::Rgb8,
        Pixel::Rgba => ColorType::Rgba8,
    };
    if let Some(animation) = decoded.animation().filter(|animation| animation.frames() > 1) {
        return frames::encode(decoded, animation, colour, pixels_of(&layout, slot), scratch, out);
    }
    scratch.clear();
    let mut encoder = WebPEncoder::new(&mut *scratch);
    if let Some(icc) = decoded.metadata.icc_in(Format::WebP, layout.pixel) {
        encoder.set_icc_profile(icc.to_vec());
    }
    if let Some(exif) = &decoded.metadata.exif {
        encoder.set_exif_metadata(exif.clone());
    }
    if let Some(xmp) = &decoded.metadata.xmp {
        encoder.set_xmp_metadata(xmp.clone());
    }
    encoder.encode(pixels_of(&layout, slot), layout.width, layout.height, colour).map_err(encode_error)?;
    out.write_all(scratch)?;
    Ok(scratch.len() as u64)
}

fn decode_error(error: DecodingError) -> CodecError {
    match error {
        DecodingError::IoError(_) | DecodingError::NoMoreFrames => malformed("it is truncated"),
        DecodingError::MemoryLimitExceeded => malformed("its metadata is unreasonably large"),
        other => malformed(other.to_string()),
    }
}

fn encode_error(error: EncodingError) -> CodecError {
    match error {
        EncodingError::IoError(error) => CodecError::Io(error),
        other => CodecError::encoder(Format::WebP, other.to_string()),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::WebP, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let odd = vec![0; content.len() % 2];
        [kind, &(content.len() as u32).to_le_bytes(), content, &odd].concat()
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        chunk(b"RIFF", &[b"WEBP", chunks.concat().as_slice()].concat())
    }

    /// The header of a frame.
    fn frame(width: u16, height: u16) -> Vec<u8> {
        let head = [&[0x10, 0, 0, 0x9d, 0x01, 0x2a], &width.to_le_bytes()[..], &height.to_le_bytes()[..]];
        chunk(b"VP8 ", &head.concat())
    }

    #[test]
    fn a_frame_that_is_not_as_large_as_its_canvas_is_refused_when_opened() {
        // No flags; width and height of 4, each stored less one.
        let canvas = chunk(b"VP8X", &[0, 0, 0, 0, 3, 0, 0, 3, 0, 0]);
        let odd = chunk(b"what", &[1, 2, 3]);
        for (bytes, opens) in [
            (file(&[canvas.clone(), frame(4, 4)]), true),
            (file(&[canvas.clone(), odd.clone(), frame(4, 4)]), true),
            (file(&[frame(16_383, 16_383)]), true),
            (file(&[canvas.clone(), frame(16_383, 16_383)]), false),
            (file(&[canvas, odd, frame(16_383, 16_383)]), false),
        ] {
            match Source::open(&bytes) {
                Ok(_) => assert!(opens, "{bytes:?}"),
                Err(error) => assert!(!opens && error.to_string().contains("canvas"), "{error}: {bytes:?}"),
            }
        }
    }
}
