//! The exceptions of failures of a GPU.

use arrays::Error;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;

/// Returns the exception for a failure of the GPU.
pub(crate) fn failed(error: Error) -> PyErr {
    match error {
        Error::Cuda(error) if error.is_out_of_memory() => PyMemoryError::new_err(error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}
