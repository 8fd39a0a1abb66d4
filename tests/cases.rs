//! Faults that public reports told of, replayed with the binary, where the folder `../shared/cases` is there: pictures with the digest of
//! the samples that come out, and scripts that print PASS or FAIL.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::{LIMITS, TARGET, decode_file};
use crate::harness::{Place, Ran, binary, project, skipped};
use equalize::Pixel;

/// Speed against OpenCV, which `docs/benchmarks.md` reports.
const OF_SPEED: &str = "clahe-16bit-small-tiles.py";

/// One line of the table beside the cases.
struct Case {
    file: PathBuf,
    right_result: String,
}

/// Reads the table of the cases; reports a skip and returns `None` where there are none.
fn cases() -> Option<Vec<Case>> {
    let folder = project().join("../shared/cases");
    let Ok(table) = fs::read_to_string(folder.join("README.tsv")) else {
        skipped(format_args!("no cases in {}", folder.display()));
        return None;
    };
    let case = |line: &str| {
        let mut fields = line.split('\t');
        let file = folder.join(fields.next()?);
        Some(Case { file, right_result: fields.nth(1)?.to_owned() })
    };
    Some(table.lines().skip(1).filter_map(case).collect())
}

impl Case {
    /// Returns the digest of the samples that the table gives, and whether it is that of the colours alone.
    fn digest(&self) -> Option<(&str, bool)> {
        let (before, digest) = self.right_result.split_once("md5 of ")?.1.split_once(' ')?;
        Some((digest, before == "RGB"))
    }
}

/// Returns the digest of a file's samples; of its red, green and blue samples if `of_colours`.
fn digest_of(file: &Path, of_colours: bool) -> String {
    let (decoded, slot) = decode_file(file, &LIMITS, &TARGET).unwrap();
    let samples = &slot[..decoded.layout.bytes() as usize];
    let pixel = decoded.layout.pixel;
    if !of_colours || !pixel.has_alpha() {
        return format!("{:x}", md5::compute(samples));
    }
    assert_eq!(pixel, Pixel::Rgba, "{}", file.display());
    let pixels = samples.chunks_exact(decoded.layout.pixel_bytes());
    let colours = 3 * decoded.layout.depth.bytes();
    let samples: Vec<u8> = pixels.flat_map(|pixel| &pixel[..colours]).copied().collect();
    format!("{:x}", md5::compute(samples))
}

#[test]
fn pictures_come_out_right() {
    let Some(cases) = cases() else { return };
    let mut compared = 0;
    for case in cases.iter().filter(|case| !is_script(&case.file)) {
        let Some(name) = case.file.file_name().filter(|_| case.file.is_file()) else { continue };
        let place = Place::new();
        fs::copy(&case.file, place.path(name)).unwrap();
        let mut command = place.histeqd("--out out --devices cpu");
        command.arg(name);
        Ran::from(command).exits(0);
        let output = place.path("out").join(name);
        if let Some((digest, of_colours)) = case.digest() {
            assert_eq!(digest_of(&output, of_colours), digest, "{}", case.file.display());
            compared += 1;
        }
    }
    assert!(compared >= 7, "the table gives digests");
}

#[test]
fn scripts_pass() {
    let Some(cases) = cases() else { return };
    for Case { file, .. } in cases.iter().filter(|case| is_script(&case.file)) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name == OF_SPEED || name.starts_with('_') {
            continue;
        }
        let interpreter = if name.ends_with(".py") { "python3" } else { "bash" };
        let place = Place::new();
        let mut command = place.command(interpreter, [file]);
        let ran = Ran::from(command.env("HISTEQD", binary()).output().unwrap());
        ran.exits(0);
        assert!(!ran.stdout().contains("FAIL"), "{name}: {ran}");
    }
}

fn is_script(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "py" || extension == "sh")
}
