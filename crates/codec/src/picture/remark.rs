//! Remarks on pictures that were written without an error, but not with all that they had.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::samples::fill_value::FillValue;

/// A remark on a picture that was written: no failure, but a difference from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// A motion photo's video was left out, as it shows the old contrast.
    WithoutVideo,
    /// A JPEG's gain map was left out, as it was made for the old contrast.
    WithoutGainMap,
    /// A JPEG's or JPEG XL's previews were left out, as they show the old contrast.
    WithoutPreviews,
    /// A JPEG's XMP was longer than one segment, and only the first one went into the other format.
    PartOfXmp,
    /// A profile, EXIF, XMP or OME-XML was left out.
    ///
    /// The new format has no place for it, or it is for other pixels: a profile for RGB is
    /// meaningless for gray.
    WithoutMetadata,
    /// The resolution was left out, because the new format has no place for it.
    WithoutResolution,
    /// The georeference was left out, because the new format has no place for it.
    WithoutGeoreference,
    /// Micro-Manager's or ScanImage's metadata outside of a TIFF's directories were left out.
    WithoutOutside,
    /// A TIFF's layers were left out, as they were made for the old contrast.
    WithoutLayers,
    /// Overviews and thumbnails in a TIFF were left out, as they were made for the old contrast.
    WithoutOverviews,
    /// Masks in a TIFF were left out.
    WithoutMasks,
    /// The photographs of a slide's label and glass were left out.
    WithoutLabels,
    /// After its only page a TIFF names the place of another, beyond the end of the file.
    PageBeyondEnd,
    /// A TIFF's OME-XML also describes pictures in other files.
    OneOfSeries,
    /// A TIFF's OME-XML only names another file, in which its metadata are.
    MetadataElsewhere,
    /// Strips or tiles of a TIFF, or chunks of an image without a fill value, were never written.
    ///
    /// They are 0 or the no-data value.
    Sparse,
    /// A TIFF's channel other than colour and alpha was left out, for lack of a place for it.
    WithoutChannel,
    /// A TIFF's channel that is neither colour nor alpha was kept as it was, not equalized.
    ChannelAsItWas,
    /// Low bits of 16-bit samples are unused, and were not looked for, as pages share a table.
    UnusedBits,
    /// Signed, long or float samples were written as levels, spread over the whole range.
    NowLevels,
    /// A few samples stretch the range that levels are spread over, and leave few for the others.
    StretchedRange,
    /// Every pixel is fully transparent, and all are left out of the counts.
    Invisible,
    /// Every pixel is without a value (not a number, infinite, or no data) or fully transparent.
    NoValues,
    /// A CMYK picture was written as RGB.
    NowRgb,
    /// A lossy WebP was written losslessly, and is larger.
    NowLossless,
    /// A GIF was written as PNG, because it may have more colours than a GIF holds.
    NowPng,
    /// Frames of a GIF have fewer colours than they should.
    #[serde(untagged)]
    FewerColours(QuantizationError),
    /// Unknown bytes after the end of a JPEG were left out.
    #[serde(untagged)]
    WithoutBytes(BytesBehind),
    /// A value that may stand for no data stretches the range, and leaves others few levels.
    #[serde(untagged)]
    FillValue(FillValue),
}

/// The number of bytes after the end of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesBehind(pub u64);

/// It is counted by its name, as remarks are.
impl Serialize for BytesBehind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("without-bytes")
    }
}

/// The distances of colours from those before their number was reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuantizationError {
    /// The mean over all red, green and blue samples, in hundredths of a level.
    pub hundredths: u32,
    /// The greatest, in levels.
    pub most: u8,
}

impl QuantizationError {
    /// Returns the greater of both, in either respect.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { hundredths: self.hundredths.max(other.hundredths), most: self.most.max(other.most) }
    }
}

impl fmt::Display for QuantizationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.hundredths / 100, self.hundredths % 100);
        write!(f, "{whole}.{hundredths:02} levels on average and {} at most", self.most)
    }
}

/// It is counted by its name, as remarks are.
impl Serialize for QuantizationError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("fewer-colours")
    }
}
