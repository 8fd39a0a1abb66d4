//! Measuring a rung, and checking its result.

use std::io;
use std::time::Instant;

use lanes::gpu::driver::CudaError;
use lanes::{EngineError, LaneError};

/// Seconds for which a measurement is repeated, within the limits below.
const SECONDS: f64 = 0.2;
/// The fewest rounds of a measurement.
const LEAST_ROUNDS: usize = 5;
/// The most rounds of a measurement.
const MAX_ROUNDS: usize = 100;

/// The reason why a rung has no time.
#[derive(Debug, thiserror::Error)]
pub(super) enum RungError {
    /// The driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The device cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A lane did not process a picture.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The host is out of memory.
    #[error("no memory: {0}")]
    Memory(#[from] io::Error),
    /// The result is wrong, and its speed does not matter.
    #[error("WRONG: {0}")]
    Wrong(String),
}

/// The comparison of a rung's result with the CPU's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Identical, in every count or byte.
    Same,
    /// Different, as expected of the method.
    Near {
        /// The difference of the worst pixel, in levels.
        largest: u8,
        /// The share of the pixels that differ, from 0 to 1.
        share: f64,
    },
}

/// The measurements of a rung.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Seconds that the kernels take for one picture that is already in the memory they read.
    pub(super) kernels: Option<f64>,
    /// Seconds from the picture in host memory to the result in host memory.
    pub(super) whole: Option<f64>,
    /// The comparison of the result with the CPU's.
    pub(super) verdict: Verdict,
    /// Bytes moved in [`Measured::kernels`] or else [`Measured::whole`] seconds, for bandwidths.
    pub(super) moved: Option<usize>,
}

impl Measured {
    /// Returns a right result, without times.
    pub(super) const fn same() -> Self {
        Self { kernels: None, whole: None, verdict: Verdict::Same, moved: None }
    }

    pub(super) fn kernels(self, seconds: f64) -> Self {
        Self { kernels: Some(seconds), ..self }
    }

    pub(super) fn whole(self, seconds: f64) -> Self {
        Self { whole: Some(seconds), ..self }
    }

    pub(super) fn moved(self, bytes: usize) -> Self {
        Self { moved: Some(bytes), ..self }
    }
}

pub(super) type Result<T> = std::result::Result<T, RungError>;

/// Returns the median of several rounds' results, after one round to warm up.
pub(super) fn rounds(mut round: impl FnMut() -> Result<f64>) -> Result<f64> {
    round()?;
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < LEAST_ROUNDS
        || seconds.len() < MAX_ROUNDS && begin.elapsed().as_secs_f64() < SECONDS
    {
        seconds.push(round()?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Returns the seconds that some work takes, by the host's clock.
pub(super) fn wall(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Checks that the counts are right.
pub(super) fn same_counts(counts: &[u32], right: &[u32]) -> Result<Measured> {
    let wrong = counts.iter().zip(right).filter(|(count, right)| count != right).count();
    if counts.len() != right.len() || wrong > 0 {
        return Err(RungError::Wrong(format!("{wrong} of {} counts are not the CPU's", right.len())));
    }
    Ok(Measured::same())
}

/// Checks that the pixels are right.
pub(super) fn same_pixels(pixels: &[u8], right: &[u8]) -> Result<Measured> {
    match compare(pixels, right)? {
        Verdict::Same => Ok(Measured::same()),
        Verdict::Near { largest, share } => Err(RungError::Wrong(format!(
            "{:.3} % of the pixels are not the CPU's, by up to {largest} levels",
            share * 100.0
        ))),
    }
}

/// Records how close the pixels are to the right ones.
pub(super) fn near_pixels(pixels: &[u8], right: &[u8]) -> Result<Measured> {
    Ok(Measured { verdict: compare(pixels, right)?, ..Measured::same() })
}

fn compare(pixels: &[u8], right: &[u8]) -> Result<Verdict> {
    if pixels.len() != right.len() {
        return Err(RungError::Wrong(format!("{} pixels instead of {}", pixels.len(), right.len())));
    }
    let off = || pixels.iter().zip(right).map(|(a, b)| a.abs_diff(*b)).filter(|&levels| levels > 0);
    Ok(match off().max() {
        None => Verdict::Same,
        Some(largest) => Verdict::Near { largest, share: off().count() as f64 / right.len() as f64 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_rounds_after_the_first_counts() {
        // Of the hundred rounds after the first, 1, 2, 4 and 5 come up 17 times each, 3 and 9 come
        // up 16 times.
        let mut times = [9.0, 5.0, 1.0, 4.0, 2.0, 3.0].into_iter().cycle();
        let mut called = 0;
        let median = rounds(|| {
            called += 1;
            Ok(times.next().unwrap())
        });
        assert_eq!(median.unwrap(), 4.0);
        assert_eq!(called, 1 + MAX_ROUNDS);
    }

    #[test]
    fn a_failing_round_ends_the_measurement() {
        let mut left = 3;
        let result = rounds(|| {
            left -= 1;
            if left == 0 { Err(RungError::Wrong("x".into())) } else { Ok(1.0) }
        });
        assert_eq!(result.unwrap_err().to_string(), "WRONG: x");
    }

    #[test]
    fn wrong_results_are_told_with_how_wrong_they_are() {
        assert_eq!(same_counts(&[1, 2], &[1, 2]).unwrap(), Measured::same());
        let error = same_counts(&[1, 2, 9], &[1, 3, 8]).unwrap_err().to_string();
        assert_eq!(error, "WRONG: 2 of 3 counts are not the CPU's");
        let error = same_pixels(&[1, 9, 3, 4], &[1, 2, 3, 4]).unwrap_err().to_string();
        assert_eq!(error, "WRONG: 25.000 % of the pixels are not the CPU's, by up to 7 levels");
        assert!(same_pixels(&[1], &[1, 2]).is_err());
    }

    #[test]
    fn a_near_result_is_no_error() {
        let near = near_pixels(&[1, 3, 3, 4], &[1, 2, 3, 4]).unwrap();
        assert_eq!(near.verdict, Verdict::Near { largest: 1, share: 0.25 });
        assert_eq!(near_pixels(&[1], &[1]).unwrap().verdict, Verdict::Same);
    }
}
