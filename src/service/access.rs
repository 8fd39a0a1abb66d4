//! Who may change what the service does: retry pictures, pause and resume.
//!
//! At the Unix socket these are the service's user and root. Over the network it takes the token; a browser on this machine, run by the
//! service's user or root, needs none. No page of another origin may have a browser ask for a change.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use axum::http::{HeaderMap, header};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::paths::Shown;

/// The least characters of a token that somebody chose.
const SHORTEST_TOKEN: usize = 16;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A user of this machine, known by the Unix socket.
    Socket {
        /// `None` if the kernel does not tell.
        user: Option<u32>,
    },
    /// Anybody who can reach the address.
    Network {
        /// Their end of the connection.
        peer: SocketAddr,
        /// This end.
        own: SocketAddr,
    },
}

/// Decides who may change what the service does.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
}

impl Access {
    /// Returns access by the token in a file, or by a new one. The error is a sentence for the user.
    pub(super) fn new(file: Option<&Path>) -> Result<Self, String> {
        let token = match file {
            Some(file) => read_token(file)?,
            None => new_token().map_err(|error| format!("no token can be made: {error}"))?,
        };
        Ok(Self { token })
    }

    /// Returns the token.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks whether a request may change something. The error is a sentence for the one who asked.
    pub(super) fn may_change(&self, caller: Caller, headers: &HeaderMap) -> Result<(), &'static str> {
        match caller {
            Caller::Socket { user } if user.is_some_and(is_trusted) => Ok(()),
            Caller::Socket { .. } => Err("only the user of the service and root may do this\n"),
            Caller::Network { .. } if !is_of_this_origin(headers) => {
                Err("requests from other origins are refused\n")
            }
            Caller::Network { peer, own } => {
                if self.has_token(headers) || is_own_browser(peer, own, headers) {
                    Ok(())
                } else {
                    Err(
                        "this takes the token that the service's log names at its start, or that of --token-file\n",
                    )
                }
            }
        }
    }

    /// Returns whether the token was sent. Takes as long whatever was sent.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(sent) = sent.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
        let differ =
            sent.bytes().zip(self.token.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
        sent.len() == self.token.len() && differ == 0
    }
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

fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns whether a user may change what the service does.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Returns whether a request comes from no web page, or from one of this server.
fn is_of_this_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    let by_site = text(header::HeaderName::from_static("sec-fetch-site"))
        .is_none_or(|site| matches!(site, "same-origin" | "none"));
    let by_origin = text(header::ORIGIN)
        .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, own)| own == host));
    by_site && by_origin
}

/// Returns whether a request comes from a process of a trusted user on this machine, which asked for it by its own name: a page whose
/// name was made to lead here is not this server's.
fn is_own_browser(peer: SocketAddr, own: SocketAddr, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_local_name = ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    peer.ip().is_loopback() && is_local_name && user_of(peer, own).is_some_and(is_trusted)
}

/// Returns the user whose process has the other end of a connection on this machine, as the kernel tells.
fn user_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    find_user(&fs::read_to_string(table).ok()?, peer, own)
}

/// Finds the user of the socket at `peer` that is connected to `own`, in a table of the kernel.
fn find_user(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let ends = (in_table(peer), in_table(own));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let is_meant = fields.get(1) == Some(&ends.0.as_str()) && fields.get(2) == Some(&ends.1.as_str());
        if is_meant { fields.get(7)?.parse().ok() } else { None }
    })
}

/// Returns an address as the kernel's tables have it: words in the machine's order.
fn in_table(address: SocketAddr) -> String {
    let words = |octets: &[u8]| -> String {
        let (words, _) = octets.as_chunks::<4>();
        words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&Ipv6Addr::octets(&ip)),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn from_afar() -> Caller {
        Caller::Network { peer: "192.0.2.7:5000".parse().unwrap(), own: "192.0.2.1:9464".parse().unwrap() }
    }

    #[test]
    fn changes_take_the_token_over_the_network() {
        let access = Access::new(None).unwrap();
        let with = |pairs: &[(&'static str, &str)]| access.may_change(from_afar(), &headers(pairs)).is_ok();
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
        assert!(!with(&[("authorization", &bearer), ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn a_process_of_the_same_user_on_this_machine_needs_no_token() {
        let access = Access::new(None).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let own = listener.local_addr().unwrap();
            let client = TcpStream::connect(own).unwrap();
            let caller = Caller::Network { peer: client.local_addr().unwrap(), own };
            assert_eq!(access.may_change(caller, &headers(&[("host", &own.to_string())])), Ok(()));
            assert!(access.may_change(caller, &headers(&[("host", "evil.example:9464")])).is_err());
            let other = Caller::Network { peer: SocketAddr::new(own.ip(), 1), own };
            assert!(access.may_change(other, &headers(&[("host", &own.to_string())])).is_err());
        }
    }

    #[test]
    fn at_the_socket_the_own_user_and_root_are_trusted() {
        let access = Access::new(None).unwrap();
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
            assert_eq!(Access::new(Some(&file)).is_ok(), is_good, "{text:?}");
        }
        let why = Access::new(Some(&folder.path().join("none"))).unwrap_err();
        assert!(why.contains("cannot be read"), "{why}");
        assert_ne!(Access::new(None).unwrap().token(), Access::new(None).unwrap().token());
    }
}
