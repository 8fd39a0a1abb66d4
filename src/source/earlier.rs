//! Detects outputs in an input folder, which would be enhanced once more.

use std::path::Path;

use walkdir::WalkDir;

use crate::fs::paths::{Shown, are_same};
use crate::ledger;
use crate::picture::record::Record;

/// The most files and folders to examine in an input folder.
const LOOKED_AT: usize = 64;

/// Returns a note if an input folder is, lies in or contains the output folder of an earlier run,
/// judging by its first files and the folders above them: an inbox may lie in an output folder,
/// too. The run's own output folder, `out`, does not count.
pub fn signs_of_outputs(folder: &Path, out: &Path) -> Option<String> {
    let absolute = std::path::absolute(folder).ok()?;
    let root = absolute.ancestors().find(|above| has_state(above) && !are_same(above, out));
    if root == Some(&absolute) {
        return Some(note(folder, "is the output folder"));
    }
    let entries = WalkDir::new(folder).into_iter();
    let entries = entries.filter_entry(|entry| !entry.file_type().is_dir() || !are_same(entry.path(), out));
    let sign = entries.take(LOOKED_AT).flatten().find(|entry| {
        if entry.file_type().is_dir() { has_state(entry.path()) } else { Record::of(entry.path()).is_some() }
    })?;
    Some(match root {
        Some(root) => note(folder, &format!("lies in {}, the output folder", Shown(root))),
        None => note(folder, &format!("contains outputs ({})", Shown(sign.path()))),
    })
}

/// Returns whether a folder has a ledger in its usual place.
fn has_state(folder: &Path) -> bool {
    folder.join(ledger::FOLDER).is_dir()
}

fn note(folder: &Path, what: &str) -> String {
    format!("{} {what} of an earlier run; outputs are enhanced again like any other picture", Shown(folder))
}
