//! Orders for a lane, and the data behind the picture in its slot.
//!
//! The data are the counts that the lane leaves there, and its other input, such as LUTs.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use codec::coders::CompressedJpeg;
use equalize::clahe::Geometry;
use equalize::{Layout, Levels, Method, Operation, count};

/// The work of a lane on the picture in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Equalizes the pixels in place.
    Equalize(Operation),
    /// Equalizes in place each of several frames of equal height, stacked vertically.
    ///
    /// The method has no reference.
    EqualizeFrames {
        /// The operation.
        operation: Operation,
        /// The number of frames.
        frames: u32,
    },
    /// Sends the pixels in place through the LUTs that follow them in the slot.
    ///
    /// There is one for each plane that the operation equalizes ([`equalize::apply`]). They were
    /// made for the operation, and include its strength.
    Apply(Operation),
    /// Leaves the pixels as they are.
    ///
    /// Their equalization needs other pages of their stack, and is left to the main process.
    Nothing,
    /// Counts the pixels, and leaves the counts after them in the slot.
    Count {
        /// If set, the pixels are then equalized in place by this operation and counted again.
        equalize: Option<Operation>,
    },
}

/// The alignment of counts and LUTs within a slot, in bytes.
///
/// It is a line of the CPU's cache and of device memory.
const ALIGNMENT: usize = 64;

/// A picture at the start of a slot: its pixels, or a file that a device decodes.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// The layout of the pixels that the order is for.
    layout: Layout,
    /// The bytes before counts and LUTs.
    bytes: u64,
}

impl From<&Layout> for Front {
    fn from(layout: &Layout) -> Self {
        Self { layout: *layout, bytes: layout.bytes() }
    }
}

impl From<&CompressedJpeg> for Front {
    fn from(jpeg: &CompressedJpeg) -> Self {
        Self { layout: jpeg.layout, bytes: jpeg.slot_bytes() }
    }
}

impl Front {
    /// Returns the offset in a slot of the data behind it.
    const fn end(&self) -> usize {
        (self.bytes as usize).next_multiple_of(ALIGNMENT)
    }
}

/// The places of data behind a picture in its slot, one after the other.
struct Behind {
    counts: Range<usize>,
    given: Range<usize>,
}

/// The parts of a slot.
pub(crate) struct Parts<'s> {
    /// The pixels, or the room of a file and its result.
    pub(crate) front: &'s mut [u8],
    /// The counts that the lane leaves.
    pub(crate) counts: &'s mut [u64],
    /// The other input of the lane: LUTs or counts.
    pub(crate) given: &'s mut [u64],
}

impl Order {
    /// Returns the number of bytes at the start of a slot that a lane works on.
    ///
    /// They are the picture, and room for the counts and for the lane's other input.
    pub fn slot_bytes(&self, front: impl Into<Front>) -> u64 {
        let front = front.into();
        let Behind { counts, given } = self.behind(&front);
        if counts.start == given.end { front.bytes } else { given.end as u64 }
    }

    /// Returns whether a slot holds only the pixels of a picture, for any picture.
    pub const fn needs_pixels_alone(&self) -> bool {
        match self {
            Self::Equalize(operation) => !operation.method.has_reference(),
            Self::EqualizeFrames { .. } => true,
            Self::Apply(_) | Self::Nothing | Self::Count { .. } => false,
        }
    }

    /// Returns whether a [`JpegLane`](crate::JpegLane) carries it out on JPEGs.
    pub const fn is_for_jpegs(&self) -> bool {
        matches!(self, Self::Equalize(_) | Self::Apply(_) | Self::Count { equalize: None })
    }

    /// Returns the bytes of other memory that a lane of the CPU needs for a picture of this layout.
    ///
    /// It is 0 where that is fixed and small.
    pub fn scratch_bytes(&self, layout: &Layout) -> u64 {
        match self {
            Self::Equalize(operation) | Self::Count { equalize: Some(operation) } => match operation.method {
                Method::Clahe(clahe) => Geometry::new(layout, &clahe).scratch_bytes(layout),
                Method::Global | Method::Plateau(_) | Method::Stretch(_) | Method::Match => 0,
            },
            Self::EqualizeFrames { operation, frames } => {
                Self::Equalize(*operation).scratch_bytes(&layout.frame(*frames))
            }
            Self::Apply(_) | Self::Nothing | Self::Count { equalize: None } => 0,
        }
    }

    /// Splits a slot into its picture and its counts.
    ///
    /// If a picture is counted twice, the second counts follow the first.
    ///
    /// # Panics
    /// If the slot is shorter than [`Order::slot_bytes`], or if it has counts and is not aligned to
    /// 8 bytes.
    pub fn parts<'s>(&self, slot: &'s mut [u8], front: impl Into<Front>) -> (&'s mut [u8], &'s mut [u64]) {
        let Parts { front, counts, .. } = self.all_parts(slot, front);
        (front, counts)
    }

    /// Returns the part of a slot for the lane's other input.
    ///
    /// It has to be filled before the lane gets the slot: for [`Order::Apply`] with the LUTs, as
    /// [`equalize::apply`] takes them; if the method has a reference with its counts, of 8 bytes
    /// each, as [`equalize::equalize_like`] takes them. Otherwise it is empty.
    ///
    /// # Panics
    /// As [`Order::parts`].
    pub fn given<'s>(&self, slot: &'s mut [u8], front: impl Into<Front>) -> &'s mut [u8] {
        bytemuck::cast_slice_mut(self.all_parts(slot, front).given)
    }

    pub(crate) fn all_parts<'s>(&self, slot: &'s mut [u8], front: impl Into<Front>) -> Parts<'s> {
        let place: Front = front.into();
        let Behind { counts, given } = self.behind(&place);
        let (front, behind) = slot.split_at_mut(place.bytes as usize);
        if counts.len() + given.len() == 0 {
            return Parts { front, counts: &mut [], given: &mut [] };
        }
        let behind = &mut behind[counts.start - front.len()..given.end - front.len()];
        let (counts, given) = bytemuck::cast_slice_mut(behind).split_at_mut(counts.len() / size_of::<u64>());
        Parts { front, counts, given }
    }

    /// Returns the lane's other input in a slot that is only read.
    ///
    /// # Panics
    /// As [`Order::parts`].
    pub(crate) fn given_in<'s>(&self, slot: &'s [u8], front: impl Into<Front>) -> &'s [u64] {
        let given = self.behind(&front.into()).given;
        if given.is_empty() { &[] } else { bytemuck::cast_slice(&slot[given]) }
    }

    /// Returns the places of counts and other input in a slot.
    fn behind(&self, front: &Front) -> Behind {
        let counts = front.end()..front.end() + self.counts(&front.layout) * size_of::<u64>();
        let given = counts.end..counts.end + self.given_bytes(&front.layout);
        Behind { counts, given }
    }

    /// Returns the operation that changes the pixels, if any.
    pub const fn operation(&self) -> Option<Operation> {
        match *self {
            Self::Equalize(operation) | Self::EqualizeFrames { operation, .. } | Self::Apply(operation) => {
                Some(operation)
            }
            Self::Nothing => None,
            Self::Count { equalize } => equalize,
        }
    }

    /// Returns the same order for a picture with this number of levels.
    #[must_use]
    pub fn with_levels(self, levels: Levels) -> Self {
        let with = |operation| Operation { levels, ..operation };
        match self {
            Self::Equalize(operation) => Self::Equalize(with(operation)),
            Self::EqualizeFrames { operation, frames } => {
                Self::EqualizeFrames { operation: with(operation), frames }
            }
            Self::Apply(operation) => Self::Apply(with(operation)),
            Self::Nothing => Self::Nothing,
            Self::Count { equalize } => Self::Count { equalize: equalize.map(with) },
        }
    }

    /// Returns the same order for a picture of several frames, stacked vertically.
    ///
    /// All have one histogram, except for CLAHE, with tiles within one frame.
    #[must_use]
    pub const fn of_frames(self, frames: u32) -> Self {
        match self {
            Self::Equalize(operation @ Operation { method: Method::Clahe(_), .. }) if frames > 1 => {
                Self::EqualizeFrames { operation, frames }
            }
            order => order,
        }
    }

    /// Returns the order for each separately equalized part of a picture, and its layout.
    pub(crate) const fn of_a_part(self, layout: &Layout) -> (Self, Layout) {
        match self {
            Self::EqualizeFrames { operation, frames } => (Self::Equalize(operation), layout.frame(frames)),
            order => (order, *layout),
        }
    }

    /// Returns whether the order changes the pixels.
    pub const fn equalizes(&self) -> bool {
        self.operation().is_some()
    }

    /// Returns the number of counts that a lane leaves in the slot.
    fn counts(&self, layout: &Layout) -> usize {
        match self {
            Self::Equalize(_) | Self::EqualizeFrames { .. } | Self::Apply(_) | Self::Nothing => 0,
            Self::Count { equalize } => count::length(layout) * (1 + usize::from(equalize.is_some())),
        }
    }

    /// Returns the bytes of a lane's other input in the slot, a multiple of 8.
    fn given_bytes(&self, layout: &Layout) -> usize {
        match self {
            Self::Equalize(operation) | Self::Count { equalize: Some(operation) } => {
                operation.reference_length(layout) * size_of::<u64>()
            }
            Self::Apply(operation) => {
                operation.planes(layout.pixel) * layout.depth.levels() * layout.depth.bytes()
            }
            Self::EqualizeFrames { .. } | Self::Nothing | Self::Count { equalize: None } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuLane, Lane};
    use codec::JpegQuality;
    use equalize::{ByteOrders, Clahe, ClipLimit, Colour, Depth, Pixel, Scratch, Tiles, equalize};

    const ODD: Layout = Layout { width: 67, height: 1, pixel: Pixel::Rgb, depth: Depth::Eight };

    #[test]
    fn an_equalized_picture_needs_room_for_its_pixels_alone() {
        let order = Order::Equalize(Operation::new(Method::Global));
        let mut slot = [0; 67 * 3];
        assert_eq!(order.slot_bytes(&ODD), 67 * 3);
        assert_eq!(order.parts(&mut slot, &ODD).1.len(), 0);
    }

    #[test]
    fn frames_are_equalized_by_themselves_if_the_method_has_tiles() {
        let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 3, y: 2 }, noise: 0 };
        let (clahe, global) = (Operation::new(Method::Clahe(clahe)), Operation::new(Method::Global));
        assert_eq!(Order::Equalize(global).of_frames(7), Order::Equalize(global));
        assert_eq!(Order::Equalize(clahe).of_frames(1), Order::Equalize(clahe));
        let stacked = Layout { width: 31, height: 7 * 23, ..ODD };
        let order = Order::Equalize(clahe).of_frames(7);
        assert_eq!(order.of_a_part(&stacked), (Order::Equalize(clahe), Layout { height: 23, ..stacked }));
        assert_eq!((order.slot_bytes(&stacked), order.needs_pixels_alone()), (stacked.bytes(), true));
        let mut pixels: Vec<u8> = (0..stacked.bytes()).map(|at| ((at * at) >> 5) as u8).collect();
        let (mut expected, mut scratch) = (pixels.clone(), Scratch::default());
        for frame in expected.chunks_exact_mut(31 * 23 * 3) {
            equalize(frame, &Layout { height: 23, ..stacked }, &clahe, &mut scratch);
        }
        CpuLane::default().carry_out(&mut pixels, &stacked, ByteOrders::NATIVE, &order).unwrap();
        assert!(pixels == expected);
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

    #[test]
    fn the_room_of_a_jpeg_takes_the_place_of_pixels() {
        let jpeg = CompressedJpeg { bytes: 1001, layout: ODD, quality: JpegQuality::Keep };
        let (front, luts) = ((2 * 1001 + 67 / 8 + (64 << 10)) as usize, 256);
        let apply = Order::Apply(Operation::new(Method::Global));
        assert_eq!(Order::Equalize(Operation::new(Method::Global)).slot_bytes(&jpeg), front as u64);
        assert_eq!(apply.slot_bytes(&jpeg) as usize, front.next_multiple_of(64) + luts);
        let mut slot = vec![0_u64; apply.slot_bytes(&jpeg).div_ceil(8) as usize];
        let slot = bytemuck::cast_slice_mut::<_, u8>(&mut slot);
        slot[front.next_multiple_of(64)] = 7;
        assert_eq!((apply.given(slot, &jpeg)[0], apply.given_in(slot, &jpeg)[0]), (7, 7));
        assert_eq!(apply.parts(slot, &jpeg).0.len(), front);
    }

    #[test]
    fn luts_lie_behind_the_pixels_one_for_each_plane_that_is_equalized() {
        let luma = Operation::new(Method::Global);
        let operation = Operation { colour: Colour::PerChannel, ..luma };
        for (order, planes) in [(Order::Apply(luma), 1), (Order::Apply(operation), 3)] {
            for (depth, start, lut) in [(Depth::Eight, 256, 256), (Depth::Sixteen, 448, 65536 * 2)] {
                let layout = Layout { depth, ..ODD };
                let needed = order.slot_bytes(&layout) as usize;
                assert_eq!(needed, start + planes * lut);
                let mut slot = vec![0_u64; needed / size_of::<u64>()];
                let slot = bytemuck::cast_slice_mut::<_, u8>(&mut slot);
                slot[start] = 7;
                let given = order.given(slot, &layout);
                assert_eq!((given[0], given.len()), (7, planes * lut));
                assert_eq!(order.parts(slot, &layout).1.len(), 0);
            }
        }
    }

    #[test]
    fn counts_of_a_reference_lie_behind_all_others() {
        let operation = Operation::new(Method::Match);
        let (equalize, count) = (Order::Equalize(operation), Order::Count { equalize: Some(operation) });
        for (order, before) in [(equalize, 0), (count, 2 * 4 * 256 * 8)] {
            let needed = order.slot_bytes(&ODD) as usize;
            assert_eq!(needed, 256 + before + 256 * 8);
            let mut slot = vec![0_u64; needed / size_of::<u64>()];
            let slot = bytemuck::cast_slice_mut::<_, u8>(&mut slot);
            slot[256 + before] = 7;
            let given = order.given(slot, &ODD);
            assert_eq!((given[0], given.len()), (7, 256 * 8));
            assert_eq!(order.parts(slot, &ODD).1.len() * 8, before);
        }
        assert_eq!(Order::Count { equalize: None }.given(&mut [0; 256 + 4 * 256 * 8], &ODD).len(), 0);
    }
}
