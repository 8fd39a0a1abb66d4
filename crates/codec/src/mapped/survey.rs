//! A survey of the values of a picture before levels are spread over them.

use equalize::{Layout, NARROW};

use super::form::Form;
use super::kind::{Value, with_values};
use super::mapping::Extremes;
use crate::Range;

/// About the number of pixels that are sampled for the distribution of their values.
const LOOKED_AT: usize = 1 << 14;

/// The part of the values at either end that are few, but at least one: one of so many.
const FEW: usize = 1000;

/// The fewest values among which a few can be separated from the others.
const FEWEST: usize = 64;

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
    pub(super) fn of_rows(form: &Form, rows: &[u8], step: Option<usize>) -> Self {
        with_values!(form.kind, survey(form, rows, step))
    }

    /// Adds that of other rows.
    pub(super) fn join(&mut self, other: Self) {
        self.extremes.join(other.extremes);
        self.some.extend(other.some);
    }

    /// Returns the range of all values but a few at either end, if it is narrow in the whole range.
    pub(super) fn inner_range(mut self) -> Option<Range> {
        let (count, few) = (self.some.len(), (self.some.len() / FEW).max(1));
        if count < FEWEST {
            return None;
        }
        let low = *self.some.select_nth_unstable_by(few, f64::total_cmp).1;
        let high = *self.some.select_nth_unstable_by(count - 1 - few, f64::total_cmp).1;
        let is_narrow = (high - low) * f64::from(NARROW) < self.extremes.width();
        Range::new(low, high).filter(|_| is_narrow).and_then(Range::rounded)
    }
}

fn survey<V: Value>(form: &Form, rows: &[u8], step: Option<usize>) -> Survey {
    let mut survey = Survey { extremes: extremes::<V>(form, rows), ..Survey::default() };
    if let Some(step) = step {
        let pixels = rows.chunks_exact(form.pixel_bytes()).step_by(step);
        let values = pixels.flat_map(|pixel| form.colours_of::<V>(pixel));
        survey.some.extend(values.filter(|sample| form.counts(*sample)));
    }
    survey
}

fn extremes<V: Value>(form: &Form, rows: &[u8]) -> Extremes {
    if !form.may_mask() && form.pixel_bytes() == size_of::<V>() {
        return extremes_of_all::<V>(rows);
    }
    let mut extremes = Extremes::default();
    for pixel in rows.chunks_exact(form.pixel_bytes()) {
        for sample in form.colours_of::<V>(pixel).filter(|sample| form.counts(*sample)) {
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
        let mut survey = Survey::default();
        for value in values {
            survey.extremes.add(value);
            survey.some.push(value);
        }
        survey.inner_range()
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
        assert_eq!(of(even().chain([1e9; 5])), None, "these are not so few");
        assert_eq!(of([0.0; 2000].into_iter().chain([7.0])), None, "the others have one value");
        assert_eq!(of((0..62).map(f64::from).chain([1e9])), None, "nothing is known of so few");
        assert_eq!(of((0..63).map(f64::from).chain([1e9])).unwrap().to_string(), "1..62");
    }
}
