//! A supervised worker process as a device. It contains no CUDA.
//!
//! After an error, a CUDA context and with it its process are unusable; a driver call may also
//! never return. Therefore a worker that fails, dies or overruns its deadline is killed; its
//! pictures are decoded again for another device, because its slots may be half written; and after
//! a pause a new worker is started. A single run gives up a device that keeps failing; a service
//! that is to run for months does not, but no picture waits for such a device. Both give up a
//! device with a worker that cannot even be killed.

mod answers;
mod health;
mod link;
mod process;
mod worker;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::required::RequiredDevices;
use super::{Context, Device};
use crate::config::Wait;
use crate::device::backoff::Backoff;
use crate::device::task::{OffloadTask, Task};
use crate::device::worker::protocol::{Channel, FromWorker};
use crate::device::worker::{Process, WorkerArgs, abandon};
use crate::fs::files::WithRemedy;
use crate::fs::paths::Shown;
use crate::progress::Events;
use crate::progress::timings::time_of_child;
use crate::slot::device_state::DeviceState;
use crate::slot::schedule::{DeviceId, slots_for_jpegs};
use crate::slot::{Kind, SlotId, SlotPool, Start};
use health::Health;
use link::Link;
use process::{describe, ended_within};
use worker::{Lent, Loan, Worker, readable};

/// The time limit for the start of a worker: a cold driver with eight GPUs needs seconds.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// The pauses before a worker is started again.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(600) };
/// The number of failures without a picture in between after which no picture waits for the device.
const MAX_FAILURES: u32 = 5;
/// A worker fails if it leaves this many pictures in a row, each decoded in vain, to other devices.
const MAX_DECLINED: u32 = 16;
/// A rate below that of any working bus or kernel. Deadlines allow it for everything queued.
const SLOWEST_BYTES_A_SECOND: u64 = 50_000_000;
/// The time limit for the end of a killed worker: the driver cleans up after it, and may hang too.
const END_DEADLINE: Duration = Duration::from_secs(30);
/// The interval of checks of deadlines.
const TICK: Duration = Duration::from_millis(100);
/// A longer turn of the supervisor's loop means that this process was stopped: it read no answers.
const STOPPED: Duration = Duration::from_secs(1);
/// The longest wait for room in a worker's socket. It holds up other devices and the main loop.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A device with lanes that are threads of a worker process, which is restarted when it fails.
///
/// A GPU that recodes JPEGs has several.
pub struct WorkerDevice {
    name: Arc<str>,
    id: DeviceId,
    args: WorkerArgs,
    timeout: Duration,
    /// The time without work after which its worker ends until work comes; `None` for never.
    idle: Option<Duration>,
    /// Whether it is given up if it keeps failing, instead of tried again after long pauses.
    for_good: bool,
    /// The condition for the start of its worker.
    start: Start,
    /// Its first worker, if that was started before the device was known to be used.
    early: Mutex<Option<Process>>,
    pool: Arc<SlotPool>,
    link: Link,
    events: Events,
    required: RequiredDevices,
}

/// The numbers of slots of a worker, apart from those for JPEGs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    /// For pixels.
    pub(super) pixels: usize,
    /// For codestreams that it decodes; 0 if it cannot.
    pub(super) codestreams: usize,
    /// For streams that it inflates or deflates; 0 if it cannot.
    pub(super) streams: usize,
}

/// The end of a worker's life.
enum End {
    /// No more tasks come.
    Closed,
    /// There is no work for it.
    Idle,
    /// It refused to work when it started.
    Refused(String),
    /// It failed.
    Failed(String),
    /// It was killed but did not end. It may still write into its slots, which stay in use.
    Lingers(String),
}

impl WorkerDevice {
    /// Adds the device to the pool.
    ///
    /// Its slots are handed out once it is supervised and its worker is ready. `early` is its
    /// worker, if that runs already. `required` decides whether the run can do without it.
    pub(super) fn new(
        args: WorkerArgs,
        slots: Slots,
        start: Start,
        early: Option<Process>,
        required: RequiredDevices,
        context: &Context<'_>,
    ) -> (DeviceId, Arc<Self>) {
        let pool = &context.machine.pool;
        let (release, released) = crossbeam_channel::unbounded();
        // Without the device, no worker has the slot mapped.
        let Slots { pixels, codestreams, streams } = slots;
        let id = pool.join_worker(pixels, Box::new(move |slot| release.send(slot).unwrap_or_default()));
        pool.add(id, codestreams, Kind::Codestream);
        pool.add(id, streams, Kind::Streams);
        if args.is_for_jpegs {
            pool.add(id, slots_for_jpegs(context.settings.threads), Kind::Compressed);
        }
        let device = Self {
            name: args.name().into(),
            id,
            args,
            timeout: context.settings.device_timeout,
            idle: context.settings.gpu_idle.filter(|_| context.settings.never_ends),
            for_good: !context.settings.never_ends,
            start,
            early: Mutex::new(early),
            pool: Arc::clone(pool),
            link: Link::new(released),
            events: context.events.clone(),
            required,
        };
        (id, Arc::new(device))
    }

    /// Starts the thread that starts and supervises the worker.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn supervise_in<'scope>(self: Arc<Self>, scope: &'scope Scope<'scope, '_>) -> io::Result<()> {
        let builder = std::thread::Builder::new().name(format!("supervise-{}", self.name));
        builder.spawn_scoped(scope, move || self.supervise()).map(drop)
    }

    fn supervise(&self) {
        if !self.is_wanted(self.start) {
            return;
        }
        for life in 0.. {
            let end = self.live(life);
            self.reclaim();
            let reason = match end {
                End::Closed => return,
                End::Idle if self.is_wanted(Start::Now) => continue,
                End::Idle => return,
                End::Lingers(why) => return self.give_up(why),
                // Only the first refusal is final: a device that started once may be able to again.
                End::Refused(reason) if life == 0 && (self.for_good || self.required.are_demanded()) => {
                    self.required.unusable(&format!("{} cannot be used: {reason}", self.name));
                    return self.give_up(format!("not used: {reason}"));
                }
                End::Refused(reason) | End::Failed(reason) => reason,
            };
            let in_a_row = self.count_failure();
            if in_a_row >= MAX_FAILURES {
                if self.for_good {
                    return self.give_up(format!("given up after {in_a_row} failures in a row: {reason}"));
                }
                self.pool.retire(self.id);
            }
            if self.pause(reason, BACKOFF.after(in_a_row)) {
                return;
            }
        }
    }

    /// Counts a failure; returns the number of failures since the last completed picture.
    fn count_failure(&self) -> u32 {
        let mut state = self.link.lock();
        state.failures_in_a_row += 1;
        state.failures_in_a_row
    }

    /// Waits until the worker is to start; returns `false` if the pipeline ends first.
    fn is_wanted(&self, start: Start) -> bool {
        if self.pool.has_come(start) {
            return true;
        }
        self.link.lock().health = Health::Asleep;
        self.pool.wait_for(start, || self.link.lock().closing)
    }

    fn give_up(&self, why: String) {
        self.note(&why, true);
        self.pool.retire(self.id);
        self.link.lock().health = Health::GivenUp { why };
    }

    fn note(&self, what: &str, trouble: bool) {
        self.events.note(format!("{}: {what}", self.name), trouble);
    }

    /// Runs one worker from its start to its end of any kind.
    fn live(&self, life: u32) -> End {
        let early = self.early.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Process { mut child, channel, started } = match early.map_or_else(|| self.args.spawn(life), Ok) {
            Ok(process) => process,
            Err(error) => {
                let error = WithRemedy(&error);
                return End::Refused(format!("its worker process cannot be started: {error}"));
            }
        };
        let end = match self.begin(&channel) {
            Ok(()) => self.serve(&channel, started),
            Err(end) => end,
        };
        self.leave_alone();
        // Even a worker that was to end may hang in the driver; it holds no results any more.
        let _ = child.kill();
        self.link.lock().processor += time_of_child(child.id());
        if matches!(end, End::Closed) {
            // The worker cannot act any more, and its slots are free from here on. The driver takes
            // about a second to undo the pinning, or forever if it hangs.
            abandon(child);
            return end;
        }
        match (ended_within(&mut child, END_DEADLINE), end) {
            (Ok(None), end) => {
                let lingers = lingers(child.id(), end);
                abandon(child);
                End::Lingers(lingers)
            }
            (status, End::Failed(reason)) if reason.is_empty() => End::Failed(describe(&status)),
            (_, end) => end,
        }
    }

    fn begin(&self, channel: &Channel) -> Result<(), End> {
        let worker_end = channel.try_clone().map_err(|error| End::Failed(error.to_string()))?;
        // Sending holds a lock that the supervisor needs, and must not wait forever.
        worker_end
            .wait_at_most(self.timeout.min(SEND_TIMEOUT))
            .map_err(|error| End::Failed(error.to_string()))?;
        let mut state = self.link.lock();
        if state.closing {
            return Err(End::Closed);
        }
        state.health = Health::Starting;
        state.worker = Some(Worker::new(worker_end));
        Ok(())
    }

    /// Handles the worker's messages until it ends or must be ended.
    fn serve(&self, channel: &Channel, mut start: Instant) -> End {
        let (mut declined, mut turn) = (0, Instant::now());
        loop {
            let took = std::mem::replace(&mut turn, Instant::now()).elapsed();
            if took > STOPPED {
                start += took;
                self.postpone(took);
            }
            if let Some(end) = self.overdue(start) {
                return end;
            }
            match readable(channel, TICK) {
                Ok(false) => {
                    self.report_released();
                    if self.is_to_rest() {
                        return End::Idle;
                    }
                    continue;
                }
                Ok(true) => {}
                Err(error) => return End::Failed(format!("its socket failed: {error}")),
            }
            let message = match channel.receive() {
                Ok(Some((message, _))) => message,
                Ok(None) if self.link.lock().closing => return End::Closed,
                Ok(None) => return End::Failed(String::new()),
                Err(error) => return End::Failed(format!("its worker sent an invalid message: {error}")),
            };
            let through = match message {
                FromWorker::Ready(info) => {
                    self.ready(info.map(|info| info.name), start);
                    continue;
                }
                FromWorker::Note(what) => {
                    self.note(&what, true);
                    continue;
                }
                FromWorker::Refused(reason) => return End::Refused(reason),
                FromWorker::Done { slot, encoded } => self.done(slot, encoded),
                FromWorker::Offloaded { slot } => self.offloaded(slot),
                FromWorker::Declined { slot, reason } => match self.declined(slot, &reason, &mut declined) {
                    Ok(()) => continue,
                    Err(end) => return end,
                },
                FromWorker::Failed { slot, reason } => return End::Failed(self.at_picture(slot, &reason)),
            };
            if let Err(end) = through {
                return end;
            }
            declined = 0;
            self.link.lock().failures_in_a_row = 0;
        }
    }

    fn ready(&self, name: Option<String>, start: Instant) {
        let mut state = self.link.lock();
        state.health = Health::Up;
        if let Some(worker) = &mut state.worker {
            worker.ready = true;
        }
        state.note_use(self.args.lanes);
        drop(state);
        let name = name.unwrap_or_else(|| "worker".to_owned());
        self.note(&format!("{name} ready after {:.2} s", start.elapsed().as_secs_f64()), false);
        self.pool.up(self.id);
    }

    fn at_picture(&self, slot: Option<SlotId>, reason: &str) -> String {
        let state = self.link.lock();
        let lent = slot.zip(state.worker.as_ref()).and_then(|(slot, worker)| worker.lent.get(&slot));
        lent.map_or_else(|| reason.to_owned(), |lent| format!("{reason} (at {})", Shown(lent.loan.input())))
    }

    fn overdue(&self, start: Instant) -> Option<End> {
        let state = self.link.lock();
        let worker = state.worker.as_ref()?;
        if !worker.ready {
            let late = start.elapsed() > START_DEADLINE;
            return late.then(|| End::Failed(format!("its worker did not start in {START_DEADLINE:?}")));
        }
        if worker.deaf {
            return Some(End::Failed("its worker stopped responding and was killed".to_owned()));
        }
        let now = Instant::now();
        let late = worker.lent.values().find(|lent| lent.deadline < now)?;
        let input = Shown(late.loan.input());
        Some(End::Failed(format!("{input} took longer than --device-timeout; its worker was killed")))
    }

    /// Gives the worker more time for all its loans.
    fn postpone(&self, by: Duration) {
        if let Some(worker) = &mut self.link.lock().worker {
            worker.lent.values_mut().for_each(|lent| lent.deadline += by);
        }
    }

    /// Reports released memory to the worker. In a busy worker, the next task does.
    fn report_released(&self) {
        if let Some(worker) = &mut self.link.lock().worker {
            worker.unmap(&self.link.released);
        }
    }

    /// Returns whether the worker is to end for lack of work; it then gets no more tasks.
    fn is_to_rest(&self) -> bool {
        let Some(idle) = self.idle else { return false };
        if self.pool.rest_after(idle) {
            let note = format!("no work for {}: GPUs are released until there is some", Wait(idle));
            self.events.note(note, false);
        }
        if self.pool.has_come(Start::Now) {
            return false;
        }
        let mut state = self.link.lock();
        let worker = state.worker.as_mut().filter(|worker| worker.ready && worker.lent.is_empty());
        worker.map(|worker| worker.ready = false).is_some()
    }

    /// Keeps further pictures from the worker, which may end late and write to its slots until
    /// then.
    fn leave_alone(&self) {
        self.pool.down(self.id);
        let mut state = self.link.lock();
        state.health = Health::Ending;
        if let Some(worker) = &mut state.worker {
            worker.ready = false;
        }
        state.note_use(self.args.lanes);
    }

    /// Takes back the loans to a worker that is gone.
    fn reclaim(&self) {
        let mut state = self.link.lock();
        let worker = state.worker.take();
        state.note_use(self.args.lanes);
        let Some(worker) = worker else { return };
        drop(state);
        for lent in worker.lent.into_values() {
            if let Loan::Picture(task) = lent.loan {
                self.pool.take_back(self.id, 1);
                task.redo(self.id);
            }
        }
    }

    /// Waits before the attempt after a failure; returns `true` if the pipeline ended meanwhile.
    fn pause(&self, why: String, pause: Duration) -> bool {
        self.note(
            &format!("{why}; its pictures go to other devices, and it is restarted in {pause:?}"),
            true,
        );
        let mut state = self.link.lock();
        state.failures += 1;
        state.health = Health::Pausing { why, until: Instant::now() + pause };
        let waited = self.link.closed.wait_timeout_while(state, pause, |state| !state.closing);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing
    }

    /// Lends a slot to the worker; returns the loan if no worker is ready.
    fn lend(&self, loan: Loan) -> Option<Loan> {
        let mut state = self.link.lock();
        let Some(worker) = state.worker.as_mut().filter(|worker| worker.ready) else { return Some(loan) };
        let queued: u64 = worker.lent.values().map(|lent| lent.loan.bytes()).sum();
        let bytes = queued + loan.bytes();
        let deadline =
            Instant::now() + self.timeout + Duration::from_millis(bytes / (SLOWEST_BYTES_A_SECOND / 1000));
        // A slot's former memory must be reported before its present memory.
        worker.unmap(&self.link.released);
        // If the worker is dead or deaf, its supervisor is about to find out and takes the loan
        // back.
        let _ = worker.offer(&loan);
        worker.lent.insert(loan.slot().id(), Lent { loan, deadline });
        state.note_use(self.args.lanes);
        None
    }
}

impl Device for WorkerDevice {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn state(&self) -> DeviceState {
        let state = self.link.lock();
        let trouble = state.health.trouble();
        DeviceState {
            name: self.name.to_string(),
            up: trouble.is_none(),
            idle: matches!(state.health, Health::Asleep),
            trouble,
            failures: state.failures,
            offloaded: state.offloaded,
            left: state.left,
            in_use: Some(state.in_use()),
            processor: state.processor,
        }
    }

    fn submit(&self, mut task: Task) {
        task.slot.note_filled();
        // First, because the worker may finish the task at once.
        self.pool.lend(self.id);
        if let Some(Loan::Picture(task)) = self.lend(Loan::Picture(task)) {
            self.pool.take_back(self.id, 1);
            task.redo(self.id);
        }
    }

    fn offload(&self, task: OffloadTask) {
        // Without a worker, it is left to the waiting thread.
        drop(self.lend(Loan::Offload(task)));
    }

    fn close(&self) {
        let mut state = self.link.lock();
        state.closing = true;
        if let Some(worker) = &state.worker {
            worker.channel.shut_down();
        }
        self.link.closed.notify_all();
        drop(state);
        self.pool.look_again();
    }
}

fn lingers(process: u32, end: End) -> String {
    let before = match end {
        End::Failed(reason) | End::Refused(reason) if !reason.is_empty() => format!("{reason}; "),
        _ => String::new(),
    };
    format!(
        "no longer used: {before}its worker, process {process}, was killed but does not end; the driver may need a restart"
    )
}

#[cfg(test)]
mod tests;
