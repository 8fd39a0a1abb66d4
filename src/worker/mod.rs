//! The worker process: computes on one GPU (in tests, on the CPU), maps the main process's slots and equalizes the pictures in them. A GPU
//! may have several workers, one for pixels and others for JPEGs.
//!
//! A worker is histeqd itself, started again with a hidden subcommand and with its end of the socket as standard input. It ends when the
//! socket closes, so no worker outlives the main process.

mod check;
mod cpu;
pub(crate) mod cuda;
mod desk;
pub mod fault;
mod gpu;
mod jpeg;
pub(crate) mod kernels;
mod lane;
mod nvjpeg;
mod nvjpeg_lane;
mod pixels;
pub mod protocol;
mod resident;
mod scan_check;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use crate::cli::WorkerCommand;
use crate::device::GpuInfo;
use crate::error::{Error, Exit};
use crate::files;
use crate::order::Order;
use crate::slot::{Memory, SlotId};
use check::Checked;
use codec::CompressedJpeg;
use cpu::CpuEngine;
pub(crate) use cpu::CpuLane;
use equalize::Layout;
use equalize::Operation;
use fault::{Fault, Faults};
use jpeg::{LentJpeg, Waiting};
use pixels::{LaneContext, Lent};
use protocol::{Channel, FromWorker, ToWorker, shorten};

/// The program that workers run: this one, even if its file has been replaced since it was started.
pub const PROGRAM: &str = "/proc/self/exe";

/// The arguments with which it lists the GPUs instead of working.
pub const LIST_ARGS: [&str; 2] = ["worker", "--list"];

/// What a worker computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The GPU with this index in CUDA's order.
    Gpu(u32),
    /// The CPU; the number tells several such workers apart.
    Cpu(u32),
}

/// How a worker is started.
#[derive(Clone, Debug)]
pub struct WorkerArgs {
    /// What the worker computes on.
    pub unit: Unit,
    /// The number of lanes it runs.
    pub lanes: usize,
    /// The GPU's UUID, by which it is found even if the GPUs have other indexes by then; `None` to go by the index.
    pub uuid: Option<String>,
    /// For a worker that only recodes JPEGs (decodes, equalizes and encodes them): a number that tells such workers of a unit apart.
    pub jpeg: Option<u32>,
}

impl WorkerArgs {
    /// Returns the device's name for messages.
    pub fn name(&self) -> String {
        let unit = match self.unit {
            Unit::Gpu(ordinal) => format!("gpu{ordinal}"),
            Unit::Cpu(number) => format!("cpu-worker{number}"),
        };
        self.jpeg.map_or(unit.clone(), |number| format!("{unit}-jpeg{number}"))
    }

    /// Starts the worker process and returns it with the main process's end of the channel; `life` is the number of workers that the device
    /// has had before.
    ///
    /// # Errors
    /// If the system cannot create the socket or the process.
    pub fn spawn(&self, life: u32) -> io::Result<(Child, Channel)> {
        let (ours, theirs) = Channel::pair()?;
        let child = Command::new(PROGRAM)
            .arg0(format!("histeqd-{}", self.name()))
            .args(self.to_command_line(life))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok((child, ours))
    }

    fn to_command_line(&self, life: u32) -> Vec<String> {
        let (kind, number) = match self.unit {
            Unit::Gpu(ordinal) => ("--gpu", ordinal),
            Unit::Cpu(number) => ("--cpu", number),
        };
        let (number, lanes, life) = (number.to_string(), self.lanes.to_string(), life.to_string());
        let mut line = vec!["worker", kind, &number, "--lanes", &lanes, "--life", &life];
        line.extend(self.uuid.iter().flat_map(|uuid| ["--uuid", uuid]));
        line.extend(self.jpeg.map(|_| "--jpeg"));
        line.into_iter().map(str::to_owned).collect()
    }
}

/// A failure of the device, as the worker sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Why a lane did not complete a picture.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The picture is left to others, for this reason.
    #[error("{0}")]
    Decline(String),
    /// The picture is left to others, because there is not enough memory for it.
    #[error("it does not fit into the GPU's memory")]
    Full,
    /// The device failed; the worker must end.
    #[error(transparent)]
    Device(#[from] EngineError),
}

/// A worker's backend: opened once, then shared by its lanes.
pub trait Engine: Send + Sync {
    /// Returns what is known about the GPU; `None` for the CPU.
    fn info(&self) -> Option<GpuInfo>;

    /// Prepares memory for fast transfers, before any lane sees it. The memory must stay mapped until it is unpinned.
    ///
    /// # Errors
    /// If the device refuses the memory.
    fn pin(&self, memory: &mut Memory) -> Result<(), EngineError>;

    /// Undoes [`Engine::pin`].
    fn unpin(&self, memory: &mut Memory);

    /// Creates a lane, to be used on the calling thread only.
    ///
    /// # Errors
    /// If the device has no room for it.
    fn lane(&self) -> Result<Box<dyn Lane + '_>, EngineError>;

    /// Creates a JPEG lane, to be used on the calling thread only.
    ///
    /// # Errors
    /// If this backend cannot decode JPEGs, or the device has no room for the lane.
    fn jpeg_lane(&self) -> Result<Box<dyn JpegLane + '_>, EngineError>;
}

/// What equalizes pictures on a device, one after the other.
pub trait Lane {
    /// Equalizes the pixels in place; returns once they can be read.
    ///
    /// # Errors
    /// [`LaneError`]. The pixels of a declined picture are unchanged; after a device failure they are undefined.
    fn equalize(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        operation: &Operation,
    ) -> Result<(), LaneError>;

    /// Counts all planes of the pixels into `counts`, as [`equalize::count::count`] does.
    ///
    /// # Errors
    /// [`LaneError`]; the counts are then undefined.
    fn count(&mut self, pixels: &[u8], layout: &Layout, counts: &mut [u64]) -> Result<(), LaneError>;

    /// Equalizes the luma of a JPEG and encodes it. The first `planes` bytes of the slot are the JPEG's planes, followed by its file; they
    /// are encoded the way that file was, and the slot then begins with the result. If only the encoding is declined, luma is equalized and
    /// nothing else changes.
    ///
    /// # Errors
    /// [`LaneError`]; the slot is then undefined.
    fn encode(
        &mut self,
        slot: &mut [u8],
        planes: u64,
        jpeg: &CompressedJpeg,
        operation: &Operation,
    ) -> Result<Recoded, LaneError> {
        debug_assert!(planes >= jpeg.layout.bytes());
        self.equalize(&mut slot[..jpeg.layout.bytes() as usize], &jpeg.layout, operation)?;
        Ok(Recoded::Declined("this worker has no encoder".to_owned()))
    }

    /// Makes the GPU fail, to test what happens to its pictures.
    ///
    /// # Errors
    /// Always.
    fn trap(&mut self) -> Result<(), EngineError> {
        no_trap()
    }

    /// Carries out an order on the bytes of a slot.
    ///
    /// # Errors
    /// [`LaneError`]; the bytes are then undefined.
    fn carry_out(&mut self, slot: &mut [u8], layout: &Layout, order: &Order) -> Result<(), LaneError> {
        let (pixels, counts) = order.parts(slot, layout);
        match order {
            Order::Equalize(operation) => self.equalize(pixels, layout, operation),
            Order::Count { equalize: None } => self.count(pixels, layout, counts),
            Order::Count { equalize: Some(operation) } => {
                let (before, after) = counts.split_at_mut(counts.len() / 2);
                self.count(pixels, layout, before)?;
                self.equalize(pixels, layout, operation)?;
                self.count(pixels, layout, after)
            }
        }
    }
}

fn no_trap() -> Result<(), EngineError> {
    Err(EngineError("only a GPU can trap".to_owned()))
}

/// What recodes JPEGs on a device, a batch after the other.
pub trait JpegLane {
    /// Decodes, equalizes and encodes a batch, each picture in its slot; returns once the slots can be read. Pictures that the lane does
    /// not take are declined.
    ///
    /// # Errors
    /// If the device fails; the slots are then undefined and the worker must end.
    fn recode(&mut self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError>;

    /// As [`Lane::trap`].
    ///
    /// # Errors
    /// Always.
    fn trap(&mut self) -> Result<(), EngineError> {
        no_trap()
    }
}

/// The most pictures that a JPEG lane takes at a time.
pub const JPEG_BATCH: usize = 8;

/// A JPEG that a lane is recoding.
pub struct Recoding<'m> {
    /// Its slot: holds the file, and in the end the result.
    pub slot: &'m mut [u8],
    /// What is known about the file.
    pub jpeg: CompressedJpeg,
    /// How to equalize it.
    pub operation: Operation,
    /// What became of it.
    pub answer: Recoded,
}

impl Recoding<'_> {
    fn decline(&mut self, reason: &str) {
        self.answer = Recoded::Declined(reason.to_owned());
    }

    /// Returns the bytes of the file; `None` if it claims to be longer than the slot.
    fn file(&self) -> Option<&[u8]> {
        self.slot.get(..usize::try_from(self.jpeg.bytes).ok()?)
    }
}

/// What became of a JPEG.
pub enum Recoded {
    /// The slot begins with the result, which has this many bytes.
    Encoded(u64),
    /// It is left to the CPU, for this reason; empty for damaged data, because the CPU reports the damage itself.
    Declined(String),
}

/// Runs `histeqd worker`.
///
/// # Errors
/// If the requested fault is malformed, or standard input is not the socket of a main process.
pub fn main(command: &WorkerCommand) -> Result<Exit, Error> {
    // Started via /proc/self/exe, the process would be listed as `exe`. Failing to rename it does no harm.
    let _ = rustix::thread::set_name(c"histeqd-worker");
    let unit = match (command.list, command.gpu, command.cpu) {
        (true, ..) => return list(),
        (false, Some(ordinal), _) => Unit::Gpu(ordinal),
        (false, None, number) => Unit::Cpu(number.unwrap_or_default()),
    };
    let fault = Fault::from_environment(command.life).map_err(Error::Usage)?;
    run(unit, command, fault).map_err(|error| Error::CannotRun(format!("worker: {error}")))?;
    Ok(Exit::Done)
}

fn list() -> Result<Exit, Error> {
    let list = serde_json::to_string(&gpu::list()).expect("a list of GPUs is JSON");
    println!("{list}");
    Ok(Exit::Done)
}

/// Runs a worker until its main process closes the socket, which is this process's standard input.
fn run(unit: Unit, command: &WorkerCommand, fault: Option<Fault>) -> io::Result<()> {
    end_with_parent()?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let opened = match fault {
        Some(fault) if fault.refuses(command.life) => Err(EngineError("a test asked for this".to_owned())),
        _ => ignore_signals().and_then(|()| open(located(unit, command.uuid.as_deref())?, None)),
    };
    match opened {
        Ok(engine) => work(&channel, engine.as_ref(), command, fault),
        Err(error) => channel.send(&FromWorker::Refused(shorten(error.to_string())), None),
    }
}

/// Returns the unit with the index that its GPU has now.
fn located(unit: Unit, uuid: Option<&str>) -> Result<Unit, EngineError> {
    match (unit, uuid) {
        (Unit::Gpu(usual), Some(uuid)) => gpu::locate(uuid, usual).map(Unit::Gpu),
        _ => Ok(unit),
    }
}

/// Leaves signals to the main process, which ends its workers in order: one to the whole process group or service is meant for it.
fn ignore_signals() -> Result<(), EngineError> {
    ctrlc::set_handler(|| ()).map_err(|error| EngineError(format!("it cannot handle signals: {error}")))
}

/// Opens a unit for this process, which should then do nothing else: what a failing GPU does to a process cannot be undone. `lane_memory`:
/// the most bytes of GPU memory that one lane takes for pictures; by default a fair share of what is free.
///
/// # Errors
/// If there is no such unit, or it cannot be used.
pub fn open(unit: Unit, lane_memory: Option<u64>) -> Result<Box<dyn Engine>, EngineError> {
    match unit {
        Unit::Cpu(_) => Ok(Box::new(CpuEngine)),
        Unit::Gpu(ordinal) => Ok(Box::new(gpu::GpuEngine::open(ordinal, lane_memory)?)),
    }
}

/// Has the kernel kill this process when its parent dies. A closed socket ends only a worker that is waiting for messages; this also ends
/// one that hangs in the driver.
fn end_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

fn work(
    channel: &Channel,
    engine: &dyn Engine,
    &WorkerCommand { lanes, jpeg, .. }: &WorkerCommand,
    fault: Option<Fault>,
) -> io::Result<()> {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let jpegs = Waiting::default();
    let (made, lanes_made) = crossbeam_channel::bounded(lanes);
    let (faults, checked) = (Faults::new(fault), Checked::default());
    std::thread::scope(|scope| {
        for number in 0..lanes {
            let (receiver, made, jpegs) = (receiver.clone(), made.clone(), &jpegs);
            let context = LaneContext { engine, channel, faults: &faults, checked: &checked };
            let run = move || match jpeg {
                false => context.run_lane(&receiver, &made),
                true => context.run_jpeg_lane(jpegs, &made),
            };
            let started = std::thread::Builder::new().name(format!("lane-{number}")).spawn_scoped(scope, run);
            if let Err(error) = started {
                refuse(channel, &format!("a thread cannot be started: {error}"));
            }
        }
        // The driver creates nvJPEG decoders one after the other, and the first one is enough to begin with.
        let awaited = if jpeg { 1 } else { lanes };
        for result in lanes_made.iter().take(awaited) {
            if let Err(error) = result {
                refuse(channel, &error.to_string());
            }
        }
        channel.send(&FromWorker::Ready(engine.info()), None)?;
        if lanes > awaited {
            let tell = move || tell_of_missing(channel, lanes_made.iter().take(lanes - awaited));
            // Without a thread, nobody is told.
            let _ = std::thread::Builder::new().name("missing-lanes".to_owned()).spawn_scoped(scope, tell);
        }
        // The main process is gone or done, or sent something unintelligible: nobody waits for the pictures still in the lanes.
        std::process::exit(listen(channel, engine, &sender, &jpegs).is_err().into())
    })
}

/// Reports the lanes that could not be created. The others do the work.
fn tell_of_missing(channel: &Channel, made: impl Iterator<Item = Result<(), EngineError>>) {
    for error in made.filter_map(Result::err) {
        // If the main process is gone, nobody needs to know.
        let note = format!("it works with fewer lanes, because one cannot be made: {error}");
        let _ = channel.send(&FromWorker::Note(shorten(note)), None);
    }
}

/// Reports why this process cannot work, and ends it: lanes that are waiting already cannot be joined.
fn refuse(channel: &Channel, why: &str) -> ! {
    // If the main process is gone, nobody needs the reason.
    let _ = channel.send(&FromWorker::Refused(shorten(why.to_owned())), None);
    std::process::exit(1)
}

/// Handles messages until the main process closes the socket.
fn listen(channel: &Channel, engine: &dyn Engine, lanes: &Sender<Lent>, jpegs: &Waiting) -> io::Result<()> {
    let mut slots: HashMap<SlotId, Arc<Mutex<Memory>>> = HashMap::new();
    let without_memory = || io::Error::other("a slot without memory");
    let let_go = |slots: &mut HashMap<SlotId, Arc<Mutex<Memory>>>, slot| {
        if let Some(memory) = slots.remove(&slot) {
            engine.unpin(&mut memory.lock().unwrap_or_else(PoisonError::into_inner));
        }
    };
    while let Some((message, fd)) = channel.receive()? {
        match message {
            ToWorker::Map { slot, bytes, generation } => {
                let_go(&mut slots, slot);
                match map(fd, bytes, generation, engine) {
                    Ok(memory) => slots.insert(slot, Arc::new(Mutex::new(memory))),
                    Err(error) => fail(channel, Some(slot), &error),
                };
            }
            ToWorker::Unmap { slot } => let_go(&mut slots, slot),
            ToWorker::Work { slot, layout, order } => {
                let memory = slots.get(&slot).ok_or_else(without_memory)?;
                let lent = Lent { slot, memory: Arc::clone(memory), layout, order, encode: None };
                lanes.send(lent).map_err(|_| io::Error::other("the lanes are gone"))?;
            }
            ToWorker::Encode { slot, planes, jpeg, operation } => {
                let memory = Arc::clone(slots.get(&slot).ok_or_else(without_memory)?);
                let (layout, order, encode) = (jpeg.layout, Order::Equalize(operation), Some((jpeg, planes)));
                let lent = Lent { slot, memory, layout, order, encode };
                lanes.send(lent).map_err(|_| io::Error::other("the lanes are gone"))?;
            }
            ToWorker::Recode { slot, jpeg, operation } => {
                let memory = Arc::clone(slots.get(&slot).ok_or_else(without_memory)?);
                jpegs.push(LentJpeg { slot, memory, jpeg, operation });
            }
        }
    }
    Ok(())
}

/// Maps a slot's memory and pins it.
fn map(fd: Option<OwnedFd>, bytes: u64, generation: u64, engine: &dyn Engine) -> Result<Memory, EngineError> {
    let without = || {
        // The kernel drops a descriptor for which the process has no room.
        let remedy = files::remedy(&Errno::MFILE.into()).unwrap_or_default();
        EngineError(format!("a slot arrived without its file descriptor; {remedy}"))
    };
    let fd = fd.ok_or_else(without)?;
    let mut memory = Memory::from_fd(fd, bytes as usize, generation)
        .map_err(|error| EngineError(format!("a slot's memory cannot be mapped: {error}")))?;
    engine.pin(&mut memory)?;
    Ok(memory)
}

/// Reports a device failure and ends the process.
fn fail(channel: &Channel, slot: Option<SlotId>, error: &EngineError) -> ! {
    let _ = channel.send(&FromWorker::Failed { slot, reason: shorten(error.to_string()) }, None);
    die()
}

/// Ends the process at once. An orderly exit would run CUDA's own clean-up, which can hang after an error, and which makes the other lanes
/// fail while they can still report it.
fn die() -> ! {
    // This cannot fail: a process may always signal itself.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}
