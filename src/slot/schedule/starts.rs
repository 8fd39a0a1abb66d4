//! Which workers start: a pure function of how long the rest of the work is going to last, and of what a start was measured to cost.
//!
//! A worker takes a second or more to start, and slows down whatever works meanwhile. So no more of them start than are likely to gain
//! clearly more than that: GPUs one after the other, as far as the rest is not known to be long, and the second worker of a GPU that decodes
//! JPEGs last.

use std::time::Duration;

use codec::{BlockCoder, Format};
use equalize::{Depth, Layout, Method};

/// What the start of a worker costs, in seconds. Measured on H100s and H200s with 16 and 32 busy cores.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// How long it takes.
    seconds: f64,
    /// How much work it keeps others from: CUDA takes their cores, and the driver serves one process after the other.
    lost: f64,
}

/// Of a worker for pixels: the driver takes 0.3 to 0.45 s, a context 0.13.
pub const LANES: Cost = Cost { seconds: 0.7, lost: 0.2 };

/// Of a worker for JPEGs: the same, and nvJPEG's handle and first decoder, which take 0.65 s, or 1.4 in each of four processes at once.
pub const ENGINES: Cost = Cost { seconds: 1.4, lost: 0.4 };

/// Workers per GPU that decode and encode JPEGs. nvJPEG keeps an H100's seven JPEG engines busy only from several processes.
pub const ENGINES_EACH: usize = 2;

/// As many cores decode, equalize and encode as much as the first of them does. Estimated from whole runs on H100s and H200s.
const CORES_OF_AN_ENGINE: f64 = 47.0;

/// How much the second of them adds to what a GPU does, as estimated from whole runs on one H100: 4,197 MP/s with two, 3,753 with one, of which
/// the starts were taken off.
const GAIN_OF_SECOND: f64 = 0.25;

/// So many times what a start costs the others it has to save.
const CLEARLY: f64 = 2.0;

/// A GPU pays if equalizing takes at least this share of the processor time; otherwise handing pictures to it and taking them back costs as
/// much as the work that it takes over. Measured with 16 cores and an H100 on PGMs: it made runs slower at a quarter, and no slower at two
/// fifths.
const WORTH_A_GPU: f64 = 1.0 / 3.0;

/// What the fastest of the measured cores take to decode, equalize and encode pictures, in nanoseconds: per pixel of a JPEG, and per byte
/// of samples in a format without compression, where a GPU pays.
const JPEG_PIXEL: f64 = 7.0;
const PLAIN_BYTE: f64 = 2.0;

/// The same per pixel of JPEG 2000, most of which is decoding.
const CODESTREAM_PIXEL: f64 = 60.0;

/// So long that a GPU pays for a single one.
const NEVER: Duration = Duration::from_secs(3600);

/// The same per byte of a JPEG's file. A photograph has six pixels in it, or more.
const JPEG_BYTE: f64 = 6.0 * JPEG_PIXEL;

impl Cost {
    /// Returns whether a worker that adds this share of what all do together pays for a rest of the work that lasts so long.
    fn pays(self, share: f64, rest: Duration) -> bool {
        rest.as_secs_f64() >= self.seconds + CLEARLY * self.lost / share
    }

    /// Returns whether the first of such workers pays.
    pub fn pays_at_all(self, rest: Duration) -> bool {
        self.pays(1.0, rest)
    }
}

/// Numbers of workers: those that have started or are to start, or those of them that work or were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// For JPEGs: the first of each GPU, in turn, then the second of each.
    pub engines: usize,
    /// For pixels, one a GPU.
    pub lanes: usize,
}

impl Workers {
    /// As many as there may be.
    pub const ALL: Self = Self { engines: usize::MAX, lanes: usize::MAX };

    /// Returns the workers that are to start, of those of so many GPUs beside so many cores, when these have started, `settled` of them work or
    /// were given up, and the rest of the work will last so long at the present rate.
    pub fn with_more(self, settled: Self, gpus: usize, cores: usize, rest: Duration) -> Self {
        Self {
            engines: self.with_more_engines(settled.engines, gpus, cores, rest),
            lanes: self.with_more_lanes(settled.lanes, gpus, rest),
        }
    }

    fn with_more_engines(self, settled: usize, gpus: usize, cores: usize, rest: Duration) -> usize {
        let mut engines = self.engines;
        if settled < engines {
            return engines;
        }
        let work = |engines: usize| cores as f64 + CORES_OF_AN_ENGINE * engines.min(gpus) as f64;
        // What the others that start leave of the rest is estimated.
        let left_by =
            |engines: usize| seconds(rest.as_secs_f64() * work(settled) / work(engines.max(settled)));
        while engines < gpus && ENGINES.pays(1.0 / (engines + 1) as f64, left_by(engines)) {
            engines += 1;
        }
        let are_all_settled = settled >= gpus && engines >= gpus;
        while are_all_settled
            && engines < ENGINES_EACH * gpus
            && ENGINES.pays(GAIN_OF_SECOND / gpus as f64, rest)
        {
            engines += 1;
        }
        engines
    }

    /// One GPU after the other: one may be all that the cores can feed.
    fn with_more_lanes(self, settled: usize, gpus: usize, rest: Duration) -> usize {
        let pays = LANES.pays(1.0 / self.lanes.saturating_add(1) as f64, rest);
        self.lanes + usize::from(settled >= self.lanes && self.lanes < gpus && pays)
    }
}

/// Returns the least that the cores take for a JPEG that a GPU could decode.
pub fn least_time_of_jpeg(layout: &Layout) -> Duration {
    Duration::from_nanos((JPEG_PIXEL * layout.pixels() as f64) as u64)
}

/// Returns the least that the cores take for a picture in JPEG 2000; a long time for one that they cannot decode.
pub fn least_time_of_codestream(layout: &Layout, coder: BlockCoder) -> Duration {
    match coder {
        BlockCoder::Usual => Duration::from_nanos((CODESTREAM_PIXEL * layout.pixels() as f64) as u64),
        BlockCoder::HighThroughput => NEVER,
    }
}

/// Returns the least that the cores take for a picture that is read and written in these formats, if its pixels are known to be worth a GPU;
/// otherwise nothing.
pub fn least_time(formats: [Format; 2], layout: &Layout, method: Method) -> Duration {
    let is_plain = formats.iter().all(|format| matches!(format, Format::Pnm | Format::Bmp));
    let is_worth_lanes = layout.depth == Depth::Sixteen || matches!(method, Method::Clahe(_));
    let each = if is_plain && is_worth_lanes { PLAIN_BYTE } else { 0.0 };
    Duration::from_nanos((each * layout.bytes() as f64) as u64)
}

/// Returns how long so many cores take for JPEGs whose files have so many bytes.
pub fn time_of_jpegs(bytes: u64, cores: usize) -> Duration {
    seconds(JPEG_BYTE * 1e-9 * bytes as f64 / cores.max(1) as f64)
}

/// Returns how long `pictures` last that take a core this long each, with so many cores.
pub fn time_on_cores(each: Duration, pictures: usize, cores: usize) -> Duration {
    seconds(each.as_secs_f64() * pictures as f64 / cores.min(pictures).max(1) as f64)
}

/// Returns how long `pictures` last if `done` took this long.
pub fn time_at_rate(pictures: usize, done: usize, took: Duration) -> Duration {
    seconds(took.as_secs_f64() * pictures as f64 / done as f64)
}

/// Returns whether GPUs pay for pictures of which the lanes took this much of `all` seconds of processor time.
pub fn lanes_take_much(lanes: Duration, all: f64) -> bool {
    lanes.as_secs_f64() >= WORTH_A_GPU * all
}

/// Returns a time that may be longer than can be told.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Clahe, ClipLimit, Pixel, Tiles};

    /// Returns how many workers are to start, one after the other, while the rest lasts so many seconds.
    fn one_by_one(gpus: usize, rest: f64) -> Workers {
        let more = |workers: Workers| workers.with_more(workers, gpus, 16, seconds(rest));
        (0..20).fold(Workers::default(), |workers, _| more(workers))
    }

    fn at_once(gpus: usize, rest: f64) -> Workers {
        Workers::default().with_more(Workers::default(), gpus, 16, seconds(rest))
    }

    #[test]
    fn gpus_start_for_as_much_work_as_outlasts_their_start() {
        assert_eq!([0.9, 1.2, 9.0].map(|rest| at_once(4, rest).lanes), [0, 1, 1]);
        assert_eq!([1.4, 1.6, 2.0, 9.0].map(|rest| one_by_one(4, rest).lanes), [1, 2, 3, 4]);
        assert_eq!([2.1, 2.3, 11.7, 11.9, 60.0].map(|rest| at_once(2, rest).engines), [0, 1, 1, 2, 2]);
        assert_eq!([2.9, 3.1].map(|rest| one_by_one(2, rest).engines), [1, 2]);
        assert_eq!([4.5, 4.7].map(|rest| one_by_one(1, rest).engines), [1, 2]);
        assert_eq!([2.3, 7.7, 7.9].map(|rest| one_by_one(2, rest).engines), [1, 2, 4]);
        assert_eq!(at_once(8, 1e9), Workers { engines: 8, lanes: 1 });
        assert_eq!(one_by_one(8, 1e9), Workers { engines: 16, lanes: 8 });
        assert_eq!(one_by_one(0, 1e9), Workers::default());
    }

    #[test]
    fn nothing_more_starts_beside_workers_that_start() {
        let started = Workers { engines: 2, lanes: 1 };
        let more = |engines, lanes| started.with_more(Workers { engines, lanes }, 2, 16, Duration::MAX);
        assert_eq!(more(1, 0), started);
        assert_eq!(more(2, 0), Workers { engines: 4, lanes: 1 });
        assert_eq!(more(1, 1), Workers { engines: 2, lanes: 2 });
        assert_eq!(Workers::ALL.with_more(started, 2, 16, Duration::MAX), Workers::ALL);
    }

    #[test]
    fn only_pictures_that_are_known_to_be_worth_a_gpu_are_foreseen() {
        let layout = |depth| Layout { width: 1000, height: 1000, pixel: Pixel::Gray, depth };
        let tiles = Tiles::Grid { x: 8, y: 8 };
        let clahe = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(2.0), tiles });
        let least = |formats, depth, method| least_time(formats, &layout(depth), method).as_millis();
        let plain = [Format::Pnm; 2];
        assert_eq!(least(plain, Depth::Eight, Method::Global), 0, "the cores are as fast");
        assert_eq!(least(plain, Depth::Eight, clahe), 2);
        assert_eq!(least(plain, Depth::Sixteen, Method::Global), 4);
        assert_eq!(least([Format::Pnm, Format::Png], Depth::Sixteen, clahe), 0, "most of it is compression");
        assert_eq!(least_time_of_jpeg(&layout(Depth::Eight)).as_millis(), 7);
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
