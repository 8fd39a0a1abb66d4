//! Broken and unusual files by the hundred: decoded and written back whole, or refused; never a
//! panic, never a changed pixel.

use std::path::{Path, PathBuf};

use codec::{CodecError, Format};

use super::{LIMITS, TARGET, are_alike, decode, decode_file, encode};
use crate::harness::{collection, project};

/// Returns the files in the folder `kept` of `tests/data`, and the files in the folder `part` of a
/// larger collection if there is one.
fn files(kept: &str, part: &str) -> Vec<PathBuf> {
    let folders = [Some(project().join("tests/data").join(kept)), collection(part)];
    let list = |folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    folders.into_iter().flatten().flat_map(list).collect()
}

/// Decodes a file, writes it back and decodes the result, which must be the same picture.
fn there_and_back(path: &Path) -> Result<(), CodecError> {
    let (decoded, slot) = decode_file(path, &LIMITS, &TARGET)?;
    let before = slot.clone();
    let written = encode(&decoded, slot, &TARGET)?;
    let (again, slot) =
        decode(&written, &TARGET).unwrap_or_else(|e| panic!("{}: written, but {e}", path.display()));
    // A CMYK JPEG is read as RGB, but its output as luma and chroma.
    let is_the_same = again.layout == decoded.layout || decoded.format == Format::Jpeg;
    assert!(again.format == decoded.format.written() && is_the_same, "{}", path.display());
    assert!(again.metadata == decoded.metadata, "{}: other metadata", path.display());
    if decoded.format != Format::Jpeg {
        assert!(are_alike((&decoded, &before), (&again, &slot)), "{}: other pixels", path.display());
    }
    Ok(())
}

#[test]
fn unusual_files_are_written_back_whole_or_refused() {
    let files = files("codec", "good");
    let done = files.iter().filter(|path| there_and_back(path).is_ok()).count();
    assert!(done * 3 > files.len() * 2, "only {done} of {} were decoded", files.len());
}

#[test]
fn broken_files_do_no_harm() {
    let files = files("bad", "bad");
    let refused = files.iter().filter(|path| there_and_back(path).is_err()).count();
    assert!(refused * 4 > files.len() * 3, "only {refused} of {} were refused", files.len());
}
