//! Zstandard (RFC 8878), by the `ruzstd` crate.

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::CodecError;
use crate::formats::tiff::malformed;

/// The most bytes of a block of decompressed data.
const BLOCK: u64 = 128 << 10;

/// The places of a frame header's flags and window size, unless the content is the window.
const FLAGS: usize = 4;
const IS_SINGLE: u8 = 0x20;
const WINDOW: usize = FLAGS + 1;

/// Returns the bytes of heap that decompressing `most` bytes takes.
pub(crate) fn heap_bytes(most: u64) -> u64 {
    2 * window(most).0 + 4 * BLOCK
}

/// Returns the least window, a power of 2, for `most` bytes and a block, and its code.
fn window(most: u64) -> (u64, u8) {
    const LEAST: u32 = 10;
    const GREATEST: u32 = 41;
    let logarithm = most.saturating_add(BLOCK).ilog2() + 1;
    let logarithm = logarithm.clamp(LEAST, GREATEST);
    (1 << logarithm, (logarithm - LEAST) as u8 * 8)
}

/// Fills `target`, part of `most` bytes, and ignores data beyond it.
///
/// The checksum is verified if the data end where the target is full.
pub(crate) fn decode(data: &[u8], most: u64, target: &mut [u8]) -> Result<(), CodecError> {
    let (bytes, code) = window(most);
    // Memory is taken for the window, which may be far larger than the data: then a smaller one
    // does.
    let mut head = [0; WINDOW + 1];
    let (start, rest) = data.split_at_checked(head.len()).ok_or_else(damaged)?;
    head.copy_from_slice(start);
    if head[FLAGS] & IS_SINGLE == 0 {
        head[WINDOW] = head[WINDOW].min(code);
    }
    let mut source = head.chain(rest);
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(bytes);
    decoder.init(&mut source).map_err(|_| damaged())?;
    let mut filled = 0;
    while filled < target.len() {
        if decoder.is_finished() && decoder.can_collect() == 0 {
            return Err(damaged());
        }
        if !decoder.is_finished() {
            decoder
                .decode_blocks(&mut source, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|_| damaged())?;
        }
        filled += decoder.read(&mut target[filled..])?;
    }
    let is_whole = decoder.is_finished() && decoder.can_collect() == 0;
    let sums = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
    match sums {
        (Some(stated), Some(found)) if is_whole && stated != found => Err(damaged()),
        _ => Ok(()),
    }
}

fn damaged() -> CodecError {
    malformed("its Zstandard data are damaged or end early")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::differences;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn what_was_compressed_comes_back_and_nothing_beyond_the_place() {
        let content = differences(300_000);
        for level in [CompressionLevel::Uncompressed, CompressionLevel::Fastest] {
            let data = compress_to_vec(&content[..], level);
            for length in [0, 1, 1000, 200_000, content.len()] {
                let mut target = vec![0; length];
                decode(&data, content.len() as u64, &mut target).unwrap();
                assert!(target == content[..length], "{length}");
            }
            assert!(decode(&data, 1 << 20, &mut vec![0; content.len() + 1]).is_err());
            for end in [0, 3, 5, 6, 100, data.len() / 2, data.len() - 1] {
                assert!(decode(&data[..end], 1 << 20, &mut vec![0; content.len()]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn a_large_window_takes_no_more_memory_than_the_content() {
        assert_eq!(window(0).0, 256 << 10);
        assert_eq!(window(1 << 20), (2 << 20, 11 * 8));
        assert_eq!(window(u64::MAX).0, 1 << 41);
        // A frame with a window of 64 GiB as its only field, and three stored bytes.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 26 << 3, 0x19, 0, 0, 7, 8, 9];
        let mut target = [0; 3];
        decode(&frame, 3, &mut target).unwrap();
        assert_eq!(target, [7, 8, 9]);
    }
}
