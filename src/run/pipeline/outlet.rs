//! Where pictures go after the devices: encoded into the output tree, here or in object storage, or to standard output.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use store::{Bucket, Url};

use super::PUBLISHERS;
use super::stacks::{PageOutputs, StackOutputs, Taken};
use crate::config::{Naming, Permissions, Settings, Times};
use crate::device::task::{Content, Picture, Processed, Stack};
use crate::error::{Error, PictureError};
use crate::fs::paths::Shown;
use crate::picture::record::Origin;
use crate::publish::{Pending, PublishError, Publisher, Stream, Unpublished, Upload};
use crate::source::{Job, page_output};
use codec::{self, CodecError, Cores};

/// The destination of the pictures that the devices are done with, shared by all encode threads.
pub trait Outlet: Sync {
    /// Checks, before anything is decoded, that there is a place for the outputs.
    ///
    /// # Errors
    /// If there is none.
    fn check(&self) -> Result<(), Error>;

    /// Returns how many of its outputs may wait to appear at once.
    fn publishers(&self) -> usize {
        PUBLISHERS
    }

    /// Takes what the devices left in the slot. `scratch` is reused from picture to picture. Idle `cores` may help.
    ///
    /// # Errors
    /// If this picture cannot be taken. Others may still be.
    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Taken<'_>, PictureError>;

    /// Notes that the picture of this job will not come: it failed, or the run is stopping.
    fn miss(&self, _job: &Job) {}

    /// Forgets the pages of this file that have come: not all will.
    fn give_up(&self, stack: &Arc<Stack>);
}

/// An outlet that encodes pictures: into the output tree, or the only one of a run to standard output.
pub struct Encoder<'a> {
    destination: Destination<'a>,
    stacks: StackOutputs<'a>,
    pages: PageOutputs<'a>,
}

/// Where outputs appear.
enum Destination<'a> {
    Folder(OutputFolder<'a>),
    Bucket(OutputBucket<'a>),
    StandardOutput,
}

/// A folder that outputs are written below.
struct OutputFolder<'a> {
    root: &'a Path,
    publisher: &'a Publisher,
    times: Times,
    permissions: Permissions,
}

/// A folder in object storage that outputs are written below.
struct OutputBucket<'a> {
    root: &'a Path,
    bucket: Bucket,
    url: Url,
}

impl<'a> Encoder<'a> {
    /// Creates an outlet for the outputs of a run with these settings, below the folder `out` if they are files or objects.
    ///
    /// # Errors
    /// When outputs go to a bucket that cannot be used.
    pub fn new(settings: &Settings, out: &'a Path, publisher: &'a Publisher) -> Result<Self, Error> {
        let destination = if settings.naming == Naming::StandardOutput {
            Destination::StandardOutput
        } else if store::is_url(out) {
            Destination::Bucket(OutputBucket::new(settings, out)?)
        } else {
            let (times, permissions) = (settings.times, settings.permissions);
            Destination::Folder(OutputFolder { root: out, publisher, times, permissions })
        };
        Ok(Self { destination, stacks: StackOutputs::default(), pages: PageOutputs::default() })
    }

    /// Starts the output of a job.
    fn begin(&self, job: &Job) -> Result<Pending<'a>, PublishError> {
        match &self.destination {
            Destination::Folder(folder) => folder.begin(job, &job.output).map(Pending::File),
            Destination::Bucket(bucket) => bucket.begin(job).map(Pending::Object),
            Destination::StandardOutput => Stream::begin().map(Pending::Stream),
        }
    }

    /// Creates a file that holds pages of a job's output for a while.
    fn spill(&self, job: &Job) -> Result<File, PublishError> {
        match &self.destination {
            Destination::Folder(folder) => folder.publisher.spill(folder.root, &job.output),
            Destination::Bucket(_) => Upload::spill(),
            Destination::StandardOutput => Stream::begin().map(Stream::into_file),
        }
    }
}

impl<'a> OutputFolder<'a> {
    fn begin(&self, job: &Job, output: &Path) -> Result<Unpublished<'a>, PublishError> {
        let mut output = self.publisher.begin(self.root, output)?;
        if let Some(input) = job.stamp {
            output.record(Origin { input, settings: job.digest() });
            if self.times == Times::Keep {
                output.modified_at(input.modified());
            }
        }
        // An input that is gone by now fails its picture anyway.
        if self.permissions == Permissions::Keep
            && let Ok(input) = fs::metadata(&job.input)
        {
            output.permit(fs::Permissions::from_mode(input.mode() & 0o777));
        }
        if !job.replaces {
            output.replace_nothing();
        }
        Ok(output)
    }
}

impl<'a> OutputBucket<'a> {
    fn new(settings: &Settings, root: &'a Path) -> Result<Self, Error> {
        let opened = Url::parse(root).and_then(|url| Ok((settings.storage.bucket(&url)?, url)));
        let (bucket, url) = opened.map_err(|why| unusable(root, &why))?;
        Ok(Self { root, bucket, url })
    }

    /// Asks for the first object: the answer tells whether there is such a bucket.
    fn check(&self) -> Result<(), Error> {
        let first = self.bucket.list(&self.url).next().transpose();
        first.map(drop).map_err(|why| unusable(self.root, &why))
    }

    fn begin(&self, job: &Job) -> Result<Upload, PublishError> {
        let mut output = Upload::begin(&self.bucket, &job.output, job.replaced.clone())?;
        if let Some(input) = job.stamp {
            output.record(Origin { input, settings: job.digest() });
        }
        Ok(output)
    }
}

fn unusable(out: &Path, why: &store::Error) -> Error {
    Error::CannotRun(format!("--out {} cannot be used: {why}", Shown(out)))
}

impl Outlet for Encoder<'_> {
    fn check(&self) -> Result<(), Error> {
        match &self.destination {
            Destination::Folder(folder) => Ok(folder.publisher.check(folder.root)?),
            Destination::Bucket(bucket) => bucket.check(),
            Destination::StandardOutput => Ok(()),
        }
    }

    fn publishers(&self) -> usize {
        if let Destination::Bucket(_) = self.destination { store::AT_ONCE } else { PUBLISHERS }
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Taken<'_>, PictureError> {
        let work = &finished.picture.work;
        let Some(page) = work.page.clone() else {
            let mut output = self.begin(&work.job)?;
            encode(finished, scratch, cores, output.file())
                .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
            return Ok(Taken::Whole(Some(output)));
        };
        if let Destination::Folder(folder) = &self.destination
            && work.job.settings.target.splits
        {
            let mut output = folder.begin(&work.job, &page_output(&work.job.output, page.index))?;
            encode(finished, scratch, cores, output.file())
                .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
            return self.pages.take(&page, output);
        }
        let job = work.job.clone();
        self.stacks.write(&page, finished, cores, || Ok((self.begin(&job)?, self.spill(&job)?)))
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
        self.pages.give_up(stack);
    }
}

/// Encodes what the devices left in the slot into a file.
fn encode(
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    cores: &Cores,
    file: &mut File,
) -> Result<(), CodecError> {
    let Processed { slot, content, picture, .. } = finished;
    let Picture { decoded, work, .. } = &mut **picture;
    let target = &work.job.settings.target;
    match *content {
        Content::Encoded(bytes) => codec::write_encoded(decoded, &slot.bytes()[..bytes as usize], file),
        _ => {
            decoded.reduce_depth(slot.bytes_mut(), target);
            codec::encode(decoded, slot.bytes_mut(), target, scratch, cores, file)
        }
    }
    .map(drop)
}
