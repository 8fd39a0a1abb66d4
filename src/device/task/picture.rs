//! A picture on its way through the pipeline: before decoding, on devices, and afterwards.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::stack::Page;
use crate::picture::band_tiles::BandTiles;
use crate::picture::boxes::{BoxPart, FileSlice, StackBoxes};
use crate::picture::luts::Luts;
use crate::picture::preview::Shown;
use crate::picture::remark::Remark;
use crate::picture::unused::Unused;
use crate::progress::timings::Clock;
use crate::slot::rates::{Class, Way};
use crate::slot::schedule::{Attempts, DeviceId};
use crate::slot::{ParkedId, Slot};
use crate::source::Job;
use codec::Decoded;
use codec::coders::CompressedJpeg;
use equalize::{Layout, Method, Operation};
use lanes::{Front, Order};

/// One pass of a picture through the pipeline.
#[derive(Clone, Debug)]
pub enum Pass {
    /// The only one, which does everything.
    Only,
    /// Finds the number of levels of a picture with this band, before the given pass.
    FindLevels(Box<Pass>),
    /// Finds the levels that occur in a picture with this band.
    Survey,
    /// Counts it, with others that will have the same LUTs.
    Count,
    /// Changes it by these tables. Its pixels may still be in memory.
    Apply(Tables, Option<ParkedId>),
}

impl Pass {
    /// Returns the number of passes from this one on.
    pub(crate) fn passes(&self) -> usize {
        match self {
            Self::Only | Self::Apply(..) => 1,
            Self::Count => 2,
            Self::Survey => 3,
            Self::FindLevels(next) => 1 + next.passes(),
        }
    }
}

/// Tables from the counts of several pictures.
#[derive(Clone, Debug)]
pub enum Tables {
    /// LUTs for each picture.
    Luts(Arc<Luts>),
    /// The tables of the boxes of a volume.
    Boxes(Arc<StackBoxes>),
    /// The tables of the tiles of a picture in bands.
    Bands(Arc<BandTiles>),
}

/// A job in the pipeline, with its history so far.
pub struct QueuedJob {
    /// The picture's input and output.
    pub job: Job,
    /// The page of the input, if that has several.
    pub page: Option<Page>,
    /// The present pass.
    pub pass: Pass,
    /// The results of the attempts so far, and thus the devices that may still take it.
    pub attempts: Attempts,
    /// Its look before equalization, if a report shows it and its pixels were in memory.
    pub(crate) before: Option<Box<Shown>>,
    pub(crate) redo: Sender<QueuedJob>,
}

impl QueuedJob {
    /// Returns whether a device already had the picture, or an earlier page of its file.
    pub(crate) fn was_started(&self) -> bool {
        self.attempts != Attempts::default() || self.page.is_some()
    }

    /// Returns the number of pages of its file, if a report shows it as the first of them.
    ///
    /// `None` for a band.
    pub(crate) fn shown_of(&self) -> Option<usize> {
        match &self.page {
            _ if !self.job.is_shown => None,
            None => Some(1),
            Some(Page { stack, index: 0 }) if !stack.pages.are_bands() => Some(stack.pages.len()),
            Some(_) => None,
        }
    }

    /// Returns it as a slice of an object that boxes divide, if it can be one.
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

    /// Returns whether the file of its page is given up.
    pub(crate) fn is_over(&self) -> bool {
        self.page.as_ref().is_some_and(|page| page.stack.is_over())
    }

    /// Frees the memory of an input from object storage, unless a page of it is still to be read.
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

/// Facts about a picture's file, apart from its content.
#[derive(Clone, Copy, Debug)]
pub struct InputFile {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has holes.
    pub has_holes: bool,
}

/// A picture without its pixels, decoded or to be decoded by a device.
pub struct Picture {
    /// The description of the pixels, and the data for the encoder.
    pub decoded: Decoded,
    /// Its job.
    pub work: QueuedJob,
    /// Facts about its file.
    pub file: InputFile,
    /// The pictures that its costs are compared with.
    pub class: Class,
    /// The kind of device that equalizes it, if the CPU decodes it as a whole.
    pub way: Option<Way>,
    /// The time spent in each stage since its decoding was last begun.
    pub clock: Clock,
}

impl Picture {
    /// Returns the remarks about it once it has an output.
    ///
    /// `remark` is the one that is known before it is encoded.
    pub(crate) fn remarks(&self, remark: Option<Remark>) -> Vec<Remark> {
        let settings = &self.work.job.settings;
        let of_format = self.decoded.remarks(&settings.target).into_iter().map(Remark::Codec);
        let pictures = self.work.page.as_ref().map_or(1, |page| page.stack.pages.pictures());
        let has_effect = |unused: &Unused| unused.has_effect(&self.decoded, &settings.target, pictures);
        let unused = settings.conditional.iter().copied().filter(|unused| !has_effect(unused));
        let holes = self.file.has_holes.then_some(Remark::WithHoles);
        let folder = settings.is_of_folder.then_some(Remark::FolderSettings);
        of_format.chain(unused.map(Remark::Unused)).chain(remark).chain(holes).chain(folder).collect()
    }

    /// Sends the job back to be decoded again, for the devices that the changed attempts admit.
    pub(crate) fn redo(self, change: impl FnOnce(&mut Attempts)) {
        let mut work = self.work;
        change(&mut work.attempts);
        work.queue_again();
    }
}

/// The content of a task's slot at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pixels, before or after the device's work.
    Pixels,
    /// A file that a device decodes.
    Compressed(CompressedJpeg),
    /// The output of a device, of this many bytes.
    Encoded(u64),
}

impl Content {
    /// Returns the part of the slot before counts and LUTs, for pixels of this layout.
    pub(crate) fn front(&self, layout: &Layout) -> Front {
        match self {
            Self::Compressed(jpeg) => jpeg.into(),
            Self::Pixels | Self::Encoded(_) => layout.into(),
        }
    }
}

/// A picture after the devices' work.
pub struct Processed {
    /// Its pixels and counts, or the output that a device encoded.
    pub slot: Slot,
    /// The kind of content that the slot holds.
    pub content: Content,
    /// The work of the devices.
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

    /// Returns the look of the picture after equalization.
    ///
    /// `None` unless a report shows it and its pixels are in the slot.
    pub(crate) fn after(&self) -> Option<Box<Shown>> {
        let Picture { decoded, work, .. } = &*self.picture;
        let pages = work.shown_of().filter(|_| self.content == Content::Pixels)?;
        Shown::of_slot(decoded, self.slot.bytes(), &work.job.settings.target, true, pages).map(Box::new)
    }

    /// Returns the remark about the result of the devices, before it is encoded.
    pub(crate) fn remark(&self) -> Option<Remark> {
        let is_adaptive = match &self.picture.work.pass {
            // The range of a band is no evidence of the range of its picture.
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
