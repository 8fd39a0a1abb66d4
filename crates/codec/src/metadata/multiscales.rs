//! The metadata of an OME-Zarr image's group: its axes, and the paths of its resolutions.
//!
//! Source: <https://ngff.openmicroscopy.org/0.4/>, <https://ngff.openmicroscopy.org/0.5/>.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use rustix::fs::OFlags;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// The most bytes that a document of metadata may have.
pub const LONGEST: u64 = 16 << 20;

/// The documents that may describe a group's image.
///
/// They are the one of its metadata in Zarr 3, and that of its attributes in Zarr 2.
pub const DOCUMENTS: [&str; 2] = ["zarr.json", ".zattrs"];

/// Names of the documents in which an array or a group has its metadata.
///
/// A folder without its own is not a group.
pub const METADATA: [&str; 5] = ["zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"];

/// Reasons why a group is not an image that can be enhanced, as a sentence about it and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Its metadata break the rules.
    #[error("{0}")]
    Malformed(String),
    /// It is a valid image of another kind.
    #[error("{what} is not supported; {remedy}")]
    Unsupported {
        /// The unsupported kind, with its article.
        what: String,
        /// The user's remedy.
        remedy: &'static str,
    },
}

/// An image of several resolutions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiscales {
    /// The axes of its arrays, the slowest first. The last two are those of a plane.
    pub axes: Vec<Axis>,
    /// The paths of its arrays below the group, the largest first.
    ///
    /// No path leads out of the group, or into another.
    pub datasets: Vec<String>,
}

/// An axis of an image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Axis {
    /// Its name: t, c, z, y or x, mostly.
    pub name: String,
    /// Its dimension: "time", "channel" or "space", mostly.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl Axis {
    /// Returns whether it counts channels.
    pub fn is_of_channels(&self) -> bool {
        self.kind.as_deref() == Some("channel") || self.kind.is_none() && self.name == "c"
    }

    /// Returns whether it is one of space.
    pub fn is_of_space(&self) -> bool {
        self.kind.as_deref().map_or(matches!(&*self.name, "z" | "y" | "x"), |kind| kind == "space")
    }
}

/// The parts of an entry of `multiscales` that are read. Anything else in it stays as it is.
#[derive(Deserialize)]
struct Entry {
    version: Option<Value>,
    #[serde(default)]
    axes: Vec<Value>,
    datasets: Vec<Dataset>,
}

#[derive(Deserialize)]
struct Dataset {
    path: String,
}

/// Returns whether a folder is the group of an OME-Zarr image, by its attributes.
pub fn is_image_folder(folder: &Path) -> bool {
    image_document(folder).is_some()
}

/// Returns the name of the document that makes a folder the group of an OME-Zarr image.
pub fn image_document(folder: &Path) -> Option<&'static str> {
    DOCUMENTS
        .into_iter()
        .find(|document| read_document(&folder.join(document)).is_ok_and(|text| says_image(&text)))
}

/// Returns whether a document of [`DOCUMENTS`] declares its group an OME-Zarr image.
///
/// That takes no memory, however much else the document has.
pub fn says_image(document: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    struct Attributes {
        multiscales: Option<IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    struct Names {
        ome: Option<Attributes>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        attributes: Option<Names>,
    }
    #[derive(Deserialize)]
    struct Kind {
        zarr_format: Option<IgnoredAny>,
    }
    let Ok(kind) = serde_json::from_slice::<Kind>(document) else { return false };
    let attributes = match kind.zarr_format {
        Some(_) => {
            let metadata = serde_json::from_slice::<Metadata>(document).ok();
            metadata.and_then(|metadata| metadata.attributes?.ome)
        }
        None => serde_json::from_slice(document).ok(),
    };
    attributes.is_some_and(|attributes| attributes.multiscales.is_some())
}

/// The name of the group that lists images of labels.
const LABELS: &str = "labels";

/// Returns whether a group above a folder lists it among its images of labels.
pub fn is_labels_folder(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let mut groups = folder.ancestors().skip(1).filter(|group| group.file_name() == Some(LABELS.as_ref()));
    groups.any(|group| {
        let Some(path) = folder.strip_prefix(group).ok().and_then(Path::to_str) else { return false };
        let mut documents = DOCUMENTS.iter().flat_map(|document| read_document(&group.join(document)));
        documents.any(|document| lists_labels(&document, path))
    })
}

/// Returns the groups above a folder that may list it among their images of labels.
///
/// Each comes with the path from there to the folder.
pub fn groups_of_labels(folder: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = folder.match_indices('/').map(|(at, _)| folder.split_at(at));
    let groups = parts.filter(|(group, _)| group.rsplit('/').next() == Some(LABELS));
    groups.map(|(group, path)| (group, &path[1..]))
}

/// Returns whether a folder is the group of several images.
///
/// It is a plate, or all that bioformats2raw made of a file. A folder with a document that cannot
/// be read may be one, and counts.
pub fn is_collection_folder(folder: &Path) -> bool {
    DOCUMENTS.iter().any(|document| match read_document(&folder.join(document)) {
        Ok(document) => may_say_collection(&document),
        Err(why) => !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    })
}

/// Returns whether a document of [`DOCUMENTS`] declares its group a collection of images, or says
/// nothing that can be read.
pub fn may_say_collection(document: &[u8]) -> bool {
    serde_json::from_slice::<Value>(document).map_or(true, |document| {
        let said = attributes(&document);
        said.is_some_and(|said| said.contains_key("plate") || said.contains_key("bioformats2raw.layout"))
    })
}

/// Returns whether a document of [`DOCUMENTS`] lists a path among the images of labels.
pub fn lists_labels(document: &[u8], path: &str) -> bool {
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return false };
    let labels = attributes(&document).and_then(|attributes| attributes.get(LABELS)?.as_array());
    labels
        .into_iter()
        .flatten()
        .any(|label| label.as_str().is_some_and(|label| label.trim_matches('/') == path))
}

/// Reads a document of metadata, without waiting for the writer of a pipe.
fn read_document(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns the attributes that OME-Zarr defines, from either kind of document.
fn attributes(document: &Value) -> Option<&Map<String, Value>> {
    match document.get("zarr_format") {
        Some(_) => document.get("attributes")?.get("ome")?.as_object(),
        None => document.as_object(),
    }
}

impl Multiscales {
    /// Parses a document of a group's metadata; `None` if it does not describe an image.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn parse(document: &[u8]) -> Result<Option<Self>, GroupError> {
        let document: Value = serde_json::from_slice(document)
            .map_err(|why| malformed(format!("its metadata are not JSON: {why}")))?;
        let Some(attributes) = attributes(&document) else { return Ok(None) };
        let Some(entries) = attributes.get("multiscales") else { return Ok(None) };
        if attributes.contains_key("image-label") {
            return Err(unsupported(
                "an image of labels, whose values are not brightness,",
                "name the image that they label",
            ));
        }
        let [entry] = entries.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(unsupported(
                "a group without exactly one image",
                "write each into a group of its own",
            ));
        };
        let entry = Entry::deserialize(entry)
            .map_err(|why| malformed(format!("its multiscales are invalid: {why}")))?;
        let axes = entry.axes.iter().map(|axis| Axis::deserialize(axis).ok());
        let axes = axes.collect::<Option<Vec<_>>>().filter(|axes| !axes.is_empty());
        let axes = axes.ok_or_else(|| {
            let version = attributes.get("version").or(entry.version.as_ref()).and_then(Value::as_str);
            let version = version.map_or("a version before 0.4".to_owned(), |said| format!("version {said}"));
            unsupported(&format!("an OME-Zarr image of {version}"), "convert it to 0.4 or 0.5 first")
        })?;
        check_axes(&axes)?;
        let datasets: Vec<_> = entry.datasets.into_iter().map(|dataset| dataset.path).collect();
        check_datasets(&datasets)?;
        Ok(Some(Self { axes, datasets }))
    }

    /// Returns the number of the axis of channels, if there is one.
    pub fn channels(&self) -> Option<usize> {
        self.axes.iter().position(Axis::is_of_channels)
    }
}

/// The most axes, and the most arrays: an image has five axes, and can hardly be halved more often.
const MOST_AXES: usize = 16;
const MOST_DATASETS: usize = 64;

/// Checks that the last two axes are those of a plane, and that at most one other is of channels.
fn check_axes(axes: &[Axis]) -> Result<(), GroupError> {
    let channels = axes.iter().filter(|axis| axis.is_of_channels()).count();
    match axes {
        _ if axes.len() > MOST_AXES => {
            Err(unsupported("an OME-Zarr image of more than 16 axes", "write it with the axes t, c, z, y, x"))
        }
        [.., y, x] if y.is_of_space() && x.is_of_space() && channels <= 1 => Ok(()),
        _ => Err(unsupported(
            "an OME-Zarr image whose last two axes are not those of a plane",
            "write it with the axes t, c, z, y, x",
        )),
    }
}

/// Checks that there are arrays, each in a place of its own below the group.
fn check_datasets(paths: &[String]) -> Result<(), GroupError> {
    if paths.is_empty() {
        return Err(malformed("its multiscales name no array".to_owned()));
    }
    if paths.len() > MOST_DATASETS {
        return Err(malformed(format!("its multiscales name {} arrays", paths.len())));
    }
    for (number, path) in paths.iter().enumerate() {
        let mut parts = Path::new(path).components();
        let is_below = !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_below
            || path.contains("//")
            || path.contains("/./")
            || path.contains('\0')
            || path.ends_with('/')
        {
            return Err(malformed(format!("the path {path:?} of an array does not lie below the group")));
        }
        let others = paths[..number].iter();
        let mut nested = others.filter(|&other| is_within(path, other) || is_within(other, path));
        if let Some(other) = nested.next() {
            return Err(malformed(format!("two of its arrays, {other:?} and {path:?}, are at one place")));
        }
    }
    Ok(())
}

/// Returns whether a path is the same as another, or lies within it.
pub(crate) fn is_within(path: &str, other: &str) -> bool {
    Path::new(path).starts_with(other)
}

fn malformed(reason: String) -> GroupError {
    GroupError::Malformed(reason)
}

fn unsupported(what: &str, remedy: &'static str) -> GroupError {
    GroupError::Unsupported { what: what.to_owned(), remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(multiscales: &str) -> Result<Option<Multiscales>, GroupError> {
        let old = Multiscales::parse(format!("{{\"multiscales\": {multiscales}}}").as_bytes());
        let new = format!(
            "{{\"zarr_format\": 3, \"attributes\": {{\"ome\": {{\"multiscales\": {multiscales}}}}}}}"
        );
        assert_eq!(old, Multiscales::parse(new.as_bytes()));
        old
    }

    const AXES: &str = r#""axes": [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]"#;

    #[test]
    fn both_versions_tell_axes_and_paths() {
        let image = group(&format!(r#"[{{{AXES}, "datasets": [{{"path": "0"}}, {{"path": "s/1"}}]}}]"#));
        let image = image.unwrap().unwrap();
        assert_eq!(image.datasets, ["0", "s/1"]);
        assert_eq!((image.channels(), image.axes.len()), (Some(0), 3));
        for other in ["{}", r#"{"plate": {}}"#, r#"{"zarr_format": 3, "attributes": {}}"#] {
            assert_eq!(Multiscales::parse(other.as_bytes()), Ok(None));
        }
    }

    #[test]
    fn a_path_that_leads_out_of_the_group_or_into_another_array_is_refused() {
        for path in ["../x", "/x", "", "a/../../x", "a//b", "./a", "a/", "0/1", "0"] {
            let image =
                group(&format!(r#"[{{{AXES}, "datasets": [{{"path": "0"}}, {{"path": {path:?}}}]}}]"#));
            assert!(matches!(image, Err(GroupError::Malformed(_))), "{path}: {image:?}");
        }
    }

    #[test]
    fn other_images_are_refused_with_a_remedy() {
        for (image, what) in [
            (r#"[{"datasets": [{"path": "0"}]}]"#, "version before 0.4"),
            (r#"[{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]"#, "version before 0.4"),
            (r#"[{"version": "0.6.dev1", "datasets": [{"path": "0"}]}]"#, "of version 0.6.dev1 is"),
            (r#"[{"axes": [{"name": "x"}, {"name": "c"}], "datasets": [{"path": "0"}]}]"#, "last two axes"),
            ("[]", "without exactly one image"),
            (
                &*format!(
                    r#"[{{"axes": [{}{{"name": "x"}}], "datasets": []}}]"#,
                    r#"{"name": "y"}, "#.repeat(16)
                ),
                "16 axes",
            ),
        ] {
            let why = group(image).unwrap_err();
            assert!(matches!(why, GroupError::Unsupported { .. }) && why.to_string().contains(what), "{why}");
        }
        let labels = br#"{"multiscales": [], "image-label": {}}"#;
        assert!(matches!(Multiscales::parse(labels), Err(GroupError::Unsupported { .. })));
        assert!(matches!(Multiscales::parse(b"{"), Err(GroupError::Malformed(_))));
        let newer = br#"{"zarr_format": 3, "attributes": {"ome": {"version": "0.6", "multiscales": [{"datasets": []}]}}}"#;
        assert!(Multiscales::parse(newer).unwrap_err().to_string().contains("of version 0.6 is"));
    }

    #[test]
    fn a_group_lists_its_images_of_labels() {
        let listed = |document: &[u8]| ["cells", "a/b", "b"].map(|path| lists_labels(document, path));
        assert_eq!(listed(br#"{"labels": ["cells", "a/b/"]}"#), [true, true, false]);
        let new = br#"{"zarr_format": 3, "attributes": {"ome": {"labels": ["b"]}}}"#;
        assert_eq!(listed(new), [false, false, true]);
        assert_eq!(listed(br#"{"zarr_format": 3, "attributes": {"labels": ["b"]}}"#), [false; 3]);
        let groups = |folder| groups_of_labels(folder).collect::<Vec<_>>();
        assert_eq!(groups("in/a.zarr/labels/a/b"), [("in/a.zarr/labels", "a/b")]);
        assert_eq!(groups("labels/cells"), [("labels", "cells")]);
        assert_eq!((groups("in/labels"), groups("in/images/a")), (vec![], vec![]));
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("labels/cells")).unwrap();
        std::fs::write(at("labels/.zattrs"), r#"{"labels": ["cells"]}"#).unwrap();
        assert_eq!(
            ["labels/cells", "labels", "labels/other"].map(|folder| is_labels_folder(&at(folder))),
            [true, false, false]
        );
    }
}
