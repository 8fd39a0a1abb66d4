//! Tiles that reach beyond the edges of the picture.

use equalize::{Depth, Layout, Pixel};

use super::super::{TARGET, decode, pixels};
use crate::large::{Cut, tiff};
use crate::samples::Random;
use crate::stacks::Storage;

/// The entry of a directory that states the rows of a picture.
fn rows(number: u32) -> Vec<u8> {
    [&257_u16.to_le_bytes()[..], &4_u16.to_le_bytes(), &1_u32.to_le_bytes(), &number.to_le_bytes()].concat()
}

#[test]
fn a_tile_of_which_few_rows_are_in_the_picture_is_read_to_its_end() {
    let (layout, kept) = (Layout { width: 64, height: 96, pixel: Pixel::Rgba, depth: Depth::Sixteen }, 50);
    let mut random = Random(14);
    let samples: Vec<u16> =
        (0..layout.pixels() * layout.pixel.channels() as u64).map(|_| random.next() as u16).collect();
    for storage in [Storage::Stored, Storage::Lzw, Storage::Deflate] {
        let mut file = tiff(&layout, &samples, Cut::Tiles(32, 48), storage);
        let at = file.windows(12).rposition(|entry| entry == rows(layout.height)).unwrap();
        file[at..at + 12].copy_from_slice(&rows(kept));
        let (decoded, slot) = decode(&file, &TARGET).unwrap();
        assert_eq!(decoded.layout.height, kept);
        let expected: &[u8] = bytemuck::cast_slice(&samples);
        assert!(pixels(&decoded, &slot) == &expected[..decoded.layout.bytes() as usize], "{storage:?}");
    }
}
