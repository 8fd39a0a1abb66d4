//! A slow file system, and its effect on `--timings`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::disk::Tree;
use super::mounted::{Manners, Mounted};
use crate::harness::Place;
use crate::watch::service::picture;

/// Pictures of a run.
const PICTURES: u64 = 8;

/// Mounts a file system as `disk` that delays each request of this kind while the flag is set.
fn mounted(place: &Place, slow: &'static str, is_slow: &Arc<AtomicBool>) -> Option<Mounted> {
    let is_slow = Arc::clone(is_slow);
    let pause = move |kind: &'static str| {
        if kind == slow && is_slow.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(200));
        }
        None
    };
    Mounted::new(place, Tree::new(), Manners { fault: Box::new(pause), ..Manners::default() })
}

/// Returns the timings of a run of pictures from one folder to another, one of them on a disk that
/// is slow in this.
fn timings(slow: &'static str, from: &str, to: &str) -> Option<Value> {
    let (place, is_slow) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let _mounted = mounted(&place, slow, &is_slow)?;
    (0..PICTURES).for_each(|number| place.file(format!("{from}/{number}.pgm"), picture(number, 200)));
    is_slow.store(true, Ordering::Relaxed);
    let line =
        format!("{from} --out {to} --threads 1 --devices cpu --durability fast --json --quiet --timings");
    let json = place.run(&line).exits(0).json();
    is_slow.store(false, Ordering::Relaxed);
    assert_eq!(json["done"], PICTURES);
    Some(json["timings"].clone())
}

#[test]
fn a_slow_input_disk_is_told_from_a_slow_output_disk() {
    let Some(reading) = timings("read", "disk/in", "out") else { return };
    assert_eq!(reading["limit"], "reading", "{reading}");
    let writing = timings("write", "in", "disk/out").unwrap();
    assert_eq!(writing["limit"], "writing", "{writing}");
}
