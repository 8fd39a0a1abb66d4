//! The outputs of files of several pages, while their pages come.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::task::{Page, Picture, Processed, Stack, StackId};
use crate::error::PictureError;
use crate::publish::{Pending, PublishError};
use codec::coders::Help;
use codec::multiscales::Medium;
use codec::pages::PageOutput;

/// The result of an outlet for a picture or page.
#[derive(Debug)]
pub enum Taken<'a> {
    /// It is complete, with all pages of its file; the output, if any, is to be published.
    Whole(Option<Box<Pending<'a>>>),
    /// Other pages of its file are to come.
    Page,
}

/// The outputs that still lack pages.
#[derive(Default)]
pub(super) struct StackOutputs<'a> {
    open: Mutex<HashMap<StackId, Arc<StackOutput<'a>>>>,
}

/// An output that is written page by page.
struct StackOutput<'a> {
    medium: Medium,
    /// Holds pages that come before their turn.
    spill: File,
    state: Mutex<OutputState<'a>>,
}

struct OutputState<'a> {
    /// `None` once it is passed on.
    pending: Option<Pending<'a>>,
    /// The number of pages that are being written.
    writing: usize,
    /// Whether the writer has completed the file.
    is_complete: bool,
    /// Whether the writer failed with a page. With another one it may still complete the file, from
    /// parts that were not written.
    has_failed: bool,
}

impl<'a> StackOutput<'a> {
    fn new(mut pending: Pending<'a>, spill: File) -> Result<Self, PublishError> {
        let medium = pending.medium()?;
        let state = OutputState { pending: Some(pending), writing: 0, is_complete: false, has_failed: false };
        Ok(Self { medium, spill, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, OutputState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> StackOutputs<'a> {
    /// Writes a page that the devices have finished. `begin` starts the output and a file that
    /// holds pages for a while.
    pub(super) fn write(
        &self,
        page: &Page,
        finished: &mut Processed,
        help: Help<'_>,
        begin: impl FnOnce() -> Result<(Pending<'a>, File), PublishError>,
    ) -> Result<Taken<'a>, PictureError> {
        let output = self.output_of(&page.stack, begin)?;
        let Processed { slot, picture, .. } = finished;
        let Picture { decoded, work, .. } = &mut **picture;
        let target = &work.job.settings.target;
        decoded.reduce_depth(slot.bytes_mut(), target);
        let to = PageOutput { target, help, out: (&output.medium).into(), spill: &output.spill };
        output.state().writing += 1;
        let written = page.stack.writer.write(page.index, decoded, slot.bytes_mut(), to);
        let mut state = output.state();
        state.writing -= 1;
        state.has_failed |= written.is_err();
        let blame = |source| match &state.pending {
            Some(pending) => pending.unwritten(source),
            None => unreachable!("the output is passed on when no page is being written"),
        };
        let bytes = written.map_err(|error| PictureError::of_encoder(error, blame))?;
        state.is_complete |= bytes.is_some();
        // A page that is still being written may fail.
        if !state.is_complete || state.has_failed || state.writing > 0 {
            return Ok(Taken::Page);
        }
        let whole = state.pending.take();
        drop(state);
        self.give_up(&page.stack);
        Ok(Taken::Whole(whole.map(Box::new)))
    }

    /// Returns the file or folder of the output of a stack, which `begin` starts as in
    /// [`StackOutputs::write`].
    pub(super) fn file_of(
        &self,
        stack: &Arc<Stack>,
        begin: impl FnOnce() -> Result<(Pending<'a>, File), PublishError>,
    ) -> Option<File> {
        // An error will come again when a page is written.
        match &self.output_of(stack, begin).ok()?.medium {
            Medium::File(file) => file.try_clone().ok(),
            Medium::Image(_) => None,
        }
    }

    /// Forgets the output of a stack; an incomplete one is removed.
    pub(super) fn give_up(&self, stack: &Arc<Stack>) {
        self.lock().remove(&stack.id());
    }

    fn output_of(
        &self,
        stack: &Arc<Stack>,
        begin: impl FnOnce() -> Result<(Pending<'a>, File), PublishError>,
    ) -> Result<Arc<StackOutput<'a>>, PublishError> {
        let mut open = self.lock();
        if let Some(output) = open.get(&stack.id()) {
            return Ok(Arc::clone(output));
        }
        let (pending, spill) = begin()?;
        let output = Arc::new(StackOutput::new(pending, spill)?);
        open.insert(stack.id(), Arc::clone(&output));
        Ok(output)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StackId, Arc<StackOutput<'a>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outputs of files with an output file for each page, while the pages come.
#[derive(Default)]
pub(super) struct PageOutputs<'a> {
    /// The pages that are there of each file, with their numbers.
    open: Mutex<HashMap<StackId, Vec<(usize, Pending<'a>)>>>,
}

impl<'a> PageOutputs<'a> {
    /// Takes a page that is encoded into this output.
    pub(super) fn take(&self, page: &Page, output: Pending<'a>) -> Result<Taken<'a>, PictureError> {
        let sealed = output.seal()?;
        let mut open = self.lock();
        let pages = open.entry(page.stack.id()).or_default();
        pages.push((page.index, sealed));
        if pages.len() < page.stack.pages.len() {
            return Ok(Taken::Page);
        }
        let mut pages = open.remove(&page.stack.id()).unwrap_or_default();
        pages.sort_unstable_by_key(|(index, _)| *index);
        let pages = pages.into_iter().map(|(_, page)| page).collect();
        Ok(Taken::Whole(Some(Box::new(Pending::Pages(pages)))))
    }

    /// Forgets the pages of a file, and removes them.
    pub(super) fn give_up(&self, stack: &Arc<Stack>) {
        let pages = self.lock().remove(&stack.id());
        // Removing them from the disk must not hold up others.
        drop(pages);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StackId, Vec<(usize, Pending<'a>)>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
