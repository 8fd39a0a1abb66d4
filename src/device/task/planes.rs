//! The planes of a picture, separated and merged by several threads.
//!
//! The threads count luma along the way.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use equalize::histogram::Tally;
use equalize::planes::{self, PLANES};
use equalize::{Depth, Layout, Sample};

/// The fewest pixels that are worth starting a thread for.
const LEAST_PIXELS: usize = 1 << 19;

/// Returns the counts of luma, which are the last of a stage.
pub(super) fn luma_of<'c>(counts: &'c mut [u64], layout: &Layout) -> &'c mut [u64] {
    let start = counts.len() - layout.depth.levels();
    &mut counts[start..]
}

/// Splits pixels into planes; returns the counts of their luma if `luma` is set.
pub(super) fn separate(
    pixels: &[u8],
    layout: &Layout,
    planes: [&mut [u8]; PLANES],
    luma: bool,
    threads: usize,
) -> Vec<u64> {
    fn of<S: Sample>(
        samples: &[S],
        layout: &Layout,
        planes: [&mut [S]; PLANES],
        luma: bool,
        threads: usize,
    ) -> Vec<u64> {
        let band = band(layout, threads);
        let [red, green, blue] =
            planes.map(|plane| plane.chunks_mut(band * planes::plane_channels(layout.pixel)));
        let bands = samples.chunks(band * layout.pixel.channels()).zip(red).zip(green).zip(blue);
        in_bands(bands, luma.then_some(S::LEVELS), |(((samples, red), green), blue), tally| {
            planes::separate(samples, layout.pixel, [red, green, blue], tally);
        })
    }
    match layout.depth {
        Depth::Eight => of::<u8>(pixels, layout, planes, luma, threads),
        Depth::Sixteen => {
            let planes = planes.map(bytemuck::cast_slice_mut);
            of::<u16>(bytemuck::cast_slice(pixels), layout, planes, luma, threads)
        }
    }
}

/// Merges planes back into their pixels; returns the counts of the new luma if `luma` is set.
pub(super) fn merge(
    planes: [&[u8]; PLANES],
    layout: &Layout,
    pixels: &mut [u8],
    luma: bool,
    threads: usize,
) -> Vec<u64> {
    fn of<S: Sample>(
        planes: [&[S]; PLANES],
        layout: &Layout,
        samples: &mut [S],
        luma: bool,
        threads: usize,
    ) -> Vec<u64> {
        let band = band(layout, threads);
        let [red, green, blue] =
            planes.map(|plane| plane.chunks(band * planes::plane_channels(layout.pixel)));
        let bands = samples.chunks_mut(band * layout.pixel.channels()).zip(red).zip(green).zip(blue);
        in_bands(bands, luma.then_some(S::LEVELS), |(((samples, red), green), blue), tally| {
            planes::merge([red, green, blue], layout.pixel, samples, tally);
        })
    }
    match layout.depth {
        Depth::Eight => of::<u8>(planes, layout, pixels, luma, threads),
        Depth::Sixteen => {
            let planes = planes.map(bytemuck::cast_slice);
            of::<u16>(planes, layout, bytemuck::cast_slice_mut(pixels), luma, threads)
        }
    }
}

/// Returns the number of pixels in each thread's band.
fn band(layout: &Layout, threads: usize) -> usize {
    (layout.pixels() as usize).div_ceil(threads).max(LEAST_PIXELS)
}

/// Works on all bands, on this thread and on one more for each further band.
///
/// There may be fewer threads if the system does not provide them. With `levels`, each thread
/// counts into a tally of that many levels; returns the sums of these tallies.
fn in_bands<B: Send>(
    bands: impl ExactSizeIterator<Item = B> + Send,
    levels: Option<usize>,
    work: impl Fn(B, Option<&mut Tally>) + Sync,
) -> Vec<u64> {
    let helpers = bands.len().saturating_sub(1);
    let bands = Mutex::new(bands);
    let next = || bands.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || {
        let mut tally = levels.map(Tally::new);
        while let Some(band) = next() {
            work(band, tally.as_mut());
        }
        tally.map_or(Vec::new(), |mut tally| tally.counts().to_vec())
    };
    let mut sums = vec![0; levels.unwrap_or(0)];
    thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers)
            .map_while(|_| Builder::new().name("band".into()).spawn_scoped(scope, some).ok())
            .collect();
        let own = some();
        let others = helpers.into_iter().map(|helper| helper.join().expect("counting does not panic"));
        for counts in std::iter::once(own).chain(others) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    });
    sums
}
