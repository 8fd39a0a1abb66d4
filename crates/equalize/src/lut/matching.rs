//! Histogram specification: a plane gets the levels of a reference, exact in 128-bit integers.

use super::fill_identity;
use crate::Level;

/// Fills `lut` so that the levels of a plane occur about as often as in the `reference`.
///
/// `counts` are the plane's. With `c` and `r` the running sums and `n` and `m` the sums of counts
/// and reference, level `i` becomes the lowest level `j` with `r[j] / m >= c[i] / n`; levels below
/// the first that occurs get its entry. (Gonzalez and Woods, *Digital Image Processing*, section
/// 3.3.) If one of the two has no samples, the LUT is the identity.
pub(super) fn fill<S: Level>(reference: &[u64], counts: &[u64], lut: &mut [S]) {
    let sum = |counts: &[u64]| counts.iter().map(|&count| u128::from(count)).sum::<u128>();
    let (of_reference, total) = (sum(reference), sum(counts));
    let Some(darkest) = counts.iter().position(|&count| count > 0).filter(|_| of_reference > 0) else {
        return fill_identity(lut);
    };
    let (mut level, mut reached, mut running) = (0, u128::from(reference[0]), 0);
    for (entry, &count) in lut[darkest..].iter_mut().zip(&counts[darkest..]) {
        running += u128::from(count);
        // The sums are equal at the end; hence the last level is not passed.
        while reached * total < running * of_reference {
            level += 1;
            reached += u128::from(reference[level]);
        }
        *entry = S::from_level(level as u32);
    }
    let lowest = lut[darkest];
    lut[..darkest].fill(lowest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts8(occurring: &[(usize, u64)]) -> Vec<u64> {
        let mut counts = vec![0; 256];
        for &(level, count) in occurring {
            counts[level] = count;
        }
        counts
    }

    fn lut8(reference: &[(usize, u64)], occurring: &[(usize, u64)]) -> Vec<u8> {
        let mut lut = vec![7; 256];
        fill(&counts8(reference), &counts8(occurring), &mut lut);
        lut
    }

    #[test]
    fn levels_become_those_of_the_reference_by_rank() {
        let lut = lut8(&[(10, 1), (200, 2), (201, 1)], &[(0, 25), (100, 50), (101, 25)]);
        assert_eq!((lut[0], lut[99], lut[100], lut[101], lut[255]), (10, 10, 200, 201, 201));
    }

    #[test]
    fn a_level_that_is_too_frequent_takes_the_highest_of_those_it_covers() {
        let lut = lut8(&[(10, 1), (20, 1), (30, 1), (40, 1)], &[(5, 3), (6, 1)]);
        assert_eq!((lut[0], lut[5], lut[6]), (30, 30, 40));
    }

    #[test]
    fn a_picture_that_is_its_own_reference_keeps_its_levels() {
        let occurring = [(3, 7), (90, 1), (91, 1000), (255, 2)];
        let lut = lut8(&occurring, &occurring);
        assert!(occurring.iter().all(|&(level, _)| usize::from(lut[level]) == level));
    }

    #[test]
    fn without_samples_nothing_changes() {
        let identity: Vec<u8> = (0..=255).collect();
        assert_eq!(lut8(&[], &[(1, 1)]), identity);
        assert_eq!(lut8(&[(1, 1)], &[]), identity);
    }

    #[test]
    fn counts_beyond_64_bits_together_do_not_overflow() {
        let reference = [u64::MAX; 256];
        let mut lut = vec![0_u8; 256];
        fill(&reference, &counts8(&[(0, 1 << 40), (255, 1 << 40)]), &mut lut);
        assert_eq!((lut[0], lut[254], lut[255]), (127, 127, 255));
    }
}
