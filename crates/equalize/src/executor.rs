//! One picture on several threads.
//!
//! The crate starts no threads: it cuts a picture into independent pieces, and the caller's
//! [`Executor`] has its threads work on them.
//!
//! ```
//! use histeqd_equalize::*;
//! use std::sync::Mutex;
//!
//! /// Threads that last no longer than a step of the work.
//! struct Threads(usize);
//!
//! impl Executor for Threads {
//!     fn threads(&self) -> usize {
//!         self.0
//!     }
//!
//!     fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
//!         let pieces = Mutex::new(pieces.into_iter());
//!         let next = || pieces.lock().unwrap().next();
//!         let run = || {
//!             while let Some(piece) = next() {
//!                 work(piece);
//!             }
//!         };
//!         std::thread::scope(|scope| {
//!             (1..threads).for_each(|_| drop(scope.spawn(run)));
//!             run();
//!         });
//!     }
//! }
//!
//! let layout = Layout { width: 1200, height: 1000, pixel: Pixel::Gray, depth: Depth::Eight };
//! let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 };
//! let operation = Operation::new(Method::Clahe(clahe));
//! let mut scratch = Scratch::default();
//!
//! let picture: Vec<u8> = (0..layout.bytes()).map(|at| (at * at >> 7) as u8).collect();
//! let mut alone = picture.clone();
//! equalize(&mut alone, &layout, &operation, &mut scratch);
//! let mut shared = vec![0; picture.len()];
//! equalize_on(&Threads(4), Some(&picture), &mut shared, &layout, &operation, &[], &mut scratch);
//! assert!(shared == alone);
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The fewest samples for which another thread saves more than it costs.
pub const SAMPLES_A_THREAD: usize = 1 << 18;

/// The average number of pieces for each thread, to keep waits for a paused thread short.
const PIECES_A_THREAD: usize = 12;

/// The fewest samples that are worth a piece of their own.
const SAMPLES_A_PIECE: usize = 1 << 15;

/// The threads that work on the pieces of a picture.
pub trait Executor: Sync {
    /// Returns how many threads can work at once, including the calling thread.
    fn threads(&self) -> usize;

    /// Calls `work` once with each piece, and returns when all calls have returned.
    ///
    /// It uses this thread and at most `threads - 1` others. Each thread should take the next piece
    /// when it has finished one: pieces are of unlike size.
    ///
    /// # Panics
    /// If `work` does.
    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync);
}

impl<E: Executor> Executor for &E {
    fn threads(&self) -> usize {
        E::threads(self)
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        E::for_each(self, threads, pieces, work);
    }
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Executor for Sequential {
    fn threads(&self) -> usize {
        1
    }

    fn for_each<P: Send>(&self, _threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        pieces.into_iter().for_each(work);
    }
}

/// The threads that share one picture, as many as pay off.
pub(super) struct Team<'e, E> {
    executor: &'e E,
    threads: usize,
}

impl<'e, E: Executor> Team<'e, E> {
    /// Returns the team for a picture of so many samples.
    pub(super) fn new(executor: &'e E, samples: usize) -> Self {
        Self { executor, threads: executor.threads().min(samples / SAMPLES_A_THREAD).max(1) }
    }

    /// Returns the number of threads.
    pub(super) const fn threads(&self) -> usize {
        self.threads
    }

    /// Returns how many of `samples` samples a piece should have.
    ///
    /// A thread that works alone has all of them.
    pub(super) fn piece(&self, samples: usize) -> usize {
        if self.threads == 1 {
            return samples.max(1);
        }
        samples.div_ceil(self.threads * PIECES_A_THREAD).max(SAMPLES_A_PIECE)
    }

    /// Calls `work` once with each piece, and returns when all calls have returned.
    pub(super) fn for_each<P: Send>(&self, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        match self.threads.min(pieces.len()) {
            0 | 1 => pieces.into_iter().for_each(work),
            threads => self.executor.for_each(threads, pieces, work),
        }
    }
}

/// Buffers that threads take while they work on a piece: one set for each thread at work.
pub(super) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T: Default> Pool<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works with buffers that no other thread uses meanwhile.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let taken = self.lock().pop();
        let mut buffers = taken.unwrap_or_default();
        let result = work(&mut buffers);
        self.lock().push(buffers);
        result
    }

    /// Returns the buffers of all threads.
    pub(super) fn all(&mut self) -> &mut Vec<T> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
