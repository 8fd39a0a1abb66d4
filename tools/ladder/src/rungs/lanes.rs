//! histeqd's own lanes, from a pinned slot and back to it.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::gpu::Gpu;
use crate::measure::{Measured, Result, rounds, same_pixels, wall};
use crate::picture::TestPicture;
use equalize::{ByteOrders, Method, Operation};
use lanes::{Engine, Lane};
use memmap2::MmapMut;

const GLOBAL: Operation = Operation::new(Method::Global);

/// Pictures that each of several lanes processes.
const PICTURES_A_LANE: usize = 64;

/// A slot that is pinned for as long as it lives.
struct PinnedSlot<'e> {
    engine: &'e dyn Engine,
    memory: MmapMut,
}

impl<'e> PinnedSlot<'e> {
    fn new(engine: &'e dyn Engine, bytes: usize) -> Result<Self> {
        let mut memory = MmapMut::map_anon(bytes)?;
        engine.pin(&mut memory)?;
        Ok(Self { engine, memory })
    }
}

impl Drop for PinnedSlot<'_> {
    fn drop(&mut self) {
        self.engine.unpin(&mut self.memory);
    }
}

/// One lane, one picture after the other.
///
/// The time of the kernels is that of the kernels which a lane starts.
pub(super) fn one(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let mut lane = gpu.engine.lane()?;
    let mut slot = PinnedSlot::new(gpu.engine.as_ref(), picture.pixels())?;
    let whole = rounds(|| {
        slot.memory.copy_from_slice(&picture.gray);
        wall(|| Ok(lane.equalize(&mut slot.memory, &picture.layout, ByteOrders::NATIVE, &GLOBAL, &[])?))
    })?;
    let right = same_pixels(&slot.memory, &picture.equalized)?;
    let kernels = gpu.kernel_time_in_place(|i| {
        gpu.own.count_for_lut(&gpu.stream, gpu.result(i))?;
        gpu.own.apply(&gpu.stream, gpu.result(i))
    })?;
    Ok(right.kernels(kernels).whole(whole))
}

/// Four lanes at once, as in a batch. The time is the total divided by the number of pictures.
pub(super) fn four(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    const LANES: usize = 4;
    let gate = Barrier::new(LANES + 1);
    let engine = gpu.engine.as_ref();
    let (measured, seconds) = thread::scope(|scope| {
        let start = || scope.spawn(|| work(picture, engine, &gate));
        let lanes: Vec<_> = (0..LANES).map(|_| start()).collect();
        gate.wait();
        let begin = Instant::now();
        gate.wait();
        let seconds = begin.elapsed().as_secs_f64();
        let joined = lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic"));
        (joined.collect::<Result<Vec<_>>>(), seconds)
    });
    measured?;
    Ok(Measured::same().whole(seconds / (LANES * PICTURES_A_LANE) as f64))
}

/// Runs one of several lanes.
///
/// It checks its result first, then processes pictures between the two times that the gate opens.
fn work(picture: &TestPicture, engine: &dyn Engine, gate: &Barrier) -> Result<()> {
    let mut begun = begin(picture, engine);
    gate.wait();
    let done = begun.as_mut().map_or(Ok(()), |(lane, slot)| {
        (0..PICTURES_A_LANE).try_for_each(|_| {
            Ok(lane.equalize(&mut slot.memory, &picture.layout, ByteOrders::NATIVE, &GLOBAL, &[])?)
        })
    });
    gate.wait();
    begun.and(done)
}

type Begun<'e> = (Box<dyn Lane + 'e>, PinnedSlot<'e>);

fn begin<'e>(picture: &TestPicture, engine: &'e dyn Engine) -> Result<Begun<'e>> {
    let mut lane = engine.lane()?;
    let mut slot = PinnedSlot::new(engine, picture.pixels())?;
    slot.memory.copy_from_slice(&picture.gray);
    lane.equalize(&mut slot.memory, &picture.layout, ByteOrders::NATIVE, &GLOBAL, &[])?;
    same_pixels(&slot.memory, &picture.equalized)?;
    Ok((lane, slot))
}
