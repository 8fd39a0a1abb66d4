//! nvCOMP's functions, declared by hand after the headers of version 6.0.
//!
//! Those of version 5 are the same.

use std::ffi::{c_int, c_void};

use crate::gpu::library::{Status, Version, functions, load as load_one};

/// Names of the library; the last is for one that the dynamic linker does not know.
const NAMES: [&str; 4] =
    ["libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so", "/usr/local/cuda/lib64/libnvcomp.so.6"];

const ABSENT: &str = "libnvcomp.so.6 was found neither by the dynamic linker nor in /usr/local/cuda/lib64; `pip install nvidia-libnvcomp-cu13` (or -cu12) has it, in a folder for LD_LIBRARY_PATH or ldconfig";

/// The versions, in its encoding: `nvcompProperties_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Properties {
    version: u32,
    cuda: u32,
}

/// The options for deflating: `nvcompBatchedDeflateCompressOpts_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CompressOptions {
    algorithm: c_int,
    reserved: [u8; 60],
}

impl CompressOptions {
    /// Without a search for matches.
    pub(super) const ENTROPY_ONLY: Self = Self { algorithm: 0, reserved: [0; 60] };
}

/// The options for inflating: `nvcompBatchedDeflateDecompressOpts_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct DecompressOptions {
    backend: c_int,
    sorts: c_int,
    reserved: [u8; 56],
}

impl DecompressOptions {
    /// By kernels, which check the room for outputs.
    pub(super) const CUDA: Self = Self { backend: 2, sorts: 0, reserved: [0; 56] };
}

/// Device memory with an address or a length for each stream.
pub(super) type List = *mut c_void;

functions! {
    of_properties;
    properties = "nvcompGetProperties": fn(*mut Properties);
    room_for_stream = "nvcompBatchedDeflateCompressGetMaxOutputChunkSize": fn(usize, CompressOptions, *mut usize);
    compress_room = "nvcompBatchedDeflateCompressGetTempSize": fn(usize, usize, CompressOptions, *mut usize, usize, *mut c_void);
    compress = "nvcompBatchedDeflateCompressAsync":
        fn(List, List, usize, usize, *mut c_void, usize, List, List, CompressOptions, List, *mut c_void);
    decompress_room = "nvcompBatchedDeflateDecompressGetTempSize":
        fn(usize, usize, DecompressOptions, *mut usize, usize, *mut c_void);
    decompress = "nvcompBatchedDeflateDecompressAsync":
        fn(List, List, List, List, usize, *mut c_void, usize, List, DecompressOptions, List, *mut c_void);
}

impl Functions {
    fn of_properties(&self) -> [Version; 2] {
        let mut properties = Properties::default();
        // SAFETY: writes one structure to the place given.
        unsafe { (self.properties)(&raw mut properties) };
        let Properties { version, cuda } = properties;
        let [major, minor] = [version / 1000, version % 1000 / 100].map(|number| number as c_int);
        [(major, minor), (cuda as c_int / 1000, cuda as c_int % 1000 / 10)]
    }
}

/// Loads the library.
pub(super) fn load(driver_cuda: u32) -> Result<(&'static Functions, String), String> {
    load_one(&NAMES, ABSENT, driver_cuda)
}
