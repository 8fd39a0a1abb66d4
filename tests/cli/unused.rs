//! Flags that have an effect on some pictures only: the summary names those that had none.

use crate::formats::dicom::of_class;
use crate::harness::{DULL, Place};
use crate::overviews::with_overviews;
use crate::stacks::{Page, Storage, plain, tiff_stating};

const EIGHT_BITS: &str = "a.pgm";

/// Pictures that each flag has no effect on, its remark's name and words, and a picture that it has
/// an effect on.
const CASES: [(&str, &[&str], &str, &str, &str); 16] = [
    ("--range 0..1", &[EIGHT_BITS, "deep.pgm"], "range", "--range has no effect on samples", "float.pfm"),
    ("--range 0..1", &["signed.tif"], "range", "--range has no effect on samples", "float.pfm"),
    ("--window 40,400", &[EIGHT_BITS], "window", "--window has no effect on formats other", "labels.dcm"),
    ("--levels 4096", &[EIGHT_BITS, "float.pfm"], "levels", "--levels has no effect on samples", "deep.pgm"),
    ("--levels 4096 --depth 8", &[EIGHT_BITS], "levels", "--levels has no effect", "deep.pgm"),
    ("--shift 4", &[EIGHT_BITS, "float.pfm"], "shift", "--shift has no effect on samples", "upper.pgm"),
    ("--no-data -9999", &[EIGHT_BITS, "deep.pgm"], "no-data", "--no-data has no effect", "float.pfm"),
    ("--no-data 300", &[EIGHT_BITS], "no-data", "--no-data has no effect on samples", "deep.pgm"),
    ("--segmentations", &[EIGHT_BITS], "segmentations", "--segmentations has no effect", "labels.dcm"),
    ("--overviews drop", &[EIGHT_BITS, "stack.tif"], "overviews", "--overviews has no effect", "cog.tif"),
    ("--quality 50", &[EIGHT_BITS, "stack.tif"], "quality", "--quality has no effect on outputs", "p.jpg"),
    ("--png-level small", &[EIGHT_BITS], "png-level", "--png-level has no effect on outputs", "p.png"),
    ("--together file", &[EIGHT_BITS, "cog.tif"], "together", "--together has no effect", "stack.tif"),
    ("--together channel", &[EIGHT_BITS], "together", "--together has no effect on files", "stack.tif"),
    ("--together series", &[EIGHT_BITS], "series", "--together series has no effect", "labels.dcm"),
    ("--together series", &[EIGHT_BITS], "series", "--together series has no effect", "stack.tif"),
];

/// Returns a place with the pictures of the cases.
fn pictures() -> Place {
    let place = Place::new();
    place.file("all/a.pgm", DULL);
    place.file("all/deep.pgm", b"P5\n2 1\n65535\n\x01\x00\x0f\xff");
    place.file("all/upper.pgm", b"P5\n2 1\n65535\n\x10\x00\xff\xf0");
    place.file("all/float.pfm", b"Pf\n2 1\n-1\n\0\0\0\0\0\0\x80\x3f");
    place.file("all/labels.dcm", of_class("1.2.840.10008.5.1.4.1.1.66.4"));
    place.file("all/cog.tif", with_overviews(1, &[(502, 551)]));
    place.file("all/stack.tif", plain(&[Page::new(0, 9, 7), Page::new(1, 9, 7)], Storage::Stored));
    let sample_format = [(339, 2)];
    let signed = tiff_stating(&[Page::new(0, 9, 7)], Storage::Stored, |_| Vec::new(), &sample_format);
    place.file("all/signed.tif", signed);
    for format in ["jpg", "png"] {
        place.run(&format!("all/a.pgm --out all/p.{format}")).exits(0);
    }
    place
}

#[test]
fn a_flag_without_effect_on_any_picture_is_named_in_the_summary() {
    let place = pictures();
    let dicom = |names: &str| if names.contains(".dcm") { " --segmentations --format png" } else { "" };
    for (flag, idle, remark, words, heeding) in CASES {
        let names = idle.iter().map(|name| format!("all/{name}")).collect::<Vec<_>>().join(" ");
        let ran = place.run(&format!("{names} --out idle --overwrite {flag}"));
        let plural = if idle.len() == 1 { "" } else { "s" };
        ran.exits(0).says(&format!("Note: {} picture{plural}: {words}", idle.len()));
        let json = place.run(&format!("{names} --out idle --overwrite --json -q {flag}")).exits(0).json();
        assert_eq!(json["remarks"][format!("unused-{remark}")], idle.len(), "{json}");
        // A folder may have pictures of several kinds.
        let others = dicom(heeding).replace(flag, "");
        for inputs in [format!("all/{heeding}"), format!("{names} all/{heeding}")] {
            let ran = place.run(&format!("{inputs} --out out -v --overwrite {flag} {others}"));
            assert!(!ran.exits(0).stderr().contains("effect"), "{ran}");
        }
    }
}

#[test]
fn a_flag_is_named_wherever_it_was_written_and_a_preset_never() {
    let place = pictures();
    place.file("my.toml", "shift = 4");
    place.run("all/a.pgm --out out --config my.toml").exits(0).says("--shift has no effect on samples");
    place.file("in/a.pgm", DULL);
    place.file("in/histeqd.toml", "levels = 4096");
    place.run("in --out of-folder").exits(0).says("--levels has no effect on samples");
    let presets = place.run("presets --json").exits(0).json();
    for name in presets.as_object().unwrap().keys() {
        let ran = place.run(&format!("all/a.pgm --out out --overwrite --preset {name}"));
        assert!(!ran.exits(0).stderr().contains("effect"), "{ran}");
    }
    for flag in ["--window auto", "--levels auto", "--together stack", "--quality keep", "--depth 8"] {
        let ran = place.run(&format!("all/a.pgm --out out --overwrite {flag}"));
        assert!(!ran.exits(0).stderr().contains("effect"), "{ran}");
    }
}

#[test]
fn a_page_that_a_flag_has_an_effect_on_is_enough() {
    let place = Place::new();
    // The second page of the file has overviews, and the first has none.
    let file = plain(&[Page::new(0, 64, 64), Page::new(1, 64, 64)], Storage::Stored);
    place.file("in/a.tif", crate::overviews::with_smaller(file, &[(32, 32)]));
    let ran = place.run("in --out out --overviews drop");
    assert!(!ran.exits(0).stderr().contains("effect"), "{ran}");
}

#[test]
fn a_flag_that_can_have_no_effect_is_refused() {
    let place = Place::with(&["in/a.pgm"]);
    for (line, why) in [
        ("--overviews drop --format png", "--overviews has no effect without --format keep or tiff"),
        ("--times keep --out -", "--times has no effect on standard output; leave it out"),
        ("--permissions keep --out -", "--permissions has no effect on standard output; leave it out"),
        ("--durability fast --out -", "--durability has no effect on standard output; leave it out"),
    ] {
        let out = if line.contains("--out") { "" } else { "--out out" };
        place.run(&format!("in/a.pgm {out} {line}")).exits(2).says(why);
    }
    place.file("my.toml", "times = 'keep'");
    place.run("in/a.pgm --out - --config my.toml").exits(0);
}
