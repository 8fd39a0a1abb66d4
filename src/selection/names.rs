//! What file names say, mostly about formats.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use codec::{Format, names_foreign};

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let Some(own) = path.extension().and_then(|extension| extension.to_str()) else { return false };
    extensions.iter().any(|extension| extension.eq_ignore_ascii_case(own))
}

/// Returns whether a file's name says that it is a picture. Those of formats that are not read fail with a reason instead of being skipped,
/// so that no picture is silently missing.
pub(crate) fn promises_a_picture(path: &Path) -> bool {
    Format::of_name(path).is_some() || names_foreign(path)
}

/// Returns whether a name has a leading dot, as all temporary names have that histeqd gives to files.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// Returns the path of an output below the output folder, for an input at the path `below` below its input folder. Without a `format`, it
/// is the same path, unless its name is that of a format that is not written.
pub fn output_below(below: &Path, format: Option<Format>) -> PathBuf {
    let unwritten = Format::of_name(below).filter(|format| !format.is_written());
    let format = format.or_else(|| unwritten.map(Format::written));
    format.map_or_else(|| below.to_owned(), |format| renamed(below, format))
}

/// Returns the name of an output in `format`: a picture's extension is replaced unless it is one of the format's own; anything else after a
/// dot is part of the name and stays.
fn renamed(path: &Path, format: Format) -> PathBuf {
    let own = format.extensions();
    if has_extension(path, own) {
        path.to_owned()
    } else if promises_a_picture(path) {
        path.with_extension(own[0])
    } else {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(own[0]);
        name.into()
    }
}

/// Returns the pattern with every `{}` replaced by `path`.
pub(crate) fn patterned(pattern: &str, path: &Path) -> PathBuf {
    let pieces: Vec<&[u8]> = pattern.split("{}").map(str::as_bytes).collect();
    OsString::from_vec(pieces.join(path.as_os_str().as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(before: &str, format: Format) -> String {
        renamed(Path::new(before), format).into_os_string().into_string().unwrap()
    }

    #[test]
    fn a_pictures_extension_is_replaced() {
        assert_eq!(name("a/b.jpg", Format::Png), "a/b.png");
        assert_eq!(name("a.final.TIF", Format::Jpeg), "a.final.jpg");
        assert_eq!(name("a.gif", Format::Pnm), "a.pnm");
    }

    #[test]
    fn the_formats_own_extensions_stay() {
        assert_eq!(name("a.JPEG", Format::Jpeg), "a.JPEG");
        assert_eq!(name("a.pgm", Format::Pnm), "a.pgm");
    }

    #[test]
    fn a_name_of_what_is_not_written_becomes_that_of_what_is() {
        let below = |name: &str| output_below(Path::new(name), None);
        assert_eq!(below("a/b.jxl"), Path::new("a/b.tif"));
        assert_eq!(below("a/b.webp"), Path::new("a/b.webp"));
        assert_eq!(output_below(Path::new("a/b.jxl"), Some(Format::Png)), Path::new("a/b.png"));
    }

    #[test]
    fn what_is_no_pictures_extension_is_part_of_the_name() {
        assert_eq!(name("IMG_2024.01.02", Format::Png), "IMG_2024.01.02.png");
        assert_eq!(name("scan", Format::Tiff), "scan.tif");
    }

    #[test]
    fn a_pattern_takes_the_whole_path() {
        assert_eq!(patterned("plots/{}.svg", Path::new("a/b.png")), Path::new("plots/a/b.png.svg"));
        assert_eq!(patterned("plot.svg", Path::new("a/b.png")), Path::new("plot.svg"));
    }

    #[test]
    fn names_promise_pictures_that_are_read_and_some_that_are_not() {
        assert!(["a.png", "a.JPG", "a.heic"].iter().all(|name| promises_a_picture(Path::new(name))));
        assert!(!["a.txt", "png", ".png", "a"].iter().any(|name| promises_a_picture(Path::new(name))));
    }
}
