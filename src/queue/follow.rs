//! `histeqd --watch --queue` of folders in object storage: publishes the new pictures of each
//! round. [`Rounds`] defines the rounds.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use super::outgoing::Outgoing;
use crate::config::Settings;
use crate::error::Error;
use crate::selection::promises_a_picture;
use crate::source::rounds::{self, Rounds};
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Plan};

/// The interval of checks for room in the queue.
const TICK: Duration = Duration::from_millis(200);

/// Follows the folders until asked to stop.
pub(super) fn follow(settings: &Settings, outgoing: Outgoing<'_>, stop: &Stop) -> Result<(), Error> {
    let mut following = Following { rounds: Rounds::new(settings), outgoing, stop };
    rounds::follow(stop, || Ok(Some(following.round())), || {})
}

struct Following<'a> {
    rounds: Rounds,
    outgoing: Outgoing<'a>,
    stop: &'a Stop,
}

impl Following<'_> {
    /// Lists the folders once, and publishes the new pictures. Returns the pause before the next
    /// round.
    fn round(&mut self) -> Duration {
        let mut failed = HashMap::new();
        match source::scan(self.rounds.settings(), self.stop) {
            Ok(mut plan) => {
                plan.refuse_image_folders(rounds::NO_IMAGE_FOLDERS);
                let Plan { jobs, failed: refused, .. } = plan;
                failed.extend(refused.into_iter().map(|(path, why)| (path, why.to_string())));
                let jobs = self.rounds.without_passed(jobs);
                self.publish(jobs);
            }
            Err(why) => drop(failed.insert(self.rounds.settings().out.clone(), why.to_string())),
        }
        self.rounds.log("not submitted: ", failed);
        self.rounds.pause()
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
            // Workers skip files that are not pictures, and these never have an output.
            if !promises_a_picture(&job.input)
                && let Some(state) = job.listed_state()
            {
                self.rounds.pass(job.input.clone(), state);
            }
            new.push(job);
            if new.len() == Batches::MAX {
                self.send(std::mem::take(&mut new));
            }
        }
        self.send(new);
    }

    /// Publishes these as soon as there is room.
    fn send(&mut self, jobs: Vec<Job>) {
        self.outgoing.add(jobs);
        self.outgoing.send();
        while !self.stop.asked() && !self.outgoing.has_room(Instant::now()) {
            thread::sleep(TICK);
            self.outgoing.send();
        }
    }
}
