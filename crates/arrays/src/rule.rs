//! How LUTs follow from counts, as kernels are told, and of how many planes.

use cuda::Address;
use equalize::{Method, Pixel, Strength};

/// Returns the planes that are equalized.
pub(crate) const fn colours(pixel: Pixel, per_channel: bool) -> usize {
    if per_channel && matches!(pixel, Pixel::Rgb | Pixel::Rgba) { 3 } else { 1 }
}

/// How LUTs follow from counts. Mirrors `Rule` in `kernels/batch.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    method: u32,
    strength: u32,
    low: u32,
    high: u32,
    reference: Address,
}

impl Rule {
    /// Returns the rule of a method. `reference`: the running sums of the reference's counts, if the method has one.
    pub fn new(method: Method, strength: Strength, reference: Address) -> Self {
        let (method, low, high) = match method {
            Method::Stretch(stretch) => (1, stretch.low, stretch.high),
            Method::Match => (2, 0, 0),
            Method::Global | Method::Clahe(_) => (0, 0, 0),
        };
        Self { method, strength: strength.in_thousandths(), low, high, reference }
    }
}
