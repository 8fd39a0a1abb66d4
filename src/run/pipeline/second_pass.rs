//! Pictures that have LUTs in common go through the pipeline twice: see [`crate::run::together`].

use std::sync::Arc;

use super::load::park;
use super::{Purpose, Run};
use crate::config::{PictureSettings, Together};
use crate::device::task::{Pass, Processed, QueuedJob};
use crate::error::PictureError;
use crate::run::together::{Complete, PictureCounts};
use lanes::Order;

impl Run<'_> {
    /// Returns what pictures go through the pipeline for at first.
    pub(super) fn first_pass(&self, settings: &PictureSettings) -> Pass {
        match (self.purpose, &settings.luts, &settings.together) {
            (Purpose::Count { .. }, ..) => Pass::Only,
            (Purpose::Equalize, Some(luts), _) => Pass::Apply(Arc::clone(luts), None),
            (Purpose::Equalize, None, &Together::PAGE) => Pass::Only,
            (Purpose::Equalize, None, _) => Pass::Count,
        }
    }

    /// Returns what devices do with a picture that has these settings.
    pub(super) fn order_of(&self, settings: &PictureSettings, pass: &Pass) -> Order {
        let operation = settings.operation;
        match (self.purpose, pass) {
            (Purpose::Count { equalized }, _) => Order::Count { equalize: equalized.then_some(operation) },
            (Purpose::Equalize, Pass::Only) => Order::Equalize(operation),
            (Purpose::Equalize, Pass::Count) => Order::Count { equalize: None },
            (Purpose::Equalize, Pass::Apply(..)) => Order::Apply(operation),
        }
    }

    /// Takes what a device has counted.
    pub(super) fn count(&self, finished: Processed) {
        let Processed { mut slot, order, picture, .. } = finished;
        let (layout, levels) = (picture.decoded.layout, picture.decoded.levels());
        if picture.decoded.has_own_range() {
            return self.fail_work(picture.work, PictureError::OwnRange);
        }
        let counts = order.parts(slot.bytes_mut(), &layout).1.to_vec();
        let counted = PictureCounts { layout, levels, counts: &counts, rescale: picture.decoded.rescale() };
        let (work, parked) = park(self, slot, *picture);
        self.go_on(self.groups.add(work, parked, &counted));
    }

    /// Tells the group of a picture that it failed, or that it is left out, which breaks the group.
    pub(super) fn go_on_without(&self, work: &QueuedJob, breaks: bool) {
        if matches!(work.pass, Pass::Count) {
            self.go_on(self.groups.go_on_without(&work.job, work.page.as_ref(), breaks));
        }
    }

    /// Leaves out all pictures whose groups are not complete, because others of them will not come.
    pub(super) fn abandon_groups(&self) {
        self.go_on(self.groups.abandon());
    }

    fn go_on(&self, complete: Complete) {
        let is_parked = |work: &QueuedJob| matches!(work.pass, Pass::Apply(_, Some(_)));
        let again = complete.go_on.iter().filter(|work| !is_parked(work));
        store::announce(&self.settings.storage, again.filter_map(|work| work.job.object.as_ref()));
        complete.go_on.into_iter().for_each(QueuedJob::queue_again);
        complete.refused.into_iter().for_each(|work| self.fail_work(work, PictureError::OtherRescale));
        complete.left_out.iter().for_each(|work| self.outlet.miss(&work.job));
    }
}
