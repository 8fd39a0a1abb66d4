//! PNG.
//!
//! The `png` crate handles the chunk structure, and decodes pictures that are interlaced or have to
//! be expanded; all other rows are decoded, and all rows encoded, by the modules here. Palettes
//! become RGB, transparent colours become alpha, depths below 8 become 8; output is neither
//! interlaced nor has a palette. Chunks that still hold for the new pixels are passed on unchanged.
//! A large picture is read, and any picture written, in bands of rows ([`bands`]).

use std::fs::File;
use std::io::{BufWriter, Cursor, Seek, Write};

use ::png::{
    BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, Info, Limits, PixelDimensions,
    Reader, Transformations, Unit,
};

use crate::io::cores::Cores;
use crate::metadata::MetadataBytes;
use crate::picture::animation::Animation;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::stated::{Place as LevelPlace, Stated};
use crate::samples::{pixels_of, swap_big_endian};
use crate::{CodecError, Decoded, Format, PngLevel, picture};
use equalize::{ByteOrder, Depth, Layout, Pixel};

mod bands;
mod chunks;
mod filter;
mod frames;
mod metadata;
mod preview;
mod rows;
mod stream;
mod unfilter;
mod zlib;

pub(crate) use bands::{Writer, least_rows, open, waiting_bytes};
pub(crate) use chunks::ended;
use chunks::without_data;
use chunks::{Chunks, Kept};
use frames::Frames;
use metadata::Parts;

/// The part of a PNG that is needed for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    /// The chunks to pass on, in the source's order.
    kept: Kept,
    /// How it is played, if it is an animation.
    pub(super) animation: Option<Animation>,
}

impl picture::Native for Native {
    fn metadata_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    fn animation(&self) -> Option<&Animation> {
        self.animation.as_ref()
    }

    fn separate(&mut self) {
        self.animation = None;
    }
}

/// An opened PNG.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    chunks: Chunks<'a>,
    metadata: Parts<'a>,
    frames: Option<Frames>,
}

/// Passes on the source of an animation without the data of its frames.
pub(super) fn survey(file: &File, _: &[u8], length: u64, take: &mut dyn FnMut(Box<dyn Decode + '_>)) {
    if let Ok(Some(all)) = without_data(file, length)
        && let Ok(source) = Source::open(&all)
    {
        take(Box::new(source));
    }
}

impl<'a> Source<'a> {
    /// Reads the chunk structure of `bytes`, the whole file.
    ///
    /// Only metadata are decompressed, to learn their length.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        if chunks::is_apples(bytes) {
            return Err(CodecError::unsupported(
                "Apple's own variant of PNG (CgBI), as in iPhone apps,",
                "turn it back first, as with `xcrun pngcrush -revert-iphone-optimizations IN.png OUT.png`",
            ));
        }
        let chunks = Chunks::scan(bytes).map_err(malformed)?;
        let metadata = Parts::find(&chunks).map_err(malformed)?;
        let frames = Frames::find(&chunks)?;
        Ok(Self { bytes, chunks, metadata, frames })
    }

    /// Returns a decoder of the file, after reading the chunks before the image data.
    fn reader(&self) -> Result<Reader<Cursor<&'a [u8]>>, CodecError> {
        let layout = &self.chunks.layout;
        let mut decoder = Decoder::new(Cursor::new(self.bytes));
        // A few rows, the memory for chunks that are not used here, and the decoder's buffer for
        // EXIF, which doubles.
        let row = layout.width as usize * 8;
        let exif = 2 * self.exif_bytes() as usize;
        decoder.set_limits(Limits { bytes: (4 << 20) + 4 * row + exif });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::EXPAND);
        let reader = decoder.read_info().map_err(decode_error)?;
        let bytes = reader.output_buffer_size().map(|bytes| bytes as u64);
        if reader.output_color_type() == colour_type(layout) && bytes == Some(layout.bytes()) {
            Ok(reader)
        } else {
            Err(malformed(CONTRADICTION))
        }
    }

    fn exif_bytes(&self) -> u64 {
        self.chunks.all(b"eXIf").map(|exif| exif.len() as u64).sum()
    }
}

impl Source<'_> {
    fn layout(&self) -> Layout {
        self.frames.as_ref().map_or(self.chunks.layout, |frames| frames.stacked)
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let bits = self.chunks.significant_bits();
        let stated = |bits| Stated { top: ((1_u32 << bits) - 1) as u16, place: LevelPlace::Either };
        Facts {
            frames: self.frames.as_ref().map_or(1, |frames| frames.animation.frames()),
            metadata: MetadataBytes { native: self.chunks.kept_bytes(), carried: self.metadata.bytes() },
            byte_order: match self.chunks.layout.depth {
                Depth::Eight => ByteOrder::Native,
                Depth::Sixteen => ByteOrder::BIG_ENDIAN,
            },
            stated: bits.map(stated),
            ..Facts::of(self.layout())
        }
    }

    /// Returns the needs for rows, and for EXIF in a buffer and a copy.
    fn needs(&self) -> Needs {
        let frames = self.frames.as_ref().map_or(0, Frames::heap_bytes);
        Needs::of_heap(heap_bytes(&self.chunks.layout) + 3 * self.exif_bytes() + frames)
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let (layout, metadata, kept) = (self.layout(), self.metadata.read(), self.chunks.kept());
        if let Some(frames) = self.frames {
            frames.decode(&self.chunks, slot)?;
            let native = Box::new(Native { kept, animation: Some(frames.animation) });
            return Ok(Payload { layout, metadata, native, mapped: None });
        }
        let mut reader = self.reader()?;
        match self.chunks.rows {
            Some(data) if unfilter::is_fast() => {
                // Reads on to the end of the file, and verifies the checksums of all critical
                // chunks.
                reader.finish().map_err(decode_error)?;
                let step = layout.pixel_bytes();
                rows::decode(data, layout.width as usize * step, step, slot).map_err(malformed)?;
            }
            _ => {
                reader.next_frame(slot).map_err(decode_error)?;
                reader.finish().map_err(decode_error)?;
            }
        }
        if layout.depth == Depth::Sixteen {
            swap_big_endian(slot, wanted.byte_order);
        }
        Ok(Payload { mapped: None, layout, metadata, native: Box::new(Native { kept, animation: None }) })
    }
}

/// Returns the bytes of the rows that a decoder or encoder holds in addition to the pixels.
///
/// For an encoder those are a row filtered in two ways, a strip, the zeros above the first row, and
/// output of up to one and a half rows. The memory of helpers is bounded by [`Cores`].
pub(super) fn heap_bytes(layout: &Layout) -> u64 {
    const ROWS: u64 = 6;
    ROWS * u64::from(layout.width) * layout.pixel_bytes() as u64
}

/// Writes the pixels of `slot`, with the help of idle cores.
pub(super) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    level: PngLevel,
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let pixels = stored(decoded, slot);
    let start = out.stream_position()?;
    let mut buffered = BufWriter::new(&mut *out);
    write(decoded, pixels, level, cores, &mut buffered).map_err(encode_error)?;
    buffered.flush()?;
    drop(buffered);
    Ok(out.stream_position()? - start)
}

/// Returns the pixels at the front of `slot` as they are stored.
fn stored<'s>(decoded: &Decoded, slot: &'s mut [u8]) -> &'s [u8] {
    let pixels = pixels_of(&decoded.layout, slot);
    if decoded.layout.depth == Depth::Sixteen {
        swap_big_endian(pixels, decoded.byte_orders.to);
    }
    pixels
}

fn write(
    decoded: &Decoded,
    pixels: &[u8],
    level: PngLevel,
    cores: &Cores,
    out: impl Write,
) -> Result<(), EncodingError> {
    let layout = &decoded.frame_layout();
    let mut writer = begin(decoded, layout, out)?;
    match decoded.animation().filter(|animation| animation.frames() > 1) {
        Some(animation) => frames::write(animation, layout, pixels, level, cores, &mut writer)?,
        None => {
            stream::write(layout, pixels, level, cores, |part| writer.write_chunk(::png::chunk::IDAT, part))?;
        }
    }
    writer.finish()
}

/// Writes the chunks before the image data of a picture of this layout.
fn begin<W: Write>(decoded: &Decoded, layout: &Layout, out: W) -> Result<::png::Writer<W>, EncodingError> {
    let mut info = Info::with_size(layout.width, layout.height);
    (info.color_type, info.bit_depth) = colour_type(layout);
    let native = decoded.native_of::<Native>();
    if native.is_none() {
        info.icc_profile = decoded.metadata.icc_in(Format::Png, layout.pixel).map(Into::into);
        info.pixel_dims = decoded.metadata.resolution.map(|resolution| {
            let [xppu, yppu] = resolution.metres();
            PixelDimensions { xppu, yppu, unit: Unit::Meter }
        });
        info.exif_metadata = decoded.metadata.exif.as_deref().map(Into::into);
    }
    let mut writer = Encoder::with_info(out, info)?.write_header()?;
    if let Some(bits) = decoded.scale.stated_bits(layout.depth) {
        let mut content = vec![bits; layout.pixel.colour_channels()];
        content.resize(layout.pixel.channels(), 8 * layout.depth.bytes() as u8);
        writer.write_chunk(::png::chunk::ChunkType(*b"sBIT"), &content)?;
    }
    match native {
        Some(native) => {
            for (kind, content) in native.kept.chunks() {
                let profile_fits =
                    kind != *b"iCCP" || decoded.metadata.icc_in(Format::Png, layout.pixel).is_some();
                if profile_fits {
                    writer.write_chunk(::png::chunk::ChunkType(kind), content)?;
                }
            }
        }
        None => {
            if let Some(xmp) = &decoded.metadata.xmp {
                writer.write_chunk(::png::chunk::iTXt, &metadata::xmp_chunk(xmp))?;
            }
        }
    }
    Ok(writer)
}

fn colour_type(layout: &Layout) -> (ColorType, BitDepth) {
    let colour = match layout.pixel {
        Pixel::Gray => ColorType::Grayscale,
        Pixel::GrayAlpha => ColorType::GrayscaleAlpha,
        Pixel::Rgb => ColorType::Rgb,
        Pixel::Rgba => ColorType::Rgba,
    };
    let depth = match layout.depth {
        Depth::Eight => BitDepth::Eight,
        Depth::Sixteen => BitDepth::Sixteen,
    };
    (colour, depth)
}

const CONTRADICTION: &str = "its chunks contradict each other";
const CHECKSUM: &str = "a checksum does not match its data";

fn decode_error(error: DecodingError) -> CodecError {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            malformed("it is truncated")
        }
        DecodingError::IoError(error) => CodecError::Io(error),
        DecodingError::LimitsExceeded => malformed("its profile or texts are unreasonably large"),
        other => {
            let reason = other.to_string();
            // The decoder's own message is for its developers: it lists the chunk's flags.
            malformed(if reason.starts_with("CRC error") { CHECKSUM.into() } else { reason })
        }
    }
}

fn encode_error(error: EncodingError) -> CodecError {
    match error {
        EncodingError::IoError(error) => CodecError::Io(error),
        other => CodecError::encoder(Format::Png, other.to_string()),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Png, reason)
}

/// Shared by the tests of the modules here.
#[cfg(test)]
mod tests {
    use super::PngLevel;

    pub(super) const LEVELS: [PngLevel; 3] = [PngLevel::Fast, PngLevel::Balanced, PngLevel::Small];
}
