//! Codestreams of JPEG 2000 that workers decode.
//!
//! The workers run on the CPU, with faults on purpose, and on a GPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::batch::Batch;
use crate::harness::{devices, gpu_or_skip, histeqd, project};
use crate::samples::Random;

const LOSSLESS: &str = "1.2.840.10008.1.2.4.90";
const HIGH_THROUGHPUT: &str = "1.2.840.10008.1.2.4.201";
/// A codestream of 50x40 pixels of three colours of 8 bits, and two of 47x35 gray ones of 12 bits.
const RGB: &str = "jp2-rgb.j2k";
const GRAY: &str = "ht-12-twin.j2k";
const GRAY_HIGH_THROUGHPUT: &str = "ht-12.j2c";

fn data(name: &str) -> Vec<u8> {
    fs::read(project().join("tests/data").join(name)).unwrap()
}

fn codestream(name: &str) -> Vec<u8> {
    data(&format!("codec/{name}"))
}

/// Returns a DICOM file with this codestream in each of its frames.
fn dicom(syntax: &str, codestream: &[u8], frames: usize, is_rgb: bool) -> Vec<u8> {
    let mut file = vec![0; 128];
    file.extend(b"DICM");
    let mut put = |group: u16, number: u16, kind: &[u8; 2], value: &[u8]| {
        file.extend([group.to_le_bytes(), number.to_le_bytes()].concat());
        file.extend(kind);
        file.extend((value.len().next_multiple_of(2) as u16).to_le_bytes());
        file.extend(value);
        file.extend(vec![0; value.len() % 2]);
    };
    let (width, height, samples, bits): (u16, u16, u16, u16) =
        if is_rgb { (50, 40, 3, 8) } else { (47, 35, 1, 12) };
    put(2, 0x10, b"UI", syntax.as_bytes());
    put(0x28, 0x02, b"US", &samples.to_le_bytes());
    put(0x28, 0x04, b"CS", if is_rgb { b"YBR_RCT " } else { b"MONOCHROME2 " });
    if is_rgb {
        put(0x28, 0x06, b"US", &[0, 0]);
    }
    put(0x28, 0x08, b"IS", format!("{frames:02}").as_bytes());
    let numbers = [(0x10, height), (0x11, width), (0x100, bits.next_multiple_of(8)), (0x101, bits)];
    numbers.into_iter().for_each(|(number, value)| put(0x28, number, b"US", &value.to_le_bytes()));
    put(0x28, 0x102, b"US", &(bits - 1).to_le_bytes());
    put(0x28, 0x103, b"US", &[0, 0]);
    file.extend(b"\xe0\x7f\x10\0OB\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\0\0\0\0");
    for _ in 0..frames {
        file.extend(b"\xfe\xff\0\xe0");
        file.extend((codestream.len().next_multiple_of(2) as u32).to_le_bytes());
        file.extend(codestream);
        file.extend(vec![0; codestream.len() % 2]);
    }
    file.extend(b"\xfe\xff\xdd\xe0\0\0\0\0");
    file
}

/// Pictures with codestreams that are all handed to workers, and the number of their codestreams.
fn pictures() -> (Vec<(String, Vec<u8>)>, u64) {
    let mut pictures: Vec<(String, Vec<u8>)> =
        ["jp2-12.jp2", "jp2-gray-16.jp2", RGB, GRAY].map(|name| (name.to_owned(), codestream(name))).into();
    pictures.push(("mr.dcm".to_owned(), data("dicom/mr-jpeg-2000.dcm")));
    let frames = 5;
    pictures.push(("rgb.dcm".to_owned(), dicom(LOSSLESS, &codestream(RGB), frames, true)));
    pictures.push(("gray.dcm".to_owned(), dicom(LOSSLESS, &codestream(GRAY), frames, false)));
    let codestreams = pictures.len() + 2 * (frames - 1);
    (pictures, codestreams as u64)
}

fn batch(flags: &[&str]) -> (Batch, u64) {
    let (pictures, codestreams) = pictures();
    (Batch::new(pictures, &[&["--format", "tiff", "--timings"], flags].concat()), codestreams)
}

/// Returns the number of codestreams that devices decoded.
fn decoded(summary: &Value) -> u64 {
    let by_device = summary["timings"]["load"]["decoded"].as_object().unwrap();
    by_device.values().map(|number| number.as_u64().unwrap()).sum()
}

#[test]
fn workers_decode_to_the_same_bytes() {
    for flags in [&[][..], &["--method", "clahe"], &["--color", "hue"]] {
        let (batch, codestreams) = batch(flags);
        let summary = batch.assert_done(&batch.histeqd("cpu-workers:2", "out").output().unwrap(), "out");
        assert_eq!(decoded(&summary), codestreams, "{flags:?}: {summary}");
    }
}

#[test]
fn what_a_worker_does_not_decode_the_cpu_does() {
    let (batch, _) = batch(&[]);
    for fault in ["exit@3", "fail@4", "hang@3", "decline@6"] {
        let mut command = batch.histeqd("cpu-workers:1", "out");
        command.args(["--device-timeout", if fault.starts_with("hang") { "1s" } else { "60s" }]);
        batch.assert_done(&command.env("HISTEQD_FAULT", fault).output().unwrap(), "out");
        fs::remove_dir_all(batch.out("out")).unwrap();
    }
}

#[test]
fn without_a_gpu_high_throughput_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = dicom(HIGH_THROUGHPUT, &codestream(GRAY_HIGH_THROUGHPUT), 1, false);
    fs::write(folder.path().join("ht.dcm"), file).unwrap();
    for devices in ["cpu", "cpu-workers:1"] {
        let (_, failed) = outcome(folder.path(), folder.path(), devices);
        let error = failed.values().next().unwrap();
        assert!(error.contains("use a GPU with NVIDIA's nvJPEG2000"), "{error}");
    }
}

/// Runs on these devices; returns the outputs and the failures.
fn outcome(
    inbox: &Path,
    place: &Path,
    devices: &str,
) -> (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>) {
    let out = tempfile::tempdir_in(place.parent().unwrap()).unwrap();
    let mut command = histeqd();
    command.arg(inbox).arg("--out").arg(out.path().join("out"));
    command.args(["--no-config", "--json", "--format", "tiff", "--devices", devices]);
    let summary: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(summary["left"], 0, "{summary}");
    let files = fs::read_dir(out.path().join("out")).into_iter().flatten();
    let file = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
    };
    let failed = summary["failed"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        files.map(|entry| file(entry.unwrap().path())).collect(),
        failed.map(|failure| (text(&failure["input"]), text(&failure["error"]))).collect(),
    )
}

/// Writes files that are cut or have other bits; compares the results of these devices and the CPU.
fn compare_damaged(devices: &str, number: usize) {
    let folder = tempfile::tempdir().unwrap();
    let inbox = folder.path().join("inbox");
    fs::create_dir(&inbox).unwrap();
    let mut random = Random(56);
    for (name, is_rgb) in [(RGB, true), (GRAY, false)] {
        let whole = codestream(name);
        for at in 0..number {
            let mut damaged = whole.clone();
            match at % 4 {
                0 => damaged.truncate(60 + random.below(whole.len() as u64 - 60) as usize),
                // The headers are shorter than 150 bytes.
                kind => {
                    let bytes = if kind == 1 { 150 } else { whole.len() as u64 };
                    let bit = random.below(8 * bytes);
                    damaged[bit as usize / 8] ^= 1 << (bit % 8);
                }
            }
            fs::write(inbox.join(format!("{is_rgb}-{at}.dcm")), dicom(LOSSLESS, &damaged, 1, is_rgb))
                .unwrap();
        }
    }
    let [expected, found] = ["cpu", devices].map(|devices| outcome(&inbox, &inbox, devices));
    assert!(expected.0.len() > number / 4 && expected.1.len() > number / 4, "some of each");
    assert_eq!(expected.1, found.1);
    assert!(expected.0 == found.0, "outputs differ");
}

#[test]
fn damaged_codestreams_are_judged_alike_with_workers() {
    compare_damaged("cpu-workers:1", 40);
}

/// Returns whether GPUs decode JPEG 2000.
///
/// If not, reports a skip or panics (see [`gpu_or_skip`]).
fn gpu_decodes() -> bool {
    let told = devices();
    gpu_or_skip(told.contains("JPEG 2000 on the GPU: yes"), &told)
}

#[test]
fn a_gpu_decodes_to_the_same_bytes() {
    if !gpu_decodes() {
        return;
    }
    for flags in [&[][..], &["--method", "clahe"]] {
        let (batch, codestreams) = batch(flags);
        let summary = batch.assert_done(&batch.histeqd("0", "out").output().unwrap(), "out");
        assert_eq!(decoded(&summary), codestreams, "{flags:?}: {summary}");
    }
}

#[test]
fn a_gpu_judges_damaged_codestreams_as_the_cpu_does() {
    if gpu_decodes() {
        compare_damaged("0", 300);
    }
}

#[test]
fn a_gpu_decodes_high_throughput() {
    if !gpu_decodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, syntax, stream| {
        let inbox = folder.path().join(name);
        fs::create_dir(&inbox).unwrap();
        fs::write(inbox.join("frames.dcm"), dicom(syntax, &codestream(stream), 3, false)).unwrap();
        fs::write(inbox.join("file.j2k"), codestream(stream)).unwrap();
        inbox
    };
    let (plain, fast) = (made("plain", LOSSLESS, GRAY), made("fast", HIGH_THROUGHPUT, GRAY_HIGH_THROUGHPUT));
    let (expected, _) = outcome(&plain, &plain, "cpu");
    for devices in ["0", "auto"] {
        let (found, failed) = outcome(&fast, &fast, devices);
        assert!(failed.is_empty(), "{devices}: {failed:?}");
        assert!(found == expected, "{devices}");
    }
}
