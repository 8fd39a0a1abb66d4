//! The short help of commands: the flags of every day, and examples.

use clap::Command;

/// The short help of a command.
struct Short {
    command: &'static str,
    /// The flags that it has; if empty, all of them.
    flags: &'static [&'static str],
    /// Command lines, each with its use.
    examples: [(&'static str, &'static str); 2],
}

const SHORT: [Short; 12] = [
    Short {
        command: "histogram",
        flags: &[
            "bins",
            "format",
            "out",
            "counts",
            "plot",
            "log",
            "equalized",
            "preset",
            "method",
            "color",
            "include",
            "exclude",
            "threads",
            "quiet",
            "verbose",
        ],
        examples: [
            ("histeqd histogram photo.jpg --plot photo.svg", "a table of 256 bins, and a plot"),
            ("histeqd histogram inbox/ --out counts.csv", "one table for a folder"),
        ],
    },
    Short {
        command: "devices",
        flags: &[],
        examples: [
            ("histeqd devices", "all devices, by number"),
            ("histeqd photos/ --out done/ --devices 0,2", "two of the GPUs at work"),
        ],
    },
    Short {
        command: "presets",
        flags: &[],
        examples: [
            ("histeqd presets", "all presets"),
            ("histeqd presets photo", "the keys of one, with the reasons"),
        ],
    },
    Short {
        command: "status",
        flags: &[],
        examples: [
            ("histeqd status done/", "the service with this output folder"),
            ("histeqd status done/ --failures", "every failure, with its reason"),
        ],
    },
    Short {
        command: "explain",
        flags: &[],
        examples: [
            ("histeqd explain done/cat.jpg", "the settings of one output"),
            ("histeqd explain done/ --json", "a whole folder, for a program"),
        ],
    },
    Short {
        command: "retry",
        flags: &[],
        examples: [
            ("histeqd retry done/", "all that failed for good"),
            ("histeqd retry done/ '*.tif'", "the TIFFs among them"),
        ],
    },
    Short {
        command: "pause",
        flags: &[],
        examples: [("histeqd pause done/", "begin no more pictures"), ("histeqd resume done/", "go on")],
    },
    Short {
        command: "resume",
        flags: &[],
        examples: [
            ("histeqd resume done/", "go on after a pause"),
            ("histeqd status done/", "see whether it does"),
        ],
    },
    Short {
        command: "submit",
        flags: &[
            "out",
            "queue",
            "key-file",
            "preset",
            "method",
            "strength",
            "color",
            "together",
            "format",
            "depth",
            "quality",
            "overwrite",
            "include",
            "exclude",
        ],
        examples: [
            ("histeqd submit in/ --out out/ --queue nats://host/scans", "a folder"),
            ("histeqd submit in/ --out out/ --queue nats://host/scans --preset scan", "as scans"),
        ],
    },
    Short {
        command: "work",
        flags: &[
            "queue",
            "key-file",
            "root",
            "attempts",
            "until-empty",
            "threads",
            "memory",
            "devices",
            "quiet",
            "verbose",
        ],
        examples: [
            ("histeqd work --queue nats://host/scans --root /data", "until stopped"),
            ("histeqd work --queue nats://host/scans --root /data --until-empty", "until all are done"),
        ],
    },
    Short {
        command: "completions",
        flags: &[],
        examples: [
            ("source <(histeqd completions bash)", "for this shell"),
            ("histeqd completions fish > ~/.config/fish/completions/histeqd.fish", "for all"),
        ],
    },
    Short {
        command: "man",
        flags: &[],
        examples: [
            ("histeqd man ~/.local/share/man/man1", "write the pages"),
            ("man histeqd-histogram", "read one"),
        ],
    },
];

impl Short {
    /// Returns the examples, with their uses in one column.
    fn examples(&self) -> String {
        let width = self.examples.map(|(line, _)| line.len()).into_iter().max().unwrap_or(0);
        let lines = self.examples.map(|(line, about)| format!("\n  {line:width$}   {about}"));
        format!("Examples:{}", lines.concat())
    }
}

/// Gives a command its short help.
pub(super) fn shortened(command: Command) -> Command {
    let Some(short) = SHORT.iter().find(|short| short.command == command.get_name()) else {
        return command;
    };
    let (examples, has_all) = (short.examples(), short.flags.is_empty());
    let has_own = command.get_after_long_help().is_some();
    let command = if has_own { command } else { command.after_long_help(examples.clone()) };
    if has_all {
        return command.after_help(examples);
    }
    let more = format!("`histeqd {} --help` lists all flags.", short.command);
    command.after_help(format!("{examples}\n\n{more}")).mut_args(|arg| {
        let is_hidden = arg.get_long().is_some_and(|flag| !short.flags.contains(&flag));
        arg.hide_short_help(is_hidden)
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    /// Returns the commands that people see, with the words of their help.
    fn commands() -> Vec<(String, String)> {
        let mut all = Cli::command().term_width(100);
        all.build();
        let shown = all.get_subcommands_mut().filter(|command| !command.is_hide_set());
        let helps = shown.map(|command| (command.get_name().to_owned(), command.render_help().to_string()));
        helps.filter(|(name, _)| name != "help").collect()
    }

    #[test]
    fn the_short_help_of_each_command_is_short_and_has_two_examples() {
        for (name, help) in commands() {
            let (lines, widest) = (help.lines().count(), help.lines().map(|line| line.chars().count()).max());
            assert!(lines <= 40 && widest <= Some(100), "{name}: {lines} lines\n{help}");
            let examples = help.split_once("Examples:\n").map(|(_, examples)| examples);
            let examples = examples.unwrap_or_else(|| panic!("{name} has no examples"));
            assert!(examples.lines().filter(|line| line.contains("histeqd")).count() >= 2, "{help}");
        }
    }

    #[test]
    fn a_short_help_only_has_flags_that_there_are() {
        let all = Cli::command();
        for Short { command, flags, .. } in SHORT {
            let found = all.find_subcommand(command).filter(|command| !command.is_hide_set());
            let Some(command) = found else {
                assert!(cfg!(not(feature = "queue")) && ["submit", "work"].contains(&command));
                continue;
            };
            let own: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            assert!(flags.iter().all(|flag| own.contains(flag)), "{}", command.get_name());
        }
    }

    #[test]
    fn the_examples_are_command_lines() {
        for Short { examples, .. } in SHORT {
            let lines = examples.into_iter().map(|(line, _)| line);
            let lines = lines.filter(|line| line.starts_with("histeqd "));
            for line in lines.filter(|_| cfg!(feature = "queue")) {
                let words =
                    line.split(' ').take_while(|word| *word != ">").map(|word| word.trim_matches('\''));
                assert!(Cli::try_parse_from(words).is_ok(), "{line}");
            }
        }
    }
}
