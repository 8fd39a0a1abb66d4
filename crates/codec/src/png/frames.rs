//! The frames of an animated PNG (PNG third edition, section 11.3.6).

use std::io::{Cursor, Write};

use ::png::{
    BlendOp, ColorType, Decoder, DisposeOp, EncodingError, Limits, Transformations, Writer, chunk::ChunkType,
};

use super::chunks::Chunks;
use super::{bands, decode_error, malformed};
use crate::animation::{self, Animation, Canvas, Delay, Disposal, Place};
use crate::cores::Cores;
use crate::foreign::FRAMES;
use crate::{CodecError, PngLevel};
use equalize::{Depth, Layout, Pixel};

/// The animation control chunk.
const CONTROL: [u8; 4] = *b"acTL";
/// The frame control chunk.
const FRAME_CONTROL: [u8; 4] = *b"fcTL";
/// The data of frames but the first.
const FRAME_DATA: [u8; 4] = *b"fdAT";

/// The frames of a PNG.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    pub(super) animation: Animation,
    /// The layout of one of them.
    frame: Layout,
    /// The layout of all of them below each other.
    pub(super) stacked: Layout,
}

impl Frames {
    /// Finds the frames; `None` if the file is no animation.
    pub(super) fn find(chunks: &Chunks<'_>) -> Result<Option<Self>, CodecError> {
        if !chunks.animated {
            return Ok(None);
        }
        let Layout { width, height, pixel, depth } = chunks.layout;
        let (mut delays, mut covers_all, mut keeps_all) = (Vec::new(), false, true);
        for control in chunks.all(&FRAME_CONTROL) {
            let control: &[u8; 26] =
                control.try_into().map_err(|_| malformed("a frame's header is too short"))?;
            let number = |at: usize| u16::from_be_bytes([control[at], control[at + 1]]);
            if delays.is_empty() {
                covers_all =
                    control[4..20] == [[width, height].map(u32::to_be_bytes), [[0; 4]; 2]].concat().concat();
            }
            keeps_all &= control[24] == 0;
            delays.push(Delay { counter: number(20), denominator: number(22) });
        }
        let control = chunks.all(&CONTROL).next().and_then(|control| control.split_first_chunk::<4>());
        let Some((count, plays)) = control.and_then(|(count, rest)| Some((count, rest.first_chunk::<4>()?)))
        else {
            return Err(malformed("its animation has no length"));
        };
        if delays.is_empty() || u32::from_be_bytes(*count) as usize != delays.len() {
            return Err(malformed("it does not have as many frames as it says; it may be truncated"));
        }
        if depth == Depth::Sixteen {
            return Err(CodecError::unsupported("an animated PNG of 16 bits", FRAMES));
        }
        let is_opaque = !pixel.has_alpha() && covers_all && keeps_all;
        let frame = Layout { pixel: if is_opaque { Pixel::Rgb } else { Pixel::Rgba }, ..chunks.layout };
        let stacked = animation::stacked(frame, delays.len())?;
        let animation = Animation { delays, plays: u32::from_be_bytes(*plays) };
        Ok(Some(Self { animation, frame, stacked }))
    }

    /// Returns the bytes of heap for the canvas and a copy of it, for a frame as it is stored and as colours, for what decoding it takes, and
    /// for delays.
    pub(super) fn heap_bytes(&self) -> u64 {
        (2 * Canvas::HEAP + 3 * 4) * self.frame.pixels() + self.animation.bytes()
    }

    /// Decodes the frames of a file into `slot`, which is as long as the pixels of all of them.
    pub(super) fn decode(&self, bytes: &[u8], slot: &mut [u8]) -> Result<(), CodecError> {
        let mut decoder = Decoder::new(Cursor::new(bytes));
        decoder.set_limits(Limits { bytes: (4 << 20) + 8 * self.frame.pixels() as usize });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(
            Transformations::EXPAND | Transformations::ALPHA | Transformations::STRIP_16,
        );
        let mut reader = decoder.read_info().map_err(decode_error)?;
        let channels = match reader.output_color_type() {
            (ColorType::GrayscaleAlpha, _) => 2,
            (ColorType::Rgba, _) => 4,
            _ => return Err(malformed("its chunks contradict each other")),
        };
        let size = 4 * self.frame.pixels() as usize;
        let mut stored = vec![0; reader.output_buffer_size().ok_or_else(|| malformed("it is too large"))?];
        let (mut canvas, mut colours) = (Canvas::new(&self.frame, slot)?, Vec::with_capacity(size));
        while !canvas.is_full() {
            reader.next_frame(&mut stored).map_err(decode_error)?;
            // A picture for readers that know no animation may precede the frames.
            let Some(control) = reader.info().frame_control().copied() else { continue };
            let place = Place {
                left: control.x_offset as usize,
                top: control.y_offset as usize,
                width: control.width as usize,
                height: control.height as usize,
            };
            let pixels = &stored[..place.width * place.height * channels];
            colours.clear();
            if channels == 4 {
                colours.extend_from_slice(pixels);
            } else {
                pixels.as_chunks::<2>().0.iter().for_each(|&[gray, alpha]| {
                    colours.extend([gray, gray, gray, alpha]);
                });
            }
            let disposal = match control.dispose_op {
                DisposeOp::None => Disposal::Keep,
                DisposeOp::Background => Disposal::Clear,
                DisposeOp::Previous => Disposal::Restore,
            };
            canvas.draw(place, &colours, control.blend_op == BlendOp::Over, disposal);
        }
        reader.finish().map_err(decode_error)
    }
}

/// Writes frames of this layout, which lie below each other, with what tells how they are played.
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
        bands::write(frame, pixels, level, cores, |part| match number {
            0 => writer.write_chunk(::png::chunk::IDAT, part),
            _ => writer.write_chunk(ChunkType(FRAME_DATA), &[&next()[..], part].concat()),
        })?;
    }
    Ok(())
}
