//! `--together`: pictures that get the same LUTs, made from the histograms of all of them, which
//! keeps their brightness comparable.
//!
//! Every picture of a group goes through the pipeline twice: first it is counted, and once all are,
//! the LUTs are applied to each. In between, its pixels stay in memory as long as there is room
//! ([`crate::slot::SlotPool::park`]); otherwise it is decoded again. A picture that fails does not
//! count, and the others continue. If any is left out because the run stops, its whole group is.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::ffi::OsStr;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Existing, PictureSettings, Settings, Together, TogetherChoice};
use crate::device::task::{Page, Pass, QueuedJob, StackId, Tables};
use crate::error::Error;
use crate::fs::input;
use crate::fs::paths::below_inputs;
use crate::picture::boxes::VolumeName;
use crate::picture::counts::Counts;
use crate::picture::luts::Luts;
use crate::picture::record::Digest;
use crate::run::volumes;
use crate::slot::ParkedId;
use crate::source::stop::Stop;
use crate::source::{self, Job, Plan, Skip, Skipped};
use codec::volumes::Slice;
use equalize::{Layout, Levels};

/// Lists the pictures to process. As a group is counted whole, pictures that are already done are
/// done again if any of their group is not.
///
/// # Errors
/// As for [`source::scan()`].
pub fn plan(settings: &Settings, stop: &Stop) -> Result<Plan, Error> {
    let plan = scan(settings, stop)?;
    let is_complete = plan.skipped.iter().all(|skipped| skipped.why != Skip::AlreadyDone);
    let to_do: HashSet<_> = plan.jobs.iter().filter_map(GroupKey::of).collect();
    if to_do.is_empty() || is_complete {
        return Ok(plan);
    }
    let alone = plan.jobs.into_iter().filter(|job| GroupKey::of(job).is_none());
    let mut alone: HashMap<_, _> = alone.map(|job| (job.output.clone(), job)).collect();
    let mut again = settings.clone();
    again.existing = Existing::Overwrite;
    let mut all = scan(&again, stop)?;
    for job in mem::take(&mut all.jobs) {
        let to_do = match GroupKey::of(&job) {
            Some(key) if to_do.contains(&key) => Ok(job),
            Some(_) => Err(job),
            None => alone.remove(&job.output).ok_or(job),
        };
        match to_do {
            Ok(job) => all.jobs.push(Job { number: all.jobs.len(), ..job }),
            Err(done) => all.skipped.push(Skipped::done(done.input, done.output)),
        }
    }
    Ok(all)
}

/// Lists the pictures, with their groups if these follow from paths, with their series or volumes
/// where needed, and the slices of each volume in order.
fn scan(settings: &Settings, stop: &Stop) -> Result<Plan, Error> {
    let mut plan = source::scan(settings, stop)?;
    for job in &mut plan.jobs {
        if let Together::By(pattern) = &job.settings.together {
            job.group = pattern.group_of(below_inputs(&settings.inputs, &job.input)).map(Arc::from);
        }
    }
    volumes::arrange(&mut plan, settings, stop);
    let mut by_series: HashMap<Arc<OsStr>, (Vec<usize>, Vec<Slice>)> = HashMap::new();
    let jobs = plan.jobs.iter_mut().enumerate();
    let of_series = jobs.filter(|(_, job)| is_of_series(job));
    for (place, job) in of_series.take_while(|_| !stop.asked()) {
        let file = input::open(&job.input).ok();
        let Some(slice) =
            file.and_then(|mut file| codec::volumes::slice_of(&mut file, &settings.limits).ok()?)
        else {
            continue;
        };
        let series: Arc<OsStr> = OsStr::new(slice.series.as_str()).into();
        job.group = Some(Arc::clone(&series));
        let (places, slices) = by_series.entry(series).or_default();
        places.push(place);
        slices.push(slice);
    }
    for (places, slices) in by_series.into_values() {
        put_in_order(&mut plan.jobs, &places, &slices);
    }
    Ok(plan)
}

/// Returns whether a file shares a table with its series.
fn is_of_series(job: &Job) -> bool {
    job.settings.together == Together::Of(TogetherChoice::Series)
        && !job.settings.operation.method.has_boxes()
}

/// Puts the slices of a series, which are the jobs with these indices, into their order there.
fn put_in_order(jobs: &mut [Job], places: &[usize], slices: &[Slice]) {
    let ordered: Vec<Job> = Slice::order(slices).iter().map(|&at| jobs[places[at]].clone()).collect();
    for (&place, job) in places.iter().zip(ordered) {
        jobs[place] = Job { number: place, ..job };
    }
}

/// Returns whether a picture shares no table with other files.
pub(crate) fn is_alone(job: &Job) -> bool {
    GroupKey::of(job).is_none()
}

/// The identity of a group of several files: pictures with other settings have other LUTs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    settings: Digest,
    common: Common,
}

/// The property that the files of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Common {
    Folder(PathBuf),
    Series(Arc<OsStr>),
    /// A group of the files of a folder.
    Group(PathBuf, Arc<OsStr>),
    /// The volume that they are slices of.
    Volume(VolumeName),
}

impl GroupKey {
    /// Returns the group of a job among those of several files; `None` if it is one by itself.
    fn of(job: &Job) -> Option<Self> {
        let folder = job.input.parent().unwrap_or(Path::new(""));
        if job.settings.operation.method.has_boxes() {
            let common = Common::Volume(job.slice.as_ref()?.volume.name.clone());
            return Some(Self { settings: job.settings.digest(), common });
        }
        let common = match &job.settings.together {
            Together::By(_) => Common::Group(folder.to_owned(), Arc::clone(job.group.as_ref()?)),
            Together::Of(choice) => match choice {
                TogetherChoice::Auto
                | TogetherChoice::Page
                | TogetherChoice::File
                | TogetherChoice::Channel
                | TogetherChoice::Stack => return None,
                TogetherChoice::Folder => Common::Folder(folder.to_owned()),
                TogetherChoice::Series => Common::Series(Arc::clone(job.group.as_ref()?)),
                TogetherChoice::All => Common::Folder(job.settings.together_in.clone()),
            },
        };
        Some(Self { settings: job.settings.digest(), common })
    }
}

/// A picture that has been counted.
struct Counted {
    work: QueuedJob,
    /// Its pixels, if they are in memory.
    parked: Option<ParkedId>,
}

/// The counts of a picture.
pub struct PictureCounts<'c> {
    /// The picture's layout.
    pub layout: Layout,
    /// Its levels.
    pub levels: Levels,
    /// The number of the channel, if channels that are not colours have tables of their own.
    pub channel: Option<u16>,
    /// The count of each level ([`equalize::count::count`]); empty if the boxes of a stack have
    /// been counted instead.
    pub counts: &'c [u64],
    /// The rescaling of its stored values, if any.
    pub rescale: Option<[f64; 2]>,
    /// Whether its levels have another meaning than in others, which requires a table of its own.
    pub has_own_range: bool,
}

/// The pictures of a group, and the sums of their counts so far.
#[derive(Default)]
struct Group {
    /// The number of pictures that have yet to be counted, or to fail.
    left: usize,
    /// Whether any was left out.
    is_broken: bool,
    /// The first file that failed, if the group is a volume, which cannot do without it.
    failed: Option<PathBuf>,
    /// The different rescalings of stored values that occur.
    rescales: Vec<Option<[f64; 2]>>,
    counts: Counts,
    counted: Vec<Counted>,
}

impl Group {
    /// Takes over the pictures of a file, which is one of the group.
    fn merge(&mut self, file: Self) {
        self.left -= 1;
        self.is_broken |= file.is_broken;
        file.rescales.iter().for_each(|rescale| self.note_rescale(*rescale));
        self.counts.merge(&file.counts);
        self.counted.extend(file.counted);
    }

    /// Adds a picture and its counts.
    fn add(&mut self, work: QueuedJob, parked: Option<ParkedId>, counted: &PictureCounts<'_>) {
        self.note_rescale(counted.rescale);
        if !counted.counts.is_empty() {
            self.counts.add(&counted.layout, counted.levels, counted.channel, counted.counts);
        }
        self.counted.push(Counted { work, parked });
    }

    /// Records the rescaling of stored values of one of its pictures.
    fn note_rescale(&mut self, rescale: Option<[f64; 2]>) {
        if !self.rescales.contains(&rescale) {
            self.rescales.push(rescale);
        }
    }

    /// Returns whether it is a file that is a group by itself.
    fn is_alone(&self) -> bool {
        self.counted.iter().all(|counted| GroupKey::of(&counted.work.job).is_none())
    }

    /// Sends its pictures on with the common LUTs, unless any was left out.
    fn complete(self) -> Complete {
        let Self { is_broken, failed, rescales, counts, counted, .. } = self;
        if let Some(slice) = failed.filter(|_| !is_broken) {
            let broken = counted.into_iter().map(|counted| (counted.work, slice.clone())).collect();
            return Complete { broken, ..Complete::default() };
        }
        if rescales.len() > 1 {
            let refused = counted.into_iter().map(|counted| counted.work).collect();
            return Complete { refused, ..Complete::default() };
        }
        let Some(first) = counted.first().filter(|_| !is_broken) else {
            let left_out = counted.into_iter().map(|counted| counted.work).collect();
            return Complete { left_out, ..Complete::default() };
        };
        let tables = tables(&first.work, &counts);
        let second =
            |Counted { work, parked }| QueuedJob { pass: Pass::Apply(tables.clone(), parked), ..work };
        Complete { go_on: counted.into_iter().map(second).collect(), counts, ..Complete::default() }
    }
}

/// Makes the tables of a group from these counts, given one of its pictures.
fn tables(work: &QueuedJob, counts: &Counts) -> Tables {
    if let Some(boxes) = work.part().and_then(|part| part.boxes.take()) {
        boxes.make_tables();
        return Tables::Boxes(boxes);
    }
    luts(&work.job, counts)
}

fn luts(job: &Job, counts: &Counts) -> Tables {
    let settings = &job.settings;
    Tables::Luts(Arc::new(Luts::of(counts, &settings.operation, settings.reference.as_deref())))
}

/// Returns the tables of each page of a file that is a group by itself, if the counts of all of its
/// parts are known without counting.
pub(crate) fn known_tables(
    job: &Job,
    page: &Page,
    counts_of: impl Fn(usize) -> Option<Counts>,
) -> Option<Vec<Tables>> {
    let mut known = HashMap::new();
    let pages = 0..page.stack.pages.len();
    let tables = pages.map(|index| match known.entry(part_of(job, page, index)) {
        Entry::Occupied(tables) => Some(Tables::clone(tables.get())),
        Entry::Vacant(place) => {
            let counts = counts_of(*place.key())?;
            Some(place.insert(luts(job, &counts)).clone())
        }
    });
    tables.collect()
}

/// The next steps of pictures when a group is complete.
#[derive(Default)]
pub struct Complete {
    /// To be queued again, for the second pass.
    pub go_on: Vec<QueuedJob>,
    /// The counts that their tables are made from, unless these are of boxes.
    pub counts: Counts,
    /// Refused, because equal levels in the group stand for different values.
    pub refused: Vec<QueuedJob>,
    /// Slices of a broken volume, each with the file that failed.
    pub broken: Vec<(QueuedJob, PathBuf)>,
    /// Left out, because another picture of the group was.
    pub left_out: Vec<QueuedJob>,
}

/// The groups of a run.
#[derive(Default)]
pub struct Groups {
    state: Mutex<OpenGroups>,
}

/// The incomplete groups.
#[derive(Default)]
struct OpenGroups {
    groups: HashMap<GroupKey, Group>,
    /// The parts of files of several pages: volumes or channels, if these have tables of their own.
    files: HashMap<StackId, HashMap<usize, Group>>,
    /// Whether groups can no longer be completed.
    is_abandoned: bool,
}

impl Groups {
    /// Makes the groups of these jobs.
    pub fn of(jobs: &[Job]) -> Self {
        let mut state = OpenGroups::default();
        for key in jobs.iter().filter_map(GroupKey::of) {
            state.groups.entry(key).or_default().left += 1;
        }
        Self { state: Mutex::new(state) }
    }

    /// Adds the counts of a picture, which is then to be queued again.
    pub fn add(&self, work: QueuedJob, parked: Option<ParkedId>, counted: &PictureCounts<'_>) -> Complete {
        let mut state = self.lock();
        let (job, page) = (work.job.clone(), work.page.clone());
        if page.as_ref().is_some_and(|page| page.stack.is_over()) {
            return Complete::default();
        }
        let key = GroupKey::of(&job);
        if state.is_abandoned && key.is_some() {
            return Complete { left_out: vec![work], ..Complete::default() };
        }
        let group = match (&page, key) {
            (Some(page), _) => state.file(&job, page),
            (None, Some(key)) => state.group(key),
            (None, None) => unreachable!("a file of one page that is for itself is not counted"),
        };
        if counted.has_own_range {
            let mut alone = Group::default();
            alone.add(work, parked, counted);
            let mut complete = Self::leave(state, &job, page.as_ref());
            complete.go_on.extend(alone.complete().go_on);
            return complete;
        }
        group.add(work, parked, counted);
        Self::leave(state, &job, page.as_ref())
    }

    /// Continues without a picture, or the file that it is a page of: one that failed, or one that
    /// is left out, which `breaks` its group.
    pub fn go_on_without(&self, job: &Job, page: Option<&Page>, breaks: bool) -> Complete {
        let mut state = self.lock();
        if let Some(page) = page {
            state.files.remove(&page.stack.id());
        }
        let Some(key) = GroupKey::of(job).filter(|_| !state.is_abandoned) else { return Complete::default() };
        let group = state.group(key);
        group.is_broken |= breaks;
        if job.slice.is_some() {
            group.failed.get_or_insert_with(|| job.input.clone());
        }
        Self::leave(state, job, None)
    }

    /// Forgets the pages of a file that is given up.
    pub fn forget(&self, page: &Page) {
        let pages = self.lock().files.remove(&page.stack.id());
        drop(pages);
    }

    /// Leaves out all pictures that have been counted and wait for other files, now and later. A
    /// file that is a group by itself and was begun is finished.
    pub fn abandon(&self) -> Complete {
        let mut state = self.lock();
        state.is_abandoned = true;
        let OpenGroups { groups, files, .. } = &mut *state;
        let (alone, parts) =
            mem::take(files).into_iter().partition(|(_, file)| file.values().all(Group::is_alone));
        *files = alone;
        let parts: HashMap<_, _> = parts;
        let parts = parts.into_values().flat_map(HashMap::into_values);
        let all = groups.drain().map(|(_, group)| group).chain(parts);
        let left_out = all.flat_map(|group| group.counted).map(|counted| counted.work).collect();
        Complete { left_out, ..Complete::default() }
    }

    /// Records that a picture of its group is counted or gone; returns the next steps if it was the
    /// last one.
    fn leave(mut state: MutexGuard<'_, OpenGroups>, job: &Job, page: Option<&Page>) -> Complete {
        let key = GroupKey::of(job);
        if let Some(page) = page {
            let group = state.file(job, page);
            group.left -= 1;
            if group.left > 0 {
                return Complete::default();
            }
            let file = state.take_file(job, page);
            match key.clone() {
                Some(key) => state.group(key).merge(file),
                None => {
                    drop(state);
                    return file.complete();
                }
            }
        } else if let Some(key) = key.clone() {
            state.group(key).left -= 1;
        }
        let Some(key) = key else { return Complete::default() };
        if state.groups.get(&key).is_none_or(|group| group.left > 0) {
            return Complete::default();
        }
        let group = state.groups.remove(&key).unwrap_or_default();
        drop(state);
        group.complete()
    }

    fn lock(&self) -> MutexGuard<'_, OpenGroups> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenGroups {
    /// Returns the pages of a file that share a table with this one.
    fn file(&mut self, job: &Job, page: &Page) -> &mut Group {
        let groups = self.files.entry(page.stack.id()).or_insert_with(|| groups_of(job, page));
        groups.entry(part_of(job, page, page.index)).or_default()
    }

    /// Takes out the pages of a file that share a table with this one.
    fn take_file(&mut self, job: &Job, page: &Page) -> Group {
        let id = page.stack.id();
        let groups = self.files.get_mut(&id);
        let group = groups.and_then(|groups| groups.remove(&part_of(job, page, page.index)));
        if self.files.get(&id).is_some_and(HashMap::is_empty) {
            self.files.remove(&id);
        }
        group.unwrap_or_default()
    }

    fn group(&mut self, key: GroupKey) -> &mut Group {
        self.groups.entry(key).or_insert_with(|| Group { left: 1, ..Group::default() })
    }
}

/// Returns the groups of the pages of a file, before any page is counted.
fn groups_of(job: &Job, page: &Page) -> HashMap<usize, Group> {
    let mut groups: HashMap<_, Group> = HashMap::new();
    for index in 0..page.stack.pages.len() {
        groups.entry(part_of(job, page, index)).or_default().left += 1;
    }
    groups
}

/// Returns the channel of a page, if channels that are not colours have tables of their own, which
/// is so unless all pages of a file share one.
pub(crate) fn sample_channel(settings: &PictureSettings, page: Option<&Page>) -> Option<u16> {
    let page = page.filter(|_| settings.together != Together::Of(TogetherChoice::File))?;
    page.stack.pages.sample_channel(page.index)
}

/// Returns the number of the volume, channel or picture of a page or band of the same file, if
/// these have tables of their own.
pub(crate) fn part_of(job: &Job, page: &Page, index: usize) -> usize {
    match (page.stack.volume_of(index), &job.settings.together) {
        (Some(volume), _) => volume,
        // A file of unknown channels has been refused.
        (None, &Together::CHANNEL) => page.stack.pages.channel(index).unwrap_or_default(),
        // The bands of a picture.
        (None, &Together::PAGE) => page.stack.pages.picture_of(index),
        (None, &Together::STACK) if !page.stack.joins_channels => page.stack.pages.picture_of(index),
        (None, &Together::STACK) => page.stack.pages.channel(index).unwrap_or_default(),
        (None, _) => 0,
    }
}
