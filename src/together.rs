//! `--together`: pictures that get the same LUTs, made of the histograms of all of them, so that their brightness stays comparable.
//!
//! Every picture of a group goes through the pipeline twice: first it is counted, and once all are, the LUTs are applied to each. In between,
//! its pixels stay in memory as long as there is room ([`crate::slot::SlotPool::park`]); otherwise it is decoded again. A picture that fails
//! does not count, and the others go on. If any is left out because the run stops, none of its group is done.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Existing, Settings, TogetherChoice};
use crate::counts::Counts;
use crate::error::Error;
use crate::luts::Luts;
use crate::reference::Reference;
use crate::slot::ParkedId;
use crate::source::{self, Job, Plan, Skip};
use crate::stop::Stop;
use crate::task::{Page, Pass, QueuedJob, StackId};
use equalize::{Layout, Levels, Operation};

/// Lists the pictures to process. As a group is counted whole, pictures that are done already are done again if any of their group is not.
///
/// # Errors
/// As for [`source::scan()`].
pub fn plan(settings: &Settings, stop: &Stop) -> Result<Plan, Error> {
    let plan = source::scan(settings, stop)?;
    let is_complete = |plan: &Plan| plan.skipped.iter().all(|(_, why)| *why != Skip::AlreadyDone);
    let groups_files = matches!(settings.together, TogetherChoice::Folder | TogetherChoice::All);
    if !groups_files || plan.jobs.is_empty() || is_complete(&plan) {
        return Ok(plan);
    }
    let to_do: HashSet<_> = plan.jobs.iter().map(|job| group_of(settings.together, job)).collect();
    let mut again = settings.clone();
    again.existing = Existing::Overwrite;
    let mut all = source::scan(&again, stop)?;
    let (jobs, done) =
        all.jobs.into_iter().partition(|job| to_do.contains(&group_of(settings.together, job)));
    all.jobs = jobs;
    for (number, job) in all.jobs.iter_mut().enumerate() {
        job.number = number;
    }
    all.skipped.extend(done.into_iter().map(|job: Job| (job.input, Skip::AlreadyDone)));
    Ok(all)
}

/// Returns the group of a job among those of several files; `None` if it is one by itself.
fn group_of(choice: TogetherChoice, job: &Job) -> Option<PathBuf> {
    match choice {
        TogetherChoice::Page | TogetherChoice::File => None,
        TogetherChoice::Folder => Some(job.input.parent().unwrap_or(Path::new("")).to_owned()),
        TogetherChoice::All => Some(PathBuf::new()),
    }
}

/// A picture that has been counted.
struct Counted {
    work: QueuedJob,
    /// Its pixels, if they are in memory.
    parked: Option<ParkedId>,
}

/// The pictures of a group, and the sums of their counts so far.
#[derive(Default)]
struct Group {
    /// How many have yet to be counted, or to fail.
    left: usize,
    /// Whether any was left out.
    is_broken: bool,
    counts: Counts,
    counted: Vec<Counted>,
}

impl Group {
    fn of(pictures: usize) -> Self {
        Self { left: pictures, ..Self::default() }
    }

    /// Takes over the pictures of a file, which is one of the group.
    fn merge(&mut self, file: Self) {
        self.left -= 1;
        self.is_broken |= file.is_broken;
        self.counts.merge(&file.counts);
        self.counted.extend(file.counted);
    }
}

/// What becomes of pictures when a group is complete.
#[derive(Default)]
pub struct Complete {
    /// To be queued again, for the second pass.
    pub go_on: Vec<QueuedJob>,
    /// Left out, because another picture of the group was.
    pub left_out: Vec<QueuedJob>,
}

/// The groups of a run.
pub struct Groups {
    choice: TogetherChoice,
    operation: Operation,
    /// What a method with a reference goes by.
    reference: Option<Arc<Reference>>,
    state: Mutex<State>,
}

/// The groups that are not complete.
#[derive(Default)]
struct State {
    /// By folder, or all under an empty path.
    groups: HashMap<PathBuf, Group>,
    /// Files of several pages.
    files: HashMap<StackId, Group>,
    /// Whether no group will be complete any more.
    is_abandoned: bool,
}

impl Groups {
    /// Makes the groups of these jobs; `None` if every page is for itself.
    pub fn new(settings: &Settings, operation: Operation, jobs: &[Job]) -> Option<Self> {
        let (choice, reference) = (settings.together, settings.reference.clone());
        if choice == TogetherChoice::Page {
            return None;
        }
        let groups = Self { choice, operation, reference, state: Mutex::default() };
        let mut state = groups.lock();
        for key in jobs.iter().filter_map(|job| groups.key_of(job)) {
            state.groups.entry(key).or_default().left += 1;
        }
        drop(state);
        Some(groups)
    }

    /// Returns whether a file of one page is a group of its own, which needs no second pass.
    pub fn is_for_files(&self) -> bool {
        self.choice == TogetherChoice::File
    }

    /// Adds the counts of a picture ([`equalize::count::count`]), which is then to be queued again.
    pub fn add(
        &self,
        work: QueuedJob,
        layout: &Layout,
        levels: Levels,
        counts: &[u64],
        parked: Option<ParkedId>,
    ) -> Complete {
        let mut state = self.lock();
        let (job, page) = (work.job.clone(), work.page.clone());
        if page.as_ref().is_some_and(|page| page.stack.is_over()) {
            return Complete::default();
        }
        if state.is_abandoned {
            return Complete { left_out: vec![work], ..Complete::default() };
        }
        let group = match &page {
            Some(page) => state.file(page),
            None => state.group(self.key_of(&job)),
        };
        group.counts.add(layout, levels, counts);
        group.counted.push(Counted { work, parked });
        self.leave(state, &job, page.as_ref())
    }

    /// Goes on without a picture, or the file whose page it is: one that failed, or one that is left out, which `breaks` its group.
    pub fn go_on_without(&self, job: &Job, page: Option<&Page>, breaks: bool) -> Complete {
        let mut state = self.lock();
        if let Some(page) = page {
            state.files.remove(&page.stack.id());
        }
        if self.is_for_files() || state.is_abandoned {
            return Complete::default();
        }
        let group = state.group(self.key_of(job));
        group.is_broken |= breaks;
        self.leave(state, job, None)
    }

    /// Leaves out all that have been counted and wait for others, now and later.
    pub fn abandon(&self) -> Complete {
        if self.is_for_files() {
            // A file that was begun is finished.
            return Complete::default();
        }
        let mut state = self.lock();
        state.is_abandoned = true;
        let State { groups, files, .. } = &mut *state;
        let all = groups.drain().map(|(_, group)| group).chain(files.drain().map(|(_, group)| group));
        let left_out = all.flat_map(|group| group.counted).map(|counted| counted.work).collect();
        Complete { left_out, ..Complete::default() }
    }

    /// Notes that a picture of its group is counted or gone; returns what follows if it was the last one.
    fn leave(&self, mut state: MutexGuard<'_, State>, job: &Job, page: Option<&Page>) -> Complete {
        let key = self.key_of(job);
        if let Some(page) = page {
            let group = state.file(page);
            group.left -= 1;
            if group.left > 0 {
                return Complete::default();
            }
            let file = state.files.remove(&page.stack.id()).unwrap_or_default();
            if self.is_for_files() {
                drop(state);
                return self.complete(file);
            }
            state.group(key.clone()).merge(file);
        } else {
            state.group(key.clone()).left -= 1;
        }
        let key = key.unwrap_or_default();
        if state.groups.get(&key).is_none_or(|group| group.left > 0) {
            return Complete::default();
        }
        let group = state.groups.remove(&key).unwrap_or_default();
        drop(state);
        self.complete(group)
    }

    fn complete(&self, group: Group) -> Complete {
        let Group { is_broken, counts, counted, .. } = group;
        if is_broken {
            return Complete {
                left_out: counted.into_iter().map(|counted| counted.work).collect(),
                ..Complete::default()
            };
        }
        let luts = Arc::new(Luts::of(&counts, &self.operation, self.reference.as_deref()));
        let second =
            |Counted { work, parked }| QueuedJob { pass: Pass::Apply(Arc::clone(&luts), parked), ..work };
        Complete { go_on: counted.into_iter().map(second).collect(), ..Complete::default() }
    }

    fn key_of(&self, job: &Job) -> Option<PathBuf> {
        group_of(self.choice, job)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn file(&mut self, page: &Page) -> &mut Group {
        let pages = page.stack.pages.len();
        self.files.entry(page.stack.id()).or_insert_with(|| Group::of(pages))
    }

    fn group(&mut self, key: Option<PathBuf>) -> &mut Group {
        self.groups.entry(key.unwrap_or_default()).or_insert_with(|| Group::of(1))
    }
}
