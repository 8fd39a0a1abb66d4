//! Removes the temporary files that a killed process left, while the service runs.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use tracing::info;

use crate::config::{After, Settings};
use crate::publish::{YOUNG, remove_leftovers};
use crate::service::TICK;
use crate::source::stop::Stop;

/// Returns the folders in which a killed process may have left temporary files.
pub(crate) fn written_to(settings: &Settings) -> Vec<PathBuf> {
    let archive = match &settings.service.after {
        After::Move(folder) => Some(folder),
        After::Keep | After::Delete => None,
    };
    [Some(&settings.out), archive, settings.service.failed.as_ref()].into_iter().flatten().cloned().collect()
}

/// Removes the temporary files of killed processes below `roots`, the young ones once they are
/// older than [`YOUNG`].
pub(crate) fn tidy(roots: Vec<PathBuf>, stop: &Stop) {
    let mut places: Vec<_> = roots.into_iter().map(|root| (root.clone(), root)).collect();
    while !places.is_empty() {
        let mut removed = 0;
        for (root, place) in std::mem::take(&mut places) {
            let (count, young) = remove_leftovers(&root, &place, || stop.asked());
            removed += count;
            places.extend(young.into_iter().map(|file| (root.clone(), file)));
        }
        if removed > 0 {
            info!("removed {removed} temporary files left by a process that was killed");
        }
        let until = Instant::now() + YOUNG;
        while !places.is_empty() && Instant::now() < until {
            if stop.asked() {
                return;
            }
            thread::sleep(TICK);
        }
    }
}
