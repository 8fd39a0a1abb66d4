//! One picture whose output is known.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::done::{InputState, Standing};
use super::filesystem::FileSystem;
use super::scan::Job;
use crate::config::{Existing, Settings};
use crate::error::{PictureError, Refusal};

/// Returns the job of making this output of this input; `None` if that was done with these settings. `named` is whether a user named the
/// input itself.
///
/// # Errors
/// When the input cannot be taken.
pub fn single(
    input: PathBuf,
    output: PathBuf,
    named: bool,
    settings: &Settings,
) -> Result<Option<Job>, PictureError> {
    let metadata = fs::metadata(&input).map_err(PictureError::Read)?;
    if !metadata.is_file() {
        return Err(Refusal::NotAFile.into());
    }
    let lasting_inodes = FileSystem::of(&input).is_ok_and(|own| own.lasting_inodes);
    let standing = match settings.existing {
        Existing::Overwrite => Standing::ToDo,
        Existing::Skip => {
            let state = InputState::of(&metadata, lasting_inodes);
            Standing::of(&output, &state, settings.picture.digest(), settings.times)
        }
    };
    if standing == Standing::Done {
        return Ok(None);
    }
    Ok(Some(Job {
        number: 0,
        settings: Arc::clone(&settings.picture),
        input,
        output,
        named,
        bytes: metadata.len(),
        lasting_inodes,
        stamp: None,
        remakes: standing == Standing::OtherSettings,
        replaces: true,
        spooled: None,
        object: None,
        replaced: None,
    }))
}
