//! Layers of keys: flags override the configuration file, which overrides the preset, which
//! overrides the defaults.

use std::sync::LazyLock;

use merge::Merge;

use super::written::table;
use super::{OrAuto, OrNone, TileSize, TogetherChoice, Written, machine};

/// The configuration file that comes with the program: every key with its default, commented out,
/// so that a copy sets nothing.
pub(super) const SHIPPED: &str = include_str!("../../config.toml");

/// The defaults, parsed from the file that users read.
static DEFAULTS: LazyLock<Written> = LazyLock::new(|| {
    toml::from_str(&uncommented(SHIPPED)).expect("the file that comes with the program can be read")
});

/// Returns the text with its keys set.
///
/// A `#` right before a letter hides a key; before a space, it begins a comment.
pub(super) fn uncommented(text: &str) -> String {
    let is_key = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase());
    let lines = text.lines().map(|line| line.strip_prefix('#').filter(|line| is_key(line)).unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

impl Written {
    /// Merges two layers: every key of `self`, or of `below` if `self` does not have it.
    ///
    /// A number of tiles in `self` also overrides a tile size in `below`, and `together` and
    /// `together-by` override each other.
    #[must_use]
    pub fn over(mut self, below: Self) -> Self {
        self.tile_size = self.tile_size.or(self.tiles.map(|_| TileSize::Off));
        let (together, by) = (self.together, self.together_by.take());
        self.together = together.or(by.as_ref().map(|_| TogetherChoice::Page));
        self.together_by = by.or(together.map(|_| OrNone::None));
        self.merge(below);
        self
    }

    /// Returns every key with its default value.
    pub fn defaults() -> Self {
        DEFAULTS.clone()
    }

    /// Returns every key with a value: the preset's if it was not written, or else the default.
    #[must_use]
    pub(super) fn completed(self) -> Self {
        let preset = self.preset;
        Self { preset, ..self.spelled_out() }.over(Self::defaults())
    }

    /// Returns the same, with this machine's numbers for threads and memory instead of `auto`.
    #[must_use]
    pub fn resolved(self) -> Self {
        let mut all = self.completed();
        let threads = machine::threads(all.threads.unwrap_or(OrAuto::Auto));
        all.threads = Some(OrAuto::Fixed(threads));
        all.memory = all.memory.map(|wanted| OrAuto::Fixed(machine::memory(wanted, threads)));
        all
    }

    /// Formats all keys as a configuration file: the written ones, and the preset and the defaults
    /// for the rest. `auto` stays `auto`, which keeps the file right on other machines; its value
    /// on this machine is in a comment.
    pub fn explained(self) -> String {
        let all = self.completed();
        let (file, here) = (all.to_toml(), all.resolved().to_toml());
        let lines = file.lines().zip(here.lines()).map(|(line, here)| match here.split_once(" = ") {
            Some((_, value)) if here != line => format!("{line}  # here: {value}\n"),
            _ => format!("{line}\n"),
        });
        lines.collect()
    }

    /// Returns the names of the keys that have another value in `other`.
    ///
    /// Of a preset only the name is compared.
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let [these, those] = [self, other].map(|written| table(&written.clone().over(Self::defaults())));
        these.into_iter().filter(|(key, value)| those.get(key) != Some(value)).map(|(key, _)| key).collect()
    }
}

/// Returns the value of a key of [`Written::resolved`], where every key has one.
pub(super) fn key<T>(value: Option<T>) -> T {
    value.expect("resolved keys all have a value")
}
