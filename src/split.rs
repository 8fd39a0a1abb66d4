//! `--split-channels`: one picture on several devices, a channel on each.
//!
//! A colour picture is decoded into a slot of the main process, as usual. Several threads then split it into planes, each in a slot of its
//! own on a device of its own, so that every device sees only its planes, over its own bus. The planes are [`Task`]s like any other
//! picture's pixels. Whichever comes back last completes the [`Join`], and the results are merged into the picture's own slot, where the
//! rest of the pipeline finds them as usual. Luma, which needs all channels, is counted here along the way.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};

use crate::pipeline::{Content, Finished, Picture, Task};
use crate::slot::Slot;
use crate::timings::Stage;
use equalize::histogram::Tally;
use equalize::planes::{self, PLANES};
use equalize::{Depth, Layout};
use equalize::{Sample, count};
use lanes::Order;

/// The slots that a split picture takes at once: its own, and one for each plane.
pub const SLOTS: usize = 1 + PLANES;

/// The fewest pixels that are worth starting a thread for.
const LEAST_PIXELS: usize = 1 << 19;

/// A picture whose planes are on devices.
pub struct Join {
    input: PathBuf,
    /// How many threads may work on the picture.
    threads: usize,
    /// `None` once the picture is complete or given up.
    state: Mutex<Option<Parts>>,
}

/// The parts of a picture that are back.
struct Parts {
    picture: Box<Picture>,
    order: Order,
    /// The picture's own slot.
    whole: Slot,
    planes: [Option<Slot>; PLANES],
}

/// Splits the picture in the slot `whole` into planes, one in each of `slots`; returns their tasks.
///
/// # Panics
/// If the picture has no colour, or there are not as many slots as planes.
pub fn tasks(
    picture: Box<Picture>,
    order: Order,
    mut whole: Slot,
    slots: Vec<Slot>,
    threads: usize,
) -> impl Iterator<Item = Task> {
    let layout = picture.decoded.layout;
    let plane_layout = planes::layout(&layout).expect("the picture has colour");
    let mut slots: [Slot; PLANES] = slots.try_into().unwrap_or_else(|_| panic!("a slot a plane"));
    let (pixels, counts) = order.parts(whole.bytes_mut(), &layout);
    let to = slots.each_mut().map(|slot| order.parts(slot.bytes_mut(), &plane_layout).0);
    let luma = separate(pixels, &layout, to, !counts.is_empty(), threads);
    if let Some(first) = counts.chunks_mut(count::length(&layout)).next() {
        luma_of(first, &layout).copy_from_slice(&luma);
    }
    let input = picture.work.job.input.clone();
    let parts = Parts { picture, order, whole, planes: [const { None }; PLANES] };
    let join = Arc::new(Join { input, threads, state: Mutex::new(Some(parts)) });
    let task = move |(number, slot)| Task::plane(slot, plane_layout, order, number, Arc::clone(&join));
    slots.into_iter().enumerate().map(task)
}

impl Join {
    /// Returns the path of the picture's file.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Takes back a finished plane; returns the picture if that was the last one.
    pub fn arrive(&self, number: usize, slot: Slot) -> Option<Finished> {
        let mut state = self.lock();
        let parts = state.as_mut()?;
        parts.planes[number] = Some(slot);
        if parts.planes.iter().any(Option::is_none) {
            return None;
        }
        let parts = state.take()?;
        drop(state);
        Some(parts.put_together(self.threads))
    }

    /// Gives up the picture because a plane is lost; returns it to be done again, or `None` if it was given up before.
    pub fn give_up(&self) -> Option<Box<Picture>> {
        self.lock().take().map(|parts| parts.picture)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Parts>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn put_together(self, threads: usize) -> Finished {
        let Self { mut picture, order, mut whole, planes } = self;
        picture.clock.mark(Stage::Device);
        let layout = picture.decoded.layout;
        let plane_layout = planes::layout(&layout).expect("the picture has colour");
        let mut planes = planes.map(|slot| slot.expect("all planes are there"));
        let devices = planes.each_ref().map(Slot::device).to_vec();
        let (pixels, counts) = order.parts(whole.bytes_mut(), &layout);
        let from = planes.each_mut().map(|slot| order.parts(slot.bytes_mut(), &plane_layout));
        let plane_counts = from.each_ref().map(|(_, counts)| &**counts);
        let mut stages = counts.chunks_mut(count::length(&layout));
        if let Some(first) = stages.next() {
            collect(first, plane_counts, &layout, 0);
        }
        if order.equalizes() {
            let after = stages.next();
            let plane_pixels = from.each_ref().map(|(pixels, _)| &**pixels);
            let luma = merge(plane_pixels, &layout, pixels, after.is_some(), threads);
            if let Some(after) = after {
                collect(after, plane_counts, &layout, 1);
                luma_of(after, &layout).copy_from_slice(&luma);
            }
        }
        Finished { slot: whole, content: Content::Pixels, order, picture, devices }
    }
}

/// Copies the planes' counts of a stage (0: before equalization, 1: after) to their places among those of the whole picture.
fn collect(counts: &mut [u64], planes: [&[u64]; PLANES], layout: &Layout, stage: usize) {
    let levels = layout.depth.levels();
    // A plane counts itself, and alpha if there is one.
    let each = levels * planes::plane_channels(layout.pixel);
    for (to, plane) in counts.chunks_mut(levels).zip(planes) {
        to.copy_from_slice(&plane[stage * each..][..levels]);
    }
    if layout.pixel.has_alpha() {
        counts[PLANES * levels..][..levels].copy_from_slice(&planes[0][stage * each + levels..][..levels]);
    }
}

/// Returns the counts of luma, which are the last of a stage.
fn luma_of<'c>(counts: &'c mut [u64], layout: &Layout) -> &'c mut [u64] {
    let start = counts.len() - layout.depth.levels();
    &mut counts[start..]
}

/// Splits pixels into planes; returns the counts of their luma if `luma` is set.
fn separate(
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
fn merge(
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

/// Works on all bands, on this thread and on one more for each further band, as far as the system provides threads. With `levels`, each
/// thread counts into a tally of that many levels; returns the sums of these tallies.
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
        let start = |_| Builder::new().name("band".into()).spawn_scoped(scope, some).ok();
        let helpers: Vec<_> = (0..helpers).map_while(start).collect();
        let own = some();
        let others = helpers.into_iter().map(|helper| helper.join().expect("counting does not panic"));
        for counts in std::iter::once(own).chain(others) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    });
    sums
}
