//! `--tiles XxYxZ`: CLAHE of stacks with boxes as tiles. The library's results for a whole volume
//! are compared with their definition in NumPy elsewhere.

use std::fs;
use std::path::Path;

use equalize::clahe::equalize_volume_on;
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Sequential, Strength, Tiles};

use crate::harness::{Place, other_readers_agree, project};
use crate::stacks::{DESCRIPTION, Page, Storage, pages_of, plain, tiff};

const LAYOUT: Layout = Layout { width: 61, height: 47, pixel: Pixel::Gray, depth: Depth::Sixteen };

fn slices(count: usize) -> Vec<Page> {
    (0..count).map(|number| Page::new(number, LAYOUT.width, LAYOUT.height)).collect()
}

fn boxes(clip_limit: ClipLimit) -> Operation {
    Operation::new(Method::Clahe(Clahe { clip_limit, tiles: Tiles::Boxes { x: 3, y: 2, z: 4 }, noise: 0 }))
}

/// Returns pages after CLAHE of them all as one volume.
fn equalized(pages: &[Vec<u16>], operation: &Operation) -> Vec<Vec<u16>> {
    let mut volume = pages.concat();
    let bytes = bytemuck::cast_slice_mut(&mut volume);
    assert!(equalize_volume_on(&Sequential, bytes, &LAYOUT, pages.len(), operation));
    volume.chunks_exact(pages[0].len()).map(<[u16]>::to_vec).collect()
}

fn samples(pages: &[Page]) -> Vec<Vec<u16>> {
    pages.iter().map(|page| page.samples().to_vec()).collect()
}

#[test]
fn a_stack_is_one_volume_whatever_happens_to_its_pages() {
    let place = Place::new();
    let pages = slices(9);
    place.file("in/a.tif", plain(&pages, Storage::Lzw));
    place.file("in/b.tif", plain(&pages[..2], Storage::Stored));
    let ways = ["--threads 1", "--memory 16MiB --threads 3", "--devices cpu-workers:2", "--threads 8"];
    for (number, way) in ways.into_iter().enumerate() {
        let out = format!("out{number}");
        place.run(&format!("in --out {out} --method clahe --tiles 3x2x4 --clip-limit 2.5 {way}")).exits(0);
        let operation = boxes(ClipLimit::Times(2.5));
        for (name, pages) in [("a.tif", &pages[..]), ("b.tif", &pages[..2])] {
            let found = pages_of(&place.path(&out).join(name));
            assert!(found == equalized(&samples(pages), &operation), "{name}, {way}");
        }
    }
    // The occurring levels are those of all pages.
    place.run("in/a.tif --out auto --method clahe --tiles 3x2x4 --strength 0.5").exits(0);
    let operation = Operation { strength: Strength::thousandths(500).unwrap(), ..boxes(ClipLimit::Auto) };
    assert!(pages_of(&place.path("auto/a.tif")) == equalized(&samples(&pages), &operation));
    place.run("in/a.tif --out files --method clahe --tiles 3x2x4 --clip-limit 2.5 --frames split").exits(0);
    let expected = equalized(&samples(&pages), &boxes(ClipLimit::Times(2.5)));
    let last = pages_of(&place.path("files/a/a-00009.tif"));
    assert!(last == expected[8..]);
    // Outputs are skipped until the settings change.
    place
        .run("in --out out0 --method clahe --tiles 3x2x4 --clip-limit 2.5")
        .exits(0)
        .says("Skipped: 2 already done");
    place
        .run("in --out out0 --method clahe --tiles 3x2x3 --clip-limit 2.5")
        .exits(0)
        .says("Done: 2 pictures");
}

#[test]
fn frames_of_a_dicom_are_slices() {
    let place = Place::new();
    let data = |name: &str| fs::read(project().join("tests/data/dicom").join(name)).unwrap();
    place.file("in/frames.dcm", data("frames.dcm"));
    place
        .run("in --out done --format tiff --range -100..2000 --method clahe --tiles 2x2x2 --clip-limit 3")
        .exits(0);
    place.run("in --out before --format tiff --range -100..2000 --strength 0").exits(0);
    let (found, before) = (read(&place.path("done/frames.tif")), read(&place.path("before/frames.tif")));
    let (layout, mut volume, pages) = before;
    let clahe =
        Clahe { clip_limit: ClipLimit::Times(3.0), tiles: Tiles::Boxes { x: 2, y: 2, z: 2 }, noise: 0 };
    let operation = Operation::new(Method::Clahe(clahe));
    let bytes = bytemuck::cast_slice_mut(&mut volume);
    assert!(equalize_volume_on(&Sequential, bytes, &layout, pages, &operation));
    assert!(found.1 == volume && pages > 1);
}

/// Returns the layout of a page, the samples of all pages, and their number.
fn read(path: &Path) -> (Layout, Vec<u16>, usize) {
    let (mut file, mut buffer) = (fs::File::open(path).unwrap(), Vec::new());
    let layout =
        codec::open(&mut file, &mut buffer, &crate::stacks::LIMITS, &crate::stacks::TARGET).unwrap().layout();
    let pages = pages_of(path);
    (layout, pages.concat(), pages.len())
}

#[test]
fn what_is_no_volume_is_refused_with_a_remedy() {
    let place = Place::new();
    let pages = slices(4);
    place.file("one.tif", plain(&pages[..1], Storage::Stored));
    let described = |description: &str| {
        let text = description.to_owned();
        tiff(&pages, Storage::Stored, |_| vec![(DESCRIPTION, text.clone())])
    };
    place.file("flat.tif", described("ImageJ=1.53\nimages=4\nchannels=4\n"));
    place.file("untold.tif", described("ImageJ=1.53\nimages=6\nchannels=2\nslices=3\n"));
    place.file("unlike.tif", plain(&[slices(1).remove(0), Page::new(1, 50, 47)], Storage::Stored));
    place.file("stack.tif", plain(&pages, Storage::Stored));
    let refused = |input: &str, more: &str, told: &str| {
        place.run(&format!("{input} --out out --method clahe --tiles 2x2x2 {more}")).exits(1).says(told);
        assert!(place.tree("out").is_empty());
    };
    refused(
        "one.tif",
        "",
        "divides the pages of a stack into boxes, but this file is one picture; use two, such as 8x8, or --together folder",
    );
    refused("one.tif", "--dry-run", "this file is one picture");
    refused("flat.tif", "", "its pages are channels or times without slices");
    refused("untold.tif", "", "the channel, time and slice of its pages are not stated");
    refused("unlike.tif", "", "its pages are not of one kind");
    place
        .run("histogram stack.tif --equalized --method clahe --tiles 2x2x2")
        .exits(1)
        .says("--equalized cannot count stacks with --tiles of three numbers");
    place
        .run("stack.tif --out out --method clahe --tiles 2x2x2 --color per-channel --split-channels")
        .exits(2)
        .says("--tiles with three numbers and --split-channels exclude each other");
    place.run("stack.tif --out out --method clahe --tiles 2x2x0").exits(2).says("or 8x8x4 for stacks");
}

#[test]
fn numpy_agrees_with_the_volumes_of_hyperstacks_folders_and_series() {
    other_readers_agree("volumes");
}

/// Flags for volumes of files.
const OF_FILES: &str = "--method clahe --tiles 3x2x4 --clip-limit 2.5 --together folder";

/// Writes a slice as a file of its own, by its number from 1.
fn write_slice(place: &Place, folder: &str, number: usize, page: &Page) {
    place.file(format!("{folder}/s{number}.tif"), plain(std::slice::from_ref(page), Storage::Lzw));
}

#[test]
fn the_files_of_a_folder_are_one_volume_and_are_done_again_together() {
    let place = Place::new();
    let mut pages = slices(11);
    let write = |number: usize, page: &Page| write_slice(&place, "in/a", number, page);
    pages.iter().zip(1..).for_each(|(page, number)| write(number, page));
    slices(3).iter().zip(1..).for_each(|(page, number)| write_slice(&place, "in/b", number, page));
    place.file("in/a/list", "no picture");
    let are = |folder: &str, pages: &[Page]| {
        let expected = equalized(&samples(pages), &boxes(ClipLimit::Times(2.5)));
        for (number, expected) in (1..).zip(&expected) {
            let found = pages_of(&place.path(folder).join(format!("s{number}.tif")));
            assert!(found == [expected.clone()], "{folder}, slice {number}");
        }
    };
    let ways = ["--threads 1", "--memory 16MiB --threads 3", "--devices cpu-workers:2", "--threads 8"];
    for (number, way) in ways.into_iter().enumerate() {
        place.run(&format!("in --out out{number} {OF_FILES} {way}")).exits(0).says("Done: 14 pictures");
        are(&format!("out{number}/a"), &pages);
        are(&format!("out{number}/b"), &pages[..3]);
    }
    place.run(&format!("in --out out0 {OF_FILES}")).exits(0).says("Skipped: 14 already done");
    // A changed or new slice is made with all others of its volume.
    pages[4] = Page::new(90, LAYOUT.width, LAYOUT.height);
    write(5, &pages[4]);
    place.run(&format!("in --out out0 {OF_FILES}")).exits(0).says("Done: 11 pictures");
    are("out0/a", &pages);
    pages.push(Page::new(91, LAYOUT.width, LAYOUT.height));
    write(12, &pages[11]);
    place.run(&format!("in --out out0 {OF_FILES} --dry-run")).exits(0).prints("in/a/s3.tif");
    place.run(&format!("in --out out0 {OF_FILES}")).exits(0).says("Done: 12 pictures");
    are("out0/a", &pages);
    are("out0/b", &pages[..3]);
}

#[test]
fn files_that_make_no_volume_are_refused_with_a_remedy() {
    let place = Place::new();
    let pages = slices(4);
    for folder in ["unlike", "damaged", "stack", "one"] {
        write_slice(&place, folder, 1, &pages[0]);
    }
    let refused = |folder: &str, told: &[&str]| {
        let ran = place.run(&format!("{folder} --out out {OF_FILES} --threads 1"));
        ran.exits(1);
        for told in told {
            ran.says(told);
        }
        assert!(place.tree("out").is_empty(), "{folder}");
    };
    write_slice(&place, "unlike", 2, &Page::new(1, 50, 47));
    refused(
        "unlike",
        &[
            "it has 50x47 pixels of gray of 16 bits, but unlike/s1.tif, a slice of the same volume, has 61x47 pixels of gray of 16 bits",
            "unlike/s1.tif: unlike/s2.tif, of the same volume, failed; repair or remove it",
        ],
    );
    place.file("damaged/s2.tif", "II*\0 no more");
    refused("damaged", &["damaged/s1.tif: damaged/s2.tif, of the same volume, failed"]);
    // A damaged DICOM file belongs to an unknown series.
    place.file("damaged/s2.tif", [&[0; 128][..], b"DICM\x02\0\0\0UL"].concat());
    refused("damaged", &["damaged/s1.tif: damaged/s2.tif, of the same volume, failed"]);
    place.file("stack/s2.tif", plain(&pages, Storage::Stored));
    refused("stack", &["its pages are a volume of their own", "stack/s2.tif, of the same volume"]);
    refused("one", &["this file is", "alone in its folder"]);
    // A file with the output of another is no slice, and is missing from the volume.
    write_slice(&place, "shared", 1, &pages[0]);
    write_slice(&place, "shared", 2, &pages[1]);
    place.file("shared/s2.pgm", pages[1].pgm());
    let ran = place.run(&format!("shared --out out {OF_FILES} --format tiff"));
    ran.exits(1).says("would have the same output").says("of the same volume, failed");
    for (flags, told) in [
        ("--together all", "a volume is each channel and time of a file"),
        ("--together file", "a volume is each channel and time of a file"),
        ("--together folder --watch", "--watch and a queue never know when they are complete"),
        ("--together folder --shard 1/2", "give each machine folders of its own"),
        ("--together folder --resume", "--resume has no effect"),
    ] {
        let method = "--method clahe --tiles 3x2x4";
        place.run(&format!("shared --out out {method} {flags}")).exits(2).says(told);
    }
}
