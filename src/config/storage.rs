//! Checks of the ways in which object storage is used.

use std::path::Path;

use store::Url;

use super::{After, Request, Service};
use crate::fs::paths::Shown;

/// The share of the memory for objects in transit: one part in this many.
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
/// A sentence for the user, about a URL that cannot be used, or not in this way.
pub(super) fn check(request: &Request, service: &Service) -> Result<(), String> {
    for path in paths(request).filter(|path| store::is_url(path)) {
        Url::parse(path).map_err(|why| why.to_string())?;
    }
    if request.resume && store::is_url(&request.out) {
        return Err(
            "--resume needs a local output folder; outputs in object storage carry that record themselves, so leave it out".to_owned()
        );
    }
    if request.files_from.is_some() && request.inputs.iter().any(|input| store::is_url(input)) {
        return Err("--files-from lists files of this machine; name objects, or folders of them, as inputs"
            .to_owned());
    }
    if request.allow_empty && !request.inputs.iter().any(|input| store::is_url(input)) {
        return Err("--allow-empty has no effect without an input in object storage".to_owned());
    }
    if request.watch && is_named(request) { check_watch(request, service) } else { Ok(()) }
}

/// Checks a service that uses object storage.
///
/// It lists folders, and neither keeps a ledger nor moves inputs.
fn check_watch(request: &Request, service: &Service) -> Result<(), String> {
    if let Some(local) = request.inputs.iter().find(|input| !store::is_url(input)) {
        return Err(format!(
            "--watch of {}: local folders cannot be watched together with object storage; run histeqd for each, with an output folder of the same kind",
            Shown(local)
        ));
    }
    let idle = [
        ("--after", service.after != After::Keep),
        ("--failed", service.failed.is_some()),
        ("--state", service.state.is_some()),
        ("--listen", service.listen.is_some()),
    ];
    match idle.iter().find(|(_, is_set)| *is_set) {
        Some((flag, _)) => Err(format!(
            "{flag} does not work with --watch of object storage: inputs stay where they are, and the outputs show what is done"
        )),
        None => Ok(()),
    }
}
