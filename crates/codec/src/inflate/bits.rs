//! Reading bits.

/// The bits of compressed data, the lowest of each byte first.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// The first byte none of whose bits are counted.
    at: usize,
    /// The next bits, the first one lowest. Above those that are counted, there may be more of the data.
    buffer: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    /// Begins with the bit at `position`.
    pub(super) fn new(data: &'a [u8], position: usize) -> Self {
        let mut bits = Self { data, at: position / 8, buffer: 0, count: 0 };
        bits.fill();
        bits.drop((position % 8) as u32);
        bits
    }

    /// Returns the position of the next bit. It is beyond the data if zeros behind them were taken.
    pub(super) fn position(&self) -> usize {
        self.at * 8 - self.count as usize
    }

    /// Returns whether zeros behind the data were taken.
    pub(super) fn is_past_end(&self) -> bool {
        self.position() > self.data.len() * 8
    }

    /// Returns whether the next `count` calls of [`Bits::fill`] meet nothing but data.
    #[inline(always)]
    pub(super) fn has_fills(&self, count: usize) -> bool {
        self.at + 8 * count <= self.data.len()
    }

    /// Makes sure that there are at least 56 bits. The data are followed by zeros.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        match self.data.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(&word) => {
                self.buffer |= u64::from_le_bytes(word) << self.count;
                self.at += ((63 - self.count) / 8) as usize;
                self.count |= 56;
            }
            None => {
                while self.count < 56 {
                    self.buffer |= u64::from(self.data.get(self.at).copied().unwrap_or(0)) << self.count;
                    self.at += 1;
                    self.count += 8;
                }
            }
        }
    }

    /// Returns the `count` bits after the next `skip` bits.
    #[inline(always)]
    pub(super) fn peek(&self, skip: u32, count: u32) -> usize {
        (self.buffer >> (skip % u64::BITS)) as usize & ((1 << count) - 1)
    }

    #[inline(always)]
    pub(super) fn drop(&mut self, count: u32) {
        self.buffer >>= count % u64::BITS;
        self.count -= count;
    }

    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> usize {
        let bits = self.peek(0, count);
        self.drop(count);
        bits
    }

    /// Drops the rest of a byte.
    pub(super) fn align(&mut self) {
        self.drop(self.count % 8);
    }
}
