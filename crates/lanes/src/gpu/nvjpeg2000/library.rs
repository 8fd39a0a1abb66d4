//! nvJPEG2000's functions, declared by hand after the `nvjpeg2k.h` of version 0.11.

use std::ffi::{c_int, c_uchar, c_void};

use crate::gpu::library::{Handle, Status, Version, functions, load as load_one, version};

/// Names of the library. The last finds an installed CUDA that the dynamic linker does not know.
const NAMES: [&str; 3] = ["libnvjpeg2k.so.0", "libnvjpeg2k.so", "/usr/local/cuda/lib64/libnvjpeg2k.so.0"];

const ABSENT: &str = "libnvjpeg2k.so.0 was found neither by the dynamic linker nor in /usr/local/cuda/lib64; `pip install nvidia-nvjpeg2k-cu13` (or -cu12) has it, in a folder for LD_LIBRARY_PATH or ldconfig";

/// The properties of a picture: nvJPEG2000's `nvjpeg2kImageInfo_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct ImageInfo {
    pub(super) width: u32,
    pub(super) height: u32,
    tile_width: u32,
    tile_height: u32,
    tiles_across: u32,
    tiles_down: u32,
    pub(super) components: u32,
}

/// The properties of a component: `nvjpeg2kImageComponentInfo_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct ComponentInfo {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) bits: u8,
    pub(super) is_signed: u8,
}

/// A picture in device memory: `nvjpeg2kImage_t`.
#[repr(C)]
pub(super) struct Image {
    /// The address of each component, or of all if interleaved; and the bytes of a row of each.
    pub(super) data: *mut *mut c_void,
    pub(super) pitch: *mut usize,
    pub(super) kind: c_int,
    pub(super) components: u32,
}

functions! {
    of_properties;
    property = "nvjpeg2kGetProperty": fn(c_int, *mut c_int);
    cuda_property = "nvjpeg2kGetCudartProperty": fn(c_int, *mut c_int);
    create = "nvjpeg2kCreateSimple": fn(*mut Handle);
    state_create = "nvjpeg2kDecodeStateCreate": fn(Handle, *mut Handle);
    state_destroy = "nvjpeg2kDecodeStateDestroy": fn(Handle);
    stream_create = "nvjpeg2kStreamCreate": fn(*mut Handle);
    stream_destroy = "nvjpeg2kStreamDestroy": fn(Handle);
    stream_parse = "nvjpeg2kStreamParse": fn(Handle, *const c_uchar, usize, c_int, c_int, Handle);
    image_info = "nvjpeg2kStreamGetImageInfo": fn(Handle, *mut ImageInfo);
    component_info = "nvjpeg2kStreamGetImageComponentInfo": fn(Handle, *mut ComponentInfo, u32);
    params_create = "nvjpeg2kDecodeParamsCreate": fn(*mut Handle);
    params_destroy = "nvjpeg2kDecodeParamsDestroy": fn(Handle);
    params_format = "nvjpeg2kDecodeParamsSetOutputFormat": fn(Handle, c_int);
    decode = "nvjpeg2kDecodeImage": fn(Handle, Handle, Handle, Handle, *mut Image, Handle);
}

impl Functions {
    fn of_properties(&self) -> [Version; 2] {
        [self.property, self.cuda_property].map(version)
    }
}

/// Loads the library.
pub(super) fn load(driver_cuda: u32) -> Result<(&'static Functions, String), String> {
    load_one(&NAMES, ABSENT, driver_cuda)
}
