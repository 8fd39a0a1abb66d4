//! A survey of the values of a picture before levels are spread over them.

use equalize::{Layout, NARROW};

use super::form::Form;
use super::kind::{Value, with_values};
use super::mapping::Extremes;
use crate::Range;
use crate::samples::fill_value::FillValue;

/// About the number of pixels that are sampled for the distribution of their values.
const LOOKED_AT: usize = 1 << 14;

/// The part of the values at either end that are few, but at least one: one of so many.
const FEW: usize = 1000;

/// The fewest values among which a few can be separated from the others.
const FEWEST: usize = 64;

/// The range of nearly all values of a picture, whose own range the others stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InnerRange {
    pub(crate) range: Range,
    /// The value or values of the others, if these are not just a few.
    pub(crate) fill: Option<FillValue>,
}

/// The least and the greatest value, and some of all values.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) extremes: Extremes,
    some: Vec<f64>,
}

/// Returns the step between sampled pixels; `None` if their values make no difference to levels.
pub(super) fn step(form: &Form, layout: &Layout) -> Option<usize> {
    let may_lose_levels = form.kind.is_float() || form.kind.bytes() > 2;
    // An odd one meets other columns in each row.
    may_lose_levels.then(|| (layout.pixels() as usize / LOOKED_AT) | 1)
}

impl Survey {
    /// Returns that of some rows, sampled at every `step`-th pixel.
    ///
    /// Those of the value `without` are left out.
    pub(super) fn of_rows(form: &Form, rows: &[u8], step: Option<usize>, without: Option<f64>) -> Self {
        with_values!(form.kind, survey(form, rows, step, without))
    }

    /// Adds that of other rows.
    pub(super) fn join(&mut self, other: Self) {
        self.extremes.join(other.extremes);
        self.some.extend(other.some);
    }

    /// Returns the extreme value that nearly all pixels have, if few others were sampled.
    pub(super) fn common_value(&self) -> Option<f64> {
        let Extremes { least, greatest } = self.extremes;
        let has_others = self.some.len() >= FEWEST && least < greatest;
        let are_rare =
            |end: &f64| self.some.iter().filter(|value| *value != end).take(FEWEST).count() < FEWEST;
        [least, greatest].into_iter().find(are_rare).filter(|_| has_others)
    }

    /// Returns the range of all values but the `fill` value, by the extremes of these `others`.
    pub(super) fn range_without(&self, fill: f64, others: Extremes) -> Option<InnerRange> {
        self.narrow(others, Some(FillValue::of(fill)))
    }

    /// Returns the range of nearly all values, if it is narrow in the whole range.
    ///
    /// They are all but a few at either end, and but the least value, the greatest or both: these
    /// may stand for no data without being called so.
    pub(super) fn inner_range(mut self) -> Option<InnerRange> {
        let mut some = std::mem::take(&mut self.some);
        let few = (some.len() / FEW).max(1);
        let of_all = between_few(&mut some).and_then(|ends| self.narrow(ends, None));
        let Extremes { least, greatest } = self.extremes;
        let fills = [
            (FillValue::of(least), Some(least), None),
            (FillValue::of(greatest), Some(greatest), None),
            (FillValue::SEVERAL, Some(least), Some(greatest)),
        ];
        let of_fills = fills.into_iter().map(|(fill, one, other)| {
            let others = some.iter().copied().filter(|value| ![one, other].contains(&Some(*value)));
            let mut others: Vec<_> = others.collect();
            let are_many = some.len() - others.len() > few;
            let ends = if are_many { between_few(&mut others) } else { None };
            self.narrow(ends?, Some(fill))
        });
        let width = |inner: &InnerRange| inner.range.high - inner.range.low;
        let is_narrower =
            |one: &InnerRange, other: &InnerRange| width(one) * f64::from(NARROW) < width(other);
        let all = std::iter::once(of_all).chain(of_fills).flatten();
        all.reduce(|found, next| if is_narrower(&next, &found) { next } else { found })
    }

    /// Returns a range if it is narrow in the whole range.
    fn narrow(&self, ends: Extremes, fill: Option<FillValue>) -> Option<InnerRange> {
        let is_narrow = ends.width() * f64::from(NARROW) < self.extremes.width();
        let range = Range::new(ends.least, ends.greatest).filter(|_| is_narrow).and_then(Range::rounded)?;
        Some(InnerRange { range, fill })
    }
}

/// Returns the ends of the range of all values but a few at either end.
fn between_few(values: &mut [f64]) -> Option<Extremes> {
    let (count, few) = (values.len(), (values.len() / FEW).max(1));
    if count < FEWEST {
        return None;
    }
    let least = *values.select_nth_unstable_by(few, f64::total_cmp).1;
    let greatest = *values.select_nth_unstable_by(count - 1 - few, f64::total_cmp).1;
    Some(Extremes { least, greatest })
}

fn survey<V: Value>(form: &Form, rows: &[u8], step: Option<usize>, without: Option<f64>) -> Survey {
    let mut survey = Survey { extremes: extremes::<V>(form, rows, without), ..Survey::default() };
    if let Some(step) = step {
        let pixels = rows.chunks_exact(form.pixel_bytes()).step_by(step);
        let values = pixels.flat_map(|pixel| form.colours_of::<V>(pixel));
        survey.some.extend(values.filter(|sample| form.counts(*sample)));
    }
    survey
}

fn extremes<V: Value>(form: &Form, rows: &[u8], without: Option<f64>) -> Extremes {
    if without.is_none() && !form.may_mask() && form.pixel_bytes() == size_of::<V>() {
        return extremes_of_all::<V>(rows);
    }
    let mut extremes = Extremes::default();
    for pixel in rows.chunks_exact(form.pixel_bytes()) {
        let counts = |sample: &f64| form.counts(*sample) && Some(*sample) != without;
        for sample in form.colours_of::<V>(pixel).filter(counts) {
            extremes.add(sample);
        }
    }
    extremes
}

/// Returns the least and the greatest of values that all count.
fn extremes_of_all<V: Value>(samples: &[u8]) -> Extremes {
    // So many at a time do not wait for each other, and are a vector.
    const AT_ONCE: usize = 16;
    let mut lanes = [Extremes::default(); AT_ONCE];
    let mut groups = samples.chunks_exact(AT_ONCE * size_of::<V>());
    for group in &mut groups {
        for (lane, sample) in lanes.iter_mut().zip(group.chunks_exact(size_of::<V>())) {
            lane.add(bytemuck::pod_read_unaligned::<V>(sample).value());
        }
    }
    let mut all = Extremes::default();
    for sample in groups.remainder().chunks_exact(size_of::<V>()) {
        all.add(bytemuck::pod_read_unaligned::<V>(sample).value());
    }
    lanes.into_iter().for_each(|lane| all.join(lane));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Option<Range> {
        inner(values).map(|inner| inner.range)
    }

    fn inner(values: impl IntoIterator<Item = f64>) -> Option<InnerRange> {
        surveyed(values).inner_range()
    }

    fn surveyed(values: impl IntoIterator<Item = f64>) -> Survey {
        let mut survey = Survey::default();
        for value in values {
            survey.extremes.add(value);
            survey.some.push(value);
        }
        survey
    }

    #[test]
    fn the_extremes_of_samples_that_all_count_are_found_wherever_they_are() {
        for (place, other) in [(0, 40), (15, 16), (33, 2), (48, 49)] {
            let mut samples = [100_i16; 50];
            (samples[place], samples[other]) = (-32_768, 32_767);
            let found = extremes_of_all::<i16>(bytemuck::cast_slice(&samples));
            assert_eq!(found.width(), 65_535.0);
        }
        assert!(extremes_of_all::<u8>(&[]).width() < 0.0);
    }

    #[test]
    fn a_few_values_that_stretch_the_range_are_left_out_of_it() {
        let even = || (0..2000).map(|n| f64::from(n) / 2000.0);
        assert_eq!(of(even()), None);
        assert_eq!(of(even().chain([5.0])), None, "a sixth is enough");
        let stretched = of(even().chain([1e9, -1e6])).unwrap();
        assert_eq!(stretched.to_string(), "0..0.999", "of 2002 values, two at either end");
        let others = (0..5).map(|n| 1e9 + f64::from(n));
        assert_eq!(of(even().chain(others)), None, "these are not so few");
        assert_eq!(of([0.0; 2000].into_iter().chain([7.0])), None, "the others have one value");
        assert_eq!(of((0..62).map(f64::from).chain([1e9])), None, "nothing is known of so few");
        assert_eq!(of((0..63).map(f64::from).chain([1e9])).unwrap().to_string(), "1..62");
    }

    #[test]
    fn a_fill_value_that_stretches_the_range_is_found_whatever_its_share() {
        const LEAST: f64 = f32::MIN as f64;
        let even = || (0..2000).map(|n| 100.0 + f64::from(n) / 100.0);
        for count in [3, 400, 2000, 50_000] {
            let found = inner(even().chain(vec![LEAST; count])).unwrap();
            assert_eq!(found.fill, Some(FillValue::of(LEAST)), "{count}");
            assert_eq!(found.range.to_string(), "100.0..120.0".parse::<Range>().unwrap().to_string());
            let found = inner(even().chain(vec![1e4; count])).unwrap();
            assert_eq!(found.fill, Some(FillValue::of(1e4)), "{count}");
            let found = inner(even().chain(vec![LEAST; count]).chain(vec![1e6; count])).unwrap();
            assert_eq!(found.fill, Some(FillValue::SEVERAL), "{count}");
            // A few hot pixels next to it.
            let found = inner(even().chain(vec![LEAST; count]).chain([3e4])).unwrap();
            assert_eq!(found.fill, Some(FillValue::of(LEAST)), "{count}");
            // Zeros below values that begin near them.
            assert_eq!(inner((1..2000).map(f64::from).chain(vec![0.0; count])), None, "{count}");
            assert_eq!(inner(vec![1.0; 2000].into_iter().chain(vec![0.0; count])), None, "{count}");
        }
    }

    #[test]
    fn a_value_that_nearly_all_pixels_have_is_found_for_another_look_at_the_others() {
        let few = || (0..20).map(|n| 100.0 + f64::from(n));
        let survey = surveyed(few().chain(vec![-9999.0; 16_000]));
        assert_eq!(survey.common_value(), Some(-9999.0));
        let mut others = Extremes::default();
        few().for_each(|value| others.add(value));
        let found = survey.range_without(-9999.0, others).unwrap();
        assert_eq!(
            (found.range.to_string().as_str(), found.fill),
            ("100..119", Some(FillValue::of(-9999.0)))
        );
        assert_eq!(survey.range_without(-9999.0, Extremes::default()), None);
        assert_eq!(surveyed(vec![5.0; 16_000]).common_value(), None, "there are no others");
        assert_eq!(surveyed(few()).common_value(), None, "nothing is known of so few");
        assert_eq!(surveyed((0..9000).map(f64::from)).common_value(), None);
    }
}
