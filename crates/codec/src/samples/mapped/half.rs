//! Floats of 16 bits (IEEE 754 binary16), which stable Rust does not have.

use bytemuck::{Pod, Zeroable};

/// A float of 16 bits, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Half(pub(super) u16);

/// Bits of the fraction.
const FRACTION: u32 = 10;
/// The exponent of the least normal number, which is also that of subnormal ones.
const LEAST_EXPONENT: i32 = -14;

impl Half {
    pub(super) const MAX: f64 = 65504.0;

    /// Returns the value, which is exact.
    pub(super) fn value(self) -> f64 {
        let (exponent, fraction) = (i32::from(self.0 >> FRACTION & 0x1f), f64::from(self.0 & 0x3ff));
        let size = match exponent {
            0 => fraction * power_of_two(LEAST_EXPONENT - FRACTION as i32),
            0x1f if fraction == 0.0 => f64::INFINITY,
            0x1f => f64::NAN,
            _ => (fraction + 1024.0) * power_of_two(exponent - 1 + LEAST_EXPONENT - FRACTION as i32),
        };
        if self.0 >> 15 == 1 { -size } else { size }
    }

    /// Returns the nearest one to a value of at most [`Half::MAX`], halves to even.
    pub(super) fn nearest(value: f64) -> Self {
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(LEAST_EXPONENT);
        // Dividing by a power of two is exact: this is the only rounding.
        let steps = (value.abs() / power_of_two(exponent - FRACTION as i32)).round_ties_even() as u16;
        // The leading bit of a normal number is not stored: it adds 1 to the exponent, and so does
        // a carry.
        Self(sign | ((((exponent - LEAST_EXPONENT) as u16) << FRACTION) + steps))
    }
}

/// Returns 2 to the power of an exponent of a normal float.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_standard() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, Half::MAX),
            (0x0400, 0.000_061_035_156_25),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x3555, 0.333_251_953_125),
            (0xfc00, f64::NEG_INFINITY),
            (0, 0.0),
        ] {
            assert_eq!(Half(bits).value(), value, "{bits:x}");
        }
        assert!(Half(0x7e01).value().is_nan());
    }

    #[test]
    fn every_finite_one_comes_back_and_what_is_between_goes_to_the_nearest() {
        for bits in (0..0x7c00).chain(0x8000..0xfc00) {
            assert_eq!(Half::nearest(Half(bits).value()), Half(bits));
        }
        for bits in 0..0x7bff {
            let (low, high) = (Half(bits).value(), Half(bits + 1).value());
            let middle = f64::midpoint(low, high);
            let even = bits + (bits & 1);
            assert_eq!(Half::nearest(middle), Half(even), "{middle}");
            assert_eq!(Half::nearest(-middle), Half(even | 0x8000), "{middle}");
            assert_eq!(Half::nearest(middle.next_down()), Half(bits));
            assert_eq!(Half::nearest(middle.next_up()), Half(bits + 1));
        }
    }
}
