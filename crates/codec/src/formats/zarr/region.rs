//! Boxes of samples of an array of any number of axes.

/// A box of samples: its start on each axis, and its length there.
///
/// Its samples lie in C order, the last axis fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: Vec<u64>,
    pub(super) shape: Vec<u64>,
}

impl Region {
    /// Returns the cell with these numbers of a regular grid, as far as it lies in an array.
    pub(super) fn of_cell(numbers: &[u64], cell: &[u64], array: &[u64]) -> Self {
        let start: Vec<_> = numbers.iter().zip(cell).map(|(number, length)| number * length).collect();
        let ends = start.iter().zip(cell).zip(array).map(|((start, length), end)| (start + length).min(*end));
        let shape = ends.zip(&start).map(|(end, start)| end - start).collect();
        Self { start, shape }
    }

    /// Returns the number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Returns its intersection with another.
    pub(super) fn common(&self, other: &Self) -> Self {
        let axes = self.start.iter().zip(&self.shape).zip(other.start.iter().zip(&other.shape));
        let both = axes.map(|((one, length), (two, other))| {
            let start = *one.max(two);
            (start, (one + length).min(two + other).saturating_sub(start))
        });
        let (start, shape) = both.unzip();
        Self { start, shape }
    }

    /// Returns the numbers of the cells of a grid that it touches.
    pub(super) fn cells(&self, cell: &[u64]) -> impl ExactSizeIterator<Item = Vec<u64>> + use<> {
        let first: Vec<_> = self.start.iter().zip(cell).map(|(start, length)| start / length).collect();
        let ends = self.start.iter().zip(&self.shape).zip(cell);
        let ends = ends.map(|((start, shape), length)| (start + shape).div_ceil(*length));
        let counts: Vec<_> = ends.zip(&first).map(|(end, first)| end - first).collect();
        let all = usize::try_from(counts.iter().product::<u64>()).unwrap_or(usize::MAX);
        (0..all).map(move |number| {
            let numbers = numbers_of(number as u64, &counts);
            numbers.into_iter().zip(&first).map(|(number, first)| number + first).collect()
        })
    }

    /// Returns the number of a sample of this box, from 0, by its place in the array.
    fn number_of(&self, place: &[u64]) -> u64 {
        let axes = place.iter().zip(&self.start).zip(&self.shape);
        axes.fold(0, |number, ((place, start), length)| number * length + (place - start))
    }
}

/// Returns the number on each axis of the item with this number in C order.
pub(super) fn numbers_of(mut number: u64, counts: &[u64]) -> Vec<u64> {
    let mut numbers = vec![0; counts.len()];
    for (own, &count) in numbers.iter_mut().zip(counts).rev() {
        (*own, number) = (number % count, number / count);
    }
    numbers
}

/// Returns the numbers of a chunk by its key in the array, whatever form that has.
pub(super) fn numbers_of_key(key: &str) -> Option<Vec<u64>> {
    let numbers = key.strip_prefix("c/").or_else(|| key.strip_prefix("c.")).unwrap_or(key);
    numbers.split(['/', '.']).map(|number| number.parse().ok()).collect()
}

/// Copies the samples in the intersection of two boxes from one buffer to the other.
///
/// They have `bytes` bytes each.
pub(super) fn copy(from: &[u8], source: &Region, to: &mut [u8], target: &Region, bytes: usize) {
    let common = source.common(target);
    let Some((&length, rows)) = common.shape.split_last().filter(|_| common.samples() > 0) else { return };
    let row = length as usize * bytes;
    for number in 0..rows.iter().product() {
        let mut place = numbers_of(number, rows);
        place.push(0);
        place.iter_mut().zip(&common.start).for_each(|(place, start)| *place += start);
        let [at, into] = [source, target].map(|region| region.number_of(&place) as usize * bytes);
        to[into..into + row].copy_from_slice(&from[at..at + row]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: [u64; 3], shape: [u64; 3]) -> Region {
        Region { start: start.to_vec(), shape: shape.to_vec() }
    }

    #[test]
    fn what_two_boxes_have_in_common_is_copied_and_nothing_else() {
        let (source, target) = (region([1, 2, 3], [2, 3, 4]), region([2, 0, 5], [3, 4, 9]));
        let from: Vec<u8> = (1..=24).collect();
        let mut to = vec![0; 3 * 4 * 9];
        copy(&from, &source, &mut to, &target, 1);
        for (number, &found) in (0..).zip(&to) {
            let place = numbers_of(number, &target.shape);
            let [z, y, x] = [0, 1, 2].map(|axis| place[axis] + target.start[axis]);
            let is_in = (1..3).contains(&z) && (2..5).contains(&y) && (3..7).contains(&x);
            let expected = if is_in { 1 + (z - 1) * 12 + (y - 2) * 4 + (x - 3) } else { 0 };
            assert_eq!(u64::from(found), expected, "{place:?}");
        }
    }

    #[test]
    fn cells_end_where_the_array_does() {
        let array = [5, 7, 9];
        let all = region([0; 3], array);
        let cells = all.cells(&[2, 7, 4]);
        assert_eq!(cells.len(), 9);
        let cells = cells.map(|numbers| Region::of_cell(&numbers, &[2, 7, 4], &array));
        assert_eq!(cells.map(|cell| cell.samples()).sum::<u64>(), 5 * 7 * 9);
        assert!(region([3, 0, 5], [1, 1, 3]).cells(&[2, 7, 4]).eq([[1, 0, 1]]));
    }

    #[test]
    fn the_numbers_of_a_chunk_are_known_in_every_form() {
        for key in ["1/0/12", "1.0.12", "c/1/0/12", "c.1.0.12"] {
            assert_eq!(numbers_of_key(key), Some(vec![1, 0, 12]), "{key}");
        }
        for other in [".zarray", "c", "c/", "1/x", "notes.txt", ""] {
            assert_eq!(numbers_of_key(other), None, "{other}");
        }
    }
}
