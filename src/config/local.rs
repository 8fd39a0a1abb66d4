//! Paths that have to be on this machine.

use std::path::Path;

/// Refuses a URL where only a local file or folder will do.
///
/// # Errors
/// A sentence that names it.
pub(crate) fn refuse_url(path: &str) -> Result<(), String> {
    if store::is_url(Path::new(path)) {
        return Err(format!("{path} is a URL; a local or mounted path is needed"));
    }
    Ok(())
}
