//! The means of samples.

use std::ops::AddAssign;

use super::half::Half;
use super::kind::{Three, Value};

/// A sample that means are made of.
pub(crate) trait Average: Value + Send {
    /// A sum of samples, wide enough for any number of them.
    type Sum: AddAssign + Copy + Default + Send;

    fn widened(self) -> Self::Sum;

    /// Returns the mean of one or more samples with this sum: of integers, exact, halves up.
    fn mean(sum: Self::Sum, count: u64) -> Self;
}

macro_rules! averages_of_integers {
    ($($type:ty: $sum:ty),*) => { $(
        impl Average for $type {
            type Sum = $sum;

            #[inline(always)]
            fn widened(self) -> $sum {
                self.into()
            }

            #[inline(always)]
            fn mean(sum: $sum, count: u64) -> Self {
                // Boxes mostly have four pixels, and divisions take long.
                if count.is_power_of_two() {
                    return ((sum + (count / 2) as $sum) >> count.trailing_zeros()) as Self;
                }
                (2 * sum + count as $sum).div_euclid(2 * count as $sum) as Self
            }
        }
    )* };
}
averages_of_integers!(u8: u64, u16: u64, i8: i64, i16: i64, u32: i128, i32: i128, u64: i128, i64: i128);

macro_rules! averages_in_floats {
    ($($type:ty),*) => { $(
        impl Average for $type {
            type Sum = f64;

            #[inline(always)]
            fn widened(self) -> f64 {
                self.value()
            }

            #[inline(always)]
            fn mean(sum: f64, count: u64) -> Self {
                Self::nearest(sum / count as f64)
            }
        }
    )* };
}
averages_in_floats!(Three, Half, f32, f64);
