//! The test whether a picture is done in a run without a ledger.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::Times;
use crate::fs::stamp::{Stamp, Tree, ctime_ns, mtime_ns};
use crate::picture::recipe::Recipe;
use crate::picture::record::{Digest, Record};
use crate::picture::stored_image::ObjectsState;

/// The state of an input, as far as it decides whether its output is up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InputState {
    pub(super) stamp: Stamp,
    /// The time of its last replacement or change, in nanoseconds since 1970.
    changed_ns: i64,
    /// Whether it is a folder.
    pub(super) is_folder: bool,
    /// Of a folder, its stamp in the records of earlier versions.
    former: Option<Former>,
}

/// The stamp of a folder in the records of versions up to 0.1: the bytes of all files and the
/// latest time. It misses changes, which the time of the last change makes good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Former {
    stamp: Stamp,
    ctime_ns: i64,
}

impl InputState {
    /// Returns the state of an input; `lasting_inodes` states whether its file system keeps inode
    /// numbers.
    pub(super) fn of(metadata: &Metadata, lasting_inodes: bool) -> Self {
        let changed_ns = changed(mtime_ns(metadata), ctime_ns(metadata), now_ns());
        Self { stamp: Stamp::of(metadata, lasting_inodes), changed_ns, is_folder: false, former: None }
    }

    /// Returns the state of an input that is a folder with this metadata.
    ///
    /// # Errors
    /// When a part of the tree below it cannot be examined.
    pub(super) fn of_folder(folder: &Path, metadata: &Metadata, lasting_inodes: bool) -> io::Result<Self> {
        let tree = Tree::of(folder)?;
        let Tree { bytes, mtime_ns, ctime_ns, .. } = tree;
        let former = Stamp { size: bytes, mtime_ns, ..Stamp::of(metadata, lasting_inodes) };
        Ok(Self {
            stamp: tree.stamp(),
            changed_ns: changed(mtime_ns, ctime_ns, now_ns()),
            is_folder: true,
            former: Some(Former { stamp: former, ctime_ns }),
        })
    }

    /// Returns the state of an image in object storage.
    pub(super) fn of_objects(objects: &ObjectsState) -> Self {
        Self { stamp: objects.stamp(), changed_ns: objects.newest_ns, is_folder: true, former: None }
    }

    /// Returns the state of an input in object storage.
    pub(super) fn of_object(object: &store::Entry) -> Self {
        let changed_ns = object.version.modified_ns;
        Self { stamp: Stamp::of_object(object), changed_ns, is_folder: false, former: None }
    }

    /// Returns the latest modification time of the content, which an output may keep.
    fn modified_ns(&self) -> i64 {
        self.former.map_or(self.stamp.mtime_ns, |former| former.stamp.mtime_ns)
    }

    /// Returns whether this is the state in the record of an output, whose last change was at
    /// `output_ns`.
    fn is_in(&self, record: &Record, output_ns: i64) -> bool {
        let is_in_former = |former: Former| former.ctime_ns <= output_ns && record.is_from(&former.stamp);
        record.is_from(&self.stamp) || self.former.is_some_and(is_in_former)
    }
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the time of the last replacement or change of an input. A file that replaces another may
/// be older, and keep its mtime, but not its ctime. An mtime in the future has no meaning.
fn changed(mtime: i64, ctime: i64, now: i64) -> i64 {
    if mtime > now { ctime.min(mtime) } else { ctime.max(mtime) }
}

/// The state of an input's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is up to date.
    Done,
    /// It is missing, or was made from another state of the input.
    ToDo,
    /// It is up to date except for the settings.
    OtherSettings,
}

impl Standing {
    /// Returns the standing of `output` for an input in this state, with these settings.
    pub(super) fn of(output: &Path, input: &InputState, settings: Digest, times: Times) -> Self {
        match fs::metadata(output) {
            Ok(metadata)
                if metadata.is_file() || input.is_folder && codec::multiscales::is_image_folder(output) =>
            {
                let mut made_ns = mtime_ns(&metadata);
                // An output that keeps the time of its input counts as younger: its record, or else
                // its having that time, is the only sign.
                if times == Times::Keep && made_ns == input.modified_ns() {
                    made_ns = i64::MAX;
                }
                Self::judge(
                    Record::of(output),
                    made_ns,
                    ctime_ns(&metadata),
                    |record| record.is_untouched(&metadata),
                    input,
                    settings,
                )
            }
            _ => Self::ToDo,
        }
    }

    /// Returns the standing of an output in object storage for an input in this state, with these
    /// settings.
    pub(super) fn of_object(output: &store::Found, input: &InputState, settings: Digest) -> Self {
        let record = Record::of_found(output);
        let store::Entry { size, version: store::Version { modified_ns, .. }, .. } = &output.entry;
        Self::judge(record, *modified_ns, *modified_ns, |record| record.is_of_length(*size), input, settings)
    }

    /// Judges an output. One that was written to since it was made is left alone, whatever the
    /// settings. One without a record is judged by age. `changed_ns` is when the output was last
    /// replaced or changed.
    fn judge(
        record: Option<Record>,
        made_ns: i64,
        changed_ns: i64,
        is_untouched: impl Fn(&Record) -> bool,
        input: &InputState,
        settings: Digest,
    ) -> Self {
        match record {
            None if made_ns >= input.changed_ns => Self::Done,
            None => Self::ToDo,
            Some(record) if !input.is_in(&record, changed_ns) => Self::ToDo,
            Some(record) if record.has_settings(settings) || !is_untouched(&record) => Self::Done,
            Some(_) => Self::OtherSettings,
        }
    }
}

/// Returns the recipe of an output, which is in object storage if it was `found` there; `None` if
/// it is not known.
pub(super) fn recipe_of(output: &Path, found: Option<&store::Found>) -> Option<Recipe> {
    match found {
        None => Recipe::of(output, &Record::of(output)?),
        Some(found) => Recipe::of_found(found, &Record::of_found(found)?),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::picture::record::Origin;

    #[test]
    fn an_input_changed_when_it_came_or_was_written_and_never_in_the_future() {
        assert_eq!(changed(5, 5, 9), 5);
        assert_eq!(changed(3, 5, 9), 5, "an older file took its place");
        assert_eq!(changed(5, 3, 9), 5, "a file system may make up ctimes");
        assert_eq!(changed(12, 5, 9), 5, "the mtime is from a clock that is ahead");
        assert_eq!(changed(12, 15, 9), 12, "this clock was set back");
        assert_eq!(changed(5, 15, 9), 15, "this clock was set back, and somebody set the mtime");
    }

    #[test]
    fn a_record_goes_over_age_and_an_edit_over_settings() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = || file.as_file().metadata().unwrap();
        let age = |seconds: i64| mtime_ns(&metadata()) + seconds * 1_000_000_000;
        let (now, other) = (Digest::of(b"now"), Digest::of(b"other"));
        let input = Stamp { size: 1, mtime_ns: 2, inode: 3 };
        let replaced = Stamp { mtime_ns: 1, ..input };
        let made = |input, settings| Some(Record::new(&Origin { input, settings }, &metadata()));
        let (same, from_another) = (made(input, now), made(replaced, now));
        let (with_others, neither) = (made(input, other), made(replaced, other));
        let judge = |record, changed_ns| {
            let (output, former) = (metadata(), None);
            let input = InputState { stamp: input, changed_ns, is_folder: false, former };
            let is_untouched = |record: &Record| record.is_untouched(&output);
            let (made_ns, changed_ns) = (mtime_ns(&output), ctime_ns(&output));
            Standing::judge(record, made_ns, changed_ns, is_untouched, &input, now)
        };
        assert_eq!(
            [0, -1, 1].map(|seconds| judge(None, age(seconds))),
            [Standing::Done, Standing::Done, Standing::ToDo]
        );
        for seconds in [-1, 0, 1] {
            let records = [same, from_another, with_others, neither];
            let standings = records.map(|record| judge(record, age(seconds)));
            use Standing::{Done, OtherSettings, ToDo};
            assert_eq!(standings, [Done, ToDo, OtherSettings, ToDo]);
        }
        file.as_file().set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        assert_eq!(judge(with_others, age(0)), Standing::Done, "it was edited");
        assert_eq!(judge(from_another, age(0)), Standing::ToDo);
    }

    #[test]
    fn a_record_of_an_earlier_version_holds_for_a_folder_without_changes_since() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = file.as_file().metadata().unwrap();
        let (stamp, settings) = (Stamp { size: 1, mtime_ns: 2, inode: 0 }, Digest::of(b""));
        let before = Stamp { mtime_ns: 9, inode: 3, ..stamp };
        let standing = |recorded, ctime_ns| {
            let former = Some(Former { stamp: before, ctime_ns });
            let input = InputState { stamp, changed_ns: 0, is_folder: true, former };
            let record = Record::new(&Origin { input: recorded, settings }, &output);
            let (made_ns, changed_ns) = (mtime_ns(&output), super::ctime_ns(&output));
            Standing::judge(Some(record), made_ns, changed_ns, |_| true, &input, settings)
        };
        let made = super::ctime_ns(&output);
        assert_eq!([standing(stamp, made + 1), standing(before, made)], [Standing::Done; 2]);
        assert_eq!(standing(before, made + 1), Standing::ToDo);
    }
}
