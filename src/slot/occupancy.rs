//! Measurement of the time in use.

use std::time::{Duration, Instant};

/// The time that a resource was busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Occupancy {
    before: Duration,
    since: Option<Instant>,
}

impl Occupancy {
    /// Records that it is busy from now on, or idle.
    pub fn set(&mut self, occupied: bool) {
        match (self.since, occupied) {
            (None, true) => self.since = Some(Instant::now()),
            (Some(since), false) => {
                self.before += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    /// Returns the time that it was busy until now.
    pub fn total(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupied_time_is_counted_once() {
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.total(), Duration::ZERO);
        occupancy.set(true);
        occupancy.set(true);
        std::thread::sleep(Duration::from_millis(5));
        assert!(occupancy.total() >= Duration::from_millis(5));
        occupancy.set(false);
        let total = occupancy.total();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(occupancy.total(), total);
    }
}
