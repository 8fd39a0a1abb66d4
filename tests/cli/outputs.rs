//! Files that appear in the output tree, are left alone there, or are refused.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::harness::{BRIGHT, DULL, Place, wait};

#[test]
fn what_is_done_is_skipped_until_the_input_is_newer() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.run("in --out done").exits(0);
    place.file("done/a.pgm", "mine");
    place.run("in --out done").exits(0).says("Skipped: 2 already done");
    assert_eq!(place.read("done/a.pgm"), b"mine");

    place.file("in/a.pgm", DULL);
    place.run("in --out done").exits(0).says("Done: 1 picture").says("Skipped: 1 already done");
    assert_eq!(place.read("done/a.pgm"), BRIGHT);
}

#[test]
fn overwriting_does_all_again() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("done/a.pgm", "old");
    place.run("in --out done --overwrite").exits(0);
    assert_eq!(place.read("done/a.pgm"), BRIGHT);
}

#[test]
fn a_file_that_comes_to_the_place_of_an_output_meanwhile_stays() {
    let place = Place::new();
    let row: Vec<u8> = (0..5000_u32).map(|x| (60 + x * 7 % 80) as u8).collect();
    place.file("in/a.pgm", [b"P5\n5000 5000\n255\n".to_vec(), row.repeat(5000)].concat());
    for (before, flags) in [(None, ""), (Some("before"), "--overwrite")] {
        // A run may be over before it is disturbed.
        let is_told = (0..50).any(|_| {
            if let Some(before) = before {
                place.file("done/a.pgm", before);
            }
            let is_begun = || {
                let entries = fs::read_dir(place.path("done")).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".tmp"))
            };
            let mut run = place.histeqd(&format!("in --out done --devices cpu -j 1 {flags}"));
            let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
            wait("the temporary file", || is_begun() || run.try_wait().unwrap().is_some());
            place.file("coming", "somebody's");
            fs::rename(place.path("coming"), place.path("done/a.pgm")).unwrap();
            let ran = run.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(place.read("done/a.pgm"), b"somebody's");
            assert_eq!(place.tree("done"), ["a.pgm"]);
            fs::remove_file(place.path("done/a.pgm")).unwrap();
            let is_told = told.contains("another file of that name has appeared");
            assert_eq!(ran.status.code(), Some(i32::from(is_told)), "{told}");
            is_told
        });
        assert!(is_told, "no run was disturbed: {flags}");
    }
}

#[test]
fn an_output_that_is_a_link_is_replaced_and_its_target_is_not_touched() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("precious", "precious");
    place.file("done/other", "");
    place.link("../precious", "done/a.pgm");
    place.run("in --out done --overwrite").exits(0);
    assert_eq!(place.read("precious"), b"precious");
    assert_eq!(place.read("done/a.pgm"), BRIGHT);
}

#[test]
fn a_dry_run_lists_and_writes_nothing() {
    let place = Place::with(&["in/a.pgm", "in/x/b.pgm"]);
    place.file("in/c.pgm", DULL);
    place.file("done/c.pgm", "done");
    let ran = place.run("in --out done --dry-run");
    assert_eq!(ran.exits(0).stdout(), "in/a.pgm -> done/a.pgm\nin/x/b.pgm -> done/x/b.pgm\n");
    ran.says("Would do: 2 pictures\nSkipped: 1 already done");
    assert_eq!(place.tree("done"), ["c.pgm"]);
    let json = place.run("in --out elsewhere --dry-run --json").exits(0).json();
    assert_eq!((&json["planned"], &json["left"]), (&3.into(), &0.into()));
    assert_eq!(json["would"][0], serde_json::json!({ "input": "in/a.pgm", "output": "elsewhere/a.pgm" }));
    assert!(!place.path("elsewhere").exists());
    place.run("in --out done").exits(0);
    let json = place.run("in --out done --dry-run --json").exits(0).json();
    assert_eq!((&json["would"], &json["skipped"]["already-done"]), (&serde_json::json!([]), &3.into()));
    assert!(!place.run("in --out done --json").exits(0).json().as_object().unwrap().contains_key("would"));
}

#[test]
fn a_format_gives_the_outputs_its_extension_and_content() {
    let place = Place::with(&["in/a.pgm", "in/b"]);
    place.run("in --out done --format png").exits(0);
    assert_eq!(place.tree("done"), ["a.png", "b.png"]);
    for output in ["done/a.png", "done/b.png"] {
        assert!(place.read(output).starts_with(b"\x89PNG\r\n"));
    }
}

#[test]
fn inputs_that_would_share_an_output_are_all_refused() {
    let place = Place::with(&["in/a.pgm", "in/a.ppm", "in/b.pgm"]);
    let ran = place.run("in --out done --format png -v");
    ran.exits(1).says("failed: in/a.pgm: in/a.ppm would have the same output, done/a.png");
    ran.says("failed: in/a.ppm: in/a.pgm would have the same output, done/a.png");
    assert_eq!(place.tree("done"), ["b.png"]);
}

#[test]
fn the_method_and_the_colours_are_the_ones_asked_for() {
    let place = Place::new();
    place.file(
        "in/a.ppm",
        [b"P6\n2 2\n255\n".as_slice(), &[90, 80, 70, 91, 80, 70, 92, 80, 70, 99, 80, 70]].concat(),
    );
    let runs = [
        "",
        "--color gray",
        "--color per-channel",
        "--method clahe --tiles 1x1",
        "--method clahe --tile-size 4",
    ];
    let outputs: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(number, flags)| {
            place.run(&format!("in --out {number} {flags}")).exits(0);
            place.read(format!("{number}/a.ppm"))
        })
        .collect();
    assert!(outputs[1].starts_with(b"P5"), "gray has one channel");
    assert!(outputs[2].ends_with(&[255, 80, 70]), "constant channels stay: {:?}", outputs[2]);
    assert_ne!(outputs[0], outputs[2]);
    assert_ne!(outputs[0], outputs[3]);
    assert_eq!(outputs[3], outputs[4], "one tile is one tile");
}

#[test]
fn an_input_is_never_replaced() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out in").exits(2).says("is both an input and the output folder");
    place.run("in/a.pgm --out in --overwrite").exits(1).says("would replace an input");
    place.link("in", "alias");
    place.run("in --out alias --overwrite").exits(2);
    assert_eq!(place.tree("in"), ["a.pgm"]);
    assert_eq!(place.read("in/a.pgm"), DULL);
}

#[test]
fn a_file_where_the_output_folder_belongs_stops_everything() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("done", "mine");
    place.run("in --out done").exits(3).says("--out done is a file");
    place.run("in --out done/below").exits(3).says("done/below");
    assert_eq!(place.read("done"), b"mine");
}

#[test]
fn something_in_the_way_of_one_output_is_that_pictures_failure() {
    let place = Place::with(&["in/a.pgm", "in/x/b.pgm", "in/c.pgm"]);
    place.file("done/x", "a file where a folder is needed");
    place.file("done/c.pgm/inside", "a folder where a file is needed");
    let ran = place.run("in --out done");
    ran.exits(1)
        .says("failed: in/x/b.pgm: cannot write done/x")
        .says("failed: in/c.pgm: cannot write done/c.pgm");
    ran.says("move it away or choose another --out");
    assert_eq!(place.tree("done"), ["a.pgm", "c.pgm/inside", "x"]);
}

#[test]
fn an_output_folder_that_may_not_be_written_stops_everything() {
    let place = Place::with(&["in/a.pgm"]);
    fs::create_dir(place.path("done")).unwrap();
    fs::set_permissions(place.path("done"), Permissions::from_mode(0o555)).unwrap();
    let Some(ran) = place.run_without_privileges("in --out done") else { return };
    ran.exits(3)
        .says("cannot write done: Permission denied")
        .says("choose another --out, or make this one writable");
}

#[test]
fn a_read_only_file_system_stops_everything() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(ran) = place.run_with_mount("ro", "in --out out") else { return };
    ran.exits(3).says("Read-only file system").says("choose another --out");
}

#[test]
fn a_file_system_without_room_for_another_file_says_so() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/c.pgm", "in/d.pgm"]);
    let Some(ran) = place.run_with_mount("nr_inodes=3", "in --out out --devices cpu") else { return };
    ran.exits(1)
        .says(".pgm: there is no room for another file (see df -i): No space left on device")
        .says("free some space and run the same command again");
}

#[test]
fn a_full_disk_ends_a_run_and_leaves_nothing_partial() {
    let place = Place::with(&["in/a.pgm"]);
    let mut large = b"P5\n512 512\n255\n".to_vec();
    large.extend((0..512 * 512).map(|n| (n % 251) as u8));
    place.file("in/b.pgm", large);
    // Enough to show that their number is cut short: they are begun in order, and are not worth
    // evening out.
    (0..100).for_each(|number| place.file(format!("in/c{number}.pgm"), DULL));
    let script = "in --out out --threads 1; code=$?; ls -A out | grep -v '^[ac]'; exit $code";
    let Some(ran) = place.run_with_mount("size=64k", script) else { return };
    ran.exits(1).says("failed: in/b.pgm: cannot write out/b.pgm: No space left on device");
    ran.says("free some space and run the same command again").says("Failed: 1 (see above)\nStopped: ");
    ran.says(" not done, because no output can be written");
    assert_eq!(ran.stderr().matches("No space left").count(), 1, "{ran}");
    assert_eq!(ran.stdout(), "");
}

#[test]
fn a_broken_picture_leaves_no_file() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/cut.pgm", &DULL[..DULL.len() - 1]);
    place.run("in --out done").exits(1).says("failed: in/cut.pgm: ");
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn leftover_temporary_files_are_removed_during_a_run() {
    let place = Place::new();
    // This many 16-bit LUTs take longer than listing a folder.
    let samples: Vec<u8> = (0..2 * 256 * 256u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect();
    place.file("in/a.pgm", [b"P5\n256 256\n65535\n", &samples[..]].concat());
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(200_000);
    for name in [".histeqd-4194999-elsewhere-0.tmp", ".histeqd-4194999-elsewhere-1.tmp"] {
        place.file(Path::new("done").join(name), "half");
    }
    let old =
        fs::File::options().append(true).open(place.path("done/.histeqd-4194999-elsewhere-0.tmp")).unwrap();
    old.set_modified(long_ago).unwrap();
    let slow = "in --out done --devices cpu --method clahe --tiles 32x32";
    place.run(&format!("{slow} --dry-run")).exits(0);
    assert_eq!(place.tree("done").len(), 2);
    // A run does not wait for the removal: a short one may end before it.
    wait("the leftover to be removed", || {
        place.run(&format!("{slow} --overwrite")).exits(0);
        place.tree("done").len() == 2
    });
    assert_eq!(
        place.tree("done"),
        [".histeqd-4194999-elsewhere-1.tmp", "a.pgm"],
        "what is young may be somebody's"
    );
}

#[test]
fn an_output_folder_that_cannot_be_made_is_an_error() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out /proc/x").exits(3).says("/proc/x");
}

#[test]
fn an_output_folder_that_cannot_be_read_can_be_written_to() {
    let place = Place::with(&["in/a.pgm"]);
    fs::create_dir(place.path("done")).unwrap();
    fs::set_permissions(place.path("done"), Permissions::from_mode(0o333)).unwrap();
    place.run("in --out done").exits(0);
    fs::set_permissions(place.path("done"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn outputs_respect_the_umask() {
    let place = Place::with(&["in/a.pgm"]);
    let script = format!("umask 027; '{}' in --out done --quiet", crate::harness::binary());
    assert!(place.command("sh", ["-c", &script]).status().unwrap().success());
    let mode = |name| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("done/a.pgm"), mode("done")), (0o640, 0o750));
}

#[test]
fn outputs_can_keep_the_times_and_permissions_of_their_inputs() {
    let place = Place::with(&["in/a.pgm", "in/sub/b.pgm"]);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_700);
    for name in ["a.pgm", "sub/b.pgm"] {
        File::options()
            .append(true)
            .open(place.path("in").join(name))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        fs::set_permissions(place.path("in").join(name), Permissions::from_mode(0o640)).unwrap();
    }
    let keeping = "in --out done --times keep --permissions keep";
    place.run(keeping).exits(0).says("Done: 2 pictures");
    for name in ["a.pgm", "sub/b.pgm"] {
        let output = fs::metadata(place.path("done").join(name)).unwrap();
        assert_eq!((output.modified().unwrap(), output.permissions().mode() & 0o777), (long_ago, 0o640));
        // As on a file system that keeps no records.
        let _ = rustix::fs::removexattr(place.path("done").join(name), "user.histeqd");
    }
    place.run(keeping).exits(0).says("Skipped: 2 already done");

    // A replacement of an input has another time.
    place.file("in/a.pgm", DULL);
    place.run(keeping).exits(0).says("Done: 1 picture").says("Skipped: 1 already done");
    place.run("in --out s3://bucket/done --times keep").exits(2).says("leave out --times and --permissions");
}
