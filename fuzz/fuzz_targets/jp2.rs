#![no_main]

use codec::Format;

libfuzzer_sys::fuzz_target!(init: histeqd_fuzz::silence_contained_panics(), |data: &[u8]| histeqd_fuzz::picture(data, Format::Jpeg2000));
