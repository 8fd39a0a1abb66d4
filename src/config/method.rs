//! The method that the keys describe.

use super::layers::key;
use super::{ClipLimit, Grid, MethodName, OrAuto, Percent, Plateau, TileSize, Written};
use crate::picture::record::Digest;
use codec::Derivation;
use equalize::{Clahe, Exposure, Method, Stretch, Tiles};

/// Returns the method.
///
/// # Errors
/// A sentence for the user, about choices that exclude each other.
pub(super) fn method(resolved: &Written) -> Result<Method, String> {
    Ok(match key(resolved.method) {
        MethodName::Global => match key(resolved.plateau) {
            Plateau::Off => Method::Global,
            Plateau::Share(share) => Method::Plateau(equalize::Plateau { share: share.0 }),
        },
        MethodName::Stretch => Method::Stretch(stretch(resolved)?),
        MethodName::Match => Method::Match,
        MethodName::Clahe => {
            let noise = key(resolved.noise).0;
            Method::Clahe(Clahe { clip_limit: clip_limit(resolved), tiles: tiles(resolved), noise })
        }
    })
}

/// Returns the exposure to apply before the method, if it changes pictures.
///
/// # Errors
/// As [`method`].
pub(super) fn exposure(resolved: &Written) -> Result<Option<Exposure>, String> {
    let share = key(resolved.exposure).0.in_thousandths() as u16;
    Ok(if share > 0 { Some(Exposure { share, ends: stretch(resolved)? }) } else { None })
}

/// Returns the description of a method with these settings for files that record their derivation.
pub(super) fn derivation(method: &Method, settings: Digest) -> Derivation {
    let (what, number) = match method {
        Method::Global => ("equalized", 1),
        Method::Stretch(_) => ("stretched", 2),
        Method::Match => ("matched", 3),
        Method::Clahe(_) => ("CLAHE", 4),
        Method::Plateau(_) => ("plateau-equalized", 5),
    };
    Derivation { what, number, settings: settings.number().cast_unsigned() }
}

fn stretch(resolved: &Written) -> Result<Stretch, String> {
    let (low, high) = (key(resolved.clip_low), key(resolved.clip_high));
    if low.0 + high.0 >= Percent::ALL {
        return Err(format!(
            "--clip-low {low} and --clip-high {high} leave nothing to stretch; together they must be below 100"
        ));
    }
    Ok(Stretch { low: low.0, high: high.0 })
}

fn clip_limit(resolved: &Written) -> equalize::ClipLimit {
    match key(resolved.clip_limit) {
        OrAuto::Auto => equalize::ClipLimit::Auto,
        OrAuto::Fixed(ClipLimit(times)) => equalize::ClipLimit::Times(times),
    }
}

fn tiles(resolved: &Written) -> Tiles {
    match (key(resolved.tile_size), key(resolved.tiles)) {
        (TileSize::Off, Grid { x, y, z: None }) => Tiles::Grid { x, y },
        (TileSize::Off, Grid { x, y, z: Some(z) }) => Tiles::Boxes { x, y, z },
        (TileSize::Pixels(side), _) => Tiles::Pixels(side),
    }
}
