//! `--together`: one table of levels for the pages of a file, the pictures of a folder, or all,
//! made of the sum of their histograms.

use std::fs;
use std::path::Path;

use crate::harness::{Place, Ran};
use crate::stacks::{Page, Storage, equalized_by, pages_of, plain};

/// Pages of a scene with an exposure that differs from frame to frame.
fn frames(count: usize) -> Vec<Page> {
    (0..count).map(|number| Page::new(number, 64, 48)).collect()
}

/// Returns pages equalized by the one table of levels of them all, by the textbook's formula.
fn together(pages: &[&Page]) -> Vec<Vec<u16>> {
    let lut = table(pages.iter().flat_map(|page| page.samples().iter().copied()), 65_536);
    pages.iter().map(|page| equalized_by(page, &lut)).collect()
}

/// Returns the table for samples of so many levels, by the textbook's formula.
pub(crate) fn table(samples: impl Iterator<Item = u16>, levels: usize) -> Vec<u16> {
    let mut counts = vec![0_u128; levels];
    samples.for_each(|sample| counts[usize::from(sample)] += 1);
    let all: u128 = counts.iter().sum();
    let first = counts.iter().position(|&count| count > 0).unwrap();
    let (spread, top) = (all - counts[first], levels as u128 - 1);
    let mut running = 0;
    let of_level = |level: usize| {
        running += counts[level];
        match level < first {
            true => 0,
            false => ((2 * (running - counts[first]) * top + spread) / (2 * spread)) as u16,
        }
    };
    (0..levels).map(of_level).collect()
}

fn references(pages: &[Page]) -> Vec<&Page> {
    pages.iter().collect()
}

#[test]
fn the_pages_of_a_file_stay_comparable() {
    let place = Place::new();
    let pages = frames(30);
    place.file("in/a.tif", plain(&pages, Storage::Lzw));
    place.file("in/single.tif", plain(&pages[..1], Storage::Lzw));
    place.run("in --out file --together file").exits(0);
    assert!(pages_of(&place.path("file/a.tif")) == together(&references(&pages)));
    // The mean levels of the file rise from frame to frame, like those of the scene.
    let mean = |page: &[u16]| page.iter().map(|&sample| u64::from(sample)).sum::<u64>() / page.len() as u64;
    let means: Vec<_> = pages_of(&place.path("file/a.tif")).iter().map(|page| mean(page)).collect();
    assert!(means.is_sorted() && means[29] > means[0] + 10_000, "{means:?}");
    place.run("in --out page").exits(0);
    let means: Vec<_> = pages_of(&place.path("page/a.tif")).iter().map(|page| mean(page)).collect();
    assert!(means.iter().max().unwrap() - means.iter().min().unwrap() < 1_000, "{means:?}");
    assert!(place.read("file/single.tif") == place.read("page/single.tif"));
}

/// Writes frames as PGMs into folders, the file of each number into folder number modulo `folders`.
fn folders(place: &Place, pages: &[Page], folders: usize) {
    for (number, page) in pages.iter().enumerate() {
        place.file(format!("in/{}/{number:02}.pgm", number % folders), page.pgm());
    }
}

/// Returns the samples of a 16-bit PGM of 64 x 48.
fn samples(place: &Place, name: impl AsRef<Path>) -> Vec<u16> {
    let bytes = place.read(name);
    let samples = &bytes[bytes.len() - 2 * 64 * 48..];
    samples.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair)).collect()
}

#[test]
fn the_pictures_of_each_folder_or_all_have_one_table() {
    let place = Place::new();
    let pages = frames(12);
    folders(&place, &pages, 3);
    place.run("in --out folder --together folder").exits(0);
    for folder in 0..3 {
        let of_folder: Vec<_> = pages.iter().skip(folder).step_by(3).collect();
        for (place_in, expected) in together(&of_folder).iter().enumerate() {
            let number = folder + 3 * place_in;
            assert!(samples(&place, format!("folder/{folder}/{number:02}.pgm")) == *expected, "{number}");
        }
    }
    // The outputs are the same whether pictures stay in memory or are decoded again, on any device.
    let all = together(&references(&pages));
    let ways = ["--threads 1", "--memory 1MiB --threads 3", "--devices cpu-workers:2", "--threads 8"];
    for (number, flags) in ways.into_iter().enumerate() {
        place.run(&format!("in --out all{number} --together all {flags}")).exits(0);
        for (picture, expected) in all.iter().enumerate() {
            let name = format!("all{number}/{}/{picture:02}.pgm", picture % 3);
            assert!(samples(&place, &name) == *expected, "{name} with {flags}");
        }
    }
}

#[test]
fn what_fails_does_not_count_and_a_lost_worker_costs_nothing() {
    let place = Place::new();
    let pages = frames(20);
    folders(&place, &pages, 1);
    place.file("in/0/short.pgm", &pages[0].pgm()[..1000]);
    let mut stack = plain(&frames(3), Storage::Deflate);
    let middle = stack.len() / 2;
    stack[middle..middle + 40].fill(0xff);
    place.file("in/0/stack.tif", stack);
    let mut command =
        place.histeqd("in --out out --together all --devices cpu-workers:2 --device-timeout 60s");
    command.env("HISTEQD_FAULT", "exit@9");
    Ran::from(command).exits(1).says("short.pgm").says("stack.tif: page 2");
    for (number, expected) in together(&references(&pages)).iter().enumerate() {
        assert!(samples(&place, format!("out/0/{number:02}.pgm")) == *expected, "{number}");
    }
    assert_eq!(place.tree("out").len(), 20);
}

#[test]
fn a_file_several_pages_of_which_fail_at_once_is_left_out_once() {
    let place = Place::new();
    let pages = frames(3);
    folders(&place, &pages, 1);
    let damaged: Vec<Page> = (0..12).map(|number| Page::new(number, 160, 160)).collect();
    let mut stack = plain(&damaged, Storage::Deflate);
    for page in &damaged {
        let packed = Storage::Deflate.packed(&page.bytes());
        let at = memchr::memmem::find(&stack, &packed).unwrap();
        // A damaged checksum shows only once all data are decoded.
        stack[at + packed.len() - 1] ^= 1;
    }
    place.file("in/0/a.tif", stack);
    // The pages under way at the same time differ from run to run.
    for run in 0..40 {
        place.run("in --out out --together folder --threads 4 --overwrite").exits(1).says("a.tif: page ");
        for (number, expected) in together(&references(&pages)).iter().enumerate() {
            assert!(samples(&place, format!("out/0/{number:02}.pgm")) == *expected, "{number} of run {run}");
        }
    }
}

#[test]
fn a_group_is_done_again_if_one_of_it_is_new_and_others_are_not() {
    let place = Place::new();
    let pages = frames(8);
    folders(&place, &pages[..6], 2);
    let arguments = "in --out out --together folder";
    place.run(arguments).exits(0).says("Done: 6 pictures");
    place.run(arguments).exits(0).says("6 already done");
    place.file("in/0/06.pgm", pages[6].pgm());
    place.run(arguments).exits(0).says("Done: 4 pictures").says("3 already done");
    let of_folder: Vec<_> = pages[..7].iter().step_by(2).collect();
    for (place_in, expected) in together(&of_folder).iter().enumerate() {
        assert!(samples(&place, format!("out/0/{:02}.pgm", 2 * place_in)) == *expected);
    }
}

#[test]
fn every_kind_of_picture_has_a_table_of_its_own() {
    let place = Place::new();
    let gray = |low: u8| [b"P5 16 2 255\n".to_vec(), (0..32).map(|n| low + n).collect()].concat();
    let colour = |low: u8| [b"P6 8 2 255\n".to_vec(), (0..48).map(|n| low + 3 * (n % 16)).collect()].concat();
    for (name, picture) in
        [("a.pgm", gray(10)), ("b.pgm", gray(100)), ("c.ppm", colour(20)), ("d.ppm", colour(90))]
    {
        place.file(format!("mixed/{name}"), &picture);
        let own = if name.ends_with("pgm") { "gray" } else { "colour" };
        place.file(format!("{own}/{name}"), &picture);
    }
    for color in ["luma", "per-channel", "linked"] {
        for folder in ["mixed", "gray", "colour"] {
            let out = format!("{color}-{folder}");
            place.run(&format!("{folder} --out {out} --together all --color {color}")).exits(0);
        }
        for (folder, name) in [("gray", "a.pgm"), ("gray", "b.pgm"), ("colour", "c.ppm"), ("colour", "d.ppm")]
        {
            let mixed = place.read(format!("{color}-mixed/{name}"));
            assert!(mixed == place.read(format!("{color}-{folder}/{name}")), "{color} {name}");
        }
    }
    assert_ne!(place.read("luma-mixed/c.ppm"), place.read("per-channel-mixed/c.ppm"));
}

#[test]
fn counts_of_several_runs_add_up_to_those_of_one() {
    let place = Place::new();
    let pages = frames(10);
    folders(&place, &pages, 2);
    place.run("in --out one --together all").exits(0);
    for folder in 0..2 {
        place.run(&format!("histogram in/{folder} --counts counts/{folder}.json")).exits(0);
    }
    let luts = "--lut counts/0.json --lut counts/1.json";
    place.run(&format!("in --out two {luts}")).exits(0);
    place.run(&format!("in --out three {luts} --devices cpu-workers:2")).exits(0);
    for (number, _) in pages.iter().enumerate() {
        let name = format!("{}/{number:02}.pgm", number % 2);
        let expected = place.read(format!("one/{name}"));
        assert!(
            place.read(format!("two/{name}")) == expected && place.read(format!("three/{name}")) == expected
        );
    }
    // The same files again are the same settings; another content is not.
    place.run(&format!("in --out two {luts}")).exits(0).says("10 already done");
    place.run("histogram in/0 --counts counts/1.json").exits(0);
    place.run(&format!("in --out two {luts}")).exits(0).says("Done: 10 pictures");
    place.file("colour/a.ppm", b"P6 1 1 255\nabc");
    place
        .run(&format!("colour --out two {luts}"))
        .exits(1)
        .says("no counts for its kind of picture (rgb of 8 bits)");
    place.file("broken.json", "{}");
    place
        .run("in --out two --lut broken.json")
        .exits(2)
        .says("broken.json is not a file of counts from `histeqd histogram");
    place.run("in --out two --lut missing.json").exits(2).says("missing.json cannot be read");
    place.run(&format!("in --out two {luts} --method clahe")).exits(2).says("--lut is one table of levels");
    place.run(&format!("in --out two {luts} --together all")).exits(2).says("--together has no effect");
}

#[test]
fn what_has_no_common_table_is_refused() {
    let place = Place::new();
    place.file("in/a.pgm", frames(1)[0].pgm());
    for (flags, why) in [
        ("--together file --method clahe", "--together file needs one LUT"),
        (
            "--together all --split-channels --color per-channel",
            "--together all and --split-channels exclude each other",
        ),
        ("--together folder --watch", "--together folder needs all pictures"),
        ("--together all --resume", "--together all counts all pictures again, so --resume has no effect"),
    ] {
        place.run(&format!("in --out out {flags}")).exits(2).says(why);
    }
    fs::write(
        place.path("in/f.pfm"),
        [b"Pf 2 1 -1\n".to_vec(), [0.5_f32, 1.0].map(f32::to_le_bytes).concat()].concat(),
    )
    .unwrap();
    place
        .run("in --out out --together all")
        .exits(1)
        .says("f.pfm: its range of values is its own minimum and maximum");
    place.run("in/f.pfm --out out --together all --range 0..1").exits(0);
}
