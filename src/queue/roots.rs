//! The folders, here and in object storage, that a worker may read from and write to. Publishers to
//! a queue cannot make it touch other files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use store::Url;

use crate::error::Error;
use crate::fs::input::InputRoots;
use crate::fs::paths::{Identity, Shown};

/// The folders of `--root`.
pub(super) struct Roots {
    folders: Vec<Root>,
    /// The folders that files must be in to be read.
    inputs: InputRoots,
    buckets: Vec<StoredRoot>,
}

/// A folder in object storage. The endpoint is that of this worker's environment, whoever
/// publishes.
struct StoredRoot {
    url: Url,
    /// The URL as the folder that outputs are written below.
    path: PathBuf,
}

struct Root {
    absolute: PathBuf,
    /// The path without links.
    canonical: PathBuf,
    /// The folder itself: another one is at its path after a disk was unmounted.
    identity: Option<Identity>,
}

/// A path outside all the folders.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not below a --root of this worker{}", Shown(.path), if *.by_link { ", because a link leads out of it" } else { "" })]
pub(super) struct Outside {
    path: PathBuf,
    by_link: bool,
}

impl Root {
    fn of(folder: &Path) -> io::Result<Self> {
        fs::read_dir(folder)?;
        let canonical = folder.canonicalize()?;
        let identity = Identity::at(&canonical);
        Ok(Self { absolute: std::path::absolute(folder)?, canonical, identity })
    }
}

impl Roots {
    /// Opens the folders.
    ///
    /// # Errors
    /// When one of them is no folder. A folder in object storage is only examined when there is
    /// work in it.
    pub(super) fn of(roots: &[PathBuf]) -> Result<Self, Error> {
        let (stored, folders): (Vec<&PathBuf>, Vec<_>) = roots.iter().partition(|root| store::is_url(root));
        let stored = stored.into_iter().map(|root| {
            let url = Url::parse(root).map_err(|why| Error::Usage(format!("--root {why}")))?;
            Ok(StoredRoot { path: url.to_string().into(), url })
        });
        let folders = folders.into_iter().map(|folder| {
            Root::of(folder)
                .map_err(|why| Error::Usage(format!("--root {} cannot be used: {why}", Shown(folder))))
        });
        let buckets = stored.collect::<Result<_, Error>>()?;
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        let inputs = InputRoots::within(folders.iter().map(|root| root.canonical.clone()).collect());
        Ok(Self { folders, inputs, buckets })
    }

    /// Returns the folders that files must be in to be read.
    pub(super) fn inputs(&self) -> &InputRoots {
        &self.inputs
    }

    /// Returns the folders in object storage.
    pub(super) fn buckets(&self) -> Vec<PathBuf> {
        self.buckets.iter().map(|root| root.path.clone()).collect()
    }

    /// Returns one of the folders that outputs may be written to.
    pub(super) fn first(&self) -> &Path {
        let folder = self.folders.first().map(|root| root.absolute.as_path());
        let stored = self.buckets.first().map(|root| root.path.as_path());
        folder.or(stored).unwrap_or(Path::new(""))
    }

    /// Returns the folder in object storage that contains a URL.
    fn of_url(&self, url: &Path) -> Result<&Path, Outside> {
        let parsed = Url::parse(url).ok();
        let around =
            self.buckets.iter().filter(|root| parsed.as_ref().is_some_and(|url| url.is_in(&root.url)));
        let closest = around.max_by_key(|root| root.url.key().len());
        closest
            .map(|root| root.path.as_path())
            .ok_or_else(|| Outside { path: url.to_owned(), by_link: false })
    }

    /// Returns the folder that contains an output: no links are followed below it.
    pub(super) fn of_output(&self, output: &Path) -> Result<&Path, Outside> {
        if store::is_url(output) {
            return self.of_url(output);
        }
        let around = self.folders.iter().filter(|root| output.starts_with(&root.absolute));
        let closest = around.max_by_key(|root| root.absolute.as_os_str().len());
        closest
            .map(|root| root.absolute.as_path())
            .ok_or_else(|| Outside { path: output.to_owned(), by_link: false })
    }

    /// Returns whether all folders are still there, and no disk was unmounted.
    pub(super) fn are_there(&self) -> bool {
        self.folders.iter().all(|root| Identity::at(&root.canonical) == root.identity)
    }

    /// Checks that a file to read lies in one of the folders, wherever links lead.
    pub(super) fn check_input(&self, input: &Path) -> Result<(), Outside> {
        self.check_inputs()(input)
    }

    /// Returns a function that checks several files, as [`Roots::check_input`]. Each folder around
    /// them is examined once.
    pub(super) fn check_inputs(&self) -> impl FnMut(&Path) -> Result<(), Outside> {
        let mut inside: HashMap<PathBuf, bool> = HashMap::new();
        let mut is_inside = move |file: &Path| match file.parent() {
            // A file that is not a link lies where its folder does.
            Some(folder) if !fs::symlink_metadata(file).is_ok_and(|file| file.is_symlink()) => {
                if let Some(known) = inside.get(folder) {
                    return *known;
                }
                *inside.entry(folder.to_owned()).or_insert(self.inputs.have(folder))
            }
            _ => self.inputs.have(file),
        };
        move |input| self.check(input, &mut is_inside)
    }

    fn check(&self, input: &Path, is_inside: impl FnOnce(&Path) -> bool) -> Result<(), Outside> {
        if store::is_url(input) {
            return self.of_url(input).map(drop);
        }
        let as_written = self.folders.iter().any(|root| input.starts_with(&root.absolute));
        if as_written && is_inside(input) {
            return Ok(());
        }
        Err(Outside { path: input.to_owned(), by_link: as_written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_root_in_object_storage_is_touched() {
        let roots = Roots::of(&["s3://b/scans/", "s3://b/scans/out", "gs://all"].map(PathBuf::from)).unwrap();
        for (url, root) in [
            ("s3://b/scans/a.png", "s3://b/scans"),
            ("s3://b/scans/out/x/a.png", "s3://b/scans/out"),
            ("s3://b/scans/outer/a.png", "s3://b/scans"),
            ("gs://all/a.png", "gs://all/"),
        ] {
            assert_eq!(roots.of_output(Path::new(url)), Ok(Path::new(root)), "{url}");
            assert_eq!(roots.check_input(Path::new(url)), Ok(()), "{url}");
        }
        for url in [
            "s3://b/a.png",
            "s3://b/scanned/a.png",
            "s3://b/scans/../a.png",
            "s3://c/scans/a.png",
            "az://b/scans/a.png",
            "s3://b@host/scans/a.png",
            "http://host/b/scans/a.png",
            "/b/scans/a.png",
        ] {
            let is_refused =
                roots.of_output(Path::new(url)).is_err() && roots.check_input(Path::new(url)).is_err();
            assert!(is_refused, "{url}");
        }
        for root in ["s3://", "http://host/a", "s3://b/../c", "s3://key:secret@b/"] {
            let why = Roots::of(&[PathBuf::from(root)]).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.starts_with("--root ") && !why.contains("secret"), "{root}: {why}");
        }
    }

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
        assert!(
            why.ends_with("is not below a --root of this worker, because a link leads out of it"),
            "{why}"
        );
        assert!(Roots::of(&[at("none")]).is_err() && Roots::of(&[at("other/x.png")]).is_err());
    }
}
