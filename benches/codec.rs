//! Measures decoding and encoding by format, on one core, in pixels per second: from a file in the page cache to a slot, and back to
//! a file. `cargo bench --bench codec [-- FILTER]`.
//!
//! The picture is synthetic: 2048 x 1536 pixels of smooth colours with camera-like noise. Pictures that compress differently are coded
//! at a different speed, so figures about photographs have to be measured on photographs.

use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write};

use codec::{self, Cores, Decoded, Format, Limits, PngLevel, Target};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const WIDTH: usize = 2048;
const HEIGHT: usize = 1536;

const LIMITS: Limits = Limits { max_pixels: 1 << 26, max_bytes: 1 << 28 };
const TARGET: Target = Target::AS_STORED;

/// Makes the picture as a PPM file (3 channels) or a PGM file (1).
fn pnm(channels: usize) -> Vec<u8> {
    let mut file = format!("P{} {WIDTH} {HEIGHT} 255\n", if channels == 3 { 6 } else { 5 }).into_bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let wave = |period: f32| (x as f32 / period).sin() * (y as f32 / (period * 1.5)).cos();
            for channel in 0..channels {
                let noise = (state >> (20 * channel) & 7) as f32;
                file.push((110.0 + 60.0 * wave(310.0) + 30.0 * wave(41.0 + channel as f32) + noise) as u8);
            }
        }
    }
    file
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    file
}

fn decode(file: &mut File, buffer: &mut Vec<u8>, slot: &mut Vec<u8>, target: &Target) -> Decoded {
    file.rewind().expect("a file can be rewound");
    let opened = codec::open(file, buffer, &LIMITS, target).expect("a picture of ours");
    slot.resize(opened.slot_bytes(), 0);
    let workspace = vec![0; opened.workspace().bytes as usize];
    opened.decode(slot, workspace, &Cores::none()).expect("a picture of ours")
}

fn codecs(criterion: &mut Criterion) {
    let kinds = [
        ("pgm", 1, Format::Pnm, PngLevel::Balanced),
        ("ppm", 3, Format::Pnm, PngLevel::Balanced),
        ("jpeg", 3, Format::Jpeg, PngLevel::Balanced),
        ("jpeg-gray", 1, Format::Jpeg, PngLevel::Balanced),
        ("png-fast", 3, Format::Png, PngLevel::Fast),
        ("png-balanced", 3, Format::Png, PngLevel::Balanced),
        ("png-small", 3, Format::Png, PngLevel::Small),
        ("tiff-deflate", 3, Format::Tiff, PngLevel::Balanced),
        ("bmp", 3, Format::Bmp, PngLevel::Balanced),
        ("webp", 3, Format::WebP, PngLevel::Balanced),
    ];
    let (mut buffer, mut slot, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    let mut out = tempfile::tempfile().expect("a temporary file");
    // No helper threads, so that the time is that of one thread.
    let cores = Cores::new(0);
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements((WIDTH * HEIGHT) as u64)).sample_size(10);
    for (name, channels, format, png_level) in kinds {
        let target = Target { format: Some(format), png_level, ..TARGET };
        let source = decode(&mut file_of(&pnm(channels)), &mut buffer, &mut slot, &target);
        let mut file = tempfile::tempfile().expect("a temporary file");
        codec::encode(&source, &mut slot, &target, &mut scratch, &cores, &mut file)
            .expect("it can be encoded");
        group.bench_function(format!("decode/{name}"), |bencher| {
            bencher.iter(|| black_box(decode(&mut file, &mut buffer, &mut slot, &target)));
        });
        let decoded = decode(&mut file, &mut buffer, &mut slot, &target);
        group.bench_function(format!("encode/{name}"), |bencher| {
            bencher.iter(|| {
                out.rewind().expect("a file can be rewound");
                codec::encode(&decoded, &mut slot, &target, &mut scratch, &cores, &mut out)
                    .expect("it can be encoded")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, codecs);
criterion_main!(benches);
