//! LUTs of an operation: the steps that lead to them from counts, and the memory that these take.
#![allow(unsafe_code)]

use cuda::{Address, Result, Stream};
use equalize::{Depth, Exposure, Operation, Pixel, Strength};

use crate::kernels::Kernels;
use crate::rule::{Preparation, Rule};
use crate::workspace::Pieces;

/// How LUTs follow from counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LutSteps {
    /// What is done to counts as they come.
    prepared: Option<Preparation>,
    exposed: Option<Exposed>,
    rule: Rule,
}

/// The steps of an exposure.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    exposure: Exposure,
    /// What is done to the counts of exposed levels.
    prepared: Option<Preparation>,
    /// How far levels go from the exposed ones.
    strength: Strength,
}

/// Where the memory for steps begins.
pub(crate) struct Room {
    /// Counts that have been prepared, 64 bits each.
    prepared: u64,
    /// Counts of exposed levels, 64 bits each.
    mapped: u64,
    /// Tables that expose, and the LUTs of exposed levels.
    tables: u64,
    luts: u64,
}

impl LutSteps {
    /// Returns those of pictures of this kind. `reference`: the running sums of the reference's counts, if the method has one.
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

    /// Returns the rule, if it is all that LUTs follow by.
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

    /// Returns the most bytes that a plane takes of such memory.
    pub(crate) fn bytes(&self, depth: Depth) -> u64 {
        let mut pieces = Pieces::default();
        self.add_room(1, depth, &mut pieces);
        pieces.bytes()
    }
}

impl Kernels {
    /// Makes the LUTs of `all` planes, of which `planes` follow one another in a picture. `counts`: and whether they have 64 bits. `at`: where the
    /// memory of the room begins.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn make_luts_in_steps(
        &self,
        stream: &Stream,
        mut counts: (Address, bool),
        (all, planes): (usize, usize),
        depth: Depth,
        (steps, room, at): (&LutSteps, &Room, Address),
        to: Address,
    ) -> Result<()> {
        let number = depth.levels() as u32;
        let prepared = (at + room.prepared, true);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(preparation) = steps.prepared {
                self.prepare(stream, counts, all, number, preparation, prepared.0)?;
                counts = prepared;
            }
            let Some(Exposed { exposure, prepared: preparation, strength }) = steps.exposed else {
                return self.make_luts(stream, counts, (all, planes), depth, steps.rule, to);
            };
            let (tables, mapped, luts) = (at + room.tables, at + room.mapped, at + room.luts);
            self.expose(stream, counts, (all, depth, number), exposure, (tables, mapped))?;
            counts = (mapped, true);
            if let Some(preparation) = preparation {
                self.prepare(stream, counts, all, number, preparation, prepared.0)?;
                counts = prepared;
            }
            self.make_luts(stream, counts, (all, planes), depth, steps.rule, luts)?;
            self.compose(stream, (tables, luts), (all, depth), strength, to)
        }
    }
}
