//! `histeqd bench`: the throughput of this machine's buses and devices in a batch.
//!
//! Pictures are made once in pinned slots and sent repeatedly through real worker processes and
//! their lanes. This measures upload, kernels and download as in a batch, without files and codecs.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::BenchCommand;
use crate::device::worker::protocol::{Channel, FromWorker, ToWorker};
use crate::device::worker::{Process, WorkerArgs};
use crate::error::Error;
use crate::slot::{Memory, SlotId};
use equalize::{ByteOrders, Colour, Depth, Layout, Method, Operation, Pixel};
use lanes::{Order, Unit};

/// The work that is sent through the workers.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The layout of the pictures.
    pub layout: Layout,
    /// The operation that the lanes carry out.
    pub order: Order,
    /// The number of pictures that a worker has at a time.
    pub slots: u32,
    /// How long to measure.
    pub time: Duration,
}

/// The measured throughput.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    /// Pictures per second, all workers together.
    pub pictures: f64,
    /// Bytes of pixels per second from host memory to the devices and, if pictures are equalized,
    /// as many back.
    pub bytes: f64,
}

/// Runs `histeqd bench` and returns the text to print.
///
/// # Errors
/// When the command is invalid, and those of [`throughput`].
pub fn report(command: &BenchCommand) -> Result<String, Error> {
    let (layout, lanes_each) = (layout(command)?, command.lanes);
    let units: Vec<Unit> = match command.cpu_workers {
        Some(number) => (0..number).map(Unit::Cpu).collect(),
        None => command.gpus.iter().copied().map(Unit::Gpu).collect(),
    };
    let workers: Vec<WorkerArgs> = units
        .into_iter()
        .map(|unit| WorkerArgs { unit, lanes: lanes_each, uuid: None, is_for_jpegs: false })
        .collect();
    let order = match command.count {
        true => Order::Count { equalize: None },
        false => {
            let colour = if command.per_channel { Colour::PerChannel } else { Colour::Luma };
            Order::Equalize(Operation { colour, ..Operation::new(Method::Global) })
        }
    };
    let rate =
        throughput(&workers, &Workload { layout, order, slots: command.slots, time: command.seconds })?;
    let json = serde_json::to_string(&rate).expect("two numbers are JSON");
    Ok(json + "\n")
}

fn layout(command: &BenchCommand) -> Result<Layout, Error> {
    let (width, height) = size(&command.size)?;
    let pixel = if command.rgb { Pixel::Rgb } else { Pixel::Gray };
    let depth = if command.sixteen { Depth::Sixteen } else { Depth::Eight };
    Ok(Layout { width, height, pixel, depth })
}

/// Sends pictures through all workers at the same time, and measures how many come back.
///
/// # Errors
/// When a worker cannot be started or fails.
pub fn throughput(workers: &[WorkerArgs], work: &Workload) -> Result<Rate, Error> {
    let start = &Barrier::new(workers.len());
    let pictures: f64 = std::thread::scope(|scope| {
        let threads = workers.iter().map(|args| (args, scope.spawn(move || measure(args, work, start))));
        threads
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(args, thread)| (args, thread.join().expect("a measuring thread does not panic")))
            .map(|(args, rate)| rate.map_err(|error| Error::CannotRun(format!("{}: {error}", args.name()))))
            .sum::<Result<f64, _>>()
    })?;
    Ok(Rate { pictures, bytes: pictures * work.layout.bytes() as f64 })
}

/// Returns the pictures per second through one worker.
fn measure(args: &WorkerArgs, work: &Workload, start: &Barrier) -> io::Result<f64> {
    let begun = Worker::start(args, work);
    start.wait();
    let worker = begun?;
    let rate = worker.rounds(work);
    worker.end();
    rate
}

struct Worker {
    child: std::process::Child,
    channel: Channel,
    /// Kept so that the pages stay allocated.
    _slots: HashMap<SlotId, Memory>,
}

impl Worker {
    fn start(args: &WorkerArgs, work: &Workload) -> io::Result<Self> {
        let Process { child, channel, .. } = args.spawn(0)?;
        match answer(&channel)? {
            FromWorker::Ready(_) => {}
            other => return Err(unexpected(other)),
        }
        let mut slots = HashMap::new();
        for slot in 0..work.slots {
            let mut memory = Memory::shared(work.order.slot_bytes(&work.layout) as usize)?;
            memory.take_pages()?;
            fill(memory.bytes_mut(), slot);
            let (bytes, generation) = (memory.bytes().len() as u64, memory.generation);
            channel.send(&ToWorker::Map { slot, bytes, generation }, Some(memory.as_fd()))?;
            slots.insert(slot, memory);
        }
        let worker = Self { child, channel, _slots: slots };
        // The first round warms up: it maps, pins and allocates.
        (0..work.slots).try_for_each(|slot| worker.give(slot, work))?;
        (0..work.slots).try_for_each(|_| worker.take().map(drop))?;
        Ok(worker)
    }

    fn rounds(&self, work: &Workload) -> io::Result<f64> {
        let begin = Instant::now();
        (0..work.slots).try_for_each(|slot| self.give(slot, work))?;
        let mut done = 0u64;
        while begin.elapsed() < work.time {
            let slot = self.take()?;
            done += 1;
            self.give(slot, work)?;
        }
        let rate = done as f64 / begin.elapsed().as_secs_f64();
        (0..work.slots).try_for_each(|_| self.take().map(drop))?;
        Ok(rate)
    }

    fn give(&self, slot: SlotId, work: &Workload) -> io::Result<()> {
        let (layout, order) = (work.layout, work.order);
        let byte_orders = ByteOrders::NATIVE;
        self.channel.send(&ToWorker::Work { slot, layout, byte_orders, order }, None)
    }

    fn take(&self) -> io::Result<SlotId> {
        match answer(&self.channel)? {
            FromWorker::Done { slot, .. } => Ok(slot),
            other => Err(unexpected(other)),
        }
    }

    fn end(mut self) {
        self.channel.shut_down();
        // The worker holds no data worth waiting for: failures do not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(channel: &Channel) -> io::Result<FromWorker> {
    let message = channel.receive()?;
    message.map(|(message, _)| message).ok_or_else(|| io::Error::other("the worker ended"))
}

fn unexpected(message: FromWorker) -> io::Error {
    match message {
        FromWorker::Refused(reason)
        | FromWorker::Failed { reason, .. }
        | FromWorker::Declined { reason, .. } => io::Error::other(reason),
        _ => io::Error::other("the worker answered out of turn"),
    }
}

/// Fills a slot with noise over a ramp, so that its histogram is neither flat nor narrow, and
/// differs from slot to slot.
fn fill(bytes: &mut [u8], seed: u32) {
    let mut state = u64::from(seed) + 1;
    for (at, byte) in bytes.iter_mut().enumerate() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = ((state >> 58) as u8).wrapping_add((at >> 14) as u8 & 0x7F);
    }
}

/// Pixels of the largest picture to measure with. Many are held at a time, in several forms.
const MAX_PIXELS: u64 = 1 << 28;

/// Reads a size such as 4096x3072.
fn size(text: &str) -> Result<(u32, u32), Error> {
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .filter(|&(width, height): &(u32, u32)| width > 0 && height > 0)
        .ok_or_else(|| Error::Usage(format!("--size is WIDTHxHEIGHT, such as 4096x3072, not {text}")))?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        let most = MAX_PIXELS >> 20;
        return Err(Error::Usage(format!("--size {text} is too large: at most {most} x 2^20 pixels")));
    }
    Ok((width, height))
}
