//! A file system on which each request that makes an output fails in turn: it is broken, or full.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use fuser::Errno;

use super::disk::Tree;
use super::mounted::{Fault, Manners, Mounted};
use crate::harness::Place;
use crate::writers::{IN_BANDS, LITTLE, format_of, prepare};

/// Pictures that are written like others that are tried.
const ALIKE: [&str; 5] = ["slides.tif", "stack.tif", "deep-Stored.tif", "deep-Lzw.tif", "deep-Deflate.tif"];

/// More requests than the output of any of the pictures takes.
const MOST: usize = 400;

/// The requests that are to fail, and those that have.
#[derive(Debug, Default)]
struct Faults {
    /// The number of the next request.
    number: usize,
    /// The number of the first to fail.
    first: usize,
    /// Whether all later ones fail as well, as on a full disk.
    is_full: bool,
    /// The kinds of those that failed.
    struck: Vec<&'static str>,
}

impl Faults {
    fn strike(&mut self, kind: &'static str) -> Option<Fault> {
        if !["write", "cut", "sync", "rename"].contains(&kind) {
            return None;
        }
        self.number += 1;
        let fails = self.number == self.first || self.is_full && self.number > self.first;
        fails.then(|| {
            self.struck.push(kind);
            Fault::Refused(if self.is_full { Errno::ENOSPC } else { Errno::EIO })
        })
    }
}

/// A disk that fails, in a place of its own.
struct Failing {
    place: Place,
    mounted: Mounted,
    faults: Arc<Mutex<Faults>>,
}

impl Failing {
    fn new() -> Option<Self> {
        let (place, faults) = (Place::new(), Arc::new(Mutex::new(Faults::default())));
        let of_disk = Arc::clone(&faults);
        let fault = Box::new(move |kind| of_disk.lock().unwrap().strike(kind));
        let mounted = Mounted::new(&place, Tree::new(), Manners { fault, ..Manners::default() })?;
        fs::create_dir(place.path("disk/out")).unwrap();
        Some(Self { place, mounted, faults })
    }

    /// Returns the files of the output folder.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let disk = self.mounted.disk();
        disk.tree.files("out").into_iter().map(|(name, content)| (name, content.to_owned())).collect()
    }

    fn empty(&self) {
        for output in fs::read_dir(self.place.path("disk/out")).unwrap() {
            fs::remove_file(output.unwrap().path()).unwrap();
        }
    }

    /// Makes the output of a picture once without a fault, and then until each request has failed.
    /// Returns their number.
    fn try_each(&self, input: &Path, flags: &str, is_full: bool) -> usize {
        let run = format!("{} --out disk/out --devices cpu --threads 2 {flags}", input.display());
        self.place.run(&run).exits(0);
        let expected = self.files();
        self.empty();
        for first in 1..MOST {
            *self.faults.lock().unwrap() = Faults { first, is_full, ..Faults::default() };
            let ran = self.place.run(&run);
            let struck = std::mem::take(&mut *self.faults.lock().unwrap()).struck;
            let at = format!("{run}, {struck:?} failed, the first as request {first}: {ran}");
            let found = self.files();
            if struck.is_empty() {
                assert!(ran.has_succeeded() && found == expected, "{at}");
                self.empty();
                return first - 1;
            }
            if ran.has_succeeded() {
                // The kernel reports the part before a failing request as written, and the rest is
                // written again.
                assert!(struck == ["write"] && found == expected, "{at}");
            } else {
                let name = input.file_name().unwrap().to_str().unwrap();
                assert!(ran.exits(1).stderr().contains(name), "{at}");
                // The output is in its place when its folder is synced.
                assert!(found.is_empty() || struck == ["sync"] && found == expected, "{at}");
            }
            self.empty();
        }
        panic!("{run}: more than {MOST} requests");
    }
}

#[test]
fn a_run_ends_names_the_picture_and_leaves_nothing_whichever_request_fails() {
    let inputs = Place::new();
    prepare(&inputs, (900, 900), 300, 8);
    let mut runs = Vec::new();
    for input in fs::read_dir(inputs.path("in")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = input.file_name().unwrap().to_str().unwrap();
        if ALIKE.contains(&name) {
            continue;
        }
        let has_bands = format_of(&inputs, "in", name).is_some_and(|format| IN_BANDS.contains(&format));
        let flags = if has_bands { &["", LITTLE][..] } else { &[""] };
        runs.extend(flags.iter().map(|flags| (input.clone(), *flags)));
    }
    let runs = Mutex::new(runs);
    let next = || runs.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let Some(failing) = Failing::new() else { return };
                while let Some((input, flags)) = next() {
                    for is_full in [false, true] {
                        let requests = failing.try_each(&input, flags, is_full);
                        assert!(requests > 3, "{}", input.display());
                    }
                }
            });
        }
    });
}
