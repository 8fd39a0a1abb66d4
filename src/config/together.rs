//! The rules for pictures that share a histogram, and for pages in files of their own.

use std::fmt;

use super::layers::key;
use super::text::name;
use super::{Color, FramesChoice, GroupPattern, MethodName, OrNone, Shard, TogetherChoice, Written};

/// The pictures that share a histogram.
#[derive(Clone, Debug, PartialEq)]
pub enum Together {
    /// One of the choices.
    Of(TogetherChoice),
    /// The files of a folder for which the groups of this expression capture the same.
    By(GroupPattern),
}

impl Together {
    /// Each page for itself.
    pub const PAGE: Self = Self::Of(TogetherChoice::Page);
    /// The pages of each channel of a file.
    pub const CHANNEL: Self = Self::Of(TogetherChoice::Channel);
    /// The pages of each channel of a file, as far as they may share one.
    pub const STACK: Self = Self::Of(TogetherChoice::Stack);

    pub(super) fn resolve(resolved: &Written) -> Result<Self, String> {
        match (key(resolved.together), key(resolved.together_by.clone())) {
            (TogetherChoice::Stack, OrNone::None) if !may_be_together(resolved) => Ok(Self::PAGE),
            (TogetherChoice::Auto, OrNone::None) => Ok(Self::PAGE),
            (together, OrNone::None) => Ok(Self::Of(together)),
            (TogetherChoice::Auto | TogetherChoice::Page, OrNone::Some(pattern)) => Ok(Self::By(pattern)),
            (together, OrNone::Some(_)) => Err(format!(
                "--together {} and --together-by both set which pictures have a common histogram; leave one of them out",
                name(&together)
            )),
        }
    }

    /// Returns whether histograms are never shared between files.
    pub const fn is_within_file(&self) -> bool {
        matches!(
            self,
            Self::Of(
                TogetherChoice::Page | TogetherChoice::File | TogetherChoice::Channel | TogetherChoice::Stack
            )
        )
    }

    /// Returns whether sharing is given up where it would exclude another feature: a page that
    /// shares no table has one of its own.
    pub const fn is_optional(&self) -> bool {
        matches!(self, Self::Of(TogetherChoice::Page | TogetherChoice::Stack))
    }
}

/// Returns whether pages may share a table: where each has one, made from its own counts.
fn may_be_together(resolved: &Written) -> bool {
    let has_one = resolved.method != Some(MethodName::Clahe) && resolved.color != Some(Color::Lab);
    has_one && resolved.lut.as_ref().is_none_or(Vec::is_empty)
}

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(choice) => write!(f, "--together {}", name(choice)),
            Self::By(_) => f.write_str("--together-by"),
        }
    }
}

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

/// Returns why a queue cannot take pictures whose pages go into files of their own, if that is the
/// choice.
pub(super) fn why_not_in_queue(frames: FramesChoice) -> Option<String> {
    (frames != FramesChoice::Keep).then(|| {
        format!(
            "--frames {} writes several outputs per picture, but a message of a queue names one; use --shard to share pictures between machines",
            name(&frames)
        )
    })
}

/// Refuses pages in files of their own where an output has to be one file, or has to be named
/// before its input is read.
fn check_split(frames: FramesChoice, run: &Kind) -> Result<(), String> {
    if let Some(why) = why_not_in_queue(frames).filter(|_| run.is_published) {
        return Err(why);
    }
    if frames == FramesChoice::Auto && run.has_objects {
        return Err("--frames auto needs the number of frames before a file is fetched, which object storage does not allow; use --frames split, or keep"
            .to_owned());
    }
    if frames == FramesChoice::Split && run.is_streamed {
        return Err("--frames split writes several outputs per picture, but standard output takes one; name a folder, such as --out done/"
            .to_owned());
    }
    Ok(())
}

/// Refuses a `--together` that does not make volumes of files.
fn check_volumes(together: &Together, run: &Kind) -> Result<(), String> {
    if together.is_within_file() || *together == Together::Of(TogetherChoice::All) {
        return Err(format!(
            "{together} and --tiles with three numbers do not go together: a volume is each channel and time of a file (leave {together} out), or \
             the files of a folder or series (--together folder or series, or --together-by)"
        ));
    }
    if run.has_objects {
        return Err(format!(
            "{together} with --tiles of three numbers needs the slice of a file before it is fetched, which object storage does not allow"
        ));
    }
    if run.watch || run.is_published {
        return Err(format!(
            "{together} with --tiles of three numbers needs all slices of a volume, and --watch and a queue never know when they are complete; use files of several pages, or run histeqd on each complete folder"
        ));
    }
    if let Some(shard) = run.shard {
        return Err(format!(
            "{together} with --tiles of three numbers needs all slices of a volume, but --shard {shard} takes only some; give each machine folders of its own"
        ));
    }
    Ok(())
}

/// Refuses `--together` where pictures have no LUT, or no end, and `--frames split` where an output
/// has to be one file.
pub(super) fn check(resolved: &Written, run: &Kind) -> Result<(), String> {
    let together = Together::resolve(resolved)?;
    if run.split_channels && key(resolved.tiles).z.is_some() {
        return Err("--tiles with three numbers and --split-channels exclude each other".to_owned());
    }
    check_split(key(resolved.frames), run)?;
    if together.is_optional() {
        return Ok(());
    }
    let makes_volumes = resolved.method == Some(MethodName::Clahe) && key(resolved.tiles).z.is_some();
    if makes_volumes {
        check_volumes(&together, run)?;
    } else if resolved.method == Some(MethodName::Clahe) {
        return Err(format!("{together} needs one LUT, but --method clahe makes one per tile"));
    }
    if run.split_channels {
        return Err(format!("{together} and --split-channels exclude each other"));
    }
    if together.is_within_file() {
        return Ok(());
    }
    if run.has_objects && together == Together::Of(TogetherChoice::Series) {
        return Err("--together series needs the series of a file before it is fetched, which object storage does not allow; use --together folder"
            .to_owned());
    }
    if run.is_published {
        return Err(format!(
            "{together} needs all pictures, which the worker of a queue never has; use --together file"
        ));
    }
    if run.watch {
        return Err(format!("{together} needs all pictures, which --watch never has; use --together file"));
    }
    if let Some(shard) = run.shard {
        return Err(format!(
            "{together} needs all pictures, but --shard {shard} takes only some; count each part with \
             `histeqd histogram --shard {shard} --counts FILE`, and give the files of all parts to --lut"
        ));
    }
    if run.resume {
        return Err(format!("{together} counts all pictures again, so --resume has no effect; leave it out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHING: Kind = Kind {
        watch: true,
        resume: false,
        shard: None,
        split_channels: false,
        is_published: false,
        is_streamed: false,
        has_objects: false,
    };

    #[test]
    fn a_service_takes_what_is_told_within_a_file() {
        for (text, is_taken) in [
            ("together = 'page'", true),
            ("together = 'file'", true),
            ("together = 'channel'", true),
            ("together = 'stack'", true),
            ("together = 'folder'", false),
            ("together-by = '_w(.)'", false),
        ] {
            let written: Written = toml::from_str(text).unwrap();
            assert_eq!(check(&written.resolved(), &WATCHING).is_ok(), is_taken, "{text}");
        }
    }

    #[test]
    fn a_stack_is_refused_nothing_that_pages_are_done_with() {
        let resolved = |keys: &str| {
            let written: Written = toml::from_str(&format!("together = 'stack'\n{keys}")).unwrap();
            let resolved = written.resolved();
            let has_boxes = key(resolved.tiles).z.is_some();
            check(&resolved, &Kind { split_channels: !has_boxes, ..WATCHING }).unwrap();
            Together::resolve(&resolved).unwrap()
        };
        for keys in ["method = 'clahe'", "method = 'clahe'\ntiles = '8x8x4'", "color = 'lab'", "lut = ['a']"]
        {
            assert_eq!(resolved(keys), Together::PAGE, "{keys}");
        }
        assert_eq!(resolved("method = 'stretch'\ncolor = 'hue'"), Together::STACK);
    }

    #[test]
    fn one_way_to_say_what_goes_together_overrides_the_other() {
        let layer = |text: &str| -> Written { toml::from_str(text).unwrap() };
        let (by, folder) = (layer("together-by = '_w(.)'"), layer("together = 'folder'"));
        let pattern = Together::By("_w(.)".parse().unwrap());
        let resolved = |above: &Written, below: &Written| {
            Together::resolve(&above.clone().over(below.clone()).resolved())
        };
        assert_eq!(resolved(&by, &folder), Ok(pattern));
        assert_eq!(resolved(&folder, &by), Ok(Together::Of(TogetherChoice::Folder)));
        assert_eq!(resolved(&layer("together-by = 'none'"), &folder), Ok(Together::PAGE));
        assert!(Together::resolve(&layer("together = 'all'\ntogether-by = '_w(.)'").resolved()).is_err());
    }
}
