//! Writing a picture that is in memory as a whole.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use crate::coding::streams::Help;
use crate::formats::tiff::Native;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::strips::{Put, Strips};
use crate::formats::tiff::write::directories::{self, HEADER, PixelsAt};
use crate::formats::tiff::write::{Samples, overviews};
use crate::{CodecError, Decoded, Format};

/// The most bytes of pixels with which the offsets never need 64 bits.
///
/// Deflate never adds a sixteenth; LZW, with codes of up to 12 bits for a byte, may add half.
const MAX_SMALL: u64 = 0xf000_0000;
const MAX_SMALL_LZW: u64 = 0xa000_0000;

/// The header of a TIFF that is no BigTIFF.
const SMALL_HEADER: u64 = 8;

/// Writes the pixels of `slot`, with the help of idle cores or a device.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    help: Help<'_>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let samples = Samples::new(decoded, slot);
    let was_big = decoded.native_of::<Native>().is_some_and(|native| native.big);
    let pyramid = samples.pyramid();
    let mut compressions = pyramid.overviews.iter().map(|overview| overview.compression);
    let has_lzw = samples.compression() == Compression::Lzw || compressions.any(|of| of == Compression::Lzw);
    let max_small = if has_lzw { MAX_SMALL_LZW } else { MAX_SMALL };
    let all_bytes = samples.raster().all_bytes().saturating_add(pyramid.all_bytes(samples.raster()));
    // A small header has no room for a large one, should the directories need that.
    let all_bytes = all_bytes.saturating_add(pyramid.bytes_of_masks());
    let all_bytes = all_bytes.saturating_add(decoded.metadata_bytes().encoded(Format::Tiff));
    let big = was_big || all_bytes > max_small;
    let start = out.stream_position()?;
    let room = pyramid.room.map(|room| room.next_multiple_of(16));
    let first = room.map_or(if big { HEADER } else { SMALL_HEADER }, |room| HEADER + room);
    out.seek(SeekFrom::Start(start + first))?;
    let mut end = first;
    let mut put = |bytes: &[u8]| {
        out.write_all(bytes)?;
        end += bytes.len() as u64;
        Ok(end - bytes.len() as u64)
    };
    let (strips, overviews, masks) = if room.is_some() {
        let masks = pyramid.write_masks(&mut put)?;
        let overviews = write_overviews_first(&samples, help, &mut put)?;
        (samples.write(help, &mut put)?, overviews, masks)
    } else {
        let strips = samples.write(help, &mut put)?;
        let overviews = overviews::make(pyramid, &samples, help, &mut put)?;
        (strips, overviews, pyramid.write_masks(&mut put)?)
    };
    let pages = [samples.written(decoded, strips).with_masks(masks).with_overviews(overviews)];
    let pixels = PixelsAt { room: room.unwrap_or(0), end, joined: false };
    let length = directories::finish(pages.iter().map(Cow::Borrowed), &pixels, big, out, start)?;
    out.seek(SeekFrom::End(0))?;
    Ok(length)
}

/// Writes the overviews of a picture, the smallest first.
///
/// They are kept in memory until all are made. Returns the places of their strips or tiles.
fn write_overviews_first(
    samples: &Samples<'_>,
    help: Help<'_>,
    put: &mut Put<'_>,
) -> Result<Vec<Strips>, CodecError> {
    let mut made: Vec<u8> = Vec::new();
    let mut overviews = overviews::make(samples.pyramid(), samples, help, &mut |bytes| {
        made.extend_from_slice(bytes);
        Ok((made.len() - bytes.len()) as u64)
    })?;
    for number in samples.pyramid().by_size().into_iter().rev() {
        overviews[number].put_again(|from, length| put(&made[from as usize..][..length as usize]))?;
    }
    Ok(overviews)
}
