//! What the log said of pictures that are tried again, so that one which never passes does not fill it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Pictures that are tried again, each with the reason that was told last.
#[derive(Default)]
pub(super) struct Retried(HashMap<PathBuf, String>);

impl Retried {
    /// Whether that reason of that picture was not the one told last. It is by now.
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

    /// It is not tried again.
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
