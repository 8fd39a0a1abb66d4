//! The steps from counts to the LUTs of an operation, and the memory for them.
#![allow(unsafe_code)]

use cuda::{Address, Result, Stream};
use equalize::{Depth, Exposure, Operation, Pixel, Strength};

use crate::batch::{BatchPlanes, Counts};
use crate::exposure::ExposureTables;
use crate::kernels::Kernels;
use crate::rule::{Preparation, Rule};
use crate::workspace::Pieces;

/// The steps from counts to LUTs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LutSteps {
    /// The preparation of the original counts.
    prepared: Option<Preparation>,
    exposed: Option<Exposed>,
    rule: Rule,
}

/// The steps of an exposure.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    exposure: Exposure,
    /// The preparation of the counts of exposed levels.
    prepared: Option<Preparation>,
    /// The share of the way from exposed levels to their LUTs' entries.
    strength: Strength,
}

/// The start of each piece of memory for steps.
pub(crate) struct Room {
    /// Prepared counts, 64 bits each.
    prepared: u64,
    /// Counts of exposed levels, 64 bits each.
    mapped: u64,
    /// Tables of exposure, and the LUTs of exposed levels.
    tables: u64,
    luts: u64,
}

impl LutSteps {
    /// Returns the steps for pictures of this kind.
    ///
    /// `reference` is the address of the running sums of the reference's counts, if the method has
    /// one.
    pub(crate) fn new(operation: &Operation, pixel: Pixel, reference: Address) -> Self {
        let rule = |strength| Rule::new(operation.method, strength, reference);
        let Some(exposure) = operation.exposure else {
            let prepared = Preparation::of(operation, pixel);
            return Self { prepared, exposed: None, rule: rule(operation.strength) };
        };
        let exposed = Exposed {
            exposure,
            prepared: Preparation::of(operation, Pixel::Gray),
            strength: operation.strength,
        };
        let prepared = Preparation::of_linked(operation, pixel);
        Self { prepared, exposed: Some(exposed), rule: rule(Strength::FULL) }
    }

    /// Returns the rule, if there are no other steps.
    pub(crate) fn only_rule(&self) -> Option<Rule> {
        (self.prepared.is_none() && self.exposed.is_none()).then_some(self.rule)
    }

    /// Adds the memory for so many planes.
    pub(crate) fn add_room(&self, planes: u64, depth: Depth, pieces: &mut Pieces) -> Room {
        let (levels, is_exposed) = (depth.levels() as u64 * planes, self.exposed.is_some());
        let prepares =
            self.prepared.is_some() || self.exposed.is_some_and(|exposed| exposed.prepared.is_some());
        let mut add = |needed: bool, bytes: u64| pieces.add(if needed { levels * bytes } else { 0 });
        let entry = depth.bytes() as u64;
        Room {
            prepared: add(prepares, 8),
            mapped: add(is_exposed, 8),
            tables: add(is_exposed, entry),
            luts: add(is_exposed, entry),
        }
    }

    /// Returns the most bytes of such memory for one plane.
    pub(crate) fn bytes(&self, depth: Depth) -> u64 {
        let mut pieces = Pieces::default();
        self.add_room(1, depth, &mut pieces);
        pieces.bytes()
    }
}

impl Room {
    /// Returns the addresses of the pieces in memory from `at` on.
    pub(crate) fn in_memory(&self, at: Address) -> Self {
        let &Self { prepared, mapped, tables, luts } = self;
        Self { prepared: at + prepared, mapped: at + mapped, tables: at + tables, luts: at + luts }
    }
}

impl Kernels {
    /// Makes the LUTs of planes; `room` has addresses, from [`Room::in_memory`].
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn make_luts_in_steps(
        &self,
        stream: &Stream,
        mut counts: Counts,
        planes: BatchPlanes,
        steps: &LutSteps,
        room: &Room,
        to: Address,
    ) -> Result<()> {
        let (number, levels) = (planes.number, planes.depth.levels() as u32);
        let &Room { prepared, mapped, tables, luts } = room;
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(preparation) = steps.prepared {
                self.prepare(stream, counts, number, levels, preparation, prepared)?;
                counts = Counts { at: prepared, are_wide: true };
            }
            let Some(Exposed { exposure, prepared: preparation, strength }) = steps.exposed else {
                return self.make_luts(stream, counts, planes, steps.rule, to);
            };
            let exposed = ExposureTables { at: tables, mapped: Some(mapped) };
            self.expose(stream, counts, planes, levels, exposure, exposed)?;
            counts = Counts { at: mapped, are_wide: true };
            if let Some(preparation) = preparation {
                self.prepare(stream, counts, number, levels, preparation, prepared)?;
                counts = Counts { at: prepared, are_wide: true };
            }
            self.make_luts(stream, counts, planes, steps.rule, luts)?;
            self.compose(stream, tables, luts, planes, strength, to)
        }
    }
}
