//! What a picture is refused for once its header is known, before it has a slot.

use super::load::{Loader, is_adaptive};
use crate::config::Together;
use crate::error::Refusal;
use crate::picture::boxes::Divided;
use crate::source::Job;
use codec::{Opened, Pages};
use equalize::{Method, Operation};
use lanes::Order;

impl Loader<'_> {
    /// Checks that the devices can do the picture as it is ordered.
    pub(super) fn check_order(&self, opened: &Opened<'_>, job: &Job) -> Result<(), Refusal> {
        let frames = opened.frames();
        if let (Together::By(pattern), None) = (&self.settings.together, &job.group) {
            return Err(Refusal::NoGroup { pattern: pattern.to_string() });
        }
        if let (Some(reference), Some(operation)) = (&self.settings.reference, self.order.operation()) {
            reference.check(&opened.layout(), operation.is_per_channel())?;
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

    /// Checks that the pages of a file are what they have to be: a volume, if it is to be divided into boxes; of channels that are told, if each is
    /// to have a table.
    pub(super) fn check_pages(&self, opened: &Opened<'_>, pages: Option<&Pages>) -> Result<(), Refusal> {
        pages.map_or(Ok(()), |pages| self.check_channels(pages))?;
        let operation = &self.settings.operation;
        let has_no_boxes = |pages| Divided::of(pages).volume(&opened.layout(), operation).is_none();
        if pages.is_some_and(|pages| pages.are_bands() && is_adaptive(operation) && has_no_boxes(pages)) {
            return Err(Refusal::LargeBoxes);
        }
        if !operation.method.has_boxes() || self.order == (Order::Count { equalize: None }) {
            return Ok(());
        }
        match pages {
            _ if self.order != Order::Nothing => Err(Refusal::CountedVolume),
            None => Err(Refusal::NoVolume),
            Some(_) if !operation.can_equalize(&opened.layout()) => Err(Refusal::DeepLab),
            Some(pages) if !pages.are_volume() => Err(Refusal::SeveralVolumes),
            Some(pages) if has_no_boxes(pages) => Err(Refusal::LargeBoxes),
            Some(_) => Ok(()),
        }
    }

    fn check_channels(&self, pages: &Pages) -> Result<(), Refusal> {
        let matters = self.settings.together == Together::CHANNEL;
        let is_unknown = matters && (0..pages.len()).any(|page| pages.channel(page).is_none());
        if is_unknown { Err(Refusal::UnknownChannels) } else { Ok(()) }
    }
}
