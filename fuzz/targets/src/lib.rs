//! The bodies of the fuzz targets.
//!
//! Each fails by a panic: `fuzz/fuzz_targets` has them called by libFuzzer, `tests/kept.rs` with
//! the inputs in `fuzz/kept`. Where [`PeakAlloc`] is the program's allocator, the memory of
//! decoders is checked too.

mod animated;
mod bands;
mod codestream;
mod memory;
#[cfg(feature = "queue")]
mod message;
mod multiscales;
mod picture;
mod reading;
mod request;
mod settings;
mod streams;

use codec::Format;

pub use codec::silence_contained_panics;
pub use peak_alloc::PeakAlloc;
pub use picture::check as check_picture;

/// The check of an input.
type Body = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Body)] = &[
    ("bmp", |data| picture::check(data, Format::Bmp)),
    ("dicom", |data| with_codestreams(data, Format::Dicom)),
    ("gif", |data| picture::check(data, Format::Gif)),
    ("http", request::check),
    ("jp2", |data| with_codestreams(data, Format::Jpeg2000)),
    ("jpeg", |data| picture::check(data, Format::Jpeg)),
    ("jxl", |data| picture::check(data, Format::JpegXl)),
    #[cfg(feature = "queue")]
    ("message", message::check),
    ("multiscales", multiscales::check),
    ("png", |data| picture::check(data, Format::Png)),
    // PFM too.
    ("pnm", |data| picture::check(data, Format::Pnm)),
    ("settings", settings::check),
    ("tiff", |data| {
        picture::check(data, Format::Tiff);
        streams::check(data);
    }),
    ("webp", |data| picture::check(data, Format::WebP)),
];

/// Checks a picture that may have codestreams.
fn with_codestreams(data: &[u8], format: Format) {
    picture::check(data, format);
    codestream::check(data);
}

/// Runs the target of this name on an input.
///
/// # Panics
/// If the input shows a fault, or there is no such target.
pub fn run(target: &str, data: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    body(data);
}
