//! DICOM's run-length encoding (PS3.5, annex G): PackBits, in a segment for each byte of a pixel.

use super::malformed;
use crate::CodecError;

/// The most segments: a pixel of three samples of four bytes each.
const MAX_SEGMENTS: usize = 15;

/// Decodes a frame of `samples` samples a pixel, of `bytes` bytes each, the low byte first.
pub(super) fn decode(stream: &[u8], samples: usize, bytes: usize, into: &mut [u8]) -> Result<(), CodecError> {
    let header: &[[u8; 4]] =
        stream.get(..64).ok_or_else(|| malformed("its run-length header is cut short"))?.as_chunks().0;
    let [count, starts @ ..]: [usize; 16] = std::array::from_fn(|at| u32::from_le_bytes(header[at]) as usize);
    let pixel = samples * bytes;
    if count != pixel || count > MAX_SEGMENTS {
        return Err(malformed(format!("{count} run-length segments for pixels of {pixel} bytes")));
    }
    for segment in 0..count {
        let end = if segment + 1 < count { starts[segment + 1] } else { stream.len() };
        let data = stream
            .get(starts[segment]..end)
            .ok_or_else(|| malformed("a run-length segment lies outside its frame"))?;
        // The high byte comes first.
        let (sample, byte) = (segment / bytes, bytes - 1 - segment % bytes);
        expand(data, into.chunks_exact_mut(pixel).map(|pixel| &mut pixel[sample * bytes + byte]))?;
    }
    Ok(())
}

/// Expands a segment. Data beyond the wanted bytes are ignored, as rows may be padded.
fn expand<'b>(data: &[u8], into: impl Iterator<Item = &'b mut u8>) -> Result<(), CodecError> {
    let (mut into, mut data) = (into.peekable(), data.iter());
    let mut next =
        || data.next().copied().ok_or_else(|| malformed("truncated: a run-length segment ends early"));
    while into.peek().is_some() {
        match next()?.cast_signed() {
            count @ 0.. => {
                for to in into.by_ref().take(1 + count as usize) {
                    *to = next()?;
                }
            }
            i8::MIN => {}
            count => {
                let value = next()?;
                into.by_ref().take(1 + usize::from(count.unsigned_abs())).for_each(|to| *to = value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(segments: &[&[u8]]) -> Vec<u8> {
        let mut header = vec![segments.len() as u32];
        let mut at = 64;
        for segment in segments {
            header.push(at);
            at += segment.len() as u32;
        }
        header.resize(16, 0);
        header.iter().flat_map(|word| word.to_le_bytes()).chain(segments.concat()).collect()
    }

    #[test]
    fn segments_are_the_bytes_of_samples_the_high_one_first() {
        let stream = frame(&[&[254, 1], &[128, 2, 7, 8, 9, 0]]);
        let mut pixels = [0; 6];
        decode(&stream, 1, 2, &mut pixels).unwrap();
        assert_eq!(pixels, [7, 1, 8, 1, 9, 1]);
        assert!(decode(&stream, 3, 1, &mut pixels).is_err());
        assert!(decode(&stream[..stream.len() - 3], 1, 2, &mut pixels).is_err());
        assert!(decode(&stream[..63], 1, 2, &mut pixels).is_err());
        assert!(decode(&stream, 1, 2, &mut [0; 8]).is_err());
    }
}
