//! Smaller arrays of larger ones: each sample is the mean of a block of samples of the larger one.

use super::region::{Region, numbers_of};
use crate::samples::mapped::{Average, Kind, with_values};

/// Returns the samples of the larger array for one of the smaller, along an axis.
///
/// `None` if it is not a whole number.
pub(super) fn factor(larger: u64, smaller: u64) -> Option<u64> {
    let least = larger / smaller.max(1);
    [least, least + 1]
        .into_iter()
        .filter(|factor| *factor > 0)
        .find(|factor| larger / factor == smaller || larger.div_ceil(*factor) == smaller)
}

/// Returns the samples of the `larger` array for a box of the smaller one.
///
/// Surplus samples at the end of an axis are left out.
pub(super) fn source_of(region: &Region, factors: &[u64], larger: &[u64]) -> Region {
    let start: Vec<_> = region.start.iter().zip(factors).map(|(start, factor)| start * factor).collect();
    let ends = region.start.iter().zip(&region.shape).zip(factors).zip(larger);
    let ends = ends.map(|(((start, length), factor), all)| ((start + length) * factor).min(*all));
    let shape = ends.zip(&start).map(|(end, start)| end - start).collect();
    Region { start, shape }
}

/// Returns the means of blocks of samples in native byte order; of integers, halves up.
pub(super) fn means(
    kind: Kind,
    samples: &[u8],
    source: &Region,
    target: &Region,
    factors: &[u64],
) -> Vec<u8> {
    with_values!(kind, means_of(samples, source, target, factors))
}

/// Makes one row of means after the other.
fn means_of<S: Average>(samples: &[u8], source: &Region, target: &Region, factors: &[u64]) -> Vec<u8> {
    let rows = |region: &Region| region.shape[..region.shape.len() - 1].to_vec();
    let (across, width) = (factors[factors.len() - 1] as usize, source.shape[factors.len() - 1] as usize);
    let (source_rows, target_rows) = (rows(source), rows(target));
    let length = target.shape[factors.len() - 1] as usize;
    let mut means: Vec<S> = Vec::with_capacity(target.samples() as usize);
    let mut sums = vec![S::Sum::default(); length];
    for row in 0..target_rows.iter().product() {
        let block = block_of(&numbers_of(row, &target_rows), factors, &source_rows);
        sums.fill(S::Sum::default());
        for number in block.cells(&vec![1; source_rows.len()]) {
            let at = number.iter().zip(&source_rows).fold(0, |at, (number, count)| at * count + number);
            let row = &samples[at as usize * width * size_of::<S>()..][..width * size_of::<S>()];
            for (sum, block) in sums.iter_mut().zip(row.chunks(across * size_of::<S>())) {
                let samples = block.chunks_exact(size_of::<S>());
                samples.for_each(|sample| *sum += bytemuck::pod_read_unaligned::<S>(sample).widened());
            }
        }
        let down = block.samples();
        means.extend(sums.iter().enumerate().map(|(at, sum)| {
            let columns = across.min(width - at * across) as u64;
            S::mean(*sum, down * columns)
        }));
    }
    bytemuck::cast_slice(&means).to_vec()
}

/// Returns the rows of the larger array for a row of the smaller one, within their boxes.
fn block_of(row: &[u64], factors: &[u64], source_rows: &[u64]) -> Region {
    let row = Region { start: row.to_vec(), shape: vec![1; row.len()] };
    source_of(&row, factors, source_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_halved_up_or_down() {
        assert_eq!(factor(1000, 500), Some(2));
        assert_eq!((factor(1001, 500), factor(1001, 501)), (Some(2), Some(2)));
        assert_eq!((factor(7, 7), factor(1, 1), factor(10, 3)), (Some(1), Some(1), Some(3)));
        assert_eq!((factor(1000, 600), factor(5, 6)), (None, None));
    }

    #[test]
    fn means_round_halves_up_and_are_of_what_is_there_at_the_end() {
        let source = Region { start: vec![0, 0], shape: vec![3, 3] };
        let target = Region { start: vec![0, 0], shape: vec![2, 2] };
        let samples: [i16; 9] = [1, 2, -1, 3, 4, -2, 10, 11, 7];
        let means = means(Kind::Signed16, bytemuck::cast_slice(&samples), &source, &target, &[2, 2]);
        // 10 / 4, -3 / 2, 21 / 2, 7.
        assert_eq!(means, bytemuck::cast_slice::<i16, u8>(&[3, -1, 11, 7]));
    }
}
