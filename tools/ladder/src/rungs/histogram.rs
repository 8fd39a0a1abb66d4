//! Ways of counting the gray picture on the GPU.

use crate::gpu::Gpu;
use crate::kernels::Counting;
use crate::measure::{Measured, Result};
use crate::scene::Scene;
use lanes::gpu::driver;
use lanes::gpu::kernels::Kind;

pub(super) fn global(scene: &Scene, gpu: &Gpu) -> Result<Measured> {
    ladder(scene, gpu, Counting::Global)
}

pub(super) fn shared(scene: &Scene, gpu: &Gpu) -> Result<Measured> {
    ladder(scene, gpu, Counting::Shared)
}

pub(super) fn strided(scene: &Scene, gpu: &Gpu) -> Result<Measured> {
    ladder(scene, gpu, Counting::Strided)
}

pub(super) fn replicated(scene: &Scene, gpu: &Gpu) -> Result<Measured> {
    ladder(scene, gpu, Counting::Replicated)
}

pub(super) fn own(scene: &Scene, gpu: &Gpu) -> Result<Measured> {
    run(scene, gpu, |i| gpu.own.count(&gpu.stream, Kind::Gray, gpu.picture(i), gpu.counts))
}

fn ladder(scene: &Scene, gpu: &Gpu, counting: Counting) -> Result<Measured> {
    run(scene, gpu, |i| gpu.kernels.count(&gpu.stream, counting, gpu.picture(i), gpu.counts))
}

/// Measures a kernel that adds the histogram of a copy of the picture to the counts.
fn run(scene: &Scene, gpu: &Gpu, count: impl Fn(usize) -> driver::Result<()>) -> Result<Measured> {
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
        gpu.counts.zero(&gpu.stream)?;
        count(0)?;
        gpu.counts.copy_to(gpu.host_counts, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_counts(gpu.host_counts, &scene.counts)?;
    // The counts are not zeroed in between: they may overflow, but nobody reads them.
    Ok(right.kernels(gpu.kernel_time(&count)?).whole(gpu.whole_time(whole)?))
}
