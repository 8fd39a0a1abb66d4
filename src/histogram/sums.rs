//! The histograms of files of several pages, while their pages are counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::task::{Page, Stack, StackId};
use crate::error::PictureError;
use codec::Decoded;
use equalize::{Depth, Levels, Pixel};

/// The counts so far of every file some of whose pages have been counted.
#[derive(Default)]
pub(super) struct Sums {
    open: Mutex<HashMap<StackId, Sum>>,
}

/// The counts of some pages of a file.
struct Sum {
    kind: (Pixel, Depth, Levels),
    counts: Vec<u64>,
    pages: usize,
}

impl Sums {
    /// Adds the counts of a page; returns those of the whole file once all pages are counted.
    ///
    /// # Errors
    /// If levels of this page and of others are not the same.
    pub(super) fn add(
        &self,
        page: &Page,
        decoded: &Decoded,
        counts: &[u64],
    ) -> Result<Option<Vec<u64>>, PictureError> {
        if decoded.has_own_range() {
            return Err(PictureError::OwnRange);
        }
        let kind = (decoded.layout.pixel, decoded.layout.depth, decoded.levels());
        let key = page.stack.id();
        let mut open = self.lock();
        let sum = open.entry(key).or_insert_with(|| Sum { kind, counts: vec![0; counts.len()], pages: 0 });
        if sum.kind != kind {
            return Err(PictureError::PagesDiffer);
        }
        sum.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        sum.pages += 1;
        if sum.pages < page.stack.pages.len() {
            return Ok(None);
        }
        Ok(open.remove(&key).map(|sum| sum.counts))
    }

    /// Forgets the counts of a file.
    pub(super) fn give_up(&self, stack: &Arc<Stack>) {
        self.lock().remove(&stack.id());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StackId, Sum>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
