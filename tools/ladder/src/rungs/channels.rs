//! Ways of counting red, green and blue on GPUs.

use crate::cuda::{Memory, Place, finish};
use crate::gpu::{CHANNELS, Gpu};
use crate::kernels::{PARTIALS_BYTES, TABLE_BYTES};
use crate::measure::{Measured, Result, rounds, same_counts, wall};
use crate::picture::TestPicture;
use lanes::gpu::driver;

/// Memory for the colour picture and its counts on one GPU, and for copies on the host.
struct Room {
    picture: Memory,
    partials: Memory,
    counts: Memory,
    host_picture: Memory,
    host_counts: Memory,
}

impl Room {
    fn new(picture: &TestPicture, gpu: &Gpu) -> Result<Self> {
        gpu.bind()?;
        let room = Self {
            picture: Memory::new(Place::Device, picture.colour.len())?,
            partials: Memory::new(Place::Device, PARTIALS_BYTES)?,
            counts: Memory::new(Place::Device, 3 * TABLE_BYTES)?,
            host_picture: Memory::new(Place::Pinned, picture.colour.len())?,
            host_counts: Memory::new(Place::Pinned, 3 * TABLE_BYTES)?,
        };
        room.host_picture.write(&picture.colour, &gpu.stream)?;
        gpu.once(|| room.host_picture.copy_to(room.picture, &gpu.stream))?;
        Ok(room)
    }

    /// Counts the channels `first`, `first + step`, and so on.
    fn count(&self, picture: &TestPicture, gpu: &Gpu, first: usize, step: usize) -> driver::Result<()> {
        let picture = (self.picture, picture.layout.width, picture.layout.height);
        let channels = (first as u32, step as u32);
        gpu.kernels.count_channels(&gpu.stream, picture, (self.partials, self.counts), channels)
    }

    fn kernel_time(&self, picture: &TestPicture, gpu: &Gpu, first: usize, step: usize) -> Result<f64> {
        gpu.bind()?;
        let count = || self.count(picture, gpu, first, step);
        rounds(|| Ok(gpu.timer.time(&gpu.stream, count)?))
    }
}

pub(super) fn one_gpu(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    partial(picture, &[gpu])
}

pub(super) fn two_gpus(picture: &TestPicture, first: &Gpu, second: &Gpu) -> Result<Measured> {
    let measured = partial(picture, &[first, second]);
    first.bind()?;
    measured
}

/// Measures the published method.
///
/// Each GPU gets the whole picture and counts its share of the channels, and the host waits for it
/// before turning to the next.
fn partial(picture: &TestPicture, gpus: &[&Gpu]) -> Result<Measured> {
    let rooms: Vec<Room> = gpus.iter().map(|gpu| Room::new(picture, gpu)).collect::<Result<_>>()?;
    let numbered = || gpus.iter().zip(&rooms).enumerate();
    let whole = || -> Result<()> {
        for (number, (gpu, room)) in numbered() {
            gpu.bind()?;
            room.host_picture.copy_to(room.picture, &gpu.stream)?;
            room.count(picture, gpu, number, gpus.len())?;
            room.counts.copy_to(room.host_counts, &gpu.stream)?;
            finish(&gpu.stream)?;
        }
        Ok(())
    };
    whole()?;
    let mut counts = vec![0; picture.colour_counts.len()];
    for (_, (gpu, room)) in numbered() {
        gpu.bind()?;
        let share = room.host_counts.read_words(&gpu.stream)?;
        counts.iter_mut().zip(share).for_each(|(sum, count)| *sum += count);
    }
    let right = same_counts(&counts, &picture.colour_counts)?;
    let mut kernels = 0_f64;
    for (number, (gpu, room)) in numbered() {
        kernels = kernels.max(room.kernel_time(picture, gpu, number, gpus.len())?);
    }
    Ok(right.kernels(kernels).whole(rounds(|| wall(whole))?))
}

/// With the kernel that a lane uses.
pub(super) fn own(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let (room, stream) = (Room::new(picture, gpu)?, &gpu.stream);
    let count = || gpu.own.count(stream, CHANNELS, room.picture, room.counts);
    let whole = || {
        room.host_picture.copy_to(room.picture, stream)?;
        room.counts.zero(stream)?;
        count()?;
        room.counts.copy_to(room.host_counts, stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_counts(room.host_counts, &picture.colour_counts)?;
    let kernels = rounds(|| Ok(gpu.timer.time(stream, count)?))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(whole)?))
}
