//! What a scan leads to.

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
    /// Its output was made from it with these settings, or the ledger knows that it is done.
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
    /// It is a DICOM object that is no picture.
    #[serde(untagged)]
    Object(Object),
    /// Its name is reserved, and no glob asks for it.
    #[serde(untagged)]
    Reserved(Purpose),
}

/// A file or folder that was skipped.
#[derive(Debug)]
pub struct Skipped {
    /// The file or folder.
    pub input: PathBuf,
    /// Why.
    pub why: Skip,
    /// Its output, if it is done already.
    pub output: Option<PathBuf>,
}

impl Skipped {
    /// Returns that a picture is done already, with this output.
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
    /// What the user should know about the inputs, as sentences.
    pub notes: Vec<String>,
}

impl Plan {
    /// Refuses the images that are folders, for this reason.
    pub(crate) fn refuse_image_folders(&mut self, why: &'static str) {
        let folders = self.jobs.extract_if(.., |job| job.is_folder);
        self.failed.extend(folders.map(|job| (job.input, Refusal::ImageFolder { why }.into())));
    }
}
