//! What a lane is told to do with a picture, and where in the picture's slot it leaves the counts.

use serde::{Deserialize, Serialize};

use equalize::clahe::Geometry;
use equalize::{Layout, Method, Operation, count};

/// What a lane does with the picture in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Equalizes the pixels in place.
    Equalize(Operation),
    /// Counts the pixels, and leaves the counts after them in the slot.
    Count {
        /// If set, how to equalize the pixels in place afterwards; they are then counted again.
        equalize: Option<Operation>,
    },
}

/// The alignment of the counts within a slot, in bytes: a line of the CPU's cache and of device memory.
const ALIGNMENT: usize = 64;

impl Order {
    /// Returns how many bytes at the start of a slot a lane works on: the pixels, and room for the counts.
    pub fn slot_bytes(&self, layout: &Layout) -> u64 {
        match self.counts(layout) {
            0 => layout.bytes(),
            counts => (start(layout) + counts * size_of::<u64>()) as u64,
        }
    }

    /// Bytes of other memory that a lane of the CPU needs for a picture of this layout, where that is not fixed and small.
    pub fn scratch_bytes(&self, layout: &Layout) -> u64 {
        match self.operation().map(|operation| operation.method) {
            Some(Method::Clahe(clahe)) => Geometry::new(layout, &clahe).scratch_bytes(layout),
            Some(Method::Global) | None => 0,
        }
    }

    /// Splits a slot into its pixels and its counts. If a picture is counted twice, the second counts follow the first.
    ///
    /// # Panics
    /// If the slot is shorter than [`Order::slot_bytes`], or if it has counts and is not aligned to 8 bytes.
    pub fn parts<'s>(&self, slot: &'s mut [u8], layout: &Layout) -> (&'s mut [u8], &'s mut [u64]) {
        let (pixels, behind) = slot.split_at_mut(layout.bytes() as usize);
        let counts = self.counts(layout);
        if counts == 0 {
            return (pixels, &mut []);
        }
        let from = start(layout) - pixels.len();
        (pixels, bytemuck::cast_slice_mut(&mut behind[from..][..counts * size_of::<u64>()]))
    }

    /// Returns how the pixels are changed, if they are.
    pub const fn operation(&self) -> Option<Operation> {
        match *self {
            Self::Equalize(operation) => Some(operation),
            Self::Count { equalize } => equalize,
        }
    }

    /// Returns whether the order changes the pixels.
    pub const fn equalizes(&self) -> bool {
        self.operation().is_some()
    }

    /// Returns how many counts a lane leaves in the slot.
    fn counts(&self, layout: &Layout) -> usize {
        match self {
            Self::Equalize(_) => 0,
            Self::Count { equalize } => count::length(layout) * (1 + usize::from(equalize.is_some())),
        }
    }
}

/// Returns the offset of the counts in a slot.
fn start(layout: &Layout) -> usize {
    (layout.bytes() as usize).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Depth, Pixel};

    const ODD: Layout = Layout { width: 67, height: 1, pixel: Pixel::Rgb, depth: Depth::Eight };

    #[test]
    fn an_equalized_picture_needs_room_for_its_pixels_alone() {
        let order = Order::Equalize(Operation::new(Method::Global));
        let mut slot = [0; 67 * 3];
        assert_eq!(order.slot_bytes(&ODD), 67 * 3);
        assert_eq!(order.parts(&mut slot, &ODD).1.len(), 0);
    }

    #[test]
    fn counts_lie_behind_the_pixels_and_aligned() {
        let operation = Operation::new(Method::Global);
        for (equalize, tables) in [(None, 1), (Some(operation), 2)] {
            let order = Order::Count { equalize };
            let needed = order.slot_bytes(&ODD) as usize;
            assert_eq!(needed, 256 + tables * 4 * 256 * 8);
            let mut slot = vec![0_u64; needed / size_of::<u64>()];
            let (pixels, counts) = order.parts(bytemuck::cast_slice_mut(&mut slot), &ODD);
            assert_eq!((pixels.len(), counts.len()), (67 * 3, tables * 4 * 256));
        }
    }
}
