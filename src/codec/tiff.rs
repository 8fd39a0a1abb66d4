//! TIFF and BigTIFF, decoded by the `tiff` crate.
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

    /// What is in memory of the file; the values of tags; planes pass through a buffer of one strip or tile, which may be a whole plane; a JPEG is read whole, and
    /// decoded by itself.
    pub(super) fn heap_bytes(&self) -> u64 {
        let header = &self.header;
        let chunk = match header.method {
            tags::JPEG => self.file.file_bytes() + header.layout.bytes(),
            _ if header.planar => header.layout.bytes() / header.samples as u64,
            _ => 0,
        };
        self.file.bytes_in_memory() + self.directory.bytes_of_values() + chunk
    }

    /// Decodes into `slot`, which is as long as the pixels.
    pub(super) fn decode(self, slot: &mut [u8]) -> Result<Payload, CodecError> {
        let header = &self.header;
        let (layout, limits) = (header.layout, self.limits());
        let mut decoder = Decoder::new(self.file).map_err(decode_error)?.with_limits(limits);
        // The samples as they are stored go to the end of the slot; unpacking and expanding move them to its front.
        let samples = layout.pixels() as usize * header.samples;
        let start = slot.len() - samples * layout.depth.bytes();
        let stored = &mut slot[start..];
        check_size(&mut decoder, header)?;
        if header.planar {
            read_planes(&mut decoder, header, stored)?;
        } else {
            let packed = stored.len() - header.row_bytes(layout.width) * layout.height as usize;
            decoder.read_image_bytes(&mut stored[packed..]).map_err(decode_error)?;
            if header.is_packed() {
                unpack(stored, packed, layout.width as usize * header.samples, header.bits);
            }
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

    /// For after the tags, which the decoder has read under limits of its own. The picture's size has been checked; no chunk is larger than
    /// the file.
    fn limits(&self) -> Limits {
        let mut limits = Limits::unlimited();
        limits.intermediate_buffer_size = usize::try_from(self.file.file_bytes()).unwrap_or(usize::MAX);
        limits
    }
}

/// Refuses a file that the decoder reads differently, because a tag is there twice, say: it would not fill the slot, and what was
/// there before would show.
fn check_size(decoder: &mut Decoder<Reader<'_>>, header: &Header) -> Result<(), CodecError> {
    let found = decoder.image_buffer_layout().map_err(decode_error)?;
    let row = header.row_bytes(header.layout.width) / if header.planar { header.samples } else { 1 };
    let height = header.layout.height as usize;
    let is_as_said = found.len == row * height && found.row_stride.is_some_and(|stride| stride.get() == row);
    if is_as_said { Ok(()) } else { Err(malformed("its tags contradict each other")) }
}

/// Reads planes, chunk by chunk, and interleaves them. Their samples are 8 or 16 bits.
fn read_planes(
    decoder: &mut Decoder<Reader<'_>>,
    header: &Header,
    slot: &mut [u8],
) -> Result<(), CodecError> {
    let layout = &header.layout;
    let (width, height) = (layout.width as usize, layout.height as usize);
    let (chunk_width, chunk_height) = decoder.chunk_dimensions();
    let across = width.div_ceil(chunk_width as usize);
    let per_plane = across * height.div_ceil(chunk_height as usize);
    let bytes = layout.depth.bytes();
    let mut buffer = Vec::new();
    for chunk in 0..per_plane * header.samples {
        let (plane, place) = (chunk / per_plane, chunk % per_plane);
        let (left, top) = (place % across * chunk_width as usize, place / across * chunk_height as usize);
        let chunk = u32::try_from(chunk).map_err(|_| malformed("it has too many strips"))?;
        // A tile at the edge may be delivered whole or cut to the picture.
        let (columns, rows) = decoder.chunk_data_dimensions(chunk);
        let (columns, length) = (columns as usize, columns as usize * rows as usize * bytes);
        buffer.clear();
        buffer.try_reserve(length).map_err(|_| CodecError::OutOfMemory { bytes: Some(length as u64) })?;
        buffer.resize(length, 0);
        decoder.read_chunk_bytes(chunk, &mut buffer).map_err(decode_error)?;
        for (row, samples) in buffer.chunks_exact(columns * bytes).enumerate().take(height - top) {
            let first = ((top + row) * width + left) * header.samples + plane;
            let targets = slot[first * bytes..].chunks_mut(header.samples * bytes).take(width - left);
            for (target, sample) in targets.zip(samples.chunks_exact(bytes)) {
                target[..bytes].copy_from_slice(sample);
            }
        }
    }
    Ok(())
}

fn decode_error(error: TiffError) -> CodecError {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            malformed("it is cut short")
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
