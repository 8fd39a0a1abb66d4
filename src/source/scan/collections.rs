//! Collections of OME-Zarr images: plates, and the images of one file as bioformats2raw lays them
//! out. The groups above the images have metadata of their own, which name the images.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use codec::multiscales;

use super::found::Candidate;

/// The folder of a collection with the metadata of the file that it was made of, and the file with
/// these.
const OME: &str = "OME";
const OME_XML: &str = "METADATA.ome.xml";

/// The groups above images in object storage.
#[derive(Default)]
pub(super) struct Groups {
    /// The folders of collections.
    pub(super) collections: HashSet<PathBuf>,
    /// The objects with metadata of groups.
    pub(super) documents: HashSet<PathBuf>,
}

/// Returns whether a file has metadata of a group, by its name.
pub(super) fn is_document(file: &Path) -> bool {
    let is_of_group = |name: &Path| multiscales::METADATA.into_iter().any(|one| name == Path::new(one));
    let Some(name) = file.file_name().map(Path::new) else { return false };
    let is_in_ome = file.parent().is_some_and(|folder| folder.file_name() == Some(OME.as_ref()));
    is_of_group(name) || is_in_ome && name == Path::new(OME_XML)
}

/// Returns the files with the metadata of the collections that images lie in, each with its place
/// among the outputs. Those in object storage are among these groups.
pub(super) fn files(candidates: &[Candidate], stored: &Groups) -> Vec<(PathBuf, PathBuf)> {
    let (mut known, mut groups) = (HashMap::new(), BTreeMap::new());
    let images = candidates.iter().filter(|one| one.found.document.is_some() && !one.found.named);
    for Candidate { found, output } in images {
        let above = found.input.ancestors().skip(1).zip(output.ancestors().skip(1));
        let above: Vec<_> = above.take(found.below.components().count()).collect();
        let mut is_collection = |folder: &Path| match found.image {
            Some(_) => stored.collections.contains(folder),
            None => {
                *known.entry(folder.to_owned()).or_insert_with(|| multiscales::is_collection_folder(folder))
            }
        };
        let outermost = above.iter().rposition(|(folder, _)| is_collection(folder));
        groups.extend(above.into_iter().take(outermost.map_or(0, |at| at + 1)));
    }
    let names = || multiscales::METADATA.into_iter().map(PathBuf::from);
    let of_file = || names().chain([PathBuf::from(OME_XML)]).map(|name| Path::new(OME).join(name));
    let all = groups.into_iter().flat_map(|(folder, place)| {
        names().chain(of_file()).map(move |name| (folder.join(&name), place.join(name)))
    });
    // Copying a link or a file that cannot be read fails with the reason, if it does.
    all.filter(|(file, _)| match fs::symlink_metadata(file) {
        _ if store::is_url(file) => stored.documents.contains(file),
        Ok(there) => !there.is_dir(),
        Err(why) => !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    })
    .collect()
}
