//! Runs of JPEGs in which workers start, to see what the decisions make of more GPUs, cores and pictures than tests have.
//!
//! Work flows: all that work do so at their rates, less what starts keep them from. What is decided is compared with the best number of
//! workers to start at once at the beginning, which nobody can know then.

use super::*;

/// Pictures a second, of 11.5 megapixels: of a core, and of a GPU's first worker; measured on H100s.
const CORE: f64 = 11.0;
const ENGINE: f64 = 520.0;

/// How much longer a worker takes to start for each other that starts.
const LONGER: f64 = 0.3;

const STEP: f64 = 0.02;

struct Run {
    gpus: usize,
    cores: usize,
    pictures: f64,
    now: f64,
    done: f64,
    /// When each worker that has started is ready.
    ready_at: Vec<f64>,
}

impl Run {
    fn new(gpus: usize, cores: usize, pictures: usize) -> Self {
        Self { gpus, cores, pictures: pictures as f64, now: 0.0, done: 0.0, ready_at: Vec::new() }
    }

    fn settled(&self) -> usize {
        self.ready_at.iter().filter(|&&at| at <= self.now).count()
    }

    fn start(&mut self, workers: usize) {
        let others = (workers - self.settled()).saturating_sub(1) as f64;
        self.ready_at.resize(workers, self.now + ENGINES.seconds + LONGER * others);
    }

    fn step(&mut self) {
        let settled = self.settled();
        let starting = (self.ready_at.len() - settled) as f64;
        let engines =
            settled.min(self.gpus) as f64 + GAIN_OF_SECOND * settled.saturating_sub(self.gpus) as f64;
        let kept = (1.0 - starting * ENGINES.lost / ENGINES.seconds / self.gpus as f64).max(0.0);
        self.done += (CORE * self.cores as f64 + ENGINE * engines) * kept * STEP;
        self.now += STEP;
    }

    /// Returns the seconds that it takes with so many workers from the beginning.
    fn with(mut self, workers: usize) -> f64 {
        self.start(workers);
        while self.done < self.pictures {
            self.step();
        }
        self.now
    }

    /// Returns the seconds that it takes if workers start as they pay.
    fn decided(mut self) -> f64 {
        let (mut rate, mut before, mut since) = (CORE * self.cores as f64, (0, 0.0), 0.0);
        while self.done < self.pictures {
            let (settled, started) = (self.settled(), self.ready_at.len());
            if settled != before.0 {
                (before, since) = ((settled, self.done), self.now);
            }
            let is_measured = self.now >= since + 0.8;
            if settled > 0 && is_measured {
                rate = (self.done - before.1) / (self.now - since);
            }
            if settled == 0 || is_measured {
                let rest = seconds((self.pictures - self.done) / rate);
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

#[test]
fn as_many_workers_start_as_are_best() {
    for (gpus, bound) in [(1, 1.15), (2, 1.15), (4, 1.25), (16, 1.35)] {
        for cores in [1, 4, 16, 32, 64, 256] {
            for pictures in [10, 100, 300, 1_000, 3_000, 10_000, 100_000] {
                let run = || Run::new(gpus, cores, pictures);
                let best = (0..=2 * gpus).map(|workers| run().with(workers)).fold(f64::MAX, f64::min);
                let decided = run().decided();
                let told =
                    format!("{pictures} pictures, {gpus} GPUs, {cores} cores: {decided:.2} s, not {best:.2}");
                assert!(decided <= bound * best, "{told}");
            }
        }
    }
}
