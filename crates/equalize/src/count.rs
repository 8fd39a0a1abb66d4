//! Colour histograms: the counts of every level, channel by channel.

use std::borrow::Cow;

use super::colour::Plane;
use super::executor::{Executor, Sequential, Team};
use super::histogram::{Counted, count_plane, of_plane};
use super::{Buffers, Sample, Scratch};
use crate::{Colour, Depth, Layout, Operation, Pixel};

/// Returns the planes that are counted, in the order of their counts.
///
/// These are all channels and, for colour, luma.
pub const fn planes(pixel: Pixel) -> &'static [Plane] {
    use Plane::{Channel, Luma};
    match pixel {
        Pixel::Gray => &[Channel(0)],
        Pixel::GrayAlpha => &[Channel(0), Channel(1)],
        Pixel::Rgb => &[Channel(0), Channel(1), Channel(2), Luma],
        Pixel::Rgba => &[Channel(0), Channel(1), Channel(2), Channel(3), Luma],
    }
}

/// Returns which samples of a plane are counted.
///
/// Alpha is counted whole, the other planes only in visible pixels, as for equalization.
pub fn counted(pixel: Pixel, plane: Plane) -> Counted {
    let alpha = pixel.has_alpha() && plane == Plane::Channel(pixel.channels() - 1);
    if alpha { Counted::All } else { Counted::Visible }
}

/// Returns the number of counts in a colour histogram of this layout.
///
/// It is one per level for each of its [`planes`].
pub fn length(layout: &Layout) -> usize {
    planes(layout.pixel).len() * layout.depth.levels()
}

/// Returns the counts of the equalized planes ([`Colour::to_equalize`]), in the same order.
///
/// `counts` are all counts of a picture of this layout.
///
/// # Panics
/// If the length of `counts` is not [`length`].
pub fn of_equalized<'c>(counts: &'c [u64], layout: &Layout, colour: Colour) -> Cow<'c, [u64]> {
    assert_eq!(counts.len(), length(layout), "a count a level and plane");
    let (levels, equalized) = (layout.depth.levels(), colour.to_equalize(layout.pixel));
    // The equalized planes are adjacent here too.
    let first = planes(layout.pixel).iter().position(|&plane| plane == place(equalized[0].parts()[0]));
    let counts = &counts[first.expect("all planes are counted") * levels..];
    match equalized {
        [plane] => sum_of_planes(&counts[..plane.parts().len() * levels], levels),
        several => Cow::Borrowed(&counts[..several.len() * levels]),
    }
}

/// Returns the sum of the counts of some planes, each with `levels` counts.
fn sum_of_planes(counts: &[u64], levels: usize) -> Cow<'_, [u64]> {
    let (first, others) = counts.split_at(levels);
    if others.is_empty() {
        return Cow::Borrowed(first);
    }
    let mut sums = first.to_vec();
    for counts in others.chunks_exact(levels) {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    Cow::Owned(sums)
}

/// Returns the plane of a colour histogram that stands for this plane.
///
/// Lightness takes the place of luma.
fn place(plane: Plane) -> Plane {
    if plane == Plane::Lightness { Plane::Luma } else { plane }
}

/// Counts the equalized planes of a picture.
///
/// Returns a colour histogram with the counts of luma and of the channels; all others are 0.
/// Lightness of L\*a\*b\* takes the place of luma.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], or if it holds 16-bit samples at an odd
/// address.
pub fn equalized_planes(pixels: &[u8], layout: &Layout, operation: &Operation) -> Vec<u64> {
    let mut counts = vec![0; length(layout)];
    let levels = layout.depth.levels();
    for &plane in operation.to_equalize(layout.pixel).iter().flat_map(Plane::parts) {
        let places = planes(layout.pixel).iter().zip(counts.chunks_exact_mut(levels));
        for (_, counts) in places.filter(|(other, _)| **other == place(plane)) {
            counts.copy_from_slice(&of_plane(pixels, layout, plane, Counted::Visible));
        }
    }
    counts
}

/// Counts all planes of a picture into `counts`, which is overwritten.
///
/// The counts of one plane follow those of another, with one count per level.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd
/// address, or if the length of `counts` is not [`length`].
pub fn count(pixels: &[u8], layout: &Layout, counts: &mut [u64], scratch: &mut Scratch) {
    count_on(&Sequential, pixels, layout, counts, scratch);
}

/// Counts all planes of a picture as [`count`] does, with the threads of an [`Executor`].
///
/// # Panics
/// As [`count`].
pub fn count_on(
    executor: &impl Executor,
    pixels: &[u8],
    layout: &Layout,
    counts: &mut [u64],
    scratch: &mut Scratch,
) {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    assert_eq!(counts.len(), length(layout), "a count a level and plane");
    match layout.depth {
        Depth::Eight => count_samples(pixels, layout, counts, &mut scratch.eight, executor),
        Depth::Sixteen => {
            let samples: &[u16] = bytemuck::cast_slice(pixels);
            count_samples(samples, layout, counts, &mut scratch.sixteen, executor);
        }
    }
}

fn count_samples<S: Sample>(
    samples: &[S],
    layout: &Layout,
    counts: &mut [u64],
    buffers: &mut Buffers<S>,
    executor: &impl Executor,
) {
    let (width, pixel) = (layout.width as usize, layout.pixel);
    let team = Team::new(executor, samples.len());
    for (&plane, counts) in planes(pixel).iter().zip(counts.chunks_exact_mut(S::LEVELS)) {
        let counted = counted(pixel, plane);
        let threads = &mut buffers.threads;
        counts.copy_from_slice(count_plane(samples, width, pixel, plane, counted, threads, &team));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_what_is_equalized_are_among_all() {
        for (pixel, colour, which) in [
            (Pixel::Gray, Colour::Luma, 0..1),
            (Pixel::Gray, Colour::Linked, 0..1),
            (Pixel::GrayAlpha, Colour::PerChannel, 0..1),
            (Pixel::Rgb, Colour::Luma, 3..4),
            (Pixel::Rgb, Colour::Lab, 3..4),
            (Pixel::Rgb, Colour::PerChannel, 0..3),
            (Pixel::Rgba, Colour::Hue, 4..5),
            (Pixel::Rgba, Colour::PerChannel, 0..3),
        ] {
            let layout = Layout { width: 3, height: 1, pixel, depth: Depth::Eight };
            let counts: Vec<u64> = (0..length(&layout) as u64).collect();
            let found = of_equalized(&counts, &layout, colour);
            assert_eq!(*found, counts[which.start * 256..which.end * 256], "{pixel:?} {colour:?}");
        }
    }

    #[test]
    fn linked_colours_have_the_sum_of_their_counts() {
        for (pixel, levels) in [(Pixel::Rgb, 256), (Pixel::Rgba, 65_536)] {
            let depth = if levels == 256 { Depth::Eight } else { Depth::Sixteen };
            let layout = Layout { width: 3, height: 1, pixel, depth };
            let counts: Vec<u64> = (0..length(&layout) as u64).collect();
            let found = of_equalized(&counts, &layout, Colour::Linked);
            assert!(found.iter().enumerate().all(|(level, &sum)| sum as usize == 3 * (level + levels)));
            assert_eq!(found.len(), levels);
        }
    }

    #[test]
    fn every_channel_and_luma_are_counted_and_what_is_invisible_only_as_alpha() {
        let layout = Layout { width: 3, height: 1, pixel: Pixel::Rgba, depth: Depth::Eight };
        let pixels = [10, 20, 30, 255, 1, 2, 3, 0, 10, 21, 255, 255];
        let mut counts = vec![7; length(&layout)];
        count(&pixels, &layout, &mut counts, &mut Scratch::default());
        let occurring: Vec<_> = (0..).zip(counts).filter(|&(_, n)| n > 0).collect();
        // (19595*10 + 38470*20 + 7471*30 + 32768) >> 16 = 18, and with 21 and 255: 44.
        let planes = [(10, 2), (256 + 20, 1), (256 + 21, 1), (512 + 30, 1), (512 + 255, 1), (768, 1)];
        let rest = [(768 + 255, 2), (1024 + 18, 1), (1024 + 44, 1)];
        assert_eq!(occurring, [&planes[..], &rest[..]].concat());
    }
}
