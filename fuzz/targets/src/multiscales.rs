//! The metadata of an OME-Zarr image's group.

use std::path::{Component, Path};

use codec::multiscales::Multiscales;

/// Reads an input as the metadata of a group.
///
/// No path in it leads out of the group, or to the place of another.
pub(crate) fn check(data: &[u8]) {
    let Ok(Some(image)) = Multiscales::parse(data) else { return };
    assert!(image.axes.len() >= 2, "it has planes");
    assert!(
        image.channels().is_none_or(|axis| axis + 2 < image.axes.len()),
        "channels are no axis of a plane"
    );
    assert!(!image.datasets.is_empty(), "it has an array");
    for (number, path) in image.datasets.iter().enumerate() {
        let mut parts = Path::new(path).components();
        assert!(!path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        let mut others = image.datasets[..number].iter();
        let is_apart =
            |other: &String| !Path::new(other).starts_with(path) && !Path::new(path).starts_with(other);
        assert!(others.all(is_apart), "{path:?}");
    }
}
