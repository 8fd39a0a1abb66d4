//! Remarks on pictures that were written: no failure, but a difference that users may notice.

use std::borrow::Cow;
use std::path::Path;

use codec::{BytesBehind, Range, Remark as Codec};
use serde::Serialize;
use tracing::{debug, info};

use crate::fs::paths::Shown;

/// A noteworthy fact about a picture that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// The file that was read has holes: parts that read as zeros and that its writer may have left
    /// for later.
    WithHoles,
    /// A 16-bit picture covers so little of the range after CLAHE that it looks black.
    NarrowRange,
    /// Settings files in its folders change its settings.
    FolderSettings,
    /// A part that its format could not keep, or a conversion.
    #[serde(untagged)]
    Codec(Codec),
}

/// Writes remarks to the log: the first of each kind at the level INFO, and others at DEBUG, since
/// a camera's pictures all have the same.
#[derive(Debug, Default)]
pub(crate) struct TellingRemarks(Vec<Remark>);

impl TellingRemarks {
    /// Logs a remark about a picture, in these words.
    pub(crate) fn tell(&mut self, input: &Path, remark: Remark, text: &str) {
        let is_known = |known: &Remark| *known == remark || known.joined(remark).is_some();
        if !remark.names_pictures() || self.0.iter().any(is_known) {
            return debug!("note: {}: {text}", Shown(input));
        }
        self.0.push(remark);
        info!("note: {}: {text} (others like it are named at the level DEBUG)", Shown(input));
    }
}

impl From<Codec> for Remark {
    fn from(remark: Codec) -> Self {
        Self::Codec(remark)
    }
}

/// Returns the advice to spread levels over this range.
pub(crate) fn recommended(range: Range) -> String {
    format!("--range {range} (about from percentile 0.1 to 99.9) gives these all levels")
}

impl Remark {
    /// Returns the remark about one picture.
    pub(crate) fn of_one(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Codec(Codec::FewerColours(error)) => {
                return format!("a GIF holds 256 colours a frame, so others became the nearest of these; they differ by {error}").into();
            }
            Self::Codec(Codec::NowPng) => {
                "a GIF, written as PNG, animated if it is, because CLAHE makes more colours of one and a GIF holds 256 a frame; --format gif reduces them"
            }
            Self::Codec(Codec::WithoutBytes(BytesBehind(bytes))) => {
                let s = if bytes == 1 { "" } else { "s" };
                return format!("{bytes} byte{s} behind the end of its picture, of no known kind, were left out; the original keeps them").into();
            }
            Self::Codec(Codec::WithoutVideo) => {
                "its motion photo's video shows the old contrast and was left out: it is a still photograph now, and the original keeps it"
            }
            Self::Codec(Codec::WithoutGainMap) => {
                "its HDR gain map was made for the old contrast and was left out: it is a photograph of the usual range now, and the original keeps it"
            }
            Self::Codec(Codec::WithoutPreviews) => {
                "the previews stored with it show the old contrast and were left out"
            }
            Self::Codec(Codec::PartOfXmp) => {
                "its XMP beyond the first 64 KB cannot be stored in that format and was left out"
            }
            Self::Codec(Codec::WithoutMetadata) => {
                "its profile, EXIF, XMP or OME-XML has no place in that format, or does not fit its pixels, and was left out"
            }
            Self::Codec(Codec::WithoutResolution) => {
                "its resolution (dpi) cannot be stored in that format and was left out"
            }
            Self::Codec(Codec::WithoutGeoreference) => {
                "its georeference (origin, pixel size, coordinate system) cannot be stored in that format and was left out"
            }
            Self::Codec(Codec::WithoutLayers) => "its layers show the old contrast and were left out",
            Self::Codec(Codec::WithoutOverviews) => {
                "its overviews or thumbnails show the old contrast and were left out"
            }
            Self::Codec(Codec::OneOfSeries) => {
                "its OME-XML names the other files of its series, so keep them together"
            }
            Self::Codec(Codec::MetadataElsewhere) => {
                "its OME-XML is in another file, which it names, so keep them together"
            }
            Self::Codec(Codec::WithoutMasks) => "its masks of valid pixels were left out",
            Self::Codec(Codec::WithoutLabels) => "the photographs of its label and glass were left out",
            Self::Codec(Codec::Sparse) => "parts of it were never written; they are 0 or its no-data value",
            Self::Codec(Codec::WithoutChannel) => {
                "its channel besides colours and alpha has no place in that format and was left out"
            }
            Self::Codec(Codec::ChannelAsItWas) => "its channel besides colours and alpha was kept as it was",
            Self::Codec(Codec::Invisible) => {
                "all its pixels are fully transparent, so there is no contrast to be seen"
            }
            Self::Codec(Codec::NoValues) => {
                "none of its pixels has a value (all are NaN, infinite, no data or fully transparent), so there is no contrast to be seen"
            }
            Self::Codec(Codec::NowLevels) => {
                "its measured values (signed, floating-point or longer than 16 bits) were written as brightness from 0 up, spread between its least and greatest value or over --range: it is to be looked at, and not to be measured in (Hounsfield units, temperatures, reflectances); --format keep keeps the values of TIFFs and DICOM files"
            }
            Self::Codec(Codec::StretchedRange) => {
                "all but a few of its values lie in less than a sixth of their range, so that they have few levels"
            }
            Self::Codec(Codec::NowRgb) => "its inks (CMYK) became red, green and blue",
            Self::Codec(Codec::NowLossless) => "a lossy WebP, written losslessly and larger",
            Self::WithHoles => {
                "its file has holes (parts that were never written) and was taken with zeros there"
            }
            Self::FolderSettings => "it has settings of its folder",
            Self::NarrowRange => {
                "its 16-bit levels cover less than a sixth of the range after CLAHE, so it may look black; leave --clip-limit at auto, raise it, or use --method global"
            }
        })
    }

    /// Returns the remark about the pictures of both remarks, if these only differ in numbers.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Codec(Codec::FewerColours(one)), Self::Codec(Codec::FewerColours(other))) => {
                Some(Codec::FewerColours(one.max(other)).into())
            }
            (Self::Codec(Codec::WithoutBytes(one)), Self::Codec(Codec::WithoutBytes(other))) => {
                Some(Codec::WithoutBytes(one.max(other)).into())
            }
            _ => None,
        }
    }

    /// Returns the remark about one picture, with the `--range` that it recommends.
    pub(crate) fn of_one_with(self, range: Option<Range>) -> String {
        match range {
            None => self.of_one().into_owned(),
            Some(range) => format!("{}; {}", self.of_one(), recommended(range)),
        }
    }

    /// Returns whether it recommends a range of values.
    pub(crate) const fn recommends_range(self) -> bool {
        matches!(self, Self::Codec(Codec::StretchedRange))
    }

    /// Returns whether to name its pictures. The settings that a user wrote for a folder are no
    /// news about a picture.
    pub(crate) const fn names_pictures(self) -> bool {
        !matches!(self, Self::FolderSettings)
    }

    /// Returns the remark about a number of pictures.
    pub(crate) fn of(self, count: u64) -> String {
        let plural = if count == 1 { "" } else { "s" };
        match self {
            Self::Codec(Codec::WithoutVideo) => format!(
                "{count} JPEG{plural} without a motion photo's video, which shows the old contrast; {} now, and {} it",
                if count == 1 { "it is a still photograph" } else { "they are still photographs" },
                if count == 1 { "the original keeps" } else { "the originals keep" },
            ),
            Self::Codec(Codec::WithoutGainMap) => format!(
                "{count} JPEG{plural} without an HDR gain map, which was made for the old contrast; {} it",
                if count == 1 { "the original keeps" } else { "the originals keep" },
            ),
            Self::Codec(Codec::WithoutPreviews) => {
                format!("{count} JPEG{plural} without previews, which show the old contrast")
            }
            Self::Codec(Codec::WithoutBytes(BytesBehind(bytes))) => {
                let most = if count == 1 { "" } else { "up to " };
                let s = if bytes == 1 { "" } else { "s" };
                format!(
                    "{count} JPEG{plural} without {most}{bytes} byte{s} behind the end of the picture, of no known kind"
                )
            }
            Self::Codec(Codec::PartOfXmp) => {
                format!(
                    "{count} JPEG{plural} without XMP beyond the first 64 KB, which the output format cannot store"
                )
            }
            Self::Codec(Codec::WithoutMetadata) => {
                format!(
                    "{count} picture{plural} without profile, EXIF, XMP or OME-XML, which do not fit their outputs"
                )
            }
            Self::Codec(Codec::WithoutResolution) => {
                format!(
                    "{count} picture{plural} without resolution (dpi), which the output format cannot store"
                )
            }
            Self::Codec(Codec::WithoutGeoreference) => {
                format!(
                    "{count} picture{plural} without georeference (origin, pixel size, coordinate system), which is not carried into the output format"
                )
            }
            Self::Codec(Codec::WithoutLayers) => {
                format!("{count} TIFF{plural} without layers, which show the old contrast")
            }
            Self::Codec(Codec::WithoutOverviews) => {
                format!("{count} TIFF{plural} without overviews or thumbnails, which show the old contrast")
            }
            Self::Codec(Codec::OneOfSeries) => {
                format!("{count} OME-TIFF{plural} of series in several files, whose names the OME-XML tells")
            }
            Self::Codec(Codec::MetadataElsewhere) => {
                format!(
                    "{count} OME-TIFF{plural} whose OME-XML is in another file (a companion), which is to be kept beside the output"
                )
            }
            Self::Codec(Codec::WithoutMasks) => {
                format!("{count} TIFF{plural} without masks of valid pixels")
            }
            Self::Codec(Codec::WithoutLabels) => {
                format!("{count} slide{plural} without the photographs of label and glass")
            }
            Self::Codec(Codec::Sparse) => {
                format!(
                    "{count} TIFF{plural} with parts that were never written, which are 0 or the no-data value"
                )
            }
            Self::Codec(Codec::WithoutChannel) => {
                format!(
                    "{count} TIFF{plural} without the channel besides colours and alpha, which the output format cannot store"
                )
            }
            Self::Codec(Codec::ChannelAsItWas) => {
                format!(
                    "{count} TIFF{plural} with a channel besides colours and alpha, which was kept as it was"
                )
            }
            Self::Codec(Codec::Invisible) => {
                format!("{count} picture{plural} of nothing but fully transparent pixels, which do not count")
            }
            Self::Codec(Codec::NowLevels) => {
                format!(
                    "{count} picture{plural} of measured values (signed, floating-point or longer than 16 bits) written as brightness from 0 up, to be \
                     looked at and not to be measured in (Hounsfield units, temperatures, reflectances); --format keep keeps the values of TIFFs and DICOM files"
                )
            }
            Self::Codec(Codec::NoValues) => {
                format!(
                    "{count} picture{plural} of nothing but NaN, infinite, no-data or fully transparent pixels"
                )
            }
            Self::Codec(Codec::NowPng) => {
                format!(
                    "{count} GIF{plural} written as PNG, because CLAHE makes more colours of one and a GIF holds 256 a frame; --format gif reduces them"
                )
            }
            Self::Codec(Codec::FewerColours(error)) => {
                format!(
                    "{count} GIF{plural} with fewer colours than there were, since a GIF holds 256 a frame; they differ by up to {error}"
                )
            }
            Self::Codec(Codec::StretchedRange) => {
                let their = if count == 1 { "its" } else { "their" };
                format!(
                    "{count} picture{plural} with all but a few values in less than a sixth of {their} range, which these (hot pixels) stretch, so that the others have few levels"
                )
            }
            Self::Codec(Codec::NowRgb) => format!("{count} CMYK picture{plural} written as RGB"),
            Self::Codec(Codec::NowLossless) => {
                format!("{count} lossy WebP{plural} written losslessly, and larger")
            }
            Self::WithHoles => format!(
                "{count} picture{plural} from files with holes (parts that were never written), taken with zeros there"
            ),
            Self::FolderSettings if count == 1 => {
                "1 picture with settings of its folder (histeqd.toml)".to_owned()
            }
            Self::FolderSettings => format!("{count} pictures with settings of their folders (histeqd.toml)"),
            Self::NarrowRange => {
                let look = if count == 1 { "covers" } else { "cover" };
                format!(
                    "{count} 16-bit picture{plural} {look} less than a sixth of the range after CLAHE and may look black; leave --clip-limit at auto, raise it, or use --method global"
                )
            }
        }
    }
}
