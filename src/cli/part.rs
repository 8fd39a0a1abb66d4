//! The flags that choose the pictures of a run.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Shard, ShardChoice};
use crate::error::Error;

/// Which of the pictures in the input folders a run is for.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// Take only the files on this list, instead of searching; "-" for standard input
    ///
    /// One path a line, or between NUL bytes if there is any, as from `find -print0` and `fd -0`. Relative paths start at the
    /// current folder, as in any list that a program prints there. Each file has to lie in an input folder (the current one if none
    /// is named), below which its output is mirrored. The rules for files that a search finds hold for these too; listed folders
    /// are passed over.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,

    /// Take only one of several parts of the pictures, such as 1/4, and leave the others to other runs: NUMBER/PARTS, auto
    ///
    /// Which part a picture is in depends on its path below its input folder alone, so runs on several machines need not know
    /// of each other, and may share an output folder. "auto" takes the part from the environment: SLURM_ARRAY_TASK_ID of
    /// a Slurm job array, or JOB_COMPLETION_INDEX of an indexed job of Kubernetes, where JOB_COMPLETIONS has to be set to the
    /// number of its completions.
    #[arg(long, value_name = "PART")]
    pub shard: Option<ShardChoice>,

    /// Accept a folder in object storage below which there is nothing
    ///
    /// Such a folder does not exist there, so its name is most likely mistyped; without this flag nothing is done, and folders with similar names
    /// are named.
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
