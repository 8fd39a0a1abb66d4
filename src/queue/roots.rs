//! The folders that a worker may read from and write to. Who can publish to a queue cannot make it touch anything else.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::paths::{Identity, Shown};

/// The folders of `--root`.
pub(super) struct Roots(Vec<Root>);

struct Root {
    absolute: PathBuf,
    /// Without links.
    canonical: PathBuf,
    /// What it is: another folder is at its path if a disk is unmounted.
    identity: Option<Identity>,
}

/// A path that is below none of the folders.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is below no --root of this worker{}", Shown(.path), if *.by_link { ", because a link leads out of it" } else { "" })]
pub(super) struct Outside {
    path: PathBuf,
    by_link: bool,
}

impl Roots {
    /// Returns those folders.
    ///
    /// # Errors
    /// When one of them is no folder.
    pub(super) fn of(folders: &[PathBuf]) -> Result<Self, Error> {
        let root = |folder: &PathBuf| {
            let paths =
                fs::read_dir(folder).and_then(|_| Ok((std::path::absolute(folder)?, folder.canonicalize()?)));
            match paths {
                Ok((absolute, canonical)) => {
                    let identity = Identity::at(&canonical);
                    Ok(Root { absolute, canonical, identity })
                }
                Err(why) => Err(Error::Usage(format!("--root {} cannot be used: {why}", Shown(folder)))),
            }
        };
        folders.iter().map(root).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the folder that an output lies in: what writes it follows no links below that.
    pub(super) fn of_output(&self, output: &Path) -> Result<&Path, Outside> {
        let around = self.0.iter().filter(|root| output.starts_with(&root.absolute));
        let closest = around.max_by_key(|root| root.absolute.as_os_str().len());
        closest
            .map(|root| root.absolute.as_path())
            .ok_or_else(|| Outside { path: output.to_owned(), by_link: false })
    }

    /// Returns whether all of them are still there, and no disk was unmounted.
    pub(super) fn are_there(&self) -> bool {
        self.0.iter().all(|root| Identity::at(&root.canonical) == root.identity)
    }

    /// Checks that a file to read lies in one of the folders, wherever links lead.
    pub(super) fn check_input(&self, input: &Path) -> Result<(), Outside> {
        let as_written = self.0.iter().any(|root| input.starts_with(&root.absolute));
        let really = match input.canonicalize() {
            Ok(real) => self.0.iter().any(|root| real.starts_with(&root.canonical)),
            // Whoever reads it finds out too.
            Err(why) => why.kind() == ErrorKind::NotFound || why.kind() == ErrorKind::PermissionDenied,
        };
        if as_written && really {
            return Ok(());
        }
        Err(Outside { path: input.to_owned(), by_link: as_written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_root_is_touched() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in ["a/in", "b", "other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("other/x.png"), "").unwrap();
        fs::write(at("a/in/x.png"), "").unwrap();
        std::os::unix::fs::symlink("../../other/x.png", at("a/in/out.png")).unwrap();
        std::os::unix::fs::symlink("../other", at("a/link")).unwrap();
        std::os::unix::fs::symlink("in", at("a/same")).unwrap();
        let roots = Roots::of(&[at("a"), at("b"), at("a/in")]).unwrap();
        for (output, root) in
            [("a/x.png", "a"), ("b/c/x.png", "b"), ("a/in/x.png", "a/in"), ("a/inner/x.png", "a")]
        {
            assert_eq!(roots.of_output(&at(output)), Ok(at(root).as_path()), "{output}");
        }
        for output in ["other/x.png", "bb/x.png", "x.png"] {
            assert!(roots.of_output(&at(output)).is_err(), "{output}");
        }
        for input in ["a/in/x.png", "a/same/x.png", "a/none.png", "b/none/x.png"] {
            assert_eq!(roots.check_input(&at(input)), Ok(()), "{input}");
        }
        for input in ["other/x.png", "a/in/out.png", "a/link/x.png", "none.png"] {
            assert!(roots.check_input(&at(input)).is_err(), "{input}");
        }
        let why = roots.check_input(&at("a/link/x.png")).unwrap_err().to_string();
        assert!(why.ends_with("is below no --root of this worker, because a link leads out of it"), "{why}");
        assert!(Roots::of(&[at("none")]).is_err() && Roots::of(&[at("other/x.png")]).is_err());
    }
}
