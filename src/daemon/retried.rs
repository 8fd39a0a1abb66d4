//! Remembers what the log said about pictures that are retried, so that one that fails every time does not fill the log.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The pictures that are being retried, each with the reason that was logged last.
#[derive(Default)]
pub(super) struct Retried(HashMap<PathBuf, String>);

impl Retried {
    /// Returns whether `reason` differs from the one that was logged last for the picture, and remembers it.
    pub(super) fn is_news(&mut self, picture: &Path, reason: &str) -> bool {
        match self.0.get_mut(picture) {
            Some(told) if told == reason => false,
            Some(told) => {
                reason.clone_into(told);
                true
            }
            None => self.0.insert(picture.to_owned(), reason.to_owned()).is_none(),
        }
    }

    /// Forgets a picture that is not retried.
    pub(super) fn forget(&mut self, picture: &Path) {
        self.0.remove(picture);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_until_another_comes_or_the_picture_is_through() {
        let mut retried = Retried::default();
        let [one, other] = ["one", "other"].map(Path::new);
        assert!(retried.is_news(one, "busy") && retried.is_news(other, "busy"));
        assert!(!retried.is_news(one, "busy"));
        assert!(retried.is_news(one, "no room") && !retried.is_news(one, "no room"));
        retried.forget(one);
        assert!(retried.is_news(one, "no room") && !retried.is_news(other, "busy"));
    }
}
