//! Files beside pictures that belong to them: their georeference, as GDAL and others write it, and
//! the metadata of photographs.
//!
//! They are no pictures, and stay where they are, which is told.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::{Naming, Settings};
use crate::fs::paths::Shown;
use crate::selection::promises_a_picture;
use crate::source::job::Job;

/// Extensions in the place of the picture's: world files, and the coordinate system.
const EXTENSIONS: [&str; 13] =
    ["tfw", "tifw", "tiffw", "jgw", "jpgw", "jpegw", "pgw", "pngw", "bpw", "gfw", "j2w", "wld", "prj"];

/// Ends of names, after the picture's with its extension or without.
const ENDS: [&str; 3] = [".aux.xml", ".xmp", "_rpc.txt"];

/// The most files that a note names.
const NAMED: usize = 3;

/// Returns a note about files beside the pictures of jobs that are not copied to their outputs.
pub(super) fn note(jobs: &[Job], settings: &Settings) -> Option<String> {
    if matches!(settings.naming, Naming::StandardOutput | Naming::Nothing) {
        return None;
    }
    let all = jobs.iter().map(|job| (&*job.input, owners(&job.input)));
    let all: Vec<_> = all.filter(|(_, owners)| !owners.is_empty()).collect();
    if all.is_empty() {
        return None;
    }
    let pictures = jobs.iter().map(|job| &*job.input).filter(|input| promises_a_picture(input));
    let pictures: HashSet<PathBuf> =
        pictures.flat_map(|input| [input.to_owned(), input.with_extension("")]).collect();
    let sidecars = all.into_iter().filter(|(_, owners)| owners.iter().any(|owner| pictures.contains(owner)));
    told(&sidecars.map(|(input, _)| input).collect::<Vec<_>>())
}

/// Returns the names, with or without extension, of pictures to which a file would belong.
fn owners(input: &Path) -> Vec<PathBuf> {
    let bytes = input.as_os_str().as_bytes();
    let before = |end: &&str| {
        let (before, own) = bytes.split_at_checked(bytes.len().checked_sub(end.len())?)?;
        own.eq_ignore_ascii_case(end.as_bytes()).then(|| OsStr::from_bytes(before).into())
    };
    let by_extension = input.extension().and_then(|own| {
        EXTENSIONS
            .iter()
            .any(|extension| own.eq_ignore_ascii_case(extension))
            .then(|| input.with_extension(""))
    });
    ENDS.iter().filter_map(before).chain(by_extension).collect()
}

fn told(sidecars: &[&Path]) -> Option<String> {
    let first = sidecars.iter().take(NAMED).map(|sidecar| Shown(sidecar).to_string());
    let names = first.collect::<Vec<_>>().join(", ");
    let more = match sidecars.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!(" and {more} more"),
        _ => String::new(),
    };
    let (files, them) = match sidecars.len() {
        0 => return None,
        1 => ("1 file beside a picture, with its georeference or metadata, is".into(), "it"),
        count => (format!("{count} files beside pictures, with their georeference or metadata, are"), "them"),
    };
    Some(format!(
        "note: {files} not copied: {names}{more}; copy {them} beside the outputs (.aux.xml without its statistics, which are those of the input)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_picture_of_its_name() {
        for (name, expected) in [
            ("in/a.tfw", &["in/a"][..]),
            ("in/a.TIFW", &["in/a"]),
            ("in/a.tif.aux.xml", &["in/a.tif"]),
            ("in/a.jpg.xmp", &["in/a.jpg"]),
            ("in/a_RPC.TXT", &["in/a"]),
            ("in/a.xml", &[]),
            ("in/a.tif", &[]),
        ] {
            assert_eq!(
                owners(Path::new(name)),
                expected.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{name}"
            );
        }
    }
}
