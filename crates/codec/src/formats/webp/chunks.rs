//! The chunks of a WebP (RFC 9649, section 2.3).
//!
//! Each has a type, a length, content, and a padding byte if the length is odd.

use crate::samples::size::Size;

/// A chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    pub(super) kind: [u8; 4],
    /// The bytes of its content.
    pub(super) length: usize,
    /// Its content, which may be cut short, and the bytes after it.
    behind: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Returns its content; `None` if it is cut short.
    pub(super) fn content(&self) -> Option<&'a [u8]> {
        self.behind.get(..self.length)
    }

    /// Returns how many bytes of its content there are.
    pub(super) fn bytes(&self) -> usize {
        self.length.min(self.behind.len())
    }

    /// Returns the size of a picture, lossy or lossless.
    ///
    /// Source: RFC 6386, section 9.1; RFC 9649, section 3.4.
    pub(super) fn size(&self) -> Option<Size> {
        match &self.kind {
            b"VP8 " => {
                // A tag and a start code of three bytes each, then 14 bits each of width and
                // height.
                let &[_, _, _, _, _, _, w0, w1, h0, h1] = self.behind.first_chunk()?;
                let side = |bytes| u32::from(u16::from_le_bytes(bytes) & 0x3fff);
                Some(Size { width: side([w0, w1]), height: side([h0, h1]) })
            }
            b"VP8L" => {
                // A mark, then 14 bits each of width and height, less one.
                let &[_, a, b, c, d] = self.behind.first_chunk()?;
                let bits = u32::from_le_bytes([a, b, c, d]);
                Some(Size { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
            }
            _ => None,
        }
    }
}

/// Returns the chunks of a file, after its header and up to the end that this one gives.
pub(super) fn of_file(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let end = stated_length(bytes).min(bytes.len());
    chunks(bytes.get(12..end).unwrap_or_default())
}

/// Returns a file that begins like this one, with corrected lengths; `None` for an animation.
pub(crate) fn ended(head: &[u8]) -> Option<Vec<u8>> {
    const ANIMATION: u8 = 2;
    if head.get(12..16)? == b"VP8X" && head.get(20)? & ANIMATION != 0 {
        return None;
    }
    let mut ended = head[..head.len() & !1].to_vec();
    let (all, mut at) = (ended.len(), 12);
    set_length(&mut ended, 4, all - 8)?;
    loop {
        let length = u32::from_le_bytes(*ended.get(at + 4..)?.first_chunk()?) as usize;
        let end = at.checked_add(8)?.checked_add(length)?.next_multiple_of(2);
        if end >= all {
            set_length(&mut ended, at + 4, all - at - 8)?;
            return Some(ended);
        }
        at = end;
    }
}

fn set_length(bytes: &mut [u8], at: usize, length: usize) -> Option<()> {
    let length = u32::try_from(length).ok()?;
    bytes.get_mut(at..at + 4)?.copy_from_slice(&length.to_le_bytes());
    Some(())
}

/// Returns the length of a file by its header.
pub(super) fn stated_length(bytes: &[u8]) -> usize {
    let length = bytes.get(4..8).and_then(<[u8]>::first_chunk::<4>);
    length.map_or(0, |length| u32::from_le_bytes(*length) as usize + 8)
}

/// Returns chunks that follow each other.
pub(super) fn chunks(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let (&[a, b, c, d, ref length @ ..], behind) = rest?.split_first_chunk::<8>()?;
        let length = u32::from_le_bytes(*length) as usize;
        rest = behind.get(length.next_multiple_of(2)..);
        Some(Chunk { kind: [a, b, c, d], length, behind })
    })
}
