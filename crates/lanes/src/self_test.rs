//! The self-test of a worker before its first picture of each kind.
//!
//! The device must produce the same bytes as the CPU. A bug in the driver's compiler, failing
//! memory, or a kernel launched in the wrong shape produces plausible pixels, which no later step
//! would notice. Only the kinds that occur are tested, because a driver may need a second to
//! compile the kernels of one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::CpuLane;
use crate::gpu::kernels::{self, Route};
use crate::lane::{EngineError, Lane, LaneError};
use crate::order::Order;
use equalize::clahe::Geometry;
use equalize::{ByteOrders, Layout, Method, Operation};

/// The size of the small test picture.
///
/// It is odd, to test the kernels' handling of remainders too.
const SIZE: (u32, u32) = (331, 177);

/// Doublings of a test picture's width and height until CLAHE takes the picture's route.
///
/// They lead to up to 3.7 megapixels.
const MAX_DOUBLINGS: u32 = 3;

/// The kinds of work with correct results from a worker's lanes.
#[derive(Default)]
pub struct Checked(Mutex<Vec<Kind>>);

/// A kind of work, which is tested once.
type Kind = (Layout, ByteOrders, Order);

impl Checked {
    /// Carries out the order both on the lane and on the CPU, and compares the results.
    ///
    /// It does so on a small picture of the layout's kind and on one large enough for the layout's
    /// kernels. Kinds that a lane of this worker has passed before are skipped.
    ///
    /// # Errors
    /// If the device fails, the bytes differ, or a test picture is declined.
    pub fn check(
        &self,
        lane: &mut dyn Lane,
        layout: &Layout,
        byte_orders: ByteOrders,
        order: &Order,
    ) -> Result<(), LaneError> {
        let (order, layout) = &order.of_a_part(layout);
        let mut checked = self.lock();
        // A large picture may be processed in chunks, which go through the kernels for small ones.
        for small in [Layout { width: SIZE.0, height: SIZE.1, ..*layout }, alike(layout, order)] {
            if checked.contains(&(small, byte_orders, *order)) {
                continue;
            }
            let (mut expected, mut found) = (noise(&small, order)?, noise(&small, order)?);
            // The lane goes first: a picture that it declines would be long work for the CPU.
            lane.carry_out(bytemuck::cast_slice_mut(&mut found), &small, byte_orders, order)?;
            let expected_bytes = bytemuck::cast_slice_mut(&mut expected);
            CpuLane::default().carry_out(expected_bytes, &small, byte_orders, order)?;
            if found != expected {
                return Err(EngineError::wrong_results().into());
            }
            checked.push((small, byte_orders, *order));
        }
        Ok(())
    }

    /// Returns whether pictures of this kind have passed the check.
    pub fn has(&self, layout: &Layout, byte_orders: ByteOrders, order: &Order) -> bool {
        let (order, layout) = order.of_a_part(layout);
        self.lock().contains(&(alike(&layout, &order), byte_orders, order))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a small layout for pictures that go through the same kernels.
///
/// It is no smaller than [`SIZE`].
fn alike(layout: &Layout, order: &Order) -> Layout {
    let height = kernels::min_pixels_for_same_kernels(layout).div_ceil(SIZE.0.into()) as u32;
    let small = Layout { width: SIZE.0, height: height.max(SIZE.1), ..*layout };
    let (Order::Equalize(operation) | Order::Count { equalize: Some(operation) }) = order else {
        return small;
    };
    let Operation { method: Method::Clahe(clahe), .. } = operation else { return small };
    let route = |layout: &Layout| Route::new(&Geometry::new(layout, clahe), layout.depth);
    let doubled = |times: u32| Layout { width: small.width << times, height: small.height << times, ..small };
    (0..=MAX_DOUBLINGS).map(doubled).find(|other| route(other).is_like(route(layout))).unwrap_or(small)
}

/// Makes a slot of noise, aligned for counts.
///
/// A third of its bytes are 0, which makes many pixels transparent. LUTs and counts for the lane
/// are noise too.
fn noise(layout: &Layout, order: &Order) -> Result<Vec<u64>, EngineError> {
    let bytes = order.slot_bytes(layout) as usize;
    let mut slot = Vec::new();
    let words = bytes.div_ceil(size_of::<u64>());
    slot.try_reserve_exact(words).map_err(|error| EngineError(format!("no memory: {error}")))?;
    slot.resize(words, 0);
    for (i, byte) in bytemuck::cast_slice_mut::<u64, u8>(&mut slot)[..bytes].iter_mut().enumerate() {
        // Knuth's multiplicative hash.
        let hash = (i as u32).wrapping_mul(2_654_435_761) >> 16;
        *byte = if hash.is_multiple_of(3) { 0 } else { (hash >> 8) as u8 };
    }
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{ByteOrder, Clahe, ClipLimit, Depth, Pixel, Strength, Tiles};

    const NATIVE: ByteOrders = ByteOrders::NATIVE;

    const EQUALIZE: Order = Order::Equalize(Operation::new(Method::Global));
    const APPLY: Order = Order::Apply(Operation::new(Method::Global));
    const COUNT: Order = Order::Count { equalize: None };

    fn layout(pixel: Pixel, depth: Depth) -> Layout {
        Layout { width: 4000, height: 3000, pixel, depth }
    }

    /// A lane that counts its pictures and corrupts the last value in the slot.
    ///
    /// It does so for one pixel format.
    #[derive(Default)]
    struct Wrong {
        lane: CpuLane,
        pictures: usize,
        about: Option<Pixel>,
    }

    impl Lane for Wrong {
        fn equalize(
            &mut self,
            pixels: &mut [u8],
            layout: &Layout,
            byte_orders: ByteOrders,
            operation: &Operation,
            reference: &[u64],
        ) -> Result<(), LaneError> {
            self.pictures += 1;
            self.lane.equalize(pixels, layout, byte_orders, operation, reference)?;
            *pixels.last_mut().unwrap() ^= u8::from(self.about == Some(layout.pixel));
            Ok(())
        }

        fn apply(
            &mut self,
            pixels: &mut [u8],
            layout: &Layout,
            byte_orders: ByteOrders,
            operation: &Operation,
            luts: &[u8],
        ) -> Result<(), LaneError> {
            self.pictures += 1;
            self.lane.apply(pixels, layout, byte_orders, operation, luts)?;
            *pixels.last_mut().unwrap() ^= u8::from(self.about == Some(layout.pixel));
            Ok(())
        }

        fn count(
            &mut self,
            pixels: &[u8],
            layout: &Layout,
            byte_order: ByteOrder,
            counts: &mut [u64],
        ) -> Result<(), LaneError> {
            self.pictures += 1;
            self.lane.count(pixels, layout, byte_order, counts)?;
            *counts.last_mut().unwrap() ^= u64::from(self.about == Some(layout.pixel));
            Ok(())
        }
    }

    #[test]
    fn each_kind_is_checked_once() {
        let (checked, mut lane) = (Checked::default(), Wrong::default());
        for _ in 0..3 {
            for order in [EQUALIZE, APPLY, COUNT] {
                for depth in [Depth::Eight, Depth::Sixteen] {
                    checked.check(&mut lane, &layout(Pixel::GrayAlpha, depth), NATIVE, &order).unwrap();
                }
            }
        }
        // 16-bit gray with alpha has separate kernels for small and large pictures.
        assert_eq!(lane.pictures, 9);
    }

    #[test]
    fn a_size_that_has_kernels_of_its_own_is_a_kind_of_its_own() {
        let (checked, mut lane) = (Checked::default(), Wrong::default());
        let large = Layout { width: 6000, height: 4000, ..layout(Pixel::Gray, Depth::Sixteen) };
        for layout in [layout(Pixel::Gray, Depth::Sixteen), large, large] {
            checked.check(&mut lane, &layout, NATIVE, &EQUALIZE).unwrap();
        }
        assert_eq!(lane.pictures, 2);
    }

    #[test]
    fn each_way_of_clahe_through_the_kernels_is_a_kind_of_its_own() {
        let pictures = |depth, tiles, sizes: &[(u32, u32)]| {
            let (checked, mut lane) = (Checked::default(), Wrong::default());
            let method = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(2.0), tiles, noise: 0 });
            let order = Order::Equalize(Operation::new(method));
            for &(width, height) in sizes {
                let layout = Layout { width, height, ..layout(Pixel::Gray, depth) };
                checked.check(&mut lane, &layout, NATIVE, &order).unwrap();
                assert!(checked.has(&layout, NATIVE, &order));
            }
            lane.pictures
        };
        let grid = Tiles::Grid { x: 8, y: 8 };
        // Tiles of less than 2048 pixels, of more, and of so many that blocks share them.
        let sizes = [(300, 300), (400, 400), (500, 400), (4000, 3000), (5000, 4000)];
        assert_eq!(pictures(Depth::Eight, grid, &sizes), 3);
        assert_eq!(pictures(Depth::Eight, Tiles::Pixels(32), &sizes), 1);
        // Up to 400 cells, and more.
        assert_eq!(pictures(Depth::Sixteen, Tiles::Pixels(32), &[(300, 300), (500, 500)]), 1);
        assert_eq!(pictures(Depth::Sixteen, Tiles::Pixels(32), &[(700, 700), (1000, 600), (640, 480)]), 2);
    }

    #[test]
    fn every_strength_and_clip_limit_is_a_kind_of_its_own() {
        let (checked, mut lane) = (Checked::default(), Wrong::default());
        let picture = Layout { width: 300, height: 200, ..layout(Pixel::Gray, Depth::Sixteen) };
        let tiles = Tiles::Grid { x: 8, y: 8 };
        for clip_limit in [ClipLimit::Auto, ClipLimit::Times(2.0)] {
            for strength in [Strength::FULL, Strength::thousandths(500).unwrap()] {
                let method = Method::Clahe(Clahe { clip_limit, tiles, noise: 0 });
                let order = Order::Equalize(Operation { strength, ..Operation::new(method) });
                assert!(!checked.has(&picture, NATIVE, &order));
                checked.check(&mut lane, &picture, NATIVE, &order).unwrap();
                assert!(checked.has(&picture, NATIVE, &order));
            }
        }
    }

    #[test]
    fn every_byte_order_is_a_kind_of_its_own() {
        let (checked, mut lane) = (Checked::default(), Wrong::default());
        let picture = Layout { width: 300, height: 200, ..layout(Pixel::Rgb, Depth::Sixteen) };
        for from in [ByteOrder::Native, ByteOrder::Swapped] {
            for to in [ByteOrder::Native, ByteOrder::Swapped] {
                let byte_orders = ByteOrders { from, to };
                assert!(!checked.has(&picture, byte_orders, &EQUALIZE));
                checked.check(&mut lane, &picture, byte_orders, &EQUALIZE).unwrap();
                assert!(checked.has(&picture, byte_orders, &EQUALIZE));
            }
        }
    }

    /// A lane that takes no notice of byte orders.
    struct Unaware(CpuLane);

    impl Lane for Unaware {
        fn equalize(
            &mut self,
            pixels: &mut [u8],
            layout: &Layout,
            _: ByteOrders,
            operation: &Operation,
            reference: &[u64],
        ) -> Result<(), LaneError> {
            self.0.equalize(pixels, layout, NATIVE, operation, reference)
        }

        fn apply(
            &mut self,
            pixels: &mut [u8],
            layout: &Layout,
            _: ByteOrders,
            operation: &Operation,
            luts: &[u8],
        ) -> Result<(), LaneError> {
            self.0.apply(pixels, layout, NATIVE, operation, luts)
        }

        fn count(
            &mut self,
            pixels: &[u8],
            layout: &Layout,
            _: ByteOrder,
            counts: &mut [u64],
        ) -> Result<(), LaneError> {
            self.0.count(pixels, layout, ByteOrder::Native, counts)
        }
    }

    #[test]
    fn a_byte_order_that_is_not_converted_is_found() {
        let swapped = ByteOrder::Swapped;
        let picture = layout(Pixel::Gray, Depth::Sixteen);
        for byte_orders in [
            ByteOrders { from: swapped, ..NATIVE },
            ByteOrders { to: swapped, ..NATIVE },
            ByteOrders { from: swapped, to: swapped },
        ] {
            let check = |order| {
                Checked::default().check(&mut Unaware(CpuLane::default()), &picture, byte_orders, &order)
            };
            assert!(check(EQUALIZE).is_err() && check(APPLY).is_err(), "{byte_orders:?}");
            assert_eq!(check(COUNT).is_err(), byte_orders.from == swapped, "{byte_orders:?}");
        }
    }

    #[test]
    fn one_wrong_byte_is_found_each_time() {
        let checked = Checked::default();
        let mut lane = Wrong { about: Some(Pixel::Rgb), ..Wrong::default() };
        for order in [EQUALIZE, APPLY, COUNT, EQUALIZE] {
            let reason =
                checked.check(&mut lane, &layout(Pixel::Rgb, Depth::Eight), NATIVE, &order).unwrap_err();
            assert!(reason.to_string().starts_with("its results differ from the CPU's"), "{reason}");
            checked.check(&mut lane, &layout(Pixel::Gray, Depth::Eight), NATIVE, &order).unwrap();
        }
    }

    /// A lane for which every picture is too large.
    struct Full;

    impl Lane for Full {
        fn equalize(
            &mut self,
            _: &mut [u8],
            _: &Layout,
            _: ByteOrders,
            _: &Operation,
            _: &[u64],
        ) -> Result<(), LaneError> {
            Err(LaneError::Decline("it is full".to_owned()))
        }

        fn apply(
            &mut self,
            _: &mut [u8],
            _: &Layout,
            _: ByteOrders,
            _: &Operation,
            _: &[u8],
        ) -> Result<(), LaneError> {
            Err(LaneError::Decline("it is full".to_owned()))
        }

        fn count(&mut self, _: &[u8], _: &Layout, _: ByteOrder, _: &mut [u64]) -> Result<(), LaneError> {
            Err(LaneError::Decline("it is full".to_owned()))
        }
    }

    #[test]
    fn what_is_declined_is_not_wrong_and_not_checked_either() {
        let checked = Checked::default();
        let layout = layout(Pixel::Rgb, Depth::Eight);
        for order in [EQUALIZE, APPLY, COUNT] {
            let declined = checked.check(&mut Full, &layout, NATIVE, &order);
            assert!(matches!(declined, Err(LaneError::Decline(_))), "{declined:?}");
            assert!(!checked.has(&layout, NATIVE, &order));
        }
    }

    #[test]
    fn the_noise_has_transparent_pixels_and_others() {
        let layout = Layout { width: SIZE.0, height: SIZE.1, ..layout(Pixel::GrayAlpha, Depth::Eight) };
        let slot = noise(&layout, &EQUALIZE).unwrap();
        let pixels = &bytemuck::cast_slice::<u64, u8>(&slot)[..layout.bytes() as usize];
        let clear = pixels.chunks(2).filter(|pixel| pixel[1] == 0).count() as u64;
        assert!(clear > layout.pixels() / 5 && clear < layout.pixels() / 2, "{clear}");
    }
}
