//! Groups of files with one histogram, by a pattern of their paths.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

/// The most bytes that a compiled expression may take: a folder's settings may contain one.
const LARGEST: usize = 1 << 20;

/// A regular expression. Its capture groups are the parts of a path that the files of a group
/// share.
#[derive(Clone, Debug)]
pub struct GroupPattern(Regex);

impl GroupPattern {
    /// Returns the name of a file's group, given its path below the input folder; `None` if the
    /// expression does not match.
    pub fn group_of(&self, below: &Path) -> Option<OsString> {
        let captures = self.0.captures(below.as_os_str().as_bytes())?;
        let mut name = Vec::new();
        for group in captures.iter().skip(1) {
            // No path has a zero byte. A group that takes no part differs from one that captures an
            // empty text.
            name.extend(if group.is_some() { b"\0+" } else { b"\0-" });
            name.extend(group.map_or(&b""[..], |group| group.as_bytes()));
        }
        Some(OsString::from_vec(name))
    }
}

impl FromStr for GroupPattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(text).size_limit(LARGEST).build();
        let regex = built.map_err(|error| match regex_syntax::parse(text) {
            Err(wrong) => format!("{text:?} is not a regular expression: {}", Wrong(&wrong)),
            Ok(_) => format!("{text:?} cannot be used as a regular expression: {error}"),
        })?;
        if regex.captures_len() == 1 {
            return Err(format!(
                "{text:?} has no group; put the part that names it in parentheses, as in '_w([0-9])'"
            ));
        }
        Ok(Self(regex))
    }
}

impl fmt::Display for GroupPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl PartialEq for GroupPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// An error in an expression and its position, in one line.
struct Wrong<'e>(&'e regex_syntax::Error);

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, pattern, span): (&dyn fmt::Display, _, _) = match self.0 {
            regex_syntax::Error::Parse(error) => (error.kind(), error.pattern(), error.span()),
            regex_syntax::Error::Translate(error) => (error.kind(), error.pattern(), error.span()),
            other => return other.fmt(f),
        };
        let rest = pattern.get(span.start.offset..).unwrap_or_default();
        match rest {
            "" => write!(f, "{what}, at its end"),
            rest => write!(f, "{what}, at character {}: {rest}", span.start.column),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn group(pattern: &str, path: &str) -> Option<OsString> {
        pattern.parse::<GroupPattern>().unwrap().group_of(Path::new(path))
    }

    #[test]
    fn files_are_of_one_group_if_all_groups_capture_the_same() {
        let by_channel = "_w([0-9])";
        assert_eq!(group(by_channel, "a/x_s1_w2.tif"), group(by_channel, "b/y_s2_w2_t7.tif"));
        assert_ne!(group(by_channel, "x_w1.tif"), group(by_channel, "x_w2.tif"));
        assert_eq!(group(by_channel, "x.tif"), None);
        let two = "(.)(.?)_";
        assert_ne!(group(two, "ab_"), group("(..?)_", "ab_"));
        assert_ne!(group("(a)?(b)?_", "a_"), group("(a)?(b)?_", "b_"));
        assert_ne!(group("x(a)?_", "x_"), group("x(a?)_", "x_"));
        assert_ne!(group("(?:(a*)x|(b*)y)_", "x_"), group("(?:(a*)x|(b*)y)_", "y_"));
        assert_eq!(group("plate(\\d+)/", "plate7/x.tif"), group("plate(\\d+)/", "plate7/y.tif"));
    }

    #[test]
    fn names_that_are_no_text_are_looked_through_too() {
        let name = OsStr::from_bytes(b"\xff_w1.tif");
        assert!("_w([0-9])".parse::<GroupPattern>().unwrap().group_of(Path::new(name)).is_some());
    }

    #[test]
    fn an_expression_that_cannot_be_used_is_refused_with_the_place() {
        for (text, why) in [
            (
                "_w([0-9)",
                "\"_w([0-9)\" is not a regular expression: unclosed character class, at character 4: [0-9)",
            ),
            ("_w(1", "\"_w(1\" is not a regular expression: unclosed group, at character 3: (1"),
            ("(a)\\", "reached end of pattern prematurely, at character 4: \\"),
            ("(?i", "at its end"),
            (
                "_w[0-9]",
                "\"_w[0-9]\" has no group; put the part that names it in parentheses, as in '_w([0-9])'",
            ),
            ("(a{1000}){1000}", "cannot be used as a regular expression"),
        ] {
            let error = text.parse::<GroupPattern>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
