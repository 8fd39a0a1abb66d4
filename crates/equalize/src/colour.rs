//! Luma, and the change of colour that follows from a change of luma.

pub use super::hue::{DARK_OFFSET, MOST_CHROMA};
use super::portable::luma_portable;
pub use super::portable::{luma, shift_luma};
use super::sample::Sample;
use super::simd;
use crate::{Depth, Layout, Pixel};

/// The plane of a colour picture that is equalized, and the rule for its colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Colour {
    /// Luma.
    ///
    /// Red, green and blue change by the same amount, clamped to the levels ([`shift_luma`]).
    #[default]
    Luma,
    /// Luma, with the hue kept.
    ///
    /// The difference of each channel from luma is scaled by the least of four factors: the ratio
    /// of the new luma to the old, that ratio with 4 levels of 256 added to both, the greatest
    /// factor with which all channels fit into the range, and 4. Hue stays, no channel clips, and
    /// nearly black pixels stay nearly gray. Pixels with unchanged luma are left as they are.
    Hue,
    /// The L of CIE L\*a\*b\*, with a and b kept, to the bytes of OpenCV's conversions.
    ///
    /// For 8 bits, and all their levels.
    Lab,
    /// Each channel by itself.
    PerChannel,
    /// Red, green and blue through one LUT, which follows from the sum of their counts.
    ///
    /// Their balance stays. Not for CLAHE.
    Linked,
}

impl Colour {
    /// Returns the planes of a picture that are equalized, each separately.
    pub const fn to_equalize(self, pixel: Pixel) -> &'static [Plane] {
        match (self, pixel) {
            (_, Pixel::Gray | Pixel::GrayAlpha) => &[Plane::Channel(0)],
            (Self::Luma | Self::Hue, _) => &[Plane::Luma],
            (Self::Lab, _) => &[Plane::Lightness],
            (Self::PerChannel, _) => &COLOURS,
            (Self::Linked, _) => &[Plane::Colours],
        }
    }
}

/// The change of a pixel's colours with a new luma.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relight {
    /// As in [`Colour::Luma`].
    Shift,
    /// As in [`Colour::Hue`], up to this level.
    KeepHue { highest: u16 },
}

/// A plane of a picture: one value per pixel, except for [`Plane::Colours`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Plane {
    /// The samples of one channel, numbered from 0 in the order of their interleaving.
    Channel(usize),
    /// The luma of RGB or RGBA.
    Luma,
    /// The L of CIE L\*a\*b\*, of RGB or RGBA of 8 bits.
    Lightness,
    /// The red, green and blue of RGB or RGBA: three values per pixel.
    Colours,
}

/// The channels of colours.
const COLOURS: [Plane; 3] = [Plane::Channel(0), Plane::Channel(1), Plane::Channel(2)];

impl Plane {
    /// Returns the planes of one value per pixel that make up this plane.
    pub const fn parts(&self) -> &[Self] {
        match self {
            Self::Colours => &COLOURS,
            Self::Channel(_) | Self::Luma | Self::Lightness => std::slice::from_ref(self),
        }
    }

    /// Returns whether the plane is all samples of such pixels, in the order of memory.
    pub(super) fn is_of_all_samples(self, pixel: Pixel) -> bool {
        pixel == Pixel::Gray || (pixel == Pixel::Rgb && self == Self::Colours)
    }
}

impl Relight {
    /// Changes pixels of `C` channels from one luma to another.
    fn apply<S: Sample, const C: usize>(self, pixels: &mut [S], from: &[S], to: &[S]) {
        match self {
            Self::Shift => S::shift_luma::<C>(pixels, from, to),
            Self::KeepHue { highest } => S::keep_hue::<C>(pixels, from, to, S::from_level(highest.into())),
        }
    }
}

/// Extracts one of the [`Plane::parts`] from interleaved samples; `values` has one entry per pixel.
pub(super) fn read<S: Sample>(samples: &[S], pixel: Pixel, plane: Plane, values: &mut [S]) {
    #[inline(always)]
    fn strided<S: Sample, const C: usize>(samples: &[S], channel: usize, values: &mut [S]) {
        for (value, pixel) in values.iter_mut().zip(samples.as_chunks::<C>().0) {
            *value = pixel[channel];
        }
    }
    debug_assert_eq!(samples.len(), values.len() * pixel.channels());
    match plane {
        Plane::Luma if pixel.has_alpha() => simd::vectorized!(luma_portable::<S, 4>(samples, values)),
        Plane::Luma => simd::vectorized!(luma_portable::<S, 3>(samples, values)),
        Plane::Lightness if pixel.has_alpha() => S::lightness::<4>(samples, values),
        Plane::Lightness => S::lightness::<3>(samples, values),
        Plane::Colours => unreachable!("its channels are read one by one"),
        Plane::Channel(channel) => match pixel {
            Pixel::Gray => values.copy_from_slice(samples),
            Pixel::GrayAlpha => simd::vectorized!(strided::<S, 2>(samples, channel, values)),
            Pixel::Rgb => simd::vectorized!(strided::<S, 3>(samples, channel, values)),
            Pixel::Rgba => simd::vectorized!(strided::<S, 4>(samples, channel, values)),
        },
    }
}

/// Writes one plane back into interleaved samples.
///
/// The new values of a channel are stored as they are; a new luma changes colours by `relight`.
/// `before` is the old plane, as returned by [`read`].
pub(super) fn write<S: Sample>(
    samples: &mut [S],
    pixel: Pixel,
    plane: Plane,
    relight: Relight,
    before: &[S],
    values: &[S],
) {
    #[inline(always)]
    fn strided<S: Sample, const C: usize>(samples: &mut [S], channel: usize, values: &[S]) {
        for (pixel, &value) in samples.as_chunks_mut::<C>().0.iter_mut().zip(values) {
            pixel[channel] = value;
        }
    }
    debug_assert_eq!(samples.len(), values.len() * pixel.channels());
    match plane {
        Plane::Luma if pixel.has_alpha() => relight.apply::<S, 4>(samples, before, values),
        Plane::Luma => relight.apply::<S, 3>(samples, before, values),
        Plane::Lightness if pixel.has_alpha() => S::change_lightness::<4>(samples, values),
        Plane::Lightness => S::change_lightness::<3>(samples, values),
        Plane::Colours => unreachable!("its channels are written one by one"),
        Plane::Channel(channel) => match pixel {
            Pixel::Gray => samples.copy_from_slice(values),
            Pixel::GrayAlpha => simd::vectorized!(strided::<S, 2>(samples, channel, values)),
            Pixel::Rgb => simd::vectorized!(strided::<S, 3>(samples, channel, values)),
            Pixel::Rgba => simd::vectorized!(strided::<S, 4>(samples, channel, values)),
        },
    }
}

/// The gray of a colour picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gray {
    /// Its luma.
    Luma,
    /// Its red samples.
    Red,
    /// Its green samples.
    Green,
    /// Its blue samples.
    Blue,
}

impl Gray {
    /// Returns the number of the channel, unless the gray is made from all three.
    pub const fn channel(self) -> Option<usize> {
        match self {
            Self::Luma => None,
            Self::Red => Some(0),
            Self::Green => Some(1),
            Self::Blue => Some(2),
        }
    }
}

/// Replaces colour with gray, in place.
///
/// Packs the gray pixels (with their alpha, if any) at the front of `pixels`, and returns their
/// layout. A gray picture stays as it is.
///
/// # Panics
/// If `pixels` is shorter than [`Layout::bytes`], or if it holds 16-bit samples at an odd address.
pub fn to_gray(pixels: &mut [u8], layout: &Layout, gray: Gray) -> Layout {
    let bytes = usize::try_from(layout.bytes()).expect("pixels in memory have an address");
    let pixels = &mut pixels[..bytes];
    match layout.depth {
        Depth::Eight => compact(pixels, layout.pixel, gray),
        Depth::Sixteen => compact::<u16>(bytemuck::cast_slice_mut(pixels), layout.pixel, gray),
    }
    let pixel = if layout.pixel.has_alpha() { Pixel::GrayAlpha } else { Pixel::Gray };
    Layout { pixel, ..*layout }
}

fn compact<S: Sample>(samples: &mut [S], pixel: Pixel, gray: Gray) {
    let channels = pixel.channels();
    if pixel.colour_channels() == 1 {
        return;
    }
    let gray_channels = channels - 2; // three colour channels become one
    for at in 0..samples.len() / channels {
        let from = at * channels;
        let value = match gray.channel() {
            Some(channel) => samples[from + channel],
            None => luma(samples[from], samples[from + 1], samples[from + 2]),
        };
        // The target never lies beyond the source: any overwritten sample has been read.
        samples[at * gray_channels] = value;
        if pixel.has_alpha() {
            samples[at * gray_channels + 1] = samples[from + 3];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: u32, pixel: Pixel, depth: Depth) -> Layout {
        Layout { width, height: 1, pixel, depth }
    }

    #[test]
    fn gray_is_its_own_luma() {
        assert!((0..=255_u8).all(|v| luma(v, v, v) == v));
        assert!((0..=65535_u16).all(|v| luma(v, v, v) == v));
    }

    #[test]
    fn the_primaries_have_their_weights() {
        assert_eq!((luma(255_u8, 0, 0), luma(0_u8, 255, 0), luma(0_u8, 0, 255)), (76, 150, 29));
        assert_eq!(
            (luma(65535_u16, 0, 0), luma(0_u16, 65535, 0), luma(0_u16, 0, 65535)),
            (19595, 38469, 7471)
        );
    }

    #[test]
    fn relighting_moves_and_saturates() {
        assert_eq!((shift_luma(100_u8, 50, 60), shift_luma(100_u8, 60, 50)), (110, 90));
        assert_eq!((shift_luma(250_u8, 50, 60), shift_luma(5_u8, 60, 50)), (255, 0));
        assert_eq!((shift_luma(65000_u16, 0, 65535), shift_luma(9_u16, 10, 0)), (65535, 0));
    }

    #[test]
    fn gray_lies_packed_at_the_front() {
        let mut rgb = [10, 20, 30, 255, 255, 255, 0, 0, 255];
        assert_eq!(to_gray(&mut rgb, &layout(3, Pixel::Rgb, Depth::Eight), Gray::Luma).pixel, Pixel::Gray);
        assert_eq!(rgb[..3], [18, 255, 29]);

        let mut rgba = [10, 20, 30, 7, 255, 255, 255, 8];
        assert_eq!(
            to_gray(&mut rgba, &layout(2, Pixel::Rgba, Depth::Eight), Gray::Luma).pixel,
            Pixel::GrayAlpha
        );
        assert_eq!(rgba[..4], [18, 7, 255, 8]);

        let mut wide = [65535_u16, 0, 0, 0, 65535, 0];
        to_gray(bytemuck::cast_slice_mut(&mut wide), &layout(2, Pixel::Rgb, Depth::Sixteen), Gray::Luma);
        assert_eq!(wide[..2], [19595, 38469]);
    }

    #[test]
    fn gray_is_one_channel_if_asked() {
        for (gray, expected) in [(Gray::Red, [10, 40]), (Gray::Green, [20, 50]), (Gray::Blue, [30, 60])] {
            let mut rgb = [10, 20, 30, 40, 50, 60];
            to_gray(&mut rgb, &layout(2, Pixel::Rgb, Depth::Eight), gray);
            assert_eq!(rgb[..2], expected);
            let mut rgba = [10_u16, 20, 30, 7, 40, 50, 60, 8];
            to_gray(bytemuck::cast_slice_mut(&mut rgba), &layout(2, Pixel::Rgba, Depth::Sixteen), gray);
            assert_eq!(rgba[..4], [expected[0].into(), 7, expected[1].into(), 8]);
        }
    }

    #[test]
    fn gray_stays() {
        let mut gray = [1, 2, 3, 4];
        let layout = layout(2, Pixel::GrayAlpha, Depth::Eight);
        assert_eq!(to_gray(&mut gray, &layout, Gray::Luma), layout);
        assert_eq!(gray, [1, 2, 3, 4]);
    }
}
