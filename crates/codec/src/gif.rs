//! GIF, by the `gif` crate. Frames become RGB, or RGBA if any pixel is ever transparent. Written are frames that cover all of the picture, each
//! with its own palette; a frame of more than 256 colours is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Cursor, Seek, Write};
use std::num::NonZeroU64;

use ::gif::{
    DecodeOptions, Decoder, DecodingError, DisposalMethod, Encoder, EncodingError, Frame, MemoryLimit, Repeat,
};

use super::animation::{self, Animation, Canvas, Delay, Disposal, Place};
use super::decode::{Decode, Describe, Wanted};
use super::foreign::FRAMES;
use super::metadata::{Metadata, MetadataBytes};
use super::{CodecError, Decoded, Format, Native as AnyNative, Payload, pixels_of};
use equalize::{Depth, Layout, Pixel};

/// What is remembered of a GIF for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    pub(super) animation: Animation,
}

/// An opened GIF.
#[derive(Debug)]
pub(super) struct Source<'a> {
    bytes: &'a [u8],
    /// The layout of one frame.
    frame: Layout,
    stacked: Layout,
    animation: Animation,
}

impl<'a> Source<'a> {
    /// Reads the structure of all frames; `bytes` is the whole file.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut options = DecodeOptions::new();
        options.skip_frame_decoding(true);
        let mut decoder = read_info(options, bytes)?;
        let (width, height) = (decoder.width(), decoder.height());
        if width == 0 || height == 0 {
            return Err(malformed("it has no width or height"));
        }
        let (mut delays, mut is_opaque) = (Vec::new(), true);
        while let Some(frame) = decoder.next_frame_info().map_err(decode_error)? {
            let covers = (frame.left, frame.top) == (0, 0) && frame.width >= width && frame.height >= height;
            is_opaque &= frame.transparent.is_none()
                && frame.dispose != DisposalMethod::Background
                && (covers || !delays.is_empty() && frame.dispose != DisposalMethod::Previous);
            delays.push(Delay::of_hundredths(frame.delay));
        }
        if delays.is_empty() {
            return Err(malformed("it has no picture"));
        }
        let plays = match decoder.repeat() {
            Repeat::Infinite => 0,
            Repeat::Finite(again) => u32::from(again) + 1,
        };
        let pixel = if is_opaque { Pixel::Rgb } else { Pixel::Rgba };
        let frame = Layout { width: width.into(), height: height.into(), pixel, depth: Depth::Eight };
        let stacked = animation::stacked(frame, delays.len())?;
        Ok(Self { bytes, frame, stacked, animation: Animation { delays, plays } })
    }
}

impl Describe for Source<'_> {
    fn layout(&self) -> Layout {
        self.stacked
    }

    fn frames(&self) -> usize {
        self.animation.frames()
    }

    /// Returns the bytes of heap for the canvas and a copy of it, for a frame as indices and as colours, and for delays.
    fn heap_bytes(&self) -> u64 {
        (2 * Canvas::HEAP + 1 + 4) * self.frame.pixels() + self.animation.bytes()
    }

    /// Returns the bytes of the metadata once it is decoded: parts of the file.
    fn metadata(&self) -> MetadataBytes {
        MetadataBytes { native: 0, carried: self.bytes.len() as u64 }
    }
}

impl Decode for Source<'_> {
    fn decode(self: Box<Self>, slot: &mut [u8], _wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let mut options = DecodeOptions::new();
        // A frame may be larger than the canvas.
        let most = NonZeroU64::new(4 * self.frame.pixels() + (1 << 20)).unwrap_or(NonZeroU64::MIN);
        options.set_memory_limit(MemoryLimit::Bytes(most));
        let mut decoder = read_info(options, self.bytes)?;
        let global = decoder.global_palette().map(<[u8]>::to_vec);
        let mut canvas = Canvas::new(&self.frame, slot)?;
        let mut colours = Vec::new();
        while let Some(frame) = decoder.read_next_frame().map_err(decode_error)? {
            let palette = frame.palette.as_deref().or(global.as_deref());
            let palette = palette.ok_or_else(|| malformed("a frame has no palette"))?;
            expand(&frame.buffer, palette, frame.transparent, &mut colours)?;
            let place = Place {
                left: frame.left.into(),
                top: frame.top.into(),
                width: frame.width.into(),
                height: frame.height.into(),
            };
            let disposal = match frame.dispose {
                DisposalMethod::Any | DisposalMethod::Keep => Disposal::Keep,
                DisposalMethod::Background => Disposal::Clear,
                DisposalMethod::Previous => Disposal::Restore,
            };
            if !canvas.draw(place, &colours, true, disposal) {
                break;
            }
        }
        if !canvas.is_full() {
            return Err(malformed("it is truncated"));
        }
        let copy = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
        let metadata = Metadata {
            icc: copy(decoder.icc_profile()),
            xmp: copy(decoder.xmp_metadata()),
            ..Metadata::default()
        };
        let native = AnyNative::Gif(Native { animation: self.animation });
        Ok(Payload { layout: self.stacked, metadata, native, mapped: None })
    }
}

/// Turns indices into RGBA. Indices beyond the palette are black, as in browsers.
fn expand(
    indices: &[u8],
    palette: &[u8],
    transparent: Option<u8>,
    colours: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut table = [[0, 0, 0, 255]; 256];
    for (entry, colour) in table.iter_mut().zip(palette.as_chunks::<3>().0) {
        entry[..3].copy_from_slice(colour);
    }
    if let Some(transparent) = transparent {
        table[usize::from(transparent)] = [0; 4];
    }
    colours.clear();
    let bytes = 4 * indices.len();
    colours.try_reserve_exact(bytes).map_err(|_| CodecError::OutOfMemory { bytes: Some(bytes as u64) })?;
    indices.iter().for_each(|&index| colours.extend_from_slice(&table[usize::from(index)]));
    Ok(())
}

/// Returns the bytes of heap that encoding takes: the indices of a frame, and the frame compressed, in a buffer that doubles.
pub(super) fn encoder_bytes(frame: &Layout) -> u64 {
    5 * frame.pixels()
}

/// Writes the frames in `slot`, each of which has at most 256 colours.
pub(super) fn encode(decoded: &Decoded, slot: &mut [u8], out: &mut File) -> Result<u64, CodecError> {
    let frames = decoded.frames();
    let frame = animation::frame_of(&decoded.layout, frames);
    let side = |side| u16::try_from(side).expect("checked when it was opened");
    let (width, height) = (side(frame.width), side(frame.height));
    let start = out.stream_position()?;
    let mut buffered = BufWriter::new(&mut *out);
    let mut encoder = Encoder::new(&mut buffered, width, height, &[]).map_err(encode_error)?;
    if let Some(animation) = decoded.animation().filter(|animation| animation.frames() > 1) {
        let repeat = match animation.plays {
            0 => Repeat::Infinite,
            plays => Repeat::Finite(u16::try_from(plays - 1).unwrap_or(u16::MAX)),
        };
        encoder.set_repeat(repeat).map_err(encode_error)?;
    }
    let pixels = pixels_of(&decoded.layout, slot);
    for (number, pixels) in pixels.chunks_exact(frame.bytes() as usize).enumerate() {
        let mut indexed = Indexed::default();
        pixels.chunks_exact(frame.pixel_bytes()).try_for_each(|pixel| indexed.add(pixel))?;
        let delay = decoded.animation().map_or(0, |animation| animation.delays[number].hundredths());
        let transparent = indexed.transparent;
        // The frame would show through transparent pixels of the next one.
        let has_alpha = decoded.layout.pixel.has_alpha();
        let dispose = if has_alpha { DisposalMethod::Background } else { DisposalMethod::Any };
        let frame = Frame {
            delay,
            dispose,
            transparent,
            width,
            height,
            palette: Some(indexed.palette),
            buffer: indexed.indices.into(),
            ..Frame::default()
        };
        encoder.write_frame(&frame).map_err(encode_error)?;
    }
    drop(encoder);
    buffered.flush()?;
    drop(buffered);
    Ok(out.stream_position()? - start)
}

/// A frame as indices of its colours.
#[derive(Default)]
struct Indexed {
    indices: Vec<u8>,
    palette: Vec<u8>,
    transparent: Option<u8>,
    known: HashMap<[u8; 3], u8>,
    /// The last pixel and its index: most pixels are like the one before.
    last: Option<([u8; 4], u8)>,
}

impl Indexed {
    /// Adds a pixel of one to four channels.
    fn add(&mut self, pixel: &[u8]) -> Result<(), CodecError> {
        let rgba = match *pixel {
            [gray] => [gray, gray, gray, 255],
            [gray, alpha] => [gray, gray, gray, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => unreachable!("8-bit pixels have one to four channels"),
        };
        let index = match self.last {
            Some((last, index)) if last == rgba => index,
            _ => self.index_of(rgba)?,
        };
        self.last = Some((rgba, index));
        self.indices.push(index);
        Ok(())
    }

    fn index_of(&mut self, [red, green, blue, alpha]: [u8; 4]) -> Result<u8, CodecError> {
        let next = u8::try_from(self.palette.len() / 3);
        match alpha {
            0 => {
                if let Some(index) = self.transparent {
                    return Ok(index);
                }
                let index = next.map_err(|_| too_many())?;
                self.palette.extend([0; 3]);
                Ok(*self.transparent.insert(index))
            }
            255 => match self.known.entry([red, green, blue]) {
                Entry::Occupied(entry) => Ok(*entry.get()),
                Entry::Vacant(entry) => {
                    let index = next.map_err(|_| too_many())?;
                    self.palette.extend([red, green, blue]);
                    Ok(*entry.insert(index))
                }
            },
            _ => Err(cannot("half-transparent pixels")),
        }
    }
}

fn too_many() -> CodecError {
    cannot("more than 256 colours in a frame")
}

fn cannot(what: &str) -> CodecError {
    CodecError::cannot_represent(Format::Gif, what, "write it as PNG or WebP (--format png), animated or not")
}

fn read_info(options: DecodeOptions, bytes: &[u8]) -> Result<Decoder<Cursor<&[u8]>>, CodecError> {
    options.read_info(Cursor::new(bytes)).map_err(decode_error)
}

fn decode_error(error: DecodingError) -> CodecError {
    match error {
        DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            malformed("it is truncated")
        }
        DecodingError::Io(error) => CodecError::Io(error),
        DecodingError::UnexpectedEof => malformed("it is truncated"),
        DecodingError::OutOfMemory => CodecError::OutOfMemory { bytes: None },
        DecodingError::MemoryLimit => {
            CodecError::unsupported("a GIF with a frame larger than its picture", FRAMES)
        }
        other => malformed(other.to_string()),
    }
}

fn encode_error(error: EncodingError) -> CodecError {
    match error {
        EncodingError::Io(error) => CodecError::Io(error),
        other => CodecError::encoder(Format::Gif, other.to_string()),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Gif, reason)
}
