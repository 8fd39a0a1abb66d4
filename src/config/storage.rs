//! What object storage is used for, and what not.

use std::path::Path;

use store::Url;

use super::Request;

/// The share of the memory that objects on their way take, of so many.
pub(super) const SHARE: u64 = 4;

/// Returns whether any input or output is in object storage.
pub(super) fn is_named(request: &Request) -> bool {
    paths(request).any(store::is_url)
}

fn paths(request: &Request) -> impl Iterator<Item = &Path> {
    request.inputs.iter().chain([&request.out]).map(AsRef::as_ref)
}

/// Checks the URLs of a run.
///
/// # Errors
/// A sentence for the user, about one that cannot be used, or not in this way.
pub(super) fn check(request: &Request) -> Result<(), String> {
    for path in paths(request).filter(|path| store::is_url(path)) {
        let url = Url::parse(path).map_err(|why| why.to_string())?;
        if request.watch {
            return Err(format!(
                "{url}: --watch needs local folders; to follow object storage, run the same command without --watch again and again: \
                 it does only what is new"
            ));
        }
    }
    if request.resume && store::is_url(&request.out) {
        return Err(
            "--resume needs a local output folder; outputs in object storage carry what it would record, so leave it out".to_owned()
        );
    }
    Ok(())
}

/// Refuses a URL where only a local file or folder can be.
///
/// # Errors
/// A sentence that names it.
pub(crate) fn refuse_url(path: &str) -> Result<(), String> {
    if store::is_url(Path::new(path)) {
        return Err(format!("{path} is a URL, and this has to be on this machine or mounted here"));
    }
    Ok(())
}
