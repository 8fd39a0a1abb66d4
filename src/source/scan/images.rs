//! OME-Zarr images among the objects below a folder: each is all objects below the folder with its
//! document.

use std::collections::HashMap;

use store::{Entry, Listed};

use crate::picture::stored_image::ObjectsState;
use codec::multiscales;

/// An image.
#[derive(Debug)]
pub(super) struct ListedImage {
    /// The name of the object that makes it an image.
    pub(super) document: &'static str,
    /// The state of its objects.
    pub(super) state: ObjectsState,
}

/// The images of a listing, by the names of their folders in the bucket.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// `None` once it was taken.
    by_folder: HashMap<String, Option<ListedImage>>,
}

impl Images {
    /// Finds the images of a listing. `is_image` returns whether the object of this name is an
    /// image's document, and is not called for objects inside an image that was already found
    /// around them.
    ///
    /// # Errors
    /// Those of `is_image`.
    pub(super) fn find<E>(
        listed: &[Listed],
        mut is_image: impl FnMut(&str) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let entries = || {
            listed.iter().filter_map(|one| match one {
                Listed::Object(entry) => Some(entry),
                Listed::Unusable(_) | Listed::Marker(_) => None,
            })
        };
        let mut documents: Vec<_> = entries().filter_map(|entry| document_of(&entry.key)).collect();
        documents.sort_by_key(|(folder, document)| {
            let rank = multiscales::DOCUMENTS.into_iter().position(|one| one == *document);
            (folder.matches('/').count(), !folder.is_empty(), rank)
        });
        let mut images = Self::default();
        for (folder, document) in documents {
            let key = if folder.is_empty() { document.to_owned() } else { format!("{folder}/{document}") };
            if images.folder_of(&key).is_none() && is_image(&key)? {
                let image = ListedImage { document, state: ObjectsState::default() };
                images.by_folder.insert(folder.to_owned(), Some(image));
            }
        }
        entries().for_each(|entry| images.add(entry));
        Ok(images)
    }

    fn add(&mut self, entry: &Entry) {
        let Some((folder, below)) = self.folder_of(&entry.key) else { return };
        if let Some(Some(image)) = self.by_folder.get_mut(folder) {
            image.state.add(below, entry);
        }
    }

    /// Returns the folder of an object's image, and its path below that.
    pub(super) fn folder_of<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        if self.by_folder.is_empty() {
            return None;
        }
        let inner = key.match_indices('/').map(|(at, _)| (&key[..at], &key[at + 1..]));
        std::iter::once(("", key)).chain(inner).find(|(folder, _)| self.by_folder.contains_key(*folder))
    }

    /// Returns the image of a folder, once.
    pub(super) fn take(&mut self, folder: &str) -> Option<ListedImage> {
        self.by_folder.get_mut(folder)?.take()
    }

    /// Returns whether any image lies below a folder.
    pub(super) fn has_below(&self, folder: &str) -> bool {
        let is_below = |image: &String| image.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        self.by_folder.keys().any(is_below)
    }
}

/// Returns the folder of an object, and its name, if that is the name of an image's document.
fn document_of(key: &str) -> Option<(&str, &'static str)> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    multiscales::DOCUMENTS.into_iter().find(|document| *document == name).map(|document| (folder, document))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use store::Version;

    use super::*;

    #[test]
    fn an_image_is_all_below_the_outermost_that_says_so_and_is_asked_no_more() {
        let names = [
            "in/a.zarr/.zattrs",
            "in/a.zarr/0/0/0",
            "in/a.zarr/labels/cells/.zattrs",
            "in/b.tif",
            "in/plate/A/1/0/c/0",
            "in/plate/A/1/zarr.json",
            "in/plate/zarr.json",
            "zarr.json",
        ];
        let object =
            |name: &str| Listed::Object(Entry { key: name.to_owned(), size: 1, version: Version::default() });
        let listed = names.map(object);
        let mut asked = Vec::new();
        let mut images = Images::find(&listed, |key| {
            asked.push(key.to_owned());
            Ok::<_, Infallible>(key.starts_with("in/a.zarr/") || key == "in/plate/A/1/zarr.json")
        })
        .unwrap();
        assert_eq!(asked, ["zarr.json", "in/plate/zarr.json", "in/a.zarr/.zattrs", "in/plate/A/1/zarr.json"]);
        let of = |images: &Images, key| images.folder_of(key).map(|(folder, _)| folder.to_owned());
        assert_eq!(of(&images, "in/a.zarr/labels/cells/.zattrs").as_deref(), Some("in/a.zarr"));
        assert_eq!([of(&images, "in/b.tif"), of(&images, "in/a.zarry")], [None, None]);
        assert!(images.has_below("in/plate") && !images.has_below("in/plate/A/1"));
        let image = images.take("in/a.zarr").unwrap();
        assert_eq!((image.document, image.state.stamp().size), (".zattrs", 3));
        assert!(images.take("in/a.zarr").is_none());
    }
}
