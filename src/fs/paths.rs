//! Paths: shown to people and programs without losing or misrepresenting any name, compared, and
//! tested for existence.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::fs::digest::Digest;
use crate::terminal_text::is_plain;

/// A path for people: plain text is shown unchanged, and anything else quoted with escapes. A name
/// with a line break, a terminal's control codes or bytes that are not UTF-8 can then neither
/// mislead nor get lost.
pub struct Shown<'a, P: AsRef<Path> + ?Sized>(pub &'a P);

impl<P: AsRef<Path> + ?Sized> fmt::Display for Shown<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.as_ref();
        match path.to_str() {
            Some(plain) if !plain.is_empty() && plain.chars().all(is_plain) => f.write_str(plain),
            _ => fmt::Debug::fmt(path, f),
        }
    }
}

/// Returns the input folder of an input with the path `below` below it; for a file given by name,
/// its parent folder.
pub(crate) fn root_of<'p>(input: &'p Path, below: &Path) -> Option<&'p Path> {
    input.ancestors().nth(below.components().count())
}

/// Returns the path of an input below its input folder, or its name if it is an input by itself.
pub(crate) fn below_inputs<'p>(inputs: &[PathBuf], input: &'p Path) -> &'p Path {
    let folders = inputs.iter().filter_map(|folder| input.strip_prefix(folder).ok());
    let below =
        folders.filter(|below| !below.as_os_str().is_empty()).min_by_key(|below| below.as_os_str().len());
    below.or_else(|| input.file_name().map(Path::new)).unwrap_or(input)
}

/// Device and inode number, which identify a file or a folder under all its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// An identity that no file has.
    pub(crate) const NOTHING: Self = Self { device: 0, inode: 0 };

    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Returns the identity of an object by its URL: no file is on such a device.
    pub(crate) fn of_object(url: &Path) -> Self {
        Self { device: u64::MAX, inode: Digest::of(url.as_os_str().as_bytes()).number().cast_unsigned() }
    }

    /// Returns the identity of a path's target, if that exists.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// Returns an absolute path. A URL is returned unchanged.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    if store::is_url(path) {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns whether two paths lead to the same place, which need not exist yet. Links and mounts may
/// give one place several paths.
pub(crate) fn are_same(one: &Path, other: &Path) -> bool {
    let absolute = |path| std::path::absolute(path).ok();
    absolute(one).is_some_and(|one| absolute(other) == Some(one))
        || Identity::at(one).is_some_and(|one| Identity::at(other) == Some(one))
}

/// Returns whether a file does not exist, as opposed to being inaccessible.
pub(crate) fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Serializes a path for programs: a string if it is UTF-8, otherwise an object with its bytes as
/// numbers, `{"bytes": [99, 97, 102, 233]}`.
pub(crate) fn as_json<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Bytes<'a> {
        bytes: &'a [u8],
    }
    match path.to_str() {
        Some(text) => to.serialize_str(text),
        None => Bytes { bytes: path.as_os_str().as_bytes() }.serialize(to),
    }
}

/// Returns the folder that a file lies in, never an empty path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn plain_paths_are_shown_as_they_are_and_others_escaped() {
        assert_eq!(Shown("in box/é.png").to_string(), "in box/é.png");
        assert_eq!(Shown("a\nb").to_string(), r#""a\nb""#);
        assert_eq!(Shown("\x1b[2J").to_string(), r#""\u{1b}[2J""#);
        assert_eq!(Shown("a\u{202e}gnp.exe").to_string(), r#""a\u{202e}gnp.exe""#);
        assert_eq!(Shown(OsStr::from_bytes(b"caf\xe9")).to_string(), r#""caf\xE9""#);
        assert_eq!(Shown("").to_string(), r#""""#);
    }

    #[test]
    fn names_of_one_place_are_the_same_whether_it_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(are_same(&at("new"), &at("./new/")) && !are_same(&at("new"), &at("newer")));
        std::fs::create_dir(at("new")).unwrap();
        std::os::unix::fs::symlink("new", at("alias")).unwrap();
        assert!(are_same(&at("new"), &at("alias")) && are_same(&at("new"), &at("alias/../new")));
        assert!(!are_same(&at("new"), &at("newer")));
    }

    #[test]
    fn json_is_a_string_or_bytes() {
        let json = |path: &Path| {
            as_json(path, serde_json::value::Serializer).map(|value| value.to_string()).unwrap()
        };
        assert_eq!(json(Path::new("é.png")), "\"é.png\"");
        assert_eq!(json(Path::new(OsStr::from_bytes(b"caf\xe9"))), r#"{"bytes":[99,97,102,233]}"#);
    }
}
