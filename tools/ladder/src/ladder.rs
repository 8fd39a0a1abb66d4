//! Climbing the ladder: every rung is measured, and failures are reported with the others.

use super::gpu::{self, Gpu};
use super::picture::TestPicture;
use super::report::{LadderReport, Outcome, RungReport, SectionReport};
use super::rungs::{LADDER, Run, Rung, Section};
use super::table;
use equalize::Layout;

/// A GPU, or the reason why there is no GPU.
type Found = Result<Gpu, String>;

/// The picture and the GPUs of the rungs.
///
/// The first GPU is opened before the first rung, the second before the first rung that needs two.
struct Climb {
    picture: TestPicture,
    /// The index of the first GPU, in CUDA's order.
    gpu: u32,
    /// Whether to report on standard error the rung being measured.
    verbose: bool,
    first: Option<Found>,
    second: Option<Found>,
}

/// Measures the rungs with the text `only` in their name or section; `None` without such rungs.
pub(super) fn climb(
    (width, height): (u32, u32),
    only: &str,
    gpu: u32,
    verbose: bool,
) -> Option<LadderReport> {
    let wanted: Vec<_> = LADDER.iter().map(|section| (section, wanted(section, only))).collect();
    if wanted.iter().all(|(_, rungs)| rungs.is_empty()) {
        return None;
    }
    let mut climb =
        Climb { picture: TestPicture::new(width, height), gpu, verbose, first: None, second: None };
    let sections = wanted.into_iter().filter(|(_, rungs)| !rungs.is_empty());
    let sections = sections.map(|(section, rungs)| climb.climb_section(section, &rungs)).collect();
    let Layout { width, height, .. } = climb.picture.layout;
    let (gpu, no_gpu) = match climb.first {
        Some(Ok(gpu)) => (gpu.info(), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    Some(LadderReport { size: (width, height), gpu, no_gpu, sections })
}

fn wanted(section: &Section, only: &str) -> Vec<&'static Rung> {
    let text = only.to_lowercase();
    let has = |name: &str| name.to_lowercase().contains(&text);
    section.rungs.iter().filter(|rung| has(section.title) || has(rung.name)).collect()
}

impl Climb {
    fn climb_section(&mut self, section: &Section, rungs: &[&Rung]) -> SectionReport {
        let rungs = rungs.iter().map(|rung| self.climb_rung(section, rung)).collect();
        SectionReport { title: section.title, about: section.about, rungs }
    }

    fn climb_rung(&mut self, section: &Section, rung: &Rung) -> RungReport {
        if self.verbose {
            eprintln!("{}: {}", section.title, rung.name);
        }
        let climbed = RungReport { name: rung.name, shows: rung.shows, outcome: self.run(rung.run) };
        if self.verbose {
            eprintln!("{}", table::row(&climbed, 0, self.picture.pixels() as f64));
        }
        climbed
    }

    fn run(&mut self, run: Run) -> Outcome {
        self.open(matches!(run, Run::TwoGpus(_)));
        let picture = &self.picture;
        match (run, &self.first, &self.second) {
            (Run::Cpu(run), ..) => run(picture).into(),
            (Run::Gpu(run), Some(Ok(gpu)), _) => run(picture, gpu).into(),
            (Run::TwoGpus(run), Some(Ok(first)), Some(Ok(second))) => run(picture, first, second).into(),
            (_, Some(Err(reason)), _) | (_, _, Some(Err(reason))) => {
                Outcome::Skipped { reason: reason.clone() }
            }
            (_, _, None) | (_, None, _) => unreachable!("both were opened, or looked for in vain"),
        }
    }

    /// Opens the GPU and, for a `second` one, the next too, unless they are open already.
    ///
    /// Keeps the reason of a failure.
    fn open(&mut self, second: bool) {
        let ordinal = self.gpu;
        if self.first.is_none() {
            self.first = Some(open(ordinal, &self.picture));
        }
        if second && self.second.is_none() {
            self.second = Some(open(ordinal.saturating_add(1), &self.picture));
            // The GPU opened last has become the thread's current one. If binding the first fails,
            // the next rung will show it.
            let _ = self.first.as_ref().and_then(|found| found.as_ref().ok()).map(Gpu::bind);
        }
    }
}

fn open(ordinal: u32, picture: &TestPicture) -> Found {
    match gpu::count()? {
        count if ordinal < count => Gpu::open(ordinal, picture).map_err(|error| error.to_string()),
        1 => Err("there is only one GPU".to_owned()),
        count => Err(format!("there is no GPU {ordinal}, only {count} of them, from 0 on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure;

    fn climbed(size: (u32, u32), only: &str) -> Option<LadderReport> {
        climb(size, only, 9999, false)
    }

    fn rung(section: &SectionReport, name: &str) -> usize {
        section.rungs.iter().position(|rung| rung.name == name).unwrap()
    }

    #[test]
    fn without_a_gpu_the_cpu_climbs_alone() {
        let ladder = climbed((128, 64), "").unwrap();
        assert!(ladder.gpu.is_none() && ladder.no_gpu.is_some());
        assert_eq!(ladder.sections.len(), LADDER.len());
        for (measured, section) in ladder.sections.iter().zip(LADDER) {
            assert_eq!(measured.rungs.len(), section.rungs.len());
            for (measured, rung) in measured.rungs.iter().zip(section.rungs) {
                match (&measured.outcome, rung.run) {
                    (Outcome::Measured(figures), Run::Cpu(_)) => {
                        assert!(figures.exact && figures.kernel_seconds.is_none(), "{}", rung.name);
                        assert!(figures.whole_seconds.unwrap() > 0.0);
                    }
                    (Outcome::Skipped { reason }, Run::Gpu(_) | Run::TwoGpus(_)) => {
                        assert_eq!(Some(reason), ladder.no_gpu.as_ref());
                    }
                    (outcome, _) => panic!("{}: {outcome:?}", rung.name),
                }
            }
        }
    }

    #[test]
    fn rungs_are_chosen_by_name_or_section() {
        let ladder = climbed((16, 16), "SCALAR").unwrap();
        assert_eq!(ladder.sections.len(), 4);
        assert!(ladder.sections.iter().all(|section| section.rungs.len() == 1));
        let ladder = climbed((16, 16), "clahe").unwrap();
        assert_eq!(ladder.sections.len(), 1);
        assert_eq!(rung(&ladder.sections[0], "histeqd"), 4);
        assert!(climbed((16, 16), "stairs").is_none());
    }

    #[test]
    fn a_failure_is_the_rungs_own() {
        let failed = Outcome::from(measure::same_counts(&[1], &[2]));
        let json = serde_json::to_value(&failed).unwrap();
        assert_eq!(json["outcome"], "failed");
        assert_eq!(json["reason"], "WRONG: 1 of 1 counts are not the CPU's");
    }

    #[test]
    fn the_documentation_explains_every_rung() {
        let text = include_str!("../../../docs/internals/ladder.md");
        for section in LADDER {
            assert!(
                text.contains(&format!("## {}\n\n{}\n", section.title, section.about)),
                "{}",
                section.title
            );
            for rung in section.rungs {
                let row = format!("| {} | {} |\n", rung.name, rung.shows);
                assert!(text.contains(&row), "docs/internals/ladder.md lacks\n{row}");
            }
        }
    }
}
