//! Pictures with known outputs.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Bucket, Found, Object, Url};

use super::done::InputState;
use super::job::Job;
use super::pair::Pair;
use crate::config::{PictureSettings, Settings};
use crate::error::{PictureError, Refusal};
use crate::fs::filesystem::FileSystem;
use crate::picture::record::Record;
use crate::publish::PublishError;

/// Returns the job of making this output from this input; `None` if that was done with its `own`
/// settings. `named` is whether a user named the input itself.
///
/// # Errors
/// When the input cannot be taken, or a store does not answer about the place of the output.
pub fn single(
    input: PathBuf,
    output: PathBuf,
    named: bool,
    own: &Arc<PictureSettings>,
    settings: &Settings,
) -> Result<Option<Job>, PictureError> {
    let mut objects = Objects::find([input.as_path(), &output], settings);
    objects.job(input, output, named, own)
}

/// The objects in the places of some inputs and outputs of a run.
pub struct Objects<'s> {
    settings: &'s Settings,
    found: HashMap<PathBuf, Result<(Bucket, Option<Found>), store::Error>>,
    /// For each device of the inputs, whether its file system keeps inode numbers.
    lasting_inodes: HashMap<u64, bool>,
}

impl<'s> Objects<'s> {
    /// Looks up the paths that are in object storage, many at once.
    pub fn find<'p>(paths: impl IntoIterator<Item = &'p Path>, settings: &'s Settings) -> Self {
        let mut found = HashMap::new();
        let mut by_bucket: HashMap<String, Vec<(PathBuf, Url)>> = HashMap::new();
        for path in paths.into_iter().filter(|path| store::is_url(path)) {
            match Url::parse(path) {
                Ok(url) => by_bucket.entry(url.bucket().to_owned()).or_default().push((path.to_owned(), url)),
                Err(why) => drop(found.insert(path.to_owned(), Err(why))),
            }
        }
        for asked in by_bucket.into_values() {
            let (paths, urls): (Vec<PathBuf>, Vec<Url>) = asked.into_iter().unzip();
            match settings.storage.bucket(&urls[0]) {
                Ok(bucket) => {
                    let told = bucket.heads(urls).map(|told| told.map(|told| (bucket.clone(), told)));
                    found.extend(paths.into_iter().zip(told));
                }
                Err(why) => found.extend(paths.into_iter().map(|path| (path, Err(why.clone())))),
            }
        }
        Self { settings, found, lasting_inodes: HashMap::new() }
    }

    /// As [`single`], for paths that were looked up.
    ///
    /// # Errors
    /// As of [`single`].
    pub fn job(
        &mut self,
        input: PathBuf,
        output: PathBuf,
        named: bool,
        own: &Arc<PictureSettings>,
    ) -> Result<Option<Job>, PictureError> {
        let (state, object) = self.input(&input)?;
        let there = self.at(&output).map_err(|why| PublishError::of_store(&output, why))?;
        let (own, stored) = (Arc::clone(own), there.map(|(_, stored)| stored));
        let pair = Pair { input, output, named, own, state, spooled: None, object, image: None, stored };
        Ok(pair.job(0, self.settings).ok())
    }

    /// Returns whether an object that histeqd did not write is in the place of an output.
    pub fn is_of_others(&self, output: &Path) -> bool {
        self.at(output).ok().flatten().is_some_and(|(_, there)| {
            let record = Record::of_found(&there);
            !record.is_some_and(|record| record.is_of_length(there.entry.size))
        })
    }

    fn input(&mut self, input: &Path) -> Result<(InputState, Option<Arc<Object>>), PictureError> {
        if !store::is_url(input) {
            let metadata = fs::metadata(input).map_err(PictureError::Read)?;
            if !metadata.is_file() {
                return Err(Refusal::NotAFile.into());
            }
            let lasting_inodes = (self.lasting_inodes.entry(metadata.dev()))
                .or_insert_with(|| FileSystem::of(input).is_ok_and(|own| own.lasting_inodes));
            return Ok((InputState::of(&metadata, *lasting_inodes), None));
        }
        let there = self.at(input).map_err(PictureError::of_store)?;
        let (bucket, found) = there.ok_or_else(|| PictureError::Read(io::ErrorKind::NotFound.into()))?;
        Ok((InputState::of_object(&found.entry), Some(Object::new(bucket, found.entry))))
    }

    /// Returns the object of a path, if there is one.
    fn at(&self, path: &Path) -> Result<Option<(Bucket, Found)>, store::Error> {
        match self.found.get(path) {
            Some(Ok((bucket, found))) => Ok(found.clone().map(|found| (bucket.clone(), found))),
            Some(Err(why)) => Err(why.clone()),
            None => Ok(None),
        }
    }
}
