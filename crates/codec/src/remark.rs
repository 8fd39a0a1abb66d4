//! Remarks on pictures that were written without an error, but not with all that they had.

use serde::{Serialize, Serializer};

use super::fill_value::FillValue;
use super::mapped::Mapped;
use super::metadata::Georeference;
use super::tiff::exif_has_resolution;
use super::window::Window;
use super::{Decoded, Format, Metadata, Native, Other, QuantizationError, Target, jpeg};

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
    /// A range of values was given, and the samples are levels.
    UnusedRange,
    /// A window was given, and the picture is not a DICOM.
    UnusedWindow,
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

impl Decoded {
    /// Returns the remarks on the picture once it is written.
    pub fn remarks(&self, target: &Target) -> Vec<Remark> {
        let to = target.format_for(self.format);
        // Samples that are written as they are shown were never anything but levels.
        let is_shown = matches!(&self.native, Native::Dicom(native) if native.is_shown());
        let now_levels = self.mapped.as_ref().is_some_and(|mapped| !mapped.restores && mapped.changes_kind());
        let now_levels = now_levels && !is_shown;
        let of_its_kind = match &self.native {
            Native::Jpeg(jpeg) => {
                let is_cut = jpeg.has_extended_xmp() && to.supports_exif_and_xmp() && to != Format::Jpeg;
                let bytes = Some(BytesBehind(jpeg.more.unknown)).filter(|bytes| bytes.0 > 0);
                vec![
                    jpeg.more.video.then_some(Remark::WithoutVideo),
                    jpeg.more.gain_map.then_some(Remark::WithoutGainMap),
                    jpeg.more.previews.then_some(Remark::WithoutPreviews),
                    bytes.map(Remark::WithoutBytes),
                    is_cut.then_some(Remark::PartOfXmp),
                ]
            }
            Native::Tiff(tiff) => {
                let is_kept = tiff.other.is_some() || self.restored().is_some_and(Mapped::has_other);
                let channel = match (is_kept, tiff.lost_channel) {
                    (true, _) => Some(Remark::ChannelAsItWas),
                    (false, lost) => lost.then_some(Remark::WithoutChannel),
                };
                vec![
                    (tiff.lost_outside && to == Format::Tiff).then_some(Remark::WithoutOutside),
                    tiff.had_layers.then_some(Remark::WithoutLayers),
                    channel,
                    tiff.was_sparse.then_some(Remark::Sparse),
                    tiff.loses_overviews(to).then_some(Remark::WithoutOverviews),
                    tiff.had_masks.then_some(Remark::WithoutMasks),
                    tiff.had_labels.then_some(Remark::WithoutLabels),
                    (tiff.is_of_series && to == Format::Tiff).then_some(Remark::OneOfSeries),
                    (tiff.has_ome_elsewhere && to == Format::Tiff).then_some(Remark::MetadataElsewhere),
                ]
            }
            Native::WebP(webp) => vec![(webp.lossy && to == Format::WebP).then_some(Remark::NowLossless)],
            Native::Gif(_) => vec![(target.format.is_none() && to == Format::Png).then_some(Remark::NowPng)],
            Native::Other(other) => vec![
                other.lost_channel.then_some(Remark::WithoutChannel),
                other.lost_preview.then_some(Remark::WithoutPreviews),
            ],
            Native::Png(_) | Native::Pnm(_) | Native::Pfm(_) | Native::Bmp(_) | Native::Dicom(_) => {
                Vec::new()
            }
            Native::Zarr(zarr) => vec![zarr.is_sparse().then_some(Remark::Sparse)],
        };
        let without = self.loses_metadata(to).then_some(Remark::WithoutMetadata);
        let nowhere = self.loses_resolution(to).then_some(Remark::WithoutResolution);
        let place = self.loses_georeference(to).then_some(Remark::WithoutGeoreference);
        let may_lack_values = self.mapped.is_some() || self.no_data.is_some();
        let none_counts = if may_lack_values { Remark::NoValues } else { Remark::Invisible };
        // A band is not the picture.
        let invisible = (self.is_invisible && !self.is_band).then_some(none_counts);
        let levels = now_levels.then_some(Remark::NowLevels);
        let had_inks = match &self.native {
            Native::Tiff(tiff) => tiff.had_inks,
            native => matches!(native, Native::Other(Other { had_inks: true, .. })),
        };
        let fewer = self.quantized.map(Remark::FewerColours);
        let rgb = had_inks.then_some(Remark::NowRgb);
        // Some DICOM files of a study may have values or windows, and others not.
        let is_other = self.format != Format::Dicom;
        let range = is_other && target.range.is_some() && self.mapped.is_none();
        let range = range.then_some(Remark::UnusedRange);
        let window = is_other && target.window.as_ref().is_some_and(|window| *window != Window::Own);
        let window = window.then_some(Remark::UnusedWindow);
        let inner_range = self.mapped.as_ref().and_then(|mapped| mapped.spread.inner_range);
        let stretched = inner_range.map(|inner| inner.fill.map_or(Remark::StretchedRange, Remark::FillValue));
        of_its_kind
            .into_iter()
            .chain([without, nowhere, place, levels, rgb, fewer, invisible, stretched, range, window])
            .flatten()
            .collect()
    }

    /// Returns whether the picture has metadata that it does not keep in a format.
    fn loses_metadata(&self, to: Format) -> bool {
        let Metadata { icc, exif, xmp, .. } = &self.metadata;
        let loses_profile = match (&self.native, to) {
            // A JPEG's segments are passed on as they are.
            (Native::Jpeg(jpeg), Format::Jpeg) => jpeg.lost_profile,
            // It is among the elements that stay.
            (Native::Dicom(_), Format::Dicom) => false,
            _ => icc.is_some() && self.metadata.icc_in(to, self.layout.pixel).is_none(),
        };
        let loses_xmp = matches!(&self.native, Native::Jpeg(jpeg) if jpeg.lost_xmp);
        let loses_ome = matches!(&self.native, Native::Tiff(tiff) if tiff.lost_ome);
        loses_profile
            || loses_xmp
            || loses_ome
            || (exif.is_some() || xmp.is_some()) && !to.supports_exif_and_xmp()
    }

    /// Returns whether the picture has a place on a map that a format does not state.
    fn loses_georeference(&self, to: Format) -> bool {
        match (&self.metadata.georeference, &self.native) {
            (Some(Georeference::Tags(_)), _) => to != Format::Tiff,
            (Some(Georeference::Gml), _) => true,
            (None, Native::Tiff(tiff)) => to != Format::Tiff && tiff.is_georeferenced(),
            (None, _) => false,
        }
    }

    /// Returns whether the picture loses its resolution in a format.
    ///
    /// It does if the format has no place for it, or no place for so large a number, and if the
    /// EXIF written there does not state it either.
    fn loses_resolution(&self, to: Format) -> bool {
        let Metadata { exif, resolution: Some(resolution), .. } = &self.metadata else { return false };
        let has_place = match (&self.native, to) {
            // Its segments are passed on as they are.
            (Native::Jpeg(_), Format::Jpeg) => true,
            (_, Format::Jpeg) => jpeg::can_state(*resolution),
            _ => to.supports_resolution(),
        };
        let exif = exif.as_deref().filter(|_| to.supports_exif_and_xmp());
        !has_place && !exif.is_some_and(exif_has_resolution)
    }
}
