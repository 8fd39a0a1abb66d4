//! The command line.

mod bench;
mod config_file;
mod generated;
mod histogram;
mod keys;
mod ledger;
mod output;
mod part;
mod presets;
#[cfg(feature = "queue")]
mod queue;
mod short;
mod slip;
mod worker;

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, Parser, Subcommand};

#[cfg(feature = "queue")]
use histeqd_queue::Place;

pub use self::bench::BenchCommand;
pub use self::generated::{CompletionsCommand, ManCommand, completions, write_manual};
pub use self::histogram::HistogramCommand;
pub use self::ledger::{ExplainCommand, PauseCommand, RetryCommand, StatusCommand};
use crate::config::{
    DeflateChoice, JpegChoice, Report, Request, RunKind, Settings, Style, Written, refuse_url,
};
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::report;
use crate::source::is_folder;
use crate::terminal_text::without_passwords;
use config_file::ConfigFile;
use output::Output;
pub use part::Part;
pub use presets::{PresetsCommand, presets};
#[cfg(feature = "queue")]
pub(crate) use queue::access;
#[cfg(feature = "queue")]
pub use queue::{SubmitCommand, WorkCommand};
pub use worker::WorkerCommand;

const ABOUT: &str =
    "Enhances the contrast of whole folders of pictures by histogram equalization, on CPUs and GPUs";

const LONG_ABOUT: &str = "\
Enhances the contrast of whole folders of pictures by histogram equalization, on CPUs and
GPUs. All devices write the same bytes (for deflate TIFFs with --deterministic).

Inputs are never modified. The tree below an input folder is mirrored in the output
folder. A file that is given by name goes directly into it, or to the file that --out
names (photo.jpg --out result.jpg). The format is detected from the content. PNG, JPEG,
TIFF, PGM/PPM/PAM, BMP, WebP, GIF and DICOM are read and written, with 8 and 16 bit;
JPEG XL and JPEG 2000 are read, and written as TIFF or in the format of --format.

An output appears whole or not at all. A picture is skipped if its output was made from
its present state with the same settings, so the same command continues where it
stopped. Hidden files are ignored, and so are files in folders that have neither the
name nor the content of a picture. Trash and index folders of systems (@eaDir, #recycle,
$RECYCLE.BIN), backups (a.jpg~) and temporary names (a.jpg.part) are left out and
counted; an --include that spells the name takes them. A file that has the name of a
picture but is not one, or has an unsupported format (HEIC, OpenEXR, FITS), fails with
the reason; use --exclude to leave it out.";

const AFTER: &str = "\
Examples:
  histeqd photos/ --out done/ --preset photo   a folder of photographs
  histeqd photo.jpg --out result.jpg           one picture

`histeqd --help` lists all flags, more examples, units and exit codes.";

const AFTER_LONG: &str = "\
Examples:
  All pictures in inbox/, in the same tree in done/:
      histeqd inbox/ --out done/

  Photographs, with settings for them; and stronger:
      histeqd photos/ --out done/ --preset photo
      histeqd photos/ --out done/ --preset photo --strength 0.8

  Levels spread linearly, with 1 % clipped at each end; and the histogram of another picture:
      histeqd plates/ --out done/ --method stretch --clip-low 1 --clip-high 1
      histeqd scenes/ --out done/ --method match --reference scenes/best.tif

  The same as OpenCV's createCLAHE(2.0, (8, 8)):
      histeqd inbox/ --out done/ --method clahe --clip-limit 2 --tiles 8x8

  16-bit x-rays, as JPEGs to look at:
      histeqd xrays/ --out done/ --preset xray --depth 8 --format jpeg

  One picture to a file whose name chooses the format, and one in a pipe:
      histeqd xray.tif --out xray.png
      curl -s https://example.org/a.png | histeqd - --out - --format jpeg > b.jpg

  Only the TIFFs of one year, written as PNG:
      histeqd scans/ --out done/ --include '2024/**/*.tif' --format png

  From one bucket, or folder in it, to another:
      histeqd s3://scans/inbox --out s3://scans/done

  List what would be done, and write nothing:
      histeqd inbox/ --out done/ --dry-run

  Everything again, on the CPU alone, with at most 1 GiB of memory for pictures:
      histeqd inbox/ --out done/ --overwrite --devices cpu --memory 1GiB

  A summary for a program:
      histeqd inbox/ --out done/ --json --quiet | jq .failed

Configuration:
  Flags override the configuration file, which overrides --preset, which overrides the
  defaults. The file is the one named by --config, or
  $XDG_CONFIG_HOME/histeqd/config.toml (by default ~/.config/histeqd/config.toml) if it
  exists; no other place is searched. Its keys are the long flags under Picture,
  Output, Selection, Resources and Watching, without the dashes, except
  --split-channels, which is only a flag, and --deterministic, which is jpeg = \"cpu\" and
  deflate = \"cpu\".
  --print-config prints all keys with the values in effect.

Units:
  Sizes      512MiB, 4GiB; kB, MB and GB are powers of ten; a bare number is bytes
  Pixels     250MP, 2GP; a bare number is pixels
  Times      500ms, 30s, 2min, 1h; a bare number is seconds

Exit codes:
  0    everything was done
  1    some pictures failed; each is named with the reason
  2    invalid usage or configuration
  3    the run could not start
  130  interrupted by Ctrl-C or SIGTERM. The first signal finishes the pictures in
       progress, the second quits at once; neither leaves partial output. A service
       stopped by the first signal exits with 0

A folder with the name of a command, such as 'devices', must be written './devices'.";

/// The flags in the short help, without `--help` and `--version`.
const EVERYDAY: [&str; 19] = [
    "out",
    "watch",
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
    "threads",
    "devices",
    "dry-run",
    "quiet",
    "report",
    "verbose",
];

/// Keeps an argument out of the short help, unless it is an everyday flag.
fn in_short_help(arg: Arg) -> Arg {
    let is_everyday = arg.get_long().is_some_and(|flag| EVERYDAY.contains(&flag));
    arg.hide_short_help(!is_everyday)
}

/// The command line as it was typed.
#[derive(Debug, Parser)]
#[command(
    name = "histeqd",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = AFTER,
    after_long_help = AFTER_LONG,
    override_usage = "histeqd [OPTIONS] --out <OUT> <INPUT>...\n       histeqd <COMMAND>",
    mut_args = in_short_help,
    mut_subcommands = short::shortened,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_help_heading = "Commands"
)]
pub struct Cli {
    /// Pictures and folders of pictures; "-" for standard input
    ///
    /// Paths, or URLs of object storage (s3://BUCKET/FOLDER, gs://, az://). A URL is a folder
    /// unless its name is that of a picture. Credentials and endpoints are read from the
    /// environment, for example from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and
    /// AWS_ENDPOINT_URL.
    #[arg(value_name = "INPUT", required_unless_present_any = ["print_config", "files_from"])]
    inputs: Vec<PathBuf>,

    /// Output folder; for one picture its file, or "-" for standard output
    ///
    /// The folder is created if missing. For a single input file, a name with the extension of a
    /// writable format, such as result.png, is the output file: an existing one is replaced, and
    /// the extension chooses the format. "-" is standard output, in the input's format or that of
    /// --format. Anything else, a name with a slash at its end and the name of an existing folder
    /// are the folder for all outputs. May be a URL, like an input.
    #[arg(long, short, value_name = "OUT", required_unless_present = "print_config")]
    out: Option<PathBuf>,

    /// Watch the folders and process new pictures until stopped
    ///
    /// A picture is processed as soon as it is complete, and again when it changes. A ledger
    /// records finished pictures, so a restart continues where it stopped. Folders in object
    /// storage are listed every 30 s, or at the interval of --poll. Not with --resume, --overwrite,
    /// --dry-run, --json and --timings.
    #[arg(long, short, conflicts_with_all = ["dry_run", "overwrite", "files_from", "shard", "allow_empty"])]
    watch: bool,

    /// Skip finished pictures by the ledger, not by their outputs
    ///
    /// A picture is skipped if it was processed in its present state with these settings, even if
    /// its output was removed or cannot carry a record. The ledger is that of --watch: the folder
    /// .histeqd in the output folder, or the folder of --state. Not with --watch, --overwrite,
    /// --dry-run and --shard: one process at a time keeps a ledger.
    #[arg(long, conflicts_with_all = ["watch", "dry_run", "overwrite", "shard"])]
    resume: bool,

    /// With --watch: queue for new pictures, processed by `histeqd work`: nats://HOST/NAME
    ///
    /// Outputs and the queue show which pictures are done or waiting; inputs stay where they are,
    /// and no ledger is kept. New pictures wait while the queue is full or its server is away. See
    /// `histeqd submit --help` for credentials.
    #[cfg(feature = "queue")]
    #[arg(long, value_name = "URL", requires = "watch")]
    queue: Option<Place>,

    /// With --queue: file with the key that signs the messages
    #[cfg(feature = "queue")]
    #[arg(long, value_name = "FILE", requires = "queue")]
    key_file: Option<PathBuf>,

    #[command(flatten)]
    part: Part,

    #[command(flatten)]
    written: Written,

    /// Write the same bytes on every machine: JPEGs and deflate on the CPU
    ///
    /// The same as --jpeg cpu --deflate cpu. Everything else is byte-identical on every device
    /// anyway.
    #[arg(long, help_heading = "Resources", conflicts_with_all = ["jpeg", "deflate"])]
    deterministic: bool,

    /// Send the channels of a colour picture to different devices
    ///
    /// Needs --color per-channel. Speeds up a single large picture, because each GPU receives only
    /// its own channels over its own bus; with many pictures all GPUs are busy without it. Takes
    /// about twice the memory per picture. The result is byte-identical.
    #[arg(long, help_heading = "Resources")]
    split_channels: bool,

    /// List what would be done and what would fail; write nothing
    ///
    /// Reads the header of every picture and decodes no pixels: pictures that are unsupported, too
    /// large or have a damaged header are found, later damage is not. Exits with 1 if a picture
    /// would fail.
    #[arg(long, short = 'n', help_heading = "Report")]
    dry_run: bool,

    /// Print only failures
    #[arg(long, short, help_heading = "Report")]
    quiet: bool,

    /// Print the summary as one JSON object on standard output
    ///
    /// A path is a string if it is valid UTF-8, otherwise an object with its bytes: {"bytes": [99, 97, 102, 233]}.
    #[arg(long, help_heading = "Report", conflicts_with = "watch")]
    json: bool,

    /// Report the time of each stage and the bottleneck
    ///
    /// Each stage's share of the pictures' time, the load of the CPU and the GPUs, and a remedy for
    /// the bottleneck.
    #[arg(long, help_heading = "Report", conflicts_with_all = ["watch", "dry_run"])]
    timings: bool,

    /// Write a web page of pictures before and after, such as out/report.html
    ///
    /// One file, without a server: the first 500 pictures by name, with histograms and remarks, the
    /// names of up to 10,000, and the pictures that were done before or failed, with the reasons.
    /// Its name ends in .html; an existing page is replaced.
    #[arg(long, value_name = "FILE", help_heading = "Report", conflicts_with_all = ["watch", "dry_run"])]
    report: Option<PathBuf>,

    /// Print a line for every picture
    #[arg(long, short, help_heading = "Report", conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    config: ConfigFile,

    /// Print the configuration in effect, and exit
    #[arg(long, help_heading = "Configuration")]
    print_config: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

/// The subcommands: everything other than equalizing pictures.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count the levels of every channel, as a table and as plots
    #[command(
        long_about = histogram::LONG_ABOUT,
        after_long_help = histogram::AFTER,
        override_usage = "histeqd histogram [OPTIONS] <PICTURE>..."
    )]
    Histogram(Box<HistogramCommand>),
    /// List the usable devices, and why a GPU cannot be used
    Devices,
    /// Print the keys that each preset sets
    Presets(PresetsCommand),
    /// Show counts, speed, failures and waiting pictures of an output folder
    Status(StatusCommand),
    /// Print the settings that outputs were made with
    ///
    /// Exits with 0 if histeqd made all of them and none was changed since, with 1 otherwise.
    Explain(ExplainCommand),
    /// Retry pictures that failed for good
    Retry(RetryCommand),
    /// Pause a running service until `resume`
    Pause(PauseCommand),
    /// Resume a paused service
    Resume(PauseCommand),
    /// Publish pictures to a queue for several machines
    #[cfg(feature = "queue")]
    #[command(long_about = queue::LONG_ABOUT_SUBMIT, override_usage = "histeqd submit [OPTIONS] --out <OUT> --queue <URL> <INPUT>...")]
    Submit(Box<SubmitCommand>),
    /// Process the pictures of a queue
    #[cfg(feature = "queue")]
    #[command(long_about = queue::LONG_ABOUT_WORK)]
    Work(Box<WorkCommand>),
    /// Publish pictures to a queue, or process those of one: not in this build
    #[cfg(not(feature = "queue"))]
    #[command(hide = true, alias = "work", disable_help_flag = true)]
    Submit {
        /// Ignored
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        ignored: Vec<std::ffi::OsString>,
    },
    /// Measure the buses and devices of this machine
    #[command(long_about = bench::LONG_ABOUT, after_help = bench::AFTER)]
    Bench(BenchCommand),
    /// Print a shell's completion script
    Completions(CompletionsCommand),
    /// Write the manual pages to a folder
    Man(ManCommand),
    /// Operate one device for another histeqd process at the other end of standard input
    #[command(hide = true)]
    Worker(WorkerCommand),
}

/// The request of the command line, with all settings resolved.
#[derive(Debug)]
pub enum Invocation {
    /// Equalize pictures.
    Run(Box<Settings>),
    /// Watch folders, and publish new pictures to this queue, signed with the key in a file.
    #[cfg(feature = "queue")]
    Publish(Box<Settings>, Place, Option<PathBuf>),
    /// Print this text on standard output.
    Print(String),
    /// Run a subcommand.
    Command(Command),
}

/// Prints clap's message, and exits.
///
/// The message quotes an invalid value, which may be an address with a password.
fn exit(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    // Standard error may have no reader.
    let _ = write!(anstream::stderr(), "{}", without_passwords(&error.render().ansi().to_string()));
    std::process::exit(error.exit_code())
}

impl Cli {
    /// Parses the command line of this process.
    ///
    /// If it is invalid or asks for help, clap prints its message and the process exits.
    ///
    /// # Errors
    /// If the command line contains a mistake that can be explained better than clap does.
    pub fn read() -> Result<Self, Error> {
        let words: Vec<_> = env::args_os().collect();
        if let Some(why) = slip::long_flag_with_one_dash(&words) {
            return Err(Error::Usage(why));
        }
        Self::try_parse_from(&words).or_else(|error| match slip::slip(&words) {
            Some(why) if error.use_stderr() => Err(Error::Usage(why)),
            _ => exit(&error),
        })
    }

    /// Reads the configuration file and resolves all settings.
    pub fn resolve(mut self) -> Result<Invocation, Error> {
        let kind = self.kind();
        if let Some(command) = self.command {
            return Ok(Invocation::Command(command));
        }
        self.inputs = self.part.inputs(self.inputs);
        if let Some(why) = self.inputs.first().and_then(|input| slip::verb(input.as_os_str())) {
            return Err(Error::Usage(why));
        }
        let output = Output::of(&self).map_err(Error::Usage)?;
        let (config_file, file) = self.config.read()?;
        let mut flags = self.written.clone();
        // The name of an output is a flag's value too.
        flags.format = output.format.or(flags.format);
        if self.deterministic {
            flags.jpeg = Some(JpegChoice::Cpu);
            flags.deflate = Some(DeflateChoice::Cpu);
        }
        let written = flags.clone().over(file.clone());
        let folders = have_settings(&self.inputs, &written);
        self.written.check_effects(&written, kind, folders).map_err(Error::Usage)?;
        #[cfg(feature = "queue")]
        let written = if self.queue.is_some() {
            queue::check_publishing(&self.written, self.split_channels)?;
            Written { overwrite: None, ..written }
        } else {
            written
        };
        let are_all_files = self.inputs.iter().all(|input| input.is_file() || names_object(input));
        if self.written.prefix_folder == Some(true) && kind == RunKind::Batch && are_all_files {
            return Err(Error::Usage("--prefix-folder has no effect without an input folder".to_owned()));
        }
        let mut notes = file.without_effect(&written, "the configuration file");
        notes.extend(written.defaults_over_preset(&flags, &written));
        if self.watch {
            // Folders may set this at any time.
            let left = flags.left_to_folders(&written).into_iter();
            notes.extend(left.map(|(_, why)| format!("{why}, unless a folder's histeqd.toml sets it")));
        }
        if self.timings && self.quiet && !self.json {
            return Err(Error::Usage(
                "--timings has no effect with --quiet unless --json is given".to_owned(),
            ));
        }
        let style = Style::of(self.quiet, self.verbose);
        if let Some(page) = self.report.as_deref().and_then(Path::to_str) {
            refuse_url(page).map_err(|why| Error::Usage(format!("--report: {why}")))?;
        }
        if let Some(page) = self.report.as_deref().filter(|page| !report::is_page(page)) {
            let page = Shown(page);
            return Err(Error::Usage(format!("--report {page}: the name of the page must end in .html")));
        }
        let lists = self.report.is_some();
        let report = Report { style, json: self.json, timings: self.timings, lists };
        let request = Request {
            inputs: self.inputs,
            roots: None,
            shard: self.part.shard()?,
            allow_empty: self.part.allow_empty,
            files_from: self.part.files_from,
            out: output.folder,
            naming: output.naming,
            flags,
            split_channels: self.split_channels,
            #[cfg(feature = "queue")]
            is_published: self.queue.is_some(),
            #[cfg(not(feature = "queue"))]
            is_published: false,
            dry_run: self.dry_run,
            report,
            report_page: self.report,
            watch: self.watch,
            resume: self.resume,
            config_file,
            notes,
        };
        let settings = Settings::resolve(written.clone(), request).map_err(Error::Usage)?;
        if self.split_channels && !settings.picture.operation.is_per_channel() {
            return Err(Error::Usage("--split-channels needs --color per-channel".to_owned()));
        }
        if self.print_config {
            return Ok(Invocation::Print(written.explained()));
        }
        #[cfg(feature = "queue")]
        if let Some(place) = self.queue {
            return Ok(Invocation::Publish(Box::new(settings), place, self.key_file));
        }
        Ok(Invocation::Run(Box::new(settings)))
    }

    /// Returns the kind of run that the flags are for.
    ///
    /// `--print-config` counts as a service, because it may print a service's configuration.
    fn kind(&self) -> RunKind {
        match (self.watch || self.print_config, self.resume) {
            (true, _) => RunKind::Watch,
            (false, true) => RunKind::Resume,
            (false, false) => RunKind::Batch,
        }
    }
}

/// Returns whether any of these inputs is a folder that may have settings of its own.
fn have_settings(inputs: &[PathBuf], written: &Written) -> bool {
    written.folder_settings != Some(false) && inputs.iter().any(|input| input.is_dir())
}

/// Returns whether an input is one object.
fn names_object(input: &Path) -> bool {
    store::is_url(input) && !is_folder(input)
}

#[cfg(test)]
mod tests;
