//! The levels of a plane after a share of the samples at each end.

/// All samples, in the unit of a [`Stretch`].
pub(crate) const ALL: u128 = 1_000_000;

/// The shares of the samples, in parts per million, that a stretch gives up.
///
/// They become the darkest and the brightest level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stretch {
    /// At most this share of the samples is below the level that becomes the darkest.
    pub low: u32,
    /// At most this share of the samples is above the level that becomes the brightest.
    pub high: u32,
}

impl Stretch {
    /// Returns the levels of a plane that become the darkest and the brightest.
    ///
    /// `None` if the first is not below the second.
    pub(crate) fn ends(self, counts: &[u64]) -> Option<(usize, usize)> {
        let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        let low = first_beyond(counts.iter(), total * u128::from(self.low))?;
        let from_top = first_beyond(counts.iter().rev(), total * u128::from(self.high))?;
        let high = counts.len() - 1 - from_top;
        (low < high).then_some((low, high))
    }
}

/// Returns how many counts come before the one with which their sum exceeds a `share`.
///
/// `share` is in millionths of the samples; `None` if the sum of all does not exceed it.
fn first_beyond<'c>(mut counts: impl Iterator<Item = &'c u64>, share: u128) -> Option<usize> {
    let mut running = 0;
    counts.position(|&count| {
        running += u128::from(count);
        running * ALL > share
    })
}
