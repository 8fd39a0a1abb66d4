//! LUTs that pictures are given, because they are made of the histograms of several.

use std::collections::HashMap;

use crate::reference::Reference;
use equalize::{Depth, Layout, Operation, Pixel, count, lut};

/// What pictures must have in common to have the same LUTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    has_colour: bool,
    /// Whether samples have 16 bits.
    is_deep: bool,
}

impl Kind {
    pub(crate) fn of(layout: &Layout) -> Self {
        Self { has_colour: layout.pixel.colour_channels() > 1, is_deep: layout.depth == Depth::Sixteen }
    }

    /// Returns the kind with these [`Kind::name`] and [`Kind::bits`].
    pub(crate) fn named(name: &str, bits: u32) -> Option<Self> {
        let all = [false, true].map(|has_colour| [false, true].map(|is_deep| Self { has_colour, is_deep }));
        all.into_iter().flatten().find(|kind| kind.name() == name && kind.bits() == bits)
    }

    pub(crate) const fn name(self) -> &'static str {
        if self.has_colour { "rgb" } else { "gray" }
    }

    pub(crate) const fn bits(self) -> u32 {
        if self.is_deep { 16 } else { 8 }
    }

    const fn depth(self) -> Depth {
        if self.is_deep { Depth::Sixteen } else { Depth::Eight }
    }

    /// Returns the layout of a picture of the kind.
    fn layout(self) -> Layout {
        let pixel = if self.has_colour { Pixel::Rgb } else { Pixel::Gray };
        Layout { width: 1, height: 1, pixel, depth: self.depth() }
    }

    pub(crate) const fn levels(self) -> usize {
        self.depth().levels()
    }

    /// Returns the names of the planes that are counted.
    pub(crate) const fn planes(self) -> &'static [&'static str] {
        if self.has_colour { &["red", "green", "blue", "luma"] } else { &["gray"] }
    }

    /// Returns the counts of those planes that an operation changes.
    pub(crate) fn equalized(self, counts: &[u64], operation: &Operation) -> Vec<u64> {
        count::of_equalized(counts, &self.layout(), operation.per_channel).to_vec()
    }
}

/// Returns the kind of pictures of this layout in words.
pub(crate) fn kind_of(layout: &Layout) -> String {
    let kind = Kind::of(layout);
    format!("{} of {} bits", kind.name(), kind.bits())
}

/// The LUTs of pictures of several kinds.
#[derive(Debug)]
pub struct Luts(HashMap<Kind, Vec<u8>>);

impl Luts {
    /// Makes LUTs for an operation of the counts of the planes that it changes, for each kind. There are none for pictures that are not like
    /// the reference, if there is one.
    pub(crate) fn of(
        sums: impl Iterator<Item = (Kind, Vec<u64>)>,
        operation: &Operation,
        reference: Option<&Reference>,
    ) -> Self {
        let luts = |(kind, counts): (Kind, Vec<u64>)| {
            let reference = match reference {
                Some(reference) => reference.counts(&kind.layout(), operation.per_channel).ok()?,
                None => &[],
            };
            Some((kind, luts(kind.depth(), &counts, operation, reference)))
        };
        Self(sums.filter_map(luts).collect())
    }

    /// Returns the LUTs for a picture of this layout, one after the other, if such a picture was counted.
    pub(crate) fn of_layout(&self, layout: &Layout) -> Option<&[u8]> {
        self.0.get(&Kind::of(layout)).map(Vec::as_slice)
    }
}

fn luts(depth: Depth, counts: &[u64], operation: &Operation, reference: &[u64]) -> Vec<u8> {
    let bytes = counts.len() * depth.bytes();
    // Entries of 16 bits need an even address.
    let mut room = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
    let luts = &mut bytemuck::cast_slice_mut(&mut room)[..bytes];
    lut::fill(operation, depth, counts, reference, luts);
    luts.to_vec()
}
