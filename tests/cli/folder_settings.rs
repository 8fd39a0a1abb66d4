//! Folders with their own settings: `histeqd.toml` in an input folder.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::harness::{BRIGHT, Place};

/// A picture with a different result for each method and each number of tiles.
pub(crate) fn ramp() -> Vec<u8> {
    let sample = |at: usize| (at % 64 * (1 + at / 1024) / 3 + 40) as u8;
    [b"P5\n64 64\n255\n".to_vec(), (0..64 * 64).map(sample).collect()].concat()
}

/// Returns the result of a run with these flags on [`ramp`].
pub(crate) fn made_by(flags: &str) -> Vec<u8> {
    let place = Place::new();
    place.file("in/a.pgm", ramp());
    place.run(&format!("in --out out {flags}")).exits(0);
    let [output] = &place.tree("out")[..] else { panic!("one output") };
    place.read(format!("out/{output}"))
}

/// Returns a place with [`ramp`] under these names.
fn with_ramps(names: &[&str]) -> Place {
    let place = Place::new();
    names.iter().for_each(|name| place.file(name, ramp()));
    place
}

#[test]
fn each_folder_has_its_method_and_an_inner_one_goes_over_an_outer_one() {
    let place = with_ramps(&["in/a.pgm", "in/clahe/a.pgm", "in/clahe/deep/a.pgm", "in/clahe/deep/er/a.pgm"]);
    place.file("in/clahe/histeqd.toml", "method = 'clahe'\ntiles = '2x2'\n");
    place.file("in/clahe/deep/histeqd.toml", "tile-size = 16\n");
    let ran = place.run("in --out out");
    ran.exits(0).says("Note: 3 pictures with settings of their folders (histeqd.toml)");
    assert!(!ran.stderr().contains("Skipped"), "{ran}");
    assert_eq!(place.read("out/a.pgm"), made_by(""));
    assert_eq!(place.read("out/clahe/a.pgm"), made_by("--method clahe --tiles 2x2"));
    let inner = made_by("--method clahe --tile-size 16");
    assert_eq!(place.read("out/clahe/deep/a.pgm"), inner);
    assert_eq!(place.read("out/clahe/deep/er/a.pgm"), inner);
    assert_ne!(inner, made_by("--method clahe --tiles 2x2"));
    assert_eq!(place.tree("out").len(), 4);
}

#[test]
fn flags_go_over_folders_and_folders_over_the_configuration_file() {
    let place = with_ramps(&["in/a.pgm"]);
    place.file("in/histeqd.toml", "method = 'stretch'\nstrength = 0.5\n");
    place.file("my.toml", "method = 'clahe'\nclip-limit = 3\nstrength = 0.25\n");
    place.run("in --out out --config my.toml").exits(0);
    assert_eq!(place.read("out/a.pgm"), made_by("--method stretch --strength 0.5"));
    place.run("in --out out --config my.toml --method clahe").exits(0);
    assert_eq!(place.read("out/a.pgm"), made_by("--method clahe --clip-limit 3 --strength 0.5"));
    place.run("in --out out --folder-settings=false").exits(0);
    assert_eq!(place.read("out/a.pgm"), made_by(""));
    let verbose = place.run("in --out other --verbose");
    verbose.exits(0).says("in/histeqd.toml: method = \"stretch\", strength = 0.5");
    verbose.says("note: in/a.pgm: settings of its folder used (histeqd.toml)");
    place.file("in/histeqd.toml", "clip-limit = 3\n");
    place
        .run("in --out out")
        .exits(0)
        .says("clip-limit of in/histeqd.toml has no effect without --method clahe");
}

#[test]
fn a_flag_has_an_effect_where_a_folder_asks_for_its_method_and_is_refused_where_none_does() {
    let place = with_ramps(&["in/a.pgm", "in/b/a.pgm"]);
    place
        .run("in --out out --clip-limit 8")
        .exits(2)
        .says("--clip-limit has no effect without --method clahe");
    assert!(place.tree("out").is_empty());
    place.file("in/b/histeqd.toml", "method = 'clahe'\nclip-limit = 2\n");
    place.run("in --out out --clip-limit 8").exits(0);
    assert_eq!(place.read("out/b/a.pgm"), made_by("--method clahe --clip-limit 8"));
    assert_eq!(place.read("out/a.pgm"), made_by(""));
    // Two flags, one of them without an effect in any folder.
    let both = "in --out out --clip-limit 8 --clip-low 1";
    place.run(both).exits(2).says("--clip-low has no effect without --method stretch");
    place.run("in/a.pgm --out out --clip-limit 8").exits(2).says("--clip-limit has no effect");
    place
        .run("in --out out --clip-limit 8 --folder-settings=false")
        .exits(2)
        .says("--clip-limit has no effect");
    place.file("in/b/histeqd.toml", "mehtod = 'clahe'\n");
    place.run("in --out out --clip-limit 8").exits(1).says("unknown key `mehtod`");
}

#[test]
fn what_cannot_be_used_fails_the_pictures_below_it_and_no_others() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm", "in/b/c/2.pgm", "in/d/3.pgm"]);
    for (text, why) in [
        ("# mine\nmehtod = 'clahe'\n", "in/b/histeqd.toml:2: unknown key `mehtod`; did you mean `method`?"),
        ("method = 'none'", "in/b/histeqd.toml:1: method: must be one of \"global\","),
        ("= =", "in/b/histeqd.toml:1: "),
        (
            "\nmask = '/etc'",
            "in/b/histeqd.toml:2: `mask` cannot be set by a folder, only by the configuration file or --mask",
        ),
        ("reference = '/etc/passwd'", "in/b/histeqd.toml:1: `reference` cannot be set by a folder"),
        ("after = 'delete'", "in/b/histeqd.toml:1: `after` cannot be set by a folder"),
        ("method = 'match'", "in/b/histeqd.toml: --method match needs --reference FILE"),
        ("method = 'clahe'\ntogether = 'folder'", "in/b/histeqd.toml: --together folder needs one LUT"),
    ] {
        place.file("in/b/histeqd.toml", text);
        let ran = place.run("in --out out --overwrite");
        let failed = "failed: 2 x its folder's settings cannot be used: ";
        ran.exits(1).says(&format!("{failed}{why}")).says(": in/b/1.pgm, in/b/c/2.pgm\n");
        assert_eq!(place.tree("out"), ["a.pgm", "d/3.pgm"], "{ran}");
        place.run("in --out out --dry-run").exits(1).says(why);
    }
    place.file("in/b/histeqd.toml", format!("method = 'global'\n{}", "#".repeat(64 << 10)));
    place.run("in --out out").exits(1).says("in/b/histeqd.toml cannot be read: it is longer than 64 KiB");
    place.file("in/b/histeqd.toml", b"method = '\xff'");
    place
        .run("in --out out")
        .exits(1)
        .says("in/b/histeqd.toml cannot be read: stream did not contain valid UTF-8");
}

#[test]
fn settings_that_cannot_be_used_fail_no_files_but_pictures() {
    let place = Place::with(&["in/a.pgm", "in/b"]);
    place.file("in/a.xmp", "metadata");
    place.file("in/notes", "of no picture");
    place.file("in/histeqd.toml", "mehtod = 'clahe'\n");
    for flags in ["", " --dry-run"] {
        let ran = place.run(&format!("in --out out{flags}"));
        ran.exits(1).says(": in/a.pgm, in/b\n").says("Skipped: 2 not pictures");
    }
}

#[test]
fn no_link_is_followed_and_nothing_but_a_file_is_opened() {
    let place = Place::with(&["in/b/1.pgm"]);
    place.file("other.toml", "format = 'png'\n");
    place.link("../../other.toml", "in/b/histeqd.toml");
    let ran = place.run("in --out out");
    ran.exits(1).says("in/b/histeqd.toml is a link and not a regular file; move it away");
    assert!(place.tree("out").is_empty());
    fs::remove_file(place.path("in/b/histeqd.toml")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("in/b/histeqd.toml"), rustix::fs::Mode::RWXU).unwrap();
    place.run("in --out out").exits(1).says("in/b/histeqd.toml is a pipe and not a regular file");
}

#[test]
fn a_format_changes_the_extension_and_outputs_are_still_kept_apart() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm", "in/c/2.pgm"]);
    place.file("in/b/histeqd.toml", "format = 'png'\n");
    let dry = place.run("in --out out --dry-run");
    dry.exits(0).prints("in/b/1.pgm -> out/b/1.png\n").prints("in/a.pgm -> out/a.pgm\n");
    dry.says("Note: 1 picture with settings of its folder (histeqd.toml)");
    let json = place.run("in --out out --json").exits(0).json();
    assert_eq!(json["remarks"]["folder-settings"], 1);
    assert_eq!(place.tree("out"), ["a.pgm", "b/1.png", "c/2.pgm"]);
    place.file("in/c/2.png", "as long as it has that name");
    place.file("in/c/histeqd.toml", "format = 'png'\n");
    place.run("in --out out").exits(1).says("another input would have the same output");
}

#[test]
fn what_is_done_stays_done_until_the_file_of_its_folder_changes() {
    for flags in ["", " --resume"] {
        let place = with_ramps(&["in/a.pgm", "in/b/1.pgm"]);
        place.file("in/b/histeqd.toml", "method = 'stretch'\n");
        let run = format!("in --out out{flags}");
        place.run(&run).exits(0).says("Done: 2 pictures");
        place.run(&run).exits(0).says("Skipped: 2 already done");
        place.file("in/b/histeqd.toml", "method = 'clahe'\n");
        place.run(&run).exits(0).says("Done: 1 picture,").says("Skipped: 1 already done");
        assert_eq!(place.read("out/b/1.pgm"), made_by("--method clahe"));
        // Another spelling is the same setting.
        place.file("in/b/histeqd.toml", "method = \"CLAHE\" # the best\nclip-limit = 'auto'\n");
        place.run(&run).exits(0).says("Skipped: 2 already done");
        fs::remove_file(place.path("in/b/histeqd.toml")).unwrap();
        place.run(&run).exits(0).says("Done: 1 picture,").says("Skipped: 1 already done");
        assert_eq!(place.read("out/b/1.pgm"), made_by(""));
    }
}

#[test]
fn a_file_with_settings_is_no_picture_whatever_is_asked_for() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/histeqd.toml", "format = 'bmp'\n");
    let ran = place.run("in --out out --include *");
    ran.exits(0);
    assert!(!ran.stderr().contains("Skipped"), "{ran}");
    assert_eq!(place.tree("out"), ["a.bmp"]);
    // A single named picture has no folder.
    place.run("in/a.pgm --out named").exits(0);
    assert_eq!(place.tree("named"), ["a.pgm"]);
    let counted = place.run("histogram in");
    assert_eq!(counted.exits(0).stdout(), place.run("histogram in/a.pgm").stdout());
}

#[test]
fn listed_files_have_the_settings_of_their_folders() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm", "in/b/2.pgm"]);
    place.file("in/b/histeqd.toml", "format = 'png'\n");
    place.file("list", "in/a.pgm\nin/b/2.pgm\nin/b/histeqd.toml\n");
    place.run("in --out out --files-from list").exits(0);
    assert_eq!(place.tree("out"), ["a.pgm", "b/2.png"]);
}

#[test]
fn pictures_are_counted_together_only_with_those_of_the_same_settings() {
    let place = Place::new();
    let two = |levels: [u8; 2]| [b"P5\n2 1\n255\n".as_slice(), &levels].concat();
    for folder in ["a", "a/deep", "b", "c"] {
        place.file(format!("in/{folder}/1.pgm"), two([10, 20]));
        place.file(format!("in/{folder}/2.pgm"), two([30, 40]));
    }
    let samples = |name: &str| place.read(name)[11..].to_vec();
    place.file("in/a/histeqd.toml", "together = 'all'\n");
    place.file("in/b/histeqd.toml", "together = 'folder'\n");
    place.run("in --out out").exits(0).says("Done: 8 pictures");
    // Two pictures of each in `a` and below it, as many in `b`.
    for folder in ["a", "a/deep", "b"] {
        assert_eq!(samples(&format!("out/{folder}/1.pgm")), [0, 85], "{folder}");
        assert_eq!(samples(&format!("out/{folder}/2.pgm")), [170, 255], "{folder}");
    }
    assert_eq!(samples("out/c/1.pgm"), [0, 255]);
    // Another level in the deep folder moves those of the outer one, but of no other folder.
    place.file("in/a/deep/2.pgm", two([50, 60]));
    let later = SystemTime::now() + Duration::from_secs(5);
    fs::File::options()
        .append(true)
        .open(place.path("in/a/deep/2.pgm"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    place.run("in --out out").exits(0).says("Done: 4 pictures").says("Skipped: 4 already done");
    assert_eq!(samples("out/a/2.pgm"), [128, 170]);
    assert_eq!(samples("out/a/deep/2.pgm"), [213, 255]);
    assert_eq!(samples("out/b/2.pgm"), [170, 255]);
    // Folders with the same settings for themselves are still apart.
    place.file("in/b/histeqd.toml", "together = 'all'\n");
    place.run("in --out again").exits(0);
    assert_eq!(samples("again/b/1.pgm"), [0, 85]);
    // A flag of the run for all holds for each kind of settings.
    fs::remove_file(place.path("in/a/histeqd.toml")).unwrap();
    place.file("in/b/histeqd.toml", "strength = 0\n");
    place.run("in --out all --together all").exits(0);
    assert_eq!(samples("all/b/1.pgm"), [10, 20]);
    assert_eq!(samples("all/c/1.pgm"), samples("all/a/1.pgm"));
}

#[test]
fn a_setting_that_the_run_cannot_have_is_refused_for_its_folder() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm"]);
    place.file("in/b/histeqd.toml", "together = 'all'\n");
    place
        .run("in --out out --shard 1/1")
        .exits(1)
        .says("in/b/histeqd.toml: --together all needs all pictures");
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
    place
        .run("in --out out --resume")
        .exits(1)
        .says("in/b/histeqd.toml: --together all counts all pictures again");
    place.file("in/b/histeqd.toml", "color = 'luma'\n");
    place.file("my.toml", "color = 'per-channel'\n");
    let split = place.run("in --out split --config my.toml --split-channels");
    split.exits(1).says("in/b/histeqd.toml: --split-channels needs --color per-channel");
}
