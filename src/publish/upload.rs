//! An output in object storage: it appears whole under its name, or not at all.

use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use codec::Format;
use store::{Bucket, Expected, Found, Labels, Object, Url, Version, unnamed_file, unnamed_folder};

use super::replaced::are_same;
use super::{Appeared, PublishError, Published};
use crate::picture::recipe::Recipe;
use crate::picture::record::{Origin, Record};

/// The most attempts at an output. After each failed one, another output in its place is looked up,
/// to be replaced.
const ATTEMPTS: u32 = 5;

/// The time for which an output is tried again after a lost answer; the requests themselves have
/// been repeated by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// An output for object storage, in an unnamed temporary file until it is whole.
#[derive(Debug)]
pub struct Upload {
    file: File,
    bucket: Bucket,
    output: PathBuf,
    url: Url,
    origin: Option<Origin>,
    recipe: Option<Box<Recipe>>,
    expected: Expected,
    /// Whether it may also replace an object that histeqd did not write and that was not seen.
    replaces_any: bool,
}

impl Upload {
    /// Starts the output `output`, which replaces this object if that exists, and outputs of
    /// histeqd's that come since.
    ///
    /// # Errors
    /// When its name cannot be one of an object, or there is no room for it among the temporary
    /// files.
    pub fn begin(bucket: &Bucket, output: &Path, replaced: Option<Version>) -> Result<Self, PublishError> {
        let url = Url::parse(output).map_err(|why| PublishError::of_store(output, why))?;
        let file = Self::spill()?;
        let expected = replaced.map_or(Expected::Nothing, Expected::State);
        Ok(Self {
            file,
            bucket: bucket.clone(),
            output: output.to_owned(),
            url,
            origin: None,
            recipe: None,
            expected,
            replaces_any: false,
        })
    }

    /// Writes the output `output` with the content of a file, unless that is there already.
    /// Replaces no other object, unless it may be any.
    ///
    /// # Errors
    /// When it cannot be written, or another object is in its place.
    pub fn copy(
        bucket: &Bucket,
        file: &mut File,
        output: &Path,
        replaces_any: bool,
    ) -> Result<(), PublishError> {
        let mut upload = Self::begin(bucket, output, None)?;
        if let Some(found) = bucket.head(&upload.url).map_err(|why| upload.failed(why))? {
            let there = Object::new(bucket.clone(), found.entry);
            let length = file.metadata().map_err(|why| upload.unwritten(why))?.len();
            if there.entry().size == length {
                let there = there.open().map_err(|why| upload.failed(why))?;
                let same = file.try_clone().and_then(|file| are_same(file, there));
                if same.map_err(|why| upload.unwritten(why))? {
                    return Ok(());
                }
            }
            if !replaces_any {
                return Err(PublishError::new(output, io::Error::other(Appeared("object"))));
            }
            upload.replace_any();
        }
        let copied = file.rewind().and_then(|()| io::copy(file, upload.file()));
        copied.map_err(|why| upload.unwritten(why))?;
        upload.publish().map(drop)
    }

    /// Permits the output to replace any object.
    pub fn replace_any(&mut self) {
        self.replaces_any = true;
    }

    /// Creates a file without a name for data that cannot be written to an output yet.
    ///
    /// # Errors
    /// When there is no room for it among the temporary files.
    pub fn spill() -> Result<File, PublishError> {
        unnamed_file().map_err(|source| PublishError::new(&unnamed_folder(), source))
    }

    /// Attaches a record of the output's origin, and the recipe if everyone who may read the output
    /// may see it.
    pub fn record(&mut self, origin: Origin, recipe: Option<Recipe>) {
        (self.origin, self.recipe) = (Some(origin), recipe.map(Box::new));
    }

    /// Returns the name that it will have.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Returns the file to write the output's content to, which is empty at first.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Converts an error of its file: the folder of temporary files is to blame.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        PublishError::new(&unnamed_folder(), source)
    }

    /// Makes the output appear. An object that came since it was begun is replaced if histeqd
    /// wrote it, unless it is the same output: of another run, or of a request with a lost answer.
    pub(super) fn publish(mut self) -> Result<Published, PublishError> {
        let length = self.file.metadata().map_err(|source| self.unwritten(source))?.len();
        let record = self.origin.map(|origin| Record::of_object(&origin, length).text());
        let content_type = self.format().map(Format::media_type);
        let settings = self.recipe.as_ref().and_then(|recipe| recipe.label());
        let labels = Labels { record: record.as_deref(), settings, content_type };
        let begun = Instant::now();
        let (mut failures, mut replaces_another) = (0, false);
        loop {
            let put = self.bucket.put(&self.url, &self.file, length, labels, &self.expected);
            let Err(why) = put else { return Ok(Published { bytes: length, replaces_another }) };
            failures += 1;
            let is_over = failures == ATTEMPTS || begun.elapsed() > PATIENCE;
            if !why.is_precondition() && (!why.is_in_doubt() || is_over) {
                return Err(self.failed(why));
            }
            let there = self.bucket.head(&self.url).map_err(|why| self.failed(why))?;
            if there.as_ref().is_some_and(|found| self.is_in(found, length)) {
                return Ok(Published { bytes: length, replaces_another });
            }
            if is_over {
                return Err(self.failed(why));
            }
            if there.as_ref().is_some_and(|found| !self.may_replace(found)) {
                let source = io::Error::other(Appeared("object"));
                return Err(PublishError::new(&self.output, source));
            }
            replaces_another |= there.as_ref().is_some_and(|found| self.is_of_other_settings(found));
            self.expected = there.map_or(Expected::Nothing, |found| Expected::State(found.entry.version));
            thread::sleep(Duration::from_millis(100) * failures);
        }
    }

    /// Returns whether another output is in its place: of another input, or with other settings.
    ///
    /// # Errors
    /// When the bucket does not answer.
    pub(super) fn is_in_the_way(&self) -> Result<bool, PublishError> {
        let length = self.file.metadata().map_err(|source| self.unwritten(source))?.len();
        let there = self.bucket.head(&self.url).map_err(|why| self.failed(why))?;
        Ok(there.is_some_and(|found| !self.is_in(&found, length)))
    }

    /// Returns whether an object in its place may be replaced: it was seen, or histeqd wrote it.
    fn may_replace(&self, found: &Found) -> bool {
        let is_seen = || self.expected == Expected::State(found.entry.version.clone());
        let is_own = |record: Record| record.is_of_length(found.entry.size);
        self.replaces_any || is_seen() || Record::of_found(found).is_some_and(is_own)
    }

    /// Returns the format of the written file.
    fn format(&self) -> Option<Format> {
        let mut head = [0; Format::HEAD];
        let read = self.file.read_at(&mut head, 0).ok()?;
        Format::sniff(&head[..read])
    }

    /// Returns whether the object found is this output, made from the same input with the same
    /// settings.
    fn is_in(&self, found: &Found, length: u64) -> bool {
        self.origin.zip(Record::of_found(found)).is_some_and(|(origin, record)| {
            record == Record::of_object(&origin, length) && found.entry.size == length
        })
    }

    /// Returns whether the object found was made from the same input with other settings.
    fn is_of_other_settings(&self, found: &Found) -> bool {
        self.origin.zip(Record::of_found(found)).is_some_and(|(origin, record)| {
            record.is_from(&origin.input) && !record.has_settings(origin.settings)
        })
    }

    fn failed(&self, why: store::Error) -> PublishError {
        PublishError::of_store(&self.output, why)
    }
}
