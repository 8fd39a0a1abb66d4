//! The frames of an animated PNG (PNG third edition, section 11.3.6).
//!
//! The `png` crate decodes each as a picture of its own: it confuses rows of interlaced frames that
//! are narrower than the picture, and refuses a first frame that is smaller.

use std::io::{Cursor, Write};

use ::png::{
    BitDepth, ColorType, DecodeOptions, Decoder, EncodingError, Limits, Transformations, Writer,
    chunk::ChunkType,
};

use super::chunks::{Chunks, SIGNATURE};
use super::{CHECKSUM, CONTRADICTION, decode_error, malformed, stream};
use crate::io::cores::Cores;
use crate::io::reader::resize;
use crate::picture::animation::{self, Animation, Canvas, Delay, Disposal, FRAMES, Place, mixed};
use crate::samples::size::Size;
use crate::{CodecError, PngLevel};
use equalize::{Depth, Layout, Pixel};

/// The animation control chunk.
const CONTROL: [u8; 4] = *b"acTL";
/// The frame control chunk.
const FRAME_CONTROL: [u8; 4] = *b"fcTL";
/// The data of frames but the first.
const FRAME_DATA: [u8; 4] = *b"fdAT";
/// The data of the default picture, and of the first frame if its control precedes them.
const IMAGE_DATA: [u8; 4] = *b"IDAT";
/// Chunks that are shared by all frames for decoding.
const SHARED: [[u8; 4]; 3] = [*b"IHDR", *b"PLTE", *b"tRNS"];

/// The frames of a PNG.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    pub(super) animation: Animation,
    /// The layout of one of them.
    frame: Layout,
    /// The layout of all of them below each other.
    pub(super) stacked: Layout,
    /// The bytes of the longest one as it is stored.
    longest: usize,
}

impl Frames {
    /// Finds the frames; `None` if the file is not an animation.
    ///
    /// It is not if it has no frames, or is declared one only after its picture.
    pub(super) fn find(chunks: &Chunks<'_>) -> Result<Option<Self>, CodecError> {
        let Some(control) = chunks.animation_control else { return Ok(None) };
        let &[c0, c1, c2, c3, p0, p1, p2, p3] = control else {
            return Err(malformed("its animation has no length"));
        };
        let (count, plays) = (u32::from_be_bytes([c0, c1, c2, c3]), u32::from_be_bytes([p0, p1, p2, p3]));
        if count == 0 || count > i32::MAX as u32 {
            return Ok(None);
        }
        let Layout { pixel, depth, .. } = chunks.layout;
        let picture = Size::of(&chunks.layout);
        let (mut delays, mut covers_all, mut keeps_all) = (Vec::new(), false, true);
        let (mut length, mut longest) = (0, 0);
        for chunk in chunks.walk() {
            match chunk.kind {
                FRAME_CONTROL => {
                    let frame = Control::read(chunk.content, picture)?;
                    covers_all |= delays.is_empty() && frame.covers(picture);
                    keeps_all &= frame.disposal == Disposal::Keep;
                    delays.push(frame.delay);
                    length = 0;
                }
                IMAGE_DATA | FRAME_DATA => length += chunk.content.len(),
                _ => {}
            }
            longest = longest.max(length);
        }
        if count as usize != delays.len() {
            return Err(malformed("it does not have as many frames as it says; it may be truncated"));
        }
        if depth == Depth::Sixteen {
            return Err(CodecError::unsupported("an animated PNG of 16 bits", FRAMES));
        }
        let is_opaque = !pixel.has_alpha() && covers_all && keeps_all;
        let frame = Layout { pixel: if is_opaque { Pixel::Rgb } else { Pixel::Rgba }, ..chunks.layout };
        let stacked = animation::stacked(frame, delays.len())?;
        Ok(Some(Self { animation: Animation { delays, plays }, frame, stacked, longest }))
    }

    /// Returns the bytes of heap for decoding.
    ///
    /// They are the canvas and a copy of it, a frame as it is stored and as colours, the memory for
    /// decoding it, a copy of it, and delays.
    pub(super) fn heap_bytes(&self) -> u64 {
        (2 * Canvas::HEAP + 3 * 4) * self.frame.pixels() + self.longest as u64 + self.animation.bytes()
    }

    /// Decodes the frames of a file into `slot`, which is as long as the pixels of all of them.
    pub(super) fn decode(&self, chunks: &Chunks<'_>, slot: &mut [u8]) -> Result<(), CodecError> {
        let picture = Size::of(&self.frame);
        let mut canvas = Canvas::new(&self.frame, slot, mixed)?;
        let mut still = Still::new(chunks);
        let (mut last, mut sequence) = (None::<Control>, 0);
        for chunk in chunks.walk().filter(|chunk| is_used(chunk.kind)) {
            if !chunk.is_intact() {
                return Err(malformed(CHECKSUM));
            }
            match (chunk.kind, last) {
                (IMAGE_DATA, Some(_)) => still.append(chunk.content),
                (FRAME_DATA, Some(_)) if number(chunk.content, 0) == Some(sequence) => {
                    still.append(&chunk.content[4..]);
                    sequence += 1;
                }
                (FRAME_CONTROL, before) if number(chunk.content, 0) == Some(sequence) => {
                    before.map_or(Ok(()), |before| still.draw(&before, &mut canvas))?;
                    last = Some(Control::read(chunk.content, picture)?);
                    sequence += 1;
                }
                (FRAME_CONTROL | FRAME_DATA, _) => return Err(malformed("its frames are out of order")),
                _ => {}
            }
        }
        last.map_or(Ok(()), |last| still.draw(&last, &mut canvas))
    }
}

/// Returns whether chunks of a kind affect the frames.
fn is_used(kind: [u8; 4]) -> bool {
    SHARED.contains(&kind) || [IMAGE_DATA, FRAME_CONTROL, FRAME_DATA].contains(&kind)
}

/// Returns the number at this place.
fn number(content: &[u8], at: usize) -> Option<u32> {
    content.get(at..at + 4).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_be_bytes(*bytes))
}

/// How a frame is shown.
#[derive(Clone, Copy)]
struct Control {
    place: Place,
    delay: Delay,
    disposal: Disposal,
    /// Whether it is mixed with the pixels below it.
    over: bool,
}

impl Control {
    /// Reads the content of a frame control chunk in a picture of this size.
    fn read(content: &[u8], picture: Size) -> Result<Self, CodecError> {
        let content: &[u8; 26] =
            content.try_into().map_err(|_| malformed("a frame's header has the wrong length"))?;
        let [width, height, left, top] =
            [4, 8, 12, 16].map(|at| number(content, at).unwrap_or_default() as usize);
        let place = Place { width, height, left, top };
        if place.width == 0 || place.height == 0 || !place.fits(picture) {
            return Err(malformed("a frame is empty, or lies outside the picture"));
        }
        let disposal = match content[24] {
            0 => Disposal::Keep,
            1 => Disposal::Clear,
            2 => Disposal::Restore,
            _ => return Err(malformed("a frame's disposal does not exist")),
        };
        let [counter, denominator] = [20, 22].map(|at| u16::from_be_bytes([content[at], content[at + 1]]));
        let delay = Delay { counter, denominator };
        Ok(Self { place, delay, disposal, over: content[25] == 1 })
    }

    /// Returns whether the frame is all of a picture of this size.
    fn covers(&self, picture: Size) -> bool {
        self.place == Place::of_canvas(picture)
    }
}

/// A file of one frame after the other.
struct Still {
    bytes: Vec<u8>,
    /// The offset of the frame's data.
    data: usize,
    /// The size of the picture.
    picture: Size,
    /// Whether no frame has been decoded yet.
    is_first: bool,
    stored: Vec<u8>,
    colours: Vec<u8>,
}

impl Still {
    /// The place of the width and the height.
    const SIDES: std::ops::Range<usize> = 16..24;

    /// Makes a file without data.
    fn new(chunks: &Chunks<'_>) -> Self {
        let mut bytes = SIGNATURE.to_vec();
        let shared = chunks.walk().filter(|chunk| SHARED.contains(&chunk.kind));
        shared.for_each(|chunk| bytes.extend_from_slice(chunk.whole));
        bytes.extend(b"\0\0\0\0IDAT");
        let picture = Size::of(&chunks.layout);
        Self { data: bytes.len(), bytes, picture, is_first: true, stored: Vec::new(), colours: Vec::new() }
    }

    /// Appends to the data.
    fn append(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Draws the frame whose data have been appended, and forgets it.
    fn draw(&mut self, control: &Control, canvas: &mut Canvas<'_>) -> Result<(), CodecError> {
        // If the first frame's data make all of the picture, they are not of a smaller one.
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_first && !control.covers(self.picture) && self.decode(self.picture).is_ok() {
            return Err(malformed("its first frame is larger than its header says"));
        }
        self.decode(control.place.size())?;
        self.bytes.truncate(self.data);
        canvas.draw(control.place, &self.colours, control.over, control.disposal);
        Ok(())
    }

    /// Decodes the data as a picture of this size, into `colours` as RGBA.
    fn decode(&mut self, Size { width, height }: Size) -> Result<(), CodecError> {
        let end = self.bytes.len();
        let length = (end - self.data) as u32;
        self.bytes[Self::SIDES].copy_from_slice(&[width, height].map(u32::to_be_bytes).concat());
        self.bytes[self.data - 8..self.data - 4].copy_from_slice(&length.to_be_bytes());
        // A checksum, and the chunk at the end.
        self.bytes.extend(b"\0\0\0\0\0\0\0\0IEND\0\0\0\0");
        let pixels = self.picture.pixels() as usize;
        let limits = Limits { bytes: (4 << 20) + 8 * pixels };
        let read = read(&self.bytes, limits, &mut self.stored, &mut self.colours);
        self.bytes.truncate(end);
        read
    }
}

/// Decodes a file without checksums into `colours`, as RGBA. `stored` is working memory.
fn read(file: &[u8], limits: Limits, stored: &mut Vec<u8>, colours: &mut Vec<u8>) -> Result<(), CodecError> {
    let mut options = DecodeOptions::default();
    options.set_ignore_crc(true);
    let mut decoder = Decoder::new_with_options(Cursor::new(file), options);
    decoder.set_limits(limits);
    decoder.set_transformations(Transformations::EXPAND | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(decode_error)?;
    let size = reader.output_buffer_size().ok_or_else(|| malformed("it is too large"))?;
    match reader.output_color_type() {
        (ColorType::Rgba, BitDepth::Eight) => {
            resize(colours, size)?;
            reader.next_frame(colours).map_err(decode_error)?;
        }
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => {
            resize(stored, size)?;
            reader.next_frame(stored).map_err(decode_error)?;
            resize(colours, 2 * size)?;
            let (pixels, _) = colours.as_chunks_mut::<4>();
            let gray = stored.as_chunks::<2>().0.iter();
            pixels.iter_mut().zip(gray).for_each(|(to, &[gray, alpha])| *to = [gray, gray, gray, alpha]);
        }
        _ => return Err(malformed(CONTRADICTION)),
    }
    reader.finish().map_err(decode_error)
}

/// Writes frames of this layout, which lie below each other, with the chunks of an animation.
pub(super) fn write<W: Write>(
    animation: &Animation,
    frame: &Layout,
    pixels: &[u8],
    level: PngLevel,
    cores: &Cores,
    writer: &mut Writer<W>,
) -> Result<(), EncodingError> {
    let control = [animation.frames() as u32, animation.plays].map(u32::to_be_bytes).concat();
    writer.write_chunk(ChunkType(CONTROL), &control)?;
    let mut sequence = 0_u32;
    let mut next = || {
        sequence += 1;
        (sequence - 1).to_be_bytes()
    };
    let frames = pixels.chunks_exact(frame.bytes() as usize).zip(&animation.delays);
    for (number, (pixels, delay)) in frames.enumerate() {
        let mut control = next().to_vec();
        control.extend([frame.width, frame.height, 0, 0].map(u32::to_be_bytes).concat());
        control.extend([delay.counter, delay.denominator].map(u16::to_be_bytes).concat());
        // Each frame stays, and the next one replaces all of it.
        control.extend([0, 0]);
        writer.write_chunk(ChunkType(FRAME_CONTROL), &control)?;
        stream::write(frame, pixels, level, cores, |part| match number {
            0 => writer.write_chunk(::png::chunk::IDAT, part),
            _ => writer.write_chunk(ChunkType(FRAME_DATA), &[&next()[..], part].concat()),
        })?;
    }
    Ok(())
}
