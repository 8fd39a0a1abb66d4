//! CMYK pixels, which become RGB before they are equalized.
//!
//! Levels of light can be equalized, amounts of ink cannot: black comes from the fourth as well as
//! from the three others, and the share of each in a print is up to the printer's profile.

use moxcms::{
    ColorProfile, DataColorSpace, Layout as Samples, RenderingIntent, TransformExecutor, TransformOptions,
};
use std::sync::Arc;

use crate::samples::rescale;
use equalize::{Depth, Level};

/// Samples of a pixel that are inks.
pub(crate) const INKS: usize = 4;

/// Samples of a pixel once inks are colours.
const COLOURS: usize = 3;

/// Pixels that are converted at a time.
const BLOCK: usize = 256;

/// Makes CMYK pixels sRGB, and moves them together at the front of `pixels`.
///
/// Each has `behind` further samples, which stay after it. Samples are amounts of ink or, if they
/// are `inverted`, of the light that passes it. Without a profile for CMYK each ink is taken to
/// hold back one colour, and black all of them.
pub(crate) fn to_rgb(icc: Option<&[u8]>, pixels: &mut [u8], depth: Depth, behind: usize, inverted: bool) {
    let profile = icc.and_then(|icc| ColorProfile::new_from_slice(icc).ok());
    let profile = profile.filter(|profile| profile.color_space == DataColorSpace::Cmyk);
    // A layout of four samples that are not colours of light.
    let (from, to) = (Samples::Rgba, ColorProfile::new_srgb());
    // The one table that every profile of a printer has to have (ICC.1:2022, 8.5.2).
    let options =
        TransformOptions { rendering_intent: RenderingIntent::Perceptual, ..TransformOptions::default() };
    match depth {
        Depth::Eight => {
            let transform = profile
                .and_then(|profile| profile.create_transform_8bit(from, &to, Samples::Rgb, options).ok());
            convert::<u8>(transform.as_ref(), pixels, behind, inverted);
        }
        Depth::Sixteen => {
            let transform = profile
                .and_then(|profile| profile.create_transform_16bit(from, &to, Samples::Rgb, options).ok());
            convert::<u16>(transform.as_ref(), pixels, behind, inverted);
        }
    }
}

type Transform<T> = Arc<dyn TransformExecutor<T> + Send + Sync>;

fn convert<T: Level + Default>(
    transform: Option<&Transform<T>>,
    samples: &mut [u8],
    behind: usize,
    inverted: bool,
) {
    let (most, size) = (T::LEVELS as u32 - 1, size_of::<T>());
    let (from, to) = ((INKS + behind) * size, (COLOURS + behind) * size);
    let count = samples.len() / from;
    let mut inks = [T::from_level(0); INKS * BLOCK];
    let mut colours = [T::from_level(0); COLOURS * BLOCK];
    for first in (0..count).step_by(BLOCK) {
        let block = BLOCK.min(count - first);
        let (inks, colours) = (&mut inks[..INKS * block], &mut colours[..COLOURS * block]);
        for (ink, pixel) in inks.chunks_exact_mut(INKS).zip(samples[first * from..].chunks_exact(from)) {
            bytemuck::cast_slice_mut(ink).copy_from_slice(&pixel[..INKS * size]);
        }
        if inverted {
            inks.iter_mut().for_each(|ink| *ink = T::from_level(light(*ink)));
        }
        let is_done = transform.is_some_and(|transform| transform.transform(inks, colours).is_ok());
        if !is_done {
            for (ink, colour) in inks.as_chunks::<INKS>().0.iter().zip(colours.as_chunks_mut::<COLOURS>().0) {
                let left = ink.map(light::<T>);
                *colour = std::array::from_fn(|at| T::from_level(rescale(left[at], most, left[INKS - 1])));
            }
        }
        for (at, colour) in colours.chunks_exact(COLOURS).enumerate() {
            let (read, write) = ((first + at) * from, (first + at) * to);
            // The samples that are overwritten have been read: they begin no later than the pixel.
            samples.copy_within(read + INKS * size..read + from, write + COLOURS * size);
            samples[write..write + COLOURS * size].copy_from_slice(bytemuck::cast_slice(colour));
        }
    }
}

/// Returns how much light an ink lets through.
#[inline(always)]
fn light<T: Level>(ink: T) -> u32 {
    T::LEVELS as u32 - 1 - ink.level() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pixels: no ink, only black, only yellow, half of cyan with half of black.
    const PIXELS: [[u8; 4]; 4] = [[0, 0, 0, 0], [0, 0, 0, 255], [0, 0, 255, 0], [128, 0, 0, 128]];
    const COLOURS_OF_THEM: [[u8; 3]; 4] = [[255; 3], [0; 3], [255, 255, 0], [63, 127, 127]];

    #[test]
    fn inks_hold_back_light_and_what_is_behind_stays() {
        let mut pixels: Vec<u8> = PIXELS.iter().flat_map(|inks| [&inks[..], &[7, 9]].concat()).collect();
        to_rgb(None, &mut pixels, Depth::Eight, 2, false);
        let expected: Vec<u8> = COLOURS_OF_THEM.iter().flat_map(|c| [&c[..], &[7, 9]].concat()).collect();
        assert_eq!(pixels[..expected.len()], expected);
        let mut inverted = PIXELS.as_flattened().iter().map(|ink| !ink).collect::<Vec<u8>>();
        to_rgb(Some(b"no profile"), &mut inverted, Depth::Eight, 0, true);
        assert_eq!(inverted[..12], *COLOURS_OF_THEM.as_flattened());
    }

    #[test]
    fn many_pixels_of_16_bits_are_converted_too() {
        let inks = PIXELS.as_flattened().iter().map(|&ink| u16::from(ink) * 257).cycle();
        let mut pixels: Vec<u8> = inks.take(4 * 3 * BLOCK).flat_map(u16::to_ne_bytes).collect();
        to_rgb(None, &mut pixels, Depth::Sixteen, 0, false);
        for (at, pixel) in pixels.chunks_exact(6).take(3 * BLOCK).enumerate() {
            let high =
                [1, 3, 5].map(|byte| if cfg!(target_endian = "big") { pixel[byte - 1] } else { pixel[byte] });
            assert_eq!(high, COLOURS_OF_THEM[at % 4], "{at}");
        }
    }
}
