//! Finding nvJPEG and its functions. They are declared by hand after the `nvjpeg.h` of versions 11.9, 12.4 and 13.3, which agree in
//! everything used here.

use std::ffi::{c_int, c_uchar, c_uint, c_void};

use libloading::Library;

/// Names of the library, newest first; the last finds an installed CUDA that the dynamic linker was not told about.
const NAMES: [&str; 5] = [
    "libnvjpeg.so.13",
    "libnvjpeg.so.12",
    "libnvjpeg.so.11",
    "libnvjpeg.so",
    "/usr/local/cuda/lib64/libnvjpeg.so",
];

const MAJOR_VERSION: c_int = 0;
const MINOR_VERSION: c_int = 1;
/// The most planes that a picture has.
pub(super) const MAX_COMPONENTS: usize = 4;

/// An opaque nvJPEG object.
pub(super) type Handle = *mut c_void;
/// A result code: 0 is success.
pub(super) type Status = c_int;

/// The planes of a picture in device memory: nvJPEG's `nvjpegImage_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Image {
    pub(super) channel: [*mut c_uchar; MAX_COMPONENTS],
    pub(super) pitch: [usize; MAX_COMPONENTS],
}

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions that are called, under the names they have here.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            /// # Safety
            /// The library must be nvJPEG and stay loaded.
            unsafe fn find(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: these are the functions' types in nvjpeg.h.
                unsafe { Ok(Self { $($name: *library.get(concat!($symbol, "\0"))?,)* }) }
            }
        }
    };
}

functions! {
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

/// Loads the library; returns its functions and its version, or why there is none that a driver of this CUDA version (12040 is 12.4) can
/// run.
pub(super) fn load(driver_cuda: u32) -> std::result::Result<(&'static Functions, String), String> {
    let mut reason = "libnvjpeg was not found".to_owned();
    for name in NAMES {
        // SAFETY: loads NVIDIA's library as any program linked with it does; its initializers are safe to run.
        let library = match unsafe { Library::new(name) } {
            Ok(library) => library,
            Err(error) => {
                reason = unloadable(name, &error).unwrap_or(reason);
                continue;
            }
        };
        // SAFETY: the name says that it is nvJPEG; it is never unloaded.
        let found = unsafe { Functions::find(Box::leak(Box::new(library))) };
        let functions = match found {
            Ok(functions) => &*Box::leak(Box::new(functions)),
            Err(error) => {
                reason = format!("{name} lacks a function: {error}");
                continue;
            }
        };
        let cuda = functions.version(functions.cuda_property);
        if cuda.0 > driver_cuda as c_int / 1000 {
            reason = format!("{name} needs CUDA {}, which the installed driver does not support", cuda.0);
            continue;
        }
        let (major, minor) = functions.version(functions.property);
        return Ok((functions, format!("{major}.{minor}")));
    }
    Err(reason)
}

/// Returns why a library that exists cannot be loaded, which nobody could guess; `None` for one that does not exist.
fn unloadable(name: &str, error: &libloading::Error) -> Option<String> {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let is_absent = text.starts_with(&format!("{name}: cannot open shared object file: No such file"));
    (!is_absent).then(|| format!("{name} cannot be loaded: {text}"))
}

impl Functions {
    fn version(&self, property: unsafe extern "C" fn(c_int, *mut c_int) -> Status) -> (c_int, c_int) {
        let of = |which| {
            let mut value = 0;
            // SAFETY: writes one integer to the place given.
            unsafe { property(which, &raw mut value) };
            value
        };
        (of(MAJOR_VERSION), of(MINOR_VERSION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn told(name: &str) -> Option<String> {
        // SAFETY: nothing that could be loaded has such a name.
        let Err(error) = (unsafe { Library::new(name) }) else { panic!("{name} is a library") };
        unloadable(name, &error)
    }

    #[test]
    fn a_library_that_is_there_and_cannot_be_loaded_is_told_of() {
        assert_eq!(told("libnvjpeg.so.nowhere"), None);
        assert_eq!(told("/nowhere/libnvjpeg.so"), None);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let name = file.path().to_str().unwrap();
        let told = told(name).unwrap();
        assert!(told.starts_with(&format!("{name} cannot be loaded: ")) && told.contains("ELF"), "{told}");
    }
}
