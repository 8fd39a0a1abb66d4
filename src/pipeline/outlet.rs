//! Where pictures go after the devices: encoded into the output tree, or to standard output.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use store::{Bucket, Url};

use super::PUBLISHERS;
use super::stacks::{PageOutputs, StackOutputs, Taken};
use crate::config::{After, Permissions, Settings, Times};
use crate::error::{Error, PictureError};
use crate::paths::Shown;
use crate::publish::{Pending, PublishError, Publisher, Stream, Unpublished, Upload};
use crate::record::{Origin, Record};
use crate::selection::page_output;
use crate::source::Job;
use crate::task::{Content, Page, Picture, Processed, Stack};
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
    /// Whether inputs go once their outputs are there: whoever removes them sees to the first page alone, so the others are on the disk by then.
    inputs_go: bool,
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
            inputs_go: settings.watch && settings.service.after != After::Keep,
            stacks: StackOutputs::default(),
            pages: PageOutputs::default(),
        }
    }

    /// Starts an output of a job, which may take the place of a file if it `replaces`.
    fn begin(&self, job: &Job, output: &Path, replaces: bool) -> Result<Unpublished<'a>, PublishError> {
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
        if !replaces {
            output.replace_nothing();
        }
        Ok(output)
    }

    /// Starts the output of a page or frame.
    fn begin_page(&self, job: &Job, index: usize) -> Result<Pending<'a>, PublishError> {
        let output = page_output(&job.output, index);
        // One that is there without the first is what is left of an earlier try.
        let is_left =
            || Record::of(&output).zip(job.stamp).is_some_and(|(record, stamp)| record.is_from(&stamp));
        let mut page = self.begin(job, &output, job.replaces || index > 0 && is_left())?;
        if self.inputs_go {
            page.make_durable();
        }
        Ok(Pending::File(page))
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
        let (job, page) = (finished.picture.work.job.clone(), finished.picture.work.page.clone());
        let begin = || self.begin(&job, &job.output, job.replaces).map(Pending::File);
        match page {
            _ if job.settings.target.splits => {
                let begin = |index| self.begin_page(&job, index);
                take_split(&self.pages, page.as_ref(), begin, finished, scratch, cores)
            }
            Some(page) => self.stacks.write(&page, finished, cores, || {
                Ok((begin()?, self.publisher.spill(self.out, &job.output)?))
            }),
            None => take_whole(begin()?, finished, scratch, cores),
        }
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
    pages: PageOutputs<'a>,
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
        let (stacks, pages) = (StackOutputs::default(), PageOutputs::default());
        Ok(Some(Self { out, bucket, url, stacks, pages }))
    }

    /// Starts the output of a job, or that of one of its pages or frames.
    fn begin(&self, job: &Job, index: usize) -> Result<Pending<'a>, PublishError> {
        // What there is at the places of other pages is found out when it is in the way.
        let replaced = job.replaced.clone().filter(|_| index == 0);
        let mut output = match job.settings.target.splits {
            true => Upload::begin(&self.bucket, &page_output(&job.output, index), replaced),
            false => Upload::begin(&self.bucket, &job.output, replaced),
        }?;
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
        let (job, page) = (finished.picture.work.job.clone(), finished.picture.work.page.clone());
        let begin = |index| self.begin(&job, index);
        match page {
            _ if job.settings.target.splits => {
                take_split(&self.pages, page.as_ref(), begin, finished, scratch, cores)
            }
            Some(page) => self.stacks.write(&page, finished, cores, || Ok((begin(0)?, Upload::spill()?))),
            None => take_whole(begin(0)?, finished, scratch, cores),
        }
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
        self.pages.give_up(stack);
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

/// Encodes a picture whose pages or frames go into outputs of their own, which `begin` starts by their numbers: a page, all frames of an
/// animation, or the only picture there is.
fn take_split<'o>(
    pages: &PageOutputs<'o>,
    page: Option<&Page>,
    begin: impl Fn(usize) -> Result<Pending<'o>, PublishError>,
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    cores: &Cores,
) -> Result<Taken<'o>, PictureError> {
    match page {
        Some(page) => {
            let mut output = begin(page.index)?;
            encode(finished, scratch, cores, output.file())
                .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
            pages.take(page, output)
        }
        None if finished.picture.decoded.frames() > 1 => take_frames(begin, finished, scratch, cores),
        None => take_whole(begin(0)?, finished, scratch, cores),
    }
}

/// Encodes the frames of an animation, each into the output that `begin` starts.
fn take_frames<'o>(
    begin: impl Fn(usize) -> Result<Pending<'o>, PublishError>,
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    cores: &Cores,
) -> Result<Taken<'o>, PictureError> {
    let Processed { slot, picture, .. } = finished;
    let Picture { decoded, work, .. } = &mut **picture;
    let target = &work.job.settings.target;
    decoded.reduce_depth(slot.bytes_mut(), target);
    let count = decoded.separate_frames();
    let frames = slot.bytes_mut().chunks_exact_mut(decoded.layout.bytes() as usize).take(count);
    let mut outputs = Vec::with_capacity(count);
    for (index, pixels) in frames.enumerate() {
        let mut output = begin(index)?;
        codec::encode(decoded, pixels, target, scratch, cores, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        outputs.push(output.seal()?);
    }
    Ok(Taken::Whole(Some(Pending::Pages(outputs))))
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
