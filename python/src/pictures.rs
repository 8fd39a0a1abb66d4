//! The methods on pictures with any strides, on several threads.

use std::cell::Cell;
use std::thread::LocalKey;

use bytemuck::cast_slice;
use equalize::colour::Plane;
use equalize::histogram::{Counted, Tally, add_plane};
use equalize::{Colour, Levels, Method, Operation, Pixel, Sample, Scratch, apply, count, equalize_on, lut};
use numpy::ndarray::{Array3, ArrayView2, ArrayView3, ArrayView4, ArrayViewMut2, Axis, Slice, s};

use crate::threads::{Threads, share, worthwhile};
use crate::views::{Batch, Picture, bytes_mut, layout, pixel, read, read_masked};

/// The number of samples that are copied and changed at a time.
///
/// They are few enough to stay in the L2 cache between the two.
const BAND: usize = 1 << 16;

/// Samples that are gathered at a time to be counted: enough for the fast ways of counting.
const GATHERED: usize = 1 << 18;

/// The pixels of each picture that count, marked by other values than 0: number, height, width.
pub(crate) type Mask<'a> = ArrayView3<'a, u8>;

/// The planes to count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planes {
    /// Each channel, alpha included.
    Channels,
    /// The planes that are equalized.
    Equalized(Colour),
}

/// A plane, and its pixels that count.
#[derive(Clone, Copy)]
struct CountedPlane {
    plane: Plane,
    pixels: Counted,
}

impl Planes {
    fn of(self, pixel: Pixel) -> Vec<CountedPlane> {
        match self {
            Self::Channels => (0..pixel.channels())
                .map(Plane::Channel)
                .map(|plane| CountedPlane { plane, pixels: count::counted(pixel, plane) })
                .collect(),
            Self::Equalized(colour) => {
                let visible = |&plane| CountedPlane { plane, pixels: Counted::Visible };
                colour.to_equalize(pixel).iter().map(visible).collect()
            }
        }
    }
}

/// Counts planes of pictures.
struct Counter<S> {
    planes: Vec<CountedPlane>,
    /// One for each plane, and perhaps more from earlier calls.
    tallies: Vec<Tally>,
    gathered: Vec<S>,
}

impl<S> Default for Counter<S> {
    fn default() -> Self {
        Self { planes: Vec::new(), tallies: Vec::new(), gathered: Vec::new() }
    }
}

impl<S: Sample> Counter<S> {
    /// Makes it one of these planes.
    fn of(mut self, planes: &[CountedPlane]) -> Self {
        self.planes.clear();
        self.planes.extend_from_slice(planes);
        let number = self.tallies.len().max(planes.len());
        self.tallies.resize_with(number, || Tally::new(S::LEVELS));
        self
    }

    /// Returns the counts of a picture, one plane after another.
    fn counts(
        &mut self,
        picture: &ArrayView3<'_, S>,
        mask: Option<&ArrayView2<'_, u8>>,
        threads: usize,
    ) -> Vec<u64> {
        self.tallies.iter_mut().for_each(Tally::clear);
        if threads == 1 {
            self.add(picture, mask);
            return self.totals();
        }
        let height = picture.len_of(Axis(0));
        // More parts than threads, to keep any thread from waiting long for one that had to pause.
        let rows = height.div_ceil(4 * threads).max(GATHERED / (picture.len() / height)).max(1);
        let parts = (0..height).step_by(rows).map(|from| Slice::from(from..(from + rows).min(height)));
        let add = |counter: &mut Self, rows| {
            let mask = mask.map(|mask| mask.slice_axis(Axis(0), rows));
            counter.add(&picture.slice_axis(Axis(0), rows), mask.as_ref());
        };
        let mut counters = share(threads, parts, || Self::default().of(&self.planes), add).into_iter();
        let mut totals = counters.next().map(|mut counter| counter.totals()).unwrap_or_default();
        for mut counter in counters {
            totals.iter_mut().zip(counter.totals()).for_each(|(total, part)| *total += part);
        }
        totals
    }

    fn add(&mut self, picture: &ArrayView3<'_, S>, mask: Option<&ArrayView2<'_, u8>>) {
        let (height, width, channels) = picture.dim();
        if let (Some(samples), None) = (picture.as_slice(), mask) {
            return add_planes(&self.planes, &mut self.tallies, samples, width, picture);
        }
        let rows = (GATHERED / (width * channels)).max(1);
        for from in (0..height).step_by(rows) {
            let rows = Slice::from(from..(from + rows).min(height));
            let band = picture.slice_axis(Axis(0), rows);
            match mask.map(|mask| mask.slice_axis(Axis(0), rows)) {
                Some(mask) => read_masked(&band, &mask, &mut self.gathered),
                None => {
                    self.gathered.resize(band.len(), S::zeroed());
                    read(&band, &mut self.gathered);
                }
            }
            let width = if mask.is_some() { 0 } else { width };
            add_planes(&self.planes, &mut self.tallies, &self.gathered, width, picture);
        }
    }

    fn totals(&mut self) -> Vec<u64> {
        let tallies = self.tallies.iter_mut().zip(&self.planes);
        tallies.flat_map(|(tally, _)| tally.counts().iter().copied()).collect()
    }
}

fn add_planes<S: Sample>(
    planes: &[CountedPlane],
    tallies: &mut [Tally],
    samples: &[S],
    width: usize,
    picture: &ArrayView3<'_, S>,
) {
    let pixel = layout(picture).pixel;
    for (&CountedPlane { plane, pixels }, tally) in planes.iter().zip(tallies) {
        add_plane(samples, width, pixel, plane, pixels, tally);
    }
}

/// Counts the planes of each picture: number, plane, level. `threads` is as in [`worthwhile`].
pub(crate) fn histograms<S: Kept>(
    pictures: &ArrayView4<'_, S>,
    mask: Option<&Mask<'_>>,
    planes: Planes,
    threads: usize,
) -> Array3<u64> {
    let number = pictures.len_of(Axis(0));
    let planes = planes.of(pixel(pictures.len_of(Axis(3))));
    let mut counts = Array3::zeros((number, planes.len(), S::LEVELS));
    let threads = worthwhile(threads, pictures.len());
    let (across, within) = if number >= threads { (threads, 1) } else { (1, threads) };
    let items = pictures.outer_iter().zip(counts.outer_iter_mut()).enumerate();
    let start = || Worker::of(&planes);
    let workers =
        share(across, items, start, |worker, (at, (picture, counts)): (_, (_, ArrayViewMut2<'_, u64>))| {
            let mask = mask.map(|mask| mask.index_axis(Axis(0), at));
            let found = worker.counter.counts(&picture, mask.as_ref(), within);
            counts.into_iter().zip(found).for_each(|(to, from)| *to = from);
        });
    Worker::keep(workers, pictures.len() / number.max(1));
    counts
}

/// Returns the greatest sample of the first `channels` if it is above this many levels.
///
/// `threads` is as in [`worthwhile`].
pub(crate) fn beyond<S: Sample>(
    pictures: &ArrayView4<'_, S>,
    channels: usize,
    levels: Levels,
    threads: usize,
) -> Option<usize> {
    if !levels.are_fewer(S::DEPTH) {
        return None;
    }
    let (number, height, width, all) = pictures.dim();
    let rows = (BAND / (width * all)).max(1);
    let bands = (0..number).flat_map(|at| (0..height).step_by(rows).map(move |from| (at, from)));
    let highest = share(worthwhile(threads, pictures.len()), bands, S::zeroed, |highest, (at, from)| {
        let band = pictures.slice(s![at, from..(from + rows).min(height), .., ..channels]);
        *highest = band.fold(*highest, |highest, &sample| highest.max(sample));
    });
    let highest = highest.into_iter().max()?.level();
    (highest >= levels.number(S::DEPTH)).then_some(highest)
}

/// The operation on the pictures of a call.
pub(crate) struct Task<'a> {
    pub(crate) operation: Operation,
    /// The counts of the reference, if the method has one.
    pub(crate) reference: &'a [u64],
    pub(crate) mask: Option<Mask<'a>>,
    /// As in [`worthwhile`].
    pub(crate) threads: usize,
}

/// Memory that a thread keeps from picture to picture, and the calling one from call to call.
///
/// For small pictures, fresh memory takes longer than the work.
pub(crate) struct Worker<S> {
    counter: Counter<S>,
    luts: Vec<S>,
    scratch: Scratch,
    buffer: Vec<S>,
}

/// The largest pictures, in samples, after which it is kept for the next call.
///
/// It takes a few MiB then.
const SMALL: usize = 1 << 20;

impl<S> Default for Worker<S> {
    fn default() -> Self {
        let (luts, buffer) = (Vec::new(), Vec::new());
        Self { counter: Counter::default(), luts, scratch: Scratch::default(), buffer }
    }
}

/// Samples with a place where the calling thread keeps its worker.
pub(crate) trait Kept: Sample {
    /// Returns the place.
    fn kept() -> &'static LocalKey<Cell<Option<Worker<Self>>>>;
}

macro_rules! kept {
    ($($sample:ty)+) => {$(
        impl Kept for $sample {
            fn kept() -> &'static LocalKey<Cell<Option<Worker<Self>>>> {
                thread_local!(static KEPT: Cell<Option<Worker<$sample>>> = const { Cell::new(None) });
                &KEPT
            }
        }
    )+};
}
kept!(u8 u16);

impl<S: Kept> Worker<S> {
    /// Returns one that counts these planes: the one that was kept, if there is one.
    fn of(planes: &[CountedPlane]) -> Self {
        let Self { counter, luts, scratch, buffer } = S::kept().take().unwrap_or_default();
        Self { counter: counter.of(planes), luts, scratch, buffer }
    }

    /// Keeps the calling thread's worker, the first, after pictures of this many samples.
    fn keep(workers: Vec<Self>, samples: usize) {
        if samples <= SMALL {
            S::kept().set(workers.into_iter().next());
        }
    }
}

/// Enhances the contrast of pictures.
pub(crate) fn equalize<S: Kept>(batch: &mut Batch<'_, S>, task: &Task<'_>) {
    let number = batch.out.len_of(Axis(0));
    let whole = matches!(task.operation.method, Method::Clahe(_));
    let threads = worthwhile(task.threads, batch.out.len());
    let (across, within) = if number >= threads { (threads, 1) } else { (1, threads) };
    let planes = Planes::Equalized(task.operation.colour);
    let planes = planes.of(pixel(batch.out.len_of(Axis(3))));
    let start = || Worker::of(if whole { &[] } else { &planes });
    let workers = share(across, batch.pictures().enumerate(), start, |worker, (at, mut picture)| {
        if whole {
            let Worker { scratch, buffer, .. } = worker;
            return picture.change(within, buffer, |source, samples, layout| {
                let (source, samples) = (source.map(cast_slice), bytes_mut(samples));
                equalize_on(&Threads(within), source, samples, layout, &task.operation, &[], scratch);
            });
        }
        let mask = task.mask.as_ref().map(|mask| mask.index_axis(Axis(0), at));
        let counts = worker.counter.counts(&picture.before(), mask.as_ref(), within);
        worker.luts.resize(counts.len(), S::zeroed());
        let depth = layout(&picture.before()).depth;
        lut::fill(&task.operation, depth, &counts, task.reference, bytes_mut(&mut worker.luts));
        map(&mut picture, &Through { luts: &worker.luts, operation: &task.operation }, within);
    });
    Worker::keep(workers, batch.out.len() / number.max(1));
}

/// LUTs of an operation, one for each plane that it equalizes.
pub(crate) struct Through<'a, S> {
    pub(crate) luts: &'a [S],
    pub(crate) operation: &'a Operation,
}

/// Sends pictures through the same LUTs.
pub(crate) fn apply_luts<S: Sample>(batch: &mut Batch<'_, S>, through: &Through<'_, S>, threads: usize) {
    let threads = worthwhile(threads, batch.out.len());
    let number = batch.out.len_of(Axis(0));
    let (across, within) = if number >= threads { (threads, 1) } else { (1, threads) };
    share(across, batch.pictures(), || (), |(), mut picture| map(&mut picture, through, within));
}

fn map<S: Sample>(picture: &mut Picture<'_, S>, through: &Through<'_, S>, threads: usize) {
    let (_, width, channels) = picture.out.dim();
    let bands = picture.bands((BAND / (width * channels)).max(1));
    share(threads, bands, Vec::new, |buffer, mut band| {
        band.change(1, buffer, |source, samples, layout| {
            if let Some(source) = source {
                samples.copy_from_slice(source);
            }
            apply(bytes_mut(samples), layout, through.operation, cast_slice(through.luts));
        });
    });
}
