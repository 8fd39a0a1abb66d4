//! An input that a search found.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::Object;

use crate::config::{FolderError, Naming, PictureSettings, Settings};
use crate::fs::paths::{Identity, root_of};
use crate::picture::stored_image::StoredImage;
use crate::selection::{first_output, output_below, patterned};
use crate::source::done::InputState;
use crate::source::prefix::Prefixes;
use crate::source::stdin::Spooled;

/// An input file, before its output is known.
pub(super) struct Found {
    pub(super) input: PathBuf,
    /// Its path below the input folder.
    pub(super) below: PathBuf,
    pub(super) named: bool,
    /// The settings that decide how its output looks.
    pub(super) settings: Result<Arc<PictureSettings>, Arc<FolderError>>,
    pub(super) identity: Identity,
    pub(super) state: InputState,
    pub(super) spooled: Option<Spooled>,
    pub(super) object: Option<Arc<Object>>,
    pub(super) image: Option<Arc<StoredImage>>,
    /// The name of the document that makes it an image, if it is a folder.
    pub(super) document: Option<&'static str>,
}

impl Found {
    /// Returns the place of its output, an empty path if it has none.
    pub(super) fn output(&self, settings: &Settings, prefixes: &Prefixes) -> PathBuf {
        // Without settings it has no output, and fails.
        let target = &self.settings.as_ref().unwrap_or(&settings.picture).target;
        match &settings.naming {
            Naming::Mirror => {
                let below = prefixes.placed(&self.input, &self.below);
                settings.out.join(output_below(&below, target))
            }
            Naming::Pattern(pattern) => patterned(pattern, &self.below),
            Naming::File(file) => first_output(file.clone(), target.splits),
            Naming::StandardOutput => "-".into(),
            Naming::Nothing => PathBuf::new(),
        }
    }

    /// Returns the input folder; for a file given by name, its parent folder.
    pub(super) fn root(&self) -> Option<&Path> {
        root_of(&self.input, &self.below)
    }
}

/// An input file and its output, an empty path if it has none.
pub(super) struct Candidate {
    pub(super) found: Found,
    pub(super) output: PathBuf,
}

impl Candidate {
    /// Returns the object that shows that the output exists, if that is in object storage: the
    /// output, or the document that makes it an image.
    pub(super) fn telling(&self) -> Cow<'_, Path> {
        match self.found.document {
            None => Cow::Borrowed(&self.output),
            Some(document) => Cow::Owned(self.output.join(document)),
        }
    }

    /// Returns the path that distinguishes it from other paths to the same file: its output, or if
    /// it has none, its own absolute path.
    pub(super) fn place(&self) -> PathBuf {
        if !self.output.as_os_str().is_empty() {
            return self.output.clone();
        }
        std::path::absolute(&self.found.input).unwrap_or_else(|_| self.found.input.clone())
    }
}
