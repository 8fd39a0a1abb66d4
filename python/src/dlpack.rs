//! Tensors in the memory of GPUs, lent to this module and by it through DLPack.
//!
//! See <https://dmlc.github.io/dlpack/latest/>.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use arrays::{Address, Gpu};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::failed;

/// `kDLCUDA` and `kDLCUDAManaged`.
const CUDA: [i32; 2] = [2, 13];

const NAME: &CStr = c"dltensor";
const USED_NAME: &CStr = c"used_dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";
const USED_VERSIONED_NAME: &CStr = c"used_dltensor_versioned";

/// The flag of a tensor that must not be written.
const READ_ONLY: u64 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

#[repr(C)]
struct DlManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// The content of a capsule, which has to be given back.
enum Managed {
    Legacy(NonNull<DlManagedTensor>),
    Versioned(NonNull<DlManagedTensorVersioned>),
}

impl Managed {
    /// Takes it out of a capsule.
    fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let take = |name: &CStr, used: &CStr| {
            // SAFETY: the capsule is one, and the names live as long as the program.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
                    return Ok(None);
                }
                let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
                if ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
                    return Err(PyErr::fetch(capsule.py()));
                }
                Ok(NonNull::new(managed))
            }
        };
        if let Some(managed) = take(VERSIONED_NAME, USED_VERSIONED_NAME)? {
            return Ok(Self::Versioned(managed.cast()));
        }
        let managed = take(NAME, USED_NAME)?;
        managed
            .map(|managed| Self::Legacy(managed.cast()))
            .ok_or_else(|| PyTypeError::new_err("__dlpack__ does not return a fresh DLPack capsule"))
    }

    /// Returns the tensor, and whether it must not be written.
    fn tensor(&self) -> PyResult<(&DlTensor, bool)> {
        match self {
            // SAFETY: the maker of the capsule keeps its content until the deleter is called.
            Self::Legacy(managed) => Ok((unsafe { &managed.as_ref().tensor }, false)),
            Self::Versioned(managed) => {
                // SAFETY: as above; the version comes first in every version.
                if unsafe { managed.as_ref().major } != 1 {
                    return Err(PyBufferError::new_err("the tensor is of a version of DLPack other than 1"));
                }
                // SAFETY: as above.
                let managed = unsafe { managed.as_ref() };
                Ok((&managed.tensor, managed.flags & READ_ONLY != 0))
            }
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: it was taken out of its capsule: its deleter is called only here.
        unsafe {
            match self {
                Self::Legacy(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
                Self::Versioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        }
    }
}

/// A borrowed tensor in the memory of a GPU.
#[pyclass(frozen)]
pub(crate) struct Borrowed {
    _managed: Managed,
    pub(crate) at: Address,
    pub(crate) device: i32,
    pub(crate) shape: Vec<i64>,
    /// Elements from one to the next along each axis.
    pub(crate) strides: Vec<i64>,
    /// `u` or `i`, or `b` for booleans, with the bits: `u8`.
    pub(crate) dtype: String,
    pub(crate) is_read_only: bool,
}

// SAFETY: the tensor is not changed, and a deleter may be called by any thread that holds the
// interpreter, as Python drops objects.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

#[pymethods]
impl Borrowed {
    /// Takes the tensor out of the capsule that `__dlpack__` returned.
    #[new]
    fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let managed = Managed::take(capsule)?;
        let (tensor, is_read_only) = managed.tensor()?;
        if !CUDA.contains(&tensor.device.kind) {
            return Err(PyBufferError::new_err("the tensor is not in the memory of a CUDA GPU"));
        }
        let axes = usize::try_from(tensor.ndim).unwrap_or(0);
        let list = |at: *const i64| {
            // SAFETY: where there is a list, it has an entry for each axis.
            if axes == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(at, axes) }.to_vec() }
        };
        let shape = list(tensor.shape);
        let strides = if tensor.strides.is_null() { contiguous(&shape) } else { list(tensor.strides) };
        let code = match tensor.dtype.code {
            0 => "i",
            1 => "u",
            6 => "b",
            _ => "another kind of ",
        };
        let DlDataType { bits, lanes, .. } = tensor.dtype;
        let dtype = if lanes == 1 { format!("{code}{bits}") } else { format!("{code}{bits}x{lanes}") };
        let at = tensor.data as Address + tensor.byte_offset;
        let device = tensor.device.id;
        Ok(Self { at, device, shape, strides, dtype, is_read_only, _managed: managed })
    }

    #[getter]
    fn device(&self) -> i32 {
        self.device
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    #[getter]
    fn dtype(&self) -> &str {
        &self.dtype
    }
}

/// Returns the strides of a tensor without gaps.
fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut stride = 1;
    let mut strides: Vec<_> = shape
        .iter()
        .rev()
        .map(|&side| {
            let here = stride;
            stride *= side.max(1);
            here
        })
        .collect();
    strides.reverse();
    strides
}

/// A tensor that this module allocated, for any consumer of DLPack.
#[pyclass(frozen)]
pub(crate) struct Exported {
    pub(crate) device: u32,
    pub(crate) at: Address,
    shape: Vec<i64>,
    code: u8,
    bits: u8,
    /// The stream in which its content is made.
    stream: usize,
}

/// The memory of an exported tensor until it is deleted.
struct Lent {
    // The list of sides, which `managed` points to.
    _shape: Vec<i64>,
    _tensor: Py<Exported>,
    managed: DlManagedTensor,
}

impl Exported {
    /// Allocates a tensor for work in this stream. `dtype` is as in [`Borrowed`].
    pub(crate) fn new(device: u32, stream: usize, shape: Vec<i64>, dtype: &str) -> PyResult<Self> {
        let (code, bits) = match dtype {
            "u8" => (1, 8),
            "u16" => (1, 16),
            _ => (0, 64),
        };
        let elements: i64 = shape.iter().product();
        let bytes = elements as u64 * u64::from(bits) / 8;
        let gpu = Gpu::get(device).map_err(failed)?;
        // SAFETY: the stream is the one that the maker of the pictures named.
        let entered = unsafe { gpu.stream(stream) }.map_err(failed)?;
        let at = entered.allocate(bytes).map_err(failed)?;
        Ok(Self { device, at, shape, code, bits, stream })
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // In the order of the legacy default stream: the one it was made in may be gone.
        let Ok(gpu) = Gpu::get(self.device) else { return };
        // SAFETY: it is a stream of every context; a user of the tensor in other streams has waited
        // for these, as DLPack demands.
        let Ok(stream) = (unsafe { gpu.stream(1) }) else { return };
        // SAFETY: allocated by `new`, freed once.
        let _ = unsafe { stream.free(self.at) };
    }
}

#[pymethods]
impl Exported {
    /// Returns a capsule.
    ///
    /// `stream` is the one in which the consumer will use it. It is made to wait for the content.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = max_version; // a legacy capsule is taken by all
        let this = slf.get();
        let device = DlDevice { kind: CUDA[0], id: this.device as i32 };
        if copy == Some(true) || dl_device.is_some_and(|asked| asked != (device.kind, device.id)) {
            return Err(PyBufferError::new_err("it is lent where it is, and not copied"));
        }
        let consumer = stream.unwrap_or(1);
        if consumer >= 0 && consumer as usize != this.stream {
            let gpu = Gpu::get(this.device).map_err(failed)?;
            // SAFETY: both are streams of this GPU, as DLPack demands.
            unsafe { gpu.stream(this.stream).and_then(|made| made.then(consumer as usize)) }
                .map_err(failed)?;
        }
        let mut shape = this.shape.clone();
        let tensor = DlTensor {
            data: this.at as *mut c_void,
            device,
            ndim: shape.len() as i32,
            dtype: DlDataType { code: this.code, bits: this.bits, lanes: 1 },
            shape: shape.as_mut_ptr(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let managed = DlManagedTensor { tensor, context: ptr::null_mut(), deleter: Some(delete) };
        let py = slf.py();
        let mut lent = Box::new(Lent { _shape: shape, _tensor: slf.clone().unbind(), managed });
        lent.managed.context = (&raw mut *lent).cast();
        let managed = &raw mut Box::leak(lent).managed;
        // SAFETY: a capsule with the name and the content that DLPack asks for.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(delete_capsule)) };
        // SAFETY: a new reference, or null and an exception.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CUDA[0], self.device as i32)
    }
}

/// Deletes an exported tensor.
unsafe extern "C" fn delete(managed: *mut DlManagedTensor) {
    // SAFETY: the context is the box that `__dlpack__` leaked; a deleter is called once.
    let lent = unsafe { Box::from_raw((*managed).context.cast::<Lent>()) };
    // Python's objects are released by a thread that holds the interpreter.
    Python::attach(|_| drop(lent));
}

/// Deletes the content of a capsule, if it has not been taken out.
unsafe extern "C" fn delete_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule; if it still has its first name, its content was
    // not taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}
