//! The decision which workers start: a pure function of the expected time for the rest of the work,
//! and of the measured cost of a start.
//!
//! A worker takes a second or more to start, and slows down all other work meanwhile. Therefore
//! workers for pixels start one GPU after the other, as far as each is likely to gain clearly more
//! than that; and as many workers for JPEGs start at once as are estimated to finish the work
//! first, because a later start holds up the working ones.

mod jpegs;

use std::time::Duration;

use codec::Format;
use codec::coders::BlockCoder;
use equalize::{Depth, Layout, Method};
pub use jpegs::Jpegs;

/// How long a worker for pixels takes to start, in seconds: the driver takes 0.3 to 0.45, a context
/// 0.13.
const START_OF_LANES: f64 = 0.7;

/// The work that the start of a GPU's worker for pixels keeps the cores from, in seconds, for the
/// first and for any other; and the share that each of the others adds to the throughput of all:
/// files in memory go in and out of the page cache no faster. Measured on 16-bit CLAHE with 64
/// cores.
const LOST_BY_FIRST_LANES: f64 = 0.2;
const LOST_BY_MORE_LANES: f64 = 0.4;
const GAIN_OF_MORE_LANES: f64 = 0.15;

/// The factor by which a worker's saving has to exceed the cost of its start.
const CLEARLY: f64 = 2.0;

/// The number of cores that keep a GPU for pixels busy. Measured: on two GPUs, 32 cores gain no
/// time, 64 an eighth; and 64 lose by four.
const CORES_OF_LANES: usize = 32;

/// A GPU pays if equalizing takes at least this share of the processor time; otherwise handing
/// pictures to it and taking them back costs as much as the work that it takes over. Measured with
/// 16 cores and an H100 on PGMs: it made runs slower at a quarter, and no slower at two fifths.
const WORTH_A_GPU: f64 = 1.0 / 3.0;

/// The time of the fastest measured cores to decode, equalize and encode pictures, in nanoseconds:
/// per pixel of a JPEG, and per byte of samples in a format without compression, where a GPU pays.
const JPEG_PIXEL: f64 = 7.0;
const PLAIN_BYTE: f64 = 2.0;

/// The same per pixel of JPEG 2000, mostly for decoding.
const CODESTREAM_PIXEL: f64 = 60.0;

/// The same per byte of samples of a TIFF that is inflated; deflating takes longer than that again.
const INFLATED_BYTE: f64 = 4.0;

/// A time so long that a GPU pays for a single picture.
const NEVER: Duration = Duration::from_secs(3600);

/// The same per byte of a JPEG's file. A photograph has six pixels in it, or more.
const JPEG_BYTE: f64 = 6.0 * JPEG_PIXEL;

/// Numbers of workers: started or to be started, or among these the working and the given-up ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// For JPEGs, one a GPU.
    pub engines: usize,
    /// For pixels, one per GPU.
    pub lanes: usize,
}

impl Workers {
    /// As many as there may be.
    pub const ALL: Self = Self { engines: usize::MAX, lanes: usize::MAX };

    /// Returns the workers of a machine that are to start when these have started, `settled` of
    /// them work or were given up, and the rest of the work will last so long at the present rate.
    pub fn with_more(self, settled: Self, machine: Jpegs, rest: Duration) -> Self {
        let are_engines_settled = settled.engines >= self.engines;
        let engines = if are_engines_settled { machine.best(self.engines, rest) } else { self.engines };
        let most = most_lanes(machine.gpus, machine.cores);
        Self { engines, lanes: self.with_more_lanes(settled.lanes, most, rest) }
    }

    /// One GPU after the other: one may be all that the cores can feed.
    fn with_more_lanes(self, settled: usize, most: usize, rest: Duration) -> usize {
        let pays = if self.lanes == 0 {
            lanes_pay_at_all(rest)
        } else {
            lanes_pay(LOST_BY_MORE_LANES, GAIN_OF_MORE_LANES, rest)
        };
        self.lanes + usize::from(settled >= self.lanes && self.lanes < most && pays)
    }
}

/// Returns whether a worker for pixels pays that keeps the others from this much work and adds this
/// share to the throughput of all.
fn lanes_pay(lost: f64, share: f64, rest: Duration) -> bool {
    rest.as_secs_f64() >= START_OF_LANES + CLEARLY * lost / share
}

/// Returns whether the first worker for pixels pays for a rest of the work that lasts this long.
pub fn lanes_pay_at_all(rest: Duration) -> bool {
    lanes_pay(LOST_BY_FIRST_LANES, 1.0, rest)
}

/// Returns whether the first worker for JPEGs pays, beside so many cores.
pub fn engines_pay_at_all(cores: usize, rest: Duration) -> bool {
    Jpegs { gpus: 1, cores }.best(0, rest) > 0
}

/// Returns the number of GPUs that workers for pixels may start on, with this many GPUs and cores.
pub fn most_lanes(gpus: usize, cores: usize) -> usize {
    gpus.min(cores.div_ceil(CORES_OF_LANES))
}

/// Returns the least time that the cores take for a JPEG that a GPU could decode.
pub fn least_time_of_jpeg(layout: &Layout) -> Duration {
    Duration::from_nanos((JPEG_PIXEL * layout.pixels() as f64) as u64)
}

/// Returns the least time that the cores take for a picture in JPEG 2000; a long time for one that
/// they cannot decode.
pub fn least_time_of_codestream(layout: &Layout, coder: BlockCoder) -> Duration {
    match coder {
        BlockCoder::Usual => Duration::from_nanos((CODESTREAM_PIXEL * layout.pixels() as f64) as u64),
        BlockCoder::HighThroughput => NEVER,
    }
}

/// Returns the least time that the cores take for a picture with strips or tiles that they inflate.
pub fn least_time_of_streams(layout: &Layout) -> Duration {
    Duration::from_nanos((INFLATED_BYTE * layout.bytes() as f64) as u64)
}

/// Returns the least time that the cores take for a picture that is read and written in these
/// formats, if its pixels are known to be worth a GPU; otherwise 0.
pub fn least_time(formats: [Format; 2], layout: &Layout, method: Method) -> Duration {
    let is_plain = formats.iter().all(|format| matches!(format, Format::Pnm | Format::Bmp));
    let is_worth_lanes = layout.depth == Depth::Sixteen || matches!(method, Method::Clahe(_));
    let each = if is_plain && is_worth_lanes { PLAIN_BYTE } else { 0.0 };
    Duration::from_nanos((each * layout.bytes() as f64) as u64)
}

/// Returns how long this many cores take for JPEGs in files of this many bytes.
pub fn time_of_jpegs(bytes: u64, cores: usize) -> Duration {
    seconds(JPEG_BYTE * 1e-9 * bytes as f64 / cores.max(1) as f64)
}

/// Returns how long `pictures` last that take a core this long each, with this many cores.
pub fn time_on_cores(each: Duration, pictures: usize, cores: usize) -> Duration {
    seconds(each.as_secs_f64() * pictures as f64 / cores.min(pictures).max(1) as f64)
}

/// Returns how long `pictures` last if `done` took this long.
pub fn time_at_rate(pictures: usize, done: usize, took: Duration) -> Duration {
    seconds(took.as_secs_f64() * pictures as f64 / done as f64)
}

/// Returns whether GPUs pay for pictures that the lanes took this much of `all` seconds of
/// processor time for.
pub fn lanes_take_much(lanes: Duration, all: f64) -> bool {
    lanes.as_secs_f64() >= WORTH_A_GPU * all
}

/// Returns a duration, at most the longest that the type can hold.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Clahe, ClipLimit, Pixel, Tiles};

    const fn machine(gpus: usize, cores: usize) -> Jpegs {
        Jpegs { gpus, cores }
    }

    /// Returns how many workers are to start, one after the other, while the rest lasts so many
    /// seconds.
    fn one_by_one(gpus: usize, rest: f64) -> Workers {
        let more = |workers: Workers| workers.with_more(workers, machine(gpus, 16), seconds(rest));
        (0..20).fold(Workers::default(), |workers, _| more(workers))
    }

    fn at_once(gpus: usize, rest: f64) -> Workers {
        Workers::default().with_more(Workers::default(), machine(gpus, 16), seconds(rest))
    }

    #[test]
    fn gpus_for_pixels_start_one_by_one_if_their_start_pays_and_cores_can_feed_them() {
        assert_eq!([0.9, 1.2, 9.0].map(|rest| at_once(4, rest).lanes), [0, 1, 1]);
        let lanes = |cores, rest| {
            let more = |workers: Workers| workers.with_more(workers, machine(4, cores), seconds(rest));
            (0..9).fold(Workers::default(), |workers, _| more(workers)).lanes
        };
        assert_eq!([5.9, 6.1].map(|rest| lanes(64, rest)), [1, 2]);
        assert_eq!([1, 32, 33, 96, 256].map(|cores| lanes(cores, 1e9)), [1, 1, 2, 3, 4]);
    }

    #[test]
    fn gpus_for_jpegs_start_at_once_as_many_as_are_done_first() {
        assert!(!engines_pay_at_all(16, seconds(0.5)) && engines_pay_at_all(16, seconds(0.7)));
        assert_eq!([0.5, 0.7, 9.0, 99.0].map(|rest| at_once(1, rest).engines), [0, 1, 1, 1]);
        assert_eq!([4.0, 9.0, 30.0, 1e9].map(|rest| at_once(4, rest).engines), [1, 2, 3, 4]);
        assert_eq!(at_once(8, 1e9), Workers { engines: 8, lanes: 1 });
        assert_eq!(one_by_one(0, 1e9), Workers::default());
    }

    #[test]
    fn nothing_more_starts_beside_workers_that_start() {
        let started = Workers { engines: 2, lanes: 1 };
        let more =
            |engines, lanes| started.with_more(Workers { engines, lanes }, machine(4, 64), Duration::MAX);
        assert_eq!(more(1, 0), started);
        assert_eq!(more(2, 0), Workers { engines: 4, lanes: 1 });
        assert_eq!(more(1, 1), Workers { engines: 2, lanes: 2 });
        assert_eq!(Workers::ALL.with_more(started, machine(2, 16), Duration::MAX), Workers::ALL);
        assert_eq!(Workers::ALL.with_more(Workers::ALL, machine(2, 16), Duration::MAX), Workers::ALL);
    }

    #[test]
    fn only_pictures_that_are_known_to_be_worth_a_gpu_are_foreseen() {
        let layout = |depth| Layout { width: 1000, height: 1000, pixel: Pixel::Gray, depth };
        let tiles = Tiles::Grid { x: 8, y: 8 };
        let clahe = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(2.0), tiles, noise: 0 });
        let least = |formats, depth, method| least_time(formats, &layout(depth), method).as_millis();
        let plain = [Format::Pnm; 2];
        assert_eq!(least(plain, Depth::Eight, Method::Global), 0, "the cores are as fast");
        assert_eq!(least(plain, Depth::Eight, clahe), 2);
        assert_eq!(least(plain, Depth::Sixteen, Method::Global), 4);
        assert_eq!(least([Format::Pnm, Format::Png], Depth::Sixteen, clahe), 0, "most of it is compression");
        assert_eq!(least_time_of_jpeg(&layout(Depth::Eight)).as_millis(), 7);
        assert_eq!(least_time_of_streams(&layout(Depth::Sixteen)).as_millis(), 8);
        assert_eq!(time_of_jpegs(1_000_000, 2), Duration::from_millis(21));
    }

    #[test]
    fn the_rest_lasts_as_long_as_cores_or_the_rate_let_it() {
        let second = Duration::from_secs(1);
        assert_eq!(
            [0, 1, 8].map(|pictures| time_on_cores(second, pictures, 4)),
            [0, 1, 2].map(|n| second * n)
        );
        assert_eq!(time_at_rate(10, 5, second), second * 2);
        assert_eq!(time_at_rate(10, 0, second), Duration::MAX);
        assert_eq!(time_on_cores(second * 2, usize::MAX, 1), Duration::MAX);
    }

    #[test]
    fn a_gpu_pays_where_equalizing_is_a_good_part_of_the_work() {
        let of_a_second = |lanes| lanes_take_much(Duration::from_millis(lanes), 1.0);
        assert_eq!([250, 320, 340, 1000].map(of_a_second), [false, false, true, true]);
    }
}
