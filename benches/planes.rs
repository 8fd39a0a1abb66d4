//! Measures the speed of one thread that splits interleaved colour into planes and merges it.
//!
//! This is the work of `--split-channels`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use equalize::Pixel;
use equalize::histogram::Tally;
use equalize::planes::{merge, separate};

const PIXELS: usize = 1 << 24;

fn planes(criterion: &mut Criterion) {
    let mut samples: Vec<u8> = (0..3 * PIXELS).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    let mut planes = [(); 3].map(|()| vec![0; PIXELS]);
    let mut tally = Tally::new(256);
    let mut group = criterion.benchmark_group("rgb8");
    group.throughput(Throughput::Elements(PIXELS as u64)).sample_size(10);
    group.bench_function("separate", |b| {
        b.iter(|| separate(&samples, Pixel::Rgb, planes.each_mut().map(Vec::as_mut_slice), None));
    });
    group.bench_function("separate and count luma", |b| {
        b.iter(|| {
            separate(&samples, Pixel::Rgb, planes.each_mut().map(Vec::as_mut_slice), Some(&mut tally));
        });
    });
    group.bench_function("merge", |b| {
        b.iter(|| merge(planes.each_ref().map(Vec::as_slice), Pixel::Rgb, &mut samples, None));
    });
}

criterion_group!(benches, planes);
criterion_main!(benches);
