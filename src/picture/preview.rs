//! Small versions of pictures with their histograms, for people to look at.

use std::fs::File;

use codec::{Budget, CodecError, Cores, Decoded, Limits, Target};
use equalize::{ByteOrder, Colour, Depth, Layout, Method, Operation, count};
use serde::Serialize;

/// The bins of a histogram.
const BINS: usize = 64;
/// The longest side of a picture in a report, in pixels, and the quality of its JPEGs.
const SIDE_IN_REPORT: u32 = 400;
const QUALITY_IN_REPORT: u8 = 80;
/// The most pixels that are counted for a histogram, in rows that are evenly spread.
const MOST_COUNTED: u64 = 1 << 18;

/// A small version of a picture.
#[derive(Debug)]
pub(crate) struct Preview {
    small: codec::Preview,
    pub(crate) facts: Facts,
}

/// Facts about a picture and its preview.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The number of pixels with a brightness in each bin, from dark to light; of a large picture,
    /// in some rows.
    pub histogram: Vec<u64>,
    /// The pages of the file, of which the first is shown.
    pub pages: usize,
    /// The frames of the animation, of which the first is shown.
    pub frames: usize,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreviewError {
    /// The file has been replaced since the picture was done.
    #[error("it has changed since")]
    Changed,
    /// The memory that it needs is not available.
    #[error("it needs more memory than is free")]
    Memory,
    /// The picture cannot be decoded, or its small version not be encoded.
    #[error(transparent)]
    Codec(CodecError),
}

impl From<CodecError> for PreviewError {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::LargerThanMemory { .. } => Self::Memory,
            error => Self::Codec(error),
        }
    }
}

impl Preview {
    /// Makes the preview of a file, unless its length has changed from `bytes`, if that is known.
    /// No side is longer than `longest`. The memory for it is reserved in `budget`, which is asked
    /// twice.
    ///
    /// # Errors
    /// If the file is no picture within the limits, or needs more memory than may be reserved.
    pub(crate) fn of(
        file: &mut File,
        bytes: Option<u64>,
        longest: u32,
        limits: &Limits,
        budget: &mut impl Budget,
    ) -> Result<Self, PreviewError> {
        let is_same = |length| bytes.is_none_or(|bytes| bytes == length);
        if !file.metadata().is_ok_and(|now| now.is_file() && is_same(now.len())) {
            return Err(PreviewError::Changed);
        }
        let mut buffer = Vec::new();
        let target = Target::AS_STORED;
        let mut opened = codec::open_within(budget, file, &mut buffer, limits, &target)?;
        let pages = opened.take_pages().map_or(1, |pages| pages.pictures());
        let (layout, slot_bytes) = (opened.layout(), opened.slot_bytes());
        let counts_bytes = count::length(&layout) * size_of::<u64>();
        let needed =
            slot_bytes as u64 + opened.heap_bytes() + opened.workspace().additional + counts_bytes as u64;
        budget.hold(needed).map_err(|_| PreviewError::Memory)?;
        // OneLine, to align samples of 16 bits.
        let mut words = vec![0_u64; slot_bytes.div_ceil(size_of::<u64>())];
        let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..slot_bytes];
        let mut decoded = opened.decode(pixels, Vec::new(), &Cores::none())?;
        decoded.reduce_depth(pixels, &target);
        let made = Self::of_slot(&decoded, pixels, &target, false, longest);
        let mut made = made.expect("all that it had was given back to it");
        made.facts.pages = pages;
        Ok(made)
    }

    /// Makes the preview of a picture in a slot, before devices work on it or once it `is_done`,
    /// with no side longer than `longest`. `None` if only its files can show it.
    fn of_slot(decoded: &Decoded, slot: &[u8], target: &Target, is_done: bool, longest: u32) -> Option<Self> {
        let small = decoded.preview(slot, target, is_done, longest)?;
        // The frames of an animation lie below each other; the first stands for all.
        let frames = decoded.frames().max(1);
        let first = decoded.layout.frame(frames as u32);
        let orders = decoded.byte_orders;
        let order = if is_done { orders.to } else { orders.from };
        let levels = decoded.levels().number(first.depth);
        let histogram = histogram(&slot[..first.bytes() as usize], &first, order, levels);
        Some(Self { small, facts: Facts { histogram: histogram.to_vec(), pages: 1, frames } })
    }

    /// Encodes it as a PNG.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>, PreviewError> {
        Ok(self.small.to_png()?)
    }
}

/// A version of a picture for a report.
#[derive(Clone, Debug)]
pub struct Shown {
    /// A JPEG.
    pub jpeg: Vec<u8>,
    /// The facts about it.
    pub facts: Facts,
}

impl Shown {
    /// Makes it from a file, as [`Preview::of`].
    ///
    /// # Errors
    /// As for [`Preview::of`].
    pub(crate) fn of(
        file: &mut File,
        bytes: Option<u64>,
        limits: &Limits,
        budget: &mut impl Budget,
    ) -> Result<Self, PreviewError> {
        Self::drawn(Preview::of(file, bytes, SIDE_IN_REPORT, limits, budget)?)
    }

    /// Makes it from a picture in a slot, before devices work on it or once it `is_done`, with this
    /// number of `pages` in its file. `None` if only its files can show it.
    pub(crate) fn of_slot(
        decoded: &Decoded,
        slot: &[u8],
        target: &Target,
        is_done: bool,
        pages: usize,
    ) -> Option<Self> {
        let mut preview = Preview::of_slot(decoded, slot, target, is_done, SIDE_IN_REPORT)?;
        preview.facts.pages = pages;
        Self::drawn(preview).ok()
    }

    fn drawn(Preview { small, facts }: Preview) -> Result<Self, PreviewError> {
        Ok(Self { jpeg: small.to_jpeg(QUALITY_IN_REPORT)?, facts })
    }
}

/// Both versions of a picture for a report, if they could be made while its pixels were in memory.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// The input.
    pub before: Option<Box<Shown>>,
    /// The output.
    pub after: Option<Box<Shown>>,
}

impl Sides {
    /// Returns the versions of both values, of which at most one has each.
    #[must_use]
    pub(crate) fn or(self, others: Self) -> Self {
        Self { before: self.before.or(others.before), after: self.after.or(others.after) }
    }
}

/// Counts the brightness of pixels with this number of levels, in bins.
fn histogram(pixels: &[u8], layout: &Layout, order: ByteOrder, levels: usize) -> [u64; BINS] {
    let step = layout.pixels().div_ceil(MOST_COUNTED).max(1) as usize;
    let row = layout.width as usize * layout.pixel_bytes();
    let rows = pixels.chunks_exact(row).step_by(step);
    let height = rows.len() as u32;
    // OneLine, to align samples of 16 bits.
    let mut words = vec![0_u64; (row * rows.len()).div_ceil(size_of::<u64>())];
    let some = &mut bytemuck::cast_slice_mut(&mut words)[..row * rows.len()];
    some.chunks_exact_mut(row).zip(rows).for_each(|(to, from)| to.copy_from_slice(from));
    if layout.depth == Depth::Sixteen {
        order.convert(some);
    }
    let layout = Layout { height, ..*layout };
    let counts = count::equalized_planes(some, &layout, &Operation::new(Method::Global));
    let mut bins = [0; BINS];
    let brightness = count::of_equalized(&counts, &layout, Colour::Luma);
    brightness
        .iter()
        .enumerate()
        .for_each(|(level, count)| bins[(level * BINS / levels).min(BINS - 1)] += count);
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Unbounded;
    use std::io::{Seek, Write};

    const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 30 };

    fn made(bytes: &[u8]) -> Preview {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Preview::of(&mut file, Some(bytes.len() as u64), 480, &LIMITS, &mut Unbounded).unwrap()
    }

    fn floats(samples: [f32; 3]) -> Preview {
        let samples = samples.into_iter().flat_map(f32::to_le_bytes);
        made(&b"Pf 3 1 -1.0\n".iter().copied().chain(samples).collect::<Vec<u8>>())
    }

    #[test]
    fn a_preview_has_the_means_of_squares_and_the_counts_of_all_pixels() {
        let (width, height) = (1000, 3);
        let mut file = format!("P5 {width} {height} 255\n").into_bytes();
        file.extend((0..width * height).map(|at| if at % 3 == 0 { 250 } else { 10 }));
        let preview = made(&file);
        assert_eq!((preview.small.layout.width, preview.small.layout.height), (334, 1));
        assert_eq!(preview.small.samples[..333], [90; 333]);
        assert_eq!((preview.facts.histogram[62], preview.facts.histogram[2]), (1000, 2000));
        let again = made(&preview.to_png().unwrap());
        assert_eq!(again.small.samples, preview.small.samples);
    }

    #[test]
    fn of_a_large_picture_some_rows_are_counted() {
        let layout =
            Layout { width: 1 << 10, height: 1 << 9, pixel: equalize::Pixel::Gray, depth: Depth::Eight };
        let pixels = vec![128; layout.bytes() as usize];
        let bins = histogram(&pixels, &layout, ByteOrder::Native, 256);
        assert_eq!((bins[32], bins.iter().sum::<u64>()), (MOST_COUNTED, MOST_COUNTED));
    }

    #[test]
    fn sixteen_bits_are_spread_over_eight() {
        let preview = made(b"P5 2 1 65535 \x10\x00\x10\x08");
        assert_eq!(preview.small.samples, [0, 255]);
        assert_eq!(preview.facts.histogram[4], 2);
        assert_eq!((preview.facts.pages, preview.facts.frames), (1, 1));
    }

    #[test]
    fn colours_of_sixteen_bits_stay_what_they_are() {
        let preview = made(b"P6 1 1 65535 \x10\x10\x20\x20\x30\x30");
        assert_eq!(preview.small.samples, [16, 32, 48]);
    }

    #[test]
    fn samples_that_are_no_levels_are_shown_as_the_levels_that_they_become() {
        let preview = floats([0.5, 0.75, 1.0]);
        assert_eq!((&*preview.small.samples, preview.facts.histogram[BINS - 1]), (&[0, 127, 255][..], 1));
        // NaN is transparent.
        let codec::Preview { layout, samples, .. } = floats([0.5, f32::NAN, 1.0]).small;
        assert_eq!((layout.width, samples.len(), samples[3]), (3, 6, 0));
        assert_eq!([samples[0], samples[1], samples[4], samples[5]], [0, 255, 255, 255]);
    }

    #[test]
    fn a_jpeg_shows_what_is_transparent_as_white() {
        let preview = floats([0.0, f32::NAN, 1.0]);
        let again = made(&preview.small.to_jpeg(100).unwrap());
        assert!(again.small.samples[0] < 8 && again.small.samples[1] > 247, "{:?}", again.small.samples);
    }
}
