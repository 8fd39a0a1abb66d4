use super::*;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crossbeam_channel::Receiver;

use crate::device::task::{Content, InputFile, Pass, Picture, QueuedJob};
use crate::device::worker::protocol::ToWorker;
use crate::progress::timings::Clock;
use crate::slot::Slot;
use crate::slot::device_state::DeviceUse;
use crate::slot::rates::Class;
use crate::slot::schedule::Attempts;
use crate::source::Job;
use codec::{Cores, Limits};
use lanes::{Order, Unit};

/// An idle program in the place of a worker.
fn idle() -> (Process, Channel) {
    let (channel, theirs) = Channel::pair().unwrap();
    let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    (Process { child, channel, started: Instant::now() }, theirs)
}

/// A device of one slot with this worker, in a pool that has the CPU too.
fn device(early: Option<Process>, memory: u64) -> WorkerDevice {
    let pool = Arc::new(SlotPool::new(memory));
    pool.join_cpu(1);
    let (release, released) = crossbeam_channel::unbounded();
    let id = pool.join_worker(1, Box::new(move |slot| release.send(slot).unwrap()));
    WorkerDevice {
        name: "worker".into(),
        id,
        args: WorkerArgs { unit: Unit::Cpu(0), lanes: 1, uuid: None, is_for_jpegs: false },
        timeout: Duration::from_secs(60),
        idle: None,
        for_good: true,
        start: Start::Now,
        early: Mutex::new(early),
        pool,
        link: Link::new(released),
        events: Events::queue(100).0,
        required: RequiredDevices::default(),
    }
}

/// Takes the slot of the device, not of the CPU.
fn slot_of(device: &WorkerDevice, bytes: u64) -> Slot {
    device.pool.up(device.id);
    let attempts = Attempts { failed_on: vec![0], ..Attempts::default() };
    device.pool.take(bytes, 0, 0, &attempts).unwrap()
}

/// A task of four gray pixels.
///
/// Also returns where its picture goes to be decoded again, and where the finished task goes.
fn task(slot: Slot) -> (Task, Receiver<QueuedJob>, Receiver<Task>) {
    let mut content = tempfile::tempfile().unwrap();
    content.write_all(b"P5 2 2 255\n0123").unwrap();
    std::io::Seek::rewind(&mut content).unwrap();
    let (mut buffer, mut pixels) = (Vec::new(), [0; 64]);
    let (job, limits) = (Job::for_tests("in/a.pgm", 15), Limits { max_pixels: 99, max_bytes: 99 });
    let opened = codec::open(&mut content, &mut buffer, &limits, &job.settings.target).unwrap();
    let class = Class::new(opened.format(), &opened.layout());
    let decoded = opened.decode(&mut pixels, Vec::new(), &Cores::none()).unwrap();
    let (redo, again) = crossbeam_channel::unbounded();
    let work =
        QueuedJob { job, page: None, pass: Pass::Only, attempts: Attempts::default(), before: None, redo };
    let clock = Clock::start();
    let file = InputFile { bytes: 15, has_holes: false };
    let picture = Picture { decoded, work, file, class, way: None, clock };
    let (equalized, finished) = crossbeam_channel::unbounded();
    let order = Order::Count { equalize: None };
    (Task::whole(slot, Content::Pixels, order, Box::new(picture), &equalized), again, finished)
}

#[test]
fn a_worker_that_is_not_needed_any_more_leaves_no_process() {
    let (process, theirs) = idle();
    let own = Path::new("/proc").join(process.child.id().to_string());
    let device = Arc::new(device(Some(process), 1 << 20));
    std::thread::scope(|scope| {
        Arc::clone(&device).supervise_in(scope).unwrap();
        theirs.send(&FromWorker::Ready(None), None).unwrap();
        while !device.state().up {
            std::thread::sleep(TICK);
        }
        assert!(own.exists());
        device.close();
    });
    let waited = Instant::now();
    while own.exists() {
        assert!(waited.elapsed() < START_DEADLINE, "it is dead, and still listed");
        std::thread::sleep(TICK);
    }
}

#[test]
fn a_slot_gives_up_its_memory_while_its_worker_is_waited_for() {
    const MEMORY: u64 = 16 << 20;
    let device = device(None, MEMORY);
    drop(slot_of(&device, MEMORY / 2));
    // As a thread does that waits for room in the worker's socket.
    let sending = device.link.lock();
    let (tell, told) = crossbeam_channel::bounded(1);
    let pool = Arc::clone(&device.pool);
    std::thread::spawn(move || {
        let attempts = Attempts { failed_on: vec![1], ..Attempts::default() };
        tell.send(pool.take(MEMORY, 0, 0, &attempts).is_ok()).unwrap();
    });
    assert_eq!(told.recv_timeout(START_DEADLINE), Ok(true));
    drop(sending);
    assert_eq!(device.link.released.try_iter().collect::<Vec<SlotId>>(), [0]);
}

#[test]
fn a_worker_is_told_of_released_memory_once_if_it_had_that() {
    let (ours, theirs) = Channel::pair().unwrap();
    let mut worker = Worker::new(ours);
    worker.mapped.insert(3, 9);
    let (release, released) = crossbeam_channel::unbounded();
    [2, 3, 3].iter().for_each(|&slot| release.send(slot).unwrap());
    worker.unmap(&released);
    drop(worker);
    let told = std::iter::from_fn(|| theirs.receive::<ToWorker>().unwrap());
    let told: Vec<_> = told.map(|(message, _)| format!("{message:?}")).collect();
    assert_eq!(told, ["Unmap { slot: 3 }"]);
}

#[test]
fn a_device_is_full_if_more_is_lent_to_it_than_it_has_lanes() {
    let (process, _theirs) = idle();
    let mut device = device(None, 1 << 20);
    device.args.lanes = 0;
    let used = |device: &WorkerDevice| {
        let before = device.state().in_use.unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let DeviceUse { ready, busy, full } = device.state().in_use.unwrap();
        [ready > before.ready, busy > before.busy, full > before.full]
    };
    device.begin(&process.channel).ok().unwrap();
    assert_eq!(used(&device), [false; 3]);
    device.ready(None, process.started);
    assert_eq!(used(&device), [true, false, false]);
    let (task, again, _finished) = task(slot_of(&device, 4));
    device.submit(task);
    assert_eq!(used(&device), [true; 3]);
    device.args.lanes = 1;
    device.link.lock().note_use(1);
    assert_eq!(used(&device), [true, true, false]);
    device.leave_alone();
    device.reclaim();
    assert_eq!((used(&device), again.len()), ([false; 3], 1));
    let mut process = process;
    process.child.kill().unwrap();
    process.child.wait().unwrap();
}

#[test]
fn a_slot_of_which_the_worker_says_what_cannot_be_is_nobody_elses_until_it_is_dead() {
    let (process, _theirs) = idle();
    let device = device(None, 1 << 20);
    device.begin(&process.channel).ok().unwrap();
    device.ready(None, process.started);
    let slot = slot_of(&device, 4);
    let (task, again, finished) = task(slot);
    device.submit(task);
    let answer = device.done(0, Some(3));
    assert!(matches!(answer, Err(End::Failed(why)) if why.contains("something else with slot 0")));
    assert_eq!(device.pool.slots()[device.id].taken, 1, "it may still write there");
    assert!(again.is_empty() && finished.is_empty());
    device.reclaim();
    assert_eq!(device.pool.slots()[device.id].taken, 0);
    assert_eq!(again.try_recv().unwrap().attempts.failed_on, [device.id]);
    let mut process = process;
    process.child.kill().unwrap();
    process.child.wait().unwrap();
}
