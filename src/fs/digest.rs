//! A short hash to compare states and settings by, across runs and machines.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// A short hash that is the same in every version and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl Digest {
    /// Twelve hexadecimal digits.
    const BITS: u32 = 48;

    /// Returns the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(bytes);
        Self(hasher.finish() >> (u64::BITS - Self::BITS))
    }

    /// Returns the digest of both; this one if there is no other.
    #[must_use]
    pub fn with(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| Self::of([self.0.to_le_bytes(), other.0.to_le_bytes()].as_flattened()))
    }

    /// Returns the digest of this value, if it is one.
    pub(crate) fn new(value: u64) -> Option<Self> {
        (value >> Self::BITS == 0).then_some(Self(value))
    }

    /// Returns its number, of 48 bits.
    pub(crate) fn number(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_never_changes() {
        let empty = Digest(0xd1fb_a762_150c);
        assert_eq!(Digest::of(b""), empty);
        assert_eq!(empty.with(None), empty);
        assert_ne!(empty.with(Some(Digest::of(b"a"))), empty.with(Some(Digest::of(b"b"))));
    }
}
