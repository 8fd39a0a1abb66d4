//! A picture on its way through the pipeline: before it is decoded, while devices have its pixels, and afterwards.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::stack::Page;
use crate::picture::band_tiles::BandTiles;
use crate::picture::boxes::{BoxPart, FileSlice, StackBoxes};
use crate::picture::luts::Luts;
use crate::picture::preview::Shown;
use crate::picture::remark::Remark;
use crate::progress::timings::Clock;
use crate::slot::rates::{Class, Way};
use crate::slot::schedule::{Attempts, DeviceId};
use crate::slot::{ParkedId, Slot};
use crate::source::Job;
use codec::{CompressedJpeg, Decoded};
use equalize::{Method, Operation};
use lanes::Order;

/// What a picture goes through the pipeline for.
#[derive(Clone, Debug)]
pub enum Pass {
    /// For all that is to be done with it.
    Only,
    /// To find out how many levels the samples have of a picture, a band of which it is, before this pass.
    FindLevels(Box<Pass>),
    /// To find out which levels occur in a picture, a band of which it is.
    Survey,
    /// To be counted, with others that will have the same LUTs.
    Count,
    /// To be changed by these tables. Its pixels may still be in memory.
    Apply(Tables, Option<ParkedId>),
}

impl Pass {
    /// Returns how often a picture goes through the pipeline, from this pass on.
    pub(crate) fn passes(&self) -> usize {
        match self {
            Self::Only | Self::Apply(..) => 1,
            Self::Count => 2,
            Self::Survey => 3,
            Self::FindLevels(next) => 1 + next.passes(),
        }
    }
}

/// Tables that were made of the counts of several pictures.
#[derive(Clone, Debug)]
pub enum Tables {
    /// LUTs for each picture.
    Luts(Arc<Luts>),
    /// Those of the boxes of a volume.
    Boxes(Arc<StackBoxes>),
    /// Those of the tiles of a picture in bands.
    Bands(Arc<BandTiles>),
}

/// A job in the pipeline, with its history so far.
pub struct QueuedJob {
    /// The picture's input and output.
    pub job: Job,
    /// The page of the input that it is about, if that has several.
    pub page: Option<Page>,
    /// What it goes through the pipeline for.
    pub pass: Pass,
    /// What became of the attempts so far, and thus which devices may still take it.
    pub attempts: Attempts,
    /// What it looks like before it is changed, if a report shows it and its pixels were in memory.
    pub(crate) before: Option<Box<Shown>>,
    pub(crate) redo: Sender<QueuedJob>,
}

impl QueuedJob {
    /// Returns whether a device already had the picture, or an earlier page of its file.
    pub(crate) fn was_started(&self) -> bool {
        self.attempts != Attempts::default() || self.page.is_some()
    }

    /// Returns of how many pages of its file it is the first, if a report shows it and it is no band.
    pub(crate) fn shown_of(&self) -> Option<usize> {
        match &self.page {
            _ if !self.job.is_shown => None,
            None => Some(1),
            Some(Page { stack, index: 0 }) if !stack.pages.are_bands() => Some(stack.pages.len()),
            Some(_) => None,
        }
    }

    /// Returns which part it is of what boxes divide, if it can be one.
    pub(crate) fn part(&self) -> Option<BoxPart<'_>> {
        self.page.as_ref().map(Page::part).or_else(|| self.job.slice.as_ref().map(FileSlice::part))
    }

    /// Returns another page of the same file, for this pass.
    pub(crate) fn other(&self, page: Page, pass: Pass) -> Self {
        let Self { job, redo, .. } = self;
        Self {
            job: job.clone(),
            page: Some(page),
            pass,
            attempts: Attempts::default(),
            before: None,
            redo: redo.clone(),
        }
    }

    /// Returns whether the file whose page it is is given up.
    pub(crate) fn is_over(&self) -> bool {
        self.page.as_ref().is_some_and(|page| page.stack.is_over())
    }

    /// Frees the memory that an input from object storage takes, unless a page of it is still to be read.
    pub(crate) fn let_go_of_input(&self) {
        let is_last = self.page.as_ref().is_none_or(|page| page.index + 1 == page.stack.pages.len());
        let has_tiles = self.page.as_ref().is_some_and(|page| page.tiles().is_some());
        let is_read_again =
            matches!(self.pass, Pass::FindLevels(_)) || has_tiles && !matches!(self.pass, Pass::Apply(..));
        if let Some(object) = self.job.object.as_ref().filter(|_| is_last && !is_read_again) {
            object.let_go();
        }
    }

    /// Sends it back to the decoders.
    pub(crate) fn queue_again(self) {
        let back = self.redo.clone();
        // The queue is closed only if the decoders panicked; that panic then ends the run.
        let _ = back.send(self);
    }
}

/// What is known of a picture's file beside its content.
#[derive(Clone, Copy, Debug)]
pub struct InputFile {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has holes.
    pub has_holes: bool,
}

/// A picture without its pixels, decoded or to be decoded by a device.
pub struct Picture {
    /// What the pixels are, and what the encoder will need.
    pub decoded: Decoded,
    /// The job that it belongs to.
    pub work: QueuedJob,
    /// What is known of its file.
    pub file: InputFile,
    /// The pictures that it is compared with.
    pub class: Class,
    /// Who equalizes it, if the CPU decodes it as a whole.
    pub way: Option<Way>,
    /// Time spent in each stage since its decoding was last begun.
    pub clock: Clock,
}

impl Picture {
    /// Returns what is worth telling about it once it has an output; `remark`: what is known before it is encoded.
    pub(crate) fn remarks(&self, remark: Option<Remark>) -> Vec<Remark> {
        let settings = &self.work.job.settings;
        let of_format = self.decoded.remarks(&settings.target).into_iter().map(Remark::Codec);
        let holes = self.file.has_holes.then_some(Remark::WithHoles);
        let folder = settings.is_of_folder.then_some(Remark::FolderSettings);
        of_format.chain(remark).chain(holes).chain(folder).collect()
    }

    /// Sends the job back to be decoded again, for the devices that the changed attempts admit.
    pub(crate) fn redo(self, change: impl FnOnce(&mut Attempts)) {
        let mut work = self.work;
        change(&mut work.attempts);
        work.queue_again();
    }
}

/// What a task's slot holds at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pixels, before or after the device's work.
    Pixels,
    /// A file that a device decodes, equalizes and encodes.
    Compressed(CompressedJpeg),
    /// What a device encoded, in this many bytes.
    Encoded(u64),
}

/// A picture that the devices are done with.
pub struct Processed {
    /// Its pixels and counts, or what a device encoded.
    pub slot: Slot,
    /// Which of these the slot holds.
    pub content: Content,
    /// What the devices did.
    pub order: Order,
    /// The rest of the picture.
    pub picture: Box<Picture>,
    /// The devices that processed it.
    pub devices: Vec<DeviceId>,
}

impl Processed {
    /// Gives the slot back, and has the job done again by the CPU.
    pub(crate) fn redo(self) {
        drop(self.slot);
        self.picture.redo(|attempts| attempts.declined = true);
    }

    /// Returns what the picture looks like that the devices made, if a report shows it and its pixels are in the slot.
    pub(crate) fn after(&self) -> Option<Box<Shown>> {
        let Picture { decoded, work, .. } = &*self.picture;
        let pages = work.shown_of().filter(|_| !matches!(self.content, Content::Encoded(_)))?;
        Shown::of_slot(decoded, self.slot.bytes(), &work.job.settings.target, true, pages).map(Box::new)
    }

    /// Returns what is worth telling about what the device made of the picture, before it is encoded.
    pub(crate) fn remark(&self) -> Option<Remark> {
        let is_adaptive = match &self.picture.work.pass {
            // The range of a band says nothing of that of its picture.
            Pass::Apply(Tables::Bands(_), _) => false,
            Pass::Apply(Tables::Boxes(_), _) => true,
            _ => matches!(self.order, Order::Equalize(Operation { method: Method::Clahe(_), .. })),
        };
        if !is_adaptive {
            return None;
        }
        if self.content != Content::Pixels {
            return None;
        }
        let Decoded { layout, byte_orders, .. } = &self.picture.decoded;
        if self.picture.decoded.levels().are_fewer(layout.depth) {
            return None;
        }
        let pixels = &self.slot.bytes()[..layout.bytes() as usize];
        equalize::is_narrow(pixels, layout, byte_orders.to).then_some(Remark::NarrowRange)
    }
}
