//! Pauses between attempts that keep failing.

use std::time::Duration;

/// Pauses that double from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pauses for one file.
    ///
    /// A cause that passes by itself often takes seconds, and one that an operator has to end may
    /// last for months.
    pub(crate) const OF_A_FILE: Self =
        Self { first: Duration::from_secs(2), longest: Duration::from_secs(300) };

    /// Returns the pause after this many failures in a row.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let times = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(times).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(600) };
        let pauses = [1, 2, 5, 12, 13, 32, 33, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(pauses, [250, 500, 4_000, 512_000, 600_000, 600_000, 600_000, 600_000]);
    }
}
