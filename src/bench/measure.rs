//! How a rung is measured and judged.

use std::io;
use std::time::Instant;

use crate::worker::cuda::CudaError;
use crate::worker::{EngineError, Trouble};

/// Rounds of a measurement go on for so many seconds,
const SECONDS: f64 = 0.2;
/// but there are so many at least,
const LEAST_ROUNDS: usize = 5;
/// and at most.
const MOST_ROUNDS: usize = 100;

/// Why a rung has no time.
#[derive(Debug, thiserror::Error)]
pub(super) enum RungError {
    /// The driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The device cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A lane did not do a picture.
    #[error(transparent)]
    Lane(#[from] Trouble),
    /// The host has no memory for it.
    #[error("no memory: {0}")]
    Memory(#[from] io::Error),
    /// It is fast or slow, but wrong.
    #[error("WRONG: {0}")]
    Wrong(String),
}

/// How the result of a rung stands to the CPU's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The same, to the last count or byte.
    Same,
    /// Not the same, as was to be expected.
    Near {
        /// Levels by which the worst pixel is off.
        largest: u8,
        /// The part of all pixels that is off.
        share: f64,
    },
}

/// What was measured of a rung.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Seconds that the kernels take for one picture in the memory that they read.
    pub(super) kernels: Option<f64>,
    /// Seconds from the picture in host memory to the result in host memory.
    pub(super) whole: Option<f64>,
    /// The result.
    pub(super) verdict: Verdict,
    /// Bytes moved within [`Measured::kernels`] or else [`Measured::whole`], where they are what is measured.
    pub(super) moved: Option<usize>,
}

impl Measured {
    /// A right result, without its times yet.
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

/// The median of what so many rounds measure, after one that does not count.
pub(super) fn rounds(mut round: impl FnMut() -> Result<f64>) -> Result<f64> {
    round()?;
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < LEAST_ROUNDS
        || seconds.len() < MOST_ROUNDS && begin.elapsed().as_secs_f64() < SECONDS
    {
        seconds.push(round()?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Seconds that some work of the host takes.
pub(super) fn wall(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Expects the same counts.
pub(super) fn same_counts(counts: &[u32], right: &[u32]) -> Result<Measured> {
    let wrong = counts.iter().zip(right).filter(|(count, right)| count != right).count();
    if counts.len() != right.len() || wrong > 0 {
        return Err(RungError::Wrong(format!("{wrong} of {} counts are not the CPU's", right.len())));
    }
    Ok(Measured::same())
}

/// Expects the same pixels.
pub(super) fn same_pixels(pixels: &[u8], right: &[u8]) -> Result<Measured> {
    match compare(pixels, right)? {
        Verdict::Same => Ok(Measured::same()),
        Verdict::Near { largest, share } => Err(RungError::Wrong(format!(
            "{:.3} % of the pixels are not the CPU's, by up to {largest} levels",
            share * 100.0
        ))),
    }
}

/// Says how near the pixels are.
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
        // A hundred of them after the first: 1, 2, 4 and 5 are there 17 times, 3 and 9 are there 16 times.
        let mut times = [9.0, 5.0, 1.0, 4.0, 2.0, 3.0].into_iter().cycle();
        let mut called = 0;
        let median = rounds(|| {
            called += 1;
            Ok(times.next().unwrap())
        });
        assert_eq!(median.unwrap(), 4.0);
        assert_eq!(called, 1 + MOST_ROUNDS);
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
