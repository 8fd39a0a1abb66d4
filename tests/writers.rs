//! The writers of all formats: a file has the same bytes with any number of threads, every time.

use std::collections::BTreeMap;
use std::fs;

use codec::Format;
use equalize::{Depth, Layout, Pixel};

use crate::harness::{Place, project};
use crate::large::{Cut, tiff, with_page};
use crate::overviews::with_smaller;
use crate::samples::{Data, Random, pam, samples};
use crate::stacks::Storage;

/// Memory in which pictures of more than 768 KiB are done in bands, or not at all.
pub(crate) const LITTLE: &str = "--memory 3MiB";

/// Formats whose pictures are done in bands.
pub(crate) const IN_BANDS: [Format; 4] = [Format::Png, Format::Tiff, Format::Pnm, Format::Bmp];

/// Files of these formats that are written in other ways than pictures of one page.
const OTHERS: [&str; 10] = [
    "samples/gray.pfm",
    "jpeg/420.jpg",
    "jpeg/progressive.jpg",
    "animations/blend-source.png",
    "animations/blend-and-dispose.webp",
    "animations/combine.gif",
    "dicom/mr.dcm",
    "dicom/frames.dcm",
    "dicom/frames-rle.dcm",
    "codec/seq-3c-16b-bigtiff-1b40ca6e.tiff",
];

/// Puts pictures into the folder `in` from which every writer makes a file in each of its ways.
///
/// Those with these sides, whose bytes are as many as their pixels, may be done in bands. `tile` is
/// the side of tiles, and the rows of strips; the largest overviews have one row in `part`.
pub(crate) fn prepare(place: &Place, (width, height): (u32, u32), tile: u32, part: u32) {
    let mut random = Random(69);
    let gray = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
    let colours = Layout { width: width / 2, height: height * 2 / 3, pixel: Pixel::Rgb, depth: Depth::Eight };
    let mut some = |layout: &Layout| samples(layout, Data::Natural, &mut random);
    for (name, layout) in [("gray", &gray), ("colours", &colours)] {
        place.file(format!("plain/{name}.pam"), pam(layout, &some(layout)));
    }
    // DICOM is only written of itself.
    for format in written().into_iter().filter(|format| *format != Format::Dicom) {
        let name = format.name().to_lowercase();
        place.run(&format!("plain --out in --format {name} --strength 0 --devices cpu")).exits(0);
    }
    for name in OTHERS {
        let file = fs::read(project().join("tests/data").join(name)).unwrap();
        place.file(format!("in/{}", name.replace('/', "-")), file);
    }
    for storage in [Storage::Stored, Storage::Lzw, Storage::Deflate] {
        for (of, cut) in [("strips", Cut::Strips(tile)), ("tiles", Cut::Tiles(tile, tile))] {
            place.file(format!("in/{of}-{storage:?}.tif"), tiff(&gray, &some(&gray), cut, storage));
        }
        let deep = Layout { width: width / 2, depth: Depth::Sixteen, ..gray };
        place.file(format!("in/deep-{storage:?}.tif"), tiff(&deep, &some(&deep), Cut::Strips(tile), storage));
    }
    let page = |file: Vec<u8>, samples: Vec<u16>, storage| {
        let bytes: Vec<u8> = samples.into_iter().map(|sample| sample as u8).collect();
        with_page(file, &gray, (8, 1), &bytes, Cut::Tiles(tile, tile), storage)
    };
    let (pyramid, sizes) = (
        page(header(), some(&gray), Storage::Lzw),
        [1, 2, 4].map(|times| (width.div_ceil(times * part), height.div_ceil(times * part))),
    );
    place.file("in/pyramid.tif", with_smaller(pyramid, &sizes));
    let stack = (0..2).fold(header(), |file, _| page(file, some(&gray), Storage::Lzw));
    place.file("in/stack.tif", stack);
    let slides = (0..2).fold(header(), |file, _| with_smaller(page(file, some(&gray), Storage::Lzw), &sizes));
    place.file("in/slides.tif", slides);
    let levels = (0..2).fold(header(), |file, _| {
        let link = file.len() - 4;
        let with_levels = with_smaller(page(file, some(&gray), Storage::Deflate), &sizes[..2]);
        below_page(with_levels, link)
    });
    place.file("in/levels.tif", levels);
    place.file("in/big.tif", big(&page(vec![0; BIG_HEADER], some(&gray), Storage::Deflate)));
    let formats: Vec<_> = place.tree("in").iter().filter_map(|name| format_of(place, "in", name)).collect();
    for format in written() {
        assert!(formats.contains(&format), "no picture for the writer of {format}");
    }
}

/// Returns every format of files that is written.
fn written() -> Vec<Format> {
    Format::ALL.into_iter().filter(|format| format.is_written()).collect()
}

/// Returns the format of a file in a folder, by its content.
pub(crate) fn format_of(place: &Place, folder: &str, name: &str) -> Option<Format> {
    Format::sniff(&place.read(format!("{folder}/{name}")))
}

fn header() -> Vec<u8> {
    b"II*\0\0\0\0\0".to_vec()
}

fn word(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*file[at..].first_chunk().unwrap())
}

/// Returns the entries of a directory, and the place of the offset of the next one.
fn entries(file: &[u8], directory: usize) -> (Vec<[u8; 12]>, usize) {
    let count = usize::from(u16::from_le_bytes(*file[directory..].first_chunk().unwrap()));
    let entries = file[directory + 2..].as_chunks().0[..count].to_vec();
    (entries, directory + 2 + 12 * count)
}

/// Moves the directories after a page to its sub-directories (SubIFDs). `link` is the place of the
/// offset of the page's directory.
fn below_page(mut file: Vec<u8>, link: usize) -> Vec<u8> {
    let (mut tags, mut next) = entries(&file, word(&file, link) as usize);
    let mut below = Vec::new();
    while word(&file, next) > 0 {
        let directory = word(&file, next);
        below.extend(directory.to_le_bytes());
        file[next..next + 4].fill(0);
        next = entries(&file, directory as usize).1;
    }
    let (count, place) = (below.len() as u32 / 4, file.len() as u32);
    assert!(count > 1, "one offset would lie in the entry");
    file.extend(&below);
    let entry =
        [&330_u16.to_le_bytes()[..], &4_u16.to_le_bytes(), &count.to_le_bytes(), &place.to_le_bytes()];
    tags.push(*entry.concat().first_chunk().unwrap());
    tags.sort_by_key(|tag| u16::from_le_bytes([tag[0], tag[1]]));
    let directory = file.len() as u32;
    file[link..link + 4].copy_from_slice(&directory.to_le_bytes());
    file.extend((tags.len() as u16).to_le_bytes());
    file.extend(tags.as_flattened());
    file.extend([0; 4]);
    file
}

const BIG_HEADER: usize = 16;

/// Returns the BigTIFF of a page behind room for its header, with a directory in its form.
fn big(file: &[u8]) -> Vec<u8> {
    let (tags, _) = entries(file, word(file, BIG_HEADER - 4) as usize);
    let mut big = file.to_vec();
    let directory = (file.len() as u64).to_le_bytes();
    big[..BIG_HEADER].copy_from_slice(&[&b"II+\0\x08\0\0\0"[..], &directory].concat());
    big.extend((tags.len() as u64).to_le_bytes());
    for tag in tags {
        let (count, place) = (word(&tag, 4), word(&tag, 8));
        let place = match count {
            2 => *file[place as usize..].first_chunk().unwrap(),
            _ => u64::from(place).to_le_bytes(),
        };
        big.extend([&tag[..4], &u64::from(count).to_le_bytes(), &place].concat());
    }
    big.extend([0; 8]);
    big
}

#[test]
fn every_writer_makes_the_same_bytes_with_any_number_of_threads_every_time() {
    const SIDES: (u32, u32) = (1003, 1101);
    let place = Place::new();
    prepare(&place, SIDES, 48, 2);
    #[cfg(feature = "zarr")]
    crate::zarr::Image::of([2, 150, 170], [48, 64]).write(&place, "in/image.zarr");
    let mut first = BTreeMap::new();
    for round in 0..5 {
        for threads in [1, 2, 4, 8] {
            let run = format!("in --devices cpu --overwrite --threads {threads}");
            place.run(&format!("{run} --out whole")).exits(0);
            // Pictures too large for the memory that are not done in bands are refused.
            if round < 2 {
                place.run(&format!("{run} --out bands {LITTLE}"));
            }
            for out in ["whole", "bands"] {
                let files: BTreeMap<_, _> = place
                    .tree(out)
                    .into_iter()
                    .map(|name| (name.clone(), place.read(format!("{out}/{name}"))))
                    .collect();
                let expected = first.entry(out).or_insert_with(|| files.clone());
                assert!(files.keys().eq(expected.keys()), "{out}");
                for (name, content) in &files {
                    assert!(*content == expected[name], "{out}/{name}, {threads} threads in round {round}");
                }
            }
        }
    }
    let [whole, bands] = ["whole", "bands"].map(|out| &first[out]);
    assert!(whole.keys().eq(&place.tree("in")));
    for (name, content) in bands {
        let format = format_of(&place, "in", name);
        assert!(*content == whole[name] || format == Some(Format::Tiff), "{name}");
    }
    for format in IN_BANDS {
        let is_large =
            |name: &String| name.starts_with("gray.") && format_of(&place, "in", name) == Some(format);
        assert!(bands.keys().any(is_large), "{format}");
    }
}
