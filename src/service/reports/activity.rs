//! The recent activity: the pictures that ended in each second of the last minute and each minute
//! of the last hour, the latest pictures that were done, and the progress of slow ones.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::progress::CompletedParts;
use crate::progress::timings::Times;

/// Buckets of a chart.
const BUCKETS: usize = 60;
/// The number of latest pictures to keep.
const LATEST: usize = 24;

/// The number of pictures that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Ended {
    done: u32,
    failed: u32,
}

/// The last buckets of equal length, the current one last.
#[derive(Debug)]
struct Chart {
    length: Duration,
    buckets: VecDeque<Ended>,
    /// When the current bucket began.
    begun: Instant,
}

impl Chart {
    fn new(length: Duration, now: Instant) -> Self {
        Self { length, buckets: VecDeque::from(vec![Ended::default(); BUCKETS]), begun: now }
    }

    /// Returns the current bucket.
    fn current(&mut self, now: Instant) -> &mut Ended {
        let passed = now.saturating_duration_since(self.begun).as_nanos() / self.length.as_nanos();
        for _ in 0..passed.min(BUCKETS as u128) {
            self.buckets.pop_front();
            self.buckets.push_back(Ended::default());
        }
        self.begun += self.length * u32::try_from(passed).unwrap_or(u32::MAX);
        self.buckets.back_mut().expect("there are always some")
    }
}

/// A picture that was done.
#[derive(Clone, Debug)]
pub(crate) struct DonePicture {
    /// Its file, or the place that it was moved to.
    pub(crate) input: PathBuf,
    /// The folder that its file was moved to, perhaps deep below it.
    pub(crate) moved_below: Option<PathBuf>,
    pub(crate) output: PathBuf,
    pub(crate) device: String,
    pub(crate) pixels: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// The time from its job to its output.
    pub(crate) seconds: f64,
    pub(crate) times: Times,
    /// The remarks about it.
    pub(crate) remarks: Vec<String>,
    pub(crate) at: Instant,
}

#[cfg(test)]
impl DonePicture {
    /// Returns a picture with an output of this many bytes.
    pub(crate) fn for_tests(bytes_out: u64) -> Self {
        Self {
            input: "in/a.png".into(),
            moved_below: None,
            output: "out/a.png".into(),
            device: "cpu".into(),
            pixels: 6,
            bytes_in: 7,
            bytes_out,
            seconds: 0.5,
            times: Times::default(),
            remarks: Vec::new(),
            at: Instant::now(),
        }
    }
}

/// The recent activity.
#[derive(Debug)]
pub(crate) struct Activity {
    minute: Chart,
    hour: Chart,
    /// The latest first, each with its number.
    latest: VecDeque<(u64, DonePicture)>,
    last_number: u64,
    /// The complete share of each picture in progress that has parts.
    in_parts: BTreeMap<PathBuf, f64>,
}

/// One of the latest pictures, for clients.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    number: u64,
    #[serde(serialize_with = "crate::fs::paths::as_json")]
    input: PathBuf,
    device: String,
    pixels: u64,
    bytes_in: u64,
    bytes_out: u64,
    seconds: f64,
    stages: Times,
    remarks: Vec<String>,
    seconds_ago: u64,
}

/// All of it, for clients.
#[derive(Debug, Serialize)]
pub(crate) struct Recent {
    /// By seconds of the last minute.
    minute: Vec<Ended>,
    /// By minutes of the last hour.
    hour: Vec<Ended>,
    latest: Vec<Shown>,
    in_parts: Vec<InParts>,
}

/// A picture in progress with complete parts, for clients.
#[derive(Debug, Serialize)]
pub(crate) struct InParts {
    #[serde(serialize_with = "crate::fs::paths::as_json")]
    input: PathBuf,
    /// From 0 to 1.
    share: f64,
}

impl Default for Activity {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            minute: Chart::new(Duration::from_secs(1), now),
            hour: Chart::new(Duration::from_secs(60), now),
            latest: VecDeque::new(),
            last_number: first_number(),
            in_parts: BTreeMap::new(),
        }
    }
}

/// Returns a number that no earlier service gave a picture: browsers cache previews by it.
fn first_number() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_secs() << 20
}

impl Activity {
    /// Adds a picture that was done.
    pub(crate) fn done(&mut self, picture: DonePicture) {
        let now = picture.at;
        [&mut self.minute, &mut self.hour].into_iter().for_each(|chart| chart.current(now).done += 1);
        self.last_number += 1;
        self.latest.push_front((self.last_number, picture));
        self.latest.truncate(LATEST);
    }

    /// Records how many of the parts of a picture in progress are complete.
    pub(crate) fn part(&mut self, input: &Path, completed: CompletedParts) {
        self.in_parts.insert(input.to_owned(), completed.share());
    }

    /// Records that a picture is no longer in progress.
    pub(crate) fn ended(&mut self, input: &Path) {
        self.in_parts.remove(input);
    }

    /// Counts a picture that failed for good.
    pub(crate) fn failed(&mut self, now: Instant) {
        [&mut self.minute, &mut self.hour].into_iter().for_each(|chart| chart.current(now).failed += 1);
    }

    /// Returns one of the latest pictures.
    pub(crate) fn picture(&self, number: u64) -> Option<DonePicture> {
        self.latest.iter().find(|(own, _)| *own == number).map(|(_, picture)| picture.clone())
    }

    /// Returns all of it.
    pub(crate) fn recent(&mut self, now: Instant) -> Recent {
        [&mut self.minute, &mut self.hour].into_iter().for_each(|chart| {
            chart.current(now);
        });
        let latest = self.latest.iter().map(|(number, picture)| Shown {
            number: *number,
            input: picture.input.clone(),
            device: picture.device.clone(),
            pixels: picture.pixels,
            bytes_in: picture.bytes_in,
            bytes_out: picture.bytes_out,
            seconds: picture.seconds,
            stages: picture.times,
            remarks: picture.remarks.clone(),
            seconds_ago: now.saturating_duration_since(picture.at).as_secs(),
        });
        Recent {
            minute: self.minute.buckets.iter().copied().collect(),
            hour: self.hour.buckets.iter().copied().collect(),
            latest: latest.collect(),
            in_parts: self
                .in_parts
                .iter()
                .map(|(input, &share)| InParts { input: input.clone(), share })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(at: Instant) -> DonePicture {
        DonePicture { at, ..DonePicture::for_tests(8) }
    }

    #[test]
    fn what_ended_moves_through_the_buckets_and_out_of_them() {
        let mut activity = Activity::default();
        let start = Instant::now();
        activity.done(picture(start));
        activity.failed(start + Duration::from_secs(2));
        let recent = activity.recent(start + Duration::from_secs(3));
        let at = |from_end: usize| recent.minute[BUCKETS - 1 - from_end];
        assert_eq!((at(3).done, at(1).failed), (1, 1));
        assert_eq!(recent.hour[BUCKETS - 1], Ended { done: 1, failed: 1 });
        let recent = activity.recent(start + Duration::from_secs(200));
        assert_eq!(recent.minute, [Ended::default(); BUCKETS]);
        assert_eq!(recent.hour[BUCKETS - 1 - 3].done, 1);
        let recent = activity.recent(start + Duration::from_secs(100_000));
        assert_eq!((recent.hour, recent.minute.len()), (vec![Ended::default(); BUCKETS], BUCKETS));
    }

    #[test]
    fn pictures_that_take_long_are_shown_with_their_share_until_they_end() {
        let mut activity = Activity::default();
        let completed = |number, all| CompletedParts { number, all };
        activity.part(Path::new("in/slide.tif"), completed(1, 8));
        activity.part(Path::new("in/slide.tif"), completed(6, 8));
        activity.part(Path::new("in/stack.tif"), completed(1, 2));
        let shares = |activity: &mut Activity| {
            let recent = activity.recent(Instant::now());
            recent.in_parts.into_iter().map(|own| (own.input, own.share)).collect::<Vec<_>>()
        };
        assert_eq!(shares(&mut activity), [("in/slide.tif".into(), 0.75), ("in/stack.tif".into(), 0.5)]);
        activity.ended(Path::new("in/slide.tif"));
        assert_eq!(shares(&mut activity), [("in/stack.tif".into(), 0.5)]);
    }

    #[test]
    fn the_latest_pictures_have_numbers_that_stay() {
        let mut activity = Activity::default();
        let now = Instant::now();
        (0..30).for_each(|_| activity.done(picture(now)));
        let recent = activity.recent(now);
        let newest = recent.latest[0].number;
        assert_eq!((recent.latest.len(), recent.latest[1].number), (LATEST, newest - 1));
        assert!(activity.picture(newest).is_some() && activity.picture(newest - LATEST as u64).is_none());
    }
}
