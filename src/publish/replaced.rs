//! The file in the place of an output, and whether the output may replace it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use crate::fs::beneath::Folder;
use crate::fs::filesystem::FileSystem;
use crate::fs::paths::folder_of;
use crate::fs::stamp::{Stamp, ctime_ns};
use crate::picture::record::Record;

/// Bytes of two files that are compared at once.
const COMPARED: usize = 64 << 10;

/// The files that an output may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// Any file.
    Any,
    /// The file that was seen in its place, or an output of histeqd's.
    Seen(Option<Seen>),
    /// An output of histeqd's that nobody has changed: another process may make the same one.
    Own,
    /// No file.
    Nothing,
}

impl Replaces {
    /// Returns the permission to replace the file that is in the place of an output now.
    pub fn at(output: &Path) -> Self {
        let there = fs::symlink_metadata(output).ok();
        let lasting = || FileSystem::of(folder_of(output)).is_ok_and(|own| own.lasting_inodes);
        Self::Seen(there.map(|there| Seen::of(&there, lasting())))
    }

    /// Returns the permission for another output of the same input.
    #[must_use]
    pub fn for_other(self, output: &Path) -> Self {
        if let Self::Seen(_) = self { Self::at(output) } else { self }
    }
}

/// A file as it was seen.
///
/// A file that is moved to its place has another inode number, where these last, and another ctime,
/// but for one tick of the kernel's clock. Device numbers do not last: a network file system has
/// another one each time it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    stamp: Stamp,
    ctime_ns: i64,
}

impl Seen {
    fn of(there: &Metadata, lasting_inodes: bool) -> Self {
        Self { stamp: Stamp::of(there, lasting_inodes), ctime_ns: ctime_ns(there) }
    }

    fn is_of(&self, there: &Metadata) -> bool {
        self.stamp.is_of(there) && self.ctime_ns == ctime_ns(there)
    }
}

/// What to do about the file in the place of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// There is no file: the output must replace none.
    Free,
    /// The file may be replaced.
    Replaceable,
    /// The file has the content of the output.
    Same,
    /// The file stays.
    Taken,
}

impl Place {
    /// Examines the place of an output: a `name` in a folder, and its path. `temporary` is the
    /// name of the output's file in the folder.
    ///
    /// # Errors
    /// When it cannot be examined.
    pub(super) fn of(
        replaces: Replaces,
        folder: &Folder,
        name: &Path,
        output: &Path,
        temporary: &Path,
    ) -> io::Result<Self> {
        let there = match folder.metadata(name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Self::Free),
            there => there?,
        };
        Ok(match replaces {
            Replaces::Any => Self::Replaceable,
            Replaces::Nothing => Self::Taken,
            Replaces::Seen(Some(seen)) if seen.is_of(&there) => Self::Replaceable,
            Replaces::Seen(_) | Replaces::Own => match Record::of(output) {
                Some(record) if record.is_untouched(&there) => Self::Replaceable,
                // File systems without extended attributes keep no records.
                None if have_same_content(folder, name, temporary) => Self::Same,
                _ => Self::Taken,
            },
        })
    }
}

/// Returns whether two names of a folder are regular files with the same content.
fn have_same_content(folder: &Folder, one: &Path, other: &Path) -> bool {
    let open = |name| folder.read(name).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (Ok((length, one)), Ok((of_other, other))) = (open(one), open(other)) else { return false };
    length == of_other && are_same(one, other).unwrap_or(false)
}

/// Returns whether two files have the same content.
pub(super) fn are_same(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    loop {
        of_one.clear();
        of_other.clear();
        one.by_ref().take(COMPARED as u64).read_to_end(&mut of_one)?;
        other.by_ref().take(COMPARED as u64).read_to_end(&mut of_other)?;
        if of_one != of_other || of_one.is_empty() {
            return Ok(of_one == of_other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::config::Durability;
    use crate::fs::stamp::Stamp;
    use crate::picture::record::{Digest, Origin};
    use crate::publish::Publisher;

    /// Publishes an output that `meanwhile` happens to; returns its content, and the error.
    fn published(
        replaces: impl FnOnce(&Path) -> Replaces,
        before: Option<&str>,
        meanwhile: impl FnOnce(&Path),
    ) -> (String, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.png");
        if let Some(before) = before {
            fs::write(&output, before).unwrap();
        }
        let publisher = Publisher::new(Durability::Fast);
        let mut unpublished = publisher.begin(folder.path(), &output).unwrap();
        unpublished.replace(replaces(&output));
        unpublished.file().write_all(b"output").unwrap();
        meanwhile(&output);
        let why = unpublished.publish().err().map(|why| why.to_string());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        (fs::read_to_string(&output).unwrap(), why)
    }

    #[test]
    fn another_file_of_the_same_length_and_times_is_not_the_one_that_was_seen() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["a.png", "b.png"].map(|name| folder.path().join(name));
        let write = |path: &Path| {
            fs::write(path, "content").unwrap();
            fs::symlink_metadata(path).unwrap()
        };
        // Within one tick of the kernel's clock, unless this thread has to wait between them.
        for _ in 0..100 {
            let [of_one, of_other] = [&one, &other].map(|path| write(path));
            let (seen, vague) = (Seen::of(&of_one, true), Seen::of(&of_one, false));
            assert!(seen.is_of(&of_one) && vague.is_of(&of_one));
            assert!(!seen.is_of(&of_other));
        }
    }

    #[test]
    fn what_was_seen_is_replaced_and_nothing_that_came_since() {
        let nothing = |_: &Path| ();
        let another = |output: &Path| fs::write(output, "another's").unwrap();
        let moved_there = |output: &Path| {
            // Times of files go by the ticks of the kernel's clock, which are up to 10 ms long.
            std::thread::sleep(Duration::from_millis(20));
            let from = output.with_extension("new");
            fs::write(&from, "before").unwrap();
            let time = fs::metadata(output).unwrap().modified().unwrap();
            File::options().append(true).open(&from).unwrap().set_modified(time).unwrap();
            fs::rename(from, output).unwrap();
        };
        let good = |content: &str| (content.to_owned(), None);
        assert_eq!(published(Replaces::at, None, nothing), good("output"));
        assert_eq!(published(Replaces::at, Some("before"), nothing), good("output"));
        assert_eq!(published(|_| Replaces::Any, None, another), good("output"));
        for before in [None, Some("before")] {
            let (content, why) = published(Replaces::at, before, another);
            assert_eq!(content, "another's");
            assert!(why.unwrap().ends_with("a.png: another file of that name has appeared"));
        }
        for replaces in [Replaces::Own, Replaces::Nothing] {
            assert!(published(|_| replaces, Some("before"), nothing).1.is_some(), "{replaces:?}");
        }
        let (content, why) = published(Replaces::at, Some("before"), moved_there);
        assert!(content == "before" && why.is_some(), "of the same length and time");
        let gone = |output: &Path| fs::remove_file(output).unwrap();
        assert_eq!(published(Replaces::at, Some("before"), gone), good("output"));
    }

    #[test]
    fn outputs_of_another_process_are_replaced_until_somebody_writes_to_them() {
        let stamp = Stamp { size: 1, mtime_ns: 2, inode: 3 };
        let origin = Origin { input: stamp, settings: Digest::of(b"") };
        let made = |output: &Path, content: &str| {
            fs::write(output, content).unwrap();
            let file = File::open(output).unwrap();
            Record::new(&origin, &file.metadata().unwrap()).put_on(&file);
            Record::of(output).is_some()
        };
        let place = tempfile::tempdir().unwrap();
        let has_records = made(&place.path().join("a"), "");
        for replaces in [Replaces::Seen(None), Replaces::Own] {
            let same = |output: &Path| fs::write(output, "output").unwrap();
            assert_eq!(published(|_| replaces, None, same), ("output".to_owned(), None));
            if !has_records {
                continue;
            }
            let theirs = |output: &Path| {
                made(output, "theirs");
            };
            assert_eq!(published(|_| replaces, None, theirs), ("output".to_owned(), None));
            let edited = |output: &Path| {
                made(output, "theirs");
                fs::write(output, "by hand").unwrap();
            };
            let (content, why) = published(|_| replaces, None, edited);
            assert!(content == "by hand" && why.is_some());
        }
    }
}
