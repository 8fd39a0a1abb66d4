//! From levels to samples, and to the values of these.

use super::Mapped;
use super::hidden::{Place, is_hidden};
use super::kind::{Value, with_values};
use equalize::{Layout, Level, Pixel};

impl Mapped {
    /// Returns the least and the greatest value of a picture's levels, of the pixels that count.
    pub(crate) fn range_of(&self, pixels: &[u8], layout: &Layout) -> Option<(f64, f64)> {
        with_values!(self.form.kind, range_of(self, pixels, layout))
    }

    /// Returns pieces of `rows` rows, from top to bottom, of which samples can be made.
    pub(crate) fn pieces<'p>(&'p self, layout: &Layout, pixels: &'p [u8], rows: usize) -> Vec<Piece<'p>> {
        let width = layout.width as usize;
        let (pixel, mut place) = (layout.pixel, Place::default());
        let mut behind =
            self.behind.chunks((rows * width * self.form.behind() * self.form.kind.bytes()).max(1));
        let pieces = pixels.chunks(rows * width * layout.pixel_bytes()).map(|levels| {
            let behind = behind.next().unwrap_or_default();
            let piece = Piece { mapped: self, pixel, levels, behind, place };
            place = self.hidden.after(place, piece.hidden_pixels());
            piece
        });
        pieces.collect()
    }
}

/// Rows of levels, of which samples can be made.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'p> {
    mapped: &'p Mapped,
    pixel: Pixel,
    levels: &'p [u8],
    /// The samples after the colours.
    behind: &'p [u8],
    /// The place of the first hidden pixel from here on.
    place: Place,
}

impl Piece<'_> {
    /// Returns how many pixels are hidden.
    fn hidden_pixels(&self) -> u64 {
        let level = self.mapped.form.kind.depth().bytes();
        if self.mapped.hidden.is_empty() || !self.pixel.has_alpha() {
            return 0;
        }
        let pixels = self.levels.chunks_exact(self.pixel.channels() * level);
        pixels.filter(|pixel| is_hidden(pixel, level)).count() as u64
    }

    /// Replaces the content of `into` by the samples, in native byte order.
    pub(crate) fn make_samples(&self, into: &mut Vec<u8>) {
        with_values!(self.mapped.form.kind, make_samples(self, into));
    }
}

fn range_of<V: Value>(mapped: &Mapped, pixels: &[u8], layout: &Layout) -> Option<(f64, f64)> {
    let (level, colours) = (size_of::<V::Level>(), layout.pixel.colour_channels());
    let join = |(least, greatest): (u16, u16), sample: &[u8]| {
        let level = bytemuck::pod_read_unaligned::<V::Level>(sample).level() as u16;
        (least.min(level), greatest.max(level))
    };
    let none = (u16::MAX, 0);
    let (least, greatest) = if layout.pixel.has_alpha() {
        let visible = pixels.chunks_exact(layout.pixel_bytes()).filter(|pixel| !is_hidden(pixel, level));
        visible.flat_map(|pixel| pixel.chunks_exact(level).take(colours)).fold(none, join)
    } else {
        pixels.chunks_exact(level).fold(none, join)
    };
    let [one, other] = [least, greatest].map(|level| mapped.sample::<V>(level).value());
    (least <= greatest).then(|| (one.min(other), one.max(other)))
}

fn make_samples<V: Value>(piece: &Piece<'_>, into: &mut Vec<u8>) {
    let Piece { mapped, pixel, levels, behind, mut place } = *piece;
    let (colours, level) = (pixel.colour_channels(), size_of::<V::Level>());
    if colours == pixel.channels() && mapped.form.behind() == 0 {
        into.resize(levels.len() / level * size_of::<V>(), 0);
        for (level, sample) in levels.chunks_exact(level).zip(into.chunks_exact_mut(size_of::<V>())) {
            let level = bytemuck::pod_read_unaligned::<V::Level>(level).level() as u16;
            sample.copy_from_slice(bytemuck::bytes_of(&mapped.sample::<V>(level)));
        }
        return;
    }
    let mut behind = behind.chunks_exact((mapped.form.behind() * size_of::<V>()).max(1));
    into.clear();
    for levels in levels.chunks_exact(pixel.channels() * level) {
        let hidden = if pixel.has_alpha() && is_hidden(levels, level) {
            mapped.hidden.next(&mut place, colours * size_of::<V>())
        } else {
            None
        };
        if let Some(samples) = hidden {
            into.extend_from_slice(samples);
        } else {
            for sample in levels.chunks_exact(level).take(colours) {
                let found = bytemuck::pod_read_unaligned::<V::Level>(sample).level() as u16;
                into.extend_from_slice(bytemuck::bytes_of(&mapped.sample::<V>(found)));
            }
        }
        into.extend_from_slice(behind.next().unwrap_or_default());
    }
}
