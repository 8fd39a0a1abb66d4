//! Facts about each key other than its value: the role it has, and the condition for an effect.

use super::{FormatName, MethodName};
use Need::{Ends, Format, InputsGo, Ledger, Listen, Mask, Method, Notify, Watch};

/// A key that can be written.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) role: Role,
    /// Whether people are shown it even with its default value.
    pub(super) is_reported: bool,
    /// Whether it names other places, or devices. Write access to an input folder does not imply
    /// the right to have those read or used.
    pub(super) is_elsewhere: bool,
    /// The condition for an effect, if any.
    pub(super) need: Option<Need>,
}

/// The part of the work that a key controls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// How outputs look.
    Output,
    /// How a machine does its work.
    Worker,
    /// How a service treats the files that it watches itself.
    Service,
    /// A set of values for other keys.
    Preset,
    /// Anything else.
    Run,
}

/// A condition for a key to have an effect.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// This method.
    Method(MethodName),
    /// A setting that uses the darkest and the brightest samples.
    Ends,
    /// Outputs that may have this format.
    Format(FormatName),
    /// A folder of masks.
    Mask,
    /// A service.
    Watch,
    /// A service that moves or deletes inputs.
    InputsGo,
    /// A service that listens for requests.
    Listen,
    /// A service that reports failures.
    Notify,
    /// A run with a ledger.
    Ledger,
}

const fn key(name: &'static str, role: Role) -> Key {
    Key { name, role, is_reported: false, is_elsewhere: false, need: None }
}

const fn output(name: &'static str) -> Key {
    key(name, Role::Output)
}

const fn worker(name: &'static str) -> Key {
    key(name, Role::Worker)
}

const fn service(name: &'static str) -> Key {
    key(name, Role::Service)
}

const fn run(name: &'static str) -> Key {
    key(name, Role::Run)
}

impl Key {
    const fn reported(self) -> Self {
        Self { is_reported: true, ..self }
    }

    const fn elsewhere(self) -> Self {
        Self { is_elsewhere: true, ..self }
    }

    const fn needs(self, need: Need) -> Self {
        Self { need: Some(need), ..self }
    }
}

/// All keys, in the order of their flags.
pub(super) const KEYS: [Key; 61] = [
    key("preset", Role::Preset),
    output("method").reported(),
    output("exposure"),
    output("strength").reported(),
    output("clip-low").reported().needs(Ends),
    output("clip-high").reported().needs(Ends),
    output("plateau").needs(Method(MethodName::Global)),
    output("reference").reported().elsewhere().needs(Method(MethodName::Match)),
    output("clip-limit").reported().needs(Method(MethodName::Clahe)),
    output("tiles").reported().needs(Method(MethodName::Clahe)),
    output("tile-size").needs(Method(MethodName::Clahe)),
    output("noise").needs(Method(MethodName::Clahe)),
    output("color").reported(),
    output("together"),
    output("together-by"),
    output("lut").elsewhere(),
    output("range"),
    output("window"),
    output("levels"),
    output("shift"),
    output("mask").elsewhere(),
    output("mask-keep").needs(Mask),
    output("no-data"),
    output("segmentations"),
    output("format").reported(),
    output("frames"),
    output("overviews").needs(Format(FormatName::Tiff)),
    output("depth").reported(),
    output("quality").needs(Format(FormatName::Jpeg)),
    output("png-level").needs(Format(FormatName::Png)),
    run("overwrite"),
    run("prefix-folder"),
    worker("durability"),
    run("times"),
    run("permissions"),
    run("sidecars"),
    run("include"),
    run("exclude"),
    run("links"),
    run("folder-settings"),
    worker("max-pixels"),
    worker("max-bytes"),
    worker("threads"),
    worker("memory"),
    worker("devices"),
    output("jpeg").elsewhere(),
    output("deflate").elsewhere(),
    worker("device-timeout"),
    worker("gpu-idle").needs(Watch),
    run("settle").needs(Watch),
    run("rescan").needs(Watch),
    run("poll").needs(Watch),
    service("after").needs(Watch),
    service("on-collision").needs(InputsGo),
    service("failed").needs(Watch),
    service("state").needs(Ledger),
    service("listen").needs(Watch),
    service("listen-name").needs(Listen),
    service("token-file").needs(Listen),
    service("notify").needs(Watch),
    service("notify-quiet").needs(Notify),
];

/// Returns the keys with this role.
pub(super) fn of(role: Role) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.role == role)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::config::Written;

    #[test]
    fn every_flag_is_here() {
        let flags = Written::augment_args(Command::new("keys"));
        let flags: Vec<_> = flags.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert_eq!(KEYS.map(|key| key.name).to_vec(), flags);
    }
}
