//! `histeqd --watch --queue` of folders in object storage: they are listed again and again, and what is new is published.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use super::message::Picture;
use super::outgoing::Outgoing;
use crate::config::Settings;
use crate::fs::paths::Shown;
use crate::selection::promises_a_picture;
use crate::service::follow::POLL;
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Plan};

/// How often a stop is looked for.
const TICK: Duration = Duration::from_millis(200);

/// Follows the folders until asked to stop.
pub(super) fn follow(settings: &Settings, outgoing: Outgoing<'_>, stop: &Stop) {
    // A round is a run of its own.
    let mut settings = settings.clone();
    settings.watch = false;
    let every = settings.service.poll.unwrap_or(POLL);
    let mut following =
        Following { settings, outgoing, stop, doubtful: HashSet::new(), told: HashMap::new() };
    while !stop.asked() {
        following.round();
        let next = Instant::now() + every;
        while !stop.asked() && Instant::now() < next {
            thread::sleep(TICK.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

struct Following<'a> {
    settings: Settings,
    outgoing: Outgoing<'a>,
    stop: &'a Stop,
    /// Objects that were published although their names are not those of pictures, in their states: workers pass over those that are none,
    /// and they never have an output.
    doubtful: HashSet<(PathBuf, String)>,
    /// What was said of an input or folder, so that it is not said again in every round.
    told: HashMap<PathBuf, String>,
}

impl Following<'_> {
    /// Lists the folders once, and publishes what is new.
    fn round(&mut self) {
        let mut failed = HashMap::new();
        match source::scan(&self.settings, self.stop) {
            Ok(Plan { jobs, failed: refused, .. }) => {
                failed.extend(refused.into_iter().map(|(path, why)| (path, why.to_string())));
                self.publish(jobs);
            }
            Err(why) => drop(failed.insert(self.settings.out.clone(), why.to_string())),
        }
        for (path, why) in &failed {
            if self.told.get(path) != Some(why) {
                warn!("not submitted: {}: {why}", Shown(path));
            }
        }
        self.told = failed;
    }

    fn publish(&mut self, jobs: Vec<Job>) {
        let mut new = Vec::new();
        for job in jobs {
            match self.outgoing.has(&job) {
                // The next round finds it again.
                None => break,
                Some(true) => continue,
                Some(false) => {}
            }
            let picture = Picture::of(job.clone());
            if promises_a_picture(&job.input) || self.doubtful.insert((picture.input, picture.state)) {
                new.push(job);
            }
            if new.len() == Batches::MAX {
                self.send(std::mem::take(&mut new));
            }
        }
        self.send(new);
    }

    /// Publishes these, as soon as there is room.
    fn send(&mut self, jobs: Vec<Job>) {
        self.outgoing.add(jobs);
        self.outgoing.send();
        while !self.stop.asked() && !self.outgoing.has_room(Instant::now()) {
            thread::sleep(TICK);
            self.outgoing.send();
        }
    }
}
