//! A stretch of the levels between two percentiles, exact in integers.

use super::fill_identity;
use crate::Level;
use crate::percentiles::Stretch;

/// Fills `lut` so that the levels between two percentiles fill the whole range.
///
/// `counts` are the plane's. With `c` the running sum of the `n` counts, `a` is the lowest level
/// with `c[a] > n * low`, and `b` the highest with `n - c[b - 1] > n * high`. Level `i` becomes
/// `round((i - a) / (b - a) * (levels - 1))`, halves up; levels outside become the nearer end. If
/// there is no level between `a` and `b`, the LUT is the identity.
pub(super) fn fill<S: Level>(stretch: Stretch, counts: &[u64], lut: &mut [S]) {
    let Some((low, high)) = stretch.ends(counts) else { return fill_identity(lut) };
    let (top, width) = (counts.len() as u64 - 1, (high - low) as u64);
    for (level, entry) in lut.iter_mut().enumerate() {
        let above = (level.clamp(low, high) - low) as u64;
        *entry = S::from_level(((2 * above * top + width) / (2 * width)) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lut8(low: u32, high: u32, occurring: &[(usize, u64)]) -> Vec<u8> {
        let mut counts = vec![0; 256];
        for &(level, count) in occurring {
            counts[level] = count;
        }
        let mut lut = vec![7; 256];
        fill(Stretch { low, high }, &counts, &mut lut);
        lut
    }

    #[test]
    fn the_lowest_and_the_highest_level_go_to_the_ends() {
        let lut = lut8(0, 0, &[(50, 1), (101, 9), (152, 1)]);
        assert_eq!((lut[0], lut[50], lut[51], lut[101], lut[152], lut[255]), (0, 0, 3, 128, 255, 255));
    }

    #[test]
    fn a_share_is_left_out_at_each_end_but_no_more() {
        // 1 % below and 2 % above: exactly that share may be left out.
        let occurring = [(10, 1), (20, 49), (200, 48), (240, 2)];
        let ends = |low, high| {
            let lut = lut8(low, high, &occurring);
            (lut.iter().rposition(|&v| v == 0).unwrap(), lut.iter().position(|&v| v == 255).unwrap())
        };
        assert_eq!(ends(0, 0), (10, 240));
        assert_eq!(ends(9_999, 19_999), (10, 240));
        assert_eq!(ends(10_000, 20_000), (20, 200));
    }

    #[test]
    fn nothing_to_spread_changes_nothing() {
        let identity: Vec<u8> = (0..=255).collect();
        assert_eq!(lut8(0, 0, &[(77, 1000)]), identity);
        assert_eq!(lut8(0, 0, &[]), identity);
        assert_eq!(lut8(1_000_000, 0, &[(1, 1), (2, 1)]), identity);
        // The ends meet.
        assert_eq!(lut8(500_000, 0, &[(1, 1), (2, 1)]), identity);
        assert_eq!(lut8(400_000, 600_000, &[(1, 1), (2, 1)]), identity);
    }
}
