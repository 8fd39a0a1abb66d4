//! Bands of rows, from top to bottom, of pictures that are too large to be in memory as a whole.

use crate::samples::size::Size;

/// The bands of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BandRows {
    /// The rows of the picture.
    height: u32,
    /// The rows of every band but the last.
    each: u32,
    /// The bytes of the whole picture, for bands of another size.
    bytes: u64,
    unit: u32,
    least: u32,
}

/// The bands that share the allowed bytes, because several are under way at once.
const SHARE: u64 = 4;

/// The rule that cuts pictures into bands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// The bytes of pixels above which a picture is cut.
    pub(crate) most: u64,
    /// Returns the least rows of each band but the last, by the columns of the picture.
    pub(crate) least_rows: fn(u32) -> u32,
}

impl Cut {
    /// Returns the bands of a picture of `bytes` bytes, if that is more than a picture may have.
    ///
    /// No band divides `unit` rows that stay together.
    pub(crate) fn rows(self, size: Size, bytes: u64, unit: u32) -> Option<BandRows> {
        BandRows::of(size.height, bytes, unit, (self.least_rows)(size.width), self.most)
    }
}

impl BandRows {
    /// Returns the bands of `height` rows of `bytes` bytes in all, if that is more than `most`.
    ///
    /// No band divides `unit` rows that stay together, and all but the last have at least `least`.
    pub(crate) fn of(height: u32, bytes: u64, unit: u32, least: u32, most: u64) -> Option<Self> {
        let (row, together) = ((bytes / u64::from(height)).max(1), u64::from(unit));
        let units = (most / SHARE / row / together).max(u64::from(least).div_ceil(together));
        let each = units.max(1).saturating_mul(together);
        let each = u32::try_from(each).ok().filter(|&each| bytes > most && each < height)?;
        Some(Self { height, each, bytes, unit, least })
    }

    /// Returns the bands of the same picture for another number of bytes that are not too many.
    pub(crate) fn within(&self, most: u64) -> Option<Self> {
        Self::of(self.height, self.bytes, self.unit, self.least, most)
    }

    /// Returns the rows of the picture.
    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    /// Returns the number of bands, two or more.
    pub(crate) fn count(&self) -> usize {
        self.height.div_ceil(self.each) as usize
    }

    /// Returns the number of the first row of a band.
    pub(crate) fn first_row(&self, index: usize) -> u32 {
        index as u32 * self.each
    }

    /// Returns how many rows a band has.
    pub(crate) fn rows(&self, index: usize) -> u32 {
        self.each.min(self.height - self.first_row(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_have_all_rows_and_divide_none_that_stay_together() {
        assert!(BandRows::of(100, 1000, 1, 1, 1000).is_none(), "it is not too large");
        assert!(BandRows::of(100, 1000, 100, 1, 10).is_none(), "all rows stay together");
        assert!(BandRows::of(100, 1000, 1, 100, 10).is_none(), "fewer rows are too few");
        let bands = BandRows::of(100, 1000, 16, 1, 800).unwrap();
        let rows: Vec<_> =
            (0..bands.count()).map(|index| (bands.first_row(index), bands.rows(index))).collect();
        assert_eq!(rows, [(0, 16), (16, 16), (32, 16), (48, 16), (64, 16), (80, 16), (96, 4)]);
        assert_eq!(BandRows::of(100, 1000, 1, 1, 1).unwrap().count(), 100);
        assert_eq!(BandRows::of(100, 1000, 16, 33, 1).unwrap().rows(0), 48);
        assert!(bands.within(1000).is_none());
        assert_eq!(bands.within(1).unwrap().count(), 7, "what stays together still does");
    }
}
