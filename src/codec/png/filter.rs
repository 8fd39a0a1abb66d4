//! The filters of PNG (third edition, section 9): what is left of a row once it is predicted by its neighbours.

use crate::equalize::simd;

/// Chooses a filter for each row.
pub(super) struct Filters {
    /// Bytes of a pixel.
    step: usize,
    /// Whether each row gets the filter that suits it; else all get Paeth's.
    adaptive: bool,
    best: Vec<u8>,
    trial: Vec<u8>,
}

/// The filter types, as rows are marked.
const NONE: u8 = 0;
const SUB: u8 = 1;
const UP: u8 = 2;
const AVERAGE: u8 = 3;
const PAETH: u8 = 4;

impl Filters {
    /// For rows of `bytes` bytes.
    pub(super) fn new(bytes: usize, step: usize, adaptive: bool) -> Self {
        Self { step, adaptive, best: vec![0; bytes + 1], trial: vec![0; bytes + 1] }
    }

    /// The row that follows `above`, with the mark of its filter at the front.
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

/// How far from 0 the bytes are, as signed numbers, in all: less of that compresses better.
#[inline(always)]
fn cost(filtered: &[u8]) -> u64 {
    let block =
        |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte.cast_signed().unsigned_abs())).sum::<u32>();
    filtered.chunks(1 << 16).map(|bytes| u64::from(block(bytes))).sum()
}

#[inline(always)]
fn filter(kind: u8, row: &[u8], above: &[u8], step: usize, out: &mut [u8]) {
    let (mark, out) = out.split_first_mut().expect("a row has a mark");
    *mark = kind;
    // Left of the first pixel there are zeros.
    let (first, rest) = out.split_at_mut(step);
    let zeros = [0; 8];
    part(kind, &row[..step], &zeros[..step], &above[..step], &zeros[..step], first);
    part(kind, &row[step..], row, &above[step..], above, rest);
}

/// Filters bytes whose left neighbours and upper left neighbours begin at the same places of `left` and `corner`.
#[inline(always)]
fn part(kind: u8, row: &[u8], left: &[u8], above: &[u8], corner: &[u8], out: &mut [u8]) {
    let length = row.len();
    let (left, above, corner, out) =
        (&left[..length], &above[..length], &corner[..length], &mut out[..length]);
    match kind {
        SUB => (0..length).for_each(|at| out[at] = row[at].wrapping_sub(left[at])),
        UP => (0..length).for_each(|at| out[at] = row[at].wrapping_sub(above[at])),
        AVERAGE => (0..length).for_each(|at| {
            out[at] = row[at].wrapping_sub(((u16::from(left[at]) + u16::from(above[at])) / 2) as u8);
        }),
        PAETH => {
            (0..length).for_each(|at| out[at] = row[at].wrapping_sub(paeth(left[at], above[at], corner[at])));
        }
        _ => out.copy_from_slice(row),
    }
}

/// Which of the three is closest to left + above - corner.
#[inline(always)]
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(above), i16::from(corner));
    let (to_left, to_above, to_corner) = ((b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs());
    if to_left <= to_above && to_left <= to_corner {
        left
    } else if to_above <= to_corner {
        above
    } else {
        corner
    }
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
    fn the_filter_that_leaves_least_is_chosen() {
        let above = [200, 3, 77, 150, 9, 33];
        let chosen = |row: &[u8; 6], adaptive| Filters::new(6, 1, adaptive).row(row, &above)[0];
        assert_eq!(chosen(&[90, 91, 92, 93, 94, 95], true), SUB);
        assert_eq!(chosen(&[201, 4, 78, 151, 10, 34], true), PAETH);
        assert_eq!(chosen(&[0, 1, 0, 1, 0, 1], true), NONE);
        assert_eq!(chosen(&[0, 1, 0, 1, 0, 1], false), PAETH);
    }
}
