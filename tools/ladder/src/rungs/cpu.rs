//! The rungs on the CPU, all on one thread.

use std::hint::black_box;

use crate::measure::{Measured, Result, rounds, same_counts, same_pixels, wall};
use crate::scene::{CLAHE, Scene, lut_of};
use equalize::colour::Plane;
use equalize::histogram::{Counted, of_plane};
use equalize::{Method, Operation, Scratch, equalize};

/// Counts with the textbook loop.
fn count_scalar(pixels: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for &pixel in pixels {
        counts[usize::from(pixel)] += 1;
    }
    counts
}

fn apply_scalar(pixels: &[u8], lut: &[u8; 256], out: &mut [u8]) {
    for (out, &pixel) in out.iter_mut().zip(pixels) {
        *out = lut[usize::from(pixel)];
    }
}

pub(super) fn histogram(scene: &Scene) -> Result<Measured> {
    let mut counts = [0; 256];
    let seconds = timed(|| counts = count_scalar(black_box(&scene.gray)))?;
    Ok(same_counts(&counts, &scene.counts)?.whole(seconds))
}

pub(super) fn own_histogram(scene: &Scene) -> Result<Measured> {
    let mut counts = Vec::new();
    let count = || of_plane(black_box(&scene.gray), &scene.layout, Plane::Channel(0), Counted::All);
    let seconds = timed(|| counts = count())?;
    let counts: Vec<u32> = counts.into_iter().map(|count| count as u32).collect();
    Ok(same_counts(&counts, &scene.counts)?.whole(seconds))
}

pub(super) fn apply(scene: &Scene) -> Result<Measured> {
    let (lut, mut out) = (lut_of(&scene.counts), vec![0; scene.pixels()]);
    let seconds = timed(|| apply_scalar(black_box(&scene.gray), &lut, black_box(&mut out)))?;
    Ok(same_pixels(&out, &scene.equalized)?.whole(seconds))
}

pub(super) fn equalization(scene: &Scene) -> Result<Measured> {
    let mut out = vec![0; scene.pixels()];
    let seconds = timed(|| {
        let lut = lut_of(&count_scalar(black_box(&scene.gray)));
        apply_scalar(&scene.gray, &lut, black_box(&mut out));
    })?;
    Ok(same_pixels(&out, &scene.equalized)?.whole(seconds))
}

pub(super) fn own_equalization(scene: &Scene) -> Result<Measured> {
    own(scene, Method::Global, &scene.equalized)
}

pub(super) fn own_clahe(scene: &Scene) -> Result<Measured> {
    own(scene, Method::Clahe(CLAHE), &scene.clahe)
}

fn own(scene: &Scene, method: Method, right: &[u8]) -> Result<Measured> {
    let operation = Operation::new(method);
    let (mut pixels, mut scratch) = (vec![0; scene.pixels()], Scratch::default());
    let seconds = rounds(|| {
        pixels.copy_from_slice(&scene.gray);
        wall(|| {
            equalize(black_box(&mut pixels), &scene.layout, &operation, &mut scratch);
            Ok(())
        })
    })?;
    Ok(same_pixels(&pixels, right)?.whole(seconds))
}

pub(super) fn channels(scene: &Scene) -> Result<Measured> {
    let mut counts = [[0_u32; 256]; 3];
    let seconds = timed(|| {
        counts = [[0; 256]; 3];
        for pixel in black_box(&scene.colour).as_chunks::<3>().0 {
            for (counts, &sample) in counts.iter_mut().zip(pixel) {
                counts[usize::from(sample)] += 1;
            }
        }
    })?;
    Ok(same_counts(counts.as_flattened(), &scene.colour_counts)?.whole(seconds))
}

fn timed(mut work: impl FnMut()) -> Result<f64> {
    rounds(|| {
        wall(|| {
            work();
            Ok(())
        })
    })
}
