//! GIF, by the `gif` crate. Frames become RGB, or RGBA if any pixel is ever transparent.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::num::NonZeroU64;

use ::gif::{DecodeOptions, Decoder, DecodingError, DisposalMethod, Frame, MemoryLimit, Repeat};

use crate::io::budget::SMALL_CHANGE;
use crate::io::output::FileAt;
use crate::io::reader::resize;
use crate::metadata::{Metadata, MetadataBytes};
use crate::picture::animation::{self, Animation, Canvas, Delay, Disposal, FRAMES, Place, mixed};
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::mapped::Mapped;
use crate::{CodecError, Format, Remark, Target, picture};
use equalize::{Depth, Layout, Pixel};

mod blocks;
mod colours;
mod write;

pub(super) use colours::reduce;
pub(super) use write::{encode, encoder_bytes};

/// The part of a GIF that is needed for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    pub(super) animation: Animation,
}

impl picture::Native for Native {
    fn animation(&self) -> Option<&Animation> {
        Some(&self.animation)
    }

    fn separate(&mut self) {
        self.animation.delays.truncate(1);
    }

    fn remarks(&self, target: &Target, to: Format, _: Option<&Mapped>) -> Vec<Option<Remark>> {
        vec![(target.format.is_none() && to == Format::Png).then_some(Remark::NowPng)]
    }
}

/// An opened GIF.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    /// The layout of one frame.
    frame: Layout,
    stacked: Layout,
    animation: Animation,
    /// The pixels of the largest frame, of which some may lie outside the picture.
    largest: u64,
}

/// Passes on the source of an animation by its frames in the file; only the head is in memory.
pub(super) fn survey(file: &File, head: &[u8], _: u64, take: &mut dyn FnMut(Box<dyn Decode + '_>)) {
    let all = BufReader::with_capacity(SMALL_CHANGE as usize, FileAt { file, at: 0 });
    if let Ok(source) = Source::survey(all, head) {
        take(Box::new(source));
    }
}

impl<'a> Source<'a> {
    /// Reads the structure of all frames; `bytes` is the whole file.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let source = Self::survey(Cursor::new(bytes), bytes)?;
        if blocks::are_known(bytes) { Ok(source) } else { Err(malformed("it has a block of unknown kind")) }
    }

    /// Reads the structure of all frames from a file that need not be in memory.
    ///
    /// `bytes` is the part in memory: for decoding, the whole file.
    fn survey(file: impl Read, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut options = DecodeOptions::new();
        options.skip_frame_decoding(true);
        let mut decoder = read_info(options, file)?;
        let (width, height) = (decoder.width(), decoder.height());
        if width == 0 || height == 0 {
            return Err(malformed("it has no width or height"));
        }
        let (mut delays, mut is_opaque, mut largest) = (Vec::new(), true, 0);
        while let Some(frame) = decoder.next_frame_info().map_err(decode_error)? {
            let covers = (frame.left, frame.top) == (0, 0) && frame.width >= width && frame.height >= height;
            is_opaque &= frame.transparent.is_none()
                && frame.dispose != DisposalMethod::Background
                && (covers || !delays.is_empty() && frame.dispose != DisposalMethod::Previous);
            delays.push(Delay::of_hundredths(frame.delay));
            largest = largest.max(u64::from(frame.width) * u64::from(frame.height));
        }
        if largest == 0 {
            return Err(malformed("it has no picture"));
        }
        let plays = match decoder.repeat() {
            Repeat::Infinite => 0,
            Repeat::Finite(again) => u32::from(again) + 1,
        };
        let pixel = if is_opaque { Pixel::Rgb } else { Pixel::Rgba };
        let frame = Layout { width: width.into(), height: height.into(), pixel, depth: Depth::Eight };
        if largest > most_bytes(&frame) {
            return Err(CodecError::unsupported("a GIF with a frame larger than its picture", FRAMES));
        }
        let stacked = animation::stacked(frame, delays.len())?;
        Ok(Self { bytes, frame, stacked, animation: Animation { delays, plays }, largest })
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        // Its metadata are parts of the file.
        let metadata = MetadataBytes { native: 0, carried: self.bytes.len() as u64 };
        Facts { frames: self.animation.frames(), metadata, ..Facts::of(self.stacked) }
    }

    /// Returns the needs for canvas and copy, a frame as indices and colours, and delays.
    fn needs(&self) -> Needs {
        let canvases = 2 * Canvas::HEAP * self.frame.pixels();
        Needs::of_heap(canvases + (1 + 4) * self.largest + self.animation.bytes())
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let mut options = DecodeOptions::new();
        let most = NonZeroU64::new(most_bytes(&self.frame)).unwrap_or(NonZeroU64::MIN);
        options.set_memory_limit(MemoryLimit::Bytes(most));
        let mut decoder = read_info(options, Cursor::new(self.bytes))?;
        let global = decoder.global_palette().map(<[u8]>::to_vec);
        let mut canvas = Canvas::new(&self.frame, slot, mixed)?;
        let (mut indices, mut colours) = (Vec::new(), Vec::new());
        while let Some(frame) = decoder.next_frame_info().map_err(decode_error)?.cloned() {
            resize(&mut indices, usize::from(frame.width) * usize::from(frame.height))?;
            // The crate's own way to read an interlaced frame misses the end of small ones.
            if !indices.is_empty() && !decoder.fill_buffer(&mut indices).map_err(decode_error)? {
                return Err(malformed("a frame is truncated"));
            }
            let palette = frame.palette.as_deref().or(global.as_deref());
            let palette = palette.ok_or_else(|| malformed("a frame has no palette"))?;
            expand(&indices, &frame, palette, &mut colours)?;
            if !canvas.draw(place_of(&frame), &colours, true, disposal_of(&frame)) {
                break;
            }
        }
        if !canvas.is_full() {
            return Err(malformed("it is truncated"));
        }
        let metadata = Metadata {
            icc: decoder.icc_profile().map(<[u8]>::to_vec),
            xmp: decoder.xmp_metadata().map(<[u8]>::to_vec),
            ..Metadata::default()
        };
        let native = Box::new(Native { animation: self.animation });
        Ok(Payload { layout: self.stacked, metadata, native, mapped: None })
    }
}

/// Returns the most bytes of a frame, which may be larger than the canvas, or of metadata.
fn most_bytes(canvas: &Layout) -> u64 {
    4 * canvas.pixels() + (1 << 20)
}

fn place_of(frame: &Frame<'_>) -> Place {
    let [left, top, width, height] = [frame.left, frame.top, frame.width, frame.height].map(usize::from);
    Place { left, top, width, height }
}

fn disposal_of(frame: &Frame<'_>) -> Disposal {
    match frame.dispose {
        DisposalMethod::Any | DisposalMethod::Keep => Disposal::Keep,
        DisposalMethod::Background => Disposal::Clear,
        DisposalMethod::Previous => Disposal::Restore,
    }
}

/// Turns the indices of a frame into RGBA. Indices beyond the palette are black, as in browsers.
fn expand(
    indices: &[u8],
    frame: &Frame<'_>,
    palette: &[u8],
    colours: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut table = [[0, 0, 0, 255]; 256];
    for (entry, colour) in table.iter_mut().zip(palette.as_chunks::<3>().0) {
        entry[..3].copy_from_slice(colour);
    }
    if let Some(transparent) = frame.transparent {
        table[usize::from(transparent)] = [0; 4];
    }
    resize(colours, 4 * indices.len())?;
    let (width, (pixels, _)) = (usize::from(frame.width).max(1), colours.as_chunks_mut::<4>());
    for (row, indices) in rows(frame.height.into(), frame.interlaced).zip(indices.chunks_exact(width)) {
        let line = &mut pixels[row * width..][..width];
        line.iter_mut().zip(indices).for_each(|(pixel, &index)| *pixel = table[usize::from(index)]);
    }
    Ok(())
}

/// Returns the rows of a frame in the order in which they are stored (GIF89a, appendix E).
fn rows(height: usize, is_interlaced: bool) -> impl Iterator<Item = usize> {
    let passes: &[_] = if is_interlaced { &[(0, 8), (4, 8), (2, 4), (1, 2)] } else { &[(0, 1)] };
    passes.iter().flat_map(move |&(first, step)| (first..height).step_by(step))
}

fn read_info<R: Read>(mut options: DecodeOptions, file: R) -> Result<Decoder<R>, CodecError> {
    options.allow_unknown_blocks(true);
    options.read_info(file).map_err(decode_error)
}

fn decode_error(error: DecodingError) -> CodecError {
    match error {
        DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            malformed("it is truncated")
        }
        DecodingError::Io(error) => CodecError::Io(error),
        DecodingError::UnexpectedEof => malformed("it is truncated"),
        DecodingError::OutOfMemory => CodecError::OutOfMemory { bytes: None },
        DecodingError::MemoryLimit => malformed("its metadata is unreasonably large"),
        other => malformed(other.to_string()),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Gif, reason)
}
