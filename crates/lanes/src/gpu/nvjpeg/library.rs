//! Finding nvJPEG and its functions. They are declared by hand after the `nvjpeg.h` of versions 11.9, 12.4 and 13.3, which agree in
//! everything used here.

use std::ffi::{c_int, c_uchar, c_uint, c_void};

use crate::gpu::library::{Handle, Status, Version, functions, load as load_one, version};

/// Names of the library, newest first; the last finds an installed CUDA that the dynamic linker was not told about.
const NAMES: [&str; 5] = [
    "libnvjpeg.so.13",
    "libnvjpeg.so.12",
    "libnvjpeg.so.11",
    "libnvjpeg.so",
    "/usr/local/cuda/lib64/libnvjpeg.so",
];

/// The most planes that a picture has.
pub(super) const MAX_COMPONENTS: usize = 4;

/// The planes of a picture in device memory: nvJPEG's `nvjpegImage_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Image {
    pub(super) channel: [*mut c_uchar; MAX_COMPONENTS],
    pub(super) pitch: [usize; MAX_COMPONENTS],
}

functions! {
    of_properties;
    property = "nvjpegGetProperty": fn(c_int, *mut c_int);
    cuda_property = "nvjpegGetCudartProperty": fn(c_int, *mut c_int);
    create = "nvjpegCreateEx": fn(c_int, *mut c_void, *mut c_void, c_uint, *mut Handle);
    stream_create = "nvjpegJpegStreamCreate": fn(Handle, *mut Handle);
    stream_destroy = "nvjpegJpegStreamDestroy": fn(Handle);
    stream_parse = "nvjpegJpegStreamParse": fn(Handle, *const c_uchar, usize, c_int, c_int, Handle);
    stream_components = "nvjpegJpegStreamGetComponentsNum": fn(Handle, *mut c_uint);
    stream_dimensions =
        "nvjpegJpegStreamGetComponentDimensions": fn(Handle, c_uint, *mut c_uint, *mut c_uint);
    stream_sampling = "nvjpegJpegStreamGetChromaSubsampling": fn(Handle, *mut c_int);
    state_create = "nvjpegJpegStateCreate": fn(Handle, *mut Handle);
    state_destroy = "nvjpegJpegStateDestroy": fn(Handle);
    supported = "nvjpegDecodeBatchedSupported": fn(Handle, Handle, *mut c_int);
    batch_initialize = "nvjpegDecodeBatchedInitialize": fn(Handle, Handle, c_int, c_int, c_int);
    batch_decode =
        "nvjpegDecodeBatched": fn(Handle, Handle, *const *const c_uchar, *const usize, *mut Image, Handle);
    decode = "nvjpegDecode": fn(Handle, Handle, *const c_uchar, usize, c_int, *mut Image, Handle);
    encoder_create = "nvjpegEncoderStateCreate": fn(Handle, *mut Handle, Handle);
    encoder_destroy = "nvjpegEncoderStateDestroy": fn(Handle);
    params_create = "nvjpegEncoderParamsCreate": fn(Handle, *mut Handle, Handle);
    params_destroy = "nvjpegEncoderParamsDestroy": fn(Handle);
    params_quality = "nvjpegEncoderParamsSetQuality": fn(Handle, c_int, Handle);
    params_optimized = "nvjpegEncoderParamsSetOptimizedHuffman": fn(Handle, c_int, Handle);
    params_sampling = "nvjpegEncoderParamsSetSamplingFactors": fn(Handle, c_int, Handle);
    params_tables = "nvjpegEncoderParamsCopyQuantizationTables": fn(Handle, Handle, Handle);
    encode = "nvjpegEncodeYUV": fn(Handle, Handle, Handle, *const Image, c_int, c_int, c_int, Handle);
    retrieve = "nvjpegEncodeRetrieveBitstream": fn(Handle, Handle, *mut c_uchar, *mut usize, Handle);
}

impl Functions {
    fn of_properties(&self) -> [Version; 2] {
        [self.property, self.cuda_property].map(version)
    }
}

/// Loads the library.
pub(super) fn load(driver_cuda: u32) -> Result<(&'static Functions, String), String> {
    load_one(&NAMES, "libnvjpeg was not found", driver_cuda)
}
