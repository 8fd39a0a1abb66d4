//! Runs of JPEGs in which workers start, to test the decisions with more GPUs, cores and pictures
//! than the machines of tests have.
//!
//! Work flows: cores and workers process it at their rates, less the losses by starts. The
//! decisions are compared with the best number of workers to start at once at the beginning, which
//! cannot be known then. The numbers are fitted to the seconds of runs on one and on four H200s of
//! a host with 64 cores (docs/benchmarks.md, 'By seconds').

use super::jpegs::{KEPT_BY_CORES, KEPT_BY_ENGINES, WARM_UP};
use super::*;

/// Megapixels of a picture.
const PICTURE: f64 = 12.0;

/// Megapixels per second of a core.
const CORE: f64 = 92.0;

/// Seconds until the first pictures are done.
const FIRST: f64 = 0.4;

/// Seconds for each worker of a start during which fresh slots are filled.
const FILL_EACH: f64 = 0.05;

/// The share of their rate that the cores keep while fresh slots are filled.
const KEPT_IN_FILL: f64 = 0.6;

/// Seconds after which the rate of workers is measured, and the least duration of the measurement.
const STEADY_AFTER: f64 = 1.5;
const MEASURED: f64 = 0.5;

const STEP: f64 = 0.02;

/// Workers that were started together.
struct Started {
    workers: usize,
    ready_at: f64,
    filled_at: f64,
}

struct Run {
    gpus: usize,
    cores: usize,
    work: f64,
    now: f64,
    done: f64,
    started: Vec<Started>,
}

impl Run {
    fn new(gpus: usize, cores: usize, pictures: usize) -> Self {
        let work = PICTURE * pictures as f64;
        Self { gpus, cores, work, now: 0.0, done: 0.0, started: Vec::new() }
    }

    const fn machine(&self) -> Jpegs {
        Jpegs { gpus: self.gpus, cores: self.cores }
    }

    /// Returns the rate of the cores while nothing else works or starts.
    fn rate_of_cores(&self) -> f64 {
        CORE * self.cores as f64
    }

    fn workers(&self) -> usize {
        self.started.iter().map(|started| started.workers).sum()
    }

    fn settled(&self) -> usize {
        let ready = self.started.iter().filter(|started| started.ready_at <= self.now);
        ready.map(|started| started.workers).sum()
    }

    /// Starts more workers, until there are this many.
    fn start(&mut self, all: usize) {
        let workers = all - self.workers();
        let starting = all - self.settled();
        let ready_at = self.now + Jpegs::start(starting);
        self.started.push(Started { workers, ready_at, filled_at: ready_at + FILL_EACH * workers as f64 });
    }

    /// Returns the equivalent of a start's workers in workers of full rate now, and the shares of
    /// their rates that the cores and the other workers keep.
    fn effect(&self, started: &Started) -> (f64, f64, f64) {
        if self.now < started.ready_at {
            (0.0, KEPT_BY_CORES, KEPT_BY_ENGINES)
        } else if self.now < started.filled_at {
            (0.0, KEPT_IN_FILL, 1.0)
        } else {
            (started.workers as f64 * ((self.now - started.filled_at) / WARM_UP).min(1.0), 1.0, 1.0)
        }
    }

    fn step(&mut self) {
        let effects = self.started.iter().map(|started| self.effect(started));
        let (engines, by_cores, by_engines) =
            effects.fold((0.0, 1.0, 1.0), |(sum, least, least_of_engines), (engines, cores, kept)| {
                (sum + engines, cores.min(least), kept.min(least_of_engines))
            });
        if self.now >= FIRST {
            let in_cores = self.cores as f64 * by_cores + self.machine().rate_of(engines) * by_engines;
            self.done += CORE * in_cores * STEP;
        }
        self.now += STEP;
    }

    /// Returns the seconds of the run with this many workers from the beginning.
    fn with(mut self, workers: usize) -> f64 {
        self.start(workers);
        while self.done < self.work {
            self.step();
        }
        self.now
    }

    /// Returns the seconds of the run if workers start as they pay.
    fn decided(mut self) -> f64 {
        let (mut rate, mut before, mut since) = (self.rate_of_cores(), (0, 0.0), 0.0);
        while self.done < self.work {
            let (settled, started) = (self.settled(), self.workers());
            if settled != before.0 {
                (before.0, since) = (settled, self.now + STEADY_AFTER);
            }
            if self.now < since {
                before.1 = self.done;
            }
            let is_measured = self.now >= since + MEASURED;
            if settled > 0 && is_measured {
                rate = (self.done - before.1) / (self.now - since);
            }
            if settled == 0 || is_measured {
                let rest = seconds((self.work - self.done) / rate);
                let count = |engines| Workers { engines, lanes: 0 };
                let wanted = count(started).with_more(count(settled), self.machine(), rest).engines;
                if wanted > started {
                    self.start(wanted);
                }
            }
            self.step();
        }
        self.now
    }
}

/// Returns the work done by the end of each of `count` seconds if this many workers of this many
#[test]
fn the_seconds_of_a_measured_run_are_met() {
    let mut run = Run::new(1, 16, usize::MAX);
    run.start(1);
    for measured in [4_100.0, 22_200.0, 53_400.0] {
        (0..(1.0 / STEP) as usize).for_each(|_| run.step());
        let share = run.done / measured;
        assert!((0.85..1.18).contains(&share), "{} MP, not {measured}", run.done);
    }
}

#[test]
fn as_many_workers_start_as_are_best() {
    let mut shares = Vec::new();
    for gpus in [1, 2, 4, 8, 16] {
        for cores in [1, 4, 16, 32, 64, 128, 256] {
            for pictures in [10, 100, 300, 1_000, 3_000, 10_000, 100_000] {
                let run = || Run::new(gpus, cores, pictures);
                let best = (0..=gpus).map(|workers| run().with(workers)).fold(f64::MAX, f64::min);
                let decided = run().decided();
                let told =
                    format!("{pictures} pictures, {gpus} GPUs, {cores} cores: {decided:.2} s, not {best:.2}");
                // A quarter of a second passes before it is known that a start pays.
                shares.push(((decided - 0.25).max(best) / best, told));
            }
        }
    }
    shares.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let average = shares.iter().map(|(share, _)| share).sum::<f64>() / shares.len() as f64;
    let told: Vec<&str> = shares.iter().take(8).map(|(_, told)| &**told).collect();
    assert!(average < 1.01 && shares[0].0 < 1.02, "{average:.3} on average, {told:#?}");
}

#[test]
fn eight_gpus_end_long_runs_sooner_than_four_and_short_ones_no_later() {
    for (pictures, share) in [(300, 1.0), (3_000, 1.0), (10_000, 1.0), (40_000, 0.95)] {
        let [four, eight] = [4, 8].map(|gpus| Run::new(gpus, 128, pictures).decided());
        assert!(
            eight <= share * four + 3.0 * STEP,
            "{pictures} pictures: {eight:.2} s with eight GPUs, {four:.2} with four"
        );
    }
}
