//! Colours of lossy pictures in a profile of their own.
//!
//! A lossy codestream has no colour space but its own. The decoder moves colours into sRGB on the
//! way to another one, where those beyond it fade. It therefore gives light, in which sRGB is no
//! limit, and levels are made of that here.

use std::fmt;

use moxcms::{ColorProfile, DataColorSpace, Matrix3d, ToneCurveEvaluator};

use super::malformed;
use crate::CodecError;

/// The greatest difference of a matrix from one that changes nothing, for primaries of sRGB.
const SAME: f64 = 2e-3;

/// The least determinant of primaries that span a colour space; sRGB's is 0.16.
///
/// Profiles have 16 binary digits, so that primaries on one line seldom give exactly 0.
const LEAST: f64 = 1e-4;

/// XYZ of the primaries of sRGB, one in each column, adapted to the white of profiles.
///
/// Dark levels take more digits than profiles of sRGB have. The white is libjxl's, which wrote
/// the light: 0.96422, 1, 0.82521.
const LIGHT: Matrix3d = Matrix3d {
    v: [
        [0.436_028_05, 0.385_100_97, 0.143_090_99],
        [0.222_478_51, 0.716_897_36, 0.060_624_13],
        [0.013_926_38, 0.097_092_17, 0.714_191_45],
    ],
};

/// A curve from light to levels, both from 0 to 1.
type Curve = Box<dyn ToneCurveEvaluator + Send + Sync>;

/// The way from light with the primaries of sRGB to levels in a profile.
pub(super) struct Wide {
    /// From light to that of the profile's primaries.
    matrix: [[f32; 3]; 3],
    curves: [Curve; 3],
}

impl Wide {
    /// Returns the way to a profile of primaries and curves, unless the primaries are sRGB's.
    ///
    /// # Errors
    /// If the primaries span no colour space.
    pub(super) fn of(icc: &[u8]) -> Result<Option<Self>, CodecError> {
        let Ok(profile) = ColorProfile::new_from_slice(icc) else { return Ok(None) };
        let tables = [
            &profile.lut_b_to_a_perceptual,
            &profile.lut_b_to_a_colorimetric,
            &profile.lut_b_to_a_saturation,
        ];
        let is_matrix = profile.color_space == DataColorSpace::Rgb && profile.pcs == DataColorSpace::Xyz;
        if !is_matrix || tables.iter().any(|table| table.is_some()) {
            return Ok(None);
        }
        let primaries = profile.rgb_to_xyz_matrix();
        if primaries.determinant().is_none_or(|volume| volume.abs() < LEAST) {
            return Err(malformed(
                "the primaries of its profile span no colour space: they lie in one plane; \
                 give it the right profile with another program",
            ));
        }
        let matrix = primaries.inverse().mat_mul(LIGHT).v;
        let same = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let mut both = matrix.as_flattened().iter().zip(same.as_flattened());
        if both.all(|(one, same)| (one - same).abs() < SAME) {
            return Ok(None);
        }
        let curve = |curve: &Option<_>| curve.as_ref().map(moxcms::ToneReprCurve::make_gamma_evaluator)?.ok();
        let curves = [curve(&profile.red_trc), curve(&profile.green_trc), curve(&profile.blue_trc)];
        let [Some(red), Some(green), Some(blue)] = curves else { return Ok(None) };
        let matrix = matrix.map(|row| row.map(|number| number as f32));
        Ok(Some(Self { matrix, curves: [red, green, blue] }))
    }

    /// Makes levels of the light of pixels, in place. A pixel has `channels`, colours first.
    pub(super) fn apply(&self, pixels: &mut [f32], channels: usize) {
        for pixel in pixels.chunks_exact_mut(channels) {
            let Some(colour) = pixel.first_chunk_mut::<3>() else { continue };
            let light = *colour;
            for ((to, row), curve) in colour.iter_mut().zip(&self.matrix).zip(&self.curves) {
                let own: f32 = row.iter().zip(light).map(|(share, light)| share * light).sum();
                *to = curve.evaluate_value(own.clamp(0.0, 1.0));
            }
        }
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wide").field("matrix", &self.matrix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_of_a_wider_profile_are_its_greatest_levels() {
        let encoded = |profile: ColorProfile| profile.encode().unwrap();
        let (srgb, wide) = (encoded(ColorProfile::new_srgb()), encoded(ColorProfile::new_display_p3()));
        assert!(Wide::of(&srgb).unwrap().is_none() && Wide::of(b"no profile").unwrap().is_none());
        let way = Wide::of(&wide).unwrap().unwrap();
        let back = ColorProfile::new_display_p3().transform_matrix(&ColorProfile::new_srgb()).v;
        for primary in 0..3 {
            let mut pixel =
                [back[0][primary], back[1][primary], back[2][primary], 0.25].map(|light| light as f32);
            way.apply(&mut pixel, 4);
            let mut expected = [0.0, 0.0, 0.0, 0.25];
            expected[primary] = 1.0;
            let off = pixel.iter().zip(expected).map(|(found, expected): (_, f32)| (found - expected).abs());
            assert!(off.fold(0.0, f32::max) < 0.01, "{pixel:?}");
        }
    }

    #[test]
    fn primaries_that_span_no_colour_space_are_refused() {
        let mut equal = ColorProfile::new_display_p3();
        equal.green_colorant = equal.red_colorant;
        let mut on_a_line = ColorProfile::new_display_p3();
        let half = |one: f64, other: f64| f64::midpoint(one, other);
        let (red, green) = (on_a_line.red_colorant, on_a_line.green_colorant);
        on_a_line.blue_colorant.x = half(red.x, green.x);
        on_a_line.blue_colorant.y = half(red.y, green.y);
        on_a_line.blue_colorant.z = half(red.z, green.z);
        for profile in [equal, on_a_line] {
            let why = Wide::of(&profile.encode().unwrap()).unwrap_err().to_string();
            assert!(why.contains("the primaries of its profile span no colour space"), "{why}");
        }
    }
}
