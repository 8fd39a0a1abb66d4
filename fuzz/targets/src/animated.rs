//! WebP: animations made of still pictures.

use codec::Format;
use equalize::Layout;

use super::reading::{PLAIN, file_of, read};

/// Makes an animation of two frames of a still WebP, one over part of the other, and reads it.
///
/// Its first frame must be that picture.
pub(crate) fn check(data: &[u8]) {
    let mut slot = Vec::new();
    let Ok(still) = read(&mut file_of(data), &PLAIN, &mut slot, 0, 0) else { return };
    if still.frames() != 1 || still.format != Format::WebP {
        return;
    }
    let (layout, choice) = (still.layout, data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    let before = slot.clone();
    let Ok(moving) = read(&mut file_of(&animation_of(data, &layout, choice)), &PLAIN, &mut slot, 0xff, 0)
    else {
        return;
    };
    assert_eq!(moving.frames(), 2, "no frame is lost");
    let channels = layout.pixel_bytes();
    for (number, pixel) in before[..layout.bytes() as usize].chunks_exact(channels).enumerate() {
        let (row, column) = (number / layout.width as usize, number % layout.width as usize);
        let at = 4 * (row * moving.layout.width as usize + column + 2);
        assert!(slot[at..at + channels] == *pixel, "the first frame is the picture");
    }
}

/// Returns a file of two frames of the picture: two pixels to the right, and at the left.
///
/// The last bits of `choice` are the flags of the frames.
fn animation_of(data: &[u8], layout: &Layout, choice: u8) -> Vec<u8> {
    let short = |number: u32| number.to_le_bytes()[..3].to_vec();
    let chunk = |kind: &[u8], content: &[u8]| {
        let padding = &[0][..content.len() % 2];
        [kind, &(content.len() as u32).to_le_bytes(), content, padding].concat()
    };
    let (mut rest, mut inside) = (&data[12..], Vec::new());
    while let Some(head) = rest.first_chunk::<8>() {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let end = (8 + length.next_multiple_of(2)).min(rest.len());
        if [&b"ALPH"[..], b"VP8 ", b"VP8L"].contains(&&head[..4]) {
            inside.extend(&rest[..end]);
        }
        rest = &rest[end..];
    }
    let sides = [short(layout.width - 1), short(layout.height - 1)].concat();
    let frame = |left: u32, flags: u8| {
        let place = [short(left), short(0), sides.clone(), short(40), vec![flags & 3]].concat();
        chunk(b"ANMF", &[place, inside.clone()].concat())
    };
    let canvas = [vec![0x12, 0, 0, 0], short(layout.width + 1), short(layout.height - 1)].concat();
    let parts = [chunk(b"VP8X", &canvas), chunk(b"ANIM", &[0; 6]), frame(1, choice), frame(0, choice >> 2)];
    chunk(b"RIFF", &[b"WEBP".to_vec(), parts.concat()].concat())
}
