//! Safe wrappers of libjpeg (the libjpeg-turbo inside mozjpeg): the only C calls of the codecs.
//!
//! libjpeg reports errors through a callback that must not return. Here it unwinds with
//! [`resume_unwind`] through libjpeg's frames (which mozjpeg-sys's feature `unwinding` compiles for
//! that) to the [`catch_unwind`] around every sequence of calls. libjpeg's memory is in pools that
//! are freed when its object is destroyed: no memory leaks on the way.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{mem, ptr};

use mozjpeg_sys::{
    J_COLOR_SPACE, JERR_OUT_OF_MEMORY, JWRN_ADOBE_XFORM, JWRN_BOGUS_PROGRESSION, JWRN_EXTRANEOUS_DATA,
    JWRN_JFIF_MAJOR, JWRN_NOT_SEQUENTIAL, jpeg_common_struct, jpeg_decompress_struct, jpeg_error_mgr,
    jpeg_std_error,
};

mod read;
mod write;

pub(super) use read::Reader;
#[cfg(test)]
pub(super) use write::write_refined;
pub(super) use write::{Frame, MAX_QUANT, Tables, write};

/// The rows of packed pixels per call: the most that libjpeg handles at a time.
const ROWS: usize = 16;

/// A libjpeg error.
#[derive(Debug)]
pub(super) struct Fault {
    /// libjpeg's message.
    pub(super) message: String,
    /// Whether memory ran out, as opposed to invalid data.
    pub(super) out_of_memory: bool,
}

impl Fault {
    pub(super) fn out_of_memory() -> Self {
        Self { message: String::new(), out_of_memory: true }
    }
}

/// The colour spaces of the JPEGs that are read and written.
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

/// The samples of one component: `rows` contiguous rows of `width` samples.
///
/// libjpeg works in whole blocks: a plane with a width that is not a multiple of [`BLOCK`] passes
/// through a padded buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane<D> {
    pub(super) data: D,
    pub(super) width: usize,
    pub(super) rows: usize,
}

/// Returns an error manager that unwinds on errors.
fn error_manager() -> jpeg_error_mgr {
    // SAFETY: the struct is plain C data, and zero (no functions, no message) is valid for every
    // field.
    let mut manager: jpeg_error_mgr = unsafe { mem::zeroed() };
    // SAFETY: `jpeg_std_error` only fills in the struct that it is given.
    unsafe { jpeg_std_error(&mut manager) };
    manager.error_exit = Some(error_exit);
    manager.emit_message = Some(emit_message);
    manager.output_message = Some(output_message);
    manager
}

unsafe extern "C-unwind" fn error_exit(object: &mut jpeg_common_struct) {
    // SAFETY: libjpeg calls this with an object that has our error manager, and has just set the
    // message.
    let fault = unsafe { fault(object) };
    resume_unwind(Box::new(fault))
}

/// Receives warnings (a `level` below 0), which mean damaged data with few exceptions, and traces.
unsafe extern "C-unwind" fn emit_message(object: &mut jpeg_common_struct, level: c_int) {
    const EOI: u32 = 0xd9;
    if level >= 0 {
        return;
    }
    // SAFETY: as in `error_exit`.
    let manager = unsafe { &*object.err };
    let harmless = match manager.msg_code as _ {
        // The last is about numbers in a scan's header without a meaning in a sequential picture.
        JWRN_ADOBE_XFORM | JWRN_BOGUS_PROGRESSION | JWRN_JFIF_MAJOR | JWRN_NOT_SEQUENTIAL => true,
        // Harmless before the first scan, where the loss of anything important would be noticed
        // later, and before EOI, where some cameras write padding. Anywhere else it is damage.
        // SAFETY: only decompressors give this warning, and a decompressor begins with the common
        // fields.
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

/// Ignores a message that libjpeg's own function would print to standard error.
unsafe extern "C-unwind" fn output_message(_: &mut jpeg_common_struct) {}

/// Formats libjpeg's current message.
///
/// # Safety
/// `object` must have an error manager from [`error_manager`], with a message set.
unsafe fn fault(object: &mut jpeg_common_struct) -> Fault {
    // The binding has the wrong type for the buffer: jpeglib.h declares it as `char *buffer` and
    // requires 200 bytes.
    type FormatMessage = unsafe extern "C-unwind" fn(*mut jpeg_common_struct, *mut u8);
    let mut text = [0u8; 200];
    // SAFETY: the manager lives as long as the object. `jpeg_std_error` has set `format_message`,
    // with the actual C type `FormatMessage`; it writes a C string of at most 200 bytes.
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

/// Runs calls of libjpeg, and returns its error, if any.
///
/// Any other panic continues.
fn catch<T>(calls: impl FnOnce() -> T) -> Result<T, Fault> {
    // Unwind safety: after a fault the object is only good for being destroyed, and its output is
    // discarded.
    catch_unwind(AssertUnwindSafe(calls)).map_err(|payload| match payload.downcast::<Fault>() {
        Ok(fault) => *fault,
        Err(panic) => resume_unwind(panic),
    })
}
