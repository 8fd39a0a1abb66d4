//! Decides which of the inputs that were found become jobs, and which are skipped or refused.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::found::{Candidate, Found};
use super::objects;
use crate::config::{Naming, Settings};
use crate::error::{Error, PictureError, Refusal};
use crate::fs::paths::Identity;
use crate::publish::ignores_case;
use crate::source::pair::Pair;
use crate::source::plan::{Plan, Skip, Skipped};
use crate::source::several::may_be_a_picture;
use crate::source::stop::Stop;

/// Turns candidates into jobs, skips and refusals.
///
/// # Errors
/// When a store does not answer which outputs exist.
pub(super) fn plan(
    candidates: Vec<Candidate>,
    settings: &Settings,
    stop: &Stop,
    plan: &mut Plan,
) -> Result<(), Error> {
    let candidates = without_repeats(candidates);
    let inputs: HashSet<Identity> = candidates.iter().map(|candidate| candidate.found.identity).collect();
    let shared = shared_outputs(&candidates, settings);
    let inside = inputs_inside_output(settings);
    let around = |output: &Path| {
        let below = output.strip_prefix(&settings.out).ok()?;
        inside.iter().find(|(inside, _)| below.starts_with(inside)).map(|(_, folder)| folder.clone())
    };
    let mut there = objects::Outputs::find(&candidates, settings, stop)?;
    for (candidate, other) in candidates.into_iter().zip(shared).take_while(|_| !stop.asked()) {
        let stored = there.take(&candidate.telling());
        let Candidate { found, output } = candidate;
        if settings.shard.is_some_and(|shard| !shard.takes(&found.below)) {
            continue;
        }
        let own = match found.settings {
            Ok(own) => own,
            Err(_) if !may_be_a_picture(&found.input, &settings.roots) => {
                plan.skipped.push(Skipped { input: found.input, why: Skip::NotAPicture, output: None });
                continue;
            }
            Err(why) => {
                plan.failed.push((found.input, PictureError::Folder(why)));
                continue;
            }
        };
        if let Some(why) = objects::unnameable(&output) {
            plan.failed.push((found.input, Refusal::OutputName { why }.into()));
        } else if let Some(Sharer { other, separable }) = other {
            plan.failed.push((found.input, Refusal::SharedOutput { other, output, separable }.into()));
        } else if replaces_one_of(&inputs, &output, &settings.naming) {
            plan.failed.push((found.input, Refusal::ReplacesInput { output }.into()));
        } else if let Some(folder) = around(&output) {
            plan.failed.push((found.input, Refusal::InInputFolder { output, folder }.into()));
        } else {
            let Found { input, named, state, spooled, object, image, .. } = found;
            let pair = Pair { input, output, named, own, state, spooled, object, image, stored };
            match pair.job(plan.jobs.len(), settings) {
                Ok(job) => plan.jobs.push(job),
                Err(done) => plan.skipped.push(done),
            }
        }
    }
    Ok(())
}

/// Keeps the first of several paths to the same file with the same output: `inbox inbox/a.png`
/// means each picture once. If there are no outputs, links to the same file are separate pictures,
/// just as they are when each has its own output. A file that is `named` by any of the paths stays
/// so.
fn without_repeats(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen: HashMap<(Identity, PathBuf), usize> = HashMap::with_capacity(candidates.len());
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let key = (candidate.found.identity, candidate.place());
        match seen.get(&key) {
            Some(&first) => kept[first].found.named |= candidate.found.named,
            None => {
                seen.insert(key, kept.len());
                kept.push(candidate);
            }
        }
    }
    kept
}

/// Returns the input folders inside the output folder, each with its path below that.
fn inputs_inside_output(settings: &Settings) -> Vec<(PathBuf, PathBuf)> {
    if store::is_url(&settings.out) {
        return objects::inputs_inside(settings);
    }
    let Ok(out) = settings.out.canonicalize() else { return Vec::new() };
    let inside = settings.inputs.iter().filter_map(|input| {
        let folder = input.canonicalize().ok().filter(|folder| folder.is_dir())?;
        Some((folder.strip_prefix(&out).ok()?.to_owned(), input.clone()))
    });
    inside.collect()
}

/// Another input with the same output.
struct Sharer {
    other: PathBuf,
    /// Whether `--prefix-folder` would separate them.
    separable: bool,
}

/// Returns for each candidate another input that has the same output, if there is one. Where the
/// output's file system ignores case, names that differ only in case are the same; a dry run does
/// not test for that, because the test creates a file.
fn shared_outputs(candidates: &[Candidate], settings: &Settings) -> Vec<Option<Sharer>> {
    let mirrors = settings.naming == Naming::Mirror && !settings.prefix_folder;
    let pairs = candidates.iter().zip(numbers_of_sharers(candidates, settings));
    let sharers = pairs.map(|(Candidate { found: one, .. }, other)| {
        let other = &candidates[other?].found;
        let separable = mirrors && !(one.named && other.named) && one.root() != other.root();
        Some(Sharer { other: other.input.clone(), separable })
    });
    sharers.collect()
}

/// As [`shared_outputs`], but returns the numbers of the others.
fn numbers_of_sharers(candidates: &[Candidate], settings: &Settings) -> Vec<Option<usize>> {
    let shared = sharing(candidates, |output| Cow::Borrowed(output.as_os_str()));
    if settings.dry_run || store::is_url(&settings.out) {
        return shared;
    }
    let folded = sharing(candidates, |output| Cow::Owned(folded(output)));
    let root = settings.naming.root(&settings.out).unwrap_or(Path::new(""));
    let only_folded = folded.iter().zip(&shared).position(|(folded, shared)| folded != shared);
    match only_folded {
        Some(one) if ignores_case(root, &candidates[one].output) => folded,
        _ => shared,
    }
}

/// Returns for each candidate the number of another with the same key of its output, if there is
/// one.
fn sharing<'c>(candidates: &'c [Candidate], key: impl Fn(&'c Path) -> Cow<'c, OsStr>) -> Vec<Option<usize>> {
    let mut by_key: HashMap<Cow<'c, OsStr>, Vec<usize>> = HashMap::with_capacity(candidates.len());
    let with_output = candidates.iter().enumerate().filter(|(_, one)| !one.output.as_os_str().is_empty());
    for (number, candidate) in with_output {
        by_key.entry(key(&candidate.output)).or_default().push(number);
    }
    let mut shared = vec![None; candidates.len()];
    for sharers in by_key.values().filter(|sharers| sharers.len() > 1) {
        for (place, &number) in sharers.iter().enumerate() {
            shared[number] = Some(sharers[usize::from(place == 0)]);
        }
    }
    shared
}

/// Returns a path as file systems that ignore case compare it. Those of Windows also drop dots and
/// blanks at a name's end.
fn folded(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.to_lowercase().trim_end_matches(['.', ' ']).into(),
        None => path.as_os_str().to_ascii_lowercase(),
    }
}

fn replaces_one_of(inputs: &HashSet<Identity>, output: &Path, naming: &Naming) -> bool {
    if store::is_url(output) {
        return inputs.contains(&Identity::of_object(output));
    }
    let there = match naming {
        Naming::StandardOutput => standard_output_file(),
        _ => fs::symlink_metadata(output).ok(),
    };
    there.is_some_and(|metadata| inputs.contains(&Identity::of(&metadata)))
}

/// Returns the metadata of standard output, if it is a file.
fn standard_output_file() -> Option<Metadata> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    stdout.metadata().ok().filter(Metadata::is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_have_the_same_key() {
        let key = |name: &str| folded(Path::new(name));
        assert_eq!(key("out/A.PNG"), key("out/a.png"));
        assert_eq!(key("out/É/x."), key("out/é/x"));
        assert_ne!(key("out/a.png"), key("out/b.png"));
    }
}
