//! Notes for the user about files and folders that are left out for their reserved names, or
//! because they are links or images that are folders.

use std::collections::HashSet;
use std::path::Path;

use super::Note;
use crate::fs::paths::Shown;
use crate::selection::{Purpose, Reserved};

/// The notes given so far. A reserved name is noted for one file or folder only, as every other
/// folder may contain it.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    told: HashSet<&'static Reserved>,
    has_told_of_links: bool,
    has_told_of_images: bool,
}

impl LeftOut {
    /// Returns a note about a link that is not followed, if it is the first.
    pub(super) fn note_link(&mut self, link: &Path) -> Option<Note> {
        (!std::mem::replace(&mut self.has_told_of_links, true)).then(|| {
            Note::Info(format!(
                "{} is left out, as is whatever else is a link that leads out of the watched folders; --links follow takes such",
                Shown(link)
            ))
        })
    }

    /// Returns a note about an image that is a folder, if it is the first.
    pub(super) fn note_image(&mut self, folder: &Path) -> Option<Note> {
        (!std::mem::replace(&mut self.has_told_of_images, true)).then(|| {
            Note::Info(format!(
                "{} is left out, as is whatever else is an OME-Zarr image, which is a folder; run histeqd on it without --watch",
                Shown(folder)
            ))
        })
    }

    /// Returns a note about a file or folder with a reserved name, if it is the first.
    pub(super) fn note(&mut self, path: &Path, name: &'static Reserved) -> Option<Note> {
        let rename = if name.purpose == Purpose::Incomplete { " until it is renamed" } else { "" };
        self.told.insert(name).then(|| {
            Note::Info(format!(
                "{} is left out{rename}, as is whatever is named {name} ({}); --include '*' --include '{name}' takes it",
                Shown(path),
                name.maker
            ))
        })
    }
}
