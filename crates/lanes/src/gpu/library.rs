//! The search for NVIDIA's libraries and their functions.
//!
//! They are loaded on first use and stay loaded.

use std::ffi::{c_int, c_void};
use std::ptr;

use libloading::Library;

use crate::lane::LaneError;

/// An opaque object of a library.
pub(super) type Handle = *mut c_void;
/// A result code: 0 is success.
pub(super) type Status = c_int;
/// A function that writes one number of a version.
pub(super) type Property = unsafe extern "C" fn(c_int, *mut c_int) -> Status;

const MAJOR_VERSION: c_int = 0;
const MINOR_VERSION: c_int = 1;

/// A failed call of a library.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{library} cannot {action}: {what} ({status})")]
pub(super) struct CallError {
    pub(super) library: &'static str,
    pub(super) action: &'static str,
    /// The meaning of the status.
    pub(super) what: &'static str,
    pub(super) status: Status,
    /// Whether the library ran out of memory, and is still usable.
    pub(super) is_out_of_memory: bool,
}

impl From<CallError> for LaneError {
    fn from(error: CallError) -> Self {
        if error.is_out_of_memory { Self::Full } else { Self::Decline(error.to_string()) }
    }
}

/// The used functions of a library.
pub(super) trait Functions: Sized + 'static {
    /// Finds the functions.
    ///
    /// # Safety
    /// The library must be theirs and stay loaded.
    unsafe fn find(library: &Library) -> Result<Self, libloading::Error>;

    /// Returns the version of the library, and that of its CUDA.
    fn versions(&self) -> [Version; 2];
}

/// The major and the minor number.
pub(super) type Version = (c_int, c_int);

/// Declares a `Functions` of these functions, under the names given here.
///
/// `versions` is the function that returns the versions.
macro_rules! functions {
    ($versions:ident; $($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The used functions, under the names given here.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl crate::gpu::library::Functions for Functions {
            unsafe fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: these are the functions' types in the library's header.
                unsafe { Ok(Self { $($name: *library.get(concat!($symbol, "\0"))?,)* }) }
            }

            fn versions(&self) -> [crate::gpu::library::Version; 2] {
                self.$versions()
            }
        }
    };
}
pub(super) use functions;

/// Loads the first library of these names that the driver can run.
///
/// `driver_cuda` is the driver's CUDA version (12040 is 12.4). Returns its functions and its
/// version, or the reason why there is no such library: `absent`, if no file has such a name.
pub(super) fn load<F: Functions>(
    names: &[&str],
    absent: &str,
    driver_cuda: u32,
) -> Result<(&'static F, String), String> {
    let mut reason = absent.to_owned();
    for &name in names {
        // SAFETY: loads NVIDIA's library as any program linked with it does; its initializers are
        // safe to run.
        let library = match unsafe { Library::new(name) } {
            Ok(library) => library,
            Err(error) => {
                reason = unloadable(name, &error).unwrap_or(reason);
                continue;
            }
        };
        // SAFETY: the name identifies the library; it is never unloaded.
        let found = unsafe { F::find(Box::leak(Box::new(library))) };
        let functions = match found {
            Ok(functions) => &*Box::leak(Box::new(functions)),
            Err(error) => {
                reason = format!("{name} lacks a function: {error}");
                continue;
            }
        };
        let [version, cuda] = functions.versions();
        if cuda.0 > driver_cuda as c_int / 1000 {
            reason = format!("{name} needs CUDA {}, which the installed driver does not support", cuda.0);
            continue;
        }
        return Ok((functions, format!("{}.{}", version.0, version.1)));
    }
    Err(reason)
}

/// Returns the version from a property.
pub(super) fn version(property: Property) -> Version {
    let of = |which| {
        let mut value = 0;
        // SAFETY: writes one integer to the place given.
        unsafe { property(which, &raw mut value) };
        value
    };
    (of(MAJOR_VERSION), of(MINOR_VERSION))
}

/// Returns the reason why an existing library cannot be loaded, which users could not guess.
///
/// `None` for a library that does not exist.
fn unloadable(name: &str, error: &libloading::Error) -> Option<String> {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let is_absent = text.starts_with(&format!("{name}: cannot open shared object file: No such file"));
    (!is_absent).then(|| format!("{name} cannot be loaded: {text}"))
}

/// An object of a library, destroyed on drop.
pub(super) struct Owned {
    pub(super) handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> Status,
}

impl Owned {
    /// Makes an object by `create`, which writes its handle to the place given.
    pub(super) fn make(
        create: impl FnOnce(*mut Handle) -> Status,
        destroy: unsafe extern "C" fn(Handle) -> Status,
    ) -> Result<Self, Status> {
        let mut handle = ptr::null_mut();
        match create(&raw mut handle) {
            0 => Ok(Self { handle, destroy }),
            status => Err(status),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: created by the counterpart of this function, destroyed once. An error here stems
        // from an earlier operation.
        unsafe { (self.destroy)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn told(name: &str) -> Option<String> {
        // SAFETY: no loadable file has such a name.
        let Err(error) = (unsafe { Library::new(name) }) else { panic!("{name} is a library") };
        unloadable(name, &error)
    }

    #[test]
    fn a_library_that_is_there_and_cannot_be_loaded_is_told_of() {
        assert_eq!(told("libnvcomp.so.nowhere"), None);
        assert_eq!(told("/nowhere/libnvcomp.so"), None);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let name = file.path().to_str().unwrap();
        let told = told(name).unwrap();
        assert!(told.starts_with(&format!("{name} cannot be loaded: ")) && told.contains("ELF"), "{told}");
    }
}
