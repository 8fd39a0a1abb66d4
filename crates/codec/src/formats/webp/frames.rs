//! The frames of an animated WebP (RFC 9649, sections 2.7.1.1 and 2.7.1.2).
//!
//! `image-webp` decodes each as a picture of its own; they are composed here, in the integers of
//! libwebp.

use std::fs::File;
use std::io::{Cursor, Seek, SeekFrom, Write};

use image_webp::{ColorType, WebPDecoder, WebPEncoder};

use super::chunks::{Chunk, chunks, of_file, stated_length};
use super::{DECODER_BYTES, decode_error, encode_error, malformed};
use crate::io::reader::resize;
use crate::picture::animation::{self, Animation, Canvas, Delay, Disposal, Place};
use crate::samples::size::Size;
use crate::{CodecError, Decoded, Format};
use equalize::Layout;

/// Bytes of a frame's header, before its own chunks.
const HEADER: usize = 16;

/// A flag of a file: some pixel is transparent.
const ALPHA: u8 = 0x10;

/// A flag of a frame: it replaces the pixels below it.
const REPLACES: u8 = 0x02;
/// A flag of a frame: its place is cleared after it.
const CLEARS: u8 = 0x01;

/// The frames of a file.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    /// The whole file.
    bytes: &'a [u8],
    pub(super) animation: Animation,
    /// The layout of one of them.
    frame: Layout,
    /// The layout of all of them below each other.
    pub(super) stacked: Layout,
    /// The bytes of the longest one.
    longest: usize,
}

impl<'a> Frames<'a> {
    /// Finds the frames, which have this layout and are played `plays` times.
    pub(super) fn find(bytes: &'a [u8], frame: Layout, plays: u32) -> Result<Self, CodecError> {
        // A padding byte at the end may be missing.
        if stated_length(bytes) > bytes.len() + 1 {
            return Err(malformed("it is truncated"));
        }
        let (mut delays, mut longest) = (Vec::new(), 0);
        for chunk in frames_of(bytes) {
            delays.push(Frame::read(&chunk, &frame)?.delay);
            longest = longest.max(chunk.length);
        }
        if delays.is_empty() {
            return Err(malformed("it has no frames"));
        }
        let stacked = animation::stacked(frame, delays.len())?;
        Ok(Self { bytes, animation: Animation { delays, plays }, frame, stacked, longest })
    }

    /// Returns the bytes of heap for decoding.
    ///
    /// They are the canvas, a frame as it is decoded and as RGBA, the memory for decoding it, a
    /// copy of it, and delays.
    pub(super) fn heap_bytes(&self) -> u64 {
        (Canvas::HEAP + 2 * 4 + DECODER_BYTES) * self.frame.pixels()
            + self.longest as u64
            + self.animation.bytes()
    }

    /// Decodes the frames into `slot`, which is as long as the pixels of all of them.
    pub(super) fn decode(&self, slot: &mut [u8]) -> Result<(), CodecError> {
        let mut canvas = Canvas::new(&self.frame, slot, mixed)?;
        let (mut file, mut stored, mut colours) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in frames_of(self.bytes) {
            let frame = Frame::read(&chunk, &self.frame)?;
            frame.decode(&mut file, &mut stored, &mut colours)?;
            canvas.draw(frame.place, &colours, frame.over, frame.disposal);
        }
        Ok(())
    }
}

fn frames_of(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    of_file(bytes).filter(|chunk| chunk.kind == *b"ANMF")
}

/// A frame as it is stored.
struct Frame<'a> {
    place: Place,
    delay: Delay,
    /// Whether it is mixed with the pixels below it.
    over: bool,
    disposal: Disposal,
    /// The alpha of a lossy picture.
    alpha: Option<&'a [u8]>,
    /// The type and content of the picture.
    picture: ([u8; 4], &'a [u8]),
}

impl<'a> Frame<'a> {
    /// Reads the header and chunks of a frame on a canvas of this layout.
    ///
    /// # Errors
    /// If it lies outside the canvas, or if its picture has other sides than its header: memory
    /// would be allocated for the sides of the picture.
    fn read(chunk: &Chunk<'a>, canvas: &Layout) -> Result<Self, CodecError> {
        let content = chunk.content().ok_or_else(|| malformed("it is truncated"))?;
        let (header, inside) =
            content.split_at_checked(HEADER).ok_or_else(|| malformed("a frame's header is too short"))?;
        let [left, top, width, height, milliseconds] =
            [0, 3, 6, 9, 12].map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]));
        let (width, height) = (width + 1, height + 1);
        let place = Place {
            left: 2 * left as usize,
            top: 2 * top as usize,
            width: width as usize,
            height: height as usize,
        };
        if !place.fits(Size::of(canvas)) {
            return Err(malformed("a frame lies outside its canvas"));
        }
        let (alpha, picture) = picture_in(inside)?;
        if picture.size() != Some(Size { width, height }) {
            return Err(malformed("a frame has other sides within than without"));
        }
        Ok(Self {
            place,
            delay: Delay::of_milliseconds(milliseconds),
            over: header[15] & REPLACES == 0,
            disposal: if header[15] & CLEARS == 0 { Disposal::Keep } else { Disposal::Clear },
            alpha,
            picture: (picture.kind, picture.content().ok_or_else(|| malformed("it is truncated"))?),
        })
    }

    /// Decodes it into `colours`, as RGBA. `file` and `stored` are working memory.
    fn decode(
        &self,
        file: &mut Vec<u8>,
        stored: &mut Vec<u8>,
        colours: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.write_still(file);
        let mut decoder = WebPDecoder::new(Cursor::new(&*file)).map_err(decode_error)?;
        let pixels = self.place.width * self.place.height;
        let (target, channels) = if decoder.has_alpha() { (&mut *colours, 4) } else { (&mut *stored, 3) };
        resize(target, channels * pixels)?;
        decoder.read_image(target).map_err(decode_error)?;
        if channels == 3 {
            resize(colours, 4 * pixels)?;
            let opaque = stored.as_chunks::<3>().0.iter().map(|&[red, green, blue]| [red, green, blue, 255]);
            colours.as_chunks_mut::<4>().0.iter_mut().zip(opaque).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }

    /// Makes a file of this frame alone.
    fn write_still(&self, file: &mut Vec<u8>) {
        let (kind, picture) = self.picture;
        // Lossless pictures have alpha in any case.
        let flags = if self.alpha.is_some() || kind == *b"VP8L" { ALPHA } else { 0 };
        let [width, height] = [self.place.width, self.place.height].map(|side| short(side as u32 - 1));
        file.clear();
        file.extend(b"RIFF\0\0\0\0WEBP");
        append(file, *b"VP8X", &[&[flags, 0, 0, 0], &width[..], &height].concat());
        if let Some(alpha) = self.alpha {
            append(file, *b"ALPH", alpha);
        }
        append(file, kind, picture);
        let length = file.len() as u32 - 8;
        file[4..8].copy_from_slice(&length.to_le_bytes());
    }
}

/// Returns the alpha and the picture in a frame.
fn picture_in(inside: &[u8]) -> Result<(Option<&[u8]>, Chunk<'_>), CodecError> {
    let mut alpha = None;
    for chunk in chunks(inside) {
        match &chunk.kind {
            b"ALPH" if alpha.is_none() => alpha = chunk.content(),
            b"VP8L" if alpha.is_some() => break,
            b"VP8 " | b"VP8L" => return Ok((alpha, chunk)),
            _ => {}
        }
    }
    Err(malformed("a frame has no picture"))
}

/// Puts a pixel over another in libwebp's integers, which round down.
///
/// They are those of `BlendPixelNonPremult` in anim_decode.c.
fn mixed(front: [u8; 4], back: [u8; 4]) -> [u8; 4] {
    let own = match u32::from(front[3]) {
        0 => return back,
        255 => return front,
        own => own,
    };
    let below = (u32::from(back[3]) * (256 - own)) >> 8;
    let all = own + below;
    let scale = (1 << 24) / all;
    let [red, green, blue] = [0, 1, 2].map(|at| {
        let sum = u32::from(front[at]) * own + u32::from(back[at]) * below;
        ((sum * scale) >> 24) as u8
    });
    [red, green, blue, all as u8]
}

/// Writes the frames in `pixels`, which lie below each other.
pub(super) fn encode(
    decoded: &Decoded,
    animation: &Animation,
    colour: ColorType,
    pixels: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut File,
) -> Result<u64, CodecError> {
    const ICC: u8 = 0x20;
    const EXIF: u8 = 0x08;
    const XMP: u8 = 0x04;
    const ANIMATED: u8 = 0x02;
    let frame = decoded.frame_layout();
    let sides = [frame.width, frame.height].map(|side| short(side - 1)).concat();
    let icc = decoded.metadata.icc_in(Format::WebP, frame.pixel);
    let (exif, xmp) = (decoded.metadata.exif.as_deref(), decoded.metadata.xmp.as_deref());
    let parts = [
        (frame.pixel.has_alpha(), ALPHA),
        (icc.is_some(), ICC),
        (exif.is_some(), EXIF),
        (xmp.is_some(), XMP),
    ];
    let flags =
        parts.iter().filter(|(is_there, _)| *is_there).fold(ANIMATED, |flags, (_, flag)| flags | flag);
    let start = out.stream_position()?;
    out.write_all(b"RIFF\0\0\0\0WEBP")?;
    write_chunk(out, b"VP8X", &[&[flags, 0, 0, 0], &sides[..]])?;
    icc.map_or(Ok(()), |icc| write_chunk(out, b"ICCP", &[icc]))?;
    let plays = u16::try_from(animation.plays).unwrap_or(u16::MAX);
    write_chunk(out, b"ANIM", &[&[0; 4], &plays.to_le_bytes()])?;
    for (pixels, delay) in pixels.chunks_exact(frame.bytes() as usize).zip(&animation.delays) {
        scratch.clear();
        let encoder = WebPEncoder::new(&mut *scratch);
        encoder.encode(pixels, frame.width, frame.height, colour).map_err(encode_error)?;
        let picture = of_file(scratch).find(|chunk| chunk.kind == *b"VP8L");
        let content = picture.and_then(|picture| picture.content());
        let content = content.ok_or_else(|| CodecError::encoder(Format::WebP, "a frame has no picture"))?;
        let length = (content.len() as u32).to_le_bytes();
        // It replaces the pixels below it, and stays.
        let delay = short(delay.milliseconds());
        let header = [&[0; 6][..], &sides, &delay, &[REPLACES], b"VP8L", &length].concat();
        write_chunk(out, b"ANMF", &[&header, content, &[0][..content.len() % 2]])?;
    }
    exif.map_or(Ok(()), |exif| write_chunk(out, b"EXIF", &[exif]))?;
    xmp.map_or(Ok(()), |xmp| write_chunk(out, b"XMP ", &[xmp]))?;
    let end = out.stream_position()?;
    let length = u32::try_from(end - start - 8).map_err(|_| {
        CodecError::cannot_represent(Format::WebP, "more than 4 GiB", "write it as PNG (--format png)")
    })?;
    out.seek(SeekFrom::Start(start + 4))?;
    out.write_all(&length.to_le_bytes())?;
    out.seek(SeekFrom::Start(end))?;
    Ok(end - start)
}

/// Returns the lower 24 bits of a number.
fn short(number: u32) -> [u8; 3] {
    let [a, b, c, _] = number.to_le_bytes();
    [a, b, c]
}

/// Appends a chunk to a file in memory.
fn append(file: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    file.extend(kind);
    file.extend((content.len() as u32).to_le_bytes());
    file.extend(content);
    file.extend(&[0][..content.len() % 2]);
}

fn write_chunk(out: &mut File, kind: &[u8; 4], parts: &[&[u8]]) -> Result<(), CodecError> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.write_all(kind)?;
    out.write_all(&(length as u32).to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))?;
    Ok(out.write_all(&[0][..length % 2])?)
}
