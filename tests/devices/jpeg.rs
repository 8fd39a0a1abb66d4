//! JPEGs that a GPU decodes and encodes by nvJPEG, compared with what the CPU makes of them.

use std::fs;
use std::process::Output;

use codec::{self, BaselineScan, CompressedJpeg, Cores, Decoded, JpegCoder, Limits, Sampling, Target};
use equalize::{Clahe, ClipLimit, Method, Operation, Tiles};
use histeqd::slot::Memory;
use lanes::{Engine, JPEG_BATCH, Recoded, Recoding, Unit, open};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::batch::{notes, signal, workers_of};
use crate::harness::{devices, gpu_or_skip, histeqd, wait};

/// The files that a GPU both decodes and encodes.
const GPUS: [&str; 7] = ["gray.jpg", "444.jpg", "422.jpg", "420.jpg", "440.jpg", "metadata.jpg", "tiny.jpg"];

/// The undamaged files that are left to the CPU.
const PROCESSORS: [&str; 3] = ["progressive.jpg", "restart.jpg", "three-tables.jpg"];

/// The flags for nvJPEG.
const NVJPEG: [&str; 2] = ["--jpeg-coder", "nvjpeg"];

const TARGET: Target = Target::AS_STORED;

macro_rules! files {
    ($($name:literal),*) => { [$(($name, include_bytes!(concat!("../data/jpeg/", $name)).as_slice())),*] };
}

/// The files, embedded because the tests may run on another machine, without the tree.
const FILES: [(&str, &[u8]); 13] = files![
    "gray.jpg",
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

/// Returns a folder with an inbox of these files.
fn folder(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inbox")).unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join("inbox").join(name), bytes).unwrap();
    }
    folder
}

fn of_data(names: &[&str]) -> TempDir {
    folder(names.iter().map(|&name| (name.to_owned(), data(name))))
}

/// Processes the inbox into the folder `out`.
fn run(folder: &TempDir, out: &str, flags: &[&str]) -> Output {
    let mut command = histeqd();
    command.arg(folder.path().join("inbox")).arg("--out").arg(folder.path().join(out));
    command.args(["--no-config", "--json", "--overwrite"]).args(NVJPEG).args(flags).output().unwrap()
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Asserts that the run did all pictures, and returns its summary.
fn assert_done(output: &Output, pictures: usize) -> Value {
    let summary = summary(output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["done"], pictures, "{summary}");
    summary
}

/// Returns how many pictures GPUs decoded and encoded.
fn by_decoders(summary: &Value) -> u64 {
    let devices = summary["devices"].as_object().unwrap().iter();
    devices.filter(|(name, _)| name.contains("-jpeg")).map(|(_, pictures)| pictures.as_u64().unwrap()).sum()
}

fn output(folder: &TempDir, out: &str, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(out).join(name)).unwrap()
}

/// Decodes a JPEG to its luma plane, and to its chroma planes one after the other (none of one that no device would take).
pub(crate) fn planes(jpeg: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, jpeg).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let limits = Limits { max_pixels: u64::MAX, max_bytes: 1 << 30 };
    let mut buffer = Vec::new();
    let opened = codec::open(&mut file, &mut buffer, &limits, &TARGET).unwrap();
    let mut slot = vec![0; opened.planes_bytes() + jpeg.len()];
    let mut workspace = vec![0; opened.workspace().bytes as usize];
    let decoded = if opened.compressed(&TARGET, JpegCoder::NvJpeg).is_some() {
        opened.decode_planes(&mut slot, &mut workspace).unwrap()
    } else {
        opened.decode(&mut slot, &mut workspace, &Cores::none()).unwrap()
    };
    slot.truncate(slot.len() - jpeg.len());
    let chroma = slot.split_off(decoded.layout.bytes() as usize);
    (slot, chroma)
}

/// Returns the largest and the mean difference.
fn difference(a: &[u8], b: &[u8]) -> (u8, f64) {
    assert_eq!(a.len(), b.len());
    let each = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    let mean = each().map(f64::from).sum::<f64>() / a.len().max(1) as f64;
    (each().max().unwrap_or(0), mean)
}

/// Returns marker and content of each segment before the scan, without Huffman tables; quantization tables in one segment are
/// listed one by one.
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

/// Asserts that both outputs have the same segments, look alike and are about as long; `most` bounds the mean difference of luma.
fn assert_alike(name: &str, by_gpu: &[u8], by_cpu: &[u8], most: f64) {
    assert_eq!(segments(by_gpu), segments(by_cpu), "{name}");
    let (gpu, cpu) = (planes(by_gpu), planes(by_cpu));
    let (luma, chroma) = (difference(&gpu.0, &cpu.0), difference(&gpu.1, &cpu.1));
    // In the smallest picture a few samples of chroma decide the mean. The largest difference would show one wrong block or edge.
    let largest = luma.0.max(chroma.0);
    assert!(luma.1 <= most && chroma.1 <= 1.0 && largest <= 16, "{name}: luma {luma:?}, chroma {chroma:?}");
    assert!(
        by_gpu.len() < by_cpu.len() * 5 / 4 + 500,
        "{name}: {} bytes, not {}",
        by_gpu.len(),
        by_cpu.len()
    );
}

/// Whether there is a GPU that decodes JPEGs; if not, reports a skip or panics (see [`gpu_or_skip`]).
fn decodes() -> bool {
    let told = devices();
    gpu_or_skip(told.contains("JPEG on the GPU: yes"), &told)
}

fn assert_decoders_agree(flags: &[&str], most: f64) {
    if !decodes() {
        return;
    }
    let folder = of_data(&GPUS);
    let with = |jpeg: &'static str| [&["--jpeg", jpeg], flags].concat();
    assert_done(&run(&folder, "cpu", &with("cpu")), GPUS.len());
    let summary = assert_done(&run(&folder, "gpu", &with("gpu")), GPUS.len());
    assert_eq!(by_decoders(&summary), GPUS.len() as u64, "{summary}");
    for name in GPUS {
        assert_alike(name, &output(&folder, "gpu", name), &output(&folder, "cpu", name), most);
    }
}

#[test]
fn a_gpu_keeps_size_sampling_tables_and_metadata() {
    assert_decoders_agree(&[], 1.0);
}

#[test]
fn a_gpu_writes_the_quality_that_is_asked_for() {
    assert_decoders_agree(&["--quality", "75"], 1.0);
}

#[test]
fn a_gpu_does_clahe_too() {
    assert_decoders_agree(&["--method", "clahe", "--tiles", "3x2"], 1.5);
}

/// A slot with the planes of a JPEG followed by its file, as a device that encodes gets it.
struct Planes {
    memory: Memory,
    planes: usize,
    jpeg: CompressedJpeg,
    decoded: Decoded,
}

impl Planes {
    fn of(file: &[u8]) -> Self {
        let mut on_disk = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut on_disk, file).unwrap();
        std::io::Seek::rewind(&mut on_disk).unwrap();
        let mut buffer = Vec::new();
        let limits = Limits { max_pixels: u64::MAX, max_bytes: 1 << 30 };
        let opened = codec::open(&mut on_disk, &mut buffer, &limits, &TARGET).unwrap();
        let (planes, jpeg) = (opened.planes_bytes(), opened.compressed(&TARGET, JpegCoder::NvJpeg).unwrap());
        let mut memory = Memory::shared(planes + file.len()).unwrap();
        let decoded = opened.decode_planes(memory.bytes_mut(), &mut []).unwrap();
        Self { memory, planes, jpeg, decoded }
    }

    /// Has a lane encode the planes; returns the length of the result, or why there is none.
    fn encode_on(&mut self, engine: &dyn Engine) -> Result<u64, String> {
        let operation = Operation::new(Method::Global);
        engine.pin(self.memory.bytes_mut()).unwrap();
        let mut lane = engine.lane().unwrap();
        let slot = self.memory.bytes_mut();
        let encoded = lane.encode(slot, self.planes as u64, &self.jpeg, &operation).unwrap();
        engine.unpin(self.memory.bytes_mut());
        match encoded {
            Recoded::Encoded(length) => Ok(length),
            Recoded::Declined(reason) => Err(reason),
        }
    }

    /// Returns the file that the CPU makes of the planes.
    fn encoded_here(&mut self) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        let slot = self.memory.bytes_mut();
        codec::encode(&self.decoded, slot, &TARGET, &mut Vec::new(), &Cores::new(0), &mut file).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn a_gpu_encodes_what_the_processor_decoded() {
    if !decodes() {
        return;
    }
    let (gpu, cpu) = (open(Unit::Gpu(0), None).unwrap(), open(Unit::Cpu(0), None).unwrap());
    for name in GPUS {
        let (mut there, mut here) = (Planes::of(&data(name)), Planes::of(&data(name)));
        let length = there.encode_on(gpu.as_ref()).unwrap() as usize;
        assert!(here.encode_on(cpu.as_ref()).is_err());
        let mut file = tempfile::tempfile().unwrap();
        codec::write_encoded(&there.decoded, &there.memory.bytes()[..length], &mut file).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut by_gpu = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut by_gpu).unwrap();
        // Both encoded the same samples, so only the rounding in the transforms differs.
        assert_alike(name, &by_gpu, &here.encoded_here(), 0.3);
    }
}

#[test]
fn what_a_gpu_cannot_encode_it_equalizes() {
    if !decodes() {
        return;
    }
    let (gpu, cpu) = (open(Unit::Gpu(0), None).unwrap(), open(Unit::Cpu(0), None).unwrap());
    let changes: [fn(&mut Planes); 3] = [
        |it| it.memory.bytes_mut()[it.planes..].fill(0),
        |it| it.jpeg.bytes += 1,
        |it| it.jpeg.sampling = Sampling::Full,
    ];
    for change in changes {
        let (mut there, mut here) = (Planes::of(&data("420.jpg")), Planes::of(&data("420.jpg")));
        change(&mut there);
        assert!(there.encode_on(gpu.as_ref()).is_err());
        assert!(here.encode_on(cpu.as_ref()).is_err());
        assert!(there.memory.bytes()[..there.planes] == here.memory.bytes()[..here.planes]);
    }
}

#[test]
fn files_left_to_the_cpu_have_identical_bytes() {
    if !decodes() {
        return;
    }
    let folder = of_data(&PROCESSORS);
    assert_done(&run(&folder, "cpu", &["--jpeg", "cpu"]), PROCESSORS.len());
    let summary = assert_done(&run(&folder, "gpu", &["--jpeg", "gpu"]), PROCESSORS.len());
    assert_eq!(by_decoders(&summary), 0, "{summary}");
    for name in PROCESSORS {
        assert!(output(&folder, "gpu", name) == output(&folder, "cpu", name), "{name}");
    }
}

#[test]
fn damage_is_told_as_the_processor_tells_it() {
    if !decodes() {
        return;
    }
    let folder = of_data(&["damaged.jpg", "420.jpg"]);
    let by = |jpeg| {
        let output = run(&folder, jpeg, &["--jpeg", jpeg]);
        assert_eq!(output.status.code(), Some(1));
        assert!(!folder.path().join(jpeg).join("damaged.jpg").exists());
        summary(&output)["failed"].clone()
    };
    let by_cpu = by("cpu");
    assert!(by_cpu.to_string().contains("damaged JPEG"), "{by_cpu}");
    assert_eq!(by("gpu"), by_cpu);
}

/// Returns the file with its entropy-coded data damaged, differently for each number; some changes leave it whole.
fn damaged(file: &[u8], number: usize) -> Vec<u8> {
    // Knuth's multiplicative hash.
    let random = |below: usize, salt: usize| {
        (number * 8 + salt).wrapping_mul(2_654_435_761) as u32 as usize % below.max(1)
    };
    let scan = file.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 14;
    let length = file.len() - 2 - scan;
    let mut changed = file.to_vec();
    let at = scan + random(length, 0);
    match number % 4 {
        0 => changed[at] ^= 1 << random(8, 1),
        1 => drop(changed.splice(at..(at + 1 + random(40, 1)).min(file.len() - 2), [])),
        2 => changed[at] = 0,
        _ => drop(changed.splice(at..at, file[scan..scan + random(length.min(300), 1)].to_vec())),
    }
    changed
}

/// Returns two large JPEGs that the CPU encoded: a nearly empty page, in whose data nothing tells one block from the next; and noise.
fn pages() -> Vec<Vec<u8>> {
    let page = |name: &str, sample: fn(usize) -> u8| {
        let mut ppm = b"P6 2400 1600 255\n".to_vec();
        ppm.extend((0..3 * 2400 * 1600).map(sample));
        let folder = folder([(format!("{name}.ppm"), ppm)]);
        assert_done(&run(&folder, "jpeg", &["--format", "jpeg", "--quality", "90", "--devices", "cpu"]), 1);
        output(&folder, "jpeg", &format!("{name}.jpg"))
    };
    let empty = page("empty", |i| if i % 900_000 < 60 { 40 } else { 250 });
    let noise = page("noise", |i| ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8);
    vec![empty, noise]
}

/// Has a lane of the GPU decode, equalize and encode files that this description fits, each batch in one of these ways in turn; returns
/// its answers: the length of each result, or why there is none.
fn recode(
    engine: &dyn Engine,
    jpeg: CompressedJpeg,
    files: &[Vec<u8>],
    methods: &[Method],
) -> Vec<Result<u64, String>> {
    let mut slots: Vec<Memory> = files
        .iter()
        .map(|file| {
            let mut slot = Memory::shared(jpeg.slot_bytes() as usize + file.len()).unwrap();
            slot.bytes_mut()[..file.len()].copy_from_slice(file);
            engine.pin(slot.bytes_mut()).unwrap();
            slot
        })
        .collect();
    let mut lane = engine.jpeg_lane().unwrap();
    let mut said = Vec::new();
    let batches = slots.chunks_mut(JPEG_BATCH).zip(files.chunks(JPEG_BATCH));
    for ((slots, files), &method) in batches.zip(methods.iter().cycle()) {
        let recoding = |(slot, file): (_, &Vec<u8>)| Recoding {
            slot: Memory::bytes_mut(slot),
            jpeg: CompressedJpeg { bytes: file.len() as u64, ..jpeg },
            operation: Operation::new(method),
            answer: Recoded::Declined("it was not tried".to_owned()),
        };
        let mut batch: Vec<Recoding<'_>> = slots.iter_mut().zip(files).map(recoding).collect();
        lane.recode(&mut batch).unwrap();
        said.extend(batch.into_iter().map(|one| match one.answer {
            Recoded::Encoded(bytes) => Ok(bytes),
            Recoded::Declined(reason) => Err(reason),
        }));
    }
    slots.iter_mut().for_each(|slot| engine.unpin(slot.bytes_mut()));
    said
}

#[test]
fn a_gpu_finds_the_damage_that_the_processor_finds() {
    if !decodes() {
        return;
    }
    let engine = open(Unit::Gpu(0), None).unwrap();
    let (mut whole, mut broken) = (0, 0);
    for file in GPUS.map(data).into_iter().chain(pages()) {
        let jpeg = Planes::of(&file).jpeg;
        let files: Vec<Vec<u8>> =
            std::iter::once(file.clone()).chain((0..63).map(|number| damaged(&file, number))).collect();
        for (number, (file, said)) in
            files.iter().zip(recode(engine.as_ref(), jpeg, &files, &[Method::Global])).enumerate()
        {
            let is_whole = BaselineScan::read(file).is_some_and(|scan| scan.is_whole());
            let what = format!("{number} of {:?}: {said:?}", jpeg.layout);
            match said {
                Ok(_) => assert!(is_whole, "{what}"),
                Err(reason) => assert!(!is_whole || !reason.is_empty(), "{what}"),
            }
            whole += usize::from(is_whole);
            broken += usize::from(!is_whole);
        }
    }
    assert!(whole > 20 && broken > 200, "{whole} were whole, {broken} were damaged");
}

#[test]
fn a_gpu_that_had_no_memory_for_some_files_takes_others() {
    if !decodes() {
        return;
    }
    let engine = open(Unit::Gpu(0), Some(1 << 20)).unwrap();
    let file = data("420.jpg");
    let jpeg = Planes::of(&file).jpeg;
    // Their tables alone take more than the lane may.
    let fine = Method::Clahe(Clahe {
        clip_limit: ClipLimit::Times(2.0),
        tiles: Tiles::Grid { x: 128, y: 128 },
        noise: 0,
    });
    let said = recode(engine.as_ref(), jpeg, &vec![file; 4 * JPEG_BATCH], &[fine, Method::Global]);
    for (number, said) in said.into_iter().enumerate() {
        match (number / JPEG_BATCH % 2, said) {
            (0, Err(why)) => assert_eq!(why, "it does not fit into the GPU's memory"),
            (batch, said) => assert!(batch == 1 && said.is_ok(), "{number}: {said:?}"),
        }
    }
}

#[test]
fn a_result_too_long_for_its_slot_falls_back_to_the_cpu() {
    if !decodes() {
        return;
    }
    // Noise shrinks to little at quality 1, but the block edges that remain take many bits at 100.
    let mut state = 1_u32;
    let mut pgm = b"P5 2000 1500 255\n".to_vec();
    pgm.extend((0..2000 * 1500).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    let noise = folder([("noise.pgm".to_owned(), pgm)]);
    assert_done(&run(&noise, "jpeg", &["--format", "jpeg", "--quality", "1"]), 1);
    let folder = folder([("noise.jpg".to_owned(), output(&noise, "jpeg", "noise.jpg"))]);
    assert_done(&run(&folder, "cpu", &["--jpeg", "cpu", "--quality", "100"]), 1);
    let summary = assert_done(&run(&folder, "gpu", &["--jpeg", "gpu", "--quality", "100"]), 1);
    let (by_gpu, by_cpu) = (output(&folder, "gpu", "noise.jpg"), output(&folder, "cpu", "noise.jpg"));
    assert!(notes(&summary).contains("too long for its slot"), "{} bytes: {summary}", by_gpu.len());
    assert!(by_gpu == by_cpu);
}

/// Returns a folder with an inbox of `pictures` files, which are copies of those in [`GPUS`].
fn many(pictures: usize) -> TempDir {
    let name = |number: usize| format!("{number}-{}", GPUS[number % GPUS.len()]);
    folder((0..pictures).map(|number| (name(number), data(GPUS[number % GPUS.len()]))))
}

const MANY: usize = 400;

/// Asserts that all outputs are there and look like the CPU's, and returns the run's summary.
fn assert_all(folder: &TempDir, output_of_run: &Output) -> Value {
    let summary = assert_done(output_of_run, MANY);
    assert_done(&run(folder, "cpu", &["--deterministic"]), MANY);
    for entry in fs::read_dir(folder.path().join("cpu")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (gpu, cpu) = (planes(&output(folder, "gpu", &name)), planes(&output(folder, "cpu", &name)));
        let (largest, mean) = difference(&gpu.0, &cpu.0);
        assert!(mean <= 1.0 && largest <= 16, "{name}: {mean}, {largest}");
    }
    summary
}

fn assert_survives(fault: &str, said: &str) {
    if !decodes() {
        return;
    }
    // With `--jpeg auto` the CPU would have done all pictures before a GPU has started.
    let folder = many(MANY);
    let mut command = histeqd();
    command.arg(folder.path().join("inbox")).arg("--out").arg(folder.path().join("gpu"));
    command.args(["--no-config", "--json", "--devices", "all", "--jpeg", "gpu", "--device-timeout", "8s"]);
    command.args(NVJPEG);
    let output = command.env("HISTEQD_FAULT", fault).output().unwrap();
    let summary = assert_all(&folder, &output);
    assert!(notes(&summary).contains(said), "{summary}");
}

#[test]
fn a_worker_that_ends_among_jpegs_costs_nothing() {
    assert_survives("exit@50", "ended by signal 9");
}

#[test]
fn a_kernel_that_traps_among_jpegs_costs_nothing() {
    assert_survives("trap@50", "CUDA");
}

#[test]
fn a_lane_that_hangs_among_jpegs_costs_nothing() {
    assert_survives("hang@50", "took longer than --device-timeout");
}

#[test]
fn a_worker_killed_among_jpegs_costs_nothing() {
    if !decodes() {
        return;
    }
    let folder = many(MANY);
    let mut command = histeqd();
    command.arg(folder.path().join("inbox")).arg("--out").arg(folder.path().join("gpu"));
    command.args(["--no-config", "--json", "--jpeg", "gpu", "--devices", "0", "--device-timeout", "2s"]);
    command.args(NVJPEG);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    // Workers that hang late keep the batch from ending before they are killed.
    let child = command.env("HISTEQD_FAULT", "hang@60").spawn().unwrap();
    let is_output = |entry: fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    wait("the first output", || {
        fs::read_dir(folder.path().join("gpu"))
            .is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(is_output)))
    });
    workers_of(child.id()).into_iter().for_each(|worker| signal(worker, Signal::KILL));
    let summary = assert_all(&folder, &child.wait_with_output().unwrap());
    assert!(notes(&summary).contains("ended by signal 9"), "{summary}");
}

#[test]
fn insisting_on_a_gpu_where_there_is_none_is_an_error() {
    if devices().contains("JPEG on the GPU: yes") {
        return;
    }
    let folder = of_data(&["gray.jpg"]);
    let output = run(&folder, "out", &["--jpeg", "gpu"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no GPU can"), "{output:?}");
    assert_done(&run(&folder, "out", &["--jpeg", "auto"]), 1);
}
