//! The keys of the watching service, resolved.

use super::layers::key;
use super::{Folder, InputFile, Listen, OrAuto, Service, Wait, Written};

/// Returns the service's settings from these keys, each of which has a value.
pub(super) fn service(resolved: &Written) -> Service {
    Service {
        settle: key(resolved.settle).0,
        rescan: key(resolved.rescan).0,
        poll: match key(resolved.poll) {
            OrAuto::Auto => None,
            OrAuto::Fixed(Wait(time)) => Some(time),
        },
        after: key(resolved.after.clone()),
        on_collision: key(resolved.on_collision),
        failed: Option::from(key(resolved.failed.clone())).map(|Folder(path)| path),
        state: match key(resolved.state.clone()) {
            OrAuto::Auto => None,
            OrAuto::Fixed(Folder(path)) => Some(path),
        },
        listen: Option::from(key(resolved.listen.clone())).map(|Listen(address)| address),
        listen_names: key(resolved.listen_name.clone()),
        notify: Option::from(key(resolved.notify.clone())),
        notify_quiet: key(resolved.notify_quiet).0,
        token_file: Option::from(key(resolved.token_file.clone())).map(|InputFile(path)| path),
    }
}
