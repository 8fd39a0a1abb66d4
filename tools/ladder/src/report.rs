//! The measurements, as they are printed and drawn.

use lanes::GpuInfo;
use serde::Serialize;

use super::measure::{self, Measured, Verdict};

/// The whole ladder, measured.
#[derive(Debug, Serialize)]
pub(super) struct LadderReport {
    /// Width and height of the picture.
    pub(super) size: (u32, u32),
    pub(super) gpu: Option<GpuInfo>,
    /// The reason for the lack of results from a GPU.
    pub(super) no_gpu: Option<String>,
    pub(super) sections: Vec<SectionReport>,
}

impl LadderReport {
    /// Returns the sections and rungs to show.
    ///
    /// Rungs skipped for lack of a GPU, and sections of such rungs alone, are left out.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&SectionReport, Vec<&RungReport>)> {
        self.sections.iter().filter_map(|section| {
            let rungs: Vec<_> = section.rungs.iter().filter(|rung| !self.is_absent(rung)).collect();
            (!rungs.is_empty()).then_some((section, rungs))
        })
    }

    fn is_absent(&self, rung: &RungReport) -> bool {
        matches!(&rung.outcome, Outcome::Skipped { reason } if self.no_gpu.as_ref() == Some(reason))
    }
}

/// A section, measured.
#[derive(Debug, Serialize)]
pub(super) struct SectionReport {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) rungs: Vec<RungReport>,
}

/// A rung, measured.
#[derive(Debug, Serialize)]
pub(super) struct RungReport {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// The outcome of a rung.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It ran.
    Measured(Figures),
    /// It cannot run on this machine.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// It failed or gave a wrong result.
    Failed {
        /// The fault.
        reason: String,
    },
}

/// The times of a rung.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// The seconds per picture for the kernels alone.
    pub(super) kernel_seconds: Option<f64>,
    /// The seconds per picture from host memory to host memory.
    pub(super) whole_seconds: Option<f64>,
    /// Whether the result is exactly the CPU's.
    pub(super) exact: bool,
    /// The difference of the worst pixel from the CPU's, in levels.
    pub(super) largest_difference: u8,
    /// The share of the pixels that differ from the CPU's, from 0 to 1.
    pub(super) different: f64,
    /// For a ceiling, the bytes moved per second.
    pub(super) bytes_per_second: Option<f64>,
}

impl From<Measured> for Figures {
    fn from(measured: Measured) -> Self {
        let (largest_difference, different) = match measured.verdict {
            Verdict::Same => (0, 0.0),
            Verdict::Near { largest, share } => (largest, share),
        };
        let seconds = measured.kernels.or(measured.whole);
        Self {
            kernel_seconds: measured.kernels,
            whole_seconds: measured.whole,
            exact: measured.verdict == Verdict::Same,
            largest_difference,
            different,
            bytes_per_second: measured.moved.zip(seconds).map(|(bytes, seconds)| bytes as f64 / seconds),
        }
    }
}

impl From<measure::Result<Measured>> for Outcome {
    fn from(result: measure::Result<Measured>) -> Self {
        match result {
            Ok(measured) => Self::Measured(measured.into()),
            Err(error) => Self::Failed { reason: error.to_string() },
        }
    }
}
