//! The inputs that are found, under whatever names, and the ones that are skipped.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{BRIGHT, DULL, Place, Ran};

#[test]
fn a_folder_is_mirrored_and_left_as_it_was() {
    let place = Place::with(&["in/a.pgm", "in/x/y/b.pgm"]);
    place.run("in/ --out done/").exits(0);
    assert_eq!(place.tree("done"), ["a.pgm", "x/y/b.pgm"]);
    assert_eq!(place.read("done/a.pgm"), BRIGHT);
    assert_eq!(place.read("done/x/y/b.pgm"), BRIGHT);
    assert_eq!(place.tree("in"), ["a.pgm", "x/y/b.pgm"]);
    assert_eq!(place.read("in/a.pgm"), DULL);
}

#[test]
fn files_and_folders_can_be_mixed_and_repeated() {
    let place = Place::with(&["in/a.pgm", "other/b.pgm"]);
    let ran = place.run("in other/b.pgm in/a.pgm in --out done --json");
    assert_eq!(ran.exits(0).json()["done"], 2);
    assert_eq!(place.tree("done"), ["a.pgm", "b.pgm"]);
}

#[test]
fn names_with_spaces_line_breaks_and_any_bytes_are_kept() {
    let place = Place::new();
    let names: [&[u8]; 5] =
        [b"with space.pgm", "é ü.pgm".as_bytes(), b"caf\xe9.pgm", b"line\nbreak.pgm", b"-dash.pgm"];
    for name in names {
        place.file(Path::new("in").join(OsStr::from_bytes(name)), DULL);
    }
    place.run("in --out done").exits(0);
    for name in names {
        assert_eq!(place.read(Path::new("done").join(OsStr::from_bytes(name))), BRIGHT, "{name:?}");
    }
}

#[test]
fn a_name_that_is_no_utf8_is_whole_in_messages_and_in_json() {
    let place = Place::new();
    place.file(Path::new("in").join(OsStr::from_bytes(b"caf\xe9\x1b.pgm")), "P5 no picture");
    place.run("in --out done").exits(1).says(r#"failed: "in/caf\xE9\u{1b}.pgm": "#);
    let failed = &place.run("in --out done --json").json()["failed"][0]["input"];
    let bytes: Vec<u8> = serde_json::from_value(failed["bytes"].clone()).unwrap();
    assert_eq!(bytes, b"in/caf\xe9\x1b.pgm");
}

#[test]
fn the_content_tells_the_kind_and_not_the_name() {
    let place = Place::new();
    place.file("in/pgm-in-truth.png", DULL);
    place.run("in --out done").exits(0);
    assert_eq!(place.read("done/pgm-in-truth.png"), BRIGHT);
}

#[test]
fn files_that_are_no_pictures_are_passed_over_in_folders_only() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/notes.txt", "not a picture");
    place.file("in/empty", "");
    place.run("in --out done").exits(0).says("Skipped: 2 not pictures");
    place.run("in/notes.txt --out named").exits(1).says("failed: in/notes.txt: not a picture");
    assert!(place.tree("named").is_empty());
}

#[test]
fn a_picture_of_another_format_is_refused_by_name_whatever_it_is_called() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/telescope", "SIMPLE  = and so on");
    place.file("in/phone.jpg", b"\0\0\0\x18ftypheic");
    place.file("in/film.mp4", b"\0\0\0\x18ftypisom");
    let ran = place.run("in --out done");
    ran.exits(1).says("Done: 1 picture").says("Skipped: 1 not a picture");
    for (name, kind) in [("telescope", "a FITS file"), ("phone.jpg", "a HEIC (HEIF)")] {
        ran.says(&format!("failed: in/{name}: {kind} is not supported; convert it first, as in `"));
    }
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn files_of_cameras_and_microscopes_are_refused_for_what_they_are() {
    let place = Place::with(&["in/a.pgm"]);
    let files: [(&str, &[u8], &str); 6] = [
        (
            "x.RAF",
            b"FUJIFILMCCD-RAW 0201",
            "a Fujifilm raw file is not supported; develop it first, as in `dcraw_emu",
        ),
        ("without", b"\0\0\0\x18ftypcrx \0\0\0\x01", "a Canon raw file"),
        ("y.orf", b"IIRO\x08\0\0\0", "an Olympus raw file"),
        (
            "cells.nd2",
            b"of an unknown version",
            "a Nikon microscope file (ND2) is not supported; convert it first, as in `bfconvert",
        ),
        ("cells.czi", b"ZISRAWFILE\0\0\0\0\0\0", "a Zeiss microscope file (CZI)"),
        ("cells.lif", b"\x70\0\0\0\x10\0\0\0\x2a", "a Leica microscope file (LIF)"),
    ];
    for (name, content, _) in files {
        place.file(Path::new("in").join(name), content);
    }
    // A file's content counts more than its name.
    place.file("in/misnamed.nef", DULL);
    place.file("in/empty.arw", "");
    let ran = place.run("in --out done");
    ran.exits(1).says("Done: 2 pictures").says("failed: in/empty.arw: the file is empty");
    for (name, _, told) in files {
        ran.says(&format!("failed: in/{name}: {told}"));
    }
    assert_eq!(place.tree("done"), ["a.pgm", "misnamed.nef"]);
}

#[test]
fn a_file_that_is_named_like_a_picture_has_to_be_one() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/text.png", "not a picture");
    place.file("in/empty.jpg", "");
    let ran = place.run("in --out done");
    ran.exits(1).says("failed: in/text.png: not a picture").says("failed: in/empty.jpg: ");
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn globs_select() {
    let place = Place::with(&["in/a.pgm", "in/b.PGM", "in/raw/c.pgm", "in/raw/d.ppm", "in/thumbs/e.pgm"]);
    place.run("in --out done --include *.pgm --exclude thumbs --exclude raw/c*").exits(0);
    assert_eq!(place.tree("done"), ["a.pgm", "b.PGM"]);
    place.run("in --out more --include raw/** --include b*").exits(0);
    assert_eq!(place.tree("more"), ["b.PGM", "raw/c.pgm", "raw/d.ppm"]);
    let none = "Nothing to do: no files found that match --include and --exclude\n";
    place.run("in --out none --include *.png").exits(0).says(none);
    let list = "; give --include once per glob, not a list with commas\n";
    place.run("in --out none --include *.png,*.pgm").exits(0).says(list);
    place.run("in --out none --exclude *").exits(0).says(none);
}

#[test]
fn a_folder_that_is_called_like_a_command_is_named_with_its_place() {
    let place = Place::with(&["devices/a.pgm"]);
    place.run("devices --out done").exits(2).says("write ./devices\n");
    place.run("./devices --out done").exits(0);
    place.run("in -out done").exits(2).says("did you mean --out?\n");
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn hidden_files_are_left_out() {
    let place = Place::with(&["in/a.pgm", "in/.b.pgm", "in/.c/d.pgm"]);
    place.run("in --out done").exits(0);
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn reserved_names_are_left_out_counted_and_named() {
    let place = Place::with(&[
        "in/a.pgm",
        "in/x/@eaDir/a.pgm/T.pgm",
        "in/#recycle/b.pgm",
        "in/a.pgm~",
        "in/c.pgm.part",
    ]);
    let skipped = "Skipped: 2 system folders, 1 backup, 1 under a temporary name\n  \
        by name: 1 #recycle, 1 *.part, 1 *~, 1 @eaDir (--include '*' --include NAME takes them)\n";
    place.run("in --out done --dry-run").exits(0).says("Would do: 1 picture\n").says(skipped);
    let ran = place.run("in --out done --verbose");
    ran.exits(0).says(skipped).says("skipped: in/#recycle: a system folder\n");
    assert_eq!(place.tree("done"), ["a.pgm"]);
    let counts = serde_json::json!({ "#recycle": 1, "*.part": 1, "*~": 1, "@eaDir": 1 });
    assert_eq!(place.run("in --out done --json").exits(0).json()["left_out"], counts);
    let table = place.run("histogram in").exits(0).says(skipped).stdout();
    assert!(table.contains("in/a.pgm,") && !table.contains("recycle") && !table.contains("part"), "{table}");
    place.run("in --out asked --include *.part --include #recycle").exits(0);
    assert_eq!(place.tree("asked"), ["#recycle/b.pgm", "c.pgm.part"]);
    place.run("in/a.pgm~ in/#recycle --out named").exits(0);
    assert_eq!(place.tree("named"), ["a.pgm~", "b.pgm"]);
}

#[test]
fn a_file_with_holes_is_done_with_a_remark() {
    let place = Place::new();
    place.file("in/a.pgm", b"P5\n400 400\n255\n\x07\x09");
    fs::File::options().write(true).open(place.path("in/a.pgm")).unwrap().set_len(160_015).unwrap();
    place.run("in --out done").exits(0).says("Note: 1 picture: holes in the file");
    assert_eq!(
        place.run("in --out again --json").exits(0).json()["remarks"],
        serde_json::json!({ "with-holes": 1 })
    );
}

#[test]
fn the_output_folder_inside_the_input_folder_is_no_input() {
    let place = Place::with(&["in/a.pgm", "in/x/b.pgm"]);
    for _ in 0..2 {
        place.run("in --out in/done --overwrite").exits(0);
        assert_eq!(place.tree("in"), ["a.pgm", "done/a.pgm", "done/x/b.pgm", "x/b.pgm"]);
    }
}

#[test]
fn link_loops_end_and_links_to_files_are_read() {
    let place = Place::with(&["in/a/b.pgm", "elsewhere/c.pgm"]);
    place.link("..", "in/a/up");
    place.link("../elsewhere", "in/more");
    place.link("../../elsewhere/c.pgm", "in/a/linked.pgm");
    place
        .run("in --out none --links never")
        .exits(0)
        .says("3 links that are not followed (--links follow takes them)");
    assert_eq!(place.tree("none"), ["a/b.pgm"]);
    place
        .run("in --out inside --links inside")
        .exits(0)
        .says("2 links that are not followed (--links follow takes them)");
    assert_eq!(place.tree("inside"), ["a/b.pgm"]);

    for (out, flag) in [("followed", "--links follow"), ("usual", "")] {
        let followed = place.run(&format!("in --out {out} {flag}"));
        followed.exits(0).says("skipped: in/a/up: a link that leads back to itself");
        assert_eq!(place.tree(out), ["a/b.pgm", "a/linked.pgm", "more/c.pgm"]);
    }
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_goes_on() {
    let place = Place::with(&["in/a.pgm"]);
    place.link("nowhere", "in/dangling.pgm");
    // A regular file that fails every read at its start, even for root.
    place.link("/proc/self/mem", "in/broken.pgm");
    let ran = place.run("in missing --out done");
    ran.exits(1).says("failed: 2 x cannot be read: No such file or directory (os error 2): ");
    ran.says("in/dangling.pgm").says("missing").says("failed: in/broken.pgm: cannot be read: ");
    assert_eq!(place.tree("done"), ["a.pgm"]);
    let ran = place.run("missing --out done");
    ran.exits(1).says("Failed: 1 (see above)");
    assert_eq!(ran.stderr().matches("No such file").count(), 1, "{ran}");
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_goes_on() {
    let place = Place::with(&["in/a.pgm", "in/locked/b.pgm", "in/secret.pgm"]);
    fs::set_permissions(place.path("in/locked"), Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(place.path("in/secret.pgm"), Permissions::from_mode(0o0)).unwrap();
    let ran = place.run_without_privileges("in --out done --include *.pgm");
    fs::set_permissions(place.path("in/locked"), Permissions::from_mode(0o755)).unwrap();
    let Some(ran) = ran else { return };
    ran.exits(1)
        .says("failed: 2 x cannot be read: Permission denied")
        .says("in/locked")
        .says("in/secret.pgm");
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn sizes_are_refused_with_the_flag_that_allows_them() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --max-pixels 3").exits(1).says("--max-pixels");
    place.run("in --out done --max-bytes 3").exits(1).says("--max-bytes");
    assert!(place.tree("done").is_empty());
    place.run("in --out done --max-pixels 4").exits(0);
}

#[test]
fn one_message_names_all_limits_with_values_that_do() {
    let place = Place::new();
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    place.file("in/a.pgm", [&b"P5 2000 1500 255\n"[..], &noise].concat());
    let flags_of = |ran: &Ran, before: &str| {
        let told = ran.stderr();
        let flags = told.split_once(before).expect(&told).1.lines().next().unwrap().replace(['.', ','], "");
        flags.replace(" and", "")
    };
    // A bitmap is done in bands, for which this memory is enough.
    for format in ["png", "jpeg", "webp"] {
        place.run(&format!("in/a.pgm --out {format}/a.{format} --strength 0")).exits(0);
        let input = format!("{format}/a.{format} --out done --devices cpu --threads 1");
        let ran = place.run(&format!("{input} --max-pixels 1000 --max-bytes 100000 --memory 1MiB"));
        let flags = flags_of(ran.exits(1), "raise them with ");
        assert!(
            ["--max-pixels 3000000", "--max-bytes ", "--memory "].iter().all(|flag| flags.contains(flag)),
            "{format}: {flags}"
        );
        place.run(&format!("{input} {flags}")).exits(0);
        let ran = place.run(&format!("{input} --overwrite --memory 1MiB"));
        let enough = flags_of(ran.exits(1), "raise --memory to ");
        place.run(&format!("{input} --overwrite --memory {}", enough.split(':').next().unwrap())).exits(0);
    }
}

#[test]
fn what_is_no_picture_is_skipped_however_long_it_is() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/film.mp4", b"\0\0\0\x18ftypmp42".repeat(100));
    place.file("in/long.pgm", DULL.repeat(100));
    let ran = place.run("in --out done --max-bytes 100 --json");
    let told = ran.exits(1).says("failed: in/long.pgm: too large: a file of ").json();
    assert_eq!((&told["done"], told["failed"].as_array().map(Vec::len)), (&1.into(), Some(1)), "{told}");
}

#[test]
fn what_a_picture_takes_besides_its_pixels_counts_towards_the_memory() {
    // The tables of two rows of tiles with up to 16 entries a pixel, for a picture of 128 KiB.
    let place = Place::new();
    let pixels: Vec<u8> = (0..128 * 512_u32).flat_map(|at| (at as u16).to_be_bytes()).collect();
    place.file("in/a.pgm", [&b"P5 128 512 65535\n"[..], &pixels].concat());
    let ran = place.run("in --out done --method clahe --memory 1MiB");
    ran.exits(1).says("but --memory allows 1048576; raise --memory");
    place.run("in --out done --method clahe --memory 8MiB").exits(0);
}

#[test]
fn nothing_to_find_is_nothing_wrong() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.run("in --out done").exits(0).says("Nothing to do: no files found\n");
    assert!(!place.path("done").exists());
}
