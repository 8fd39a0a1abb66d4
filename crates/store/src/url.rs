//! Names of folders and objects: `s3://bucket/scans/inbox`.

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// The schemes of object storage.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// Returns whether a path is a URL, such as `s3://bucket/folder`.
pub fn is_url(path: &Path) -> bool {
    path.to_str().and_then(|text| text.split_once("://")).is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns the reason why the name of a folder or an object cannot be used, if there is one.
///
/// An empty name is that of the bucket.
pub(crate) fn fault(key: &str) -> Option<&'static str> {
    if key.contains(|character: char| character.is_ascii_control()) {
        Some("a name with a control character, such as a line break, cannot be used in object storage")
    } else if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        Some("a name with a part that is empty, `.` or `..` cannot be used in object storage")
    } else {
        None
    }
}

/// The URL of a folder or an object.
///
/// After the bucket, it is the name as it is, without escapes or a query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    bucket: String,
    key: String,
}

impl Url {
    /// Reads the URL of a folder or an object.
    ///
    /// # Errors
    /// When it cannot be one of object storage.
    pub fn parse(path: &Path) -> Result<Self, Error> {
        let text = path.to_str().ok_or_else(|| Error::url(&path.to_string_lossy(), "it is not UTF-8"))?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(Error::url(text, "it is no URL"));
        };
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        // Azure writes the container before the account: az://container@account.
        let is_azure = scheme.starts_with('a');
        if let Some((user, host)) = authority.rsplit_once('@')
            && (!is_azure || user.contains(':'))
        {
            return Err(Error::url(
                &format!("{scheme}://…@{host}"),
                "credentials belong in the environment, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ));
        }
        if !SCHEMES.contains(&scheme) {
            return Err(Error::url(text, "object storage is s3://BUCKET/FOLDER, gs://… or az://…"));
        }
        if authority.is_empty() {
            return Err(Error::url(text, "it names no bucket; write s3://BUCKET/FOLDER"));
        }
        let key = key.strip_suffix('/').unwrap_or(key);
        if let Some(why) = fault(key) {
            return Err(Error::url(text, why));
        }
        Ok(Self { bucket: format!("{scheme}://{authority}"), key: key.to_owned() })
    }

    /// The URL without the name of the folder or object.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The name of the folder or object in its bucket.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the URL of another name in the same bucket.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { bucket: self.bucket.clone(), key: key.to_owned() }
    }

    /// Returns whether it is, or lies below, another one.
    pub fn is_in(&self, folder: &Self) -> bool {
        self.bucket == folder.bucket && self.below(folder).is_some()
    }

    /// Returns the path of a name of the same bucket below `folder`; `None` if it is elsewhere.
    pub fn below<'a>(&'a self, folder: &Self) -> Option<&'a str> {
        if folder.key.is_empty() {
            return Some(&self.key);
        }
        let rest = self.key.strip_prefix(&folder.key)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Url, String> {
        Url::parse(Path::new(text)).map_err(|why| why.to_string())
    }

    #[test]
    fn names_are_taken_as_they_are() {
        let url = parse("s3://scans/in box/50%20+é?#.png").unwrap();
        assert_eq!((url.bucket(), url.key()), ("s3://scans", "in box/50%20+é?#.png"));
        assert_eq!(url.to_string(), "s3://scans/in box/50%20+é?#.png");
        for (text, key) in
            [("gs://b", ""), ("gs://b/", ""), ("az://c@account/a/", "a"), ("s3://b/a/b", "a/b")]
        {
            assert_eq!(parse(text).unwrap().key(), key, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_storage_is_refused() {
        for (text, why) in [
            ("http://host/a", "object storage is s3://"),
            ("file:///a", "object storage is s3://"),
            ("s3:///a", "names no bucket"),
            ("s3://b//a", "that is empty"),
            ("s3://b/a/../c", "that is empty"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.starts_with(text) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn control_characters_are_refused_and_shown_escaped() {
        for name in ["new\nline", "Icon\r", "a\tb", "\u{7f}"] {
            let told = parse(&format!("s3://b/{name}.png")).unwrap_err();
            assert!(told.starts_with("\"s3://b/") && told.contains("a control character"), "{told}");
            assert!(!told.contains(char::is_control), "{told}");
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused_and_not_repeated() {
        for text in ["s3://user:hidden@scans/in", "az://c:hidden@account/in", "http://user:hidden@host/"] {
            let told = parse(text).unwrap_err();
            assert!(
                told.contains("environment") && !told.contains("hidden") && !told.contains("user"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_folder_holds_whole_names_only() {
        let (folder, bucket) = (parse("s3://b/in").unwrap(), parse("s3://b").unwrap());
        assert_eq!(parse("s3://b/in/a/b").unwrap().below(&folder), Some("a/b"));
        assert_eq!(parse("s3://b/inner/a").unwrap().below(&folder), None);
        assert_eq!(parse("s3://b/in").unwrap().below(&bucket), Some("in"));
        assert!(folder.is_in(&folder) && folder.is_in(&bucket) && !bucket.is_in(&folder));
        assert!(!parse("s3://c/in").unwrap().is_in(&folder));
    }

    #[test]
    fn paths_with_colons_are_no_urls() {
        for (path, url) in [
            ("s3://a", true),
            ("http://a", true),
            ("a:b", false),
            ("./s3://a", false),
            ("://a", false),
            ("s3:/a", false),
        ] {
            assert_eq!(is_url(Path::new(path)), url, "{path}");
        }
    }
}
