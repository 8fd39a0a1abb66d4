//! The flags that choose the pictures of a run.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Shard, ShardChoice};
use crate::error::Error;

/// Which of the pictures in the input folders a run is for.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// File that lists the files to process; "-" for standard input
    ///
    /// One path per line, or separated by NUL bytes, as from `find -print0` and `fd -0`. Relative
    /// paths start at the current folder. Each file has to lie in an input folder (the current one
    /// if none is given), below which its output is mirrored. Files on the list are selected by the
    /// same rules as files found in folders; folders on the list are passed over.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,

    /// Part of the pictures to process, such as 1/4: NUMBER/PARTS, auto
    ///
    /// The part of a picture depends only on its path below its input folder, so runs on several
    /// machines need no coordination and may share an output folder. "auto" takes the part from the
    /// environment: SLURM_ARRAY_TASK_ID of a Slurm job array, or JOB_COMPLETION_INDEX of an indexed
    /// job of Kubernetes, where JOB_COMPLETIONS has to be set to the number of completions.
    #[arg(long, value_name = "PART")]
    pub shard: Option<ShardChoice>,

    /// Accept an empty input folder in object storage
    ///
    /// An empty folder does not exist there, so its name is probably mistyped; without this flag
    /// nothing is done, and folders with similar names are listed.
    #[arg(long)]
    pub allow_empty: bool,
}

impl Part {
    /// Returns the chosen shard, if any.
    ///
    /// # Errors
    /// If the environment does not define it.
    pub(super) fn shard(&self) -> Result<Option<Shard>, Error> {
        self.shard.map(ShardChoice::resolve).transpose().map_err(Error::Usage)
    }

    /// Returns the inputs: with a list, the current folder if none is named.
    pub(super) fn inputs(&self, named: Vec<PathBuf>) -> Vec<PathBuf> {
        if self.files_from.is_some() && named.is_empty() { vec![".".into()] } else { named }
    }
}
