#![no_main]

use histeqd::codec::Format;

libfuzzer_sys::fuzz_target!(init: histeqd_fuzz::let_contained_panics_be(), |data: &[u8]| histeqd_fuzz::picture(data, Format::Png));
