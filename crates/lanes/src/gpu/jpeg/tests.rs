//! The kernels' results for files, compared with those of the codec.

use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::CoderLane;
use super::coefficients::Coefficients;
use super::self_test::KNOWN;
use crate::gpu::GpuEngine;
use crate::gpu::driver::{Event, Stream};
use crate::lane::{JpegLane, Recoded, Recoding};
use codec::{BaselinePicture, CompressedJpeg, Cores, Decoded, JpegQuality, Limits, Target};
use equalize::{Clahe, ClipLimit, Colour, Method, Operation, Pixel, Scratch, Strength, Stretch, Tiles};

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

/// Returns a picture as the CPU decodes it, and the CPU's output.
///
/// `None` if the picture is decoded to RGB that a lane does not take.
fn recoded_by_cpu(file: &[u8], operation: &Operation, target: &Target) -> Option<(Decoded, Vec<u8>)> {
    const LIMITS: Limits = Limits { max_pixels: 1 << 28, max_bytes: 1 << 30 };
    let (mut from, mut buffer) = (tempfile::tempfile().unwrap(), Vec::new());
    from.write_all(file).unwrap();
    from.rewind().unwrap();
    let opened = codec::open(&mut from, &mut buffer, &LIMITS, target).ok()?;
    let mut slot = vec![0; opened.slot_bytes()];
    let workspace = vec![0; opened.workspace().bytes as usize];
    let is_for_lane = opened.compressed(target).is_some();
    let decoded = opened.decode(&mut slot, workspace, &Cores::new(0)).ok()?;
    if decoded.layout.pixel != Pixel::Gray && !is_for_lane {
        return None;
    }
    equalize::equalize(&mut slot, &decoded.layout, operation, &mut Scratch::default());
    let mut to = tempfile::tempfile().unwrap();
    codec::encode(&decoded, &mut slot, target, &mut Vec::new(), &Cores::new(0), &mut to).unwrap();
    Some((decoded, content(to)))
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
        let (decoded, expected) = recoded_by_cpu(known.file, &operation, &target).unwrap();
        let mut to = tempfile::tempfile().unwrap();
        codec::write_encoded(&decoded, known.recoded, &mut to).unwrap();
        assert!(content(to) == expected);
    }
}

/// Recodes files; returns the outputs.
fn recoded_by_gpu(
    lane: &mut CoderLane<'_>,
    files: &[(Decoded, Vec<u8>)],
    operation: Operation,
    quality: JpegQuality,
) -> Vec<Option<Vec<u8>>> {
    let slot = |(decoded, file): &(Decoded, Vec<u8>)| {
        let more = 2 * decoded.layout.pixels() as usize + (64 << 10);
        [&file[..], &vec![0; file.len() + more]].concat()
    };
    let mut slots: Vec<_> = files.iter().map(slot).collect();
    let picture = |(slot, (decoded, file)): (_, &(Decoded, Vec<u8>))| {
        let layout = decoded.layout;
        let jpeg = CompressedJpeg { bytes: file.len() as u64, layout, quality };
        Recoding { slot, jpeg, operation, answer: Recoded::Declined(String::new()) }
    };
    let slices = slots.iter_mut().map(|slot| &mut slot[..]);
    let mut batch: Vec<_> = slices.zip(files).map(picture).collect();
    lane.recode(&mut batch).unwrap();
    let written = |(picture, (decoded, _)): (&Recoding<'_>, &(Decoded, _))| {
        let Recoded::Encoded(length) = picture.answer else { return None };
        let mut to = tempfile::tempfile().unwrap();
        codec::write_encoded(decoded, &picture.slot[..length as usize], &mut to).unwrap();
        Some(content(to))
    };
    batch.iter().zip(files).map(written).collect()
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
    for (operation, jpeg_quality) in [
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
    ] {
        let target = target_for(&operation, jpeg_quality);
        let (mut both, mut left) = (0, 0);
        for some in jpegs().chunks(16) {
            let mut files = Vec::new();
            let mut expected = Vec::new();
            for (path, file) in some {
                let Some((decoded, recoded)) = recoded_by_cpu(file, &operation, &target) else { continue };
                files.push((decoded, file.clone()));
                expected.push((path, recoded));
            }
            let written = recoded_by_gpu(&mut lane, &files, operation, jpeg_quality);
            for ((path, expected), written) in expected.iter().zip(written) {
                both += usize::from(written.is_some());
                left += usize::from(written.is_none());
                assert!(written.is_none_or(|written| written == *expected), "{} differs", path.display());
            }
        }
        println!("{both} are the same, {left} are left to the CPU");
        assert!(both > 10, "{both}");
    }
}
