//! The settings of the watching service.

use std::ffi::OsStr;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};

use super::local::refuse_url;
use crate::fs::paths::{self, Shown};

/// The keys of the watching service, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// How long a file's size and modification time must stay the same, where there is no other
    /// sign that it is complete.
    pub settle: Duration,
    /// How often the folders are listed even though the kernel reports changes.
    pub rescan: Duration,
    /// How often the folders are listed instead of watched through the kernel; `None` lets the
    /// file system decide.
    pub poll: Option<Duration>,
    /// The fate of an input once its output is durable.
    pub after: After,
    /// The response to an output name that is taken, if inputs do not stay.
    pub on_collision: OnCollision,
    /// The folder for inputs that cannot be processed; `None` leaves them where they are.
    pub failed: Option<PathBuf>,
    /// The folder of the ledger; `None` for the default one in the output folder.
    pub state: Option<PathBuf>,
    /// The address at which health and metrics are served, if any.
    pub listen: Option<SocketAddr>,
    /// The names in addition to its addresses that requests may use there.
    pub listen_names: Vec<String>,
    /// The file with the token that changes require there; `None` for a new token at each start.
    pub token_file: Option<PathBuf>,
    /// The receiver of notifications when failures begin and end.
    pub notify: Option<Notify>,
    /// The time without failures after which they have ended.
    pub notify_quiet: Duration,
}

impl Service {
    /// Checks that inputs are not put aside in the output folder, `out`.
    ///
    /// # Errors
    /// A sentence that names the folder.
    pub fn check_out(&self, out: &Path) -> Result<(), String> {
        let moved = match &self.after {
            After::Move(folder) => Some(folder),
            After::Keep | After::Delete => None,
        };
        match moved.into_iter().chain(&self.failed).find(|folder| paths::are_same(folder, out)) {
            Some(same) => Err(format!(
                "{} is the output folder; --after move:DIR and --failed must name other folders",
                Shown(same)
            )),
            None => Ok(()),
        }
    }
}

/// The fate of an input once its output is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// It stays.
    Keep,
    /// It is removed.
    Delete,
    /// It is moved below this folder.
    Move(PathBuf),
}

impl FromStr for After {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (verb, folder) =
            text.split_once(':').map_or((text, None), |(verb, to)| (verb, Some(to.trim_start())));
        match (verb.to_ascii_lowercase().as_str(), folder) {
            ("keep", None) => Ok(Self::Keep),
            ("delete", None) => Ok(Self::Delete),
            ("move", Some(folder)) if !folder.is_empty() => {
                refuse_url(folder)?;
                Ok(Self::Move(folder.into()))
            }
            _ => Err(format!("{text:?} is not keep, delete or move:DIR")),
        }
    }
}

/// The response to an output name that is taken, by an earlier input's output or any other file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnCollision {
    /// The new output gets a number.
    Number,
    /// The new output replaces the file.
    Replace,
    /// The input waits until the file is taken away.
    Wait,
}

/// A parser of [`After`] that gives shells the words to complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterParser;

impl TypedValueParser for AfterParser {
    type Value = After;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, value: &OsStr) -> Result<After, clap::Error> {
        After::from_str.parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["keep", "delete", "move:"].into_iter().map(PossibleValue::new)))
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Delete => f.write_str("delete"),
            Self::Move(folder) => write!(f, "move:{}", folder.display()),
        }
    }
}

/// A value, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrNone<T> {
    /// No value.
    None,
    /// This value.
    Some(T),
}

impl<T> From<OrNone<T>> for Option<T> {
    fn from(value: OrNone<T>) -> Self {
        match value {
            OrNone::None => None,
            OrNone::Some(value) => Some(value),
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for OrNone<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        text.trim().parse().map(Self::Some).map_err(|why| format!("{why}; or use none"))
    }
}

impl<T: fmt::Display> fmt::Display for OrNone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Some(value) => value.fmt(f),
        }
    }
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(pub PathBuf);

impl FromStr for Folder {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a folder must not be empty".into());
        }
        refuse_url(text)?;
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// The receiver of notifications when failures begin and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The URL to post to.
    Url(String),
    /// A shell command that gets the message on standard input.
    Command(String),
}

impl FromStr for Notify {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Url(text.to_owned()));
        }
        match text.split_once("://") {
            Some((scheme, _)) if !scheme.contains(char::is_whitespace) => {
                Err(format!("{text:?} is neither an http nor an https URL, nor a command"))
            }
            _ if text.is_empty() => Err("it is empty".to_owned()),
            _ => Ok(Self::Command(text.to_owned())),
        }
    }
}

impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(text) | Self::Command(text) => f.write_str(text),
        }
    }
}

/// Where to listen: an IP address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let local = text.rsplit_once(':').filter(|(host, _)| host.eq_ignore_ascii_case("localhost"));
        let local = local.map(|(_, port)| format!("{}:{port}", Ipv4Addr::LOCALHOST));
        local
            .as_deref()
            .unwrap_or(text)
            .parse()
            .map(Self)
            .map_err(|_| format!("{text:?} is not an IP address with a port, such as 127.0.0.1:9464"))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_inputs_is_read_as_it_is_written() {
        assert_eq!(" Move: /a b ".parse(), Ok(After::Move("/a b".into())));
        assert_eq!("KEEP".parse(), Ok(After::Keep));
        for text in ["keep", "delete", "move:/a b"] {
            assert_eq!(text.parse::<After>().unwrap().to_string(), text);
        }
        assert_eq!("burn".parse::<After>().unwrap_err(), "\"burn\" is not keep, delete or move:DIR");
        assert!("move:".parse::<After>().is_err());
    }

    #[test]
    fn who_is_told_is_a_url_or_a_command() {
        assert_eq!("https://a/b".parse(), Ok(Notify::Url("https://a/b".into())));
        assert_eq!("mail -s histeqd me".parse(), Ok(Notify::Command("mail -s histeqd me".into())));
        assert!("ftp://a/b".parse::<Notify>().is_err() && " ".parse::<Notify>().is_err());
    }

    #[test]
    fn none_is_a_value() {
        assert_eq!("none".parse::<OrNone<Listen>>(), Ok(OrNone::None));
        for text in ["127.0.0.1:9464", "localhost:9464", "LocalHost:9464"] {
            assert_eq!(text.parse(), Ok(Listen("127.0.0.1:9464".parse().unwrap())), "{text}");
        }
        assert!("[::1]:9464".parse::<Listen>().is_ok() && "localhost".parse::<Listen>().is_err());
        let why = "9464".parse::<OrNone<Listen>>().unwrap_err();
        assert_eq!(why, "\"9464\" is not an IP address with a port, such as 127.0.0.1:9464; or use none");
    }
}
