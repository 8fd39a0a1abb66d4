//! `--tiles` of three numbers with `--together`: the files of a folder, of a DICOM series or of a
//! group are the slices of a volume.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Settings, Together, TogetherChoice};
use crate::error::Refusal;
use crate::fs::input;
use crate::fs::paths::Shown;
use crate::picture::boxes::{CountedBoxes, FileSlice, FileVolume, VolumeName};
use crate::source::stop::Stop;
use crate::source::{Job, Plan};
use codec::volumes::{Gaps, OrderedBy, Slice};
use codec::{CodecError, Format};

/// A file that is a slice, with its stated position.
struct Member {
    job: Job,
    slice: Option<Slice>,
}

/// Makes files slices of their volumes, in order. Each volume takes the position of its first file;
/// a file that is no slice moves to the failures.
pub(super) fn arrange(plan: &mut Plan, settings: &Settings, stop: &Stop) {
    let mut lost: Vec<PathBuf> = plan.failed.iter().map(|(input, _)| input.clone()).collect();
    let mut volumes: Vec<(Option<VolumeName>, Vec<Member>)> = Vec::new();
    let mut known = HashMap::new();
    for job in mem::take(&mut plan.jobs).into_iter().take_while(|_| !stop.asked()) {
        let (name, slice) = match makes_volumes(&job).then(|| of_volume(&job, settings)) {
            Some(Ok(of_volume)) => of_volume,
            Some(Err(_)) => {
                lost.push(job.input.clone());
                (None, None)
            }
            None => (None, None),
        };
        let next = volumes.len();
        let at = match &name {
            Some(name) => *known.entry((job.settings.digest(), name.clone())).or_insert(next),
            None => next,
        };
        if at == next {
            volumes.push((name, Vec::new()));
        }
        volumes[at].1.push(Member { job, slice });
    }
    for (name, members) in volumes {
        match name {
            Some(name) => add_volume(plan, name, members, &lost),
            None => plan.jobs.extend(members.into_iter().map(|member| member.job)),
        }
    }
    plan.jobs.iter_mut().enumerate().for_each(|(number, job)| job.number = number);
}

/// Returns whether a job's file makes a volume with others.
fn makes_volumes(job: &Job) -> bool {
    job.settings.operation.method.has_boxes() && !job.settings.together.is_within_file() && !job.is_folder
}

/// Returns the volume that a file is a slice of, and its stated position; no volume if it is not a
/// picture.
///
/// # Errors
/// If the file cannot be read, which leaves open what it is.
fn of_volume(job: &Job, settings: &Settings) -> Result<(Option<VolumeName>, Option<Slice>), CodecError> {
    let slice = codec::volumes::slice_of(&mut input::open(&job.input)?, &settings.limits)?;
    if slice.is_none() && !job.must_be_a_picture() && !is_picture(&job.input) {
        return Ok((None, None));
    }
    let of_series = slice.as_ref().map(|slice| Arc::from(OsStr::new(slice.series.as_str())));
    let folder = job.input.parent().unwrap_or(Path::new("")).to_owned();
    let name = match &job.settings.together {
        Together::By(_) => job.group.clone().map(|group| VolumeName { folder, group }),
        Together::Of(TogetherChoice::Series) => {
            of_series.map(|group| VolumeName { folder: PathBuf::new(), group })
        }
        Together::Of(_) => {
            Some(VolumeName { folder, group: of_series.unwrap_or_else(|| Arc::from(OsStr::new(""))) })
        }
    };
    Ok((name, slice))
}

/// Returns whether a file begins like a picture, and is not DICOM, where slices are recognized by
/// their elements.
fn is_picture(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = input::open(path).and_then(|file| file.take(Format::HEAD as u64).read_to_end(&mut head));
    read.is_ok() && Format::sniff(&head).is_some_and(|format| format != Format::Dicom)
}

/// Adds the slices of a volume in their order; all of them fail if they have no order, or a file of
/// their folders is `lost`.
fn add_volume(plan: &mut Plan, name: VolumeName, mut members: Vec<Member>, lost: &[PathBuf]) {
    let refusal = match lost_among(&members, lost) {
        Some(slice) => Some(Refusal::BrokenVolume { slice }),
        None => put_in_order(&mut members, plan),
    };
    if let Some(refusal) = refusal {
        let each = members.into_iter().map(|member| (member.job.input, refusal.clone().into()));
        return plan.failed.extend(each);
    }
    let volume = Arc::new(FileVolume { name, slices: members.len(), boxes: CountedBoxes::default() });
    let slices = members.into_iter().enumerate().map(|(index, Member { job, .. })| Job {
        slice: Some(FileSlice { volume: Arc::clone(&volume), index }),
        ..job
    });
    plan.jobs.extend(slices);
}

/// Returns a file that has failed, or cannot be read, in a folder that slices lie in: it may be one
/// of them.
fn lost_among(members: &[Member], lost: &[PathBuf]) -> Option<PathBuf> {
    let folders: HashSet<_> = members.iter().map(|member| member.job.input.parent()).collect();
    lost.iter().find(|lost| folders.contains(&lost.parent())).cloned()
}

/// Puts slices into their order: by position, if all state it, or else by name. Adds notes on
/// irregularities to the plan. Returns why they make no volume, if they do not.
fn put_in_order(members: &mut Vec<Member>, plan: &mut Plan) -> Option<Refusal> {
    // Compared as text, since invalid UTF-8 in paths would be compared in another way.
    members.sort_by(|one, other| {
        let names = [one, other].map(|member| member.job.input.to_string_lossy());
        alphanumeric_sort::compare_str(&names[0], &names[1])
    });
    let slices: Vec<Slice> = members.iter().map_while(|member| member.slice.clone()).collect();
    if slices.len() < members.len() {
        return None;
    }
    let order = Slice::order_of_volume(&slices);
    let path = |at: usize| members[at].job.input.clone();
    if let Some(at) = slices.iter().position(|slice| slice.has_frames) {
        return Some(Refusal::FramesAmongSlices { file: path(at) });
    }
    if let Some((one, other)) = order.turned {
        return Some(Refusal::Turned { one: path(one), other: path(other) });
    }
    if let Some((one, other)) = order.same {
        let (one, other) = (path(one), path(other));
        return Some(match order.by {
            OrderedBy::Position => Refusal::SamePlace { one, other },
            OrderedBy::Number | OrderedBy::Nothing => Refusal::SameNumber { one, other },
        });
    }
    if order.by != OrderedBy::Position && slices.len() > 1 {
        let by = if order.by == OrderedBy::Number { "InstanceNumber" } else { "name" };
        plan.notes.push(format!(
            "the slices of {} have no planes in common (ImagePositionPatient, ImageOrientationPatient), so they are taken in the order of {by}",
            Shown(path(0).parent().unwrap_or(Path::new("")))
        ));
    }
    if let Some(Gaps { slices: missing, around: (before, behind) }) = order.gaps {
        let seem = if missing == 1 { "slice seems" } else { "slices seem" };
        plan.notes.push(format!(
            "{missing} {seem} to be missing in a volume, the first between {} and {}; those around it are taken for neighbours",
            Shown(&path(before)),
            Shown(&path(behind))
        ));
    }
    let mut left: Vec<Option<Member>> = mem::take(members).into_iter().map(Some).collect();
    members.extend(order.indices.iter().filter_map(|&at| left[at].take()));
    None
}
