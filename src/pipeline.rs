//! The stages between the source and the output tree, and what travels between them.
//!
//! Work goes one way: jobs → decode → device → encode. Only a device that fails, or declines, sends something back: the job, to be
//! decoded again. A piece of work holds a sender of that way back for as long as it lives, so the decoders' queue closes by itself when
//! the last picture is through.

mod load;

use std::any::Any;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use crate::codec::{self, CodecError, CompressedJpeg, Decoded, Remark, Target};
use crate::config::{Durability, Settings};
use crate::cores::Cores;
use crate::device::Devices;
use crate::equalize::Order;
use crate::error::{Error, PictureError};
use crate::picture::Layout;
use crate::progress::Event;
use crate::publish::{Publisher, Unpublished};
use crate::slot::{Claim, DeviceId, Slot, SlotPool, Slots};
use crate::source::Job;
use crate::split::{self, Join};
use crate::timings::{Clock, Stage};
use load::Loaded;

/// Asks a run to end early: pictures in progress are finished, no new ones are started.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    const BY_USER: u8 = 1;
    const ABORTED: u8 = 2;

    /// Asks on the user's behalf.
    pub fn ask(&self) {
        self.0.store(Self::BY_USER, Ordering::Relaxed);
    }

    /// Asks because the run cannot go on, unless the user was faster.
    pub fn abort(&self) {
        let _ = self.0.compare_exchange(0, Self::ABORTED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether anybody asked.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether the user asked.
    pub fn asked_by_user(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::BY_USER
    }
}

/// A job on its way, with what it went through so far.
pub struct Work {
    /// The picture's files.
    pub job: Job,
    /// The devices that may still have it.
    pub claim: Claim,
    redo: Sender<Work>,
}

impl Work {
    /// Whether a device already had the picture.
    fn was_started(&self) -> bool {
        self.claim != Claim::default()
    }
}

/// A picture that is decoded, or will be by a device, apart from its pixels.
pub struct Picture {
    /// What the pixels are, and what the encoder will need.
    pub decoded: Decoded,
    /// Where it came from.
    pub work: Work,
    /// Bytes of its file.
    pub bytes_in: u64,
    /// Where its time went, since it was last begun.
    pub clock: Clock,
}

impl Picture {
    /// The job is to be decoded again, for whom the changed claim admits.
    fn redo(self, change: impl FnOnce(&mut Claim)) {
        let mut work = self.work;
        change(&mut work.claim);
        let back = work.redo.clone();
        // Only a decoder that panicked closes this way; the panic is then what ends the run.
        let _ = back.send(work);
    }
}

/// A slot on its way through a device.
pub struct Task {
    /// The slot.
    pub slot: Slot,
    /// What is at its start.
    pub content: Content,
    /// The pixels, also if they are compressed.
    pub layout: Layout,
    /// What a device does with them.
    pub order: Order,
    part: Part,
}

/// What is at the start of a task's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pixels, to be worked on or done.
    Pixels,
    /// The planes of a JPEG, and behind so many bytes of them its file: a device that can may encode them too.
    Planes(CompressedJpeg, u64),
    /// A file that a device decodes, equalizes and encodes.
    Compressed(CompressedJpeg),
    /// So many bytes of what a device encoded.
    Encoded(u64),
}

/// Lets a thread that decodes or encodes step back, for good, once a device does so too: the device's threads do little and often, and
/// what they wait for a core the device waits for them. Measured with 16 cores and an H100: a seventh more pictures.
#[derive(Default)]
struct Courtesy {
    shown: bool,
}

impl Courtesy {
    /// How much nicer than the process, which was perhaps started to be nice, such a thread is.
    const STEP: i32 = 10;

    fn show_for(&mut self, content: Content) {
        if content != Content::Pixels && !self.shown {
            self.shown = true;
            // Linux gives each thread a niceness of its own. Where it is refused, nothing is lost but the courtesy.
            let _ = rustix::process::nice(Self::STEP);
        }
    }
}

/// What of a picture a task is.
enum Part {
    /// All of it.
    Whole(Box<Picture>),
    /// One of its planes.
    Plane { number: usize, join: Arc<Join> },
}

impl Task {
    fn whole(slot: Slot, content: Content, order: Order, picture: Box<Picture>) -> Self {
        Self { slot, content, layout: picture.decoded.layout, order, part: Part::Whole(picture) }
    }

    /// The plane of that number of a picture that is put together by `join`.
    pub fn plane(slot: Slot, layout: Layout, order: Order, number: usize, join: Arc<Join>) -> Self {
        Self { slot, content: Content::Pixels, layout, order, part: Part::Plane { number, join } }
    }

    /// The picture's file.
    pub fn input(&self) -> &Path {
        match &self.part {
            Part::Whole(picture) => &picture.work.job.input,
            Part::Plane { join, .. } => join.input(),
        }
    }

    /// All the time since the last mark was this stage's. Planes are several at once, and their picture's clock is read when it
    /// is put together.
    pub fn mark(&mut self, stage: Stage) {
        if let Part::Whole(picture) = &mut self.part {
            picture.clock.mark(stage);
        }
    }

    /// The device failed, or does not do this picture: the slot goes back, the job to be decoded again for another device.
    pub fn redo(self, device: DeviceId) {
        self.give_back(|claim| claim.failed_on.push(device));
    }

    /// The device does not decode this picture: the slot goes back, the job to be decoded by the processor.
    pub fn decline(self) {
        self.give_back(|claim| claim.declined = true);
    }

    fn give_back(self, change: impl FnOnce(&mut Claim)) {
        drop(self.slot);
        let picture = match self.part {
            Part::Whole(picture) => Some(picture),
            Part::Plane { join, .. } => join.give_up(),
        };
        if let Some(picture) = picture {
            picture.redo(change);
        }
    }

    /// The device is through: the picture, if all of it is there now.
    fn finish(self) -> Option<Finished> {
        let Self { slot, content, order, part, .. } = self;
        match part {
            Part::Whole(picture) => {
                Some(Finished { devices: vec![slot.device()], slot, content, order, picture })
            }
            Part::Plane { number, join } => join.arrive(number, slot),
        }
    }
}

/// A picture that the devices are through with.
pub struct Finished {
    /// Where its pixels and counts are, or what a device made of them.
    pub slot: Slot,
    /// Which of these.
    pub content: Content,
    /// What was done.
    pub order: Order,
    /// All the rest of it.
    pub picture: Box<Picture>,
    /// Which devices did it.
    pub devices: Vec<DeviceId>,
}

/// Threads that wait for the disk, so that no encoder does. More gained nothing on a fast disk; a slow one commits what several
/// of them wait for at once.
pub const PUBLISHERS: usize = 4;

/// Capacity that a decoder's buffer for files may keep from one picture to the next: a camera's JPEG.
const BUFFER_KEPT: usize = 16 << 20;

/// Capacity that an encoder's scratch may keep from one picture to the next.
const SCRATCH_KEPT: usize = 4 << 20;

/// A picture that an outlet took; its output, if it has one, is written, but not yet on the disk under its name.
struct Taken<'a> {
    output: Option<Unpublished<'a>>,
    job: Job,
    pixels: u64,
    bytes_in: u64,
    device: Arc<str>,
    remarks: Vec<Remark>,
    clock: Clock,
}

/// Where pictures go that the devices are through with. All encode threads share it.
pub trait Outlet: Sync {
    /// Finds out, before anything is decoded, whether there is a place for what comes out.
    ///
    /// # Errors
    /// When there is none.
    fn check(&self) -> Result<(), Error>;

    /// Takes what the devices left in the slot; returns the output that is to be published, if there is one. `scratch` is
    /// worth reusing. Idle `cores` may help.
    ///
    /// # Errors
    /// When this picture cannot be taken. The others may still come.
    fn take(
        &self,
        finished: &mut Finished,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Unpublished<'_>>, PictureError>;

    /// The picture of this job will not arrive.
    fn miss(&self, _job: &Job) {}
}

/// Encodes pictures into the output tree.
pub struct Encoder<'a> {
    /// The folder of the output tree.
    pub out: &'a Path,
    /// What is written.
    pub target: &'a Target,
    /// Writes it.
    pub publisher: &'a Publisher,
}

impl Outlet for Encoder<'_> {
    fn check(&self) -> Result<(), Error> {
        self.publisher.check(self.out).map_err(|error| Error::CannotRun(error.to_string()))
    }

    fn take(
        &self,
        finished: &mut Finished,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Unpublished<'_>>, PictureError> {
        let Finished { slot, content, picture, .. } = finished;
        let mut output = self.publisher.begin(&picture.work.job.output)?;
        let (decoded, file) = (&picture.decoded, output.file());
        match *content {
            Content::Encoded(bytes) => codec::write_encoded(decoded, &slot.bytes()[..bytes as usize], file),
            _ => codec::encode(decoded, slot.bytes_mut(), self.target, scratch, cores, file),
        }
        .map_err(|error| output.failed(error))?;
        Ok(Some(output))
    }
}

/// What the stages share.
pub struct Stages<'a> {
    /// The run's settings.
    pub settings: &'a Settings,
    /// Once asked, pictures that were handed over but not started are left.
    pub stop: &'a Stop,
    /// How many pictures there are at most: no stage needs more threads.
    pub pictures: usize,
    /// The slots of all devices.
    pub pool: &'a Arc<SlotPool>,
    /// The cores, which decoders and encoders keep busy.
    pub cores: &'a Cores,
    /// The devices.
    pub devices: &'a Devices,
    /// What the devices do.
    pub order: Order,
    /// Where the pictures go then.
    pub outlet: &'a dyn Outlet,
    /// Where everything that happens is told.
    pub events: Sender<Event>,
}

/// Has a panic fail its picture, and not the thread, which other pictures need. The next one clears the buffers that it left half filled.
fn contained<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    let text = |panic: Box<dyn Any + Send>| PictureError::Bug(codec::panic_message(&*panic).to_owned());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text(panic)))
}

/// The decoders' two queues.
#[derive(Clone)]
struct Queues {
    fresh: Receiver<Vec<Work>>,
    redo: Receiver<Work>,
}

impl Queues {
    /// The next work; none when all pictures are through.
    fn next(&mut self) -> Option<Vec<Work>> {
        loop {
            select! {
                recv(self.redo) -> work => return work.ok().map(|work| vec![work]),
                recv(self.fresh) -> batch => match batch {
                    Ok(batch) => return Some(batch),
                    Err(_) => self.fresh = never(),
                },
            }
        }
    }
}

/// The way into the pipeline. While it lives the decoders wait for work.
pub struct Intake {
    fresh: Sender<Vec<Work>>,
    redo: Sender<Work>,
}

impl Intake {
    /// Hands jobs to one of the decoders; waits while they are busy.
    pub fn give(&self, batch: Vec<Job>) {
        let work = |job| Work { job, claim: Claim::default(), redo: self.redo.clone() };
        // Only decoders that panicked close this way; the panic is then what ends the run.
        let _ = self.fresh.send(batch.into_iter().map(work).collect());
    }
}

impl Stages<'_> {
    /// Starts the decode threads; their handles end when the intake is dropped and all its work is through.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start_decoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(Intake, Vec<ScopedJoinHandle<'scope, ()>>), Error> {
        let threads = self.settings.threads.min(self.pictures);
        let (fresh, fresh_work) = bounded(threads);
        // Redone work is in no other queue meanwhile, so there is never more of it than of slots.
        let (redo, redo_work) = crossbeam_channel::unbounded();
        let queues = Queues { fresh: fresh_work, redo: redo_work };
        let spawn = |number| {
            let queues = queues.clone();
            Builder::new()
                .name(format!("decode-{number}"))
                .spawn_scoped(scope, move || self.decode_all(queues))
                .map_err(Error::thread)
        };
        let handles = (0..threads).map(spawn).collect::<Result<_, _>>()?;
        Ok((Intake { fresh, redo }, handles))
    }

    /// Starts the encode threads and those that publish; they end with the devices.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start_encoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        equalized: &Receiver<Task>,
    ) -> Result<(), Error> {
        let (publishers, to_publish) = bounded(PUBLISHERS);
        for number in 0..self.settings.threads.min(self.pictures) {
            let (equalized, publishers) = (equalized.clone(), publishers.clone());
            Builder::new()
                .name(format!("encode-{number}"))
                .spawn_scoped(scope, move || self.encode_all(&equalized, &publishers))
                .map_err(Error::thread)?;
        }
        for number in 0..PUBLISHERS.min(self.pictures) {
            let to_publish = to_publish.clone();
            Builder::new()
                .name(format!("publish-{number}"))
                .spawn_scoped(scope, move || to_publish.iter().for_each(|taken| self.publish(taken)))
                .map_err(Error::thread)?;
        }
        Ok(())
    }

    fn decode_all(&self, mut queues: Queues) {
        let (mut buffer, mut courtesy) = (Vec::new(), Courtesy::default());
        for mut work in iter::from_fn(|| queues.next()).flatten() {
            if self.stop.asked() && !work.was_started() {
                self.outlet.miss(&work.job);
                continue;
            }
            let mut clock = Clock::start();
            let loaded = contained(|| self.load(&mut work, &mut buffer, &mut clock));
            if buffer.capacity() > BUFFER_KEPT {
                buffer = Vec::new();
            }
            match loaded {
                Ok(Loaded { slots, content, decoded, bytes_in }) => {
                    courtesy.show_for(content);
                    self.submit(slots, content, Box::new(Picture { decoded, work, bytes_in, clock }));
                }
                Err(error) => self.fail(work.job, error),
            }
        }
    }

    fn submit(&self, slots: Slots, content: Content, picture: Box<Picture>) {
        let Slots { whole, planes } = slots;
        if planes.is_empty() {
            return self.devices.submit(Task::whole(whole, content, self.order, picture));
        }
        split::tasks(picture, self.order, whole, planes, self.settings.threads)
            .for_each(|task| self.devices.submit(task));
    }

    fn encode_all<'p>(&'p self, equalized: &Receiver<Task>, publishers: &Sender<Taken<'p>>) {
        let (mut scratch, mut courtesy) = (Vec::new(), Courtesy::default());
        for mut finished in equalized.iter().filter_map(Task::finish) {
            courtesy.show_for(finished.content);
            finished.picture.clock.mark(Stage::Queue);
            let working = self.cores.work();
            let taken = contained(|| self.outlet.take(&mut finished, &mut scratch, self.cores));
            drop(working);
            // It is counted only while its picture has a slot.
            if scratch.capacity() > SCRATCH_KEPT {
                scratch = Vec::new();
            }
            let Finished { slot, content, picture, devices, .. } = finished;
            drop(slot);
            if let (Content::Encoded(_), Err(PictureError::Codec(CodecError::Encoder { .. }))) =
                (content, &taken)
            {
                // What a device made of it is no picture; the processor makes one.
                picture.redo(|claim| claim.declined = true);
                continue;
            }
            let Picture { decoded, work, bytes_in, mut clock } = *picture;
            clock.mark(Stage::Encode);
            match taken {
                Ok(output) => {
                    let (pixels, device) = (decoded.layout.pixels(), self.devices.names(&devices));
                    let remarks = output.as_ref().map(|_| decoded.remarks(&self.settings.target));
                    let remarks = remarks.unwrap_or_default();
                    let taken = Taken { output, job: work.job, pixels, bytes_in, device, remarks, clock };
                    self.pass_on(taken, publishers);
                }
                Err(error) => self.fail(work.job, error),
            }
        }
    }

    /// Waiting for the disk is for the publishers; a rename alone is sooner done than handed over.
    fn pass_on<'p>(&'p self, taken: Taken<'p>, publishers: &Sender<Taken<'p>>) {
        match (&taken.output, self.settings.durability) {
            (None, _) | (_, Durability::Fast) => self.publish(taken),
            // Only publishers that panicked close this way; the panic is then what ends the run.
            (Some(_), Durability::Full) => drop(publishers.send(taken)),
        }
    }

    fn publish(&self, taken: Taken<'_>) {
        let Taken { output, job, pixels, bytes_in, device, remarks, mut clock } = taken;
        clock.mark(Stage::Queue);
        if !job.is_unchanged() {
            return self.fail(job, PictureError::Changed);
        }
        match output.map_or(Ok(0), Unpublished::publish) {
            Ok(bytes_out) => {
                let Job { input, output, .. } = job;
                clock.mark(Stage::Publish);
                for remark in remarks {
                    self.tell(Event::Remarked { input: input.clone(), remark });
                }
                let times = clock.times();
                self.tell(Event::Done { input, output, pixels, bytes_in, bytes_out, device, times });
            }
            Err(error) => self.fail(job, error.into()),
        }
    }

    fn fail(&self, job: Job, error: PictureError) {
        self.outlet.miss(&job);
        self.tell(Event::failure(job, error));
    }

    fn tell(&self, event: Event) {
        // The listener ends after the last sender.
        let _ = self.events.send(event);
    }
}
