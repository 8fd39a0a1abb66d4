//! Where pictures may have one histogram together.

use clap::ValueEnum;

use super::layers::key;
use super::{MethodName, Shard, TogetherChoice, Written};

/// The kind of run, as far as it matters here.
pub(super) struct Kind {
    pub(super) watch: bool,
    pub(super) resume: bool,
    pub(super) shard: Option<Shard>,
    pub(super) split_channels: bool,
    pub(super) is_published: bool,
}

/// Refuses `--together` where pictures have no LUT, or no end.
pub(super) fn check(resolved: &Written, run: &Kind) -> Result<(), String> {
    let together = key(resolved.together);
    if together == TogetherChoice::Page {
        return Ok(());
    }
    let name = together.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    if resolved.method == Some(MethodName::Clahe) {
        return Err(format!(
            "--together {name} needs one table of levels, and --method clahe makes one for each tile"
        ));
    }
    if run.split_channels {
        return Err(format!("--together {name} and --split-channels exclude each other"));
    }
    if run.is_published && together != TogetherChoice::File {
        return Err(format!(
            "--together {name} needs to know all pictures, and the worker of a queue never does; use --together file"
        ));
    }
    if run.watch && together != TogetherChoice::File {
        return Err(format!(
            "--together {name} needs to know all pictures, and --watch never does; use --together file"
        ));
    }
    if let Some(shard) = run.shard
        && together != TogetherChoice::File
    {
        return Err(format!(
            "--together {name} needs to know all pictures, and --shard {shard} only takes some; count each part with \
             `histeqd histogram --shard {shard} --counts FILE`, and give the files of all parts to --lut"
        ));
    }
    if run.resume && together != TogetherChoice::File {
        return Err(format!(
            "--together {name} counts all pictures again, so --resume has no effect; leave it out"
        ));
    }
    Ok(())
}
