//! Channels that are neither colour nor alpha: near infrared, a mask, padding.
//!
//! They are not part of the pixels, lest a device take one for alpha: they are taken out of them
//! after reading, and put back between them for writing.

use crate::CodecError;
use crate::io::reader::resize;
use equalize::Layout;

/// Moves the pixels together at the front of `slot`, without the `others` between them.
///
/// Returns these samples if they are to be kept.
pub(crate) fn take_out(
    slot: &mut [u8],
    layout: &Layout,
    others: usize,
    keep: bool,
) -> Result<Option<Vec<u8>>, CodecError> {
    let (colours, further) = (layout.pixel_bytes(), others * layout.depth.bytes());
    let (pixel, count) = (colours + further, slot.len() / (colours + further));
    let mut other = Vec::new();
    if keep {
        resize(&mut other, count * further)?;
        for (to, pixel) in other.chunks_exact_mut(further).zip(slot.chunks_exact(pixel)) {
            to.copy_from_slice(&pixel[colours..]);
        }
    }
    for at in 0..count {
        slot.copy_within(at * pixel..at * pixel + colours, at * colours);
    }
    Ok(keep.then_some(other))
}

/// Moves alpha before the other samples after the `colours`, or back.
///
/// Pixels have `pixel` samples of `bytes` bytes.
pub(crate) fn move_alpha(
    slot: &mut [u8],
    pixel: usize,
    colours: usize,
    before_alpha: usize,
    bytes: usize,
    back: bool,
) {
    for pixel in slot.chunks_exact_mut(pixel * bytes) {
        let behind = &mut pixel[colours * bytes..][..(before_alpha + 1) * bytes];
        if back { behind.rotate_left(bytes) } else { behind.rotate_right(bytes) }
    }
}

/// Puts `others` samples back between the pixels at the front of `slot`; returns all of them.
pub(crate) fn put_back<'s>(slot: &'s mut [u8], layout: &Layout, others: usize, other: &[u8]) -> &'s mut [u8] {
    let (colours, further) = (layout.pixel_bytes(), others * layout.depth.bytes());
    let pixel = colours + further;
    // A pixel never moves onto one before it, which is still to be moved.
    for (at, other) in other.chunks_exact(further).enumerate().rev() {
        slot.copy_within(at * colours..(at + 1) * colours, at * pixel);
        slot[at * pixel + colours..][..further].copy_from_slice(other);
    }
    &mut slot[..other.len() / further * pixel]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;
    use equalize::{Depth, Pixel};

    #[test]
    fn the_channels_come_back_between_the_pixels() {
        let pixels = [Pixel::Gray, Pixel::Rgb, Pixel::Rgba].into_iter();
        for ((pixel, depth), others) in
            pixels.zip([Depth::Eight, Depth::Sixteen, Depth::Eight]).zip([1, 3, 2])
        {
            let layout = Layout { width: 7, height: 3, pixel, depth };
            let (colours, further) = (layout.pixel_bytes(), others * depth.bytes());
            let stored = noise(21 * (colours + further), 5);
            let mut slot = stored.clone();
            let other = take_out(&mut slot, &layout, others, true).unwrap().unwrap();
            for (at, pixel) in stored.chunks_exact(colours + further).enumerate() {
                assert_eq!(slot[at * colours..][..colours], pixel[..colours]);
                assert_eq!(other[at * further..][..further], pixel[colours..]);
            }
            let front = layout.bytes() as usize;
            let mut other_way = stored.clone();
            assert_eq!(take_out(&mut other_way, &layout, others, false).unwrap(), None);
            assert_eq!(other_way[..front], slot[..front]);
            slot[front..].fill(0xee);
            assert_eq!(put_back(&mut slot, &layout, others, &other), stored);
        }
    }
}
