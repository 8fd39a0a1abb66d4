//! `--watch` of a folder in object storage.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::proxy::{Fault, start};
use super::server::{Bucket, bucket};
use crate::harness::{BRIGHT, DULL, Place, Ran, wait};
use crate::watch::service::children;

/// A service that follows the folder `in` of a bucket, with a short interval.
struct Service(Option<Child>);

impl Service {
    fn start(bucket: &Bucket, place: &Place, out: &str) -> Self {
        Self::start_with(bucket, place, out, &[])
    }

    fn start_with(bucket: &Bucket, place: &Place, out: &str, flags: &[&str]) -> Self {
        let inbox = bucket.url("in");
        let line = ["--watch", &inbox, "--out", out, "--poll", "200ms"];
        let mut command = bucket.command(place, line);
        command.args(flags);
        Self(Some(command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()))
    }

    /// The number of its workers.
    fn workers(&self) -> usize {
        self.0.as_ref().map_or(0, |child| children(child.id()).0.len())
    }

    /// Stops it by SIGTERM, and returns its exit code and output.
    fn stop(mut self) -> Ran {
        let child = self.0.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn new_and_replaced_objects_are_processed_and_failures_are_told_once() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put("in/a.pgm", DULL);
    bucket.put("in/broken.png", "no picture");
    bucket.put("in/note.txt", "no picture");
    let service = Service::start(&bucket, &place, &bucket.url("out"));
    wait("the first output", || bucket.list("out") == ["out/a.pgm"]);
    bucket.put("in/b/c.pgm", DULL);
    wait("the new one", || bucket.list("out").len() == 2);
    let before = bucket.head("out/a.pgm");
    bucket.put("in/a.pgm", BRIGHT);
    wait("the replaced one", || bucket.head("out/a.pgm").1 != before.1);
    let ran = service.stop();
    ran.exits(0).says("broken.png");
    assert_eq!(ran.stderr().matches("broken.png").count(), 1, "{ran}");
    assert!(!ran.stderr().contains("note.txt"), "{ran}");
}

#[test]
fn an_image_that_is_a_folder_is_told_once_and_left_alone() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put("in/a.zarr/.zattrs", r#"{"multiscales": []}"#);
    bucket.put("in/a.zarr/0/0/0", "a chunk");
    let service = Service::start(&bucket, &place, &bucket.url("out"));
    bucket.put("in/b.pgm", DULL);
    wait("the output", || !bucket.list("out").is_empty());
    let ran = service.stop();
    ran.exits(0).says("in/a.zarr: an OME-Zarr image is a folder, and --watch takes objects");
    assert_eq!(ran.stderr().matches("a.zarr").count(), 1, "{ran}");
    assert_eq!(bucket.list("out"), ["out/b.pgm"]);
}

#[test]
fn a_server_that_is_gone_for_a_while_is_waited_for() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put("in/a.pgm", DULL);
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    // Retries do not help against a missing bucket.
    let (url, _) = start(bucket.endpoint(), move |_, _| match gone.load(Ordering::SeqCst) {
        true => Fault::NoBucket,
        false => Fault::None,
    });
    bucket.through(url);
    let service = Service::start(&bucket, &place, "out");
    wait("the first output", || place.tree("out").contains(&"a.pgm".to_owned()));
    is_gone.store(true, Ordering::SeqCst);
    bucket.put("in/b.pgm", DULL);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(!place.tree("out").contains(&"b.pgm".to_owned()));
    is_gone.store(false, Ordering::SeqCst);
    wait("the second output", || place.tree("out").contains(&"b.pgm".to_owned()));
    let ran = service.stop();
    ran.exits(0).says("there is no such bucket").says("there again");
    assert_eq!(ran.stderr().matches("there is no such bucket").count(), 1, "{ran}");
}

#[test]
fn gpus_are_given_back_while_nothing_is_new() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let flags = ["--devices", "cpu-workers:1", "--gpu-idle", "1s"];
    let service = Service::start_with(&bucket, &place, "out", &flags);
    for name in ["a.pgm", "b.pgm"] {
        wait("the worker", || service.workers() == 1);
        wait("its end", || service.workers() == 0);
        bucket.put(&format!("in/{name}"), DULL);
        wait("the output", || place.tree("out").contains(&name.to_owned()));
        assert_eq!(place.read(format!("out/{name}")), BRIGHT);
    }
    let ran = service.stop();
    let given_back = ran.stderr().matches("no work for 1s: GPUs are released until there is some").count();
    assert!((2..=3).contains(&given_back), "{ran}");
}
