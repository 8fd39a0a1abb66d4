//! The place of a queue: the address of its server, and its name there.

use std::fmt;
use std::str::FromStr;

use async_nats::ServerAddr;

use crate::error::QueueError;

/// The longest name of a queue.
const LONGEST: usize = 64;

/// The server and the name of a queue.
#[derive(Clone)]
pub struct Place {
    server: ServerAddr,
    name: String,
}

impl Place {
    /// Returns the name of the queue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server's address, without secrets.
    pub(crate) fn server(&self) -> String {
        let Self { server, .. } = self;
        format!("{}://{}:{}", server.scheme(), server.host(), server.port())
    }

    pub(crate) fn servers(&self) -> ServerAddr {
        self.server.clone()
    }

    /// Returns the user and the password that the address has.
    pub(crate) fn user(&self) -> Option<(String, String)> {
        let user = self.server.username()?;
        Some((user.to_owned(), self.server.password().unwrap_or_default().to_owned()))
    }

    /// Returns the name of the stream of work.
    ///
    /// An underscore is in no queue's name, and no two queues share a stream.
    pub(crate) fn work(&self) -> String {
        format!("histeqd_{}", self.name)
    }

    /// Returns the name of the stream of dead letters.
    pub(crate) fn dead(&self) -> String {
        format!("histeqd_{}_dead", self.name)
    }

    /// Returns the subject of a message in the work; that of all for `*`.
    pub(crate) fn work_subject(&self, name: &str) -> String {
        format!("histeqd.{}.work.{name}", self.name)
    }

    /// Returns the subject of a dead letter; that of all for `*`.
    pub(crate) fn dead_subject(&self, name: &str) -> String {
        format!("histeqd.{}.dead.{name}", self.name)
    }

    /// Returns the subject on which workers are asked.
    pub(crate) fn question(&self) -> String {
        format!("histeqd.{}.workers", self.name)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server(), self.name)
    }
}

impl FromStr for Place {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        // A password in it must not be shown.
        let shown = || text.rsplit_once('@').map_or(text, |(_, after)| after).to_owned();
        let wrong = |why: &str| QueueError::Address(shown(), why.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        if !["nats", "tls"].contains(&scheme) {
            return Err(wrong("its scheme is neither nats nor tls"));
        }
        let (server, name) = rest.split_once('/').ok_or_else(|| wrong("it has no name after the host"))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_plain) {
            return Err(wrong("its name is invalid"));
        }
        // Some versions of the parser take an empty host.
        if server.rsplit_once('@').map_or(server, |(_, host)| host).is_empty() {
            return Err(wrong("its host is invalid"));
        }
        let server = format!("{scheme}://{server}").parse().map_err(|_| wrong("its host is invalid"))?;
        Ok(Self { server, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_a_name() {
        let place: Place = "nats://user:secret@host/scans-1".parse().unwrap();
        assert_eq!(place.to_string(), "nats://host:4222/scans-1");
        assert_eq!(place.user(), Some(("user".to_owned(), "secret".to_owned())));
        assert_eq!(
            (place.work().as_str(), place.dead().as_str()),
            ("histeqd_scans-1", "histeqd_scans-1_dead")
        );
        let place: Place = "tls://[::1]:4443/x".parse().unwrap();
        assert_eq!((place.name(), place.user()), ("x", None));
    }

    #[test]
    fn what_is_no_address_is_named_without_its_password() {
        for text in [
            "",
            "scans",
            "nats://host",
            "nats://host/",
            "nats://host/a.b",
            "nats://host/a b",
            "nats://host/a/b",
            "nats://host/a_dead",
            "http://host/a",
            "nats:///a",
            &format!("nats://host/{}", "a".repeat(LONGEST + 1)),
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        let why = "nats://user:secret@host/".parse::<Place>().unwrap_err().to_string();
        assert!(why.starts_with("host/ is not the address of a queue: ") && !why.contains("secret"), "{why}");
    }
}
