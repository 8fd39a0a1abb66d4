//! Small versions of pictures, as people see them: upright, in their colours.
//!
//! They are made of the pixels in the slot, and of the chroma that a JPEG keeps outside it, which
//! saves a decoding of their own.

use equalize::{ByteOrder, Depth, Layout, Pixel};

use crate::samples::eight::to_eight;
use crate::samples::shrink::{Means, SmallPlane};
use crate::{Decoded, Target};

/// The longest colour profile that goes along: those of displays and cameras are a fraction of it.
const LONGEST_PROFILE: usize = 4 << 10;

/// A small version of a picture, of 8 bits.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The layout of its samples.
    pub layout: Layout,
    /// The samples.
    pub samples: Vec<u8>,
    /// The profile of its colours, if the picture has one.
    pub(crate) profile: Option<Vec<u8>>,
}

impl Decoded {
    /// Returns a small version of the picture, or its first frame, of at most `longest` a side.
    ///
    /// The picture is as before the devices' work or, if it `is_done`, as in the output. Gray
    /// samples of 16 bits are spread from the least to the greatest, as in viewers. `None` while
    /// pixels that do not count have lost some of their samples: then only the files show them.
    pub fn preview(&self, slot: &[u8], target: &Target, is_done: bool, longest: u32) -> Option<Preview> {
        if self.uncounted.is_some() {
            return None;
        }
        let layout = self.frame_layout();
        let step = layout.width.max(layout.height).div_ceil(longest).max(1) as usize;
        let order = if is_done { self.byte_orders.to } else { self.byte_orders.from };
        let is_reduced = is_done && target.eight_bit;
        let mut means = means(&slot[..layout.bytes() as usize], &layout, order, step);
        let channels = layout.pixel.channels();
        let colours = layout.pixel.colour_channels();
        for pixel in means.chunks_exact_mut(channels) {
            for colour in &mut pixel[..colours] {
                *colour = self.scale.presented(*colour, layout.depth, false, is_reduced);
            }
        }
        let samples = match layout.depth {
            Depth::Eight => means.into_iter().map(|mean| mean as u8).collect(),
            Depth::Sixteen if colours == 1 && !is_reduced => spread(&means, layout.pixel),
            Depth::Sixteen => means.into_iter().map(to_eight).collect(),
        };
        let [width, height] = [layout.width, layout.height].map(|side| side.div_ceil(step as u32));
        let small = Layout { width, height, depth: Depth::Eight, ..layout };
        let chroma = (layout.pixel == Pixel::Gray)
            .then(|| self.native.small_chroma(slot, &layout, target.jpeg_quality, step))
            .flatten();
        let (layout, samples) = match chroma {
            Some(chroma) => (Layout { pixel: Pixel::Rgb, ..small }, rgb(&samples, &small, &chroma, step)),
            None => (small, samples),
        };
        let profile = self.metadata.icc_for(layout.pixel).filter(|icc| icc.len() <= LONGEST_PROFILE);
        let profile = profile.map(<[u8]>::to_vec);
        Some(Preview { layout, samples, profile }.upright(self.metadata.orientation()))
    }
}

impl Preview {
    /// Returns the picture turned as EXIF's orientation asks for.
    fn upright(self, orientation: u8) -> Self {
        let Layout { width, height, pixel, .. } = self.layout;
        let (right, bottom) = (width - 1, height - 1);
        let from: fn(u32, u32, u32, u32) -> (u32, u32) = match orientation {
            2 => |x, y, right, _| (right - x, y),
            3 => |x, y, right, bottom| (right - x, bottom - y),
            4 => |x, y, _, bottom| (x, bottom - y),
            5 => |x, y, _, _| (y, x),
            6 => |x, y, _, bottom| (y, bottom - x),
            7 => |x, y, right, bottom| (right - y, bottom - x),
            8 => |x, y, right, _| (right - y, x),
            _ => return self,
        };
        let (across, down) = if orientation > 4 { (height, width) } else { (width, height) };
        let channels = pixel.channels();
        let mut samples = Vec::with_capacity(self.samples.len());
        for (x, y) in (0..down).flat_map(|y| (0..across).map(move |x| (x, y))) {
            let (x, y) = from(x, y, right, bottom);
            let at = (y as usize * width as usize + x as usize) * channels;
            samples.extend_from_slice(&self.samples[at..at + channels]);
        }
        Self { layout: Layout { width: across, height: down, ..self.layout }, samples, ..self }
    }
}

/// Returns the means of squares of `step` pixels.
fn means(pixels: &[u8], layout: &Layout, order: ByteOrder, step: usize) -> Vec<u16> {
    let width = layout.width as usize;
    let mut means = Means::new(width, layout.pixel, step, step);
    let mut wide = Vec::new();
    for row in pixels.chunks_exact(width * layout.pixel_bytes()) {
        match layout.depth {
            Depth::Eight => means.add(row),
            Depth::Sixteen => {
                wide.clear();
                let (samples, _) = row.as_chunks::<2>();
                wide.extend(samples.iter().map(|&sample| match order {
                    ByteOrder::Native => u16::from_ne_bytes(sample),
                    ByteOrder::Swapped => u16::from_ne_bytes(sample).swap_bytes(),
                }));
                means.add(&wide);
            }
        }
    }
    means.finish()
}

/// Spreads colours over 8 bits, from the least to the greatest visible one; alpha stays.
fn spread(means: &[u16], pixel: Pixel) -> Vec<u8> {
    let (channels, colours) = (pixel.channels(), pixel.colour_channels());
    let visible = || means.chunks_exact(channels).filter(|pixel| pixel.get(colours) != Some(&0));
    let values = || visible().flat_map(|pixel| &pixel[..colours]).copied();
    let (least, greatest) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let range = u32::from(greatest - least).max(1);
    let spread = means.iter().enumerate().map(|(at, &mean)| match at % channels < colours {
        true => (u32::from(mean.clamp(least, greatest) - least) * 255 / range) as u8,
        false => to_eight(mean),
    });
    spread.collect()
}

/// Returns red, green and blue of luma and the chroma of a JPEG (JFIF 1.02).
///
/// Each luma is the mean of a square of `step` pixels.
fn rgb(luma: &[u8], layout: &Layout, chroma: &[SmallPlane; 2], step: usize) -> Vec<u8> {
    const BITS: i32 = 16;
    let across = layout.width as usize;
    let centre = |number: usize| number * step + step / 2;
    let columns = chroma.each_ref().map(|plane| plane.columns((0..across).map(centre)));
    let mut rgb = Vec::with_capacity(3 * luma.len());
    for (number, luma) in luma.chunks_exact(across).enumerate() {
        let [blue, red] = chroma.each_ref().map(|plane| plane.row(centre(number)));
        for (x, &y) in luma.iter().enumerate() {
            let (cb, cr) = (i32::from(blue[columns[0][x]]) - 128, i32::from(red[columns[1][x]]) - 128);
            let y = (i32::from(y) << BITS) + (1 << (BITS - 1));
            let channels = [y + 91_881 * cr, y - 22_554 * cb - 46_802 * cr, y + 116_130 * cb];
            rgb.extend(channels.map(|channel| (channel >> BITS).clamp(0, 255) as u8));
        }
    }
    rgb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(width: u32, height: u32, samples: &[u8]) -> Preview {
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        Preview { layout, samples: samples.to_vec(), profile: None }
    }

    #[test]
    fn a_picture_is_turned_as_exif_asks_for() {
        // EXIF 3.0, 4.6.5.1.6: where the 0th row and the 0th column of the stored picture are to be
        // seen.
        for (orientation, width, samples) in [
            (1, 3, [1, 2, 3, 4, 5, 6]),
            (2, 3, [3, 2, 1, 6, 5, 4]),
            (3, 3, [6, 5, 4, 3, 2, 1]),
            (4, 3, [4, 5, 6, 1, 2, 3]),
            (5, 2, [1, 4, 2, 5, 3, 6]),
            (6, 2, [4, 1, 5, 2, 6, 3]),
            (7, 2, [6, 3, 5, 2, 4, 1]),
            (8, 2, [3, 6, 2, 5, 1, 4]),
            (9, 3, [1, 2, 3, 4, 5, 6]),
        ] {
            let turned = gray(3, 2, &[1, 2, 3, 4, 5, 6]).upright(orientation);
            assert_eq!((turned.layout.width, &turned.samples[..]), (width, &samples[..]), "{orientation}");
        }
    }
}
