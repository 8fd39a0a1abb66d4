//! Collects the histograms as they come from the devices and writes them in the order of the
//! pictures.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sums::Sums;
use super::waiting::Waiting;
use super::{Histograms, Request, Scale, chart, destination};
use crate::device::task::{Processed, Stack};
use crate::error::{Error, PictureError};
use crate::fs::paths::Shown;
use crate::picture::counts::Counts;
use crate::publish::{Pending, PublishError, Publisher, Unpublished};
use crate::run::pipeline::{Outlet, Taken};
use crate::source::Job;
use crate::source::stop::Stop;
use codec::coders::Help;
use equalize::count;

/// Bytes of rows that may wait in memory: enough for about a thousand 8-bit pictures.
const MAX_WAITING: usize = 16 << 20;

/// The [`Outlet`] of a run that counts pictures.
pub struct Collector<'a> {
    request: &'a Request,
    /// The folder below which plots are named after inputs; `None` if the user named the plot.
    plots: Option<&'a Path>,
    publisher: &'a Publisher,
    stop: &'a Stop,
    table: Mutex<Table<'a>>,
    sums: Sums,
    /// The counts of all pictures.
    all: Mutex<Counts>,
}

/// The table written so far, and the rows of pictures that finished before their turn.
struct Table<'a> {
    to: Box<dyn Write + Send>,
    /// The file of the table, published under the name that the user gave once it is complete;
    /// `None` if the table goes to a stream.
    file: Option<Unpublished<'a>>,
    /// The number of the picture whose rows are written next.
    next: usize,
    /// The rows of pictures that are not due yet; empty for a picture that failed.
    waiting: Waiting,
    /// Whether any rows have been written.
    begun: bool,
    /// The first failure.
    failed: Option<io::Error>,
}

impl<'a> Collector<'a> {
    /// Starts the table. `plots` is the folder below which plots are named after inputs, if they
    /// are.
    ///
    /// # Errors
    /// When its destination cannot be opened.
    pub fn new(
        request: &'a Request,
        plots: Option<&'a Path>,
        publisher: &'a Publisher,
        stop: &'a Stop,
    ) -> Result<Self, Error> {
        let (to, file) = match request.out.as_deref() {
            Some(out) => open(out, publisher)?,
            None if request.counts.is_some() => (Box::new(io::sink()) as Box<dyn Write + Send>, None),
            None => (Box::new(BufWriter::new(io::stdout())) as Box<dyn Write + Send>, None),
        };
        let waiting = Waiting::new(MAX_WAITING);
        let table = Table { to, file, next: 0, waiting, begun: false, failed: None };
        Ok(Self {
            request,
            plots,
            publisher,
            stop,
            table: Mutex::new(table),
            sums: Sums::default(),
            all: Mutex::default(),
        })
    }

    /// Ends the table. If it is not complete, because the run was stopped, its file is not
    /// published.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(self, complete: bool) -> Result<(), Error> {
        let mut table = self.table.into_inner().unwrap_or_else(PoisonError::into_inner);
        // After a stopped run there are gaps between the remaining pictures.
        while let Some(next) = table.waiting.first() {
            table.next = next;
            table.write_due(self.request);
        }
        table.end(self.request);
        let out = self.request.out.as_deref();
        table.failed.map_or(Ok(()), |error| Err(unwritten(out, error)))?;
        if !complete {
            return Ok(());
        }
        table.file.map_or(Ok(0), Unpublished::publish)?;
        let all = self.all.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.request.counts.as_deref().map_or(Ok(()), |file| write_counts(&all, file, self.publisher))
    }

    fn table(&self) -> MutexGuard<'_, Table<'a>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rows of a picture, and writes all rows that are due.
    fn add(&self, job: &Job, rows: Vec<u8>) {
        let mut table = self.table();
        let added = table.waiting.add(job.number, rows);
        table.note(added);
        table.write_due(self.request);
        if table.failed.is_some() {
            self.stop.abort();
        }
    }

    /// Draws the plot of a picture. Returns its unpublished file, or `None` if it was written to a
    /// stream.
    fn draw(
        &self,
        histograms: &Histograms<'_>,
        scale: Scale,
        job: &Job,
    ) -> Result<Option<Unpublished<'a>>, PictureError> {
        let picture = chart::draw(histograms, scale, &job.output).map_err(PictureError::Plot)?;
        let mut output = if let Some(root) = self.plots {
            self.publisher.begin(root, &job.output)?
        } else {
            if let Some(stream) = destination::stream(&job.output) {
                let written = stream.and_then(|mut stream| stream.write_all(&picture));
                return written
                    .map(|()| None)
                    .map_err(|error| PictureError::Plot(format!("{}: {error}", Shown(&job.output))));
            }
            begin(&job.output, self.publisher)?
        };
        output.file().write_all(&picture).map_err(|error| output.unwritten(error))?;
        Ok(Some(output))
    }
}

/// Opens the destination of the table. Returns its writer and, if it is a regular file, the file to
/// publish in the end.
fn open<'a>(
    out: &Path,
    publisher: &'a Publisher,
) -> Result<(Box<dyn Write + Send>, Option<Unpublished<'a>>), Error> {
    if let Some(stream) = destination::stream(out) {
        let stream =
            stream.map_err(|error| Error::CannotRun(format!("cannot write {}: {error}", Shown(out))))?;
        return Ok((Box::new(BufWriter::new(stream)), None));
    }
    let mut file = begin(out, publisher)?;
    let copy = file.file().try_clone().map_err(|error| unwritten(Some(out), error))?;
    Ok((Box::new(BufWriter::<File>::new(copy)), Some(file)))
}

/// Writes the file of counts.
fn write_counts(counts: &Counts, name: &Path, publisher: &Publisher) -> Result<(), Error> {
    let text = counts.to_json();
    if let Some(stream) = destination::stream(name) {
        return stream
            .and_then(|mut stream| stream.write_all(text.as_bytes()))
            .map_err(|error| unwritten(Some(name), error));
    }
    let mut file = begin(name, publisher)?;
    file.file().write_all(text.as_bytes()).map_err(|error| unwritten(Some(name), error))?;
    Ok(file.publish().map(drop)?)
}

/// Starts a file that the user named; through a link, its target.
fn begin<'a>(name: &Path, publisher: &'a Publisher) -> Result<Unpublished<'a>, PublishError> {
    let file = destination::followed(name);
    publisher.begin(file.parent().unwrap_or(Path::new("")), &file)
}

impl Outlet for Collector<'_> {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn take(
        &self,
        finished: &mut Processed,
        _scratch: &mut Vec<u8>,
        _help: Help<'_>,
    ) -> Result<Taken<'_>, PictureError> {
        let (mut layout, bins) = (finished.picture.decoded.layout, self.request.bins);
        let levels_of = finished.picture.decoded.levels();
        let levels = levels_of.number(layout.depth);
        if bins > levels {
            return Err(PictureError::TooManyBins { levels, bins });
        }
        let front = finished.content.front(&layout);
        let (_, counts) = finished.order.parts(finished.slot.bytes_mut(), front);
        let summed;
        let (mut counts, mut channels) = (&*counts, None);
        if let Some(page) = &finished.picture.work.page {
            summed = self.sums.add(page, &finished.picture.decoded, counts)?;
            let Some(sum) = &summed else { return Ok(Taken::Page) };
            (layout, counts) = (sum.layout, &sum.counts);
            channels = Some(&sum.channels).filter(|channels| !channels.is_empty());
        }
        let job = &finished.picture.work.job;
        // Checked again before a plot is published; a row of the table cannot be taken back.
        if !job.is_unchanged() {
            return Err(PictureError::Changed);
        }
        if self.request.counts.is_some() {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            match channels {
                Some(channels) => all.merge(channels),
                None => all.add(&layout, levels_of, None, &counts[..count::length(&layout)]),
            }
        }
        let histograms = Histograms { input: &job.input, layout, levels, counts };
        let drawn = self.request.plot.map(|scale| self.draw(&histograms, scale, job)).transpose()?;
        self.add(job, self.request.format.picture(&histograms, bins));
        Ok(Taken::Whole(drawn.flatten().map(Pending::File).map(Box::new)))
    }

    fn give_up(&self, stack: &Arc<Stack>) {
        self.sums.give_up(stack);
    }

    fn miss(&self, job: &Job) {
        self.add(job, Vec::new());
    }
}

impl Table<'_> {
    /// Writes the rows that are due, up to the first picture whose rows are missing.
    fn write_due(&mut self, request: &Request) {
        loop {
            match self.waiting.take(self.next) {
                Ok(Some(rows)) => self.write(request, &rows),
                Ok(None) => return,
                Err(error) => self.note(Err(error)),
            }
            self.next += 1;
        }
    }

    /// Records a failure, unless there was one before.
    fn note(&mut self, result: io::Result<()>) {
        self.failed = self.failed.take().or(result.err());
    }

    fn write(&mut self, request: &Request, rows: &[u8]) {
        if rows.is_empty() {
            return;
        }
        let between = request.format.between();
        let before = if self.begun { between } else { &request.format.begin(request.bins) };
        self.begun = true;
        let written = self.to.write_all(before).and_then(|()| self.to.write_all(rows));
        self.note(written);
    }

    /// Writes the end of the table, and its beginning if no row has been written: a table without
    /// rows is valid too.
    fn end(&mut self, request: &Request) {
        let begin = if self.begun { Vec::new() } else { request.format.begin(request.bins) };
        let end = [&begin, request.format.end()].concat();
        let written = self.to.write_all(&end).and_then(|()| self.to.flush());
        self.note(written);
    }
}

fn unwritten(out: Option<&Path>, source: io::Error) -> Error {
    let what = out.map_or_else(|| "the histograms".to_owned(), |out| Shown(out).to_string());
    Error::Unwritten { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Durability;
    use crate::histogram::TableFormat;

    #[test]
    fn a_stopped_run_leaves_the_table_of_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("table.csv");
        std::fs::write(&out, "of an earlier run").unwrap();
        let request = Request {
            bins: 1,
            format: TableFormat::Csv,
            out: Some(out.clone()),
            plot: None,
            equalized: false,
            counts: None,
        };
        let (publisher, stop) = (Publisher::new(Durability::Fast), Stop::default());
        let finish =
            |complete| Collector::new(&request, None, &publisher, &stop).unwrap().finish(complete).unwrap();
        finish(false);
        assert_eq!(std::fs::read(&out).unwrap(), b"of an earlier run");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        finish(true);
        assert!(std::fs::read_to_string(&out).unwrap().starts_with("picture,width"));
    }
}
