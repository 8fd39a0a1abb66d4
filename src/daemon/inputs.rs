//! What happens to finished inputs: they stay, are removed, are moved, or are set aside with a reason.
//!
//! An input is touched only in the exact state that was processed. If it is replaced at the last moment, the new file is left in its place:
//! a file is renamed first, checked under its new name, and renamed back if it turns out to be another.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::Builder;

use crate::config::After;
use crate::paths::Identity;
use crate::publish::{affixes, folder_of, sync_folder};
use crate::source::stamp::Stamp;
use crate::source::watch::REMOVING;

/// The most bytes that file systems allow in a name.
const MAX_NAME: usize = 255;

/// Keeps, removes or moves an input whose output is published, as `after` says. `below` is its path below the watched folder. `durable`
/// says that the output has reached the disk. Returns whether the input was still the same file.
///
/// # Errors
/// Any I/O error. The input is then where it was, or beside it under its temporary name, until [`put_back`] renames it back.
pub(super) fn dispose(
    after: &After,
    input: &Path,
    below: &Path,
    stamp: Stamp,
    output: &Path,
    durable: bool,
) -> io::Result<bool> {
    if *after != After::Keep && !durable {
        make_durable(output)?;
    }
    match after {
        After::Keep => Ok(true),
        After::Delete => remove(input, stamp),
        After::Move(folder) => move_to(input, &name_for(input, &folder.join(below), exists)?, stamp),
    }
}

/// Moves an input that cannot be processed to the path `below` in `folder`, and writes the reason beside it. Returns whether the input was
/// still the same file.
///
/// # Errors
/// As of [`dispose`].
pub(super) fn set_aside(
    folder: &Path,
    input: &Path,
    below: &Path,
    stamp: Stamp,
    reason: &str,
) -> io::Result<bool> {
    let text = format!("{reason}\n");
    // The name of the note may be taken too: by a picture, or by the note of a file that was taken away since.
    let is_taken = |name: &Path| exists(name) || exists(&note_of(name)) && !holds(&note_of(name), &text);
    let target = name_for(input, &folder.join(below), is_taken)?;
    let note = note_of(&target);
    // Written before the file is moved, so that a kill cannot leave the file there without its reason.
    let is_noted = write_note(&note, &text)?;
    let moved = move_to(input, &target, stamp);
    if is_noted && !exists(&target) {
        let _ = fs::remove_file(note);
    }
    moved
}

/// Returns the path of the note beside a file that is set aside.
fn note_of(file: &Path) -> PathBuf {
    let mut note = file.to_owned().into_os_string();
    note.push(".reason.txt");
    note.into()
}

/// Writes a note without replacing any file. Returns whether the note is there.
fn write_note(note: &Path, text: &str) -> io::Result<bool> {
    match File::create_new(note) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(note)))?;
            Ok(true)
        }
        // A killed process may have written it already.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(holds(note, text)),
        // A file whose name has no room for the suffix goes without a note.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether a file contains exactly `text`.
fn holds(file: &Path, text: &str) -> bool {
    let has_its_length = |metadata: Metadata| metadata.is_file() && metadata.len() == text.len() as u64;
    fs::symlink_metadata(file).is_ok_and(has_its_length)
        && fs::read(file).is_ok_and(|content| content == text.as_bytes())
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the temporary name of an input while it is being removed; `None` for a name that is not UTF-8, which [`original`] could not
/// restore after a kill.
fn aside(input: &Path) -> Option<PathBuf> {
    let name = input.file_name()?.to_str()?;
    Some(input.with_file_name(format!("{REMOVING}{name}")))
}

/// Returns the original name of an input that has the temporary name `path` while it is being removed.
pub(super) fn original(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_prefix(REMOVING)?;
    Some(path.with_file_name(name))
}

/// Renames an input that a killed process was about to remove back to its original name. Returns whether there was one.
///
/// # Errors
/// Any I/O error.
pub(super) fn put_back(path: &Path) -> io::Result<bool> {
    original(path).map_or(Ok(false), |original| give_back(path, &original))
}

/// Renames a file back to its original name. If a newer file has that name, the old one has been replaced, and is removed. Returns whether
/// the file was there.
fn give_back(path: &Path, original: &Path) -> io::Result<bool> {
    match rename_new(path, original) {
        Err(Errno::EXIST) => fs::remove_file(path)?,
        // It has been removed meanwhile.
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    }
    Ok(true)
}

/// Renames a file without replacing one that has the new name.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS and other file systems do not support the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from, to),
        done => done,
    }
}

/// Does the same as [`rename_new`] in two steps: a process that is killed in between leaves the file with both names.
fn link_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match rustix::fs::link(from, to) {
        Ok(()) => rustix::fs::unlink(from),
        Err(why @ (Errno::EXIST | Errno::XDEV)) => Err(why),
        Err(_) if exists(to) => Err(Errno::EXIST),
        // Hard links are not supported either.
        Err(_) => rustix::fs::rename(from, to),
    }
}

/// Brings an output that this process has published to the disk. If it is gone already, whoever collects outputs has taken it.
fn make_durable(output: &Path) -> io::Result<()> {
    match File::open(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.sync_all().and_then(|()| sync_folder(folder_of(output))),
    }
}

fn remove(input: &Path, stamp: Stamp) -> io::Result<bool> {
    let Some(aside) = aside(input) else { return remove_in_place(input, stamp) };
    match fs::rename(input, &aside) {
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return remove_in_place(input, stamp),
        other => other?,
    }
    if !stamp.is_still_of(&aside) {
        put_back(&aside)?;
        return Ok(false);
    }
    fs::remove_file(aside)?;
    Ok(true)
}

/// Removes an input whose name leaves no room for another beside it.
fn remove_in_place(input: &Path, stamp: Stamp) -> io::Result<bool> {
    if !stamp.is_still_of(input) {
        return Ok(false);
    }
    fs::remove_file(input).map(|()| true)
}

/// Moves an input to a name from [`name_for`]. Returns whether it was still the same file.
fn move_to(input: &Path, target: &Path, stamp: Stamp) -> io::Result<bool> {
    if is_copy(input, target) {
        make_durable(target)?;
        return remove(input, stamp);
    }
    if fs::symlink_metadata(input)?.is_symlink() {
        // The link itself might lead nowhere from another folder, so its target is copied.
        return copy_to(input, target, stamp);
    }
    match rename_new(input, target) {
        Err(Errno::XDEV) => return copy_to(input, target, stamp),
        other => other?,
    }
    if stamp.is_still_of(target) {
        return Ok(true);
    }
    // Renamed back from the temporary name, by which the watch can tell a file that is put back from a complete one that is moved in.
    let aside = aside(input).filter(|aside| fs::rename(target, aside).is_ok());
    give_back(aside.as_deref().unwrap_or(target), input)?;
    Ok(false)
}

/// Moves an input to another file system: first makes a complete and durable copy with the same times, then removes the input.
fn copy_to(input: &Path, target: &Path, stamp: Stamp) -> io::Result<bool> {
    let folder = folder_of(target);
    let metadata = fs::metadata(input)?;
    let (before, after) = affixes();
    // Removed however this ends: half a copy would only fill up a full disk.
    let partial = Builder::new().prefix(&before).suffix(after).tempfile_in(folder)?.into_temp_path();
    fs::copy(input, &partial)?;
    let copy = File::open(&partial)?;
    copy.sync_all()?;
    if !stamp.is_still_of(input) {
        return Ok(false);
    }
    // Set only now: a process that tidies leaves temporary files alone that were written recently, and removes those that look old.
    copy.set_times(FileTimes::new().set_accessed(metadata.accessed()?).set_modified(metadata.modified()?))?;
    rename_new(&partial, target)?;
    copy.sync_all()?;
    sync_folder(folder)?;
    remove(input, stamp)
}

/// Returns the path to move an input to, and creates its folder: `target`, or the same with a number before the extension if another file
/// has that name. A copy of the input left by a process that was killed before it removed the input does not count as another file.
fn name_for(input: &Path, target: &Path, is_taken: impl Fn(&Path) -> bool) -> io::Result<PathBuf> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    if !is_taken(target) || is_copy(input, target) {
        return Ok(target.to_owned());
    }
    // A camera may use the same name every time: a binary search finds the last of a million numbers in forty checks.
    let (mut taken, mut free) = (1, 2);
    while is_taken(&numbered(target, free)) {
        (taken, free) = (free, 2 * free);
    }
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        *(if is_taken(&numbered(target, middle)) { &mut taken } else { &mut free }) = middle;
    }
    let last = numbered(target, taken);
    Ok(if taken > 1 && is_copy(input, &last) { last } else { numbered(target, free) })
}

/// Returns the path with a number before the extension, and less of the name before that if there is no room for both.
fn numbered(target: &Path, number: u64) -> PathBuf {
    let mut end = OsString::from(format!(".{number}"));
    if let Some(extension) = target.extension() {
        end.push(".");
        end.push(extension);
    }
    let stem = target.file_stem().unwrap_or_default().as_bytes();
    let mut length = stem.len().min(MAX_NAME.saturating_sub(end.len()));
    let is_within_character = |at: usize| stem.get(at).is_some_and(|byte| byte >> 6 == 0b10);
    while length > 0 && is_within_character(length) {
        length -= 1;
    }
    let mut name = OsStr::from_bytes(&stem[..length]).to_owned();
    name.push(end);
    target.with_file_name(name)
}

/// Returns whether a file is a copy as [`copy_to`] makes it: another file with the same modification time and bytes.
fn is_copy(input: &Path, copy: &Path) -> bool {
    let (Ok(of_input), Ok(of_copy)) = (fs::metadata(input), fs::symlink_metadata(copy)) else { return false };
    Identity::of(&of_input) != Identity::of(&of_copy)
        && Stamp::of(&of_input, false) == Stamp::of(&of_copy, false)
        && has_same_bytes(input, copy).unwrap_or(false)
}

fn has_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
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
