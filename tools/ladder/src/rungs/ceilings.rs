//! The best that the device's memory and the bus can do.

use crate::cuda::{Memory, Place, finish};
use crate::gpu::{COPIES, Gpu};
use crate::measure::{Measured, Result, rounds, wall};
use crate::picture::TestPicture;
use lanes::gpu::driver::{self, Stream};

/// Consecutive copies per measurement, enough that the cost of starting them does not matter.
const IN_A_ROW: usize = COPIES;

pub(super) fn device_copy(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let copy = |i| gpu.picture(i).copy_to(gpu.result(i), &gpu.stream);
    let seconds = gpu.kernel_time(copy)?;
    Ok(gpu.same_pixels(gpu.result(0), &picture.gray)?.kernels(seconds).moved(2 * picture.pixels()))
}

pub(super) fn upload(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let start = || (0..IN_A_ROW).try_for_each(|i| gpu.host_picture.copy_to(gpu.result(i), &gpu.stream));
    let seconds = gpu.whole_time(start)? / IN_A_ROW as f64;
    Ok(gpu.same_pixels(gpu.result(0), &picture.gray)?.whole(seconds).moved(picture.pixels()))
}

pub(super) fn download(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let start = || (0..IN_A_ROW).try_for_each(|i| gpu.picture(i).copy_to(gpu.host_result, &gpu.stream));
    let seconds = gpu.whole_time(start)? / IN_A_ROW as f64;
    Ok(gpu.same_pixels(gpu.host_result, &picture.gray)?.whole(seconds).moved(picture.pixels()))
}

pub(super) fn both_ways(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let down = Stream::new()?;
    let landing = Memory::new(Place::Pinned, picture.pixels())?;
    let start = || -> driver::Result<()> {
        for i in 0..IN_A_ROW {
            gpu.host_picture.copy_to(gpu.result(i), &gpu.stream)?;
            gpu.picture(i).copy_to(landing, &down)?;
        }
        finish(&gpu.stream)?;
        finish(&down)
    };
    let seconds = rounds(|| wall(|| Ok(start()?)))? / IN_A_ROW as f64;
    gpu.same_pixels(landing, &picture.gray)?;
    Ok(gpu.same_pixels(gpu.result(0), &picture.gray)?.whole(seconds).moved(2 * picture.pixels()))
}
