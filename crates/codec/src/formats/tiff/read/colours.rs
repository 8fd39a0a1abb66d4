//! Converts a TIFF's samples to the pixels of a layout, in place.

use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::samples::Colours;
use crate::formats::tiff::{CodecError, malformed, tags};
use crate::metadata::ifd::{Directory, Value};
use crate::samples::alpha::{Shape, divide_alpha_out, divide_out};
use crate::samples::inks;
use crate::samples::mapped::Alpha;
use equalize::{Depth, Layout};

/// Replaces indices, inks and the like in the samples from `start` on with red, green and blue.
///
/// The samples have been scaled to the full range. The samples after the colours stay after them.
pub(crate) fn make(
    slot: &mut [u8],
    start: usize,
    header: &Header,
    directory: &Directory,
) -> Result<(), CodecError> {
    let (depth, bits) = (header.layout.depth, header.bits);
    match (header.colours, depth) {
        (Colours::Direct | Colours::WhiteIsZero | Colours::YCbCr, _) => {}
        (Colours::Palette, Depth::Eight) => {
            let colours =
                palette(directory, bits)?.into_iter().map(|colour| colour.map(|level| [level as u8]));
            look_up(slot, start, header.samples, &colours.collect::<Vec<_>>(), bits);
        }
        (Colours::Palette, Depth::Sixteen) => {
            let colours = palette(directory, bits)?.into_iter().map(|colour| colour.map(u16::to_ne_bytes));
            look_up(slot, start, header.samples, &colours.collect::<Vec<_>>(), bits);
        }
        (Colours::Cmyk, _) => {
            let (samples, behind) = (&mut slot[start..], header.samples - inks::INKS);
            if header.alpha == Some(Alpha::Premultiplied) {
                // Alpha multiplied the inks, not the colours that they make.
                let alpha = inks::INKS + header.before_alpha;
                divide_out(samples, depth, Shape { samples: header.samples, colours: inks::INKS, alpha });
            }
            inks::to_rgb(directory.bytes(tags::ICC), samples, depth, behind, false);
        }
    }
    Ok(())
}

/// Converts samples that lie as the pixels of the header's layout do to such pixels.
pub(crate) fn convert(slot: &mut [u8], header: &Header, directory: &Directory) -> Result<(), CodecError> {
    match header.colours {
        Colours::Direct | Colours::WhiteIsZero | Colours::Palette | Colours::Cmyk => {}
        Colours::YCbCr => to_rgb(slot, &header.layout, &Conversion::read(directory)?),
    }
    if header.alpha == Some(Alpha::Premultiplied) && header.colours != Colours::Cmyk {
        divide_alpha_out(slot, &header.layout);
    }
    Ok(())
}

/// The conversion of brightness and two differences to red, green and blue (TIFF 6.0, section 21).
struct Conversion {
    /// The shares of red, green and blue in the brightness.
    shares: [f64; 3],
    /// The codes of black and white brightness, and the same for either difference.
    codes: [f64; 6],
}

impl Conversion {
    fn read(directory: &Directory) -> Result<Self, CodecError> {
        let shares = fractions_or(directory, tags::YCBCR_COEFFICIENTS, [0.299, 0.587, 0.114]);
        let usual = [0.0, 255.0, 128.0, 255.0, 128.0, 255.0];
        let codes = fractions_or(directory, tags::REFERENCE_BLACK_WHITE, usual);
        let conversion = Self { shares, codes };
        let has_spans = conversion.codes.as_chunks::<2>().0.iter().all(|[black, white]| white > black);
        let is_sound = has_spans && conversion.shares.iter().all(|share| (0.0..=1.0).contains(share));
        if is_sound && conversion.shares[1] > 0.0 {
            Ok(conversion)
        } else {
            Err(malformed("its YCbCr coefficients or reference levels make no sense"))
        }
    }

    fn rgb(&self, ycbcr: [u8; 3]) -> [u8; 3] {
        let [red, green, blue] = self.shares;
        let [y, cb, cr] = [0, 1, 2].map(|at| {
            let (black, white) = (self.codes[2 * at], self.codes[2 * at + 1]);
            let whole = if at == 0 { 255.0 } else { 127.0 };
            (f64::from(ycbcr[at]) - black) * whole / (white - black)
        });
        let r = y + cr * (2.0 - 2.0 * red);
        let b = y + cb * (2.0 - 2.0 * blue);
        let g = (y - blue * b - red * r) / green;
        [r, g, b].map(|level| (level + 0.5).clamp(0.0, 255.0) as u8)
    }
}

fn to_rgb(slot: &mut [u8], layout: &Layout, conversion: &Conversion) {
    for pixel in slot.chunks_exact_mut(layout.pixel_bytes()) {
        if let Some(colours) = pixel.first_chunk_mut::<3>() {
            *colours = conversion.rgb(*colours);
        }
    }
}

/// The most levels in a palette: those for 16-bit indices.
const MAX_LEVELS: usize = 3 << 16;

/// Returns the first fractions of a tag, or the usual ones if it has fewer.
fn fractions_or<const N: usize>(directory: &Directory, tag: u16, usual: [f64; N]) -> [f64; N] {
    tags::fractions(directory, tag).and_then(|found| found.first_chunk().copied()).unwrap_or(usual)
}

/// Reads the colours of the tag ColorMap, with 8 bits for indices of 8 bits or less, else with 16.
///
/// A third of the tag's values each are red, green and blue. In the file they have 16 bits, but
/// some writers put 8-bit values there, and some more colours than there are indices.
fn palette(directory: &Directory, bits: u32) -> Result<Vec<[u16; 3]>, CodecError> {
    let count = 1 << bits;
    let map =
        directory.numbers(tags::COLOUR_MAP).filter(|map| (3 * count..=MAX_LEVELS).contains(&map.count()));
    let map: Vec<u64> = map
        .map(|map| map.iter().collect())
        .ok_or_else(|| malformed("its palette is missing or has the wrong length"))?;
    let is_narrow = map.iter().all(|&level| level < 256);
    let third = map.len() / 3;
    let colours = (0..count).map(|i| {
        [i, third + i, 2 * third + i].map(|at| match (bits > 8, is_narrow) {
            (false, false) => (map[at] >> 8) as u16,
            (true, true) => map[at] as u16 * 257,
            (false, true) | (true, false) => map[at] as u16,
        })
    });
    Ok(colours.collect())
}

/// Reduces the palette of 16-bit levels, if there is one, to that of the same levels of 8 bits.
pub(crate) fn reduce_palette(directory: &mut Directory) {
    const STEP: usize = 257;
    let levels = Depth::Sixteen.levels();
    let Some(map) = directory.numbers(tags::COLOUR_MAP).filter(|map| map.count() == 3 * levels) else {
        return;
    };
    let map: Vec<u16> = map.iter().map(|value| value as u16).collect();
    let reduced: Vec<u16> =
        map.chunks_exact(levels).flat_map(|of| of.iter().step_by(STEP).copied()).collect();
    directory.set(tags::COLOUR_MAP, Value::shorts(&reduced));
}

/// Replaces the indices from `start` on with colours at the front.
///
/// Pixels have `samples` samples of `BYTES` bytes; the samples after the index stay after the
/// colours. A colour never overwrites an index that is still to be read: a pixel takes two samples
/// more than before, and before all of them lay two samples a pixel further on.
fn look_up<const BYTES: usize>(
    slot: &mut [u8],
    start: usize,
    samples: usize,
    palette: &[[[u8; BYTES]; 3]],
    bits: u32,
) {
    let (most, all) = ((1usize << bits) - 1, (1usize << (8 * BYTES)) - 1);
    let (before, behind) = (samples * BYTES, (samples - 1) * BYTES);
    let after = before + 2 * BYTES;
    for i in 0..(slot.len() - start) / before {
        let (read, write) = (start + i * before, i * after);
        // Indices have been scaled to the full range like any sample; this is the exact inverse.
        let scaled = match slot[read..][..BYTES] {
            [low] => usize::from(low),
            [first, second, ..] => usize::from(u16::from_ne_bytes([first, second])),
            [] => 0,
        };
        let index = (scaled * most + all / 2) / all;
        slot.copy_within(read + BYTES..read + before, write + 3 * BYTES);
        slot[write..][..3 * BYTES].copy_from_slice(palette[index].as_flattened());
        debug_assert!(write + 3 * BYTES + behind <= read + before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::rescale;

    #[test]
    fn every_index_of_every_depth_finds_its_colour() {
        for bits in 1..=16 {
            let most = (1u32 << bits) - 1;
            if bits <= 8 {
                let palette: Vec<[[u8; 1]; 3]> = (0..=most).map(|index| [[index as u8], [7], [9]]).collect();
                let mut slot = vec![0; 2 * palette.len()];
                slot.extend((0..=most).map(|index| rescale(index, most, 255) as u8));
                look_up(&mut slot, 2 * palette.len(), 1, &palette, bits);
                assert_eq!(slot, palette.as_flattened().concat(), "{bits} bits");
            } else {
                let colour = |index: u32| [index as u16, 7, 9].map(u16::to_ne_bytes);
                let palette: Vec<_> = (0..=most).map(colour).collect();
                let mut slot = vec![0; 4 * palette.len()];
                let indices =
                    (0..=most).flat_map(|index| (rescale(index, most, 65_535) as u16).to_ne_bytes());
                slot.extend(indices);
                look_up(&mut slot, 4 * palette.len(), 1, &palette, bits);
                assert_eq!(slot, palette.as_flattened().concat(), "{bits} bits");
            }
        }
    }

    #[test]
    fn a_palette_of_16_bits_becomes_one_of_8() {
        let mut directory = Directory::default();
        let map: Vec<u16> = (0..3 << 16).map(|at: u32| at as u16 / (1 + (at >> 16) as u16)).collect();
        directory.set(tags::COLOUR_MAP, Value::shorts(&map));
        reduce_palette(&mut directory);
        let reduced: Vec<u64> = directory.numbers(tags::COLOUR_MAP).unwrap().iter().collect();
        assert_eq!((reduced.len(), reduced[1], reduced[255], reduced[256 + 255]), (768, 257, 65_535, 32_767));
        let before = directory.clone();
        reduce_palette(&mut directory);
        assert_eq!(directory, before);
    }

    #[test]
    fn what_is_behind_an_index_stays_behind_its_colour() {
        let palette = [[[1], [2], [3]], [[4], [5], [6]]];
        let mut slot = vec![0; 6];
        slot.extend([255, 70, 71, 0, 80, 81, 255, 90, 91]);
        look_up(&mut slot, 6, 3, &palette, 1);
        assert_eq!(slot, [4, 5, 6, 70, 71, 1, 2, 3, 80, 81, 4, 5, 6, 90, 91]);
    }
}
