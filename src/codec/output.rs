//! A compressor's output.

/// Bytes that are appended one after the other in memory that is not cleared in between.
#[derive(Default)]
pub(super) struct Output {
    /// What was appended, and room for more behind it.
    bytes: Vec<u8>,
    filled: usize,
}

impl Output {
    /// Forgets what was appended.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Room for `count` bytes more, or for more than these.
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        let needed = self.filled + count;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// The first `count` bytes of the room are appended.
    pub(super) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// What was appended.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}
