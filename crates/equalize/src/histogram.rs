//! Counting samples.

use std::ops::Range;

use super::clip::Count;
use super::colour::{self, Plane};
use super::executor::{Executor, Pool, Team};
use super::level::Level;
use super::portable::{TABLES_8, TABLES_16};
use super::sample::Sample;
use super::simd;
use crate::{Depth, Layout, Pixel};

/// Pixels deinterleaved at a time, few enough for the block to stay in the L1 cache.
pub(super) const BLOCK: usize = 2048;

/// Which samples are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Counted {
    /// All of them.
    All,
    /// The samples of visible pixels: pixels without alpha, or with an alpha other than 0.
    Visible,
}

/// Running counts of samples that arrive in pieces.
pub struct Tally {
    /// Tables of one count per level, one after another. No count exceeds `u32::MAX - room`.
    tables: Vec<u32>,
    /// Number of samples that the tables can take before one of their counts could overflow.
    room: usize,
    /// The sums of the tables' counts whenever the tables were emptied.
    counts: Vec<u64>,
    /// Whether the tables have been emptied.
    emptied: bool,
}

impl Tally {
    /// Makes an empty tally for samples of 256 or 65536 levels.
    pub fn new(levels: usize) -> Self {
        let tables = if levels == u8::LEVELS { TABLES_8 } else { TABLES_16 };
        Self {
            tables: vec![0; tables * levels],
            room: u32::MAX as usize,
            counts: vec![0; levels],
            emptied: false,
        }
    }

    /// Forgets everything counted.
    pub fn clear(&mut self) {
        self.clear_range(0..self.counts.len());
    }

    /// Forgets everything counted, if all of it was of these levels.
    pub(super) fn clear_range(&mut self, levels: Range<usize>) {
        if self.room < u32::MAX as usize {
            for table in self.tables.chunks_exact_mut(self.counts.len()) {
                table[levels.clone()].fill(0);
            }
            self.room = u32::MAX as usize;
        }
        if self.emptied {
            self.counts[levels].fill(0);
            self.emptied = false;
        }
    }

    /// Merges the counts of these levels into one level.
    pub(super) fn join(&mut self, levels: Range<usize>, one: usize) {
        for table in self.tables.chunks_exact_mut(self.counts.len()) {
            // No sum of a table's counts is above `u32::MAX - room`.
            let sum = table[levels.clone()].iter_mut().map(std::mem::take).sum();
            table[one] = sum;
        }
        if self.emptied {
            self.counts[one] = self.counts[levels].iter_mut().map(std::mem::take).sum();
        }
    }

    /// Counts more samples.
    ///
    /// # Panics
    /// If the samples do not have as many levels as this tally.
    pub fn add<S: Sample>(&mut self, samples: &[S]) {
        self.add_rows(samples, 0);
    }

    /// Counts more samples, in rows of `width`, or 0 if they are not in rows.
    ///
    /// Neighbouring rows tend to be alike, which some implementations exploit.
    ///
    /// # Panics
    /// If the samples do not have as many levels as this tally.
    pub fn add_rows<S: Sample>(&mut self, samples: &[S], width: usize) {
        assert_eq!(self.counts.len(), S::LEVELS, "a tally counts one depth");
        let mut rest = samples;
        while rest.len() > self.room {
            let (now, later) = rest.split_at(self.room);
            S::count(now, width, &mut self.tables);
            self.empty_tables();
            rest = later;
        }
        S::count(rest, width, &mut self.tables);
        self.room -= rest.len();
    }

    /// Returns how often each level occurred.
    pub fn counts(&mut self) -> &[u64] {
        self.empty_tables();
        &self.counts
    }

    /// Adds the counts of another tally.
    fn merge(&mut self, other: &mut Self) {
        self.empty_tables();
        self.counts.iter_mut().zip(other.counts()).for_each(|(sum, count)| *sum += count);
    }

    /// Writes the counts of these levels to the front of `counts`, and returns that part.
    #[inline(always)]
    pub(super) fn sum<'a, C: Count>(&self, levels: Range<usize>, counts: &'a mut [C]) -> &'a mut [C] {
        let counts = &mut counts[..levels.len()];
        counts.fill(C::ZERO);
        for table in self.tables.chunks_exact(self.counts.len()) {
            for (count, &part) in counts.iter_mut().zip(&table[levels.clone()]) {
                *count = *count + C::from(part);
            }
        }
        if self.emptied {
            for (count, &earlier) in counts.iter_mut().zip(&self.counts[levels]) {
                *count = *count + C::at_most(earlier);
            }
        }
        counts
    }

    fn empty_tables(&mut self) {
        for table in self.tables.chunks_exact_mut(self.counts.len()) {
            for (count, part) in self.counts.iter_mut().zip(table) {
                *count += u64::from(std::mem::take(part));
            }
        }
        self.emptied = true;
        self.room = u32::MAX as usize;
    }
}

/// Counts one plane of interleaved samples.
///
/// They are whole rows of `width` pixels, or any number of pixels if `width` is 0.
///
/// # Panics
/// If the samples do not have as many levels as the tally.
pub fn add_plane<S: Sample>(
    samples: &[S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
    counted: Counted,
    tally: &mut Tally,
) {
    if plane.is_of_all_samples(pixel) {
        return tally.add_rows(samples, width * pixel.channels());
    }
    let skip = counted == Counted::Visible && pixel.has_alpha();
    let mut buffer = [S::zeroed(); BLOCK];
    for block in samples.chunks(BLOCK * pixel.channels()) {
        let values = &mut buffer[..block.len() / pixel.channels()];
        for &part in plane.parts() {
            colour::read(block, pixel, part, values);
            let kept = if skip { keep_visible(block, pixel, values) } else { values.len() };
            tally.add(&values[..kept]);
        }
    }
}

/// The buffers of a thread, including a tally.
pub(super) trait Counting {
    /// Returns the tally, which may hold earlier counts.
    fn tally(&mut self) -> &mut Tally;
}

/// Counts one plane of a picture, as [`add_plane`] does, and returns how often each level occurs.
pub(super) fn count_plane<'t, S: Sample, T: Counting + Default + Send, E: Executor>(
    samples: &[S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
    counted: Counted,
    threads: &'t mut Pool<T>,
    team: &Team<'_, E>,
) -> &'t [u64] {
    threads.all().iter_mut().for_each(|thread| thread.tally().clear());
    let row = width.max(1) * pixel.channels();
    let length = team.piece(samples.len()).next_multiple_of(row);
    team.for_each(samples.chunks(length).collect(), |samples| {
        threads.with(|thread| add_plane(samples, width, pixel, plane, counted, thread.tally()));
    });
    threads.with(|_| ());
    let mut tallies = threads.all().iter_mut().map(Counting::tally);
    let total = tallies.next().expect("this thread has one");
    tallies.for_each(|tally| total.merge(tally));
    total.counts()
}

/// Moves the values of visible pixels to the front and returns how many there are.
fn keep_visible<S: Sample>(block: &[S], pixel: Pixel, values: &mut [S]) -> usize {
    let mut buffer = [S::zeroed(); BLOCK];
    let alphas = &mut buffer[..values.len()];
    colour::read(block, pixel, Plane::Channel(pixel.channels() - 1), alphas);
    // Almost always no pixel is transparent, and all values stay where they are.
    if simd::vectorized!(alphas.iter().fold(true, |all, alpha| all & (alpha.level() != 0))) {
        return values.len();
    }
    let mut kept = 0;
    for (at, alpha) in alphas.iter().enumerate() {
        values[kept] = values[at];
        kept += usize::from(alpha.level() != 0);
    }
    kept
}

/// Returns the counts of one plane of a picture: 256 or 65536.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], or if it holds 16-bit samples at an odd
/// address.
pub fn of_plane(pixels: &[u8], layout: &Layout, plane: Plane, counted: Counted) -> Vec<u64> {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    let (mut tally, width) = (Tally::new(layout.depth.levels()), layout.width as usize);
    match layout.depth {
        Depth::Eight => add_plane(pixels, width, layout.pixel, plane, counted, &mut tally),
        Depth::Sixteen => {
            add_plane::<u16>(bytemuck::cast_slice(pixels), width, layout.pixel, plane, counted, &mut tally);
        }
    }
    tally.counts().to_vec()
}

/// Returns the bin of a level.
///
/// `levels` levels are divided among `bins` bins as evenly as integers allow.
pub const fn bin(level: usize, bins: usize, levels: usize) -> usize {
    level * bins / levels
}

/// Merges the counts of all levels into `bins` bins.
///
/// # Panics
/// If `bins` is 0 or greater than the number of counts.
pub fn rebin(counts: &[u64], bins: usize) -> Vec<u64> {
    assert!((1..=counts.len()).contains(&bins), "one bin at least, and no more than levels");
    let mut merged = vec![0; bins];
    for (level, &count) in counts.iter().enumerate() {
        merged[bin(level, bins, counts.len())] += count;
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: u32, pixel: Pixel, depth: Depth) -> Layout {
        Layout { width, height: 1, pixel, depth }
    }

    fn occurring(counts: &[u64]) -> Vec<(usize, u64)> {
        counts.iter().copied().enumerate().filter(|&(_, n)| n > 0).collect()
    }

    #[test]
    fn gray_counts_every_sample() {
        let counts = of_plane(
            &[3, 3, 255, 0, 3],
            &layout(5, Pixel::Gray, Depth::Eight),
            Plane::Channel(0),
            Counted::All,
        );
        assert_eq!(occurring(&counts), [(0, 1), (3, 3), (255, 1)]);
    }

    #[test]
    fn sixteen_bit_samples_are_counted_as_such() {
        let samples = [1_u16, 65535, 256, 256, 1, 256];
        let counts = of_plane(
            bytemuck::cast_slice(&samples),
            &layout(6, Pixel::Gray, Depth::Sixteen),
            Plane::Channel(0),
            Counted::All,
        );
        assert_eq!(occurring(&counts), [(1, 2), (256, 3), (65535, 1)]);
    }

    #[test]
    fn transparent_pixels_count_only_on_request() {
        let pixels = [9, 255, 9, 0, 8, 1, 7, 0];
        let layout = layout(4, Pixel::GrayAlpha, Depth::Eight);
        let gray = Plane::Channel(0);
        assert_eq!(occurring(&of_plane(&pixels, &layout, gray, Counted::Visible)), [(8, 1), (9, 1)]);
        assert_eq!(occurring(&of_plane(&pixels, &layout, gray, Counted::All)), [(7, 1), (8, 1), (9, 2)]);
    }

    #[test]
    fn each_channel_and_luma_of_colour() {
        let pixels = [10, 20, 30, 255, 10, 21, 31, 0, 255, 255, 255, 9];
        let layout = layout(3, Pixel::Rgba, Depth::Eight);
        let counts = |plane| occurring(&of_plane(&pixels, &layout, plane, Counted::Visible));
        assert_eq!(counts(Plane::Channel(0)), [(10, 1), (255, 1)]);
        assert_eq!(counts(Plane::Channel(1)), [(20, 1), (255, 1)]);
        assert_eq!(counts(Plane::Channel(3)), [(9, 1), (255, 1)]);
        // (19595*10 + 38470*20 + 7471*30 + 32768) >> 16 = 18
        assert_eq!(counts(Plane::Luma), [(18, 1), (255, 1)]);
    }

    #[test]
    fn a_full_table_is_emptied_before_it_overflows() {
        let mut tally = Tally::new(256);
        tally.add(&[5_u8; 10]);
        tally.room = 7;
        tally.add(&[5_u8; 20]);
        assert_eq!(tally.room, u32::MAX as usize - 13);
        assert_eq!(occurring(tally.counts()), [(5, 30)]);
    }

    #[test]
    fn bins_share_the_levels() {
        let merged = rebin(&[1; 256], 3);
        assert_eq!(merged, [86, 85, 85]);
        assert_eq!(rebin(&[2; 256], 256), [2; 256]);
        assert_eq!(rebin(&[2; 256], 1), [512]);
    }
}
