//! Where the output of an input goes if there is a file of its name already, and inputs do not stay (`--on-collision`).
//!
//! Which input an output is from is known from the record on the output and from the ledger. An input's own output is made again in its
//! place, so a kill at any moment leaves no second one.

use std::path::{Path, PathBuf};

use super::Watching;
use crate::config::{After, OnCollision, PictureSettings};
use crate::error::Refusal;
use crate::fs::beneath::Folder;
use crate::fs::paths::{Shown, are_same};
use crate::fs::stamp::Stamp;
use crate::ledger::{Assigned, Entry, Ledger, LedgerError};
use crate::picture::record::Record;
use crate::service::after::numbered::{is_numbered, last_taken, numbered};

/// How many of the last numbers are searched for an output that the ledger does not know to be the input's.
const SEARCHED: u64 = 16;

/// Where an output goes.
pub(super) struct Place {
    pub(super) output: PathBuf,
    /// Whether it may take the place of a file.
    pub(super) replaces: bool,
    /// What the log says once it is there.
    pub(super) told: Option<String>,
}

/// Returns the output that an input has by the ledger, if that is the `usual` one with a number, or else the usual one. An input that stays
/// keeps its output when it changes.
pub(super) fn known_output(
    ledger: &Ledger,
    input: &Path,
    stamp: Stamp,
    usual: PathBuf,
    after: &After,
) -> Result<PathBuf, LedgerError> {
    let assigned = ledger.assigned(input)?;
    let applies = |assigned: &Assigned| {
        (assigned.stamp == stamp || *after == After::Keep) && is_numbered(&assigned.output, &usual)
    };
    Ok(assigned.filter(applies).map_or(usual, |assigned| assigned.output))
}

impl Watching<'_> {
    /// Decides where the output of `entry`, a picture with these settings, goes, or why there is no place for it.
    pub(super) fn place(
        &self,
        entry: &Entry<'_>,
        own: &PictureSettings,
    ) -> Result<Result<Place, Refusal>, LedgerError> {
        let output = entry.output;
        if let Some(refusal) = self.misplaced(entry.input, output) {
            return Ok(Err(refusal));
        }
        let inputs_go = self.service.after != After::Keep;
        let policy = if inputs_go { self.service.on_collision } else { OnCollision::Replace };
        if policy == OnCollision::Number {
            return self.numbered_place(entry, own).map(Ok);
        }
        // With `replace`, only an input that is still there is in the way.
        if let Some(other) = self.rival(entry, output, policy == OnCollision::Wait)? {
            let separable = self.are_separable(entry.input, &other);
            return Ok(Err(Refusal::SharedOutput { other, output: output.to_owned(), separable }));
        }
        let is_former = inputs_go && self.is_there(output) && !self.is_own(entry, output)?;
        if is_former && policy == OnCollision::Wait {
            return Ok(Err(Refusal::FormerOutput { output: output.to_owned() }));
        }
        let told = is_former.then(|| {
            format!("the output of {} replaced {}, which was there before", Shown(entry.input), Shown(output))
        });
        Ok(Ok(Place { output: output.to_owned(), replaces: policy == OnCollision::Replace, told }))
    }

    /// Returns the first of the output's names that is free, or has this input's own output.
    fn numbered_place(&self, entry: &Entry<'_>, settings: &PictureSettings) -> Result<Place, LedgerError> {
        let own = |output: PathBuf| Place { output, replaces: true, told: None };
        if self.is_own(entry, entry.output)? {
            return Ok(own(entry.output.to_owned()));
        }
        let free = |output: PathBuf, told| Place { output, replaces: false, told };
        if !self.is_taken(entry, entry.output)? {
            return Ok(free(entry.output.to_owned(), None));
        }
        let usual = self.usual_output(entry.input, settings).unwrap_or_else(|| entry.output.to_owned());
        if usual != entry.output && !self.is_taken(entry, &usual)? {
            return Ok(free(usual, None));
        }
        // An error of the ledger is told by the call for the name that is chosen.
        let last = last_taken(&usual, |name| self.is_taken(entry, name).unwrap_or(false));
        for number in (2..=last).rev().take(SEARCHED as usize) {
            let name = numbered(&usual, number);
            if self.is_own(entry, &name)? {
                return Ok(own(name));
            }
        }
        let output = numbered(&usual, last + 1);
        let told = format!(
            "{} has the output of another input, so that of {} is {}",
            Shown(&usual),
            Shown(entry.input),
            Shown(&output)
        );
        Ok(free(output, Some(told)))
    }

    /// Returns whether a name belongs to a file, or to another input whose output is to have it.
    fn is_taken(&self, entry: &Entry<'_>, output: &Path) -> Result<bool, LedgerError> {
        Ok(self.is_there(output) || self.rival(entry, output, true)?.is_some())
    }

    /// Returns whether there is an output of this name, and it was made from this input.
    fn is_own(&self, entry: &Entry<'_>, output: &Path) -> Result<bool, LedgerError> {
        if !self.is_there(output) {
            return Ok(false);
        }
        let assigned =
            self.output_access.ledger().assigned(entry.input)?.filter(|assigned| assigned.output == output);
        Ok(is_from(Record::of(output), entry.stamp, assigned.as_ref()))
    }

    /// Returns whether anything has this name. Behind a link below the output folder nothing does: no output gets there.
    fn is_there(&self, output: &Path) -> bool {
        Folder::of(&self.out, output).is_ok_and(|(folder, name)| folder.has(name))
    }

    /// Returns another input that has this output or is about to; `inputs_go` as for [`Ledger::rivals`].
    fn rival(
        &self,
        entry: &Entry<'_>,
        output: &Path,
        inputs_go: bool,
    ) -> Result<Option<PathBuf>, LedgerError> {
        // An input that waits to be put away is finished: only its output can be in the way.
        let rivals = self.output_access.ledger().rivals(&Entry { output, ..*entry }, inputs_go)?;
        // Nor is this input its own rival under a path by which it was watched before.
        let is_former = |other: &Path| self.watch.below(other).is_none() && are_same(other, entry.input);
        let in_the_way = rivals
            .into_iter()
            .find(|other| (output.exists() || !self.finished_inputs.has(other)) && !is_former(other));
        // A ledger that was begun anew does not know the pictures in progress.
        let under_way = || {
            let mut others = self.running.iter().filter(|(other, _)| *other != entry.input);
            others.find(|(_, begun)| begun.output == output).map(|(other, _)| other.clone())
        };
        Ok(in_the_way.or_else(under_way))
    }
}

/// Returns whether an output with this record was made from an input that is in the state `stamp` now, given what the ledger says if it
/// says that the output is the input's.
fn is_from(record: Option<Record>, stamp: Stamp, assigned: Option<&Assigned>) -> bool {
    match (record, assigned) {
        (Some(record), _) if record.is_from(&stamp) => true,
        // The same file was written to since. Once it is done it goes, and another file may get its inode number.
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
