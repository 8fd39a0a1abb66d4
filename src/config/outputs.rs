//! The keys that decide how outputs look: compared across versions, and in words.

use std::sync::LazyLock;

use super::keys::{self, Key, Need, Role};
use super::text::name;
use super::written::table;
use super::{MethodName, Written};

/// The default of every key.
static DEFAULTS: LazyLock<toml::Table> = LazyLock::new(|| table(&Written::defaults()));

/// A comment that marks outputs whose `--clip-limit auto` goes by the levels that occur.
///
/// Versions without it use 2 where files state their levels.
pub(super) const AUTO_BY_LEVELS: &str = "# --clip-limit auto by the levels that occur\n";

/// A comment that marks outputs whose dark pixels gain less colour with `--color hue`.
///
/// In versions without it, dark pixels that become brighter gain as much colour as luma.
pub(super) const HUE_OF_DARK_PIXELS: &str = "# --color hue with less colour for dark pixels\n";

/// A key that decides how an output looks, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputKey {
    pub(crate) name: String,
    pub(crate) value: String,
    /// The flag with the value, as typed.
    pub(crate) flag: String,
    pub(crate) is_default: bool,
}

impl OutputKey {
    fn new(name: &str, value: &toml::Value, is_default: bool) -> Self {
        Self { name: name.to_owned(), value: in_words(value), flag: as_flag(name, value), is_default }
    }
}

impl Written {
    /// Returns the keys that decide how outputs look and differ from their defaults, as a
    /// configuration file.
    pub(super) fn of_outputs(&self) -> String {
        let written = table(&self.clone().completed());
        keys::of(Role::Output)
            .filter(|key| !lacks_method(key, &written))
            .filter_map(|key| Some((key.name, written.get(key.name)?)))
            .filter(|(name, value)| DEFAULTS.get(*name) != Some(value))
            .map(|(name, value)| format!("{name} = {value}\n"))
            .collect()
    }

    /// Describes the keys that decide how outputs look, in words for people: the most important
    /// ones, and those that differ from their defaults.
    pub(super) fn in_brief(&self) -> String {
        let told = reported_keys(&self.of_outputs()).unwrap_or_default();
        let words: Vec<_> = told.iter().map(|key| format!("{} {}", key.name, key.value)).collect();
        words.join(", ")
    }
}

/// Parses settings that [`PictureSettings::of_outputs`](super::PictureSettings::of_outputs)
/// returned, here or in another version, into their keys, with the most important ones that are
/// left at their defaults; `None` if it is not such a text.
pub(crate) fn reported_keys(settings: &str) -> Option<Vec<OutputKey>> {
    let mut written: toml::Table = settings.parse().ok()?;
    let are_sized = written.contains_key("tile-size");
    let known = keys::of(Role::Output).filter_map(|key| {
        if let Some(value) = written.get(key.name) {
            return Some(OutputKey::new(key.name, value, false));
        }
        let is_reported =
            key.is_reported && !lacks_method(key, &written) && !(are_sized && key.name == "tiles");
        let default = DEFAULTS.get(key.name).filter(|_| is_reported)?;
        Some(OutputKey::new(key.name, default, true))
    });
    let mut told: Vec<_> = known.collect();
    written.retain(|name, _| !is_known(name));
    told.extend(written.iter().map(|(name, value)| OutputKey::new(name, value, false)));
    Some(told)
}

/// Describes the flags by which settings differ from those `before`, in words for people: "--method
/// clahe instead of global". `None` if either is not such a text.
pub(crate) fn difference(before: &str, settings: &str) -> Option<String> {
    let (before_keys, now): (toml::Table, toml::Table) = (before.parse().ok()?, settings.parse().ok()?);
    let value = |of: &toml::Table, name: &str| of.get(name).or_else(|| DEFAULTS.get(name)).cloned();
    let same_method = value(&before_keys, "method") == value(&now, "method");
    // Keys of one of two methods follow from the methods.
    let known = keys::of(Role::Output)
        .filter(|key| same_method || !matches!(key.need, Some(Need::Method(_) | Need::Ends)))
        .map(|key| key.name);
    let others = before_keys.keys().chain(now.keys()).map(String::as_str).filter(|name| !is_known(name));
    let differences: Vec<_> = known
        .chain(others)
        .filter_map(|name| match (value(&before_keys, name), value(&now, name)) {
            (before, now) if before == now => None,
            (Some(before), Some(now)) => {
                Some(format!("{} instead of {}", as_flag(name, &now), in_words(&before)))
            }
            (Some(before), None) => Some(format!("without {}", as_flag(name, &before))),
            (None, now) => now.map(|now| as_flag(name, &now)),
        })
        .collect();
    let is_new = |line: &&str| settings.contains(*line) && !before.contains(*line);
    if differences.is_empty()
        && let Some(line) = [AUTO_BY_LEVELS, HUE_OF_DARK_PIXELS].iter().find(|line| is_new(line))
    {
        return Some(line.trim_start_matches("# ").trim_end().to_owned());
    }
    if differences.is_empty() {
        // The only difference is in the comments.
        return Some("different contents of --reference, --lut or --mask".to_owned());
    }
    Some(differences.join(", "))
}

/// Returns whether a key has no effect because it belongs to another method than that of these
/// keys.
fn lacks_method(key: &Key, written: &toml::Table) -> bool {
    let value = |key: &str| written.get(key).or_else(|| DEFAULTS.get(key));
    let is_method = |needed| value("method").and_then(toml::Value::as_str) == Some(&name(&needed));
    match key.need {
        Some(Need::Method(needed)) => !is_method(needed),
        Some(Need::Ends) => !is_method(MethodName::Stretch) && value("exposure") == DEFAULTS.get("exposure"),
        _ => false,
    }
}

fn is_known(name: &str) -> bool {
    keys::of(Role::Output).any(|key| key.name == name)
}

/// Formats a key as a flag to type.
fn as_flag(name: &str, value: &toml::Value) -> String {
    match value {
        toml::Value::Boolean(true) => format!("--{name}"),
        toml::Value::Boolean(false) => format!("--{name}=false"),
        toml::Value::Array(values) if !values.is_empty() => {
            values.iter().map(|value| as_flag(name, value)).collect::<Vec<_>>().join(" ")
        }
        value => format!("--{name} {}", quoted(in_words(value))),
    }
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: String) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:,+%@".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn in_words(value: &toml::Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_flags_and_both_values() {
        for (before, now, told) in [
            ("", "method = \"clahe\"\n", "--method clahe instead of global"),
            ("method = \"clahe\"\ntiles = \"4x4\"\n", "", "--method global instead of clahe"),
            (
                "method = \"clahe\"\ntiles = \"4x4\"\n",
                "method = \"clahe\"\nclip-limit = 2\n",
                "--clip-limit 2 instead of auto, --tiles 8x8 instead of 4x4",
            ),
            (
                "strength = 0.5\n",
                "mask-keep = true\n",
                "--strength 1 instead of 0.5, --mask-keep instead of false",
            ),
            ("lut = [\"a b\", \"c\"]\n", "lut = [\"c\"]\n", "--lut c instead of [\"a b\", \"c\"]"),
            ("from-the-future = 1\n", "", "without --from-the-future 1"),
            ("", "from-the-future = \"a b\"\n", "--from-the-future 'a b'"),
            ("# 0123\n", "# 4567\n", "different contents of --reference, --lut or --mask"),
        ] {
            assert_eq!(difference(before, now).as_deref(), Some(told), "{before}{now}");
        }
        assert_eq!((difference("= =", ""), difference("", "= =")), (None, None));
    }

    #[test]
    fn what_is_told_is_what_was_set_and_the_most_important_defaults() {
        let told = |text: &str| {
            let keys = reported_keys(text).unwrap().into_iter();
            keys.map(|key| format!("{}{}", key.flag, if key.is_default { " (default)" } else { "" }))
                .collect::<Vec<_>>()
                .join("; ")
        };
        let common = "--color luma (default); --format keep (default); --depth keep (default)";
        assert_eq!(told(""), format!("--method global (default); --strength 1 (default); {common}"));
        assert_eq!(
            told("method = \"clahe\"\ntile-size = 32\nto-come = true\n# 0123\n"),
            format!(
                "--method clahe; --strength 1 (default); --clip-limit auto (default); --tile-size 32; {common}; --to-come"
            )
        );
        assert_eq!(reported_keys("method = "), None);
    }
}
