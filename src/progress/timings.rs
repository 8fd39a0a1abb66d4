//! Measures where the time goes: the time of pictures in each stage, and the utilization of cores
//! and devices meanwhile.
//!
//! One [`Clock`] travels with a picture and is read where one stage ends and the next begins, which
//! counts every moment exactly once. The sums, the utilization of the CPU and the other devices,
//! and the waits of threads show the limit of a run: [`Timings::limit`].

mod limit;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A stage of a picture between its file and its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its file is read and decoded.
    Decode,
    /// It waits for a free slot: for memory, or for pictures that hold all slots.
    Slot,
    /// A device has it: on the bus, being equalized, and in a worker process also queued after
    /// others.
    Device,
    /// It waits for a thread of the next stage, or for one of the CPU's lanes.
    Queue,
    /// It is encoded, and written to a file that is not synced yet.
    Encode,
    /// Its output is synced to the disk, if that is wanted, and renamed.
    Publish,
}

impl Stage {
    /// All stages, in the order in which a picture goes through them.
    pub const ALL: [Self; 6] =
        [Self::Decode, Self::Slot, Self::Device, Self::Queue, Self::Encode, Self::Publish];

    /// Returns the name in summaries and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Slot => "slot-wait",
            Self::Device => "device",
            Self::Queue => "thread-wait",
            Self::Encode => "encode",
            Self::Publish => "publish",
        }
    }
}

/// The time in each stage, of one picture or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times([Duration; Stage::ALL.len()]);

impl Times {
    /// Returns the time in one stage.
    pub const fn of(&self, stage: Stage) -> Duration {
        self.0[stage as usize]
    }

    /// Returns each stage with its time.
    pub fn each(&self) -> impl Iterator<Item = (Stage, Duration)> {
        Stage::ALL.into_iter().zip(self.0)
    }

    /// Adds more time in a stage.
    pub fn add(&mut self, stage: Stage, time: Duration) {
        self.0[stage as usize] += time;
    }

    /// Adds another picture's times.
    pub fn add_all(&mut self, other: &Self) {
        other.each().for_each(|(stage, time)| self.add(stage, time));
    }
}

/// A map from the names of the stages to seconds.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each().map(|(stage, time)| (stage.name(), time.as_secs_f64())))
    }
}

/// A stopwatch that travels with a picture.
#[derive(Clone, Debug)]
pub struct Clock {
    times: Times,
    last: Instant,
    processor: Duration,
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { times: Times::default(), last: Instant::now(), processor: Duration::ZERO }
    }

    /// Starts the clock again, with the times so far.
    pub fn resume(times: Times) -> Self {
        Self { times, ..Self::start() }
    }

    /// Adds the time since the last mark to this stage; returns it.
    pub fn mark(&mut self, stage: Stage) -> Duration {
        let before = std::mem::replace(&mut self.last, Instant::now());
        let passed = self.last - before;
        self.times.add(stage, passed);
        passed
    }

    /// Adds processor time that the picture used.
    pub fn took(&mut self, processor: Duration) {
        self.processor += processor;
    }

    /// Returns the times of all stages so far.
    pub const fn times(&self) -> Times {
        self.times
    }

    /// Returns the processor time that the picture used so far.
    pub const fn processor(&self) -> Duration {
        self.processor
    }
}

/// The utilization of the CPU and the other devices during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Seconds that the pipeline ran.
    pub seconds: f64,
    /// The most threads for each of decoding and encoding, which is also the most cores that this
    /// process should keep busy.
    pub threads: usize,
    /// The number of cores of this process and the workers of devices together.
    pub cores: usize,
    /// The number of threads that publish.
    pub publishers: usize,
    /// Seconds of processor time that this process took, on all cores together.
    pub processor: f64,
    /// Seconds of processor time that the workers of devices took.
    pub workers: f64,
    /// Seconds during which threads of this process waited for a core, all together.
    pub core_wait: f64,
    /// Seconds during which decoders waited for their files.
    pub reading: f64,
    /// Seconds during which encoders waited for their outputs to be written.
    pub writing: f64,
    /// Seconds during which the next picture in line waited for memory.
    pub memory_wait: f64,
    /// Codestreams of JPEG 2000 that each of these devices decoded, if it did any.
    pub decoded: BTreeMap<String, u64>,
    /// Pictures or pages of TIFFs with strips or tiles that each of these devices inflated, if it
    /// did any.
    pub inflated: BTreeMap<String, u64>,
    /// The same for strips or tiles that it deflated.
    pub deflated: BTreeMap<String, u64>,
    /// JPEGs that each of these devices left to the CPU, if it did any.
    pub left: BTreeMap<String, u64>,
    /// Seconds during which each device other than the CPU had at least one picture.
    pub devices: BTreeMap<String, f64>,
    /// Seconds during which each of these devices worked: from the end of its start on.
    pub ready: BTreeMap<String, f64>,
    /// Seconds during which pictures waited in line for each of these devices.
    pub full: BTreeMap<String, f64>,
}

impl Load {
    /// Returns the average number of busy cores, and the number of all.
    fn cores(&self) -> (f64, usize) {
        let of = if self.workers > 0.0 { self.cores } else { self.threads };
        (self.average(self.processor + self.workers), of)
    }

    /// Returns the average number of threads, cores or devices in use at once, given the sum of
    /// their times in use.
    fn average(&self, time: f64) -> f64 {
        time / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns the average utilization, 0 to 1, of `of` threads, cores or devices that were busy
    /// for `time` seconds in all.
    fn share(&self, time: f64, of: usize) -> f64 {
        self.average(time) / of.max(1) as f64
    }
}

/// Time that the threads of a run waited, in nanoseconds, as far as no picture's [`Clock`] covers
/// it.
#[derive(Debug, Default)]
pub struct Waits {
    core: AtomicU64,
    core_of_encoders: AtomicU64,
    files: AtomicU64,
    encoding: AtomicU64,
}

impl Waits {
    /// Adds the waits of this thread as a decoder. To be called when it ends.
    pub fn add_decoder(&self) {
        let waited = wait_for_core();
        add(&self.core, waited);
        // Some of the wait for a core may have been during reads.
        add(&self.files, codec::waited_for_files().saturating_sub(waited));
    }

    /// Adds the waits of this thread as a lane. To be called when it ends.
    pub fn add_lane(&self) {
        add(&self.core, wait_for_core());
    }

    /// Adds the waits of this thread as an encoder. To be called when it ends.
    pub fn add_encoder(&self) {
        let waited = wait_for_core();
        add(&self.core, waited);
        add(&self.core_of_encoders, waited);
    }

    /// Adds the part of a picture's time with its encoder that was not spent on a core.
    pub fn add_encoding(&self, time: Duration) {
        add(&self.encoding, time);
    }

    /// Returns the seconds that threads waited for a core, decoders for files, and encoders for
    /// neither a core nor a picture.
    pub fn seconds(&self) -> [f64; 3] {
        let of = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
        let writing = of(&self.encoding).saturating_sub(of(&self.core_of_encoders));
        [of(&self.core), of(&self.files), writing].map(|time| time.as_secs_f64())
    }
}

fn add(sum: &AtomicU64, time: Duration) {
    sum.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Returns how long this thread could have run so far but had no core; 0 where the kernel does not
/// report it.
fn wait_for_core() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = stat.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(waited.unwrap_or_default())
}

/// Measures elapsed and processor time for a [`Load`].
#[derive(Debug)]
pub struct Meter {
    start: Instant,
    processor: Duration,
}

impl Meter {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { start: Instant::now(), processor: process_time() }
    }

    /// Returns the seconds since the start, and the seconds of processor time that this process
    /// took since.
    pub fn read(&self) -> (f64, f64) {
        (self.start.elapsed().as_secs_f64(), (process_time() - self.processor).as_secs_f64())
    }
}

fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

/// Returns the processor time of a child process so far. One that has ended still has it, until it
/// is waited for.
pub fn time_of_child(process: u32) -> Duration {
    // User and system time are fields 14 and 15 (proc_pid_stat(5)); the fields after the name begin
    // with number 3.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(1000 * ticks / clock_ticks_per_second().max(1))
}

/// Returns the processor time of this thread so far.
pub fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

fn time(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

/// The distribution of a run's time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    /// The time of all pictures together. Many are under way at once, which makes it longer than
    /// the run.
    pub stages: Times,
    /// The utilization of cores and devices.
    pub load: Load,
}

/// The fields, and the limit.
impl Serialize for Timings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Timings", 3)?;
        fields.serialize_field("stages", &self.stages)?;
        fields.serialize_field("load", &self.load)?;
        fields.serialize_field("limit", &self.limit())?;
        fields.end()
    }
}

/// Two lines: each stage's share, and the limit with its remedy.
impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: f64 = self.stages.each().map(|(_, time)| time.as_secs_f64()).sum();
        let percent = |part: f64, all: f64| if all > 0.0 { (100.0 * part / all).round() } else { 0.0 };
        let shares: Vec<String> = self
            .stages
            .each()
            .map(|(stage, time)| format!("{} {} %", stage.name(), percent(time.as_secs_f64(), all)))
            .collect();
        writeln!(f, "Time: {}", shares.join(", "))?;
        let (busy, cores) = self.load.cores();
        write!(f, "  {}: {busy:.1} of {cores} cores busy", self.limit().name())?;
        let waiting = self.load.average(self.load.core_wait);
        if waiting >= 1.0 {
            write!(f, " and {waiting:.1} threads waiting for one")?;
        }
        for (device, busy) in &self.load.devices {
            let ready = self.load.ready.get(device).copied().unwrap_or_default();
            write!(f, ", {device} {} %", percent(*busy, ready))?;
            let Load { decoded, inflated, deflated, left, .. } = &self.load;
            for (counts, what) in [
                (decoded, "codestreams decoded"),
                (inflated, "pictures inflated"),
                (deflated, "pictures deflated"),
                (left, "JPEGs left to the CPU"),
            ] {
                if let Some(count) = counts.get(device) {
                    write!(f, " ({count} {what})")?;
                }
            }
        }
        writeln!(f, "; {}", self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_between_two_marks_is_one_stages() {
        let mut clock = Clock::start();
        std::thread::sleep(Duration::from_millis(5));
        clock.mark(Stage::Decode);
        std::thread::sleep(Duration::from_millis(10));
        clock.mark(Stage::Slot);
        clock.mark(Stage::Decode);
        let times = clock.times();
        assert!(times.of(Stage::Decode) >= Duration::from_millis(5));
        assert!(times.of(Stage::Slot) >= Duration::from_millis(10));
        assert_eq!(times.of(Stage::Encode), Duration::ZERO);
        let mut sum = times;
        sum.add_all(&times);
        assert_eq!(sum.of(Stage::Slot), 2 * times.of(Stage::Slot));
    }

    #[test]
    fn processor_time_is_what_was_computed() {
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(20));
        let (seconds, _) = meter.read();
        assert!(seconds >= 0.02);
        while meter.read().1 < 0.01 {}
    }

    #[test]
    fn what_a_child_computed_is_known_until_it_is_waited_for() {
        let loop_of = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo";
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", loop_of]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert!(time_of_child(child.id()) > Duration::ZERO);
        child.wait().unwrap();
        assert_eq!(time_of_child(child.id()), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_shares_a_core_waits_for_it() {
        let before = wait_for_core();
        let others: Vec<_> = (0..4 * std::thread::available_parallelism().unwrap().get())
            .map(|_| {
                std::thread::spawn(|| {
                    let begun = thread_time();
                    while thread_time() - begun < Duration::from_millis(20) {}
                    wait_for_core()
                })
            })
            .collect();
        let waited: Duration = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert!(waited > Duration::ZERO || !std::path::Path::new("/proc/thread-self/schedstat").exists());
        assert!(wait_for_core() >= before);
    }

    #[test]
    fn encoders_wait_for_their_outputs_unless_they_wait_for_a_core() {
        let waits = Waits::default();
        waits.add_encoding(Duration::from_secs(3));
        add(&waits.core_of_encoders, Duration::from_secs(1));
        assert_eq!(waits.seconds(), [0.0, 0.0, 2.0]);
        add(&waits.core_of_encoders, Duration::from_secs(9));
        assert_eq!(waits.seconds()[2], 0.0);
    }

    #[test]
    fn programs_read_seconds_by_name() {
        let mut timings = Timings::default();
        timings.stages.add(Stage::Slot, Duration::from_secs(10));
        timings.load.devices.insert("gpu0".to_owned(), 1.2);
        let json = serde_json::to_value(timings).unwrap();
        assert_eq!(json["stages"]["slot-wait"], 10.0);
        assert_eq!(json["load"]["devices"]["gpu0"], 1.2);
        assert_eq!(json["limit"], "nothing");
    }
}
