//! The result of a scan.

use std::path::PathBuf;

use serde::Serialize;

use super::job::Job;
use crate::error::{PictureError, Refusal};
use crate::selection::Purpose;
use codec::Object;

/// Why a file or folder was skipped without being a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// Its output was made from it with these settings, or the ledger has it as done.
    AlreadyDone,
    /// Neither its content nor its name is that of a picture.
    NotAPicture,
    /// It is a socket, a pipe or a device.
    NotAFile,
    /// It is a link, and such links are not to be followed.
    Link,
    /// It is a link to a folder that contains it.
    LinkLoop,
    /// It is a folder in a list of files.
    ListedFolder,
    /// It is a DICOM object without a picture.
    #[serde(untagged)]
    Object(Object),
    /// Its name is reserved, and no glob spells it.
    #[serde(untagged)]
    Reserved(Purpose),
}

/// A file or folder that was skipped.
#[derive(Debug)]
pub struct Skipped {
    /// The file or folder.
    pub input: PathBuf,
    /// The reason.
    pub why: Skip,
    /// Its output, if it is already done.
    pub output: Option<PathBuf>,
}

impl Skipped {
    /// Returns the entry of a picture that is already done, with this output.
    pub(crate) fn done(input: PathBuf, output: PathBuf) -> Self {
        Self { input, why: Skip::AlreadyDone, output: Some(output) }
    }
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Plan {
    /// The jobs, in the order of the inputs and sorted by name within each.
    pub jobs: Vec<Job>,
    /// The files and folders that were skipped.
    pub skipped: Vec<Skipped>,
    /// The files and folders that cannot be processed, and why.
    pub failed: Vec<(PathBuf, PictureError)>,
    /// The files that go among the outputs as they are, each with its place there.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Notes about the inputs for the user, as sentences.
    pub notes: Vec<String>,
}

impl Plan {
    /// Refuses the images that are folders, for this reason.
    pub(crate) fn refuse_image_folders(&mut self, why: &'static str) {
        let folders = self.jobs.extract_if(.., |job| job.is_folder);
        self.failed.extend(folders.map(|job| (job.input, Refusal::ImageFolder { why }.into())));
    }
}
