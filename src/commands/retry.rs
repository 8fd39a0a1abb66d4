//! `histeqd retry`: another attempt at pictures that failed for good.

use std::path::{Path, PathBuf};

use crate::cli::RetryCommand;
use crate::commands::socket::{self, Answer};
use crate::commands::status;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::ledger::{self, Ledger};
use crate::selection::{Links, Selection};

/// The longest pattern, in bytes: that of a path.
const LONGEST_PATTERN: usize = 4096;
/// The most wildcards and alternatives in the globs together: each costs time and memory.
const MOST_WILDCARDS: usize = 1000;
/// The most bytes of the globs together: characters cost memory too, as case does not matter.
const LONGEST_GLOBS: usize = 64 << 10;

/// A selection of failed pictures.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Names and paths, matched literally because a name may look like a glob. With no names and no
    /// globs, all pictures match.
    names: Vec<PathBuf>,
    globs: Option<Selection>,
}

impl Wanted {
    /// Takes names, paths, or their ends, and globs for these; an empty list selects all pictures.
    ///
    /// # Errors
    /// A sentence, when a glob is invalid or there are too many.
    pub(crate) fn new(patterns: &[String]) -> Result<Self, String> {
        if patterns.iter().any(|pattern| pattern.len() > LONGEST_PATTERN) {
            return Err(format!("a pattern is longer than {LONGEST_PATTERN} bytes, the limit of paths"));
        }
        let globs: Vec<_> = patterns.iter().filter(|pattern| wildcards(pattern) > 0).cloned().collect();
        if globs.iter().map(|glob| wildcards(glob)).sum::<usize>() > MOST_WILDCARDS {
            return Err(format!(
                "the patterns have more than {MOST_WILDCARDS} wildcards and alternatives; name fewer at a time"
            ));
        }
        if globs.iter().map(String::len).sum::<usize>() > LONGEST_GLOBS {
            return Err(format!(
                "the patterns with wildcards have more than {LONGEST_GLOBS} bytes; name fewer at a time"
            ));
        }
        let globs =
            if globs.is_empty() { None } else { Some(Selection::new(&globs, &[], Links::default())?) };
        Ok(Self { names: patterns.iter().map(PathBuf::from).collect(), globs })
    }

    /// Returns whether a picture matches.
    pub(crate) fn has(&self, input: &Path) -> bool {
        self.names.is_empty()
            || self.names.iter().any(|name| input.ends_with(name))
            || self.globs.as_ref().is_some_and(|globs| ends(input).any(|end| globs.takes_file(&end)))
    }
}

/// Returns every suffix of a path, from the whole path to the file name alone.
fn ends(path: &Path) -> impl Iterator<Item = PathBuf> {
    let parts: Vec<_> = path.components().collect();
    (0..parts.len()).map(move |first| parts[first..].iter().collect())
}

/// Counts the characters of a pattern that are special in globs, and the alternatives.
fn wildcards(pattern: &str) -> usize {
    let special: &[u8] = if pattern.contains('{') { b"*?[{\\," } else { b"*?[\\" };
    pattern.bytes().filter(|byte| special.contains(byte)).count()
}

/// Has the running service, or the next one, take up the pictures again. Returns the message for
/// the user.
///
/// # Errors
/// When there is no ledger, another run uses it, or no failed picture matches.
pub fn retry(command: &RetryCommand) -> Result<String, Error> {
    let folder = ledger::folder(command.out(), command.state.as_deref());
    let patterns = patterns(command)?;
    let wanted = Wanted::new(&patterns).map_err(Error::Usage)?;
    let body = serde_json::to_string(&patterns).expect("texts");
    let (count, who) = match socket::ask(&folder, "POST", "/retry", &body) {
        Ok(Some(Answer { status: 200, body })) => (body.parse().map_err(socket::refusal)?, "now"),
        Ok(Some(Answer { body, .. })) => return Err(socket::refusal(body.trim_end())),
        Err(error) => return Err(socket::refusal(error)),
        Ok(None) => {
            Ledger::read(&folder)?.ok_or_else(|| status::no_ledger(&folder))?;
            let (_lock, ledger, _) = ledger::take(command.out(), command.state.as_deref())?;
            (ledger.forget_failed(|input| wanted.has(input))?, "by the next --watch or --resume")
        }
    };
    match count {
        0 if patterns.is_empty() => Ok("no picture has failed for good\n".into()),
        0 => Err(Error::CannotRun(format!(
            "no failed picture matches; `histeqd status {} --failures` lists all",
            Shown(command.out())
        ))),
        1 => Ok(format!("1 picture will be retried {who}\n")),
        count => Ok(format!("{count} pictures will be retried {who}\n")),
    }
}

/// Returns a path as a pattern.
fn text(path: &Path) -> Result<String, Error> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::Usage(format!("{} is not UTF-8; use a glob", Shown(path))))
}

/// Returns the patterns, and the absolute path of each that exists relative to the current folder.
pub(crate) fn patterns(command: &RetryCommand) -> Result<Vec<String>, Error> {
    let mut patterns = Vec::new();
    for pattern in command.pictures() {
        patterns.push(text(pattern)?);
        if pattern.exists()
            && let Ok(whole) = std::path::absolute(pattern)
        {
            patterns.push(text(&whole)?);
        }
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_meant_by_name_by_the_end_of_the_path_and_by_glob() {
        let has = |patterns: &[&str], input: &str| {
            let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            Wanted::new(&patterns).unwrap().has(Path::new(input))
        };
        let input = "/srv/in/2024/a[1].PNG";
        for pattern in ["a[1].PNG", "2024/a[1].PNG", input, "*.png", "2024/*", "in/**", "b.png\0"] {
            assert_eq!(has(&[pattern], input), pattern != "b.png\0", "{pattern}");
        }
        assert!(has(&[], input));
        assert!(!has(&["[1].PNG"], input) && !has(&["024/*"], input));
        assert!(Wanted::new(&["[".into()]).is_err());
    }

    #[test]
    fn patterns_that_would_take_long_are_refused() {
        assert!(Wanted::new(&["*".repeat(900_000)]).unwrap_err().contains("longer than"));
        assert!(Wanted::new(&vec!["*?".to_owned(); 600]).unwrap_err().contains("wildcards"));
        let alternatives = format!("{{{}}}", "a,".repeat(600));
        assert!(Wanted::new(std::slice::from_ref(&alternatives)).is_ok());
        assert!(Wanted::new(&[alternatives.clone(), alternatives]).unwrap_err().contains("alternatives"));
        assert!(Wanted::new(&vec![format!("*{}", "a".repeat(4000)); 20]).unwrap_err().contains("bytes"));
        let names: Vec<_> = (0..100_000).map(|number| format!("in/{number}.png")).collect();
        assert!(Wanted::new(&names).unwrap().has(Path::new("/srv/in/7.png")));
    }
}
