//! The parts of the CUDA driver that only the ladder needs: timing, kinds of memory, textures.
//!
//! All of it is safe to call, because memory is never freed (the ladder is a short-lived process)
//! and never exposed as a slice: the host reads and writes it by copying, when the device is idle.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::mem;
use std::ptr;
use std::slice;

use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUaddress_mode, CUarray_format, CUevent_flags, CUfilter_mode, CUmemAttach_flags, CUmemorytype,
    CUresourcetype,
};

use lanes::gpu::driver::{Address, Module, Result, Stream};

/// The size of a host page in bytes: managed memory migrates in units of at least that.
const PAGE: usize = 4096;

/// Waits until the current GPU is idle.
pub(super) fn rest() -> Result<()> {
    // SAFETY: waits for the current context.
    Ok(unsafe { sys::cuCtxSynchronize() }.result()?)
}

/// Waits until all work in a stream is done.
pub(super) fn finish(stream: &Stream) -> Result<()> {
    // SAFETY: the stream lives.
    Ok(unsafe { result::stream::synchronize(stream.0) }?)
}

/// Measures time on the device.
pub(super) struct Timer {
    start: sys::CUevent,
    stop: sys::CUevent,
}

impl Timer {
    pub(super) fn new() -> Result<Self> {
        let event = || result::event::create(CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self { start: event()?, stop: event()? })
    }

    /// Returns the device's seconds for the work that `work` enqueues in the stream.
    pub(super) fn time(&self, stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        // SAFETY: the events and the stream live, in one context.
        unsafe { result::event::record(self.start, stream.0) }?;
        work()?;
        // SAFETY: as above; the elapsed time is queried once both events have completed.
        let milliseconds = unsafe {
            result::event::record(self.stop, stream.0)?;
            result::event::synchronize(self.stop)?;
            result::event::elapsed(self.start, self.stop)?
        };
        Ok(f64::from(milliseconds) / 1e3)
    }
}

/// The place of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the device.
    Device,
    /// On the host, page-locked.
    Pinned,
    /// On the host, page-locked, and accessed by kernels over the bus.
    Mapped,
    /// Wherever it was last touched: the driver migrates its pages.
    Managed,
}

/// A block of memory, or a part of one. It lives until the process ends.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// The address for copies and, unless the memory is only pinned, for kernels.
    address: Address,
    /// The host's address; null for device memory.
    host: *mut u8,
    bytes: usize,
}

impl Memory {
    /// Allocates memory; its content is undefined on the device and zero elsewhere.
    pub(super) fn new(place: Place, bytes: usize) -> Result<Self> {
        // Not every GPU lets the host touch managed memory while a kernel runs.
        rest()?;
        let mut address: Address = 0;
        let mut host = ptr::null_mut();
        // SAFETY: plain allocations in the current context, which write one or two addresses to the
        // pointers given.
        unsafe {
            match place {
                Place::Device => sys::cuMemAlloc_v2(&raw mut address, bytes).result()?,
                Place::Managed => {
                    let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
                    sys::cuMemAllocManaged(&raw mut address, bytes, flags).result()?;
                    host = address as *mut _;
                }
                Place::Pinned | Place::Mapped => {
                    let mapped = if place == Place::Mapped { sys::CU_MEMHOSTALLOC_DEVICEMAP } else { 0 };
                    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | mapped;
                    sys::cuMemHostAlloc(&raw mut host, bytes, flags).result()?;
                    address = host as Address;
                    if place == Place::Mapped {
                        sys::cuMemHostGetDevicePointer_v2(&raw mut address, host, 0).result()?;
                    }
                }
            }
        }
        let memory = Self { address, host: host.cast(), bytes };
        if !memory.host.is_null() {
            // SAFETY: `bytes` bytes were just allocated, and there are no other references to them
            // yet.
            unsafe { ptr::write_bytes(memory.host, 0, bytes) };
        }
        Ok(memory)
    }

    /// Returns the address for the device.
    pub(super) fn address(self) -> Address {
        self.address
    }

    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns the part of `bytes` bytes from offset `first` on.
    pub(super) fn part(self, first: usize, bytes: usize) -> Self {
        assert!(first <= self.bytes && bytes <= self.bytes - first, "a part lies within the whole");
        let host = if self.host.is_null() { self.host } else { self.host.wrapping_add(first) };
        Self { address: self.address + first as Address, host, bytes }
    }

    /// Enqueues a copy to memory of the same size, wherever both are.
    pub(super) fn copy_to(self, to: Self, stream: &Stream) -> Result<()> {
        assert_eq!(self.bytes, to.bytes, "copies fill what they are made to");
        // SAFETY: both live until the process ends, have the same length, and no slice of them
        // exists.
        Ok(unsafe { sys::cuMemcpyAsync(to.address, self.address, self.bytes, stream.0) }.result()?)
    }

    /// Enqueues zeroing the memory.
    pub(super) fn zero(self, stream: &Stream) -> Result<()> {
        // SAFETY: it lives until the process ends, and no slice of it exists.
        Ok(unsafe { result::memset_d8_async(self.address, 0, self.bytes, stream.0) }?)
    }

    /// Uploads pageable memory on a stream, and waits for it.
    pub(super) fn upload(self, from: &[u8], stream: &Stream) -> Result<()> {
        assert_eq!(self.bytes, from.len(), "copies fill what they are made to");
        // SAFETY: the lengths are equal, and `from` is borrowed until the copy is done.
        unsafe { result::memcpy_htod_async(self.address, from, stream.0) }?;
        finish(stream)
    }

    /// Downloads to pageable memory on a stream, and waits for it.
    pub(super) fn download(self, to: &mut [u8], stream: &Stream) -> Result<()> {
        assert_eq!(self.bytes, to.len(), "copies fill what they are made to");
        // SAFETY: the lengths are equal, and `to` is borrowed until the copy is done.
        unsafe { result::memcpy_dtoh_async(to, self.address, stream.0) }?;
        finish(stream)
    }

    /// Waits until the device is idle, and copies bytes into the memory.
    pub(super) fn write(self, from: &[u8], stream: &Stream) -> Result<()> {
        rest()?;
        if self.host.is_null() {
            return self.upload(from, stream);
        }
        assert_eq!(self.bytes, from.len(), "copies fill what they are made to");
        // SAFETY: it is host memory of that size, unused while the device is idle; `from` is a
        // slice, and lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.host, self.bytes) };
        Ok(())
    }

    /// Waits until the device is idle, and returns a copy of the memory.
    pub(super) fn read(self, stream: &Stream) -> Result<Vec<u8>> {
        rest()?;
        let mut bytes = vec![0; self.bytes];
        if self.host.is_null() {
            self.download(&mut bytes, stream)?;
        } else {
            // SAFETY: it is host memory of that size, unused while the device is idle; the slice
            // ends with the statement.
            bytes.copy_from_slice(unsafe { slice::from_raw_parts(self.host, self.bytes) });
        }
        Ok(bytes)
    }

    /// [`Memory::read`], as 32-bit counts or LUT entries.
    pub(super) fn read_words(self, stream: &Stream) -> Result<Vec<u32>> {
        Ok(bytemuck::pod_collect_to_vec(&self.read(stream)?))
    }

    /// Waits until the device is idle, and touches every page, to move managed memory back.
    pub(super) fn touch(self) -> Result<()> {
        rest()?;
        for at in (0..self.bytes).step_by(PAGE) {
            // SAFETY: `host` points to `bytes` bytes of host memory, unless it is null, in which
            // case it is not read.
            unsafe { (!self.host.is_null()).then(|| ptr::read_volatile(self.host.add(at))) };
        }
        Ok(())
    }
}

/// Returns the memory of a variable of a loaded module.
pub(super) fn variable(module: Module, name: &str) -> Result<Memory> {
    let name = CString::new(name).expect("names of variables have no zeros");
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: writes address and size to the pointers given; modules are never unloaded.
    unsafe { sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module.0, name.as_ptr()) }
        .result()?;
    Ok(Memory { address, host: ptr::null_mut(), bytes })
}

/// A texture object, as passed to kernels. It lives until the process ends.
#[derive(Clone, Copy)]
pub(super) struct Texture(pub(super) sys::CUtexObject);

impl Texture {
    /// Makes a texture of linear device memory, to be read as integers.
    pub(super) fn line(memory: Memory, texel: Texel) -> Result<Self> {
        // SAFETY: plain data, for which zeros mean unset.
        let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { mem::zeroed() };
        resource.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear.devPtr = memory.address;
        resource.res.linear.format = texel.format();
        resource.res.linear.numChannels = 1;
        resource.res.linear.sizeInBytes = memory.bytes;
        let mut sampling = nearest();
        sampling.flags = sys::CU_TRSF_READ_AS_INTEGER;
        Self::new(&resource, &sampling)
    }

    fn new(resource: &sys::CUDA_RESOURCE_DESC, sampling: &sys::CUDA_TEXTURE_DESC) -> Result<Self> {
        let mut texture = 0;
        // SAFETY: both are filled in for their kind, and the memory they refer to lives until the
        // process ends.
        unsafe { sys::cuTexObjectCreate(&raw mut texture, resource, sampling, ptr::null()) }.result()?;
        Ok(Self(texture))
    }
}

/// The texels of a linear texture: bytes, or words of 32 bits.
#[derive(Clone, Copy)]
pub(super) enum Texel {
    Byte,
    Word,
}

impl Texel {
    const fn format(self) -> CUarray_format {
        match self {
            Self::Byte => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            Self::Word => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        }
    }
}

/// Returns a description of point sampling, with coordinates clamped to the edge.
fn nearest() -> sys::CUDA_TEXTURE_DESC {
    // SAFETY: plain data, for which zeros are the defaults.
    let mut sampling: sys::CUDA_TEXTURE_DESC = unsafe { mem::zeroed() };
    sampling.addressMode = [CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3];
    sampling.filterMode = CUfilter_mode::CU_TR_FILTER_MODE_POINT;
    sampling
}

/// A layered texture of bytes.
///
/// The texture unit interpolates between the texels of a layer, but not between layers.
pub(super) struct Layers {
    array: sys::CUarray,
    /// Width, height, and number of layers.
    size: (usize, usize, usize),
    pub(super) texture: Texture,
}

impl Layers {
    pub(super) fn new(size: (usize, usize, usize)) -> Result<Self> {
        let shape = sys::CUDA_ARRAY3D_DESCRIPTOR {
            Width: size.0,
            Height: size.1,
            Depth: size.2,
            Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            NumChannels: 1,
            Flags: sys::CUDA_ARRAY3D_LAYERED,
        };
        let mut array = ptr::null_mut();
        // SAFETY: writes a handle to the pointer given.
        unsafe { sys::cuArray3DCreate_v2(&raw mut array, &raw const shape) }.result()?;
        // SAFETY: plain data, for which zeros mean unset.
        let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { mem::zeroed() };
        resource.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        let mut sampling = nearest();
        sampling.filterMode = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
        Ok(Self { array, size, texture: Texture::new(&resource, &sampling)? })
    }

    /// Enqueues filling all layers from device memory, where they are consecutive.
    pub(super) fn fill(&self, from: Memory, stream: &Stream) -> Result<()> {
        let (width, height, layers) = self.size;
        assert_eq!(from.bytes, width * height * layers, "all layers");
        let copy = sys::CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: ptr::null(),
            srcDevice: from.address,
            srcArray: ptr::null_mut(),
            reserved0: ptr::null_mut(),
            srcPitch: width,
            srcHeight: height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
            dstHost: ptr::null_mut(),
            dstDevice: 0,
            dstArray: self.array,
            reserved1: ptr::null_mut(),
            dstPitch: 0,
            dstHeight: 0,
            WidthInBytes: width,
            Height: height,
            Depth: layers,
        };
        // SAFETY: source and destination live until the process ends and are as large as the copy
        // requires.
        Ok(unsafe { sys::cuMemcpy3DAsync_v2(&raw const copy, stream.0) }.result()?)
    }
}
