//! The configuration file: its place, and the error messages if it cannot be used.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{LinksChoice, Written, written};
use crate::fs::paths::Shown;
use crate::selection::{Links, Selection};

/// More bytes than any configuration file has: a longer one is a file of another kind, or endless.
const LONGEST: u64 = 1 << 20;

/// Why a configuration file could not be used. Every message names the file, and the line and the
/// key if they are known.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("the configuration file {} cannot be read: {source}", Shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A key that histeqd does not know.
    #[error("{}:{line}: unknown key `{key}`{}", Shown(path), suggestion(key, nearest.as_deref()))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key as written in the file.
        key: String,
        /// The known key that it resembles, if any.
        nearest: Option<String>,
    },
    /// A key that histeqd knows, in the file of a folder, which cannot set it.
    #[error(
        "{}:{line}: `{key}` cannot be set by a folder, only by the configuration file or --{key}",
        Shown(path)
    )]
    NotOfFolders {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// Anything else: invalid TOML, a wrong type, a value that is not allowed.
    #[error("{}:{line}: {message}", Shown(path))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The problem.
        message: String,
    },
}

fn suggestion(key: &str, nearest: Option<&str>) -> String {
    match nearest {
        _ if key == "deterministic" => "; `jpeg = \"cpu\"` and `deflate = \"cpu\"` do the same".into(),
        _ if key == "split-channels" => "; it is only a flag, --split-channels".into(),
        Some(key) => format!("; did you mean `{key}`?"),
        None => "; `histeqd --print-config --no-config` lists the keys".into(),
    }
}

/// Returns the file that is read by default: `$XDG_CONFIG_HOME/histeqd/config.toml`, or the same
/// below `~/.config`. `None` if it does not exist.
pub fn default_path() -> Option<PathBuf> {
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(base.join("histeqd/config.toml")).filter(|path| path.exists())
}

/// Returns an environment variable's value if it is an absolute path.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Reads a configuration file.
pub fn read(path: &Path) -> Result<Written, ConfigError> {
    let text = content(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

fn content(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(io::Error::other("it is too long for a configuration")),
    }
}

/// Parses `text` as the content of the configuration file `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Written, ConfigError> {
    let mut written: Written = toml::from_str(text).map_err(|error| explain(path, text, &error))?;
    if written.follow.take() == Some(true) {
        written.links.get_or_insert(LinksChoice::Follow);
    }
    for (key, globs) in [("include", &written.include), ("exclude", &written.exclude)] {
        let built = Selection::new(globs.as_deref().unwrap_or_default(), &[], Links::default());
        built.map_err(|why| wrong(path, text, place_of(key, text), format!("{key}: {why}")))?;
    }
    Ok(written)
}

fn explain(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    if error.message().starts_with("unknown field") {
        let (line, key) = (line_at(text, span.start), text[span].trim_matches(['"', '\'']).to_owned());
        let nearest = nearest_key(&key);
        return ConfigError::UnknownKey { path: path.to_owned(), line, key, nearest };
    }
    let told = error.message().trim().replace('\n', "; ");
    let message = match entry_at(text, span.start) {
        Some((key, value)) => format!("{key}: {}", wanted(&key, &value).unwrap_or(told)),
        None => told,
    };
    wrong(path, text, span.start, message)
}

fn wrong(path: &Path, text: &str, at: usize, message: String) -> ConfigError {
    ConfigError::Wrong { path: path.to_owned(), line: line_at(text, at), message }
}

/// Returns the error for a key that the file of a folder cannot set.
pub(super) fn not_of_folders(path: &Path, text: &str, key: &str) -> ConfigError {
    let line = line_at(text, place_of(key, text));
    ConfigError::NotOfFolders { path: path.to_owned(), line, key: key.to_owned() }
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the key and the value at a byte offset of the text.
///
/// `None` if there is no entry, or the text is not valid TOML.
fn entry_at(text: &str, at: usize) -> Option<(String, DeValue<'_>)> {
    let table = DeTable::parse(text).ok()?.into_inner();
    let (key, value) =
        table.into_iter().find(|(key, value)| (key.span().start..value.span().end).contains(&at))?;
    Some((key.into_inner().into_owned(), value.into_inner()))
}

/// Returns the byte offset of a key in the text; 0 if it cannot be found.
fn place_of(key: &str, text: &str) -> usize {
    let table = DeTable::parse(text).ok();
    let known = table.and_then(|table| table.get_ref().get_key_value(key).map(|(key, _)| key.span().start));
    known.unwrap_or(0)
}

/// Describes the values that a key takes, for a value of the wrong type or outside its choices.
///
/// `None` if the parser's own message about the value is more specific.
fn wanted(key: &str, value: &DeValue<'_>) -> Option<String> {
    let (default, choices) = (written::default(key)?, written::choices(key));
    let is_plain = matches!(value, DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_));
    match default {
        toml::Value::Array(_) => Some("must be a list, such as [\"*.jpg\"]".into()),
        toml::Value::Boolean(_) => Some("must be true or false".into()),
        _ if !choices.is_empty() => Some(format!("must be one of {}", choices.join(", "))),
        _ if is_plain => None,
        default => Some(format!("must be a string or a number, such as {default}")),
    }
}

/// Returns the known key that `key` is most likely a typo of, if there is a likely one.
fn nearest_key(key: &str) -> Option<String> {
    nearest(&key.to_lowercase().replace('_', "-"), written::keys())
}

/// Returns the known word that `word` is most likely a typo of, if there is a likely one.
pub(crate) fn nearest(word: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    const LIKELY: f64 = 0.75;
    known
        .into_iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(&known, word).max(prefix(&known, word)), known))
        .filter(|(likeness, _)| *likeness >= LIKELY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Rates a word that is cut short or has something appended: it is as good as a match.
fn prefix(known: &str, word: &str) -> f64 {
    let shortest = known.len().min(word.len());
    if shortest >= 3 && (known.starts_with(word) || word.starts_with(known)) { 0.8 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(Path::new("my.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn what_never_ends_is_no_configuration() {
        let why = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(
            why,
            "the configuration file /dev/zero cannot be read: it is too long for a configuration"
        );
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
    fn a_flag_that_is_no_key_is_known_and_what_does_the_same() {
        assert_eq!(
            message("deterministic = true"),
            "my.toml:1: unknown key `deterministic`; `jpeg = \"cpu\"` and `deflate = \"cpu\"` do the same"
        );
        assert_eq!(
            message("split-channels = true"),
            "my.toml:1: unknown key `split-channels`; it is only a flag, --split-channels"
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line_and_key() {
        let cases = [
            ("\nthreads = true", "2: threads: must be a string or a number, such as \"auto\""),
            ("tiles = [8,\n8]", "1: tiles: must be a string or a number, such as \"8x8\""),
            ("\"tiles\" = { x = 8 }", "1: tiles: must be a string or a number, such as \"8x8\""),
            ("method = 3", "1: method: must be one of \"global\", \"stretch\", \"match\", \"clahe\""),
            ("color = 'purple'", "1: color: must be one of \"luma\", \"hue\", \"lab\", \"per-channel\", "),
            ("overwrite = 'yes'", "1: overwrite: must be true or false"),
            ("links = 'yes'", "1: links: must be one of \"auto\", \"follow\", \"inside\", \"never\""),
            ("include = '*.png'", "1: include: must be a list, such as [\"*.jpg\"]"),
            ("quality = 3\nexclude = [\n3]", "3: exclude: must be a list, such as [\"*.jpg\"]"),
            ("quality = 101", "1: quality: \"101\" is neither keep nor a number from 1 to 100"),
            ("# globs\nexclude = ['[']", "2: exclude: the glob \"[\" is invalid: "),
        ];
        for (text, told) in cases {
            let why = message(text);
            assert!(why.starts_with(&format!("my.toml:{told}")), "{text}: {why}");
        }
        assert!(
            message("\n\nmemory = \"4 apples\"").starts_with("my.toml:3: memory: \"4 apples\" is not a size")
        );
        assert!(message("a = 1\nthreads = = 2").starts_with("my.toml:2: "));
    }

    #[test]
    fn links_are_followed_by_the_key_of_old_files_too() {
        let links = |text: &str| parse(Path::new("my.toml"), text).unwrap().links;
        assert_eq!(links("follow = true"), Some(LinksChoice::Follow));
        assert_eq!(links("follow = false"), None);
        assert_eq!(links("follow = true\nlinks = 'never'"), Some(LinksChoice::Never));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let why = read(Path::new("/nowhere/my.toml")).unwrap_err().to_string();
        assert!(
            why.starts_with("the configuration file /nowhere/my.toml cannot be read: No such file"),
            "{why}"
        );
    }
}
