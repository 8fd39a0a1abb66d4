//! Values that may stand for no data without being called so.

use std::fmt;

use serde::{Serialize, Serializer};

/// A value far outside the range of all others, as one that stands for no data.
///
/// It is counted by its name, as remarks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FillValue(Option<u64>);

impl FillValue {
    /// Different ones.
    pub const SEVERAL: Self = Self(None);

    pub(crate) const fn of(value: f64) -> Self {
        Self(Some(value.to_bits()))
    }

    /// Returns the value, unless there are several.
    pub fn value(self) -> Option<f64> {
        self.0.map(f64::from_bits)
    }
}

/// The number with all of its digits that matter; nothing for several ones.
impl fmt::Display for FillValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) if value == 0.0 || (1e-5..1e15).contains(&value.abs()) => write!(f, "{value}"),
            Some(value) => write!(f, "{value:e}"),
            None => Ok(()),
        }
    }
}

impl Serialize for FillValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("fill-value")
    }
}
