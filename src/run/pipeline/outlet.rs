//! The destination of pictures after the devices: encoded into the output tree, here or in object
//! storage, or to standard output.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Bucket, Url};

use super::PUBLISHERS;
use super::stacks::{PageOutputs, StackOutputs, Taken};
use crate::config::{After, Naming, Permissions, Settings, Times};
use crate::device::task::{Content, Page, Picture, Processed, Stack};
use crate::error::{Error, PictureError};
use crate::fs::paths::{Shown, absolute};
use crate::fs::stamp::{Stamp, Tree, time_of};
use crate::picture::recipe::Recipe;
use crate::picture::record::{Digest, Origin, Record};
use crate::publish::{ImageUpload, Pending, PublishError, Publisher, Replaces, Stream};
use crate::publish::{Unpublished, Upload, notes};
use crate::run::together::is_alone;
use crate::selection::{is_first_page, page_output};
use crate::source::sidecars::Copies;
use crate::source::{Job, Skipped};
use codec::coders::Help;
use codec::{self, CodecError};

/// The destination of the pictures that the devices have finished, shared by all encode threads.
pub trait Outlet: Sync {
    /// Checks, before pictures are decoded, that there is a place for the outputs.
    ///
    /// # Errors
    /// If there is not.
    fn check(&self) -> Result<(), Error>;

    /// Returns the most outputs that may wait to appear at once.
    fn publishers(&self) -> usize {
        PUBLISHERS
    }

    /// Takes the content that the devices left in the slot. `scratch` is reused from picture to
    /// picture. Idle cores may `help`, and a device.
    ///
    /// # Errors
    /// If this picture cannot be taken. Others may still be.
    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        help: Help<'_>,
    ) -> Result<Taken<'_>, PictureError>;

    /// Returns the number of pixels of a page of a job if an earlier, killed run has written it.
    /// The page will not come.
    fn kept(&self, _job: &Job, _page: &Page) -> Option<u64> {
        None
    }

    /// Keeps a text with the unfinished output of a page's file, for a run that continues it.
    fn note(&self, _job: &Job, _page: &Page, _name: &str, _text: &dyn Fn() -> String) {}

    /// Returns a text that an earlier run has kept.
    fn noted(&self, _job: &Job, _page: &Page, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// Records that the picture of this job will not come: it failed, or the run is stopping.
    fn miss(&self, _job: &Job) {}

    /// Copies the sidecar files of an input whose output is there. Returns those that cannot be
    /// copied, each with the reason.
    fn copy_sidecars(&self, _job: &Job) -> Vec<(PathBuf, PictureError)> {
        Vec::new()
    }

    /// Copies the sidecar files of inputs whose outputs were there before the run. Returns those
    /// that cannot be copied, each with the reason.
    fn copy_sidecars_of_done(&self, _skipped: &[Skipped]) -> Vec<(PathBuf, PictureError)> {
        Vec::new()
    }

    /// Forgets the pages of this file that have come, as some will not.
    fn give_up(&self, stack: &Arc<Stack>);
}

/// An outlet that encodes pictures: into the output tree, or the only one of a run to standard
/// output.
pub struct Encoder<'a> {
    destination: Destination<'a>,
    stacks: StackOutputs<'a>,
    pages: PageOutputs<'a>,
}

/// The place where outputs appear.
enum Destination<'a> {
    Folder(OutputFolder<'a>),
    Bucket(OutputBucket<'a>),
    StandardOutput,
}

/// A folder that outputs are written to.
struct OutputFolder<'a> {
    root: &'a Path,
    publisher: &'a Publisher,
    times: Times,
    permissions: Permissions,
    sidecars: Option<Copies<'a>>,
    /// Whether inputs are removed or moved once their outputs are there. The remover makes only the
    /// first page durable; the others must be on the disk by then.
    inputs_go: bool,
}

/// A folder in object storage that outputs are written to.
struct OutputBucket<'a> {
    root: &'a Path,
    bucket: Bucket,
    url: Url,
}

impl<'a> Encoder<'a> {
    /// Creates an outlet for the outputs of a run with these settings, below the folder `out` if
    /// they are files or objects.
    ///
    /// # Errors
    /// When outputs go to a bucket that cannot be used.
    pub fn new(settings: &Settings, out: &'a Path, publisher: &'a Publisher) -> Result<Self, Error> {
        let destination = if settings.naming == Naming::StandardOutput {
            Destination::StandardOutput
        } else if store::is_url(out) {
            Destination::Bucket(OutputBucket::new(settings, out)?)
        } else {
            let &Settings { times, permissions, .. } = settings;
            let inputs_go = settings.never_ends && settings.service.after != After::Keep;
            let sidecars = Copies::of(settings, publisher, out);
            let folder = OutputFolder { root: out, publisher, times, permissions, sidecars, inputs_go };
            Destination::Folder(folder)
        };
        Ok(Self { destination, stacks: StackOutputs::default(), pages: PageOutputs::default() })
    }

    /// Returns the copying of sidecar files, if they are copied.
    pub(crate) fn sidecars(&self) -> Option<&Copies<'a>> {
        if let Destination::Folder(folder) = &self.destination { folder.sidecars.as_ref() } else { None }
    }

    /// Starts the output of a job, or that of one of its pages or frames if these have outputs of
    /// their own.
    fn begin(&self, job: &Job, index: usize) -> Result<Pending<'a>, PublishError> {
        match &self.destination {
            Destination::Folder(folder) => folder.begin(job, index).map(Pending::File),
            Destination::Bucket(bucket) if job.is_folder => bucket.begin_image(job).map(Pending::Image),
            Destination::Bucket(bucket) => bucket.begin(job, index).map(Pending::Object),
            Destination::StandardOutput => Stream::begin().map(Pending::Stream),
        }
    }

    /// Returns the folder that the output of a page's file becomes, if a later run may continue it,
    /// and starts it if necessary.
    fn folder_of(&self, job: &Job, page: &Page) -> Option<File> {
        let Destination::Folder(folder) = &self.destination else { return None };
        common_of(job)?;
        let begin = || Ok((folder.begin(job, 0).map(Pending::File)?, self.spill(job)?));
        self.stacks.file_of(&page.stack, begin)
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
    fn begin(&self, job: &Job, index: usize) -> Result<Unpublished<'a>, PublishError> {
        if !job.settings.target.splits {
            return self.start(job, &job.output, job.replaces);
        }
        let output = page_output(&job.output, index);
        // A page that exists without the first is left from an earlier attempt.
        let is_left =
            || Record::of(&output).zip(job.stamp).is_some_and(|(record, stamp)| record.is_from(&stamp));
        let replaces = match job.replaces {
            Replaces::Nothing if index > 0 && is_left() => Replaces::at(&output),
            replaces if output == job.output => replaces,
            replaces => replaces.for_other(&output),
        };
        let mut page = self.start(job, &output, replaces)?;
        if self.inputs_go {
            page.make_durable();
        }
        Ok(page)
    }

    /// Starts an output of a job, which may replace these files.
    fn start(&self, job: &Job, output: &Path, replaces: Replaces) -> Result<Unpublished<'a>, PublishError> {
        let mut output = match job.is_folder {
            true => self.publisher.begin_folder(self.root, output, common_of(job)),
            false => self.publisher.begin(self.root, output),
        }?;
        if let Some(input) = job.stamp {
            output.record(Origin { input, settings: job.digest() }, job.settings.recipe(job.mask));
            if self.times == Times::Keep {
                // An input that is gone by now fails its picture anyway.
                let of_tree = || Tree::of(&job.input).map(|tree| time_of(tree.mtime_ns)).ok();
                let time = if job.is_folder && job.image.is_none() { of_tree() } else { None };
                output.modified_at(time.unwrap_or_else(|| input.modified()));
            }
        }
        // An input that is gone by now fails its picture anyway.
        if self.permissions == Permissions::Keep
            && let Ok(input) = fs::metadata(&job.input)
        {
            output.permit(fs::Permissions::from_mode(input.mode() & 0o777));
        }
        output.replace(replaces);
        Ok(output)
    }
}

/// Returns a digest that a later run shares if it makes the same output of a job; `None` if that is
/// no folder, or depends on other files as well.
fn common_of(job: &Job) -> Option<Digest> {
    let Stamp { size, mtime_ns, inode } = job.stamp.filter(|_| job.is_folder && is_alone(job))?;
    let state = format!("{size} {mtime_ns} {inode} ");
    let input = [state.as_bytes(), absolute(&job.input).as_os_str().as_bytes()].concat();
    Some(Digest::of(&input).with(Some(job.digest())))
}

impl<'a> OutputBucket<'a> {
    fn new(settings: &Settings, root: &'a Path) -> Result<Self, Error> {
        let opened = Url::parse(root).and_then(|url| Ok((settings.storage.bucket(&url)?, url)));
        let (bucket, url) = opened.map_err(|why| unusable(root, &why))?;
        Ok(Self { root, bucket, url })
    }

    /// Requests the first object: the answer shows whether the bucket exists.
    fn check(&self) -> Result<(), Error> {
        let first = self.bucket.list(&self.url).next().transpose();
        first.map(drop).map_err(|why| unusable(self.root, &why))
    }

    fn begin(&self, job: &Job, index: usize) -> Result<Upload, PublishError> {
        let replaced = job.replaced.clone().filter(|_| index == 0);
        let mut output = match job.settings.target.splits {
            true => Upload::begin(&self.bucket, &page_output(&job.output, index), replaced),
            false => Upload::begin(&self.bucket, &job.output, replaced),
        }?;
        // Objects in the places of other pages are only seen when they are in the way.
        if index > 0 && job.replaces != Replaces::Own {
            output.replace_any();
        }
        if let Some((origin, recipe)) = recorded(job) {
            output.record(origin, recipe);
        }
        Ok(output)
    }

    fn begin_image(&self, job: &Job) -> Result<ImageUpload, PublishError> {
        let mut output = ImageUpload::begin(&self.bucket, &job.output, job.replaced.as_ref())?;
        if let Some((origin, recipe)) = recorded(job) {
            output.record(origin, recipe);
        }
        Ok(output)
    }
}

/// Returns the origin to record on an output in object storage, and the settings unless these name
/// files of this machine.
fn recorded(job: &Job) -> Option<(Origin, Option<Recipe>)> {
    let recipe = (!job.settings.name_files()).then(|| job.settings.recipe(job.mask));
    Some((Origin { input: job.stamp?, settings: job.digest() }, recipe))
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
        help: Help<'_>,
    ) -> Result<Taken<'_>, PictureError> {
        let (job, page) = (finished.picture.work.job.clone(), finished.picture.work.page.clone());
        let splits = job.settings.target.splits;
        match page {
            Some(page) if splits => {
                let output = encode(finished, scratch, help, self.begin(&job, page.index)?)?;
                self.pages.take(&page, output)
            }
            Some(page) => {
                self.stacks.write(&page, finished, help, || Ok((self.begin(&job, 0)?, self.spill(&job)?)))
            }
            None if splits && finished.picture.decoded.frames() > 1 => {
                encode_frames(finished, scratch, help, |index| self.begin(&job, index))
            }
            None => {
                let output = encode(finished, scratch, help, self.begin(&job, 0)?)?;
                Ok(Taken::Whole(Some(Box::new(output))))
            }
        }
    }

    fn kept(&self, job: &Job, page: &Page) -> Option<u64> {
        page.stack.writer.kept(page.index, &self.folder_of(job, page)?).ok()?
    }

    fn note(&self, job: &Job, page: &Page, name: &str, text: &dyn Fn() -> String) {
        if let Some(folder) = self.folder_of(job, page) {
            // After an error, a later run only repeats the work.
            let _ = notes::write(&folder, name, &text());
        }
    }

    fn noted(&self, job: &Job, page: &Page, name: &str) -> Option<Vec<u8>> {
        let Destination::Folder(OutputFolder { root, publisher, .. }) = &self.destination else {
            return None;
        };
        // Pictures that may yet be refused must not be begun.
        if !publisher.has_left(root, &job.output, common_of(job)?) {
            return None;
        }
        notes::read(&self.folder_of(job, page)?, name).ok()
    }

    fn copy_sidecars(&self, job: &Job) -> Vec<(PathBuf, PictureError)> {
        self.sidecars().map_or_else(Vec::new, |copies| copies.for_job(job))
    }

    fn copy_sidecars_of_done(&self, skipped: &[Skipped]) -> Vec<(PathBuf, PictureError)> {
        let Some(copies) = self.sidecars() else { return Vec::new() };
        let done = skipped.iter().filter_map(|done| Some((&done.input, done.output.as_ref()?)));
        let done = done.filter(|(_, output)| !is_first_page(output));
        done.flat_map(|(input, output)| copies.beside(input, output)).collect()
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.stacks.give_up(stack);
        self.pages.give_up(stack);
    }
}

/// Encodes the frames of an animation, each into the output that `begin` starts.
fn encode_frames<'o>(
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    help: Help<'_>,
    begin: impl Fn(usize) -> Result<Pending<'o>, PublishError>,
) -> Result<Taken<'o>, PictureError> {
    let Processed { slot, picture, .. } = finished;
    let Picture { decoded, work, .. } = &mut **picture;
    let target = &work.job.settings.target;
    decoded.reduce_depth(slot.bytes_mut(), target);
    decoded.reduce_colours(slot.bytes_mut(), target);
    let count = decoded.separate_frames();
    let frames = slot.bytes_mut().chunks_exact_mut(decoded.layout.bytes() as usize).take(count);
    let mut outputs = Vec::with_capacity(count);
    for (index, pixels) in frames.enumerate() {
        let mut output = begin(index)?;
        codec::encode(decoded, pixels, target, scratch, help, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        outputs.push(output.seal()?);
    }
    Ok(Taken::Whole(Some(Box::new(Pending::Pages(outputs)))))
}

/// Encodes the content that the devices left in the slot into an output.
fn encode<'o>(
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    help: Help<'_>,
    mut output: Pending<'o>,
) -> Result<Pending<'o>, PictureError> {
    encode_into(output.file(), finished, scratch, help)
        .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
    Ok(output)
}

fn encode_into(
    file: &mut File,
    finished: &mut Processed,
    scratch: &mut Vec<u8>,
    help: Help<'_>,
) -> Result<(), CodecError> {
    let Processed { slot, content, picture, .. } = finished;
    let Picture { decoded, work, .. } = &mut **picture;
    let target = &work.job.settings.target;
    match *content {
        Content::Encoded(bytes) => codec::write_encoded(decoded, &slot.bytes()[..bytes as usize], file),
        _ => {
            decoded.reduce_depth(slot.bytes_mut(), target);
            decoded.reduce_colours(slot.bytes_mut(), target);
            codec::encode(decoded, slot.bytes_mut(), target, scratch, help, file)
        }
    }
    .map(drop)
}
