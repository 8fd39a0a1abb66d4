//! An estimate of the time for JPEGs with a number of workers that decode and encode them. The
//! numbers are fitted to the seconds of a run on one H200 with 16 cores (docs/benchmarks.md, 'By
//! seconds').

use std::time::Duration;

/// The number of cores that decode, equalize and encode as much as the worker of the first GPU.
pub(super) const CORES_OF_AN_ENGINE: f64 = 300.0;

/// GPUs share the memory and the driver of their host: their rate grows with this power of their
/// number.
const TOGETHER: f64 = 0.57;

/// Seconds from the start of workers until they are ready: of all, and for each of them, because
/// the driver makes one context after the other.
const START: f64 = 0.3;
const START_EACH: f64 = 0.15;

/// Seconds during which new workers come to their full rate: their slots are fresh.
pub(super) const WARM_UP: f64 = 2.0;

/// The shares of their rates that cores and workers keep while others start, which hold up the
/// driver.
pub(super) const KEPT_BY_CORES: f64 = 0.95;
pub(super) const KEPT_BY_ENGINES: f64 = 0.9;

/// More workers have to shorten the rest to this share of the time without them.
const SHORTER: f64 = 0.97;

/// A machine that works on JPEGs.
#[derive(Clone, Copy, Debug)]
pub struct Jpegs {
    /// Its GPUs, each of which may have a worker for JPEGs.
    pub gpus: usize,
    /// Its cores.
    pub cores: usize,
}

impl Jpegs {
    /// Returns the rate of this many workers together, in cores.
    pub(super) fn rate_of(self, engines: f64) -> f64 {
        CORES_OF_AN_ENGINE * engines.powf(TOGETHER)
    }

    /// Returns the rate of the cores and this many workers together, in cores.
    fn rate(self, engines: usize) -> f64 {
        self.cores as f64 + self.rate_of(engines as f64)
    }

    /// Returns the seconds until this many workers that start together are ready.
    pub(super) fn start(workers: usize) -> f64 {
        if workers == 0 { 0.0 } else { START + START_EACH * workers as f64 }
    }

    /// Returns the seconds for an amount of work (of cores for a second) if `engines` workers work,
    /// and others start until there are `all`.
    fn time(self, work: f64, engines: usize, all: usize) -> f64 {
        let start = Self::start(all - engines);
        let meanwhile = KEPT_BY_CORES * self.cores as f64 + KEPT_BY_ENGINES * self.rate_of(engines as f64);
        let left = work - start * meanwhile;
        if left < 0.0 {
            return work / meanwhile;
        }
        // The rate grows from one to the other while the new workers warm up.
        let (from, to) = (self.rate(engines), self.rate(all));
        let of_warm_up = WARM_UP * (from + to) / 2.0;
        if left > of_warm_up {
            return start + WARM_UP + (left - of_warm_up) / to;
        }
        let growth = (to - from) / WARM_UP;
        start + ((from * from + 2.0 * growth * left).sqrt() - from) / growth
    }

    /// Returns the total number of workers that finishes first a rest of the work that lasts this
    /// long at the present rate.
    pub(super) fn best(self, engines: usize, rest: Duration) -> usize {
        let work = rest.as_secs_f64() * self.rate(engines);
        let times = (engines..=self.gpus).skip(1).map(|all| (self.time(work, engines, all), all));
        let best = times.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.filter(|(time, _)| *time < SHORTER * rest.as_secs_f64()).map_or(engines, |(_, all)| all)
    }
}
