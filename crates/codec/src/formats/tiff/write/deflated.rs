//! Strips and tiles that a device deflates, all of a picture at once.
//!
//! The device does not look for matches: strips that get much shorter with them are left to the
//! CPU.

use crate::CodecError;
use crate::coding::deflate::literal_bytes;
use crate::coding::streams::{CodedStreams, Help, Streams, ZLIB_HEADER, ZLIB_TRAILER, inflate, with_zlib};
use crate::formats::tiff::compression::deflate::{Encoder, HEADER, adler32};
use crate::formats::tiff::compression::inflated::FEWEST;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::strips::{Put, Raster, Strip, Strips};
use crate::formats::tiff::write::press::Press;
use crate::io::output::Output;

/// The longest strip or tile that a device deflates.
const LONGEST: usize = 16 << 20;

/// The number of strips that the CPU compresses in part to find whether matches are worth it.
///
/// [`SAMPLE`] is the length of that part.
const TRIED: usize = 2;
const SAMPLE: usize = 64 << 10;

/// The divisor of a nearly flat strip's length.
///
/// The device makes such strips shorter than this part, and matches, which are then quick to find,
/// much shorter.
const FLAT: usize = 5;

/// Has a device deflate strips, and writes them with `put`.
///
/// Returns their places; `None` if the CPU has to do it.
///
/// # Errors
/// If a strip cannot be made or written.
pub(crate) fn write(
    raster: &Raster,
    pieces: &[Strip<'_>],
    help: Help<'_>,
    put: &mut Put<'_>,
) -> Result<Option<Strips>, CodecError> {
    let most = raster.rows() * raster.part_row();
    if pieces.len() < FEWEST || most > LONGEST || pays_to_match(raster, pieces)? {
        return Ok(None);
    }
    let Some((streams, mut memory, checksums)) = deflate(raster, pieces, most, help) else { return Ok(None) };
    let lengths = streams.lengths(&memory);
    let (Some(places), false) = (streams.places_within(&lengths, memory.len()), lengths.contains(&0)) else {
        return Ok(None);
    };
    for (place, checksum) in places.iter().zip(checksums) {
        memory[place.start - ZLIB_HEADER..place.start].copy_from_slice(&HEADER);
        memory[place.end..place.end + ZLIB_TRAILER].copy_from_slice(&checksum.to_be_bytes());
    }
    // A device that makes wrong streams is not likely to make a right one among them.
    let mut data = vec![0; most + 1];
    if inflate(&memory[with_zlib(&places[places.len() / 2])], &mut data).is_none() {
        return Ok(None);
    }
    let (mut strips, mut press) = (Strips::none(raster), Press::new(raster, Compression::Deflate));
    for (place, piece) in places.iter().zip(pieces) {
        let bytes = if place.len() * FLAT < most {
            press.press(*piece)?;
            press.written()
        } else {
            &memory[with_zlib(place)]
        };
        strips.add(put(bytes)?, bytes.len() as u64);
    }
    Ok(Some(strips))
}

/// Returns whether some of the strips get more than an eighth longer without matches.
fn pays_to_match(raster: &Raster, pieces: &[Strip<'_>]) -> Result<bool, CodecError> {
    let (mut press, mut encoder) = (Press::new(raster, Compression::Deflate), Encoder::new());
    let (mut out, mut with, mut without) = (Output::default(), 0, 0);
    for number in 1..=TRIED {
        press.predict(pieces[number * pieces.len() / (TRIED + 1)])?;
        let sample = press.predicted().get(..SAMPLE).unwrap_or(press.predicted());
        encoder.encode(sample, &mut out);
        with += out.bytes().len() as u64;
        without += literal_bytes(sample);
    }
    Ok(without > with + with / 8)
}

/// Has a device deflate strips; returns the streams with the checksums of their data.
fn deflate<'h>(
    raster: &Raster,
    pieces: &[Strip<'_>],
    most: usize,
    help: Help<'h>,
) -> Option<(Streams, CodedStreams<'h>, Vec<u32>)> {
    let streams = Streams::deflate(pieces.len() as u32, most as u32);
    let (mut lengths, mut checksums) = (Vec::new(), Vec::new());
    let memory = help.coder?.code(&streams, &mut |memory| {
        lengths.clear();
        checksums.clear();
        let filled = help.cores.in_order(
            pieces.iter(),
            || (Press::new(raster, Compression::Deflate), 0, Ok(())),
            |(press, checksum, outcome), strip| {
                *outcome = press.predict(*strip);
                *checksum = adler32(press.predicted());
            },
            |(press, checksum, outcome)| {
                std::mem::replace(outcome, Ok(()))?;
                let data = press.predicted();
                memory[streams.data(lengths.len(), data.len() as u32)].copy_from_slice(data);
                lengths.push(data.len() as u32);
                checksums.push(*checksum);
                Ok::<_, CodecError>(())
            },
        );
        streams.set_lengths(memory, &lengths);
        // The CPU reports the error of a strip that cannot be made.
        filled.is_ok()
    })?;
    Some((streams, memory, checksums))
}
