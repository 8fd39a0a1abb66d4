//! Colour histograms on a GPU: the counting half of global equalization, once for each kind of plane.

use super::super::kernels::{Kind, Span};
use super::{Failure, GpuLane, grow};
use crate::equalize::count::planes;
use crate::picture::{Depth, Layout, Pixel};

/// One launch's worth of planes.
enum Pass {
    /// Counted where they lie: how, and the first of the planes.
    InPlace(Kind, usize),
    /// Alpha, which is counted as a plane of its own: its channel, which is its plane too.
    Alpha(usize),
}

const fn passes(pixel: Pixel) -> &'static [Pass] {
    use Pass::{Alpha, InPlace};
    match pixel {
        Pixel::Gray => &[InPlace(Kind::Gray, 0)],
        Pixel::GrayAlpha => &[InPlace(Kind::GrayAlpha, 0), Alpha(1)],
        Pixel::Rgb => &[InPlace(Kind::RgbChannels, 0), InPlace(Kind::RgbLuma, 3)],
        Pixel::Rgba => &[InPlace(Kind::RgbaChannels, 0), Alpha(3), InPlace(Kind::RgbaLuma, 4)],
    }
}

impl GpuLane<'_> {
    /// Counts all planes of the pixels into `counts`, as [`crate::equalize::count::count`] does.
    pub(super) fn count_planes(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        counts: &mut [u64],
    ) -> Result<(), Failure> {
        // Counts on the device have 32 bits.
        let plane_bytes =
            if layout.pixel.has_alpha() { layout.pixels() * layout.depth.bytes() as u64 } else { 0 };
        if layout.pixels() > u64::from(u32::MAX) || layout.bytes() + plane_bytes > self.engine.lane_memory {
            return Err(Failure::TooLarge);
        }
        let at = grow(&mut self.memory.picture, layout.bytes())?;
        let plane = if plane_bytes > 0 { grow(&mut self.memory.plane, plane_bytes)? } else { 0 };
        let (span, levels) = (Span { at, pixels: layout.pixels() }, layout.depth.levels());
        // SAFETY: the wait for `done` below comes before the pixels, the counts or the buffers are used again; all is on one
        // stream, and alpha's plane has room for all pixels.
        unsafe {
            self.work.upload(pixels, at)?;
            for pass in passes(layout.pixel) {
                match *pass {
                    Pass::InPlace(kind, first) => {
                        self.count_pass(span, layout, kind, &mut counts[first * levels..])?;
                    }
                    Pass::Alpha(channel) => {
                        let alpha = (plane, Some(channel as u32));
                        self.engine.kernels.plane(&self.work, layout, span, alpha, false)?;
                        let span = Span { at: plane, ..span };
                        self.count_pass(span, layout, Kind::Gray, &mut counts[channel * levels..])?;
                    }
                }
            }
        }
        self.done.record(&self.work)?;
        self.done.wait()?;
        counts.chunks_exact_mut(levels).for_each(widen);
        debug_assert_eq!(counts.len(), planes(layout.pixel).len() * levels);
        Ok(())
    }

    /// Counts one kind of plane; each plane's 32-bit counts come down into the first half of its place in `counts`.
    ///
    /// # Safety
    /// The span, the lane's tables and the counts are not used elsewhere until this is done.
    unsafe fn count_pass(
        &self,
        span: Span,
        layout: &Layout,
        kind: Kind,
        counts: &mut [u64],
    ) -> Result<(), Failure> {
        let (levels, tables) = (layout.depth.levels(), self.tables());
        let bytes = levels as u64 * 4;
        // SAFETY: the caller's promise.
        unsafe {
            self.begin(layout, kind)?;
            self.count_span(span, layout, kind, false)?;
            for (number, counts) in counts.chunks_exact_mut(levels).take(kind.planes() as usize).enumerate() {
                let from = tables.histogram(number as u64 * bytes);
                let to: &mut [u8] = bytemuck::cast_slice_mut(&mut counts[..levels / 2]);
                self.work.download(from, to)?;
            }
            // Between pictures those of depth 8 are zero.
            if layout.depth == Depth::Eight {
                self.work.zero(tables.histogram(0), u64::from(kind.planes()) * bytes)?;
            }
        }
        Ok(())
    }
}

/// From 32-bit counts in the first half to 64-bit counts.
fn widen(counts: &mut [u64]) {
    for at in (0..counts.len()).rev() {
        let narrow: &[u32] = bytemuck::cast_slice(counts);
        counts[at] = u64::from(narrow[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_counts_become_wide_in_place() {
        let mut counts = [0u64; 4];
        bytemuck::cast_slice_mut::<u64, u32>(&mut counts)[..4].copy_from_slice(&[5, u32::MAX, 0, 7]);
        widen(&mut counts);
        assert_eq!(counts, [5, u64::from(u32::MAX), 0, 7]);
    }

    #[test]
    fn the_passes_cover_every_plane_once() {
        for pixel in [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba] {
            let covered: Vec<usize> = passes(pixel)
                .iter()
                .flat_map(|pass| match *pass {
                    Pass::InPlace(kind, first) => first..first + kind.planes() as usize,
                    Pass::Alpha(channel) => channel..channel + 1,
                })
                .collect();
            assert_eq!(covered, (0..planes(pixel).len()).collect::<Vec<_>>());
        }
    }
}
