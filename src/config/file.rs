//! The configuration file: which one is read, and what is said when it cannot be.

use std::env;
use std::path::{Path, PathBuf};

use super::Written;
use crate::paths::Shown;

/// Why a configuration file could not be used. Every message starts with the file, and the line where there is one.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("{}: {source}", Shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A key that histeqd does not know.
    #[error("{}:{line}: unknown key `{key}`{}", Shown(path), suggestion(nearest.as_deref()))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key as it stands there.
        key: String,
        /// The known key that it resembles.
        nearest: Option<String>,
    },
    /// Anything else: no TOML, a wrong type, a value that is not allowed.
    #[error("{}:{line}: {message}", Shown(path))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(key) => format!("; did you mean `{key}`?"),
        None => "; `histeqd --print-config --no-config` lists the keys".into(),
    }
}

/// The file that is read when none is named: `$XDG_CONFIG_HOME/histeqd/config.toml`, or the same below `~/.config`.
/// `None` when there is no such file.
pub fn default_path() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(base.join("histeqd/config.toml")).filter(|path| path.exists())
}

/// Reads a configuration file.
pub fn read(path: &Path) -> Result<Written, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Understands `text` as the content of the configuration file `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Written, ConfigError> {
    toml::from_str(text).map_err(|error| explain(path, text, &error))
}

fn explain(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let line = text[..span.start].matches('\n').count() + 1;
    let path = path.to_owned();
    if error.message().starts_with("unknown field") {
        let key = text[span].trim_matches(['"', '\'']).to_owned();
        let nearest = nearest_key(&key);
        return ConfigError::UnknownKey { path, line, key, nearest };
    }
    ConfigError::Wrong { path, line, message: error.message().trim().replace('\n', "; ") }
}

/// The known key that `key` is most likely a slip of, if any is likely.
fn nearest_key(key: &str) -> Option<String> {
    const LIKELY: f64 = 0.75;
    let normal = key.to_lowercase().replace('_', "-");
    let near = |known: &str| strsim::normalized_damerau_levenshtein(known, &normal);
    let known =
        super::written::keys().into_iter().map(|known| (near(&known).max(prefix(&known, &normal)), known));
    known
        .filter(|(likeness, _)| *likeness >= LIKELY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// A key cut short, or one with a word too many, is as good as a match.
fn prefix(known: &str, key: &str) -> f64 {
    let shortest = known.len().min(key.len());
    if shortest >= 3 && (known.starts_with(key) || key.starts_with(known)) { 0.8 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(Path::new("my.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        assert_eq!(
            message("# mine\n\nthreads = 2\ncolour = \"gray\"\n"),
            "my.toml:4: unknown key `colour`; did you mean `color`?"
        );
        assert_eq!(
            message("png_level = 'fast'"),
            "my.toml:1: unknown key `png_level`; did you mean `png-level`?"
        );
        assert_eq!(message("thread = 2"), "my.toml:1: unknown key `thread`; did you mean `threads`?");
        assert_eq!(message("\n\"mehtod\" = 2"), "my.toml:2: unknown key `mehtod`; did you mean `method`?");
    }

    #[test]
    fn a_key_like_no_other_gets_no_guess() {
        assert_eq!(
            message("wallpaper = 1"),
            "my.toml:1: unknown key `wallpaper`; `histeqd --print-config --no-config` lists the keys"
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        assert_eq!(
            message("\nthreads = true"),
            "my.toml:2: invalid type: boolean `true`, expected a string or a number"
        );
        assert!(message("\n\nmemory = \"4 apples\"").starts_with("my.toml:3: \"4 apples\" is not a size"));
        assert!(
            message("color = \"blue\"").starts_with("my.toml:1: unknown variant `blue`, expected one of")
        );
        assert!(message("include = \"*.png\"").starts_with("my.toml:1: invalid type: string"));
        assert!(message("quality = 101").starts_with("my.toml:1: "));
        assert!(message("a = 1\nthreads = = 2").starts_with("my.toml:2: "));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let why = read(Path::new("/nowhere/histeqd.toml")).unwrap_err().to_string();
        assert!(why.starts_with("/nowhere/histeqd.toml: "), "{why}");
    }
}
