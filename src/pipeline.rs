//! The stages between the source and the output tree.
//!
//! QueuedJob flows one way: jobs → decode → device → encode → publish. What travels is a [`Job`], which becomes [`QueuedJob`] for the decoders, a [`Task`]
//! for a device, [`Processed`] when all its devices are done, and `Written` once the outlet has it. Only a job whose device failed, declined
//! it or encoded it badly goes back, to be decoded again. Every piece of work holds a sender of the queue that leads back, so this queue
//! closes by itself after the last picture.

mod inspect;
mod load;

use std::any::Any;
use std::fs::File;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use crate::config::{Durability, Settings};
use crate::device::{self, Context, RequiredDevices};
use crate::error::{Error, PictureError};
use crate::machine::Machine;
use crate::progress::{Event, Events};
use crate::publish::{Pending, Publisher, Stream};
use crate::record::{Digest, Origin};
use crate::remark::Remark;
use crate::schedule::Attempts;
use crate::slot::Slots;
use crate::source::Job;
use crate::task::{self, Content, Picture, Processed, QueuedJob, Task};
use crate::timings::{Clock, Meter, Stage};
use codec::Cores;
use codec::{self, CodecError, Target};
use lanes::Order;
use load::Loaded;

use crate::stop::Stop;

/// Lowers the priority of a thread that decodes or encodes, for good, once a device does such work too: the device's threads need a core
/// briefly but often, and while they wait for one, the device waits for them. Measured with 16 cores and an H100: a seventh more pictures.
#[derive(Default)]
struct Niceness {
    shown: bool,
}

impl Niceness {
    /// What is added to the niceness of the process, which may itself have been started with `nice`.
    const STEP: i32 = 10;

    fn lower_for(&mut self, content: Content) {
        if content != Content::Pixels && !self.shown {
            self.shown = true;
            // On Linux every thread has a niceness of its own. If the call is refused, only the courtesy is lost.
            let _ = rustix::process::nice(Self::STEP);
        }
    }
}

/// Threads that wait for the disk, so that encoders need not. More gained nothing on a fast disk; a slow one commits what several of them
/// wait for at once.
pub const PUBLISHERS: usize = 4;

/// Bytes of capacity that an encoder's scratch buffer may keep from one picture to the next.
const SCRATCH_KEPT: usize = 4 << 20;

/// A picture that an outlet has taken. Its output, if it has one, is written but not yet synced and renamed.
struct Written<'a> {
    output: Option<Pending<'a>>,
    job: Job,
    pixels: u64,
    bytes_in: u64,
    device: Arc<str>,
    remarks: Vec<Remark>,
    clock: Clock,
}

/// The destination of the pictures that the devices are done with, shared by all encode threads.
pub trait Outlet: Sync {
    /// Checks, before anything is decoded, that there is a place for the outputs.
    ///
    /// # Errors
    /// If there is none.
    fn check(&self) -> Result<(), Error>;

    /// Takes what the devices left in the slot, and returns the output to publish, if there is one. `scratch` is reused from picture to
    /// picture. Idle `cores` may help.
    ///
    /// # Errors
    /// If this picture cannot be taken. Others may still be.
    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Pending<'_>>, PictureError>;

    /// Notes that the picture of this job will not come: it failed, or the run is stopping.
    fn miss(&self, _job: &Job) {}
}

/// An outlet that encodes pictures into the output tree.
pub struct OutputFolder<'a> {
    /// The root of the output tree.
    out: &'a Path,
    /// The format, quality and channels of the outputs.
    target: &'a Target,
    /// Writes the outputs.
    publisher: &'a Publisher,
    /// What the record of an output says of the settings.
    settings: Digest,
}

impl<'a> OutputFolder<'a> {
    /// Creates an outlet for the outputs of a run with these settings, below the folder `out`.
    pub fn new(settings: &'a Settings, out: &'a Path, publisher: &'a Publisher) -> Self {
        let digest = Digest::of(settings.of_outputs().as_bytes());
        Self { out, target: &settings.target, publisher, settings: digest }
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
    ) -> Result<Option<Pending<'_>>, PictureError> {
        let mut output = self.publisher.begin(self.out, &finished.picture.work.job.output)?;
        encode(finished, self.target, scratch, cores, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        if let Some(input) = finished.picture.work.job.stamp {
            output.record(Origin { input, settings: self.settings });
        }
        if !finished.picture.work.job.replaces {
            output.replace_nothing();
        }
        Ok(Some(Pending::File(output)))
    }
}

/// An outlet that encodes the only picture of a run to standard output.
pub struct StandardOutput<'a> {
    /// The format, quality and channels of the output.
    pub target: &'a Target,
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
    ) -> Result<Option<Pending<'_>>, PictureError> {
        let mut output = Stream::begin()?;
        encode(finished, self.target, scratch, cores, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        Ok(Some(Pending::Stream(output)))
    }
}

/// Encodes what the devices left in the slot into a file.
fn encode(
    finished: &mut Processed,
    target: &Target,
    scratch: &mut Vec<u8>,
    cores: &Cores,
    file: &mut File,
) -> Result<(), CodecError> {
    let Processed { slot, content, picture, .. } = finished;
    let decoded = &mut picture.decoded;
    match *content {
        Content::Encoded(bytes) => codec::write_encoded(decoded, &slot.bytes()[..bytes as usize], file),
        _ => {
            decoded.reduce_depth(slot.bytes_mut(), target);
            codec::encode(decoded, slot.bytes_mut(), target, scratch, cores, file)
        }
    }?;
    Ok(())
}

/// What all parts of a run share.
pub struct Run<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// What the devices do.
    pub order: Order,
    /// Where the pictures go after the devices.
    pub outlet: &'a dyn Outlet,
    /// The slots, the cores and the devices.
    pub machine: &'a Machine,
    /// How many pictures there are at most: no stage needs more threads.
    pub pictures: usize,
    /// Once asked, pictures that were handed over but not started are left.
    pub stop: &'a Stop,
    /// Ends the run early when a device that the user insists on cannot be used.
    pub required: RequiredDevices,
    /// Where all events are sent.
    pub events: &'a Events,
}

/// Turns a panic into the failure of its picture, so that the thread survives for other pictures. Buffers that a panic leaves half filled
/// are cleared by the next picture.
fn contained<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    let text = |panic: Box<dyn Any + Send>| PictureError::Bug(codec::panic_message(&*panic).to_owned());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text(panic)))
}

/// The decoders' two queues.
#[derive(Clone)]
struct Queues {
    fresh: Receiver<Vec<QueuedJob>>,
    redo: Receiver<QueuedJob>,
}

impl Queues {
    /// Returns the next work, or `None` when all pictures are done.
    fn next(&mut self) -> Option<Vec<QueuedJob>> {
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

/// The entrance of the pipeline. As long as it exists, the decoders wait for work.
struct Intake {
    fresh: Sender<Vec<QueuedJob>>,
    redo: Sender<QueuedJob>,
}

impl Intake {
    /// Queues a batch of jobs for the decoders; blocks while the queue is full.
    fn give(&self, batch: Vec<Job>) {
        let work = |job| QueuedJob { job, attempts: Attempts::default(), redo: self.redo.clone() };
        // The queue is closed only if the decoders panicked; that panic then ends the run.
        let _ = self.fresh.send(batch.into_iter().map(work).collect());
    }
}

impl Run<'_> {
    /// Returns what the devices are started with.
    fn context(&self) -> Context<'_> {
        let &Self { settings, machine, pictures, ref required, events, .. } = self;
        let Machine { pool, cores, devices } = machine;
        Context { settings, pictures, pool, cores, devices, required, events }
    }

    /// Runs the pipeline, from the jobs to the outlet. The first batch is requested only after every stage has started.
    ///
    /// # Errors
    /// Any failure of the run as a whole; failures of single pictures are told as events.
    pub fn process(&self, batches: impl Iterator<Item = Vec<Job>>) -> Result<(), Error> {
        self.outlet.check()?;
        let devices = &self.machine.devices;
        // The listener waits for the last sender, and the devices hold some: they have to be dropped however this function ends.
        let _ending = devices.until_dropped();
        let meter = Meter::start();
        // Unbounded, but never longer than the number of slots: every task in it holds one.
        let (equalized, finished) = crossbeam_channel::unbounded();
        thread::scope(|scope| {
            let fed = device::start(scope, self.context(), &equalized).and_then(|()| {
                self.start_encoders(scope, &finished)?;
                let (intake, decoders) = self.start_decoders(scope)?;
                batches.take_while(|_| !self.stop.asked()).for_each(|batch| intake.give(batch));
                drop(intake);
                Ok(decoders.into_iter().filter_map(|decoder| decoder.join().err()).next())
            });
            devices.close();
            drop(equalized);
            // A decoder's panic is resumed only after every waiting thread has been told that no more work will come: the scope joins them.
            fed.map(|panicked| panicked.map_or((), |panic| resume_unwind(panic)))
        })?;
        self.events.tell(Event::Load(self.machine.load(&meter, self.settings.threads, PUBLISHERS)));
        self.required.failure().map_or(Ok(()), Err)
    }

    /// Starts the decode threads, which end when the intake is dropped and all its work is done.
    fn start_decoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(Intake, Vec<ScopedJoinHandle<'scope, ()>>), Error> {
        let threads = self.settings.threads.min(self.pictures);
        let (fresh, fresh_work) = bounded(threads);
        // Unbounded, because a device that sends work back must not wait for the decoders, which may be waiting for its slots. The entries
        // are small: work that is sent back holds no slot.
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

    /// Starts the encode and publish threads, which end after the devices.
    fn start_encoders<'scope>(
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
        let (mut buffer, mut courtesy) = (Vec::new(), Niceness::default());
        for mut work in iter::from_fn(|| queues.next()).flatten() {
            if self.stop.asked() && !work.was_started() {
                self.outlet.miss(&work.job);
                continue;
            }
            let mut clock = Clock::start();
            let loaded = contained(|| self.load(&mut work, &mut buffer, &mut clock));
            if buffer.capacity() > load::OWN_BUFFER {
                // A panic left it, and what was held for it no longer counts.
                buffer = Vec::new();
            }
            match loaded {
                Ok(Loaded { slots, content, decoded, bytes_in, has_holes }) => {
                    courtesy.lower_for(content);
                    let picture = Picture { decoded, work, bytes_in, has_holes, clock };
                    self.submit(slots, content, Box::new(picture));
                }
                Err(error) => self.fail(work.job, error),
            }
        }
    }

    fn submit(&self, slots: Slots, content: Content, picture: Box<Picture>) {
        let Slots { whole, planes } = slots;
        if planes.is_empty() {
            return self.machine.devices.submit(Task::whole(whole, content, self.order, picture));
        }
        task::split(picture, self.order, whole, planes, self.settings.threads)
            .for_each(|task| self.machine.devices.submit(task));
    }

    fn encode_all<'p>(&'p self, equalized: &Receiver<Task>, publishers: &Sender<Written<'p>>) {
        let (mut scratch, mut courtesy) = (Vec::new(), Niceness::default());
        for mut finished in equalized.iter().filter_map(Task::finish) {
            courtesy.lower_for(finished.content);
            finished.picture.clock.mark(Stage::Queue);
            if self.stop.aborted() && !self.settings.watch {
                self.outlet.miss(&finished.picture.work.job);
                continue;
            }
            let working = self.machine.cores.work();
            let remark = finished.remark();
            let taken = contained(|| self.outlet.take(&mut finished, &mut scratch, &self.machine.cores));
            drop(working);
            // The scratch buffer counts towards the memory bound only while its picture has a slot.
            if scratch.capacity() > SCRATCH_KEPT {
                scratch = Vec::new();
            }
            let Processed { slot, content, picture, devices, .. } = finished;
            if let (Content::Encoded(_), Err(PictureError::Codec(CodecError::Encoder { .. }))) =
                (content, &taken)
            {
                drop(slot);
                // What the device encoded is not a valid picture; the CPU does it instead.
                picture.redo(|attempts| attempts.declined = true);
                continue;
            }
            let Picture { decoded, work, bytes_in, has_holes, mut clock } = *picture;
            clock.mark(Stage::Encode);
            let remarks = match &taken {
                Ok(Some(_)) => {
                    let of_format = decoded.remarks(&self.settings.target).into_iter().map(Remark::Codec);
                    let holes = has_holes.then_some(Remark::WithHoles);
                    of_format.chain(remark).chain(holes).collect()
                }
                _ => Vec::new(),
            };
            let pixels = decoded.layout.pixels();
            // Its metadata count as long as the slot is taken.
            drop(decoded);
            drop(slot);
            match taken {
                Ok(output) => {
                    let device = self.machine.devices.names(&devices);
                    let taken = Written { output, job: work.job, pixels, bytes_in, device, remarks, clock };
                    self.pass_on(taken, publishers);
                }
                Err(error) => self.fail(work.job, error),
            }
        }
    }

    /// Leaves waiting for the disk to the publishers; a rename alone is done sooner than handed over.
    fn pass_on<'p>(&'p self, taken: Written<'p>, publishers: &Sender<Written<'p>>) {
        match (&taken.output, self.settings.durability) {
            (None, _) | (_, Durability::Fast) => self.publish(taken),
            // The queue is closed only if the publishers panicked; that panic then ends the run.
            (Some(_), Durability::Full) => drop(publishers.send(taken)),
        }
    }

    fn publish(&self, taken: Written<'_>) {
        let Written { output, job, pixels, bytes_in, device, remarks, mut clock } = taken;
        clock.mark(Stage::Queue);
        if !job.is_unchanged() {
            return self.fail(job, PictureError::Changed);
        }
        match output.map_or(Ok(0), Pending::publish) {
            Ok(bytes_out) => {
                let Job { input, output, remakes, .. } = job;
                clock.mark(Stage::Publish);
                for remark in remarks {
                    self.events.tell(Event::Remarked { input: input.clone(), remark });
                }
                if remakes {
                    self.events.tell(Event::Remade { input: input.clone() });
                }
                let times = clock.times();
                self.events.tell(Event::Done { input, output, pixels, bytes_in, bytes_out, device, times });
            }
            Err(error) => self.fail(job, error.into()),
        }
    }

    fn fail(&self, job: Job, error: PictureError) {
        // A service waits until outputs can be written again.
        if error.affects_all_outputs() && !self.settings.watch {
            self.stop.abort();
        }
        self.outlet.miss(&job);
        self.events.tell(Event::failure(job, error));
    }
}
