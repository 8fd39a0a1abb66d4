//! The main loop of a service: waits for an event, lets its owner decide, and carries out the
//! decision.
//!
//! Each part of the state has one owner, which does not know the others: [`Watch`] has arriving
//! files, [`Rules`] the settings, [`OutputAccess`] and [`Gate`] whether outputs can be written,
//! [`Pictures`] the pictures in progress and their ends, [`FinishedInputs`] the inputs to move or
//! remove, [`Reporter`] the reports. Only the loop knows all of them. It never waits for a picture,
//! nor for an input being copied elsewhere, and therefore always responds.

mod begin;
mod end;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use tracing::{error, info};

use super::after::finished_inputs::FinishedInputs;
use super::examine::Examiner;
use super::folders::gate::Gate;
use super::folders::output_access::{OutputAccess, OutputMount};
use super::pictures::{End, Pictures};
use super::reports::log;
use super::reports::reporter::Reporter;
use super::rules::Rules;
use super::watch::Watch;
use super::watch::notifier::Signal;
use super::web::answers::{Change, ChangeRequest};
use super::web::status_socket::StatusSocket;
use super::{Control, TICK, WAITING};
use crate::commands::retry::Wanted;
use crate::fs::paths::{Shown, is_gone};
use crate::ledger::{LedgerError, LockError, ServiceReport};
use crate::progress::Event;

/// The most inputs of failed pictures to look for in one turn: a slow file system must not hold up
/// the loop.
const LOOKED_FOR_A_TURN: usize = 1000;

/// The loop, and the owners of its state.
pub(super) struct Watching<'a> {
    pub(super) watch: Watch,
    pub(super) rules: Rules<'a>,
    pub(super) output: OutputAccess,
    pub(super) gate: Gate,
    pub(super) pictures: Pictures,
    pub(super) finished_inputs: FinishedInputs,
    pub(super) reporter: Reporter,
    pub(super) control: Control,
    /// The changes that clients request of the service.
    pub(super) to_change: Receiver<ChangeRequest>,
    pub(super) socket: StatusSocket,
    /// Whether a user paused the service.
    pub(super) is_paused: bool,
    /// The inputs of failed pictures that are still to be looked for.
    pub(super) looked_for: Vec<PathBuf>,
}

impl Watching<'_> {
    /// Runs the loop until the pipeline has ended.
    ///
    /// # Errors
    /// When another process has taken over the output folder or the ledger.
    pub(super) fn run(mut self, events: &Receiver<Event>) -> Result<(), LockError> {
        self.socket.keep();
        loop {
            let signals = self.watch.signals();
            let mut signal = None;
            select! {
                recv(signals) -> told => signal = told.ok(),
                recv(events) -> told => match told {
                    Ok(event) => self.hear(event),
                    Err(_) => break,
                },
                recv(self.to_change) -> asked => asked.into_iter().for_each(|request| self.change(request)),
                default(self.pause()) => {}
            }
            events.try_iter().take(WAITING).for_each(|event| self.hear(event));
            if !self.pictures.are_stopped() {
                self.look(signal);
                self.feed();
            }
            self.tick(Instant::now());
        }
        self.finished_inputs.end();
        self.pictures.end();
        self.say(Instant::now());
        self.output.leave()
    }

    /// Returns how long to wait for a message.
    fn pause(&self) -> Duration {
        if self.pictures.are_stopped() { TICK } else { self.watch.pause(Instant::now(), TICK) }
    }

    /// Does the work that no message announces.
    fn tick(&mut self, now: Instant) {
        if self.control.stop.asked() && self.pictures.stop() {
            info!("stopping: finishing the pictures in progress");
            self.reporter.health().stopping();
            let excused = self.pictures.excuse(self.output.ledger());
            self.check(excused);
        }
        if self.control.reload.swap(false, Ordering::Relaxed) {
            self.reload();
        }
        self.reporter.health().beat(self.pictures.begun() > 0);
        if self.reporter.is_due(now) {
            self.say(now);
        }
        if self.output.is_to_prune(now) && self.has_output() {
            let inputs_go = !self.rules.inputs_stay();
            let pruned = self.output.prune(&self.watch.may_be_unmounted(inputs_go), inputs_go, now);
            self.check(pruned);
        }
    }

    /// Handles a report of the watched folders.
    fn look(&mut self, signal: Option<Signal>) {
        let Self { watch, rules, output, finished_inputs, .. } = self;
        let ledger = output.ledger();
        let mut known = |path: &Path, below: &Path, stamp| {
            finished_inputs.has_in_state(path, stamp) || rules.is_settled(ledger, path, below, stamp)
        };
        watch.turn(signal, &mut known, Instant::now());
        watch.log_notes();
        rules.take_folder_notes().into_iter().for_each(log::folder_note);
        rules.take_changed_folders().iter().for_each(|folder| watch.retry_below(folder));
        let gone = self.watch.take_gone();
        self.forget_gone(&gone);
        self.look_for_failed();
        self.put_leftovers_back();
    }

    /// Looks for the inputs of failed pictures after every listing, and forgets the missing ones:
    /// no message names the files in a folder that is moved away, nor files that disappeared while
    /// the service did not run. One turn looks for a part of them.
    fn look_for_failed(&mut self) {
        if self.looked_for.is_empty() && self.watch.take_listed() {
            match self.output.ledger().all_failed() {
                Ok(failed) => self.looked_for = failed,
                Err(why) => return self.ledger_failed(why),
            }
        }
        let mut gone = self.looked_for.split_off(self.looked_for.len().saturating_sub(LOOKED_FOR_A_TURN));
        if !gone.is_empty() {
            let missing = self.watch.may_be_unmounted(!self.rules.inputs_stay());
            gone.retain(|input| !missing.iter().any(|folder| input.starts_with(folder)) && is_gone(input));
            self.forget_gone(&gone);
        }
    }

    /// Forgets the failed pictures among inputs that are gone: there is no remedy for them any
    /// more.
    fn forget_gone(&mut self, gone: &[PathBuf]) {
        if gone.is_empty() {
            return;
        }
        for input in gone.iter().filter(|input| self.pictures.forget(input)) {
            self.reporter.account().forget_failed(input);
        }
        let forgotten = self.output.ledger().forget_gone(gone);
        self.check(forgotten);
    }

    /// Returns whether the output folder's file system is there.
    fn has_output(&mut self) -> bool {
        let mount = self.output.look();
        if mount == OutputMount::New {
            // The obstacle to outputs concerned the other file system.
            self.gate.release();
            self.pictures.forget_writes();
            self.watch.list_all();
        }
        mount != OutputMount::Gone
    }

    /// Handles the result of a call of the ledger.
    fn check(&mut self, done: Result<(), LedgerError>) {
        done.unwrap_or_else(|why| self.ledger_failed(why));
    }

    fn ledger_failed(&mut self, why: LedgerError) {
        let anew = self.output.ledger_failed(why);
        self.go_on_with_ledger(anew);
    }

    /// Continues with a new ledger if there is one, for the reason `anew`: writes the remembered
    /// pictures to it, and lists everything. Others that were done are done again.
    fn go_on_with_ledger(&mut self, anew: Option<String>) {
        let Some(why) = anew else { return };
        self.reporter.account().ledger_is_new(why);
        self.watch.list_all();
        if let Err(why) = self.pictures.rebuild(self.output.ledger()) {
            // Then these pictures are only processed or tried once more.
            let _ = self.output.ledger_failed(why);
        }
    }

    /// Rereads the configuration and applies the keys that a running service can change.
    fn reload(&mut self) {
        let reread = (self.control.read)().and_then(|new| Ok((self.rules.reload(&new)?, new)));
        let (reloaded, new) = match reread {
            Ok(reloaded) => reloaded,
            Err(why) => return error!("configuration not reloaded: {why}"),
        };
        // The listing that follows finds these inputs again, and they are put away according to the
        // new settings.
        self.finished_inputs.forget();
        self.watch.reconfigure(reloaded.options, new.service.settle);
        log::reloaded(&reloaded.applied, &reloaded.fixed);
        log::warn_of_overwrite(&new);
    }

    /// Makes a change to the service that a client requested.
    fn change(&mut self, ChangeRequest { change, answer }: ChangeRequest) {
        let changed = match change {
            Change::Retry(wanted) => self.retry(&wanted),
            Change::Pause => Ok(self.set_paused(true)),
            Change::Resume => Ok(self.set_paused(false)),
        };
        // The client may have given up meanwhile.
        let _ = answer.send(changed);
    }

    /// Takes up failed pictures again. Returns their number, or the reason for a refusal as a
    /// sentence.
    fn retry(&mut self, wanted: &Wanted) -> Result<usize, String> {
        self.pictures.forget_failures(|input| wanted.has(input));
        let forgotten = self.output.ledger().forget_failed(|input| wanted.has(input));
        let count = forgotten.map_err(|why| why.to_string())?;
        if count > 0 {
            info!("{count} failed pictures are retried");
            self.watch.list_all();
        }
        Ok(count)
    }

    /// Stops or resumes the start of pictures. Returns the number of waiting ones.
    fn set_paused(&mut self, is_paused: bool) -> usize {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            info!("{}", if is_paused { "paused: pictures in progress are finished" } else { "resumed" });
            self.say(Instant::now());
        }
        self.watch.counts().ready
    }

    /// Reports the service's state to the ledger and to all receivers.
    fn say(&mut self, now: Instant) {
        if self.has_output() {
            let anew = self.output.keep();
            self.go_on_with_ledger(anew);
            if !self.pictures.are_stopped() && self.output.trouble().is_none() {
                self.socket.keep();
            }
        }
        let service = self.state();
        let ledger = self.output.ledger();
        match self.pictures.write_notes(ledger).and_then(|()| ledger.say(&service)) {
            // The obstacle to pictures may have been the ledger; if not, the next picture will find
            // out.
            Ok(()) if self.output.ledger_works() => self.gate.release(),
            Ok(()) => {}
            Err(why) => self.ledger_failed(why),
        }
        self.reporter.say(service, self.output.ledger_trouble(), now);
    }

    /// Returns the service's state.
    fn state(&mut self) -> ServiceReport {
        let (counts, running) = (self.watch.counts(), self.pictures.begun());
        let waiting = counts.ready + usize::from(self.pictures.has_suspect());
        if waiting + running == 0 {
            self.gate.release();
        }
        ServiceReport {
            pid: std::process::id(),
            seconds_ago: 0,
            stopped: self.pictures.are_stopped() && running == 0,
            incomplete: counts.incomplete,
            waiting,
            running,
            pausing: counts.pausing,
            leaving: self.finished_inputs.waiting(),
            staying: self.finished_inputs.staying(),
            paused: self.is_paused,
            held: self.output.trouble().or(self.gate.why()).map(str::to_owned),
            unusable: self.rules.unusable(),
            missing: self.watch.missing().map(|folder| Shown(folder).to_string()).collect(),
            devices: self.reporter.metrics().devices(),
        }
    }

    fn examiner(&self) -> Examiner<'_> {
        let Self { rules, watch, pictures, finished_inputs, output, .. } = self;
        Examiner { rules, watch, pictures, finished_inputs, ledger: output.ledger() }
    }

    /// Writes the end of a picture to the ledger, at once or as soon as possible.
    fn note(&mut self, input: &Path, end: End) {
        let noted = self.pictures.note(input, end, self.output.ledger());
        self.check(noted);
    }
}
