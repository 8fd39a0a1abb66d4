//! Files of several pages: every page is equalized, alone and exactly; all else in the file stays;
//! the output has all pages or is not written.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use codec::{Budget, Cores, Limits, Target, Unbounded};
use equalize::{Depth, Layout, Levels, Method, Operation, Pixel, Scratch};

use crate::harness::{Place, Ran};
use crate::samples::Random;

pub(crate) const LIMITS: Limits = Limits { max_pixels: 1 << 28, max_bytes: 1 << 30 };
pub(crate) const TARGET: Target = Target::AS_STORED;

/// A page of 16-bit gray.
#[derive(Clone)]
pub(crate) struct Page {
    width: u32,
    height: u32,
    samples: Vec<u16>,
}

impl Page {
    /// A ramp with noise on it, between other levels for every number.
    pub(crate) fn new(number: usize, width: u32, height: u32) -> Self {
        let mut random = Random(number as u64 + 1);
        let low = 100 + 37 * number as u64;
        let sample = |at: u64| (low + at * 3000 / u64::from(width * height) + random.below(50)) as u16;
        Self { width, height, samples: (0..u64::from(width * height)).map(sample).collect() }
    }

    fn layout(&self) -> Layout {
        Layout { width: self.width, height: self.height, pixel: Pixel::Gray, depth: Depth::Sixteen }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    pub(crate) fn samples(&self) -> &[u16] {
        &self.samples
    }

    /// The page as a PGM.
    pub(crate) fn pgm(&self) -> Vec<u8> {
        let mut bytes = format!("P5 {} {} 65535\n", self.width, self.height).into_bytes();
        bytes.extend(self.samples.iter().flat_map(|sample| sample.to_be_bytes()));
        bytes
    }

    fn equalized(&self) -> Vec<u16> {
        self.equalized_by(&Operation::new(Method::Global))
    }

    fn equalized_by(&self, operation: &Operation) -> Vec<u16> {
        let mut pixels = self.samples.clone();
        let bytes = bytemuck::cast_slice_mut(&mut pixels);
        equalize::equalize(bytes, &self.layout(), operation, &mut Scratch::default());
        pixels
    }
}

/// Returns a page's samples mapped by a table of levels.
pub(crate) fn equalized_by(page: &Page, lut: &[u16]) -> Vec<u16> {
    page.samples.iter().map(|&sample| lut[usize::from(sample)]).collect()
}

/// The compression of a file's pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Storage {
    Stored,
    Lzw,
    Deflate,
}

const ALL: [Storage; 3] = [Storage::Stored, Storage::Lzw, Storage::Deflate];

impl Storage {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Stored => 1,
            Self::Lzw => 5,
            Self::Deflate => 8,
        }
    }

    pub(crate) fn packed(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Stored => bytes.to_vec(),
            Self::Lzw => {
                weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(bytes).unwrap()
            }
            Self::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }
}

/// A tag with a text.
pub(crate) type Text = (u16, String);

pub(crate) const DESCRIPTION: u16 = 270;
const PAGE_NAME: u16 = 285;

/// Returns a TIFF of these pages, each with the texts that `texts` gives it.
pub(crate) fn tiff(pages: &[Page], storage: Storage, texts: impl Fn(usize) -> Vec<Text>) -> Vec<u8> {
    tiff_stating(pages, storage, texts, &[])
}

/// Returns a TIFF of these pages, each with the texts that `texts` gives it, the first with further
/// numeric tags.
pub(crate) fn tiff_stating(
    pages: &[Page],
    storage: Storage,
    texts: impl Fn(usize) -> Vec<Text>,
    of_first: &[(u16, u32)],
) -> Vec<u8> {
    tiff_behind(&[], pages, storage, texts, of_first)
}

/// The same with these bytes behind the header.
fn tiff_behind(
    before: &[u8],
    pages: &[Page],
    storage: Storage,
    texts: impl Fn(usize) -> Vec<Text>,
    of_first: &[(u16, u32)],
) -> Vec<u8> {
    let mut file = [b"II*\0\0\0\0\0", before].concat();
    let mut link = 4;
    for (number, page) in pages.iter().enumerate() {
        let packed = storage.packed(&page.bytes());
        let strip = file.len() as u32;
        file.extend(&packed);
        file.resize(file.len().next_multiple_of(2), 0);
        let numbers = [
            (256, page.width),
            (257, page.height),
            (258, 16),
            (259, storage.number()),
            (262, 1),
            (273, strip),
            (277, 1),
            (278, page.height),
            (279, packed.len() as u32),
        ];
        let mut entries: Vec<(u16, u16, u32, u32)> = numbers
            .iter()
            .chain(of_first.iter().filter(|_| number == 0))
            .map(|&(tag, value)| (tag, 4, 1, value))
            .collect();
        for (tag, text) in texts(number) {
            let at = file.len() as u32;
            let text = format!("{text}\0\0\0\0");
            file.extend(text.bytes());
            file.resize(file.len().next_multiple_of(2), 0);
            entries.push((tag, 2, text.len() as u32, at));
        }
        entries.sort_unstable();
        let at = file.len() as u32;
        file[link..link + 4].copy_from_slice(&at.to_le_bytes());
        file.extend((entries.len() as u16).to_le_bytes());
        for (tag, kind, count, value) in entries {
            file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            file.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
        }
        link = file.len();
        file.extend([0; 4]);
    }
    file
}

pub(crate) fn plain(pages: &[Page], storage: Storage) -> Vec<u8> {
    tiff(pages, storage, |_| Vec::new())
}

/// Returns the samples of all pages of a file.
pub(crate) fn pages_of(path: &Path) -> Vec<Vec<u16>> {
    let decoded = |opened: codec::Opened<'_>| {
        let mut slot = vec![0u16; opened.slot_bytes() / 2];
        opened.decode(bytemuck::cast_slice_mut(&mut slot), &mut [], &Cores::none()).unwrap();
        slot
    };
    let budget: &mut dyn Budget = &mut Unbounded;
    let (mut file, mut buffer) = (File::open(path).unwrap(), Vec::new());
    let mut first = codec::open_within(budget, &mut file, &mut buffer, &LIMITS, &TARGET).unwrap();
    let Some(pages) = first.take_pages() else { return vec![decoded(first)] };
    let page = |index| {
        let (mut file, mut buffer) = (File::open(path).unwrap(), Vec::new());
        let page = pages.page(index);
        decoded(
            codec::pages::open_page(&mut Unbounded, &mut file, &mut buffer, &LIMITS, &TARGET, page).unwrap(),
        )
    };
    (0..pages.len()).map(page).collect()
}

fn some(count: usize) -> Vec<Page> {
    (0..count).map(|number| Page::new(number, 61 + number as u32 % 3, 47)).collect()
}

fn equalized(pages: &[Page]) -> Vec<Vec<u16>> {
    pages.iter().map(Page::equalized).collect()
}

#[test]
fn every_page_is_equalized_in_its_place_and_the_file_is_the_same_every_time() {
    let place = Place::new();
    let pages = some(40);
    for storage in ALL {
        place.file(format!("in/{storage:?}.tif"), plain(&pages, storage));
    }
    for threads in [1, 7] {
        place.run(&format!("in --out out{threads} --threads {threads}")).exits(0);
    }
    for storage in ALL {
        let name = format!("{storage:?}.tif");
        assert!(pages_of(&place.path(format!("out1/{name}"))) == equalized(&pages), "{name}");
        assert!(place.read(format!("out1/{name}")) == place.read(format!("out7/{name}")), "{name}");
    }
}

#[test]
fn what_describes_the_pages_stays_with_them() {
    let place = Place::new();
    let name = |number: usize| format!("slice {number}");
    let texts = |number| {
        let mut texts = vec![(PAGE_NAME, name(number))];
        if number == 0 {
            texts.push((
                DESCRIPTION,
                "ImageJ=1.53\nimages=3\nslices=3\nunit=um\nmin=100.0\nmax=400.0\n".into(),
            ));
        }
        texts
    };
    place.file("in/a.tif", tiff(&some(3), Storage::Lzw, texts));
    place.run("in --out out").exits(0);
    let output = place.read("out/a.tif");
    let place_of = |text: &str| memchr::memmem::find(&output, text.as_bytes());
    let places: Vec<_> = (0..3).map(|number| place_of(&name(number)).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(
        place_of("ImageJ=1.53\nimages=3\nslices=3\nunit=um\n\0").is_some(),
        "without the old display range"
    );
}

#[test]
fn what_the_first_page_says_holds_for_all() {
    const MAX_SAMPLE: u16 = 281;
    const GDAL_NODATA: u16 = 42113;
    const SEVERAL: &str = "<OME><Image><Pixels Type=\"uint16\" SignificantBits=\"12\"/></Image></OME>";
    let place = Place::new();
    let pages = some(3);
    let of_first = |texts: &[(u16, &str)]| {
        let texts: Vec<Text> = texts.iter().map(|&(tag, text)| (tag, text.to_owned())).collect();
        move |number| if number == 0 { texts.clone() } else { Vec::new() }
    };
    place.file("in/ome.tif", tiff(&pages, Storage::Deflate, of_first(&[(DESCRIPTION, SEVERAL)])));
    place.file("in/top.tif", tiff_stating(&pages, Storage::Stored, |_| Vec::new(), &[(MAX_SAMPLE, 4095)]));
    place.run("in --out out --levels auto").exits(0);
    let operation = Operation { levels: Levels::First(4096), ..Operation::new(Method::Global) };
    let expected: Vec<_> = pages.iter().map(|page| page.equalized_by(&operation)).collect();
    for name in ["ome", "top"] {
        assert!(pages_of(&place.path(format!("out/{name}.tif"))) == expected, "{name}");
    }
    // The least level of each page; that of the first page does not occur in the others.
    let level = |page: &Page| *page.samples.iter().min().unwrap();
    let mut pages = pages;
    let none = level(&pages[0]);
    pages.iter_mut().for_each(|page| page.samples.iter_mut().step_by(3).for_each(|sample| *sample = none));
    let text = none.to_string();
    place.file("holes/a.tif", tiff(&pages, Storage::Stored, of_first(&[(GDAL_NODATA, &text)])));
    place.run("holes --out out").exits(0);
    for (before, after) in pages.iter().zip(pages_of(&place.path("out/a.tif"))) {
        let is_hole = before.samples.iter().map(|&sample| sample == none);
        // Alpha marks the holes in the slot.
        let levels = after.iter().step_by(2);
        assert!(is_hole.eq(levels.map(|&sample| sample == none)));
    }
}

#[test]
fn pages_that_only_the_description_tells_of_are_written_back_the_same_way() {
    let place = Place::new();
    let pages: Vec<_> = (0..9).map(|number| Page::new(number, 31, 33)).collect();
    for (name, description) in [
        ("imagej", "ImageJ=1.53\nimages=9\nslices=9\n"),
        ("tifffile", "{\"shape\": [9, 33, 31], \"truncated\": true}"),
    ] {
        let first = tiff(&pages[..1], Storage::Stored, |_| vec![(DESCRIPTION, description.into())]);
        // The directory, which follows the first page, moves to the end of all pages.
        let (mut file, length) = (first.clone(), pages[0].bytes().len());
        let (head, tail) = (8 + length, first.len() - 8 - length);
        let rest: Vec<u8> = pages[1..].iter().flat_map(Page::bytes).collect();
        file.splice(head..head, rest.iter().copied());
        let moved = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) + rest.len() as u32;
        let directory = moved(4);
        let entries = usize::from(file[directory as usize]);
        let of_text =
            (0..entries).map(|number| directory as usize + 2 + 12 * number).find(|&at| file[at + 2] == 2);
        let (value, text) = (of_text.unwrap() + 8, moved(of_text.unwrap() + 8));
        file[value..value + 4].copy_from_slice(&text.to_le_bytes());
        file[4..8].copy_from_slice(&directory.to_le_bytes());
        assert_eq!(file.len(), head + rest.len() + tail);
        place.file(format!("in/{name}.tif"), &file);
    }
    place.run("in --out out --threads 3").exits(0);
    for name in ["imagej", "tifffile"] {
        let output = place.path(format!("out/{name}.tif"));
        assert!(pages_of(&output) == equalized(&pages), "{name}");
        let bytes = fs::read(&output).unwrap();
        let directory = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let entries = usize::from(bytes[directory]);
        assert_eq!(bytes[directory + 2 + 12 * entries..][..4], [0; 4], "{name} has one directory");
        assert!(bytes.ends_with(&last_bytes(&pages)), "{name}: nothing lies behind the pages");
    }
}

/// Returns the bytes of the last page, equalized.
fn last_bytes(pages: &[Page]) -> Vec<u8> {
    pages.last().unwrap().equalized().iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Returns the offsets of a file's directories.
fn directories(file: &[u8]) -> Vec<u32> {
    let number = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    let next = |&at: &u32| {
        let entries = usize::from(u16::from_le_bytes(*file[at as usize..].first_chunk().unwrap()));
        Some(number(at as usize + 2 + 12 * entries)).filter(|&next| next > 0)
    };
    std::iter::successors(Some(number(4)), next).collect()
}

#[test]
fn micro_managers_metadata_behind_the_header_stay_with_a_stack_and_leave_with_a_page() {
    const SUMMARY: &[u8] = b"{\"Channels\":1}";
    let place = Place::new();
    let pages = some(3);
    let before = |directories: &[u32]| {
        let index = 40 + SUMMARY.len() as u32;
        let table = [54_773_648, index, 483_765_892, 0, 99_384_722, 0, 2_355_492, SUMMARY.len() as u32];
        let entries = directories.iter().zip(0..).flat_map(|(&at, slice)| [0, slice, 0, 0, at]);
        let index: Vec<u32> = [3_453_623, directories.len() as u32].into_iter().chain(entries).collect();
        let bytes =
            |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        [bytes(&table), SUMMARY.to_vec(), bytes(&index)].concat()
    };
    let of_page = |number: usize| vec![(51_123, format!("{{\"Slice\": {number}}}"))];
    for storage in ALL {
        let file = |before: &[u8]| tiff_behind(before, &pages, storage, of_page, &[]);
        place.file("in/a.tif", file(&before(&directories(&file(&before(&[0; 3]))))));
        let ran = place.run(&format!("in --out {storage:?}"));
        assert!(!ran.exits(0).stderr().contains("Note:"), "{}", ran.stderr());
        let written = place.read(format!("{storage:?}/a.tif"));
        assert!(written[8..].starts_with(&before(&directories(&written))), "{storage:?}");
        assert_eq!(pages_of(&place.path(format!("{storage:?}/a.tif"))), equalized(&pages), "{storage:?}");
        for number in 0..3 {
            let text = of_page(number)[0].1.clone();
            assert!(written.windows(text.len()).any(|bytes| bytes == text.as_bytes()), "{text}");
        }
    }
    let ran = place.run("in --out apart --frames split --format tiff");
    ran.exits(0).says("without metadata outside of directories (Micro-Manager's with those of its pages");
    for name in place.tree("apart") {
        let file = place.read(format!("apart/{name}"));
        assert!(!file.windows(8).any(|bytes| bytes == b"\"Slice\":"), "{name}");
    }
}

#[test]
fn a_file_fails_as_a_whole_and_the_page_is_named() {
    let place = Place::new();
    let pages = some(12);
    let mut damaged = plain(&pages, Storage::Deflate);
    let fifth: Vec<u8> = Storage::Deflate.packed(&pages[4].bytes());
    let at = memchr::memmem::find(&damaged, &fifth).unwrap();
    damaged[at + 20..at + 60].fill(0xff);
    place.file("in/damaged.tif", &damaged);
    place.file("in/whole.tif", plain(&pages, Storage::Deflate));
    let ran = place.run("in --out out --threads 4");
    ran.exits(1);
    let told = ran.stderr();
    assert_eq!(told.matches("damaged.tif: page 5: damaged TIFF").count(), 1, "{told}");
    assert_eq!(place.tree("out"), ["whole.tif"]);
}

#[test]
fn a_file_that_ends_before_its_last_page_is_damaged() {
    let place = Place::new();
    let whole = plain(&some(5), Storage::Stored);
    place.file("in/cut.tif", &whole[..whole.len() - 40]);
    let ran = place.run("in --out out");
    ran.exits(1).says("cut.tif: damaged TIFF: the directory of a page is outside the file");
    assert!(place.tree("out").is_empty());
}

#[test]
fn a_description_that_tells_of_very_many_pages_is_refused() {
    let place = Place::new();
    let description = "ImageJ=1.53\nimages=100001\n".to_owned();
    let page = Page::new(0, 1, 1);
    let mut file = tiff(&[page], Storage::Stored, |_| vec![(DESCRIPTION, description.clone())]);
    file.resize(file.len() + 2 * 100_001, 0);
    place.file("many.tif", file);
    place.run("many.tif --out out").exits(1).says("a TIFF of more than 100000 pages is not supported");
}

#[test]
fn many_pages_need_no_more_memory_than_few() {
    let place = Place::new();
    let pages: Vec<_> = (0..60).map(|number| Page::new(number % 7, 512, 256)).collect();
    for storage in [Storage::Stored, Storage::Lzw] {
        place.file(format!("in/{storage:?}.tif"), plain(&pages, storage));
    }
    // A page takes 256 KiB, all of them 30 MiB.
    place.run("in --out out --memory 4MiB --threads 4").exits(0);
    for storage in [Storage::Stored, Storage::Lzw] {
        assert!(pages_of(&place.path(format!("out/{storage:?}.tif"))) == equalized(&pages), "{storage:?}");
    }
}

#[test]
fn pages_that_a_worker_loses_are_done_again_and_the_file_is_the_same() {
    let place = Place::new();
    let pages = some(50);
    for storage in ALL {
        place.file(format!("in/{storage:?}.tif"), plain(&pages, storage));
    }
    place.run("in --out expected").exits(0);
    for fault in ["exit@7", "fail@5"] {
        let mut command = place.histeqd("in --out out --devices cpu-workers:2 --device-timeout 60s");
        let ran = Ran::from({
            command.env("HISTEQD_FAULT", fault);
            command
        });
        ran.exits(0);
        for storage in ALL {
            let name = format!("{storage:?}.tif");
            assert!(
                place.read(format!("out/{name}")) == place.read(format!("expected/{name}")),
                "{fault}: {name}"
            );
        }
        fs::remove_dir_all(place.path("out")).unwrap();
    }
}

#[test]
fn a_format_without_pages_is_refused_with_a_remedy_and_standard_output_takes_them() {
    let place = Place::new();
    let pages = some(3);
    place.file("a.tif", plain(&pages, Storage::Lzw));
    let ran = place.run("a.tif --out out --format png");
    ran.exits(1).says(
        "PNG cannot hold the 3 pages of a TIFF; write each into a file of its own (--frames split) or all as TIFF",
    );
    place.run("a.tif --out split --frames split").exits(0);
    assert_eq!(place.tree("split"), ["a/a-00001.tif", "a/a-00002.tif", "a/a-00003.tif"]);
    let to = File::create(place.path("b.tif")).unwrap();
    let status = place.histeqd("a.tif --out -").stdout(Stdio::from(to)).status().unwrap();
    assert!(status.success());
    assert!(pages_of(&place.path("b.tif")) == equalized(&pages));
}

#[test]
fn the_histogram_of_a_file_is_that_of_all_its_pages() {
    let place = Place::new();
    let pages: Vec<_> = (0..5).map(|number| Page::new(number, 40, 30)).collect();
    let tall = Page {
        width: 40,
        height: 150,
        samples: pages.iter().flat_map(|page| page.samples.clone()).collect(),
    };
    place.file("pages.tif", plain(&pages, Storage::Deflate));
    place.file("tall.tif", plain(&[tall], Storage::Deflate));
    let table = |name: &str| {
        let ran = place.run(&format!("histogram {name} --bins 256"));
        ran.exits(0);
        // The size is that of one page.
        ran.stdout().replace(&format!("{name},40,30,"), "").replace(&format!("{name},40,150,"), "")
    };
    assert_eq!(table("pages.tif"), table("tall.tif"));
}

#[test]
fn all_pages_of_a_reference_count() {
    let place = Place::new();
    let pages = [Page::new(0, 30, 20), Page::new(5, 40, 10), Page::new(40, 7, 9)];
    let picture = Page::new(11, 50, 30);
    place.file("reference.tif", plain(&pages, Storage::Lzw));
    place.file("in/a.tif", plain(std::slice::from_ref(&picture), Storage::Stored));
    place.run("in --out done --method match --reference reference.tif").exits(0);
    let mut counts = vec![0; 65536];
    pages.iter().flat_map(|page| &page.samples).for_each(|&sample| counts[usize::from(sample)] += 1);
    let (mut expected, operation) = (picture.samples.clone(), Operation::new(Method::Match));
    let bytes = bytemuck::cast_slice_mut(&mut expected);
    equalize::equalize_like(bytes, &picture.layout(), &operation, &counts, &mut Scratch::default());
    assert!(pages_of(&place.path("done/a.tif")) == [expected]);
}
