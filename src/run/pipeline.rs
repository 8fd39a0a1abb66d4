//! The stages between the source and the output tree, in the order of a picture's way: decode, equalize on a device, encode, publish.
//!
//! A [`Job`] is queued for the decoders; decoded, it is a [`Picture`] whose pixels are in slots; each slot is a [`Task`] for a device; when all
//! its devices are done, the picture is [`Processed`]; once the outlet has encoded it, it is `EncodedPicture`, and is published. Only a job whose
//! device failed, declined it or encoded it badly goes back, to be decoded again. Every queued job holds a sender of the queue that leads back,
//! so this queue closes by itself after the last picture.

mod inspect;
mod load;
mod masks;
mod niceness;
mod outlet;
mod queue;
mod second_pass;
mod stacks;

use std::any::Any;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::config::{Durability, Settings};
use crate::device::machine::Machine;
use crate::device::task::{self, Content, Done, Pass, Picture, Processed, QueuedJob, Task};
use crate::device::{self, Context, RequiredDevices};
use crate::error::{Error, PictureError};
use crate::picture::remark::Remark;
use crate::progress::timings::{Clock, Meter, Stage, thread_time};
use crate::progress::{Event, Events};
use crate::publish::Pending;
use crate::run::together::Groups;
use crate::slot::Slots;
use crate::source::Job;
use crate::source::stop::Stop;
use codec::{self, CodecError};
use lanes::Order;
use load::{Loaded, Loader};
use niceness::Niceness;
pub use outlet::{Outlet, OutputBucket, OutputFolder, StandardOutput};
use queue::{Intake, Queues};
pub use stacks::Taken;

/// Threads that wait for the disk, so that encoders need not. More gained nothing on a fast disk; a slow one commits what several of them
/// wait for at once.
pub const PUBLISHERS: usize = 4;

/// Bytes of capacity that an encoder's scratch buffer may keep from one picture to the next.
const SCRATCH_KEPT: usize = 4 << 20;

/// A picture that an outlet has taken. Its output, if it has one, is written but not yet synced and renamed.
struct EncodedPicture<'a> {
    output: Option<Pending<'a>>,
    job: Job,
    pixels: u64,
    bytes_in: u64,
    device: Arc<str>,
    remarks: Vec<Remark>,
    clock: Clock,
}

/// What a run does with its pictures, each as its own settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They are equalized.
    Equalize,
    /// They are counted.
    Count {
        /// Whether they are then equalized, and counted again.
        equalized: bool,
    },
}

/// What all parts of a run share.
pub struct Run<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// What pictures are for.
    pub purpose: Purpose,
    /// The pictures that have LUTs in common.
    pub groups: &'a Groups,
    /// Where the pictures go after the devices.
    pub outlet: &'a dyn Outlet,
    /// The slots, the cores and the devices.
    pub machine: &'a Machine,
    /// How many pictures there are at most.
    pub pictures: usize,
    /// Whether any of them may have several pages.
    pub have_pages: bool,
    /// How many bytes the JPEGs among them have at most, judging by their names.
    pub jpeg_bytes: u64,
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

impl Run<'_> {
    /// Returns how many threads each stage needs at most.
    fn threads(&self) -> usize {
        let threads = self.settings.threads;
        if self.have_pages { threads } else { threads.min(self.pictures) }
    }

    /// Returns how many threads wait for outputs to appear.
    fn publishers(&self) -> usize {
        let most = self.outlet.publishers();
        if self.have_pages { most } else { most.min(self.pictures) }
    }

    /// Returns what the devices are started with.
    fn context(&self) -> Context<'_> {
        let &Self { settings, machine, pictures, jpeg_bytes, ref required, events, .. } = self;
        let Machine { pool, cores, rates, devices } = machine;
        let threads = self.threads();
        Context { settings, pictures, threads, jpeg_bytes, pool, cores, rates, devices, required, events }
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
                let first_pass = |job: &Job| self.first_pass(&job.settings);
                batches.take_while(|_| !self.stop.asked()).for_each(|batch| intake.give(batch, first_pass));
                if self.stop.asked() {
                    self.abandon_groups();
                }
                drop(intake);
                Ok(decoders.into_iter().filter_map(|decoder| decoder.join().err()).next())
            });
            devices.close();
            drop(equalized);
            // A decoder's panic is resumed only after every waiting thread has been told that no more work will come: the scope joins them.
            fed.map(|panicked| panicked.map_or((), |panic| resume_unwind(panic)))
        })?;
        self.events.tell(Event::Load(self.machine.load(
            &meter,
            self.settings.threads,
            self.outlet.publishers(),
        )));
        self.required.failure().map_or(Ok(()), Err)
    }

    /// Starts the decode threads, which end when the intake is dropped and all its work is done.
    fn start_decoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(Intake, Vec<ScopedJoinHandle<'scope, ()>>), Error> {
        let threads = self.threads();
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

    fn decode_all(&self, mut queues: Queues) {
        let (mut buffer, mut courtesy) = (Vec::new(), Niceness::default());
        for mut work in iter::from_fn(|| queues.next()).flatten() {
            if self.stop.asked() && !work.was_started() {
                self.miss(&work);
                continue;
            }
            if work.page.as_ref().is_some_and(|page| page.stack.is_over()) {
                continue;
            }
            let (mut clock, before) = (Clock::start(), thread_time());
            let settings = Arc::clone(&work.job.settings);
            let order = self.order_of(&settings, &work.pass);
            let loader = Loader { run: self, settings: &settings, order };
            let loaded = contained(|| loader.load(&mut work, &mut buffer, &mut clock));
            work.let_go_of_input();
            if buffer.capacity() > load::OWN_BUFFER {
                // A panic left it, and what was held for it no longer counts.
                buffer = Vec::new();
            }
            match loaded {
                Ok(loaded) => {
                    let way = loaded.way();
                    let Loaded { slots, content, class, decoded, bytes_in, has_holes } = loaded;
                    let order = self.order_of(&settings, &work.pass).with_levels(decoded.levels());
                    courtesy.lower_for(content, self.machine.devices.have_workers());
                    clock.took(thread_time() - before);
                    let picture = Picture { decoded, work, bytes_in, has_holes, class, way, clock };
                    self.submit(slots, content, order, Box::new(picture));
                }
                Err(error) => self.fail_work(work, error),
            }
        }
    }

    fn submit(&self, slots: Slots, content: Content, order: Order, picture: Box<Picture>) {
        let Slots { whole, planes } = slots;
        if planes.is_empty() {
            return self.machine.devices.submit(Task::whole(whole, content, order, picture));
        }
        task::split(picture, order, whole, planes, self.settings.threads)
            .for_each(|task| self.machine.devices.submit(task));
    }

    /// Starts the encode and publish threads, which end after the devices.
    fn start_encoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        equalized: &Receiver<Task>,
    ) -> Result<(), Error> {
        let (publishers, to_publish) = bounded(PUBLISHERS);
        for number in 0..self.threads() {
            let (equalized, publishers) = (equalized.clone(), publishers.clone());
            Builder::new()
                .name(format!("encode-{number}"))
                .spawn_scoped(scope, move || self.encode_all(&equalized, &publishers))
                .map_err(Error::thread)?;
        }
        for number in 0..self.publishers() {
            let to_publish = to_publish.clone();
            Builder::new()
                .name(format!("publish-{number}"))
                .spawn_scoped(scope, move || to_publish.iter().for_each(|taken| self.publish(taken)))
                .map_err(Error::thread)?;
        }
        Ok(())
    }

    fn encode_all<'p>(&'p self, equalized: &Receiver<Task>, publishers: &Sender<EncodedPicture<'p>>) {
        let (mut scratch, mut courtesy) = (Vec::new(), Niceness::default());
        for mut finished in equalized.iter().filter_map(Task::finish) {
            courtesy.lower_for(finished.content, self.machine.devices.have_workers());
            finished.picture.clock.mark(Stage::Queue);
            if self.stop.aborted() && !self.settings.never_ends {
                self.miss(&finished.picture.work);
                continue;
            }
            if finished.picture.work.page.as_ref().is_some_and(|page| page.stack.is_over()) {
                continue;
            }
            if matches!(finished.picture.work.pass, Pass::Count) {
                self.count(finished);
                continue;
            }
            let working = self.machine.cores.work();
            let before = thread_time();
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
            let Picture { decoded, work, bytes_in, has_holes, class, way, mut clock } = *picture;
            clock.mark(Stage::Encode);
            clock.took(thread_time() - before);
            let remarks = match &taken {
                Ok(Taken::Whole(Some(_)) | Taken::Page) => {
                    let of_format = decoded.remarks(&work.job.settings.target).into_iter().map(Remark::Codec);
                    let holes = has_holes.then_some(Remark::WithHoles);
                    let folder = work.job.settings.is_of_folder.then_some(Remark::FolderSettings);
                    of_format.chain(remark).chain(holes).chain(folder).collect()
                }
                _ => Vec::new(),
            };
            let pixels = decoded.layout.pixels();
            self.machine.rates.add(class, way, decoded.layout.bytes(), clock.processor());
            // Its metadata count as long as the slot is taken.
            drop(decoded);
            drop(slot);
            let mut done = Done { pixels, devices, remarks, times: clock.times() };
            if let Some(page) = &work.page {
                done = page.stack.add(done);
                if page.stack.is_over() {
                    self.outlet.give_up(&page.stack);
                }
            }
            match taken {
                Ok(Taken::Page) => {}
                Ok(Taken::Whole(output)) => {
                    let Done { pixels, devices, remarks, times } = done;
                    let device = self.machine.devices.names(&devices);
                    let (job, clock) = (work.job, Clock::resume(times));
                    let taken = EncodedPicture { output, job, pixels, bytes_in, device, remarks, clock };
                    self.pass_on(taken, publishers);
                }
                Err(error) => self.fail_work(work, error),
            }
        }
    }

    /// Leaves waiting for the disk or the network to the publishers; a rename alone is done sooner than handed over.
    fn pass_on<'p>(&'p self, taken: EncodedPicture<'p>, publishers: &Sender<EncodedPicture<'p>>) {
        match (&taken.output, self.settings.durability) {
            (None, _) | (Some(Pending::File(_) | Pending::Stream(_)), Durability::Fast) => {
                self.publish(taken);
            }
            // The queue is closed only if the publishers panicked; that panic then ends the run.
            (Some(_), _) => drop(publishers.send(taken)),
        }
    }

    fn publish(&self, taken: EncodedPicture<'_>) {
        let EncodedPicture { output, job, pixels, bytes_in, device, remarks, mut clock } = taken;
        clock.mark(Stage::Queue);
        if !job.is_unchanged() {
            return self.fail(job, PictureError::Changed);
        }
        let folder = output.as_ref().and_then(Pending::folder);
        match output.map_or(Ok(0), Pending::publish) {
            Ok(bytes_out) => {
                let Job { input, output, remakes, .. } = job;
                let output = folder.unwrap_or(output);
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

    /// Tells that a picture failed, or the file whose page it is, unless that has been told.
    fn fail_work(&self, work: QueuedJob, error: PictureError) {
        self.go_on_without(&work, false);
        let QueuedJob { job, page, .. } = work;
        match page {
            None => self.fail(job, error),
            Some(page) => {
                if page.stack.give_up() {
                    self.fail(job, error.on_page(page.index));
                }
                self.outlet.give_up(&page.stack);
            }
        }
    }

    /// Leaves a picture out, or the file whose page it is.
    fn miss(&self, work: &QueuedJob) {
        if let Some(page) = &work.page {
            let is_news = page.stack.give_up();
            self.outlet.give_up(&page.stack);
            if !is_news {
                return;
            }
        }
        self.go_on_without(work, true);
        self.outlet.miss(&work.job);
    }

    fn fail(&self, job: Job, error: PictureError) {
        // A service waits until outputs can be written again.
        if error.affects_all_outputs() && !self.settings.never_ends {
            self.stop.abort();
        }
        self.outlet.miss(&job);
        self.events.tell(Event::failure(job, error));
    }
}
