//! Reasons to refuse a picture once its header is known, before it has a slot.

use super::load::Loader;
use super::passes::is_adaptive;
use crate::config::Together;
use crate::error::Refusal;
use crate::picture::boxes::{Divided, FileSlice};
use crate::source::Job;
use codec::Opened;
use codec::pages::Pages;
use equalize::{Method, Operation};
use lanes::Order;

impl Loader<'_> {
    /// Checks that the devices can process the picture as ordered.
    pub(super) fn check_order(&self, opened: &Opened<'_>, job: &Job) -> Result<(), Refusal> {
        let frames = opened.frames();
        if let (Together::By(pattern), None) = (&self.settings.together, &job.group) {
            return Err(Refusal::NoGroup { pattern: pattern.to_string() });
        }
        if let (Some(reference), Some(operation)) = (&self.settings.reference, self.order.operation()) {
            reference.check(&opened.layout(), operation.colour)?;
        }
        let later = (self.order == Order::Nothing).then_some(self.settings.operation);
        let operation = self.order.operation().or(later);
        if operation.is_some_and(|operation| !operation.can_equalize(&opened.layout())) {
            return Err(Refusal::DeepLab);
        }
        match self.order {
            Order::Count { equalize: Some(Operation { method: Method::Clahe(_), .. }) } if frames > 1 => {
                Err(Refusal::Animation { frames })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the pages of a file are as required: slices of volumes, if these are to be
    /// divided into boxes, and of known channels, if each is to have a table. A file that is itself
    /// a slice has to have one page.
    pub(super) fn check_pages(
        &self,
        opened: &Opened<'_>,
        pages: Option<&Pages>,
        slice: Option<&FileSlice>,
    ) -> Result<(), Refusal> {
        pages.map_or(Ok(()), |pages| self.check_channels(pages))?;
        let operation = &self.settings.operation;
        let has_boxes = |divided: Divided| divided.volume(&opened.layout(), operation).is_some();
        let bands = pages.filter(|pages| pages.are_bands() && is_adaptive(operation));
        if bands.is_some_and(|bands| !has_boxes(Divided::of(bands, None, 0))) {
            let is_possible = operation.can_equalize(&opened.layout());
            return Err(if is_possible { Refusal::LargeBoxes } else { Refusal::DeepLab });
        }
        if !operation.method.has_boxes() || self.order == (Order::Count { equalize: None }) {
            return Ok(());
        }
        if self.order != Order::Nothing {
            return Err(Refusal::CountedVolume);
        }
        let slices = match (pages, slice) {
            (Some(_), Some(_)) => return Err(Refusal::StackAmongSlices),
            (Some(pages), None) => pages.volumes()?.deepest(),
            (None, Some(slice)) if slice.volume.slices > 1 => slice.volume.slices,
            (None, Some(_)) => return Err(Refusal::LoneSlice),
            (None, None) => return Err(Refusal::NoVolume),
        };
        match operation.can_equalize(&opened.layout()) {
            false => Err(Refusal::DeepLab),
            true if has_boxes(Divided::Slices { count: slices, at_once: 1 }) => Ok(()),
            true => Err(Refusal::LargeBoxes),
        }
    }

    /// Returns the object to divide into boxes that the file of a job, or its first page, belongs
    /// to.
    pub(super) fn divided_by(&self, pages: Option<&Pages>, job: &Job) -> Divided {
        let has_boxes = self.settings.operation.method.has_boxes();
        let volumes = pages.filter(|_| has_boxes).and_then(|pages| pages.volumes().ok());
        let of_pages = pages.map(|pages| Divided::of(pages, volumes.as_ref(), 0));
        let of_files = || job.slice.as_ref().map(|slice| slice.part().divided);
        of_pages.or_else(of_files).unwrap_or(Divided::ONE)
    }

    fn check_channels(&self, pages: &Pages) -> Result<(), Refusal> {
        let matters = self.settings.together == Together::CHANNEL;
        let is_unknown = matters && (0..pages.len()).any(|page| pages.channel(page).is_none());
        if is_unknown { Err(Refusal::UnknownChannels) } else { Ok(()) }
    }
}
