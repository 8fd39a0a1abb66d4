//! The look-up tables of methods that have one LUT for a whole plane.
//!
//! They follow exactly from the plane's counts, in integers. Each method is a file with one
//! function, `fill`, that makes a LUT from counts. A [`Rule`] chooses among them.

mod equalize;
mod matching;
mod stretch;

pub use equalize::Plateau;

use super::level::Level;
use super::percentiles::Stretch;
use super::{Depth, Operation, exposure};

/// The way from a plane's counts to its LUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule<'r> {
    /// All levels are to occur equally often.
    Equalize,
    /// All levels are to occur equally often, with counts capped at a share of the samples.
    Plateau(Plateau),
    /// The levels between two percentiles are spread over the whole range.
    Stretch(Stretch),
    /// The levels are to occur as often as in a reference; one count per level.
    Match(&'r [u64]),
}

impl Rule<'_> {
    /// Fills `lut` from `counts`; both have one entry per level.
    ///
    /// The number of levels may be less than a sample has room for.
    ///
    /// # Panics
    /// If `counts`, `lut` or the counts of a reference do not have one entry per level.
    pub fn fill<S: Level>(self, counts: &[u64], lut: &mut [S]) {
        assert!((1..=S::LEVELS).contains(&counts.len()), "a histogram has one count a level");
        assert_eq!(lut.len(), counts.len(), "a LUT has one entry a level");
        match self {
            Self::Equalize => equalize::fill(u64::MAX, counts, lut),
            Self::Plateau(plateau) => equalize::fill(plateau.most(counts), counts, lut),
            Self::Stretch(stretch) => stretch::fill(stretch, counts, lut),
            Self::Match(reference) => {
                assert_eq!(reference.len(), counts.len(), "a reference has one count a level");
                matching::fill(reference, counts, lut);
            }
        }
    }

    /// Fills the first `levels` entries of `lut` as [`Rule::fill`] does.
    ///
    /// The entries above map to themselves.
    ///
    /// # Panics
    /// As [`Rule::fill`].
    pub(super) fn fill_first<S: Level>(self, levels: usize, counts: &[u64], lut: &mut [S]) {
        let rule = match self {
            Self::Match(reference) => Self::Match(&reference[..levels]),
            other => other,
        };
        let (first, above) = lut.split_at_mut(levels);
        rule.fill(&counts[..levels], first);
        for (level, entry) in (levels..).zip(above) {
            *entry = S::from_level(level as u32);
        }
    }
}

/// Fills the LUTs of an operation from `counts`, as [`apply`](crate::apply) takes them.
///
/// There is one LUT for each equalized plane ([`Colour::to_equalize`](crate::Colour::to_equalize)),
/// with one entry per level. The LUTs include the operation's exposure and strength. `reference`
/// has as many counts if the method is [`Method::Match`](crate::Method::Match).
///
/// # Panics
/// If the method has no LUT for a whole plane, if `luts` has 16-bit entries at an odd address, or
/// if the lengths do not fit together.
pub fn fill(operation: &Operation, depth: Depth, counts: &[u64], reference: &[u64], luts: &mut [u8]) {
    assert_eq!(luts.len(), counts.len() * depth.bytes(), "an entry a count");
    match depth {
        Depth::Eight => fill_samples::<u8>(operation, counts, reference, luts),
        Depth::Sixteen => {
            fill_samples::<u16>(operation, counts, reference, bytemuck::cast_slice_mut(luts));
        }
    }
}

fn fill_samples<S: Level>(operation: &Operation, counts: &[u64], reference: &[u64], luts: &mut [S]) {
    for (number, (counts, lut)) in counts.chunks(S::LEVELS).zip(luts.chunks_mut(S::LEVELS)).enumerate() {
        fill_plane(operation, number, counts, reference, lut);
    }
}

/// Fills the LUT of one equalized plane, given by its number, from its counts.
pub(super) fn fill_plane<S: Level>(
    operation: &Operation,
    number: usize,
    counts: &[u64],
    reference: &[u64],
    lut: &mut [S],
) {
    let reference = reference.chunks(S::LEVELS).nth(number).unwrap_or_default();
    let rule = operation.method.rule(reference).expect("it has a LUT for a plane");
    let levels = operation.levels.number(S::DEPTH);
    let Some(exposure) = operation.exposure else {
        rule.fill_first(levels, counts, lut);
        return operation.strength.weaken_lut(lut);
    };
    let exposed: Vec<S> = exposure.table(levels, counts);
    rule.fill_first(levels, &exposure::mapped(counts, &exposed), lut);
    exposure::compose(&exposed, lut);
    operation.strength.weaken(&exposed, lut);
}

/// Fills the identity LUT.
fn fill_identity<S: Level>(lut: &mut [S]) {
    for (level, entry) in lut.iter_mut().enumerate() {
        *entry = S::from_level(level as u32);
    }
}
