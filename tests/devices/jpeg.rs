//! JPEGs that a GPU recodes by histeqd's own coder: always with the bytes of the CPU.

use codec::coders::CompressedJpeg;
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Tiles};
use lanes::{Order, Recoded, Recoding, Unit, open};
use rustix::process::Signal;
use serde_json::Value;

use super::batch::{Batch, notes, signal, workers_of};
use crate::harness::{devices, gpus, histeqd, wait};

/// The files that a GPU takes.
const TAKEN: [&str; 12] = [
    "411.jpg",
    "gray.jpg",
    "444.jpg",
    "422.jpg",
    "420.jpg",
    "440.jpg",
    "metadata.jpg",
    "tiny.jpg",
    "restart.jpg",
    "restarts.jpg",
    "three-tables.jpg",
    "odd-tables.jpg",
];

macro_rules! files {
    ($($name:literal),*) => { [$(($name, include_bytes!(concat!("../data/jpeg/", $name)).as_slice())),*] };
}

/// The files, embedded because the tests may run on another machine, without the tree.
const FILES: [(&str, &[u8]); 14] = files![
    "gray.jpg",
    "411.jpg",
    "444.jpg",
    "422.jpg",
    "420.jpg",
    "440.jpg",
    "metadata.jpg",
    "tiny.jpg",
    "progressive.jpg",
    "restart.jpg",
    "restarts.jpg",
    "three-tables.jpg",
    "odd-tables.jpg",
    "damaged.jpg"
];

/// Returns a file of `tests/data/jpeg`.
pub(crate) fn data(name: &str) -> Vec<u8> {
    FILES.iter().find(|(known, _)| *known == name).unwrap().1.to_vec()
}

/// Returns marker and content of each segment before the scan, without Huffman tables.
///
/// Quantization tables in one segment are listed one by one.
pub(crate) fn segments(jpeg: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), 2);
    while jpeg[at + 1] != 0xda {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        let content = &jpeg[at + 4..at + 2 + length];
        match jpeg[at + 1] {
            0xc4 => {}
            0xdb => found.extend(content.chunks(65).map(|table| (0xdb, table.to_vec()))),
            marker => found.push((marker, content.to_vec())),
        }
        at += 2 + length;
    }
    found
}

fn batch(names: &[&str], copies: usize, flags: &[&str]) -> Batch {
    let copy = |number| names.iter().map(move |&name| (format!("{number}-{name}"), data(name)));
    Batch::new((0..copies).flat_map(copy), flags)
}

/// Processes a batch on the first GPU; returns the summary. The outputs have the bytes of the CPU.
fn done(batch: &Batch, fault: Option<&str>) -> Value {
    let mut command = batch.histeqd("0", "out");
    command.args(["--jpeg", "gpu", "--timings", "--device-timeout", "8s"]);
    if let Some(fault) = fault {
        command.env("HISTEQD_FAULT", fault);
    }
    batch.assert_done(&command.output().unwrap(), "out")
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// Returns the number of pictures that the GPU decoded and encoded.
fn recoded(summary: &Value) -> u64 {
    let devices = summary["devices"].as_object().unwrap();
    devices.get("gpu0-jpeg").map_or(0, |pictures| pictures.as_u64().unwrap())
}

/// Returns the number of pictures that the GPU left to the CPU.
fn left(summary: &Value) -> u64 {
    sum(&summary["timings"]["load"]["left"])
}

#[test]
fn outputs_have_the_bytes_of_the_cpu() {
    if gpus() == 0 {
        return;
    }
    for flags in [
        &[][..],
        &["--quality", "75"],
        &["--quality", "100"],
        &["--method", "clahe"],
        &["--method", "clahe", "--tiles", "3x2", "--quality", "90"],
        &["--method", "stretch"],
        &["--strength", "0.4"],
        &["--plateau", "1"],
        // The pictures are counted, and then sent through the LUT of their kind.
        &["--together", "all"],
        &["--together", "all", "--color", "linked"],
    ] {
        let summary = done(&batch(&TAKEN, 5, flags), None);
        assert_eq!((recoded(&summary), left(&summary)), (5 * TAKEN.len() as u64, 0), "{flags:?}: {summary}");
    }
}

#[test]
fn pictures_matched_to_a_reference_have_the_bytes_of_the_cpu() {
    if gpus() == 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let reference = folder.path().join("reference.jpg");
    std::fs::write(&reference, data("422.jpg")).unwrap();
    for colour in ["luma", "hue", "per-channel"] {
        let flags = ["--method", "match", "--reference", reference.to_str().unwrap(), "--color", colour];
        let summary = done(&batch(&["420.jpg", "444.jpg", "restarts.jpg"], 5, &flags), None);
        assert_eq!((recoded(&summary), left(&summary)), (15, 0), "{colour}: {summary}");
    }
}

#[test]
fn what_no_gpu_recodes_has_the_bytes_of_the_cpu() {
    if gpus() == 0 {
        return;
    }
    for flags in
        [&["--color", "hue"][..], &["--color", "per-channel"], &["--format", "png"], &["--color", "gray"]]
    {
        done(&batch(&TAKEN, 1, flags), None);
    }
    let progressive = done(&batch(&["progressive.jpg"], 3, &[]), None);
    assert_eq!((recoded(&progressive), left(&progressive)), (0, 0), "{progressive}");
}

#[test]
fn damage_is_reported_by_the_cpu_and_without_a_note() {
    if gpus() == 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    for name in ["damaged.jpg", "420.jpg"] {
        std::fs::write(folder.path().join("in").join(name), data(name)).unwrap();
    }
    let failed = |out: &str, flags: &[&str]| {
        let mut command = histeqd();
        command.arg(folder.path().join("in")).arg("--out").arg(folder.path().join(out));
        let output = command.args(["--no-config", "--json", "--timings"]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!notes(&summary).contains("decoded on the CPU"), "{summary}");
        summary
    };
    let by_gpu = failed("gpu", &["--jpeg", "gpu"]);
    assert_eq!((recoded(&by_gpu), left(&by_gpu)), (1, 1), "{by_gpu}");
    assert_eq!(by_gpu["failed"], failed("cpu", &["--devices", "cpu"])["failed"]);
}

#[test]
fn a_result_too_long_for_its_slot_is_made_by_the_cpu() {
    if gpus() == 0 {
        return;
    }
    // Noise shrinks to little at quality 1, but the block edges that remain take many bits at 100.
    let mut state = 1_u32;
    let mut pgm = b"P5 1000 800 255\n".to_vec();
    pgm.extend((0..1000 * 800).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    let noise = Batch::new([("noise.pgm".to_owned(), pgm)], &["--format", "jpeg", "--quality", "1"]);
    let (name, jpeg) = noise.contents("expected").remove(0);
    let summary = done(&Batch::new([(name, jpeg)], &["--quality", "100"]), None);
    assert_eq!((recoded(&summary), left(&summary)), (0, 1), "{summary}");
    assert!(!notes(&summary).contains("decoded on the CPU"), "{summary}");
}

fn assert_survives(fault: &str, said: &str) {
    if gpus() == 0 {
        return;
    }
    let summary = done(&batch(&TAKEN, 40, &[]), Some(fault));
    assert!(notes(&summary).contains(said), "{summary}");
}

#[test]
fn a_worker_that_ends_costs_nothing() {
    assert_survives("exit@50", "ended by signal 9");
}

#[test]
fn a_kernel_that_traps_costs_nothing() {
    assert_survives("trap@50", "CUDA");
}

#[test]
fn a_lane_that_hangs_costs_nothing() {
    assert_survives("hang@50", "took longer than --device-timeout");
}

#[test]
fn a_worker_killed_among_jpegs_costs_nothing() {
    if gpus() == 0 {
        return;
    }
    let batch = batch(&TAKEN, 40, &[]);
    let mut command = batch.histeqd("0", "out");
    // Workers that hang late keep the batch from ending before they are killed.
    command.args(["--jpeg", "gpu", "--device-timeout", "2s"]).env("HISTEQD_FAULT", "hang@60");
    let child = command.spawn().unwrap();
    let is_output = |entry: std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    wait("the first output", || {
        std::fs::read_dir(batch.out("out")).is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(is_output)))
    });
    workers_of(child.id()).into_iter().for_each(|worker| signal(worker, Signal::KILL));
    let summary = batch.assert_done(&child.wait_with_output().unwrap(), "out");
    assert!(notes(&summary).contains("ended by signal 9"), "{summary}");
}

#[test]
fn a_gpu_that_had_no_memory_for_some_files_takes_others() {
    if gpus() == 0 {
        return;
    }
    let engine = open(Unit::Gpu(0), Some(1 << 20)).unwrap();
    let mut lane = engine.jpeg_lane().unwrap();
    let file = data("420.jpg");
    let layout = Layout { width: 243, height: 157, pixel: Pixel::Gray, depth: Depth::Eight };
    let jpeg = CompressedJpeg { bytes: file.len() as u64, layout, quality: codec::JpegQuality::Keep };
    // The tables of the boxes alone take more memory than the lane may.
    let fine = Method::Clahe(Clahe {
        clip_limit: ClipLimit::Times(2.0),
        tiles: Tiles::Grid { x: 128, y: 128 },
        noise: 0,
    });
    for (method, is_taken) in [(fine, false), (Method::Global, true), (fine, false), (Method::Global, true)] {
        let mut slot = file.clone();
        slot.resize(jpeg.slot_bytes() as usize, 0);
        let mut slots = vec![slot; 9];
        let recoding = |slot| Recoding {
            slot: Vec::as_mut_slice(slot),
            jpeg,
            order: Order::Equalize(Operation::new(method)),
            answer: Recoded::Declined("it was not tried".to_owned()),
        };
        let mut batch: Vec<Recoding<'_>> = slots.iter_mut().map(recoding).collect();
        lane.recode(&mut batch).unwrap();
        assert!(batch.iter().all(|one| match &one.answer {
            Recoded::Encoded(_) => is_taken,
            Recoded::Declined(reason) => !is_taken && reason.is_empty(),
            Recoded::Counted => false,
        }));
    }
}

#[test]
fn insisting_on_a_gpu_where_there_is_none_is_an_error() {
    if devices().lines().any(|line| line.starts_with("gpu")) {
        return;
    }
    let batch = batch(&["gray.jpg"], 1, &[]);
    let output = batch.histeqd("auto", "out").args(["--jpeg", "gpu"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no GPU can"), "{output:?}");
    batch.assert_done(&batch.histeqd("auto", "out").output().unwrap(), "out");
}
