//! JPEGs that a GPU decodes and encodes by histeqd's own coder: the bytes of the CPU, whatever
//! happens.

use serde_json::Value;

use super::batch::{Batch, notes};
use super::jpeg::data;
use crate::harness::{gpus, histeqd};

/// The files that the coder takes.
const TAKEN: [&str; 11] = [
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

const OURS: [&str; 4] = ["--jpeg", "gpu", "--jpeg-coder", "histeqd"];

fn batch(names: &[&str], copies: usize, flags: &[&str]) -> Batch {
    let copy = |number| names.iter().map(move |&name| (format!("{number}-{name}"), data(name)));
    Batch::new((0..copies).flat_map(copy), flags)
}

/// Processes a batch on the first GPU; returns the summary. The outputs have the bytes of the CPU.
fn done(batch: &Batch, fault: Option<&str>) -> Value {
    let mut command = batch.histeqd("0", "out");
    command.args(OURS).args(["--timings", "--device-timeout", "8s"]);
    if let Some(fault) = fault {
        command.env("HISTEQD_FAULT", fault);
    }
    batch.assert_done(&command.output().unwrap(), "out")
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// Returns how many pictures the GPU decoded and encoded.
fn recoded(summary: &Value) -> u64 {
    let devices = summary["devices"].as_object().unwrap();
    assert!(!devices.contains_key("gpu0-jpeg1"), "one process does all: {summary}");
    devices.get("gpu0-jpeg0").map_or(0, |pictures| pictures.as_u64().unwrap())
}

/// Returns how many pictures the GPU left to the CPU.
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
    ] {
        let summary = done(&batch(&TAKEN, 5, flags), None);
        assert_eq!((recoded(&summary), left(&summary)), (5 * TAKEN.len() as u64, 0), "{flags:?}: {summary}");
    }
}

#[test]
fn what_the_coder_does_not_do_has_the_bytes_of_the_cpu() {
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
    let by_gpu = failed("gpu", &OURS);
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
