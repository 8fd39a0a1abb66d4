//! Files whose directories lie before all tiles, the picture's last: cloud-optimized GeoTIFFs, with
//! or without masks, and the pyramids of slides.

use std::collections::BTreeMap;

use crate::harness::{Place, Ran};
use crate::samples::Random;

const KIND: u16 = 254;
const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const PHOTOMETRIC: u16 = 262;
const DESCRIPTION: u16 = 270;
const CHANNELS: u16 = 277;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const OFFSETS: u16 = 324;
const LENGTHS: u16 = 325;
const EXTRA: u16 = 338;
const XMP: u16 = 700;

const SMALLER: u32 = 1;
const MASK: u32 = 4;

/// A page of stored tiles, and its samples from top to bottom.
#[derive(Clone)]
struct Page {
    size: (u32, u32),
    channels: u32,
    tile: u32,
    samples: Vec<u8>,
    /// Its tags besides those of size and storage; bytes are text.
    tags: BTreeMap<u16, Values>,
}

#[derive(Clone)]
enum Values {
    Numbers(Vec<u32>),
    Text(&'static str),
}

impl Values {
    fn entry(&self) -> (u16, usize, Vec<u8>) {
        match self {
            Self::Numbers(numbers) => {
                (4, numbers.len(), numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
            }
            Self::Text(text) => (2, text.len() + 1, [text.as_bytes(), b"\0"].concat()),
        }
    }
}

impl Page {
    fn new(size: (u32, u32), channels: u32, photometric: u32, samples: Vec<u8>) -> Self {
        assert_eq!(samples.len(), (size.0 * size.1 * channels) as usize);
        let colours = if photometric == 2 { 3 } else { 1 };
        let mut tags = BTreeMap::from([
            (BITS, Values::Numbers(vec![8; channels as usize])),
            (PHOTOMETRIC, Values::Numbers(vec![photometric])),
            (CHANNELS, Values::Numbers(vec![channels])),
        ]);
        if channels > colours {
            tags.insert(EXTRA, Values::Numbers(vec![0; (channels - colours) as usize]));
        }
        Self { size, channels, tile: 128, samples, tags }
    }

    /// Returns a page whose channels rise to the right or downwards, with some noise.
    fn natural(size: (u32, u32), channels: u32, photometric: u32) -> Self {
        let mut random = Random(u64::from(size.0 + channels));
        let places = (0..size.1).flat_map(|y| (0..size.0).map(move |x| (x, y)));
        let samples = places.flat_map(|(x, y)| {
            let noise = random.below(9) as u32;
            (0..channels).map(move |channel| {
                let along = if channel % 2 == 0 { x * 60 / size.0 } else { y * 90 / size.1 };
                (20 * (channel % 5) + along + noise) as u8
            })
        });
        Self::new(size, channels, photometric, samples.collect())
    }

    fn with(mut self, tag: u16, values: Values) -> Self {
        self.tags.insert(tag, values);
        self
    }

    fn of_kind(self, kind: u32) -> Self {
        self.with(KIND, Values::Numbers(vec![kind]))
    }

    fn described(self, text: &'static str) -> Self {
        self.with(DESCRIPTION, Values::Text(text))
    }

    fn in_tiles_of(self, tile: u32) -> Self {
        Self { tile, ..self }
    }

    fn tiles(&self) -> Vec<Vec<u8>> {
        let (width, height, tile, channels) =
            (self.size.0, self.size.1, self.tile as usize, self.channels as usize);
        let mut all = Vec::new();
        for top in (0..height).step_by(tile) {
            for left in (0..width).step_by(tile) {
                let mut samples = vec![0; tile * tile * channels];
                for y in top..height.min(top + self.tile) {
                    let count = (width - left).min(self.tile) as usize * channels;
                    let from = (y * width + left) as usize * channels;
                    samples[(y - top) as usize * tile * channels..][..count]
                        .copy_from_slice(&self.samples[from..][..count]);
                }
                all.push(samples);
            }
        }
        all
    }
}

/// Returns a file of pages: all directories, and then the tiles, those of the first page last.
fn cog(pages: &[Page]) -> Vec<u8> {
    let tiles: Vec<_> = pages.iter().map(Page::tiles).collect();
    let mut places: Vec<_> = tiles.iter().map(|tiles| vec![0; tiles.len()]).collect();
    let mut end = directories(pages, &tiles, &places).len() as u32;
    for (places, tiles) in places.iter_mut().zip(&tiles).rev() {
        for (place, tile) in places.iter_mut().zip(tiles) {
            (*place, end) = (end, end + tile.len() as u32);
        }
    }
    let mut file = directories(pages, &tiles, &places);
    file.extend(tiles.into_iter().rev().flatten().flatten());
    file
}

fn directories(pages: &[Page], tiles: &[Vec<Vec<u8>>], places: &[Vec<u32>]) -> Vec<u8> {
    let mut file = b"II*\0\x08\0\0\0".to_vec();
    for (number, ((page, tiles), places)) in pages.iter().zip(tiles).zip(places).enumerate() {
        let mut tags = page.tags.clone();
        let lengths = tiles.iter().map(|tile| tile.len() as u32).collect();
        for (tag, values) in [
            (WIDTH, vec![page.size.0]),
            (HEIGHT, vec![page.size.1]),
            (259, vec![1]),
            (TILE_WIDTH, vec![page.tile]),
            (TILE_LENGTH, vec![page.tile]),
            (OFFSETS, places.clone()),
            (LENGTHS, lengths),
        ] {
            tags.insert(tag, Values::Numbers(values));
        }
        let after = file.len() + 2 + 12 * tags.len() + 4;
        let (mut directory, mut behind) = ((tags.len() as u16).to_le_bytes().to_vec(), Vec::new());
        for (tag, values) in &tags {
            let (kind, count, mut bytes) = values.entry();
            directory.extend(
                [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &(count as u32).to_le_bytes()].concat(),
            );
            if bytes.len() <= 4 {
                bytes.resize(4, 0);
                directory.extend(bytes);
            } else {
                directory.extend(((after + behind.len()) as u32).to_le_bytes());
                bytes.resize(bytes.len().next_multiple_of(2), 0);
                behind.extend(bytes);
            }
        }
        let next = if number + 1 == pages.len() { 0 } else { (after + behind.len()) as u32 };
        file.extend([directory, next.to_le_bytes().to_vec(), behind].concat());
    }
    file
}

/// A page that was read.
struct Read {
    at: u32,
    tags: BTreeMap<u16, Vec<u32>>,
    samples: Vec<u8>,
}

impl Read {
    fn number(&self, tag: u16) -> u32 {
        self.tags.get(&tag).map_or(0, |values| values[0])
    }

    fn size(&self) -> (u32, u32) {
        (self.number(WIDTH), self.number(HEIGHT))
    }

    fn first_tile(&self) -> u32 {
        self.tags[&OFFSETS].iter().copied().min().unwrap()
    }
}

/// Reads the pages of a file of stored tiles of whole bytes.
fn pages(file: &[u8]) -> Vec<Read> {
    let short = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]);
    let long = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut all, mut at) = (Vec::new(), long(4));
    while at > 0 {
        let (first, count) = (at as usize + 2, usize::from(short(at as usize)));
        let mut tags = BTreeMap::new();
        for entry in (first..).step_by(12).take(count) {
            let (size, count) = (if short(entry + 2) == 3 { 2 } else { 4 }, long(entry + 4) as usize);
            if ![3, 4].contains(&short(entry + 2)) {
                continue;
            }
            let place = if size * count <= 4 { entry + 8 } else { long(entry + 8) as usize };
            let numbers = (place..).step_by(size).take(count);
            let number = |at: usize| if size == 2 { u32::from(short(at)) } else { long(at) };
            tags.insert(short(entry), numbers.map(number).collect::<Vec<_>>());
        }
        let mut page = Read { at, tags, samples: Vec::new() };
        let ((width, height), pixel) = (page.size(), page.number(CHANNELS).max(1) as usize);
        let (across, down) = (page.number(TILE_WIDTH), page.number(TILE_LENGTH));
        page.samples.resize(width as usize * height as usize * pixel, 0);
        for (number, &tile) in page.tags[&OFFSETS].iter().enumerate() {
            let of_row = width.div_ceil(across);
            let (left, top) = (number as u32 % of_row * across, number as u32 / of_row * down);
            for y in top..height.min(top + down) {
                let count = (width - left).min(across) as usize * pixel;
                let from = tile as usize + ((y - top) * across) as usize * pixel;
                page.samples[(y * width + left) as usize * pixel..][..count]
                    .copy_from_slice(&file[from..][..count]);
            }
        }
        all.push(page);
        at = long(first + 12 * count);
    }
    all
}

/// Returns whether directories come first, then overviews, and the picture last.
fn is_cog(pages: &[Read]) -> bool {
    let of_pixels = pages.iter().filter(|page| page.number(KIND) & MASK == 0);
    let tiles: Vec<u32> = of_pixels.map(Read::first_tile).collect();
    let first = pages.iter().map(Read::first_tile).min();
    pages.iter().map(|page| page.at).max() < first && tiles.is_sorted_by(|one, next| one > next)
}

/// Returns the means of 2x2 pixels, halves up; of fewer at the edges.
fn halved((width, height): (u32, u32), channels: usize, samples: &[u8]) -> Vec<u8> {
    let mut means = Vec::new();
    for top in (0..height).step_by(2) {
        for left in (0..width).step_by(2) {
            for channel in 0..channels {
                let rows = top..height.min(top + 2);
                let places =
                    rows.flat_map(|y| (left..width.min(left + 2)).map(move |x| (y * width + x) as usize));
                let of_box: Vec<u32> =
                    places.map(|place| samples[place * channels + channel].into()).collect();
                let (sum, count) = (of_box.iter().sum::<u32>(), of_box.len() as u32);
                means.push(((2 * sum + count) / (2 * count)) as u8);
            }
        }
    }
    means
}

/// Checks that each page is the mean of the one before, but for those that are skipped.
fn check_levels(pages: &[&Read]) {
    for pair in pages.windows(2) {
        let channels = pair[0].number(CHANNELS).max(1) as usize;
        let made = halved(pair[0].size(), channels, &pair[0].samples);
        assert!(pair[1].samples == made, "{:?} of {:?}", pair[1].size(), pair[0].size());
    }
}

fn run(place: &Place, file: &[u8], flags: &str) -> (Ran, Vec<Read>) {
    place.file("in/a.tif", file);
    let ran = place.run(&format!("in --out out --devices cpu --overwrite {flags}"));
    ran.exits(0);
    let read = pages(&place.read("out/a.tif"));
    (ran, read)
}

/// Returns a picture with overviews of a half and a quarter, whose own content does not matter.
fn pyramid(size: (u32, u32), channels: u32, photometric: u32) -> Vec<Page> {
    let half = |(width, height): (u32, u32)| (width.div_ceil(2), height.div_ceil(2));
    let page = |size| Page::natural(size, channels, photometric);
    vec![page(size), page(half(size)).of_kind(SMALLER), page(half(half(size))).of_kind(SMALLER)]
}

#[test]
fn a_cog_stays_one_whatever_its_channels_and_has_no_holes() {
    let place = Place::new();
    for (channels, photometric) in [(1, 1), (3, 1), (6, 1), (3, 2), (4, 2)] {
        let before = pyramid((300, 290), channels, photometric);
        let (_, after) = run(&place, &cog(&before), "");
        assert!(is_cog(&after) && after.len() == 3, "{channels} channels");
        for (before, after) in before.iter().zip(&after) {
            let tile = [TILE_WIDTH, TILE_LENGTH].map(|tag| after.number(tag));
            assert_eq!((before.size, [before.tile; 2]), (after.size(), tile));
        }
        assert!(after[0].samples != before[0].samples);
        check_levels(&after.iter().collect::<Vec<_>>());
        // The same as without overviews, whose directory lies behind.
        let (_, alone) = run(&place, &cog(&before[..1]), "--overviews drop");
        assert!(alone[0].samples == after[0].samples, "{channels} channels");
        run(&place, &cog(&before), "");
        let again = place.run("out --out again --devices cpu");
        again.exits(0);
        assert!(!again.stdout().contains("holes"), "{again}");
    }
}

#[test]
fn tiles_that_reach_far_beyond_a_small_picture_stay() {
    let place = Place::new();
    let before: Vec<Page> = pyramid((600, 600), 4, 2).into_iter().map(|page| page.in_tiles_of(512)).collect();
    let (_, after) = run(&place, &cog(&before), "");
    assert!(is_cog(&after));
    assert!(after.iter().all(|page| page.number(TILE_WIDTH) == 512));
    check_levels(&after.iter().collect::<Vec<_>>());
}

const APERIO: &str = "Aperio Image Library v12.0.15 \r\n512x384 [0,0 512x384] (128x128) JPEG/RGB Q=70";

#[test]
fn overviews_of_what_was_a_slide_are_no_photographs_of_its_label() {
    let place = Place::new();
    let mut before = pyramid((512, 384), 3, 2);
    before[0] = before[0].clone().described(APERIO);
    let (ran, after) = run(&place, &cog(&before), "");
    assert!(is_cog(&after) && after.len() == 3 && !ran.stdout().contains("label"), "{ran}");
    check_levels(&after.iter().collect::<Vec<_>>());
}

#[test]
fn label_and_glass_are_known_by_their_descriptions() {
    let place = Place::new();
    let untold = |page: Page| page.of_kind(0);
    let [slide, half, quarter] = pyramid((512, 384), 3, 2).try_into().ok().unwrap();
    let label = Page::natural((60, 50), 3, 2).described("Aperio Image Library v12.0.15 \r\nlabel 60x50");
    let glass = Page::natural((120, 40), 3, 2).described("Aperio Image Library v12.0.15 \r\nmacro 120x40");
    let file = cog(&[slide.described(APERIO), untold(half), untold(quarter), label, glass]);
    let (ran, after) = run(&place, &file, "");
    ran.says("label and glass");
    assert_eq!(after.iter().map(Read::size).collect::<Vec<_>>(), [(512, 384), (256, 192), (128, 96)]);
    check_levels(&after.iter().collect::<Vec<_>>());
}

#[test]
fn levels_that_do_not_say_so_are_made_again_of_their_picture() {
    let place = Place::new();
    let page = |size| Page::natural(size, 3, 2);
    let levels = [page((512, 384)), page((256, 192)), page((128, 96))];
    let (_, after) = run(&place, &cog(&levels), "");
    check_levels(&after.iter().collect::<Vec<_>>());
    // After the overview of a slide, and twice.
    let file = [&[page((120, 40))][..], &levels, &levels].concat();
    let (_, after) = run(&place, &cog(&file), "");
    assert_eq!(after.len(), file.len());
    check_levels(&after[1..4].iter().collect::<Vec<_>>());
    check_levels(&after[4..].iter().collect::<Vec<_>>());
    let (_, after) = run(&place, &cog(&file), "--overviews drop");
    assert_eq!(after.iter().map(Read::size).collect::<Vec<_>>(), [(120, 40), (512, 384), (512, 384)]);
}

#[test]
fn levels_of_a_ventana_slide_are_made_again_unless_its_tiles_overlap() {
    const SCAN: &str = "<Metadata><iScan Magnification='40' ScanRes='0.25' Z-layers='1'/></Metadata>";
    const APART: &str = "<EncodeInfo><SlideStitchInfo><ImageInfo AOIScanned='1' NumCols='2'>\
        <TileJointInfo Direction='RIGHT' Tile1='1' Tile2='2' OverlapX='0' OverlapY='0'/>\
        </ImageInfo></SlideStitchInfo></EncodeInfo>";
    const OVERLAPPING: &str = "<EncodeInfo><SlideStitchInfo><ImageInfo AOIScanned='1' NumCols='2'>\
        <TileJointInfo Direction='RIGHT' Tile1='1' Tile2='2' OverlapX='6' OverlapY='0'/>\
        </ImageInfo></SlideStitchInfo></EncodeInfo>";
    let place = Place::new();
    let level = |size, text| Page::natural(size, 3, 2).described(text);
    let slide = |info| {
        let label = Page::natural((60, 150), 3, 2).described("Label_Image").with(XMP, Values::Text(SCAN));
        let tissue = Page::natural((80, 60), 1, 1).described("Probability_Image");
        let largest = level((512, 384), "level=0 mag=40 quality=90").with(XMP, Values::Text(info));
        let half = level((256, 192), "level=1 mag=20 quality=90");
        [label, tissue, largest, half, level((128, 96), "level=2 mag=10 quality=90")]
    };
    let (_, after) = run(&place, &cog(&slide(APART)), "");
    check_levels(&after[2..].iter().collect::<Vec<_>>());
    assert!(after[2].samples != slide(APART)[2].samples);
    for first in [0, 2] {
        place.file("in/a.tif", cog(&slide(OVERLAPPING)[first..]));
        let ran = place.run("in --out out --overwrite --devices cpu");
        ran.exits(1).says("in/a.tif: ").says("a Ventana slide (BIF) whose tiles overlap is not supported");
        ran.says("vips openslideload");
    }
}

/// Returns a mask of a page that hides its first columns.
fn mask(of: &Page, kind: u32) -> Page {
    let (width, height) = of.size;
    let valid = (0..width * height).map(|place| u8::from(place % width > width / 3));
    Page::new(of.size, 1, 4, valid.collect()).of_kind(kind)
}

#[test]
fn what_a_mask_hides_does_not_count_and_the_mask_stays() {
    let place = Place::new();
    for (channels, photometric) in [(1, 1), (3, 2), (3, 1)] {
        let size = if channels == 1 { (1003, 1101) } else { (300, 290) };
        let [mut picture, half, quarter] = pyramid(size, channels, photometric).try_into().ok().unwrap();
        let pixel = channels as usize;
        let valid = mask(&picture, MASK);
        let hidden = || (0..valid.samples.len()).filter(|&at| valid.samples[at] == 0);
        hidden().for_each(|at| picture.samples[at * pixel..][..pixel].fill(255));
        let masks = [&half, &quarter].map(|of| mask(of, MASK | SMALLER));
        let file = cog(&[picture.clone(), valid.clone(), half, masks[0].clone(), quarter, masks[1].clone()]);
        let (_, of_mask) = run(&place, &file, "");
        assert!(is_cog(&of_mask) && of_mask.len() == 6, "{channels} channels");
        assert_eq!(of_mask[1].number(KIND), MASK);
        for (of, read) in [(&valid, &of_mask[1]), (&masks[0], &of_mask[3]), (&masks[1], &of_mask[5])] {
            assert!(read.samples == of.samples && read.number(PHOTOMETRIC) == 4);
        }
        let memories = ["--memory 3MiB --threads 1", "--memory 4MiB --threads 2"];
        for memory in memories.into_iter().filter(|_| channels == 1) {
            let (_, in_bands) = run(&place, &file, memory);
            let same = |(one, other): (&Read, &Read)| one.samples == other.samples;
            assert!(is_cog(&in_bands) && of_mask.iter().zip(&in_bands).all(same), "{memory}");
        }
        if channels == 1 {
            place.file("in/a.tif", &file);
            place.run("in --out png --format png").exits(0).says("masks of valid pixels removed");
        }
        let black_and_white = valid.samples.iter().map(|&valid| 255 * valid).collect();
        place.file("masks/a.tif", cog(&[Page::new(picture.size, 1, 1, black_and_white)]));
        let (_, by_user) = run(&place, &cog(&[picture]), "--mask masks");
        let shown = |read: &Read| {
            let pixels = read.samples.chunks(pixel).zip(&valid.samples).filter(|(_, valid)| **valid > 0);
            pixels.flat_map(|(pixel, _)| pixel.to_vec()).collect::<Vec<_>>()
        };
        assert!(shown(&by_user[0]) == shown(&of_mask[0]), "{channels} channels");
        assert!(
            hidden().all(|at| of_mask[0].samples[at * pixel..][..pixel].iter().all(|&level| level == 255))
        );
    }
}
