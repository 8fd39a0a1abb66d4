//! What a picture is refused for once its header is known, before it has a slot.

use super::load::Loader;
use crate::error::Refusal;
use codec::{Opened, Pages};
use equalize::clahe::Volume;
use equalize::{Method, Operation};
use lanes::Order;

impl Loader<'_> {
    /// Checks that the devices can do the picture as it is ordered.
    pub(super) fn check_order(&self, opened: &Opened<'_>) -> Result<(), Refusal> {
        let frames = opened.frames();
        if let (Some(reference), Some(operation)) = (&self.settings.reference, self.order.operation()) {
            reference.check(&opened.layout(), operation.is_per_channel())?;
        }
        if self.order.operation().is_some_and(|operation| !operation.can_equalize(&opened.layout())) {
            return Err(Refusal::DeepLab);
        }
        match self.order {
            Order::Count { equalize: Some(Operation { method: Method::Clahe(_), .. }) } if frames > 1 => {
                Err(Refusal::Animation { frames })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the pages of a file are a volume, if it is to be divided into boxes.
    pub(super) fn check_pages(&self, opened: &Opened<'_>, pages: Option<&Pages>) -> Result<(), Refusal> {
        let operation = &self.settings.operation;
        if !operation.method.has_boxes() || self.order == (Order::Count { equalize: None }) {
            return Ok(());
        }
        match pages {
            _ if self.order != Order::Nothing => Err(Refusal::CountedVolume),
            None => Err(Refusal::NoVolume),
            Some(_) if !operation.can_equalize(&opened.layout()) => Err(Refusal::DeepLab),
            Some(pages) if !pages.are_volume() => Err(Refusal::SeveralVolumes),
            Some(pages) if Volume::new(&opened.layout(), pages.len(), operation).is_none() => {
                Err(Refusal::LargeBoxes)
            }
            Some(_) => Ok(()),
        }
    }
}
