//! The order of the bytes of samples in memory.

use crate::simd;

/// The order of the two bytes of a 16-bit sample in memory.
///
/// The default is the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ByteOrder {
    /// The machine's.
    #[default]
    Native,
    /// The other one.
    Swapped,
}

impl ByteOrder {
    /// The order with the high byte first.
    pub const BIG_ENDIAN: Self = if cfg!(target_endian = "big") { Self::Native } else { Self::Swapped };

    /// Converts 16-bit samples from this order to the machine's, or back, in place.
    pub fn convert(self, samples: &mut [u8]) {
        if self == Self::Swapped {
            swap_bytes(samples);
        }
    }
}

/// The byte orders of a picture's 16-bit samples before and after it is equalized.
///
/// 8-bit samples have no byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ByteOrders {
    /// Before.
    pub from: ByteOrder,
    /// After.
    pub to: ByteOrder,
}

impl ByteOrders {
    /// The machine's, before and after.
    pub const NATIVE: Self = Self { from: ByteOrder::Native, to: ByteOrder::Native };
}

/// Swaps the two bytes of every 16-bit sample in place.
pub fn swap_bytes(samples: &mut [u8]) {
    simd::vectorized!(samples.as_chunks_mut::<2>().0.iter_mut().for_each(|sample| sample.swap(0, 1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_converted_and_back() {
        let high_byte_first = [1, 2, 3, 4];
        let mut samples = high_byte_first;
        ByteOrder::BIG_ENDIAN.convert(&mut samples);
        assert_eq!(bytemuck::pod_read_unaligned::<[u16; 2]>(&samples), [0x0102, 0x0304]);
        ByteOrder::BIG_ENDIAN.convert(&mut samples);
        assert_eq!(samples, high_byte_first);
        ByteOrder::Native.convert(&mut samples);
        assert_eq!(samples, high_byte_first);
    }
}
