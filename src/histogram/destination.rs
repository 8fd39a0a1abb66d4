//! The destination of a table or a plot: usually a regular file, but it may also be a symbolic
//! link, a pipe or a device.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::fs::input;
use crate::fs::paths::{Identity, Shown};
use crate::source::{Job, Plan};
use codec::Format;

/// The most symbolic links that are followed, as in Linux.
const LINKS: usize = 40;

/// Opens a pipe, a device or the like for writing, since a file must not take its place. Returns
/// `None` if the path is a regular file or a folder, or does not exist.
pub(super) fn stream(path: &Path) -> Option<io::Result<File>> {
    let there = fs::metadata(path).ok()?;
    (!there.is_file() && !there.is_dir()).then(|| File::options().write(true).open(path))
}

/// Returns the path that a name leads to through symbolic links, whether or not it exists.
pub(super) fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.with_file_name(target);
    }
    path
}

/// Makes sure that neither the table `out` nor a plot replaces an input picture or the other.
///
/// # Errors
/// When one of them leads to an input, or both to one file. A plot that would replace an input
/// directly, not through a link, has already failed in the plan.
pub(super) fn refuse_replacing(out: Option<&Path>, plan: &Plan) -> Result<(), Error> {
    let plots = plan.jobs.iter().map(|job| job.output.as_path());
    let place = |path| std::path::absolute(followed(path)).ok();
    if let Some(out) = out
        && plots.clone().any(|plot| place(plot) == place(out))
    {
        let why = format!("{} is the name of both the table and a plot; choose another", Shown(out));
        return Err(Error::Usage(why));
    }
    let written: HashMap<_, _> =
        out.into_iter().chain(plots).filter_map(|path| Some((Identity::at(path)?, path))).collect();
    if written.is_empty() {
        return Ok(());
    }
    let pictures = plan.jobs.iter().map(|job| (job.input.as_path(), Some(job)));
    let refused = plan.failed.iter().map(|(input, _)| (input.as_path(), None));
    for (input, job) in pictures.chain(refused) {
        let replaced = Identity::at(input).and_then(|identity| written.get(&identity));
        if let Some(path) = replaced.filter(|_| job.is_none_or(is_picture)) {
            return Err(Error::Usage(format!("{} would replace an input; choose another name", Shown(path))));
        }
    }
    Ok(())
}

/// Returns whether a job's file is, or has to be, a picture: a table of an earlier run in the input
/// folder is not.
fn is_picture(job: &Job) -> bool {
    let mut head = Vec::new();
    let read = input::open(&job.input).and_then(|file| file.take(Format::HEAD as u64).read_to_end(&mut head));
    job.must_be_a_picture() || read.is_err() || Format::sniff(&head).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_their_end_also_where_nothing_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        symlink("deep/next", at("link")).unwrap();
        symlink("../missing", at("deep/next")).unwrap();
        assert_eq!(followed(&at("link")), at("deep/../missing"));
        assert_eq!(followed(&at("plain")), at("plain"));
        symlink("loop", at("loop")).unwrap();
        assert_eq!(followed(&at("loop")), at("loop"));
    }

    #[test]
    fn only_what_is_there_and_no_file_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(stream(Path::new("/dev/null")).unwrap().is_ok());
        assert!(stream(&folder.path().join("file")).is_none());
        assert!(stream(&folder.path().join("none")).is_none());
        assert!(stream(folder.path()).is_none());
    }
}
