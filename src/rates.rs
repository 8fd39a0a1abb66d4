//! What pictures cost in this run: the processor time of each kind, by who equalized them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codec::Format;
use equalize::{Depth, Layout};

/// Who equalizes a picture that the CPU decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The CPU, which then encodes it too.
    Cpu,
    /// A worker. The cores decode it into memory that the worker maps; they encode it from there, unless the worker does.
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

/// Processor time per pixel, averaged over the latest pictures.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    nanoseconds: f64,
    pictures: u32,
}

impl Average {
    /// The share of the newest picture in the average, once there are enough. The first pictures in new memory cost more than those that
    /// follow, so the average has to forget them soon.
    const SHARE: f64 = 1.0 / 16.0;
    /// So many pictures make an average that is worth comparing.
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

/// What one class costs.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    cpu: Average,
    worker: Average,
    /// How many pictures were kept from workers.
    kept: u32,
}

impl Costs {
    /// Of the pictures that are cheaper on the CPU, one in so many is given to a worker all the same, to see whether that is still so.
    const RETRIED: u32 = 64;

    fn keep_from_workers(&mut self) -> bool {
        let is_cheaper =
            matches!((self.cpu.get(), self.worker.get()), (Some(cpu), Some(worker)) if cpu <= worker);
        if is_cheaper {
            self.kept = self.kept.wrapping_add(1);
        }
        is_cheaper && !self.kept.is_multiple_of(Self::RETRIED)
    }
}

/// What was measured so far.
#[derive(Debug, Default)]
pub struct Rates(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    classes: HashMap<Class, Costs>,
    pictures: usize,
}

impl Rates {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a picture of so many pixels, which took this much time of the cores. `way` is `None` where that is not to be compared: a
    /// device decoded it, or several had parts of it.
    pub fn add(&self, class: Class, way: Option<Way>, pixels: u64, time: Duration) {
        let mut measured = self.lock();
        measured.pictures += 1;
        let Some(way) = way else { return };
        let costs = measured.classes.entry(class).or_default();
        let average = match way {
            Way::Cpu => &mut costs.cpu,
            Way::Worker => &mut costs.worker,
        };
        average.add(time.as_nanos() as f64 / pixels.max(1) as f64);
    }

    /// Returns whether the next picture of a class should be kept from workers, because handing such pictures over and taking them back was
    /// measured to take the cores as long as all of the work.
    pub fn cpu_is_cheaper(&self, class: Class) -> bool {
        self.lock().classes.get_mut(&class).is_some_and(Costs::keep_from_workers)
    }

    /// Returns how many pictures were measured.
    pub fn pictures(&self) -> usize {
        self.lock().pictures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::Pixel;

    fn class(side: u32) -> Class {
        let layout = Layout { width: side, height: side, pixel: Pixel::Gray, depth: Depth::Eight };
        Class::new(Format::Pnm, &layout)
    }

    fn add(rates: &Rates, way: Way, nanoseconds: u64, pictures: usize) {
        (0..pictures)
            .for_each(|_| rates.add(class(100), Some(way), 10, Duration::from_nanos(10 * nanoseconds)));
    }

    #[test]
    fn pictures_are_kept_from_workers_that_save_nothing_but_for_a_few() {
        let rates = Rates::default();
        assert!(!rates.cpu_is_cheaper(class(100)), "nothing is known");
        add(&rates, Way::Cpu, 5, 16);
        add(&rates, Way::Worker, 7, 15);
        assert!(!rates.cpu_is_cheaper(class(100)), "too little is known");
        add(&rates, Way::Worker, 7, 1);
        assert_eq!((0..128).filter(|_| !rates.cpu_is_cheaper(class(100))).count(), 2);
        assert!(!rates.cpu_is_cheaper(class(1000)), "other pictures");
        assert_eq!(rates.pictures(), 32);
    }

    #[test]
    fn what_new_memory_costs_is_forgotten() {
        let rates = Rates::default();
        add(&rates, Way::Cpu, 5, 100);
        add(&rates, Way::Worker, 20, 40);
        assert!(rates.cpu_is_cheaper(class(100)));
        add(&rates, Way::Worker, 4, 60);
        assert!(!rates.cpu_is_cheaper(class(100)));
    }
}
