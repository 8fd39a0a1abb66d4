//! TIFF's LZW (TIFF 6.0, section 13): codes with the highest bit first, which get longer one code earlier than necessary.

mod decode;
mod encode;

pub(super) use decode::{DECODER_BYTES, Damage, Decoder, PADDING};
pub(super) use encode::Encoder;

/// Forgets all strings.
const CLEAR: usize = 256;
/// Ends the data.
const END: usize = 257;
/// The first code that is given to a string.
const FIRST: usize = 258;
/// The fewest and most bits of a code.
const SHORTEST_CODE: u32 = 9;
const LONGEST_CODE: u32 = 12;
