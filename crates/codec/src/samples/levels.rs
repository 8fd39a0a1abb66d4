//! Levels of samples with room for more: their number, and their place in the samples.
//!
//! Devices work on levels from 0 on. Where a format multiplies the levels to fill the range of a
//! sample, decoding takes them back to their numbers, and encoding multiplies them again; the same
//! is done with levels in the upper bits of a sample, as cameras write them. Levels in the lowest
//! bits stay there, and are only checked.

use super::stated::{Place, Stated};
use super::uncounted::Fate;
use crate::CodecError;
use crate::samples::{pixels_of, rescale};
use crate::target::LevelCount;
use equalize::{Depth, Layout, Levels, Pixel};

/// Samples in a block of [`used_bits`], which ends at the first block that uses the lowest bit.
const BLOCK: usize = 1 << 12;

/// The levels of a picture, as they are in the slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scale {
    pub(crate) levels: Levels,
    /// The statement of levels that were multiplied to fill the range, as they will be again.
    multiplied: Option<Stated>,
    /// Whether the file states the number of levels.
    is_stated: bool,
    /// Whether low bits of its samples are unused, and remain so as they were not looked for.
    pub(crate) has_unused_bits: bool,
}

impl Scale {
    /// Returns the scale of levels that are made of other samples.
    ///
    /// `restores`: whether other samples are made again of them.
    pub(crate) fn of_mapped(levels: Levels, depth: Depth, restores: bool) -> Self {
        let top = (levels.number(depth) - 1) as u16;
        let is_spread = levels.are_fewer(depth) && !restores;
        let multiplied = is_spread.then_some(Stated { top, place: Place::Spread });
        Self { levels, multiplied, ..Self::default() }
    }

    /// Makes levels of samples in the machine's byte order.
    ///
    /// `stated` are the levels that the file states.
    pub(crate) fn take(
        count: LevelCount,
        stated: Option<Stated>,
        pixels: &mut [u8],
        layout: &Layout,
        fates: Option<&[Fate]>,
    ) -> Result<Self, CodecError> {
        let of_file = stated.filter(|stated| states_levels(stated, layout.depth));
        let (stated, levels) = match (count, of_file) {
            (LevelCount::Upper { .. }, _) if layout.depth == Depth::Eight => return Ok(Self::default()),
            (LevelCount::Upper { levels, shift }, _) => {
                return Self::upper(levels, shift, pixels, layout, fates);
            }
            (LevelCount::Seen, None) => return Ok(Self::seen(pixels, layout)),
            (LevelCount::Full, _) => return Ok(Self::default()),
            (LevelCount::Stated, None) => {
                let found = used_bits(pixels, layout).map(LevelCount::of_used_bits);
                let has_unused_bits = matches!(found, Some(LevelCount::Upper { .. }));
                return Ok(Self { has_unused_bits, ..Self::default() });
            }
            (LevelCount::Stated | LevelCount::Seen, Some(stated)) => {
                (Some(stated), Levels::First(stated.top + 1))
            }
            (LevelCount::Number(number), of_file) => {
                let levels = Levels::first(number.into(), layout.depth);
                // A PNG with another number may be wrong.
                let meant = of_file.filter(|stated| {
                    stated.place != Place::Either || stated.top.checked_add(1) == Some(number)
                });
                (meant, levels)
            }
        };
        let is_spread = stated.is_some_and(|Stated { top, place }| match place {
            Place::Spread => true,
            Place::Low | Place::Upper { .. } => false,
            Place::Either => fills_range(pixels, layout, top),
        });
        let (multiplied, is_stated) = (stated.filter(|_| is_spread), stated.is_some());
        let scale = Self { levels, multiplied, is_stated, ..Self::default() };
        if scale.multiplied.is_some() {
            change_colours(pixels, layout, |sample, range| scale.level(sample, range));
        }
        check(levels, pixels, layout, fates)?;
        Ok(scale)
    }

    /// Takes levels from the bits of 16-bit samples above the lower ones that are 0 in all samples.
    fn seen(pixels: &mut [u8], layout: &Layout) -> Self {
        match used_bits(pixels, layout).map(LevelCount::of_used_bits) {
            Some(LevelCount::Upper { levels, shift }) => Self::of_upper(levels, shift, pixels, layout),
            _ => Self::default(),
        }
    }

    /// Takes so many levels from the upper bits of 16-bit samples; their lower bits have to be 0.
    fn upper(
        levels: u16,
        shift: u8,
        pixels: &mut [u8],
        layout: &Layout,
        fates: Option<&[Fate]>,
    ) -> Result<Self, CodecError> {
        let lower = (1_u16 << shift) - 1;
        if let Some(sample) = colours16(pixels, layout).find(|sample| sample & lower != 0) {
            return Err(CodecError::LowerBits { sample: sample.into(), shift });
        }
        let scale = Self::of_upper(levels, shift, pixels, layout);
        check(scale.levels, pixels, layout, fates)?;
        Ok(scale)
    }

    fn of_upper(levels: u16, shift: u8, pixels: &mut [u8], layout: &Layout) -> Self {
        let multiplied = Some(Stated { top: levels - 1, place: Place::Upper { shift } });
        change_colours(pixels, layout, |sample, _| sample >> shift);
        Self { levels: Levels::First(levels), multiplied, ..Self::default() }
    }

    /// Returns the level of a sample of `0..=range`.
    #[inline(always)]
    fn level(self, sample: u16, range: u16) -> u16 {
        match self.multiplied {
            // Decoding multiplied them: a sample between two levels, as in a lossy JPEG XL, goes to
            // the nearer one.
            Some(Stated { top, place: Place::Spread }) => {
                rescale(sample.into(), range.into(), top.into()) as u16
            }
            Some(Stated { place: Place::Upper { shift }, .. }) => sample >> shift,
            Some(Stated { top, .. }) => rescale_down(sample, range, top),
            None => sample,
        }
    }

    /// Returns the level of a sample of this depth in the slot, where levels are `inverted` or not.
    pub(crate) fn level_of(self, sample: u16, depth: Depth, inverted: bool) -> u16 {
        let range = (depth.levels() - 1) as u16;
        let level = self.level(sample, range);
        if inverted { self.inverted(level, depth) } else { level }
    }

    /// Inverts levels of which white is 0.
    pub(crate) fn invert(self, pixels: &mut [u8], layout: &Layout) {
        if !self.levels.are_fewer(layout.depth) && layout.pixel == Pixel::Gray {
            return pixels.iter_mut().for_each(|byte| *byte = !*byte);
        }
        change_colours(pixels, layout, |level, _| self.inverted(level, layout.depth));
    }

    /// Returns an inverted level.
    ///
    /// A level above the highest, which stays as it is, becomes another above it.
    #[inline(always)]
    fn inverted(self, level: u16, depth: Depth) -> u16 {
        let (top, range) = ((self.levels.number(depth) - 1) as u16, (depth.levels() - 1) as u16);
        top.wrapping_sub(level) & range
    }

    /// Gives the pixels at the front of `slot` the form that they have in the output.
    ///
    /// `keeps`: whether the output is of the pixels' depth and has a place for the highest level.
    pub(crate) fn present(&mut self, slot: &mut [u8], layout: &Layout, keeps: bool, is_reduced: bool) {
        if !self.levels.are_fewer(layout.depth) {
            return;
        }
        let pixels = pixels_of(layout, slot);
        if let Some(shift) = self.shift().filter(|_| !is_reduced) {
            change_colours(pixels, layout, |level, _| level << shift);
            *self = Self::default();
            return;
        }
        if keeps && !is_reduced {
            let top = self.top_written(layout.depth);
            if highest(pixels, layout) > top {
                // A sample that stayed as it was is above all of the levels.
                *self = Self::default();
                return;
            }
            return change_alpha(pixels, layout, |sample, range| rescale_down(sample, range, top));
        }
        if let Some(top) = self.top_spread(layout.depth, keeps, is_reduced) {
            let depth = layout.depth;
            let wide: Vec<u16> =
                (0..=top).map(|level| self.presented(level, depth, keeps, is_reduced)).collect();
            change_colours(pixels, layout, |sample, _| wide[usize::from(sample.min(top))]);
        }
        if is_reduced {
            *self = Self::default();
        }
    }

    /// Returns the sample that [`Self::present`] makes of a level.
    pub(crate) fn presented(self, level: u16, depth: Depth, keeps: bool, is_reduced: bool) -> u16 {
        if let Some(shift) = self.shift().filter(|_| !is_reduced) {
            return level << shift;
        }
        let range = (depth.levels() - 1) as u32;
        let top = self.top_spread(depth, keeps, is_reduced);
        top.map_or(level, |top| rescale(level.min(top).into(), top.into(), range) as u16)
    }

    /// Returns the number of bits below the levels in the samples, if they lie in the upper ones.
    fn shift(&self) -> Option<u8> {
        match self.multiplied {
            Some(Stated { place: Place::Upper { shift }, .. }) => Some(shift),
            _ => None,
        }
    }

    /// Returns the highest of the levels that [`Self::present`] spreads over the range, if it does.
    fn top_spread(self, depth: Depth, keeps: bool, is_reduced: bool) -> Option<u16> {
        if !self.levels.are_fewer(depth) || keeps && !is_reduced {
            return None;
        }
        (is_reduced || self.multiplied.is_some()).then(|| self.top_written(depth))
    }

    /// Returns the highest level of samples that are not multiplied, in an output that states it.
    pub(crate) fn top_written(&self, depth: Depth) -> u16 {
        self.multiplied.map_or((self.levels.number(depth) - 1) as u16, |stated| stated.top)
    }

    /// Returns the highest level where it is to be stated of samples that are not multiplied.
    pub(crate) fn top_of_low(&self, depth: Depth) -> Option<u16> {
        (self.levels.are_fewer(depth) && self.multiplied.is_none())
            .then(|| (self.levels.number(depth) - 1) as u16)
    }

    /// Returns the bits of a sample, where the file states them.
    pub(crate) fn stated_bits(&self, depth: Depth) -> Option<u8> {
        let number = self.levels.number(depth);
        (self.is_stated && self.levels.are_fewer(depth) && number.is_power_of_two())
            .then(|| number.ilog2() as u8)
    }
}

/// Refuses samples of colours that are above the highest level, unless they stay as they are.
fn check(levels: Levels, pixels: &[u8], layout: &Layout, fates: Option<&[Fate]>) -> Result<(), CodecError> {
    if !levels.are_fewer(layout.depth) {
        return Ok(());
    }
    let highest = match fates {
        None => highest(pixels, layout),
        Some(fates) => {
            let pixels = pixels.chunks_exact(layout.pixel_bytes()).zip(fates);
            let change = pixels.filter(|(_, fate)| **fate != Fate::Stays);
            change.map(|(pixel, _)| highest(pixel, layout)).max().unwrap_or(0)
        }
    };
    let number = levels.number(layout.depth);
    if usize::from(highest) < number { Ok(()) } else { Err(beyond(highest.into(), number)) }
}

/// Returns the error for a sample outside the stated levels.
pub(crate) fn beyond(sample: f64, levels: usize) -> CodecError {
    CodecError::BeyondLevels { sample, levels }
}

/// Returns the greatest sample of the colours.
fn highest(pixels: &[u8], layout: &Layout) -> u16 {
    let colours = layout.pixel.colour_channels();
    match layout.depth {
        Depth::Eight if layout.pixel == Pixel::Gray => pixels.iter().copied().max().unwrap_or(0).into(),
        Depth::Eight => {
            let of = pixels.chunks_exact(layout.pixel.channels()).flat_map(|pixel| &pixel[..colours]);
            of.copied().max().unwrap_or(0).into()
        }
        Depth::Sixteen => {
            let samples = pixels.as_chunks::<2>().0;
            if layout.pixel == Pixel::Gray {
                return samples.iter().map(|&sample| u16::from_ne_bytes(sample)).max().unwrap_or(0);
            }
            let of = samples.chunks_exact(layout.pixel.channels()).flat_map(|pixel| &pixel[..colours]);
            of.map(|&sample| u16::from_ne_bytes(sample)).max().unwrap_or(0)
        }
    }
}

/// Returns whether samples are levels of up to `top` (2^n - 1), multiplied to fill the range.
///
/// They were if any is above `top`, or if all have the low bits that multiplying gives.
fn fills_range(pixels: &[u8], layout: &Layout, top: u16) -> bool {
    let range = (layout.depth.levels() - 1) as u32;
    let shift = range.count_ones() - top.count_ones();
    highest(pixels, layout) > top
        || all_colours(pixels, layout, |sample| {
            let level = u32::from(sample) >> shift;
            let sample = u32::from(sample);
            // Shifted, with its highest bits repeated, or scaled.
            sample == level << shift
                || sample == (level << shift | level >> (top.count_ones().saturating_sub(shift)))
                || sample == rescale(level, top.into(), range)
        })
}

/// Returns the level, of up to `top`, that was multiplied to fill the range.
fn rescale_down(sample: u16, range: u16, top: u16) -> u16 {
    if (u32::from(top) + 1).is_power_of_two() {
        // However it was multiplied, its bits are the highest.
        sample >> (range.count_ones() - top.count_ones())
    } else {
        rescale(sample.into(), range.into(), top.into()) as u16
    }
}

/// Returns whether a file states fewer levels than there is room for.
fn states_levels(stated: &Stated, depth: Depth) -> bool {
    usize::from(stated.top) + 1 < depth.levels()
}

/// Returns whether the number of levels is looked for in the samples.
pub(crate) fn are_looked_for(count: LevelCount, stated: Option<Stated>, depth: Depth) -> bool {
    let is_stated = stated.is_some_and(|stated| states_levels(&stated, depth));
    count == LevelCount::Seen && depth == Depth::Sixteen && !is_stated
}

/// Returns the bits that are not 0 in all 16-bit samples of colours; `None` for samples of 8 bits.
///
/// The search ends where the lowest bit is found to be used.
pub(crate) fn used_bits(pixels: &[u8], layout: &Layout) -> Option<u16> {
    if layout.depth == Depth::Eight {
        return None;
    }
    let mut used = 0;
    for block in pixels.chunks(BLOCK * layout.pixel_bytes()) {
        used = colours16(block, layout).fold(used, |used, sample| used | sample);
        if used & 1 != 0 {
            break;
        }
    }
    Some(used)
}

/// Returns the samples of colours of 16 bits.
fn colours16<'p>(pixels: &'p [u8], layout: &Layout) -> impl Iterator<Item = u16> + use<'p> {
    let (channels, colours) = (layout.pixel.channels(), layout.pixel.colour_channels());
    let pixels = pixels.as_chunks::<2>().0.chunks_exact(channels);
    pixels.flat_map(move |pixel| &pixel[..colours]).map(|&sample| u16::from_ne_bytes(sample))
}

/// Returns whether `holds` is true for all samples of colours.
fn all_colours(pixels: &[u8], layout: &Layout, holds: impl Fn(u16) -> bool) -> bool {
    let (channels, colours) = (layout.pixel.channels(), layout.pixel.colour_channels());
    match layout.depth {
        Depth::Eight => pixels
            .chunks_exact(channels)
            .all(|pixel| pixel[..colours].iter().all(|&sample| holds(sample.into()))),
        Depth::Sixteen => pixels
            .as_chunks::<2>()
            .0
            .chunks_exact(channels)
            .all(|pixel| pixel[..colours].iter().all(|&sample| holds(u16::from_ne_bytes(sample)))),
    }
}

/// Changes the samples of colours.
///
/// `change` gets a sample and the greatest possible one.
fn change_colours(pixels: &mut [u8], layout: &Layout, change: impl Fn(u16, u16) -> u16) {
    change_samples(pixels, layout, 0..layout.pixel.colour_channels(), change);
}

/// Changes the samples of alpha.
fn change_alpha(pixels: &mut [u8], layout: &Layout, change: impl Fn(u16, u16) -> u16) {
    change_samples(pixels, layout, layout.pixel.colour_channels()..layout.pixel.channels(), change);
}

fn change_samples(
    pixels: &mut [u8],
    layout: &Layout,
    which: std::ops::Range<usize>,
    change: impl Fn(u16, u16) -> u16,
) {
    let channels = layout.pixel.channels();
    match layout.depth {
        Depth::Eight => {
            for pixel in pixels.chunks_exact_mut(channels) {
                for sample in &mut pixel[which.clone()] {
                    *sample = change(u16::from(*sample), 255) as u8;
                }
            }
        }
        Depth::Sixteen => {
            for pixel in pixels.as_chunks_mut::<2>().0.chunks_exact_mut(channels) {
                for sample in &mut pixel[which.clone()] {
                    *sample = change(u16::from_ne_bytes(*sample), u16::MAX).to_ne_bytes();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(samples: &[u16]) -> (Vec<u8>, Layout) {
        let layout =
            Layout { width: samples.len() as u32, height: 1, pixel: Pixel::Gray, depth: Depth::Sixteen };
        (bytemuck::cast_slice(samples).to_vec(), layout)
    }

    fn samples(pixels: &[u8]) -> Vec<u16> {
        pixels.as_chunks::<2>().0.iter().map(|&sample| u16::from_ne_bytes(sample)).collect()
    }

    const TWELVE: Stated = Stated { top: 4095, place: Place::Either };

    #[test]
    fn however_levels_were_multiplied_they_come_back() {
        let levels: Vec<u16> = (0..4096).collect();
        for multiplied in [
            |level: u16| level << 4,
            |level: u16| level << 4 | level >> 8,
            |level: u16| rescale(level.into(), 4095, 65_535) as u16,
        ] {
            for range in [0..4096_usize, 0..200] {
                let (mut pixels, layout) =
                    gray(&levels[range.clone()].iter().map(|&level| multiplied(level)).collect::<Vec<_>>());
                let scale =
                    Scale::take(LevelCount::Stated, Some(TWELVE), &mut pixels, &layout, None).unwrap();
                assert_eq!(samples(&pixels), levels[range]);
                assert_eq!((scale.levels, scale.multiplied), (Levels::First(4096), Some(TWELVE)));
            }
        }
    }

    #[test]
    fn levels_in_the_lowest_bits_stay_there() {
        for stated in [TWELVE, Stated { place: Place::Low, ..TWELVE }] {
            let (mut pixels, layout) = gray(&[0, 7, 4095, 1000]);
            let mut scale =
                Scale::take(LevelCount::Stated, Some(stated), &mut pixels, &layout, None).unwrap();
            assert_eq!(samples(&pixels), [0, 7, 4095, 1000]);
            scale.present(&mut pixels, &layout, false, false);
            assert_eq!(samples(&pixels), [0, 7, 4095, 1000]);
            assert_eq!(scale.top_of_low(Depth::Sixteen), Some(4095));
        }
    }

    #[test]
    fn any_number_of_levels_is_spread_and_comes_back() {
        for top in [1_u16, 99, 999, 4095, 65_534] {
            let multiplied: Vec<u16> =
                (0..=u32::from(top)).map(|level| rescale(level, top.into(), 65_535) as u16).collect();
            let (mut pixels, layout) = gray(&multiplied);
            let stated = Some(Stated { top, place: Place::Spread });
            let mut scale = Scale::take(LevelCount::Stated, stated, &mut pixels, &layout, None).unwrap();
            assert!(samples(&pixels).into_iter().eq(0..=top), "{top}");
            scale.present(&mut pixels, &layout, false, false);
            assert_eq!(samples(&pixels), multiplied);
        }
    }

    #[test]
    fn what_a_decoder_leaves_between_two_levels_is_of_the_nearer() {
        let between = |level: f64| (level * 65_535.0 / 4095.0) as u16;
        let (mut pixels, layout) = gray(&[between(7.4), between(7.6), between(4094.6), 65_535]);
        let stated = Some(Stated::spread(12));
        let scale = Scale::take(LevelCount::Stated, stated, &mut pixels, &layout, None).unwrap();
        assert_eq!(samples(&pixels), [7, 8, 4095, 4095]);
        assert_eq!(scale.levels, Levels::First(4096));
    }

    #[test]
    fn levels_whose_white_is_0_are_turned_around_among_themselves() {
        let low = Some(Stated { place: Place::Low, ..TWELVE });
        let (mut pixels, layout) = gray(&[0, 1, 4095]);
        let scale = Scale::take(LevelCount::Stated, low, &mut pixels, &layout, None).unwrap();
        scale.invert(&mut pixels, &layout);
        assert_eq!(samples(&pixels), [4095, 4094, 0]);
        // Samples above the levels, which stay as they are, are above them afterwards.
        assert_eq!(scale.level_of(65_535, Depth::Sixteen, true), 4096);
        assert_eq!(scale.level_of(4096, Depth::Sixteen, true), 65_535);
        let (mut pixels, layout) = gray(&[0, 1, 65_535]);
        Scale::default().invert(&mut pixels, &layout);
        assert_eq!(samples(&pixels), [65_535, 65_534, 0]);
    }

    #[test]
    fn a_sample_above_the_levels_is_refused() {
        let (mut pixels, layout) = gray(&[0, 4096]);
        let error = Scale::take(LevelCount::Number(4096), None, &mut pixels, &layout, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample 4096 is outside the stated range 0..4095; use another --levels, or --levels full"
        );
        assert!(Scale::take(LevelCount::Number(4097), None, &mut pixels, &layout, None).is_ok());
        assert!(Scale::take(LevelCount::Full, Some(TWELVE), &mut pixels, &layout, None).is_ok());
    }

    #[test]
    fn levels_in_the_upper_bits_are_seen_and_go_back_there() {
        let upper: Vec<u16> = (0..4096).map(|level| level << 4).collect();
        for keeps in [false, true] {
            let (mut pixels, layout) = gray(&upper);
            let mut scale = Scale::take(LevelCount::Seen, None, &mut pixels, &layout, None).unwrap();
            assert!(samples(&pixels).into_iter().eq(0..4096));
            assert_eq!(scale.levels, Levels::First(4096));
            assert_eq!(
                (0..4096).find(|&level| scale.presented(level, layout.depth, keeps, false) != level << 4),
                None
            );
            scale.present(&mut pixels, &layout, keeps, false);
            assert_eq!(samples(&pixels), upper);
            assert_eq!((scale.top_written(layout.depth), scale.top_of_low(layout.depth)), (65_535, None));
        }
    }

    #[test]
    fn lower_bits_say_how_many_levels_there_are_if_they_are_0_in_all_samples() {
        let seen = |of: &[u16]| {
            let (mut pixels, layout) = gray(of);
            Scale::take(LevelCount::Seen, None, &mut pixels, &layout, None).unwrap().levels
        };
        assert_eq!(seen(&[0, 1 << 1, 6 << 1]), Levels::First(32_768));
        assert_eq!(seen(&[0, 3 << 6, 5 << 7]), Levels::First(1024));
        assert_eq!(
            seen(&[0, 1 << 15]),
            Levels::First(256),
            "a picture of two levels has 8 bits nevertheless"
        );
        assert_eq!(seen(&[0, 0]), Levels::All, "nothing is known of black");
        assert_eq!(seen(&[0, 16, 17]), Levels::All);
        let mut late = vec![16; 3 * BLOCK];
        assert_eq!(seen(&late), Levels::First(4096));
        late.push(8);
        assert_eq!(seen(&late), Levels::First(8192));
        late.push(1);
        assert_eq!(seen(&late), Levels::All);
        let eight = Layout { width: 2, height: 1, pixel: Pixel::Gray, depth: Depth::Eight };
        let scale = Scale::take(LevelCount::Seen, None, &mut [16, 32], &eight, None).unwrap();
        assert_eq!(scale.levels, Levels::All);
    }

    #[test]
    fn lower_bits_that_are_said_to_be_0_have_to_be() {
        let count = |levels, shift| LevelCount::Upper { levels, shift };
        let take = |of: &[u16], count| {
            let (mut pixels, layout) = gray(of);
            let scale = Scale::take(count, Some(TWELVE), &mut pixels, &layout, None)?;
            Ok::<_, CodecError>((samples(&pixels), scale.levels))
        };
        assert_eq!(take(&[0, 65_520], count(4096, 4)).unwrap(), (vec![0, 4095], Levels::First(4096)));
        assert_eq!(take(&[0, 160], count(11, 4)).unwrap(), (vec![0, 10], Levels::First(11)));
        let why = take(&[0, 160], count(10, 4)).unwrap_err().to_string();
        assert!(why.starts_with("sample 10 is outside the stated range 0..9"), "{why}");
        let why = take(&[0, 160, 65_528], count(4096, 4)).unwrap_err().to_string();
        assert_eq!(
            why,
            "sample 65528 has data in its 4 unused low bits; use a smaller --shift, or leave it out"
        );
    }

    #[test]
    fn reduced_levels_fill_the_range_first() {
        let (mut pixels, layout) = gray(&[0, 2048, 4095]);
        let mut scale = Scale::take(LevelCount::Number(4096), None, &mut pixels, &layout, None).unwrap();
        scale.present(&mut pixels, &layout, true, true);
        assert_eq!(samples(&pixels), [0, rescale(2048, 4095, 65_535) as u16, 65_535]);
        assert_eq!(scale.levels, Levels::All);
    }
}
