//! Faults from public reports, replayed with the binary if a folder of such cases exists. Each line
//! of its tables has a file, the fault, the right result and how to run it: a script that prints
//! PASS or FAIL, or the program, perhaps with the digest of the right samples.
//!
//! `cargo test --test tests cases:: -- --nocapture` prints PASS or FAIL for each. Scripts are run
//! by `HISTEQD_PYTHON`, or else by `python3`; one that lacks a module or program is skipped.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::{LIMITS, TARGET, decode_file};
use crate::harness::{Place, Ran, binary, project, skipped};
use equalize::Pixel;

/// Speed against OpenCV, which `docs/benchmarks.md` reports.
const OF_SPEED: &str = "clahe-16bit-small-tiles.py";

/// One line of a table.
struct Case {
    file: PathBuf,
    right_result: String,
    /// The commands, with `FILE` for the file.
    commands: Vec<String>,
}

/// The result of a case.
enum Outcome {
    Pass,
    Fail(String),
    Skip(String),
}

/// Reads the table in a folder; reports a skip and returns an empty list if there is no table.
fn cases(folder: &Path) -> Vec<Case> {
    let Ok(table) = fs::read_to_string(folder.join("README.tsv")) else {
        skipped(format_args!("no cases in {}", folder.display()));
        return Vec::new();
    };
    let mut before = String::new();
    let case = |line: &str| {
        let [name, fault, right_result, how] = *line.split('\t').collect::<Vec<_>>() else { return None };
        if !how.starts_with("the same") {
            how.clone_into(&mut before);
        }
        // Files that belong to a script, and modules of scripts, are no cases.
        let is_case = !fault.starts_with("(file of") && !name.starts_with('_') && name != OF_SPEED;
        let (file, right_result) = (folder.join(name), right_result.to_owned());
        is_case.then(|| Case { commands: commands(&file, &before), file, right_result })
    };
    table.lines().skip(1).filter_map(case).collect()
}

/// Returns the commands in a text: the file itself if it is a script, or the words after `python3`
/// or `histeqd`, once more with the flags after `again with`.
fn commands(file: &Path, how: &str) -> Vec<String> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("py") => return vec!["python3 FILE".to_owned()],
        Some("sh") => return vec!["bash FILE".to_owned()],
        _ => {}
    }
    let first = how.split([';', '(', ':']).next().unwrap_or_default().trim();
    let (plain, _) = first.split_once(" --").unwrap_or((first, ""));
    let again = how.split_once("again with ").map(|(_, flags)| format!("{plain} {flags}"));
    [Some(first.to_owned()), again].into_iter().flatten().collect()
}

impl Case {
    /// Returns the digest of the samples in the table, and whether it is that of the colours alone.
    fn digest(&self) -> Option<(&str, bool)> {
        let (before, digest) = self.right_result.split_once("md5 of ")?.1.split_once(' ')?;
        Some((digest, before == "RGB"))
    }

    /// Returns whether the program may refuse the file.
    fn may_be_refused(&self) -> bool {
        self.has_to_be_refused()
            || ["refused", "not supported"].iter().any(|word| self.right_result.contains(word))
    }

    fn has_to_be_refused(&self) -> bool {
        self.right_result.starts_with("fails")
    }

    /// Returns the part of the program that a script needs by its name and this build lacks.
    fn lacking(&self) -> Option<&'static str> {
        let name = self.file.file_name().unwrap().to_string_lossy();
        let parts = [("queue", cfg!(feature = "queue")), ("storage", cfg!(feature = "object-storage"))];
        parts.into_iter().find(|(part, has)| !has && name.contains(part)).map(|(part, _)| part)
    }

    fn outcome(&self) -> Outcome {
        if let Some(part) = self.lacking() {
            return Outcome::Skip(format!("this build lacks {part}"));
        }
        let outcomes = self.commands.iter().map(|command| match command.split_once(' ') {
            Some(("histeqd", flags)) => self.program(flags),
            Some((interpreter, arguments)) => self.script(interpreter, arguments),
            None => Outcome::Fail(format!("no command in {command:?}")),
        });
        outcomes.fold(Outcome::Pass, |so_far, outcome| match (so_far, outcome) {
            (Outcome::Pass, outcome) => outcome,
            (so_far, _) => so_far,
        })
    }

    /// Runs a script that takes the program from its environment.
    fn script(&self, interpreter: &str, arguments: &str) -> Outcome {
        let python = std::env::var("HISTEQD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let interpreter = if interpreter == "python3" { &python } else { interpreter };
        let folder = self.file.parent().unwrap();
        let arguments = arguments.split(' ').map(|word| match word {
            "FILE" => self.file.clone().into_os_string(),
            word if word.ends_with(".py") => folder.join(word).into_os_string(),
            word => word.into(),
        });
        let place = Place::new();
        let output = place.command(interpreter, arguments).env("HISTEQD", binary()).output().unwrap();
        let ran = Ran::from(output);
        let said = ran.to_string();
        match said
            .lines()
            .find(|line| line.contains("ModuleNotFoundError") || line.contains("FileNotFoundError"))
        {
            Some(missing) => Outcome::Skip(missing.to_owned()),
            None if ran.has_succeeded() && !ran.stdout().contains("FAIL") => Outcome::Pass,
            None => Outcome::Fail(said),
        }
    }

    /// Runs the program. Where the right result is not a digest, the file must be done, or refused
    /// as the table allows.
    fn program(&self, flags: &str) -> Outcome {
        let place = Place::new();
        let name = self.file.file_name().unwrap();
        let mut command = place.histeqd("--out out --devices cpu");
        command.arg(&self.file);
        let mut words = flags.split(' ').skip_while(|word| !word.starts_with("--"));
        while let Some(word) = words.next() {
            match word {
                "--out" => drop(words.next()),
                word => drop(command.arg(word)),
            }
        }
        let ran = Ran::from(command);
        let output = place.path("out").join(name);
        match self.digest() {
            _ if !ran.has_succeeded() && self.may_be_refused() && !ran.to_string().contains("damaged") => {
                Outcome::Pass
            }
            _ if !ran.has_succeeded() || self.has_to_be_refused() => Outcome::Fail(ran.to_string()),
            Some((digest, of_colours)) if digest_of(&output, of_colours) != digest => {
                Outcome::Fail(format!("samples of digest {}", digest_of(&output, of_colours)))
            }
            _ => Outcome::Pass,
        }
    }
}

/// Returns the digest of a file's samples; of its red, green and blue samples if `of_colours`.
fn digest_of(file: &Path, of_colours: bool) -> String {
    let (decoded, slot) = decode_file(file, &LIMITS, &TARGET).unwrap();
    let samples = &slot[..decoded.layout.bytes() as usize];
    let pixel = decoded.layout.pixel;
    if !of_colours || !pixel.has_alpha() {
        return format!("{:x}", md5::compute(samples));
    }
    assert_eq!(pixel, Pixel::Rgba, "{}", file.display());
    let pixels = samples.chunks_exact(decoded.layout.pixel_bytes());
    let colours = 3 * decoded.layout.depth.bytes();
    let samples: Vec<u8> = pixels.flat_map(|pixel| &pixel[..colours]).copied().collect();
    format!("{:x}", md5::compute(samples))
}

#[test]
fn every_case_passes() {
    let folder = project().join("../shared/cases");
    let cases = [&folder, &folder.join("november")].map(|folder| cases(folder));
    let mut failed = Vec::new();
    for case in cases.iter().flatten() {
        let name = case.file.file_name().unwrap().display();
        match case.outcome() {
            Outcome::Pass => println!("PASS {name}"),
            Outcome::Skip(why) => skipped(format_args!("{name}: {why}")),
            Outcome::Fail(why) => {
                println!("FAIL {name}: {why}");
                failed.push(name.to_string());
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
