//! From ended to settled: receives the ends of pictures, and takes the next steps for their inputs,
//! the ledger and the reports.

use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::Watching;
use crate::error::PictureError;
use crate::fs::paths::Shown;
use crate::fs::stamp::Stamp;
use crate::progress::Event;
use crate::service::after::finished_inputs::{Fate, FinishedInput};
use crate::service::pictures::{Begun, End, Failure};
use crate::service::reports::activity::DonePicture;
use crate::service::rules::Candidate;
use crate::service::watch::settle::{Ending, Verdict};

impl Watching<'_> {
    /// Handles an event of the pipeline.
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Done { input, pixels, bytes_in, bytes_out, device, times, .. } => {
                if let Some(mut begun) = self.take_ended(&input) {
                    let (below, remarks) = (self.watch.below(&input), mem::take(&mut begun.remarks));
                    let (input, moved_below) = self.rules.place_when_done(&input, below);
                    self.done(
                        &begun,
                        DonePicture {
                            input,
                            moved_below,
                            output: begun.candidate.output.clone(),
                            device: device.to_string(),
                            pixels,
                            bytes_in,
                            bytes_out,
                            seconds: begun.at.elapsed().as_secs_f64(),
                            times,
                            remarks,
                            at: Instant::now(),
                        },
                    );
                }
            }
            Event::Skipped { input, planned: true, .. } => {
                if self.take_ended(&input).is_some() {
                    self.skipped(&input);
                }
            }
            Event::Failed { input, error, planned: true } => {
                if let Some(begun) = self.take_ended(&input) {
                    self.failed(&begun.candidate, &error);
                }
            }
            Event::Part { input, pixels, completed } => self.reporter.part(&input, pixels, completed),
            Event::Remarked { input, remark, range } => {
                let text = remark.of_one_with(range);
                self.reporter.remarked(&input, remark, &text);
                if remark.is_about_one() {
                    self.pictures.remark(&input, text);
                }
            }
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

    /// Removes a picture that has left the pipeline from the pictures in progress.
    fn take_ended(&mut self, input: &Path) -> Option<Begun> {
        self.pictures.take_ended(input).inspect(|_| self.reporter.ended(input))
    }

    fn done(&mut self, begun: &Begun, picture: DonePicture) {
        let Candidate { input, stamp, output, .. } = &begun.candidate;
        if !self.has_output() || self.output.has_moved_since(begun.at) {
            // Its output may be in the empty mount point.
            self.gate.allow_another_try();
            self.finish(input, Ending::Held);
            return self.note(input, End::Forgotten);
        }
        let DonePicture { pixels, bytes_out, seconds, .. } = picture;
        let device = picture.device.clone();
        debug!("done: {} -> {} ({device}, {seconds:.3} s)", Shown(input), Shown(output));
        self.reporter.done(picture);
        self.gate.open();
        let end = End::Done { device, pixels, bytes_out };
        match self.finish(input, self.rules.ending_of_done()) {
            Verdict::Settled => {
                self.note(input, end);
                begun.told.iter().for_each(|told| info!("{told}"));
                let durable = self.rules.outputs_are_durable();
                self.put_away(input, *stamp, self.rules.fate_of_done(output, durable));
                self.look_for_other_settings(&begun.candidate);
            }
            Verdict::Gone => self.note(input, end),
            Verdict::Changed | Verdict::Retry(_) => {
                debug!("{} changed meanwhile and is processed again", Shown(input));
                // Not forgotten: the existing output is its own.
                let reason = PictureError::Changed.to_string();
                self.note(input, End::Retried { reason, pause: Duration::ZERO });
            }
        }
    }

    /// Lists the folder of a picture that is done and stays, if it has got other settings or
    /// another mask.
    fn look_for_other_settings(&mut self, done: &Candidate) {
        if let Some(below) = self.watch.below(&done.input)
            && self.rules.has_other_settings(done, below)
            && let Some(folder) = done.input.parent()
        {
            self.watch.list_below(folder);
        }
    }

    fn skipped(&mut self, input: &Path) {
        self.gate.allow_another_try();
        self.reporter.skipped();
        if self.finish(input, Ending::Good) == Verdict::Settled {
            self.note(input, End::Skipped);
        }
    }

    pub(super) fn failed(&mut self, candidate: &Candidate, error: &PictureError) {
        let input = candidate.input.as_path();
        let affects_all =
            error.affects_all_outputs() && self.pictures.concerns_all(input, self.gate.openings());
        let reason = error.in_service();
        if affects_all {
            if self.gate.why().is_none() {
                warn!("nothing more is started until this is resolved: {reason}");
            }
            self.gate.close(reason.clone(), Instant::now());
        } else {
            self.gate.allow_another_try();
        }
        let ending = if affects_all { Ending::Held } else { ending_of(error) };
        match self.finish(input, ending) {
            Verdict::Settled => self.failed_for_good(candidate, error, reason),
            Verdict::Retry(pause) => {
                let pause = if affects_all { self.gate.left(Instant::now()) } else { pause };
                if matches!(ending, Ending::Broken | Ending::Refused) {
                    debug!("not complete yet: {}: {reason}", Shown(input));
                } else if matches!(error, PictureError::Folder(_)) {
                    // It was logged once for all pictures of the folder.
                    debug!("waits: {}: {reason}", Shown(input));
                } else {
                    let is_news = self.pictures.is_news(input, &reason);
                    self.reporter.retried(input, &reason, pause, is_news);
                }
                self.note(input, End::Retried { reason, pause });
            }
            Verdict::Changed | Verdict::Gone => self.note(input, End::Forgotten),
        }
    }

    fn failed_for_good(&mut self, candidate: &Candidate, error: &PictureError, reason: String) {
        let (input, stamp) = (candidate.input.as_path(), candidate.stamp);
        self.reporter.failed(input, &reason);
        let fate = self.rules.fate_of_failed(&reason);
        let candidate = match error.exceeds_memory() {
            true => self.rules.for_lack_of_memory(candidate),
            false => candidate.clone(),
        };
        let failure = Failure { candidate, reason, given_up: false };
        self.note(input, End::Failed(failure.into()));
        self.put_away(input, stamp, fate);
    }

    /// Ends a file. Returns the verdict, by the ending and the current state of the file.
    pub(super) fn finish(&mut self, input: &Path, ending: Ending) -> Verdict {
        let verdict = self.watch.finish(input, ending);
        self.pictures.forget_past(input, verdict);
        verdict
    }

    /// Sends an input to its destination, unless it is to stay or no longer belongs to the watched
    /// folders.
    pub(super) fn put_away(&self, input: &Path, stamp: Stamp, fate: Option<Fate>) {
        if let Some(fate) = fate
            && let Some(below) = self.watch.below(input).filter(|_| self.watch.takes(input))
        {
            let (below, links) = (self.rules.placed(input, below), self.rules.settings().selection.links);
            self.finished_inputs.put(FinishedInput { input: input.to_owned(), below, stamp, links, fate });
        }
    }
}

/// Returns the ending of a file that failed for a cause of its own.
fn ending_of(error: &PictureError) -> Ending {
    match error {
        error if error.is_transient() => Ending::Passing,
        error if error.may_be_incomplete() => Ending::Broken,
        _ => Ending::Refused,
    }
}
