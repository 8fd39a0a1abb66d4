//! The blocks of an image's largest array that go through memory at once.
//!
//! It is cut into blocks of whole chunks (or shards), because a chunk is written as a whole. A
//! block is one page or several: where each plane or each channel has a table of its own, it is a
//! page of its own, even if chunks hold several.

use super::region::{Region, numbers_of};

/// The most pages: the table of them takes memory that is not counted.
const MOST_PAGES: u64 = 1 << 22;

/// The pages of an image, those of a block one after the other.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The shape of the array, and of all blocks but those at its end.
    array: Vec<u64>,
    block: Vec<u64>,
    /// The number of blocks along each axis.
    counts: Vec<u64>,
    /// The axes along which each number is a page of its own.
    divided: Vec<bool>,
    /// The number of the first page of each block, and then the number of all pages.
    first_pages: Vec<usize>,
}

/// A page: a part of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockPage {
    /// The number of its block, and its own among those of the block.
    pub(super) block: usize,
    pub(super) number: usize,
    /// Its samples.
    pub(super) region: Region,
}

/// The array to be cut, and the rules of the cut.
pub(super) struct Cut<'c> {
    /// The shape of the array, and of its chunks or shards.
    pub(super) array: &'c [u64],
    pub(super) chunk: &'c [u64],
    /// The axis of channels, if there is one.
    pub(super) channels: Option<usize>,
    /// Whether each plane is a page.
    pub(super) in_planes: bool,
    /// The most samples that a page should have.
    pub(super) most: u64,
}

impl Blocks {
    /// Cuts an array; `None` if there would be too many pages.
    pub(super) fn new(cut: &Cut<'_>) -> Option<Self> {
        let axes = cut.array.len();
        let plane = axes - 2;
        let mut block: Vec<_> = cut.chunk.iter().zip(cut.array).map(|(chunk, all)| *chunk.min(all)).collect();
        let divided: Vec<_> = (0..axes)
            .map(|axis| if cut.in_planes { axis < plane } else { cut.channels == Some(axis) })
            .collect();
        if cut.in_planes {
            block[plane..].copy_from_slice(&cut.array[plane..]);
        } else {
            lengthen(&mut block, &divided, cut);
        }
        let counts: Vec<_> = cut.array.iter().zip(&block).map(|(all, block)| all.div_ceil(*block)).collect();
        let mut blocks = Self { array: cut.array.to_vec(), block, counts, divided, first_pages: vec![0] };
        pages_of_all(cut.array, &blocks.counts, &blocks.divided)?;
        for number in 0..blocks.counts.iter().product::<u64>() {
            let pages: u64 = blocks.pages_along(&blocks.region(number as usize)).iter().product();
            blocks.first_pages.push(blocks.pages() + pages as usize);
        }
        Some(blocks)
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> usize {
        self.first_pages.len() - 1
    }

    /// Returns the number of all pages.
    pub(super) fn pages(&self) -> usize {
        self.first_pages.last().copied().unwrap_or_default()
    }

    /// Returns the number of pages of a block.
    pub(super) fn pages_of(&self, block: usize) -> usize {
        self.first_pages[block + 1] - self.first_pages[block]
    }

    /// Returns the number of the first page of a block.
    pub(super) fn first_page(&self, block: usize) -> usize {
        self.first_pages[block]
    }

    /// Returns the most samples of a page, and of a block of several pages.
    pub(super) fn most_samples(&self) -> (u64, u64) {
        let along = self.block.iter().zip(&self.divided);
        let page = along.map(|(length, is_divided)| if *is_divided { 1 } else { *length }).product();
        let block = self.block.iter().product();
        (page, if block == page { 0 } else { block })
    }

    /// Returns the samples of a block.
    pub(super) fn region(&self, block: usize) -> Region {
        Region::of_cell(&numbers_of(block as u64, &self.counts), &self.block, &self.array)
    }

    /// Returns a page by its number.
    pub(super) fn page(&self, index: usize) -> BlockPage {
        let block = self.first_pages.partition_point(|&first| first <= index) - 1;
        let number = index - self.first_pages[block];
        let mut region = self.region(block);
        let numbers = numbers_of(number as u64, &self.pages_along(&region));
        for (axis, number) in numbers.into_iter().enumerate().filter(|(axis, _)| self.divided[*axis]) {
            region.start[axis] += number;
            region.shape[axis] = 1;
        }
        BlockPage { block, number, region }
    }

    /// Returns the number of pages of a block along each axis.
    fn pages_along(&self, block: &Region) -> Vec<u64> {
        let along = block.shape.iter().zip(&self.divided);
        along.map(|(length, is_divided)| if *is_divided { *length } else { 1 }).collect()
    }
}

/// Returns the number of pages of an array, unless they are too many.
fn pages_of_all(array: &[u64], counts: &[u64], divided: &[bool]) -> Option<u64> {
    let along = array.iter().zip(counts).zip(divided);
    let mut along = along.map(|((length, count), is_divided)| if *is_divided { *length } else { *count });
    let pages = along.try_fold(1_u64, u64::checked_mul)?;
    (pages <= MOST_PAGES).then_some(pages)
}

/// Lengthens blocks by whole chunks along x, y and the axes before, within the size of a page.
fn lengthen(block: &mut [u64], divided: &[bool], cut: &Cut<'_>) {
    for axis in (0..block.len()).rev().filter(|axis| !divided[*axis]) {
        let page: u64 =
            block.iter().zip(divided).map(|(length, divided)| if *divided { 1 } else { *length }).product();
        let chunks = (cut.most / page.max(1)).max(1);
        block[axis] = block[axis].saturating_mul(chunks).min(cut.array[axis]);
        if block[axis] < cut.array[axis] {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'c>(array: &'c [u64], chunk: &'c [u64], in_planes: bool, most: u64) -> Cut<'c> {
        Cut { array, chunk, channels: Some(1), in_planes, most }
    }

    /// Returns how often each sample is in a page, after checking pages against their blocks.
    fn covered(blocks: &Blocks, array: &[u64]) -> Vec<u32> {
        let mut covered = vec![0; array.iter().product::<u64>() as usize];
        for index in 0..blocks.pages() {
            let BlockPage { block, number, region } = blocks.page(index);
            assert!(number < blocks.pages_of(block));
            assert_eq!(region.common(&blocks.region(block)), region);
            for sample in 0..region.samples() {
                let place = numbers_of(sample, &region.shape);
                let place = place.iter().zip(&region.start).map(|(at, start)| at + start);
                let at = place.zip(array).fold(0, |at, (place, length)| at * length + place);
                covered[at as usize] += 1;
            }
        }
        covered
    }

    #[test]
    fn every_sample_is_in_one_page_however_chunks_lie() {
        let array = [2, 3, 5, 7, 11];
        for chunk in [[1, 1, 1, 4, 4], [2, 2, 2, 7, 3], [1, 3, 4, 2, 11], [9, 9, 9, 9, 9]] {
            for (in_planes, most) in [(true, 1), (false, 1), (false, 50), (false, 1 << 20)] {
                let blocks = Blocks::new(&cut(&array, &chunk, in_planes, most)).unwrap();
                assert!(
                    covered(&blocks, &array).iter().all(|&times| times == 1),
                    "{chunk:?} {in_planes} {most}"
                );
                for index in 0..blocks.pages() {
                    let region = blocks.page(index).region;
                    assert_eq!(region.shape[1], 1, "a page is of one channel");
                    assert!(!in_planes || region.shape == [1, 1, 1, 7, 11]);
                }
            }
        }
    }

    #[test]
    fn blocks_are_whole_chunks_and_no_longer_than_they_may_be() {
        let array = [1, 2, 10, 1000, 1000];
        let blocks = Blocks::new(&cut(&array, &[1, 1, 1, 100, 100], false, 35_000)).unwrap();
        assert_eq!(blocks.block, [1, 1, 1, 100, 300]);
        let blocks = Blocks::new(&cut(&array, &[1, 1, 1, 100, 100], false, 250_000)).unwrap();
        assert_eq!((blocks.block.clone(), blocks.most_samples()), (vec![1, 1, 1, 200, 1000], (200_000, 0)));
        let blocks = Blocks::new(&cut(&array, &[1, 2, 1, 100, 100], false, 2_500_000)).unwrap();
        assert_eq!(blocks.block, [1, 2, 2, 1000, 1000]);
        assert_eq!(blocks.most_samples(), (2_000_000, 4_000_000));
        assert!(Blocks::new(&cut(&[1 << 40, 1, 1, 9, 9], &[1, 1, 1, 9, 9], false, 1)).is_none());
    }
}
