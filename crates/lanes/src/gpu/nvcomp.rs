//! Bindings to the part of nvCOMP that the worker needs: streams of deflate, many at once.
//!
//! The library is loaded on first use and stays loaded; without it, histeqd builds, starts and
//! works.
#![allow(unsafe_code)]

mod library;

use std::ffi::c_void;

use super::driver::{Address, Stream};
use super::library::{CallError, Status};
use library::{CompressOptions, DecompressOptions, Functions, load};

type Result<T> = std::result::Result<T, CallError>;

const fn text(status: Status) -> &'static str {
    match status {
        10 => "invalid value",
        11 => "not supported",
        18 => "too many bytes in a stream",
        21 => "too many streams",
        1000 => "error of CUDA",
        10000 => "internal error",
        _ => "unknown",
    }
}

fn failed(action: &'static str, status: Status) -> CallError {
    let is_out_of_memory = false;
    CallError { library: "nvCOMP", action, what: text(status), status, is_out_of_memory }
}

fn check(action: &'static str, status: Status) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(action, status)) }
}

/// Returns the version of nvCOMP, or the reason why it cannot be used.
pub(super) fn version(driver_cuda: u32) -> std::result::Result<String, String> {
    load(driver_cuda).map(|(_, version)| version)
}

/// nvCOMP, for the current context of the calling thread.
pub(super) struct NvComp(&'static Functions);

/// Streams and their data in device memory, for exclusive use.
///
/// Fields named `at_…` are addresses of lists.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    /// The number of streams.
    pub(super) count: usize,
    /// The most bytes of data of a stream.
    pub(super) most: usize,
    /// Addresses and lengths of the inputs.
    pub(super) at_inputs: Address,
    pub(super) at_input_lengths: Address,
    /// Addresses, greatest lengths and actual lengths of the outputs.
    pub(super) at_outputs: Address,
    pub(super) at_rooms: Address,
    pub(super) at_output_lengths: Address,
    /// A status of four bytes for each stream.
    pub(super) at_statuses: Address,
    /// Working memory.
    pub(super) workspace: (Address, usize),
}

impl NvComp {
    pub(super) fn open(driver_cuda: u32) -> std::result::Result<Self, String> {
        load(driver_cuda).map(|(functions, _)| Self(functions))
    }

    /// Returns the bytes of memory that inflating takes in addition to streams and data.
    pub(super) fn inflate_workspace(&self, count: usize, most: usize, stream: &Stream) -> Result<usize> {
        let mut bytes = 0;
        let (options, all) = (DecompressOptions::CUDA, count * most);
        // SAFETY: writes a number to the place given.
        let status =
            unsafe { (self.0.decompress_room)(count, most, options, &raw mut bytes, all, stream.0.cast()) };
        check("size the memory for inflating", status)?;
        Ok(bytes)
    }

    /// Inflates streams.
    ///
    /// # Safety
    /// The batch must describe device memory for exclusive use until the stream is through.
    pub(super) unsafe fn inflate(&self, batch: &Batch, stream: &Stream) -> Result<()> {
        let (workspace, bytes) = batch.workspace;
        // SAFETY: guaranteed by the caller.
        check("inflate", unsafe {
            (self.0.decompress)(
                at(batch.at_inputs),
                at(batch.at_input_lengths),
                at(batch.at_rooms),
                at(batch.at_output_lengths),
                batch.count,
                at(workspace),
                bytes,
                at(batch.at_outputs),
                DecompressOptions::CUDA,
                at(batch.at_statuses),
                stream.0.cast(),
            )
        })
    }

    /// Returns the most bytes of a stream of `most` bytes of data.
    pub(super) fn room_for_stream(&self, most: usize) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: writes a number to the place given.
        let status = unsafe { (self.0.room_for_stream)(most, CompressOptions::ENTROPY_ONLY, &raw mut bytes) };
        check("size a stream", status)?;
        Ok(bytes)
    }

    /// As [`NvComp::inflate_workspace`], for deflating.
    pub(super) fn deflate_workspace(&self, count: usize, most: usize, stream: &Stream) -> Result<usize> {
        let mut bytes = 0;
        let (options, all) = (CompressOptions::ENTROPY_ONLY, count * most);
        // SAFETY: writes a number to the place given.
        let status =
            unsafe { (self.0.compress_room)(count, most, options, &raw mut bytes, all, stream.0.cast()) };
        check("size the memory for deflating", status)?;
        Ok(bytes)
    }

    /// Deflates data.
    ///
    /// # Safety
    /// As for [`NvComp::inflate`].
    pub(super) unsafe fn deflate(&self, batch: &Batch, stream: &Stream) -> Result<()> {
        let (workspace, bytes) = batch.workspace;
        // SAFETY: guaranteed by the caller.
        check("deflate", unsafe {
            (self.0.compress)(
                at(batch.at_inputs),
                at(batch.at_input_lengths),
                batch.most,
                batch.count,
                at(workspace),
                bytes,
                at(batch.at_outputs),
                at(batch.at_output_lengths),
                CompressOptions::ENTROPY_ONLY,
                at(batch.at_statuses),
                stream.0.cast(),
            )
        })
    }
}

/// Returns an address as the library takes it.
const fn at(address: Address) -> *mut c_void {
    address as *mut c_void
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_the_library_is_missing_or_too_new_is_said() {
        // No library is as old as CUDA 1. Without a library, the reason lists the places searched
        // and the package.
        let reason = version(1000).unwrap_err();
        assert!(
            reason.contains("`pip install nvidia-libnvcomp-cu13`") || reason.contains("needs CUDA"),
            "{reason}"
        );
    }
}
