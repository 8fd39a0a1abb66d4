//! Inputs and outputs in object storage.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Bucket, Entry, Found as Stored, Listed, Object, Url};

use super::collections::is_document;
use super::found::{Candidate, Found};
use super::images::{Images, ListedImage};
use super::{Search, why_no_image_folder};
use crate::config::{Existing, Settings, nearest};
use crate::error::{Error, PictureError, Refusal};
use crate::fs::paths::{Identity, Shown};
use crate::picture::stored_image::{ObjectFolder, StoredImage};
use crate::selection::{Choice, is_hidden, promises_a_picture};
use crate::source::done::InputState;
use crate::source::plan::Skip;
use crate::source::stop::Stop;
use codec::{Format, multiscales};

/// With up to this many outputs, each is requested; with more, the output folder is listed first: a
/// listing returns a thousand at once.
const ASKED: usize = 500;

/// The most folders to name that are close to a missing one.
const NAMED: usize = 3;

/// Returns the URL of a path, if it is one.
///
/// # Errors
/// When it is a URL of another kind than object storage.
pub(super) fn url_of(path: &Path) -> Result<Option<Url>, Error> {
    let url = store::is_url(path).then(|| Url::parse(path)).transpose();
    url.map_err(|why| Error::Usage(why.to_string()))
}

/// Returns why an output cannot have its name in object storage, if it goes there.
pub(super) fn unnameable(output: &Path) -> Option<String> {
    // A URL in the name of a file that is not UTF-8 is not recognized as one.
    let lossy = output.to_string_lossy();
    if !store::is_url(Path::new(&*lossy)) {
        return None;
    }
    Url::parse(output).err().map(|why| why.to_string())
}

/// Returns whether a URL is that of one picture, by its name. An OME-Zarr image is a folder.
pub(super) fn names_picture(url: &Path) -> bool {
    let is_object = !url.as_os_str().as_bytes().ends_with(b"/") && Format::of_name(url) != Some(Format::Zarr);
    is_object && promises_a_picture(url)
}

/// Returns the input folders in object storage that lie in the output folder, each with its path
/// below that.
pub(super) fn inputs_inside(settings: &Settings) -> Vec<(PathBuf, PathBuf)> {
    let Ok(Some(out)) = url_of(&settings.out) else { return Vec::new() };
    let inside = settings.inputs.iter().filter_map(|input| {
        let url = url_of(input).ok().flatten().filter(|url| url.is_in(&out))?;
        (!names_picture(input)).then_some((url.below(&out)?.into(), input.clone()))
    });
    inside.collect()
}

impl Search<'_> {
    /// Takes the objects below a URL, or the one that it names.
    pub(super) fn objects(&mut self, input: &Path) -> Result<(), Error> {
        let Some(url) = url_of(input)? else { return Ok(()) };
        if self.out_url.as_ref() == Some(&url) && !names_picture(input) {
            return Err(Error::Usage(format!(
                "{} is both an input and the output folder; choose another --out",
                Shown(input)
            )));
        }
        let listed = self.storage.bucket(&url).and_then(|bucket| {
            if names_picture(input) {
                self.object(input, &bucket, &url).map(|()| None)
            } else {
                let is_empty = !self.listing(input, &bucket, &url)? && !self.stop.asked();
                Ok(is_empty.then(|| empty_folder(input, &bucket, &url)))
            }
        });
        match listed {
            Ok(None) => {}
            Ok(Some(why)) if self.settings.allow_empty => self.plan.notes.push(why),
            Ok(Some(why)) => {
                return Err(Error::Usage(format!("{why}; use --allow-empty if it may be empty")));
            }
            Err(why) => self.plan.failed.push((input.to_owned(), PictureError::of_store(why))),
        }
        Ok(())
    }

    /// Takes the object of this URL.
    fn object(&mut self, input: &Path, bucket: &Bucket, url: &Url) -> Result<(), store::Error> {
        match bucket.head(url)? {
            Some(found) => {
                let name = input.file_name().map(PathBuf::from).unwrap_or_default();
                self.take_object(input.to_owned(), name, true, bucket, found.entry);
            }
            None => self.plan.failed.push((input.to_owned(), Refusal::NoObject.into())),
        }
        Ok(())
    }

    /// Takes the objects below this URL. Returns whether there are any.
    fn listing(&mut self, input: &Path, bucket: &Bucket, folder: &Url) -> Result<bool, store::Error> {
        let mut fault = None;
        let listed = bucket.list(folder).take_while(|_| !self.stop.asked());
        let listed: Vec<_> =
            listed.map_while(|listed| listed.map_err(|why| fault = Some(why)).ok()).collect();
        let is_there = !listed.is_empty();
        let mut images = Images::find(&listed, |key| self.is_image(input, bucket, folder, key))?;
        let mut left_out = HashSet::new();
        for listed in listed {
            let (key, size) = match &listed {
                Listed::Object(entry) => (&*entry.key, entry.size),
                Listed::Unusable(one) => (&*one.name, one.size),
                Listed::Marker(_) => continue,
            };
            if let Some((root, _)) = images.folder_of(key) {
                let image = images.take(root);
                image.into_iter().for_each(|image| self.stored_image(input, bucket, folder, root, &image));
                continue;
            }
            let url = bucket.url(key);
            if let Some(below) = url.below(folder).filter(|below| is_document(Path::new(below))) {
                self.groups.documents.insert(input.join(below));
            }
            let Some(below) = self.wanted(&url, size, folder, input, &mut left_out) else { continue };
            if let Some(root) = image_folder_of(&path_of(&url)) {
                self.no_image(root, &images, &mut left_out);
                continue;
            }
            match listed {
                Listed::Object(entry) => self.take_object(input.join(&below), below, false, bucket, entry),
                Listed::Unusable(one) => {
                    self.plan.failed.push((path_of(&url), Refusal::ObjectName { why: one.why }.into()));
                }
                Listed::Marker(_) => {}
            }
        }
        fault.map_or(Ok(is_there), Err)
    }

    /// Returns whether an object is an image's document, in a folder that is to be searched. Takes
    /// note of the documents of collections.
    ///
    /// # Errors
    /// That of the bucket. An object that cannot be read fails by itself.
    fn is_image(
        &mut self,
        input: &Path,
        bucket: &Bucket,
        folder: &Url,
        key: &str,
    ) -> Result<bool, store::Error> {
        let url = bucket.url(key);
        let Some(below) = url.below(folder).map(Path::new) else { return Ok(false) };
        let is_output = self.out_url.as_ref().is_some_and(|out| url.is_in(out));
        if is_output || self.refused_folder(below.parent().unwrap_or(below)).is_some() {
            return Ok(false);
        }
        match bucket.get(&url, multiscales::LONGEST) {
            Ok(Some(document)) => {
                if multiscales::may_say_collection(&document) {
                    self.groups.collections.insert(input.join(below.parent().unwrap_or(below)));
                }
                Ok(multiscales::says_image(&document))
            }
            Ok(None) => Ok(false),
            Err(why) if why.concerns_bucket() => Err(why),
            Err(why) => {
                self.plan.failed.push((path_of(&url), PictureError::of_store(why)));
                Ok(false)
            }
        }
    }

    /// Takes the image in the folder `root` of the bucket, if the globs for files select it.
    fn stored_image(&mut self, input: &Path, bucket: &Bucket, folder: &Url, root: &str, image: &ListedImage) {
        let root = bucket.url(root);
        let below = root.below(folder).unwrap_or_default();
        let named = below.is_empty();
        let (path, below) = match named {
            true => (input.to_owned(), input.file_name().map(PathBuf::from).unwrap_or_default()),
            false => (input.join(below), PathBuf::from(below)),
        };
        match self.selection.file(&below) {
            _ if named => {}
            Choice::Taken => {}
            Choice::LeftOut(name) => return self.skip(&path, Skip::Reserved(name.purpose)),
            Choice::NotSelected => return,
        }
        if let Some(why) = why_no_image_folder(self.settings) {
            return self.plan.failed.push((path, Refusal::ImageFolder { why }.into()));
        }
        match are_labels(bucket, root.key()) {
            Ok(false) => {}
            Ok(true) => return self.plan.failed.push((path, Refusal::Labels.into())),
            Err(why) => return self.plan.failed.push((path, PictureError::of_store(why))),
        }
        self.found.push(Found {
            identity: Identity::of_object(&path),
            input: path,
            below,
            named,
            settings: Ok(Arc::new(self.settings.picture.of_image_folder())),
            state: InputState::of_objects(&image.state),
            spooled: None,
            object: None,
            image: Some(StoredImage::new(ObjectFolder::new(bucket, root), image.state.stamp())),
            document: Some(image.document),
        });
    }

    /// Reports a folder that has the name of an image and is none, unless images lie below it.
    fn no_image(&mut self, folder: &Path, images: &Images, left_out: &mut HashSet<PathBuf>) {
        let is_plate = Url::parse(folder).is_ok_and(|url| images.has_below(url.key()));
        if !is_plate && left_out.insert(folder.to_owned()) {
            let why = "its zarr.json or .zattrs has no multiscales, as if it were incomplete; write it again";
            self.plan.failed.push((folder.to_owned(), Refusal::ImageFolder { why }.into()));
        }
    }

    /// Returns the path below an input folder of an object that is to be taken. `left_out` are the
    /// names that were reported.
    fn wanted(
        &mut self,
        url: &Url,
        size: u64,
        folder: &Url,
        input: &Path,
        left_out: &mut HashSet<PathBuf>,
    ) -> Option<PathBuf> {
        let below = PathBuf::from(url.below(folder)?);
        // An empty object without a slash at its end marks a folder for some programs, too.
        let is_marker = below.as_os_str().is_empty() || size == 0 && !promises_a_picture(&below);
        if is_marker || self.out_url.as_ref().is_some_and(|out| url.is_in(out)) {
            return None;
        }
        match self.choice(&below) {
            (Choice::Taken, _) => return Some(below),
            (Choice::LeftOut(name), at) => {
                if left_out.insert(at.to_owned()) {
                    self.skip(&input.join(at), Skip::Reserved(name.purpose));
                }
            }
            (Choice::NotSelected, _) => {}
        }
        None
    }

    /// Decides about an object below an input folder. Also returns the path that the decision is
    /// about: its own, or that of a folder above it.
    fn choice<'b>(&self, below: &'b Path) -> (Choice, &'b Path) {
        if let Some(refused) = below.parent().and_then(|folder| self.refused_folder(folder)) {
            return refused;
        }
        let choice = if is_hidden(below) { Choice::NotSelected } else { self.selection.file(below) };
        (choice, below)
    }

    /// Decides about a folder below an input folder and the folders above it. Returns the outermost
    /// that is not searched.
    fn refused_folder<'b>(&self, folder: &'b Path) -> Option<(Choice, &'b Path)> {
        let mut folders: Vec<&Path> = folder.ancestors().collect();
        // The last one is empty.
        folders.pop();
        folders.into_iter().rev().find_map(|folder| match self.selection.folder(folder) {
            Choice::Taken if is_hidden(folder) => Some((Choice::NotSelected, folder)),
            Choice::Taken => None,
            choice => Some((choice, folder)),
        })
    }

    fn take_object(&mut self, input: PathBuf, below: PathBuf, named: bool, bucket: &Bucket, entry: Entry) {
        self.found.push(Found {
            identity: Identity::of_object(&input),
            input,
            below,
            named,
            settings: Ok(Arc::clone(&self.settings.picture)),
            state: InputState::of_object(&entry),
            spooled: None,
            object: Some(Object::new(bucket.clone(), entry)),
            image: None,
            document: None,
        });
    }
}

/// Returns whether groups above a folder list it among their images of labels.
fn are_labels(bucket: &Bucket, folder: &str) -> Result<bool, store::Error> {
    for (group, path) in multiscales::groups_of_labels(folder) {
        for document in multiscales::DOCUMENTS {
            let document = bucket.get(&bucket.url(&format!("{group}/{document}")), multiscales::LONGEST)?;
            if document.is_some_and(|document| multiscales::lists_labels(&document, path)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the outermost folder of an object that is an OME-Zarr image, or a plate of images,
/// judging by its name.
fn image_folder_of(object: &Path) -> Option<&Path> {
    let is_one = |folder: &&Path| folder.extension().is_some_and(|extension| extension == "zarr");
    object.ancestors().skip(1).filter(is_one).last()
}

/// The outputs that are already in object storage.
#[derive(Default)]
pub(super) struct Outputs(HashMap<PathBuf, Stored>);

impl Outputs {
    /// Finds the existing outputs of these candidates. Without outputs in object storage, there is
    /// no request.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) fn find(candidates: &[Candidate], settings: &Settings, stop: &Stop) -> Result<Self, Error> {
        let Some(out) = url_of(&settings.out)? else { return Ok(Self::default()) };
        let unusable = |why: store::Error| {
            Error::CannotRun(format!("--out {} cannot be used: {why}", Shown(&settings.out)))
        };
        let bucket = settings.storage.bucket(&out).map_err(unusable)?;
        let ours = (candidates.iter())
            .filter(|one| settings.shard.is_none_or(|shard| shard.takes(&one.found.below)));
        // Outputs with invalid names fail.
        let urls = ours.filter_map(|one| Url::parse(&one.telling()).ok());
        let mut urls: Vec<Url> = urls.collect();
        let mut outputs = Self::default();
        if urls.len() > ASKED {
            let wanted: HashSet<&str> = urls.iter().map(Url::key).collect();
            let mut listed = HashMap::new();
            for entry in bucket.list(&out).take_while(|_| !stop.asked()) {
                // Outputs have valid names.
                let Listed::Object(entry) = entry.map_err(unusable)? else { continue };
                if wanted.contains(entry.key.as_str()) {
                    listed.insert(entry.key.clone(), entry);
                }
            }
            if settings.existing == Existing::Overwrite {
                // Their records do not matter.
                let known = listed.into_values().map(|entry| (bucket.url(&entry.key), entry));
                return Ok(Self(
                    known
                        .map(|(url, entry)| (path_of(&url), Stored { entry, record: None, settings: None }))
                        .collect(),
                ));
            }
            urls.retain(|url| listed.contains_key(url.key()));
        }
        let paths: Vec<PathBuf> = urls.iter().map(path_of).collect();
        for (path, found) in paths.into_iter().zip(bucket.heads(urls)).take_while(|_| !stop.asked()) {
            outputs.0.extend(found.map_err(unusable)?.map(|found| (path, found)));
        }
        Ok(outputs)
    }

    /// Returns the object in the place of an output.
    pub(super) fn take(&mut self, output: &Path) -> Option<Stored> {
        if self.0.is_empty() {
            return None;
        }
        let url = url_of(output).ok().flatten()?;
        self.0.remove(&path_of(&url))
    }
}

/// Returns the path that a URL is as an output, however the user spelled it.
fn path_of(url: &Url) -> PathBuf {
    url.to_string().into()
}

/// Returns a message that there are no objects below a folder, with similar folders.
fn empty_folder(input: &Path, bucket: &Bucket, folder: &Url) -> String {
    let nothing = format!("there is nothing below {}", Shown(input));
    let (beside, missing) = beside(bucket, folder);
    match (nearest(&missing, beside.iter().map(|key| last_part(key).to_owned())), &beside[..]) {
        (Some(near), _) => {
            let key = beside.iter().find(|key| last_part(key) == near).unwrap_or(&missing);
            format!("{nothing}; did you mean {}/?", Shown(&path_of(&bucket.url(key))))
        }
        (None, []) => nothing,
        (None, beside) => {
            let names =
                beside.iter().take(NAMED).map(|key| format!("{}/", Shown(&path_of(&bucket.url(key)))));
            format!("{nothing}; there is {}", names.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the folders in the innermost folder above one that has any, and the name that is missing
/// there.
fn beside(bucket: &Bucket, folder: &Url) -> (Vec<String>, String) {
    let mut key = folder.key();
    while !key.is_empty() {
        let (above, missing) = key.rsplit_once('/').unwrap_or(("", key));
        // On an error, the message is shorter.
        let there = bucket.folders(&bucket.url(above)).unwrap_or_default();
        if !there.is_empty() {
            return (there, missing.to_owned());
        }
        key = above;
    }
    (Vec::new(), String::new())
}

fn last_part(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunks_of_an_image_are_known_by_the_name_of_its_folder() {
        let of = |object: &'static str| image_folder_of(Path::new(object));
        assert_eq!(of("s3://b/a/plate.zarr/A/1/x.zarr/0/c/0"), Some(Path::new("s3://b/a/plate.zarr")));
        assert_eq!((of("s3://b/a/x.zarr"), of("s3://b/a/x.png")), (None, None));
    }
}
