//! The frames of an animated WebP (RFC 9649, sections 2.7.1.1 and 2.7.1.2).

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use image_webp::{ColorType, WebPEncoder};

use super::{Chunk, chunks, encode_error, malformed};
use crate::animation::{self, Animation, Delay};
use crate::{CodecError, Decoded, Format};

/// Bytes of a frame's header, before its own chunks.
const HEADER: usize = 16;

/// Returns how long each frame is shown.
///
/// # Errors
/// If there is none, or if one claims other sides within than without: memory would be allocated for what is within.
pub(super) fn delays(bytes: &[u8]) -> Result<Vec<Delay>, CodecError> {
    let of_frame = |frame: Chunk<'_>| {
        let content = frame.behind.get(..frame.length).ok_or_else(|| malformed("it is truncated"))?;
        let (header, inside) =
            content.split_at_checked(HEADER).ok_or_else(|| malformed("a frame's header is too short"))?;
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]);
        let sides = (number(6) + 1, number(9) + 1);
        if inner_sides(inside).is_some_and(|inner| inner != sides) {
            return Err(malformed("a frame has other sides within than without"));
        }
        Ok(Delay::of_milliseconds(number(12)))
    };
    let frames = chunks(bytes).filter(|chunk| chunk.kind == *b"ANMF").map(of_frame);
    let delays: Vec<_> = frames.collect::<Result<_, _>>()?;
    if delays.is_empty() { Err(malformed("it has no frames")) } else { Ok(delays) }
}

/// Returns the sides of the picture in a frame, lossy or lossless.
fn inner_sides(mut inside: &[u8]) -> Option<(u32, u32)> {
    loop {
        let (kind, rest) = inside.split_first_chunk::<4>()?;
        let (length, content) = rest.split_first_chunk::<4>()?;
        match kind {
            b"VP8 " => {
                let &[_, _, _, _, _, _, w0, w1, h0, h1] = content.first_chunk()?;
                let side = |bytes| u32::from(u16::from_le_bytes(bytes) & 0x3fff);
                return Some((side([w0, w1]), side([h0, h1])));
            }
            b"VP8L" => {
                // A mark, then 14 bits each of width and height, less one.
                let &[_, a, b, c, d] = content.first_chunk()?;
                let bits = u32::from_le_bytes([a, b, c, d]);
                return Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1));
            }
            _ => inside = content.get((u32::from_le_bytes(*length) as usize).next_multiple_of(2)..)?,
        }
    }
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
    const ALPHA: u8 = 0x10;
    const EXIF: u8 = 0x08;
    const XMP: u8 = 0x04;
    const ANIMATED: u8 = 0x02;
    let frame = animation::frame_of(&decoded.layout, animation.frames());
    let sides = [frame.width, frame.height].map(|side| short(side - 1)).concat();
    let icc = decoded.metadata.icc_in(Format::WebP, frame.pixel);
    let (exif, xmp) = (decoded.metadata.exif.as_deref(), decoded.metadata.xmp.as_deref());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = ANIMATED
        | flag(frame.pixel.has_alpha(), ALPHA)
        | flag(icc.is_some(), ICC)
        | flag(exif.is_some(), EXIF)
        | flag(xmp.is_some(), XMP);
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
        let picture = chunks(scratch).find(|chunk| chunk.kind == *b"VP8L");
        let picture = picture.ok_or_else(|| CodecError::encoder(Format::WebP, "a frame has no picture"))?;
        let content = &picture.behind[..picture.length];
        let length = (picture.length as u32).to_le_bytes();
        // It replaces what is there, and stays.
        const REPLACES: u8 = 0x02;
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

fn write_chunk(out: &mut File, kind: &[u8; 4], parts: &[&[u8]]) -> Result<(), CodecError> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.write_all(kind)?;
    out.write_all(&(length as u32).to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))?;
    Ok(out.write_all(&[0][..length % 2])?)
}
