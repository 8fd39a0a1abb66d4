//! The types of samples that are not levels.

use bytemuck::{Pod, Zeroable};
use equalize::{Depth, Level};

use super::half::Half;

/// The type of samples that are not levels themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed8,
    Signed16,
    Signed32,
    Signed64,
    Unsigned8,
    Unsigned16,
    Unsigned24,
    Unsigned32,
    Unsigned64,
    Float16,
    Float32,
    Float64,
}

/// Calls a function that is generic over [`Value`] with the type of a [`Kind`].
macro_rules! with_values {
    ($kind:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $kind {
            $crate::samples::mapped::Kind::Signed8 => $function::<i8>($($argument),*),
            $crate::samples::mapped::Kind::Signed16 => $function::<i16>($($argument),*),
            $crate::samples::mapped::Kind::Signed32 => $function::<i32>($($argument),*),
            $crate::samples::mapped::Kind::Signed64 => $function::<i64>($($argument),*),
            $crate::samples::mapped::Kind::Unsigned8 => $function::<u8>($($argument),*),
            $crate::samples::mapped::Kind::Unsigned16 => $function::<u16>($($argument),*),
            $crate::samples::mapped::Kind::Unsigned24 => $function::<$crate::samples::mapped::kind::Three>($($argument),*),
            $crate::samples::mapped::Kind::Unsigned64 => $function::<u64>($($argument),*),
            $crate::samples::mapped::Kind::Unsigned32 => $function::<u32>($($argument),*),
            $crate::samples::mapped::Kind::Float16 => $function::<$crate::samples::mapped::half::Half>($($argument),*),
            $crate::samples::mapped::Kind::Float32 => $function::<f32>($($argument),*),
            $crate::samples::mapped::Kind::Float64 => $function::<f64>($($argument),*),
        }
    };
}
pub(crate) use with_values;

impl Kind {
    /// Returns the bytes of a sample.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Signed8 | Self::Unsigned8 => 1,
            Self::Signed16 | Self::Unsigned16 | Self::Float16 => 2,
            Self::Unsigned24 => 3,
            Self::Signed32 | Self::Unsigned32 | Self::Float32 => 4,
            Self::Signed64 | Self::Unsigned64 | Self::Float64 => 8,
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::Signed8 | Self::Signed16 | Self::Signed32 | Self::Signed64)
    }

    /// Returns the depth of the levels that stand for the samples.
    pub(crate) const fn depth(self) -> Depth {
        match self {
            Self::Signed8 | Self::Unsigned8 => Depth::Eight,
            _ => Depth::Sixteen,
        }
    }

    /// Returns the least and the greatest value of a signed type, if each has a level.
    pub(crate) const fn whole_range(self) -> Option<(f64, f64)> {
        match self {
            Self::Signed8 => Some((i8::MIN as f64, i8::MAX as f64)),
            Self::Signed16 => Some((i16::MIN as f64, i16::MAX as f64)),
            _ => None,
        }
    }

    /// Returns the sample of a value, in native byte order; `None` if no sample is near it.
    pub(crate) fn sample(self, value: f64) -> Option<Vec<u8>> {
        fn of<V: Value>(value: f64) -> Option<Vec<u8>> {
            let sample = V::nearest(value);
            // Text with a decimal point too few is near a float.
            let is_near = (sample.value() - value).abs() <= value.abs() * V::ROUNDING;
            let same = value.is_nan() && sample.value().is_nan();
            (is_near || same).then(|| bytemuck::bytes_of(&sample).to_vec())
        }
        with_values!(self, of(value))
    }

    /// Returns the value of a sample in native byte order.
    pub(crate) fn value(self, sample: &[u8]) -> f64 {
        fn of<V: Value>(sample: &[u8]) -> f64 {
            bytemuck::pod_read_unaligned::<V>(sample).value()
        }
        with_values!(self, of(sample))
    }
}

/// A sample of one of the types.
pub(crate) trait Value: Pod {
    /// The levels that stand for the samples.
    type Level: Level;
    /// The most by which a number that was rounded to this type differs from it, as a share of it.
    const ROUNDING: f64;
    /// The value that stands for fully opaque in a channel that is alpha.
    const OPAQUE: f64;

    /// Returns the value, which is exact except for integers beyond 2 to the power of 53.
    fn value(self) -> f64;

    /// Returns the nearest sample: of integers, halves up; of floats, halves to even.
    ///
    /// A value beyond all of them becomes the last one.
    fn nearest(value: f64) -> Self;
}

macro_rules! integers {
    ($($type:ty: $level:ty),*) => { $(
        impl Value for $type {
            type Level = $level;
            const ROUNDING: f64 = 0.0;
            const OPAQUE: f64 = <$type>::MAX as f64;

            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "those of 64 bits have no other conversion")]
            fn value(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn nearest(value: f64) -> Self {
                (value + 0.5).floor() as Self
            }
        }
    )* };
}
integers!(i8: u8, i16: u16, u8: u8, u16: u16, i32: u16, i64: u16, u32: u16, u64: u16);

/// An unsigned integer of 24 bits in native byte order.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Three([u8; 3]);

impl Value for Three {
    type Level = u16;
    const ROUNDING: f64 = 0.0;
    const OPAQUE: f64 = ((1 << 24) - 1) as f64;

    #[inline(always)]
    fn value(self) -> f64 {
        let [a, b, c] = self.0;
        f64::from(if cfg!(target_endian = "big") {
            u32::from_be_bytes([0, a, b, c])
        } else {
            u32::from_le_bytes([a, b, c, 0])
        })
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        let whole = (value + 0.5).floor().min(Self::OPAQUE) as u32;
        if cfg!(target_endian = "big") {
            let [_, a, b, c] = whole.to_be_bytes();
            Self([a, b, c])
        } else {
            let [a, b, c, _] = whole.to_le_bytes();
            Self([a, b, c])
        }
    }
}

impl Value for Half {
    type Level = u16;
    const ROUNDING: f64 = 0.000_488_281_25;
    const OPAQUE: f64 = 1.0;

    #[inline(always)]
    fn value(self) -> f64 {
        self.value()
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        if value.is_nan() { Self(0x7e00) } else { Self::nearest(value.clamp(-Self::MAX, Self::MAX)) }
    }
}

impl Value for f32 {
    type Level = u16;
    const ROUNDING: f64 = Self::EPSILON as f64;
    const OPAQUE: f64 = 1.0;

    #[inline(always)]
    fn value(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value.clamp(f64::from(Self::MIN), f64::from(Self::MAX)) as Self
    }
}

impl Value for f64 {
    type Level = u16;
    const ROUNDING: f64 = 0.0;
    const OPAQUE: f64 = 1.0;

    #[inline(always)]
    fn value(self) -> f64 {
        self
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value.clamp(Self::MIN, Self::MAX)
    }
}
