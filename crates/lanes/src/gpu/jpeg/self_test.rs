//! The test of a lane before its first picture: small files, and the CPU's bytes for them.

use crate::lane::{EngineError, JpegLane, Recoded, Recoding};
use crate::order::Order;
use codec::JpegQuality;
use codec::coders::CompressedJpeg;
use equalize::{Colour, Depth, Layout, Method, Operation, Pixel};

/// A file to be equalized globally.
pub(super) struct Known {
    pub(super) file: &'static [u8],
    size: (u32, u32),
    pub(super) quality: JpegQuality,
    pub(super) colour: Colour,
    /// The output of the CPU, without application data and comments.
    pub(super) recoded: &'static [u8],
}

/// Returns a file of the tests' data, and the CPU's output for it.
macro_rules! known {
    ($name:literal, $size:expr, $quality:expr) => {
        known!($name, $size, $quality, Colour::Luma, $name)
    };
    ($name:literal, $size:expr, $quality:expr, $colour:expr, $recoded:literal) => {
        Known {
            file: include_bytes!(concat!("../../../../../tests/data/jpeg/", $name)),
            size: $size,
            quality: $quality,
            colour: $colour,
            recoded: include_bytes!(concat!("self_test/", $recoded)),
        }
    };
}

/// Subsampled chroma, which stays, follows luma, and becomes RGB; restart intervals and another
/// quality; gray.
pub(super) const KNOWN: [Known; 5] = [
    known!("420.jpg", (243, 157), JpegQuality::Keep),
    known!("420.jpg", (243, 157), JpegQuality::Keep, Colour::Hue, "420-hue.jpg"),
    known!("420.jpg", (243, 157), JpegQuality::Keep, Colour::PerChannel, "420-per-channel.jpg"),
    known!("restarts.jpg", (61, 47), JpegQuality::Value(75)),
    known!("gray.jpg", (243, 157), JpegQuality::Keep),
];

/// Recodes the files.
///
/// # Errors
/// If the device fails, or an output has other bytes than the CPU's.
pub(super) fn check(lane: &mut dyn JpegLane) -> Result<(), EngineError> {
    let mut slots = KNOWN.each_ref().map(|known| {
        let mut slot = known.file.to_vec();
        slot.resize(jpeg(known).slot_bytes() as usize, 0);
        slot
    });
    let recoding = |(known, slot)| Recoding {
        slot: Vec::as_mut_slice(slot),
        jpeg: jpeg(known),
        order: Order::Equalize(known.operation()),
        answer: Recoded::Declined(String::new()),
    };
    let mut batch: Vec<Recoding<'_>> = KNOWN.iter().zip(&mut slots).map(recoding).collect();
    lane.recode(&mut batch)?;
    let is_right = |(known, picture): (&Known, &Recoding<'_>)| match picture.answer {
        Recoded::Encoded(bytes) => picture.slot.get(..bytes as usize) == Some(known.recoded),
        Recoded::Counted | Recoded::Declined(_) => false,
    };
    if KNOWN.iter().zip(&batch).all(is_right) { Ok(()) } else { Err(EngineError::wrong_results()) }
}

impl Known {
    pub(super) fn operation(&self) -> Operation {
        Operation { colour: self.colour, ..Operation::new(Method::Global) }
    }
}

fn jpeg(known: &Known) -> CompressedJpeg {
    let &Known { file, size: (width, height), quality, colour, .. } = known;
    let pixel = if colour == Colour::PerChannel { Pixel::Rgb } else { Pixel::Gray };
    let layout = Layout { width, height, pixel, depth: Depth::Eight };
    CompressedJpeg { bytes: file.len() as u64, layout, quality }
}
