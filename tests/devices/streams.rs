//! TIFFs compressed by deflate, with strips and tiles that workers inflate and deflate.
//!
//! The workers run on the CPU, with faults on purpose, and on a GPU.

use std::fs;
use std::path::Path;

use equalize::{Depth, Layout, Pixel};
use serde_json::Value;

use super::batch::Batch;
use crate::harness::{devices, gpu_or_skip, histeqd};
use crate::large::{Cut, pixels_of, tiff};
use crate::samples::Random;
use crate::stacks::Storage;

const PIXELS: [Pixel; 4] = [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba];

/// Pictures of every kind of pixel and depth, and the number of those that devices inflate.
///
/// They are cut into at least eight strips or tiles, except for one of fewer, which no device
/// inflates.
fn pictures() -> (Vec<(String, Vec<u8>)>, u64) {
    let mut pictures = Vec::new();
    for (number, pixel) in PIXELS.into_iter().enumerate() {
        for depth in [Depth::Eight, Depth::Sixteen] {
            let layout = Layout { width: 131, height: 150, pixel, depth };
            for cut in [Cut::Strips(7), Cut::Tiles(32, 48)] {
                pictures.push(picture(&layout, cut, 11 * number as u64 + depth.bytes() as u64));
            }
        }
    }
    let inflated = pictures.len() as u64;
    pictures.push(picture(
        &Layout { width: 90, height: 70, pixel: Pixel::Gray, depth: Depth::Eight },
        Cut::Strips(10),
        7,
    ));
    (named(pictures), inflated)
}

fn named(pictures: Vec<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    pictures.into_iter().enumerate().map(|(number, file)| (format!("{number:03}.tif"), file)).collect()
}

/// A ramp with noise.
fn picture(layout: &Layout, cut: Cut, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let most = if layout.depth == Depth::Eight { 200 } else { 60_000 };
    let count = layout.pixels() * layout.pixel.channels() as u64;
    let samples = (0..count).map(|at| (at * most / count + random.below(most / 50)) as u16);
    tiff(layout, &samples.collect::<Vec<_>>(), cut, Storage::Deflate)
}

/// Returns the number of pictures that devices inflated or deflated.
fn count(summary: &Value, what: &str) -> u64 {
    let by_device = summary["timings"]["load"][what].as_object().unwrap();
    by_device.values().map(|number| number.as_u64().unwrap()).sum()
}

const FLAGS: [&[&str]; 4] =
    [&[], &["--method", "clahe"], &["--color", "hue", "--format", "png"], &["--deterministic"]];

#[test]
fn workers_inflate_and_deflate_to_the_same_bytes() {
    let (pictures, inflated) = pictures();
    for flags in FLAGS {
        let batch = Batch::new(pictures.clone(), &[&["--timings"], flags].concat());
        let summary = batch.assert_done(&batch.histeqd("cpu-workers:2", "out").output().unwrap(), "out");
        assert_eq!(count(&summary, "inflated"), inflated, "{flags:?}: {summary}");
        // The strips that are written are longer, but tiles stay as they are.
        let deflated = if flags.len() == 2 || flags.is_empty() { inflated / 2 } else { 0 };
        assert_eq!(count(&summary, "deflated"), deflated, "{flags:?}: {summary}");
    }
}

#[test]
fn what_a_worker_does_not_inflate_or_deflate_the_cpu_does() {
    let (pictures, _) = pictures();
    let batch = Batch::new(pictures, &[]);
    for fault in ["exit@3", "fail@4", "hang@3", "decline@6"] {
        let mut command = batch.histeqd("cpu-workers:1", "out");
        command.args(["--device-timeout", if fault.starts_with("hang") { "1s" } else { "60s" }]);
        batch.assert_done(&command.env("HISTEQD_FAULT", fault).output().unwrap(), "out");
        fs::remove_dir_all(batch.out("out")).unwrap();
    }
}

/// Runs on these devices; returns the summary.
fn run(inbox: &Path, out: &Path, devices: &str) -> Value {
    let mut command = histeqd();
    command.arg(inbox).arg("--out").arg(out).args(["--no-config", "--json", "--devices", devices]);
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

/// Asserts that the outputs have the same samples and the same errors are reported.
///
/// The bytes of the outputs may differ.
fn assert_alike(inbox: &Path, devices: &str) {
    let outs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [expected, found] =
        [("cpu", &outs[0]), (devices, &outs[1])].map(|(devices, out)| run(inbox, out.path(), devices));
    assert_eq!(found["left"], 0, "{found}");
    let failed = |summary: &Value| {
        let mut failed: Vec<String> = summary["failed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|failure| failure["error"].to_string())
            .collect();
        failed.sort();
        failed
    };
    assert_eq!(failed(&expected), failed(&found));
    for entry in fs::read_dir(outs[0].path()).unwrap() {
        let path = entry.unwrap().path();
        let other = outs[1].path().join(path.file_name().unwrap());
        assert!(pixels_of(&path) == pixels_of(&other), "{} differs", other.display());
    }
}

/// Writes files with damaged streams, and compares the results of these devices and the CPU.
fn compare_damaged(devices: &str, number: usize) {
    let inbox = tempfile::tempdir().unwrap();
    let mut random = Random(56);
    let layout = Layout { width: 64, height: 64, pixel: Pixel::Gray, depth: Depth::Sixteen };
    for at in 0..number {
        let mut file = picture(&layout, Cut::Strips(8), at as u64);
        // The strips lie between the header and the directory.
        let end = u64::from(u32::from_le_bytes(file[4..8].try_into().unwrap()));
        for _ in 0..=random.below(3) {
            let bit = 8 * 8 + random.below(8 * (end - 100));
            file[bit as usize / 8] ^= 1 << (bit % 8);
        }
        fs::write(inbox.path().join(format!("{at:04}.tif")), file).unwrap();
    }
    assert_alike(inbox.path(), devices);
}

#[test]
fn damaged_strips_are_judged_alike_with_workers() {
    compare_damaged("cpu-workers:1", 40);
}

/// Returns whether GPUs inflate and deflate.
///
/// If not, reports a skip or panics (see [`gpu_or_skip`]).
fn gpu_inflates() -> bool {
    let told = devices();
    gpu_or_skip(told.contains("deflate on the GPU: yes"), &told)
}

#[test]
fn a_gpu_makes_the_same_samples() {
    if !gpu_inflates() {
        return;
    }
    let (pictures, inflated) = pictures();
    for flags in FLAGS {
        let batch = Batch::new(pictures.clone(), &[&["--timings"], flags].concat());
        let output = batch.histeqd("0", "out").output().unwrap();
        let summary = match flags {
            [] | ["--method", _] => batch.assert_all_there(&output),
            _ => batch.assert_done(&output, "out"),
        };
        assert_eq!(count(&summary, "inflated"), inflated, "{flags:?}: {summary}");
        assert_alike(&batch.out("inbox"), "0");
    }
}

#[test]
fn a_gpu_judges_damaged_strips_as_the_cpu_does() {
    if gpu_inflates() {
        compare_damaged("0", 1000);
    }
}
