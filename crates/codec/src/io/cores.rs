//! The CPU's cores: a count of idle ones, and their help with work that can be cut into pieces.
//!
//! Every thread that decodes, equalizes or encodes holds a [`Core`] while it does. With a full
//! folder no core is idle. With one large picture, or at the end of a folder, some are;
//! [`Cores::in_order`] has them help, and lets them go when other threads want them. The count is
//! also an [`Executor`], for pieces in any order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use equalize::Executor;

/// The most helpers for one piece of work.
///
/// More gain little, given how much one thread has to do alone, and each needs tools.
const MAX_HELPERS: usize = 15;
/// Bytes of the memory bound for each helper: many times its two tools, which are not reserved.
const MEMORY_PER_HELPER: u64 = 64 << 20;

/// Bytes that a helper's tool may take without being accounted for.
pub(crate) const SMALL_CHANGE: u64 = 1 << 20;

/// A count of idle cores.
#[derive(Debug)]
pub struct Cores {
    /// If negative, that many threads work without a core of their own.
    idle: AtomicIsize,
    /// The most helpers for one piece of work.
    most_helpers: usize,
}

/// A core that is busy until this is dropped.
#[derive(Debug)]
pub struct Core<'c>(&'c Cores);

impl Cores {
    /// Creates a count of `count` cores, all of them idle.
    pub fn new(count: usize) -> Self {
        let idle = AtomicIsize::new(isize::try_from(count).unwrap_or(isize::MAX));
        Self { idle, most_helpers: MAX_HELPERS }
    }

    /// Allows no more helpers than a run that is bound to `memory` bytes has room for.
    pub fn within(self, memory: u64) -> Self {
        let room = usize::try_from(memory / MEMORY_PER_HELPER).unwrap_or(usize::MAX);
        Self { most_helpers: self.most_helpers.min(room), ..self }
    }

    /// Creates a count without cores, for work without help.
    pub fn none() -> Self {
        Self::new(0)
    }

    /// Takes a core for a thread that works in any case, whether one is idle or not.
    pub fn work(&self) -> Core<'_> {
        self.idle.fetch_sub(1, Ordering::Relaxed);
        Core(self)
    }

    /// Leaves the core of this thread to others while it waits.
    pub fn rest_while<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.idle.fetch_add(1, Ordering::Relaxed);
        let value = wait();
        self.idle.fetch_sub(1, Ordering::Relaxed);
        value
    }

    /// Takes an idle core, if there is one.
    fn help(&self) -> Option<Core<'_>> {
        self.change_idle(|idle| (idle > 0).then_some(idle - 1)).then(|| Core(self))
    }

    /// Changes the number of idle cores, unless `change` returns `None`. Returns whether it did.
    fn change_idle(&self, change: impl Fn(isize) -> Option<isize>) -> bool {
        self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }

    /// Does `work` on every piece, on this thread and on helpers for which there are idle cores.
    ///
    /// The results are passed to `take`, on this thread and in the order of the pieces. Results are
    /// put into tools, which are reused; there are at most one plus two per helper.
    ///
    /// # Errors
    /// The first error of `take`, which is not called again after it.
    ///
    /// # Panics
    /// If `work` does.
    pub fn in_order<P: Send, T: Send, E>(
        &self,
        pieces: impl ExactSizeIterator<Item = P>,
        tool: impl Fn() -> T,
        work: impl Fn(&mut T, P) + Sync,
        mut take: impl FnMut(&mut T) -> Result<(), E>,
    ) -> Result<(), E> {
        let work = &work;
        let mut pieces = pieces.enumerate();
        thread::scope(|scope| {
            let mut workshop = Workshop::new();
            let mut helpers: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            let outcome = loop {
                helpers.retain(|helper| !helper.is_finished());
                while pieces.len() > helpers.len() + 1
                    && helpers.len() < self.most_helpers
                    && let Some(core) = self.help()
                {
                    let (given, done) = (workshop.given.clone(), workshop.done.clone());
                    let Some(helper) = start(scope, move || core.help_with(work, &given, &done)) else {
                        break;
                    };
                    helpers.push(helper);
                }
                workshop.fill(&mut pieces, &tool, 1 + 2 * helpers.len());
                if let Some(mut tool) = workshop.next_result() {
                    if let Err(error) = take(&mut tool) {
                        break Err(error);
                    }
                    workshop.put_back(tool);
                } else if !workshop.do_one(work) {
                    break Ok(());
                }
            };
            drop(workshop);
            // The scope waits for their work, but not for their thread-local memory to be freed.
            helpers.into_iter().for_each(|helper| drop(helper.join()));
            outcome
        })
    }
}

/// Idle cores help with the pieces, as they do in [`Cores::in_order`].
impl Executor for Cores {
    fn threads(&self) -> usize {
        let idle = usize::try_from(self.idle.load(Ordering::Relaxed)).unwrap_or(0);
        1 + idle.min(self.most_helpers)
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        let most_helpers = self.most_helpers.min(threads.saturating_sub(1));
        let (work, pieces) = (&work, &Mutex::new(pieces.into_iter()));
        thread::scope(|scope| {
            let mut helpers: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            while let (Some(piece), left) = next(pieces) {
                helpers.retain(|helper| !helper.is_finished());
                while helpers.len() < most_helpers.min(left)
                    && let Some(core) = self.help()
                {
                    let Some(helper) = start(scope, move || core.help_with_any(work, pieces)) else { break };
                    helpers.push(helper);
                }
                work(piece);
            }
        });
    }
}

/// Starts a helper; without a thread there is merely no help.
fn start<'s>(scope: &'s Scope<'s, '_>, help: impl FnOnce() + Send + 's) -> Option<ScopedJoinHandle<'s, ()>> {
    Builder::new().name("help".into()).spawn_scoped(scope, help).ok()
}

/// Returns the next piece, and how many are left.
fn next<P>(pieces: &Mutex<std::vec::IntoIter<P>>) -> (Option<P>, usize) {
    let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
    (pieces.next(), pieces.len())
}

/// Pieces of work, and results that wait for their turn: shared by a thread and its helpers.
struct Workshop<P, T> {
    give: Sender<(usize, P, T)>,
    given: Receiver<(usize, P, T)>,
    done: Sender<Done<T>>,
    results: Receiver<Done<T>>,
    /// Results by the numbers of their pieces.
    finished: BTreeMap<usize, thread::Result<T>>,
    /// The number of the piece whose result is next.
    next: usize,
    /// Tools that are not in use.
    tools: Vec<T>,
    /// How many other tools there are.
    in_use: usize,
    /// The most tools that there should be.
    at_most: usize,
}

/// A piece's number and its result, or the panic that it ended in.
type Done<T> = (usize, thread::Result<T>);

impl<P, T> Workshop<P, T> {
    fn new() -> Self {
        // Unbounded, but there are never more messages than tools.
        let ((give, given), (done, results)) = (unbounded(), unbounded());
        let (finished, tools) = (BTreeMap::new(), Vec::new());
        Self { give, given, done, results, finished, next: 0, tools, in_use: 0, at_most: 0 }
    }

    /// Hands out pieces until as many tools are in use as allowed.
    fn fill(
        &mut self,
        pieces: &mut impl Iterator<Item = (usize, P)>,
        tool: impl Fn() -> T,
        tools_at_most: usize,
    ) {
        self.at_most = tools_at_most;
        while self.in_use < self.at_most
            && let Some((number, piece)) = pieces.next()
        {
            let tool = self.tools.pop().unwrap_or_else(&tool);
            self.in_use += 1;
            self.give.send((number, piece, tool)).expect("the receiver is beside it");
        }
    }

    /// Returns the result whose turn it is, if it is there.
    fn next_result(&mut self) -> Option<T> {
        self.finished.extend(self.results.try_iter());
        let result = self.finished.remove(&self.next)?;
        self.next += 1;
        Some(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Keeps a tool for reuse, unless there are too many.
    fn put_back(&mut self, tool: T) {
        self.in_use -= 1;
        if self.in_use + self.tools.len() < self.at_most {
            self.tools.push(tool);
        }
    }

    /// Works on a piece or, if there is no piece left, waits for a helper that still works.
    ///
    /// Returns `false` if all work is done.
    fn do_one(&mut self, work: impl Fn(&mut T, P)) -> bool {
        if let Ok((number, piece, mut tool)) = self.given.try_recv() {
            work(&mut tool, piece);
            self.finished.insert(number, Ok(tool));
        } else if self.in_use > 0 {
            self.finished.extend(self.results.recv());
        }
        self.in_use > 0
    }
}

impl Core<'_> {
    /// Works on pieces until there will be no more, or until some thread works without a core.
    fn help_with<P, T>(
        self,
        work: impl Fn(&mut T, P),
        given: &Receiver<(usize, P, T)>,
        done: &Sender<Done<T>>,
    ) {
        let mut core = Some(self);
        while core.is_some()
            && let Ok((number, piece, mut tool)) = given.recv()
        {
            // A tool that a panic left half changed is dropped; only the panic is passed on.
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut tool, piece))).map(|()| tool);
            // A thread that gave up the work halfway wants no more results.
            let _ = done.send((number, result));
            core = core.and_then(Core::unless_wanted);
        }
    }

    /// Works on pieces until there are no more, or until some thread works without a core.
    fn help_with_any<P>(self, work: impl Fn(P), pieces: &Mutex<std::vec::IntoIter<P>>) {
        let mut core = Some(self);
        while core.is_some()
            && let (Some(piece), _) = next(pieces)
        {
            work(piece);
            core = core.and_then(Core::unless_wanted);
        }
    }

    /// Gives the core to a thread that works without one, if there is any; otherwise keeps it.
    fn unless_wanted(self) -> Option<Self> {
        if self.0.change_idle(|idle| (idle < 0).then_some(idle + 1)) {
            std::mem::forget(self);
            return None;
        }
        Some(self)
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        self.0.idle.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};
    use std::thread::ThreadId;
    use std::time::Duration;

    /// Squares numbers, some of them slowly.
    ///
    /// Returns the squares in the order in which they came, and the threads that made them.
    fn squares(cores: &Cores, count: usize) -> (Vec<usize>, HashSet<ThreadId>) {
        let (mut squares, threads) = (Vec::new(), Mutex::new(HashSet::new()));
        let work = |square: &mut usize, number: usize| {
            threads.lock().unwrap().insert(thread::current().id());
            thread::sleep(Duration::from_micros(if number.is_multiple_of(5) { 900 } else { 100 }));
            *square = number * number;
        };
        let take = |square: &mut usize| {
            squares.push(*square);
            Ok::<_, ()>(())
        };
        cores.in_order(0..count, || 0, work, take).unwrap();
        (squares, threads.into_inner().unwrap())
    }

    fn idle(cores: &Cores) -> isize {
        cores.idle.load(Ordering::Relaxed)
    }

    #[test]
    fn results_come_in_order_by_as_many_threads_as_there_are_cores() {
        for (count, expected) in [(0, 1), (1, 1), (2, 2), (4, 4)] {
            let cores = Cores::new(count);
            let own = cores.work();
            let (squares, threads) = squares(&cores, 100);
            assert_eq!(squares, (0..100).map(|number| number * number).collect::<Vec<_>>());
            assert!(threads.len() <= expected, "{} threads of {count}", threads.len());
            drop(own);
            assert_eq!(idle(&cores), count as isize, "all cores are idle again");
        }
    }

    #[test]
    fn pieces_without_an_order_are_each_done_once_by_no_more_threads_than_asked_for() {
        for (count, asked, expected) in [(0, 4, 1), (2, 4, 2), (4, 2, 2), (4, 9, 4)] {
            let cores = Cores::new(count);
            let own = cores.work();
            let done = Mutex::new((Vec::new(), HashSet::new()));
            cores.for_each(asked, (0..100).collect(), |piece: usize| {
                thread::sleep(Duration::from_micros(100));
                let mut done = done.lock().unwrap();
                done.0.push(piece);
                done.1.insert(thread::current().id());
            });
            let (mut pieces, threads) = done.into_inner().unwrap();
            pieces.sort_unstable();
            assert_eq!(pieces, (0..100).collect::<Vec<_>>());
            assert!(threads.len() <= expected, "{} threads of {count}, {asked}", threads.len());
            drop(own);
            assert_eq!(idle(&cores), count as isize, "all cores are idle again");
        }
    }

    #[test]
    fn a_panic_of_a_helper_comes_through() {
        let cores = Cores::new(3);
        let panics = |piece: usize| assert_ne!(piece, 50, "as it should");
        let outcome = catch_unwind(AssertUnwindSafe(|| cores.for_each(4, (0..100).collect(), panics)));
        assert!(outcome.is_err());
        assert_eq!(idle(&cores), 3);
    }

    #[test]
    fn no_more_help_than_is_worth_its_tools() {
        let cores = Cores::new(4 * MAX_HELPERS);
        let (squares, threads) = squares(&cores, 300);
        assert_eq!(squares.len(), 300);
        assert!(threads.len() <= 1 + MAX_HELPERS, "{} threads", threads.len());
    }

    #[test]
    fn no_more_help_than_there_is_memory_for() {
        for (memory, expected) in [(MEMORY_PER_HELPER - 1, 1), (2 * MEMORY_PER_HELPER, 3)] {
            let cores = Cores::new(8).within(memory);
            let (squares, threads) = squares(&cores, 300);
            assert_eq!(squares.len(), 300);
            assert!(threads.len() <= expected, "{} threads", threads.len());
        }
    }

    #[test]
    fn nothing_and_one_piece_need_no_help() {
        let cores = Cores::new(8);
        assert_eq!(squares(&cores, 0).0, Vec::<usize>::new());
        let (squares, threads) = squares(&cores, 1);
        assert_eq!((squares, threads), (vec![0], HashSet::from([thread::current().id()])));
    }

    #[test]
    fn a_helper_goes_when_its_core_is_wanted() {
        let cores = Cores::new(2);
        let own = cores.work();
        let both = Barrier::new(2);
        let late = Mutex::new(HashSet::new());
        let wanted = Mutex::new(None);
        let work = |_: &mut (), number: usize| match number {
            // The first two pieces are on two threads, and then a third thread wants its core.
            0 | 1 => {
                both.wait();
                wanted.lock().unwrap().get_or_insert_with(|| cores.work());
                both.wait();
            }
            _ => drop(late.lock().unwrap().insert(thread::current().id())),
        };
        cores.in_order(0..50, || (), work, |()| Ok::<_, ()>(())).unwrap();
        assert_eq!(late.into_inner().unwrap(), HashSet::from([thread::current().id()]));
        drop((own, wanted));
        assert_eq!(idle(&cores), 2);
    }

    #[test]
    fn tools_are_as_few_as_promised() {
        let cores = Cores::new(3);
        let made = Mutex::new(0);
        let tool = || *made.lock().unwrap() += 1;
        let work = |(): &mut (), _| thread::sleep(Duration::from_micros(50));
        cores.in_order(0..200, tool, work, |()| Ok::<_, ()>(())).unwrap();
        assert!(*made.lock().unwrap() <= 7, "three helpers");
        let cores = Cores::new(0);
        *made.lock().unwrap() = 0;
        cores.in_order(0..200, tool, work, |()| Ok::<_, ()>(())).unwrap();
        assert_eq!(*made.lock().unwrap(), 1, "no helper");
    }

    #[test]
    fn an_error_ends_it_and_a_panic_comes_through() {
        let cores = Cores::new(3);
        let mut taken = 0;
        let refuse = |_: &mut usize| {
            taken += 1;
            if taken == 5 { Err("full") } else { Ok(()) }
        };
        assert_eq!(cores.in_order(0..100, || 0, |tool, number| *tool = number, refuse), Err("full"));
        assert_eq!((taken, idle(&cores)), (5, 3));
        let panics = |_: &mut (), number: usize| assert_ne!(number, 50, "as it should");
        let outcome =
            catch_unwind(AssertUnwindSafe(|| cores.in_order(0..100, || (), panics, |()| Ok::<_, ()>(()))));
        assert!(outcome.is_err());
        assert_eq!(idle(&cores), 3);
    }
}
