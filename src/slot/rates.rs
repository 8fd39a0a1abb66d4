//! The costs of pictures in this run: the processor time of each class, by the device that
//! equalized them, and the expected costs of the pictures to come.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codec::Format;
use equalize::{Depth, Layout};

/// The kind of device that equalizes a picture which the CPU decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The CPU, which then encodes it too.
    Cpu,
    /// A worker. The cores decode it into memory that the worker maps; they encode it from there,
    /// unless the worker does.
    Worker,
}

/// Pictures whose processor time is compared: those of one format, one depth and about one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    format: Format,
    depth: Depth,
    /// The logarithm to base 4 of the number of pixels.
    size: u32,
}

impl Class {
    /// Returns the class of a picture in a file of this format.
    pub fn new(format: Format, layout: &Layout) -> Self {
        Self { format, depth: layout.depth, size: layout.pixels().max(1).ilog2() / 2 }
    }
}

/// The pixels that devices decode in a second of wall-clock time.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    /// The begin of the present interval, and the bytes of pixels in it so far.
    interval: Option<(Duration, u64)>,
    /// Bytes a second in the last whole interval.
    last: Option<f64>,
    /// The number of whole intervals.
    intervals: u32,
}

impl Throughput {
    /// The length of an interval: some batches of pictures.
    const INTERVAL: Duration = Duration::from_millis(100);
    /// The number of intervals after which the last one shows the throughput. In the first second
    /// slots get their pages and are pinned.
    const ENOUGH: u32 = 10;

    /// Adds a picture that is done `at` this time.
    fn add(&mut self, at: Duration, bytes: u64) {
        let (begin, before) = self.interval.unwrap_or((at, 0));
        let (took, sum) = (at.saturating_sub(begin), before.saturating_add(bytes));
        if took < Self::INTERVAL {
            self.interval = Some((begin, sum));
        } else {
            // After a pause the interval would be longer than the work in it.
            if took < 2 * Self::INTERVAL {
                self.last = Some(sum as f64 / took.as_secs_f64());
                self.intervals = self.intervals.saturating_add(1);
            }
            self.interval = Some((at, 0));
        }
    }

    /// Returns the bytes a second, once they are known.
    fn get(&self) -> Option<f64> {
        self.last.filter(|_| self.intervals >= Self::ENOUGH)
    }
}

/// Processor time per byte of pixels, averaged over the latest pictures.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    nanoseconds: f64,
    pictures: u32,
}

impl Average {
    /// The share of the newest picture in the average, once there are enough. The first pictures in
    /// new memory cost more than later ones: the average has to forget them soon.
    const SHARE: f64 = 1.0 / 16.0;
    /// This many pictures make an average that is worth comparing.
    const ENOUGH: u32 = 16;

    fn add(&mut self, nanoseconds: f64) {
        self.pictures = self.pictures.saturating_add(1);
        let share = (1.0 / f64::from(self.pictures)).max(Self::SHARE);
        self.nanoseconds += (nanoseconds - self.nanoseconds) * share;
    }

    fn get(&self) -> Option<f64> {
        (self.pictures >= Self::ENOUGH).then_some(self.nanoseconds)
    }
}

/// The costs of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    cpu: Average,
    worker: Average,
    /// The number of requests for the worth of this class.
    asked: u32,
    /// The number of the last picture of this class.
    last: usize,
}

impl Costs {
    /// Returns the saving by a worker, in nanoseconds per byte; `None` as long as that is unknown.
    fn saved(&self) -> Option<f64> {
        Some(self.cpu.get()? - self.worker.get()?)
    }

    /// Returns whether the next picture goes the other way than it should.
    fn is_retried(&self) -> bool {
        let (cpu, worker) = (self.cpu.nanoseconds, self.worker.nanoseconds);
        let every = 100.0 * (cpu - worker).abs() / cpu.min(worker).max(f64::MIN_POSITIVE);
        self.asked.is_multiple_of(RETRIED.max(every as u32))
    }
}

/// One picture in this many goes the other way than it should, to see whether the costs are still
/// the same; one in more, if that way costs so much more that it would take longer than a hundredth
/// of the time of the others.
const RETRIED: u32 = 128;

/// A class counts for the worth of others until this many pictures have come after its last.
const RECENT: usize = 256;

/// The share of devices' throughput that all cores have to reach to decode JPEGs beside them.
///
/// Cores that are all busy slow down the devices' threads by more than they do themselves: 16 cores
/// do a thirteenth of the work of an H200, and cost it four tenths.
const WORTH_ADDING: f64 = 0.18;

/// The pixels of JPEGs that devices are presumed to decode in a second until that is measured, as
/// one H200 does. If cores took pictures meanwhile, the devices' first second would be as slow as
/// they are.
const PRESUMED: f64 = 2e10;

/// The least pixels of a picture for that presumption: a device takes small ones more slowly.
const OF_SOME_SIZE: u64 = 1 << 20;

/// The measurements so far.
#[derive(Debug)]
pub struct Rates {
    begin: Instant,
    measured: Mutex<Measured>,
}

impl Default for Rates {
    fn default() -> Self {
        Self { begin: Instant::now(), measured: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct Measured {
    decoded: Throughput,
    classes: HashMap<Class, Costs>,
    pictures: usize,
    /// The number of pages in addition to the first of each file.
    further_pages: usize,
    /// The processor time of all pictures.
    time: Duration,
    foreseen: Foreseen,
}

/// The known minimum of a core's time for pictures with headers that were read.
#[derive(Clone, Copy, Debug, Default)]
struct Foreseen {
    pictures: u32,
    /// The time by the parts that a GPU could decode.
    jpegs: Duration,
    codestreams: Duration,
    streams: Duration,
    others: Duration,
}

/// The codings that GPUs decode, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoders {
    /// JPEG.
    pub jpegs: bool,
    /// JPEG 2000.
    pub codestreams: bool,
    /// Streams of deflate.
    pub streams: bool,
}

impl Decoders {
    /// All codings that any GPU decodes.
    pub const ALL: Self = Self { jpegs: true, codestreams: true, streams: true };
}

/// The part of a picture that a GPU could decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decodable {
    /// All of it: it is a JPEG.
    Jpeg,
    /// Its codestream, of JPEG 2000.
    Codestream,
    /// Its strips or tiles, compressed by deflate.
    Streams,
    /// No part.
    Nothing,
}

impl Measured {
    /// Returns the most that a worker saves with the pictures that come at present.
    fn most_saved(&self) -> f64 {
        let recent = self.classes.values().filter(|costs| costs.last + RECENT > self.pictures);
        recent.filter_map(Costs::saved).fold(0.0, f64::max)
    }

    fn worth(&mut self, class: Class) -> f64 {
        let most = self.most_saved();
        let Some(costs) = self.classes.get_mut(&class) else { return 1.0 };
        costs.asked = costs.asked.wrapping_add(1);
        let worth = match (costs.saved(), costs.worker.get()) {
            (Some(saved), _) if saved > 0.0 => saved / most.max(saved),
            (Some(_), _) => 0.0,
            // Only the CPU's costs are unknown.
            (None, Some(_)) => return 0.0,
            (None, None) => return 1.0,
        };
        match costs.is_retried() {
            true if worth > 0.0 => 0.0,
            true => 1.0,
            false => worth,
        }
    }
}

impl Rates {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a picture of this many bytes, which took this much time of the cores. `way` is `None`
    /// where that is not comparable: a device decoded it, or several had parts of it.
    pub fn add(&self, class: Class, way: Option<Way>, bytes: u64, time: Duration) {
        let mut measured = self.lock();
        measured.pictures += 1;
        measured.time += time;
        let Some(way) = way else { return };
        let pictures = measured.pictures;
        let costs = measured.classes.entry(class).or_default();
        costs.last = pictures;
        let average = match way {
            Way::Cpu => &mut costs.cpu,
            Way::Worker => &mut costs.worker,
        };
        average.add(time.as_nanos() as f64 / bytes.max(1) as f64);
    }

    /// Returns the saving by a worker with the next picture of a class: see
    /// [`Request::worth`](crate::slot::schedule::Request::worth). Handing it over and taking it
    /// back may take the cores as long as all of the work.
    pub fn worth(&self, class: Class) -> f64 {
        self.lock().worth(class)
    }

    /// Adds a picture of this many bytes that a device decoded and encoded.
    pub fn add_decoded(&self, bytes: u64) {
        self.add_decoded_at(self.begin.elapsed(), bytes);
    }

    pub(super) fn add_decoded_at(&self, at: Duration, bytes: u64) {
        self.lock().decoded.add(at, bytes);
    }

    /// Returns whether devices decode so much faster than this many cores that these only get in
    /// their way with JPEGs of this class and layout, which take a core at least this long.
    pub fn cores_add_little(&self, class: Class, layout: &Layout, least: Duration, cores: usize) -> bool {
        let (bytes, pixels) = (layout.bytes().max(1) as f64, layout.pixels());
        let measured = self.lock();
        let cost = measured.classes.get(&class).and_then(|costs| costs.cpu.get());
        let presumed = (pixels >= OF_SOME_SIZE).then(|| PRESUMED * bytes / pixels as f64);
        let Some(by_devices) = measured.decoded.get().or(presumed) else { return false };
        let nanoseconds = cost.unwrap_or(least.as_nanos() as f64 / bytes);
        cores as f64 * 1e9 / nanoseconds.max(f64::MIN_POSITIVE) < WORTH_ADDING * by_devices
    }

    /// Adds a picture with a header that was read, which takes a core at least this long.
    pub fn foresee(&self, least: Duration, decodable: Decodable) {
        let foreseen = &mut self.lock().foreseen;
        foreseen.pictures = foreseen.pictures.saturating_add(1);
        let sum = match decodable {
            Decodable::Jpeg => &mut foreseen.jpegs,
            Decodable::Codestream => &mut foreseen.codestreams,
            Decodable::Streams => &mut foreseen.streams,
            Decodable::Nothing => &mut foreseen.others,
        };
        *sum = sum.saturating_add(least);
    }

    /// Records that a file has this many pages in addition to its first.
    pub fn expect(&self, further_pages: usize) {
        self.lock().further_pages += further_pages;
    }

    /// Returns the number of pictures of this many files that are left, as far as their pages are
    /// known.
    pub fn left_of(&self, files: usize) -> usize {
        let measured = self.lock();
        files.saturating_add(measured.further_pages).saturating_sub(measured.pictures)
    }

    /// Returns how long a picture takes a core at least, on average, by the headers read so far.
    /// The time of pictures in codings that `by` lacks is left out.
    pub fn foreseen(&self, by: Decoders) -> Duration {
        let Foreseen { pictures, jpegs, codestreams, streams, others } = self.lock().foreseen;
        let counted =
            [(by.jpegs, jpegs), (by.codestreams, codestreams), (by.streams, streams), (true, others)];
        let counted = counted.into_iter().filter(|(counts, _)| *counts).map(|(_, time)| time);
        counted.fold(Duration::ZERO, Duration::saturating_add) / pictures.max(1)
    }

    /// Returns the processor time that a picture took on average.
    pub fn average(&self) -> Duration {
        let measured = self.lock();
        measured.time / u32::try_from(measured.pictures.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the number of pictures that were measured.
    pub fn pictures(&self) -> usize {
        self.lock().pictures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::Pixel;

    fn layout(side: u32) -> Layout {
        Layout { width: side, height: side, pixel: Pixel::Gray, depth: Depth::Eight }
    }

    fn class(side: u32) -> Class {
        Class::new(Format::Pnm, &layout(side))
    }

    fn add(rates: &Rates, way: Way, nanoseconds: u64, pictures: usize) {
        (0..pictures)
            .for_each(|_| rates.add(class(100), Some(way), 10, Duration::from_nanos(10 * nanoseconds)));
    }

    #[test]
    fn pictures_are_kept_from_workers_that_save_nothing_but_for_a_few() {
        let rates = Rates::default();
        assert_eq!(rates.worth(class(100)), 1.0, "nothing is known");
        add(&rates, Way::Worker, 7, 15);
        assert_eq!(rates.worth(class(100)), 1.0, "too little is known");
        add(&rates, Way::Worker, 7, 1);
        assert_eq!(rates.worth(class(100)), 0.0, "the other way is not known");
        add(&rates, Way::Cpu, 5, 16);
        assert_eq!((0..256).filter(|_| rates.worth(class(100)) > 0.0).count(), 2);
        // The dearer the other way, the more seldom.
        add(&rates, Way::Worker, 50, 200);
        assert_eq!((0..1800).filter(|_| rates.worth(class(100)) > 0.0).count(), 2);
        assert_eq!(rates.worth(class(1000)), 1.0, "other pictures");
        assert_eq!(rates.pictures(), 232);
    }

    #[test]
    fn worth_is_relative_to_the_pictures_of_which_there_are_some() {
        let rates = Rates::default();
        let add_to = |side, way, nanoseconds: u64| {
            let time = Duration::from_nanos(10 * nanoseconds);
            (0..20).for_each(|_| rates.add(class(side), Some(way), 10, time));
        };
        [(100, Way::Cpu, 9), (100, Way::Worker, 1), (1000, Way::Cpu, 5), (1000, Way::Worker, 3)]
            .into_iter()
            .for_each(|(side, way, nanoseconds)| add_to(side, way, nanoseconds));
        assert_eq!([rates.worth(class(100)), rates.worth(class(1000))], [1.0, 0.25]);
        (0..20).for_each(|_| add_to(1000, Way::Cpu, 5));
        assert_eq!(rates.worth(class(1000)), 1.0);
    }

    #[test]
    fn what_is_foreseen_is_spread_over_all_pictures() {
        let (rates, second) = (Rates::default(), Duration::from_secs(1));
        assert_eq!([rates.foreseen(Decoders::ALL), rates.average()], [Duration::ZERO; 2]);
        [(4, Decodable::Jpeg), (2, Decodable::Nothing), (3, Decodable::Codestream), (5, Decodable::Streams)]
            .into_iter()
            .for_each(|(least, decodable)| rates.foresee(second * least, decodable));
        let foreseen =
            [(true, true, false), (true, false, true), (false, true, false), (false, false, false)].map(
                |(jpegs, codestreams, streams)| rates.foreseen(Decoders { jpegs, codestreams, streams }),
            );
        assert_eq!(foreseen, [9, 11, 5, 2].map(|seconds| second * seconds / 4));
        [1, 2].into_iter().for_each(|time| rates.add(class(100), None, 10, second * time));
        assert_eq!(rates.average(), second * 3 / 2);
        assert_eq!([1, 5].map(|files| rates.left_of(files)), [0, 3]);
        rates.expect(9);
        assert_eq!([1, usize::MAX].map(|files| rates.left_of(files)), [8, usize::MAX - 2]);
    }

    #[test]
    fn cores_leave_decoding_to_devices_that_are_far_ahead() {
        let rates = Rates::default();
        let done = |from: u64, times, bytes| {
            let at = (from..from + times).map(|tenth| Duration::from_millis(10 * tenth));
            at.for_each(|at| rates.add_decoded_at(at, bytes));
        };
        // 10 ns a byte.
        let least = |side: u64| Duration::from_nanos(10 * side * side);
        let add_little =
            |side: u32, cores| rates.cores_add_little(class(side), &layout(side), least(side.into()), cores);
        assert!(!add_little(100, 4), "small ones are not presumed to be fast");
        // The presumed 20,000 million bytes a second, to which 36 cores add 3,600.
        assert!(add_little(2000, 35) && !add_little(2000, 37));
        // Four cores do 400 million bytes a second, the devices 1,100 and then 3,300.
        done(0, 110, 10_000_000);
        assert!(!add_little(100, 4) && !add_little(2000, 4));
        done(110, 11, 30_000_000);
        assert!(add_little(100, 4) && !add_little(100, 8));
        // Measured costs are worse.
        add(&rates, Way::Cpu, 20, 16);
        assert!(add_little(100, 8));
        // A pause does not count as slow work.
        rates.add_decoded_at(Duration::from_secs(9), 30_000_000);
        assert!(add_little(100, 4));
    }

    #[test]
    fn what_new_memory_costs_is_forgotten() {
        let rates = Rates::default();
        add(&rates, Way::Cpu, 5, 100);
        add(&rates, Way::Worker, 20, 40);
        assert_eq!(rates.worth(class(100)), 0.0);
        add(&rates, Way::Worker, 4, 60);
        assert_eq!(rates.worth(class(100)), 1.0);
    }
}
