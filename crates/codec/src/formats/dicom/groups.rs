//! The functional groups of frames (PS3.3, C.7.6.16).

use super::dataset::DataSet;
use super::header::Header;
use super::items::{Found, Scope};
use super::tags;
use crate::CodecError;
use crate::formats::elements::Tag;
use crate::io::budget::{Budget, ask};

/// Finds the groups of each of so many frames, once for all: items have to be read one by one.
///
/// `held` bytes are in use already.
pub(super) fn index(
    set: &mut DataSet,
    frames: u32,
    held: u64,
    budget: &mut dyn Budget,
) -> Result<(), CodecError> {
    if let Some(groups) = of_all_frames(set) {
        let most = (frames as usize).min(groups.value.len() / Header::ITEM_BYTES);
        ask(budget, held + (most * size_of::<usize>()) as u64, "metadata")?;
        set.frame_groups = groups.item_offsets(most);
    }
    Ok(())
}

/// Returns the scope with a group of a frame: its own groups, those of all frames, or the data set.
pub(super) fn scope_of(set: &DataSet, frame: u32, group: Tag) -> Scope<'_> {
    group_of(set, frame, group).unwrap_or(Scope::Whole(set))
}

/// Returns a group of a frame, among its own groups or those of all frames.
///
/// The groups of frames have to be [indexed](index).
pub(super) fn group_of(set: &DataSet, frame: u32, group: Tag) -> Option<Scope<'_>> {
    let own = set.frame_groups.get(frame as usize).and_then(|&offset| of_all_frames(set)?.item_at(offset));
    let found = own.and_then(|own| own.item(group));
    found.or_else(|| Scope::Whole(set).item(tags::SHARED_GROUPS)?.item(group))
}

fn of_all_frames(set: &DataSet) -> Option<Found<'_>> {
    Scope::Whole(set).find(tags::FRAME_GROUPS)
}

#[cfg(test)]
mod tests {
    use crate::io::image_store::MediumRef;
    use crate::parts::pages::{PageOutput, PageSink};
    use std::fs;

    use super::super::tests::{Made, group, inner, slot_of};
    use super::super::write::Writer;
    use super::*;
    use crate::{Cores, Target};

    const RESCALING: Tag = 0x0028_9145;
    const FRAMES: u32 = 2000;

    fn made(frames: u32) -> Made {
        let slope = |frame: u32| inner(tags::RESCALE_SLOPE, b"DS", (frame + 1).to_string().as_bytes());
        Made::new([1, 1], &vec![7; frames as usize])
            .with_items(tags::FRAME_GROUPS, (0..frames).map(|frame| group(RESCALING, &slope(frame))))
    }

    #[test]
    fn each_frame_has_its_own_groups_or_those_of_all() {
        let slope = |set, frame| scope_of(set, frame, RESCALING).number(tags::RESCALE_SLOPE);
        let known = made(3).known().unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|frame| slope(&known.set, frame)),
            [Some(1.0), Some(2.0), Some(3.0), None]
        );
        let shared = group(RESCALING, &inner(tags::RESCALE_SLOPE, b"DS", b"9"));
        let known = made(3).with_items(tags::SHARED_GROUPS, [shared]).known().unwrap();
        assert_eq!([2, 3].map(|frame| slope(&known.set, frame)), [Some(3.0), Some(9.0)]);
    }

    /// Shorter times are not exact.
    const SHORTEST: u64 = 10_000_000;

    /// Returns the processor's time of this thread, in nanoseconds.
    fn time() -> u64 {
        let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        times.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn time_grows_with_the_frames_and_not_with_their_square() {
        // The groups of each frame are looked up, and it is written.
        let (target, cores) = (Target::AS_STORED, Cores::none());
        let took = |frames: u32| {
            let (decoded, levels) = made(frames).decoded(&target).unwrap();
            let known = made(frames).known().unwrap();
            let (out, begun) = (tempfile::tempfile().unwrap(), time());
            let writer = Writer::new(frames as usize);
            for frame in 0..frames {
                assert!(scope_of(&known.set, frame, RESCALING).number(tags::RESCALE_SLOPE).is_some());
                let mut slot = slot_of(&levels);
                let to = PageOutput {
                    target: &target,
                    help: (&cores).into(),
                    out: MediumRef::File(&out),
                    spill: &out,
                };
                writer.write(frame as usize, &decoded, &mut slot, to).unwrap();
            }
            time() - begun
        };
        let (few, many) = (took(FRAMES / 8), took(FRAMES));
        assert!(many < 30 * few.max(SHORTEST), "{} frames {few} ns, {FRAMES} frames {many} ns", FRAMES / 8);
    }
}
