//! The part of a decoded picture that only the source's own format knows.

use std::any::Any;
use std::fmt::Debug;

use super::animation::Animation;
use super::remark::Remark;
use crate::samples::mapped::Mapped;
use crate::samples::shrink::SmallPlane;
use crate::samples::uncounted::Mask;
use crate::{Format, JpegQuality, Target};
use equalize::Layout;

/// The data of a source for writing it back in its own format, and for remarks on its output.
pub(crate) trait Native: Any + Debug + Send + Sync {
    /// Returns the bytes of metadata that only this format has.
    fn metadata_bytes(&self) -> u64 {
        0
    }

    /// Returns the bytes of heap in use until the picture is encoded in its own format.
    ///
    /// Only if more of it than its pixels is written there. `written` is the layout of the output,
    /// and `file_bytes` are those of the source in memory. Samples that are not levels are made
    /// again if it `restores` them.
    fn encoder_bytes(&self, _written: &Layout, _file_bytes: u64, _restores: bool) -> Option<u64> {
        None
    }

    /// Returns how the frames are played, if it is an animation.
    fn animation(&self) -> Option<&Animation> {
        None
    }

    /// Makes a picture of one frame of an animation.
    fn separate(&mut self) {}

    /// Rounds samples that are kept apart from the pixels to 8 bits.
    fn reduce_depth(&mut self) {}

    /// Returns the mask of valid pixels that the file has, once.
    fn take_mask(&mut self) -> Option<Mask> {
        None
    }

    /// Returns slope and intercept from samples to values, if levels stand for stored samples.
    fn rescale(&self) -> Option<[f64; 2]> {
        None
    }

    /// Returns the chroma that is kept for the picture in the slot, reduced in size.
    ///
    /// Luma is reduced by means of squares of `step` pixels, and chroma to match. `None` if there
    /// is no chroma.
    fn small_chroma(
        &self,
        _slot: &[u8],
        _layout: &Layout,
        _quality: JpegQuality,
        _step: usize,
    ) -> Option<[SmallPlane; 2]> {
        None
    }

    /// Returns the remarks on the picture that are peculiar to this format.
    ///
    /// `to` is the output's format, and `restored` the mapping that makes samples of levels again.
    fn remarks(&self, _target: &Target, _to: Format, _restored: Option<&Mapped>) -> Vec<Option<Remark>> {
        Vec::new()
    }

    /// Returns whether the colours were inks.
    fn had_inks(&self) -> bool {
        false
    }

    /// Returns whether the levels are of brightness as it is shown, and not of stored values.
    fn is_shown(&self) -> bool {
        false
    }

    /// Returns whether it is a segmentation.
    fn is_segmentation(&self) -> bool {
        false
    }

    /// Returns whether the file has smaller versions of the picture.
    fn had_overviews(&self) -> bool {
        false
    }

    /// Returns whether metadata are left out of every output.
    fn loses_metadata(&self) -> bool {
        false
    }

    /// Returns whether the picture states its place on a map, which its own format keeps.
    fn is_georeferenced(&self) -> bool {
        false
    }

    /// Returns whether the profile is left out of the picture's own format.
    ///
    /// `None` if the format keeps it as it does those of other formats' pictures.
    fn loses_profile(&self) -> Option<bool> {
        None
    }

    /// Returns whether the resolution is kept as it is in the picture's own format.
    fn keeps_resolution(&self) -> bool {
        false
    }
}

/// A picture that is not written back in the same form, with the losses to report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Other {
    /// Whether its colours were inks.
    pub(crate) had_inks: bool,
    /// Whether channels that are neither colour nor alpha were left out.
    pub(crate) lost_channel: bool,
    /// Whether a preview was left out.
    pub(crate) lost_preview: bool,
}

impl Native for Other {
    fn remarks(&self, _: &Target, _: Format, _: Option<&Mapped>) -> Vec<Option<Remark>> {
        vec![
            self.lost_channel.then_some(Remark::WithoutChannel),
            self.lost_preview.then_some(Remark::WithoutPreviews),
        ]
    }

    fn had_inks(&self) -> bool {
        self.had_inks
    }
}
