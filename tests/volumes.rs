//! `--tiles XxYxZ`: CLAHE of stacks with boxes as tiles. What the library makes of a whole volume is compared with its definition in NumPy elsewhere.

use std::fs;
use std::path::Path;

use equalize::clahe::equalize_volume_on;
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Sequential, Strength, Tiles};

use crate::harness::{Place, project};
use crate::stacks::{DESCRIPTION, Page, Storage, pages_of, plain, tiff};

const LAYOUT: Layout = Layout { width: 61, height: 47, pixel: Pixel::Gray, depth: Depth::Sixteen };

fn slices(count: usize) -> Vec<Page> {
    (0..count).map(|number| Page::new(number, LAYOUT.width, LAYOUT.height)).collect()
}

fn boxes(clip_limit: ClipLimit) -> Operation {
    Operation::new(Method::Clahe(Clahe { clip_limit, tiles: Tiles::Boxes { x: 3, y: 2, z: 4 } }))
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
    // The levels that occur are those of all pages.
    place.run("in/a.tif --out auto --method clahe --tiles 3x2x4 --strength 0.5").exits(0);
    let operation = Operation { strength: Strength::thousandths(500).unwrap(), ..boxes(ClipLimit::Auto) };
    assert!(pages_of(&place.path("auto/a.tif")) == equalized(&samples(&pages), &operation));
    place.run("in/a.tif --out files --method clahe --tiles 3x2x4 --clip-limit 2.5 --frames split").exits(0);
    let expected = equalized(&samples(&pages), &boxes(ClipLimit::Times(2.5)));
    let last = pages_of(&place.path("files/a/a-00009.tif"));
    assert!(last == expected[8..]);
    // Done is done.
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
    let clahe = Clahe { clip_limit: ClipLimit::Times(3.0), tiles: Tiles::Boxes { x: 2, y: 2, z: 2 } };
    let operation = Operation::new(Method::Clahe(clahe));
    let bytes = bytemuck::cast_slice_mut(&mut volume);
    assert!(equalize_volume_on(&Sequential, bytes, &layout, pages, &operation));
    assert!(found.1 == volume && pages > 1);
}

/// Returns the layout of a page, the samples of all pages, and how many there are.
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
    place.file("two.tif", {
        let description = "ImageJ=1.53\nimages=4\nchannels=2\nslices=2\n";
        tiff(&pages, Storage::Stored, |_| vec![(DESCRIPTION, description.into())])
    });
    place.file("unlike.tif", plain(&[slices(1).remove(0), Page::new(1, 50, 47)], Storage::Stored));
    place.file("stack.tif", plain(&pages, Storage::Stored));
    let refused = |input: &str, more: &str, told: &str| {
        place.run(&format!("{input} --out out --method clahe --tiles 2x2x2 {more}")).exits(1).says(told);
        assert!(place.tree("out").is_empty());
    };
    refused(
        "one.tif",
        "",
        "divides the pages of a stack into boxes, and it is one picture; use two, such as 8x8",
    );
    refused("one.tif", "--dry-run", "it is one picture");
    refused("two.tif", "", "its pages are of several channels, times or images");
    refused("unlike.tif", "", "its pages are not of one kind");
    place
        .run("histogram stack.tif --equalized --method clahe --tiles 2x2x2")
        .exits(1)
        .says("what boxes of --tiles make of a stack is not counted");
    place
        .run("stack.tif --out out --method clahe --tiles 2x2x2 --color per-channel --split-channels")
        .exits(2)
        .says("--tiles with three numbers and --split-channels exclude each other");
    place.run("stack.tif --out out --method clahe --tiles 2x2x0").exits(2).says("or 8x8x4 for stacks");
}
