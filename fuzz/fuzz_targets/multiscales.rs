#![no_main]

use histeqd_fuzz::{run, silence_contained_panics};

libfuzzer_sys::fuzz_target!(init: silence_contained_panics(), |data: &[u8]| run("multiscales", data));
