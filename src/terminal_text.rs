//! Text from elsewhere, made safe for people to read: names of files and workers, reasons,
//! addresses. It can neither control a terminal, nor be shown in another order than its letters are
//! in, nor give a password away.
//!
//! Lines for standard error pass [`escape`] when they are painted, those of the log when they are
//! formatted, and texts from elsewhere in the output of commands are [`OneLine`]. Programs get
//! JSON, which has its own escapes.

use std::fmt::{self, Write};

/// Returns whether a character shows as itself and has no effect on others. (Joiners, which emoji
/// and some scripts need, hide no text.)
pub(crate) fn is_plain(char: char) -> bool {
    let is_format = matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !char.is_control() && !is_format
}

/// A text from elsewhere, in one line.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_plain(f, &without_passwords(self.0), |_| false)
    }
}

/// Escapes a text of several lines that may include texts from elsewhere.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _ = write_plain(&mut escaped, &without_passwords(text), |char| char == '\n');
    escaped
}

fn write_plain(to: &mut impl Write, text: &str, is_kept: impl Fn(char) -> bool) -> fmt::Result {
    text.chars().try_for_each(|char| match is_plain(char) || is_kept(char) {
        true => to.write_char(char),
        false => write!(to, "{}", char.escape_default()),
    })
}

/// Returns a text without the part of its URLs before the host: users, tokens and passwords.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut pieces = text.split("://");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        shown.push_str("://");
        let end = end_of_user(piece);
        shown.push_str(if end.is_some() { "..." } else { "" });
        shown.push_str(&piece[end.unwrap_or(0)..]);
    }
    shown
}

/// Returns the end of the user in the part of a URL after the scheme: its `@`. A password that was
/// mistyped may have slashes.
fn end_of_user(rest: &str) -> Option<usize> {
    let url =
        rest.split(|char: char| char.is_whitespace() || char.is_control() || "'\"`".contains(char)).next()?;
    let authority = url.split('/').next()?;
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut =
        authority.split_once(':').is_some_and(|(_, port)| !authority.starts_with('[') && !is_port(port));
    authority.rfind('@').or_else(|| url.rfind('@').filter(|_| is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_terminals_or_turns_letters_round_is_escaped() {
        assert_eq!(
            OneLine("a\n\u{1b}[2J\u{202e}gnp.exe\u{9b}").to_string(),
            "a\\n\\u{1b}[2J\\u{202e}gnp.exe\\u{9b}"
        );
        assert_eq!(escape("a\nb\r\u{2066}"), "a\nb\\r\\u{2066}");
        let plain = "näher e\u{301} \u{1f468}\u{200d}\u{1f469} \"quoted\" back\\slash";
        assert_eq!(OneLine(plain).to_string(), plain);
    }

    #[test]
    fn passwords_of_urls_are_not_told() {
        for (text, shown) in [
            ("'nats://user:secret@host/'", "'nats://...@host/'"),
            ("nats://secret@host:4222/a and b@c", "nats://...@host:4222/a and b@c"),
            ("nats://user:se/cr@et@host", "nats://...@host"),
            ("s3://bucket/a@2x.png: no", "s3://bucket/a@2x.png: no"),
            ("http://host:80/a@b http://[::1]:80/a@b", "http://host:80/a@b http://[::1]:80/a@b"),
        ] {
            assert_eq!(without_passwords(text), shown, "{text}");
        }
    }
}
