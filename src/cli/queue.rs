//! The command lines of commands that work with a queue.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Arg, Args};
use histeqd_queue::{Access, Limits, Place};

use super::config_file::ConfigFile;
use super::keys::{Choice, Keys};
use super::{Part, have_settings};
use crate::config::{Request, RunKind, Settings, Style, Wait, Written};
use crate::error::Error;

pub(super) const LONG_ABOUT_SUBMIT: &str = "\
Publishes pictures that are not done yet to a queue on a NATS server. `histeqd work` takes
them from there, on any number of machines that reach the same folders by the same paths.
The settings travel with the pictures, including those of their folders (histeqd.toml).
Submitting a picture again adds nothing. While the queue is full, submit waits.

The server is `nats-server --jetstream`, version 2.9 or newer. Credentials are read from
the environment: NATS_USER and NATS_PASSWORD, NATS_TOKEN, the files NATS_CREDS or
NATS_NKEY, and for TLS the files NATS_CA, NATS_CERT and NATS_KEY. The queue is created if
it does not exist.";

pub(super) const LONG_ABOUT_WORK: &str = "\
Processes the pictures of a queue until it is stopped. It takes only as many as it can
work on, and returns those that it has not begun when it is stopped. A message counts as
done once its outputs are on disk. Pictures of a worker that is silent for too long go to
another worker.

A picture that is faulty, or that fails or ends its worker repeatedly, is put aside with
the reason: `histeqd status --queue URL` lists it, and `histeqd retry --queue URL` retries
it.";

/// Where the queue is.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueArgs {
    /// The queue: nats://HOST/NAME, or tls://HOST/NAME
    #[arg(long, value_name = "URL")]
    pub(crate) queue: Place,

    /// File with the key that signs the messages; workers with a key accept no others
    ///
    /// At least 16 bytes, the same for submit, work, retry and --watch; one key per queue.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Maximum number of messages, for a new queue [default: 1000000]
    #[arg(long, value_name = "N")]
    max_messages: Option<NonZero<u32>>,

    /// Silence after which a worker's pictures go to others, for a new queue [default: 30s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    lease: Option<Wait>,
}

impl QueueArgs {
    /// Returns the limits of a new queue.
    pub(crate) fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            messages: self.max_messages.map_or(usual.messages, NonZero::get),
            lease: self.lease.map_or(usual.lease, |Wait(lease)| lease),
        }
    }
}

/// Returns the credentials for the queue's server.
pub(crate) fn access() -> Result<Access, Error> {
    Access::from_env().map_err(|why| Error::Usage(why.to_string()))
}

/// Checks the flags of a watch that publishes.
///
/// # Errors
/// A sentence that names a flag that has no effect there.
pub(super) fn check_publishing(written: &Written, split_channels: bool) -> Result<(), Error> {
    let of_workers = written.first_of_workers().or(split_channels.then_some("split-channels"));
    if let Some(flag) = of_workers {
        return Err(of_workers_only(flag));
    }
    if let Some(flag) = written.first_of_services() {
        return Err(Error::Usage(format!(
            "--{flag} has no effect with --queue: inputs stay where they are, no ledger is kept, and `histeqd status --queue` \
             shows the results"
        )));
    }
    Ok(())
}

fn of_workers_only(flag: &str) -> Error {
    Error::Usage(format!("--{flag} is a flag of workers and has no effect here; give it to `histeqd work`"))
}

/// The command line of `histeqd submit`.
#[derive(Debug, Args)]
pub struct SubmitCommand {
    /// Pictures and folders of pictures
    #[arg(value_name = "INPUT", required_unless_present = "files_from")]
    inputs: Vec<PathBuf>,

    /// Output folder
    #[arg(long, short, value_name = "OUT")]
    out: PathBuf,

    #[command(flatten)]
    queue: QueueArgs,

    #[command(flatten)]
    part: Part,

    #[command(flatten)]
    written: Written,

    #[command(flatten)]
    config: ConfigFile,
}

impl SubmitCommand {
    /// Returns the file with the key that signs messages, if there is one.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.queue.key_file.as_deref()
    }

    /// Reads the configuration file and resolves all settings.
    ///
    /// # Errors
    /// If the command line, the configuration file or the environment cannot be used.
    pub fn resolve(self) -> Result<(Settings, Place, Access, Limits), Error> {
        if let Some(flag) = self.written.first_of_workers() {
            return Err(of_workers_only(flag));
        }
        let (config_file, file) = self.config.read()?;
        let written = self.written.clone().over(file);
        let folders = have_settings(&self.inputs, &written);
        self.written.check_effects(&written, RunKind::Batch, folders).map_err(Error::Usage)?;
        written.check_carried().map_err(Error::Usage)?;
        let request = Request {
            inputs: self.part.inputs(self.inputs),
            shard: self.part.shard()?,
            allow_empty: self.part.allow_empty,
            files_from: self.part.files_from,
            out: self.out,
            flags: self.written,
            is_published: true,
            config_file,
            ..Request::default()
        };
        let settings = Settings::resolve(written, request).map_err(Error::Usage)?;
        Ok((settings, self.queue.queue.clone(), access()?, self.queue.limits()))
    }
}

/// The command line of `histeqd work`.
#[derive(Debug, Args)]
pub struct WorkCommand {
    #[command(flatten)]
    pub(crate) queue: QueueArgs,

    /// Folder for inputs and outputs, here or in object storage (repeatable)
    ///
    /// Pictures and outputs elsewhere are refused.
    #[arg(long = "root", value_name = "DIR", required = true, num_args = 1)]
    pub(crate) roots: Vec<PathBuf>,

    /// Attempts for a picture that fails through no fault of its own, or whose worker disappears
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) attempts: NonZero<u32>,

    /// Stop when nothing is waiting or in progress
    #[arg(long)]
    pub(crate) until_empty: bool,

    #[command(flatten)]
    keys: Keys<Working>,

    /// Print only failures
    #[arg(long, short, help_heading = "Report")]
    quiet: bool,

    /// Print a line for every picture
    #[arg(long, short, help_heading = "Report", conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    config: ConfigFile,
}

impl WorkCommand {
    /// Returns the amount of reporting.
    pub(crate) fn style(&self) -> Style {
        Style::of(self.quiet, self.verbose)
    }

    /// Returns the keys of this machine, with those of its preset.
    ///
    /// They are from the command line and the configuration file.
    ///
    /// # Errors
    /// If the configuration file cannot be used.
    pub fn written(&self) -> Result<Written, Error> {
        let (_, file) = self.config.clone().read()?;
        Ok(self.keys.written.clone().over(file).spelled_out())
    }
}

/// The keys of the machine that does the work.
#[derive(Clone, Copy, Debug)]
struct Working;

impl Choice for Working {
    fn flags() -> Vec<&'static str> {
        Written::of_workers().collect()
    }

    fn adapt(flag: Arg) -> Arg {
        match flag.get_long() {
            Some("durability") => {
                flag.value_name("WHEN").help("When an output counts as done: full, fast [default: full]")
            }
            _ => flag,
        }
    }
}
