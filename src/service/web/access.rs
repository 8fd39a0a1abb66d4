//! Permissions of HTTP clients: to read the service's reports, and to make changes: retry pictures,
//! pause and resume.
//!
//! At the Unix socket every user who can connect may read; its own user and root may make changes.
//! Over the network a request has to name this server by an address or a name of its own: no web
//! page can read through a name that was made to lead here. Changes require the token there, or the
//! session of a browser that has opened the link in the log. No page of another origin may make a
//! browser send either.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, header};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::fs::paths::Shown;

/// The least characters of a token that a user chose.
const SHORTEST_TOKEN: usize = 16;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A user of this machine, known by the Unix socket.
    Socket {
        /// `None` if unknown to the kernel.
        user: Option<u32>,
    },
    /// Any client that can reach the address.
    Network {
        /// The port of this server that it connected to.
        port: u16,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// It names another server.
    #[error("unknown host name; use an IP address, localhost, or a name given by --listen-name")]
    Name,
    /// A page of another origin has caused it.
    #[error("requests from other origins are refused")]
    Origin,
    /// It comes from another user.
    #[error("only the user of the service and root may do this")]
    User,
    /// It has neither the token nor a session.
    #[error("token required: the service's log shows it at its start, unless --token-file sets it")]
    Token,
}

/// The rules for reading and for changes.
#[derive(Debug)]
pub(crate) struct Access {
    /// The names of this server in addition to its addresses.
    names: Vec<String>,
    token: String,
    /// The content of a session's cookie.
    session: String,
    /// The key that begins a session, once; `None` if it was used, or the token is in a file.
    key: Mutex<Option<String>>,
}

impl Access {
    /// Returns access by the token in a file, or by a new one, for a server of these names. The
    /// error is a sentence for the user.
    pub(crate) fn new(file: Option<&Path>, names: &[String]) -> Result<Self, String> {
        let new = || new_secret().map_err(|error| format!("no token can be made: {error}"));
        let (token, key) = match file {
            Some(file) => (read_token(file)?, None),
            None => (new()?, Some(new()?)),
        };
        Ok(Self { names: names.to_owned(), token, session: new()?, key: Mutex::new(key) })
    }

    /// Returns the token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the path that begins a session, if there is one.
    pub(crate) fn way_in(&self) -> Option<String> {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        key.as_ref().map(|key| format!("/session/{key}"))
    }

    /// Takes the key of a session. Returns the cookie that has it; `None` if the key is wrong, or
    /// was used.
    pub(crate) fn begin_session(&self, key: &str, caller: Caller) -> Option<String> {
        let Caller::Network { port } = caller else { return None };
        let mut own = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        own.take_if(|own| is_same(key, own))?;
        Some(format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie(port), self.session))
    }

    /// Checks whether a request names this server.
    pub(crate) fn knows_name(&self, caller: Caller, headers: &HeaderMap) -> Result<(), Denied> {
        match caller {
            Caller::Socket { .. } => Ok(()),
            Caller::Network { .. } if self.is_own_name(text(headers, header::HOST)) => Ok(()),
            Caller::Network { .. } => Err(Denied::Name),
        }
    }

    /// Returns whether a host is an address, which no page of another server can come from, or a
    /// name of this server.
    fn is_own_name(&self, host: &str) -> bool {
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Checks whether a request may read private data: names of files, reasons and pictures.
    pub(crate) fn may_read(&self, caller: Caller, headers: &HeaderMap) -> Result<(), Denied> {
        match caller {
            Caller::Network { .. } if !is_of_this_origin(headers) => Err(Denied::Origin),
            Caller::Network { .. } | Caller::Socket { .. } => Ok(()),
        }
    }

    /// Checks whether a request may make changes.
    pub(crate) fn may_change(&self, caller: Caller, headers: &HeaderMap) -> Result<(), Denied> {
        self.may_read(caller, headers)?;
        match caller {
            Caller::Socket { user } if user.is_some_and(is_trusted) => Ok(()),
            Caller::Socket { .. } => Err(Denied::User),
            Caller::Network { port } if self.has_token(headers) || self.has_session(port, headers) => Ok(()),
            Caller::Network { .. } => Err(Denied::Token),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let sent = text(headers, header::AUTHORIZATION).strip_prefix("Bearer ");
        sent.is_some_and(|sent| is_same(sent, &self.token))
    }

    fn has_session(&self, port: u16, headers: &HeaderMap) -> bool {
        let name = cookie(port);
        let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut sent =
            sent.flat_map(|cookies| cookies.split(';')).filter_map(|one| one.trim().split_once('='));
        sent.any(|(own, value)| own == name && is_same(value, &self.session))
    }
}

/// Returns the name of a session's cookie: browsers send the cookies of all ports of a host
/// together.
fn cookie(port: u16) -> String {
    format!("histeqd-{port}")
}

/// Returns whether a secret was sent, in time that does not depend on the text that was sent.
fn is_same(sent: &str, secret: &str) -> bool {
    let differ = sent.bytes().zip(secret.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    sent.len() == secret.len() && differ == 0
}

fn read_token(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("--token-file {} cannot be read: {error}", Shown(file)))?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "--token-file {} must hold one word of at least {SHORTEST_TOKEN} letters, digits or signs",
            Shown(file)
        ));
    }
    Ok(token.to_owned())
}

fn new_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns whether a user may make changes to the service.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Returns a header's text; empty if it has none.
fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns whether a request comes from a page of this server, or from no web page.
fn is_of_this_origin(headers: &HeaderMap) -> bool {
    let site = text(headers, HeaderName::from_static("sec-fetch-site"));
    let origin = text(headers, header::ORIGIN);
    let is_own = origin.split_once("://").is_some_and(|(_, own)| own == text(headers, header::HOST));
    let by_site = !headers.contains_key("sec-fetch-site") || matches!(site, "same-origin" | "none");
    by_site && (!headers.contains_key(header::ORIGIN) || is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Caller = Caller::Network { port: 9464 };

    fn access() -> Access {
        Access::new(None, &["scans.example".to_owned()]).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn changes_take_the_token_over_the_network() {
        let access = access();
        let with = |pairs: &[(&'static str, &str)]| access.may_change(NETWORK, &headers(pairs)).is_ok();
        let bearer = format!("Bearer {}", access.token());
        assert!(with(&[("authorization", &bearer)]));
        assert!(
            !with(&[])
                && !with(&[("authorization", "Bearer ")])
                && !with(&[("authorization", &bearer[..20])])
        );
        assert!(!with(&[("host", "localhost:9464")]), "the name alone");
        assert!(with(&[("authorization", &bearer), ("host", "a:1"), ("origin", "http://a:1")]));
        assert!(!with(&[("authorization", &bearer), ("host", "a:1"), ("origin", "http://b:1")]));
        for site in ["cross-site", "same-site"] {
            assert!(!with(&[("authorization", &bearer), ("sec-fetch-site", site)]));
        }
    }

    #[test]
    fn a_session_is_begun_once_and_is_of_one_port() {
        let access = access();
        let key = access.way_in().unwrap().strip_prefix("/session/").unwrap().to_owned();
        assert_eq!(access.begin_session("", NETWORK), None);
        let cookie = access.begin_session(&key, NETWORK).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!((access.begin_session(&key, NETWORK), access.way_in()), (None, None));
        let sent = format!("other=1; {}", cookie.split(';').next().unwrap());
        assert_eq!(access.may_change(NETWORK, &headers(&[("cookie", &sent)])), Ok(()));
        let port = Caller::Network { port: 1 };
        assert_eq!(access.may_change(port, &headers(&[("cookie", &sent)])), Err(Denied::Token));
        let longer = format!("{sent}0");
        assert_eq!(access.may_change(NETWORK, &headers(&[("cookie", &longer)])), Err(Denied::Token));
        let from_a_page = headers(&[("cookie", &sent), ("sec-fetch-site", "same-site")]);
        assert_eq!(access.may_change(NETWORK, &from_a_page), Err(Denied::Origin));
    }

    #[test]
    fn a_request_names_an_address_or_a_name_of_this_server() {
        let access = access();
        let knows = |host: &str| access.knows_name(NETWORK, &headers(&[("host", host)])).is_ok();
        for host in
            ["127.0.0.1:9464", "[::1]:9464", "192.0.2.7", "localhost", "LocalHost:1", "Scans.Example:80"]
        {
            assert!(knows(host), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9464", "::1.evil", "a:b"]
        {
            assert!(!knows(host), "{host}");
        }
        assert_eq!(access.knows_name(NETWORK, &HeaderMap::new()), Err(Denied::Name));
        assert_eq!(access.knows_name(Caller::Socket { user: None }, &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn at_the_socket_the_own_user_and_root_are_trusted() {
        let access = access();
        let may = |user| access.may_change(Caller::Socket { user }, &HeaderMap::new()).is_ok();
        assert!(may(Some(0)) && may(Some(rustix::process::geteuid().as_raw())));
        assert!(!may(Some(u32::MAX - 1)) && !may(None));
    }

    #[test]
    fn a_token_of_a_file_is_one_word_that_is_not_short() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (text, is_good) in [("0123456789abcdef\n", true), ("short", false), ("0123456789 abcdefg", false)]
        {
            fs::write(&file, text).unwrap();
            assert_eq!(Access::new(Some(&file), &[]).is_ok(), is_good, "{text:?}");
        }
        fs::write(&file, "0123456789abcdef").unwrap();
        assert_eq!(Access::new(Some(&file), &[]).unwrap().way_in(), None, "the log has no way in");
        let why = Access::new(Some(&folder.path().join("none")), &[]).unwrap_err();
        assert!(why.contains("cannot be read"), "{why}");
        assert_ne!(access().token(), access().token());
    }
}
