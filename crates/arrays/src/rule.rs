//! The rule for LUTs and the number of equalized planes, as arguments of kernels.

use cuda::Address;
use equalize::{Colour, Method, Operation, Pixel, Strength};

/// Returns the number of equalized planes.
pub(crate) const fn colours(pixel: Pixel, per_channel: bool) -> usize {
    if per_channel && matches!(pixel, Pixel::Rgb | Pixel::Rgba) { 3 } else { 1 }
}

/// The preparation of counts for LUTs: adding up planes and capping counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preparation {
    /// The number of consecutive planes that are added up.
    pub(crate) added: u32,
    /// The number of consecutive planes that get the sum.
    pub(crate) copies: u32,
    /// The share of the samples, in parts per million, at which the count of a level is capped.
    ///
    /// [`Preparation::ALL`] caps no count.
    pub(crate) share: u32,
}

impl Preparation {
    /// The share that caps no count.
    const ALL: u32 = 1_000_000;

    /// Returns the preparation of pictures' counts.
    ///
    /// `None` if LUTs follow from the counts as they are.
    pub(crate) fn of(operation: &Operation, pixel: Pixel) -> Option<Self> {
        let is_linked = operation.colour == Colour::Linked && pixel.colour_channels() > 1;
        let share = match operation.method {
            Method::Plateau(plateau) => plateau.share,
            _ => Self::ALL,
        };
        let planes = if is_linked { 3 } else { 1 };
        (is_linked || share != Self::ALL).then_some(Self { added: planes, copies: planes, share })
    }

    /// Returns the preparation of a reference's counts.
    ///
    /// The reference has `own` planes, the pictures have `planes`.
    pub(crate) fn of_reference(operation: &Operation, own: usize, planes: usize) -> Option<Self> {
        let preparation = Self { added: own as u32, copies: planes as u32, share: Self::ALL };
        (operation.colour == Colour::Linked && (own, planes) != (1, 1)).then_some(preparation)
    }

    /// Returns the preparation that sums the counts of linked planes, for each of them.
    pub(crate) fn of_linked(operation: &Operation, pixel: Pixel) -> Option<Self> {
        let sum = Self::sum_of_linked(operation, pixel)?;
        Some(Self { copies: sum.added, ..sum })
    }

    /// Returns the preparation that sums the counts of linked planes.
    pub(crate) fn sum_of_linked(operation: &Operation, pixel: Pixel) -> Option<Self> {
        let is_linked = operation.colour == Colour::Linked && pixel.colour_channels() > 1;
        is_linked.then_some(Self { added: 3, copies: 1, share: Self::ALL })
    }
}

/// The rule for LUTs.
///
/// Mirrors `Rule` in `kernels/batch.cuh`.
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
    /// Returns the rule of a method.
    ///
    /// `reference` is the address of the running sums of the reference's counts, if the method has
    /// one.
    pub fn new(method: Method, strength: Strength, reference: Address) -> Self {
        let (method, low, high) = match method {
            Method::Stretch(stretch) => (1, stretch.low, stretch.high),
            Method::Match => (2, 0, 0),
            Method::Global | Method::Plateau(_) | Method::Clahe(_) => (0, 0, 0),
        };
        Self { method, strength: strength.in_thousandths(), low, high, reference }
    }
}
