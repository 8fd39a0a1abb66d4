//! The worker process, which computes on one GPU (in tests, on the CPU).
//!
//! It maps the main process's slots and equalizes the pictures in them. A GPU may have several
//! workers, one for pixels and others for JPEGs.
//!
//! A worker is histeqd itself, started again with a hidden subcommand and with its end of the
//! socket as standard input. It ends when the socket closes, so no worker outlives the main
//! process.

mod faults;
mod jpeg;
mod mapped;
mod offload;
mod pixels;
pub mod protocol;

use std::collections::HashMap;
use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Instant;

use crossbeam_channel::Sender;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use crate::error::{Error, Exit};
use crate::fs::files;
use crate::progress::trace;
use crate::slot::SlotId;
pub use faults::{Faults, MakeFaults, NoFaults};
use jpeg::{LentJpeg, Waiting};
use lanes::{Checked, Engine, EngineError, Unit, open};
use mapped::Mapped;
use offload::LentOffload;
use pixels::{LaneContext, Lent};
use protocol::{Channel, FromWorker, ToWorker, shorten};

/// The program of workers: this one, even if its file has been replaced since it was started.
pub const PROGRAM: &str = "/proc/self/exe";

/// The environment variable with the list of GPUs that CUDA shows.
pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The arguments with which the program lists the GPUs instead of working.
pub const LIST_ARGS: [&str; 2] = ["worker", "--list"];

/// Additional lanes of a worker for pixels, for the work that threads of the main process wait for.
///
/// nvJPEG2000 keeps a GPU busy with this many pictures of 4 MP at once.
pub(super) const OFFLOAD_LANES: usize = 16;

/// The arguments of a worker.
#[derive(Clone, Debug)]
pub struct WorkerArgs {
    /// The unit that the worker computes on.
    pub unit: Unit,
    /// The number of its lanes.
    pub lanes: usize,
    /// The GPU's UUID, by which it is found even if the GPUs have other indexes by then.
    ///
    /// `None` to go by the index.
    pub uuid: Option<String>,
    /// Whether it only recodes JPEGs (decodes, equalizes and encodes them).
    pub is_for_jpegs: bool,
}

/// A worker process as the main process sees it.
pub struct Process {
    /// The process.
    pub child: Child,
    /// The main process's end of the channel.
    pub channel: Channel,
    /// When it was started.
    pub started: Instant,
}

impl WorkerArgs {
    /// Returns the device's name for messages.
    pub fn name(&self) -> String {
        let unit = match self.unit {
            Unit::Gpu(ordinal) => format!("gpu{ordinal}"),
            Unit::Cpu(number) => format!("cpu-worker{number}"),
        };
        if self.is_for_jpegs { format!("{unit}-jpeg") } else { unit }
    }

    /// Starts the worker process; `life` is the number of workers that the device has had before.
    ///
    /// # Errors
    /// If the system cannot create the socket or the process.
    pub fn spawn(&self, life: u32) -> io::Result<Process> {
        let (channel, theirs) = Channel::pair()?;
        let started = Instant::now();
        let child = Command::new(PROGRAM)
            .arg0(format!("histeqd-{}", self.name()))
            .args(self.to_command_line(life))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .process_group(0)
            .envs(self.visible(life).map(|gpu| (VISIBLE, gpu)))
            .spawn()?;
        Ok(Process { child, channel, started })
    }

    /// Returns the GPU that a worker is to see; `None` for the same GPUs as this process.
    ///
    /// CUDA need not start the others then: each takes it a third of a second. A worker that is
    /// started after another sees all, because its GPU may have another index by then.
    fn visible(&self, life: u32) -> Option<String> {
        let Unit::Gpu(ordinal) = self.unit else { return None };
        match env::var(VISIBLE) {
            _ if life > 0 => None,
            Err(env::VarError::NotPresent) => Some(ordinal.to_string()),
            Ok(all) => all.split(',').nth(ordinal as usize).map(|name| name.trim().to_owned()),
            Err(env::VarError::NotUnicode(_)) => None,
        }
    }

    fn to_command_line(&self, life: u32) -> Vec<String> {
        let (kind, number) = match self.unit {
            Unit::Gpu(ordinal) => ("--gpu", ordinal),
            Unit::Cpu(number) => ("--cpu", number),
        };
        let (number, lanes, life) = (number.to_string(), self.lanes.to_string(), life.to_string());
        let mut line = vec!["worker", kind, &number, "--lanes", &lanes, "--life", &life];
        line.extend(self.uuid.iter().flat_map(|uuid| ["--uuid", uuid]));
        line.extend(self.is_for_jpegs.then_some("--jpeg"));
        line.into_iter().map(str::to_owned).collect()
    }
}

/// Kills a process, and has a thread wait for its end, which may take the driver forever.
pub fn abandon(mut child: Child) {
    // This can only fail if it has already ended.
    let _ = child.kill();
    // Without a thread, the process stays listed until this one ends.
    let _ = thread::Builder::new().name("abandoned".to_owned()).spawn(move || child.wait());
}

/// Runs `histeqd worker`, the process number `life` of its device.
///
/// # Errors
/// If a requested fault is malformed, or standard input is not the socket of a main process.
pub fn main(args: &WorkerArgs, life: u32, faults: MakeFaults) -> Result<Exit, Error> {
    rename();
    trace::start(false)?;
    let faults = faults(life).map_err(Error::Usage)?;
    run(args, faults.as_ref()).map_err(|error| Error::CannotRun(format!("worker: {error}")))?;
    Ok(Exit::Done)
}

/// Returns the output of `histeqd worker --list`: the GPUs as JSON, or why there are none.
pub fn list() -> String {
    rename();
    serde_json::to_string(&lanes::list()).expect("a list of GPUs is JSON") + "\n"
}

/// Names this process, which was started via /proc/self/exe and would be listed as `exe`.
///
/// Failing to does no harm.
fn rename() {
    let _ = rustix::thread::set_name(c"histeqd-worker");
}

/// Runs a worker until its main process closes the socket, which is this process's standard input.
fn run(args: &WorkerArgs, faults: &dyn Faults) -> io::Result<()> {
    end_with_parent()?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let opened = faults
        .refuse()
        .and_then(|()| ignore_signals())
        .and_then(|()| open(located(args.unit, args.uuid.as_deref())?, None));
    match opened {
        Ok(engine) => work(&channel, engine.as_ref(), args, faults),
        Err(error) => channel.send(&FromWorker::Refused(shorten(error.to_string())), None),
    }
}

/// Returns the unit with the present index of its GPU.
fn located(unit: Unit, uuid: Option<&str>) -> Result<Unit, EngineError> {
    match (unit, uuid) {
        (Unit::Gpu(usual), uuid) => lanes::locate(uuid, usual).map(Unit::Gpu),
        (Unit::Cpu(_), _) => Ok(unit),
    }
}

/// Leaves signals to the main process, which ends its workers in order.
///
/// A signal to the whole process group or service is meant for the main process.
fn ignore_signals() -> Result<(), EngineError> {
    ctrlc::set_handler(|| ()).map_err(|error| EngineError(format!("it cannot handle signals: {error}")))
}

/// Has the kernel kill this process when its parent dies.
///
/// A closed socket ends only a worker that is waiting for messages; this also ends one that hangs
/// in the driver.
fn end_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

fn work(channel: &Channel, engine: &dyn Engine, args: &WorkerArgs, faults: &dyn Faults) -> io::Result<()> {
    let (lanes, is_for_jpegs) = (args.lanes, args.is_for_jpegs);
    let (sender, receiver) = crossbeam_channel::unbounded();
    let (offloads, lent_offloads) = crossbeam_channel::unbounded();
    let jpegs = Waiting::default();
    let (made, lanes_made) = crossbeam_channel::bounded(lanes);
    let checked = Checked::default();
    let context = LaneContext { engine, channel, faults, checked: &checked };
    thread::scope(|scope| {
        for number in 0..lanes {
            let (receiver, made, jpegs) = (receiver.clone(), made.clone(), &jpegs);
            start_lane(channel, scope, format!("lane-{number}"), move || match is_for_jpegs {
                false => context.run_lane(&receiver, &made),
                true => context.run_jpeg_lane(jpegs, &made),
            });
        }
        for number in 0..if is_for_jpegs { 0 } else { OFFLOAD_LANES } {
            let lent = lent_offloads.clone();
            let run = move || context.run_offload_lane(&lent);
            start_lane(channel, scope, format!("offload-{number}"), run);
        }
        // The first lane for JPEGs is enough to begin with.
        let awaited = if is_for_jpegs { 1 } else { lanes };
        for result in lanes_made.iter().take(awaited) {
            if let Err(error) = result {
                refuse(channel, &error.to_string());
            }
        }
        channel.send(&FromWorker::Ready(engine.info()), None)?;
        if lanes > awaited {
            // Without a thread, the missing lanes are not reported.
            let _ = thread::Builder::new().name("missing-lanes".to_owned()).spawn_scoped(scope, move || {
                report_missing(channel, lanes_made.iter().take(lanes - awaited));
            });
        }
        // The main process has ended or is done, or sent an unintelligible message: the pictures
        // still in the lanes are not waited for.
        let queues = Queues { lanes: sender, offloads, jpegs: &jpegs };
        std::process::exit(listen(channel, engine, &queues).is_err().into())
    })
}

/// Starts the thread of a lane, without which the worker refuses to work.
fn start_lane<'scope>(
    channel: &Channel,
    scope: &'scope Scope<'scope, '_>,
    name: String,
    run: impl FnOnce() + Send + 'scope,
) {
    if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, run) {
        refuse(channel, &format!("a thread cannot be started: {error}"));
    }
}

/// The queues of loans that wait for a lane.
struct Queues<'w> {
    lanes: Sender<Lent>,
    offloads: Sender<LentOffload>,
    jpegs: &'w Waiting,
}

/// Reports the lanes that could not be created. The others do the work.
fn report_missing(channel: &Channel, made: impl Iterator<Item = Result<(), EngineError>>) {
    for error in made.filter_map(Result::err) {
        // If the main process is gone, the note is not needed.
        let note = format!("it works with fewer lanes, because one cannot be made: {error}");
        let _ = channel.send(&FromWorker::Note(shorten(note)), None);
    }
}

/// Reports why this process cannot work, and ends it.
///
/// Lanes that are waiting already cannot be joined.
fn refuse(channel: &Channel, why: &str) -> ! {
    // If the main process is gone, the reason is not needed.
    let _ = channel.send(&FromWorker::Refused(shorten(why.to_owned())), None);
    std::process::exit(1)
}

/// Handles messages until the main process closes the socket.
fn listen(channel: &Channel, engine: &dyn Engine, queues: &Queues<'_>) -> io::Result<()> {
    let Queues { lanes, offloads, jpegs } = queues;
    let without_lanes = || io::Error::other("the lanes are gone");
    let mut slots: HashMap<SlotId, Arc<Mutex<Mapped>>> = HashMap::new();
    let without_memory = || io::Error::other("a slot without memory");
    let let_go = |slots: &mut HashMap<SlotId, Arc<Mutex<Mapped>>>, slot| {
        if let Some(memory) = slots.remove(&slot) {
            memory.lock().unwrap_or_else(PoisonError::into_inner).unpin(engine);
        }
    };
    while let Some((message, fd)) = channel.receive()? {
        match message {
            ToWorker::Map { slot, bytes, generation } => {
                let_go(&mut slots, slot);
                match map(fd, bytes, generation) {
                    Ok(memory) => slots.insert(slot, Arc::new(Mutex::new(memory))),
                    Err(error) => fail(channel, Some(slot), &error),
                };
            }
            ToWorker::Unmap { slot } => let_go(&mut slots, slot),
            ToWorker::Work { slot, layout, byte_orders, order } => {
                let memory = slots.get(&slot).ok_or_else(without_memory)?;
                let memory = Arc::clone(memory);
                let lent = Lent { slot, memory, layout, byte_orders, order };
                lanes.send(lent).map_err(|_| without_lanes())?;
            }
            ToWorker::Recode { slot, jpeg, order } => {
                let memory = Arc::clone(slots.get(&slot).ok_or_else(without_memory)?);
                jpegs.push(LentJpeg { slot, memory, jpeg, order });
            }
            ToWorker::Offload { slot, offload } => {
                let memory = Arc::clone(slots.get(&slot).ok_or_else(without_memory)?);
                let lent = LentOffload { slot, memory, offload };
                offloads.send(lent).map_err(|_| without_lanes())?;
            }
        }
    }
    Ok(())
}

/// Maps a slot's memory.
fn map(fd: Option<OwnedFd>, bytes: u64, generation: u64) -> Result<Mapped, EngineError> {
    let without = || {
        // The kernel drops a descriptor for which the process has no room.
        let remedy = files::remedy(&Errno::MFILE.into()).unwrap_or_default();
        EngineError(format!("a slot arrived without its file descriptor; {remedy}"))
    };
    Mapped::new(fd.ok_or_else(without)?, bytes, generation)
}

/// Reports a device failure and ends the process.
fn fail(channel: &Channel, slot: Option<SlotId>, error: &EngineError) -> ! {
    let _ = channel.send(&FromWorker::Failed { slot, reason: shorten(error.to_string()) }, None);
    die()
}

/// Ends the process at once.
///
/// An orderly exit would run CUDA's own clean-up, which can hang after an error, and which makes
/// the other lanes fail while they can still report it.
fn die() -> ! {
    // This cannot fail: a process may always signal itself.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        thread::park();
    }
}
