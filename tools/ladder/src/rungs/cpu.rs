//! The rungs on the CPU, all on one thread.

use std::hint::black_box;

use crate::measure::{Measured, Result, rounds, same_counts, same_pixels, wall};
use crate::picture::{CLAHE, TestPicture, lut_of};
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

pub(super) fn histogram(picture: &TestPicture) -> Result<Measured> {
    let mut counts = [0; 256];
    let seconds = timed(|| counts = count_scalar(black_box(&picture.gray)))?;
    Ok(same_counts(&counts, &picture.counts)?.whole(seconds))
}

pub(super) fn own_histogram(picture: &TestPicture) -> Result<Measured> {
    let mut counts = Vec::new();
    let count = || of_plane(black_box(&picture.gray), &picture.layout, Plane::Channel(0), Counted::All);
    let seconds = timed(|| counts = count())?;
    let counts: Vec<u32> = counts.into_iter().map(|count| count as u32).collect();
    Ok(same_counts(&counts, &picture.counts)?.whole(seconds))
}

pub(super) fn apply(picture: &TestPicture) -> Result<Measured> {
    let (lut, mut out) = (lut_of(&picture.counts), vec![0; picture.pixels()]);
    let seconds = timed(|| apply_scalar(black_box(&picture.gray), &lut, black_box(&mut out)))?;
    Ok(same_pixels(&out, &picture.equalized)?.whole(seconds))
}

pub(super) fn equalization(picture: &TestPicture) -> Result<Measured> {
    let mut out = vec![0; picture.pixels()];
    let seconds = timed(|| {
        let lut = lut_of(&count_scalar(black_box(&picture.gray)));
        apply_scalar(&picture.gray, &lut, black_box(&mut out));
    })?;
    Ok(same_pixels(&out, &picture.equalized)?.whole(seconds))
}

pub(super) fn own_equalization(picture: &TestPicture) -> Result<Measured> {
    own(picture, Method::Global, &picture.equalized)
}

pub(super) fn own_clahe(picture: &TestPicture) -> Result<Measured> {
    own(picture, Method::Clahe(CLAHE), &picture.clahe)
}

fn own(picture: &TestPicture, method: Method, right: &[u8]) -> Result<Measured> {
    let operation = Operation::new(method);
    let (mut pixels, mut scratch) = (vec![0; picture.pixels()], Scratch::default());
    let seconds = rounds(|| {
        pixels.copy_from_slice(&picture.gray);
        wall(|| {
            equalize(black_box(&mut pixels), &picture.layout, &operation, &mut scratch);
            Ok(())
        })
    })?;
    Ok(same_pixels(&pixels, right)?.whole(seconds))
}

pub(super) fn channels(picture: &TestPicture) -> Result<Measured> {
    let mut counts = [[0_u32; 256]; 3];
    let seconds = timed(|| {
        counts = [[0; 256]; 3];
        for pixel in black_box(&picture.colour).as_chunks::<3>().0 {
            for (counts, &sample) in counts.iter_mut().zip(pixel) {
                counts[usize::from(sample)] += 1;
            }
        }
    })?;
    Ok(same_counts(counts.as_flattened(), &picture.colour_counts)?.whole(seconds))
}

fn timed(mut work: impl FnMut()) -> Result<f64> {
    rounds(|| {
        wall(|| {
            work();
            Ok(())
        })
    })
}
