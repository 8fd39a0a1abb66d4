//! The check that the fuzz targets (`fuzz/`) make, in short and for any compiler: every small file
//! of `tests/data`, damaged at random.
//!
//! `HISTEQD_MUTATIONS` sets the number of damaged copies of each file, instead of the usual 500. A
//! failure names the file and the number of the copy; the same copy always gets the same damage.

use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::harness::project;
use codec::Format;
use histeqd_fuzz_targets::check_picture;

use crate::samples::Random;

/// Files above this many bytes are left to the fuzzer.
const LARGEST: u64 = 64 << 10;

/// Changes a few bytes, mostly near the beginning, where the headers are; sometimes removes or
/// doubles a piece, or truncates the file.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        let header = if random.below(3) > 0 { 256 } else { usize::MAX };
        let at = random.index(bytes.len().min(header));
        match random.below(12) {
            0 => bytes.truncate(at.max(8)),
            1 => drop(bytes.drain(at..(at + 1 + random.index(64)).min(bytes.len()))),
            2 => {
                let piece = bytes[at..(at + 1 + random.index(64)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => bytes[at] = 0,
            4 => bytes[at] = 0xff,
            5 | 6 => bytes[at] ^= 1 << random.below(8),
            7 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] = random.next() as u8,
        }
        if bytes.len() < 16 {
            return;
        }
    }
}

fn seeds() -> Vec<PathBuf> {
    let data = project().join("tests/data");
    let files = walkdir::WalkDir::new(data).sort_by_file_name().into_iter().filter_map(Result::ok);
    files
        .filter(|file| file.file_type().is_file())
        .filter(|file| file.metadata().is_ok_and(|meta| (16..=LARGEST).contains(&meta.len())))
        .map(walkdir::DirEntry::into_path)
        .collect()
}

#[test]
fn damaged_files_are_refused_or_read_and_written() {
    let copies = std::env::var("HISTEQD_MUTATIONS").map_or(500, |count| count.parse().expect("a number"));
    let mut tried = 0;
    for path in seeds() {
        let whole = std::fs::read(&path).expect("test data can be read");
        let Some(format) = Format::sniff(&whole) else { continue };
        for copy in 0..copies {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut Random(copy));
            let outcome = catch_unwind(|| check_picture(&bytes, format));
            assert!(outcome.is_ok(), "{}, damaged copy {copy}", path.display());
            tried += 1;
        }
    }
    assert!(tried >= 50 * copies, "only {tried} cases: is tests/data whole?");
}
