//! The exceptions that more than one function raises.

use arrays::Error;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Returns the exception for a failure of the GPU.
pub(crate) fn failed(error: Error) -> PyErr {
    match error {
        Error::Cuda(error) if error.is_out_of_memory() => PyMemoryError::new_err(error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Returns the exception for an argument that `histeqd/*.py` should have refused, in words for
/// users.
///
/// Memory is touched only after these checks.
pub(crate) fn unchecked(name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{name}: does not fit, and was not refused before; please report this as a fault of histeqd"
    ))
}
