//! Every GPU against the CPU, byte for byte, and GPUs that fail in the middle of a batch.

use rustix::process::Signal;

use super::batch::{Batch, by, histeqd, notes, signal, under_way};

/// How many GPUs can be used here; none skips the test that asks, aloud, unless a GPU is required.
pub(crate) fn gpus(test: &str) -> usize {
    let output = histeqd().arg("devices").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().filter(|line| line.starts_with("gpu")).count();
    let required = std::env::var_os("HISTEQD_REQUIRE_CUDA").is_some_and(|value| value == "1");
    assert!(found > 0 || !required, "HISTEQD_REQUIRE_CUDA=1, but there is no GPU: {text}");
    if found == 0 {
        eprintln!("{test}: skipped, there is no GPU here: {}", text.trim());
    }
    found
}

/// A small generator; the same numbers every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What the samples of a picture look like.
#[derive(Clone, Copy, Debug)]
enum Data {
    Random,
    Natural,
    Constant,
    TwoValued,
    OneHotBin,
}

const ALL_DATA: [Data; 5] = [Data::Random, Data::Natural, Data::Constant, Data::TwoValued, Data::OneHotBin];

impl Data {
    fn sample(self, at: u64, width: u64, maximum: u64, noise: &mut Noise) -> u64 {
        match self {
            Self::Random => noise.below(maximum + 1),
            Self::Natural => {
                (maximum / 4 + (at % width + at / width) * maximum / 9000 + noise.below(maximum / 16 + 1))
                    .min(maximum)
            }
            Self::Constant => maximum / 3,
            Self::TwoValued => [maximum / 5, maximum / 2][usize::from(noise.below(7) == 0)],
            Self::OneHotBin => {
                if noise.below(50) == 0 {
                    noise.below(maximum + 1)
                } else {
                    maximum / 7
                }
            }
        }
    }
}

/// A PAM of one to four channels; where there is alpha, about every fifth pixel is fully transparent.
fn pam(width: u64, height: u64, channels: u64, maximum: u64, data: Data, noise: &mut Noise) -> Vec<u8> {
    let kind = ["GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"][channels as usize - 1];
    let mut bytes = format!(
        "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {maximum}\nTUPLTYPE {kind}\nENDHDR\n"
    )
    .into_bytes();
    for at in 0..width * height * channels {
        let alpha = channels.is_multiple_of(2) && at % channels == channels - 1;
        let sample = match alpha {
            true => [0, maximum, maximum / 2, maximum, 1][noise.below(5) as usize],
            false => data.sample(at / channels, width, maximum, noise),
        };
        match maximum {
            255 => bytes.push(sample as u8),
            _ => bytes.extend((sample as u16).to_be_bytes()),
        }
    }
    bytes
}

/// Every depth, number of channels and kind of data, at sizes from 1x1 on, most of them odd.
fn pictures() -> Vec<(String, Vec<u8>)> {
    let mut noise = Noise(2026);
    let sizes = [(1, 1), (2, 1), (1, 3), (7, 5), (17, 16), (33, 31), (255, 3), (641, 479), (1000, 777)];
    let mut pictures = Vec::new();
    let mut add = |width, height, channels, maximum, data| {
        let name = format!("{width}x{height}-{channels}-{maximum}-{data:?}.pam");
        pictures.push((name, pam(width, height, channels, maximum, data, &mut noise)));
    };
    for (channels, maximum) in (1..=4).flat_map(|channels| [(channels, 255), (channels, 65535)]) {
        for data in ALL_DATA {
            sizes.iter().for_each(|&(width, height)| add(width, height, channels, maximum, data));
        }
    }
    for (channels, maximum) in [(1, 255), (1, 65535), (3, 255), (4, 65535)] {
        add(5000, 3000, channels, maximum, Data::Natural);
        add(4999, 2999, channels, maximum, Data::OneHotBin);
    }
    pictures
}

fn assert_parity(test: &str, flags: &[&str]) {
    let gpus = gpus(test);
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
    assert_parity("luma_has_the_same_bytes", &["--color", "luma"]);
}

#[test]
fn per_channel_has_the_same_bytes() {
    assert_parity("per_channel_has_the_same_bytes", &["--color", "per-channel"]);
}

#[test]
fn gray_has_the_same_bytes() {
    assert_parity("gray_has_the_same_bytes", &["--color", "gray"]);
}

#[test]
fn clahe_has_the_same_bytes() {
    assert_parity("clahe_has_the_same_bytes", &["--method", "clahe"]);
}

#[test]
fn clahe_with_other_limits_and_tiles_has_the_same_bytes() {
    let test = "clahe_with_other_limits_and_tiles_has_the_same_bytes";
    assert_parity(
        test,
        &["--method", "clahe", "--clip-limit", "40", "--tiles", "5x16", "--color", "per-channel"],
    );
    assert_parity(test, &["--method", "clahe", "--clip-limit", "0", "--tiles", "1x1"]);
    assert_parity(test, &["--method", "clahe", "--clip-limit", "1.37", "--tile-size", "48"]);
}

#[test]
fn gpus_are_taken_where_they_pay() {
    if gpus("gpus_are_taken_where_they_pay") == 0 {
        return;
    }
    let mut noise = Noise(3);
    // The tiles' LUTs of 16 bits take the CPU many times what CUDA needs to start.
    let tiled: Vec<_> = (0..100)
        .map(|number| (format!("{number}.pgm"), pam(256, 256, 1, 65535, Data::Natural, &mut noise)))
        .collect();
    let equalized = Batch::new(tiled, &["--method", "clahe", "--tiles", "16x16", "--threads", "1"]);
    let summary = equalized.assert_done(&equalized.histeqd("auto", "out").output().unwrap(), "out");
    assert!(by(&summary, "cpu") < 100, "equalizing was all there was to do: {summary}");

    let encoded = many(40, &["--format", "png", "--png-level", "small", "--threads", "1"]);
    let output = encoded.histeqd("auto", "out").output().unwrap();
    let summary = encoded.assert_done(&output, "out");
    assert!(summary["seconds"].as_f64().unwrap() > 1.0, "there was time for more: {summary}");
    assert_eq!(by(&summary, "cpu"), 40, "equalizing was next to nothing: {summary}");
}

/// So many gray pictures.
fn many(count: u64, flags: &'static [&'static str]) -> Batch {
    let mut noise = Noise(7);
    let picture = |number: u64| {
        let bytes = pam(1500 + number, 1000, 1, 255, Data::Natural, &mut noise);
        (format!("{number}.pgm"), bytes)
    };
    Batch::new((0..count).map(picture), flags)
}

fn assert_survives(test: &str, fault: &str, said: &str) {
    assert_batch_survives(test, || many(60, &[]), fault, said);
}

fn assert_batch_survives(test: &str, batch: impl Fn() -> Batch, fault: &str, said: &str) {
    let gpus = gpus(test);
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
    assert_survives("a_trapping_kernel_costs_nothing", "trap@5", "CUDA");
}

#[test]
fn a_worker_that_exits_costs_nothing() {
    assert_survives("a_worker_that_exits_costs_nothing", "exit@5", "ended by signal 9");
}

#[test]
fn a_lane_that_hangs_costs_nothing() {
    assert_survives("a_lane_that_hangs_costs_nothing", "hang@5", "overran its deadline");
}

#[test]
fn a_gpu_that_fails_every_time_is_given_up() {
    // Each failure sends all that the GPU has to the CPU: with few threads that is little, and more pictures are there for the
    // next.
    let batch = || many(160, &["--threads", "2"]);
    assert_batch_survives("a_gpu_that_fails_every_time_is_given_up", batch, "trap@1*", "given up");
}

fn assert_survives_signal(test: &str, sent: Signal, said: &str) {
    let gpus = gpus(test);
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
    assert_survives_signal("a_killed_worker_costs_nothing", Signal::KILL, "ended by signal 9");
}

#[test]
fn a_stopped_worker_costs_nothing() {
    assert_survives_signal("a_stopped_worker_costs_nothing", Signal::STOP, "overran its deadline");
}
