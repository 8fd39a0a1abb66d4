//! Safe calls of libjpeg (the libjpeg-turbo inside mozjpeg): the one place where codecs touch C.
//!
//! libjpeg reports errors through a callback that must not return. Here it unwinds, by [`resume_unwind`], through libjpeg's frames
//! (compiled for it: mozjpeg-sys's feature `unwinding`) to the [`catch_unwind`] around every sequence of calls. libjpeg's memory lives
//! in pools that go when its object is destroyed, so nothing leaks on the way.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{mem, ptr};

use mozjpeg_sys::{
    J_COLOR_SPACE, JERR_OUT_OF_MEMORY, JWRN_ADOBE_XFORM, JWRN_BOGUS_PROGRESSION, JWRN_EXTRANEOUS_DATA,
    JWRN_JFIF_MAJOR, jpeg_common_struct, jpeg_component_info, jpeg_decompress_struct, jpeg_error_mgr,
    jpeg_std_error,
};

mod read;
mod write;

pub(super) use read::Reader;
#[cfg(test)]
pub(super) use write::write_refined;
pub(super) use write::{Frame, MOST_QUANT, Pixels, Tables, write};

/// The side of a block of coefficients, in samples.
pub(super) const BLOCK: usize = 8;

/// How many rows of packed pixels pass in one call: the most that libjpeg handles at a time.
const ROWS: usize = 16;

/// What libjpeg said when it gave up.
#[derive(Debug)]
pub(super) struct Fault {
    /// libjpeg's text.
    pub(super) message: String,
    /// Whether memory ran out, rather than the data being wrong.
    pub(super) out_of_memory: bool,
}

impl Fault {
    pub(super) fn out_of_memory() -> Self {
        Self { message: String::new(), out_of_memory: true }
    }
}

/// The colour spaces of a JPEG that are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Gray,
    Rgb,
    YCbCr,
}

impl Space {
    const fn to_libjpeg(self) -> J_COLOR_SPACE {
        match self {
            Self::Gray => J_COLOR_SPACE::JCS_GRAYSCALE,
            Self::Rgb => J_COLOR_SPACE::JCS_RGB,
            Self::YCbCr => J_COLOR_SPACE::JCS_YCbCr,
        }
    }

    pub(super) const fn components(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb | Self::YCbCr => 3,
        }
    }
}

/// A quantization table in natural order.
pub(super) type QuantTable = [u16; 64];

/// Where the samples of one component lie: `rows` rows of `width` samples, one after the other. libjpeg works in whole blocks; a plane
/// whose width is not whole blocks passes through a band of rows that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane<D> {
    pub(super) data: D,
    pub(super) width: usize,
    pub(super) rows: usize,
}

/// An error manager that unwinds, and the memory that libjpeg's text about an error needs.
fn error_manager() -> jpeg_error_mgr {
    // SAFETY: the struct is plain data of C, and zero (no functions, no message) is a valid value of every field.
    let mut manager: jpeg_error_mgr = unsafe { mem::zeroed() };
    // SAFETY: `jpeg_std_error` only fills in the struct that it is given.
    unsafe { jpeg_std_error(&mut manager) };
    manager.error_exit = Some(error_exit);
    manager.emit_message = Some(emit_message);
    manager.output_message = Some(output_message);
    manager
}

unsafe extern "C-unwind" fn error_exit(object: &mut jpeg_common_struct) {
    // SAFETY: libjpeg calls this with the object whose error manager is ours, and it has just set the message.
    let fault = unsafe { fault(object) };
    resume_unwind(Box::new(fault))
}

/// Receives warnings (`level` below 0), which mean damaged data, and traces.
unsafe extern "C-unwind" fn emit_message(object: &mut jpeg_common_struct, level: c_int) {
    const EOI: u32 = 0xd9;
    if level >= 0 {
        return;
    }
    // SAFETY: as in `error_exit`.
    let manager = unsafe { &*object.err };
    let harmless = match manager.msg_code as _ {
        JWRN_ADOBE_XFORM | JWRN_BOGUS_PROGRESSION | JWRN_JFIF_MAJOR => true,
        // Garbage before the first scan, where whatever matters would be missed, or padding behind the last, which some cameras
        // write; anywhere else it is damage.
        // SAFETY: only decompressors warn of this, and a decompressor begins with the common fields.
        JWRN_EXTRANEOUS_DATA => unsafe {
            let info = ptr::from_ref(object).cast::<jpeg_decompress_struct>();
            (*info).input_scan_number == 0 || manager.msg_parm._bindgen_data_[1] == EOI
        },
        _ => false,
    };
    if !harmless {
        // SAFETY: as in `error_exit`.
        let fault = unsafe { fault(object) };
        resume_unwind(Box::new(fault))
    }
}

/// libjpeg would print to standard error.
unsafe extern "C-unwind" fn output_message(_: &mut jpeg_common_struct) {}

/// Puts libjpeg's current message into words.
///
/// # Safety
/// `object` must have an error manager of [`error_manager`] with a message set.
unsafe fn fault(object: &mut jpeg_common_struct) -> Fault {
    // The binding has the wrong type for the buffer, which jpeglib.h calls `char *buffer` and wants to be 200 bytes.
    type FormatMessage = unsafe extern "C-unwind" fn(*mut jpeg_common_struct, *mut u8);
    let mut text = [0u8; 200];
    // SAFETY: the manager is alive as long as the object, and `jpeg_std_error` has set `format_message`, whose true C type is
    // `FormatMessage`; it writes a C string of at most 200 bytes.
    let out_of_memory = unsafe {
        let manager = object.err;
        if let Some(format) = (*manager).format_message {
            let format: FormatMessage = mem::transmute(format);
            format(ptr::from_mut(object), text.as_mut_ptr());
        }
        (*manager).msg_code as u32 == JERR_OUT_OF_MEMORY as u32
    };
    let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Fault { message: String::from_utf8_lossy(&text[..length]).into_owned(), out_of_memory }
}

/// Runs calls of libjpeg; an error of libjpeg comes back as such, any other panic goes on.
fn catch<T>(calls: impl FnOnce() -> T) -> Result<T, Fault> {
    // After a fault the object can only be destroyed, and what it was writing is void.
    catch_unwind(AssertUnwindSafe(calls)).map_err(|payload| match payload.downcast::<Fault>() {
        Ok(fault) => *fault,
        Err(panic) => resume_unwind(panic),
    })
}

/// Rows of one component on their way between libjpeg, which wants `padded` samples a row, and a plane.
struct Band {
    padded: usize,
    /// Rows a call.
    rows: usize,
    samples: Vec<u8>,
}

impl Band {
    fn new(component: &jpeg_component_info) -> Self {
        let padded = component.width_in_blocks as usize * BLOCK;
        let rows = component.v_samp_factor as usize * BLOCK;
        Self { padded, rows, samples: vec![0; padded * rows] }
    }

    fn row(&mut self, row: usize) -> &mut [u8] {
        &mut self.samples[row * self.padded..][..self.padded]
    }
}
