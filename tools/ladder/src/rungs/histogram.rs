//! Ways of counting the gray picture on the GPU.

use crate::gpu::{GRAY, Gpu};
use crate::kernels::Counting;
use crate::measure::{Measured, Result};
use crate::picture::TestPicture;
use lanes::gpu::driver;

pub(super) fn global(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, Counting::Global)
}

pub(super) fn shared(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, Counting::Shared)
}

pub(super) fn strided(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, Counting::Strided)
}

pub(super) fn replicated(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, Counting::Replicated)
}

pub(super) fn own(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    run(picture, gpu, |i| gpu.own.count(&gpu.stream, GRAY, gpu.picture(i), gpu.counts))
}

fn ladder(picture: &TestPicture, gpu: &Gpu, counting: Counting) -> Result<Measured> {
    run(picture, gpu, |i| gpu.kernels.count(&gpu.stream, counting, gpu.picture(i), gpu.counts))
}

/// Measures a kernel that adds the histogram of a copy of the picture to the counts.
fn run(picture: &TestPicture, gpu: &Gpu, count: impl Fn(usize) -> driver::Result<()>) -> Result<Measured> {
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
        gpu.counts.zero(&gpu.stream)?;
        count(0)?;
        gpu.counts.copy_to(gpu.host_counts, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_counts(gpu.host_counts, &picture.counts)?;
    // The counts are not zeroed in between: they may overflow, but are not read.
    Ok(right.kernels(gpu.kernel_time(&count)?).whole(gpu.whole_time(whole)?))
}
