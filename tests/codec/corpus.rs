//! Every file of the corpus, if it is there: decoded and written back, or refused in words.

use std::path::{Path, PathBuf};

use histeqd::codec::{CodecError, Decoded};

use crate::{LIMITS, TARGET, decode, decode_file, encode, pixels};

fn corpus(part: &str) -> Vec<PathBuf> {
    let root = std::env::var_os("HISTEQD_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(root.join(part)) else {
        eprintln!("skipped: no corpus at {} (set HISTEQD_CORPUS)", root.display());
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Decodes, writes back and decodes again.
fn there_and_back(path: &Path) -> Result<Decoded, CodecError> {
    let (decoded, slot) = decode_file(path, &LIMITS, &TARGET)?;
    let before = pixels(&decoded, &slot).to_vec();
    let written = encode(&decoded, slot, &TARGET)?;
    let (again, slot) =
        decode(&written, &TARGET).unwrap_or_else(|e| panic!("{}: written, but {e}", path.display()));
    assert_eq!(again.format, decoded.format, "{}", path.display());
    assert_eq!(again.layout, decoded.layout, "{}", path.display());
    if decoded.format != histeqd::codec::Format::Jpeg {
        assert_eq!(pixels(&again, &slot), before, "{}", path.display());
    }
    Ok(decoded)
}

#[test]
fn good_files_are_written_back_or_refused_by_name() {
    for path in corpus("good") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match there_and_back(&path) {
            Ok(decoded) => println!("ok      {name}: {:?}", decoded.layout),
            Err(error) => println!("refused {name}: {error}"),
        }
    }
}

#[test]
fn bad_files_do_no_harm() {
    for path in corpus("bad") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match there_and_back(&path) {
            Ok(decoded) => println!("ok      {name}: {:?}", decoded.layout),
            Err(error) => println!("refused {name}: {error}"),
        }
    }
}
