//! The keys that decide what outputs look like: told apart from the others, compared across versions, and in words.

use super::written::table;
use super::{MethodName, TileSize, Written};

/// The keys that decide what outputs look like.
pub(super) const OF_OUTPUTS: [&str; 24] = [
    "method",
    "strength",
    "clip-low",
    "clip-high",
    "reference",
    "clip-limit",
    "tiles",
    "tile-size",
    "color",
    "together",
    "lut",
    "range",
    "window",
    "levels",
    "mask",
    "mask-keep",
    "no-data",
    "segmentations",
    "format",
    "frames",
    "depth",
    "quality",
    "png-level",
    "jpeg",
];

/// Those of them that have no effect without a certain method.
const OF_METHODS: [(&str, MethodName); 6] = [
    ("clip-low", MethodName::Stretch),
    ("clip-high", MethodName::Stretch),
    ("reference", MethodName::Match),
    ("clip-limit", MethodName::Clahe),
    ("tiles", MethodName::Clahe),
    ("tile-size", MethodName::Clahe),
];

/// Those of them that are always told to people, as far as they have an effect.
const ALWAYS_TOLD: [&str; 10] = [
    "method",
    "strength",
    "clip-low",
    "clip-high",
    "reference",
    "clip-limit",
    "tiles",
    "color",
    "format",
    "depth",
];

impl Written {
    /// Returns the keys that decide what outputs look like and have another value than their defaults, as a configuration file.
    pub(super) fn of_outputs(&self) -> String {
        let (written, defaults) = (table(&self.clone().over(Self::defaults())), table(&Self::defaults()));
        let line = |key: &str| {
            let differs = |value: &&toml::Value| defaults.get(key) != Some(value);
            let value = written.get(key).filter(differs).filter(|_| !self.lacks_method(key))?;
            Some(format!("{key} = {value}\n"))
        };
        OF_OUTPUTS.iter().filter_map(|key| line(key)).collect()
    }

    /// Returns the keys that decide what outputs look like, as words for people: the most important ones, and those that have another value
    /// than their defaults.
    pub(super) fn in_brief(&self) -> String {
        let (written, defaults) = (table(&self.clone().over(Self::defaults())), table(&Self::defaults()));
        let has_effect = |key: &str| match key {
            "tiles" if matches!(self.tile_size, Some(TileSize::Pixels(_))) => false,
            key => !self.lacks_method(key),
        };
        let words = |key: &&str| {
            let value = written.get(*key).filter(|_| has_effect(key))?;
            let is_told = ALWAYS_TOLD.contains(key) || defaults.get(*key) != Some(value);
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let value = value.strip_suffix(".0").unwrap_or(&value);
            is_told.then(|| format!("{key} {value}"))
        };
        OF_OUTPUTS.iter().filter_map(words).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether a key has no effect because it belongs to another method.
    fn lacks_method(&self, key: &str) -> bool {
        OF_METHODS.iter().any(|&(other, method)| other == key && self.method != Some(method))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::written::keys;

    #[test]
    fn of_every_key_it_is_known_whether_it_changes_outputs() {
        let changes_none = "overwrite prefix-folder durability times permissions include exclude links folder-settings max-pixels max-bytes threads memory devices \
                            device-timeout gpu-idle settle rescan poll after on-collision failed state listen listen-name token-file notify notify-quiet";
        let mut known: Vec<_> = changes_none.split(' ').chain(OF_OUTPUTS).collect();
        let mut all = keys();
        known.sort_unstable();
        all.sort_unstable();
        assert_eq!(all, known, "add a new key to OF_OUTPUTS, or to this list");
    }
}
