//! The command lines of commands about a ledger, or a queue.

use std::path::{Path, PathBuf};

use clap::Args;

/// The arguments of `histeqd status`.
#[derive(Debug, Args)]
pub struct StatusCommand {
    /// The output folder
    #[arg(value_name = "OUT", required = true)]
    #[cfg_attr(feature = "queue", arg(required = false, required_unless_present = "queue"))]
    pub out: Option<PathBuf>,
    /// Show this queue instead: nats://HOST/NAME
    #[cfg(feature = "queue")]
    #[arg(long, value_name = "URL", conflicts_with_all = ["out", "state", "failures"])]
    pub queue: Option<histeqd_queue::Place>,
    /// Folder of the ledger, if --state named another
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// List all pictures that failed for good, with the reasons
    #[arg(long)]
    pub failures: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl StatusCommand {
    /// Returns the output folder; an empty path if it is about a queue.
    pub fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new(""))
    }
}

/// The arguments of `histeqd explain`.
#[derive(Debug, Args)]
pub struct ExplainCommand {
    /// Outputs and output folders; outputs may be in object storage
    ///
    /// In folders, files without a record and without the name of a picture are passed over.
    #[arg(value_name = "OUTPUT", required = true)]
    pub outputs: Vec<PathBuf>,
    /// Folder of the ledger, if --state named another
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print a JSON object per file
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `histeqd pause` and `histeqd resume`.
#[derive(Debug, Args)]
pub struct PauseCommand {
    /// The output folder
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Folder of the ledger, if --state named another
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// The arguments of `histeqd retry`.
#[derive(Debug, Args)]
pub struct RetryCommand {
    /// The output folder; left out with --queue
    #[arg(value_name = "OUT", required = true)]
    #[cfg_attr(feature = "queue", arg(required = false, required_unless_present = "queue"))]
    pub out: Option<PathBuf>,
    /// Retry pictures of this queue instead: nats://HOST/NAME
    #[cfg(feature = "queue")]
    #[arg(long, value_name = "URL", conflicts_with = "state")]
    pub queue: Option<histeqd_queue::Place>,
    /// File with the key of the queue's messages, if they are signed
    #[cfg(feature = "queue")]
    #[arg(long, value_name = "FILE", requires = "queue")]
    pub key_file: Option<PathBuf>,
    /// Take failures off the queue's list instead, messages that cannot be read included
    #[cfg(feature = "queue")]
    #[arg(long, requires = "queue")]
    pub forget: bool,
    /// Names, paths or globs of pictures; by default all that failed
    #[arg(value_name = "PICTURE")]
    pub pictures: Vec<PathBuf>,
    /// Folder of the ledger, if --state named another
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl RetryCommand {
    /// Returns the output folder; an empty path if it is about a queue.
    pub fn out(&self) -> &Path {
        match self.is_about_a_queue() {
            true => Path::new(""),
            false => self.out.as_deref().unwrap_or(Path::new("")),
        }
    }

    /// Returns the names, paths and globs that select pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &PathBuf> {
        // About a queue, they follow no folder.
        self.out.iter().filter(|_| self.is_about_a_queue()).chain(&self.pictures)
    }

    #[cfg(feature = "queue")]
    fn is_about_a_queue(&self) -> bool {
        self.queue.is_some()
    }

    #[cfg(not(feature = "queue"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    fn is_about_a_queue(&self) -> bool {
        false
    }
}
