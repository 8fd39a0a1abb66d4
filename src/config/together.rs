//! Where pictures may have one histogram together, and pages files of their own.

use super::layers::key;
use super::text::name;
use super::{FramesChoice, MethodName, Shard, TogetherChoice, Written};

/// The kind of run, as far as it matters here.
pub(super) struct Kind {
    pub(super) watch: bool,
    pub(super) resume: bool,
    pub(super) shard: Option<Shard>,
    pub(super) split_channels: bool,
    pub(super) is_published: bool,
    /// Whether the output goes to standard output.
    pub(super) is_streamed: bool,
    /// Whether inputs are in object storage.
    pub(super) has_objects: bool,
}

/// Why no message of a queue has pictures whose pages go into files of their own.
pub(super) const SPLIT_IN_QUEUE: &str = "--frames split writes several outputs for a picture, and a message of a queue names one; several \
    machines share pictures by --shard";

fn check_split(run: &Kind) -> Result<(), String> {
    if run.is_published {
        return Err(SPLIT_IN_QUEUE.to_owned());
    }
    if run.is_streamed {
        return Err("--frames split writes several outputs for a picture, and standard output takes one; name a folder, such as --out done/"
            .to_owned());
    }
    Ok(())
}

/// Refuses `--together` where pictures have no LUT, or no end, and `--frames split` where an output has to be one file.
pub(super) fn check(resolved: &Written, run: &Kind) -> Result<(), String> {
    let together = key(resolved.together);
    if run.split_channels && key(resolved.tiles).z.is_some() {
        return Err("--tiles with three numbers and --split-channels exclude each other".to_owned());
    }
    if key(resolved.frames) == FramesChoice::Split {
        check_split(run)?;
    }
    if together == TogetherChoice::Page {
        return Ok(());
    }
    let name = name(&together);
    if resolved.method == Some(MethodName::Clahe) {
        return Err(format!(
            "--together {name} needs one table of levels, and --method clahe makes one for each tile"
        ));
    }
    if run.split_channels {
        return Err(format!("--together {name} and --split-channels exclude each other"));
    }
    if run.has_objects && together == TogetherChoice::Series {
        return Err("--together series reads what series a file is of before it is fetched, so not from object storage; use --together folder"
            .to_owned());
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
