//! The decision about a file that is ready: whether the ledger knows it, and where its output goes
//! if a file of that name exists (`--on-collision`). The module only decides; the loop acts.
//!
//! The input that an output was made from is known from the record on the output and from the
//! ledger. An input's own output is made again in its place: a kill at any moment leaves no second
//! one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::after::finished_inputs::FinishedInputs;
use super::after::numbered::{last_taken, numbered};
use super::pictures::Pictures;
use super::rules::{Candidate, Rules};
use super::watch::Watch;
use crate::config::OnCollision;
use crate::error::Refusal;
use crate::fs::beneath::Folder;
use crate::fs::paths::{Shown, are_same};
use crate::fs::stamp::{Stamp, ctime_ns};
use crate::ledger::{Assigned, Entry, Ledger, LedgerError, MOST_STARTS, Standing};
use crate::picture::record::Record;
use crate::publish::Replaces;

/// The number of last names to search for an output of the input that the ledger does not know.
const SEARCHED: u64 = 16;

/// The place of an output.
pub(super) struct OutputPlace {
    pub(super) output: PathBuf,
    /// The files that it may replace.
    pub(super) replaces: Replaces,
    /// The message for the log once it is there.
    pub(super) told: Option<String>,
}

/// The next step for a file that is ready.
pub(super) enum Next {
    /// It goes into the pipeline, alone if a killed process had it in progress.
    Begin { place: OutputPlace, alone: bool },
    /// It waits until no picture is in progress: a killed process had it in progress.
    PutOff,
    /// It has no place for an output, for now.
    Refuse(Refusal),
    /// It was begun too often without an end, and is not begun again.
    GiveUp(Refusal),
    /// It was done before; if `durable`, its output need not be synced to the disk again.
    PutAway { durable: bool },
    /// It failed before, for this reason.
    SetAside(String),
    /// No step: it is not a picture.
    PassOver,
}

/// The sources of facts about a file that is ready.
pub(super) struct Examiner<'a> {
    pub(super) rules: &'a Rules<'a>,
    pub(super) watch: &'a Watch,
    pub(super) pictures: &'a Pictures,
    pub(super) finished_inputs: &'a FinishedInputs,
    pub(super) ledger: &'a Ledger,
}

impl Examiner<'_> {
    /// Decides the next step for a file.
    ///
    /// # Errors
    /// When a call of the ledger fails.
    pub(super) fn examine(&self, candidate: &Candidate) -> Result<Next, LedgerError> {
        match self.standing(candidate)? {
            Standing::Done => {
                // With full durability, its output was on the disk before the ledger recorded it,
                // and may have been taken away since.
                let is_gone = matches!(candidate.output.try_exists(), Ok(false));
                Ok(Next::PutAway { durable: self.rules.outputs_are_durable() && is_gone })
            }
            Standing::Skipped => Ok(Next::PassOver),
            Standing::Failed { reason, .. } => Ok(Next::SetAside(reason)),
            Standing::Unknown => self.begin(candidate, false),
            Standing::Interrupted { starts } if starts >= MOST_STARTS => {
                Ok(Next::GiveUp(Refusal::KillsProcess { starts }))
            }
            Standing::Interrupted { .. } if self.pictures.begun() > 0 => Ok(Next::PutOff),
            Standing::Interrupted { .. } => self.begin(candidate, true),
        }
    }

    fn begin(&self, candidate: &Candidate, alone: bool) -> Result<Next, LedgerError> {
        let place = self.place(candidate)?;
        Ok(place.map_or_else(Next::Refuse, |place| Next::Begin { place, alone }))
    }

    /// Returns the ledger's record of an input that is ready. A done input that needs another
    /// output is unknown.
    fn standing(&self, candidate: &Candidate) -> Result<Standing, LedgerError> {
        let standing = self.rules.standing(self.ledger, candidate)?;
        if standing == Standing::Done
            && !self.rules.inputs_stay()
            && let Some((finished, bytes)) = self.ledger.made(&candidate.input)?
            && self.lacks_output(candidate, finished, bytes)
        {
            return Ok(Standing::Unknown);
        }
        Ok(standing)
    }

    /// Returns whether an input that is to go, and was done at the time `finished` with an output
    /// of this many `bytes`, needs another output.
    ///
    /// It does if another process made that output without syncing it to the disk, and it is
    /// incomplete. It also does if the output is gone and the input has been put back since, which
    /// gives it a new ctime: its owner wants another.
    fn lacks_output(&self, Candidate { input, output, .. }: &Candidate, finished: i64, bytes: u64) -> bool {
        let there = match fs::metadata(output) {
            Ok(output) => Some(output.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return false,
        };
        if there.is_some() {
            return self.rules.may_be_lost(finished) && there != Some(bytes);
        }
        let settled_at = self.watch.put_back_at(input).unwrap_or(finished).max(finished);
        self.rules.may_be_lost(finished)
            || fs::symlink_metadata(input).is_ok_and(|now| ctime_ns(&now) > settled_at)
    }

    /// Decides where the output of a picture goes, or why there is no place for it.
    fn place(&self, candidate: &Candidate) -> Result<Result<OutputPlace, Refusal>, LedgerError> {
        let Candidate { input, output, .. } = candidate;
        if let Some(refusal) = self.misplaced(input, output) {
            return Ok(Err(refusal));
        }
        let policy = self.rules.on_collision();
        if policy == OnCollision::Number {
            return self.numbered_place(candidate).map(Ok);
        }
        // With `replace`, only an input that still exists is in the way.
        if let Some(other) = self.rival(candidate, output, policy == OnCollision::Wait)? {
            let separable = self.are_separable(input, &other);
            return Ok(Err(Refusal::SharedOutput { other, output: output.clone(), separable }));
        }
        let seen = Replaces::at(output);
        let is_former =
            !self.rules.inputs_stay() && self.is_there(output) && !self.is_own(candidate, output)?;
        if is_former && policy == OnCollision::Wait {
            return Ok(Err(Refusal::FormerOutput { output: output.clone() }));
        }
        let told = is_former.then(|| {
            format!("the output of {} replaced {}, which was there before", Shown(input), Shown(output))
        });
        let replaces = if policy == OnCollision::Replace { seen } else { Replaces::Nothing };
        Ok(Ok(OutputPlace { output: output.clone(), replaces, told }))
    }

    /// Returns the first of the output's names that is free, or has this input's own output.
    fn numbered_place(&self, candidate: &Candidate) -> Result<OutputPlace, LedgerError> {
        let Candidate { input, settings, output, .. } = candidate;
        let seen = Replaces::at(output);
        if self.is_own(candidate, output)? {
            return Ok(OutputPlace { output: output.clone(), replaces: seen, told: None });
        }
        if !self.is_taken(candidate, output)? {
            return Ok(OutputPlace { output: output.clone(), replaces: Replaces::Nothing, told: None });
        }
        let below = self.watch.below(input);
        let usual =
            below.map_or_else(|| output.clone(), |below| self.rules.usual_output(input, below, settings));
        if usual != *output && !self.is_taken(candidate, &usual)? {
            return Ok(OutputPlace { output: usual, replaces: Replaces::Nothing, told: None });
        }
        // An error of the ledger is reported by the call for the chosen name.
        let last = last_taken(&usual, |name| self.is_taken(candidate, name).unwrap_or(false));
        for number in (2..=last).rev().take(SEARCHED as usize) {
            let name = numbered(&usual, number);
            let seen = Replaces::at(&name);
            if self.is_own(candidate, &name)? {
                return Ok(OutputPlace { output: name, replaces: seen, told: None });
            }
        }
        let output = numbered(&usual, last + 1);
        let told = format!(
            "{} has the output of another input, so that of {} is {}",
            Shown(&usual),
            Shown(input),
            Shown(&output)
        );
        Ok(OutputPlace { output, replaces: Replaces::Nothing, told: Some(told) })
    }

    /// Returns whether a name belongs to a file, or to the output of another input.
    fn is_taken(&self, candidate: &Candidate, output: &Path) -> Result<bool, LedgerError> {
        Ok(self.is_there(output) || self.rival(candidate, output, true)?.is_some())
    }

    /// Returns whether there is an output of this name, and it was made from this input.
    fn is_own(&self, candidate: &Candidate, output: &Path) -> Result<bool, LedgerError> {
        if !self.is_there(output) {
            return Ok(false);
        }
        let assigned = self.ledger.assigned(&candidate.input)?.filter(|assigned| assigned.output == output);
        Ok(is_from(Record::of(output), candidate.stamp, assigned.as_ref()))
    }

    /// Returns whether the name exists. A path through a link below the output folder does not:
    /// outputs cannot get there.
    fn is_there(&self, output: &Path) -> bool {
        Folder::of(self.rules.out(), output).is_ok_and(|(folder, name)| folder.has(name))
    }

    /// Returns another input that has this output or is about to; `inputs_go` as for
    /// [`Ledger::rivals`].
    fn rival(
        &self,
        candidate: &Candidate,
        output: &Path,
        inputs_go: bool,
    ) -> Result<Option<PathBuf>, LedgerError> {
        let input = candidate.input.as_path();
        let rivals = self.ledger.rivals(&Entry { output, ..candidate.entry() }, inputs_go)?;
        let in_the_way = rivals.into_iter().find(|other| {
            // An input that waits to be put away is finished: only its output can be in the way. An
            // input is also no rival of itself under a path by which it was watched before.
            let is_former = self.watch.below(other).is_none() && are_same(other, input);
            (output.exists() || !self.finished_inputs.has(other)) && !is_former
        });
        // A new ledger does not know the pictures in progress.
        Ok(in_the_way.or_else(|| self.pictures.other_with(output, input).map(Path::to_owned)))
    }

    /// Returns whether two inputs with the same output would have outputs of their own with
    /// `--prefix-folder`.
    fn are_separable(&self, one: &Path, other: &Path) -> bool {
        !self.rules.has_prefixes()
            && self.watch.root_of(one).zip(self.watch.root_of(other)).is_some_and(|(one, other)| one != other)
    }

    /// Refuses an output that would lie in a watched folder, by whatever mounts, or in a folder for
    /// another purpose. The output folder itself may lie in a watched folder, which excludes it.
    fn misplaced(&self, input: &Path, output: &Path) -> Option<Refusal> {
        let (watch, out) = (self.watch, self.rules.out());
        let folders: Vec<&Path> =
            output.ancestors().skip(1).take_while(|folder| folder.starts_with(out)).collect();
        // A mount may lead into the middle of a watched folder, and its outputs to the place of
        // their inputs.
        let of_input: Vec<&Path> =
            input.ancestors().skip(1).take_while(|folder| watch.below(folder).is_some()).collect();
        let replaces = folders.iter().any(|folder| watch.is_watched(folder))
            || folders.iter().any(|folder| of_input.iter().any(|of_input| are_same(of_input, folder)));
        let others: Vec<&Path> = watch.excluded().filter(|other| !are_same(other, out)).collect();
        let mixes = folders.iter().any(|folder| others.iter().any(|other| are_same(other, folder)));
        let output = output.to_owned();
        match (replaces, mixes) {
            (true, _) => Some(Refusal::ReplacesInput { output }),
            (false, true) => Some(Refusal::AmongInputs { output }),
            (false, false) => None,
        }
    }
}

/// Returns whether an output with this record was made from an input that is in the state `stamp`
/// now, given the ledger's entry if that assigns the output to the input.
fn is_from(record: Option<Record>, stamp: Stamp, assigned: Option<&Assigned>) -> bool {
    match (record, assigned) {
        (Some(record), _) if record.is_from(&stamp) => true,
        // The same file was written to since. Once it is done it goes, and another file may get its
        // inode number.
        (Some(record), Some(of)) => {
            !of.is_done && stamp.inode != 0 && of.stamp.inode == stamp.inode && record.is_from(&of.stamp)
        }
        (None, Some(of)) => of.is_written && of.stamp == stamp,
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::picture::record::{Digest, Origin};

    #[test]
    fn an_output_belongs_to_the_input_that_it_was_made_from() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = fs::metadata(file.path()).unwrap();
        let settings = Digest::of(b"");
        let record = |input| Some(Record::new(&Origin { input, settings }, &metadata));
        let assigned =
            |stamp, is_done| Some(Assigned { output: PathBuf::new(), stamp, is_done, is_written: is_done });
        let now = Stamp { size: 5, mtime_ns: 6, inode: 7 };
        let interrupted =
            Some(Assigned { output: PathBuf::new(), stamp: now, is_done: false, is_written: true });
        let before = Stamp { mtime_ns: 5, ..now };
        let another = Stamp { inode: 8, ..before };
        let cases = [
            ("its record says so", record(now), None, true),
            ("its record says so, whatever the ledger does", record(now), assigned(before, true), true),
            ("the ledger says so, and there is no record", None, assigned(now, true), true),
            ("nobody says so", None, None, false),
            ("it was never done", None, assigned(now, false), false),
            ("it appeared before a kill, and there is no record", None, interrupted, true),
            ("it is another's of the name", record(before), assigned(before, true), false),
            ("the name is another's, and the ledger lost", record(before), None, false),
            ("the file was written to while it was read", record(before), assigned(before, false), true),
            ("another file took its place meanwhile", record(another), assigned(another, false), false),
            ("another output took that one's place", record(another), assigned(now, true), false),
        ];
        for (case, record, assigned, is_own) in cases {
            assert_eq!(is_from(record, now, assigned.as_ref()), is_own, "{case}");
        }
    }
}
