//! `--files-from`: a list of files instead of a search of the input folders.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{ffi::OsStr, fs::File};

use super::stdin::STANDARD_INPUT;
use crate::error::Error;
use crate::fs::paths::Shown;

/// Returns the paths in a list, which is a file, or standard input (`-`).
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(list: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut bytes = Vec::new();
    let done = if list.as_os_str() == STANDARD_INPUT {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(list).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    done.map_err(|why| Error::CannotRun(format!("--files-from {} cannot be read: {why}", Shown(list))))?;
    Ok(parse(&bytes))
}

/// Returns the paths in the content of a list: the texts between NUL bytes if there are any, else
/// every line.
fn parse(bytes: &[u8]) -> Vec<PathBuf> {
    let end = if bytes.contains(&0) { 0 } else { b'\n' };
    let names = bytes.split(|&byte| byte == end).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

/// The input folders that listed files have to be in.
pub(super) struct Folders<'a>(Vec<Folder<'a>>);

struct Folder<'a> {
    /// As the user named it.
    named: &'a Path,
    absolute: PathBuf,
    /// The path without links.
    canonical: PathBuf,
}

impl<'a> Folder<'a> {
    fn of(named: &'a Path) -> io::Result<Self> {
        if !fs::metadata(named)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { named, absolute: std::path::absolute(named)?, canonical: named.canonicalize()? })
    }
}

impl<'a> Folders<'a> {
    /// Returns the folders that these inputs are.
    ///
    /// # Errors
    /// When one of them is no folder.
    pub(super) fn of(inputs: &'a [PathBuf]) -> Result<Self, Error> {
        let folders = inputs.iter().map(|named| {
            Folder::of(named).map_err(|why| {
                let named = Shown(named);
                Error::Usage(format!(
                    "--files-from takes files below the input folders, and {named} is not a folder: {why}"
                ))
            })
        });
        folders.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether one of them contains a folder, given by a path without links.
    pub(super) fn contain(&self, canonical: &Path) -> bool {
        self.0.iter().any(|folder| canonical.starts_with(&folder.canonical))
    }

    /// Returns the input folder of a listed file, and its path below that; `None` if it is outside
    /// all of them.
    pub(super) fn place(&self, listed: &Path) -> Option<(&'a Path, PathBuf)> {
        let absolute = std::path::absolute(listed).ok()?;
        let as_written = self.0.iter().find_map(|folder| {
            let below = absolute.strip_prefix(&folder.absolute).ok()?;
            let goes_down = below.components().all(|part| matches!(part, Component::Normal(_)));
            (goes_down && below.file_name().is_some()).then(|| (folder.named, below.to_owned()))
        });
        as_written.or_else(|| {
            // There are links or `..` in one of the paths.
            let file = absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?);
            self.0.iter().find_map(|folder| {
                let below = file.strip_prefix(&folder.canonical).ok()?;
                below.file_name().is_some().then(|| (folder.named, below.to_owned()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &[u8]) -> Vec<String> {
        parse(text).iter().map(|path| format!("{}", Shown(path))).collect()
    }

    #[test]
    fn names_end_at_nul_bytes_or_else_at_line_breaks() {
        assert_eq!(names(b"a.png\n./b c.png\n\n/d.png"), ["a.png", "./b c.png", "/d.png"]);
        assert_eq!(names(b"a\nb.png\0c.png\0"), [r#""a\nb.png""#, "c.png"]);
        assert_eq!(names(b"caf\xe9.png\n"), [r#""caf\xE9.png""#]);
        assert!(names(b"").is_empty() && names(b"\n\n").is_empty() && names(b"\0").is_empty());
    }

    #[test]
    fn a_file_is_below_the_first_folder_that_it_lies_in() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("in/x")).unwrap();
        fs::create_dir_all(at("other")).unwrap();
        std::os::unix::fs::symlink("in", at("link")).unwrap();
        let inputs = [at("in"), at("other")];
        let folders = Folders::of(&inputs).unwrap();
        let placed = |name: &str| {
            let (folder, below) = folders.place(&at(name))?;
            Some(format!("{} {}", folder.strip_prefix(place.path()).unwrap().display(), below.display()))
        };
        for name in ["in/x/a.png", "in/./x//a.png", "link/x/a.png", "in/../in/x/a.png", "other/../in/x/a.png"]
        {
            assert_eq!(placed(name).as_deref(), Some("in x/a.png"), "{name}");
        }
        assert_eq!(placed("other/a.png").as_deref(), Some("other a.png"));
        for name in ["a.png", "in", "in/..", "in/../a.png", "inner/a.png", "in/x/../../a.png"] {
            assert_eq!(placed(name), None, "{name}");
        }
        let why = |name: &str| match Folders::of(&[at(name)]) {
            Err(Error::Usage(why)) => why,
            _ => panic!(),
        };
        fs::write(at("file"), "").unwrap();
        assert!(why("file").ends_with("is not a folder: not a directory"), "{}", why("file"));
        assert!(why("none").contains("No such file"), "{}", why("none"));
    }
}
