//! Pictures to process, and the portions in which they are handed over.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use store::{Object, Version};

use super::stdin::Spooled;
use crate::config::{PictureSettings, Settings};
use crate::fs::stamp::{Stamp, Tree};
use crate::picture::boxes::FileSlice;
use crate::picture::record::Digest;
use crate::picture::stored_image::StoredImage;
use crate::publish::Replaces;
use crate::selection::promises_a_picture;
use codec::{self, Format, Limits};

/// One picture to process.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its index in the list; 0 in a service, which has no list.
    pub number: usize,
    /// The name of its series or group, where that matters.
    pub group: Option<Arc<OsStr>>,
    /// Its place as a slice of a volume of several files.
    pub slice: Option<FileSlice>,
    /// The settings that decide how its output looks.
    pub settings: Arc<PictureSettings>,
    /// The state of its mask, if it has one.
    pub mask: Option<Digest>,
    /// The file to read.
    pub input: PathBuf,
    /// The file to write; empty if the run writes no output per picture.
    pub output: PathBuf,
    /// Whether the user named this file itself, not a folder above it.
    pub named: bool,
    /// Whether it is a folder, which is one picture: its output is one too.
    pub is_folder: bool,
    /// Length of the input when it was found.
    pub bytes: u64,
    /// Whether the input's file system keeps inode numbers.
    pub lasting_inodes: bool,
    /// The state of the input when it was taken, if known. No output of another state is published.
    pub stamp: Option<Stamp>,
    /// Of a folder that was taken, [`Tree::changes`] at that time.
    pub(crate) changes: Option<i64>,
    /// Facts about its output if that exists and was made with other settings.
    pub remakes: Option<Remake>,
    /// The files that its output may replace.
    pub replaces: Replaces,
    /// The input's content, if it came from standard input.
    pub spooled: Option<Spooled>,
    /// The input's content, if it is in object storage.
    pub object: Option<Arc<Object>>,
    /// The input's content, if it is an image in object storage.
    pub image: Option<Arc<StoredImage>>,
    /// The object that its output replaces, if known.
    pub replaced: Option<Version>,
    /// Whether a report shows it.
    pub is_shown: bool,
}

/// An output that is made again, with other settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remake {
    /// The flags by which the settings differ from those of the old output, in words, if these are
    /// known.
    pub difference: Option<String>,
}

#[cfg(test)]
impl Job {
    /// Returns the job of an input below a folder `in`, for tests.
    pub(crate) fn for_tests(input: &str, bytes: u64) -> Self {
        Self {
            number: 0,
            settings: Arc::default(),
            mask: None,
            input: input.into(),
            output: input.replacen("in", "out", 1).into(),
            named: false,
            is_folder: false,
            bytes,
            lasting_inodes: true,
            stamp: None,
            changes: None,
            remakes: None,
            replaces: Replaces::Any,
            spooled: None,
            object: None,
            image: None,
            replaced: None,
            group: None,
            slice: None,
            is_shown: false,
        }
    }
}

impl Job {
    /// Returns whether the input is still in the state in which it was taken.
    pub fn is_unchanged(&self) -> bool {
        if let Some(image) = &self.image {
            return image.is_unchanged();
        }
        if let Some((stamp, changes)) = self.stamp.zip(self.changes) {
            let now = Tree::of(&self.input);
            return now.is_ok_and(|now| now.stamp() == stamp && now.changes == changes);
        }
        // An object is fetched in the state that was listed, or not at all.
        self.object.is_some() || self.stamp.is_none_or(|stamp| stamp.is_still_of(&self.input))
    }

    /// Returns the state of an input in object storage, as it was listed.
    pub(crate) fn listed_state(&self) -> Option<Stamp> {
        let of_object = self.object.as_ref().map(|object| Stamp::of_object(object.entry()));
        of_object.or_else(|| self.image.as_ref().map(|image| image.stamp()))
    }

    /// Returns the digest of all that decides how its output looks.
    pub fn digest(&self) -> Digest {
        self.settings.digest().with(self.mask)
    }

    /// Returns a text to compare, of all that decides whether and how its output is written.
    pub fn fingerprint(&self, limits: &Limits) -> String {
        self.settings.fingerprint(self.mask, limits)
    }

    /// Returns whether a file that is not a picture is a failure. In a folder such files are to be
    /// expected, unless they have names of pictures; a file given by name has to be a picture.
    pub fn must_be_a_picture(&self) -> bool {
        self.named || promises_a_picture(&self.input)
    }
}

/// The number of jobs per thread that are sorted by size at the end of a list: enough to make the
/// last ones small.
const EVENED: usize = 8;

/// Sorts the end of the list by size, the largest files first, which lets the threads finish
/// together: none has a large picture left while the others are idle (R. L. Graham, Bounds on
/// Multiprocessing Timing Anomalies, 1969).
pub fn balance_tail(jobs: &mut [Job], threads: usize) {
    let end = jobs.len().saturating_sub(EVENED.saturating_mul(threads));
    jobs[end..].sort_by_key(|job| Reverse(job.bytes));
}

/// Requests that the objects of these jobs are fetched before their turn, except those longer than
/// the limit.
pub(crate) fn fetch_ahead(jobs: &[Job], settings: &Settings) {
    let fetched = jobs.iter().filter(|job| job.bytes <= settings.limits.max_bytes);
    store::announce(&settings.storage, fetched.filter_map(|job| job.object.as_ref()));
}

/// The amount of work, as far as it is known beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The most pictures that there can be.
    pub pictures: usize,
    /// Whether any of them may have several pages.
    pub have_pages: bool,
    /// The most bytes that the JPEGs among them have, judging by their names.
    pub jpeg_bytes: u64,
}

impl Workload {
    /// The workload of a service, which is unknown.
    pub const ENDLESS: Self = Self { pictures: usize::MAX, have_pages: true, jpeg_bytes: u64::MAX };

    /// Returns the workload of these jobs.
    pub fn of(jobs: &[Job]) -> Self {
        let jpegs = jobs.iter().filter(|job| Format::of_name(&job.input) == Some(Format::Jpeg));
        Self {
            pictures: jobs.len(),
            have_pages: jobs.iter().any(|job| codec::may_have_pages(&job.input)),
            jpeg_bytes: jpegs.map(|job| job.bytes).sum(),
        }
    }

    /// Returns how many of this many threads find work at the same time.
    pub fn occupies(self, threads: usize) -> usize {
        if self.have_pages { threads } else { threads.min(self.pictures) }
    }
}

/// Jobs in their original order, with consecutive small ones in batches: handing one over costs as
/// much as doing it. A small file may be a large picture: batches get smaller as fewer jobs are
/// left for each thread (guided self-scheduling: C. D. Polychronopoulos and D. J. Kuck, 1987).
pub struct Batches {
    jobs: Peekable<vec::IntoIter<Job>>,
    threads: usize,
}

impl Batches {
    /// The most bytes in a batch of several files. Stages work on a few batches at a time, which
    /// also limits the wait for a stop.
    pub(crate) const MAX_BYTES: u64 = 256 * 1024;
    /// The most files in a batch.
    pub(crate) const MAX: usize = 32;
    /// The least number of batches per thread into which the remaining jobs are split.
    const SHARES: usize = 4;

    /// Returns the batches of `jobs`, for `threads` threads.
    pub fn of(jobs: Vec<Job>, threads: usize) -> Self {
        Self { jobs: jobs.into_iter().peekable(), threads }
    }
}

impl Iterator for Batches {
    type Item = Vec<Job>;

    fn next(&mut self) -> Option<Vec<Job>> {
        let most = self.jobs.len() / self.threads.saturating_mul(Self::SHARES).max(1);
        let most = most.min(Self::MAX);
        let first = self.jobs.next()?;
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        while batch.len() < most
            && let Some(job) = self.jobs.next_if(|job| bytes + job.bytes <= Self::MAX_BYTES)
        {
            bytes += job.bytes;
            batch.push(job);
        }
        Some(batch)
    }

    /// Bounds the number of batches by that of jobs, as no batch is empty.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.jobs.len() > 0), Some(self.jobs.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize, bytes: u64) -> Job {
        Job { number, ..Job::for_tests("in/a.png", bytes) }
    }

    #[test]
    fn only_the_end_of_a_list_goes_by_size() {
        let mut jobs: Vec<_> = (0..20).map(|number| job(number, 100 + number as u64 * 7 % 20)).collect();
        balance_tail(&mut jobs, 2);
        let numbers: Vec<_> = jobs.iter().map(|job| job.number).collect();
        // The sizes of the last sixteen are 108, 115, 102, 109, 116, 103, ...
        assert_eq!(numbers, [0, 1, 2, 3, 17, 14, 11, 8, 5, 19, 16, 13, 10, 7, 4, 18, 15, 12, 9, 6]);
    }

    #[test]
    fn small_files_are_handed_over_together_and_large_ones_alone() {
        let batches = |sizes: &[u64], threads| -> Vec<Vec<usize>> {
            let batches = Batches::of(
                sizes.iter().enumerate().map(|(number, &bytes)| job(number, bytes)).collect(),
                threads,
            );
            assert_eq!(batches.size_hint().1, Some(sizes.len()));
            batches.map(|batch| batch.iter().map(|job| job.number).collect()).collect()
        };
        let most = Batches::MAX_BYTES;
        assert_eq!(batches(&[], 1), Vec::<Vec<usize>>::new());
        let sizes = [&[9, 9, most, 9, most - 9, 1, 0][..], &[most; 100]].concat();
        assert_eq!(batches(&sizes, 1)[..5], [vec![0, 1], vec![2], vec![3, 4], vec![5, 6], vec![7]]);
        let of_ones = |count, threads| -> Vec<usize> {
            batches(&vec![1; count], threads).iter().map(Vec::len).collect()
        };
        assert_eq!(of_ones(70, 1), [17, 13, 10, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(of_ones(70, 16), [1; 70]);
        assert_eq!(of_ones(1000, 2)[..3], [Batches::MAX; 3]);
    }
}
