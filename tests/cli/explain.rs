//! `histeqd explain`: the settings that outputs were made with, and the differences of settings in
//! outputs that a run makes again.

use std::fs;

use rustix::fs::{XattrFlags, removexattr, setxattr};

use crate::harness::{DULL, Place, skipped};

/// The attributes of an output.
const RECORD: &str = "user.histeqd";
const SETTINGS: &str = "user.histeqd.settings";

/// Returns a place with pictures; reports a skip and returns `None` where the file system has no
/// attributes.
fn place_or_skip(pictures: &[&str]) -> Option<Place> {
    let place = Place::with(pictures);
    place.file("probe", "");
    if let Err(error) = setxattr(place.path("probe"), RECORD, b"1", XattrFlags::empty()) {
        skipped(format_args!("no user attributes on the file system of temporary files: {error}"));
        return None;
    }
    Some(place)
}

fn explained(place: &Place, output: &str) -> serde_json::Value {
    let ran = place.run(&format!("explain {output} --json"));
    let told = ran.json();
    ran.exits(i32::from(told["unchanged"] != true));
    told
}

#[test]
fn an_output_tells_its_settings() {
    let Some(place) = place_or_skip(&["in/a.pgm"]) else { return };
    place.run("in --out plain").exits(0);
    place.run("plain/a.pgm --out twice --method clahe --strength 0.5 --deterministic").exits(0);
    place.run("explain plain/a.pgm twice/a.pgm").exits(0).prints(
        "plain/a.pgm: made by histeqd, unchanged since\n  \
           settings: all are the defaults\n  \
           left at their defaults: method global, strength 1, color luma, format keep, depth keep\n\
         twice/a.pgm: made by histeqd, unchanged since\n  \
           settings: --method clahe --strength 0.5 --jpeg cpu --deflate cpu\n  \
           left at their defaults: clip-limit auto, tiles 8x8, color luma, format keep, depth keep\n",
    );
    let told = explained(&place, "twice/a.pgm");
    let set = serde_json::json!({ "method": "clahe", "strength": "0.5", "jpeg": "cpu", "deflate": "cpu" });
    assert_eq!((&told["settings"], &told["settings_from"]), (&set, &"output".into()));
    assert_eq!((&told["unchanged"], &told["input"]), (&true.into(), &serde_json::Value::Null));

    place.file("plain/a.pgm", "P5 1 1 255 another");
    let changed = "made by histeqd; copied, touched or changed since\n";
    place.run("explain plain/a.pgm").exits(1).prints(&format!("plain/a.pgm: {changed}"));
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let touched = std::fs::File::options().append(true).open(place.path("twice/a.pgm")).unwrap();
    touched.set_modified(time).unwrap();
    place.run("explain twice/a.pgm").exits(1).prints(&format!("twice/a.pgm: {changed}"));
    place.run("explain in/a.pgm").exits(1).prints("in/a.pgm: no record of histeqd; settings unknown\n");
    place.run("explain none.pgm").exits(3).says("none.pgm: ");
    place.run("explain /dev/null").exits(3).says("/dev/null: not a regular file; name outputs");
}

#[test]
fn the_outputs_of_a_folder_are_explained_in_order() {
    let Some(place) = place_or_skip(&["in/b.pgm", "in/x/a.pgm"]) else { return };
    place.run("in --out done --resume").exits(0);
    place.file("done/notes.txt", "of no picture");
    let outputs = |ran: &str| -> Vec<String> {
        let lines = ran.lines().filter(|line| !line.starts_with(' '));
        lines.map(str::to_owned).collect()
    };
    let ran = place.run("explain done");
    let unchanged = |name: &str| format!("done/{name}: made by histeqd, unchanged since");
    assert_eq!(outputs(&ran.exits(0).stdout()), [unchanged("b.pgm"), unchanged("x/a.pgm")]);
    place.file("done/c.pgm", DULL);
    assert_eq!(outputs(&place.run("explain done").exits(1).stdout()).len(), 3);
    place.file("empty/notes.txt", "of no picture");
    place.run("explain empty").exits(3).says("empty: no outputs in this folder");
}

#[test]
fn settings_of_folders_and_masks_are_told_too() {
    let Some(place) = place_or_skip(&["in/x/a.pgm", "masks/x/a.pgm"]) else { return };
    place.file("in/x/histeqd.toml", "strength = 0.25\n");
    place.run("in --out done --mask masks").exits(0);
    let told = explained(&place, "done/x/a.pgm");
    let set = serde_json::json!({ "strength": "0.25", "mask": "masks" });
    assert_eq!((&told["settings"], &told["settings_from"]), (&set, &"output".into()));
}

#[test]
fn of_outputs_of_older_versions_it_says_what_is_known() {
    let Some(place) = place_or_skip(&["in/a.pgm"]) else { return };
    let make = |out: &str, flags: &str| {
        place.run(&format!("in --out {out} --color gray {flags}")).exits(0);
        removexattr(place.path(format!("{out}/a.pgm")), SETTINGS).unwrap();
    };
    make("done", "");
    let ran = place.run("explain done/a.pgm");
    ran.exits(0)
        .prints("  settings: unknown; only their digest is recorded (")
        .prints("): made by an older version, or the settings are long or name files\n");
    assert_eq!(explained(&place, "done/a.pgm")["settings"], serde_json::Value::Null);

    // The ledger has always had them, and the input.
    make("kept", "--resume");
    let ran = place.run("explain kept/a.pgm");
    ran.exits(0)
        .prints("  settings, by the ledger: --color gray\n")
        .prints("  input, by the ledger: ")
        .prints("/in/a.pgm\n");
    removexattr(place.path("kept/a.pgm"), RECORD).unwrap();
    let told = explained(&place, "kept/a.pgm");
    assert_eq!((&told["settings"]["color"], &told["settings_from"]), (&"gray".into(), &"ledger".into()));
    assert_eq!((&told["unchanged"], &told["digest"]), (&true.into(), &serde_json::Value::Null));
    place.file("kept/a.pgm", "of another length");
    assert_eq!(explained(&place, "kept/a.pgm")["unchanged"], false);

    // Its entry on another output of that name does not count.
    make("both", "--resume");
    place.run("in --out both --color per-channel --overwrite").exits(0);
    removexattr(place.path("both/a.pgm"), SETTINGS).unwrap();
    let told = explained(&place, "both/a.pgm");
    assert_eq!((&told["settings"], &told["input"]), (&serde_json::Value::Null, &serde_json::Value::Null));
}

#[test]
fn a_copy_of_a_sidecar_names_its_original() {
    let Some(place) = place_or_skip(&["in/a.pgm"]) else { return };
    place.file("in/a.xmp", "metadata");
    place.run("in --out done --sidecars copy").exits(0);
    let original = place.path("in/a.xmp");
    place.run("explain done/a.xmp").exits(0).prints(&format!(
        "done/a.xmp: made by histeqd, unchanged since\n  copy of the sidecar file {}\n",
        original.display()
    ));
    let told = explained(&place, "done/a.xmp");
    assert_eq!((&told["settings"], &told["input"]), (&serde_json::Value::Null, &original.to_str().into()));
}

#[test]
fn a_recipe_that_is_not_that_of_the_record_is_not_believed() {
    let Some(place) = place_or_skip(&["in/a.pgm"]) else { return };
    place.run("in --out done --color gray").exits(0);
    for text in ["color = \"hue\"\n", "", "\u{1b}[2J"] {
        setxattr(place.path("done/a.pgm"), SETTINGS, text.as_bytes(), XattrFlags::empty()).unwrap();
        assert_eq!(explained(&place, "done/a.pgm")["settings"], serde_json::Value::Null, "{text:?}");
    }
}

#[test]
fn what_is_made_again_is_told_before_and_after_with_the_flags_that_differ() {
    let Some(place) = place_or_skip(&["in/a.pgm", "in/b.pgm"]) else { return };
    place.run("in --out done").exits(0);
    let clahe = "in --out done --method clahe --tiles 1x1";
    let difference = "--method clahe instead of global";
    let would = format!(
        "Note: 2 outputs with other settings would be made again: {difference}\nWould do: 2 pictures\n"
    );
    place.run(&format!("{clahe} --dry-run")).exits(0).says(&would);
    let json = place.run(&format!("{clahe} --dry-run --json")).exits(0).json();
    assert_eq!((&json["remade"], &json["remade_for"]), (&2.into(), &serde_json::json!({ difference: 2 })));

    let ran = place.run(&format!("{clahe} --verbose"));
    let again = format!("2 outputs with other settings are made again: {difference}\n");
    ran.exits(0).says(&again).says(&format!("note: in/a.pgm: its output had other settings: {difference}\n"));
    ran.says(&format!("Note: 2 outputs with other settings were made again: {difference}\nDone: 2 pictures"));
    assert!(ran.stderr().find(&again) < ran.stderr().find("done: in/a.pgm"), "{}", ran.stderr());

    // For one of them it is not known, as for outputs of older versions.
    removexattr(place.path("done/b.pgm"), SETTINGS).unwrap();
    let ran = place.run("in --out done --strength 0.5 --dry-run");
    ran.exits(0).says(
        "Note: 2 outputs with other settings would be made again: \
         1 --method global instead of clahe, --strength 0.5 instead of 1; 1 of others\n",
    );
    removexattr(place.path("done/a.pgm"), SETTINGS).unwrap();
    let ran = place.run("in --out done --dry-run");
    ran.exits(0).says("Note: 2 outputs with other settings would be made again\nWould do: 2 pictures\n");
    fs::write(place.path("in/a.pgm"), [DULL, b""].concat()).unwrap();
    place
        .run("in --out done --dry-run")
        .exits(0)
        .says("Note: 1 output with other settings would be made again\n");
}
