//! Chroma that follows a new luma to keep hues, in a JPEG's own planes.
//!
//! Scaling the difference of a colour from its luma is scaling Cb and Cr. A sample of these stands
//! for the samples of luma that it covers: its factor is that of [`equalize::Colour::Hue`], with
//! the sums of their old and new levels, and with the mean colour in place of a pixel's. There is
//! no conversion to RGB and no resampling. Where the sum stays, the sample does.

use std::ops::Range;

use equalize::colour::{DARK_OFFSET, MOST_CHROMA};

use super::markers::{Factors, largest_factors};
use super::planes::{Cover, PlaneSize};
use super::vectorized;

/// A fraction added before rounding to the nearest, to round halves up.
///
/// The fractions of results are multiples of 1 / (2 * 16 * 128 * 116130) or of more: no other
/// fraction is rounded up.
const TIE: f64 = 1.0 / (1_u64 << 34) as f64;

/// 2⁵², from which on a float has no fraction bits: adding it rounds.
const ROUND: f64 = (1_u64 << 52) as f64;

/// 2²³, the same for 32 bits: the lowest bits of the sum are then the integer.
const ROUND_32: f32 = (1 << 23) as f32;

/// More than a scaled sample can be below 0; it makes the sum to be rounded positive.
const ABOVE: f64 = 1024.0;

/// Samples scaled at a time.
const LANES: usize = 8;

impl Cover {
    /// Returns the cover of a picture with these sampling factors.
    ///
    /// `None` unless Cb and Cr have one sampling, and luma's factors are multiples of it.
    pub(super) fn of(components: &[Factors]) -> Option<Self> {
        let [luma, blue, red] = components else { return None };
        let is_whole =
            luma.horizontal.is_multiple_of(blue.horizontal) && luma.vertical.is_multiple_of(blue.vertical);
        let (across, down) = (luma.horizontal / blue.horizontal.max(1), luma.vertical / blue.vertical.max(1));
        let is_most = (luma.horizontal, luma.vertical) == largest_factors(components);
        (blue == red && is_whole && is_most).then_some(Self { across: across.into(), down: down.into() })
    }

    /// Returns the bytes of the sums of luma of this size.
    pub(super) fn sum_bytes(self, luma: PlaneSize) -> u64 {
        (self.size(luma).bytes() * size_of::<u16>()) as u64
    }

    /// Adds up the luma that the chroma samples of a row cover.
    ///
    /// `rows` are its rows of luma.
    fn add_up(self, rows: &[u8], width: usize, sums: &mut [u16]) {
        #[inline(always)]
        fn add<const ACROSS: usize>(row: &[u8], sums: &mut [u16]) {
            let (whole, rest) = row.as_chunks::<ACROSS>();
            for (sum, covered) in sums.iter_mut().zip(whole) {
                *sum += covered.iter().map(|&sample| u16::from(sample)).sum::<u16>();
            }
            if let (Some(sum), false) = (sums.get_mut(whole.len()), rest.is_empty()) {
                *sum += rest.iter().map(|&sample| u16::from(sample)).sum::<u16>();
            }
        }
        sums.fill(0);
        vectorized::run(
            #[inline(always)]
            || {
                for row in rows.chunks_exact(width) {
                    match self.across {
                        1 => add::<1>(row, sums),
                        2 => add::<2>(row, sums),
                        3 => add::<3>(row, sums),
                        _ => add::<4>(row, sums),
                    }
                }
            },
        );
    }
}

/// The luma that chroma covers, before equalization.
#[derive(Debug)]
pub(super) struct Covered {
    cover: Cover,
    luma: PlaneSize,
    sums: Vec<u16>,
}

impl Covered {
    /// Adds up luma of this size. `None` if there is no memory for the sums.
    pub(super) fn new(cover: Cover, luma: PlaneSize, samples: &[u8]) -> Option<Self> {
        let size = cover.size(luma);
        let mut sums: Vec<u16> = Vec::new();
        sums.try_reserve_exact(size.bytes()).ok()?;
        sums.resize(size.bytes(), 0);
        let rows = samples[..luma.bytes()].chunks(luma.width * cover.down);
        for (sums, rows) in sums.chunks_exact_mut(size.width).zip(rows) {
            cover.add_up(rows, luma.width, sums);
        }
        Some(Self { cover, luma, sums })
    }

    /// Returns the bytes of the sums.
    pub(super) fn bytes(&self) -> u64 {
        (self.sums.len() * size_of::<u16>()) as u64
    }

    /// Returns the change of chroma to follow these new samples of luma.
    pub(super) fn follow<'c>(&'c self, samples: &'c [u8]) -> Following<'c> {
        Following { covered: self, samples, first: 0, sums: Vec::new() }
    }
}

/// The change of chroma, some rows at a time.
#[derive(Clone)]
pub(super) struct Following<'c> {
    covered: &'c Covered,
    samples: &'c [u8],
    /// The first of the rows, and their new sums.
    first: usize,
    sums: Vec<u16>,
}

impl Following<'_> {
    /// Returns the size of the chroma planes, without padding.
    pub(super) fn size(&self) -> PlaneSize {
        self.covered.cover.size(self.covered.luma)
    }

    /// Goes on to these rows of chroma.
    pub(super) fn begin(&mut self, rows: Range<usize>) {
        let Covered { cover, luma, .. } = self.covered;
        let width = self.size().width;
        self.first = rows.start;
        self.sums.resize(rows.len() * width, 0);
        let samples = &self.samples[..luma.bytes()][rows.start * cover.down * luma.width..];
        let of_rows = samples.chunks(cover.down * luma.width);
        for (sums, rows) in self.sums.chunks_exact_mut(width).zip(of_rows) {
            cover.add_up(rows, luma.width, sums);
        }
    }

    /// Returns the old and the new sums of a row of chroma in these columns.
    ///
    /// The row is counted from the first.
    #[inline(always)]
    fn sums(&self, row: usize, columns: Range<usize>) -> (&[u16], &[u16]) {
        let width = self.size().width;
        let new = &self.sums[row * width..][..width][columns.clone()];
        (&self.covered.sums[(self.first + row) * width..][..width][columns], new)
    }

    /// Returns whether samples change in these columns of the rows.
    pub(super) fn changes(&self, columns: Range<usize>) -> bool {
        let rows = self.sums.len() / self.size().width;
        (0..rows).any(|row| {
            let (old, new) = self.sums(row, columns.clone());
            old != new
        })
    }

    /// Changes the samples of a row, counted from the first, in these columns.
    #[inline(always)]
    pub(super) fn change(&self, row: usize, columns: Range<usize>, blue: &mut [u8], red: &mut [u8]) {
        let Covered { cover, luma, .. } = self.covered;
        let down = cover.down.min(luma.rows - (self.first + row) * cover.down);
        let last = self.size().width - 1;
        let number = |across: usize| (across * down) as u16;
        let (old, new) = self.sums(row, columns.clone());
        // Only the last column may cover fewer samples.
        let whole = columns.len() - usize::from(columns.end > last);
        let (old_whole, old_last) = old.split_at(whole);
        let (new_whole, new_last) = new.split_at(whole);
        let (blue_whole, blue_last) = blue.split_at_mut(whole);
        let (red_whole, red_last) = red.split_at_mut(whole);
        scale(number(cover.across), old_whole, new_whole, blue_whole, red_whole);
        scale(number(luma.width - last * cover.across), old_last, new_last, blue_last, red_last);
    }
}

/// Scales samples of chroma; each covers `number` samples of luma with these old and new sums.
#[inline(always)]
fn scale(number: u16, old: &[u16], new: &[u16], blue: &mut [u8], red: &mut [u8]) {
    let (old, last_old) = old.as_chunks::<LANES>();
    let (new, last_new) = new.as_chunks::<LANES>();
    let (blue, last_blue) = blue.as_chunks_mut::<LANES>();
    let (red, last_red) = red.as_chunks_mut::<LANES>();
    for (((old, new), blue), red) in old.iter().zip(new).zip(blue).zip(red) {
        scale_lanes(number, old, new, blue, red);
    }
    let length = last_old.len();
    if length > 0 {
        let (mut old, mut new, mut blue, mut red) = ([0; LANES], [0; LANES], [0; LANES], [0; LANES]);
        old[..length].copy_from_slice(last_old);
        new[..length].copy_from_slice(last_new);
        blue[..length].copy_from_slice(last_blue);
        red[..length].copy_from_slice(last_red);
        scale_lanes(number, &old, &new, &mut blue, &mut red);
        last_blue.copy_from_slice(&blue[..length]);
        last_red.copy_from_slice(&red[..length]);
    }
}

/// Scales [`LANES`] samples at a time, with one division each.
///
/// It works in steps of arrays, which the compiler vectorizes.
#[inline(always)]
fn scale_lanes(
    number: u16,
    old: &[u16; LANES],
    new: &[u16; LANES],
    blue: &mut [u8; LANES],
    red: &mut [u8; LANES],
) {
    let offset = f64::from(DARK_OFFSET * u32::from(number));
    let (number, most_sum) = (f64::from(number), f64::from(255 * number));
    let differences = |samples: &[u8; LANES]| samples.map(|sample| i32::from(sample) - 128);
    let (blues, reds) = (differences(blue), differences(red));
    let mut factors = [0.0; LANES];
    for i in 0..LANES {
        let (b, r) = (blues[i], reds[i]);
        // The greatest difference of red, blue and green from luma, in 65536ths, by JFIF's
        // equations.
        let greatest = (91881 * r).max(116_130 * b).max(-22554 * b - 46802 * r);
        let (from, to) = (f64::from(i32::from(old[i])), f64::from(i32::from(new[i])));
        // The ratio with an offset is the lesser of the two where luma grows.
        let offset = if to > from { offset } else { 0.0 };
        let (up, under) = (to + offset, from + offset);
        // All products are below 2⁵³; quotients are therefore compared exactly. The denominator is
        // 0 for gray, for which the factor has no effect.
        let (room, of_room) = (65536.0 * (most_sum - to), number * f64::from(greatest));
        let has_less = room * under < up * of_room;
        let (up, under) = (if has_less { room } else { up }, if has_less { of_room } else { under });
        let is_most = MOST_CHROMA * under < up;
        let (up, under) = (if is_most { MOST_CHROMA } else { up }, if is_most { 1.0 } else { under });
        factors[i] = up / under;
    }
    let scaled = |differences: &[i32; LANES], samples: &mut [u8; LANES]| {
        let mut levels = [0; LANES];
        for i in 0..LANES {
            let value = f64::from(differences[i]) * factors[i] + (ABOVE + 128.0 + TIE);
            let level = ((value + ROUND) - (ROUND + ABOVE)).clamp(0.0, 255.0);
            levels[i] = (level as f32 + ROUND_32).to_bits() as u8;
        }
        for i in 0..LANES {
            samples[i] = if old[i] == new[i] { samples[i] } else { levels[i] };
        }
    };
    scaled(&blues, blue);
    scaled(&reds, red);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule in integers.
    fn scaled([old, new, number]: [i64; 3], [blue, red]: [u8; 2]) -> [u8; 2] {
        let (b, r) = (i64::from(blue) - 128, i64::from(red) - 128);
        let greatest = (91881 * r).max(116_130 * b).max(-22554 * b - 46802 * r);
        if old == new {
            return [blue, red];
        }
        let (mut up, mut under) = (4, 1);
        let room = (65536 * (255 * number - new), number * greatest);
        for (n, d) in [(new, old), (new + 4 * number, old + 4 * number), room] {
            if d > 0 && n * under < up * d {
                (up, under) = (n, d);
            }
        }
        [b, r].map(|v| (128 + (2 * v * up + under).div_euclid(2 * under)).clamp(0, 255) as u8)
    }

    #[test]
    fn samples_are_scaled_as_in_integers() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for round in 0..400_000 {
            let number = [1, 2, 4, 3, 8, 16][round % 6];
            let most = if round % 5 == 0 { 30 } else { 255 * number + 1 };
            let (old, new) = (below(most) as u16, below(most) as u16);
            let mut samples = [[below(256) as u8], [below(256) as u8]];
            let [blue, red] = &mut samples;
            let expected = scaled([old.into(), new.into(), number as i64], [blue[0], red[0]]);
            scale(number as u16, &[old], &[new], blue, red);
            assert_eq!([samples[0][0], samples[1][0]], expected, "{old} {new} {number}");
        }
    }

    #[test]
    fn luma_is_added_up_to_the_edges() {
        let cover = Cover { across: 2, down: 2 };
        let luma = PlaneSize { width: 3, rows: 3 };
        let covered = Covered::new(cover, luma, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
        assert_eq!((covered.sums.as_slice(), covered.bytes()), (&[12, 9, 15, 9][..], 8));
    }

    #[test]
    fn samplings_that_luma_is_a_multiple_of_stay_in_planes() {
        let factors =
            |list: [(u8, u8); 3]| list.map(|(horizontal, vertical)| Factors { horizontal, vertical });
        let cover = |list| Cover::of(&factors(list)).map(|cover| (cover.across, cover.down));
        assert_eq!(cover([(2, 2), (1, 1), (1, 1)]), Some((2, 2)));
        assert_eq!(cover([(4, 1), (1, 1), (1, 1)]), Some((4, 1)));
        assert_eq!(cover([(1, 1), (1, 1), (1, 1)]), Some((1, 1)));
        assert_eq!(cover([(2, 2), (2, 1), (2, 1)]), Some((1, 2)));
        assert_eq!(cover([(2, 2), (1, 1), (2, 1)]), None);
        assert_eq!(cover([(3, 1), (2, 1), (2, 1)]), None);
        assert_eq!(cover([(1, 1), (2, 1), (2, 1)]), None);
    }
}
