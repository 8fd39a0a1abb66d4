//! The keys that decide what outputs look like: compared across versions, and in words.

use super::keys::{self, Key, Need, Role};
use super::written::table;
use super::{TileSize, Written};

impl Written {
    /// Returns the keys that decide what outputs look like and have another value than their defaults, as a configuration file.
    pub(super) fn of_outputs(&self) -> String {
        self.outputs()
            .filter(|(_, _, is_default)| !is_default)
            .map(|(key, value, _)| format!("{} = {value}\n", key.name))
            .collect()
    }

    /// Returns the keys that decide what outputs look like, as words for people: the most important ones, and those that have another value
    /// than their defaults.
    pub(super) fn in_brief(&self) -> String {
        let are_sized = matches!(self.clone().completed().tile_size, Some(TileSize::Pixels(_)));
        self.outputs()
            .filter(|(key, _, is_default)| {
                (key.is_told || !is_default) && !(are_sized && key.name == "tiles")
            })
            .map(|(key, value, _)| format!("{} {}", key.name, in_words(&value)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the keys that decide what outputs look like and do not belong to another method, each with its value and whether that is the
    /// default.
    fn outputs(&self) -> impl Iterator<Item = (&'static Key, toml::Value, bool)> {
        let (all, defaults) = (self.clone().completed(), table(&Self::defaults()));
        let mut values = table(&all);
        keys::of(Role::Output).filter(move |key| !all.lacks_method(key)).filter_map(move |key| {
            let value = values.remove(key.name)?;
            let is_default = defaults.get(key.name) == Some(&value);
            Some((key, value, is_default))
        })
    }

    /// Returns whether a key has no effect because it belongs to another method.
    fn lacks_method(&self, key: &Key) -> bool {
        matches!(key.need, Some(Need::Method(method)) if self.method != Some(method))
    }
}

fn in_words(value: &toml::Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
