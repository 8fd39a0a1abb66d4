//! The arithmetic against OpenCV and against a numpy model. The source of the files is in
//! `tests/golden/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::project;
use equalize::clahe::equalize_volume_on;
use equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Method, Operation, Pixel, Scratch, Sequential, Strength, Tiles,
    equalize, equalize_gray8,
};

/// Returns the folder of the golden files: the committed one, or the one that HISTEQD_GOLDEN names
/// (from `make.py SOURCES OUT`).
fn golden() -> PathBuf {
    std::env::var_os("HISTEQD_GOLDEN").map_or_else(|| project().join("tests/golden"), PathBuf::from)
}

/// A picture with 8-bit or 16-bit samples, in memory that is aligned for both.
struct Picture {
    layout: Layout,
    words: Vec<u16>,
}

impl Picture {
    fn pixels_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.layout.bytes() as usize]
    }

    /// Reads a PGM, PPM or PAM file as `make.py` writes it, with a fixed number of header lines and
    /// no comments.
    fn read(path: &Path) -> Self {
        let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (magic, _) = file.split_at(2);
        let header_lines = if magic == b"P7" { 7 } else { 3 };
        let end =
            file.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').nth(header_lines - 1).unwrap().0;
        let header = std::str::from_utf8(&file[..end]).unwrap();
        let mut numbers = header[2..].split_whitespace().filter_map(|word| word.parse::<u32>().ok());
        let mut number = || numbers.next().unwrap();
        let (width, height) = (number(), number());
        let pixel = match magic {
            b"P5" => Pixel::Gray,
            b"P6" => Pixel::Rgb,
            _ if number() == 2 => Pixel::GrayAlpha,
            _ => Pixel::Rgba,
        };
        let depth = if number() == 255 { Depth::Eight } else { Depth::Sixteen };
        let layout = Layout { width, height, pixel, depth };
        let mut picture = Self { layout, words: vec![0; layout.bytes().div_ceil(2) as usize] };
        let samples = &file[end + 1..];
        match depth {
            Depth::Eight => picture.pixels_mut().copy_from_slice(samples),
            Depth::Sixteen => {
                for (word, bytes) in picture.words.iter_mut().zip(samples.as_chunks().0) {
                    *word = u16::from_be_bytes(*bytes);
                }
            }
        }
        picture
    }

    /// Returns the 64-bit FNV-1a hash of the samples in little-endian order, in hexadecimal.
    fn hash(&mut self) -> String {
        if self.layout.depth == Depth::Sixteen {
            self.words.iter_mut().for_each(|word| *word = word.to_le());
        }
        let hash = self.pixels_mut().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

#[test]
fn every_case_gives_its_bytes() {
    let cases = fs::read_to_string(golden().join("cases.tsv")).unwrap();
    let mut scratch = Scratch::default();
    let mut wrong = Vec::new();
    let mut done = 0;
    for case in cases.lines().skip(1) {
        let fields: Vec<_> = case.split('\t').collect();
        let [file, colour, limit, x, y, strength, hash] = fields[..] else {
            panic!("a case has seven fields: {case}")
        };
        let method = match limit {
            "global" => Method::Global,
            limit => Method::Clahe(Clahe {
                clip_limit: if limit == "auto" {
                    ClipLimit::Auto
                } else {
                    ClipLimit::Times(limit.parse().unwrap())
                },
                tiles: Tiles::Grid { x: x.parse().unwrap(), y: y.parse().unwrap() },
                noise: 0,
            }),
        };
        let colour = match colour {
            "luma" => Colour::Luma,
            "hue" => Colour::Hue,
            "per-channel" => Colour::PerChannel,
            other => panic!("{other}: {case}"),
        };
        let mut picture = Picture::read(&golden().join(file));
        let layout = picture.layout;
        let strength = Strength::thousandths(strength.parse().unwrap()).unwrap();
        let operation = Operation { colour, strength, ..Operation::new(method) };
        equalize(picture.pixels_mut(), &layout, &operation, &mut scratch);
        if picture.hash() != hash {
            wrong.push(case);
        }
        done += 1;
    }
    assert!(done > 200, "only {done} cases");
    assert!(wrong.is_empty(), "{} of {done} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_volume_gives_its_bytes() {
    let cases = fs::read_to_string(project().join("tests/golden/volumes.tsv")).unwrap();
    let mut done = 0;
    for case in cases.lines().skip(1) {
        let fields: Vec<_> = case.split('\t').collect();
        let number = |at: usize| fields[at].parse::<u32>().unwrap();
        let (width, height, pages) = (number(0), number(1), number(2));
        let depth = if number(3) == 8 { Depth::Eight } else { Depth::Sixteen };
        let layout = Layout { width, height, pixel: Pixel::Gray, depth };
        let tiles = Tiles::Boxes { x: number(5), y: number(6), z: number(7) };
        let clip_limit = ClipLimit::Times(fields[4].parse().unwrap());
        let operation = Operation::new(Method::Clahe(Clahe { clip_limit, tiles, noise: 0 }));
        // The voxels are those of `volumes.py`. The hash is of the pictures one below the other.
        let stacked = Layout { height: height * pages, ..layout };
        let mut volume = Picture { layout: stacked, words: vec![0; stacked.bytes().div_ceil(2) as usize] };
        let plane = u64::from(width * height);
        for at in 0..plane * u64::from(pages) {
            let noise = (at * 2_654_435_761 % (1 << 32)) >> 16;
            let value = (noise / 4 + at % plane * 40_000 / plane + at / plane * 500) % 65_536;
            match depth {
                Depth::Eight => volume.pixels_mut()[at as usize] = (value >> 8) as u8,
                Depth::Sixteen => volume.words[at as usize] = value as u16,
            }
        }
        assert!(equalize_volume_on(&Sequential, volume.pixels_mut(), &layout, pages as usize, &operation));
        assert_eq!(volume.hash(), fields[8], "{case}");
        done += 1;
    }
    assert!(done > 10, "only {done} cases");
}

#[test]
fn opencvs_equalization_is_within_one_level() {
    let mut compared = 0;
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(stem) = name.strip_suffix(".opencv.pgm") else { continue };
        let mut ours = Picture::read(&golden().join(format!("{stem}.pgm")));
        equalize_gray8(ours.pixels_mut());
        let mut theirs = Picture::read(&path);
        let worst = ours.pixels_mut().iter().zip(theirs.pixels_mut()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(worst <= Some(1), "{name}: {worst:?} levels apart");
        compared += 1;
    }
    assert!(compared >= 9, "only {compared} pictures");
}
