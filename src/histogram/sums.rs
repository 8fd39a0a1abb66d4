//! The histograms of files of several pages, while their pages are counted.

use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::task::{Page, Stack, StackId};
use crate::error::PictureError;
use crate::picture::counts::Counts;
use codec::Decoded;
use equalize::{Layout, Levels, Pixel, count};

/// The counts so far of every file with some of its pages counted.
#[derive(Default)]
pub(super) struct Sums {
    open: Mutex<HashMap<StackId, Sum>>,
}

/// The counts of some pages of a file. Pages may differ in alpha, where some have it for pixels
/// that do not count.
pub(super) struct Sum {
    /// The layout of a page, with alpha if any of them has it. For the bands of a picture, the
    /// layout of the whole.
    pub(super) layout: Layout,
    levels: Levels,
    /// The counts of each stage.
    pub(super) counts: Vec<u64>,
    /// The counts of each channel, if a pixel has channels that are not colours.
    pub(super) channels: Counts,
    pages: usize,
}

impl Sum {
    /// Adds a page. Returns whether it is like the others.
    fn add(&mut self, mut page: Self) -> bool {
        match [&*self, &page].map(|sum| sum.layout.pixel.has_alpha()) {
            [true, false] => page.add_alpha(),
            [false, true] => self.add_alpha(),
            _ => {}
        }
        self.counts.iter_mut().zip(&page.counts).for_each(|(sum, count)| *sum += count);
        self.channels.merge(&page.channels);
        self.pages += page.pages;
        let [own, other] = [&*self, &page].map(|sum| (sum.layout.pixel, sum.layout.depth, sum.levels));
        own == other
    }

    /// Counts an alpha that is opaque everywhere.
    fn add_alpha(&mut self) {
        let Layout { pixel, depth, .. } = self.layout;
        let (colours, levels) = (pixel.colour_channels(), depth.levels());
        let mut counts = Vec::with_capacity(2 * self.counts.len());
        for stage in self.counts.chunks(count::length(&self.layout)) {
            let (before, behind) = stage.split_at(colours * levels);
            counts.extend_from_slice(before);
            counts.extend(iter::repeat_n(0, levels - 1));
            counts.push(stage[..levels].iter().sum());
            counts.extend_from_slice(behind);
        }
        self.counts = counts;
        self.layout.pixel = if colours == 1 { Pixel::GrayAlpha } else { Pixel::Rgba };
    }
}

impl Sums {
    /// Adds the counts of a page; returns those of the whole file once all pages are counted.
    ///
    /// # Errors
    /// If the levels of this page differ from those of the others.
    pub(super) fn add(
        &self,
        page: &Page,
        decoded: &Decoded,
        counts: &[u64],
    ) -> Result<Option<Sum>, PictureError> {
        let pages = &page.stack.pages;
        let height = pages.height_of_bands();
        if decoded.has_own_range() && (height.is_none() || pages.pictures() > 1) {
            return Err(PictureError::OwnRange);
        }
        let layout = Layout { height: height.unwrap_or(decoded.layout.height), ..decoded.layout };
        let mut channels = Counts::default();
        if let Some(channel) = pages.sample_channel(page.index) {
            let (layout, levels) = (&decoded.layout, decoded.levels());
            channels.add(layout, levels, Some(channel), &counts[..count::length(layout)]);
        }
        let added = Sum { layout, levels: decoded.levels(), counts: counts.to_vec(), channels, pages: 1 };
        let key = page.stack.id();
        let mut open = self.lock();
        let sum = match open.remove(&key) {
            Some(mut sum) => sum.add(added).then_some(sum).ok_or(PictureError::PagesDiffer)?,
            None => added,
        };
        if sum.pages == pages.len() {
            return Ok(Some(sum));
        }
        open.insert(key, sum);
        Ok(None)
    }

    /// Forgets the counts of a file.
    pub(super) fn give_up(&self, stack: &Arc<Stack>) {
        self.lock().remove(&stack.id());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StackId, Sum>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
