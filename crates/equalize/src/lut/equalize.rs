//! Histogram equalization, exact in 64-bit integers.

use super::fill_identity;
use crate::Level;
use crate::percentiles::ALL;

/// Plateau equalization: the count of a level is capped at a share of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Plateau {
    /// The share in parts per million: 1,000,000 caps no count.
    pub share: u32,
}

impl Plateau {
    /// Returns the greatest count of a level that is left as it is.
    ///
    /// It is the share of all samples, rounded down, at least 1.
    pub(super) fn most(self, counts: &[u64]) -> u64 {
        let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        u64::try_from(total * u128::from(self.share) / ALL).unwrap_or(u64::MAX).max(1)
    }
}

/// Fills `lut` so that the levels of a plane occur about equally often.
///
/// `counts` are the plane's; each is capped at `most`. With `c` the running sum of the capped
/// counts, `m` the first level that occurs and `d` the number of samples above it, level `i`
/// becomes `round((c[i] - c[m]) / d * (levels - 1))`, halves up; levels below `m` become 0. This is
/// the textbook formula (Gonzalez and Woods, *Digital Image Processing*, section 3.3, with the
/// darkest level mapped to 0), without floating point. Capped counts are plateau equalization
/// (Vickers 1996, "Plateau equalization algorithm for real-time display of high-quality infrared
/// imagery"). With a single level, or no samples at all, the LUT is the identity.
pub(super) fn fill<S: Level>(most: u64, counts: &[u64], lut: &mut [S]) {
    let total: u64 = counts.iter().map(|&count| count.min(most)).sum();
    let darkest = counts.iter().position(|&n| n > 0).unwrap_or(0);
    let above = total - counts[darkest].min(most);
    if above == 0 {
        return fill_identity(lut);
    }
    let top = counts.len() as u64 - 1;
    let mut running = 0;
    let mut entry = S::from_level(0);
    lut[..=darkest].fill(entry);
    for (slot, &count) in lut.iter_mut().zip(counts).skip(darkest + 1) {
        // A level that does not occur repeats its neighbour's entry, which saves most of 65,536
        // divisions.
        if count > 0 {
            running += count.min(most);
            entry = S::from_level(((2 * running * top + above) / (2 * above)) as u32);
        }
        *slot = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lut8(occurring: &[(usize, u64)]) -> Vec<u8> {
        cut_lut8(u64::MAX, occurring)
    }

    fn cut_lut8(most: u64, occurring: &[(usize, u64)]) -> Vec<u8> {
        let mut counts = vec![0; 256];
        for &(level, count) in occurring {
            counts[level] = count;
        }
        let mut lut = vec![7; 256];
        fill(most, &counts, &mut lut);
        lut
    }

    #[test]
    fn two_levels_go_to_the_ends() {
        let lut = lut8(&[(10, 3), (20, 1)]);
        assert!(lut[..20].iter().all(|&v| v == 0));
        assert!(lut[20..].iter().all(|&v| v == 255));
    }

    #[test]
    fn halves_round_up() {
        // d = 2, so level 5 becomes 255/2 = 127.5.
        let lut = lut8(&[(0, 1), (5, 1), (9, 1)]);
        assert_eq!((lut[4], lut[5], lut[8], lut[9], lut[255]), (0, 128, 128, 255, 255));
    }

    #[test]
    fn every_level_once_changes_nothing() {
        let all: Vec<_> = (0..256).map(|level| (level, 1)).collect();
        assert!(lut8(&all).iter().enumerate().all(|(level, &v)| level == usize::from(v)));
    }

    #[test]
    fn nothing_to_spread_changes_nothing() {
        let identity: Vec<u8> = (0..=255).collect();
        assert_eq!(lut8(&[(77, 1000)]), identity);
        assert_eq!(lut8(&[]), identity);
    }

    #[test]
    fn a_worked_example() {
        // Levels 52, 55, 60, 200 occur 1, 3, 2, 4 times: d = 9; 3*255/9 = 85, 5*255/9 = 141.67,
        // 255.
        let lut = lut8(&[(52, 1), (55, 3), (60, 2), (200, 4)]);
        assert_eq!((lut[52], lut[55], lut[60], lut[200]), (0, 85, 142, 255));
    }

    #[test]
    fn cut_counts_share_the_range() {
        // Capped at 2: 1, 2, 2, 2; hence d = 6 and 2*255/6 = 85.
        let lut = cut_lut8(2, &[(52, 1), (55, 3), (60, 2), (200, 4)]);
        assert_eq!((lut[52], lut[55], lut[60], lut[200]), (0, 85, 170, 255));
        // Capped at 1, each level that occurs gets the same room.
        let lut = cut_lut8(1, &[(7, 1000), (8, 1), (250, 30)]);
        assert_eq!((lut[7], lut[8], lut[250]), (0, 128, 255));
    }

    #[test]
    fn a_plateau_is_a_share_of_all_samples_and_at_least_one() {
        let most = |share, counts: &[u64]| Plateau { share }.most(counts);
        assert_eq!((most(10_000, &[150, 50]), most(9_999, &[150, 50]), most(1, &[150, 50])), (2, 1, 1));
        assert_eq!((most(1_000_000, &[150, 50]), most(500_000, &[u64::MAX, u64::MAX])), (200, u64::MAX));
    }

    #[test]
    fn counts_beyond_32_bits_do_not_overflow() {
        let mut counts = vec![0; 65536];
        (counts[0], counts[1], counts[65535]) = (1, 1 << 44, 1 << 44);
        let mut lut = vec![0_u16; 65536];
        fill(u64::MAX, &counts, &mut lut);
        assert_eq!((lut[0], lut[1], lut[65534], lut[65535]), (0, 32768, 32768, 65535));
    }
}
