//! The content of a message: a few pictures, their outputs and settings. Anyone who may publish can
//! write one: every part is checked before use.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use histeqd_queue::Letter;
use serde::{Deserialize, Deserializer, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use store::Url;

use crate::fs::paths::{Shown, as_json};
use crate::fs::stamp::Stamp;
use crate::source::Job;
use crate::terminal_text::OneLine;

/// The version of the text.
const VERSION: u32 = 1;

/// The most pictures of a message, more than submitting ever puts into one.
const MOST: usize = 1024;

/// One picture to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Picture {
    /// The file to read.
    #[serde(serialize_with = "as_json", deserialize_with = "from_json")]
    pub(super) input: PathBuf,
    /// The file to write.
    #[serde(serialize_with = "as_json", deserialize_with = "from_json")]
    pub(super) output: PathBuf,
    /// Whether the user named the file itself, and it therefore has to be a picture.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) named: bool,
    /// The state of the input when it was submitted. Workers ignore it: it only distinguishes a
    /// message about another state from one that the queue already has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) state: String,
}

impl Picture {
    /// Returns the picture of a job.
    pub(super) fn of(job: Job) -> Self {
        let state = state_of(&job);
        let Job { input, output, named, .. } = job;
        Self { input, output, named, state }
    }
}

/// Returns the state of a job's input; empty if it is gone.
fn state_of(job: &Job) -> String {
    let stamp = match job.listed_state() {
        Some(listed) => Some(listed),
        None => fs::metadata(&job.input)
            .and_then(|metadata| Stamp::at(&job.input, &metadata, job.lasting_inodes))
            .ok(),
    };
    stamp.map(|Stamp { size, mtime_ns, inode }| format!("{size}-{mtime_ns}-{inode}")).unwrap_or_default()
}

/// A message of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    version: u32,
    /// The keys that travel, as a configuration file.
    pub(super) settings: String,
    pub(super) pictures: Vec<Picture>,
    /// The number of deliveries of the pictures in messages that this one replaces.
    #[serde(default, skip_serializing_if = "is_zero")]
    tries: u64,
    /// The number of messages that it replaces, one after the other.
    #[serde(default, skip_serializing_if = "is_zero")]
    rounds: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a message is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    /// Its form is wrong.
    #[error("it is not a message: {0}")]
    Form(String),
    /// It is of another version.
    #[error(
        "it is of version {0}, and this histeqd knows version {VERSION}; update the older one of the two"
    )]
    Version(u32),
    /// It has no pictures, or too many.
    #[error("it is about {0} pictures")]
    Pictures(usize),
    /// A path in it could mean several places.
    #[error("{} is neither an absolute path without `.` and `..` nor the URL of an object", Shown(.0))]
    Path(PathBuf),
}

impl Message {
    /// Returns a new message.
    pub(super) fn new(settings: String, pictures: Vec<Picture>) -> Self {
        Self { version: VERSION, settings, pictures, tries: 0, rounds: 0 }
    }

    /// Parses a message.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let form = |why: serde_json::Error| MessageError::Form(why.to_string());
        let Version { version } = serde_json::from_slice(payload).map_err(form)?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let message: Self = serde_json::from_slice(payload).map_err(form)?;
        if message.pictures.is_empty() || message.pictures.len() > MOST {
            return Err(MessageError::Pictures(message.pictures.len()));
        }
        for path in message.pictures.iter().flat_map(|picture| [&picture.input, &picture.output]) {
            if !is_plain(path) {
                return Err(MessageError::Path(path.clone()));
            }
        }
        Ok(message)
    }

    /// Returns the message as a letter, with a name that is unique to its pictures and settings.
    pub(super) fn letter(&self) -> Letter {
        Letter { name: self.name(), payload: to_json(self) }
    }

    /// Returns the message about one of its pictures, as it was first submitted. Its name is the
    /// picture's.
    pub(super) fn about(&self, picture: &Picture) -> Self {
        Self::new(self.settings.clone(), vec![picture.clone()])
    }

    /// Returns a message that replaces this one for some of its pictures, which were delivered in
    /// vain this many times.
    pub(super) fn instead(&self, pictures: Vec<Picture>, tries: u64) -> Self {
        Self { pictures, tries, rounds: self.rounds.saturating_add(1), ..self.clone() }
    }

    /// Returns the number of deliveries of its pictures, given that of the message.
    pub(super) fn deliveries(&self, of_message: u64) -> u64 {
        self.tries.saturating_add(of_message)
    }

    /// Returns the name of the dead letter about one of its pictures, whatever the state of the
    /// input.
    pub(super) fn dead_name(&self, picture: &Picture) -> String {
        let stateless = Picture { state: String::new(), ..picture.clone() };
        self.about(&stateless).name()
    }

    fn name(&self) -> String {
        let hash = hash(&self.settings, &self.pictures);
        match self.rounds {
            0 => format!("{hash:032x}"),
            rounds => format!("{hash:032x}-{rounds}"),
        }
    }
}

/// Returns a hash of these pictures in their states, with these settings.
pub(super) fn hash(settings: &str, pictures: &[Picture]) -> u128 {
    let mut hasher = SipHasher13::new();
    let texts = pictures.iter().flat_map(|Picture { input, output, state, .. }| {
        [input.as_os_str().as_bytes(), output.as_os_str().as_bytes(), state.as_bytes()]
    });
    for text in [settings.as_bytes()].into_iter().chain(texts) {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text);
    }
    hasher.finish128().as_u128()
}

/// The record of a picture that is given up, or of an invalid message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dead {
    /// The reason.
    pub(super) reason: String,
    /// The worker that gave it up.
    pub(super) worker: String,
    /// The number of deliveries.
    pub(super) deliveries: u64,
    /// The message about it alone, unless that was the fault.
    pub(super) message: Option<Message>,
    /// The beginning of an invalid message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

impl Dead {
    /// Parses a dead letter; `None` if it is invalid.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// Returns the picture that it is about.
    pub(super) fn picture(&self) -> Option<&Picture> {
        self.message.as_ref()?.pictures.first()
    }

    /// Returns it as a letter of this name.
    pub(super) fn letter(&self, name: String) -> Letter {
        Letter { name, payload: to_json(self) }
    }
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.picture(), &self.text) {
            (Some(picture), _) => write!(f, "{}", Shown(&picture.input))?,
            (None, Some(text)) => write!(f, "{text:?}")?,
            (None, None) => write!(f, "a message")?,
        }
        write!(f, ": {} ({}, delivery {})", OneLine(&self.reason), OneLine(&self.worker), self.deliveries)
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, paths and numbers")
}

/// Returns whether a path is absolute with only plain parts, or the URL of an object, and has no
/// other spelling.
fn is_plain(path: &Path) -> bool {
    if store::is_url(path) {
        return !path.as_os_str().as_bytes().contains(&0)
            && Url::parse(path)
                .is_ok_and(|url| !url.key().is_empty() && path.as_os_str() == url.to_string().as_str());
    }
    match path.as_os_str().as_bytes().strip_prefix(b"/") {
        Some(below) => below
            .split(|&byte| byte == b'/')
            .all(|part| !["", ".", ".."].map(str::as_bytes).contains(&part) && !part.contains(&0)),
        None => false,
    }
}

/// Reads a path as [`as_json`] writes it.
fn from_json<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Json {
        Text(String),
        Bytes { bytes: Vec<u8> },
    }
    Ok(match Json::deserialize(from)? {
        Json::Text(text) => text.into(),
        Json::Bytes { bytes } => OsString::from_vec(bytes).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::Component;

    use proptest::prelude::*;

    fn picture(input: impl AsRef<OsStr>) -> Picture {
        let input = Path::new("/in").join(Path::new(input.as_ref()));
        Picture {
            output: Path::new("/out").join(input.strip_prefix("/in").unwrap()),
            input,
            named: false,
            state: String::new(),
        }
    }

    fn message() -> Message {
        let pictures = vec![picture("a.png"), picture(OsStr::from_bytes(b"caf\xe9/b.png"))];
        Message::new("method = \"clahe\"\n".to_owned(), pictures)
    }

    #[test]
    fn a_message_is_read_back_the_same() {
        let mut stored = message();
        stored.pictures[0].input = "s3://b/in box/50%.png".into();
        assert_eq!(Message::parse(&stored.letter().payload), Ok(stored));
        let named = Picture { named: true, state: "1-2-3".to_owned(), ..picture("c.png") };
        for message in [message(), message().instead(vec![named], 3), message().about(&picture("a.png"))] {
            assert_eq!(Message::parse(&message.letter().payload), Ok(message));
        }
        let text = String::from_utf8(message().letter().payload).unwrap();
        assert_eq!(
            text,
            r#"{"version":1,"settings":"method = \"clahe\"\n","pictures":[{"input":"/in/a.png","output":"/out/a.png"},{"input":{"bytes":[47,105,110,47,99,97,102,233,47,98,46,112,110,103]},"output":{"bytes":[47,111,117,116,47,99,97,102,233,47,98,46,112,110,103]}}]}"#
        );
    }

    #[test]
    fn a_name_is_that_of_the_pictures_and_their_settings() {
        let name = message().name();
        assert_eq!(name, message().name());
        let other = Message::new(String::new(), message().pictures);
        let single = message().about(&message().pictures[0]);
        let moved = Picture { output: "/other/a.png".into(), ..picture("a.png") };
        let again = message().instead(message().pictures, 1);
        let mut replaced = message();
        "1-2-3".clone_into(&mut replaced.pictures[1].state);
        assert_eq!(replaced.dead_name(&replaced.pictures[1]), message().dead_name(&message().pictures[1]));
        let all = [other, single, message().about(&moved), again, replaced].map(|message| message.name());
        assert!(all.iter().all(|other| *other != name) && all[1] != all[2], "{all:?}");
        assert_eq!(
            message().instead(Vec::new(), 1).instead(message().pictures, 1).name(),
            format!("{name}-2")
        );
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_reason() {
        let with = |from: &str, to: &str| {
            let text = String::from_utf8(message().letter().payload).unwrap();
            assert!(text.contains(from), "{from}");
            Message::parse(text.replacen(from, to, 1).as_bytes())
        };
        assert_eq!(with("\"version\":1", "\"version\":2"), Err(MessageError::Version(2)));
        let empty = Message::new(String::new(), Vec::new()).letter().payload;
        assert_eq!(Message::parse(&empty), Err(MessageError::Pictures(0)));
        let many = Message::new(String::new(), vec![picture("a"); MOST + 1]).letter().payload;
        assert_eq!(Message::parse(&many), Err(MessageError::Pictures(MOST + 1)));
        for path in [
            "in/a.png",
            "",
            "/",
            "/in/../a.png",
            "/in/..",
            "/./a.png",
            "/in/./a.png",
            "/in//a.png",
            "/in/a.png/",
            "/a\\u0000b",
            "s3://b",
            "s3://b/",
            "s3://b/a/",
            "s3://b//a.png",
            "s3://b/in/../a.png",
            "s3://b/a\\u0000b",
            "s3://user@b/a.png",
            "http://host/a.png",
            "file:///in/a.png",
        ] {
            let why = with("/in/a.png", path);
            assert!(matches!(why, Err(MessageError::Path(_))), "{path}: {why:?}");
        }
        for (from, to) in
            [("\"settings\":", "\"other\":"), ("}]}", "}],\"more\":1}"), ("[", "{"), ("\"/in/a.png\"", "7")]
        {
            assert!(matches!(with(from, to), Err(MessageError::Form(_))), "{from} {to}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_has_plain_paths(at: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..4), cut in 0_usize..4) {
            let mut text = message().letter().payload;
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, bytes);
            if let Ok(message) = Message::parse(&text) {
                let paths = || message.pictures.iter().flat_map(|picture| [&picture.input, &picture.output]);
                prop_assert!(paths().all(|path| path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)));
                prop_assert_eq!(Message::parse(&message.letter().payload), Ok(message));
            }
            Dead::parse(&text);
        }
    }
}
