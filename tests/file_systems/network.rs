//! A file system as over a bad network: slow, and at times it refuses possible requests, or does
//! requests that it reports as failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fuser::Errno;

use super::disk::Tree;
use super::mounted::{Fault, Manners, Mounted};
use crate::harness::{Place, wait};
use crate::samples::Random;
use crate::watch::service::{Service, expected, picture};

/// Returns the manners of a network file system, which are bad while the flag is set: one request
/// in this many goes wrong.
fn bad(is_bad: &Arc<AtomicBool>, one_in: u64) -> Manners {
    let (is_bad, random) = (Arc::clone(is_bad), Mutex::new(Random(5)));
    let fault = move |kind: &'static str| {
        if !is_bad.load(Ordering::Relaxed) {
            return None;
        }
        let mut random = random.lock().unwrap();
        let (pause, number, which) = (random.below(2000), random.below(one_in), random.below(4));
        drop(random);
        thread::sleep(Duration::from_micros(pause));
        // A picture that cannot be read has failed.
        if number > 0 || kind == "read" {
            return None;
        }
        Some(match (kind, which) {
            ("rename" | "unlink", 0) => Fault::Unanswered(Errno::ENOENT),
            ("create" | "link", 0) => Fault::Unanswered(Errno::EEXIST),
            ("rename" | "unlink" | "create" | "link" | "write" | "sync", 1) => Fault::Refused(Errno::EIO),
            _ => Fault::Refused(Errno::ESTALE),
        })
    };
    Manners { renames_only_new: false, moves: true, attributes: false, fault: Box::new(fault) }
}

/// Mounts such a file system with pictures in its folder `in`. Also returns their outputs.
fn prepared(place: &Place, is_bad: &Arc<AtomicBool>) -> Option<(Mounted, BTreeMap<String, Vec<u8>>)> {
    let mounted = Mounted::new(place, Tree::new(), bad(is_bad, 12))?;
    let inputs: BTreeMap<_, _> =
        (0..30).map(|number| (format!("{}/{number}.pgm", number % 3), picture(number, 60))).collect();
    inputs.iter().for_each(|(name, content)| place.file(format!("disk/in/{name}"), content));
    Some((mounted, expected(&inputs)))
}

/// Returns the names of outputs without the numbers of second ones. If an answer is lost, and no
/// record on a file names its input, the first output is taken for another's.
fn without_numbers(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.replace(".2.", ".").replace(".3.", ".")).collect()
}

/// Returns the names of the existing outputs, each of which has to be whole.
fn whole(mounted: &Mounted, expected: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let disk = mounted.disk();
    let mut files = disk.tree.files("out");
    files.retain(|name, _| !name.split('/').any(|part| part.starts_with('.')));
    for (name, content) in &files {
        let first = without_numbers([name.clone()]).pop_first().unwrap();
        assert!(expected.get(&first).is_some_and(|expected| expected == content), "{name} is not whole");
    }
    without_numbers(files.into_keys())
}

#[test]
fn a_run_names_what_went_wrong_and_the_next_one_does_it() {
    let place = Place::new();
    let is_bad = Arc::new(AtomicBool::new(false));
    let Some((mounted, expected)) = prepared(&place, &is_bad) else { return };
    is_bad.store(true, Ordering::Relaxed);
    for _ in 0..4 {
        let ran = place.run("disk/in --out disk/out --threads 2 --devices cpu");
        let found = whole(&mounted, &expected);
        assert!(!ran.has_succeeded() || found.len() == expected.len(), "{ran}");
    }
    is_bad.store(false, Ordering::Relaxed);
    place.run("disk/in --out disk/out --threads 2 --devices cpu").exits(0);
    assert_eq!(whole(&mounted, &expected).len(), expected.len());
}

#[test]
fn a_service_gets_over_it_and_loses_nothing() {
    let place = Place::new();
    let is_bad = Arc::new(AtomicBool::new(false));
    let Some((mounted, expected)) = prepared(&place, &is_bad) else { return };
    let line = "--watch disk/in --out disk/out --state state --after move:disk/archive --devices cpu --threads 2 --poll 1s -v";
    let service = Service::spawn(&place, &mut place.histeqd(line));
    wait("the service to watch", || service.log().contains("watching "));
    is_bad.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_secs(4));
    is_bad.store(false, Ordering::Relaxed);
    wait("an empty inbox", || place.tree("disk/in").is_empty());
    assert_eq!(service.stop(), Some(0));
    let archived = without_numbers(place.tree("disk/archive"));
    assert!(archived.iter().eq(expected.keys()), "{archived:?}");
    assert_eq!(whole(&mounted, &expected).len(), expected.len());
}
