//! The fate of finished inputs: they stay, are removed, are moved, or are set aside with a reason.
//!
//! An input is touched only in the exact state that was processed. If it is replaced at the last
//! moment, the new file is left in its place: a file is renamed first, checked under its new name,
//! and renamed back if it turns out to be another.
//!
//! An input that is a link is moved as a link: the person who puts one into an inbox might not be
//! allowed to read its target. Only where all links are followed is the target copied.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::numbered::{last_taken, numbered, start_of};
use crate::config::After;
use crate::fs::beneath::Folder;
use crate::fs::input;
use crate::fs::paths::{Identity, folder_of};
use crate::fs::rename::{At, rename_new};
use crate::fs::stamp::Stamp;
use crate::publish::Temporary;
use crate::selection::Links;
use crate::service::watch::REMOVING;

/// The suffix of a file's name for the name of its note.
const NOTE_SUFFIX: &str = ".reason.txt";

/// The permissions of a note, before the process's umask removes some of them.
const NOTE: u32 = 0o666;

/// An input that is finished.
#[derive(Clone, Copy)]
pub(crate) struct Finished<'i> {
    pub(crate) path: &'i Path,
    /// Its state when its picture was begun; for a link, that of its target.
    pub(crate) stamp: Stamp,
    pub(crate) links: Links,
}

impl Finished<'_> {
    /// Returns whether it is a link that is moved as one.
    fn is_moved_as_link(self) -> bool {
        self.links != Links::Follow && self.path.is_symlink()
    }
}

/// Keeps, removes or moves an input with a published output, according to `after`. `below` is its
/// path below the watched folder. `pending` is an output that may not have reached the disk yet,
/// after the folder that it lies below. Returns whether the input was still the same file.
///
/// # Errors
/// Any I/O error. The input is then in its place, or in the same folder under its temporary name,
/// until [`put_back`] renames it back.
pub(crate) fn dispose(
    after: &After,
    input: Finished<'_>,
    below: &Path,
    pending: Option<(&PathBuf, &PathBuf)>,
) -> io::Result<bool> {
    if let Some((out, output)) = pending.filter(|_| *after != After::Keep) {
        make_durable(out, output)?;
    }
    match after {
        After::Keep => Ok(true),
        After::Delete => remove(input.path, input.stamp),
        After::Move(root) => {
            let target = root.join(below);
            let (folder, name) = Folder::create_of(root, &target, true)?;
            let name = name_for(input, &folder, name, |name| folder.has(name));
            move_to(input, &folder, &name)
        }
    }
}

/// Moves an input that cannot be processed to the path `below` in the folder `root`, and writes a
/// note with the reason next to it. Returns whether the input was still the same file.
///
/// # Errors
/// As of [`dispose`].
pub(crate) fn set_aside(root: &Path, input: Finished<'_>, below: &Path, reason: &str) -> io::Result<bool> {
    let text = format!("{reason}\n");
    let target = root.join(below);
    let (folder, name) = Folder::create_of(root, &target, true)?;
    let is_taken = |name: &Path| {
        // The name of the note may be taken too: by a picture, or by the note of a file that was
        // taken away since.
        let note = note_of(name);
        folder.has(name) || folder.has(&note) && !holds(&folder, &note, &text)
    };
    let name = name_for(input, &folder, name, is_taken);
    let note = note_of(&name);
    // Written before the file is moved: a kill cannot leave the file there without its reason.
    let is_noted = write_note(&folder, &note, &text)?;
    let moved = move_to(input, &folder, &name);
    if is_noted && !folder.has(&name) {
        let _ = folder.remove(note);
    }
    moved
}

/// Returns the path of the note for a file that is set aside, with less of the file's name if there
/// is no room for all of it.
fn note_of(file: &Path) -> PathBuf {
    let mut note = start_of(file.file_name().unwrap_or_default(), NOTE_SUFFIX.len());
    note.push(NOTE_SUFFIX);
    file.with_file_name(note)
}

/// Writes a note without replacing any file. Returns whether the note is there.
fn write_note(folder: &Folder, note: &Path, text: &str) -> io::Result<bool> {
    match folder.create_new(note, NOTE) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).inspect_err(|_| drop(folder.remove(note)))?;
            Ok(true)
        }
        // A killed process may have written it already.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(holds(folder, note, text)),
        // Some file systems allow shorter names only.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether a file contains exactly `text`.
fn holds(folder: &Folder, file: &Path, text: &str) -> bool {
    folder.metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() == text.len() as u64)
        && folder.read(file).and_then(io::read_to_string).is_ok_and(|content| content == text)
}

/// Returns the temporary name of an input while it is being removed; `None` for a name that is not
/// UTF-8, which [`original`] could not restore after a kill.
fn aside(input: &Path) -> Option<PathBuf> {
    let name = input.file_name()?.to_str()?;
    Some(input.with_file_name(format!("{REMOVING}{name}")))
}

/// Returns the original name of an input that has the temporary name `path` while it is being
/// removed.
pub(crate) fn original(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_prefix(REMOVING)?;
    Some(path.with_file_name(name))
}

/// Renames an input that a killed process was about to remove back to its original name. Returns
/// whether there was one.
///
/// # Errors
/// Any I/O error.
pub(crate) fn put_back(path: &Path) -> io::Result<bool> {
    original(path).map_or(Ok(false), |original| give_back(At::path(path), &original))
}

/// Renames a file back to its original name. If a newer file has that name, the old one has been
/// replaced, and is removed. Returns whether the file was there.
fn give_back(file: At<'_>, original: &Path) -> io::Result<bool> {
    match rename_new(file, At::path(original)) {
        Err(Errno::EXIST) => unlinkat(file.0, file.1, AtFlags::empty())?,
        // It has been removed meanwhile.
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    }
    Ok(true)
}

/// Syncs an output that this process has published below the folder `out` to the disk, with the
/// folders that it lies in. If it is already gone, a collector of outputs has taken it.
fn make_durable(out: &Path, output: &Path) -> io::Result<()> {
    let below = output.strip_prefix(out).ok().and_then(Path::parent).unwrap_or(Path::new(""));
    let synced = Folder::of(out, output).and_then(|(folder, name)| {
        sync(&folder, name)?;
        below.ancestors().skip(1).try_for_each(|above| Folder::open(out, above)?.sync())
    });
    match synced {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Syncs a file and its entry in its folder to the disk.
fn sync(folder: &Folder, name: &Path) -> io::Result<()> {
    folder.read(name)?.sync_all().and_then(|()| folder.sync())
}

/// Ends the removal of an input that an earlier try renamed and could not remove. Another file with
/// its temporary name is renamed back. Returns whether the input is removed.
///
/// # Errors
/// Any I/O error. The input is then still in the same folder under its temporary name.
pub(crate) fn end_removal(input: &Path, stamp: Stamp) -> io::Result<bool> {
    let Some(aside) = aside(input) else { return Ok(false) };
    match fs::symlink_metadata(&aside) {
        Ok(_) => remove_aside(&aside, stamp),
        // An input without room for the temporary name is removed in its place.
        Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            Ok(false)
        }
        Err(why) => Err(why),
    }
}

fn remove(input: &Path, stamp: Stamp) -> io::Result<bool> {
    let Some(aside) = aside(input) else { return remove_in_place(input, stamp) };
    match fs::rename(input, &aside) {
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return remove_in_place(input, stamp),
        other => other?,
    }
    remove_aside(&aside, stamp)
}

/// Removes an input that has its temporary name, or renames it back if it is another file.
fn remove_aside(aside: &Path, stamp: Stamp) -> io::Result<bool> {
    if !stamp.is_still_of(aside) {
        put_back(aside)?;
        return Ok(false);
    }
    fs::remove_file(aside)?;
    Ok(true)
}

/// Removes an input with a name that leaves no room for a temporary one.
fn remove_in_place(input: &Path, stamp: Stamp) -> io::Result<bool> {
    if !stamp.is_still_of(input) {
        return Ok(false);
    }
    fs::remove_file(input).map(|()| true)
}

/// Moves an input to a name from [`name_for`]. Returns whether it was still the same file.
fn move_to(finished: Finished<'_>, folder: &Folder, name: &Path) -> io::Result<bool> {
    let Finished { path: input, stamp, .. } = finished;
    let target = At::folder(folder, name);
    if finished.is_moved_as_link() {
        return move_link(finished, folder, name);
    }
    if is_copy(finished, folder, name) || is_itself(finished, folder, name) {
        sync(folder, name)?;
        return remove(input, stamp);
    }
    if fs::symlink_metadata(input)?.is_symlink() {
        // The link itself might be broken in another folder: its target is copied.
        return copy_to(finished, folder, name);
    }
    match rename_new(At::path(input), target) {
        Err(Errno::XDEV) => return copy_to(finished, folder, name),
        other => other?,
    }
    if folder.metadata(name).is_ok_and(|metadata| stamp.is_of(&metadata)) {
        return Ok(true);
    }
    // Renamed back from the temporary name, which tells the watch that a file is put back, not a
    // complete one moved in.
    let aside = aside(input).filter(|aside| renameat(target.0, target.1, CWD, aside).is_ok());
    give_back(aside.as_deref().map_or(target, At::path), input)?;
    Ok(false)
}

/// Moves a link: one to the same target is made, and the input removed.
fn move_link(
    Finished { path: input, stamp, .. }: Finished<'_>,
    folder: &Folder,
    name: &Path,
) -> io::Result<bool> {
    let text = fs::read_link(input)?;
    let leads_to = if text.is_absolute() { text } else { std::path::absolute(folder_of(input))?.join(text) };
    symlinkat(&leads_to, folder, name)?;
    let removed = remove(input, stamp);
    if !matches!(removed, Ok(true)) {
        let _ = folder.remove(name);
    }
    removed
}

/// Moves an input to another file system: first makes a complete and durable copy with the same
/// times, then removes the input.
fn copy_to(finished: Finished<'_>, folder: &Folder, name: &Path) -> io::Result<bool> {
    let Finished { path: input, stamp, .. } = finished;
    let mut original = open(finished)?;
    let metadata = original.metadata()?;
    if !stamp.is_of(&metadata) {
        return Ok(false);
    }
    // Removed however this ends: half a copy would only fill up a full disk.
    let (partial, mut copy) = Temporary::create(folder)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_permissions(metadata.permissions())?;
    copy.sync_all()?;
    if !stamp.is_still_of(input) {
        return Ok(false);
    }
    // Set only now: a process that tidies leaves recently written temporary files alone, and
    // removes old ones.
    copy.set_times(FileTimes::new().set_accessed(metadata.accessed()?).set_modified(metadata.modified()?))?;
    rename_new(At::folder(folder, partial.name()), At::folder(folder, name))?;
    copy.sync_all()?;
    folder.sync()?;
    remove(input, stamp)
}

/// Returns the name in `folder` to move an input to: `name`, or the same with a number before the
/// extension if another file has that name. A copy of the input left by a process that was killed
/// before it removed the input does not count as another file.
fn name_for(input: Finished<'_>, folder: &Folder, name: &Path, is_taken: impl Fn(&Path) -> bool) -> PathBuf {
    // It may have the name already: where a file system renames in two steps, the second may have
    // failed.
    if !is_taken(name) || is_copy(input, folder, name) || is_itself(input, folder, name) {
        return name.to_owned();
    }
    let taken = last_taken(name, is_taken);
    let last = numbered(name, taken);
    if taken > 1 && is_copy(input, folder, &last) { last } else { numbered(name, taken + 1) }
}

/// Returns whether a file is a copy as [`copy_to`] makes it: another file with the same
/// modification time and bytes.
fn is_copy(input: Finished<'_>, folder: &Folder, name: &Path) -> bool {
    if input.is_moved_as_link() {
        return false;
    }
    let (Ok(of_input), Ok(of_copy)) = (fs::metadata(input.path), folder.metadata(name)) else { return false };
    Identity::of(&of_input) != Identity::of(&of_copy)
        && Stamp::of(&of_input, false) == Stamp::of(&of_copy, false)
        && has_same_bytes(input, folder, name).unwrap_or(false)
}

/// Returns whether a name is another one of the input itself.
fn is_itself(input: Finished<'_>, folder: &Folder, name: &Path) -> bool {
    let there = fs::symlink_metadata(input.path).map(|metadata| Identity::of(&metadata));
    there.is_ok_and(|input| folder.metadata(name).is_ok_and(|named| Identity::of(&named) == input))
}

/// Opens an input; if it has become a link, only where all links are followed.
fn open(finished: Finished<'_>) -> io::Result<File> {
    if finished.links == Links::Follow {
        return input::open(finished.path);
    }
    let (folder, name) = (folder_of(finished.path), finished.path.file_name().unwrap_or_default());
    Folder::open(folder, Path::new(""))?.read(name)
}

fn has_same_bytes(input: Finished<'_>, folder: &Folder, name: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(open(input)?), BufReader::new(folder.read(name)?));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 || left[..count] != right[..count] {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(count);
        other.consume(count);
    }
}

#[cfg(test)]
mod tests;
