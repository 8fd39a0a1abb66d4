//! Where the time goes: how long each picture was in which stage, and what was busy meanwhile.
//!
//! One [`Clock`] travels with a picture and is read where one stage ends and the next begins, so that no moment is counted twice and none
//! is missed. The sums, and how busy the CPU and the other devices were, tell what limits a run: [`Timings::limit`].

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// What happens to a picture between its file and its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its file is read and decoded.
    Decode,
    /// It waits for a free slot: for memory, or for pictures that hold all slots.
    Slot,
    /// A device has it: on the bus, being equalized, and in a worker process also queued behind others.
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

    /// Adds the time since the last mark to this stage.
    pub fn mark(&mut self, stage: Stage) {
        let now = Instant::now();
        self.times.add(stage, now - self.last);
        self.last = now;
    }

    /// Adds processor time that the picture took of a core.
    pub fn took(&mut self, processor: Duration) {
        self.processor += processor;
    }

    /// Returns the times of all stages so far.
    pub const fn times(&self) -> Times {
        self.times
    }

    /// Returns the processor time that it took of the cores so far.
    pub const fn processor(&self) -> Duration {
        self.processor
    }
}

/// How long something was busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Occupancy {
    before: Duration,
    since: Option<Instant>,
}

impl Occupancy {
    /// Notes that it is busy from now on, or idle.
    pub fn set(&mut self, occupied: bool) {
        match (self.since, occupied) {
            (None, true) => self.since = Some(Instant::now()),
            (Some(since), false) => {
                self.before += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    /// Returns the time that it was busy until now.
    pub fn total(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// How busy the CPU and the other devices were during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Seconds that the pipeline ran.
    pub seconds: f64,
    /// The most threads for each of decoding and encoding, and so the most cores that this process should keep busy.
    pub threads: usize,
    /// How many cores this process and the workers of devices have together.
    pub cores: usize,
    /// How many threads publish.
    pub publishers: usize,
    /// Seconds of processor time that this process took, on all cores together.
    pub processor: f64,
    /// Seconds of processor time that the workers of devices took.
    pub workers: f64,
    /// Seconds during which each device other than the CPU had at least one picture.
    pub devices: BTreeMap<String, f64>,
}

impl Load {
    /// Returns how many cores were busy on average, and of how many.
    fn cores(&self) -> (f64, usize) {
        let of = if self.workers > 0.0 { self.cores } else { self.threads };
        ((self.processor + self.workers) / self.seconds.max(f64::MIN_POSITIVE), of)
    }

    /// Returns whether all cores were busy: those for this process's threads, or those for them and the workers.
    fn has_no_core_left(&self) -> bool {
        self.share(self.processor, self.threads) >= BUSY
            || self.share(self.processor + self.workers, self.cores) >= BUSY
    }

    /// Returns the average utilization, 0 to 1, of `of` threads, cores or devices that were busy for `time` seconds in all.
    fn share(&self, time: f64, of: usize) -> f64 {
        time / (self.seconds.max(f64::MIN_POSITIVE) * of.max(1) as f64)
    }
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

    /// Returns the seconds since the start, and the seconds of processor time that this process took since.
    pub fn read(&self) -> (f64, f64) {
        (self.start.elapsed().as_secs_f64(), (process_time() - self.processor).as_secs_f64())
    }
}

fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

/// Returns the processor time of a child process so far. One that has ended still has it, until it is waited for.
pub fn time_of_child(process: u32) -> Duration {
    // User and system time are fields 14 and 15 (proc_pid_stat(5)); those after the name begin with field 3.
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

/// What limited the speed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// All cores were busy, mostly with decoding.
    Decoding,
    /// All cores were busy, mostly with equalizing.
    Equalizing,
    /// All cores were busy, mostly with encoding.
    Encoding,
    /// A GPU or its bus was always busy.
    Gpu,
    /// Publishers waited for the disk.
    OutputDisk,
    /// Decoders waited for slots, and nobody else was busy.
    Memory,
    /// Decoders were always at work, but cores were not: decoders waited for their files.
    Reading,
    /// Nothing was busy throughout.
    Nothing,
}

impl Limit {
    /// Returns what the limit is, and what would help.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Decoding => ("decoding is the bottleneck", "more cores would help"),
            Self::Equalizing => ("equalizing is the bottleneck", "a GPU or more cores would help"),
            Self::Encoding => ("encoding is the bottleneck", "more cores or a faster format would help"),
            Self::Gpu => ("the GPU and its bus are the bottleneck", "another GPU would help"),
            Self::OutputDisk => {
                ("the output disk is the bottleneck", "--durability fast does not wait for it")
            }
            Self::Memory => ("memory is the bottleneck", "a larger --memory would help"),
            Self::Reading => {
                ("reading is the bottleneck", "the input disk is slow, or other programs use the cores")
            }
            Self::Nothing => ("no bottleneck", "there were too few pictures to keep everything busy"),
        }
    }
}

/// The share of the run from which something counts as busy throughout.
const BUSY: f64 = 0.75;

/// The same for a GPU, whose workers take seconds to start.
const BUSY_GPU: f64 = 0.6;

/// Where a run's time went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    /// The time of all pictures together. Many are under way at once, so it is longer than the run.
    pub stages: Times,
    /// How busy everything was.
    pub load: Load,
}

impl Timings {
    /// Returns what limited the speed of the run.
    pub fn limit(&self) -> Limit {
        let load = &self.load;
        let share = |stage, of| load.share(self.stages.of(stage).as_secs_f64(), of);
        if load.has_no_core_left() {
            return self.busiest();
        }
        if load.devices.values().any(|&busy| load.share(busy, 1) >= BUSY_GPU) {
            Limit::Gpu
        } else if share(Stage::Publish, load.publishers) >= BUSY {
            Limit::OutputDisk
        } else if share(Stage::Slot, load.threads) >= BUSY {
            Limit::Memory
        } else if share(Stage::Decode, load.threads) >= BUSY {
            Limit::Reading
        } else {
            Limit::Nothing
        }
    }

    /// Returns what the cores were busy with most.
    fn busiest(&self) -> Limit {
        let equalizing =
            if self.load.devices.is_empty() { self.stages.of(Stage::Device) } else { Duration::ZERO };
        let (decoding, encoding) = (self.stages.of(Stage::Decode), self.stages.of(Stage::Encode));
        if decoding >= encoding.max(equalizing) {
            Limit::Decoding
        } else if encoding >= equalizing {
            Limit::Encoding
        } else {
            Limit::Equalizing
        }
    }
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

/// Two lines: each stage's share, and the limit with what would help.
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
        let (limit, remedy) = self.limit().words();
        let (busy, cores) = self.load.cores();
        write!(f, "  {limit}: {busy:.1} of {cores} cores busy")?;
        for (device, busy) in &self.load.devices {
            write!(f, ", {device} {} %", percent(*busy, self.load.seconds))?;
        }
        writeln!(f, "; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(stages: [u64; 6], processor: f64, gpu: Option<f64>) -> Timings {
        Timings {
            stages: Times(stages.map(Duration::from_secs)),
            load: Load {
                seconds: 10.0,
                threads: 16,
                cores: 20,
                publishers: 4,
                processor,
                workers: 0.0,
                devices: gpu.map(|busy| ("gpu0".to_owned(), busy)).into_iter().collect(),
            },
        }
    }

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
    fn occupied_time_is_counted_once() {
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.total(), Duration::ZERO);
        occupancy.set(true);
        occupancy.set(true);
        std::thread::sleep(Duration::from_millis(5));
        assert!(occupancy.total() >= Duration::from_millis(5));
        occupancy.set(false);
        let total = occupancy.total();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(occupancy.total(), total);
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
    fn the_limit_is_who_was_busy_throughout() {
        let limit = |stages, processor, gpu| timings(stages, processor, gpu).limit();
        assert_eq!(limit([90, 5, 3, 1, 40, 1], 150.0, Some(1.2)), Limit::Decoding);
        assert_eq!(limit([40, 5, 3, 1, 90, 1], 150.0, Some(1.2)), Limit::Encoding);
        assert_eq!(
            limit([40, 5, 95, 1, 90, 1], 150.0, Some(1.2)),
            Limit::Encoding,
            "a GPU's time is no core's"
        );
        assert_eq!(limit([40, 5, 95, 1, 90, 1], 150.0, None), Limit::Equalizing);
        assert_eq!(limit([20, 130, 90, 0, 5, 0], 30.0, Some(6.5)), Limit::Gpu);
        assert_eq!(limit([20, 100, 1, 20, 10, 38], 30.0, None), Limit::OutputDisk);
        assert_eq!(limit([20, 130, 1, 0, 10, 0], 30.0, None), Limit::Memory);
        assert_eq!(limit([150, 1, 1, 0, 5, 0], 30.0, None), Limit::Reading);
        assert_eq!(limit([2, 0, 1, 0, 1, 0], 3.0, None), Limit::Nothing);
        assert_eq!(Timings::default().limit(), Limit::Nothing);
    }

    #[test]
    fn workers_take_cores_too() {
        let mut timings = timings([150, 5, 90, 1, 5, 1], 110.0, Some(5.0));
        assert_eq!(timings.limit(), Limit::Reading);
        timings.load.workers = 60.0;
        assert_eq!(timings.limit(), Limit::Decoding);
        assert!(timings.to_string().contains("17.0 of 20 cores busy, gpu0 50 %"), "{timings}");
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
    fn the_words_name_shares_the_limit_and_a_remedy() {
        assert_eq!(
            timings([60, 10, 5, 5, 15, 5], 158.0, Some(1.2)).to_string(),
            "Time: decode 60 %, slot-wait 10 %, device 5 %, thread-wait 5 %, encode 15 %, publish 5 %\n  \
               decoding is the bottleneck: 15.8 of 16 cores busy, gpu0 12 %; more cores would help\n"
        );
        assert!(Timings::default().to_string().starts_with("Time: decode 0 %"));
    }

    #[test]
    fn programs_read_seconds_by_name() {
        let json = serde_json::to_value(timings([60, 10, 5, 5, 15, 5], 158.0, Some(1.2))).unwrap();
        assert_eq!(json["stages"]["slot-wait"], 10.0);
        assert_eq!(json["load"]["devices"]["gpu0"], 1.2);
        assert_eq!(json["limit"], "decoding");
    }
}
