//! The losses of a picture that is written, as remarks.

use super::decoded::Decoded;
use super::remark::Remark;
use crate::metadata::exif::has_resolution;
use crate::{Format, Georeference, Metadata, Target};

impl Decoded {
    /// Returns the remarks on the picture once it is written.
    pub fn remarks(&self, target: &Target) -> Vec<Remark> {
        let to = target.format_for(self.format);
        // Samples that are written as they are shown were never anything but levels.
        let now_levels = self.mapped.as_ref().is_some_and(|mapped| !mapped.restores && mapped.changes_kind());
        let now_levels = now_levels && !self.native.is_shown();
        let of_its_kind = self.native.remarks(target, to, self.restored());
        let without = self.loses_metadata(to).then_some(Remark::WithoutMetadata);
        let nowhere = self.loses_resolution(to).then_some(Remark::WithoutResolution);
        let place = self.loses_georeference(to).then_some(Remark::WithoutGeoreference);
        let may_lack_values = self.mapped.is_some() || self.no_data.is_some();
        let none_counts = if may_lack_values { Remark::NoValues } else { Remark::Invisible };
        // A band is not the picture.
        let invisible = (self.is_invisible && !self.is_band).then_some(none_counts);
        let levels = now_levels.then_some(Remark::NowLevels);
        let fewer = self.quantized.map(Remark::FewerColours);
        let unused = (self.scale.has_unused_bits && !self.is_band).then_some(Remark::UnusedBits);
        let rgb = self.native.had_inks().then_some(Remark::NowRgb);
        let inner_range = self.mapped.as_ref().and_then(|mapped| mapped.spread.inner_range);
        let stretched = inner_range.map(|inner| inner.fill.map_or(Remark::StretchedRange, Remark::FillValue));
        of_its_kind
            .into_iter()
            .chain([without, nowhere, place, unused, levels, rgb, fewer, invisible, stretched])
            .flatten()
            .collect()
    }

    /// Returns whether the picture has metadata that it does not keep in a format.
    fn loses_metadata(&self, to: Format) -> bool {
        let Metadata { icc, exif, xmp, .. } = &self.metadata;
        let own = if to == self.format { self.native.loses_profile() } else { None };
        let loses_profile =
            own.unwrap_or_else(|| icc.is_some() && self.metadata.icc_in(to, self.layout.pixel).is_none());
        loses_profile
            || self.native.loses_metadata()
            || (exif.is_some() || xmp.is_some()) && !to.supports_exif_and_xmp()
    }

    /// Returns whether the picture has a place on a map that a format does not state.
    fn loses_georeference(&self, to: Format) -> bool {
        match &self.metadata.georeference {
            Some(Georeference::Tags(_)) => !to.supports_georeference(),
            Some(Georeference::Gml) => true,
            None => to != self.format && self.native.is_georeferenced(),
        }
    }

    /// Returns whether the picture loses its resolution in a format.
    ///
    /// It does if the format has no place for it, or no place for so large a number, and if the
    /// EXIF written there does not state it either.
    fn loses_resolution(&self, to: Format) -> bool {
        let Metadata { exif, resolution: Some(resolution), .. } = &self.metadata else { return false };
        let is_kept = to == self.format && self.native.keeps_resolution();
        let has_place = is_kept || to.states_resolution(*resolution);
        let exif = exif.as_deref().filter(|_| to.supports_exif_and_xmp());
        !has_place && !exif.is_some_and(has_resolution)
    }
}
