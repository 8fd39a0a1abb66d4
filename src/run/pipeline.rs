//! The stages between the source and the output tree, in the order of a picture's way: decode,
//! equalize on a device, encode, publish.
//!
//! A [`Job`] is queued for the decoders; decoded, it is a [`Picture`] with its pixels in slots;
//! each slot is a [`Task`] for a device; when all its devices are done, the picture is
//! [`Processed`]; once the outlet has encoded it, it is `EncodedPicture`, and is published. Only a
//! job that its device failed, declined or encoded badly goes back, to be decoded again. Every
//! queued job holds a sender of the queue that leads back: this queue closes by itself after the
//! last picture.

mod bands;
mod check;
mod inspect;
mod load;
mod masks;
mod niceness;
mod outlet;
mod passes;
mod queue;
mod second_pass;
mod stacks;

use std::iter;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use tracing::trace_span;

use crate::config::{DeflateChoice, Durability, Settings};
use crate::device::machine::Machine;
use crate::device::offload::DeviceCoder;
use crate::device::task::{self, Content, Done, Page, Pass, Picture, Processed, QueuedJob, Task};
use crate::device::{self, Context};
use crate::error::{Error, PictureError};
use crate::picture::preview::{Shown, Sides};
use crate::picture::remark::Remark;
use crate::progress::timings::{Clock, Load, Stage, thread_time};
use crate::progress::{Event, Events};
use crate::publish::{Pending, Published};
use crate::run::together::Groups;
use crate::slot::Slots;
use crate::source::stop::Stop;
use crate::source::{Job, Remake, Workload};
pub use bands::WaitingBands;
use codec::coders::{Help, StreamCoder};
use codec::{self, CodecError};
use lanes::Order;
use load::{Loaded, Loader, divided_by};
use niceness::Niceness;
pub use outlet::{Encoder, Outlet};
use queue::{Intake, Queues};
use second_pass::equalize_boxes;
pub use stacks::Taken;

/// Threads that wait for the disk, instead of encoders. More gained nothing on a fast disk; a slow
/// one commits the writes of several waiting threads at once.
pub const PUBLISHERS: usize = 4;

/// Bytes of capacity that an encoder's scratch buffer may keep from one picture to the next.
const SCRATCH_KEPT: usize = 4 << 20;

/// A picture that an outlet has taken. Its output, if it has one, is written but not yet synced and
/// renamed.
struct EncodedPicture<'a> {
    output: Option<Box<Pending<'a>>>,
    job: Job,
    bytes_in: u64,
    done: Done,
    clock: Clock,
}

/// The purpose of a run, for pictures that each have settings of their own.
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

/// The state that all parts of a run share.
pub struct Run<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// The purpose of the run.
    pub purpose: Purpose,
    /// The pictures that have LUTs in common.
    pub groups: Groups,
    /// The bands that wait for others of their pictures.
    pub waiting: WaitingBands,
    /// The destination of the pictures after the devices.
    pub outlet: &'a dyn Outlet,
    /// The slots, the cores and the devices.
    pub machine: &'a Machine,
    /// The amount of work.
    pub workload: Workload,
    /// After a stop request, pictures that were handed over but not started are left.
    pub stop: &'a Stop,
    /// Where all events are sent.
    pub events: &'a Events,
}

/// Turns a panic into the failure of its picture; the thread survives for other pictures. Buffers
/// that a panic leaves half filled are cleared by the next picture.
fn contained<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(PictureError::Bug(codec::panic_message(&*panic).to_owned())))
}

impl<'a> Run<'a> {
    /// Creates a run that equalizes the pictures it is given.
    pub fn new(
        settings: &'a Settings,
        outlet: &'a dyn Outlet,
        machine: &'a Machine,
        stop: &'a Stop,
        events: &'a Events,
    ) -> Self {
        let (purpose, groups, waiting) = (Purpose::Equalize, Groups::default(), WaitingBands::default());
        let workload = Workload::ENDLESS;
        Self { settings, purpose, groups, waiting, outlet, machine, workload, stop, events }
    }

    /// Starts the devices, processes the jobs, and ends the devices.
    ///
    /// # Errors
    /// Any failure of the run as a whole; failures of single pictures are sent as events.
    pub fn process(&self, batches: impl Iterator<Item = Vec<Job>>) -> Result<(), Error> {
        let &Self { settings, workload, machine, stop, events, .. } = self;
        let context = Context { settings, workload, machine, stop, events };
        let load = device::while_started(context, || self.feed(batches))?;
        events.send(Event::Load(Load { publishers: self.outlet.publishers(), ..load }));
        Ok(())
    }

    /// Processes the jobs on devices that are started. The first batch is requested only after
    /// every stage has started.
    ///
    /// # Errors
    /// As for [`Run::process`].
    pub fn feed(&self, batches: impl Iterator<Item = Vec<Job>>) -> Result<(), Error> {
        thread::scope(|scope| {
            // Unbounded, but never longer than the number of slots: every task in it holds one.
            let (equalized, finished) = crossbeam_channel::unbounded();
            self.start_encoders(scope, &finished)?;
            let (intake, decoders) = self.start_decoders(scope, &equalized)?;
            batches.take_while(|_| !self.stop.asked()).for_each(|batch| {
                intake.give(batch, |job| self.basis(&job.settings).first_pass(self.purpose));
            });
            if self.stop.asked() {
                self.abandon_groups();
            }
            drop(intake);
            let panicked = decoders.into_iter().filter_map(|decoder| decoder.join().err()).next();
            // By now all threads know that no more work will come, and can be joined after a panic
            // too.
            drop(equalized);
            panicked.map_or(Ok(()), |panic| resume_unwind(panic))
        })
    }

    /// Starts the decode threads, which end when the intake is dropped and all its work is done.
    fn start_decoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        equalized: &Sender<Task>,
    ) -> Result<(Intake, Vec<ScopedJoinHandle<'scope, ()>>), Error> {
        let threads = self.workload.occupies(self.settings.threads);
        let (fresh, fresh_work) = bounded(threads);
        // Unbounded, because a device that sends work back must not wait for the decoders, which
        // may be waiting for its slots. The entries are small: work that is sent back holds no
        // slot.
        let (redo, redo_work) = crossbeam_channel::unbounded();
        let queues = Queues { fresh: fresh_work, redo: redo_work };
        let handles = (0..threads).map(|number| {
            let (queues, equalized) = (queues.clone(), equalized.clone());
            Builder::new()
                .name(format!("decode-{number}"))
                .spawn_scoped(scope, move || self.decode_all(queues, &equalized))
                .map_err(Error::thread)
        });
        Ok((Intake { fresh, redo }, handles.collect::<Result<_, _>>()?))
    }

    fn decode_all(&self, mut queues: Queues, equalized: &Sender<Task>) {
        let (mut buffer, mut courtesy) = (Vec::new(), Niceness::default());
        for work in iter::from_fn(|| queues.next()).flatten() {
            if self.stop.asked() && !work.was_started() {
                self.miss(&work);
            } else if !work.is_over() {
                self.decode(work, &mut buffer, &mut courtesy, equalized);
            }
        }
        self.machine.waits.add_decoder();
    }

    /// Decodes a picture and gives it to a device.
    fn decode(
        &self,
        mut work: QueuedJob,
        buffer: &mut Vec<u8>,
        courtesy: &mut Niceness,
        equalized: &Sender<Task>,
    ) {
        let (mut clock, before) = (Clock::start(), thread_time());
        let settings = Arc::clone(&work.job.settings);
        let order = self.order_of(&settings, &work.pass, divided_by(&work));
        let loader = Loader { run: self, settings: &settings, order, divided: divided_by(&work) };
        let loaded = contained(|| loader.load(&mut work, buffer, &mut clock));
        work.let_go_of_input();
        if buffer.capacity() > load::OWN_BUFFER {
            // A panic left it, and the memory reserved for it no longer counts.
            *buffer = Vec::new();
        }
        match loaded {
            Ok(loaded) => {
                let way = loaded.way();
                let Loaded { slots, content, class, decoded, file } = loaded;
                let order = self
                    .order_of(&settings, &work.pass, divided_by(&work))
                    .with_levels(decoded.levels())
                    .of_frames(decoded.frames() as u32);
                courtesy.lower_for(content, self.machine.devices.have_workers());
                clock.took(thread_time() - before);
                let picture = Box::new(Picture { decoded, work, file, class, way, clock });
                self.submit(slots, content, order, picture, equalized);
            }
            Err(error) => self.fail_work(work, error),
        }
    }

    fn submit(
        &self,
        slots: Slots,
        content: Content,
        order: Order,
        picture: Box<Picture>,
        equalized: &Sender<Task>,
    ) {
        let Slots { whole, planes } = slots;
        let devices = &self.machine.devices;
        if planes.is_empty() {
            return devices.submit(Task::whole(whole, content, order, picture, equalized));
        }
        task::split(picture, order, whole, planes, self.settings.threads, equalized)
            .for_each(|task| devices.submit(task));
    }

    /// Starts the encode and publish threads, which end when no task is left that could come from a
    /// device.
    fn start_encoders<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        equalized: &Receiver<Task>,
    ) -> Result<(), Error> {
        let (publishers, to_publish) = bounded(PUBLISHERS);
        for number in 0..self.workload.occupies(self.settings.threads) {
            let (equalized, publishers) = (equalized.clone(), publishers.clone());
            Builder::new()
                .name(format!("encode-{number}"))
                .spawn_scoped(scope, move || self.encode_all(&equalized, &publishers))
                .map_err(Error::thread)?;
        }
        for number in 0..self.workload.occupies(self.outlet.publishers()) {
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
            let work = &finished.picture.work;
            if self.stop.aborted() && !self.settings.never_ends {
                self.miss(work);
            } else if work.is_over() {
                // Its file has failed, which is reported.
            } else if matches!(work.pass, Pass::FindLevels(_) | Pass::Survey | Pass::Count) {
                self.count(finished);
            } else if let Some(encoded) = self.encode(finished, &mut scratch) {
                self.pass_on(encoded, publishers);
            }
        }
        self.machine.waits.add_encoder();
    }

    /// Passes the result of a device to the outlet; returns it if it completes a file, and did not
    /// fail.
    fn encode(&self, mut finished: Processed, scratch: &mut Vec<u8>) -> Option<EncodedPicture<'_>> {
        let working = self.machine.cores.work();
        let before = thread_time();
        equalize_boxes(&mut finished);
        self.equalize_band(&mut finished);
        let (remark, after) = (finished.remark(), finished.after());
        let pixels = finished.picture.decoded.layout.pixels();
        let span = trace_span!("encode").entered();
        let (attempts, job) = (finished.picture.work.attempts.clone(), finished.picture.work.job.clone());
        let device = DeviceCoder::new(self.machine, &attempts, &job.input);
        // Its streams differ from the CPU's, with the same samples.
        let coder = (self.settings.deflate == DeflateChoice::Auto).then_some(&device as &dyn StreamCoder);
        let help = Help { cores: &self.machine.cores, coder };
        let taken = contained(|| self.outlet.take(&mut finished, scratch, help));
        drop((span, working));
        // The scratch buffer counts towards the memory bound only while its picture has a slot.
        if scratch.capacity() > SCRATCH_KEPT {
            *scratch = Vec::new();
        }
        if let (Content::Encoded(_), Err(PictureError::Codec(CodecError::Encoder { .. }))) =
            (finished.content, &taken)
        {
            // The device encoded an invalid picture; the CPU processes it instead.
            finished.redo();
            return None;
        }
        let (passed, processor) = (finished.picture.clock.mark(Stage::Encode), thread_time() - before);
        finished.picture.clock.took(processor);
        self.machine.waits.add_encoding(passed.saturating_sub(processor + device.waited()));
        self.close_picture(finished, pixels, remark, after, taken)
    }

    /// Gives back the slot of a picture that the outlet has taken, and adds up the report on it, or
    /// on the file that it is a page of.
    fn close_picture<'p>(
        &self,
        finished: Processed,
        pixels: u64,
        remark: Option<Remark>,
        after: Option<Box<Shown>>,
        taken: Result<Taken<'p>, PictureError>,
    ) -> Option<EncodedPicture<'p>> {
        let remarks = match &taken {
            Ok(Taken::Whole(Some(_)) | Taken::Page) if self.purpose == Purpose::Equalize => {
                finished.picture.remarks(remark)
            }
            _ => Vec::new(),
        };
        let inner_range = finished.picture.decoded.inner_range();
        let Processed { slot, picture, devices, content, .. } = finished;
        let Picture { decoded, mut work, file, class, way, clock } = *picture;
        // The frames of an animation may have been separated.
        let bytes = pixels * decoded.layout.pixel_bytes() as u64;
        self.machine.rates.add(class, way, bytes, clock.processor());
        if let Content::Encoded(_) = content {
            self.machine.rates.add_decoded(bytes);
        }
        // Its metadata counts as long as the slot is taken.
        drop(decoded);
        drop(slot);
        let sides = Sides { before: work.before.take(), after };
        let mut done = Done { pixels, devices, remarks, inner_range, times: clock.times(), sides };
        if let Some(page) = &work.page {
            page.stack.add(mem::take(&mut done));
            if matches!(taken, Ok(Taken::Whole(_))) {
                done = page.stack.all();
            }
            if page.stack.is_over() {
                self.outlet.give_up(&page.stack);
            }
        }
        match taken {
            Ok(Taken::Page) => {
                if let Some(page) = &work.page {
                    self.report_part(&work.job, page, pixels);
                }
                None
            }
            Ok(Taken::Whole(output)) => {
                let clock = Clock::resume(done.times);
                Some(EncodedPicture { output, job: work.job, bytes_in: file.bytes, done, clock })
            }
            Err(error) => {
                self.fail_work(work, error);
                None
            }
        }
    }

    /// Reports that a page of this many pixels has completed a pass.
    fn report_part(&self, job: &Job, page: &Page, pixels: u64) {
        let completed = page.stack.completed();
        let passes = completed.all / page.stack.pages.len();
        let pixels = pixels / passes as u64;
        self.events.send(Event::Part { input: job.input.clone(), pixels, completed });
    }

    /// Leaves waiting for the disk or the network to the publishers; a rename alone is done sooner
    /// than handed over.
    fn pass_on<'p>(&'p self, taken: EncodedPicture<'p>, publishers: &Sender<EncodedPicture<'p>>) {
        match (taken.output.as_deref(), self.settings.durability) {
            (None, _) | (Some(Pending::File(_) | Pending::Stream(_)), Durability::Fast) => {
                self.publish(taken);
            }
            // The queue is closed only if the publishers panicked; that panic then ends the run.
            (Some(_), _) => drop(publishers.send(taken)),
        }
    }

    fn publish(&self, taken: EncodedPicture<'_>) {
        let EncodedPicture { output, job, bytes_in, done, mut clock } = taken;
        clock.mark(Stage::Queue);
        let _span = trace_span!("publish").entered();
        if !job.is_unchanged() {
            return self.fail(job, PictureError::Changed);
        }
        let folder = output.as_deref().and_then(Pending::folder);
        match output.map_or_else(|| Ok(Published::default()), |output| output.publish()) {
            Ok(Published { bytes: bytes_out, replaces_another }) => {
                for (input, error) in self.outlet.copy_sidecars(&job) {
                    self.events.send(Event::Failed { input, error, planned: false });
                }
                let Job { input, output, remakes, .. } = job;
                let output = folder.unwrap_or(output);
                clock.mark(Stage::Publish);
                for remark in done.remarks {
                    let range = done.inner_range.filter(|_| remark.recommends_range());
                    self.events.send(Event::Remarked { input: input.clone(), remark, range });
                }
                if let Some(remake) = remakes.or_else(|| replaces_another.then(Remake::default)) {
                    self.events.send(Event::Remade { input: input.clone(), remake });
                }
                let (pixels, times, sides) = (done.pixels, clock.times(), done.sides);
                let device = self.machine.devices.names(&done.devices);
                self.events.send(Event::Done {
                    input,
                    output,
                    pixels,
                    bytes_in,
                    bytes_out,
                    device,
                    times,
                    sides,
                });
            }
            Err(error) => self.fail(job, error.into()),
        }
    }

    /// Reports that a picture, or the file that it is a page of, failed, unless that is given up
    /// already.
    fn fail_work(&self, work: QueuedJob, error: PictureError) {
        if !self.give_up(&work) {
            return;
        }
        self.go_on_without(&work, false);
        let numbered = work.page.filter(|page| page.stack.pages.are_numbered());
        self.fail(work.job, if let Some(page) = numbered { error.on_page(page.picture()) } else { error });
    }

    /// Leaves out a picture, or the file that it is a page of.
    fn miss(&self, work: &QueuedJob) {
        if self.give_up(work) {
            self.go_on_without(work, true);
            self.outlet.miss(&work.job);
        }
    }

    /// Gives up the file of a page before the failure is reported: pages that are being counted are
    /// then dropped, and do not wait for the others. Returns whether that is new, as it is for a
    /// picture without pages.
    fn give_up(&self, work: &QueuedJob) -> bool {
        let Some(page) = &work.page else { return true };
        let is_news = page.stack.give_up();
        self.waiting.forget(&page.stack);
        self.outlet.give_up(&page.stack);
        is_news
    }

    fn fail(&self, job: Job, error: PictureError) {
        // A service waits until outputs can be written again.
        if error.affects_all_outputs() && !self.settings.never_ends {
            self.stop.abort();
        }
        self.outlet.miss(&job);
        self.events.send(Event::failure(job, error));
    }
}
