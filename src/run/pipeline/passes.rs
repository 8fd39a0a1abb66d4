//! The passes of a picture through the pipeline, and the work of a device in each: pure functions
//! of the facts about it.
//!
//! | picture | passes |
//! | --- | --- |
//! | its histogram is all that is wanted | `Only` |
//! | its LUTs are given | `Apply` |
//! | its tiles are boxes, with pixels of several slices | `Count`, `Apply` |
//! | its LUTs are made from the counts of several pictures | `Count`, `Apply` |
//! | it is equalized by itself and at once | `Only` |
//! | it is equalized by itself and in bands | `Count`, `Apply`, after a `Survey` for some tiles |
//!
//! If unused low bits are looked for, `FindLevels` comes before these.

use std::sync::Arc;

use super::Purpose;
use crate::config::{PictureSettings, Together};
use crate::device::task::{Pass, Tables};
use crate::picture::boxes::Divided;
use crate::picture::luts::Luts;
use equalize::{Colour, Method, Operation};
use lanes::Order;

/// The counts from which a picture's table is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Basis<'s> {
    /// None: LUTs are given.
    Luts(&'s Arc<Luts>),
    /// Those of boxes of a volume.
    Boxes,
    /// Its own.
    Own,
    /// Those of the pages of its channel, if these may share a table; otherwise its own.
    Stack,
    /// Those of other pictures too.
    Several,
}

impl<'s> Basis<'s> {
    /// Returns the basis by the settings. Pictures whose channels are `split` share no tables with
    /// other pages by default.
    pub(super) fn of(settings: &'s PictureSettings, are_split: bool) -> Self {
        match (&settings.luts, &settings.together) {
            (Some(luts), _) => Self::Luts(luts),
            _ if settings.operation.method.has_boxes() => Self::Boxes,
            (None, &Together::PAGE) => Self::Own,
            (None, &Together::STACK) if are_split => Self::Own,
            (None, &Together::STACK) => Self::Stack,
            (None, _) => Self::Several,
        }
    }

    /// Returns the first pass of a picture before its file is opened.
    pub(super) fn first_pass(self, purpose: Purpose) -> Pass {
        match (purpose, self) {
            (Purpose::Count { .. }, _) | (Purpose::Equalize, Self::Own) => Pass::Only,
            (Purpose::Equalize, Self::Luts(luts)) => Pass::Apply(Tables::Luts(Arc::clone(luts)), None),
            (Purpose::Equalize, Self::Boxes | Self::Stack | Self::Several) => Pass::Count,
        }
    }

    /// Returns the first pass of the pages of an opened file.
    pub(super) fn first_pass_of(self, purpose: Purpose, pages: PageFacts) -> Pass {
        let basis = if matches!(self, Self::Stack) && !pages.share_channels { Self::Own } else { self };
        let pass = match (basis.first_pass(purpose), pages.bands) {
            (Pass::Only, Some(bands)) if purpose == Purpose::Equalize => bands.first_pass(),
            (pass, _) => pass,
        };
        if pages.look_for_levels { Pass::FindLevels(Box::new(pass)) } else { pass }
    }
}

/// The facts about the pages of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageFacts {
    /// Whether the pages of each channel may share a table.
    pub(super) share_channels: bool,
    /// The bands of its picture, if its pages are bands.
    pub(super) bands: Option<BandFacts>,
    /// Whether unused low bits are looked for.
    pub(super) look_for_levels: bool,
}

/// The facts about the bands of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct BandFacts {
    /// Whether the levels that occur have to be known before the tiles are counted.
    pub(super) need_survey: bool,
}

impl BandFacts {
    /// Returns the first pass of the bands of a picture that is equalized by itself.
    pub(super) fn first_pass(self) -> Pass {
        if self.need_survey { Pass::Survey } else { Pass::Count }
    }
}

/// Returns the order to a device for a picture, or part of an object that is divided, in this pass.
pub(super) fn order(purpose: Purpose, operation: Operation, pass: &Pass, divided: Divided) -> Order {
    let are_bands = matches!(divided, Divided::Bands(_));
    match (purpose, pass) {
        (_, Pass::FindLevels(_)) => Order::Nothing,
        (Purpose::Count { equalized }, _) => Order::Count { equalize: equalized.then_some(operation) },
        // Tables by place are made and applied here.
        _ if operation.method.has_boxes() || are_bands && is_adaptive(&operation) => Order::Nothing,
        // Devices do not count the L of L*a*b*.
        (_, Pass::Survey | Pass::Count) if operation.colour == Colour::Lab => Order::Nothing,
        (_, Pass::Survey | Pass::Count) => Order::Count { equalize: None },
        (_, Pass::Only) => Order::Equalize(operation),
        (_, Pass::Apply(..)) => Order::Apply(operation),
    }
}

/// Returns whether tables differ from place to place.
pub(super) fn is_adaptive(operation: &Operation) -> bool {
    matches!(operation.method, Method::Clahe(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::band_tiles::Bands;
    use crate::picture::counts::Counts;
    use equalize::{Clahe, ClipLimit, Tiles};

    const PURPOSES: [Purpose; 3] =
        [Purpose::Equalize, Purpose::Count { equalized: false }, Purpose::Count { equalized: true }];

    /// Returns the names of a pass and of those after it.
    fn names(pass: &Pass) -> Vec<&'static str> {
        match pass {
            Pass::Only => vec!["only"],
            Pass::Apply(..) => vec!["apply"],
            Pass::Count => vec!["count", "apply"],
            Pass::Survey => vec!["survey", "count", "apply"],
            Pass::FindLevels(next) => [vec!["levels"], names(next)].concat(),
        }
    }

    fn clahe(tiles: Tiles) -> Operation {
        Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, tiles, noise: 0 }))
    }

    /// States the passes rule by rule, without regard to how they are found.
    fn model(purpose: Purpose, basis: Basis<'_>, pages: Option<PageFacts>) -> Vec<&'static str> {
        let mut passes = Vec::new();
        if pages.is_some_and(|pages| pages.look_for_levels) {
            passes.push("levels");
        }
        if purpose != Purpose::Equalize {
            passes.push("only");
            return passes;
        }
        let is_by_itself = match basis {
            Basis::Own => true,
            Basis::Stack => pages.is_some_and(|pages| !pages.share_channels),
            Basis::Luts(_) | Basis::Boxes | Basis::Several => false,
        };
        let bands = pages.and_then(|pages| pages.bands);
        if is_by_itself && bands.is_none() {
            passes.push("only");
            return passes;
        }
        if is_by_itself && bands.is_some_and(|bands| bands.need_survey) {
            passes.push("survey");
        }
        if !matches!(basis, Basis::Luts(_)) {
            passes.push("count");
        }
        passes.push("apply");
        passes
    }

    #[test]
    fn passes_are_those_of_the_model() {
        let luts = Arc::new(Luts::of(&Counts::default(), &Operation::new(Method::Global), None));
        let both = [false, true];
        let all_bands = [None, Some(BandFacts { need_survey: false }), Some(BandFacts { need_survey: true })];
        let mut seen = 0;
        for purpose in PURPOSES {
            for basis in [Basis::Luts(&luts), Basis::Boxes, Basis::Own, Basis::Stack, Basis::Several] {
                assert_eq!(names(&basis.first_pass(purpose)), model(purpose, basis, None), "{basis:?}");
                for bands in all_bands {
                    for (share_channels, look_for_levels) in
                        both.iter().flat_map(|&share| both.map(|look| (share, look)))
                    {
                        let pages = PageFacts { share_channels, bands, look_for_levels };
                        let pass = basis.first_pass_of(purpose, pages);
                        let expected = model(purpose, basis, Some(pages));
                        assert_eq!(names(&pass), expected, "{purpose:?} {basis:?} {pages:?}");
                        assert_eq!(pass.passes(), expected.len());
                        seen += 1;
                    }
                }
            }
        }
        assert_eq!(seen, 3 * 5 * 3 * 4);
    }

    #[test]
    fn devices_work_on_pictures_that_need_no_table_by_place() {
        let luts = Arc::new(Luts::of(&Counts::default(), &Operation::new(Method::Global), None));
        let apply = Pass::Apply(Tables::Luts(luts), None);
        let bands = Divided::Bands(Bands { height: 90, each: 30 });
        let boxes = Tiles::Boxes { x: 8, y: 8, z: 4 };
        let global = Operation::new(Method::Global);
        let lab = Operation { colour: Colour::Lab, ..global };
        let grid = clahe(Tiles::Grid { x: 8, y: 8 });
        let equalize = Purpose::Equalize;
        let count = Order::Count { equalize: None };
        for (operation, pass, divided, expected) in [
            (global, &Pass::Only, Divided::ONE, Order::Equalize(global)),
            (global, &Pass::Count, Divided::ONE, count),
            (global, &apply, bands, Order::Apply(global)),
            (grid, &Pass::Only, Divided::ONE, Order::Equalize(grid)),
            (grid, &Pass::Survey, bands, Order::Nothing),
            (grid, &apply, bands, Order::Nothing),
            (clahe(boxes), &Pass::Count, Divided::ONE, Order::Nothing),
            (lab, &Pass::Count, Divided::ONE, Order::Nothing),
            (lab, &apply, Divided::ONE, Order::Apply(lab)),
            (global, &Pass::FindLevels(Box::new(Pass::Only)), Divided::ONE, Order::Nothing),
        ] {
            assert_eq!(order(equalize, operation, pass, divided), expected, "{operation:?} {pass:?}");
        }
        for equalized in [false, true] {
            let expected = Order::Count { equalize: equalized.then_some(grid) };
            assert_eq!(order(Purpose::Count { equalized }, grid, &Pass::Only, bands), expected);
        }
    }
}
