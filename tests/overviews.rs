//! The overviews of a TIFF, which are made anew from the written picture. The subject `overviews`
//! of `differential/checks.py` compares them with their definition in NumPy, as other readers see
//! them; the tests here need no other reader.

mod cogs;

use std::path::Path;

use equalize::{Depth, Layout, Pixel};

use crate::harness::{Place, other_readers_agree};
use crate::large::{Cut, number_in, pixels_of, tiff};
use crate::samples::{Data, Random, samples};
use crate::stacks::Storage;

const KIND: u16 = 254;

const LAYOUT: Layout = Layout { width: 1003, height: 1101, pixel: Pixel::Gray, depth: Depth::Eight };
const SIZES: [(u32, u32); 3] = [(502, 551), (251, 276), (126, 138)];

/// Returns a file of tiles with overviews of these sizes after its picture; their own content does
/// not matter.
pub(crate) fn with_overviews(seed: u64, sizes: &[(u32, u32)]) -> Vec<u8> {
    let samples = samples(&LAYOUT, Data::Natural, &mut Random(seed));
    let file = tiff(&LAYOUT, &samples, Cut::Tiles(64, 64), Storage::Lzw);
    with_smaller(file, sizes)
}

/// Adds overviews of these sizes after the last picture of a file.
pub(crate) fn with_smaller(mut file: Vec<u8>, sizes: &[(u32, u32)]) -> Vec<u8> {
    for &(width, height) in sizes {
        let link = file.len() - 4;
        file.resize(file.len().next_multiple_of(2), 0);
        let at = file.len() as u32;
        file[link..link + 4].copy_from_slice(&at.to_le_bytes());
        let tags = [
            (KIND, 1),
            (256, width),
            (257, height),
            (258, 8),
            (259, Storage::Deflate.number()),
            (262, 1),
            (277, 1),
            (322, 32),
            (323, 48),
            (324, 8),
            (325, 1),
        ];
        file.extend((tags.len() as u16).to_le_bytes());
        for (tag, value) in tags {
            file.extend([&u16::to_le_bytes(tag)[..], &[4, 0, 1, 0, 0, 0], &u32::to_le_bytes(value)].concat());
        }
        file.extend([0; 4]);
    }
    file
}

/// Returns a file without its first directory; `None` if it has no other.
fn without_first(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let first = word(4) as usize;
    let count = usize::from(u16::from_le_bytes([file[first], file[first + 1]]));
    let next = word(first + 2 + 12 * count);
    file[4..8].copy_from_slice(&next.to_le_bytes());
    (next > 0).then_some(file)
}

/// A version of a picture: its layout, its pixels, and its Compression, TileWidth and TileLength.
pub(crate) type Version = (Layout, Vec<u8>, [Option<u32>; 3]);

/// Returns all versions of all pictures of a file, each read as a file of its own.
pub(crate) fn versions(path: &Path) -> Vec<Version> {
    let alone = tempfile::NamedTempFile::new().unwrap();
    let files = std::iter::successors(Some(std::fs::read(path).unwrap()), |file| without_first(file.clone()));
    let versions = files.map(|file| {
        std::fs::write(alone.path(), &file).unwrap();
        let (layout, pixels) = pixels_of(alone.path());
        (layout, pixels, [259, 322, 323].map(|tag| number_in(&file, tag)))
    });
    versions.collect()
}

/// Returns the means of 2x2 pixels, halves up; of fewer at the edges.
fn halved(layout: &Layout, pixels: &[u8]) -> Vec<u8> {
    let (width, height) = (layout.width as usize, layout.height as usize);
    let mut means = Vec::new();
    for top in (0..height).step_by(2) {
        for left in (0..width).step_by(2) {
            let rows = pixels.chunks_exact(width).skip(top).take(2);
            let of_box: Vec<u32> =
                rows.flat_map(|row| row.iter().skip(left).take(2)).map(|&level| level.into()).collect();
            let (sum, count) = (of_box.iter().sum::<u32>(), of_box.len() as u32);
            means.push(((2 * sum + count) / (2 * count)) as u8);
        }
    }
    means
}

#[test]
fn overviews_are_made_of_what_is_written_as_a_whole_and_in_bands() {
    let place = Place::new();
    place.file("in/a.tif", with_overviews(1, &SIZES));
    for settings in ["", "--method clahe --tiles 3x2", "--no-data 90"] {
        for memory in ["", "--memory 1536KiB --threads 1", "--memory 3MiB --threads 3"] {
            place.run(&format!("in --out out --devices cpu --overwrite {memory} {settings}")).exits(0);
            let versions = versions(&place.path("out/a.tif"));
            assert_eq!(versions.len(), 1 + SIZES.len());
            for (pair, size) in versions.windows(2).zip(SIZES) {
                let [(larger, pixels, _), (layout, made, tags)] = pair else { unreachable!() };
                assert_eq!((layout.width, layout.height), size);
                assert_eq!(*tags, [Some(Storage::Deflate.number()), Some(32), Some(48)]);
                if settings.contains("no-data") {
                    // A mean that equals the no-data value becomes the next level up.
                    assert!(pixels.contains(&90) || !made.contains(&90));
                } else {
                    assert!(*made == halved(larger, pixels), "{size:?} with {settings} {memory}");
                }
            }
        }
    }
}

#[test]
fn overviews_are_left_out_on_demand_or_where_there_is_no_place_for_them_which_is_told() {
    let place = Place::new();
    place.file("in/a.tif", with_overviews(2, &SIZES));
    for memory in ["", "--memory 2MiB --threads 1"] {
        let ran = place.run(&format!("in --out out --overwrite --overviews drop {memory}"));
        ran.exits(0);
        assert!(!ran.stdout().contains("overviews"), "{ran}");
        assert_eq!(versions(&place.path("out/a.tif")).len(), 1);
    }
    place.run("in --out png --format png").exits(0).says("overviews or thumbnails removed");
}

#[test]
fn what_is_no_version_of_the_picture_is_left_out_and_told() {
    let place = Place::new();
    let sizes = [(502, 551), (300, 100), (1200, 1300), (126, 138)];
    place.file("in/a.tif", with_overviews(3, &sizes));
    place.run("in --out out").exits(0).says("overviews or thumbnails removed");
    let sizes: Vec<_> =
        versions(&place.path("out/a.tif")).iter().map(|(layout, ..)| (layout.width, layout.height)).collect();
    assert_eq!(sizes, [(1003, 1101), (502, 551), (126, 138)]);
}

#[test]
fn other_readers_find_the_means_that_numpy_makes_and_valid_cogs() {
    other_readers_agree("overviews");
}
