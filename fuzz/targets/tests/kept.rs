//! The inputs that fuzzing found worth keeping, each once.
//!
//! They go deeper into the parsers than whole files do.

use std::fs;
use std::path::{Path, PathBuf};

use histeqd_fuzz_targets::{PeakAlloc, TARGETS, run, silence_contained_panics};

/// It counts the memory of all threads, which allows for a single test here.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

#[test]
fn every_kept_input_passes() {
    silence_contained_panics();
    for (target, _) in TARGETS {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "nothing is kept for {target}");
        for input in inputs {
            // Seen if it fails.
            println!("{}", input.display());
            run(target, &fs::read(&input).unwrap());
        }
    }
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kept").join(target);
    let entries = fs::read_dir(folder).expect("a folder for each target");
    let mut inputs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    inputs.sort();
    inputs
}
