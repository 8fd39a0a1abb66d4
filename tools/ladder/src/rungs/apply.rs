//! Ways of applying the LUT to the gray picture on the GPU, by the memory of the LUT.

use crate::cuda::{Memory, Texel, Texture};
use crate::gpu::Gpu;
use crate::kernels::LutIn;
use crate::measure::{Measured, Result};
use crate::picture::TestPicture;
use lanes::gpu::driver;

pub(super) fn global(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, LutIn::Global(gpu.lut))
}

pub(super) fn shared(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, LutIn::Shared(gpu.lut))
}

pub(super) fn constant(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let lut = gpu.kernels.constant_lut()?;
    gpu.once(|| gpu.lut.copy_to(lut, &gpu.stream))?;
    ladder(picture, gpu, LutIn::Constant)
}

pub(super) fn texture(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    ladder(picture, gpu, LutIn::Texture(Texture::line(gpu.lut, Texel::Word)?))
}

/// In place, as in a lane.
pub(super) fn own(picture: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let apply = |pixels| gpu.own.apply(&gpu.stream, pixels);
    gpu.once(|| gpu.own.count_for_lut(&gpu.stream, gpu.picture(0)))?;
    let whole = || {
        gpu.host_picture.copy_to(gpu.result(0), &gpu.stream)?;
        apply(gpu.result(0))?;
        gpu.result(0).copy_to(gpu.host_result, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_pixels(gpu.host_result, &picture.equalized)?;
    let kernels = gpu.kernel_time_in_place(|i| apply(gpu.result(i)))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(whole)?))
}

fn ladder(picture: &TestPicture, gpu: &Gpu, lut: LutIn) -> Result<Measured> {
    let apply = |i| -> driver::Result<Memory> {
        gpu.kernels.apply(&gpu.stream, lut, gpu.picture(i), gpu.result(i))?;
        Ok(gpu.result(i))
    };
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
        apply(0)?.copy_to(gpu.host_result, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_pixels(gpu.host_result, &picture.equalized)?;
    let kernels = gpu.kernel_time(|i| apply(i).map(drop))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(whole)?))
}
