//! The service under load, on worker processes that fail: no picture is lost, and every output has
//! the bytes that the CPU makes.
//!
//! Each test runs with workers that compute on the CPU, then on one and on two GPUs, as far as
//! there are any. Without a GPU, that part is reported as skipped, or fails with
//! `HISTEQD_REQUIRE_CUDA=1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use super::service::{Service, drop_in, expected, outputs, picture, times_done, wait_for};
use crate::harness::{Place, gpus, wait};

/// The number of pictures that a test drops into the inbox: a fast GPU machine is busy with them
/// for a second or two.
const PICTURES: u64 = 150;

/// Calls `check` with each choice of devices: workers on the CPU, one GPU, two GPUs.
fn each_device(check: impl Fn(&str)) {
    check("cpu-workers:2");
    ["0", "0,1"].iter().take(gpus()).for_each(|devices| check(devices));
}

/// Pictures of many sizes, by name, in three folders.
fn pictures() -> BTreeMap<String, Vec<u8>> {
    let one = |number: u64| {
        (format!("{}/{number}.pgm", number % 3), picture(number, 200 + number as usize * 7 % 400))
    };
    (0..PICTURES).map(one).collect()
}

fn drop_all(place: &Place, inputs: &BTreeMap<String, Vec<u8>>) {
    inputs.iter().for_each(|(name, content)| drop_in(place, name, content));
}

/// Returns the log of all services in the place, once they have ended.
fn log_of(place: &Place) -> String {
    String::from_utf8(place.read("log")).unwrap()
}

/// Has the service do all pictures while a worker fails by `fault`, and returns its log.
fn survive(devices: &str, fault: Option<&str>) -> String {
    let (place, inputs) = (Place::new(), pictures());
    let right = expected(&inputs);
    let service = Service::begin_on(&place, devices, fault, "--device-timeout 3s");
    drop_all(&place, &inputs);
    wait_for(&place, &right);
    assert_eq!(service.stop(), Some(0));
    let log = log_of(&place);
    assert_eq!(outputs(&place), inputs.keys().cloned().collect::<Vec<_>>());
    assert!(inputs.keys().all(|name| times_done(&log, name) <= 1), "{log}");
    assert!(!log.contains(" failed: "), "{log}");
    log
}

/// Returns the devices that did pictures, according to a verbose log.
fn workers(log: &str) -> BTreeSet<String> {
    let device = |line: &str| Some(line.rsplit_once(" (")?.1.split_once(',')?.0.to_owned());
    log.lines().filter(|line| line.contains(" done: ")).filter_map(device).collect()
}

#[test]
fn under_load_the_devices_make_the_processors_bytes_without_its_help() {
    each_device(|devices| {
        let log = survive(devices, None);
        let among: &[&str] = match devices {
            "0" => &["gpu0"],
            "0,1" => &["gpu0", "gpu1"],
            _ => &["cpu-worker0", "cpu-worker1"],
        };
        // The share of each device is not guaranteed: the slots that came back last are used first.
        let used = workers(&log);
        println!("{devices}: {used:?}");
        assert!(!used.is_empty() && used.iter().all(|device| among.contains(&device.as_str())), "{log}");
    });
}

#[test]
fn a_device_that_fails_in_mid_run_costs_nothing() {
    each_device(|devices| {
        let faults: &[&str] = match devices {
            "cpu-workers:2" => &["exit@5", "fail@5", "hang@5"],
            _ => &["trap@5", "exit@5", "hang@5"],
        };
        for fault in faults {
            let log = survive(devices, Some(fault));
            assert!(log.contains("it is restarted in 250ms"), "{devices} {fault}: {log}");
        }
    });
}

#[test]
fn a_device_that_always_fails_is_shown_and_tried_again_while_the_others_work() {
    each_device(|devices| {
        let (place, inputs) = (Place::new(), pictures());
        let right = expected(&inputs);
        let service = Service::begin_on(&place, devices, Some("exit@1*"), "--threads 2");
        drop_all(&place, &inputs);
        wait_for(&place, &right);
        assert!(workers(&service.log()).contains("cpu"), "the processor does what they do not");
        let mut more = 0;
        wait("more failures than a single run forgives", || {
            more += 1;
            drop_in(&place, &format!("more/{more}.pgm"), &picture(more, 50));
            thread::sleep(Duration::from_millis(50));
            service.log().contains("it is restarted in 4s")
        });
        wait("the trouble to be shown", || {
            let status = String::from_utf8(place.histeqd("status out").output().unwrap().stdout).unwrap();
            status.contains("device    cpu: works") && status.contains("; retried in ")
        });
        assert!(!service.log().contains("given up"), "{}", service.log());
        assert_eq!(service.stop(), Some(0));
    });
}

#[test]
fn a_stop_under_load_finishes_what_was_begun_and_a_start_the_rest() {
    each_device(|devices| {
        let (place, inputs) = (Place::new(), pictures());
        let right = expected(&inputs);
        drop_all(&place, &inputs);
        let service = Service::begin_on(&place, devices, None, "");
        wait("the first outputs", || {
            outputs(&place).iter().filter(|name| !name.contains(".tmp")).count() > 5
        });
        assert_eq!(service.stop(), Some(0), "a first SIGTERM is a good end");
        let done = outputs(&place);
        for name in &done {
            assert!(fs::read(place.path("out").join(name)).unwrap() == right[name], "{name} is not right");
        }
        let service = Service::begin_on(&place, devices, None, "");
        wait_for(&place, &right);
        assert_eq!(service.stop(), Some(0));
        let log = log_of(&place);
        assert!(inputs.keys().all(|name| times_done(&log, name) == 1), "each once, over both: {log}");
    });
}
