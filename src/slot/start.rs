//! The conditions for the start of devices' workers: each start takes the cores and the driver a
//! second.

use std::mem;
use std::sync::PoisonError;
use std::time::Duration;

use super::{Kind, Member, PoolState, SlotPool};
use crate::slot::schedule::Standing;
use crate::slot::schedule::starts::Workers;

/// The kinds of pictures that have looked for a slot so far.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// A picture that could stay compressed.
    pub(super) compressed: bool,
    /// A picture that could not.
    pub(super) pixels: bool,
}

/// The condition for the start of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once, unless workers rest.
    Now,
    /// When more than this many workers for JPEGs are wanted, and the first picture has come that
    /// could stay compressed.
    Engines(usize),
    /// When more than this many workers for pixels are wanted, and the first picture has come that
    /// could not stay compressed.
    ///
    /// Where pictures wait for workers, the first worker starts with any picture: a worker for
    /// JPEGs may decline it.
    Lanes(usize),
}

impl SlotPool {
    /// Waits until a worker is to start, or until `given_up` is true; returns whether it is to
    /// start. A change that makes `given_up` true must be followed by [`SlotPool::look_again`].
    pub fn wait_for(&self, start: Start, given_up: impl Fn() -> bool) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| !state.has_come(start) && !given_up());
        state.unwrap_or_else(PoisonError::into_inner).has_come(start)
    }

    /// Returns whether a worker with this start is to start now.
    pub fn has_come(&self, start: Start) -> bool {
        self.lock().has_come(start)
    }

    /// Returns whether a picture has come that could stay compressed.
    pub fn has_compressed(&self) -> bool {
        self.lock().arrivals.compressed
    }

    /// Returns the numbers of wanted workers.
    pub fn wanted(&self) -> Workers {
        self.lock().wanted
    }

    /// Sets the numbers of wanted workers.
    pub fn want(&self, wanted: Workers) {
        if mem::replace(&mut self.lock().wanted, wanted) != wanted {
            self.changed.notify_all();
        }
    }

    /// Returns the numbers of workers that work or were given up.
    pub fn settled(&self) -> Workers {
        self.lock().count(|standing| standing != Standing::Down)
    }

    /// Makes all workers rest, until a slot is needed, if all slots have been unused for this long;
    /// returns whether they begin to.
    pub fn rest_after(&self, unused: Duration) -> bool {
        let mut state = self.lock();
        let is_unused =
            state.takers.is_empty() && state.has_all_slots() && state.last_use.elapsed() >= unused;
        is_unused && !mem::replace(&mut state.rests, true)
    }

    /// Makes the threads that wait in [`SlotPool::wait_for`] check again.
    pub fn look_again(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Records that a picture of this kind has come.
    pub(super) fn note_arrival(&self, kind: impl FnOnce(&mut Arrivals) -> &mut bool) {
        if !mem::replace(kind(&mut self.lock().arrivals), true) {
            self.changed.notify_all();
        }
    }
}

impl PoolState {
    fn has_come(&self, start: Start) -> bool {
        if self.rests {
            return false;
        }
        // Others take the places of given-up workers.
        let given_up = self.count(|standing| standing == Standing::Retired);
        match start {
            Start::Now => true,
            Start::Engines(number) => {
                self.arrivals.compressed && number < self.wanted.engines.saturating_add(given_up.engines)
            }
            Start::Lanes(number) => {
                let is_awaited = self.arrivals.compressed && self.wait_for_workers;
                let wanted = if self.arrivals.pixels { self.wanted.lanes } else { is_awaited.into() };
                number < wanted.saturating_add(given_up.lanes)
            }
        }
    }

    /// Returns the numbers of workers with this standing.
    fn count(&self, is: impl Fn(Standing) -> bool) -> Workers {
        let of_kind = |kind: Kind| {
            let has = |member: &&Member| member.is_worker && member.slots[kind as usize] > 0;
            self.members.iter().filter(has).filter(|member| is(member.standing)).count()
        };
        Workers { engines: of_kind(Kind::Compressed), lanes: of_kind(Kind::Pixels) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::schedule::Attempts;
    use std::sync::Arc;

    /// Returns whether the condition for such a start is met after a change.
    fn come_after(pool: &SlotPool, start: Start, change: impl FnOnce()) -> bool {
        change();
        pool.has_come(start)
    }

    fn want(pool: &SlotPool, engines: usize, lanes: usize) {
        pool.want(Workers { engines, lanes });
    }

    #[test]
    fn workers_for_pixels_start_with_pixels() {
        let pool = Arc::new(SlotPool::new(1 << 20));
        pool.join_cpu(2);
        let (first, second) = (Start::Lanes(0), Start::Lanes(1));
        want(&pool, 1, 1);
        assert!(pool.has_come(Start::Now));
        assert!(!pool.wait_for(first, || true), "given up");
        assert!(!come_after(&pool, first, || pool.note_arrival(|arrivals| &mut arrivals.compressed)));
        let awaited = |number| come_after(&pool, Start::Lanes(number), || pool.wait_for_workers(true));
        assert_eq!([0, 1].map(awaited), [true, false], "a picture may be declined");
        pool.wait_for_workers(false);
        let other = Arc::clone(&pool);
        let waiting = std::thread::spawn(move || other.wait_for(first, || false));
        drop(pool.take(1, 0, 0, &Attempts::default()).unwrap());
        assert!(waiting.join().unwrap());
        assert_eq!(
            [come_after(&pool, second, || ()), come_after(&pool, second, || want(&pool, 1, 2))],
            [false, true]
        );
    }

    #[test]
    fn workers_rest_after_a_time_without_work_until_something_looks_for_a_slot() {
        let (none, long) = (Duration::ZERO, Duration::from_secs(3600));
        let pool = Arc::new(SlotPool::new(1 << 20));
        pool.join_cpu(1);
        assert!(!pool.rest_after(long));
        let slot = pool.take(1, 0, 0, &Attempts::default()).unwrap();
        assert!(!pool.rest_after(none), "there is work");
        drop(slot);
        assert_eq!([none, none].map(|unused| pool.rest_after(unused)), [true, false]);
        assert!(!pool.has_come(Start::Now));
        let other = Arc::clone(&pool);
        let waiting = std::thread::spawn(move || other.wait_for(Start::Now, || false));
        drop(pool.take(1, 0, 0, &Attempts::default()).unwrap());
        assert!(waiting.join().unwrap() && !pool.rest_after(long));
    }

    #[test]
    fn as_many_workers_start_as_are_wanted_besides_those_given_up() {
        let pool = Arc::new(SlotPool::new(1 << 20));
        pool.join_cpu(2);
        let [first, lanes] = [0, 2].map(|slots| pool.join_worker(slots, Box::new(|_| ())));
        pool.add(first, 9, Kind::Compressed);
        want(&pool, 1, 1);
        assert!(!pool.has_come(Start::Engines(0)), "nothing has come that could stay compressed");
        pool.note_arrival(|arrivals| &mut arrivals.compressed);
        assert_eq!([0, 1].map(|number| pool.has_come(Start::Engines(number))), [true, false]);
        assert_eq!(pool.settled(), Workers::default());
        pool.up(lanes);
        assert_eq!(pool.settled(), Workers { engines: 0, lanes: 1 });
        assert!(come_after(&pool, Start::Engines(1), || pool.retire(first)));
        assert!(come_after(&pool, Start::Engines(2), || want(&pool, 2, 1)));
        pool.note_arrival(|arrivals| &mut arrivals.pixels);
        assert!(!pool.has_come(Start::Lanes(1)));
        assert!(come_after(&pool, Start::Lanes(1), || pool.retire(lanes)));
    }
}
