//! How the loop handles single files: from ready to begun, and from ended to settled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::after::inputs;
use super::notes::End;
use super::picture_settings::is_done;
use super::place::{Place, known_output};
use super::{Begun, Watching};
use crate::config::{After, Durability, PictureSettings};
use crate::error::{PictureError, Refusal};
use crate::fs::paths::{Shown, are_same};
use crate::fs::stamp::{Stamp, ctime_ns};
use crate::ledger::{Entry, LedgerError, Outcome, Standing};
use crate::picture::remark::Remark;
use crate::progress::Event;
use crate::progress::timings::Times;
use crate::selection::output_below;
use crate::service::after::finished_inputs::{Fate, FinishedInput};
use crate::service::told::activity::DonePicture;
use crate::service::watch::Note;
use crate::service::watch::notifier::Signal;
use crate::service::watch::settle::{Ending, Ready, Seen, Verdict};
use crate::source::Job;

impl Watching<'_> {
    /// Handles what the watched folders report.
    pub(super) fn look(&mut self, signal: Option<Signal>) {
        let now = Instant::now();
        let Self {
            watch,
            settle,
            output_access,
            settings,
            service,
            out,
            prefixes,
            folder_settings,
            finished_inputs,
            ..
        } = self;
        let ledger = output_access.ledger();
        let mut known = |path: &Path, below: &Path, stamp: Stamp| {
            if finished_inputs.has_in_state(path, stamp) {
                return true;
            }
            let Ok(own) = folder_settings.of_now(settings, path, below) else {
                return service.after == After::Keep && is_done(ledger, path, stamp);
            };
            let usual = output_of(out, prefixes.placed(path, below).as_ref(), &own);
            let mask = own.mask_state(&settings.inputs, path);
            let fingerprint = own.fingerprint(mask, &settings.limits);
            let standing = known_output(ledger, path, stamp, usual, &service.after).and_then(|output| {
                ledger.standing(&Entry { input: path, stamp, settings: &fingerprint, output: &output })
            });
            match standing {
                Ok(Standing::Done) => service.after == After::Keep,
                Ok(Standing::Skipped) => true,
                Ok(Standing::Failed { .. }) => service.failed.is_none(),
                Ok(Standing::Unknown | Standing::Interrupted { .. }) | Err(_) => false,
            }
        };
        watch.turn(signal, settle, &mut known, now);
        self.take_up_folder_settings(now);
        self.forget_gone();
        self.look_for_failed();
        self.log_notes();
        self.put_leftovers_back();
    }

    fn log_notes(&mut self) {
        for note in self.watch.take_notes() {
            match note {
                Note::Info(note) => info!("{note}"),
                Note::Warning(note) => warn!("{note}"),
            }
        }
    }

    /// Gives inputs that a killed process was about to remove their names back.
    fn put_leftovers_back(&mut self) {
        for path in self.watch.take_leftovers() {
            let Some(original) = inputs::original(&path) else { continue };
            // An input that is being removed right now is not a leftover.
            if self.finished_inputs.has(&original) {
                continue;
            }
            match inputs::put_back(&path) {
                Ok(_) => {
                    self.retried.forget(&path);
                    if let Ok(now) = fs::symlink_metadata(&original) {
                        self.put_back.insert(original, ctime_ns(&now));
                    }
                }
                Err(why) if self.retried.is_news(&path, &why.to_string()) => warn!("{}: {why}", Shown(&path)),
                Err(_) => {}
            }
        }
    }

    /// Begins files that are ready, as far as the pipeline has room.
    pub(super) fn feed(&mut self) {
        while self.jobs.as_ref().is_some_and(|jobs| !jobs.is_full())
            && (self.suspect.is_some() || self.settle.has_ready())
            && !self.is_isolating()
        {
            if self.is_paused
                || !self.has_ground()
                || self.output_access.trouble().is_some()
                || !self.gate.may_start(Instant::now())
            {
                return;
            }
            let next = self.suspect.take().or_else(|| self.settle.take());
            let begun = next.is_some_and(|ready| self.begin(ready));
            if !begun {
                self.gate.allow_another_try();
            }
        }
    }

    /// Begins a file that is ready. Returns whether it went into the pipeline.
    fn begin(&mut self, ready: Ready) -> bool {
        let Ready { path, stamp } = ready;
        // What is not written yet may concern this picture.
        if let Err(why) = self.write_notes() {
            return self.not_begun(&path, why);
        }
        // It may have been excluded while it waited.
        if !self.watch.takes(&path) {
            self.finish(&path, Ending::Good);
            return false;
        }
        let own = match self.settings_of(&path) {
            Ok(own) => own,
            Err(why) => return self.wait_for_settings(&path, stamp, why),
        };
        let Some(usual) = self.usual_output(&path, &own) else {
            self.finish(&path, Ending::Good);
            return false;
        };
        let output = match known_output(self.output_access.ledger(), &path, stamp, usual, &self.service.after)
        {
            Ok(output) => output,
            Err(why) => return self.not_begun(&path, why),
        };
        let mask = own.mask_state(&self.settings.inputs, &path);
        let fingerprint = own.fingerprint(mask, &self.settings.limits);
        let entry = Entry { input: &path, stamp, settings: &fingerprint, output: &output };
        match self.standing(&entry) {
            Ok(Standing::Done) => {
                if self.finish(&path, self.done_with()) == Verdict::Settled {
                    // With full durability, its output was on the disk before the ledger recorded it, and may have been taken away since.
                    let was_durable = self.settings.durability == Durability::Full;
                    let is_gone = matches!(output.try_exists(), Ok(false));
                    self.dispose(&path, stamp, &output, was_durable && is_gone);
                }
                false
            }
            Ok(Standing::Skipped) => {
                self.finish(&path, Ending::Good);
                false
            }
            Ok(Standing::Failed { reason, .. }) => {
                if self.finish(&path, Ending::Good) == Verdict::Settled {
                    self.set_aside(&path, stamp, &reason);
                }
                false
            }
            Ok(Standing::Unknown) => self.give(&entry, own, false),
            Ok(Standing::Interrupted { starts }) => self.begin_suspect(&entry, own, starts),
            Err(why) => self.not_begun(&path, why),
        }
    }

    /// Returns what the ledger knows about an input that is ready. A done input that needs another output is unknown.
    fn standing(&self, entry: &Entry<'_>) -> Result<Standing, LedgerError> {
        let ledger = self.output_access.ledger();
        let standing = ledger.standing(entry)?;
        if standing == Standing::Done
            && self.service.after != After::Keep
            && let Some((finished, bytes)) = ledger.made(entry.input)?
            && self.lacks_output(entry, finished, bytes)
        {
            return Ok(Standing::Unknown);
        }
        Ok(standing)
    }

    /// Returns whether an input that is to go, and was done at the time `finished` with an output of so many `bytes`, needs another output.
    /// It does if another process made that one without bringing it to the disk, and not all of it is there. It also does if the output is
    /// gone and the input has been put back since (what moved has a new ctime): whoever did that wants another.
    fn lacks_output(&self, entry: &Entry<'_>, finished: i64, bytes: u64) -> bool {
        let there = match fs::metadata(entry.output) {
            Ok(output) => Some(output.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return false,
        };
        let may_be_lost = self.settings.durability == Durability::Fast && finished < self.began;
        let settled_at = self.put_back.get(entry.input).copied().unwrap_or(finished).max(finished);
        let is_back = || fs::symlink_metadata(entry.input).is_ok_and(|now| ctime_ns(&now) > settled_at);
        may_be_lost && there != Some(bytes) || there.is_none() && is_back()
    }

    /// Gives a picture into the pipeline, unless it is refused: `alone` if nothing else may be in progress until it ends.
    pub(super) fn give(&mut self, entry: &Entry<'_>, own: Arc<PictureSettings>, alone: bool) -> bool {
        let input = entry.input.to_owned();
        let place = self.place(entry, &own).and_then(|place| {
            // A refused picture is never recorded as running: after a kill, another input's output would be taken for its own.
            let ledger = self.output_access.ledger();
            match &place {
                Ok(Place { output, .. }) => ledger.begin(&Entry { output, ..*entry })?,
                Err(_) => ledger.refuse(entry)?,
            }
            Ok(place)
        });
        let Place { output, replaces, told } = match place {
            Ok(Ok(place)) => place,
            Ok(Err(refusal)) => {
                self.failed(entry, &refusal.into());
                return false;
            }
            Err(why) => return self.not_begun(&input, why),
        };
        let (stamp, settings) = (entry.stamp, Arc::clone(&own));
        let mask = own.mask_state(&self.settings.inputs, &input);
        let begun = Begun { stamp, settings, mask, output: output.clone(), told, at: Instant::now(), alone };
        self.running.insert(input.clone(), begun);
        let job = Job {
            number: 0,
            mask,
            settings: own,
            input,
            output,
            named: false,
            bytes: stamp.size,
            lasting_inodes: stamp.inode != 0,
            stamp: Some(stamp),
            remakes: false,
            replaces,
            spooled: None,
            object: None,
            replaced: None,
            series: None,
        };
        // Fails only if the pipeline has ended, and the user is told the reason for that.
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Returns the output of an input with these settings where no other is in the way; `None` if the input is not in a watched folder.
    pub(super) fn usual_output(&self, input: &Path, own: &PictureSettings) -> Option<PathBuf> {
        Some(output_of(&self.out, &self.placed(input)?, own))
    }

    /// Returns the path that an input has below the folders that it or its output goes to.
    fn placed(&self, input: &Path) -> Option<PathBuf> {
        let below = self.watch.below(input)?;
        Some(self.prefixes.placed(input, below).into_owned())
    }

    /// Returns whether two inputs with the same output would have outputs of their own with `--prefix-folder`.
    pub(super) fn are_separable(&self, one: &Path, other: &Path) -> bool {
        let root = |input| self.watch.root_of(input);
        self.prefixes.is_empty() && root(one).zip(root(other)).is_some_and(|(one, other)| one != other)
    }

    /// Refuses an output that would lie in a watched folder, by whatever mounts, or in a folder for something else. The output folder itself
    /// may lie in a watched folder, which leaves it out.
    pub(super) fn misplaced(&self, input: &Path, output: &Path) -> Option<Refusal> {
        let folders: Vec<&Path> =
            output.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.out)).collect();
        // A mount may lead into the middle of a watched folder, and its outputs to where their inputs are.
        let of_input: Vec<&Path> =
            input.ancestors().skip(1).take_while(|folder| self.watch.below(folder).is_some()).collect();
        let replaces = folders.iter().any(|folder| self.watch.is_watched(folder))
            || folders.iter().any(|folder| of_input.iter().any(|of_input| are_same(of_input, folder)));
        let others: Vec<&Path> = self.watch.excluded().filter(|other| !are_same(other, &self.out)).collect();
        let mixes = folders.iter().any(|folder| others.iter().any(|other| are_same(other, folder)));
        let output = output.to_owned();
        match (replaces, mixes) {
            (true, _) => Some(Refusal::ReplacesInput { output }),
            (false, true) => Some(Refusal::AmongInputs { output }),
            (false, false) => None,
        }
    }

    pub(super) fn not_begun(&mut self, path: &Path, why: LedgerError) -> bool {
        self.gate.close(why.to_string(), Instant::now());
        self.ledger_failed(why);
        self.finish(path, Ending::Held);
        false
    }

    /// Handles an event of the pipeline.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Done { input, pixels, bytes_in, bytes_out, device, times, .. } => {
                if let Some(begun) = self.ended(&input) {
                    let outcome = Outcome { device: &device, pixels, bytes_out };
                    self.done(&input, &begun, &outcome, bytes_in, &times);
                }
            }
            Event::Skipped { input, planned: true, .. } => {
                if self.ended(&input).is_some() {
                    self.skipped(&input);
                }
            }
            Event::Failed { input, error, planned: true } => {
                if let Some(begun) = self.ended(&input) {
                    let Begun { stamp, output, settings, mask, .. } = &begun;
                    let settings = settings.fingerprint(*mask, &self.settings.limits);
                    self.failed(&Entry { input: &input, stamp: *stamp, settings: &settings, output }, &error);
                }
            }
            // With --after, the file goes away.
            Event::Remarked { input, remark: remark @ Remark::WithHoles } => {
                warn!("note: {}: {}", Shown(&input), remark.of_one());
            }
            Event::Remarked { input, remark } => debug!("note: {}: {}", Shown(&input), remark.of_one()),
            Event::Device { note, trouble: true } => warn!("{note}"),
            Event::Device { note, trouble: false } => info!("{note}"),
            Event::Planned { .. }
            | Event::Would { .. }
            | Event::Remade { .. }
            | Event::Stopping
            | Event::Load(_)
            | Event::Skipped { planned: false, .. }
            | Event::Failed { planned: false, .. } => {}
        }
    }

    /// Takes a picture that has left the pipeline out of those in progress.
    fn ended(&mut self, input: &Path) -> Option<Begun> {
        let begun = self.running.remove(input)?;
        self.health.moved();
        Some(begun)
    }

    fn done(&mut self, input: &Path, begun: &Begun, outcome: &Outcome<'_>, bytes_in: u64, times: &Times) {
        if !self.has_ground() || self.output_access.has_moved_since(begun.at) {
            // Its output may be in the bare mount point.
            self.gate.allow_another_try();
            self.finish(input, Ending::Held);
            return self.note(input, End::Forgotten);
        }
        let seconds = begun.at.elapsed().as_secs_f64();
        self.metrics.done(outcome, bytes_in, seconds, times);
        let Outcome { device, pixels, bytes_out } = *outcome;
        let (place, moved_below) = self.place_when_done(input);
        self.account.done(DonePicture {
            input: place,
            moved_below,
            output: begun.output.clone(),
            device: device.to_owned(),
            pixels,
            bytes_in,
            bytes_out,
            seconds,
            times: *times,
            at: Instant::now(),
        });
        let end = End::Done { device: device.to_owned(), pixels, bytes_out };
        if self.gate.open() {
            info!("outputs can be written again");
        }
        debug!("done: {} -> {} ({}, {seconds:.3} s)", Shown(input), Shown(&begun.output), outcome.device);
        match self.finish(input, self.done_with()) {
            Verdict::Settled => {
                self.note(input, end);
                if let Some(told) = &begun.told {
                    info!("{told}");
                }
                let durable = self.settings.durability == Durability::Full;
                self.dispose(input, begun.stamp, &begun.output, durable);
                self.look_for_other_settings(input, begun);
            }
            Verdict::Gone => self.note(input, end),
            Verdict::Changed | Verdict::Retry(_) => {
                debug!("{} changed meanwhile and is processed again", Shown(input));
                // Not forgotten: the output that is there is its own.
                self.note(
                    input,
                    End::Retried { reason: PictureError::Changed.to_string(), pause: Duration::ZERO },
                );
            }
        }
    }

    /// Returns where an input is going to be once it is done, and the folder that it is moved to, if so.
    fn place_when_done(&self, input: &Path) -> (PathBuf, Option<PathBuf>) {
        match (&self.service.after, self.placed(input)) {
            (After::Move(folder), Some(below)) => (folder.join(below), Some(folder.clone())),
            _ => (input.to_owned(), None),
        }
    }

    fn skipped(&mut self, input: &Path) {
        self.gate.allow_another_try();
        self.metrics.skipped();
        self.account.skipped();
        if self.finish(input, Ending::Good) == Verdict::Settled {
            self.note(input, End::Skipped);
        }
    }

    pub(super) fn failed(&mut self, entry: &Entry<'_>, error: &PictureError) {
        let input = entry.input;
        let affects_all =
            error.affects_all_outputs() && self.retried.concerns_all(input, self.gate.openings());
        let reason = error.in_service();
        if affects_all {
            if self.gate.why().is_none() {
                warn!("nothing more is started until this is resolved: {reason}");
            }
            self.gate.close(reason.clone(), Instant::now());
        } else {
            self.gate.allow_another_try();
        }
        let ending = match error {
            _ if affects_all => Ending::Held,
            error if error.is_transient() => Ending::Passing,
            error if error.may_be_incomplete() => Ending::Broken,
            _ => Ending::Refused,
        };
        match self.finish(input, ending) {
            Verdict::Settled => {
                self.metrics.failed();
                self.account.failed(entry.input, &reason);
                self.notifications.failed(entry.input, &reason, Instant::now());
                warn!("failed: {}: {reason}", Shown(input));
                self.note(input, End::Failed { reason: reason.clone() });
                self.failures.remember(entry, &reason, false);
                self.set_aside(input, entry.stamp, &reason);
            }
            Verdict::Retry(pause) => {
                let pause = if affects_all { self.gate.left(Instant::now()) } else { pause };
                if matches!(ending, Ending::Broken | Ending::Refused) {
                    debug!("not complete yet: {}: {reason}", Shown(input));
                } else if matches!(error, PictureError::Folder(_)) {
                    // It was said once for all pictures of the folder.
                    debug!("waits: {}: {reason}", Shown(input));
                } else {
                    self.metrics.retried();
                    self.tell_of_retry(input, &reason, pause);
                }
                self.note(input, End::Retried { reason, pause });
            }
            Verdict::Changed | Verdict::Gone => self.note(input, End::Forgotten),
        }
    }

    /// Logs a retry, at the info level only once per reason: some pictures are retried forever.
    fn tell_of_retry(&mut self, input: &Path, reason: &str, pause: Duration) {
        let seconds = pause.as_secs_f64().ceil();
        if self.retried.is_news(input, reason) {
            info!("failed, retried in {seconds} s: {}: {reason}", Shown(input));
        } else {
            debug!("failed again, retried in {seconds} s: {}: {reason}", Shown(input));
        }
    }

    /// Returns how a picture ends that is done.
    fn done_with(&self) -> Ending {
        if self.service.after == After::Keep { Ending::Good } else { Ending::Leaving }
    }

    pub(super) fn finish(&mut self, input: &Path, ending: Ending) -> Verdict {
        let seen: Option<Seen> = self.watch.look(input);
        let verdict = self.settle.finished(input, ending, seen, Instant::now());
        if !matches!(verdict, Verdict::Retry(_)) {
            self.retried.forget(input);
        }
        self.failures.forget(input);
        verdict
    }

    fn dispose(&self, input: &Path, stamp: Stamp, output: &Path, durable: bool) {
        let after = self.service.after.clone();
        if after != After::Keep {
            self.put_away(
                input,
                stamp,
                Fate::Done { after, out: self.out.clone(), output: output.to_owned(), durable },
            );
        }
    }

    pub(super) fn set_aside(&self, input: &Path, stamp: Stamp, reason: &str) {
        if let Some(folder) = self.service.failed.clone() {
            self.put_away(input, stamp, Fate::Failed { folder, reason: reason.to_owned() });
        }
    }

    fn put_away(&self, input: &Path, stamp: Stamp, fate: Fate) {
        let Some(below) = self.placed(input).filter(|_| self.watch.takes(input)) else { return };
        let links = self.settings.selection.links;
        self.finished_inputs.put(FinishedInput { input: input.to_owned(), below, stamp, links, fate });
    }
}

/// Returns the output of an input with these settings that is to lie at the path `below` below the output folder.
fn output_of(out: &Path, below: &Path, own: &PictureSettings) -> PathBuf {
    out.join(output_below(below, own.target.format, own.target.splits))
}
