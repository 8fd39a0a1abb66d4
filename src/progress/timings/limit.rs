//! The limit of a run: the measured resource that was in use throughout while pictures waited for
//! it.

use serde::Serialize;

use super::{Load, Stage, Timings};

/// The resource that limited the speed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// All cores were in use, mostly with decoding.
    Decoding,
    /// All cores were in use, mostly with equalizing.
    Equalizing,
    /// All cores were in use, mostly with encoding.
    Encoding,
    /// All cores were in use, and pictures waited for a GPU all the time.
    CoresAndGpu,
    /// Pictures waited for a GPU all the time.
    Gpu,
    /// Decoders waited for their files.
    Reading,
    /// Encoders waited for their writes.
    Writing,
    /// Publishers waited for the disk.
    OutputDisk,
    /// Pictures waited for memory, and no other resource was in use throughout.
    Memory,
    /// No resource was in use throughout.
    Nothing,
}

/// The share of the time from which a resource counts as in use throughout.
const THROUGHOUT: f64 = 0.75;

/// The share of the run from which a device's work can limit it.
const LONG_ENOUGH: f64 = 0.5;

impl Limit {
    /// Returns the limit, for people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Decoding => "decoding is the bottleneck",
            Self::Equalizing => "equalizing is the bottleneck",
            Self::Encoding => "encoding is the bottleneck",
            Self::CoresAndGpu => "cores and GPUs are the bottleneck",
            Self::Gpu => "the GPU and its bus are the bottleneck",
            Self::Reading => "reading is the bottleneck",
            Self::Writing => "writing is the bottleneck",
            Self::OutputDisk => "the output disk is the bottleneck",
            Self::Memory => "memory is the bottleneck",
            Self::Nothing => "no bottleneck",
        }
    }

    /// Returns the resource to add.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Decoding => "more cores would help",
            Self::Equalizing => "a GPU or more cores would help",
            Self::Encoding => "more cores or a faster format would help",
            Self::CoresAndGpu => "more cores or another GPU would help",
            Self::Gpu => "another GPU would help",
            Self::Reading => "a faster input disk or network would help",
            Self::Writing => "a faster output disk or network would help",
            Self::OutputDisk => "a faster one would help, or --durability fast, which does not wait for it",
            Self::Memory => "a larger --memory would help",
            Self::Nothing => "there were too few pictures to keep everything busy",
        }
    }

    /// Returns whether the remedy is more cores.
    const fn is_cores(self) -> bool {
        matches!(self, Self::Decoding | Self::Equalizing | Self::Encoding)
    }
}

impl Load {
    /// Returns the share of the cores that was in use or waited for: of the cores for this
    /// process's threads, or of these and the workers' cores.
    fn cores_wanted(&self) -> f64 {
        let own = self.processor + self.core_wait;
        self.share(own, self.threads).max(self.share(own + self.workers, self.cores))
    }

    /// Returns the largest share, among all devices, of a device's time during which pictures
    /// waited in line for it.
    fn devices_wanted(&self) -> f64 {
        let share = |(name, full): (&String, &f64)| {
            let ready = self.ready.get(name).copied().unwrap_or_default();
            if self.share(ready, 1) < LONG_ENOUGH { 0.0 } else { full / ready }
        };
        self.full.iter().map(share).fold(0.0, f64::max)
    }
}

impl Timings {
    /// Returns the limit of the run's speed.
    pub fn limit(&self) -> Limit {
        let are_wanted = |share: f64| share >= THROUGHOUT;
        let computing = (are_wanted(self.load.cores_wanted()), are_wanted(self.load.devices_wanted()));
        match (self.held_up_by_files(), computing) {
            (Some(limit), _) => limit,
            (None, (true, true)) => Limit::CoresAndGpu,
            (None, (true, false)) => self.done_most(),
            (None, (false, true)) => Limit::Gpu,
            (None, (false, false)) => self.waited_for(),
        }
    }

    /// Returns the remedy, for people.
    pub(super) fn remedy(&self) -> String {
        let (limit, load) = (self.limit(), &self.load);
        if limit.is_cores() && load.threads < load.cores {
            return format!("a larger --threads would help, up to {}", load.cores);
        }
        limit.remedy().to_owned()
    }

    /// Returns the stage that took most of the cores' time.
    fn done_most(&self) -> Limit {
        let lanes = if self.load.devices.is_empty() { self.seconds(Stage::Device) } else { 0.0 };
        let (decoding, encoding) = (self.seconds(Stage::Decode), self.seconds(Stage::Encode));
        if decoding >= encoding.max(lanes) {
            Limit::Decoding
        } else if encoding >= lanes {
            Limit::Encoding
        } else {
            Limit::Equalizing
        }
    }

    /// Returns the files that decoders or encoders waited for throughout, if they did. A decoder
    /// held up by a later stage waits for a slot instead.
    fn held_up_by_files(&self) -> Option<Limit> {
        let Load { reading, writing, threads, .. } = self.load;
        let limit = if reading >= writing { Limit::Reading } else { Limit::Writing };
        (self.load.share(reading.max(writing), threads) >= THROUGHOUT).then_some(limit)
    }

    /// Returns the resource that was waited for throughout, where neither cores nor devices were.
    /// Pictures that wait for the disk hold memory, and others may then wait for that too.
    fn waited_for(&self) -> Limit {
        let load = &self.load;
        let of_threads = |stage| load.share(self.seconds(stage), load.threads);
        let in_order = [
            (load.share(self.seconds(Stage::Publish), load.publishers), Limit::OutputDisk),
            (load.share(load.memory_wait, 1), Limit::Memory),
            (of_threads(Stage::Decode), Limit::Decoding),
            (of_threads(Stage::Encode), Limit::Encoding),
        ];
        in_order
            .into_iter()
            .find(|(share, _)| *share >= THROUGHOUT)
            .map_or(Limit::Nothing, |(_, limit)| limit)
    }

    fn seconds(&self, stage: Stage) -> f64 {
        self.stages.of(stage).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Times;
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// Returns a run of 10 s with 16 of 16 cores, given the seconds spent in each stage.
    fn run(stages: [u64; 6], load: Load) -> Timings {
        let usual = Load { seconds: 10.0, threads: 16, cores: 16, publishers: 4, ..load };
        Timings { stages: Times(stages.map(Duration::from_secs)), load: usual }
    }

    /// Returns the load of a GPU, given the seconds that it worked, that it had pictures, and that
    /// it had more than it could begin.
    fn gpu([ready, busy, full]: [f64; 3]) -> Load {
        let of = |seconds| BTreeMap::from([("gpu0".to_owned(), seconds)]);
        Load { ready: of(ready), devices: of(busy), full: of(full), ..Load::default() }
    }

    #[test]
    fn files_in_memory_take_cores() {
        let busy = || Load { processor: 150.0, ..Load::default() };
        assert_eq!(run([90, 5, 3, 1, 40, 1], busy()).limit(), Limit::Decoding, "PNGs are inflated");
        assert_eq!(run([30, 5, 3, 1, 100, 1], busy()).limit(), Limit::Encoding, "TIFFs are packed by LZW");
        assert_eq!(run([40, 5, 95, 1, 90, 1], busy()).limit(), Limit::Equalizing, "JPEGs through CLAHE");
    }

    #[test]
    fn cores_that_others_use_are_missed_as_well() {
        let half = |core_wait| Load { processor: 70.0, core_wait, ..Load::default() };
        assert_eq!(run([90, 5, 3, 1, 40, 1], half(60.0)).limit(), Limit::Decoding);
        assert_eq!(run([50, 5, 3, 1, 40, 1], half(10.0)).limit(), Limit::Nothing);
        let told = run([90, 5, 3, 1, 40, 1], half(60.0)).to_string();
        assert!(told.contains("7.0 of 16 cores busy and 6.0 threads waiting for one; more cores"), "{told}");
    }

    #[test]
    fn decoders_that_neither_compute_nor_wait_for_files_do_not_blame_the_disk() {
        let load = |reading| Load { processor: 90.0, reading, ..Load::default() };
        assert_eq!(run([150, 1, 1, 0, 5, 0], load(2.0)).limit(), Limit::Decoding);
        assert_eq!(run([150, 1, 1, 0, 5, 0], load(140.0)).limit(), Limit::Reading);
    }

    #[test]
    fn what_a_slow_disk_holds_up_is_waited_for() {
        let load = |reading, writing, memory_wait| Load {
            processor: 20.0,
            reading,
            writing,
            memory_wait,
            ..Load::default()
        };
        assert_eq!(run([155, 0, 1, 0, 5, 0], load(150.0, 0.0, 0.0)).limit(), Limit::Reading);
        assert_eq!(run([10, 140, 1, 0, 150, 0], load(5.0, 140.0, 9.9)).limit(), Limit::Writing);
        assert_eq!(run([20, 100, 1, 20, 10, 38], load(5.0, 2.0, 9.0)).limit(), Limit::OutputDisk);
        assert_eq!(run([20, 130, 1, 0, 10, 0], load(5.0, 2.0, 9.0)).limit(), Limit::Memory);
        assert_eq!(run([20, 130, 1, 0, 10, 0], load(5.0, 2.0, 1.0)).limit(), Limit::Nothing);
        assert_eq!(Timings::default().limit(), Limit::Nothing);
    }

    #[test]
    fn a_slow_disk_is_the_limit_even_where_others_use_the_cores() {
        let load = |reading| Load { processor: 20.0, core_wait: 110.0, reading, ..Load::default() };
        assert_eq!(run([155, 0, 1, 0, 5, 0], load(125.0)).limit(), Limit::Reading);
        assert_eq!(run([155, 0, 1, 0, 5, 0], load(50.0)).limit(), Limit::Decoding);
    }

    #[test]
    fn a_device_alone_is_the_limit_if_pictures_wait_for_it() {
        let load = |times| Load { processor: 30.0, ..gpu(times) };
        assert_eq!(run([20, 130, 90, 0, 5, 0], load([8.0, 7.9, 7.5])).limit(), Limit::Gpu);
        let one_at_a_time = run([20, 130, 90, 0, 5, 0], load([8.0, 7.9, 0.3]));
        assert_eq!(one_at_a_time.limit(), Limit::Nothing, "it always had one, but none waited");
        let late = run([20, 130, 90, 0, 5, 0], load([1.0, 1.0, 1.0]));
        assert_eq!(late.limit(), Limit::Nothing, "it had hardly started");
    }

    #[test]
    fn gpus_beside_busy_cores_are_missed_only_if_pictures_wait_for_them_too() {
        let load = |times| Load { processor: 130.0, workers: 20.0, ..gpu(times) };
        // Engines that start for 4.5 s and then always have work were busy for 55 % of the run.
        let started_late = run([90, 5, 80, 1, 40, 1], load([5.5, 5.5, 5.3]));
        assert_eq!(started_late.limit(), Limit::CoresAndGpu);
        assert!(started_late.to_string().contains("gpu0 100 %; more cores or another GPU would help"));
        // One H100 with 16 cores: `nvidia-smi` shows its engines at 82 to 86 %, and 15.3 to 15.9
        // cores are busy.
        let starving = run([90, 5, 80, 1, 40, 1], load([8.5, 7.1, 3.0]));
        assert_eq!(starving.limit(), Limit::Decoding);
        assert!(starving.to_string().contains("gpu0 84 %; more cores would help"), "{starving}");
    }

    #[test]
    fn workers_take_cores_too() {
        let load = |workers| Load { processor: 100.0, workers, ..gpu([9.0, 5.0, 0.0]) };
        assert_eq!(run([80, 5, 90, 1, 5, 1], load(5.0)).limit(), Limit::Nothing);
        assert_eq!(run([80, 5, 90, 1, 5, 1], load(50.0)).limit(), Limit::Decoding);
    }

    #[test]
    fn the_words_name_shares_the_limit_and_what_to_add() {
        let load = Load { processor: 158.0, ..gpu([10.0, 1.2, 0.0]) };
        let mut timings = run([60, 10, 5, 5, 15, 5], load);
        assert_eq!(
            timings.to_string(),
            "Time: decode 60 %, slot-wait 10 %, device 5 %, thread-wait 5 %, encode 15 %, publish 5 %\n  \
               decoding is the bottleneck: 15.8 of 16 cores busy, gpu0 12 %; more cores would help\n"
        );
        timings.load.cores = 64;
        assert!(timings.to_string().ends_with("; a larger --threads would help, up to 64\n"), "{timings}");
        assert!(Timings::default().to_string().starts_with("Time: decode 0 %"));
    }
}
