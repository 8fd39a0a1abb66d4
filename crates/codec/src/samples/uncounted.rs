//! Pixels that do not count: those under a mask, and those with the no-data level.
//!
//! While devices work on the picture these pixels have an alpha of 0, and the picture may get alpha
//! for this alone. Before it is encoded they get their own alpha back, or the picture loses it
//! again, and pixels that stay as they are get their levels back.

use std::ops::Range;

use crate::CodecError;
use crate::io::reader::resize;
use crate::samples::size::Size;
use crate::samples::stated::{Place, Stated};
use crate::samples::{drop_last, pixels_of, rescale};
use equalize::{Depth, Layout, Pixel};

/// The pixels of a picture that count.
#[derive(Debug)]
pub struct Mask {
    width: u32,
    height: u32,
    /// For each pixel, 0 if it does not count.
    counts: Vec<u8>,
    /// Whether the pixels that do not count stay as they are.
    keeps: bool,
}

impl Mask {
    /// Returns the mask of gray pixels of this layout at the front of `slot`.
    ///
    /// Black and transparent pixels do not count; they stay as they are if it `keeps` them.
    pub(crate) fn of_pixels(layout: &Layout, slot: &[u8], keeps: bool) -> Result<Self, CodecError> {
        assert_eq!(layout.pixel.colour_channels(), 1, "a mask is gray");
        let mut counts = Vec::new();
        resize(&mut counts, layout.pixels() as usize)?;
        let pixels = slot[..layout.bytes() as usize].chunks_exact(layout.pixel_bytes());
        for (counts, pixel) in counts.iter_mut().zip(pixels) {
            let mut samples = pixel.chunks_exact(layout.depth.bytes());
            *counts = samples.all(|sample| sample.iter().any(|&byte| byte != 0)).into();
        }
        Ok(Self { width: layout.width, height: layout.height, counts, keeps })
    }

    /// Returns the mask that a picture has of its own, or rows of it; what it hides stays as it is.
    pub(crate) fn of_picture(Size { width, height }: Size, counts: Vec<u8>) -> Self {
        Self { width, height, counts, keeps: true }
    }

    /// Returns the mask of pixels that count by both, of which the other one is the picture's own.
    fn with(&self, own: &Self) -> Result<Self, CodecError> {
        let mut counts = Vec::new();
        resize(&mut counts, own.counts.len())?;
        let both = self.counts.iter().cycle().zip(&own.counts);
        counts
            .iter_mut()
            .zip(both)
            .for_each(|(counts, (one, other))| *counts = if *one == 0 { 0 } else { *other });
        Ok(Self { counts, ..*own })
    }

    /// Returns the mask of pixels that count by all that there are.
    pub(crate) fn of_both(of_user: Option<&Self>, own: Option<Self>) -> Result<Option<Self>, CodecError> {
        match (of_user, own) {
            (Some(of_user), Some(own)) => Ok(Some(Self { keeps: of_user.keeps, ..of_user.with(&own)? })),
            (_, own) => Ok(own),
        }
    }

    /// Returns some rows of it.
    ///
    /// # Panics
    /// If it has fewer rows.
    #[must_use]
    pub fn rows(mut self, rows: Range<u32>) -> Self {
        let width = self.width as usize;
        self.counts.truncate(rows.end as usize * width);
        self.counts.drain(..rows.start as usize * width);
        Self { height: rows.end - rows.start, ..self }
    }

    /// Returns it with another one of the same width below.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn with_below(mut self, below: &Self) -> Result<Self, CodecError> {
        let length = self.counts.len();
        resize(&mut self.counts, length + below.counts.len())?;
        self.counts[length..].copy_from_slice(&below.counts);
        Ok(Self { height: self.height + below.height, ..self })
    }

    /// Returns its width and height.
    pub fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// Returns the bytes of heap that it takes.
    pub fn heap_bytes(&self) -> u64 {
        self.counts.len() as u64
    }
}

/// The treatment of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It counts, and changes.
    Counts,
    /// It counts, and changes. Some of its colours, but not all, have the no-data level.
    Partly,
    /// It does not count, and changes like others.
    Changes,
    /// It does not count, and stays as it is.
    Stays,
}

impl Fate {
    fn counts(self) -> bool {
        matches!(self, Self::Counts | Self::Partly)
    }
}

/// The pixels of a picture that do not count.
#[derive(Debug)]
pub(crate) struct Uncounted {
    /// The fate of each pixel.
    fates: Vec<Fate>,
    /// Whether the picture has alpha for them alone.
    added_alpha: bool,
    /// The former samples of pixels that do not count: colours if they stay, and any own alpha.
    had: Vec<u8>,
}

/// Returns the layout of pixels that need alpha because some may not count.
pub(crate) fn with_alpha(layout: Layout) -> Layout {
    let pixel = match layout.pixel {
        Pixel::Gray | Pixel::GrayAlpha => Pixel::GrayAlpha,
        Pixel::Rgb | Pixel::Rgba => Pixel::Rgba,
    };
    Layout { pixel, ..layout }
}

/// Returns the most bytes of heap that pixels take because some do not count.
///
/// The layout is without an alpha that is added.
pub(crate) fn heap_bytes(layout: &Layout) -> u64 {
    layout.pixels().saturating_mul(1 + layout.pixel_bytes() as u64)
}

/// Returns the fate of each pixel; `None` if all count.
///
/// The `mask` has the picture's width, and is repeated for each frame of an animation. `no_data` is
/// the sample of pixels without data.
pub(crate) fn fates(
    pixels: &[u8],
    layout: &Layout,
    mask: Option<&Mask>,
    no_data: Option<u16>,
) -> Result<Option<Vec<Fate>>, CodecError> {
    if mask.is_none() && no_data.is_none() {
        return Ok(None);
    }
    let mut fates = Vec::new();
    fates.try_reserve_exact(layout.pixels() as usize).map_err(|_| CodecError::OutOfMemory { bytes: None })?;
    match layout.depth {
        Depth::Eight => {
            let none = no_data.map(|sample| [sample as u8]);
            add_fates(pixels.as_chunks().0, layout.pixel, mask, none, &mut fates);
        }
        Depth::Sixteen => {
            let none = no_data.map(u16::to_ne_bytes);
            add_fates(pixels.as_chunks().0, layout.pixel, mask, none, &mut fates);
        }
    }
    Ok(fates.iter().any(|fate| *fate != Fate::Counts).then_some(fates))
}

fn add_fates<const BYTES: usize>(
    samples: &[[u8; BYTES]],
    pixel: Pixel,
    mask: Option<&Mask>,
    none: Option<[u8; BYTES]>,
    fates: &mut Vec<Fate>,
) {
    let colours = pixel.colour_channels();
    let keeps = mask.is_some_and(|mask| mask.keeps);
    let mut covers = mask.into_iter().flat_map(|mask| mask.counts.iter().cycle());
    for samples in samples.chunks_exact(pixel.channels()) {
        let is_covered = covers.next() == Some(&0);
        let without_data = samples[..colours].iter().filter(|sample| Some(**sample) == none).count();
        fates.push(match (is_covered, without_data) {
            (_, without) if without == colours => Fate::Stays,
            (true, _) if keeps => Fate::Stays,
            (true, _) => Fate::Changes,
            (false, 0) => Fate::Counts,
            (false, _) => Fate::Partly,
        });
    }
}

/// Returns the decoded sample of a file's level, with `stated` levels; `None` if no sample has it.
pub(crate) fn sample_of(level: f64, depth: Depth, stated: Option<Stated>) -> Option<u16> {
    let range = (depth.levels() - 1) as u32;
    let spread = stated.filter(|stated| stated.place == Place::Spread).map(|stated| u32::from(stated.top));
    let top = spread.unwrap_or(range);
    if level.fract() != 0.0 || !(0.0..=f64::from(top)).contains(&level) {
        return None;
    }
    Some(rescale(level as u32, top, range) as u16)
}

impl Uncounted {
    /// Hides pixels at the front of `slot`, which has room for alpha. Returns their layout with it.
    pub(crate) fn hide(
        fates: Vec<Fate>,
        slot: &mut [u8],
        layout: Layout,
    ) -> Result<(Layout, Self), CodecError> {
        let added_alpha = !layout.pixel.has_alpha();
        let (sample, pixel) = (layout.depth.bytes(), layout.pixel_bytes());
        let colours = layout.pixel.colour_channels() * sample;
        let length = fates.iter().map(|fate| kept(*fate, colours, pixel).len()).sum();
        let mut had = Vec::new();
        resize(&mut had, length)?;
        let mut rest = &mut had[..];
        for (fate, pixel) in fates.iter().zip(pixels_of(&layout, slot).chunks_exact_mut(pixel)) {
            let (now, later) = rest.split_at_mut(kept(*fate, colours, pixel.len()).len());
            now.copy_from_slice(&pixel[kept(*fate, colours, pixel.len())]);
            rest = later;
            if !fate.counts() && !added_alpha {
                pixel[colours..].fill(0);
            }
        }
        if !added_alpha {
            return Ok((layout, Self { fates, added_alpha, had }));
        }
        let wide = with_alpha(layout);
        let slot = pixels_of(&wide, slot);
        match layout.depth {
            Depth::Eight => add_alpha::<1>(slot.as_chunks_mut().0, layout.pixel.channels(), &fates),
            Depth::Sixteen => add_alpha::<2>(slot.as_chunks_mut().0, layout.pixel.channels(), &fates),
        }
        Ok((wide, Self { fates, added_alpha, had }))
    }

    /// Gives the pixels at the front of `slot` their former samples back.
    ///
    /// Returns their layout, and the fate of each.
    pub(crate) fn reveal(self, slot: &mut [u8], layout: Layout) -> (Layout, Vec<Fate>) {
        let without = match layout.pixel {
            Pixel::GrayAlpha if self.added_alpha => Layout { pixel: Pixel::Gray, ..layout },
            Pixel::Rgba if self.added_alpha => Layout { pixel: Pixel::Rgb, ..layout },
            _ => layout,
        };
        let slot = pixels_of(&layout, slot);
        if self.added_alpha {
            drop_last(slot, layout.pixel_bytes(), without.pixel_bytes());
        }
        let colours = without.pixel.colour_channels() * without.depth.bytes();
        let mut rest = &self.had[..];
        for (fate, pixel) in self.fates.iter().zip(slot.chunks_exact_mut(without.pixel_bytes())) {
            let kept = kept(*fate, colours, pixel.len());
            let (now, later) = rest.split_at(kept.len());
            pixel[kept].copy_from_slice(now);
            rest = later;
        }
        (without, self.fates)
    }

    /// Returns the bytes of heap in use.
    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.fates.len() + self.had.len()) as u64
    }
}

/// Adds alpha to pixels at the front of `samples`: 0 for pixels that do not count.
fn add_alpha<const BYTES: usize>(samples: &mut [[u8; BYTES]], channels: usize, fates: &[Fate]) {
    let wide = channels + 1;
    // A sample never moves onto one before it, which is still to be moved.
    for (at, fate) in fates.iter().enumerate().rev() {
        for channel in (0..channels).rev() {
            samples[at * wide + channel] = samples[at * channels + channel];
        }
        samples[at * wide + channels] = [if fate.counts() { 0xff } else { 0 }; BYTES];
    }
}

/// Returns the bytes of a pixel that are kept; the first are its colours.
fn kept(fate: Fate, colours: usize, pixel: usize) -> std::ops::Range<usize> {
    match fate {
        Fate::Counts | Fate::Partly => 0..0,
        Fate::Changes => colours..pixel,
        Fate::Stays => 0..pixel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_pixels_have_no_alpha_meanwhile_and_come_back() {
        for (pixel, before, meanwhile) in [
            (Pixel::Gray, vec![5, 6, 7], vec![5, 255, 6, 0, 7, 0]),
            (Pixel::GrayAlpha, vec![5, 9, 6, 8, 7, 0], vec![5, 9, 6, 0, 7, 0]),
            (Pixel::Rgb, vec![1, 2, 3, 4, 5, 6, 7, 8, 9], vec![1, 2, 3, 255, 4, 5, 6, 0, 7, 8, 9, 0]),
        ] {
            let layout = Layout { width: 3, height: 1, pixel, depth: Depth::Eight };
            let mut slot = before.clone();
            slot.resize(12, 0);
            let fates = vec![Fate::Counts, Fate::Changes, Fate::Stays];
            let (wide, uncounted) = Uncounted::hide(fates, &mut slot, layout).unwrap();
            assert_eq!(slot[..wide.bytes() as usize], meanwhile);
            // All colours change on the device.
            let colours = layout.pixel.colour_channels();
            slot.chunks_mut(wide.pixel.channels())
                .for_each(|pixel| pixel[..colours].iter_mut().for_each(|sample| *sample += 100));
            assert_eq!(uncounted.reveal(&mut slot, wide).0, layout);
            let mut expected = before;
            let channels = layout.pixel.channels();
            expected
                .chunks_mut(channels)
                .take(2)
                .for_each(|pixel| pixel[..colours].iter_mut().for_each(|sample| *sample += 100));
            assert_eq!(slot[..layout.bytes() as usize], expected);
        }
    }

    #[test]
    fn a_pixel_has_no_data_if_all_of_its_colours_have_that_level() {
        let layout = Layout { width: 3, height: 1, pixel: Pixel::Rgb, depth: Depth::Eight };
        let of = |no_data| fates(&[0, 0, 0, 0, 0, 1, 7, 7, 7], &layout, None, Some(no_data)).unwrap();
        assert_eq!(of(0), Some(vec![Fate::Stays, Fate::Partly, Fate::Counts]));
        assert_eq!(of(7), Some(vec![Fate::Counts, Fate::Counts, Fate::Stays]));
        assert_eq!(of(2), None);
        for none in [0.5, -1.0, 256.0, f64::NAN] {
            assert_eq!(sample_of(none, Depth::Eight, None), None);
        }
    }

    #[test]
    fn the_level_is_that_of_the_file() {
        let layout = Layout { width: 2, height: 1, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let stated = Some(Stated { top: 4095, place: Place::Spread });
        let pixels: &[u8] = bytemuck::bytes_of(&[65_535_u16, 4095]);
        let sample = sample_of(4095.0, Depth::Sixteen, stated);
        assert_eq!(fates(pixels, &layout, None, sample).unwrap(), Some(vec![Fate::Stays, Fate::Counts]));
    }
}
