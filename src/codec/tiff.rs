//! TIFF and BigTIFF, decoded by the `tiff` crate, and what is JPEG in them by libjpeg.
//!
//! Read: unsigned samples of 1 to 16 bits; gray (either way round), RGB and palettes, with or without alpha; strips, tiles and planes;
//! stored, LZW, deflate, PackBits, JPEG and CCITT group 4. Depths below 8 become 8, those between 8 and 16 become 16, palettes become
//! RGB, premultiplied alpha is divided out. Written: one picture in strips, compressed as the source or, where its compression does not
//! suit (JPEG, group 4), without loss. Every tag that does not describe the storage of the pixels is kept. Files of several pages are
//! refused.
//!
//! No file is read as a whole first: the crate reads through a window on it, and stored strips past that straight into the slot.

use std::fs::File;
use std::io;

use ::tiff::TiffError;
use ::tiff::decoder::{Decoder, Limits};

use super::samples::unpack;
use super::{CodecError, Format, LINE, Limits as PictureLimits, Native as AnyNative, Payload, ifd};
use crate::picture::Layout;

mod colours;
mod header;
mod jpeg;
mod parts;
mod reader;
mod tags;
mod write;

use header::Header;
use reader::Reader;
pub(super) use write::encode;

/// What is remembered of a TIFF for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    compression: write::Compression,
    /// What the fourth (or second) channel is, by the tag ExtraSamples; 2 is alpha that was not multiplied in.
    extra_sample: u16,
    big: bool,
    /// Whether layers were left out.
    pub(super) had_layers: bool,
    kept: ifd::Directory,
}

/// An opened TIFF.
#[derive(Debug)]
pub(super) struct Source<'a> {
    file: Reader<'a>,
    header: Header,
    directory: ifd::Directory,
}

impl<'a> Source<'a> {
    /// Reads the structure of a file whose head is in `buffer`; decodes nothing.
    pub(super) fn open(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &PictureLimits,
    ) -> Result<Self, CodecError> {
        let (form, offset) = ifd::header(buffer).ok_or_else(|| malformed("its header is cut short"))?;
        let mut file = Reader::new(file, buffer, limits)?;
        let (directory, next) = ifd::read_from(&mut file, form, offset).map_err(no_directory)?;
        header::refuse_further_pictures(&mut file, form, &directory, next)?;
        let header = Header::new(&directory, form)?;
        header.check_parts(limits)?;
        for (tag, value) in header.disguise(&directory) {
            if let Some((at, entry)) =
                ifd::changed(&mut file, form, offset, tag, value).map_err(no_directory)?
            {
                file.patch(at as u64, entry);
            }
        }
        Ok(Self { file, header, directory })
    }

    pub(super) fn layout(&self) -> Layout {
        self.header.layout
    }

    /// How far beyond a line of the cache its pixels begin, if they lie in the file as they will in the slot.
    pub(super) fn lead(&self) -> usize {
        let header = &self.header;
        let straight = header.method == tags::STORED && !header.planar && header.is_direct();
        let start = self.directory.number(tags::STRIP_OFFSETS).filter(|_| straight).unwrap_or_default();
        if start.is_multiple_of(header.layout.depth.bytes() as u64) {
            (start % LINE as u64) as usize
        } else {
            0
        }
    }

    /// What is in memory of the file; the values of tags; a buffer of one tile, or of a plane's strip, which may be all of it; what JPEGs take.
    pub(super) fn heap_bytes(&self) -> u64 {
        let jpeg = match self.header.method {
            tags::JPEG => jpeg::heap_bytes(&self.directory, &self.header, self.file.file_bytes()),
            _ => 0,
        };
        self.file.bytes_in_memory() + self.directory.bytes_of_values() + self.header.buffer_bytes() + jpeg
    }

    /// Decodes into `slot`, which is as long as the pixels.
    pub(super) fn decode(self, slot: &mut [u8]) -> Result<Payload, CodecError> {
        let header = &self.header;
        let layout = header.layout;
        // The samples as they are stored go to the end of the slot; unpacking and expanding move them to its front.
        let samples = layout.pixels() as usize * header.samples;
        let start = slot.len() - samples * layout.depth.bytes();
        let stored = &mut slot[start..];
        let packed = stored.len() - header.row_bytes(layout.width) * layout.height as usize;
        let target = &mut stored[packed..];
        match header.part {
            Some(part) if header.method == tags::JPEG => {
                jpeg::read(self.file, &self.directory, header, part, target)?;
            }
            _ => read(self.file, header, target)?,
        }
        if header.is_packed() {
            unpack(stored, packed, layout.width as usize * header.samples, header.bits);
        }
        colours::convert(slot, start, header, &self.directory)?;
        Ok(Payload {
            layout,
            metadata: tags::metadata(&self.directory),
            native: AnyNative::Tiff(Box::new(Native {
                compression: header.compression,
                extra_sample: header.extra_sample.unwrap_or(tags::UNASSOCIATED),
                big: header.form.big,
                had_layers: self.directory.get(tags::LAYERS).is_some(),
                kept: tags::kept(&self.directory),
            })),
        })
    }
}

/// Reads the samples as they are stored.
fn read(file: Reader<'_>, header: &Header, target: &mut [u8]) -> Result<(), CodecError> {
    // For after the tags, which the decoder has read under limits of its own. The picture's size has been checked; no strip is larger
    // than the file.
    let mut limits = Limits::unlimited();
    limits.intermediate_buffer_size = usize::try_from(file.file_bytes()).unwrap_or(usize::MAX);
    let mut decoder = Decoder::new(file).map_err(decode_error)?.with_limits(limits);
    check_size(&mut decoder, header)?;
    match header.part {
        Some(part) => parts::read(header, part, target, |index, part| read_part(&mut decoder, index, part)),
        None => decoder.read_image_bytes(target).map_err(decode_error),
    }
}

/// Reads a strip or tile.
fn read_part(decoder: &mut Decoder<Reader<'_>>, index: u32, target: &mut [u8]) -> Result<(), CodecError> {
    let found = decoder.image_chunk_buffer_layout(index).map_err(decode_error)?;
    if found.len != target.len() {
        return Err(contradictory());
    }
    decoder.read_chunk_bytes(index, target).map_err(decode_error)
}

/// Refuses a file that the decoder reads differently, because a tag is there twice, say: it would not fill the slot, and what was
/// there before would show.
fn check_size(decoder: &mut Decoder<Reader<'_>>, header: &Header) -> Result<(), CodecError> {
    let found = decoder.image_buffer_layout().map_err(decode_error)?;
    let row = header.row_bytes(header.told_width()) / header.planes();
    let height = header.layout.height as usize;
    let is_as_said = found.len == row * height && found.row_stride.is_some_and(|stride| stride.get() == row);
    if is_as_said { Ok(()) } else { Err(contradictory()) }
}

fn contradictory() -> CodecError {
    malformed("its tags contradict each other")
}

fn decode_error(error: TiffError) -> CodecError {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            malformed("it is cut short")
        }
        TiffError::IoError(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            CodecError::OutOfMemory { bytes: None }
        }
        TiffError::IoError(error) if error.raw_os_error().is_some() => error.into(),
        TiffError::IoError(error) => malformed(error.to_string()),
        TiffError::UnsupportedError(what) => CodecError::unsupported(
            format!("this kind of TIFF ({what})"),
            "convert it to an uncompressed gray or RGB TIFF first",
        ),
        TiffError::LimitsExceeded => malformed("a strip or a tag is larger than the picture or the file"),
        other => malformed(other.to_string()),
    }
}

fn no_directory(error: io::Error) -> CodecError {
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.into(),
        io::ErrorKind::InvalidData => malformed("its directory makes no sense"),
        _ => malformed("its directory lies outside the file"),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Tiff, reason)
}
