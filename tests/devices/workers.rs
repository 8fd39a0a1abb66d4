//! Worker processes that fail, in runs of the real binary over the real protocol.
//!
//! The workers equalize on the CPU, and are killed, stopped, made to hang or made to fail in the
//! middle of a batch. In each case, all outputs must be there and right.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use histeqd::device::worker::protocol::{Channel, FromWorker, ToWorker};
use rustix::process::Signal;
use serde_json::Value;

use super::batch::{Batch, alive, by, notes, signal, under_way};
use super::jpeg::{data, segments};
use crate::harness::{binary, histeqd, wait};

const PICTURES: usize = 60;

fn batch() -> Batch {
    pictures(PICTURES, &[])
}

fn pictures(count: usize, flags: &[&str]) -> Batch {
    Batch::new((0..count).map(|number| (format!("{number}.pgm"), picture(number))), flags)
}

/// Returns a PGM with a ramp that is different for every number.
fn picture(number: usize) -> Vec<u8> {
    let (width, height) = (301 + number, 200);
    let mut bytes = format!("P5 {width} {height} 255\n").into_bytes();
    bytes.extend((0..width * height).map(|at| ((at * (number + 3) / 7) % 97) as u8 + 40));
    bytes
}

fn run_with_fault(fault: &str, workers: u32) -> Value {
    run(&batch(), fault, workers)
}

fn run(batch: &Batch, fault: &str, workers: u32) -> Value {
    let mut command = batch.histeqd(&format!("cpu-workers:{workers}"), "out");
    let output = command.args(timeout(fault)).env("HISTEQD_FAULT", fault).output().unwrap();
    batch.assert_done(&output, "out")
}

/// Returns a short device timeout for workers that hang, a long one for others.
///
/// The others may only be slow.
fn timeout(fault: &str) -> [&'static str; 2] {
    ["--device-timeout", if fault.starts_with("hang") { "1s" } else { "60s" }]
}

#[test]
fn the_binary_can_be_made_to_fail() {
    let binary = fs::read(binary()).unwrap();
    let has_faults = memchr::memmem::find(&binary, b"HISTEQD_FAULT").is_some();
    assert!(has_faults, "it was built without the feature `faults`, which most tests of workers need");
}

#[test]
fn workers_give_the_same_bytes_as_the_process_itself() {
    let summary = run_with_fault("fail@1000000", 2);
    // The worker that was ready first may have processed all pictures.
    let done = by(&summary, "cpu-worker0") + by(&summary, "cpu-worker1");
    assert_eq!(done, PICTURES as u64, "{summary}");
}

#[test]
fn the_timings_count_what_workers_computed() {
    let large =
        |number| (format!("{number}.pgm"), [b"P5 3000 2000 255\n", &vec![number; 6_000_000][..]].concat());
    let batch = Batch::new((0..6).map(large), &["--method", "clahe"]);
    let output = batch.histeqd("cpu-workers:1", "out").arg("--timings").output().unwrap();
    let summary = batch.assert_done(&output, "out");
    let seconds = summary["timings"]["load"]["workers"].as_f64().unwrap();
    assert!(seconds > 0.0, "{summary}");
}

#[test]
fn a_trace_tells_of_the_program_and_of_its_workers() {
    let (batch, folder) = (pictures(6, &[]), tempfile::tempdir().unwrap());
    let path = folder.path().join("trace.json");
    let output = batch.histeqd("cpu-workers:1", "out").env("HISTEQD_TRACE", &path).output().unwrap();
    batch.assert_done(&output, "out");
    let closed = format!("{}]", fs::read_to_string(&path).unwrap().trim_end().trim_end_matches(','));
    let events: Vec<Value> = serde_json::from_str(&closed).unwrap();
    let spans =
        |name: &str| events.iter().filter(|event| event["ph"] == "X" && event["name"] == name).count();
    assert_eq!([spans("load"), spans("carry out"), spans("encode"), spans("publish")], [6; 4]);
}

#[test]
fn a_worker_that_exits_is_started_again_and_nothing_is_lost() {
    let summary = run_with_fault("exit@3", 1);
    assert!(notes(&summary).contains("ended by signal 9"), "{summary}");
    assert!(by(&summary, "cpu-worker0") > 0, "{summary}");
}

#[test]
fn a_worker_that_cannot_start_again_leaves_its_pictures_to_others() {
    // With few threads there are few slots, so that pictures still wait for the workers when these
    // are started again.
    for workers in [1, 2] {
        let summary = run(&pictures(PICTURES, &["--threads", "2"]), "refuse@3", workers);
        assert!(notes(&summary).contains("a test asked for this"), "{summary}");
    }
}

#[test]
fn a_worker_that_reports_a_failure_is_replaced() {
    let summary = run_with_fault("fail@3", 2);
    assert!(notes(&summary).contains("a test asked for this failure"), "{summary}");
}

#[test]
fn a_worker_that_hangs_is_killed_at_its_deadline() {
    let summary = run_with_fault("hang@3", 2);
    assert!(notes(&summary).contains("took longer than --device-timeout"), "{summary}");
}

#[test]
fn a_worker_that_fails_every_time_is_given_up_and_the_cpu_does_the_work() {
    let summary = run_with_fault("exit@1*", 1);
    // While the first lane ends the process, the other lanes may finish their pictures.
    assert!(by(&summary, "cpu") > PICTURES as u64 / 2, "{summary}");
}

/// The note about pictures that a worker declines because a test asks for it.
const LEFT_TO_OTHERS: &str = "are left to other devices: a test asked for this";

#[test]
fn what_a_worker_declines_the_processor_does_and_that_is_told_once() {
    let summary = run(&pictures(12, &[]), "decline@3", 1);
    assert_eq!([by(&summary, "cpu-worker0"), by(&summary, "cpu")], [2, 10], "{summary}");
    assert_eq!(notes(&summary).matches(LEFT_TO_OTHERS).count(), 1, "{summary}");
    assert!(!notes(&summary).contains("failure"), "{summary}");
}

#[test]
fn what_every_worker_declines_the_processor_does() {
    let summary = run_with_fault("decline@1*", 3);
    assert_eq!(by(&summary, "cpu"), PICTURES as u64, "{summary}");
    assert!(notes(&summary).contains(LEFT_TO_OTHERS), "{summary}");
}

#[test]
fn a_worker_that_declines_16_in_a_row_is_paused() {
    let summary = run_with_fault("decline@1*", 1);
    assert_eq!(by(&summary, "cpu"), PICTURES as u64, "{summary}");
    let rest = "it left 16 pictures in a row to other devices: a test asked for this";
    assert!(notes(&summary).contains(rest), "{summary}");
}

#[test]
fn a_worker_that_is_killed_from_outside_costs_nothing() {
    let batch = batch();
    let (child, workers) = under_way(&batch, "cpu-workers:2", 2);
    signal(workers[0], Signal::KILL);
    let summary = batch.assert_done(&child.wait_with_output().unwrap(), "out");
    assert!(notes(&summary).contains("ended by signal 9"), "{summary}");
}

#[test]
fn a_sigstopped_worker_is_detected_and_killed() {
    let batch = batch();
    let (child, workers) = under_way(&batch, "cpu-workers:1", 1);
    signal(workers[0], Signal::STOP);
    let summary = batch.assert_done(&child.wait_with_output().unwrap(), "out");
    assert!(notes(&summary).contains("took longer than --device-timeout"), "{summary}");
}

/// Replaces the only picture of a batch, on a worker that hangs, and waits for the end.
fn replaced_under_way(batch: &Batch, child: Child) -> Output {
    // By then the picture has been read, and waits for the worker.
    std::thread::sleep(Duration::from_secs(3));
    let input = fs::read_dir(batch.out("inbox")).unwrap().next().unwrap().unwrap().path();
    let newer = batch.out("newer");
    fs::write(&newer, picture(7)).unwrap();
    fs::rename(newer, input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    output
}

#[test]
fn a_picture_that_is_replaced_while_it_is_under_way_is_not_published() {
    let batch = pictures(1, &[]);
    let mut command = batch.histeqd("cpu-workers:1", "out");
    command.args(["--device-timeout", "8s"]).env("HISTEQD_FAULT", "hang@1");
    let child = command.spawn().unwrap();
    let output = replaced_under_way(&batch, child);
    assert!(String::from_utf8_lossy(&output.stdout).contains("it changed while it was being read"));
    assert_eq!(fs::read_dir(batch.out("out")).unwrap().count(), 0);
}

#[test]
fn a_picture_that_is_replaced_while_it_is_counted_is_not_in_the_table() {
    let batch = pictures(1, &[]);
    let mut command = histeqd();
    command.arg("histogram").arg(batch.out("inbox")).args(["--no-config", "--devices", "cpu-workers:1"]);
    command.args(["--device-timeout", "8s"]).env("HISTEQD_FAULT", "hang@1");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = replaced_under_way(&batch, child);
    assert!(String::from_utf8_lossy(&output.stderr).contains("it changed while it was being read"));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("picture,") && table.lines().count() == 1, "{table}");
}

#[test]
fn no_worker_outlives_the_main_process() {
    let batch = batch();
    let (mut child, workers) = under_way(&batch, "cpu-workers:2", 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait("the end of the workers", || !workers.iter().any(|&pid| alive(pid)));
}

#[test]
fn a_stopped_worker_that_is_sent_more_than_its_socket_holds_is_found_out_and_killed() {
    // Many threads mean many slots lent to the worker: the messages about them do not fit into its
    // socket.
    let batch = pictures(300, &["--threads", "90"]);
    let (mut child, workers) = under_way(&batch, "cpu-workers:1", 1);
    signal(workers[0], Signal::STOP);
    wait("the end of the run", || child.try_wait().unwrap().is_some());
    let summary = batch.assert_done(&child.wait_with_output().unwrap(), "out");
    // A fast worker may have processed most pictures before it was stopped.
    let said = notes(&summary);
    assert!(
        said.contains("stopped responding") || said.contains("took longer than --device-timeout"),
        "{summary}"
    );
}

/// A batch of JPEGs that a GPU could decode.
fn jpegs() -> Batch {
    let names = ["gray.jpg", "444.jpg", "420.jpg", "metadata.jpg"];
    let picture = |number: usize| (format!("{number}.jpg"), data(names[number % names.len()]));
    Batch::new((0..PICTURES).map(picture), &[])
}

fn run_jpegs_with_fault(fault: &str) -> Value {
    let batch = jpegs();
    batch.assert_done(&recode_with_fault(&batch, fault), "out")
}

/// Runs a batch of JPEGs on a worker that is made to fail, or to claim that it recodes.
fn recode_with_fault(batch: &Batch, fault: &str) -> Output {
    let mut command = batch.histeqd("cpu-workers:1", "out");
    command.args(["--timings", "--jpeg", "gpu"]).args(timeout(fault)).env("HISTEQD_FAULT", fault);
    command.output().unwrap()
}

#[test]
fn jpegs_that_a_worker_declines_are_decoded_by_the_processor() {
    let summary = run_jpegs_with_fault("fail@1000000");
    assert!(notes(&summary).contains("decoded on the CPU: this worker has no decoder"), "{summary}");
    assert_eq!(by(&summary, "cpu-worker0"), PICTURES as u64, "{summary}");
    let left = summary["timings"]["load"]["left"].as_object().unwrap().values();
    assert_eq!(left.map(|count| count.as_u64().unwrap()).sum::<u64>(), PICTURES as u64, "{summary}");
}

#[test]
fn what_a_worker_encodes_is_written_with_all_that_belongs_to_the_picture() {
    let names = ["gray.jpg", "444.jpg", "420.jpg", "metadata.jpg"];
    let batch = Batch::new(names.map(|name| (name.to_owned(), data(name))), &[]);
    let summary = batch.assert_all_there(&recode_with_fault(&batch, "echo@1"));
    assert_eq!(by(&summary, "cpu-worker0-jpeg"), names.len() as u64, "{summary}");
    let scan = |file: &[u8]| file[file.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap()..].to_vec();
    for name in names {
        let written = fs::read(batch.out("out").join(name)).unwrap();
        // The worker sent the JPEGs back unchanged.
        assert!(scan(&written) == scan(&data(name)), "{name}: another scan");
        assert_eq!(segments(&written), segments(&data(name)), "{name}");
    }
}

#[test]
fn what_a_worker_encoded_wrongly_is_encoded_by_the_processor() {
    run_jpegs_with_fault("garble@3");
}

#[test]
fn a_worker_that_says_it_encoded_more_than_its_slot_holds_is_replaced() {
    let summary = run_jpegs_with_fault("overlong@3");
    assert!(notes(&summary).contains("did something else with slot"), "{summary}");
}

#[test]
fn workers_that_fail_at_jpegs_lose_none() {
    for (fault, said) in [
        ("exit@5", "ended by signal 9"),
        ("fail@5", "asked for this"),
        ("hang@5", "took longer than --device-timeout"),
    ] {
        let summary = run_jpegs_with_fault(fault);
        assert!(notes(&summary).contains(said), "{summary}");
    }
}

#[test]
fn jpegs_declined_at_every_step_fall_back_to_the_cpu() {
    let summary = run_jpegs_with_fault("decline@1*");
    assert_eq!(by(&summary, "cpu"), PICTURES as u64, "{summary}");
}

#[test]
fn workers_that_fail_at_every_jpeg_hold_nothing_up() {
    let summary = run_jpegs_with_fault("exit@1*");
    assert!(by(&summary, "cpu") > 0, "{summary}");
}

/// Starts a worker, and returns it with the main process's end of its channel.
fn worker() -> (Child, Channel) {
    let (ours, theirs) = Channel::pair().unwrap();
    let worker = histeqd().args(["worker", "--cpu", "0"]).stdin(OwnedFd::from(theirs)).spawn().unwrap();
    assert!(matches!(ours.receive().unwrap(), Some((FromWorker::Ready(None), None))));
    (worker, ours)
}

#[test]
fn a_worker_that_gets_no_memory_for_a_slot_says_so_and_ends() {
    let (mut worker, channel) = worker();
    channel.send(&ToWorker::Map { slot: 3, bytes: 100, generation: 1 }, None).unwrap();
    let Some((FromWorker::Failed { slot: Some(3), reason }, None)) = channel.receive().unwrap() else {
        panic!()
    };
    assert!(
        reason.starts_with("a slot arrived without its file descriptor; raise the limit of open files"),
        "{reason}"
    );
    assert!(channel.receive::<FromWorker>().unwrap().is_none());
    worker.wait().unwrap();
}

#[test]
fn a_worker_leaves_signals_to_its_main_process_and_ends_with_it() {
    let (mut worker, channel) = worker();
    for sent in [Signal::INT, Signal::TERM, Signal::HUP] {
        signal(worker.id().try_into().unwrap(), sent);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(worker.try_wait().unwrap().is_none());
    drop(channel);
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}
