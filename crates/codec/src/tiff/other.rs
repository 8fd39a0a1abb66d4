//! A channel that is neither colour nor alpha: near infrared, a mask, padding. It is no part of the pixels, so that no device takes it for
//! alpha: it is taken out of them after reading, and put back between them for writing.

use super::super::CodecError;
use crate::reader::resize;
use equalize::{Layout, Pixel};

/// Returns the layout of pixels of this layout with the channel between them. Where the channel lies is where alpha would.
pub(super) fn with(layout: &Layout) -> Layout {
    let pixel = if layout.pixel.colour_channels() == 1 { Pixel::GrayAlpha } else { Pixel::Rgba };
    Layout { pixel, ..*layout }
}

/// Moves the pixels, which have the channel between them, together at the front of `slot`. Returns the channel if it is to be kept.
pub(super) fn take_out(slot: &mut [u8], layout: &Layout, keep: bool) -> Result<Option<Vec<u8>>, CodecError> {
    let (colours, sample) = (layout.pixel_bytes(), layout.depth.bytes());
    let (pixel, count) = (colours + sample, slot.len() / (colours + sample));
    let mut other = Vec::new();
    if keep {
        resize(&mut other, count * sample)?;
        for (to, pixel) in other.chunks_exact_mut(sample).zip(slot.chunks_exact(pixel)) {
            to.copy_from_slice(&pixel[colours..]);
        }
    }
    for at in 0..count {
        slot.copy_within(at * pixel..at * pixel + colours, at * colours);
    }
    Ok(keep.then_some(other))
}

/// Puts the channel between the pixels at the front of `slot`, from where it was taken out. Returns the layout of what is there then.
pub(super) fn put_back(slot: &mut [u8], layout: &Layout, other: &[u8]) -> Layout {
    let (colours, sample) = (layout.pixel_bytes(), layout.depth.bytes());
    let pixel = colours + sample;
    // A pixel never moves onto one before it, which is still to be moved.
    for (at, other) in other.chunks_exact(sample).enumerate().rev() {
        slot.copy_within(at * colours..(at + 1) * colours, at * pixel);
        slot[at * pixel + colours..][..sample].copy_from_slice(other);
    }
    with(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;
    use equalize::Depth;

    #[test]
    fn the_channel_comes_back_between_the_pixels() {
        for (pixel, depth) in [Pixel::Gray, Pixel::Rgb].into_iter().zip([Depth::Eight, Depth::Sixteen]) {
            let layout = Layout { width: 7, height: 3, pixel, depth };
            let stored = noise(with(&layout).bytes() as usize, 5);
            let mut slot = stored.clone();
            let other = take_out(&mut slot, &layout, true).unwrap().unwrap();
            let (whole, colours) = (with(&layout).pixel_bytes(), layout.pixel_bytes());
            for (at, pixel) in stored.chunks_exact(whole).enumerate() {
                assert_eq!(slot[at * colours..][..colours], pixel[..colours]);
                assert_eq!(other[at * depth.bytes()..][..depth.bytes()], pixel[colours..]);
            }
            let front = layout.bytes() as usize;
            let mut other_way = stored.clone();
            assert_eq!(take_out(&mut other_way, &layout, false).unwrap(), None);
            assert_eq!(other_way[..front], slot[..front]);
            slot[front..].fill(0xee);
            assert_eq!(put_back(&mut slot, &layout, &other), with(&layout));
            assert_eq!(slot, stored);
        }
    }
}
