//! Smaller versions of a picture, with pixels that are the means of boxes of its pixels.

use super::Kind;
use super::average::Average;
use super::kind::{Value, with_values};
use crate::samples::size::Size;
use crate::samples::swap_bytes;

/// The properties of a picture's samples that means are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixels {
    pub(crate) kind: Kind,
    /// The number of a pixel's samples.
    pub(crate) samples: usize,
    /// The number of these that are colours, the first ones.
    pub(crate) colours: usize,
    /// The number of the alpha sample.
    pub(crate) alpha: Option<usize>,
    /// The no-data value.
    pub(crate) no_data: Option<f64>,
    /// The highest value that samples with data may get instead of that.
    pub(crate) top: f64,
    /// Whether they are labels, which have no mean: the first pixel of a box stands for all.
    pub(crate) are_labels: bool,
    /// Whether each sample is of a picture by itself, in which it alone may be missing.
    pub(crate) are_pictures: bool,
}

/// The cut of a picture's width or height into those of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    from: u32,
    to: u32,
    /// The pixels of a box, if they are a whole number.
    ///
    /// The last box may have fewer, or there may be less than a box after it, which is left out.
    factor: Option<u32>,
}

impl Cut {
    /// Returns the cut of a picture, across and down, into the boxes of a smaller one.
    ///
    /// The smaller picture is no larger in any direction.
    pub(crate) fn of(from: Size, to: Size) -> [Self; 2] {
        const LARGEST: u32 = 1 << 10;
        let fits = |from: u32, to: u32, factor: u32| to == from / factor || to == from.div_ceil(factor);
        let factor = (1..=LARGEST)
            .find(|&factor| fits(from.width, to.width, factor) && fits(from.height, to.height, factor));
        [Self { from: from.width, to: to.width, factor }, Self { from: from.height, to: to.height, factor }]
    }

    /// Returns the first pixel of a box.
    fn start(self, number: u32) -> u32 {
        let number = u64::from(number);
        let start = match self.factor {
            Some(factor) => number * u64::from(factor),
            None => number * u64::from(self.from) / u64::from(self.to),
        };
        start.min(self.from.into()) as u32
    }

    /// Returns the pixel after a box.
    fn end(self, number: u32) -> u32 {
        self.start(number + 1)
    }

    /// Returns the number of the box that begins with a pixel, if one is known to do so.
    pub(crate) fn beginning_at(self, at: u32) -> Option<u32> {
        self.factor.filter(|factor| at.is_multiple_of(*factor)).map(|factor| at / factor)
    }

    /// Returns whether no box goes on beyond a pixel.
    pub(crate) fn ends_before(self, at: u32) -> bool {
        at >= self.from || self.beginning_at(at).is_some()
    }
}

/// Makes the rows of a smaller picture of those of a larger one, from top to bottom.
pub(crate) struct Boxes {
    rows: Cut,
    /// The next row of the larger picture, and the one of the smaller picture that it belongs to.
    next: u32,
    number: u32,
    sums: Box<dyn Sums>,
}

impl Boxes {
    /// Returns the boxes of the smaller picture from its row `number` on.
    pub(crate) fn new(pixels: Pixels, [columns, rows]: [Cut; 2], number: u32) -> Self {
        fn of<V: Average>(pixels: Pixels, columns: Cut) -> Box<dyn Sums> {
            Box::new(SumsOf::<V>::new(pixels, columns))
        }
        let sums = with_values!(pixels.kind, of(pixels, columns));
        Self { rows, next: rows.start(number), number, sums }
    }

    /// Adds the next row of samples, little-endian.
    ///
    /// Appends the row that it completes, if any, to `made`.
    pub(crate) fn add(&mut self, row: &[u8], made: &mut Vec<u8>) {
        self.next += 1;
        if self.number >= self.rows.to {
            return;
        }
        self.sums.add(row);
        if self.next == self.rows.end(self.number) {
            self.sums.take_means(made);
            self.number += 1;
        }
    }

    /// Returns the bytes of heap for making a picture of this width, of so many samples a pixel.
    pub(crate) fn heap_bytes(width: u32, samples: u64) -> u64 {
        // Sums, counts, the first pixels, and means.
        u64::from(width) * samples * 32
    }
}

/// The sums of a row of boxes.
trait Sums: Send {
    /// Adds a row of samples, little-endian.
    fn add(&mut self, row: &[u8]);

    /// Appends the means to `made`, and begins another row of boxes.
    fn take_means(&mut self, made: &mut Vec<u8>);
}

struct SumsOf<V: Average> {
    pixels: Pixels,
    columns: Cut,
    /// Whether every sample counts.
    all_count: bool,
    /// The value that samples with data get instead of the no-data value.
    instead: Option<V>,
    /// The rows that have been added.
    rows: u32,
    sums: Vec<V::Sum>,
    /// The number of samples of each kind that count, by box, unless all do.
    counts: Vec<u64>,
    /// The first pixel of each box, unless all count.
    firsts: Vec<V>,
    /// The row that is added, if its samples do not lie in memory as such.
    row: Vec<V>,
    means: Vec<V>,
}

impl<V: Average> SumsOf<V> {
    fn new(pixels: Pixels, columns: Cut) -> Self {
        let Pixels { kind, samples, alpha, no_data, top, are_labels, .. } = pixels;
        let all_count = alpha.is_none() && no_data.is_none() && !kind.is_float() && !are_labels;
        let (boxes, of_some) = (columns.to as usize, if all_count { 0 } else { columns.to as usize });
        Self {
            pixels,
            columns,
            all_count,
            instead: no_data.map(|none| next_to(none, top, kind)),
            rows: 0,
            sums: vec![V::Sum::default(); boxes * samples],
            counts: vec![0; of_some * samples],
            firsts: Vec::with_capacity(of_some * samples),
            row: Vec::new(),
            means: Vec::with_capacity(boxes * samples),
        }
    }

    /// Returns whether a sample has no value.
    fn is_none(&self, sample: &V) -> bool {
        !sample.value().is_finite() || Some(sample.value()) == self.pixels.no_data
    }

    /// Returns whether a pixel has no value.
    fn is_missing(&self, pixel: &[V]) -> bool {
        let mut colours = pixel[..self.pixels.colours].iter();
        match self.pixels.kind {
            Kind::Unsigned8 | Kind::Unsigned16 => colours.all(|sample| self.is_none(sample)),
            _ => colours.any(|sample| self.is_none(sample)),
        }
    }

    /// Returns whether a pixel counts, except for its alpha.
    fn is_counted(&self, pixel: &[V]) -> bool {
        let is_opaque = self.pixels.alpha.is_none_or(|alpha| pixel[alpha].value() != 0.0);
        is_opaque && !self.is_missing(pixel)
    }

    /// Adds a row with pixels that may not count.
    ///
    /// Pixels without a value do not count, nor do transparent ones, except for their alpha.
    fn add_counted(&mut self, row: &[V]) {
        let Pixels { samples, alpha, are_labels, are_pictures, .. } = self.pixels;
        if self.rows == 0 {
            for number in 0..self.columns.to {
                let first = self.columns.start(number) as usize * samples;
                self.firsts.extend_from_slice(&row[first..][..samples]);
            }
        }
        if are_labels {
            return;
        }
        for number in 0..self.columns.to {
            let pixels = self.columns.start(number) as usize..self.columns.end(number) as usize;
            for pixel in row[pixels.start * samples..pixels.end * samples].chunks_exact(samples) {
                let is_counted = !are_pictures && self.is_counted(pixel);
                for (at, sample) in pixel.iter().enumerate() {
                    let counts = is_counted || are_pictures && !self.is_none(sample);
                    if counts || Some(at) == alpha {
                        self.sums[number as usize * samples + at] += sample.widened();
                    }
                    self.counts[number as usize * samples + at] += u64::from(counts);
                }
            }
        }
    }

    /// Makes the means of boxes with pixels that may not count.
    ///
    /// In a box without a pixel that counts, the first one stands for all, except for its alpha.
    fn make_counted(&mut self) {
        let Pixels { samples, colours, alpha, no_data, are_pictures, .. } = self.pixels;
        for place in 0..self.sums.len() {
            let (number, at) = (place / samples, place % samples);
            let (sum, counted) = (self.sums[place], self.counts[place]);
            let mean = match counted {
                _ if Some(at) == alpha => V::mean(sum, self.area(number as u32)),
                0 => self.firsts[place],
                counted => V::mean(sum, counted),
            };
            let has_data = counted > 0 && (at < colours || are_pictures);
            let instead = self.instead.filter(|_| has_data && Some(mean.value()) == no_data);
            self.means.push(instead.unwrap_or(mean));
        }
    }

    /// Returns the pixels of a box.
    fn area(&self, number: u32) -> u64 {
        u64::from(self.rows) * u64::from(self.columns.end(number) - self.columns.start(number))
    }
}

impl<V: Average> Sums for SumsOf<V> {
    fn add(&mut self, row: &[u8]) {
        let mut copy = std::mem::take(&mut self.row);
        let row = samples_of(row, &mut copy);
        match (self.all_count, self.columns.factor, self.pixels.samples) {
            (false, ..) => self.add_counted(row),
            (true, Some(2), 1) => add_pairs::<V, 1>(row, &mut self.sums),
            (true, Some(2), 3) => add_pairs::<V, 3>(row, &mut self.sums),
            (true, Some(2), 4) => add_pairs::<V, 4>(row, &mut self.sums),
            (true, _, samples) => add_boxes(row, samples, self.columns, &mut self.sums),
        }
        self.rows += 1;
        self.row = copy;
    }

    fn take_means(&mut self, made: &mut Vec<u8>) {
        if self.pixels.are_labels {
            self.means.append(&mut self.firsts);
        } else if self.all_count {
            for (number, sums) in self.sums.chunks_exact(self.pixels.samples).enumerate() {
                let count = self.area(number as u32);
                self.means.extend(sums.iter().map(|&sum| V::mean(sum, count)));
            }
        } else {
            self.make_counted();
        }
        let start = made.len();
        made.extend_from_slice(bytemuck::cast_slice(&self.means));
        if cfg!(target_endian = "big") {
            swap_bytes(&mut made[start..], size_of::<V>());
        }
        self.means.clear();
        self.firsts.clear();
        self.sums.fill(V::Sum::default());
        self.counts.fill(0);
        self.rows = 0;
    }
}

/// Returns the value next to the no-data value: the next one up, or down from the top.
fn next_to<V: Value>(none: f64, top: f64, kind: Kind) -> V {
    let step = match kind.is_float() {
        // A little more than the most that rounding removes.
        true => 4.0 * V::ROUNDING.max(f64::EPSILON) * none.abs().max(1.0),
        false => 1.0,
    };
    let above = V::nearest(none + step);
    if none + step <= top && above.value() != none { above } else { V::nearest(none - step) }
}

/// Returns little-endian samples, which go to `copy` if they do not lie as such.
fn samples_of<'r, V: Value>(row: &'r [u8], copy: &'r mut Vec<V>) -> &'r [V] {
    let ready = bytemuck::try_cast_slice(row).ok().filter(|_| cfg!(target_endian = "little"));
    if let Some(samples) = ready {
        return samples;
    }
    copy.clear();
    copy.extend(row.chunks_exact(size_of::<V>()).map(|sample| bytemuck::pod_read_unaligned::<V>(sample)));
    if cfg!(target_endian = "big") {
        swap_bytes(bytemuck::cast_slice_mut(copy), size_of::<V>());
    }
    copy
}

/// Adds the pixels of a row to the sums of boxes that are two pixels wide.
fn add_pairs<V: Average, const SAMPLES: usize>(row: &[V], sums: &mut [V::Sum]) {
    let (pairs, last) = row.split_at(row.len() / (2 * SAMPLES) * (2 * SAMPLES));
    let mut boxes = sums.chunks_exact_mut(SAMPLES);
    for (pair, sums) in pairs.chunks_exact(2 * SAMPLES).zip(&mut boxes) {
        for at in 0..SAMPLES {
            sums[at] += pair[at].widened();
            sums[at] += pair[SAMPLES + at].widened();
        }
    }
    for (sample, sum) in last.iter().zip(boxes.flatten()) {
        *sum += sample.widened();
    }
}

/// Adds the pixels of a row to the sums of boxes of any width.
fn add_boxes<V: Average>(row: &[V], samples: usize, columns: Cut, sums: &mut [V::Sum]) {
    for (number, sums) in sums.chunks_exact_mut(samples).enumerate() {
        let pixels = columns.start(number as u32) as usize..columns.end(number as u32) as usize;
        for pixel in row[pixels.start * samples..pixels.end * samples].chunks_exact(samples) {
            sums.iter_mut().zip(pixel).for_each(|(sum, sample)| *sum += sample.widened());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;

    const GRAY: Pixels = Pixels {
        kind: Kind::Unsigned8,
        samples: 1,
        colours: 1,
        alpha: None,
        no_data: None,
        top: 255.0,
        are_labels: false,
        are_pictures: false,
    };

    /// Returns the smaller version of a picture with rows of so many bytes.
    fn smaller(pixels: Pixels, from: (u32, u32), to: (u32, u32), samples: &[u8]) -> Vec<u8> {
        let (mut boxes, mut made) = (Boxes::new(pixels, Cut::of(from.into(), to.into()), 0), Vec::new());
        samples.chunks_exact(samples.len() / from.1 as usize).for_each(|row| boxes.add(row, &mut made));
        made
    }

    #[test]
    fn a_box_may_be_the_whole_of_a_large_picture() {
        let white = vec![255; 5000 * 5000];
        assert_eq!(smaller(GRAY, (5000, 5000), (1, 1), &white), [255]);
        assert_eq!(smaller(Pixels { no_data: Some(0.0), ..GRAY }, (5000, 5000), (1, 1), &white), [255]);
    }

    fn bytes<V: Value>(samples: &[V]) -> Vec<u8> {
        bytemuck::cast_slice(samples).to_vec()
    }

    #[test]
    fn a_side_is_cut_by_a_whole_factor_if_there_is_one() {
        let factor = |from: (u32, u32), to: (u32, u32)| Cut::of(from.into(), to.into())[0].factor;
        for (from, to, expected) in [
            ((100, 60), (50, 30), Some(2)),
            ((101, 61), (51, 31), Some(2)),
            ((101, 61), (50, 30), Some(2)),
            ((101, 60), (50, 30), Some(2)),
            ((100, 1), (25, 1), Some(4)),
            ((100, 60), (33, 20), Some(3)),
            ((100, 60), (75, 45), None),
            ((100, 60), (50, 20), None),
        ] {
            assert_eq!(factor(from, to), expected, "{from:?} {to:?}");
        }
        let [columns, _] = Cut::of((10, 10).into(), (7, 7).into());
        let starts: Vec<u32> = (0..=7).map(|number| columns.start(number)).collect();
        assert_eq!(starts, [0, 1, 2, 4, 5, 7, 8, 10]);
    }

    #[test]
    fn means_are_rounded_halves_up_of_what_there_is() {
        let samples = [1, 2, 10, 2, 1, 11, 7, 8, 250];
        assert_eq!(smaller(GRAY, (3, 3), (2, 2), &samples), [2, 11, 8, 250]);
        assert_eq!(smaller(GRAY, (3, 3), (1, 1), &samples), [2]);
        assert_eq!(smaller(GRAY, (3, 3), (3, 3), &samples), samples);
        let labels = Pixels { are_labels: true, ..GRAY };
        assert_eq!(smaller(labels, (3, 3), (2, 2), &samples), [1, 10, 7, 250]);
        let signed = Pixels { kind: Kind::Signed16, ..GRAY };
        assert_eq!(smaller(signed, (2, 2), (1, 1), &bytes(&[-3_i16, -2, -2, -3])), bytes(&[-2_i16]));
        let long = Pixels { kind: Kind::Unsigned32, ..GRAY };
        let most = bytes(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX - 1]);
        assert_eq!(smaller(long, (2, 2), (1, 1), &most), bytes(&[u32::MAX]));
    }

    #[test]
    fn any_number_of_samples_and_any_factor_is_the_mean_of_each_box() {
        for (samples, factor) in [(1, 2), (3, 2), (4, 2), (2, 2), (1, 3), (3, 4)] {
            let (width, height) = (23_u32, 10_u32);
            let data = noise((width * height) as usize * samples, 3);
            let to = (width.div_ceil(factor), height.div_ceil(factor));
            let made = smaller(Pixels { samples, colours: samples, ..GRAY }, (width, height), to, &data);
            let mean = |at: usize| {
                let (pixel, channel) = ((at / samples) as u32, at % samples);
                let (left, top) = (pixel % to.0 * factor, pixel / to.0 * factor);
                let rows = top..(top + factor).min(height);
                let of_box = rows.flat_map(|y| (left..(left + factor).min(width)).map(move |x| (x, y)));
                let values: Vec<f64> = of_box
                    .map(|(x, y)| f64::from(data[(y * width + x) as usize * samples + channel]))
                    .collect();
                (values.iter().sum::<f64>() / values.len() as f64 + 0.5).floor() as u8
            };
            let expected: Vec<u8> = (0..made.len()).map(mean).collect();
            assert_eq!(made.len(), (to.0 * to.1) as usize * samples);
            assert!(made == expected, "{samples} samples by {factor}");
        }
    }

    #[test]
    fn what_is_missing_does_not_count_and_nothing_else_becomes_it() {
        let none = Pixels { no_data: Some(4.0), ..GRAY };
        let row = |samples: [u8; 8]| smaller(none, (4, 2), (2, 1), &samples);
        assert_eq!(row([4, 4, 4, 10, 4, 4, 20, 4]), [4, 15]);
        assert_eq!(row([3, 5, 3, 3, 3, 5, 3, 3]), [5, 3], "4 would be none");
        let top = Pixels { no_data: Some(255.0), ..GRAY };
        assert_eq!(smaller(top, (2, 1), (1, 1), &[254, 255]), [254]);
        let rgb = Pixels { samples: 3, colours: 3, ..none };
        assert_eq!(smaller(rgb, (2, 1), (1, 1), &[4, 4, 4, 4, 8, 12]), [5, 8, 12]);
        let floats = Pixels { kind: Kind::Float32, no_data: Some(-1.0), top: f64::MAX, ..GRAY };
        let of_floats = |samples: [f32; 4]| smaller(floats, (2, 2), (1, 1), &bytes(&samples));
        assert_eq!(of_floats([f32::NAN, 1.0, 2.0, -1.0]), bytes(&[1.5_f32]));
        assert_eq!(of_floats([-1.0; 4]), bytes(&[-1.0_f32]));
        assert_ne!(of_floats([-2.0, 0.0, -2.0, 0.0]), bytes(&[-1.0_f32]));
        let nan = of_floats([f32::NAN, f32::INFINITY, f32::NAN, -1.0]);
        assert!(bytemuck::pod_read_unaligned::<f32>(&nan).is_nan());
    }

    #[test]
    fn what_is_transparent_counts_for_alpha_alone() {
        let alpha = Pixels { samples: 2, alpha: Some(1), ..GRAY };
        assert_eq!(smaller(alpha, (2, 2), (1, 1), &[9, 0, 100, 200, 9, 0, 50, 100]), [75, 75]);
        assert_eq!(smaller(alpha, (2, 1), (1, 1), &[9, 0, 7, 0]), [9, 0]);
    }
}
