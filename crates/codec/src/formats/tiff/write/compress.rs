//! Compression of the strips or tiles of a picture, with the help of idle cores or a device.

use std::mem;

use crate::CodecError;
use crate::coding::streams::Help;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::strips::{Put, Raster, STRIP, Strip, Strips};
use crate::formats::tiff::write::deflated;
use crate::formats::tiff::write::press::Press;
use crate::io::cores::Cores;

/// The longest shared strip: with longer ones, helpers would take memory that is not accounted for.
const MAX_SHARED: usize = 2 * STRIP;

/// Compresses strips and writes them with `put`, which returns the offset of each.
pub(crate) fn write_strips<'s>(
    raster: &Raster,
    pieces: impl ExactSizeIterator<Item = Strip<'s>>,
    compression: Compression,
    help: Help<'_>,
    put: &mut Put<'_>,
) -> Result<Strips, CodecError> {
    let nobody = Cores::none();
    let cores = if raster.rows() * raster.part_row() > MAX_SHARED { &nobody } else { help.cores };
    let pieces: Vec<Strip<'s>> = pieces.collect();
    if let Some(coder) = help.coder.filter(|_| compression == Compression::Deflate)
        && let Some(strips) = deflated::write(raster, &pieces, Help { cores, coder: Some(coder) }, put)?
    {
        return Ok(strips);
    }
    let mut strips = Strips::none(raster);
    cores.in_order(
        pieces.into_iter(),
        || (Press::new(raster, compression), Ok(())),
        |(press, outcome), strip| *outcome = press.press(strip),
        |(press, outcome)| {
            mem::replace(outcome, Ok(()))?;
            let bytes = press.written();
            strips.add(put(bytes)?, bytes.len() as u64);
            Ok::<_, CodecError>(())
        },
    )?;
    Ok(strips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tiff::compression::predictor;
    use crate::samples::tests::noise;
    use equalize::{Depth, Layout, Pixel};
    use std::io::{Read, Seek, Write};

    /// Returns the strips as written by `threads` threads, and their places.
    fn strips(raster: &Raster, pixels: &[u8], compression: Compression, threads: usize) -> (Vec<u8>, Strips) {
        let (cores, mut file) = (Cores::new(threads), tempfile::tempfile().unwrap());
        let _own = cores.work();
        let pieces = pixels.chunks(raster.rows() * raster.row()).map(Strip::Ready);
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            file.write_all(bytes)?;
            at += bytes.len() as u64;
            Ok(at - bytes.len() as u64)
        };
        let strips = write_strips(raster, pieces, compression, (&cores).into(), &mut put).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        (bytes, strips)
    }

    /// Decompresses a strip with another implementation.
    fn decompressed(strip: &[u8], compression: Compression) -> Vec<u8> {
        if compression == Compression::Lzw {
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            return decoder.decode(strip).unwrap();
        }
        let mut back = Vec::new();
        flate2::read::ZlibDecoder::new(strip).read_to_end(&mut back).unwrap();
        back
    }

    #[test]
    fn any_number_of_threads_writes_the_same_strips_and_they_come_back() {
        let sized = |width, height, pixel, depth| Layout { width, height, pixel, depth };
        for (layout, count) in [
            (sized(1, 1, Pixel::Gray, Depth::Eight), 1),
            (sized(1000, 300, Pixel::Rgb, Depth::Eight), 4),
            (sized(300, 300, Pixel::Rgba, Depth::Sixteen), 3),
            // Rows longer than a strip, and longer than the longest shared strip.
            (sized(263_000, 2, Pixel::Gray, Depth::Eight), 2),
            (sized(263_000, 2, Pixel::Gray, Depth::Sixteen), 2),
        ] {
            let mut pixels = noise(layout.bytes() as usize, 1);
            // Strips of both kinds.
            let repeated = pixels.len() / 2;
            pixels[repeated..].iter_mut().for_each(|byte| *byte = *byte / 128 * 255);
            let raster = Raster::of_levels(&layout, 0);
            let row = raster.row();
            for compression in [Compression::Lzw, Compression::Deflate] {
                let (alone, places) = strips(&raster, &pixels, compression, 1);
                assert_eq!((places.offsets.len(), places.end), (count, alone.len() as u64), "{layout:?}");
                let expected = pixels.chunks(places.rows as usize * row);
                for ((&at, &length), strip) in places.offsets.iter().zip(&places.lengths).zip(expected) {
                    let back = decompressed(&alone[at as usize..][..length as usize], compression);
                    let mut differences = Vec::new();
                    predictor::apply(strip, row, raster.channels(), raster.bytes, &mut differences);
                    assert!(back == differences, "{layout:?} by {compression:?}");
                }
                let (together, _) = strips(&raster, &pixels, compression, 4);
                assert!(together == alone, "{layout:?} by {compression:?} on four threads");
            }
        }
    }
}
