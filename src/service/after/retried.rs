//! Remembers earlier failures of pictures that are retried.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The pictures that are being retried.
#[derive(Default)]
pub(crate) struct Retried(HashMap<PathBuf, Past>);

#[derive(Default)]
struct Past {
    /// The reason that was logged last.
    told: Option<String>,
    /// The [openings](crate::service::gate::Gate::openings) when it could not be written for the
    /// first time.
    unwritten_at: Option<u64>,
}

impl Retried {
    /// Returns whether `reason` differs from the one that was logged last for the picture, and
    /// remembers it: a picture that fails every time does not fill the log.
    pub(crate) fn is_news(&mut self, picture: &Path, reason: &str) -> bool {
        let told = &mut self.past(picture).told;
        let is_news = told.as_deref() != Some(reason);
        if is_news {
            *told = Some(reason.to_owned());
        }
        is_news
    }

    /// Returns whether the cause of a failed write concerns all pictures, given the gate's
    /// `openings`. It does not if some could be written since this one failed for the first time:
    /// then it is too large for the remaining space, or its folder is to blame.
    pub(crate) fn concerns_all(&mut self, picture: &Path, openings: u64) -> bool {
        *self.past(picture).unwritten_at.get_or_insert(openings) == openings
    }

    /// Forgets failed writes: from now on, pictures go to another file system.
    pub(crate) fn forget_writes(&mut self) {
        self.0.values_mut().for_each(|past| past.unwritten_at = None);
    }

    /// Forgets a picture that is not retried.
    pub(crate) fn forget(&mut self, picture: &Path) {
        self.0.remove(picture);
    }

    fn past(&mut self, picture: &Path) -> &mut Past {
        self.0.entry(picture.to_owned()).or_default()
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

    #[test]
    fn a_picture_that_alone_cannot_be_written_concerns_no_other() {
        let mut retried = Retried::default();
        let (large, small) = (Path::new("large"), Path::new("small"));
        for _ in 0..3 {
            assert!(retried.concerns_all(large, 0) && retried.concerns_all(small, 0));
        }
        retried.forget(small);
        assert!(!retried.concerns_all(large, 1), "the small one was written");
        assert!(retried.concerns_all(small, 1));
        retried.forget(large);
        assert!(retried.concerns_all(large, 1));
        retried.forget_writes();
        assert!(retried.concerns_all(small, 2), "elsewhere");
    }
}
