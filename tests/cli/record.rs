//! The test whether a picture is done: the record on an output of its input and its settings.

use std::fs::{self, File, FileTimes};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::harness::{BRIGHT, DULL, Place, skipped};

/// The attribute that holds the record.
const NAME: &str = "user.histeqd";

/// Another picture of the size of [`DULL`], and the same equalized.
const OTHER: &[u8] = b"P5\n4 1\n255\n\x67\x66\x65\x64";
const OTHER_BRIGHT: &[u8] = b"P5\n4 1\n255\n\xff\xaa\x55\x00";

fn record(place: &Place, output: &str) -> Option<String> {
    let mut text = [0; 100];
    let length = getxattr(place.path(output), NAME, &mut text[..]).ok()?;
    Some(String::from_utf8(text[..length].to_vec()).unwrap())
}

/// Returns the record of an output; reports a skip and returns `None` where the file system has no
/// such attributes.
fn record_or_skip(place: &Place, output: &str) -> Option<String> {
    let probe = place.path("probe");
    fs::write(&probe, "").unwrap();
    if let Err(error) = setxattr(&probe, NAME, b"1", XattrFlags::empty()) {
        skipped(format_args!("no user attributes on the file system of temporary files: {error}"));
        return None;
    }
    let record = record(place, output);
    assert!(record.is_some(), "{output} has no record");
    record
}

fn forget(place: &Place, output: &str) {
    rustix::fs::removexattr(place.path(output), NAME).unwrap();
}

fn set_modified(place: &Place, name: &str, time: SystemTime) {
    File::options().append(true).open(place.path(name)).unwrap().set_modified(time).unwrap();
}

fn ago(seconds: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(seconds)
}

/// Replaces `in/a.pgm` by [`OTHER`], with a modification time long ago: by a rename, as `mv` and
/// `rsync -t` do, or as `cp -p` does.
fn replace_by_older(place: &Place, by_rename: bool) {
    if by_rename {
        place.file("older.pgm", OTHER);
        set_modified(place, "older.pgm", ago(10_000));
        fs::rename(place.path("older.pgm"), place.path("in/a.pgm")).unwrap();
    } else {
        place.file("in/a.pgm", OTHER);
        set_modified(place, "in/a.pgm", ago(10_000));
    }
}

#[test]
fn an_older_picture_in_the_place_of_another_is_noticed() {
    for by_rename in [true, false] {
        for with_record in [true, false] {
            let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
            place.run("in --out done").exits(0);
            place.run("in --out done").exits(0).says("Skipped: 2 already done");
            if !with_record && record_or_skip(&place, "done/a.pgm").is_some() {
                forget(&place, "done/a.pgm");
            }
            replace_by_older(&place, by_rename);
            place.run("in --out done").exits(0).says("Done: 1 picture").says("Skipped: 1 already done");
            assert_eq!(place.read("done/a.pgm"), OTHER_BRIGHT, "{by_rename} {with_record}");
            place.run("in --out done").exits(0).says("Skipped: 2 already done");
        }
    }
}

#[test]
fn a_picture_of_the_same_size_and_time_is_known_by_its_inode() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done").exits(0);
    if record_or_skip(&place, "done/a.pgm").is_none() {
        return;
    }
    let time = fs::metadata(place.path("in/a.pgm")).unwrap().modified().unwrap();
    place.file("other.pgm", OTHER);
    set_modified(&place, "other.pgm", time);
    fs::rename(place.path("other.pgm"), place.path("in/a.pgm")).unwrap();
    place.run("in --out done").exits(0);
    assert_eq!(place.read("done/a.pgm"), OTHER_BRIGHT);
}

#[test]
fn outputs_of_other_settings_are_made_again_and_counted() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.run("in --out done").exits(0);
    if record_or_skip(&place, "done/a.pgm").is_none() {
        return;
    }
    place.file("in/c.pgm", DULL);
    let clahe = "in --out done --method clahe --tiles 1x1 --clip-limit 0";
    let would = "Note: 2 outputs with other settings would be made again: --method clahe instead of global\nWould do: 3 pictures\n";
    let ran = place.run(&format!("{clahe} --dry-run"));
    ran.exits(0).says(would);
    assert_eq!(place.run(&format!("{clahe} --dry-run --json")).exits(0).json()["remade"], 2);
    assert_eq!(place.read("done/a.pgm"), BRIGHT, "a dry run writes nothing");

    let ran = place.run(&format!("{clahe} --verbose"));
    ran.exits(0).says("Done: 3 pictures").says("Note: 2 outputs with other settings were made again: ");
    ran.says("note: in/b.pgm: its output had other settings");
    assert_ne!(place.read("done/a.pgm"), BRIGHT);
    place.run(clahe).exits(0).says("Skipped: 3 already done");
    fs::remove_file(place.path("in/c.pgm")).unwrap();
    fs::remove_file(place.path("in/b.pgm")).unwrap();
    place.run("in --out done").exits(0).says("Note: 1 output with other settings was made again: ");
    assert_eq!(place.read("done/a.pgm"), BRIGHT);
}

#[test]
fn what_changes_no_output_makes_none_again() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done").exits(0);
    for flags in [
        "--threads 1",
        "--devices cpu",
        "--durability fast",
        "--memory 64MiB",
        "--max-pixels 1MP",
        "--method global",
        "--color luma",
        "--include *.pgm",
    ] {
        let json = place.run(&format!("in --out done --quiet --json {flags}")).exits(0).json();
        assert_eq!((&json["skipped"]["already-done"], &json["remade"]), (&1.into(), &0.into()), "{flags}");
    }
}

#[test]
fn a_chmod_of_an_input_costs_nothing_with_a_record_and_a_touch_does() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done").exits(0);
    if record_or_skip(&place, "done/a.pgm").is_none() {
        return;
    }
    fs::set_permissions(place.path("in/a.pgm"), fs::Permissions::from_mode(0o600)).unwrap();
    place.run("in --out done").exits(0).says("Skipped: 1 already done");
    set_modified(&place, "in/a.pgm", ago(5));
    place.run("in --out done").exits(0).says("Done: 1 picture");
}

#[test]
fn an_output_that_somebody_edited_is_theirs_until_the_input_changes() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done").exits(0);
    place.file("done/a.pgm", "edited");
    place.run("in --out done --method clahe").exits(0).says("Skipped: 1 already done");
    place.file("new.pgm", "edited and renamed");
    fs::rename(place.path("new.pgm"), place.path("done/a.pgm")).unwrap();
    place.run("in --out done --method clahe").exits(0).says("Skipped: 1 already done");
    assert_eq!(place.read("done/a.pgm"), b"edited and renamed");
    // A renamed file has no record and is judged by age, and file times are only as fine as the
    // kernel's clock.
    thread::sleep(Duration::from_millis(50));
    place.file("in/a.pgm", OTHER);
    place.run("in --out done").exits(0).says("Done: 1 picture");
    assert_eq!(place.read("done/a.pgm"), OTHER_BRIGHT);
}

#[test]
fn without_a_record_that_can_be_read_age_decides() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done").exits(0);
    let Some(good) = record_or_skip(&place, "done/a.pgm") else { return };
    let rubbish: [&[u8]; 5] =
        [b"", b"\xff\x00", b"2 0 0 0 0", &good.as_bytes()[..good.len() - 1], &[b'1'; 2000]];
    for rubbish in rubbish {
        setxattr(place.path("done/a.pgm"), NAME, rubbish, XattrFlags::empty()).unwrap();
        place.run("in --out done --method clahe").exits(0).says("Skipped: 1 already done");
    }
    let output = File::options().append(true).open(place.path("done/a.pgm")).unwrap();
    output.set_times(FileTimes::new().set_modified(ago(100))).unwrap();
    place.run("in --out done").exits(0).says("Done: 1 picture");
    assert!(record(&place, "done/a.pgm").is_some_and(|new| new.len() == good.len() && new != good));
}

#[test]
fn a_file_system_without_attributes_goes_by_age_and_fails_no_picture() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    fs::create_dir(place.path("out")).unwrap();
    let run = format!("'{}' in --out out --quiet --json", crate::harness::binary());
    let script = format!(
        "mount -t ramfs none out || exit 99; {run} && {run} && touch -d '1 hour ago' in/a.pgm && {run}"
    );
    let output = place.with_mounts(&script).output().unwrap();
    if output.status.code() == Some(99) || String::from_utf8_lossy(&output.stderr).starts_with("unshare:") {
        return skipped(format_args!("no mounts of our own here: {output:?}"));
    }
    let told = String::from_utf8(output.stdout).unwrap();
    let done: Vec<_> = told
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["done"].clone())
        .collect();
    assert_eq!(done, [2, 0, 1], "{told}");
}

#[test]
fn outputs_of_a_ledger_have_a_record_too() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --resume").exits(0);
    if record_or_skip(&place, "done/a.pgm").is_none() {
        return;
    }
    place.run("in --out done").exits(0).says("Skipped: 1 already done");
    place
        .run("in --out done --method clahe")
        .exits(0)
        .says("Note: 1 output with other settings was made again");
    place.run("in --out done --overwrite").exits(0).says("Done: 1 picture");
}
