//! Meanings of the errors of requests: `object_store` has most of them in its text alone.

use std::fmt::Write;

use crate::error::{Error, Kind};

/// The message of `reqwest` about a URL without TLS where that is not allowed.
const SCHEME_REFUSED: &str = "URL scheme is not allowed";

/// Returns the meaning of an error.
///
/// Of a server's answer only the code is repeated: some answers contain credentials.
pub(super) fn failed(error: &object_store::Error) -> Error {
    use object_store::Error as Failure;
    let text = whole(error);
    let code = code(&text);
    let kind = match (error, code) {
        (_, Some("NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName")) => Kind::NoBucket,
        (Failure::NotFound { .. }, _) => Kind::NotFound,
        (Failure::AlreadyExists { .. } | Failure::Precondition { .. } | Failure::NotModified { .. }, _) => {
            Kind::Precondition
        }
        (Failure::PermissionDenied { .. } | Failure::Unauthenticated { .. }, _) => denied(&text, code),
        _ if status(&text).is_some_and(|status| status.starts_with("401") || status.starts_with("403")) => {
            denied(&text, code)
        }
        _ if innermost(error) == SCHEME_REFUSED => Kind::PlainHttp,
        _ if text.contains("Error getting credentials") || text.contains("metadata endpoint") => {
            Kind::Denied("no credentials found".to_owned())
        }
        _ => other(error, &text, code),
    };
    Error::new(kind)
}

fn denied(text: &str, code: Option<&str>) -> Kind {
    Kind::Denied(code.or(status(text)).unwrap_or("no reason given").to_owned())
}

/// Returns the reason for a bad answer, or for the lack of one.
fn other(error: &object_store::Error, text: &str, code: Option<&str>) -> Kind {
    let mut why = match (status(text), code) {
        (Some(status), Some(code)) => format!("{status} {code}"),
        (Some(status), None) => status.to_owned(),
        (None, Some(code)) => code.to_owned(),
        (None, None) => innermost(error),
    };
    if let Some(retries) = between(text, "after ", " retries") {
        let _ = write!(why, ", after {retries} retries");
    }
    if status(text).is_some() || code.is_some() { Kind::Refused(why) } else { Kind::Unreachable(why) }
}

/// Returns the code of an answer of a server in XML.
fn code(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>").filter(|code| code.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Returns the status of an answer, such as `500 Internal Server Error`.
fn status(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("status code: ")?;
    let status = behind.split([':', '\n']).next()?.trim();
    (status.len() < 60).then_some(status)
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(after).map(|(inner, _)| inner)
}

/// Returns the text of an error with those of its sources.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let _ = write!(text, "\n{inner}");
        source = inner.source();
    }
    text
}

/// Returns the text of the error that caused it, in one line.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_only_the_status_and_the_code_are_told() {
        let text = "Generic S3 error: Error performing PUT http://h/b/k in 1s, after 8 retries, max_retries: 8 - Server returned \
                    non-2xx status code: 500 Internal Server Error: <Error><Code>InternalError</Code><AWSAccessKeyId>KEY</AWSAccessKeyId>";
        assert_eq!((status(text), code(text)), (Some("500 Internal Server Error"), Some("InternalError")));
        assert_eq!(between(text, "after ", " retries"), Some("8"));
        assert_eq!((status("reset"), code("<Code>a b</Code>")), (None, None));
    }
}
