//! Every GPU against the CPU, byte for byte, and GPUs that fail in the middle of a batch.

use std::os::fd::OwnedFd;

use equalize::{Depth, Layout, Pixel};
use histeqd::device::worker::protocol::{Channel, FromWorker};
use rustix::process::Signal;
use serde_json::Value;

use super::batch::{Batch, by, notes, signal, under_way};
use crate::harness::{gpus, histeqd, project};
use crate::samples::{DATA, Data, Random, every_layout, layout, pam, samples};

/// Returns a PAM file of this kind of data.
fn picture(layout: Layout, data: Data, random: &mut Random) -> Vec<u8> {
    pam(&layout, &samples(&layout, data, random))
}

/// Pictures of every depth, number of channels and kind of data.
///
/// Their sizes are 1x1 and more, most of them odd.
fn pictures() -> Vec<(String, Vec<u8>)> {
    let sizes = [(1, 1), (2, 1), (1, 3), (7, 5), (17, 16), (33, 31), (255, 3), (641, 479), (1000, 777)];
    let small = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height));
    let small = small.flat_map(|layout| DATA.map(|data| (layout, data)));
    let large = every_layout(4999, 3001).flat_map(|layout| match (layout.pixel, layout.depth) {
        (Pixel::Gray, _) | (Pixel::Rgb, Depth::Eight) | (Pixel::Rgba, Depth::Sixteen) => {
            vec![(layout, Data::Natural), (layout, Data::OneHotBin)]
        }
        _ => Vec::new(),
    });
    let mut random = Random(2026);
    let mut named = |(layout, data)| {
        let Layout { width, height, pixel, depth } = layout;
        (format!("{width}x{height}-{pixel:?}-{depth:?}-{data:?}.pam"), picture(layout, data, &mut random))
    };
    small.chain(large).map(&mut named).chain(of_no_levels()).collect()
}

/// Pictures with samples that are not levels, some of them with a mask.
fn of_no_levels() -> impl Iterator<Item = (String, Vec<u8>)> {
    let folder = project().join("tests/data/samples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pictures = files.filter(|path| path.extension().is_some_and(|own| own == "tif" || own == "pfm"));
    pictures
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
}

fn assert_parity(flags: &[&str]) {
    assert_parity_of(pictures, flags);
}

fn assert_parity_of(pictures: impl FnOnce() -> Vec<(String, Vec<u8>)>, flags: &[&str]) {
    let gpus = gpus();
    if gpus == 0 {
        return;
    }
    let batch = Batch::new(pictures(), flags);
    for gpu in 0..gpus {
        let out = format!("gpu{gpu}");
        let output = batch.histeqd(&gpu.to_string(), &out).output().unwrap();
        let summary = batch.assert_done(&output, &out);
        assert_eq!(by(&summary, "cpu"), 0, "the GPU did it all: {summary}");
    }
}

#[test]
fn luma_has_the_same_bytes() {
    assert_parity(&["--color", "luma"]);
}

#[test]
fn hue_has_the_same_bytes() {
    assert_parity(&["--color", "hue"]);
    assert_parity(&["--color", "hue", "--method", "clahe", "--strength", "0.5"]);
}

#[test]
fn lab_has_the_same_bytes() {
    let of_8_bits = || pictures().into_iter().filter(|(name, _)| name.contains("-Eight-")).collect();
    assert_parity_of(of_8_bits, &["--color", "lab"]);
    assert_parity_of(of_8_bits, &["--color", "lab", "--method", "clahe", "--strength", "0.5"]);
}

#[test]
fn per_channel_has_the_same_bytes() {
    assert_parity(&["--color", "per-channel"]);
}

#[test]
fn linked_colours_have_the_same_bytes() {
    assert_parity(&["--color", "linked"]);
    assert_parity(&["--color", "linked", "--method", "stretch", "--strength", "0.4"]);
}

#[test]
fn gray_has_the_same_bytes() {
    assert_parity(&["--color", "gray"]);
    assert_parity(&["--color", "green"]);
}

#[test]
fn a_plateau_has_the_same_bytes() {
    assert_parity(&["--plateau", "0.3"]);
    assert_parity(&["--plateau", "1", "--color", "hue", "--strength", "0.7"]);
}

#[test]
fn clahe_has_the_same_bytes() {
    assert_parity(&["--method", "clahe"]);
}

#[test]
fn clahe_with_other_limits_and_tiles_has_the_same_bytes() {
    assert_parity(&["--method", "clahe", "--clip-limit", "40", "--tiles", "5x16", "--color", "per-channel"]);
    assert_parity(&["--method", "clahe", "--clip-limit", "0", "--tiles", "1x1"]);
    assert_parity(&["--method", "clahe", "--clip-limit", "1.37", "--tile-size", "48"]);
    assert_parity(&["--method", "clahe", "--clip-limit", "2"]);
}

#[test]
fn photographs_have_the_same_bytes() {
    assert_parity(&["--preset", "photo"]);
    assert_parity(&["--exposure", "0.9", "--clip-high", "2", "--color", "linked"]);
}

#[test]
fn a_stretch_has_the_same_bytes() {
    assert_parity(&["--method", "stretch"]);
    assert_parity(&["--method", "stretch", "--clip-low", "2", "--color", "per-channel", "--strength", "0.4"]);
}

#[test]
fn any_strength_and_depth_has_the_same_bytes() {
    assert_parity(&["--strength", "0.4"]);
    assert_parity(&["--strength", "0.75", "--color", "per-channel", "--depth", "8"]);
    assert_parity(&["--strength", "0.75", "--method", "clahe"]);
}

#[test]
fn gpus_are_taken_where_they_pay() {
    if gpus() == 0 {
        return;
    }
    let mut random = Random(3);
    // It takes one core several times as long as CUDA needs to start, and half of that is
    // equalizing.
    let tiled = (0..800).map(|number| {
        let large = layout(1024, 1024, Pixel::Gray, Depth::Sixteen);
        (format!("{number}.pgm"), picture(large, Data::Random, &mut random))
    });
    let equalized = Batch::new(tiled, &["--method", "clahe", "--threads", "1"]);
    let summary = equalized.assert_done(&equalized.histeqd("auto", "out").output().unwrap(), "out");
    assert!(by(&summary, "cpu") < 800, "equalizing was half of what there was to do: {summary}");

    let encoded = many(40, &["--format", "png", "--png-level", "small", "--threads", "1"]);
    let output = encoded.histeqd("auto", "out").output().unwrap();
    let summary = encoded.assert_done(&output, "out");
    assert!(summary["seconds"].as_f64().unwrap() > 1.0, "there was time for more: {summary}");
    assert_eq!(by(&summary, "cpu"), 40, "equalizing was next to nothing: {summary}");
}

/// A batch of `count` gray pictures.
fn many(count: u32, flags: &'static [&'static str]) -> Batch {
    let mut random = Random(7);
    let named = |number: u32| {
        let bytes =
            picture(layout(1500 + number, 1000, Pixel::Gray, Depth::Eight), Data::Natural, &mut random);
        (format!("{number}.pgm"), bytes)
    };
    Batch::new((0..count).map(named), flags)
}

fn assert_survives(fault: &str, said: &str) {
    assert_batch_survives(|| many(60, &[]), fault, said);
}

fn assert_batch_survives(batch: impl Fn() -> Batch, fault: &str, said: &str) {
    let gpus = gpus();
    for used in 1..=gpus.min(2) {
        let batch = batch();
        let devices = ["0", "0,1"][used - 1];
        let mut command = batch.histeqd(devices, "out");
        let output = command.args(["--device-timeout", "3s"]).env("HISTEQD_FAULT", fault).output().unwrap();
        let summary = batch.assert_done(&output, "out");
        assert!(notes(&summary).contains(said), "{summary}");
    }
}

#[test]
fn a_trapping_kernel_costs_nothing() {
    assert_survives("trap@5", "CUDA");
}

#[test]
fn a_worker_that_exits_costs_nothing() {
    assert_survives("exit@5", "ended by signal 9");
}

#[test]
fn a_lane_that_hangs_costs_nothing() {
    assert_survives("hang@5", "took longer than --device-timeout");
}

#[test]
fn a_gpu_that_fails_every_time_is_given_up() {
    // Each failure hands all pictures that the GPU holds over to the CPU. With few threads these
    // are few, which leaves pictures for the next failure.
    let batch = || many(160, &["--threads", "2"]);
    assert_batch_survives(batch, "trap@1*", "given up");
}

fn assert_survives_signal(sent: Signal, said: &str) {
    let gpus = gpus();
    for used in 1..=gpus.min(2) {
        let batch = many(60, &[]);
        let (child, workers) = under_way(&batch, ["0", "0,1"][used - 1], used);
        signal(workers[0], sent);
        let summary = batch.assert_done(&child.wait_with_output().unwrap(), "out");
        assert!(notes(&summary).contains(said), "{summary}");
    }
}

#[test]
fn a_killed_worker_costs_nothing() {
    assert_survives_signal(Signal::KILL, "ended by signal 9");
}

#[test]
fn a_stopped_worker_costs_nothing() {
    assert_survives_signal(Signal::STOP, "took longer than --device-timeout");
}

/// Starts a worker on the GPU with this index or, if it has another one, this UUID.
///
/// Returns its first message.
fn first_message(ordinal: &str, uuid: &str) -> FromWorker {
    let (ours, theirs) = Channel::pair().unwrap();
    let mut command = histeqd();
    command.args(["worker", "--gpu", ordinal, "--uuid", uuid]).stdin(OwnedFd::from(theirs));
    let mut worker = command.spawn().unwrap();
    drop(command);
    let (message, _) = ours.receive().unwrap().unwrap();
    drop(ours);
    worker.wait().unwrap();
    message
}

#[test]
fn a_gpu_is_known_by_its_uuid_whatever_its_index() {
    if gpus() == 0 {
        return;
    }
    let list = histeqd().args(["worker", "--list"]).output().unwrap().stdout;
    let list: Value = serde_json::from_slice(&list).unwrap();
    let uuid = list["Ok"][0]["uuid"].as_str().unwrap();
    for ordinal in ["0", "1000"] {
        let FromWorker::Ready(Some(info)) = first_message(ordinal, uuid) else { panic!("not ready") };
        assert_eq!((info.ordinal, info.uuid.as_str()), (0, uuid));
    }
    let FromWorker::Refused(why) = first_message("0", "GPU-gone") else { panic!("not refused") };
    assert_eq!(why, "the GPU with the UUID GPU-gone is gone");
}
