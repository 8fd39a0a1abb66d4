//! Pictures that have LUTs in common go through the pipeline twice: see [`crate::together`].

use std::sync::Arc;

use super::Run;
use super::load::park;
use crate::error::PictureError;
use crate::task::{Pass, Processed, QueuedJob};
use crate::together::Complete;
use lanes::Order;

impl Run<'_> {
    /// Returns what pictures go through the pipeline for at first.
    pub(super) fn first_pass(&self) -> Pass {
        match (&self.settings.luts, self.order) {
            (Some(luts), Order::Equalize(_)) => Pass::Apply(Arc::clone(luts), None),
            _ if self.groups.is_some() => Pass::Count,
            _ => Pass::Only,
        }
    }

    /// Returns what devices do with a picture.
    pub(super) fn order_of(&self, pass: &Pass) -> Order {
        match pass {
            Pass::Only => self.order,
            Pass::Count => Order::Count { equalize: None },
            Pass::Apply(..) => self.order.operation().map_or(self.order, Order::Apply),
        }
    }

    /// Takes what a device has counted.
    pub(super) fn count(&self, finished: Processed) {
        let Processed { mut slot, order, picture, .. } = finished;
        let (layout, levels) = (picture.decoded.layout, picture.decoded.levels());
        if picture.decoded.has_own_range() {
            return self.fail_work(picture.work, PictureError::OwnRange);
        }
        let Some(groups) = self.groups else { unreachable!("pictures are counted for their groups") };
        let counts = order.parts(slot.bytes_mut(), &layout).1.to_vec();
        let (work, parked) = park(self, &slot, *picture);
        drop(slot);
        self.go_on(groups.add(work, &layout, levels, &counts, parked));
    }

    /// Tells the group of a picture that it failed, or that it is left out, which breaks the group.
    pub(super) fn go_on_without(&self, work: &QueuedJob, breaks: bool) {
        if let (Pass::Count, Some(groups)) = (&work.pass, self.groups) {
            self.go_on(groups.go_on_without(&work.job, work.page.as_ref(), breaks));
        }
    }

    /// Leaves out all pictures whose groups are not complete, because others of them will not come.
    pub(super) fn abandon_groups(&self) {
        self.groups.into_iter().for_each(|groups| self.go_on(groups.abandon()));
    }

    fn go_on(&self, complete: Complete) {
        let is_parked = |work: &QueuedJob| matches!(work.pass, Pass::Apply(_, Some(_)));
        let again = complete.go_on.iter().filter(|work| !is_parked(work));
        store::announce(&self.settings.storage, again.filter_map(|work| work.job.object.as_ref()));
        complete.go_on.into_iter().for_each(QueuedJob::queue_again);
        complete.left_out.iter().for_each(|work| self.outlet.miss(&work.job));
    }
}
