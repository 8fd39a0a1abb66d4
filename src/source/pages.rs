//! What the outputs of a file are called each page of which goes into a file of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the output of a page, by its number from 0: in a folder that has the name of the output without its extension. Its own name begins
/// with that, so that it is no other input's.
pub fn page_output(output: &Path, index: usize) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default();
    let mut name = OsString::from(stem);
    name.push(format!("-{:05}", index + 1));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(stem).join(name)
}

/// Returns the output that is there once all of a file are: that of its only page, or of the first of several.
pub(super) fn first_output(output: &Path) -> PathBuf {
    if output.exists() { output.to_owned() } else { page_output(output, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_a_folder_of_the_files_name() {
        assert_eq!(page_output(Path::new("out/a/scan.png"), 0), Path::new("out/a/scan/scan-00001.png"));
        assert_eq!(page_output(Path::new("1.2.840.png"), 99_999), Path::new("1.2.840/1.2.840-100000.png"));
    }
}
