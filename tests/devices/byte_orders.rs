//! 16-bit pictures in files with the high byte first.
//!
//! Workers get them as they are in the files, and leave them so.

use std::fs;
use std::process::Stdio;

use equalize::{Depth, Layout};
use serde_json::Value;

use super::batch::{Batch, by};
use crate::harness::{gpus, histeqd, project};
use crate::samples::{Data, Random, every_layout, pam, samples};

/// PAMs with every kind of 16-bit pixel, and a PGM with samples that have to be scaled.
///
/// Each is a file's name and content.
fn pictures() -> Vec<(String, Vec<u8>)> {
    let mut random = Random(16);
    let mut named = |layout: Layout, data: Data| {
        let Layout { width, height, pixel, .. } = layout;
        let name = format!("{width}x{height}-{pixel:?}-{data:?}.pam");
        (name, pam(&layout, &samples(&layout, data, &mut random)))
    };
    let layouts =
        [(1, 1), (67, 33), (161, 119)].into_iter().flat_map(|(width, height)| every_layout(width, height));
    let deep = layouts.filter(|layout| layout.depth == Depth::Sixteen);
    let mut pictures: Vec<_> =
        deep.flat_map(|layout| [Data::Natural, Data::Constant].map(|data| named(layout, data))).collect();
    let samples = (0..67 * 33_u16).flat_map(|at| (at * 7 % 1024).to_be_bytes());
    pictures.push(("ten-bits.pgm".to_owned(), b"P5 67 33 1023\n".iter().copied().chain(samples).collect()));
    pictures
}

/// The flags of the runs.
const FLAGS: [&[&str]; 14] = [
    &[],
    &["--color", "per-channel"],
    &["--color", "gray"],
    &["--strength", "0.6"],
    &["--method", "clahe", "--tiles", "2x2"],
    &["--method", "clahe", "--tiles", "2x2", "--color", "per-channel"],
    &["--method", "clahe", "--tiles", "2x2", "--strength", "0.6"],
    // Dark enough for the remark about it.
    &["--method", "clahe", "--clip-limit", "1", "--tiles", "1x1"],
    &["--method", "stretch"],
    &["--method", "stretch", "--color", "per-channel", "--strength", "0.6"],
    &["--format", "tiff"],
    &["--method", "clahe", "--tiles", "2x2", "--format", "tiff"],
    &["--format", "png"],
    &["--depth", "8"],
];

/// Processes the pictures on these devices, and compares outputs and remarks with the CPU's.
///
/// The outputs for the same pictures as PNG and TIFF are then compared too.
fn assert_parity(devices: &str) {
    let name =
        devices.strip_suffix(":1").map_or_else(|| format!("gpu{devices}"), |_| "cpu-worker0".to_owned());
    let run = |batch: &Batch, devices, out| -> Value {
        batch.assert_done(&batch.histeqd(devices, out).output().unwrap(), out)
    };
    for flags in FLAGS {
        let batch = Batch::new(pictures(), flags);
        let (expected, found) = (run(&batch, "cpu", "again"), run(&batch, devices, "out"));
        assert_eq!(by(&found, &name), pictures().len() as u64, "{found}");
        assert_eq!(found["remarks"], expected["remarks"], "{flags:?}");
    }
    for format in ["png", "tiff"] {
        let converted = Batch::new(pictures(), &["--format", format]).contents("expected");
        for flags in [&[][..], &["--format", "pnm"]] {
            run(&Batch::new(converted.clone(), flags), devices, "out");
        }
    }
}

fn table(batch: &Batch, devices: &str) -> String {
    let mut command = histeqd();
    command.arg("histogram").arg(batch.out("inbox")).args([
        "--no-config",
        "--equalized",
        "--devices",
        devices,
    ]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn workers_leave_the_same_bytes_as_the_process_itself() {
    assert_parity("cpu-workers:1");
}

#[test]
fn gpus_leave_the_same_bytes_as_the_processor() {
    if gpus() > 0 {
        assert_parity("0");
    }
}

#[test]
fn workers_count_the_same() {
    let batch = Batch::new(pictures(), &[]);
    let expected = table(&batch, "cpu");
    assert!(expected.lines().count() > pictures().len());
    assert!(table(&batch, "cpu-workers:1") == expected);
    if gpus() > 0 {
        assert!(table(&batch, "0") == expected);
    }
}

#[test]
fn samples_beside_padding_are_the_same_whoever_equalizes() {
    let folder = project().join("tests/data/dicom");
    let files = ["padding.dcm", "padding-above.dcm", "padding-below.dcm", "mr-padded.dcm"];
    let named = |name: &str| (name.to_owned(), fs::read(folder.join(name)).unwrap());
    for method in ["global", "stretch", "clahe"] {
        let batch = Batch::new(files.map(named), &["--format", "png", "--method", method]);
        batch.assert_done(&batch.histeqd("cpu-workers:1", "out").output().unwrap(), "out");
        if gpus() > 0 {
            batch.assert_done(&batch.histeqd("0", "of-gpu").output().unwrap(), "of-gpu");
        }
    }
}
