//! The part of nvJPEG2000 that the worker needs.
//!
//! The library is loaded on first use and stays loaded; without it, histeqd builds, starts and
//! works.
#![allow(unsafe_code)]

mod library;

use std::ffi::{c_int, c_void};

use super::driver::{Address, Stream};
use super::library::{CallError, Handle, Owned, Status};
use codec::coders::Codestream;
use library::{ComponentInfo, Functions, Image, ImageInfo, load};

const INTERLEAVED: c_int = 1;
const UINT8: c_int = 0;
const UINT16: c_int = 1;
const INT16: c_int = 2;

type Result<T> = std::result::Result<T, CallError>;

/// NVJPEG2K_STATUS_ALLOCATOR_FAILURE.
const OUT_OF_MEMORY: Status = 5;

const fn text(status: Status) -> &'static str {
    match status {
        1 => "not initialized",
        2 => "invalid parameter",
        3 => "bad codestream",
        4 => "codestream not supported",
        OUT_OF_MEMORY => "out of memory",
        6 => "execution failed",
        7 => "not for this GPU",
        8 => "internal error",
        9 => "not implemented",
        _ => "unknown",
    }
}

fn failed(action: &'static str, status: Status) -> CallError {
    let is_out_of_memory = status == OUT_OF_MEMORY;
    CallError { library: "nvJPEG2000", action, what: text(status), status, is_out_of_memory }
}

fn check(action: &'static str, status: Status) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(action, status)) }
}

/// Returns the version of nvJPEG2000, or why it cannot be used.
pub(super) fn version(driver_cuda: u32) -> std::result::Result<String, String> {
    load(driver_cuda).map(|(_, version)| version)
}

/// nvJPEG2000, started for the current context's GPU. It is never shut down.
pub(super) struct NvJpeg2000 {
    functions: &'static Functions,
    handle: Handle,
}

// SAFETY: nvJPEG2000's handle may be used from several threads at once.
unsafe impl Send for NvJpeg2000 {}
// SAFETY: as above.
unsafe impl Sync for NvJpeg2000 {}

impl NvJpeg2000 {
    /// Starts nvJPEG2000 in the current context.
    pub(super) fn open(driver_cuda: u32) -> std::result::Result<Self, String> {
        let (functions, _) = load(driver_cuda)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes a handle to the place given.
        let status = unsafe { (functions.create)(&raw mut handle) };
        check("start", status).map_err(|error| error.to_string())?;
        Ok(Self { functions, handle })
    }
}

/// Decodes codestreams, one at a time.
pub(super) struct Decoder<'j> {
    jpeg: &'j NvJpeg2000,
    state: Owned,
    parsed: Owned,
    params: Owned,
}

impl<'j> Decoder<'j> {
    pub(super) fn new(jpeg: &'j NvJpeg2000) -> Result<Self> {
        let &NvJpeg2000 { functions, handle } = jpeg;
        let failed = |status| failed("create a decoder", status);
        // SAFETY: each writes a handle to the place given.
        let (state, parsed, params) = unsafe {
            (
                Owned::make(|to| (functions.state_create)(handle, to), functions.state_destroy),
                Owned::make(|to| (functions.stream_create)(to), functions.stream_destroy),
                Owned::make(|to| (functions.params_create)(to), functions.params_destroy),
            )
        };
        let params = params.map_err(failed)?;
        // SAFETY: the parameters are those just made.
        check("order samples", unsafe { (functions.params_format)(params.handle, INTERLEAVED) })?;
        Ok(Self { jpeg, state: state.map_err(failed)?, parsed: parsed.map_err(failed)?, params })
    }

    /// Reads the headers, in place of any read before; returns whether they match the codestream's.
    ///
    /// # Safety
    /// The bytes must stay valid and unwritten until they have been decoded.
    pub(super) unsafe fn parse(&mut self, bytes: &[u8], codestream: &Codestream) -> Result<bool> {
        let &NvJpeg2000 { functions, handle } = self.jpeg;
        let (parsed, metadata, stream) = (self.parsed.handle, 0, 0);
        // SAFETY: reads only the given bytes.
        let status = unsafe {
            (functions.stream_parse)(handle, bytes.as_ptr(), bytes.len(), metadata, stream, parsed)
        };
        check("read the headers", status)?;
        let mut image = ImageInfo::default();
        // SAFETY: writes one structure to the place given.
        check("describe the picture", unsafe { (functions.image_info)(parsed, &raw mut image) })?;
        let Codestream { width, height, components, bits, is_signed, .. } = *codestream;
        let mut is_same = (image.width, image.height, image.components) == (width, height, components);
        for number in 0..components.min(image.components) {
            let mut component = ComponentInfo::default();
            // SAFETY: as above; there is such a component.
            let status = unsafe { (functions.component_info)(parsed, &raw mut component, number) };
            check("describe a component", status)?;
            is_same &= (component.width, component.height) == (width, height)
                && u32::from(component.bits) == bits
                && (component.is_signed != 0) == is_signed;
        }
        Ok(is_same)
    }

    /// Decodes the codestream with the headers that were read last, into device memory.
    ///
    /// # Safety
    /// The headers must be of this codestream. There must be room at `at` for its samples, and this
    /// memory must have no other use until the stream is through.
    pub(super) unsafe fn decode(
        &mut self,
        codestream: &Codestream,
        at: Address,
        stream: &Stream,
    ) -> Result<()> {
        let &NvJpeg2000 { functions, handle } = self.jpeg;
        let row =
            codestream.width as usize * codestream.components as usize * codestream.sample_bytes as usize;
        let kind = match (codestream.sample_bytes, codestream.is_signed) {
            (1, _) => UINT8,
            (_, false) => UINT16,
            (_, true) => INT16,
        };
        let (mut data, mut pitch) = ([at as *mut c_void; 4], [row; 4]);
        let mut image = Image {
            data: data.as_mut_ptr(),
            pitch: pitch.as_mut_ptr(),
            kind,
            components: codestream.components,
        };
        // SAFETY: all handles are of one library; the rest is guaranteed by the caller.
        check("decode", unsafe {
            (functions.decode)(
                handle,
                self.state.handle,
                self.parsed.handle,
                self.params.handle,
                &raw mut image,
                stream.0.cast(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_the_library_is_missing_or_too_new_is_said() {
        // No library is as old as CUDA 1. Without any, the reason names the places of the search,
        // and a source of the library.
        let reason = version(1000).unwrap_err();
        assert!(
            reason.contains("`pip install nvidia-nvjpeg2k-cu13`") || reason.contains("needs CUDA"),
            "{reason}"
        );
    }
}
