#![no_main]

use histeqd::codec::Format;

libfuzzer_sys::fuzz_target!(|data: &[u8]| histeqd_fuzz::picture(data, Format::Bmp));
