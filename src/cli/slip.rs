//! Guesses at the intention of an invalid command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory, Parser};

use super::Cli;
use crate::config;
use crate::fs::paths::Shown;

/// Returns an error message if there is a `-out`, which clap reads as `-o ut`, though users mean
/// `--out`.
pub(super) fn long_flag_with_one_dash(words: &[OsString]) -> Option<String> {
    let mut flags = words.iter().skip(1).take_while(|word| *word != "--");
    flags.any(|word| word == "-out").then(|| "`-out` is read as `-o ut`; did you mean --out?".to_owned())
}

/// Returns a sentence with the likely intention of an invalid command line.
pub(super) fn slip(words: &[OsString]) -> Option<String> {
    let word = words.get(1)?;
    let has_output = words.iter().any(|word| word == "--out" || word == "-o");
    if has_output { called_like_a_command(word) } else { None }
        .or_else(|| verb(word))
        .or_else(|| meant(word))
        .or_else(|| path_without_out(words))
}

/// Returns a sentence with the flag for the output if only `--out` is missing, and there are
/// several paths, the first of which is no command.
fn path_without_out(words: &[OsString]) -> Option<String> {
    let (program, others) = words.split_first()?;
    if Cli::command().find_subcommand(others.first()?).is_some() {
        return None;
    }
    let start = [program.clone(), "--out".into(), "out".into()];
    let cli = Cli::try_parse_from(start.into_iter().chain(others.iter().cloned())).ok()?;
    let [_, .., last] = cli.inputs.as_slice() else { return None };
    let last = Shown(last);
    Some(match last.0.is_file() {
        true => "--out is missing; name the output folder, as in --out done".to_owned(),
        false => format!("--out is missing, so {last} is an input; if it is the output, write --out {last}"),
    })
}

/// Returns a sentence on how to name a folder, if the first word is a folder and also a command
/// that takes no `--out`.
fn called_like_a_command(word: &OsStr) -> Option<String> {
    let word = word.to_str().filter(|word| Path::new(word).is_dir())?;
    let cli = Cli::command();
    let command = cli.find_subcommand(word)?;
    let takes_output = command.get_arguments().any(|flag| flag.get_long() == Some("out"));
    (!takes_output)
        .then(|| format!("`{word}` is a histeqd command; to process the folder of that name, write ./{word}"))
}

/// Returns a sentence with the right command for a word that is not one, unless there is a file or
/// folder of that name.
pub(super) fn verb(word: &OsStr) -> Option<String> {
    let word = word.to_str().filter(|word| !Path::new(word).exists())?;
    let way = match word.to_lowercase().as_str() {
        "watch" | "serve" | "daemon" => "`histeqd --watch INBOX --out OUT`",
        "continue" => "`histeqd --resume INPUT --out OUT`",
        "list" | "dry-run" => "`histeqd --dry-run INPUT --out OUT`",
        "config" | "print-config" => "`histeqd --print-config`",
        "version" => "`histeqd --version`",
        "gpu" | "gpus" => "`histeqd devices`",
        "clahe" => "`histeqd --method clahe INPUT --out OUT`",
        "run" | "process" | "equalize" | "equalise" | "enhance" | "convert" | "batch" => {
            "`histeqd INPUT --out OUT`"
        }
        _ => return None,
    };
    Some(format!("there is no command, file or folder named {word}; did you mean {way}?"))
}

/// Returns a sentence with the command that the first word is most likely a typo of, unless it is a
/// flag, or there is a file or folder of that name.
fn meant(word: &OsStr) -> Option<String> {
    let word = word.to_str().filter(|word| !word.starts_with('-') && !Path::new(word).exists())?;
    let cli = Cli::command();
    let commands =
        cli.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let command = config::nearest(word, commands.map(str::to_owned)).filter(|command| command != word)?;
    Some(format!(
        "there is no command, file or folder named {}; did you mean `histeqd {command}`?",
        Shown(word)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_guessed() {
        let meant = |word: &str| super::meant(OsStr::new(word));
        assert_eq!(
            meant("histogramm").unwrap(),
            "there is no command, file or folder named histogramm; did you mean `histeqd histogram`?"
        );
        for (word, command) in [("statuss", "status"), ("device", "devices"), ("bnech", "bench")] {
            assert!(meant(word).unwrap().ends_with(&format!("`histeqd {command}`?")), "{word}");
        }
        for word in ["histogram", "inbox", "src", "--out", "--devices", "-status"] {
            assert_eq!(meant(word), None);
        }
        assert!(!meant("workerr").is_some_and(|meant| meant.contains("`histeqd worker`")), "nobody means it");
    }

    #[test]
    fn an_output_without_its_flag_is_named_with_it() {
        let slip = |line: &str| slip(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in
            ["photo.jpg out.jpg", "--preset photo photo.jpg out.jpg", "a b/ out.jpg", "-q -- a out.jpg"]
        {
            assert_eq!(
                slip(&format!("histeqd {line}")).unwrap(),
                "--out is missing, so out.jpg is an input; if it is the output, write --out out.jpg"
            );
        }
        assert_eq!(
            slip("histeqd photo.jpg Cargo.toml").unwrap(),
            "--out is missing; name the output folder, as in --out done"
        );
        for line in [
            "photo.jpg",
            "photo.jpg out.jpg --nonsense",
            "completions tcl",
            "photo.jpg out.jpg --out x --memory lots",
        ] {
            assert_eq!(slip(&format!("histeqd {line}")), None, "{line}");
        }
    }

    #[test]
    fn a_long_flag_with_one_dash_is_refused() {
        let refused = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            long_flag_with_one_dash(&words)
        };
        assert_eq!(
            refused("histeqd in -out done").unwrap(),
            "`-out` is read as `-o ut`; did you mean --out?"
        );
        for line in ["histeqd in --out done", "histeqd in -o ut", "histeqd -o done -- -out"] {
            assert_eq!(refused(line), None, "{line}");
        }
    }
}
