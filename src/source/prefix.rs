//! `--prefix-folder`: the outputs of each input folder lie in a folder of their own, which has the
//! input folder's name.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::fs::paths::{Shown, are_same};
use crate::ledger;

/// The input folders, each with the name of its folder for outputs; empty without
/// `--prefix-folder`.
#[derive(Clone, Debug, Default)]
pub struct Prefixes(Vec<(PathBuf, OsString)>);

impl Prefixes {
    /// Returns the names for these input folders.
    ///
    /// # Errors
    /// When a folder has no name to use, or two have the same.
    pub fn of(folders: &[PathBuf]) -> Result<Self, Error> {
        let mut named: Vec<(PathBuf, OsString)> = Vec::with_capacity(folders.len());
        for folder in folders {
            let name = name_of(folder)?;
            let clash = named.iter().find(|(other, taken)| *taken == name && !are_same(other, folder));
            if let Some((other, _)) = clash {
                return Err(Error::Usage(format!(
                    "{} and {} have the same name, and so the same folder with --prefix-folder; rename one, or run histeqd \
                     for each with an --out of its own",
                    Shown(other),
                    Shown(folder)
                )));
            }
            named.push((folder.clone(), name));
        }
        Ok(Self(named))
    }

    /// Returns whether outputs of all input folders lie in one tree.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the place of the file `input` below the output folder, if it has the path `below`
    /// below its input folder.
    pub fn placed<'p>(&self, input: &Path, below: &'p Path) -> Cow<'p, Path> {
        match self.0.iter().find(|(folder, _)| input.strip_prefix(folder) == Ok(below)) {
            Some((_, name)) => Path::new(name).join(below).into(),
            None => below.into(),
        }
    }
}

fn name_of(folder: &Path) -> Result<OsString, Error> {
    // `.` and paths that end in `..` have a name too.
    let name = (folder.file_name().map(OsStr::to_owned))
        .or_else(|| folder.canonicalize().ok()?.file_name().map(OsStr::to_owned));
    match name {
        Some(name) if name != ledger::FOLDER => Ok(name),
        _ => Err(Error::Usage(format!(
            "{} has no name for a folder of its outputs; leave out --prefix-folder",
            Shown(folder)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folders: &[&str]) -> Result<Prefixes, String> {
        let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        Prefixes::of(&folders).map_err(|why| why.to_string())
    }

    #[test]
    fn each_folder_has_its_own_name() {
        let prefixes = of(&["x/a", "b/"]).unwrap();
        let placed = |input: &str, below| prefixes.placed(Path::new(input), Path::new(below)).into_owned();
        assert_eq!(placed("x/a/c/d.png", "c/d.png"), Path::new("a/c/d.png"));
        assert_eq!(placed("b/d.png", "d.png"), Path::new("b/d.png"));
        assert_eq!(placed("x/d.png", "d.png"), Path::new("d.png"), "given by name");
        let here = of(&["."]).unwrap().placed(Path::new("./d.png"), Path::new("d.png")).into_owned();
        let name = std::env::current_dir().unwrap().file_name().unwrap().to_owned();
        assert_eq!(here, Path::new(&name).join("d.png"));
    }

    #[test]
    fn names_that_cannot_be_used_are_refused() {
        assert!(of(&["x/a", "y/a"]).unwrap_err().starts_with("x/a and y/a have the same name, "));
        assert!(of(&["x/a", "x/a/", "./x/a"]).is_ok(), "one folder");
        for folder in ["/", "x/.histeqd"] {
            assert!(of(&[folder]).unwrap_err().contains("has no name for a folder"), "{folder}");
        }
    }
}
