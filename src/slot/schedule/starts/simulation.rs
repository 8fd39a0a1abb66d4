//! Runs of JPEGs in which workers start, to see what the decisions make of more GPUs, cores and pictures than tests have.
//!
//! Work flows: all that work do so at their rates, less what starts keep them from. What is decided is compared with the best number of
//! workers to start at once at the beginning, which nobody can know then. The numbers are fitted to the seconds of runs on one and on four H200s
//! of a host with 64 cores (docs/benchmarks.md, 'By seconds').

use super::*;

/// Megapixels of a picture.
const PICTURE: f64 = 12.0;

/// Megapixels a second of a core, and of a GPU's first worker.
const CORE: f64 = 73.4;
const ENGINE: f64 = 6200.0;

/// GPUs share the memory and the driver of their host: so many do as much as this power of their number.
const TOGETHER: f64 = 0.75;

/// Seconds until the first pictures are done.
const FIRST: f64 = 0.6;

/// Seconds from the start of workers until they are ready: of all, and for each of them and of those that start already, because the driver
/// makes one decoder after the other.
const START: f64 = 1.1;
const START_EACH: f64 = 0.7;

/// Seconds for each worker of a start during which fresh slots are filled, and those during which its decoders then come to their full rate.
const FILL_EACH: f64 = 0.25;
const WARM_UP: f64 = 1.5;

/// The shares of their rate that the cores keep while workers start, and while fresh slots are filled.
const KEPT_IN_START: f64 = 0.9;
const KEPT_IN_FILL: f64 = 0.45;

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

    /// Starts more workers, until there are so many.
    fn start(&mut self, all: usize) {
        let workers = all - self.workers();
        let starting = all - self.settled();
        let ready_at = self.now + START + START_EACH * starting as f64;
        self.started.push(Started { workers, ready_at, filled_at: ready_at + FILL_EACH * workers as f64 });
    }

    /// Returns what the workers of a start do now, in those of full rate, and the share of their rate that the cores keep.
    fn effect(&self, started: &Started) -> (f64, f64) {
        if self.now < started.ready_at {
            (0.0, KEPT_IN_START)
        } else if self.now < started.filled_at {
            (0.0, KEPT_IN_FILL)
        } else {
            (started.workers as f64 * ((self.now - started.filled_at) / WARM_UP).min(1.0), 1.0)
        }
    }

    fn step(&mut self) {
        let effects = self.started.iter().map(|started| self.effect(started));
        let (engines, kept) =
            effects.fold((0.0, 1.0), |(sum, least), (engines, kept)| (sum + engines, kept.min(least)));
        let gpus = self.gpus as f64;
        let in_gpus = engines.min(gpus) + GAIN_OF_SECOND * (engines - gpus).max(0.0);
        if self.now >= FIRST {
            self.done += (self.rate_of_cores() * kept + ENGINE * in_gpus.powf(TOGETHER)) * STEP;
        }
        self.now += STEP;
    }

    /// Returns the seconds that it takes with so many workers from the beginning.
    fn with(mut self, workers: usize) -> f64 {
        self.start(workers);
        while self.done < self.work {
            self.step();
        }
        self.now
    }

    /// Returns the seconds that it takes if workers start as they pay.
    fn decided(mut self) -> f64 {
        let (mut rate, mut before, mut since) = (self.rate_of_cores(), (0, 0.0), 0.0);
        while self.done < self.work {
            let (settled, started) = (self.settled(), self.workers());
            if settled != before.0 {
                (before, since) = ((settled, self.done), self.now);
            }
            let is_measured = self.now >= since + 0.8;
            if settled > 0 && is_measured {
                rate = (self.done - before.1) / (self.now - since);
            }
            if settled == 0 || is_measured {
                let rest = seconds((self.work - self.done) / rate);
                let count = |engines| Workers { engines, lanes: 0 };
                let wanted = count(started).with_more(count(settled), self.gpus, self.cores, rest).engines;
                if wanted > started {
                    self.start(wanted);
                }
            }
            self.step();
        }
        self.now
    }
}

/// Returns how much is done by the end of each of so many seconds if a worker of each of so many GPUs starts at the beginning.
fn by_second(gpus: usize, count: usize) -> Vec<f64> {
    let mut run = Run::new(gpus, 64, usize::MAX);
    run.start(gpus);
    let second = |_| {
        (0..(1.0 / STEP) as usize).for_each(|_| run.step());
        run.done
    };
    (0..count).map(second).collect()
}

#[test]
fn the_seconds_of_measured_runs_are_met() {
    let one: &[f64] = &[2010., 3621., 5777., 9156., 10973., 12911., 9677., 12826., 9302., 16702., 12632.];
    let four: &[f64] = &[1042., 4191., 3888., 4711., 2265., 11784., 20493., 21631.];
    for (gpus, measured) in [(1, one), (4, four)] {
        let done = measured.iter().scan(0.0, |sum, second| {
            *sum += second;
            Some(*sum)
        });
        let shares: Vec<f64> = by_second(gpus, measured.len())
            .into_iter()
            .zip(done)
            .map(|(simulated, done)| simulated / done)
            .collect();
        // What the first two seconds do differs too much from run to run.
        assert!(shares[2..].iter().all(|share| (0.9..1.13).contains(share)), "{gpus} GPUs: {shares:.2?}");
    }
}

#[test]
fn as_many_workers_start_as_are_best() {
    let mut shares = Vec::new();
    for gpus in [1, 2, 4, 16] {
        for cores in [1, 4, 16, 32, 64, 256] {
            for pictures in [10, 100, 300, 1_000, 3_000, 10_000, 100_000] {
                let run = || Run::new(gpus, cores, pictures);
                let best = (0..=2 * gpus).map(|workers| run().with(workers)).fold(f64::MAX, f64::min);
                let decided = run().decided();
                let told =
                    format!("{pictures} pictures, {gpus} GPUs, {cores} cores: {decided:.2} s, not {best:.2}");
                shares.push((decided / best, told));
            }
        }
    }
    shares.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let average = shares.iter().map(|(share, _)| share).sum::<f64>() / shares.len() as f64;
    let told: Vec<&str> = shares.iter().take(8).map(|(_, told)| &**told).collect();
    assert!(average < 1.0 && shares[0].0 < 1.08, "{average:.3} on average, {told:#?}");
}
