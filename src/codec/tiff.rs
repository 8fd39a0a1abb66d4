//! TIFF and BigTIFF, decoded by the `tiff` crate.
//!
//! Read: unsigned samples of 1 to 16 bits; gray (either way round), RGB and palettes, with or without alpha; strips, tiles and planes;
//! stored, LZW, deflate, PackBits, JPEG and CCITT group 4. Depths below 8 become 8, those between 8 and 16 become 16, palettes become
//! RGB, premultiplied alpha is divided out. Written: one picture in strips, compressed as the source or, where its compression does not
//! suit (JPEG, group 4), without loss. Every tag that does not describe the storage of the pixels is kept. Files of several pages are
//! refused.

use std::io::Cursor;

use ::tiff::TiffError;
use ::tiff::decoder::{Decoder, Limits};

use super::samples::unpack;
use super::{CodecError, Format, Native as AnyNative, Payload, ifd};
use crate::picture::Layout;

mod colours;
mod header;
mod tags;
mod write;

use header::Header;
pub(super) use write::encode;

/// What is remembered of a TIFF for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    compression: write::Compression,
    /// What the fourth (or second) channel is, by the tag ExtraSamples; 2 is alpha that was not multiplied in.
    extra_sample: u16,
    big: bool,
    kept: ifd::Directory,
}

/// An opened TIFF.
#[derive(Debug)]
pub(super) struct Source<'a> {
    bytes: &'a [u8],
    header: Header,
    directory: ifd::Directory,
}

impl<'a> Source<'a> {
    /// Reads the structure of a whole file; decodes nothing. Its tags are modified in `bytes`, see [`Header::disguise`].
    pub(super) fn open(bytes: &'a mut [u8]) -> Result<Self, CodecError> {
        let (form, offset) = ifd::header(bytes).ok_or_else(|| malformed("its header is cut short"))?;
        let (directory, next) =
            ifd::read(bytes, form, offset).ok_or_else(|| malformed("its directory lies outside the file"))?;
        header::refuse_further_pictures(bytes, form, &directory, next)?;
        let header = Header::new(&directory, form)?;
        for (tag, value) in header.disguise(&directory) {
            ifd::overwrite(bytes, form, offset, tag, value);
        }
        Ok(Self { bytes, header, directory })
    }

    pub(super) fn layout(&self) -> Layout {
        self.header.layout
    }

    /// Planes pass through a buffer of one strip or tile, which may be a whole plane.
    pub(super) fn heap_bytes(&self) -> u64 {
        if self.header.planar { self.header.layout.bytes() / self.header.samples as u64 } else { 0 }
    }

    /// Decodes into `slot`, which is as long as the pixels.
    pub(super) fn decode(self, slot: &mut [u8]) -> Result<Payload, CodecError> {
        let header = &self.header;
        let layout = header.layout;
        let mut decoder =
            Decoder::new(Cursor::new(self.bytes)).map_err(decode_error)?.with_limits(self.limits());
        // The samples as they are stored go to the end of the slot; unpacking and expanding move them to its front.
        let samples = layout.pixels() as usize * header.samples;
        let start = slot.len() - samples * layout.depth.bytes();
        let stored = &mut slot[start..];
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
                kept: tags::kept(&self.directory),
            })),
        })
    }

    /// The picture's size has been checked, and no value or chunk is larger than the file.
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.decoding_buffer_size = usize::try_from(self.header.layout.bytes()).unwrap_or(usize::MAX);
        limits.ifd_value_size = self.bytes.len();
        limits.intermediate_buffer_size = self.bytes.len();
        limits
    }
}

/// Reads planes, chunk by chunk, and interleaves them. Their samples are 8 or 16 bits.
fn read_planes(
    decoder: &mut Decoder<Cursor<&[u8]>>,
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
        buffer.try_reserve(length).map_err(|_| CodecError::OutOfMemory { bytes: length as u64 })?;
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
        TiffError::IoError(error) => malformed(error.to_string()),
        TiffError::UnsupportedError(what) => CodecError::unsupported(
            format!("this kind of TIFF ({what})"),
            "convert it to an uncompressed gray or RGB TIFF first",
        ),
        TiffError::LimitsExceeded => malformed("a strip or a tag is larger than the picture or the file"),
        other => malformed(other.to_string()),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Tiff, reason)
}
