//! Some of the keys as flags of a command that is not for all of them.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::config::Written;

/// A command's choice of keys.
pub(super) trait Choice {
    /// Returns the names of their flags, in the order of the help.
    fn flags() -> Vec<&'static str>;

    /// Returns a flag as the command has it.
    fn adapt(flag: Arg) -> Arg;
}

/// The flags of some keys, with their help in short.
#[derive(Clone, Debug)]
pub(super) struct Keys<C> {
    pub(super) written: Written,
    choice: PhantomData<C>,
}

impl<C> Keys<C> {
    fn new(written: Written) -> Self {
        Self { written, choice: PhantomData }
    }
}

/// Returns the flags of all keys.
fn all() -> Command {
    Written::augment_args(Command::new("keys").no_binary_name(true))
}

/// Returns a flag as if it stood in no command yet, with the first paragraph of its help.
fn alone(flag: &Arg) -> Arg {
    flag.clone().display_order(Resettable::Reset).long_help(Resettable::Reset)
}

/// Returns the words of a command line that give a flag its values again.
fn words(flag: &str, matches: &ArgMatches) -> Vec<OsString> {
    let values = matches.get_raw(&flag.replace('-', "_")).into_iter().flatten();
    values.map(|value| [format!("--{flag}=").as_ref(), value].into_iter().collect()).collect()
}

impl<C: Choice> Args for Keys<C> {
    fn augment_args(command: Command) -> Command {
        let all = all();
        let flags = C::flags().into_iter();
        let flags = flags.filter_map(|name| all.get_arguments().find(|flag| flag.get_long() == Some(name)));
        command.args(flags.map(|flag| C::adapt(alone(flag))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Choice> FromArgMatches for Keys<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words = C::flags().into_iter().flat_map(|flag| words(flag, matches));
        Written::from_arg_matches(&all().try_get_matches_from(words)?).map(Self::new)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
