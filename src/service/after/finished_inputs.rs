//! Puts finished inputs away, on a thread of its own: a copy to another file system may take longer
//! than the loop may be silent, or than the pipeline can go without work.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use tracing::{debug, info, warn};

use super::inputs::{self, Finished};
use crate::config::After;
use crate::device::backoff::Backoff;
use crate::fs::paths::Shown;
use crate::fs::stamp::Stamp;
use crate::selection::Links;

/// How long the end of the service waits for inputs still to be put away. The next start does the
/// rest.
const GRACE: Duration = Duration::from_secs(10);

/// An input whose picture is finished: done, or failed for good.
pub(crate) struct FinishedInput {
    pub(crate) input: PathBuf,
    /// Its path below the watched folder.
    pub(crate) below: PathBuf,
    /// Its state when its picture was begun.
    pub(crate) stamp: Stamp,
    /// The rule for links: only if all are followed is the target of an input that is a link put
    /// away too.
    pub(crate) links: Links,
    pub(crate) fate: Fate,
}

/// The fate of an input.
pub(crate) enum Fate {
    /// It is done. `durable` states whether its output, which lies below the folder `out`, has
    /// reached the disk.
    Done { after: After, out: PathBuf, output: PathBuf, durable: bool },
    /// It failed for `reason`, and is moved below `folder`.
    Failed { folder: PathBuf, reason: String },
}

impl FinishedInput {
    fn put_away(&self) -> io::Result<()> {
        let Self { input, below, stamp, links, fate } = self;
        if inputs::end_removal(input, *stamp)? {
            return Ok(());
        }
        let input = Finished { path: input, stamp: *stamp, links: *links };
        // A file that has replaced the input since must not be renamed, not even for a moment.
        if !stamp.is_still_of(input.path) {
            return Ok(());
        }
        match fate {
            Fate::Done { after, out, output, durable } => {
                inputs::dispose(after, input, below, (!durable).then_some((out, output)))
            }
            Fate::Failed { folder, reason } => inputs::set_aside(folder, input, below, reason),
        }
        .map(drop)
    }

    /// Returns the failed action and its reason, as the rest of a sentence.
    fn cannot(&self, why: &io::Error) -> String {
        match &self.fate {
            Fate::Done { after: After::Move(folder), .. } => {
                format!("cannot be moved to {}: {why}", Shown(folder))
            }
            Fate::Done { .. } => format!("cannot be removed: {why}"),
            Fate::Failed { folder, .. } => format!("cannot be moved to {}: {why}", Shown(folder)),
        }
    }

    fn log(&self, cannot: &str, attempts: u32) {
        let how = if matches!(self.fate, Fate::Done { .. }) { "is done" } else { "failed" };
        let input = Shown(&self.input);
        match attempts {
            0 => warn!("{input} {how}, and stays for now: it {cannot}; retrying"),
            _ => debug!("{input} still {cannot}"),
        }
    }
}

/// The inputs that are still to be put away.
#[derive(Default)]
struct Waiting(Mutex<Inputs>);

#[derive(Default)]
struct Inputs {
    leaving: HashMap<PathBuf, Arc<FinishedInput>>,
    /// The inputs among `leaving` that could not be put away: the time of the next try of each, and
    /// the number of tries.
    pausing: BTreeMap<(Instant, PathBuf), u32>,
    /// The last input that could not be put away, and why it stays.
    staying: Option<(PathBuf, String)>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Inputs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts inputs away with `put`, and retries those that could not be, until `turns` is closed.
    fn put_all_away(&self, turns: &Receiver<PathBuf>, put: impl Fn(&FinishedInput) -> io::Result<()>) {
        let mut attempts = 0;
        while let Some((input, before)) = self.next(turns, attempts > 0) {
            attempts = before;
            self.put_away(&input, attempts, &put);
        }
    }

    /// Returns the next input and the number of tries so far; `None` once `turns` is closed and
    /// empty and no retry is due.
    ///
    /// A retry that is due goes before new inputs, but not directly after another retry
    /// (`after_a_pause`): where every try takes long and fails, a new input waits for one retry at
    /// most.
    fn next(&self, turns: &Receiver<PathBuf>, after_a_pause: bool) -> Option<(PathBuf, u32)> {
        if after_a_pause && let Ok(input) = turns.try_recv() {
            return Some((input, 0));
        }
        loop {
            match self.next_due(Instant::now()) {
                Ok(due) => return Some(due),
                Err(pause) => match turns.recv_timeout(pause) {
                    Ok(input) => return Some((input, 0)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return None,
                },
            }
        }
    }

    /// Takes an input that is due for a retry, with the number of tries so far; otherwise returns
    /// the time until the next is due.
    fn next_due(&self, now: Instant) -> Result<(PathBuf, u32), Duration> {
        let mut inputs = self.lock();
        match inputs.pausing.first_entry() {
            Some(first) if first.key().0 <= now => {
                let ((_, input), attempts) = first.remove_entry();
                Ok((input, attempts))
            }
            Some(first) => Err(first.key().0 - now),
            None => Err(Backoff::OF_A_FILE.longest),
        }
    }

    /// Returns the current request for an input.
    fn wanted(&self, input: &Path) -> Option<Arc<FinishedInput>> {
        self.lock().leaving.get(input).cloned()
    }

    /// Puts an input away as currently requested, and again if the request has changed by then.
    fn put_away(&self, input: &Path, attempts: u32, put: impl Fn(&FinishedInput) -> io::Result<()>) {
        while let Some(one) = self.wanted(input) {
            let put = put(&one);
            let mut inputs = self.lock();
            if !inputs.leaving.get(input).is_some_and(|now| Arc::ptr_eq(now, &one)) {
                continue;
            }
            match put {
                Ok(()) => {
                    inputs.leaving.remove(input);
                    inputs.staying.take_if(|(staying, _)| staying == input);
                }
                Err(why) => {
                    let failures = attempts.saturating_add(1);
                    let again = Instant::now() + Backoff::OF_A_FILE.after(failures);
                    inputs.pausing.insert((again, input.to_owned()), failures);
                    let cannot = one.cannot(&why);
                    inputs.staying = Some((input.to_owned(), cannot.clone()));
                    drop(inputs);
                    return one.log(&cannot, attempts);
                }
            }
        }
    }
}

/// The thread that puts inputs away, one after another.
pub(crate) struct FinishedInputs {
    /// `None` once the thread is to end.
    turns: Option<Sender<PathBuf>>,
    waiting: Arc<Waiting>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl FinishedInputs {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread cannot be created.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_with(FinishedInput::put_away)
    }

    fn start_with(put: impl Fn(&FinishedInput) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        // Unbounded: paths are small. Where inputs are put away more slowly than they are done, it
        // is the inputs that fill the disk.
        let (turns, to_put) = unbounded::<PathBuf>();
        let (alive, ended) = bounded(0);
        let waiting = Arc::new(Waiting::default());
        let shared = Arc::clone(&waiting);
        // Never joined: a file system that hangs may block it forever.
        thread::Builder::new().name("finished-inputs".into()).spawn(move || {
            let _alive: Sender<()> = alive;
            shared.put_all_away(&to_put, put);
        })?;
        Ok(Self { turns: Some(turns), waiting, ended })
    }

    /// Queues an input to be put away. One that is already queued keeps its place, and its request
    /// is replaced.
    pub(crate) fn put(&self, one: FinishedInput) {
        let Some(turns) = &self.turns else { return };
        let input = one.input.clone();
        if self.waiting.lock().leaving.insert(input.clone(), Arc::new(one)).is_none() {
            // Fails only if the thread has panicked; its inputs then stay where they are.
            let _ = turns.send(input);
        }
    }

    /// Returns whether an input is still to be put away, or is being put away right now.
    pub(crate) fn has(&self, input: &Path) -> bool {
        self.waiting.lock().leaving.contains_key(input)
    }

    /// Returns the same as [`FinishedInputs::has`], but only for the input in the state `stamp`.
    pub(crate) fn has_in_state(&self, input: &Path, stamp: Stamp) -> bool {
        self.waiting.lock().leaving.get(input).is_some_and(|one| one.stamp == stamp)
    }

    /// Drops all requests: the inputs stay where they are until they are queued again.
    pub(crate) fn forget(&self) {
        *self.waiting.lock() = Inputs::default();
    }

    /// Returns the number of inputs that are still to be put away.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().leaving.len()
    }

    /// Returns the last input that could not be put away, and why, as a sentence.
    pub(crate) fn staying(&self) -> Option<String> {
        let inputs = self.waiting.lock();
        inputs.staying.as_ref().map(|(input, cannot)| format!("{} {cannot}", Shown(input)))
    }

    /// Waits until everything is put away, but for [`GRACE`] at most.
    pub(crate) fn end(&mut self) {
        self.turns = None;
        // No message is ever sent: the channel closes when the thread ends.
        let _ = self.ended.recv_timeout(GRACE);
        match self.waiting() {
            0 => {}
            count => info!("inputs still to be moved or deleted, at the next start: {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// A thread and inputs. Putting the input `first` away blocks until it is released, and fails.
    struct Case {
        folder: tempfile::TempDir,
        finished: FinishedInputs,
        gate: Sender<()>,
    }

    impl Case {
        fn new() -> Self {
            let (gate, blocked) = bounded::<()>(0);
            let put = move |one: &FinishedInput| match one.input.ends_with("first") {
                true => Err(blocked.recv().map_or_else(io::Error::other, |()| io::Error::other("no answer"))),
                false => one.put_away(),
            };
            Self {
                folder: tempfile::tempdir().unwrap(),
                finished: FinishedInputs::start_with(put).unwrap(),
                gate,
            }
        }

        /// Releases the first input. Returns whether the thread was waiting at it.
        fn release(&self) -> bool {
            self.gate.try_send(()).is_ok()
        }

        fn input(&self, name: &str) -> PathBuf {
            let input = self.folder.path().join(name);
            fs::write(&input, "input").unwrap();
            input
        }

        fn put(&self, input: &Path, fate: Fate) {
            let (below, stamp) = (input.file_name().unwrap().into(), stamp(input));
            self.finished.put(FinishedInput {
                input: input.to_owned(),
                below,
                stamp,
                links: Links::Inside,
                fate,
            });
        }

        /// Queues the removal of an input.
        fn remove(&self, input: &Path) {
            let out = self.folder.path().to_owned();
            let output = out.join("output");
            self.put(input, Fate::Done { after: After::Delete, out, output, durable: true });
        }
    }

    fn stamp(input: &Path) -> Stamp {
        Stamp::of(&fs::metadata(input).unwrap(), true)
    }

    fn wait_until(so: impl Fn() -> bool, what: &str) {
        let begun = Instant::now();
        while !so() {
            assert!(begun.elapsed() < GRACE, "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_file_system_that_hangs_holds_nobody_but_the_inputs_behind() {
        let mut case = Case::new();
        let [first, second] = ["first", "second"].map(|name| case.input(name));
        case.remove(&first);
        case.remove(&second);
        case.remove(&second);
        let queued = || case.finished.turns.as_ref().map(Sender::len);
        wait_until(|| queued() == Some(1), "the second waits once");
        assert!(case.finished.has(&first) && case.finished.has(&second) && second.exists());
        wait_until(|| case.release(), "the first is looked at");
        wait_until(|| case.finished.waiting() == 1, "the second is through");
        assert!(!second.exists());
        assert!(first.exists(), "it could not be put away, so it stays");
        case.finished.end();
    }

    #[test]
    fn what_was_replaced_while_it_waited_is_not_touched() {
        let case = Case::new();
        let [first, replaced] = ["first", "replaced"].map(|name| case.input(name));
        case.remove(&first);
        case.remove(&replaced);
        fs::write(&replaced, "another").unwrap();
        let inode = fs::metadata(&replaced).unwrap().ino();
        wait_until(|| case.release(), "the first is looked at");
        wait_until(|| case.finished.waiting() == 1, "the second is through");
        assert_eq!(fs::read(&replaced).unwrap(), b"another");
        assert_eq!(fs::metadata(&replaced).unwrap().ino(), inode);
    }

    #[test]
    fn what_is_to_go_elsewhere_by_now_is_not_removed() {
        let case = Case::new();
        let [first, kept] = ["first", "kept"].map(|name| case.input(name));
        case.remove(&first);
        case.remove(&kept);
        assert!(case.finished.has_in_state(&kept, stamp(&kept)));
        case.finished.forget();
        let folder = case.folder.path().join("archive");
        case.put(&kept, Fate::Failed { folder: folder.clone(), reason: "none".into() });
        // The first input may have been forgotten before the thread came to it; then there is no
        // wait to release.
        let is_through = || {
            case.release();
            case.finished.waiting() == 0
        };
        wait_until(is_through, "it is through");
        assert!(!kept.exists() && folder.join("kept").exists());
    }

    #[test]
    fn what_cannot_be_put_away_is_tried_again_after_growing_pauses() {
        let folder = tempfile::tempdir().unwrap();
        let (input, archive) = (folder.path().join("input"), folder.path().join("archive"));
        fs::write(&input, "input").unwrap();
        fs::write(&archive, "no folder").unwrap();
        let fate = Fate::Failed { folder: archive.clone(), reason: "none".into() };
        let one = FinishedInput {
            input: input.clone(),
            below: "input".into(),
            stamp: stamp(&input),
            links: Links::Inside,
            fate,
        };
        let waiting = Waiting::default();
        waiting.lock().leaving.insert(input.clone(), Arc::new(one));
        for (attempts, pause) in (0..).zip([2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(Duration::from_secs))
        {
            let before = Instant::now();
            waiting.put_away(&input, attempts, FinishedInput::put_away);
            assert!(waiting.next_due(before + pause - Duration::from_nanos(1)).is_err());
            assert_eq!(waiting.next_due(Instant::now() + pause), Ok((input.clone(), attempts + 1)));
            assert!(input.exists() && waiting.lock().leaving.contains_key(&input));
            let staying = waiting.lock().staying.clone().unwrap();
            let told = format!("cannot be moved to {}: ", Shown(&archive));
            assert!(staying.0 == input && staying.1.starts_with(&told), "{staying:?}");
        }
        fs::remove_file(&archive).unwrap();
        waiting.put_away(&input, 10, FinishedInput::put_away);
        assert!(archive.join("input").exists() && waiting.lock().leaving.is_empty());
        assert_eq!(waiting.lock().staying, None);
        assert_eq!(waiting.next_due(Instant::now()), Err(Backoff::OF_A_FILE.longest));
    }

    #[test]
    fn an_input_that_was_renamed_and_not_removed_is_removed_by_the_next_try() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let fates = [After::Delete, After::Move(at("kept"))].map(|after| Fate::Done {
            after,
            out: at(""),
            output: at("output"),
            durable: true,
        });
        let failed = Fate::Failed { folder: at("failed"), reason: "none".into() };
        for fate in fates.into_iter().chain([failed]) {
            let (input, hidden) = (at("a.png"), at(".histeqd-done-a.png"));
            fs::write(&input, "input").unwrap();
            let stamp = stamp(&input);
            let one = FinishedInput {
                input: input.clone(),
                below: "a.png".into(),
                stamp,
                links: Links::Never,
                fate,
            };
            fs::rename(&input, &hidden).unwrap();
            fs::write(&input, "another since").unwrap();
            one.put_away().unwrap();
            assert!(!hidden.exists());
            assert_eq!(fs::read(&input).unwrap(), b"another since");
        }
    }

    #[test]
    fn what_else_has_the_hidden_name_is_given_back_and_the_input_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (input, hidden) = (folder.path().join("a.png"), folder.path().join(".histeqd-done-a.png"));
        fs::write(&input, "input").unwrap();
        let before = stamp(&input);
        let one = |fate| FinishedInput {
            input: input.clone(),
            below: "a.png".into(),
            stamp: before,
            links: Links::Never,
            fate,
        };
        let delete = || Fate::Done { after: After::Delete, out: "".into(), output: "".into(), durable: true };
        fs::write(&hidden, "of a killed process").unwrap();
        one(delete()).put_away().unwrap();
        assert!(!hidden.exists() && !input.exists());
        fs::write(&hidden, "changed at the last moment").unwrap();
        one(delete()).put_away().unwrap();
        assert_eq!(fs::read(&input).unwrap(), b"changed at the last moment");
        assert!(!hidden.exists());
    }

    #[test]
    fn those_that_are_tried_again_and_new_ones_take_turns() {
        let waiting = Waiting::default();
        let due = |name: &str| waiting.lock().pausing.insert((Instant::now(), name.into()), 1);
        ["again 1", "again 2", "again 3"].iter().for_each(|name| assert!(due(name).is_none()));
        let (turn, turns) = unbounded();
        ["new 1", "new 2"].iter().for_each(|name| turn.send(name.into()).unwrap());
        drop(turn);
        let mut attempts = 0;
        let all = std::iter::from_fn(|| {
            let (input, before) = waiting.next(&turns, attempts > 0)?;
            attempts = before;
            Some(input)
        });
        let all: Vec<PathBuf> = all.collect();
        assert_eq!(all, ["again 1", "new 1", "again 2", "new 2", "again 3"].map(PathBuf::from));
    }

    #[test]
    fn the_end_waits_for_what_is_still_to_be_put_away() {
        let mut case = Case::new();
        let inputs: Vec<PathBuf> = (0..50).map(|number| case.input(&number.to_string())).collect();
        inputs.iter().for_each(|input| case.remove(input));
        case.finished.end();
        assert!(!inputs.iter().any(|input| input.exists()));
    }
}
