//! A run over folders: a plan is made, its pictures go through the [`pipeline`] into an outlet, and a [`Summary`] is left.
//!
//! It owns what one run needs, from the plan to the summary. It knows nothing of services and queues, which call `process` for jobs of
//! their own.

pub mod pipeline;
pub(crate) mod resume;
pub mod together;

use crate::config::{Naming, Settings};
use crate::device::RequiredDevices;
use crate::device::machine::Machine;
use crate::error::Error;
use crate::progress::{Event, Events, Reporter, Summary};
use crate::publish::{self, Publisher};
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Plan};
use pipeline::{Outlet, OutputBucket, OutputFolder, Purpose, Run, StandardOutput};
use resume::Resume;
use together::Groups;

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
    let depth = if settings.naming.is_single() { 1 } else { usize::MAX };
    publish::with_leftovers_removed(&settings.out, depth, work).map_err(Error::thread)?
}

/// Sends the pictures of a plan through the devices and into an outlet.
pub(crate) fn run_into(
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
