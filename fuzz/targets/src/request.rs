//! Requests to the server of a service.

use std::cell::LazyCell;

use histeqd::service::fuzzing::Site;

/// The most bytes to send: more than fits into a socket at once is too long for a head.
const LONGEST: usize = 64 << 10;

thread_local! {
    static SITE: LazyCell<Site> = LazyCell::new(|| Site::new().expect("a service can start"));
}

/// Sends an input to the server.
///
/// It has to answer or to hang up, and without its token there must be no change.
pub(crate) fn check(data: &[u8]) {
    let sent = &data[..data.len().min(LONGEST)];
    SITE.with(|site| {
        let answer = site.answer(sent).expect("an answer, or an end");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "what comes back is an answer");
        assert!(!site.has_changed(), "who has no token changes nothing");
    });
}
