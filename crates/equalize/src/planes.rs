//! Interleaved colour to planes and back, to process every channel separately.
//!
//! A plane is a gray picture. If the picture has alpha, each plane comes with a copy of it, because
//! invisible pixels are not counted in any channel.

use super::Sample;
use super::colour::{self, Plane};
use super::histogram::{BLOCK, Counted, Tally, add_plane};
use super::simd;
use crate::{Layout, Pixel};

/// The number of planes of a colour picture.
pub const PLANES: usize = 3;

/// Returns the layout of one plane of a picture; `None` for a picture without colour.
pub const fn layout(picture: &Layout) -> Option<Layout> {
    let pixel = match picture.pixel {
        Pixel::Gray | Pixel::GrayAlpha => return None,
        Pixel::Rgb => Pixel::Gray,
        Pixel::Rgba => Pixel::GrayAlpha,
    };
    Some(Layout { pixel, ..*picture })
}

/// Splits the RGB or RGBA pixels of a picture into planes, and adds their luma to `luma`, if given.
pub fn separate<S: Sample>(
    samples: &[S],
    pixel: Pixel,
    planes: [&mut [S]; PLANES],
    mut luma: Option<&mut Tally>,
) {
    let [red, green, blue] = planes.map(|plane| plane.chunks_mut(BLOCK * plane_channels(pixel)));
    let blocks = samples.chunks(BLOCK * pixel.channels());
    for (((block, red), green), blue) in blocks.zip(red).zip(green).zip(blue) {
        for (channel, plane) in [red, green, blue].into_iter().enumerate() {
            match pixel.has_alpha() {
                true => simd::vectorized!(read_with_alpha(block, channel, plane)),
                false => colour::read(block, pixel, Plane::Channel(channel), plane),
            }
        }
        count_luma(block, pixel, luma.as_deref_mut());
    }
}

/// Writes the colours of planes back into the pixels of the picture they came from.
///
/// Adds the new luma to `luma`, if given.
pub fn merge<S: Sample>(
    planes: [&[S]; PLANES],
    pixel: Pixel,
    samples: &mut [S],
    mut luma: Option<&mut Tally>,
) {
    let [red, green, blue] = planes.map(|plane| plane.chunks(BLOCK * plane_channels(pixel)));
    let blocks = samples.chunks_mut(BLOCK * pixel.channels());
    for (((block, red), green), blue) in blocks.zip(red).zip(green).zip(blue) {
        match pixel.has_alpha() {
            true => simd::vectorized!(write_with_alpha(block, [red, green, blue])),
            false => simd::vectorized!(interleave(block, [red, green, blue])),
        }
        count_luma(block, pixel, luma.as_deref_mut());
    }
}

/// Returns the number of samples per pixel of a plane, including its copy of alpha.
pub const fn plane_channels(pixel: Pixel) -> usize {
    if pixel.has_alpha() { 2 } else { 1 }
}

fn count_luma<S: Sample>(block: &[S], pixel: Pixel, tally: Option<&mut Tally>) {
    if let Some(tally) = tally {
        add_plane(block, 0, pixel, Plane::Luma, Counted::Visible, tally);
    }
}

#[inline(always)]
fn read_with_alpha<S: Sample>(block: &[S], channel: usize, plane: &mut [S]) {
    for (to, from) in plane.as_chunks_mut::<2>().0.iter_mut().zip(block.as_chunks::<4>().0) {
        *to = [from[channel], from[3]];
    }
}

#[inline(always)]
fn write_with_alpha<S: Sample>(block: &mut [S], planes: [&[S]; PLANES]) {
    let [red, green, blue] = planes.map(|plane| plane.as_chunks::<2>().0);
    for (((to, red), green), blue) in block.as_chunks_mut::<4>().0.iter_mut().zip(red).zip(green).zip(blue) {
        (to[0], to[1], to[2]) = (red[0], green[0], blue[0]);
    }
}

#[inline(always)]
fn interleave<S: Sample>(block: &mut [S], planes: [&[S]; PLANES]) {
    let [red, green, blue] = planes;
    for (((to, &red), &green), &blue) in block.as_chunks_mut::<3>().0.iter_mut().zip(red).zip(green).zip(blue)
    {
        *to = [red, green, blue];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(pixel: Pixel, pixels: usize) {
        let channels = pixel.channels();
        let samples: Vec<u16> = (0..pixels * channels).map(|at| (at * 40503) as u16).collect();
        let mut planes = [(); PLANES].map(|()| vec![7; pixels * plane_channels(pixel)]);
        let mut tally = Tally::new(65536);
        separate(&samples, pixel, planes.each_mut().map(Vec::as_mut_slice), Some(&mut tally));
        for (channel, plane) in planes.iter().enumerate() {
            let of = |at: usize| match pixel {
                Pixel::Rgb => vec![samples[at * 3 + channel]],
                _ => vec![samples[at * 4 + channel], samples[at * 4 + 3]],
            };
            assert_eq!(plane, &(0..pixels).flat_map(of).collect::<Vec<_>>());
        }
        let mut merged: Vec<u16> = samples.clone();
        merged.iter_mut().enumerate().filter(|(at, _)| at % channels < 3).for_each(|(_, sample)| *sample = 9);
        let mut again = Tally::new(65536);
        merge(planes.each_ref().map(Vec::as_slice), pixel, &mut merged, Some(&mut again));
        assert_eq!(merged, samples);
        assert!(tally.counts() == again.counts() && tally.counts().iter().sum::<u64>() > 0);
    }

    #[test]
    fn planes_come_back_as_they_were() {
        for pixel in [Pixel::Rgb, Pixel::Rgba] {
            [1, 5, BLOCK, 3 * BLOCK + 77].into_iter().for_each(|pixels| there_and_back(pixel, pixels));
        }
    }
}
