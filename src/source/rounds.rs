//! Folders in object storage, which announce no changes: they are listed in rounds, each a run of
//! its own, until the user stops that. The module keeps the state between rounds; the caller
//! processes the new objects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::Job;
use super::stop::Stop;
use crate::config::Settings;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::fs::stamp::Stamp;

/// The interval of listings without `--poll`.
const POLL: Duration = Duration::from_secs(30);
/// Why images that are folders are not followed: there is no sign that one is complete.
pub(crate) const NO_IMAGE_FOLDERS: &str =
    "--watch takes objects, each of which appears whole; run histeqd on it without --watch";
/// The interval of checks for a stop.
const TICK: Duration = Duration::from_millis(200);

/// Does rounds until asked to stop. Each returns the pause before the next, or `None` to end;
/// `waits` is called repeatedly meanwhile.
///
/// # Errors
/// That of a round.
pub(crate) fn follow(
    stop: &Stop,
    mut round: impl FnMut() -> Result<Option<Duration>, Error>,
    waits: impl Fn(),
) -> Result<(), Error> {
    while !stop.asked() {
        let Some(pause) = round()? else { return Ok(()) };
        let next = Instant::now() + pause;
        while !stop.asked() && Instant::now() < next {
            waits();
            thread::sleep(TICK.min(next.saturating_duration_since(Instant::now())));
        }
    }
    Ok(())
}

/// The state between rounds.
pub(crate) struct Rounds {
    settings: Settings,
    /// The objects that are not handed on again in these states.
    passed: HashMap<PathBuf, Stamp>,
    /// The last message logged about each input or folder, which is not repeated in every round.
    told: HashMap<PathBuf, String>,
}

impl Rounds {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { settings: of_a_round(settings.clone()), passed: HashMap::new(), told: HashMap::new() }
    }

    /// Returns the settings of the next round.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the pause between rounds.
    pub(crate) fn pause(&self) -> Duration {
        self.settings.service.poll.unwrap_or(POLL)
    }

    /// Continues with other settings, which may process objects that were skipped before.
    pub(crate) fn reload(&mut self, settings: Settings) {
        self.settings = of_a_round(settings);
        self.passed.clear();
    }

    /// Removes the jobs that were skipped before in the same state, given all jobs that a listing
    /// found. Forgets skipped objects that are not among them.
    pub(crate) fn without_passed(&mut self, mut jobs: Vec<Job>) -> Vec<Job> {
        let mut before = std::mem::take(&mut self.passed);
        jobs.retain(|job| !self.is_passed(&mut before, &job.input, job.listed_state()));
        jobs
    }

    /// Returns whether an object was skipped `before` in this state, and remembers it if so.
    fn is_passed(
        &mut self,
        before: &mut HashMap<PathBuf, Stamp>,
        input: &Path,
        state: Option<Stamp>,
    ) -> bool {
        let known = before.remove_entry(input).filter(|(_, known)| state == Some(*known));
        self.passed.extend(known.clone());
        known.is_some()
    }

    /// Skips an object as long as it is in this state.
    pub(crate) fn pass(&mut self, input: PathBuf, state: Stamp) {
        self.passed.insert(input, state);
    }

    /// Logs the failures of a round, unless the one before had the same, and the folders that have
    /// come back.
    pub(crate) fn log(&mut self, lead: &str, failed: HashMap<PathBuf, String>) {
        for (path, why) in failed.iter().filter(|(path, why)| self.told.get(*path) != Some(*why)) {
            warn!("{lead}{}: {why}", Shown(path));
        }
        for path in self.told.keys().filter(|path| self.is_folder(path) && !failed.contains_key(*path)) {
            info!("{}: there again", Shown(path));
        }
        self.told = failed;
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.settings.inputs.iter().chain([&self.settings.out]).any(|own| own == path)
    }
}

/// Returns the settings of one round: it ends, and a bucket that is gone ends all of it, not only a
/// picture.
fn of_a_round(settings: Settings) -> Settings {
    Settings { never_ends: false, ..settings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Request, Written};

    #[test]
    fn what_is_passed_over_is_forgotten_once_it_is_gone_or_another() {
        let settings = Settings::resolve(Written::default(), Request::default()).unwrap();
        let mut rounds = Rounds::new(&settings);
        let state = |size| Stamp { size, mtime_ns: 0, inode: 0 };
        for (name, size) in [("same", 1), ("another", 2), ("gone", 3)] {
            rounds.pass(name.into(), state(size));
        }
        for _ in 0..2 {
            let mut before = std::mem::take(&mut rounds.passed);
            assert!(rounds.is_passed(&mut before, Path::new("same"), Some(state(1))));
            assert!(!rounds.is_passed(&mut before, Path::new("another"), Some(state(1))));
            assert!(!rounds.is_passed(&mut before, Path::new("new"), Some(state(1))));
            assert_eq!(rounds.passed.keys().collect::<Vec<_>>(), [Path::new("same")]);
        }
    }

    #[test]
    fn a_stop_ends_the_wait_for_the_next_round() {
        let (stop, mut rounds) = (Stop::default(), 0);
        let round = || {
            rounds += 1;
            Ok(Some(Duration::from_secs(3600)))
        };
        follow(&stop, round, || stop.ask()).unwrap();
        assert_eq!(rounds, 1);
    }
}
