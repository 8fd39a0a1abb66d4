//! Flags that have an effect on some pictures only, and the remark that they had none.
//!
//! A run may have pictures of several kinds. Only if a flag has an effect on no picture of it, the
//! summary has the remark.

use codec::{Decoded, Format, Target};
use serde::Serialize;

/// A flag, or a value of it, without an effect on a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Unused {
    /// A range of values, where samples are levels.
    #[serde(rename = "unused-range")]
    Range,
    /// A window, where the format has none.
    #[serde(rename = "unused-window")]
    Window,
    /// A number of levels, where samples have no room for more.
    #[serde(rename = "unused-levels")]
    Levels,
    /// Unused low bits of 16-bit samples, where samples are others.
    #[serde(rename = "unused-shift")]
    Shift,
    /// A no-data value that samples cannot have.
    #[serde(rename = "unused-no-data")]
    NoData,
    /// The wish for DICOM segmentations.
    #[serde(rename = "unused-segmentations")]
    Segmentations,
    /// The wish to drop overviews.
    #[serde(rename = "unused-overviews")]
    Overviews,
    /// The quality of a JPEG.
    #[serde(rename = "unused-quality")]
    Quality,
    /// The compression of a PNG.
    #[serde(rename = "unused-png-level")]
    PngLevel,
    /// A common histogram of the pages of a file.
    #[serde(rename = "unused-together")]
    Pages,
    /// A common histogram of the files of a DICOM series, or else of the pages of a file.
    #[serde(rename = "unused-series")]
    Series,
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) unused: Unused,
    pub(crate) flag: &'static str,
    /// The values that the row is for; if empty, all but the default and "auto".
    pub(crate) values: &'static [&'static str],
    /// The pictures that the flag has no effect on.
    on: &'static str,
    /// Returns whether it has an effect on a picture in a file with so many.
    has_effect: fn(&Decoded, &Target, usize) -> bool,
}

/// All of them, in their order.
pub(crate) const TABLE: [Row; 11] = [
    Row {
        unused: Unused::Range,
        flag: "range",
        values: &[],
        on: "samples of 8 or 16 bits",
        // Some DICOM files of a study have values, and others not.
        has_effect: |picture, _, _| picture.heeds_range() || picture.format == Format::Dicom,
    },
    Row {
        unused: Unused::Window,
        flag: "window",
        values: &[],
        on: "formats other than DICOM",
        has_effect: |picture, _, _| picture.format == Format::Dicom,
    },
    Row {
        unused: Unused::Levels,
        flag: "levels",
        values: &[],
        on: "samples with no more levels than that, floats and integers above 16 bits",
        has_effect: |picture, _, _| picture.has_fewer_levels(),
    },
    Row {
        unused: Unused::Shift,
        flag: "shift",
        values: &[],
        on: "samples other than integers of 16 bits",
        has_effect: |picture, _, _| picture.has_fewer_levels(),
    },
    Row {
        unused: Unused::NoData,
        flag: "no-data",
        values: &[],
        on: "samples that cannot have this value",
        has_effect: |picture, _, _| picture.has_no_data_value(),
    },
    Row {
        unused: Unused::Segmentations,
        flag: "segmentations",
        values: &[],
        on: "files other than DICOM segmentations",
        has_effect: |picture, _, _| picture.is_segmentation(),
    },
    Row {
        unused: Unused::Overviews,
        flag: "overviews",
        values: &[],
        on: "files without overviews",
        has_effect: |picture, _, _| picture.had_overviews(),
    },
    Row {
        unused: Unused::Quality,
        flag: "quality",
        values: &[],
        on: "outputs other than JPEG",
        has_effect: |picture, target, _| target.format_for(picture.format) == Format::Jpeg,
    },
    Row {
        unused: Unused::PngLevel,
        flag: "png-level",
        values: &[],
        on: "outputs other than PNG",
        has_effect: |picture, target, _| target.format_for(picture.format) == Format::Png,
    },
    Row {
        unused: Unused::Pages,
        flag: "together",
        values: &["file", "channel"],
        on: "files of one page",
        has_effect: |picture, _, pictures| pictures > 1 || picture.frames() > 1,
    },
    Row {
        unused: Unused::Series,
        flag: "together",
        values: &["series"],
        on: "files of one page in formats other than DICOM",
        has_effect: |picture, _, pictures| {
            picture.format == Format::Dicom || pictures > 1 || picture.frames() > 1
        },
    },
];

impl Unused {
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Returns whether the flag has an effect on a picture in a file with so many.
    pub(crate) fn has_effect(self, picture: &Decoded, target: &Target, pictures: usize) -> bool {
        (self.row().has_effect)(picture, target, pictures)
    }

    /// Returns the remark, as a sentence.
    pub(crate) fn sentence(self) -> String {
        let Row { flag, values, on, .. } = *self.row();
        // One value needs no guess.
        let value = if let [value] = values { format!(" {value}") } else { String::new() };
        format!("--{flag}{value} has no effect on {on}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_row() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!((row.unused as usize, row.unused.row().unused), (at, row.unused));
        }
        assert_eq!(
            Unused::Series.sentence(),
            "--together series has no effect on files of one page in formats other than DICOM"
        );
        assert_eq!(Unused::Pages.sentence(), "--together has no effect on files of one page");
    }
}
