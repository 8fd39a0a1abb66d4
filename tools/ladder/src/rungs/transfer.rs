//! Whole equalizations of the gray picture, by host memory, streams and place of the LUT.
//!
//! All count with the strided kernel, and apply the LUT from shared memory.

use std::cell::RefCell;

use crate::cuda::{Memory, Place, finish};
use crate::gpu::Gpu;
use crate::kernels::{Counting, LutIn};
use crate::measure::{Measured, Result, rounds, same_pixels, wall};
use crate::picture::{TestPicture, lut_of};
use lanes::gpu::driver::{self, Event, Stream};

/// Counts, makes the LUT and applies it, wherever the pixels are.
fn equalize(gpu: &Gpu, pixels: Memory, out: Memory) -> driver::Result<()> {
    let (kernels, stream) = (&gpu.kernels, &gpu.stream);
    gpu.counts.zero(stream)?;
    kernels.count(stream, Counting::Strided, pixels, gpu.counts)?;
    kernels.lut(stream, gpu.counts, gpu.lut)?;
    kernels.apply(stream, LutIn::Shared(gpu.lut), pixels, out)
}

fn kernel_time(gpu: &Gpu) -> Result<f64> {
    gpu.kernel_time(|i| equalize(gpu, gpu.picture(i), gpu.result(i)))
}

/// The host waits for the counts, makes the LUT and sends it.
pub(super) fn host_lut(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let host_lut = Memory::new(Place::Pinned, gpu.lut.bytes())?;
    let count = |i| {
        gpu.counts.zero(&gpu.stream)?;
        gpu.kernels.count(&gpu.stream, Counting::Strided, gpu.picture(i), gpu.counts)
    };
    let apply = |i| gpu.kernels.apply(&gpu.stream, LutIn::Shared(gpu.lut), gpu.picture(i), gpu.result(i));
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
        count(0)?;
        gpu.counts.copy_to(gpu.host_counts, &gpu.stream)?;
        finish(&gpu.stream)?;
        let counts = gpu.host_counts.read_words(&gpu.stream)?;
        host_lut.write(bytemuck::cast_slice(&lut_of(&counts).map(u32::from)), &gpu.stream)?;
        host_lut.copy_to(gpu.lut, &gpu.stream)?;
        apply(0)?;
        gpu.result(0).copy_to(gpu.host_result, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_pixels(gpu.host_result, &test.equalized)?;
    let kernels = gpu.kernel_time(|i| count(i).and_then(|()| apply(i)))?;
    Ok(right.kernels(kernels).whole(gpu.whole_time(whole)?))
}

pub(super) fn pageable(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let out = RefCell::new(vec![0; test.pixels()]);
    let whole = || {
        gpu.picture(0).upload(&test.gray, &gpu.stream)?;
        equalize(gpu, gpu.picture(0), gpu.result(0))?;
        gpu.result(0).download(&mut out.borrow_mut(), &gpu.stream)
    };
    gpu.once(whole)?;
    let right = same_pixels(&out.borrow(), &test.equalized)?;
    Ok(right.kernels(kernel_time(gpu)?).whole(gpu.whole_time(whole)?))
}

pub(super) fn pinned(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let whole = || {
        gpu.host_picture.copy_to(gpu.picture(0), &gpu.stream)?;
        equalize(gpu, gpu.picture(0), gpu.result(0))?;
        gpu.result(0).copy_to(gpu.host_result, &gpu.stream)
    };
    gpu.once(whole)?;
    let right = gpu.same_pixels(gpu.host_result, &test.equalized)?;
    Ok(right.kernels(kernel_time(gpu)?).whole(gpu.whole_time(whole)?))
}

/// The kernels read and write host memory directly: the picture is read over the bus twice.
pub(super) fn mapped(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let picture = Memory::new(Place::Mapped, test.pixels())?;
    let out = Memory::new(Place::Mapped, test.pixels())?;
    picture.write(&test.gray, &gpu.stream)?;
    let whole = || equalize(gpu, picture, out);
    gpu.once(whole)?;
    let right = gpu.same_pixels(out, &test.equalized)?;
    Ok(right.kernels(gpu.kernel_time(|_| whole())?).whole(gpu.whole_time(whole)?))
}

/// Each round starts with the picture on the host.
///
/// The whole time ends when the host has touched every page of the result.
pub(super) fn managed(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let picture = Memory::new(Place::Managed, test.pixels())?;
    let out = Memory::new(Place::Managed, test.pixels())?;
    let start = || equalize(gpu, picture, out);
    let bring_home = || picture.write(&test.gray, &gpu.stream).and_then(|()| out.touch());
    bring_home()?;
    gpu.once(start)?;
    let right = gpu.same_pixels(out, &test.equalized)?;
    let kernels = rounds(|| {
        bring_home()?;
        Ok(gpu.timer.time(&gpu.stream, start)?)
    })?;
    let whole = rounds(|| {
        bring_home()?;
        wall(|| Ok(start().and_then(|()| out.touch())?))
    })?;
    Ok(right.kernels(kernels).whole(whole))
}

/// Each stream has half of the picture; the LUT needs the counts of both halves.
pub(super) fn two_streams(test: &TestPicture, gpu: &Gpu) -> Result<Measured> {
    let second = Stream::new()?;
    let (zeroed, counted, made) = (Event::new()?, Event::new()?, Event::new()?);
    let streams = [&gpu.stream, &second];
    let half = test.pixels() / 2;
    let halves = |memory: Memory| [memory.part(0, half), memory.part(half, half)];
    let (picture, result) = (gpu.picture(0), gpu.result(0));
    let start = || -> driver::Result<()> {
        gpu.counts.zero(streams[0])?;
        zeroed.record(streams[0])?;
        streams[1].wait(&zeroed)?;
        for ((stream, from), to) in streams.into_iter().zip(halves(gpu.host_picture)).zip(halves(picture)) {
            from.copy_to(to, stream)?;
            gpu.kernels.count(stream, Counting::Strided, to, gpu.counts)?;
        }
        counted.record(streams[1])?;
        streams[0].wait(&counted)?;
        gpu.kernels.lut(streams[0], gpu.counts, gpu.lut)?;
        made.record(streams[0])?;
        streams[1].wait(&made)?;
        let parts = halves(picture).into_iter().zip(halves(result)).zip(halves(gpu.host_result));
        for (stream, ((from, to), home)) in streams.into_iter().zip(parts) {
            gpu.kernels.apply(stream, LutIn::Shared(gpu.lut), from, to)?;
            to.copy_to(home, stream)?;
        }
        streams.into_iter().try_for_each(finish)
    };
    start()?;
    let right = gpu.same_pixels(gpu.host_result, &test.equalized)?;
    Ok(right.whole(rounds(|| wall(|| Ok(start()?)))?))
}
