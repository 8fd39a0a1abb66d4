//! The condition of a device with a supervised worker.

use std::time::Instant;

/// The condition of the device, as reported in its state.
#[derive(Default)]
pub(super) enum Health {
    /// Its worker starts only when it is wanted.
    Asleep,
    /// A worker is being started.
    #[default]
    Starting,
    /// Its worker works.
    Up,
    /// Its worker is being killed.
    Ending,
    /// It failed, and is started again at this time.
    Pausing { why: String, until: Instant },
    /// It was given up.
    GivenUp { why: String },
}

impl Health {
    /// Returns the reason why no picture should wait for the device, unless it works.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Self::Asleep | Self::Up => None,
            Self::Starting => Some("starting".to_owned()),
            Self::Ending => Some("its worker is being killed".to_owned()),
            Self::Pausing { why, until } => {
                let left = until.saturating_duration_since(Instant::now()).as_secs();
                Some(format!("{why}; retried in {left} s"))
            }
            Self::GivenUp { why } => Some(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn trouble_says_when_it_is_tried_again() {
        assert_eq!(Health::Up.trouble(), None);
        let until = Instant::now() + Duration::from_millis(7_900);
        let pausing = Health::Pausing { why: "it overran its deadline".into(), until };
        assert_eq!(pausing.trouble().unwrap(), "it overran its deadline; retried in 7 s");
    }
}
