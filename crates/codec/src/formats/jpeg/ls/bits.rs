//! The bits of a scan.
//!
//! A byte of all ones is followed by a 0 bit that does not count (T.87, A.1).

/// The most zeros at the start of a code; after the data all bits are zeros.
const MAX_ZEROS: u32 = 64;

/// Reads bits up to the next marker.
pub(super) struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
    /// The next bits, starting with the most significant one.
    buffer: u64,
    held: u32,
    /// The number of bits taken after the end.
    missing: u32,
}

impl<'b> Bits<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0, buffer: 0, held: 0, missing: 0 }
    }

    /// Fills the buffer with at least 32 bits, or with zeros after the end of the data.
    #[inline(always)]
    fn fill(&mut self) {
        while self.held <= 48 {
            let is_behind_ones = self.at > 0 && self.bytes[self.at - 1] == 0xff;
            match self.bytes.get(self.at) {
                Some(&byte) if !is_behind_ones && (byte < 0xff || self.is_stuffed()) => {
                    self.push(byte.into(), 8);
                }
                Some(&byte) if is_behind_ones && byte < 0x80 => self.push(byte.into(), 7),
                _ => {
                    self.missing += 8;
                    self.held += 8;
                    continue;
                }
            }
            self.at += 1;
        }
    }

    /// Returns whether the next byte, which is all ones, begins no marker.
    fn is_stuffed(&self) -> bool {
        self.bytes.get(self.at + 1).is_some_and(|&next| next < 0x80)
    }

    fn push(&mut self, bits: u64, count: u32) {
        self.buffer |= bits << (64 - self.held - count);
        self.held += count;
    }

    /// Takes up to 32 bits.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        if self.held < count {
            self.fill();
        }
        let taken = (self.buffer >> 1 >> (63 - count)) as u32;
        self.buffer <<= count;
        self.held -= count;
        taken
    }

    /// Takes zeros up to and including a one.
    ///
    /// Returns the number of zeros; `None` if it exceeds that of any code.
    #[inline(always)]
    pub(super) fn zeros(&mut self) -> Option<u32> {
        let mut zeros = 0;
        loop {
            if self.held < 32 {
                self.fill();
            }
            let found = self.buffer.leading_zeros().min(self.held);
            if found < self.held {
                self.buffer = self.buffer << found << 1;
                self.held -= found + 1;
                return Some(zeros + found);
            }
            zeros += found;
            if zeros > MAX_ZEROS {
                return None;
            }
            (self.buffer, self.held) = (0, 0);
        }
    }

    /// Returns the bytes after the data; `None` if more bits were taken than the data have.
    pub(super) fn finish(self) -> Option<&'b [u8]> {
        // Bytes still in the buffer have not been taken.
        (self.missing <= self.held).then(|| &self.bytes[self.at..])
    }

    /// Returns whether more bits were taken than the data have.
    pub(super) fn is_beyond(&self) -> bool {
        self.missing > self.held
    }
}
