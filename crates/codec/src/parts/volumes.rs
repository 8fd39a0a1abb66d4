//! The volumes that the pages of a file are slices of: one for each channel and time.

use std::collections::HashMap;
use std::hash::Hash;

use crate::parts::slice::Gaps;

/// The volumes of a file, by its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    pages: Vec<SliceOf>,
    at_once: usize,
    gaps: Option<Gaps>,
    unplaced: bool,
}

/// The place of a page as a slice of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceOf {
    /// The number of the volume.
    pub volume: usize,
    /// The number of the slice in it.
    pub index: usize,
    /// The number of slices of the volume.
    pub of: usize,
}

/// Reasons why pages are not slices of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoVolumes {
    /// The file does not assign each page to a volume.
    #[error("the channel, time and slice of its pages are not stated")]
    Untold,
    /// A slice is missing.
    #[error("a volume of its pages lacks a slice")]
    Incomplete,
    /// Two slices of a volume lie at the same place.
    #[error("its pages {} and {} lie at the same place of one volume", one + 1, other + 1)]
    SamePlace {
        /// The number of a page, from 0.
        one: usize,
        /// The number of another, from 0.
        other: usize,
    },
    /// Slices of a volume lie in planes of different orientations.
    #[error("its pages {} and {}, of one volume, lie in planes of different orientations", one + 1, other + 1)]
    Turned {
        /// The number of a page, from 0.
        one: usize,
        /// The number of another, from 0.
        other: usize,
    },
    /// No volume has more than one slice.
    #[error("its pages are channels or times without slices")]
    Flat,
}

impl Volumes {
    /// Returns the volumes of pages, each given by the key of its volume and a place along it.
    ///
    /// # Errors
    /// If two pages of a volume have the same place, or no volume has two pages.
    pub(crate) fn new<K: Eq + Hash, P: Ord>(
        pages: impl IntoIterator<Item = (K, P)>,
    ) -> Result<Self, NoVolumes> {
        let mut numbers = HashMap::new();
        let mut volumes: Vec<Vec<(P, usize)>> = Vec::new();
        for (page, (key, place)) in pages.into_iter().enumerate() {
            let number = *numbers.entry(key).or_insert(volumes.len());
            if number == volumes.len() {
                volumes.push(Vec::new());
            }
            volumes[number].push((place, page));
        }
        let at_once = most_at_once(&volumes);
        let count = volumes.iter().map(Vec::len).sum();
        let mut pages = vec![SliceOf { volume: 0, index: 0, of: 0 }; count];
        for (volume, slices) in volumes.iter_mut().enumerate() {
            slices.sort_unstable();
            if let Some(pair) = slices.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(NoVolumes::SamePlace { one: pair[0].1, other: pair[1].1 });
            }
            for (index, &(_, page)) in slices.iter().enumerate() {
                pages[page] = SliceOf { volume, index, of: slices.len() };
            }
        }
        if volumes.iter().all(|slices| slices.len() < 2) {
            return Err(NoVolumes::Flat);
        }
        Ok(Self { pages, at_once, gaps: None, unplaced: false })
    }

    /// Returns the same with these gaps between pages.
    pub(crate) fn with_gaps(self, gaps: Option<Gaps>) -> Self {
        Self { gaps, ..self }
    }

    /// Returns the same; `unplaced` is whether not all slices of a volume state where they lie.
    pub(crate) fn unplaced(self, unplaced: bool) -> Self {
        Self { unplaced, ..self }
    }

    /// Returns whether slices of a volume are in another order than that of their positions, as not
    /// all state these.
    pub fn are_unplaced(&self) -> bool {
        self.unplaced
    }

    /// Returns the slices that seem to be missing between pages.
    pub fn gaps(&self) -> Option<Gaps> {
        self.gaps
    }

    /// Returns the volume of a page, and its place there.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn slice(&self, page: usize) -> SliceOf {
        self.pages[page]
    }

    /// Returns how many volumes there are.
    pub fn count(&self) -> usize {
        self.pages.iter().map(|slice| slice.volume + 1).max().unwrap_or(0)
    }

    /// Returns the number of slices of the volume that has the most.
    pub fn deepest(&self) -> usize {
        self.pages.iter().map(|slice| slice.of).max().unwrap_or(0)
    }

    /// Returns the most volumes begun and not ended, when pages are read one after the other.
    pub fn at_once(&self) -> usize {
        self.at_once
    }
}

/// Returns the most volumes that have begun and not ended, given the pages of each in their order.
fn most_at_once<P>(volumes: &[Vec<(P, usize)>]) -> usize {
    let ends = volumes.iter().filter_map(|slices| Some((slices.first()?.1, slices.last()?.1)));
    let mut changes: Vec<_> = ends.flat_map(|(first, last)| [(first, 1), (last + 1, -1)]).collect();
    changes.sort_unstable();
    let begun = changes.iter().scan(0_isize, |begun, (_, change)| {
        *begun += change;
        Some(*begun)
    });
    begun.max().unwrap_or(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(volume: usize, index: usize, of: usize) -> SliceOf {
        SliceOf { volume, index, of }
    }

    #[test]
    fn slices_are_numbered_by_their_places() {
        let volumes = Volumes::new([('a', 9), ('b', 1), ('a', 4), ('b', 2), ('a', 7)]).unwrap();
        let expected = [slice(0, 2, 3), slice(1, 0, 2), slice(0, 0, 3), slice(1, 1, 2), slice(0, 1, 3)];
        assert_eq!((0..5).map(|page| volumes.slice(page)).collect::<Vec<_>>(), expected);
        assert_eq!((volumes.count(), volumes.at_once()), (2, 2));
        let apart = Volumes::new([('a', 0), ('a', 1), ('b', 0), ('b', 1), ('c', 0)]).unwrap();
        assert_eq!((apart.count(), apart.at_once()), (3, 1));
    }

    #[test]
    fn what_is_no_volume_says_why() {
        let same = NoVolumes::SamePlace { one: 0, other: 2 };
        assert_eq!(Volumes::new([(0, 1), (0, 2), (0, 1)]), Err(same));
        assert_eq!(same.to_string(), "its pages 1 and 3 lie at the same place of one volume");
        assert_eq!(Volumes::new([(0, 0), (1, 0)]), Err(NoVolumes::Flat));
    }
}
