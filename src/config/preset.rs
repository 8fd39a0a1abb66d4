//! Presets: named sets of keys that go below all written keys, and over the defaults.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::text::name;
use super::written::table;
use super::{Preset, Written};

/// The presets as users read them: a table of keys under the name of each.
pub(crate) const PRESETS: &str = include_str!("../../presets.toml");

static KEYS: LazyLock<BTreeMap<String, Written>> =
    LazyLock::new(|| toml::from_str(PRESETS).expect("the file that comes with the program can be read"));

impl Preset {
    /// Returns the keys that it sets.
    pub(super) fn keys(self) -> Written {
        KEYS.get(&name(&self)).cloned().unwrap_or_default()
    }
}

impl Written {
    /// Returns the keys with those of the chosen preset below them, and without its name.
    #[must_use]
    pub(crate) fn spelled_out(mut self) -> Self {
        let preset = self.preset.take().map(Preset::keys);
        self.over(preset.unwrap_or_default())
    }

    /// Returns a sentence about keys of the configuration file that only repeat the defaults, as in
    /// a copy of all keys, but keep the preset from setting them, if there are any. These are keys
    /// in `self` that are not in `flags`, given all keys that are `used`.
    pub(crate) fn defaults_over_preset(&self, flags: &Self, used: &Self) -> Option<String> {
        let preset = used.preset?;
        let [own, flags, used, defaults] = [self, flags, used, &Self::defaults()].map(table);
        let mut keys = table(&preset.keys());
        keys.retain(|key, _| {
            !flags.contains_key(key) && own.contains_key(key) && used.get(key) == defaults.get(key)
        });
        let keys: Vec<&str> = keys.keys().map(String::as_str).collect();
        (!keys.is_empty()).then(|| {
            format!(
                "the configuration file repeats the defaults of {}, which override --preset {}; remove them from it",
                keys.join(", "),
                name(&preset)
            )
        })
    }

    /// Returns a sentence about flags, with those pointed out that come only from the preset.
    pub(super) fn naming_preset(&self, why: String) -> String {
        let (own, preset) = (table(self), self.preset.unwrap_or(Preset::None));
        let keys = table(&preset.keys());
        let named = keys.keys().filter(|key| !own.contains_key(*key) && why.contains(&format!("--{key}")));
        let named: Vec<_> = named.map(|key| format!("--{key}")).collect();
        match named.as_slice() {
            [] => why,
            named => format!("{why} (--preset {} sets {})", name(&preset), named.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::config::{Request, RunKind, Settings, TogetherChoice};

    fn all() -> impl Iterator<Item = Preset> {
        Preset::value_variants().iter().copied().filter(|preset| *preset != Preset::None)
    }

    #[test]
    fn every_preset_has_its_keys_and_nothing_else_has() {
        let named: Vec<String> = all().map(|preset| name(&preset)).collect();
        assert!(KEYS.keys().all(|key| named.contains(key)) && KEYS.len() == named.len());
        assert_eq!(Preset::None.keys(), Written::default());
    }

    #[test]
    fn every_preset_can_be_used_and_each_of_its_keys_has_an_effect() {
        for preset in all() {
            let keys = preset.keys();
            assert!(keys.differing(&Written::default()).len() == table(&keys).len(), "{preset:?}: a default");
            keys.check_effects(&keys, RunKind::Batch, false).unwrap();
            // Through a queue a picture has one output.
            #[cfg(feature = "queue")]
            assert_eq!(keys.check_carried().is_ok(), preset != Preset::Dicom, "{preset:?}");
            // A folder's grouping is for the folder whose file sets it, and a preset has no folder.
            let together = keys.together.is_none_or(|together| together == TogetherChoice::Stack);
            assert!(keys.preset.is_none() && together, "{preset:?}");
            // A queue carries keys without the preset's name, and nobody has typed these.
            let settings = Settings::resolve(keys, Request::default()).unwrap();
            assert!(settings.picture.conditional.is_empty(), "{preset:?}");
        }
    }

    #[test]
    fn defaults_that_were_copied_are_told_where_they_go_over_a_preset_and_intended_keys_are_not() {
        let told = |flags: &str, file: &str| {
            let [flags, file]: [Written; 2] = [flags, file].map(|text| toml::from_str(text).unwrap());
            let written = flags.clone().over(file);
            written.defaults_over_preset(&flags, &written)
        };
        let why = "the configuration file repeats the defaults of color, method, which override --preset photo; remove them from it";
        let copied = "method = 'global'\ncolor = 'luma'\nquality = 'keep'";
        assert_eq!(told("preset = 'photo'", copied).as_deref(), Some(why));
        assert_eq!(told("", &format!("preset = 'photo'\n{copied}")).as_deref(), Some(why));
        assert_eq!(told("", copied), None);
        assert_eq!(told("preset = 'photo'\nmethod = 'global'\ncolor = 'luma'", copied), None);
        assert_eq!(told("preset = 'photo'", "method = 'stretch'\nstrength = 0.8"), None);
    }

    #[test]
    fn a_refusal_names_the_preset_behind_a_flag() {
        let refused = |text: &str| {
            let written: Written = toml::from_str(text).unwrap();
            Settings::resolve(written, Request::default()).unwrap_err()
        };
        let why = "--together file needs one LUT, but --method clahe makes one per tile";
        assert_eq!(refused("method = 'clahe'\ntogether = 'file'"), why);
        assert_eq!(
            refused("preset = 'photo'\ntogether = 'file'"),
            format!("{why} (--preset photo sets --method)")
        );
        assert_eq!(refused("preset = 'photo'\nmethod = 'clahe'\ntogether = 'file'"), why);
        assert!(refused("preset = 'xray'\ncolor = 'lab'").ends_with("(--preset xray sets --levels)"));
    }
}
