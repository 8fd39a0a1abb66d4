//! What is found out of the values of a picture before levels are spread over them.

use equalize::{Layout, NARROW};

use super::form::Form;
use super::kind::{Value, with_values};
use super::mapping::Extremes;
use crate::Range;

/// About how many pixels are looked at for how their values are spread.
const LOOKED_AT: usize = 1 << 14;

/// Which part of the values at either end is few of them, but at least one.
const FEW: usize = 1000;

/// The fewest values of which a few can be told from the others.
const FEWEST: usize = 64;

/// The least and the greatest value, and some of all values.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) extremes: Extremes,
    some: Vec<f64>,
}

/// How many pixels there are for each that is looked at; none is if it makes no difference to the levels how values are spread.
pub(super) fn step(form: &Form, layout: &Layout) -> Option<usize> {
    let may_lose_levels = form.kind.is_float() || form.kind.bytes() > 2;
    // An odd one meets other columns in each row.
    may_lose_levels.then(|| (layout.pixels() as usize / LOOKED_AT) | 1)
}

impl Survey {
    /// Returns that of some rows, of which every pixel at so many steps is looked at.
    pub(super) fn of_rows(form: &Form, rows: &[u8], step: Option<usize>) -> Self {
        with_values!(form.kind, survey(form, rows, step))
    }

    /// Adds that of other rows.
    pub(super) fn join(&mut self, other: Self) {
        self.extremes.join(other.extremes);
        self.some.extend(other.some);
    }

    /// Returns the range of all values but a few at either end, if that is narrow in the range of all.
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
    let mut survey = Survey::default();
    for pixel in rows.chunks_exact(form.pixel_bytes()) {
        for sample in form.colours_of::<V>(pixel).filter(|sample| form.counts(*sample)) {
            survey.extremes.add(sample);
        }
    }
    if let Some(step) = step {
        let pixels = rows.chunks_exact(form.pixel_bytes()).step_by(step);
        let values = pixels.flat_map(|pixel| form.colours_of::<V>(pixel));
        survey.some.extend(values.filter(|sample| form.counts(*sample)));
    }
    survey
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
