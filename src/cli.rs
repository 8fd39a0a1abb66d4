//! The command line.

mod bench;
mod histogram;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::bench::{BenchCommand, BenchPart, LadderCommand, LanesCommand};
pub use self::histogram::HistogramCommand;
use crate::config::{
    self, ConfigError, JpegChoice, MethodName, Report, Request, RunKind, Settings, Style, Written,
};
use crate::error::Error;

const ABOUT: &str =
    "Enhances the contrast of whole folders of pictures by histogram equalization, on processors and GPUs";

const LONG_ABOUT: &str = "\
Enhances the contrast of whole folders of pictures by histogram equalization, on
processors and GPUs, which all make the same bytes (of JPEGs, with --deterministic).

Inputs are never modified. The tree below an input folder is mirrored below the
output folder; a file that is given by name goes right into it. A file's kind is
told by its content. PNG, JPEG, TIFF, PGM/PPM/PAM, BMP and WebP are read and
written, 8 and 16 bit.

An output appears whole or not at all. A picture is skipped when its output exists
and is not older than the input; so the same command, run again, goes on where it
stopped. Hidden files are left out, and in folders so are files that neither are
nor claim to be pictures. One that is called like a picture and is none, or is of a
kind that is not read, fails, with the reason; --exclude leaves it out.";

const AFTER: &str = "\
Examples:
  histeqd inbox/ --out done/                  every picture below inbox/
  histeqd xray.png --out done/ --color gray   one picture
  histeqd inbox/ --out done/ --format png     all outputs as PNG
  histeqd inbox/ --out done/ --dry-run        what would be done
  histeqd histogram photo.jpg --plot hist.svg counts of every channel, and a plot
  histeqd devices                             which GPUs can be used, and why not
  histeqd bench                               how fast this machine is, and by which means

Ctrl-C finishes what was begun; pressed again, it leaves at once.
Run 'histeqd --help' for the whole story.";

const AFTER_LONG: &str = "\
Examples:
  Every picture below inbox/, and the same tree below done/:
      histeqd inbox/ --out done/

  Local contrast, as OpenCV's createCLAHE(2.0, (8, 8)) has it:
      histeqd inbox/ --out done/ --method clahe --clip-limit 2 --tiles 8x8

  Only TIFFs of one year, written as PNG, colours kept:
      histeqd scans/ --out done/ --include '2024/**/*.tif' --format png

  What would be done, without writing anything:
      histeqd inbox/ --out done/ --dry-run

  Everything again, on the processor alone, with at most 1 GiB of pictures:
      histeqd inbox/ --out done/ --overwrite --devices cpu --memory 1GiB

  A summary for a program:
      histeqd inbox/ --out done/ --json --quiet | jq .failed

Configuration:
  Flags go over the configuration file, and that goes over the defaults. The file
  is the one named by --config, else $XDG_CONFIG_HOME/histeqd/config.toml (or
  ~/.config/histeqd/config.toml) where it exists; no other place is looked at.
  Its keys are the long flags from --method on, without the dashes. --print-config
  prints all of them as they would be used.

Exit codes:
  0    everything was done
  1    some pictures failed; each was named with the reason
  2    wrong usage or configuration
  3    it could not run at all
  130  stopped by Ctrl-C or SIGTERM: the first finishes what was begun, the second
       leaves at once; no partial output either way

A folder called like a command, such as 'devices', has to be written './devices'.";

/// The command line as it was typed.
#[derive(Debug, Parser)]
#[command(
    name = "histeqd",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = AFTER,
    after_long_help = AFTER_LONG,
    override_usage = "histeqd [OPTIONS] --out <DIR> <INPUT>...\n       histeqd histogram [OPTIONS] <PICTURE>...\n       histeqd devices\n       histeqd status <OUT>\n       histeqd bench",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    subcommand_help_heading = "Commands"
)]
pub struct Cli {
    /// Pictures, and folders of pictures
    #[arg(value_name = "INPUT", required_unless_present = "print_config")]
    inputs: Vec<PathBuf>,

    /// The folder that receives the outputs; it is made if need be
    #[arg(long, short, value_name = "DIR", required_unless_present = "print_config")]
    out: Option<PathBuf>,

    /// Watch the folders and do what comes into them, until stopped
    ///
    /// A picture is done as soon as it is complete, and again when it changes; what was done is kept in a ledger, so that
    /// a restart goes on where it stopped.
    #[arg(long, short, conflicts_with_all = ["dry_run", "overwrite"])]
    watch: bool,

    /// Go by the ledger of what was done, and not by the times of the outputs
    ///
    /// A picture is skipped if it was done as it is now and with these settings. The ledger is --watch's, in the folder
    /// .histeqd of the output folder unless --state names another.
    #[arg(long, conflicts_with_all = ["watch", "dry_run", "overwrite"])]
    resume: bool,

    #[command(flatten)]
    written: Written,

    /// Make the same bytes on every machine: the processor decodes and encodes JPEGs
    ///
    /// The same as --jpeg cpu. All else is the same to the byte on every device in any case.
    #[arg(long, help_heading = "Resources", conflicts_with = "jpeg")]
    deterministic: bool,

    /// Send the channels of a colour picture to different devices
    ///
    /// Needs --color per-channel. One large picture is then done sooner, for every GPU gets only its channels over its
    /// own bus; many pictures keep all GPUs busy without it. A picture takes about twice the memory. The
    /// result is the same to the byte.
    #[arg(long, help_heading = "Resources")]
    split_channels: bool,

    /// List what would be done, and write nothing
    ///
    /// No file is read: those that turn out to be no pictures are listed too.
    #[arg(long, short = 'n', help_heading = "Report")]
    dry_run: bool,

    /// Say nothing but failures
    #[arg(long, short, help_heading = "Report")]
    quiet: bool,

    /// Print the summary as one JSON object on standard output
    ///
    /// A path is a string where it is UTF-8, and else an object with its bytes: {"bytes": [99, 97, 102, 233]}.
    #[arg(long, help_heading = "Report", conflicts_with = "watch")]
    json: bool,

    /// Say where the time went, and what was the limit
    ///
    /// The share of each stage in the time of the pictures, how busy processor and GPUs were, and what would help.
    #[arg(long, help_heading = "Report", conflicts_with_all = ["watch", "dry_run"])]
    timings: bool,

    /// Say a line for every picture
    #[arg(long, short, help_heading = "Report", conflicts_with = "quiet")]
    verbose: bool,

    /// Read this configuration file instead of the usual one
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, help_heading = "Configuration", conflicts_with = "config")]
    no_config: bool,

    /// Print the configuration as it would be used, and do nothing
    #[arg(long, help_heading = "Configuration")]
    print_config: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

/// What is asked for other than doing pictures.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count the levels of pictures, channel by channel, as a table and as plots
    #[command(long_about = histogram::LONG_ABOUT, after_help = histogram::AFTER)]
    Histogram(Box<HistogramCommand>),
    /// List what can equalize here, and why a GPU cannot
    Devices,
    /// Tell what was done for an output folder, how fast, what failed and what waits
    Status(StatusCommand),
    /// Measure the ways of equalizing a picture on this machine, side by side
    #[command(long_about = bench::LONG_ABOUT, after_help = bench::AFTER)]
    Bench(BenchCommand),
    /// Own one device for another histeqd process, which is at the other end of standard input
    #[command(hide = true)]
    Worker(WorkerCommand),
}

/// What `histeqd status` is asked.
#[derive(Debug, Args)]
pub struct StatusCommand {
    /// The output folder
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// The folder of the ledger, where --state named another
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The command line of a worker process.
#[derive(Debug, Args)]
pub struct WorkerCommand {
    /// Print the GPUs as JSON instead of working
    #[arg(long)]
    pub list: bool,
    /// Work this GPU
    #[arg(long, value_name = "ORDINAL", conflicts_with = "cpu")]
    pub gpu: Option<u32>,
    /// Work on the CPU
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["gpu", "list"])]
    pub cpu: Option<u32>,
    /// Lanes
    #[arg(long, default_value_t = 1)]
    pub lanes: usize,
    /// Decode, equalize and encode JPEGs
    #[arg(long)]
    pub jpeg: bool,
    /// How many workers the device had before
    #[arg(long, default_value_t = 0)]
    pub life: u32,
}

/// What the command line asks for, resolved.
#[derive(Debug)]
pub enum Invocation {
    /// Do pictures.
    Run(Box<Settings>),
    /// Print this text on standard output.
    Print(String),
    /// Another command.
    Command(Command),
}

impl Cli {
    /// Reads the configuration file and resolves everything.
    pub fn resolve(self) -> Result<Invocation, Error> {
        let kind = self.kind();
        if let Some(command) = self.command {
            return Ok(Invocation::Command(command));
        }
        let file = configuration(self.config, self.no_config)?;
        let mut written = self.written.clone().over(file);
        if self.deterministic {
            written.jpeg = Some(JpegChoice::Cpu);
        }
        let method = written.method.unwrap_or(MethodName::Global);
        self.written.check_effects(method, kind).map_err(Error::Usage)?;
        let style = Style::of(self.quiet, self.verbose);
        let report = Report { style, json: self.json, timings: self.timings };
        let request = Request {
            inputs: self.inputs,
            out: self.out.unwrap_or_default(),
            split_channels: self.split_channels,
            dry_run: self.dry_run,
            report,
            watch: self.watch,
            resume: self.resume,
            ..Request::default()
        };
        let settings = Settings::resolve(written.clone(), request).map_err(Error::Usage)?;
        if self.split_channels && !settings.operation.per_channel {
            return Err(Error::Usage("--split-channels needs --color per-channel".to_owned()));
        }
        if self.print_config {
            return Ok(Invocation::Print(written.resolved().to_toml()));
        }
        Ok(Invocation::Run(Box::new(settings)))
    }

    /// What flags are meant for: a configuration that is only printed may be a service's.
    fn kind(&self) -> RunKind {
        match (self.watch || self.print_config, self.resume) {
            (true, _) => RunKind::Watch,
            (false, true) => RunKind::Resume,
            (false, false) => RunKind::Batch,
        }
    }
}

fn configuration(named: Option<PathBuf>, none: bool) -> Result<Written, ConfigError> {
    let usual = || if none { None } else { config::default_path() };
    named.or_else(usual).map_or(Ok(Written::default()), |path| config::read(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Existing;
    use crate::equalize::Method;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(format!("histeqd {line}").split(' '))
    }

    fn settings(line: &str) -> Settings {
        match parse(&format!("{line} --no-config")).unwrap().resolve().unwrap() {
            Invocation::Run(settings) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_key_is_a_flag_whose_help_names_its_default() {
        let command = Cli::command();
        let defaults = toml::Table::try_from(Written::defaults()).unwrap();
        for (key, value) in defaults {
            let flag = command.get_arguments().find(|flag| flag.get_long() == Some(key.as_str()));
            let help = flag.unwrap_or_else(|| panic!("--{key} is no flag")).get_help().unwrap().to_string();
            let default = match value {
                toml::Value::String(text) => text,
                toml::Value::Boolean(false) => continue,
                toml::Value::Array(list) if list.is_empty() => continue,
                toml::Value::Integer(number) => number.to_string(),
                other => panic!("{key} = {other}"),
            };
            assert!(help.ends_with(&format!("[default: {default}]")), "--{key}: {help}");
        }
    }

    #[test]
    fn inputs_and_an_output_are_all_that_is_needed() {
        let settings = settings("a b/c -o out");
        assert_eq!(settings.inputs, [PathBuf::from("a"), PathBuf::from("b/c")]);
        assert_eq!(settings.out, PathBuf::from("out"));
        assert_eq!(settings.report, Report::default());
        assert!(!settings.dry_run);
    }

    #[test]
    fn what_is_missing_or_wrong_is_a_usage_error() {
        let kind = |line| parse(line).unwrap_err().kind();
        assert_eq!(kind("a"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("--out b"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("a -o b --thread 2"), ErrorKind::UnknownArgument);
        assert_eq!(kind("a -o b --threads 0"), ErrorKind::ValueValidation);
        assert_eq!(kind("a -o b --quiet --verbose"), ErrorKind::ArgumentConflict);
        assert_eq!(kind("a -o b --no-config --config c"), ErrorKind::ArgumentConflict);
        assert_eq!(kind("a -o b --color blue"), ErrorKind::InvalidValue);
    }

    #[test]
    fn switches_can_be_undone_and_lists_grow() {
        let existing = |line| settings(line).existing;
        assert_eq!(existing("a -o b --overwrite"), Existing::Overwrite);
        assert_eq!(existing("--overwrite a -o b"), Existing::Overwrite);
        assert_eq!(existing("a -o b --overwrite=false"), Existing::Skip);
        let selection = settings("a -o b --include *.png --include *.jpg").selection;
        assert!(["x.png", "x.jpg"].iter().all(|name| selection.takes_file(name.as_ref())));
        assert!(!selection.takes_file("x.tif".as_ref()));
    }

    #[test]
    fn printing_the_configuration_needs_no_inputs() {
        let printed = parse("--print-config --no-config --quality 80").unwrap().resolve().unwrap();
        assert!(matches!(printed, Invocation::Print(text) if text.contains("quality = 80\n")));
    }

    #[test]
    fn deterministic_leaves_jpegs_to_the_processor() {
        assert_eq!(settings("a -o b").jpeg, JpegChoice::Auto);
        assert_eq!(settings("a -o b --deterministic").jpeg, JpegChoice::Cpu);
        assert_eq!(
            parse("a -o b --deterministic --jpeg gpu").unwrap_err().kind(),
            ErrorKind::ArgumentConflict
        );
        let error = parse("a -o b --no-config --jpeg gpu --devices cpu").unwrap().resolve().unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }

    #[test]
    fn flags_of_a_service_need_one() {
        let refused = |line: &str| parse(line).unwrap().resolve().unwrap_err().to_string();
        for flag in ["--after delete", "--failed bad", "--settle 1s", "--listen 127.0.0.1:1"] {
            let name = flag.split(' ').next().unwrap();
            let error = refused(&format!("a -o b --no-config {flag}"));
            assert_eq!(error, format!("{name} has no effect without --watch"));
            settings(&format!("--watch a -o b {flag}"));
        }
        assert_eq!(
            refused("a -o b --no-config --state c"),
            "--state has no effect without --watch or --resume"
        );
        settings("--resume a -o b --state c");
        assert!(parse("--print-config --no-config --after delete").unwrap().resolve().is_ok());
        for flag in ["--json", "--overwrite", "--dry-run"] {
            assert_eq!(
                parse(&format!("--watch a -o b {flag}")).unwrap_err().kind(),
                ErrorKind::ArgumentConflict
            );
        }
    }

    #[test]
    fn a_service_puts_no_inputs_aside_among_the_outputs() {
        for flag in ["--after move:./b", "--failed b/"] {
            let error = parse(&format!("--watch a -o b --no-config {flag}")).unwrap().resolve().unwrap_err();
            assert!(error.to_string().contains("is the output folder"), "{error}");
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
        settings("--watch a -o b --failed b/failed --after move:c");
    }

    #[test]
    fn a_number_below_the_range_is_told_the_range() {
        let refused = |line: &str| parse(line).unwrap_err().to_string();
        for (flag, range) in [
            ("--clip-limit -1", "from 0 (no limit) to 1000000"),
            ("--quality -5", "from 1 to 100"),
            ("-j -1", "from 1 to 1024"),
            ("--threads 99999", "from 1 to 1024"),
            ("--tile-size -8", "from 4"),
            ("--max-pixels -3", "a number of pixels"),
            ("--max-bytes -1", "a size in bytes"),
            ("--memory -4GiB", "a size in bytes"),
            ("--device-timeout -1s", "a time"),
            ("--settle -1", "a time"),
            ("--rescan -1", "a time"),
            ("--poll -1", "a time"),
        ] {
            let why = refused(&format!("a -o b {flag}"));
            assert!(why.contains(range), "{flag}: {why}");
        }
        assert!(refused("histogram a --bins -4").contains("-4 is not in 1..=65536"));
        for flag in ["max-pixels", "max-bytes", "memory", "device-timeout", "rescan", "poll"] {
            let why = refused(&format!("a -o b --{flag} 0"));
            assert!(why.contains("\"0\" is not at least 1"), "{flag}: {why}");
        }
    }

    #[test]
    fn clahes_flags_need_clahe() {
        assert!(matches!(settings("a -o b --method clahe --tiles 4x4").operation.method, Method::Clahe(_)));
        let error = parse("a -o b --no-config --tiles 4x4").unwrap().resolve().unwrap_err();
        assert_eq!(error.to_string(), "--tiles has no effect without --method clahe");
        assert_eq!(
            parse("a -o b --tiles 4x4 --tile-size 9").unwrap_err().kind(),
            ErrorKind::ArgumentConflict
        );
    }

    #[test]
    fn commands_stand_alone() {
        let devices = parse("devices").unwrap().resolve().unwrap();
        assert!(matches!(devices, Invocation::Command(Command::Devices)));
        assert_eq!(settings("./devices -o out").inputs, [PathBuf::from("./devices")]);
    }

    #[test]
    fn a_wrong_glob_is_a_usage_error() {
        let error = parse("a -o b --no-config --include a[").unwrap().resolve().unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
}
