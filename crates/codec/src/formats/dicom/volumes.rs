//! The volumes that the frames of a file are slices of.
//!
//! They are given by its dimensions (PS3.3, C.7.6.17), or by the vectors along which the frames of
//! nuclear medicine follow each other (C.8.4.8). A file that has neither is one volume. The slices
//! of a volume lie where their positions and orientations state (C.7.6.16.2.3 and 4), as the files
//! of a series do; or else, with a note, where dimensions and vectors state, or else one after
//! the other.

use std::collections::BTreeMap;

use super::dataset::DataSet;
use super::groups::group_of;
use super::items::{Found, Scope};
use super::tags;
use crate::formats::elements::Tag;
use crate::parts::slice::{self, Gaps, Places, Plane, Step};
use crate::parts::volumes::{NoVolumes, Volumes};

/// The dimensions, and the pointer of each to an attribute.
const DIMENSIONS: Tag = 0x0020_9222;
const DIMENSION_POINTER: Tag = 0x0020_9165;
/// Within the groups of a frame: its places along the dimensions.
const FRAME_CONTENT: Tag = 0x0020_9111;
const DIMENSION_VALUES: Tag = 0x0020_9157;
/// Within the groups of a frame: the position and the orientation of its plane.
const PLANE_POSITION: Tag = 0x0020_9113;
const PLANE_ORIENTATION: Tag = 0x0020_9116;
/// The vectors along which frames follow each other.
const INCREMENTS: Tag = 0x0028_0009;
/// The attributes that distinguish slices.
///
/// SliceVector, ImagePositionPatient, InStackPositionNumber, ImagePositionVolume.
const ALONG_VOLUME: [Tag; 4] = [0x0054_0080, tags::POSITION, 0x0020_9057, 0x0020_9301];

/// Returns the volumes of so many frames, whose groups are indexed.
pub(super) fn of_frames(set: &DataSet, frames: usize) -> Result<Volumes, NoVolumes> {
    let mut volumes: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    let mut slices = stated_slices(set, frames)?;
    for (frame, Stated { volume, .. }) in slices.iter().enumerate() {
        volumes.entry(volume.clone()).or_default().push(frame);
    }
    let (mut gaps, mut unplaced) = (None::<Gaps>, false);
    for frames in volumes.values() {
        let planes: Vec<_> = frames.iter().map(|&frame| plane(set, frame as u32)).collect();
        match Places::of(&planes) {
            Places::AlongNormal(places) => {
                let places = frames.iter().zip(places);
                let mut along: Vec<_> = places.clone().map(|(&frame, place)| (frame, place)).collect();
                along.sort_by(|one, other| one.1.total_cmp(&other.1));
                let steps = along
                    .windows(2)
                    .map(|pair| Step { between: (pair[0].0, pair[1].0), length: pair[1].1 - pair[0].1 });
                if let Some(own) = slice::gaps(&steps.collect::<Vec<_>>()) {
                    let before = gaps.unwrap_or(Gaps { slices: 0, ..own });
                    gaps = Some(Gaps { slices: before.slices + own.slices, ..before });
                }
                places.for_each(|(&frame, place)| slices[frame].place = vec![place as i64]);
            }
            Places::Turned(one, other) => {
                return Err(NoVolumes::Turned { one: frames[one], other: frames[other] });
            }
            Places::Unknown => unplaced |= planes.len() > 1,
        }
    }
    let found = Volumes::new(slices.into_iter().map(|Stated { volume, place }| (volume, place)))?;
    Ok(found.with_gaps(gaps).unplaced(unplaced))
}

/// The volume of a frame, and its place there.
struct Stated {
    volume: Vec<u32>,
    place: Vec<i64>,
}

/// Returns the volume and the place of each frame as dimensions or vectors state them, or else all
/// as one volume in their order.
fn stated_slices(set: &DataSet, frames: usize) -> Result<Vec<Stated>, NoVolumes> {
    let whole = Scope::Whole(set);
    let stated = whole.find(DIMENSIONS).filter(|dimensions| dimensions.item(0).is_some());
    let (dimensions, places) = if let Some(dimensions) = stated {
        let pointers = dimensions.items().map(|item| Some(*item.find(DIMENSION_POINTER)?.tags().first()?));
        (pointers.collect::<Option<Vec<_>>>(), places_told(whole))
    } else {
        let vectors = whole.find(INCREMENTS).map(Found::tags).filter(|vectors| vectors.len() > 1);
        let Some(vectors) = vectors else {
            let in_order = (0..frames).map(|frame| Stated { volume: Vec::new(), place: vec![frame as i64] });
            return Ok(in_order.collect());
        };
        let places = places_in_vectors(whole, &vectors, frames);
        (Some(vectors), places)
    };
    let (Some(dimensions), Some(places)) = (dimensions, places) else { return Err(NoVolumes::Untold) };
    let are_stated = places.len() == frames && places.iter().all(|place| place.len() == dimensions.len());
    if !are_stated {
        return Err(NoVolumes::Untold);
    }
    let slices = places.into_iter().map(|place| {
        let (along, of_volume): (Vec<_>, Vec<_>) =
            place.into_iter().zip(&dimensions).partition(|(_, dimension)| ALONG_VOLUME.contains(dimension));
        Stated {
            volume: of_volume.into_iter().map(|(at, _)| at).collect(),
            place: along.into_iter().map(|(at, _)| at.into()).collect(),
        }
    });
    Ok(slices.collect())
}

/// Returns the plane of a frame, as its groups or those of all frames state it.
fn plane(set: &DataSet, frame: u32) -> Plane {
    Plane {
        position: group_of(set, frame, PLANE_POSITION).and_then(|group| group.coordinates(tags::POSITION)),
        orientation: group_of(set, frame, PLANE_ORIENTATION)
            .and_then(|group| group.coordinates(tags::ORIENTATION)),
    }
}

/// Returns the place of each frame along the dimensions, by its groups.
fn places_told(whole: Scope<'_>) -> Option<Vec<Vec<u32>>> {
    let frames = whole.find(tags::FRAME_GROUPS)?.items();
    frames.map(|groups| Some(groups.item(FRAME_CONTENT)?.find(DIMENSION_VALUES)?.longs())).collect()
}

/// Returns the place of each frame along vectors.
fn places_in_vectors(whole: Scope<'_>, vectors: &[Tag], frames: usize) -> Option<Vec<Vec<u32>>> {
    let vectors = vectors.iter().map(|&vector| Some(whole.find(vector)?.words()));
    let vectors: Vec<_> = vectors.collect::<Option<_>>()?;
    let places =
        (0..frames).map(|frame| vectors.iter().map(|vector| Some(u32::from(*vector.get(frame)?))).collect());
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Made, group, inner};
    use super::*;
    use crate::parts::volumes::SliceOf;

    const AXIAL: &str = "1\\0\\0\\0\\1\\0";
    const CORONAL: &str = "1\\0\\0\\0\\0\\-1";
    const STACK: Tag = 0x0020_9056;
    const IN_STACK: Tag = 0x0020_9057;
    const TIME: Tag = 0x0020_9128;

    /// A frame: its values along the dimensions, its position along z, and its orientation.
    struct Frame<'f>(&'f [u32], Option<f64>, &'f str);

    fn made(dimensions: &[Tag], frames: &[Frame<'_>]) -> Result<Volumes, NoVolumes> {
        let mut made = Made::new([1, 1], &vec![7; frames.len()]);
        if !dimensions.is_empty() {
            made = made.with_items(
                DIMENSIONS,
                dimensions.iter().map(|tag| {
                    let pointer = [(tag >> 16) as u16, *tag as u16].map(u16::to_le_bytes);
                    inner(DIMENSION_POINTER, b"AT", pointer.as_flattened())
                }),
            );
        }
        let made = made.with_items(
            tags::FRAME_GROUPS,
            frames.iter().map(|Frame(values, z, orientation)| {
                let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let mut groups = group(FRAME_CONTENT, &inner(DIMENSION_VALUES, b"UL", &values));
                if let Some(z) = z {
                    let position = inner(tags::POSITION, b"DS", format!("-3.5\\0\\{z}").as_bytes());
                    groups.extend(group(PLANE_POSITION, &position));
                }
                groups.extend(group(
                    PLANE_ORIENTATION,
                    &inner(tags::ORIENTATION, b"DS", orientation.as_bytes()),
                ));
                groups
            }),
        );
        of_frames(&made.known().unwrap().set, frames.len())
    }

    fn volumes(dimensions: &[Tag], frames: &[Frame<'_>]) -> Result<Vec<(usize, usize)>, NoVolumes> {
        let found = made(dimensions, frames)?;
        let place = |page| {
            let SliceOf { volume, index, .. } = found.slice(page);
            (volume, index)
        };
        Ok((0..frames.len()).map(place).collect())
    }

    #[test]
    fn slices_lie_where_their_positions_state() {
        let at = |values, z| Frame(values, Some(z), AXIAL);
        // Without dimensions, and against the number in the stack.
        assert_eq!(
            volumes(&[], &[at(&[], 2.0), at(&[], -1.0), at(&[], 0.5)]),
            Ok(vec![(0, 2), (0, 0), (0, 1)])
        );
        let stacked = [at(&[1, 1], 4.0), at(&[1, 2], 2.0), at(&[1, 3], 3.0)];
        assert_eq!(volumes(&[STACK, IN_STACK], &stacked), Ok(vec![(0, 2), (0, 0), (0, 1)]));
        let times = [at(&[1, 1], 1.0), at(&[2, 1], 1.0), at(&[1, 2], 0.0), at(&[2, 2], 0.0)];
        assert_eq!(volumes(&[TIME, IN_STACK], &times), Ok(vec![(0, 1), (1, 1), (0, 0), (1, 0)]));
        // Without a position for each, dimensions or the order of frames tell.
        let some = [Frame(&[2], Some(0.0), AXIAL), Frame(&[1], None, AXIAL)];
        assert_eq!(volumes(&[IN_STACK], &some), Ok(vec![(0, 1), (0, 0)]));
        assert_eq!(volumes(&[], &some), Ok(vec![(0, 0), (0, 1)]));
        for dimensions in [&[][..], &[IN_STACK]] {
            assert!(made(dimensions, &some).unwrap().are_unplaced());
        }
        assert!(!made(&[STACK, IN_STACK], &stacked).unwrap().are_unplaced());
        // A volume of one slice is in order.
        let lone = [at(&[1, 1], 1.0), at(&[1, 2], 2.0), Frame(&[2, 1], None, AXIAL)];
        assert!(!made(&[STACK, IN_STACK], &lone).unwrap().are_unplaced());
    }

    #[test]
    fn gaps_between_frames_are_counted() {
        let gaps = |places: &[f64]| {
            let frames: Vec<_> = places.iter().map(|&z| Frame(&[], Some(z), AXIAL)).collect();
            made(&[], &frames).unwrap().gaps()
        };
        assert_eq!(gaps(&[0.0, 1.0, 2.0, 3.0]), None);
        let expected = Gaps { slices: 3, around: (2, 4) };
        assert_eq!(gaps(&[0.0, 1.0, 2.0, 5.0, 4.0, 8.0]), Some(expected));
    }

    #[test]
    fn frames_that_cannot_be_slices_are_refused() {
        let at = |values, z| Frame(values, Some(z), AXIAL);
        let twice = [at(&[], 0.0), at(&[], 1.0), at(&[], 0.0)];
        assert_eq!(volumes(&[], &twice), Err(NoVolumes::SamePlace { one: 0, other: 2 }));
        // The dimensions are given in another order than the values.
        let wrong = [at(&[1, 1, 1], 0.0), at(&[1, 1, 2], 0.0), at(&[1, 2, 1], 1.0), at(&[1, 2, 2], 1.0)];
        assert!(matches!(volumes(&[TIME, STACK, IN_STACK], &wrong), Err(NoVolumes::SamePlace { .. })));
        let turned = [at(&[1, 1], 0.0), Frame(&[1, 2], Some(1.0), CORONAL)];
        assert_eq!(volumes(&[STACK, IN_STACK], &turned), Err(NoVolumes::Turned { one: 0, other: 1 }));
        // As stacks of their own they are volumes.
        let stacks = [at(&[1, 1], 0.0), Frame(&[2, 1], Some(1.0), CORONAL), at(&[1, 2], 2.0)];
        assert_eq!(volumes(&[STACK, IN_STACK], &stacks), Ok(vec![(0, 0), (1, 0), (0, 1)]));
    }
}
