//! PNG's filters: rows without their prediction from neighbours (third edition, section 9).

use equalize::simd;

/// Chooses a filter for each row.
pub(super) struct Filters {
    /// Bytes per pixel.
    step: usize,
    /// Whether each row gets the filter that suits it best; otherwise all get Paeth.
    adaptive: bool,
    best: Vec<u8>,
    trial: Vec<u8>,
}

/// The filter types, as in the byte before each row.
pub(super) const NONE: u8 = 0;
pub(super) const SUB: u8 = 1;
pub(super) const UP: u8 = 2;
pub(super) const AVERAGE: u8 = 3;
pub(super) const PAETH: u8 = 4;

impl Filters {
    /// Makes filters for rows of `bytes` bytes.
    pub(super) fn new(bytes: usize, step: usize, adaptive: bool) -> Self {
        Self { step, adaptive, best: vec![0; bytes + 1], trial: vec![0; bytes + 1] }
    }

    /// Filters the row that follows `above`; returns it with its filter type in front.
    pub(super) fn row(&mut self, row: &[u8], above: &[u8]) -> &[u8] {
        simd::vectorized!(self.choose(row, above));
        &self.best
    }

    #[inline(always)]
    fn choose(&mut self, row: &[u8], above: &[u8]) {
        filter(PAETH, row, above, self.step, &mut self.best);
        if self.adaptive {
            let mut least = cost(&self.best[1..]);
            for kind in [UP, SUB, AVERAGE, NONE] {
                filter(kind, row, above, self.step, &mut self.trial);
                let cost = cost(&self.trial[1..]);
                if cost < least {
                    least = cost;
                    std::mem::swap(&mut self.best, &mut self.trial);
                }
            }
        }
    }
}

/// Returns the sum of the bytes' distances from 0, as signed numbers.
///
/// The lower it is, the better they compress.
#[inline(always)]
fn cost(filtered: &[u8]) -> u64 {
    let block =
        |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte.cast_signed().unsigned_abs())).sum::<u32>();
    filtered.chunks(1 << 16).map(|bytes| u64::from(block(bytes))).sum()
}

/// Filters a row with pixels of `step` bytes into `out`, after its filter type.
#[inline(always)]
pub(super) fn filter(kind: u8, row: &[u8], above: &[u8], step: usize, out: &mut [u8]) {
    let (mark, out) = out.split_first_mut().expect("a row has a mark");
    *mark = kind;
    // Left of the first pixel there are zeros.
    let (first, rest) = out.split_at_mut(step);
    let zeros = [0; 8];
    part(kind, &row[..step], &zeros[..step], &above[..step], &zeros[..step], first);
    part(kind, &row[step..], row, &above[step..], above, rest);
}

/// Filters the bytes of `row`.
///
/// Their left, upper and upper left neighbours have the same indices in `left`, `above` and
/// `corner`.
#[inline(always)]
fn part(kind: u8, row: &[u8], left: &[u8], above: &[u8], corner: &[u8], out: &mut [u8]) {
    let length = row.len();
    let (left, above, corner, out) =
        (&left[..length], &above[..length], &corner[..length], &mut out[..length]);
    macro_rules! by {
        ($kind:expr) => {
            (0..length).for_each(|at| {
                out[at] = row[at].wrapping_sub(predicted($kind, left[at], above[at], corner[at]));
            })
        };
    }
    // The kind is a constant in each loop, which lets the loop be vectorized.
    match kind {
        SUB => by!(SUB),
        UP => by!(UP),
        AVERAGE => by!(AVERAGE),
        PAETH => by!(PAETH),
        _ => by!(NONE),
    }
}

/// Returns the prediction of a byte by a filter.
#[inline(always)]
pub(super) fn predicted(kind: u8, left: u8, above: u8, corner: u8) -> u8 {
    match kind {
        SUB => left,
        UP => above,
        AVERAGE => ((u16::from(left) + u16::from(above)) / 2) as u8,
        PAETH => paeth(left, above, corner),
        _ => 0,
    }
}

/// Returns the one of three that is closest to left + above - corner, or the first of equals.
///
/// That is the lower (or higher) one of the first two where the corner is at least twice as near to
/// the other one, or beyond it, and otherwise the corner. (A variant of
/// <https://github.com/nothings/stb/blob/master/stb_image.h>'s that needs no more than bytes.)
#[inline(always)]
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let to_high = left.max(above).saturating_sub(corner);
    let to_low = corner.saturating_sub(left.min(above));
    let down = if to_high.saturating_sub(to_low.saturating_sub(to_high)) == 0 { to_low } else { 0 };
    let up = if to_low.saturating_sub(to_high.saturating_sub(to_low)) == 0 { to_high } else { 0 };
    corner.wrapping_sub(down).wrapping_add(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_its_neighbours_do_not_tell() {
        let (above, row) = ([10, 20, 30, 40, 50, 60], [11, 22, 33, 44, 55, 250]);
        let filtered = |kind| {
            let mut out = [0; 7];
            filter(kind, &row, &above, 2, &mut out);
            out
        };
        assert_eq!(filtered(NONE), [0, 11, 22, 33, 44, 55, 250]);
        assert_eq!(filtered(SUB), [1, 11, 22, 22, 22, 22, 206]);
        assert_eq!(filtered(UP), [2, 1, 2, 3, 4, 5, 190]);
        assert_eq!(filtered(AVERAGE), [3, 6, 12, 13, 13, 14, 198]);
        assert_eq!(filtered(PAETH), [4, 1, 2, 3, 4, 5, 190]);
    }

    #[test]
    fn paeth_is_the_one_that_is_closest() {
        for (left, above, corner) in (0..=255).flat_map(|left| {
            (0..=255).flat_map(move |above| (0..=255).map(move |corner| (left, above, corner)))
        }) {
            let estimate = left + above - corner;
            let closest =
                [left, above, corner].into_iter().min_by_key(|&value: &i32| (value - estimate).abs());
            assert_eq!(Some(i32::from(paeth(left as u8, above as u8, corner as u8))), closest);
        }
    }

    #[test]
    fn the_filter_that_leaves_least_is_chosen() {
        let above = [200, 3, 77, 150, 9, 33];
        let chosen = |row: &[u8; 6], adaptive| Filters::new(6, 1, adaptive).row(row, &above)[0];
        assert_eq!(chosen(&[90, 91, 92, 93, 94, 95], true), SUB);
        assert_eq!(chosen(&[201, 4, 78, 151, 10, 34], true), PAETH);
        assert_eq!(chosen(&[0, 1, 0, 1, 0, 1], true), NONE);
        assert_eq!(chosen(&[0, 1, 0, 1, 0, 1], false), PAETH);
    }
}
