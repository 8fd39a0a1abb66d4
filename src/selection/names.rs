//! Properties of file names, mostly the format.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use codec::{Format, Target, names_foreign};

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let Some(own) = path.extension().and_then(|extension| extension.to_str()) else { return false };
    extensions.iter().any(|extension| extension.eq_ignore_ascii_case(own))
}

/// Returns whether a file has the name of a picture. A picture of a format that is not read fails
/// with a reason instead of being skipped, which prevents silently missing pictures.
pub(crate) fn promises_a_picture(path: &Path) -> bool {
    Format::of_name(path).is_some() || names_foreign(path)
}

/// Returns whether a name has a leading dot, as all of histeqd's temporary names have.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// Returns the path of an output below the output folder, for an input at the path `below` below
/// its input folder. If the target has no format, it is the same path, unless its name is that of a
/// format that is written as another.
pub fn output_below(below: &Path, target: &Target) -> PathBuf {
    let of_name = Format::of_name(below);
    let other = of_name.map(|own| target.format_for(own)).filter(|format| of_name != Some(*format));
    let format = target.format.or(other);
    first_output(format.map_or_else(|| below.to_owned(), |format| renamed(below, format)), target.splits)
}

/// Returns the output of a picture with the name `output`: that of its first page, if each page
/// goes into a file of its own (`splits`). It lies in a folder named like the output without its
/// extension, whether there are more pages or not: outputs are known before files are read.
pub(crate) fn first_output(output: PathBuf, splits: bool) -> PathBuf {
    if !splits {
        return output;
    }
    let stem = output.file_stem().unwrap_or_default();
    let mut name = stem.to_owned();
    name.push(FIRST_PAGE);
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(stem).join(name)
}

/// Returns whether an output has the name of a first page, as [`first_output`] makes it.
pub(crate) fn is_first_page(output: &Path) -> bool {
    let Some(folder) = output.parent().and_then(Path::file_name) else { return false };
    let mut stem = folder.to_owned();
    stem.push(FIRST_PAGE);
    output.file_stem() == Some(&stem)
}

/// The suffix of the first page in names.
const FIRST_PAGE: &str = "-00001";

/// Returns the output of a page, by its number from 0, given that of the `first`.
pub fn page_output(first: &Path, index: usize) -> PathBuf {
    if index == 0 {
        return first.to_owned();
    }
    let stem = first.file_stem().unwrap_or_default().as_bytes();
    // A name that had no room for a number may have lost that of the page.
    let at = stem.windows(FIRST_PAGE.len()).rposition(|part| part == FIRST_PAGE.as_bytes());
    let (before, behind) = at.map_or((stem, &[][..]), |at| (&stem[..at], &stem[at + FIRST_PAGE.len()..]));
    let mut name = [before, format!("-{:05}", index + 1).as_bytes(), behind].concat();
    if let Some(extension) = first.extension() {
        name.push(b'.');
        name.extend(extension.as_bytes());
    }
    first.with_file_name(OsString::from_vec(name))
}

/// Returns the name of an output in `format`: a picture's extension is replaced unless it is one of
/// the format's own; any other suffix after a dot is part of the name and stays.
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

    #[test]
    fn the_first_of_several_pages_is_known_by_its_name() {
        let first = first_output("out/a.png".into(), true);
        assert!(is_first_page(&first) && !is_first_page(&page_output(&first, 1)));
        assert!(!is_first_page(Path::new("out/a-00001.png")) && !is_first_page(Path::new("a.png")));
    }

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
        let below = |name: &str, target: Target| output_below(Path::new(name), &target);
        let (kept, png) = (Target::AS_STORED, Target { format: Some(Format::Png), ..Target::AS_STORED });
        assert_eq!(below("a/b.jxl", kept), Path::new("a/b.tif"));
        assert_eq!(below("a/b.webp", kept), Path::new("a/b.webp"));
        assert_eq!(below("a/b.jxl", png), Path::new("a/b.png"));
        let colourful = Target { adds_colours: true, ..kept };
        assert_eq!(below("a/b.gif", kept), Path::new("a/b.gif"));
        assert_eq!(below("a/b.gif", colourful), Path::new("a/b.png"));
        assert_eq!(below("a/b.bmp", colourful), Path::new("a/b.bmp"));
        let gif = Target { format: Some(Format::Gif), ..colourful };
        assert_eq!(below("a/b.gif", gif), Path::new("a/b.gif"));
    }

    #[test]
    fn pages_are_in_a_folder_of_the_files_name() {
        let pages = |below: &str, index| {
            page_output(&output_below(Path::new(below), &Target { splits: true, ..Target::AS_STORED }), index)
        };
        assert_eq!(pages("a/scan.tif", 0), Path::new("a/scan/scan-00001.tif"));
        assert_eq!(pages("a/scan.tif", 99_999), Path::new("a/scan/scan-100000.tif"));
        assert_eq!(pages("scan-00001.b", 1), Path::new("scan-00001/scan-00001-00002.b"));
        assert_eq!(pages("1.2.840", 2), Path::new("1.2/1.2-00003.840"));
        assert_eq!(pages("x.-00001", 1), Path::new("x/x-00002.-00001"));
        // A service may number them, and shorten a name that has no room for the number.
        assert_eq!(page_output(Path::new("a/scan-00001.2.tif"), 6), Path::new("a/scan-00007.2.tif"));
        assert_eq!(page_output(Path::new("a/sca.2.tif"), 6), Path::new("a/sca.2-00007.tif"));
        assert_eq!(page_output(Path::new("a/sca.2.tif"), 0), Path::new("a/sca.2.tif"));
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
