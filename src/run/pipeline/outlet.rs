//! Where pictures go after the devices: encoded into the output tree, or to standard output.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use store::{Bucket, Url};

use super::PUBLISHERS;
use super::stacks::{PageOutputs, StackOutputs, Taken};
use crate::config::{Permissions, Settings, Times};
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

/// An outlet that encodes pictures into the output tree.
pub struct OutputFolder<'a> {
    /// The root of the output tree.
    out: &'a Path,
    /// Writes the outputs.
    publisher: &'a Publisher,
    times: Times,
    permissions: Permissions,
    stacks: StackOutputs<'a>,
    pages: PageOutputs<'a>,
}

impl<'a> OutputFolder<'a> {
    /// Creates an outlet for the outputs of a run with these settings, below the folder `out`.
    pub fn new(settings: &'a Settings, out: &'a Path, publisher: &'a Publisher) -> Self {
        Self {
            out,
            publisher,
            times: settings.times,
            permissions: settings.permissions,
            stacks: StackOutputs::default(),
            pages: PageOutputs::default(),
        }
    }

    /// Starts an output of a job.
    fn begin(&self, job: &Job, output: &Path) -> Result<Unpublished<'a>, PublishError> {
        let mut output = self.publisher.begin(self.out, output)?;
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

impl Outlet for OutputFolder<'_> {
    fn check(&self) -> Result<(), Error> {
        Ok(self.publisher.check(self.out)?)
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Taken<'_>, PictureError> {
        let work = &finished.picture.work;
        if let Some(page) = work.page.clone() {
            let job = work.job.clone();
            if job.settings.target.splits {
                let mut output = self.begin(&job, &page_output(&job.output, page.index))?;
                encode(finished, scratch, cores, output.file())
                    .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
                return self.pages.take(&page, output);
            }
            return self.stacks.write(&page, finished, cores, || {
                let spill = self.publisher.spill(self.out, &job.output)?;
                Ok((Pending::File(self.begin(&job, &job.output)?), spill))
            });
        }
        let output = Pending::File(self.begin(&work.job, &work.job.output)?);
        take_whole(output, finished, scratch, cores)
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
        self.pages.give_up(stack);
    }
}

/// An outlet that encodes pictures into object storage.
pub struct OutputBucket<'a> {
    /// The root of the output tree.
    out: &'a Path,
    bucket: Bucket,
    url: Url,
    stacks: StackOutputs<'a>,
}

impl<'a> OutputBucket<'a> {
    /// Creates an outlet for the outputs of a run with these settings; `None` if they do not go to object storage.
    ///
    /// # Errors
    /// When the bucket cannot be used.
    pub fn new(settings: &'a Settings) -> Result<Option<Self>, Error> {
        let out = settings.out.as_path();
        if !store::is_url(out) {
            return Ok(None);
        }
        let opened = Url::parse(out).and_then(|url| Ok((settings.storage.bucket(&url)?, url)));
        let (bucket, url) = opened.map_err(|why| unusable(out, &why))?;
        Ok(Some(Self { out, bucket, url, stacks: StackOutputs::default() }))
    }

    /// Starts the output of a job.
    fn begin(&self, job: &Job) -> Result<Pending<'a>, PublishError> {
        let mut output = Upload::begin(&self.bucket, &job.output, job.replaced.clone())?;
        if let Some(input) = job.stamp {
            output.record(Origin { input, settings: job.digest() });
        }
        Ok(Pending::Object(output))
    }
}

fn unusable(out: &Path, why: &store::Error) -> Error {
    Error::CannotRun(format!("--out {} cannot be used: {why}", Shown(out)))
}

impl Outlet for OutputBucket<'_> {
    fn check(&self) -> Result<(), Error> {
        // The first answer tells whether there is such a bucket.
        let first = self.bucket.list(&self.url).next().transpose();
        first.map(drop).map_err(|why| unusable(self.out, &why))
    }

    fn publishers(&self) -> usize {
        store::AT_ONCE
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Taken<'_>, PictureError> {
        let work = &finished.picture.work;
        if let Some(page) = work.page.clone() {
            let job = work.job.clone();
            return self.stacks.write(&page, finished, cores, || Ok((self.begin(&job)?, Upload::spill()?)));
        }
        let output = self.begin(&work.job)?;
        take_whole(output, finished, scratch, cores)
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
    }
}

/// An outlet that encodes the only picture of a run to standard output.
#[derive(Default)]
pub struct StandardOutput<'a> {
    stacks: StackOutputs<'a>,
}

impl Outlet for StandardOutput<'_> {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Taken<'_>, PictureError> {
        if let Some(page) = finished.picture.work.page.clone() {
            let begin = || Ok((Pending::Stream(Stream::begin()?), Stream::begin()?.into_file()));
            return self.stacks.write(&page, finished, cores, begin);
        }
        take_whole(Pending::Stream(Stream::begin()?), finished, scratch, cores)
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
    }
}

/// Encodes a picture that is a file of its own into its output.
fn take_whole<'o>(
    mut output: Pending<'o>,
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    cores: &Cores,
) -> Result<Taken<'o>, PictureError> {
    encode(finished, scratch, cores, output.file())
        .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
    Ok(Taken::Whole(Some(output)))
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
    }?;
    Ok(())
}
