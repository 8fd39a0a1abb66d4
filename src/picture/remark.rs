//! Remarks on pictures that were written: no failure, but a difference that users may notice.

use std::borrow::Cow;
use std::path::Path;

use codec::{BytesBehind, FillValue, Range, Remark as Codec};
use serde::Serialize;
use tracing::{debug, info};

use crate::fs::paths::Shown;
use crate::picture::unused::Unused;

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
    /// A flag without an effect on it.
    #[serde(untagged)]
    Unused(Unused),
}

/// Writes remarks to the log: the first of each kind at the level INFO, and others at DEBUG, since
/// a camera's pictures all have the same.
#[derive(Debug, Default)]
pub(crate) struct RemarkLog(Vec<Remark>);

impl RemarkLog {
    /// Logs a remark about a picture, in these words.
    pub(crate) fn log(&mut self, input: &Path, remark: Remark, text: &str) {
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
    format!("--range {range} (about percentiles 0.1 to 99.9) gives them all levels")
}

/// Returns the words for a fill value.
fn values(fill: FillValue) -> String {
    if fill.value().is_some() { format!("one value, {fill},") } else { "one or two values".to_owned() }
}

/// Returns the advice to name a fill value.
fn no_data(fill: FillValue) -> String {
    match fill.value() {
        Some(_) => format!("--no-data={fill} leaves it out if it stands for no data"),
        None => "--no-data leaves one out that stands for no data".to_owned(),
    }
}

impl Remark {
    /// Returns the remark about one picture.
    pub(crate) fn of_one(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Codec(Codec::FillValue(fill)) => {
                return Cow::Owned(format!(
                    "{} far outside the range of all others, which share few levels; {}",
                    values(fill),
                    no_data(fill)
                ));
            }
            Self::Codec(Codec::FewerColours(error)) => {
                return format!(
                    "reduced to 256 colours a frame, the limit of GIF; colours differ by {error}"
                )
                .into();
            }
            Self::Codec(Codec::NowPng) => {
                "GIF written as PNG, because CLAHE makes more than the 256 colours of a GIF frame; --format gif reduces them"
            }
            Self::Codec(Codec::WithoutBytes(BytesBehind(bytes))) => {
                let s = if bytes == 1 { "" } else { "s" };
                return format!(
                    "{bytes} unknown byte{s} after the end of the picture removed; the original keeps them"
                )
                .into();
            }
            Self::Codec(Codec::WithoutVideo) => {
                "motion photo's video removed, which shows the old contrast; now a still photograph, and the original keeps the video"
            }
            Self::Codec(Codec::WithoutGainMap) => {
                "HDR gain map removed, which was made for the old contrast; now a photograph of standard range, and the original keeps the map"
            }
            Self::Codec(Codec::WithoutPreviews) => "previews removed, which show the old contrast",
            Self::Codec(Codec::PartOfXmp) => {
                "XMP beyond the first 64 KB removed, which the output format cannot store"
            }
            Self::Codec(Codec::WithoutMetadata) => {
                "profile, EXIF, XMP or OME-XML removed, which the output format cannot store or which does not fit the pixels"
            }
            Self::Codec(Codec::WithoutResolution) => {
                "resolution (dpi) removed, which the output format cannot store"
            }
            Self::Codec(Codec::WithoutGeoreference) => {
                "georeference (origin, pixel size, coordinate system) removed, which the output format cannot store"
            }
            Self::Codec(Codec::WithoutOutside) => {
                "metadata outside of directories (Micro-Manager's or ScanImage's) removed, which only stacks keep"
            }
            Self::Codec(Codec::WithoutLayers) => "layers removed, which show the old contrast",
            Self::Codec(Codec::WithoutOverviews) => {
                "overviews or thumbnails removed, which show the old contrast"
            }
            Self::Codec(Codec::OneOfSeries) => {
                "OME-XML names the other files of the series; keep them together"
            }
            Self::Codec(Codec::MetadataElsewhere) => "OME-XML is in another file; keep both together",
            Self::Codec(Codec::WithoutMasks) => "masks of valid pixels removed",
            Self::Codec(Codec::WithoutLabels) => "photographs of label and glass removed",
            Self::Codec(Codec::PageBeyondEnd) => {
                "a further page would lie beyond the end of the file; if it had several, it was cut off"
            }
            Self::Codec(Codec::UnusedBits) => {
                "low bits are 0 in all samples, which --levels auto looks for only where each page has a table of its own; --shift takes them out"
            }
            Self::Codec(Codec::Sparse) => "parts that were never written are 0 or the no-data value",
            Self::Codec(Codec::WithoutChannel) => {
                "channel besides colours and alpha removed, which the output format cannot store"
            }
            Self::Codec(Codec::ChannelAsItWas) => "channel besides colours and alpha left unchanged",
            Self::Codec(Codec::Invisible) => "all pixels are fully transparent; no visible contrast",
            Self::Codec(Codec::NoValues) => {
                "no valid pixels (all are NaN, infinite, no data or fully transparent); no visible contrast"
            }
            Self::Codec(Codec::NowLevels) => {
                "measured values (signed, floating-point or longer than 16 bits) written as brightness from 0 up, between its minimum and maximum or over --range: for viewing, not for measuring (Hounsfield units, temperatures, reflectances); --format keep keeps the values of TIFFs and DICOM files"
            }
            Self::Codec(Codec::StretchedRange) => {
                "all but a few values lie in less than a sixth of the range and share few levels"
            }
            Self::Codec(Codec::NowRgb) => "CMYK written as RGB",
            Self::Unused(unused) => return unused.sentence().into(),
            Self::Codec(Codec::NowLossless) => "lossy WebP written losslessly, and larger",
            Self::WithHoles => "holes in the file (parts that were never written) read as zeros",
            Self::FolderSettings => "settings of its folder used (histeqd.toml)",
            Self::NarrowRange => {
                "16-bit levels cover less than a sixth of the range after CLAHE, so it may look black; leave --clip-limit at auto, raise it, or use --method global"
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
            (Self::Codec(Codec::FillValue(one)), Self::Codec(Codec::FillValue(other))) => {
                Some(Codec::FillValue(if one == other { one } else { FillValue::SEVERAL }).into())
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
        matches!(self, Self::Codec(Codec::StretchedRange | Codec::FillValue(_)))
    }

    /// Returns whether to name its pictures. The settings that a user wrote for a folder are no
    /// news about a picture.
    pub(crate) const fn names_pictures(self) -> bool {
        !matches!(self, Self::FolderSettings)
    }

    /// Returns whether to give it with a picture.
    pub(crate) const fn is_about_one(self) -> bool {
        self.names_pictures() && !self.is_about_all()
    }

    /// Returns whether it is no news unless all pages of a file and all pictures of a run have it.
    pub(crate) const fn is_about_all(self) -> bool {
        matches!(self, Self::Unused(_))
    }

    /// Returns the remark about a number of pictures.
    pub(crate) fn of(self, count: u64) -> String {
        let plural = if count == 1 { "" } else { "s" };
        match self {
            Self::Codec(Codec::WithoutVideo) => format!(
                "{count} JPEG{plural}: motion photo's video removed, which shows the old contrast; now {}, and {} the video",
                if count == 1 { "a still photograph" } else { "still photographs" },
                if count == 1 { "the original keeps" } else { "the originals keep" },
            ),
            Self::Codec(Codec::WithoutGainMap) => format!(
                "{count} JPEG{plural}: HDR gain map removed, which was made for the old contrast; {} it",
                if count == 1 { "the original keeps" } else { "the originals keep" },
            ),
            Self::Codec(Codec::WithoutPreviews) => {
                format!("{count} picture{plural}: previews removed, which show the old contrast")
            }
            Self::Codec(Codec::WithoutBytes(BytesBehind(bytes))) => {
                let most = if count == 1 { "" } else { "up to " };
                let s = if bytes == 1 { "" } else { "s" };
                format!(
                    "{count} JPEG{plural}: {most}{bytes} unknown byte{s} after the end of the picture removed"
                )
            }
            Self::Codec(Codec::PartOfXmp) => {
                format!(
                    "{count} JPEG{plural}: XMP beyond the first 64 KB removed, which the output format cannot store"
                )
            }
            Self::Codec(Codec::WithoutMetadata) => {
                format!(
                    "{count} picture{plural}: profile, EXIF, XMP or OME-XML removed, which does not fit the output"
                )
            }
            Self::Codec(Codec::WithoutResolution) => {
                format!(
                    "{count} picture{plural}: resolution (dpi) removed, which the output format cannot store"
                )
            }
            Self::Codec(Codec::WithoutGeoreference) => {
                format!(
                    "{count} picture{plural}: georeference (origin, pixel size, coordinate system) removed, which the output format cannot store"
                )
            }
            Self::Codec(Codec::WithoutOutside) => {
                format!(
                    "{count} TIFF{plural} without metadata outside of directories (Micro-Manager's with those of its pages, ScanImage's), which only stacks keep"
                )
            }
            Self::Codec(Codec::WithoutLayers) => {
                format!("{count} TIFF{plural}: layers removed, which show the old contrast")
            }
            Self::Codec(Codec::WithoutOverviews) => {
                format!("{count} TIFF{plural}: overviews or thumbnails removed, which show the old contrast")
            }
            Self::Codec(Codec::OneOfSeries) => {
                format!(
                    "{count} OME-TIFF{plural}: OME-XML names the other files of the series; keep them together"
                )
            }
            Self::Codec(Codec::MetadataElsewhere) => {
                format!(
                    "{count} OME-TIFF{plural}: OME-XML is in another file (a companion); keep it next to the output"
                )
            }
            Self::Codec(Codec::WithoutMasks) => {
                format!("{count} TIFF{plural}: masks of valid pixels removed")
            }
            Self::Codec(Codec::WithoutLabels) => {
                format!("{count} slide{plural}: photographs of label and glass removed")
            }
            Self::Codec(Codec::PageBeyondEnd) => {
                format!(
                    "{count} TIFF{plural}: a further page would lie beyond the end of the file; a file that had several was cut off"
                )
            }
            Self::Codec(Codec::UnusedBits) => {
                format!(
                    "{count} picture{plural}: low bits are 0 in all samples, which --levels auto looks for only where each page has a table of its own; --shift takes them out"
                )
            }
            Self::Codec(Codec::Sparse) => {
                format!("{count} picture{plural}: parts that were never written are 0 or the no-data value")
            }
            Self::Codec(Codec::WithoutChannel) => {
                format!(
                    "{count} TIFF{plural}: channel besides colours and alpha removed, which the output format cannot store"
                )
            }
            Self::Codec(Codec::ChannelAsItWas) => {
                format!("{count} TIFF{plural}: channel besides colours and alpha left unchanged")
            }
            Self::Codec(Codec::Invisible) => {
                format!("{count} picture{plural}: all pixels fully transparent; no visible contrast")
            }
            Self::Codec(Codec::NowLevels) => {
                format!(
                    "{count} picture{plural}: measured values (signed, floating-point or longer than 16 bits) written as brightness from 0 up, for viewing, not for measuring (Hounsfield units, temperatures, reflectances); --format keep keeps the values of TIFFs and DICOM files"
                )
            }
            Self::Codec(Codec::NoValues) => {
                format!(
                    "{count} picture{plural}: no valid pixels (all NaN, infinite, no data or fully transparent)"
                )
            }
            Self::Codec(Codec::NowPng) => {
                format!(
                    "{count} GIF{plural} written as PNG, because CLAHE makes more than the 256 colours of a GIF frame; --format gif reduces them"
                )
            }
            Self::Codec(Codec::FewerColours(error)) => {
                format!(
                    "{count} GIF{plural} reduced to 256 colours a frame, the limit of GIF; colours differ by up to {error}"
                )
            }
            Self::Codec(Codec::StretchedRange) => {
                let their = if count == 1 { "its" } else { "their" };
                format!(
                    "{count} picture{plural}: all but a few values (hot pixels) lie in less than a sixth of {their} range and share few levels"
                )
            }
            Self::Unused(unused) => format!("{count} picture{plural}: {}", unused.sentence()),
            Self::Codec(Codec::FillValue(fill)) => {
                format!(
                    "{count} picture{plural}: {} far outside the range of all others, which share few levels; {}",
                    values(fill),
                    no_data(fill)
                )
            }
            Self::Codec(Codec::NowRgb) => format!("{count} CMYK picture{plural} written as RGB"),
            Self::Codec(Codec::NowLossless) => {
                format!("{count} lossy WebP{plural} written losslessly, and larger")
            }
            Self::WithHoles => format!(
                "{count} picture{plural}: holes in the file (parts that were never written) read as zeros"
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
