//! An input and its output, and the decision whether there is work to do.

use std::path::PathBuf;
use std::sync::Arc;

use store::{Found, Object};

use super::done::{InputState, Standing, recipe_of};
use super::job::{Job, Remake};
use super::plan::Skipped;
use super::stdin::Spooled;
use crate::config::{Existing, PictureSettings, Settings, outputs};
use crate::picture::stored_image::StoredImage;
use crate::publish::Replaces;

/// An input and its output.
pub(super) struct Pair {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
    pub(super) named: bool,
    /// The settings that decide how the output looks.
    pub(super) own: Arc<PictureSettings>,
    /// The state of the input.
    pub(super) state: InputState,
    pub(super) spooled: Option<Spooled>,
    pub(super) object: Option<Arc<Object>>,
    pub(super) image: Option<Arc<StoredImage>>,
    /// The object in the place of the output, if that is in object storage.
    pub(super) stored: Option<Found>,
}

impl Pair {
    /// Returns the job of making the output, with this number in its list.
    ///
    /// # Errors
    /// If its output is up to date.
    pub(super) fn job(self, number: usize, settings: &Settings) -> Result<Job, Skipped> {
        let Self { input, output, named, own, state, spooled, object, image, stored } = self;
        // Before it is judged: a file that comes in between was not seen.
        let replaces = if store::is_url(&output) { Replaces::Any } else { Replaces::at(&output) };
        let mask = own.mask_state(&settings.inputs, &input);
        let digest = own.digest().with(mask);
        let standing = match (settings.existing, &stored) {
            (Existing::Overwrite, _) => Standing::ToDo,
            (Existing::Skip, Some(stored)) => Standing::of_object(stored, &state, digest),
            (Existing::Skip, None) if store::is_url(&output) => Standing::ToDo,
            (Existing::Skip, None) => Standing::of(&output, &state, digest, settings.times),
        };
        let remakes = match standing {
            Standing::Done => return Err(Skipped::done(input, output)),
            Standing::ToDo => None,
            Standing::OtherSettings => {
                let (before, now) = (recipe_of(&output, stored.as_ref()), own.recipe(mask));
                let difference = before.and_then(|before| outputs::difference(before.text(), now.text()));
                Some(Remake { difference })
            }
        };
        Ok(Job {
            number,
            settings: own,
            mask,
            input,
            output,
            named,
            is_folder: state.is_folder,
            bytes: state.stamp.size,
            lasting_inodes: state.stamp.inode != 0,
            stamp: None,
            changes: None,
            remakes,
            replaces,
            spooled,
            object,
            image,
            replaced: stored.map(|stored| stored.entry.version),
            group: None,
            slice: None,
            is_shown: false,
        })
    }
}
