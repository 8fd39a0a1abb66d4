//! Contrast enhancement for folders of pictures, on CPUs and GPUs, with bit-identical pixels on every device (except for JPEGs that a
//! GPU decodes or encodes).
//!
//! ```text
//!  source            decode (CPU pool)           lane (4 per GPU, or 1 per core)       encode + publish (CPU pool)
//!  scan | watch ──▶ read, check limits, ──slot──▶ upload → histogram → LUT → apply ──slot──▶ encode → temp → fsync ──▶ progress,
//!    bounded jobs    decode INTO the slot          → writeback, on its own stream             → rename                 summary
//!                         ▲                                                                       │
//!                         └───────────────────────── free slots come back ◀───────────────────────┘
//! ```
//!
//! JPEGs may also stay compressed in their slots: a GPU's worker then decodes, equalizes and encodes them itself, and its output is
//! published. JPEGs that the CPU decodes may still be encoded by a GPU's lane.
//!
//! A picture has one name for each stage: [`source`] finds a [`source::Job`]; [`pipeline`] queues and decodes it ([`task::Picture`], whose
//! pixels are in a [`slot`]); a [`task::Task`] is its slot on the way through a [`device`], which [`schedule`] chooses; when all its devices
//! are done it is [`task::Processed`]; [`publish`] has it appear, and [`progress`] reports it. The lanes of the CPU are threads of this
//! process; those of a GPU are in a [`worker`] process of their own. [`run`] is a run over folders, [`service`] is all of `--watch`, and
//! [`ledger`] remembers what was done.
//!
//! This is the program's own library, for its `main.rs` and its tests. What other programs may want are the crates below it:
//! [`equalize`], the arithmetic; [`codec`], the formats; [`lanes`], what computes.

mod backoff;
pub mod bench;
mod beneath;
pub mod cli;
pub mod config;
pub mod counts;
pub mod device;
pub mod device_state;
mod digest;
pub mod error;
pub mod files;
pub mod histogram;
mod input;
mod kind;
pub mod ledger;
pub mod luts;
pub mod machine;
pub mod mask;
pub mod paths;
pub mod pause;
pub mod pipeline;
pub mod program;
pub mod progress;
pub mod publish;
#[cfg(feature = "queue")]
pub mod queue;
pub mod rates;
pub mod record;
pub mod reference;
pub mod remark;
mod rename;
mod resume;
pub mod retry;
pub mod schedule;
pub mod selection;
pub mod service;
pub mod slot;
mod socket;
pub mod source;
pub mod stamp;
pub mod status;
pub mod stop;
pub mod task;
pub mod timings;
pub mod together;
mod words;
pub mod worker;

use crate::config::{Naming, Settings};
use crate::device::RequiredDevices;
use crate::error::Error;
use crate::machine::Machine;
use crate::pipeline::{Outlet, OutputBucket, OutputFolder, Purpose, Run, StandardOutput};
use crate::progress::{Event, Events, Reporter, Summary};
use crate::publish::Publisher;
use crate::resume::Resume;
use crate::source::{Batches, Job, Plan};
use crate::stop::Stop;
use crate::together::Groups;

/// Equalizes the pictures that the settings name, until all are done or `stop` is requested.
///
/// # Errors
/// Any failure of the run as a whole. Failures of single pictures are in the summary instead.
pub fn run(settings: &Settings, stop: &Stop, publisher: &Publisher) -> Result<Summary, Error> {
    let encoder = OutputFolder::new(settings, &settings.out, publisher);
    let standard_output = StandardOutput::default();
    let to_standard_output = settings.naming == Naming::StandardOutput;
    let bucket = OutputBucket::new(settings)?;
    let outlet: &dyn Outlet = match &bucket {
        Some(bucket) => bucket,
        None if to_standard_output => &standard_output,
        None => &encoder,
    };
    let work = || {
        let mut plan = together::plan(settings, stop)?;
        let folders = settings.inputs.iter().filter(|input| input.is_dir());
        plan.notes.extend(folders.filter_map(|folder| source::signs_of_outputs(folder, &settings.out)));
        run_into(outlet, Purpose::Equalize, plan, settings, stop)
    };
    if settings.dry_run || to_standard_output || bucket.is_some() {
        return work();
    }
    // Below the folder of a single output may be anything.
    let of_pages = usize::from(settings.picture.target.splits);
    let depth = if settings.naming.is_single() { 1 + of_pages } else { usize::MAX };
    publish::with_leftovers_removed(&settings.out, depth, work).map_err(Error::thread)?
}

/// Sends the pictures of a plan through the devices and into an outlet.
fn run_into(
    outlet: &dyn Outlet,
    purpose: Purpose,
    mut plan: Plan,
    settings: &Settings,
    stop: &Stop,
) -> Result<Summary, Error> {
    let reporter = Reporter::start(settings.report, settings.told_out(), stop).map_err(Error::thread)?;
    let events = reporter.events();
    settings.notes.iter().chain(&plan.notes).for_each(|note| events.note(note.clone(), true));
    let resume = settings.resume.then(|| Resume::open(settings, &events)).transpose()?;
    resume.as_ref().map_or(Ok(()), |resume| resume.leave_out_done(&mut plan, stop, &events))?;
    // A plan that is not complete is no plan.
    let jobs = if stop.asked() { Vec::new() } else { announce(plan, &events) };
    let done = process(outlet, purpose, jobs, settings, stop, (&events, resume.as_ref()));
    drop(events);
    let told = reporter.finish();
    if let (Err(_), Ok(summary)) = (&done, &told) {
        // It is all that will be told of them.
        summary.tell_failures(settings.report);
    }
    done?;
    let mut summary = told.map_err(|source| Error::Unwritten { what: "the list".into(), source })?;
    if settings.dry_run {
        // An empty list says that there is nothing to do, and no list that nobody asked.
        summary.would.get_or_insert_default();
    }
    let (selective, commas) = (settings.selection.is_selective(), settings.selection.commas);
    let single = settings.naming.is_single();
    Ok(Summary { resumed: settings.resume, single, selective, commas, ..summary })
}

/// Does these jobs, tells what becomes of them, and has `resume` record it if that is given.
///
/// # Errors
/// Any failure of the run as a whole.
pub(crate) fn process(
    outlet: &dyn Outlet,
    purpose: Purpose,
    mut jobs: Vec<Job>,
    settings: &Settings,
    stop: &Stop,
    (events, resume): (&Events, Option<&Resume>),
) -> Result<(), Error> {
    if !settings.dry_run {
        source::balance_tail(&mut jobs, settings.threads);
    }
    let fetched = jobs.iter().filter(|job| job.bytes <= settings.limits.max_bytes);
    store::announce(&settings.storage, fetched.filter_map(|job| job.object.as_ref()));
    let machine = Machine::new(settings.memory, settings.threads);
    let (pictures, jpeg_bytes) = (jobs.len(), source::jpeg_bytes(&jobs));
    let required = RequiredDevices::new(stop.clone());
    let have_pages = jobs.iter().any(|job| codec::may_have_pages(&job.input));
    let groups = Groups::of(&jobs);
    let run = Run {
        settings,
        purpose,
        groups: &groups,
        outlet,
        machine: &machine,
        pictures,
        have_pages,
        jpeg_bytes,
        stop,
        required,
        events,
    };
    match resume {
        _ if pictures == 0 => Ok(()),
        _ if settings.dry_run => run.inspect(jobs),
        None => run.process(Batches::of(jobs, settings.threads)),
        Some(resume) => resume.keep(stop, events, |events| {
            Run { events, ..run }.process(resume.batches(jobs, settings.threads, stop))
        })?,
    }
}

/// Reports what the scan found, and returns the jobs to do.
fn announce(plan: Plan, events: &Events) -> Vec<Job> {
    for (input, error) in plan.failed {
        events.tell(Event::Failed { input, error, planned: false });
    }
    for (input, why) in plan.skipped {
        events.tell(Event::Skipped { input, why, planned: false });
    }
    events.tell(Event::Planned { count: plan.jobs.len() });
    plan.jobs
}
