//! A run over folders: a plan is made, its pictures go through the [`pipeline`] into an outlet, and
//! a [`Summary`] remains.
//!
//! The module owns one run, from the plan to the summary. It does not know services and queues,
//! which make a [`pipeline::Run`] of their own.

pub(crate) mod lasting;
pub mod pipeline;
pub(crate) mod resume;
pub mod together;
mod volumes;

use std::fs::File;
use std::io;
use std::path::Path;

use crate::config::{Existing, Naming, Settings};
use crate::device::machine::Machine;
use crate::error::{Error, PictureError};
use crate::fs::paths::Shown;
use crate::progress::{Event, Events, Remade, Reporter, Summary, listing};
use crate::publish::{self, Publisher, Replaces, Upload};
use crate::report;
use crate::selection::Links;
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Plan, Skipped, Workload};
use pipeline::{Encoder, Outlet, Purpose, Run, WaitingBands};
use resume::Resume;
use store::{Object, Url};
use together::Groups;

/// Equalizes the pictures that the settings name, until all are done or `stop` is requested.
///
/// # Errors
/// Any failure of the run as a whole. Failures of single pictures are in the summary instead.
pub fn run(settings: &Settings, stop: &Stop, publisher: &Publisher) -> Result<Summary, Error> {
    let encoder = Encoder::new(settings, &settings.out, publisher)?;
    let page = settings.report_page.as_deref();
    page.map_or(Ok(()), |page| report::check(page, publisher))?;
    let work = || {
        let mut plan = together::plan(settings, stop)?;
        let folders = settings.inputs.iter().filter(|input| input.is_dir());
        plan.notes.extend(folders.filter_map(|folder| source::signs_of_outputs(folder, &settings.out)));
        if !settings.dry_run {
            copy(&mut plan, settings, publisher);
        }
        run_into(&encoder, Purpose::Equalize, plan, settings, stop)
    };
    let has_folder = settings.naming != Naming::StandardOutput && !store::is_url(&settings.out);
    let mut summary = if settings.dry_run || !has_folder {
        work()
    } else {
        // The folder of a single output may contain many other files.
        let of_pages = usize::from(settings.picture.target.splits || settings.picture.split_several());
        let depth = if settings.naming.is_single() { 1 + of_pages } else { usize::MAX };
        publish::with_leftovers_removed(&settings.out, depth, work).map_err(Error::thread)?
    }?;
    let Some(page) = page else { return Ok(summary) };
    let written = report::write(page, &mut summary, settings, publisher);
    if written.is_err() {
        // There will be no other report of them.
        summary.print_failures(settings.report);
    }
    written.map(|()| summary)
}

/// Writes the files of a plan that stay as they are. Those that cannot be copied have failed.
fn copy(plan: &mut Plan, settings: &Settings, publisher: &Publisher) {
    let mut copies = std::mem::take(&mut plan.copies);
    // The search has found that these cannot be read.
    copies.retain(|(from, _)| plan.failed.iter().all(|(failed, _)| failed != from));
    plan.failed.extend(copies.into_iter().filter_map(|(from, to)| {
        let why = copy_file(&from, &to, settings, publisher).err()?;
        Some((from, PictureError::Collection(why)))
    }));
}

/// Writes a file that stays as it is to its place, or returns why it cannot be, with a remedy.
fn copy_file(from: &Path, to: &Path, settings: &Settings, publisher: &Publisher) -> Result<(), String> {
    if settings.selection.links == Links::Never && from.is_symlink() {
        return Err("it is a link, and no link is followed; put a file in its place".to_owned());
    }
    let unread = |why: io::Error| format!("it cannot be read: {why}; make it readable and run again");
    let mut file = match store::is_url(from) {
        true => fetched(from, settings).map_err(io::Error::other),
        false => settings.roots.open(from),
    }
    .map_err(unread)?;
    if !file.metadata().map_err(unread)?.is_file() {
        return Err("it is not a regular file; put one in its place".to_owned());
    }
    let replaces = if settings.existing == Existing::Overwrite { Replaces::Any } else { Replaces::Own };
    let (kind, copied) = match store::is_url(&settings.out) {
        true => {
            let bucket = Url::parse(to).and_then(|url| settings.storage.bucket(&url));
            let bucket = bucket.map_err(|why| why.to_string())?;
            ("object", Upload::copy(&bucket, &mut file, to, replaces == Replaces::Any))
        }
        false => ("file", publisher.copy(&settings.out, &mut file, to, replaces)),
    };
    copied.map_err(|why| match why.is_of_another() {
        true => format!("{} is another {kind} of that name; move it away and run again", Shown(to)),
        false => why.to_string(),
    })
}

/// Returns the content of an object.
fn fetched(from: &Path, settings: &Settings) -> Result<File, String> {
    let url = Url::parse(from).map_err(|why| why.to_string())?;
    let bucket = settings.storage.bucket(&url).map_err(|why| why.to_string())?;
    let found = bucket.head(&url).map_err(|why| why.to_string())?.ok_or("it is gone")?;
    Object::new(bucket, found.entry).open().map_err(|why| why.to_string())
}

/// Sends the pictures of a plan through the devices and into an outlet.
pub(crate) fn run_into(
    outlet: &dyn Outlet,
    purpose: Purpose,
    mut plan: Plan,
    settings: &Settings,
    stop: &Stop,
) -> Result<Summary, Error> {
    let reporter = Reporter::start(settings.report, settings.named_output(), stop).map_err(Error::thread)?;
    let events = reporter.events();
    settings.notes.iter().chain(&plan.notes).for_each(|note| events.note(note.clone(), true));
    let resume = settings.resume.then(|| Resume::open(settings, &events)).transpose()?;
    resume.as_ref().map_or(Ok(()), |resume| resume.leave_out_done(&mut plan, stop, &events))?;
    if !settings.dry_run {
        plan.failed.extend(outlet.copy_sidecars_of_done(&plan.skipped));
    }
    let remade = Remade::of(&plan.jobs).sentence(["is made again", "are made again"]);
    remade.filter(|_| !settings.dry_run).into_iter().for_each(|remade| events.note(remade, false));
    let done_before = settings.report_page.as_ref().map(|_| listing::done_before(&plan));
    if done_before.is_some() {
        report::choose(&mut plan.jobs);
    }
    // An incomplete plan is not carried out.
    let jobs = if stop.asked() { Vec::new() } else { announce(plan, &events) };
    let machine = Machine::new(settings.memory, settings.threads);
    let run = Run { purpose, ..Run::new(settings, outlet, &machine, stop, &events) };
    let done = process(&run, jobs, resume.as_ref());
    drop(events);
    let told = reporter.finish();
    if let (Err(_), Ok(summary)) = (&done, &told) {
        // There will be no other report of them.
        summary.print_failures(settings.report);
    }
    done?;
    let mut summary = told.map_err(|source| Error::Unwritten { what: "the list".into(), source })?;
    if settings.dry_run {
        // An empty list reports that there is no work; no list, that none was requested.
        summary.would.get_or_insert_default();
    }
    if let (Some(listing), Some(done)) = (&mut summary.listing, done_before) {
        listing.done_before = done;
    }
    let (selective, commas) = (settings.selection.is_selective(), settings.selection.commas);
    let single = settings.naming.is_single();
    Ok(Summary { resumed: settings.resume, single, selective, commas, ..summary })
}

/// Processes these jobs, and lets `resume`, if given, record the results.
fn process(run: &Run<'_>, mut jobs: Vec<Job>, resume: Option<&Resume>) -> Result<(), Error> {
    let &Run { settings, stop, events, .. } = run;
    if !settings.dry_run {
        source::balance_tail(&mut jobs, settings.threads);
    }
    source::fetch_ahead(&jobs, settings);
    // Files that are no pictures need no place.
    if !settings.dry_run && jobs.iter().any(|job| source::may_be_a_picture(&job.input, &settings.roots)) {
        run.outlet.check()?;
    }
    let (groups, waiting) = (Groups::of(&jobs), WaitingBands::default());
    let run = Run { groups, waiting, workload: Workload::of(&jobs), ..*run };
    match resume {
        _ if jobs.is_empty() => Ok(()),
        _ if settings.dry_run => run.inspect(jobs),
        None => run.process(Batches::of(jobs, settings.threads)),
        Some(resume) => resume.keep(stop, events, |events| {
            Run { events, ..run }.process(resume.batches(jobs, settings.threads, stop))
        })?,
    }
}

/// Reports the results of the scan, and returns the jobs to do.
fn announce(plan: Plan, events: &Events) -> Vec<Job> {
    for (input, error) in plan.failed {
        events.send(Event::Failed { input, error, planned: false });
    }
    for Skipped { input, why, .. } in plan.skipped {
        events.send(Event::Skipped { input, why, planned: false });
    }
    events.send(Event::Planned { count: plan.jobs.len() });
    plan.jobs
}
