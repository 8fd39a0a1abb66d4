//! Signed messages, which only holders of the queue's key can make.
//!
//! A signed message is a line `hmac-sha256:` with the code in hexadecimal digits, followed by its
//! text. It stays valid whoever sends it again, which is why a key is for one queue.

use std::fs;
use std::path::Path;

use histeqd_queue::Letter;
use ring::hmac::{self, HMAC_SHA256};

use super::message::Message;
use crate::error::Error;
use crate::fs::paths::Shown;

/// The prefix of the first line of a signed message.
const SCHEME: &[u8] = b"hmac-sha256:";
/// The least bytes of a key.
const SHORTEST_KEY: usize = 16;

/// Signs messages and checks signatures; without a key it does neither.
pub(super) struct Signatures(Option<hmac::Key>);

/// A message without the required signature.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not signed with the key of --key-file")]
pub(super) struct Unsigned;

impl Signatures {
    /// Reads the key in a file, if there is one.
    ///
    /// # Errors
    /// When it cannot be read, or is short.
    pub(super) fn of(file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else { return Ok(Self::none()) };
        let key = fs::read(file)
            .map_err(|why| Error::Usage(format!("--key-file {} cannot be read: {why}", Shown(file))))?;
        let key = key.trim_ascii();
        if key.len() < SHORTEST_KEY {
            let file = Shown(file);
            return Err(Error::Usage(format!(
                "--key-file {file} must hold at least {SHORTEST_KEY} bytes; `openssl rand -hex 32` makes a key"
            )));
        }
        Ok(Self::by(key))
    }

    /// Returns the signatures of a queue without a key.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Returns the signatures of a key.
    pub(super) fn by(key: &[u8]) -> Self {
        Self(Some(hmac::Key::new(HMAC_SHA256, key)))
    }

    /// Returns whether messages are signed.
    pub(super) fn are_required(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a message with its signature.
    pub(super) fn sign(&self, letter: Letter) -> Letter {
        let Some(key) = &self.0 else { return letter };
        let code = hmac::sign(key, &letter.payload);
        let digits: String = code.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let payload = [SCHEME, digits.as_bytes(), b"\n", &letter.payload].concat();
        Letter { payload, ..letter }
    }

    /// Reads a message. The error is a sentence.
    pub(super) fn read(&self, payload: &[u8]) -> Result<Message, String> {
        let said = self.check(payload).map_err(|why| why.to_string())?;
        Message::parse(said).map_err(|why| why.to_string())
    }

    /// Returns the text of a message.
    ///
    /// # Errors
    /// When it has to be signed, and is not.
    pub(super) fn check<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8], Unsigned> {
        let (digits, said) = parts(payload);
        match &self.0 {
            None => Ok(said),
            Some(key) => {
                let code = digits.and_then(code).ok_or(Unsigned)?;
                hmac::verify(key, said, &code).map(|()| said).map_err(|_| Unsigned)
            }
        }
    }
}

/// Splits a message into the digits of its signature, if it has one, and its text.
fn parts(payload: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let signed = payload.strip_prefix(SCHEME);
    let end = signed.and_then(|signed| signed.iter().position(|&byte| byte == b'\n'));
    match signed.zip(end) {
        Some((signed, end)) => (Some(&signed[..end]), &signed[end + 1..]),
        None => (None, payload),
    }
}

/// Parses the hexadecimal digits of a code.
fn code(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(key: &str) -> Signatures {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), key).unwrap();
        Signatures::of(Some(file.path())).unwrap()
    }

    fn letter(payload: &str) -> Letter {
        Letter { name: "a".to_owned(), payload: payload.into() }
    }

    #[test]
    fn the_code_is_that_of_others() {
        // printf '{"version":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let signed = with_key("0123456789abcdef\n").sign(letter("{\"version\":1}")).payload;
        let text = String::from_utf8(signed).unwrap();
        assert_eq!(
            text,
            "hmac-sha256:4927016c23eca23b49a85f560c3a4fb312eb1c2c8589a2a4ace937e40309a84a\n{\"version\":1}"
        );
    }

    #[test]
    fn what_is_signed_with_the_key_is_taken_and_nothing_else() {
        let (own, other) = (with_key("0123456789abcdef"), with_key("0123456789abcdeg"));
        let signed = own.sign(letter("said")).payload;
        assert_eq!(own.check(&signed), Ok(&b"said"[..]));
        let none = Signatures::of(None).unwrap();
        assert_eq!(none.check(&signed), Ok(&b"said"[..]), "who has no key reads it too");
        assert_eq!(none.check(&none.sign(letter("said")).payload), Ok(&b"said"[..]));
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert_eq!(own.check(&changed), Err(Unsigned), "{at}");
        }
        let unsigned: [&[u8]; 5] =
            [b"said", b"", b"hmac-sha256:", b"hmac-sha256:\nsaid", b"hmac-sha256:0g\nsaid"];
        for payload in unsigned {
            assert_eq!(own.check(payload), Err(Unsigned));
        }
        assert_eq!(own.check(&other.sign(letter("said")).payload), Err(Unsigned));
    }

    #[test]
    fn a_short_key_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0123456789abcde\n").unwrap();
        assert!(
            Signatures::of(Some(file.path())).is_err_and(|why| why.to_string().contains("at least 16 bytes"))
        );
    }
}
