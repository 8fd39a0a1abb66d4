//! GIFs, written in frames that cover all of the picture, each with its own palette.
//!
//! A frame of more than 256 colours is refused: they are reduced before, if a GIF is asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};

use ::gif::{DisposalMethod, Encoder, EncodingError, Frame, Repeat};

use crate::samples::pixels_of;
use crate::{CodecError, Decoded, Format};
use equalize::Layout;

/// Returns the bytes of heap for encoding: a frame's indices, and its data in a doubling buffer.
pub(crate) fn encoder_bytes(frame: &Layout) -> u64 {
    5 * frame.pixels()
}

/// Writes the frames in `slot`, each of at most 256 colours.
pub(crate) fn encode(decoded: &Decoded, slot: &mut [u8], out: &mut File) -> Result<u64, CodecError> {
    let frame = decoded.frame_layout();
    let [width, height] =
        [frame.width, frame.height].map(|side| u16::try_from(side).expect("checked when it was opened"));
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
    // The frame would show through transparent pixels of the next one.
    let has_alpha = frame.pixel.has_alpha();
    let dispose = if has_alpha { DisposalMethod::Background } else { DisposalMethod::Any };
    let pixels = pixels_of(&decoded.layout, slot);
    let mut frames = pixels.chunks_exact(frame.bytes() as usize).enumerate().peekable();
    while let Some((number, pixels)) = frames.next() {
        let indexed = Indexed::of(pixels, frames.peek().map(|(_, next)| *next), &frame)?;
        let frame = Frame {
            delay: decoded.animation().map_or(0, |animation| animation.delays[number].hundredths()),
            dispose,
            transparent: indexed.transparent,
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

/// Returns whether some of these pixels are transparent.
fn has_holes(pixels: &[u8], layout: &Layout) -> bool {
    layout.pixel.has_alpha()
        && pixels.chunks_exact(layout.pixel_bytes()).any(|pixel| pixel.last() == Some(&0))
}

/// Returns a pixel of one to four channels as RGBA.
pub(super) fn rgba(pixel: &[u8]) -> [u8; 4] {
    match *pixel {
        [gray] => [gray, gray, gray, 255],
        [gray, alpha] => [gray, gray, gray, alpha],
        [red, green, blue] => [red, green, blue, 255],
        [red, green, blue, alpha] => [red, green, blue, alpha],
        _ => unreachable!("8-bit pixels have one to four channels"),
    }
}

/// A frame as indices of its colours.
#[derive(Default)]
pub(super) struct Indexed {
    indices: Vec<u8>,
    palette: Vec<u8>,
    transparent: Option<u8>,
    known: HashMap<[u8; 3], u8>,
    /// The last pixel and its index: most pixels are like the one before.
    last: Option<([u8; 4], u8)>,
}

impl Indexed {
    /// Returns the frame of these pixels, which is shown before the `next` one.
    ///
    /// # Errors
    /// [`CodecError::CannotRepresent`] if it has too many colours, or half-transparent pixels.
    pub(super) fn of(pixels: &[u8], next: Option<&[u8]>, frame: &Layout) -> Result<Self, CodecError> {
        let mut indexed = Self::default();
        pixels.chunks_exact(frame.pixel_bytes()).try_for_each(|pixel| indexed.add(rgba(pixel)))?;
        // Pillow and ffmpeg clear the place of a frame to the background's colour unless it has a
        // transparent index.
        if next.is_some_and(|next| has_holes(next, frame)) {
            indexed.transparent_index()?;
        }
        Ok(indexed)
    }

    fn add(&mut self, rgba: [u8; 4]) -> Result<(), CodecError> {
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
            0 => self.transparent_index(),
            255 => match self.known.entry([red, green, blue]) {
                Entry::Occupied(entry) => Ok(*entry.get()),
                Entry::Vacant(entry) => {
                    let index = next.map_err(|_| too_many())?;
                    self.palette.extend([red, green, blue]);
                    Ok(*entry.insert(index))
                }
            },
            _ => Err(half_transparent()),
        }
    }

    /// Returns the index of transparent pixels.
    fn transparent_index(&mut self) -> Result<u8, CodecError> {
        if let Some(index) = self.transparent {
            return Ok(index);
        }
        let index = u8::try_from(self.palette.len() / 3).map_err(|_| too_many())?;
        self.palette.extend([0; 3]);
        Ok(*self.transparent.insert(index))
    }
}

fn too_many() -> CodecError {
    CodecError::cannot_represent(
        Format::Gif,
        "more than 256 colours in a frame",
        "write it as PNG or WebP (--format png), animated or not; --format gif reduces colours, and reports the change",
    )
}

fn half_transparent() -> CodecError {
    CodecError::cannot_represent(
        Format::Gif,
        "half-transparent pixels",
        "write it as PNG or WebP (--format png), animated or not",
    )
}

fn encode_error(error: EncodingError) -> CodecError {
    match error {
        EncodingError::Io(error) => CodecError::Io(error),
        other => CodecError::encoder(Format::Gif, other.to_string()),
    }
}
