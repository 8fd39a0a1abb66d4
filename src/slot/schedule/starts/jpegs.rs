//! Estimates of the time for JPEGs, given the number of workers that decode and encode them. The
//! numbers are fitted to the seconds of runs on one, two and four H200s of a host with 64 cores
//! (docs/benchmarks.md, 'By seconds').

use std::time::Duration;

use codec::JpegCoder;

/// GPUs share the memory and the driver of their host: their rate grows with this power of their
/// number.
const TOGETHER: f64 = 0.57;

/// More workers have to make the rest shorter than this share of what it is without them.
const SHORTER: f64 = 0.97;

/// What workers of a coder cost and gain.
pub(super) struct Costs {
    /// Workers per GPU.
    each: usize,
    /// As many cores decode, equalize and encode as much as the first worker of the first GPU does.
    cores: f64,
    /// How much the second worker of a GPU adds to what the first does, before what GPUs share.
    gain_of_second: f64,
    /// Seconds from the start of workers until they are ready: of all, and for each of them,
    /// because the driver makes one decoder after the other.
    start: f64,
    start_each: f64,
    /// Seconds during which the decoders of new workers come to their full rate.
    pub(super) warm_up: f64,
    /// The shares of their rates that cores and workers keep while others start, which hold up the
    /// driver.
    pub(super) kept_by_cores: f64,
    pub(super) kept_by_engines: f64,
}

/// nvJPEG keeps an H100's seven JPEG engines busy only from several processes.
pub(super) const NVJPEG: Costs = Costs {
    each: 2,
    cores: 56.0,
    gain_of_second: 0.4,
    start: 1.6,
    start_each: 0.55,
    warm_up: 0.6,
    kept_by_cores: 0.9,
    kept_by_engines: 0.5,
};

/// Its own kernels need a context each, and no library. Fitted to the seconds of a run on an H200
/// with 16 cores.
const HISTEQD: Costs = Costs {
    each: 1,
    cores: 250.0,
    gain_of_second: 0.0,
    start: 0.3,
    start_each: 0.15,
    warm_up: 0.8,
    kept_by_cores: 0.95,
    kept_by_engines: 0.9,
};

impl Costs {
    const fn of(coder: JpegCoder) -> &'static Self {
        match coder {
            JpegCoder::Histeqd => &HISTEQD,
            JpegCoder::NvJpeg => &NVJPEG,
        }
    }
}

/// A machine that works on JPEGs.
#[derive(Clone, Copy, Debug)]
pub struct Jpegs {
    /// Its GPUs.
    pub gpus: usize,
    /// Its cores.
    pub cores: usize,
    /// What decodes and encodes JPEGs on the GPUs.
    pub coder: JpegCoder,
}

impl Jpegs {
    /// Returns the workers for JPEGs of each GPU.
    pub const fn engines_each(coder: JpegCoder) -> usize {
        Costs::of(coder).each
    }

    /// Returns what so many workers do together, in cores. The first of each GPU come first.
    pub(super) fn rate_of(self, engines: f64) -> f64 {
        let (gpus, costs) = (self.gpus as f64, Costs::of(self.coder));
        let first = engines.min(gpus);
        costs.cores * (first + costs.gain_of_second * (engines - first)).powf(TOGETHER)
    }

    /// Returns the rate of the cores and this many workers together, in cores.
    fn rate(self, engines: usize) -> f64 {
        self.cores as f64 + self.rate_of(engines as f64)
    }

    /// Returns the seconds until so many workers that start together are ready.
    pub(super) fn start(self, workers: usize) -> f64 {
        let costs = Costs::of(self.coder);
        if workers == 0 { 0.0 } else { costs.start + costs.start_each * workers as f64 }
    }

    /// Returns the seconds for an amount of work (of cores for a second) if `engines` workers work,
    /// and others start until there are `all`.
    fn time(self, work: f64, engines: usize, all: usize) -> f64 {
        let costs = Costs::of(self.coder);
        let start = self.start(all - engines);
        let of_engines = costs.kept_by_engines * self.rate_of(engines as f64);
        let meanwhile = costs.kept_by_cores * self.cores as f64 + of_engines;
        let left = work - start * meanwhile;
        let lost = costs.warm_up / 2.0 * (self.rate(all) - self.rate(engines));
        if left < 0.0 { work / meanwhile } else { start + (left + lost) / self.rate(all) }
    }

    /// Returns the total number of workers that finishes first a rest of the work that lasts this
    /// long at the present rate.
    pub(super) fn best(self, engines: usize, rest: Duration) -> usize {
        let most = Self::engines_each(self.coder) * self.gpus;
        if engines >= most {
            return engines;
        }
        let work = rest.as_secs_f64() * self.rate(engines);
        let more = engines + 1..=most;
        let times = more.map(|all| (self.time(work, engines, all), all));
        let best = times.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.filter(|(time, _)| *time < SHORTER * rest.as_secs_f64()).map_or(engines, |(_, all)| all)
    }
}
