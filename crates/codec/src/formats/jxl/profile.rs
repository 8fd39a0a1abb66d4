//! The ICC profile of a codestream (ISO/IEC 18181-1, E.4), checked before the decoder has it.
//!
//! The decoder unpacks few bytes to hundreds of mebibytes, twice, and counts neither.

use std::borrow::Cow;

use jxl_bitstream::Bitstream;
use jxl_color::icc::read_icc;
use jxl_oxide::image::ImageHeader;
use jxl_oxide_common::Bundle;

use super::boxes::LONGEST;
use super::malformed;
use crate::CodecError;

/// The most bytes of a codestream that are read: a header's and the longest profile's.
const START: usize = LONGEST + (1 << 20);

/// The most bytes of commands that make a profile.
///
/// Each makes up to 36 bytes, whatever length the profile is to have.
const MOST_COMMANDS: u64 = 1 << 18;

/// Refuses a profile that is longer than any is.
///
/// Damaged or truncated ones are left to the decoder.
pub(super) fn check(codestream: &[&[u8]]) -> Result<(), CodecError> {
    let start = start(codestream);
    let mut bits = Bitstream::new(&start);
    let Ok(header) = ImageHeader::parse(&mut bits, ()) else { return Ok(()) };
    if !header.metadata.colour_encoding.want_icc() {
        return Ok(());
    }
    let packed = bits.clone().read_u64().unwrap_or(0);
    if packed > LONGEST as u64 {
        return Err(too_long());
    }
    match read_icc(&mut bits) {
        Ok(profile) => check_lengths(&profile),
        // It would be cut short in this part, though not in the whole.
        Err(why) if why.unexpected_eof() && start.len() == START => Err(too_long()),
        Err(_) => Ok(()),
    }
}

/// Returns the start of a codestream that is in pieces.
pub(super) fn start<'b>(codestream: &[&'b [u8]]) -> Cow<'b, [u8]> {
    match codestream {
        [only] => Cow::Borrowed(&only[..only.len().min(START)]),
        pieces => pieces.iter().copied().flatten().take(START).copied().collect(),
    }
}

/// Checks the lengths that a profile states while it is still in the form of commands and data.
fn check_lengths(profile: &[u8]) -> Result<(), CodecError> {
    let Some((length, rest)) = number(profile) else { return Ok(()) };
    let Some((commands, _)) = number(rest) else { return Ok(()) };
    if length > LONGEST as u64 || commands > MOST_COMMANDS { Err(too_long()) } else { Ok(()) }
}

/// Splits off a number of seven bits in each of its bytes, the low ones first.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

fn too_long() -> CodecError {
    let limit = LONGEST >> 20;
    malformed(format!("its colour profile has more than {limit} MiB, or is made of more commands than any"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a picture with a profile of 2^28 packed bytes, or of one more than are read.
    const LONG: [[u8; 19]; 2] = [
        [0xff, 0x0a, 0x41, 0x40, 0x08, 0x07, 0x80, 0, 1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0xff, 0x0a, 0x41, 0x40, 0x08, 0x0f, 0x80, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];

    #[test]
    fn a_long_profile_is_refused_before_it_is_unpacked() {
        for long in LONG {
            let (start, rest) = long.split_at(5);
            for pieces in [&[&long[..]][..], &[start, rest]] {
                let why = check(pieces).unwrap_err().to_string();
                assert!(why.contains("more than 8 MiB"), "{why}");
            }
        }
        assert!(check(&[&LONG[0][..8]]).is_ok(), "what is cut short is told of by the decoder");
        assert!(check(&[]).is_ok());
    }

    #[test]
    fn the_lengths_that_a_profile_says_are_bounded() {
        for (said, is_taken) in [
            (&[0x80, 0x80, 0x80, 0x04, 1][..], true),
            (&[0x81, 0x80, 0x80, 0x04, 1], false),
            (&[0x80, 0x01, 0x80, 0x80, 0x10], true),
            (&[0x80, 0x01, 0x81, 0x80, 0x10], false),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
        ] {
            assert_eq!(check_lengths(said).is_ok(), is_taken, "{said:?}");
        }
    }
}
