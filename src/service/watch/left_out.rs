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
                "{} is left out, like all links that lead out of the watched folders; --links follow takes them",
                Shown(link)
            ))
        })
    }

    /// Returns a note about an image that is a folder, if it is the first.
    pub(super) fn note_image(&mut self, folder: &Path) -> Option<Note> {
        (!std::mem::replace(&mut self.has_told_of_images, true)).then(|| {
            Note::Info(format!(
                "{} is left out, like all OME-Zarr images, which are folders; run histeqd on it without --watch",
                Shown(folder)
            ))
        })
    }

    /// Returns a note about a file or folder with a reserved name, if it is the first.
    pub(super) fn note(&mut self, path: &Path, name: &'static Reserved) -> Option<Note> {
        let rename = if name.purpose == Purpose::Incomplete { " until it is renamed" } else { "" };
        self.told.insert(name).then(|| {
            Note::Info(format!(
                "{} is left out{rename}, like everything named {name} ({}); --include '*' --include '{name}' takes it",
                Shown(path),
                name.maker
            ))
        })
    }
}
