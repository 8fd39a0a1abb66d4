//! The volumes that the frames of a file are slices of.
//!
//! They are given by its dimensions (PS3.3, C.7.6.17), or by the vectors along which the frames of
//! nuclear medicine follow each other (C.8.4.8). A file that has neither is one volume.

use super::dataset::DataSet;
use super::items::{Found, Scope};
use super::tags;
use crate::elements::Tag;
use crate::volumes::{NoVolumes, Volumes};

/// The dimensions, and the pointer of each to an attribute.
const DIMENSIONS: Tag = 0x0020_9222;
const DIMENSION_POINTER: Tag = 0x0020_9165;
/// Within the groups of a frame: its places along the dimensions.
const FRAME_CONTENT: Tag = 0x0020_9111;
const DIMENSION_VALUES: Tag = 0x0020_9157;
/// The vectors along which frames follow each other.
const INCREMENTS: Tag = 0x0028_0009;
/// The attributes that distinguish slices.
///
/// SliceVector, ImagePositionPatient, InStackPositionNumber, ImagePositionVolume.
const ALONG_VOLUME: [Tag; 4] = [0x0054_0080, tags::POSITION, 0x0020_9057, 0x0020_9301];

/// Returns the volumes of so many frames.
pub(super) fn of_frames(set: &DataSet, frames: usize) -> Result<Volumes, NoVolumes> {
    let whole = Scope::Whole(set);
    let told = whole.find(DIMENSIONS).filter(|dimensions| dimensions.item(0).is_some());
    let (dimensions, places) = if let Some(dimensions) = told {
        let pointers = dimensions.items().map(|item| Some(*item.find(DIMENSION_POINTER)?.tags().first()?));
        (pointers.collect::<Option<Vec<_>>>(), places_told(whole))
    } else {
        let vectors = whole.find(INCREMENTS).map(Found::tags).filter(|vectors| vectors.len() > 1);
        let Some(vectors) = vectors else { return Volumes::new((0..frames).map(|frame| ((), frame))) };
        let places = places_in_vectors(whole, &vectors, frames);
        (Some(vectors), places)
    };
    let (Some(dimensions), Some(places)) = (dimensions, places) else { return Err(NoVolumes::Untold) };
    let are_told = places.len() == frames && places.iter().all(|place| place.len() == dimensions.len());
    if !are_told {
        return Err(NoVolumes::Untold);
    }
    Volumes::new(places.into_iter().map(|place| {
        let (along, of_volume): (Vec<_>, Vec<_>) =
            place.into_iter().zip(&dimensions).partition(|(_, dimension)| ALONG_VOLUME.contains(dimension));
        (numbers(of_volume), numbers(along))
    }))
}

fn numbers(places: Vec<(u32, &Tag)>) -> Vec<u32> {
    places.into_iter().map(|(at, _)| at).collect()
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
