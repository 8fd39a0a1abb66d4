//! The reverse of the filters of rows (PNG third edition, section 9), for several rows at a time.
//!
//! A pixel depends on the one to its left: the pixels of a row can only be undone one after the
//! other. But where each row is one pixel later than the row above it, the pixels on that diagonal
//! do not depend on each other, and are undone together, as lanes of a vector.

#![allow(unsafe_code)]

use std::ops::Range;

use super::filter::{AVERAGE, NONE, PAETH, SUB, UP, predicted};

/// A row's filter type does not exist.
#[derive(Debug, PartialEq)]
pub(super) struct UnknownFilter;

/// Returns whether this processor undoes several rows at once.
///
/// Where it does not, the `png` crate is as fast.
pub(super) fn is_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// The most rows that are undone at once.
pub(super) const GROUP: usize = 4;

/// Undoes the filters of the rows in `filtered`, each after its filter type, into `rows`.
///
/// `above` is the row before them, or zeros, and as long as each row; `step` is the number of bytes
/// per pixel.
pub(super) fn undo(filtered: &[u8], step: usize, above: &[u8], rows: &mut [u8]) -> Result<(), UnknownFilter> {
    match step {
        1 => groups::<1, 1, 4>(filtered, above, rows),
        2 => groups::<2, 2, 4>(filtered, above, rows),
        3 => groups::<3, 4, 4>(filtered, above, rows),
        4 => groups::<4, 4, 4>(filtered, above, rows),
        6 => groups::<6, 8, 2>(filtered, above, rows),
        _ => groups::<8, 8, 2>(filtered, above, rows),
    }
}

/// Returns the rows of filtered pixels, and the marks before them.
#[inline(always)]
fn marked(filtered: &[u8], bytes: usize) -> impl Iterator<Item = (&u8, &[u8])> {
    filtered.chunks(bytes + 1).map(|row| row.split_first().expect("a row has a mark"))
}

/// Undoes groups of `K` rows with pixels of `B` bytes, read and written `N` bytes at a time.
fn groups<'r, const B: usize, const N: usize, const K: usize>(
    filtered: &[u8],
    mut above: &'r [u8],
    rows: &'r mut [u8],
) -> Result<(), UnknownFilter> {
    let bytes = above.len();
    for (filtered, rows) in filtered.chunks(K * (bytes + 1)).zip(rows.chunks_mut(K * bytes)) {
        if marked(filtered, bytes).any(|(&kind, _)| kind > PAETH) {
            return Err(UnknownFilter);
        }
        let chained = marked(filtered, bytes).filter(|(kind, _)| ![NONE, UP].contains(kind)).count();
        if is_fast() && rows.len() == K * bytes && bytes > K * B && chained > 1 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the instructions that the function is compiled for, as
            // `is_fast` has found.
            unsafe {
                diagonals::group::<B, N, K>(filtered, above, rows);
            };
        } else {
            let mut above = above;
            for ((&kind, filtered), row) in marked(filtered, bytes).zip(rows.chunks_mut(bytes)) {
                part::<B>(kind, filtered, above, row, 0..bytes);
                above = row;
            }
        }
        above = &rows[rows.len() - bytes..];
    }
    Ok(())
}

/// Undoes the filter of some bytes of a row, after all bytes before them.
#[inline(always)]
fn part<const B: usize>(kind: u8, filtered: &[u8], above: &[u8], row: &mut [u8], bytes: Range<usize>) {
    for at in bytes {
        let (left, corner) = if at < B { (0, 0) } else { (row[at - B], above[at - B]) };
        row[at] = filtered[at].wrapping_add(predicted(kind, left, above[at], corner));
    }
}

#[cfg(target_arch = "x86_64")]
mod diagonals {
    use std::arch::x86_64::*;
    use std::array::from_fn;

    use super::*;

    /// Undoes `K` rows at once, which must be longer than `K` pixels of `B` bytes.
    ///
    /// A lane has 16 / `K` bytes, of which `N` are read and written: where these are more than a
    /// pixel, the next pixel overwrites the excess.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn group<const B: usize, const N: usize, const K: usize>(
        filtered: &[u8],
        above: &[u8],
        rows: &mut [u8],
    ) {
        let bytes = above.len();
        let kinds: [u8; K] = from_fn(|row| filtered[row * (bytes + 1)]);
        // Before the last row can begin, and after the first row has ended, the diagonals do not
        // meet every row.
        edges::<B, K>(filtered, above, rows, |row| 0..(K - 1 - row) * B);
        if kinds == [PAETH; K] {
            middle::<B, N, K, true>(kinds, filtered, above, rows);
        } else {
            middle::<B, N, K, false>(kinds, filtered, above, rows);
        }
        edges::<B, K>(filtered, above, rows, |row| bytes - (1 + row) * B..bytes);
    }

    /// Undoes some bytes of each row, one row after the other.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn edges<const B: usize, const K: usize>(
        filtered: &[u8],
        above: &[u8],
        rows: &mut [u8],
        part_of: impl Fn(usize) -> Range<usize>,
    ) {
        let bytes = above.len();
        for (number, filtered) in filtered.chunks_exact(bytes + 1).enumerate() {
            let (done, row) = rows.split_at_mut(number * bytes);
            let above = if number == 0 { above } else { &done[(number - 1) * bytes..] };
            part::<B>(filtered[0], &filtered[1..], above, &mut row[..bytes], part_of(number));
        }
    }

    /// Undoes all diagonals that meet every row.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn middle<const B: usize, const N: usize, const K: usize, const ALL_PAETH: bool>(
        kinds: [u8; K],
        filtered: &[u8],
        above: &[u8],
        rows: &mut [u8],
    ) {
        let bytes = above.len();
        // The pixels to the left of the first of these diagonals, and the ones above those.
        let before = |row: usize| (K - 1 - row) * B - B;
        let done =
            |row: usize, at: usize| rows[row * bytes + at..][..B].try_into().expect("a pixel has B bytes");
        let lefts: [[u8; B]; K] = from_fn(|row| if row < K - 1 { done(row, before(row)) } else { [0; B] });
        let corners: [[u8; B]; K] = from_fn(|row| match row {
            0 => above[before(0)..][..B].try_into().expect("a pixel has B bytes"),
            row if row < K - 1 => done(row - 1, before(row)),
            _ => [0; B],
        });
        let (mut left, mut over) = (lanes(lefts), lanes(corners));

        // All rows begin at that diagonal, and end where the first row has only its last pixel
        // left.
        let length = bytes - K * B - B + N;
        let above = &above[(K - 1) * B..][..length];
        let filtered: [&[u8]; K] =
            from_fn(|row| &filtered[row * (bytes + 1) + 1 + (K - 1 - row) * B..][..length]);
        let mut rows = rows.chunks_exact_mut(bytes);
        let mut rows: [&mut [u8]; K] =
            from_fn(|row| &mut rows.next().expect("there are K rows")[(K - 1 - row) * B..][..length]);
        let filters = Filters::new(kinds);
        let mut at = 0;
        while at + N <= length {
            let corner = over;
            // SAFETY: at + N is at most `length`, which is the length of each slice that is read
            // here or written below.
            let read = |row: &[u8]| word(unsafe { row.get_unchecked(at..at + N) });
            over = shifted::<K>(left, read(above));
            let words = gathered(filtered.map(read));
            left = if ALL_PAETH {
                paeth(words, left, over, corner)
            } else {
                filters.undo(words, left, over, corner)
            };
            let done: [u8; 16] = bytemuck::cast(left);
            for (row, pixels) in rows.iter_mut().enumerate() {
                // SAFETY: as above.
                let pixels = unsafe { pixels.get_unchecked_mut(at..at + N) };
                pixels.copy_from_slice(&done[row * 16 / K..][..N]);
            }
            at += B;
        }
    }

    /// Returns up to eight bytes as a word, the first one lowest.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn word(bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn gathered<const K: usize>(words: [u64; K]) -> __m128i {
        match words[..] {
            [first, second] => _mm_set_epi64x(second.cast_signed(), first.cast_signed()),
            [first, second, third, fourth] => {
                _mm_set_epi32(fourth as i32, third as i32, second as i32, first as i32)
            }
            _ => unreachable!("there are two or four lanes"),
        }
    }

    /// Puts each pixel into a lane of its own.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes<const B: usize, const K: usize>(pixels: [[u8; B]; K]) -> __m128i {
        gathered(pixels.map(|pixel| word(&pixel)))
    }

    /// Moves each lane's content to the next lane, and a word into the first one.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn shifted<const K: usize>(lanes: __m128i, first: u64) -> __m128i {
        let next = if K == 2 { _mm_slli_si128::<8>(lanes) } else { _mm_slli_si128::<4>(lanes) };
        let first =
            if K == 2 { _mm_cvtsi64_si128(first.cast_signed()) } else { _mm_cvtsi32_si128(first as i32) };
        _mm_or_si128(next, first)
    }

    /// Undoes Paeth's filter.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn paeth(filtered: __m128i, left: __m128i, above: __m128i, corner: __m128i) -> __m128i {
        let (low, high) = (_mm_min_epu8(left, above), _mm_max_epu8(left, above));
        // How far the corner is from each, or 0 where it is beyond it: as in
        // [`crate::filter::paeth`].
        let (to_high, to_low) = (_mm_subs_epu8(high, corner), _mm_subs_epu8(corner, low));
        let none = _mm_setzero_si128();
        let is_low = _mm_cmpeq_epi8(_mm_subs_epu8(to_high, _mm_subs_epu8(to_low, to_high)), none);
        let is_high = _mm_cmpeq_epi8(_mm_subs_epu8(to_low, _mm_subs_epu8(to_high, to_low)), none);
        let down = _mm_sub_epi8(_mm_add_epi8(filtered, corner), _mm_and_si128(to_low, is_low));
        _mm_add_epi8(down, _mm_and_si128(to_high, is_high))
    }

    /// Undoes lanes with different filters.
    ///
    /// All but the average are Paeth's with some neighbours set to 0.
    struct Filters {
        /// All bits of the lanes that use the left, upper and upper left neighbour.
        left: __m128i,
        above: __m128i,
        corner: __m128i,
        /// All bits of the lanes that use the average.
        average: __m128i,
    }

    impl Filters {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new<const K: usize>(kinds: [u8; K]) -> Self {
            let of = |some: &[u8]| lanes(kinds.map(|kind| [if some.contains(&kind) { 255 } else { 0 }; 8]));
            Self {
                left: of(&[SUB, AVERAGE, PAETH]),
                above: of(&[UP, AVERAGE, PAETH]),
                corner: of(&[PAETH]),
                average: of(&[AVERAGE]),
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn undo(&self, filtered: __m128i, left: __m128i, above: __m128i, corner: __m128i) -> __m128i {
            let (left, above) = (_mm_and_si128(left, self.left), _mm_and_si128(above, self.above));
            let others = paeth(filtered, left, above, _mm_and_si128(corner, self.corner));
            // The filter rounds down, the instruction up.
            let odd = _mm_and_si128(_mm_xor_si128(left, above), _mm_set1_epi8(1));
            let average = _mm_add_epi8(filtered, _mm_sub_epi8(_mm_avg_epu8(left, above), odd));
            _mm_or_si128(_mm_and_si128(average, self.average), _mm_andnot_si128(self.average, others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::filter::filter;
    use super::*;
    use crate::samples::tests::noise;

    #[test]
    fn rows_of_every_filter_and_size_come_back() {
        let kinds = [NONE, SUB, UP, AVERAGE, PAETH];
        for (step, width) in [1, 2, 3, 4, 6, 8]
            .into_iter()
            .flat_map(|step| (1..12).chain([50, 333]).map(move |width| (step, width)))
        {
            let bytes = step * width;
            for (seed, rows) in (0..60).map(|seed| (seed, seed % 10 + 1)) {
                let (above, pixels) = (noise(bytes, 1), noise(rows * bytes, seed as u32));
                let chosen = noise(rows, seed as u32 + 7);
                let mut filtered = vec![0; rows * (bytes + 1)];
                for (row, out) in filtered.chunks_mut(bytes + 1).enumerate() {
                    let all = [above.as_slice(), &pixels].concat();
                    // Groups with one filter, and with several.
                    let kind = if seed < 25 { kinds[seed % 5] } else { kinds[usize::from(chosen[row]) % 5] };
                    filter(kind, &all[(row + 1) * bytes..][..bytes], &all[row * bytes..][..bytes], step, out);
                }
                let mut undone = vec![0; rows * bytes];
                undo(&filtered, step, &above, &mut undone).unwrap();
                assert!(undone == pixels, "{rows} rows of {width} pixels of {step} bytes, seed {seed}");
            }
        }
    }

    #[test]
    fn a_filter_that_does_not_exist_is_told() {
        for row in 0..6 {
            let mut filtered = [[PAETH; 31]; 6];
            filtered[row][0] = PAETH + 1;
            let undone = undo(filtered.as_flattened(), 3, &[0; 30], &mut [0; 180]);
            assert_eq!(undone, Err(UnknownFilter), "row {row}");
        }
    }
}
