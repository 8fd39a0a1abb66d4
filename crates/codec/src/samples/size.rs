//! Sizes of pictures.

use std::fmt;

use equalize::Layout;

/// The width and height of a picture or of a part of it, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The pixels of a row.
    pub width: u32,
    /// The number of rows.
    pub height: u32,
}

impl Size {
    /// Returns the size of the pixels of a layout.
    pub(crate) fn of(layout: &Layout) -> Self {
        Self { width: layout.width, height: layout.height }
    }

    /// Returns the number of pixels.
    pub(crate) fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

impl From<(u32, u32)> for Size {
    /// Takes a width and a height.
    fn from((width, height): (u32, u32)) -> Self {
        Self { width, height }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.width, self.height)
    }
}
