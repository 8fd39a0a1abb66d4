//! `histeqd.toml` in an input folder: keys for the pictures below it, checked like those of the
//! configuration file.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::file::{self, ConfigError};
use super::keys::{self, Role};
use super::written::{Written, table};
use crate::fs::beneath;
use crate::fs::paths::Shown;
use crate::selection::FOLDER_SETTINGS;

/// The most bytes that such a file may have.
const LONGEST: u64 = 64 << 10;

/// Why the settings of a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file in the folder, or in a folder above it, cannot be used.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The combination with the other settings is invalid.
    #[error("{}: {why}", Shown(path))]
    Unfit {
        /// The innermost of the files.
        path: PathBuf,
        /// The reason, as a sentence.
        why: String,
    },
}

/// Reads the settings file of a folder; `None` if it has none.
///
/// Only a regular file is read: a link is not followed.
///
/// # Errors
/// When the file exists and cannot be used.
pub(crate) fn read(folder: &Path) -> Result<Option<Written>, ConfigError> {
    let path = folder.join(FOLDER_SETTINGS);
    match content(folder) {
        Ok(text) => parse(&path, &text).map(Some),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

fn content(folder: &Path) -> io::Result<String> {
    let file = beneath::Folder::open(folder, Path::new(""))?.read(FOLDER_SETTINGS)?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(io::Error::other(format!("it is longer than {} KiB", LONGEST >> 10))),
    }
}

/// Parses `text` as the content of the file `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Written, ConfigError> {
    let written = file::parse(path, text)?;
    match table(&written).keys().find(|key| !is_allowed(key)) {
        Some(key) => Err(file::not_of_folders(path, text, key)),
        None => Ok(written),
    }
}

/// Returns whether a folder may set this key.
fn is_allowed(name: &str) -> bool {
    keys::of(Role::Output).chain(keys::of(Role::Preset)).any(|key| key.name == name && !key.is_elsewhere)
}

/// Returns the keys that a folder cannot set, whatever its preset, with their values in a run with
/// the keys that are `written`.
pub(super) fn beyond_folders(written: &Written) -> Written {
    let mut run = table(&written.clone().completed());
    run.retain(|key, _| !is_allowed(key));
    run.try_into().expect("keys and values are a table")
}

/// Returns the metadata of a folder's settings file, without following a link.
///
/// # Errors
/// When there is no such file, or it cannot be examined.
pub(crate) fn metadata(folder: &Path) -> io::Result<fs::Metadata> {
    fs::symlink_metadata(folder.join(FOLDER_SETTINGS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::written::keys;

    fn said(text: &str) -> Result<Written, String> {
        parse(Path::new("in/histeqd.toml"), text).map_err(|why| why.to_string())
    }

    #[test]
    fn a_folder_sets_what_outputs_look_like_and_nothing_else() {
        let defaults = table(&Written::defaults());
        for key in keys() {
            let text = format!("# mine\n{key} = {}\n", defaults[&key]);
            let is_allowed = key == "preset"
                || keys::of(Role::Output).any(|of_outputs| of_outputs.name == key)
                    && !["reference", "lut", "mask", "jpeg", "deflate"].contains(&key.as_str());
            let expected = format!(
                "in/histeqd.toml:2: `{key}` cannot be set by a folder, only by the configuration file or --{key}"
            );
            assert_eq!(said(&text).map(drop), if is_allowed { Ok(()) } else { Err(expected) });
        }
    }

    #[test]
    fn mistakes_are_told_as_those_of_the_configuration_file() {
        for (text, told) in [
            ("\nmehtod = 'clahe'", "in/histeqd.toml:2: unknown key `mehtod`; did you mean `method`?"),
            ("tiles = [8, 8]", "in/histeqd.toml:1: tiles: must be a string or a number, such as \"8x8\""),
            ("[folder]\nmethod = 'clahe'", "in/histeqd.toml:1: unknown key `folder`; "),
        ] {
            let why = said(text).unwrap_err();
            assert!(why.starts_with(told), "{why}");
        }
    }

    #[test]
    fn whatever_is_written_is_read_or_refused() {
        let text = "# µ\nmethod = 'clahe'\n\"clip-limit\" = 2.5\ntiles = '4x4'\nformat = \"png\"\ntogether = 'page'\n\n";
        assert!(said(text).is_ok());
        let mut state = 42_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random(3) {
                let at = random(bytes.len().max(1));
                match random(3) {
                    0 => bytes[at] = b"[]{}='\"\n.#\\\xc2e0-"[random(15)],
                    1 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            match said(&String::from_utf8_lossy(&bytes)) {
                Ok(_) => read += 1,
                Err(why) => {
                    assert!(why.starts_with("in/histeqd.toml:"), "{why}");
                    refused += 1;
                }
            }
        }
        assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
    }
}
