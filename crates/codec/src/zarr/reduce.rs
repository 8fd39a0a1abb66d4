//! Smaller arrays of larger ones: each sample is the mean of the samples that it stands for.

use bytemuck::Pod;

use super::region::{Region, numbers_of};
use crate::mapped::Kind;

/// How many samples of the larger array one of the smaller stands for, along an axis of these lengths; `None` if that is no whole number.
pub(super) fn factor(larger: u64, smaller: u64) -> Option<u64> {
    let least = larger / smaller.max(1);
    [least, least + 1]
        .into_iter()
        .filter(|factor| *factor > 0)
        .find(|factor| larger / factor == smaller || larger.div_ceil(*factor) == smaller)
}

/// Returns the samples of the `larger` array that a box of the smaller one stands for. What is left at the end of an axis stands for nothing.
pub(super) fn source_of(region: &Region, factors: &[u64], larger: &[u64]) -> Region {
    let start: Vec<_> = region.start.iter().zip(factors).map(|(start, factor)| start * factor).collect();
    let ends = region.start.iter().zip(&region.shape).zip(factors).zip(larger);
    let ends = ends.map(|(((start, length), factor), all)| ((start + length) * factor).min(*all));
    let shape = ends.zip(&start).map(|(end, start)| end - start).collect();
    Region { start, shape }
}

/// Returns the means of blocks of samples of this kind, in native byte order: of integers, halves up.
pub(super) fn means(
    kind: Kind,
    (samples, source): (&[u8], &Region),
    target: &Region,
    factors: &[u64],
) -> Option<Vec<u8>> {
    fn of<S: Mean>((samples, source): (&[u8], &Region), target: &Region, factors: &[u64]) -> Option<Vec<u8>> {
        Some(means_of::<S>(samples, source, target, factors))
    }
    match kind {
        Kind::Unsigned8 => of::<u8>((samples, source), target, factors),
        Kind::Unsigned16 => of::<u16>((samples, source), target, factors),
        Kind::Unsigned32 => of::<u32>((samples, source), target, factors),
        Kind::Unsigned64 => of::<u64>((samples, source), target, factors),
        Kind::Signed8 => of::<i8>((samples, source), target, factors),
        Kind::Signed16 => of::<i16>((samples, source), target, factors),
        Kind::Signed32 => of::<i32>((samples, source), target, factors),
        Kind::Signed64 => of::<i64>((samples, source), target, factors),
        Kind::Float32 => of::<f32>((samples, source), target, factors),
        Kind::Float64 => of::<f64>((samples, source), target, factors),
        Kind::Float16 | Kind::Unsigned24 => None,
    }
}

/// A sample of which means are made.
trait Mean: Pod {
    /// A sum of samples.
    type Sum: Copy + Default;

    fn add(self, sum: &mut Self::Sum);

    /// Returns the mean of so many samples with a sum.
    fn mean(sum: Self::Sum, count: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty: $sum:ty),*) => { $(
        impl Mean for $type {
            type Sum = $sum;

            #[inline(always)]
            fn add(self, sum: &mut $sum) {
                *sum += <$sum>::from(self);
            }

            #[inline(always)]
            fn mean(sum: $sum, count: u64) -> Self {
                (2 * sum + count as $sum).div_euclid(2 * count as $sum) as Self
            }
        }
    )* };
}
integers!(u8: u64, u16: u64, i8: i64, i16: i64, u32: i128, i32: i128, u64: i128, i64: i128);

macro_rules! floats {
    ($($type:ty),*) => { $(
        impl Mean for $type {
            type Sum = f64;

            #[inline(always)]
            fn add(self, sum: &mut f64) {
                *sum += f64::from(self);
            }

            #[inline(always)]
            fn mean(sum: f64, count: u64) -> Self {
                (sum / count as f64) as Self
            }
        }
    )* };
}
floats!(f32, f64);

/// Makes one row of means after the other.
fn means_of<S: Mean>(samples: &[u8], source: &Region, target: &Region, factors: &[u64]) -> Vec<u8> {
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
                samples.for_each(|sample| bytemuck::pod_read_unaligned::<S>(sample).add(sum));
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

/// Returns the rows of the larger array that a row of the smaller one stands for, both counted from the beginning of their boxes.
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
        let means = means(Kind::Signed16, (bytemuck::cast_slice(&samples), &source), &target, &[2, 2]);
        // 10 / 4, -3 / 2, 21 / 2, 7.
        assert_eq!(means.unwrap(), bytemuck::cast_slice::<i16, u8>(&[3, -1, 11, 7]));
    }
}
