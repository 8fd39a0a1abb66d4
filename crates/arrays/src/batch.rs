//! The places of pictures, of their counts and of their LUTs in device memory.

use cuda::Address;
use equalize::{ByteOrder, ByteOrders, Depth, Layout};

/// Pictures of one layout in device memory, each without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Pictures {
    /// The address of the first.
    pub at: Address,
    /// The distance from one to the next, in bytes.
    pub pitch: u64,
}

impl Pictures {
    /// Returns the pictures from this number on.
    pub(crate) fn skip(self, number: u32) -> Self {
        Self { at: self.at + u64::from(number) * self.pitch, ..self }
    }
}

/// Pictures and the place of their results: the same, or one that does not overlap.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The layout of each.
    pub layout: Layout,
    /// The byte orders in which they are read and written.
    pub byte_orders: ByteOrders,
    /// The number of pictures.
    pub number: u32,
    /// The pictures.
    pub from: Pictures,
    /// The results.
    pub to: Pictures,
}

impl Batch {
    /// Returns pictures of the GPU's byte order that are only read, or changed in place.
    pub fn to_read(layout: Layout, number: u32, from: Pictures) -> Self {
        Self { layout, byte_orders: ByteOrders::NATIVE, number, from, to: from }
    }

    /// Returns the batch in parts of at most so many pictures, each with the number of its first.
    pub(crate) fn parts(self, most: u64) -> impl Iterator<Item = (u32, Self)> {
        let most = most.clamp(1, u64::from(u32::MAX)) as u32;
        (0..self.number).step_by(most as usize).map(move |first| {
            let number = most.min(self.number - first);
            (first, Self { number, from: self.from.skip(first), to: self.to.skip(first), ..self })
        })
    }

    /// Returns the bytes of a picture.
    pub(crate) fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// Returns the pictures as an argument of kernels.
    pub(crate) fn argument(&self) -> Argument {
        Argument {
            from: self.from.at,
            to: self.to.at,
            from_pitch: self.from.pitch,
            to_pitch: self.to.pitch,
            pixels: self.layout.pixels(),
            byte_orders: Selectors::new(self.byte_orders),
        }
    }
}

/// Mirrors `Pictures` in `kernels/batch.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    from: Address,
    to: Address,
    from_pitch: u64,
    to_pitch: u64,
    pixels: u64,
    byte_orders: Selectors,
}

/// Mirrors `ByteOrders` in `kernels/common.cuh`.
///
/// The fields are selectors with which `__byte_perm` converts two samples from these byte orders to
/// the GPU's, or back.
#[repr(C)]
#[derive(Clone, Copy)]
struct Selectors {
    from: u32,
    to: u32,
}

impl Selectors {
    const fn new(ByteOrders { from, to }: ByteOrders) -> Self {
        Self { from: selector(from), to: selector(to) }
    }
}

const fn selector(order: ByteOrder) -> u32 {
    match order {
        ByteOrder::Native => 0x3210,
        ByteOrder::Swapped => 0x2301,
    }
}

/// A mask: a byte for each pixel, 0 for pixels that do not count.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// The address of the first picture's mask.
    pub at: Address,
    /// The distance from one picture's mask to the next, in bytes; 0 if all have the same.
    pub pitch: u64,
}

impl Mask {
    pub(crate) fn skip(self, number: u32) -> Self {
        Self { at: self.at + u64::from(number) * self.pitch, ..self }
    }
}

/// The equalized planes of all pictures of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchPlanes {
    /// The number of planes in all.
    pub number: usize,
    /// The number of planes of a picture, which are consecutive.
    pub of_picture: usize,
    /// The depth of the planes.
    pub depth: Depth,
}

impl BatchPlanes {
    /// Returns the planes of a batch whose pictures have so many each.
    pub(crate) fn of(batch: &Batch, of_picture: usize) -> Self {
        Self { number: batch.number as usize * of_picture, of_picture, depth: batch.layout.depth }
    }
}

/// The counts of planes in device memory, one plane after another.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The address of the first plane's counts.
    pub at: Address,
    /// Whether a count has 64 bits, instead of 32.
    pub are_wide: bool,
}

/// The LUTs of pictures in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Luts {
    /// The address of the first picture's LUTs, one for each plane.
    pub at: Address,
    /// The distance from one picture's LUTs to the next, in entries; 0 if all have the same.
    pub stride: u32,
}

#[cfg(test)]
mod tests {
    use equalize::Pixel;

    use super::*;

    #[test]
    fn parts_follow_one_another() {
        let layout = Layout { width: 5, height: 3, pixel: Pixel::Gray, depth: Depth::Eight };
        let batch = Batch::to_read(layout, 7, Pictures { at: 1000, pitch: 15 });
        let parts: Vec<_> = batch.parts(3).collect();
        let found: Vec<_> = parts.iter().map(|(first, part)| (*first, part.number, part.from.at)).collect();
        assert_eq!(found, [(0, 3, 1000), (3, 3, 1045), (6, 1, 1090)]);
    }
}
