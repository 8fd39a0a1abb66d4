//! Colours that were multiplied by alpha.

use equalize::{Depth, Layout};

/// The samples of a pixel that alpha concerns.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Samples of a pixel.
    pub(crate) samples: usize,
    /// The number of samples that were multiplied, the first ones.
    pub(crate) colours: usize,
    /// The number of the alpha sample.
    pub(crate) alpha: usize,
}

/// Undoes the multiplication of colours by alpha, rounding halves up.
///
/// Where alpha is 0 there is no colour to restore.
pub(crate) fn divide_alpha_out(slot: &mut [u8], layout: &Layout) {
    let (samples, colours) = (layout.pixel.channels(), layout.pixel.colour_channels());
    divide_out(slot, layout.depth, Shape { samples, colours, alpha: colours });
}

/// Undoes the multiplication in pixels that may be followed by further samples.
pub(crate) fn divide_out(slot: &mut [u8], depth: Depth, shape: Shape) {
    match depth {
        Depth::Eight => {
            divide_samples(slot.as_chunks_mut().0, shape, |[level]| level.into(), |level| [level as u8]);
        }
        Depth::Sixteen => divide_samples(slot.as_chunks_mut().0, shape, u16::from_ne_bytes, u16::to_ne_bytes),
    }
}

fn divide_samples<const BYTES: usize>(
    slot: &mut [[u8; BYTES]],
    shape: Shape,
    level_of: impl Fn([u8; BYTES]) -> u16,
    sample_of: impl Fn(u16) -> [u8; BYTES],
) {
    let most = level_of([0xff; BYTES]);
    for pixel in slot.chunks_exact_mut(shape.samples) {
        let alpha = level_of(pixel[shape.alpha]);
        if alpha > 0 {
            for colour in &mut pixel[..shape.colours] {
                let multiplied = u32::from(level_of(*colour)) * u32::from(most);
                let whole = (multiplied + u32::from(alpha / 2)) / u32::from(alpha);
                *colour = sample_of(whole.min(most.into()) as u16);
            }
        }
    }
}
