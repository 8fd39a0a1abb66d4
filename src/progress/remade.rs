//! Outputs with other settings that are made again: their number, and the differing flags.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::source::sidecars::is_named_as_sidecar;
use crate::source::{Job, Remake};

/// The most differences that are named.
const TOLD: usize = 3;

/// The number of outputs with other settings that are made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Remade {
    /// All of them.
    #[serde(rename = "remade")]
    all: u64,
    /// The outputs with known settings, by the difference.
    #[serde(rename = "remade_for")]
    by_difference: BTreeMap<String, u64>,
}

impl Remade {
    /// Counts these jobs' outputs that are made again. Copies of sidecar files do not count.
    pub(crate) fn of(jobs: &[Job]) -> Self {
        let mut remade = Self::default();
        jobs.iter()
            .filter(|job| !is_named_as_sidecar(&job.input))
            .filter_map(|job| job.remakes.clone())
            .for_each(|remake| remade.add(remake));
        remade
    }

    /// Adds one.
    pub(super) fn add(&mut self, remake: Remake) {
        self.all += 1;
        if let Some(difference) = remake.difference {
            *self.by_difference.entry(difference).or_default() += 1;
        }
    }

    /// Returns a sentence about them, with the verb for one and for several; `None` if there are
    /// none.
    pub(crate) fn sentence(&self, [of_one, of_several]: [&str; 2]) -> Option<String> {
        let text = match self.all {
            0 => return None,
            1 => format!("1 output with other settings {of_one}"),
            all => format!("{all} outputs with other settings {of_several}"),
        };
        Some(text + &self.differences())
    }

    fn differences(&self) -> String {
        let mut known: Vec<_> = self.by_difference.iter().collect();
        known.sort_by_key(|(_, count)| Reverse(**count));
        match known[..] {
            [] => String::new(),
            [(only, &count)] if count == self.all => format!(": {only}"),
            _ => {
                let told = known.iter().take(TOLD).map(|(difference, count)| format!("{count} {difference}"));
                let told: Vec<_> = told.collect();
                let left = self.all - known.iter().take(TOLD).map(|(_, count)| **count).sum::<u64>();
                let others = if left > 0 { format!("; {left} of others") } else { String::new() };
                format!(": {}{others}", told.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_told_as_far_as_it_is_known() {
        let told = |differences: &[Option<&str>]| {
            let mut remade = Remade::default();
            for difference in differences {
                remade.add(Remake { difference: difference.map(str::to_owned) });
            }
            remade.sentence(["was made again", "were made again"])
        };
        let (a, b) = (Some("--color hue instead of luma"), Some("--strength 1 instead of 0.5"));
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[None]).unwrap(), "1 output with other settings was made again");
        assert_eq!(
            told(&[a, a]).unwrap(),
            "2 outputs with other settings were made again: --color hue instead of luma"
        );
        assert_eq!(
            told(&[b, a, None, a, Some("c"), Some("d"), Some("d")]).unwrap(),
            "7 outputs with other settings were made again: 2 --color hue instead of luma; 2 d; 1 --strength 1 instead of 0.5; 2 of others"
        );
    }
}
