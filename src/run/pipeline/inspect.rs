//! A dry run: headers are read, but pictures are neither decoded nor written.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::vec;

use super::load::Loader;
use super::{Run, contained};
use crate::device::task::Pass;
use crate::error::{Error, PictureError};
use crate::picture::boxes::Divided;
use crate::picture::remark::Remark;
use crate::progress::Event;
use crate::source::Job;

/// Pictures to inspect before any of them is reported. They are reported in the order of the list.
const BLOCK: usize = 1024;

/// A job, and whether it would be done.
type Inspected = (Job, Result<(), PictureError>);

impl Run<'_> {
    /// Reads the headers of these pictures, and reports which would be done and which would fail.
    /// Damage after a header, and obstacles to an output, show only in the run itself.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn inspect(&self, jobs: Vec<Job>) -> Result<(), Error> {
        let mut jobs = jobs.into_iter();
        while jobs.len() > 0 && !self.stop.asked() {
            let block: Vec<Job> = jobs.by_ref().take(BLOCK).collect();
            for (job, inspected) in self.inspect_block(block)? {
                match inspected {
                    Ok(()) => self.report(job),
                    Err(error) => self.events.send(Event::failure(job, error)),
                }
            }
        }
        Ok(())
    }

    fn inspect_block(&self, block: Vec<Job>) -> Result<Vec<Inspected>, Error> {
        let threads = self.settings.threads.min(block.len());
        let jobs = Mutex::new(block.into_iter());
        let mut inspected: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|number| {
                    Builder::new()
                        .name(format!("inspect-{number}"))
                        .spawn_scoped(scope, || self.inspect_all(&jobs))
                        .map_err(Error::thread)
                })
                .collect::<Result<_, Error>>()?;
            let each = threads.into_iter().map(|thread| thread.join().expect("panics are contained"));
            Ok::<_, Error>(each.flatten().collect())
        })?;
        inspected.sort_by_key(|(job, _)| job.number);
        Ok(inspected)
    }

    fn inspect_all(&self, jobs: &Mutex<vec::IntoIter<Job>>) -> Vec<Inspected> {
        let mut buffer = Vec::new();
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut inspected = Vec::new();
        while let Some(mut job) = next().filter(|_| !self.stop.asked()) {
            let settings = Arc::clone(&job.settings);
            let order = self.order_of(&settings, &Pass::Only, Divided::ONE);
            let loader = Loader { run: self, settings: &settings, order, divided: Divided::ONE };
            let result = contained(|| loader.read_header(&mut job, &mut buffer));
            if let Some(object) = &job.object {
                object.let_go();
            }
            inspected.push((job, result));
        }
        inspected
    }

    fn report(&self, job: Job) {
        let Job { input, output, remakes, settings, .. } = job;
        if let Some(remake) = remakes {
            self.events.send(Event::Remade { input: input.clone(), remake });
        }
        if settings.is_of_folder {
            let remark = Remark::FolderSettings;
            self.events.send(Event::Remarked { input: input.clone(), remark, range: None });
        }
        self.events.send(Event::Would { input, output });
    }
}
