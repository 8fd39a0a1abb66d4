//! Keys without an effect, and the condition that would give them one: other keys, or pictures of
//! some kind.

use std::fmt;

use super::keys::{KEYS, Need};
use super::text::name;
use super::written::table;
use super::{After, FormatName, MethodName, OrNone, Preset, Written};
use crate::picture::unused::{self, Unused};

/// The kind of run that flags are meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A batch run without a ledger.
    Batch,
    /// A batch run that goes by the ledger.
    Resume,
    /// A service.
    Watch,
}

impl Need {
    /// Returns whether the condition holds, given all keys in use and the kind of run.
    fn is_met(self, used: &Written, run: RunKind) -> bool {
        let watches = run == RunKind::Watch;
        match self {
            Self::Method(method) => used.method == Some(method),
            Self::Ends => {
                let lifts = used.exposure.is_some_and(|exposure| exposure.0.in_thousandths() > 0);
                lifts || used.method == Some(MethodName::Stretch)
            }
            Self::Format(format) => used.format.is_none_or(|used| used == FormatName::Keep || used == format),
            Self::Mask => matches!(used.mask, Some(OrNone::Some(_))),
            Self::Watch => watches,
            Self::InputsGo => watches && used.after.as_ref().is_some_and(|after| *after != After::Keep),
            Self::Listen => watches && matches!(used.listen, Some(OrNone::Some(_))),
            Self::Notify => watches && matches!(used.notify, Some(OrNone::Some(_))),
            Self::Ledger => run != RunKind::Batch,
        }
    }

    /// Returns whether the settings of folders, and not only the command line and the configuration
    /// file, can fulfil it.
    const fn is_of_folders(self) -> bool {
        matches!(self, Self::Method(_) | Self::Ends | Self::Format(_))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => write!(f, "--method {}", name(method)),
            Self::Ends => f.write_str("--method stretch or --exposure"),
            Self::Format(format) => write!(f, "--format keep or {}", name(format)),
            Self::Mask => f.write_str("--mask"),
            Self::Watch => f.write_str("--watch"),
            Self::InputsGo => f.write_str("--watch and --after delete or move:DIR"),
            Self::Listen => f.write_str("--watch and --listen"),
            Self::Notify => f.write_str("--watch and --notify"),
            Self::Ledger => f.write_str("--watch or --resume"),
        }
    }
}

impl Written {
    /// Checks that every flag in `self` has an effect, given all keys that are `used` and the kind
    /// of run. Flags that only lack a setting which a folder could add pass if `folders` may have
    /// settings of their own.
    ///
    /// # Errors
    /// A sentence that names a flag without an effect, and its condition.
    pub fn check_effects(&self, used: &Self, run: RunKind, folders: bool) -> Result<(), String> {
        let mut idle = self.idle(used, run).filter(|(_, need)| !(folders && need.is_of_folders()));
        idle.next().map_or(Ok(()), |(flag, need)| Err(idle_flag(flag, need)))
    }

    /// Returns the flags in `self` that have no effect with the keys that are `used` but could get
    /// one from a folder's settings, each with a sentence about it.
    pub(crate) fn left_to_folders(&self, used: &Self) -> Vec<(&'static str, String)> {
        let idle = self.idle(used, RunKind::Watch).filter(|(_, need)| need.is_of_folders());
        idle.map(|(flag, need)| (flag, idle_flag(flag, need))).collect()
    }

    /// Returns a sentence for every key of a `file`, `self`, that has no effect, given all keys
    /// that are `used`. Keys with their default values are skipped, and so are those for other
    /// kinds of runs: one file serves them all.
    pub fn without_effect(&self, used: &Self, file: &str) -> Vec<String> {
        let changed = self.differing(&Self::default());
        self.idle(used, RunKind::Watch)
            .filter(|(key, _)| changed.iter().any(|changed| changed == key))
            .map(|(key, need)| format!("{key} of {file} has no effect without {need}"))
            .collect()
    }

    /// Returns the keys that only have an effect on some pictures, and that a user has set.
    ///
    /// Every key has a value. A default, "auto" and the value of the preset are for pictures of all
    /// kinds, and a key that other keys leave without effect is reported at the start.
    pub(super) fn conditional(&self) -> Vec<Unused> {
        let preset = self.preset.map(Preset::keys).unwrap_or_default();
        let [own, usual, preset] = [self, &Self::defaults(), &preset].map(table);
        let idle: Vec<_> = self.idle(self, RunKind::Watch).map(|(key, _)| key).collect();
        let is_set = |row: &unused::Row| {
            let value = own.get(row.flag);
            let text = value.and_then(toml::Value::as_str).unwrap_or_default();
            let is_meant = if row.values.is_empty() { text != "auto" } else { row.values.contains(&text) };
            let is_own = value != usual.get(row.flag) && value != preset.get(row.flag);
            is_meant && is_own && !idle.contains(&row.flag)
        };
        unused::TABLE.iter().filter(|row| is_set(row)).map(|row| row.unused).collect()
    }

    /// Returns the written keys that have no effect, each with the condition for one.
    fn idle(&self, used: &Self, run: RunKind) -> impl Iterator<Item = (&'static str, Need)> {
        let (written, used) = (table(self), used.clone().completed());
        KEYS.iter()
            .filter_map(|key| key.need.map(|need| (key.name, need)))
            .filter(move |(name, need)| !need.is_met(&used, run) && written.get(*name).is_some_and(is_set))
    }
}

/// Returns whether a value requests an effect: a switch that is off does not.
fn is_set(value: &toml::Value) -> bool {
    value.as_bool() != Some(false)
}

fn idle_flag(flag: &str, needs: Need) -> String {
    format!("--{flag} has no effect without {needs}")
}
