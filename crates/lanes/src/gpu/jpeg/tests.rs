//! The kernels' results for files, compared with those of the codec.

use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::CoderLane;
use super::coefficients::Coefficients;
use super::self_test::KNOWN;
use crate::cpu::CpuLane;
use crate::gpu::GpuEngine;
use crate::gpu::driver::{Event, Stream};
use crate::lane::{JpegLane, Lane, Recoded, Recoding};
use crate::order::Order;
use codec::baseline::BaselinePicture;
use codec::coders::CompressedJpeg;
use codec::{Cores, Decoded, Format, JpegQuality, Limits, Target};
use equalize::{ByteOrders, Clahe, ClipLimit, Colour, Method, Operation, Pixel, Strength, Stretch, Tiles};

/// Pseudo-random numbers (xorshift), the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Returns all files below a folder that begin as JPEGs do, in the order of their names.
fn jpegs_below(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            jpegs_below(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.starts_with(&[0xff, 0xd8])
        {
            found.push((path, bytes));
        }
    }
}

/// Returns the JPEGs of the tests' data, and of the collection that `HISTEQD_CORPUS` names, if any.
fn jpegs() -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    jpegs_below(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data")), &mut found);
    assert!(found.len() > 10, "the tests' data are missing");
    if let Some(folder) = std::env::var_os("HISTEQD_CORPUS") {
        jpegs_below(Path::new(&folder), &mut found);
    }
    found
}

/// A GPU, with the state for decoding.
struct Device {
    engine: GpuEngine,
    stream: Stream,
    coefficients: Coefficients,
}

impl Device {
    fn open_or_skip() -> Option<Self> {
        let engine = GpuEngine::open_or_skip()?;
        let stream = Stream::new().unwrap();
        Some(Self { engine, stream, coefficients: Coefficients::default() })
    }

    fn wait(&self) {
        let done = Event::new().unwrap();
        done.record(&self.stream).unwrap();
        done.wait().unwrap();
    }

    fn decode(&mut self, batch: &[Option<&BaselinePicture<'_>>]) {
        // SAFETY: the files stay until it has waited.
        unsafe {
            assert!(self.coefficients.decode(&self.engine.kernels, &self.stream, batch).is_ok());
            assert!(self.coefficients.look(&self.stream).is_ok());
        }
        self.wait();
    }

    /// Returns the blocks of each component, row by row.
    fn blocks(&self, number: usize, of: &BaselinePicture<'_>) -> Vec<Vec<[i16; 64]>> {
        let picture = &self.coefficients.pictures[self.coefficients.place_of(number).unwrap()];
        let count = picture.blocks() as usize;
        let (mut all, mut dc) = (vec![[0_i16; 64]; count], vec![0_i16; count]);
        // SAFETY: the memory has no other use, and it waits.
        unsafe {
            let to = bytemuck::cast_slice_mut(all.as_flattened_mut());
            self.stream.download(picture.at.coefficients, to).unwrap();
            self.stream.download(picture.at.dc, bytemuck::cast_slice_mut(&mut dc)).unwrap();
        }
        self.wait();
        let mut first = 0;
        let mut components = Vec::new();
        for component in &of.components {
            let ((across, down), (width, height)) = (component.in_mcu, component.blocks);
            let mut blocks = vec![[0; 64]; width * height];
            for (place, block) in blocks.iter_mut().enumerate() {
                let (x, y) = (place % width, place / width);
                let mcu = y / down * of.mcus.0 + x / across;
                let at = mcu * of.blocks_of_mcu() + first + y % down * across + x % across;
                *block = all[at];
                assert_eq!(block[0], 0);
                block[0] = dc[at];
            }
            first += across * down;
            components.push(blocks);
        }
        components
    }
}

/// The numbers of pictures that were decoded by both readers, by neither, and only by the codec.
#[derive(Debug, Default)]
struct Count {
    both: usize,
    neither: usize,
    unclear: usize,
}

/// Decodes a batch of files, and compares it with the codec's results.
///
/// All coefficients must be the codec's, and damage that the codec finds must be found.
fn compare(device: &mut Device, files: &[(PathBuf, Vec<u8>)], count: &mut Count) {
    let batch: Vec<_> = files.iter().map(|(_, bytes)| BaselinePicture::read(bytes)).collect();
    device.decode(&batch.iter().map(Option::as_ref).collect::<Vec<_>>());
    for (number, ((path, _), picture)) in files.iter().zip(&batch).enumerate() {
        let expected = picture.as_ref().and_then(BaselinePicture::coefficients);
        match (expected, device.coefficients.is_whole(number), picture) {
            (Some(expected), true, Some(picture)) => {
                assert!(device.blocks(number, picture) == expected, "{} differs", path.display());
                count.both += 1;
            }
            (_, true, _) => panic!("{} is damaged", path.display()),
            (Some(_), false, _) => count.unclear += 1,
            (None, false, _) => count.neither += 1,
        }
    }
}

#[test]
fn coefficients_are_those_of_the_codec() {
    let Some(mut device) = Device::open_or_skip() else { return };
    let mut count = Count::default();
    let files = jpegs();
    for batch in files.chunks(16) {
        compare(&mut device, batch, &mut count);
    }
    println!("{count:?}");
    assert!(count.both > 10 && count.unclear <= count.both / 20, "{count:?}");
}

/// Returns the JPEG of a page of one colour with a few lines, on which all blocks are alike.
fn even_page() -> Vec<u8> {
    const LIMITS: Limits = Limits { max_pixels: 1 << 28, max_bytes: 1 << 30 };
    const SIDE: usize = 2048;
    let target = Target { format: Some(Format::Jpeg), ..Target::AS_STORED };
    let mut from = tempfile::tempfile().unwrap();
    write!(from, "P6 {SIDE} {SIDE} 255 ").unwrap();
    for y in 0..SIDE {
        let colour = if y % 256 == 0 { [40, 40, 60] } else { [250, 248, 240] };
        from.write_all(&colour.repeat(SIDE)).unwrap();
    }
    from.rewind().unwrap();
    let mut buffer = Vec::new();
    let opened = codec::open(&mut from, &mut buffer, &LIMITS, &target).unwrap();
    let (mut slot, workspace) = (vec![0; opened.slot_bytes()], vec![0; opened.workspace().bytes as usize]);
    let decoded = opened.decode(&mut slot, workspace, &Cores::new(0)).unwrap();
    let mut to = tempfile::tempfile().unwrap();
    codec::encode(&decoded, &mut slot, &target, &mut Vec::new(), &Cores::new(0), &mut to).unwrap();
    content(to)
}

#[test]
fn data_of_blocks_that_are_all_alike_synchronize() {
    let Some(mut device) = Device::open_or_skip() else { return };
    let mut count = Count::default();
    let page = even_page();
    assert!(page.len() > 24 << 8, "the page has too few pieces");
    compare(&mut device, &[("even".into(), page)], &mut count);
    assert!(count.both == 1, "{count:?}");
}

/// Changes a few bytes, mostly of the entropy-coded data.
///
/// Sometimes it removes or doubles some, or cuts the file short.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let from = if random.below(5) > 0 { bytes.len() / 4 } else { 0 };
        let at = from + random.below(bytes.len() - from);
        let some = at..bytes.len().min(at + 1 + random.below(8));
        match random.below(12) {
            0 => bytes.truncate(at.max(8)),
            1 => drop(bytes.drain(some)),
            2 => {
                let piece = bytes[some].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => bytes[at] = 0xff,
            4 => bytes[at] = 0xd0 + random.below(8) as u8,
            5..9 => bytes[at] ^= 1 << random.below(8),
            _ => bytes[at] = random.below(256) as u8,
        }
        if bytes.len() < 64 {
            return;
        }
    }
}

#[test]
fn damage_that_the_codec_finds_is_found() {
    let Some(mut device) = Device::open_or_skip() else { return };
    let (mut random, mut count) = (Random(1), Count::default());
    let small = |(_, bytes): &(_, Vec<u8>)| bytes.len() < 64 << 10 && BaselinePicture::read(bytes).is_some();
    let seeds: Vec<_> = jpegs().into_iter().filter(small).collect();
    for _ in 0..25 {
        let damaged = |_| {
            let (path, mut bytes) = seeds[random.below(seeds.len())].clone();
            damage(&mut bytes, &mut random);
            (path, bytes)
        };
        let files: Vec<_> = (0..200).map(damaged).collect();
        compare(&mut device, &files, &mut count);
    }
    println!("{count:?}");
    assert!(count.both > 300 && count.neither > 1000 && count.unclear < 50, "{count:?}");
}

/// A picture as the CPU decodes it, and its results for it.
struct Expected {
    decoded: Decoded,
    /// The order's other input.
    given: Vec<u64>,
    counts: Vec<u64>,
    /// The output, if the order changes the pixels.
    output: Option<Vec<u8>>,
}

/// Carries out an order on the CPU.
///
/// `None` if the picture is decoded to RGB that a lane does not take.
fn done_by_cpu(file: &[u8], order: &Order, target: &Target) -> Option<Expected> {
    const LIMITS: Limits = Limits { max_pixels: 1 << 28, max_bytes: 1 << 30 };
    let (mut from, mut buffer) = (tempfile::tempfile().unwrap(), Vec::new());
    from.write_all(file).unwrap();
    from.rewind().unwrap();
    let opened = codec::open(&mut from, &mut buffer, &LIMITS, target).ok()?;
    let bytes = opened.slot_bytes().max(order.slot_bytes(&opened.layout()) as usize);
    let mut slot = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
    let slot = bytemuck::cast_slice_mut(&mut slot);
    let workspace = vec![0; opened.workspace().bytes as usize];
    let is_for_lane = opened.compressed(target).is_some();
    let decoded = opened.decode(slot, workspace, &Cores::new(0)).ok()?;
    let layout = decoded.layout;
    if layout.pixel != Pixel::Gray && !is_for_lane {
        return None;
    }
    // Counts of a reference and LUTs, alike for all pictures.
    let given = order.given(slot, &layout);
    given.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at as u8).wrapping_mul(29) & 0x7f);
    let given = bytemuck::cast_slice(given).to_vec();
    CpuLane::default().carry_out(slot, &layout, ByteOrders::NATIVE, order).unwrap();
    let (pixels, counts) = order.parts(slot, &layout);
    let counts = counts.to_vec();
    let output = order.equalizes().then(|| {
        let mut to = tempfile::tempfile().unwrap();
        codec::encode(&decoded, pixels, target, &mut Vec::new(), &Cores::new(0), &mut to).unwrap();
        content(to)
    });
    Some(Expected { decoded, given, counts, output })
}

/// Returns the target of an operation whose outputs are JPEGs too.
fn target_for(operation: &Operation, jpeg_quality: JpegQuality) -> Target {
    let keeps_hue = operation.colour == Colour::Hue;
    let needs_rgb = !matches!(operation.colour, Colour::Luma | Colour::Hue);
    Target { jpeg_quality, keeps_hue, needs_rgb, ..Target::AS_STORED }
}

fn content(mut file: std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_lane_is_tested_with_the_bytes_of_the_cpu() {
    for known in &KNOWN {
        let (operation, jpeg_quality) = (known.operation(), known.quality);
        let target = target_for(&operation, jpeg_quality);
        let expected = done_by_cpu(known.file, &Order::Equalize(operation), &target).unwrap();
        let mut to = tempfile::tempfile().unwrap();
        codec::write_encoded(&expected.decoded, known.recoded, &mut to).unwrap();
        assert!(Some(content(to)) == expected.output);
    }
}

/// Carries out an order on files, and compares the results with the CPU's.
///
/// Returns how many of them the lane took.
fn compare_done(
    lane: &mut CoderLane<'_>,
    files: &[(PathBuf, Vec<u8>, Expected)],
    order: Order,
    quality: JpegQuality,
) -> usize {
    let jpeg = |file: &[u8], expected: &Expected| CompressedJpeg {
        bytes: file.len() as u64,
        layout: expected.decoded.layout,
        quality,
    };
    let slot = |(_, file, expected): &(PathBuf, Vec<u8>, Expected)| {
        let jpeg = jpeg(file, expected);
        let mut slot = vec![0_u64; order.slot_bytes(&jpeg).div_ceil(8) as usize];
        let bytes = bytemuck::cast_slice_mut(&mut slot);
        bytes[..file.len()].copy_from_slice(file);
        order.given(bytes, &jpeg).copy_from_slice(bytemuck::cast_slice(&expected.given));
        slot
    };
    let mut slots: Vec<Vec<u64>> = files.iter().map(slot).collect();
    let mut batch = Vec::new();
    for (slot, (_, file, expected)) in slots.iter_mut().zip(files) {
        let (slot, answer) = (bytemuck::cast_slice_mut(slot), Recoded::Declined(String::new()));
        batch.push(Recoding { slot, jpeg: jpeg(file, expected), order, answer });
    }
    lane.recode(&mut batch).unwrap();
    let mut taken = 0;
    for (picture, (path, _, expected)) in batch.iter_mut().zip(files) {
        match picture.answer {
            Recoded::Encoded(length) => {
                let (mut to, encoded) = (tempfile::tempfile().unwrap(), &picture.slot[..length as usize]);
                codec::write_encoded(&expected.decoded, encoded, &mut to).unwrap();
                assert!(Some(content(to)) == expected.output, "{} differs", path.display());
            }
            Recoded::Counted => {
                let (_, counts) = order.parts(picture.slot, &picture.jpeg);
                assert!(expected.output.is_none() && *counts == expected.counts, "{}", path.display());
            }
            Recoded::Declined(_) => continue,
        }
        taken += 1;
    }
    taken
}

#[test]
fn files_are_those_of_the_cpu() {
    let Some(device) = Device::open_or_skip() else { return };
    let clahe = Method::Clahe(Clahe {
        clip_limit: ClipLimit::Times(3.0),
        tiles: Tiles::Grid { x: 8, y: 8 },
        noise: 0,
    });
    let weak = Operation { strength: Strength::thousandths(400).unwrap(), ..Operation::new(Method::Global) };
    let coloured = |colour, method| Operation { colour, ..Operation::new(method) };
    let stretch = Method::Stretch(Stretch { low: 5000, high: 20_000 });
    let mut lane = CoderLane::new(&device.engine).unwrap();
    let orders = [
        (Operation::new(Method::Global), JpegQuality::Keep),
        (Operation::new(clahe), JpegQuality::Value(75)),
        (weak, JpegQuality::Value(100)),
        (Operation::new(clahe), JpegQuality::Keep),
        (coloured(Colour::Hue, Method::Global), JpegQuality::Keep),
        (coloured(Colour::Hue, clahe), JpegQuality::Value(80)),
        (Operation { colour: Colour::Hue, ..weak }, JpegQuality::Value(100)),
        (coloured(Colour::PerChannel, Method::Global), JpegQuality::Keep),
        (coloured(Colour::PerChannel, clahe), JpegQuality::Value(80)),
        (coloured(Colour::Linked, stretch), JpegQuality::Keep),
        (coloured(Colour::Lab, clahe), JpegQuality::Value(95)),
        (Operation { colour: Colour::Lab, ..weak }, JpegQuality::Keep),
    ];
    let orders = orders.map(|(operation, quality)| (Order::Equalize(operation), quality));
    let matched = Operation::new(Method::Match);
    let given = [
        (Order::Equalize(matched), JpegQuality::Keep),
        (Order::Equalize(Operation { colour: Colour::PerChannel, ..matched }), JpegQuality::Keep),
        (Order::Apply(Operation::new(Method::Global)), JpegQuality::Keep),
        (Order::Apply(coloured(Colour::Hue, Method::Global)), JpegQuality::Value(90)),
        (Order::Apply(coloured(Colour::Linked, Method::Global)), JpegQuality::Keep),
    ];
    for (order, jpeg_quality) in orders.into_iter().chain(given) {
        let operation = order.operation().unwrap();
        compare_orders(&mut lane, order, &target_for(&operation, jpeg_quality));
    }
    for colour in [Colour::Luma, Colour::PerChannel] {
        let target = target_for(&coloured(colour, Method::Global), JpegQuality::Keep);
        compare_orders(&mut lane, Order::Count { equalize: None }, &target);
    }
}

/// Compares the results of an order for all files.
fn compare_orders(lane: &mut CoderLane<'_>, order: Order, target: &Target) {
    let (mut taken, mut all) = (0, 0);
    for some in jpegs().chunks(16) {
        let expected = |(path, file): &'_ (PathBuf, Vec<u8>)| {
            done_by_cpu(file, &order, target).map(|expected| (path.clone(), file.clone(), expected))
        };
        let files: Vec<_> = some.iter().filter_map(expected).collect();
        all += files.len();
        taken += compare_done(lane, &files, order, target.jpeg_quality);
    }
    println!("{order:?}: {taken} of {all} are the same, the others are left to the CPU");
    assert!(taken > 10, "{taken}");
}
