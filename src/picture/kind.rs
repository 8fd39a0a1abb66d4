//! The properties that pictures must share to be counted together.

use std::borrow::Cow;

use equalize::{Depth, Layout, Levels, Operation, Pixel, count};

/// The properties that pictures must share to be counted together, and to have the same LUTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    has_colour: bool,
    /// Whether samples have 16 bits.
    is_deep: bool,
    /// The levels of samples.
    levels: Levels,
    /// The number of the channel, from 0, of pictures with channels that are not colours.
    channel: Option<u16>,
}

impl Kind {
    pub(crate) fn of(layout: &Layout, levels: Levels) -> Self {
        let (has_colour, is_deep) = (layout.pixel.colour_channels() > 1, layout.depth == Depth::Sixteen);
        let levels = if levels.are_fewer(layout.depth) { levels } else { Levels::All };
        Self { has_colour, is_deep, levels, channel: None }
    }

    /// Returns the kind of pictures that are this channel.
    #[must_use]
    pub(crate) const fn of_channel(self, channel: Option<u16>) -> Self {
        Self { channel, ..self }
    }

    /// Returns the number of the channel.
    pub(crate) const fn channel(self) -> Option<u16> {
        self.channel
    }

    /// Returns the kind with these [`Kind::name`], [`Kind::bits`] and [`Kind::fewer_levels`].
    pub(crate) fn named(name: &str, bits: u32, levels: Option<u16>) -> Option<Self> {
        let levels = levels.map_or(Levels::All, Levels::First);
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let mut fitting = (all.into_iter())
            .map(|(has_colour, is_deep)| Self { has_colour, is_deep, levels, channel: None })
            .filter(|kind| kind.name() == name && kind.bits() == bits);
        fitting.find(|kind| levels == Levels::All || kind.fewer_levels().is_some_and(|number| number >= 2))
    }

    pub(crate) const fn name(self) -> &'static str {
        if self.has_colour { "rgb" } else { "gray" }
    }

    pub(crate) const fn bits(self) -> u32 {
        if self.is_deep { 16 } else { 8 }
    }

    pub(crate) const fn depth(self) -> Depth {
        if self.is_deep { Depth::Sixteen } else { Depth::Eight }
    }

    /// Returns the layout of a picture of the kind.
    pub(crate) fn layout(self) -> Layout {
        let pixel = if self.has_colour { Pixel::Rgb } else { Pixel::Gray };
        Layout { width: 1, height: 1, pixel, depth: self.depth() }
    }

    /// Returns the number of counts of a plane.
    pub(crate) const fn counts(self) -> usize {
        self.depth().levels()
    }

    /// Returns the levels of samples.
    pub(crate) const fn levels(self) -> Levels {
        self.levels
    }

    /// Returns whether pictures have colour.
    pub(crate) const fn has_colour(self) -> bool {
        self.has_colour
    }

    /// Returns the number of levels, if fewer than the samples' bits allow.
    pub(crate) fn fewer_levels(self) -> Option<u16> {
        match self.levels {
            Levels::First(number) if self.levels.are_fewer(self.depth()) => Some(number),
            _ => None,
        }
    }

    /// Returns the names of the planes that are counted.
    pub(crate) const fn planes(self) -> &'static [&'static str] {
        if self.has_colour { &["red", "green", "blue", "luma"] } else { &["gray"] }
    }

    /// Returns the counts of the planes that an operation changes.
    pub(crate) fn equalized<'c>(self, counts: &'c [u64], operation: &Operation) -> Cow<'c, [u64]> {
        count::of_equalized(counts, &self.layout(), operation.colour)
    }
}

/// Returns the kind of pictures of this layout in words.
pub(crate) fn kind_of(layout: &Layout, levels: Levels) -> String {
    let kind = Kind::of(layout, levels);
    let levels = kind.fewer_levels().map_or_else(String::new, |number| format!(" and {number} levels"));
    format!("{} of {} bits{levels}", kind.name(), kind.bits())
}
