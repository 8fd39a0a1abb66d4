//! Names for the damage that fdeflate finds in the compressed data of PNG and TIFF.
//!
//! Source: RFC 1950 and 1951.

use fdeflate::DecompressionError;

/// Returns the damage in words, for a message that names the data.
pub(crate) fn damage(error: &DecompressionError) -> &'static str {
    use DecompressionError as E;
    match error {
        E::BadZlibHeader => "invalid zlib header",
        E::InsufficientInput => "it ends early",
        E::InvalidBlockType => "invalid kind of block",
        E::InvalidUncompressedBlockLength => "invalid length of stored data",
        E::InvalidHlit | E::InvalidHdist => "too many codes",
        E::InvalidCodeLengthRepeat
        | E::BadCodeLengthHuffmanTree
        | E::BadLiteralLengthHuffmanTree
        | E::BadDistanceHuffmanTree => "invalid codes",
        E::InvalidLiteralLengthCode | E::InvalidDistanceCode => "a code that was not declared",
        E::InputStartsWithRun | E::DistanceTooFarBack => "a match reaches too far back",
        E::WrongChecksum => "the checksum does not match",
        E::ExtraInput => "data follow its end",
    }
}
