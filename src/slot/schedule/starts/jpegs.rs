//! Estimates of the time for JPEGs, given the number of workers that decode and encode them. The
//! numbers are fitted to the seconds of runs on one, two and four H200s of a host with 64 cores
//! (docs/benchmarks.md, 'By seconds').

use std::time::Duration;

use super::ENGINES_EACH;

/// The number of cores that decode, equalize and encode as much as the first worker of the first
/// GPU.
pub(super) const CORES_OF_AN_ENGINE: f64 = 56.0;

/// The gain of the second worker of a GPU relative to the first, before the effect of sharing among
/// GPUs.
const GAIN_OF_SECOND: f64 = 0.4;

/// GPUs share the memory and the driver of their host: their rate grows with this power of their
/// number.
const TOGETHER: f64 = 0.57;

/// Seconds from the start of workers until they are ready: of all, and for each of them, because
/// the driver makes one decoder after the other.
const START: f64 = 1.6;
const START_EACH: f64 = 0.55;

/// Seconds during which the decoders of new workers come to their full rate.
pub(super) const WARM_UP: f64 = 0.6;

/// The shares of their rates that cores and workers keep while others start, which hold up the
/// driver.
pub(super) const KEPT_BY_CORES: f64 = 0.9;
pub(super) const KEPT_BY_ENGINES: f64 = 0.5;

/// More workers have to shorten the rest to this share of the time without them.
const SHORTER: f64 = 0.97;

/// A machine that works on JPEGs.
#[derive(Clone, Copy)]
pub(super) struct Jpegs {
    pub(super) gpus: usize,
    pub(super) cores: usize,
}

impl Jpegs {
    /// Returns the rate of this many workers together, in cores. The first of each GPU come first.
    pub(super) fn rate_of(self, engines: f64) -> f64 {
        let gpus = self.gpus as f64;
        let first = engines.min(gpus);
        CORES_OF_AN_ENGINE * (first + GAIN_OF_SECOND * (engines - first)).powf(TOGETHER)
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
        let lost = WARM_UP / 2.0 * (self.rate(all) - self.rate(engines));
        if left < 0.0 { work / meanwhile } else { start + (left + lost) / self.rate(all) }
    }

    /// Returns the total number of workers that finishes first a rest of the work that lasts this
    /// long at the present rate.
    pub(super) fn best(self, engines: usize, rest: Duration) -> usize {
        let most = ENGINES_EACH * self.gpus;
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
