//! Work shared among threads.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use equalize::{Executor, SAMPLES_A_THREAD};

/// Returns how many of the allowed threads (0: one for each core) pay off for this many samples.
pub(crate) fn worthwhile(allowed: usize, samples: usize) -> usize {
    let worth = (samples / SAMPLES_A_THREAD).max(1);
    match allowed {
        _ if worth == 1 => 1,
        0 => worth.min(thread::available_parallelism().map_or(1, usize::from)),
        _ => worth.min(allowed),
    }
}

/// Does `work` on all items, on this many threads; returns the threads' states.
///
/// Each thread begins with a state from `start`. The threads last no longer than the call: a pool
/// would not survive the `fork` of Python's multiprocessing.
pub(crate) fn share<T: Send, W: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    start: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, T) + Sync,
) -> Vec<W> {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut state = start();
        while let Some(item) = next() {
            work(&mut state, item);
        }
        state
    };
    thread::scope(|scope| {
        // If no more threads can be started, the running ones do everything.
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, run).ok()).collect();
        let mut states = vec![run()];
        let joined =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        states.extend(joined);
        states
    })
}

/// This many threads, for one picture.
pub(crate) struct Threads(pub(crate) usize);

impl Executor for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        share(threads, pieces.into_iter(), || (), |(), piece| work(piece));
    }
}
