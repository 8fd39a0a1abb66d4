//! Names that systems and programs reserve. Files with such names were not put into an input folder
//! as pictures: they are left out unless `--include` spells the name. Hidden names (`.Trash-1000`,
//! `.Trashes`, `.@__thumb`, rsync's `.a.png.Xy12ab`) are not listed here: they are left out in any
//! case.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::names::promises_a_picture;

/// The use of a reserved name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A folder in which a system keeps deleted files, snapshots, thumbnails or indexes.
    SystemFolder,
    /// An older state of the file of that name in the same folder.
    Backup,
    /// A file that is being written, and is renamed once it is complete.
    Incomplete,
    /// A file of overviews or of a mask of the picture of that name in the same folder.
    Sidecar,
}

/// A pattern of reserved names. All texts are in ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    /// This name.
    Name(&'static str),
    /// Names with this prefix.
    Prefix(&'static str),
    /// Names with this suffix.
    Suffix(&'static str),
    /// A picture's name with this suffix: after other names, it may be part of a usual name.
    AfterPicture(&'static str),
}

/// A reserved name, or a family of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    pattern: Pattern,
    /// Whether case is ignored, as the system or program ignores it.
    any_case: bool,
    /// The use of such names.
    pub purpose: Purpose,
    /// The system or program that makes them.
    pub maker: &'static str,
}

impl Reserved {
    /// Returns the reserved name that a file or folder has, if it is for this purpose.
    pub fn find(path: &Path, purpose: Purpose) -> Option<&'static Self> {
        [folder(path), file(path)].into_iter().flatten().find(|reserved| reserved.purpose == purpose)
    }

    const fn folder(name: &'static str, maker: &'static str) -> Self {
        Self { pattern: Pattern::Name(name), any_case: false, purpose: Purpose::SystemFolder, maker }
    }

    const fn backup(pattern: Pattern, maker: &'static str) -> Self {
        Self { pattern, any_case: false, purpose: Purpose::Backup, maker }
    }

    const fn incomplete(pattern: Pattern, maker: &'static str) -> Self {
        Self { pattern, any_case: true, purpose: Purpose::Incomplete, maker }
    }

    const fn sidecar(text: &'static str) -> Self {
        let (pattern, maker) = (Pattern::AfterPicture(text), "GDAL");
        Self { pattern, any_case: true, purpose: Purpose::Sidecar, maker }
    }

    const fn in_any_case(self) -> Self {
        Self { any_case: true, ..self }
    }

    /// Returns the part of the names that makes them reserved.
    const fn text(&self) -> &'static str {
        let (Pattern::Name(text)
        | Pattern::Prefix(text)
        | Pattern::Suffix(text)
        | Pattern::AfterPicture(text)) = self.pattern;
        text
    }

    /// Returns whether a glob of `--include`, in lower case, spells the name: `*` alone does not
    /// select reserved names.
    pub(super) fn is_spelled_in(&self, glob: &str) -> bool {
        glob.contains(&self.text().to_ascii_lowercase())
    }

    fn has(&self, name: &[u8]) -> bool {
        let text = self.text().as_bytes();
        let is_text =
            |part: &[u8]| if self.any_case { part.eq_ignore_ascii_case(text) } else { part == text };
        let (rest, end) = name.split_at(name.len().saturating_sub(text.len()));
        match self.pattern {
            Pattern::Name(_) => is_text(name),
            Pattern::Prefix(_) => name.get(..text.len()).is_some_and(is_text),
            Pattern::Suffix(_) => !rest.is_empty() && is_text(end),
            Pattern::AfterPicture(_) => {
                is_text(end) && promises_a_picture(Path::new(OsStr::from_bytes(rest)))
            }
        }
    }
}

/// Writes the glob that matches such names.
impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pattern {
            Pattern::Name(name) => f.write_str(name),
            Pattern::Prefix(text) => write!(f, "{text}*"),
            Pattern::Suffix(text) | Pattern::AfterPicture(text) => write!(f, "*{text}"),
        }
    }
}

/// Folders. The case of names made by Windows and macOS is ignored, as by their file systems; those
/// of NAS and Linux are as written.
const FOLDERS: &[Reserved] = &[
    Reserved::folder("@eaDir", "Synology: thumbnails and indexes"),
    Reserved::folder("#recycle", "Synology, TerraMaster: recycle bin"),
    Reserved::folder("#snapshot", "Synology: snapshots"),
    Reserved::folder("@Recycle", "QNAP: recycle bin"),
    Reserved::folder("@Recently-Snapshot", "QNAP: snapshots"),
    Reserved::folder("@Transcode", "QNAP: converted copies"),
    Reserved::folder("trashbox", "Buffalo: recycle bin"),
    Reserved::folder("~snapshot", "NetApp: snapshots"),
    Reserved::folder("lost+found", "fsck of ext2 to ext4: recovered pieces"),
    Reserved::folder("LOST.DIR", "Android: recovered pieces").in_any_case(),
    Reserved::folder("FOUND.000", "chkdsk of Windows: recovered pieces").in_any_case(),
    Reserved::folder("$RECYCLE.BIN", "Windows: recycle bin").in_any_case(),
    Reserved::folder("RECYCLER", "Windows XP: recycle bin").in_any_case(),
    Reserved::folder("RECYCLED", "Windows 98: recycle bin").in_any_case(),
    Reserved::folder("System Volume Information", "Windows: indexes and restore points").in_any_case(),
    Reserved::folder("$Extend", "NTFS: its own records").in_any_case(),
    Reserved::folder("Network Trash Folder", "macOS, on file servers: trash").in_any_case(),
    Reserved::folder("Temporary Items", "macOS, on file servers: files being saved").in_any_case(),
    Reserved::folder("TheVolumeSettingsFolder", "macOS, on file servers: settings").in_any_case(),
    Reserved::folder("__MACOSX", "macOS, in archives: resource forks").in_any_case(),
    Reserved {
        pattern: Pattern::Suffix(".download"),
        any_case: true,
        purpose: Purpose::Incomplete,
        maker: "Safari",
    },
];

const FILES: &[Reserved] = &[
    Reserved::backup(Pattern::Suffix("~"), "Emacs, Vim, gedit and other editors"),
    Reserved::backup(Pattern::AfterPicture("_original"), "ExifTool"),
    Reserved::backup(Pattern::AfterPicture(".orig"), "patch and merge tools"),
    Reserved::backup(Pattern::Suffix(".bak"), "editors and converters").in_any_case(),
    Reserved::incomplete(Pattern::Suffix(".part"), "Firefox, KDE, ownCloud, Nextcloud, yt-dlp"),
    Reserved::incomplete(Pattern::Suffix(".partial"), "rclone, Edge"),
    Reserved::incomplete(Pattern::Suffix(".filepart"), "WinSCP"),
    Reserved::incomplete(Pattern::Suffix(".crdownload"), "Chrome, Edge"),
    Reserved::incomplete(Pattern::Suffix(".opdownload"), "Opera"),
    Reserved::incomplete(Pattern::Suffix(".download"), "Safari"),
    Reserved::incomplete(Pattern::Suffix(".tmp"), "Syncthing, Microsoft Office, Photoshop and many others"),
    Reserved::incomplete(Pattern::Suffix(".temp"), "many programs"),
    Reserved::incomplete(Pattern::Suffix(".incomplete"), "uploads and downloads of several clients"),
    Reserved::incomplete(Pattern::Suffix(".!qB"), "qBittorrent"),
    Reserved::incomplete(Pattern::Suffix(".!ut"), "uTorrent"),
    Reserved::incomplete(Pattern::Suffix(".!sync"), "Resilio Sync"),
    Reserved::incomplete(Pattern::Prefix("~syncthing~"), "Syncthing on Windows"),
    Reserved::incomplete(Pattern::Prefix("~$"), "Microsoft Office: marks of an open file"),
    Reserved::sidecar(".ovr"),
    Reserved::sidecar(".msk"),
    Reserved::sidecar(".msk.ovr"),
];

/// Returns the reserved name that a folder has.
pub(super) fn folder(path: &Path) -> Option<&'static Reserved> {
    find(FOLDERS, path)
}

/// Returns the reserved name that a file has.
pub(super) fn file(path: &Path) -> Option<&'static Reserved> {
    find(FILES, path)
}

fn find(list: &'static [Reserved], path: &Path) -> Option<&'static Reserved> {
    let name = path.file_name()?.as_bytes();
    list.iter().find(|reserved| reserved.has(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn purpose(find: fn(&Path) -> Option<&'static Reserved>, name: &str) -> Option<Purpose> {
        find(Path::new(name)).map(|reserved| reserved.purpose)
    }

    #[test]
    fn folders_of_systems_are_known_in_the_case_that_their_makers_use() {
        for name in ["x/@eaDir", "#recycle", "@Recycle", "$Recycle.Bin", "$RECYCLE.BIN", "lost+found"] {
            assert_eq!(purpose(folder, name), Some(Purpose::SystemFolder), "{name}");
        }
        for name in ["SYSTEM VOLUME INFORMATION", "recycler", "__macosx", "network trash folder"] {
            assert_eq!(purpose(folder, name), Some(Purpose::SystemFolder), "{name}");
        }
        for name in ["@eadir", "Lost+Found", "recycle", "recycle.bin", "Trash", "eaDir", "#recycle2"] {
            assert_eq!(purpose(folder, name), None, "{name}");
        }
        assert_eq!(purpose(folder, "a.jpg.download"), Some(Purpose::Incomplete));
    }

    #[test]
    fn backups_are_told_from_names_that_only_look_like_them() {
        for name in
            ["a.jpg~", "a.jpg.~1~", "a.JPG_original", "a.heic_original", "a.tif.orig", "a.BAK", "a.png.bak"]
        {
            assert_eq!(purpose(file, name), Some(Purpose::Backup), "{name}");
        }
        for name in ["the_original", "a_original.jpg", "a.txt_original", "~", "PICTUR~1.JPG", "bak", "a.orig"]
        {
            assert_eq!(purpose(file, name), None, "{name}");
        }
    }

    #[test]
    fn names_of_incomplete_files_are_known_in_any_case() {
        for name in
            ["a.pgm.part", "a.png.filepart", "Unconfirmed 1.crdownload", "A.TMP", "a.jpg.ocTransferId12.part"]
        {
            assert_eq!(purpose(file, name), Some(Purpose::Incomplete), "{name}");
        }
        for name in ["~$a.png", "~syncthing~a.png.tmp", "a.jpg.1f3b.partial"] {
            assert_eq!(purpose(file, name), Some(Purpose::Incomplete), "{name}");
        }
        for name in ["part", "a.part.png", "tmpx1y2z3", "a.apart", "a", "tmp.png", "a.in"] {
            assert_eq!(purpose(file, name), None, "{name}");
        }
        let latin1 = OsStr::from_bytes(b"\xe9t\xe9.png.part");
        assert_eq!(file(Path::new(latin1)).map(Reserved::to_string), Some("*.part".into()));
    }

    #[test]
    fn overviews_and_masks_are_those_of_a_picture() {
        for name in ["a.tif.ovr", "a.TIF.OVR", "a.jp2.msk", "a.tif.msk.ovr"] {
            assert_eq!(purpose(file, name), Some(Purpose::Sidecar), "{name}");
        }
        for name in ["a.ovr", "a.msk", "a.txt.ovr", "a.ovr.tif"] {
            assert_eq!(purpose(file, name), None, "{name}");
        }
    }

    #[test]
    fn the_documentation_lists_every_name() {
        let documented = include_str!("../../docs/service.md");
        for name in [FOLDERS, FILES].concat() {
            let (glob, text) = (format!("`{name}`"), format!("`{}`", name.text()));
            assert!(documented.contains(&glob) || documented.contains(&text), "{name}");
        }
    }

    #[test]
    fn every_entry_has_a_glob_of_its_own_that_spells_it() {
        for list in [FOLDERS, FILES] {
            let globs: HashSet<_> = list.iter().map(Reserved::to_string).collect();
            assert_eq!(globs.len(), list.len());
            assert!(list.iter().all(|one| one.is_spelled_in(&one.to_string().to_ascii_lowercase())));
            assert!(!list.iter().any(|one| one.is_spelled_in("*")));
        }
    }
}
