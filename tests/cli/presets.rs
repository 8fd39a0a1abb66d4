//! Presets: the keys that they set, the settings that go over them, and their equivalence to the
//! keys.

use equalize::{Depth, Pixel};
use serde_json::{Map, Value};

use super::folder_settings::ramp;
use crate::harness::Place;
use crate::samples::{Data, Random, layout, pam, samples};

/// Returns each preset with its keys.
fn presets(place: &Place) -> Vec<(String, Map<String, Value>)> {
    let Value::Object(all) = place.run("presets --json").exits(0).json() else { panic!("an object") };
    let keys = |value: Value| value.as_object().unwrap().clone();
    all.into_iter().map(|(name, value)| (name, keys(value))).collect()
}

/// Returns the flags for these keys.
fn flags(keys: &Map<String, Value>) -> String {
    let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    keys.iter().map(|(key, of_key)| format!("--{key} {} ", value(of_key))).collect()
}

/// Writes a colour picture at either depth, and a gray one.
fn write_pictures(place: &Place, folder: &str) {
    for depth in [Depth::Eight, Depth::Sixteen] {
        let layout = layout(90, 70, Pixel::Rgb, depth);
        let samples = samples(&layout, Data::Natural, &mut Random(7));
        place.file(format!("{folder}/{depth:?}.pam"), pam(&layout, &samples));
    }
    place.file(format!("{folder}/gray.pgm"), ramp());
}

/// Returns the outputs in a folder.
fn outputs(place: &Place, folder: &str) -> Vec<Vec<u8>> {
    place.tree(folder).into_iter().map(|name| place.read(format!("{folder}/{name}"))).collect()
}

/// Returns every choice of some of `N` things.
fn subsets<const N: usize>() -> impl Iterator<Item = [bool; N]> {
    (0..1_usize << N).map(|bits| std::array::from_fn(|which| bits >> which & 1 == 1))
}

#[test]
fn what_is_printed_is_a_file_that_sets_the_same() {
    let place = Place::new();
    let printed = place.run("presets").exits(0).is_silent().stdout();
    let tables: Vec<_> = printed.split("\n[").skip(1).map(|table| table.split_once("]\n").unwrap()).collect();
    let mut names: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["photo", "scan", "xray", "dicom", "microscopy", "satellite", "thermal", "training"]);
    names.sort_unstable();
    assert_eq!(presets(&place).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    for (name, keys) in tables {
        place.file("mine.toml", keys);
        let written = place.run("--print-config --config mine.toml").exits(0).stdout();
        let named = place.run(&format!("--print-config --preset {name}"));
        let expected = written.replace("preset = \"none\"", &format!("preset = \"{name}\""));
        assert_eq!(named.exits(0).is_silent().stdout(), expected);
        place.file("printed.toml", named.stdout());
        assert_eq!(place.run("--print-config --config printed.toml").exits(0).stdout(), expected);
    }
}

#[test]
fn one_preset_is_printed_by_its_name() {
    let place = Place::new();
    let all = place.run("presets").exits(0).stdout();
    for (name, keys) in presets(&place) {
        let one = place.run(&format!("presets {name}")).exits(0).is_silent().stdout();
        assert!(
            one.starts_with("# ") && one.contains(&format!("\n[{name}]\n")) && all.contains(&one),
            "{one}"
        );
        assert_eq!(one.matches("\n[").count(), 1, "{one}");
        let json = place.run(&format!("presets {name} --json")).exits(0).json();
        assert_eq!(json, serde_json::json!({ name: keys }));
    }
    place.run("presets portrait").exits(2).says("portrait");
}

#[test]
fn the_documentation_says_what_each_preset_sets() {
    let printed = Place::new().run("presets").exits(0).stdout();
    for table in printed.split("\n[").skip(1) {
        let (name, lines) = table.split_once("]\n").unwrap();
        let keys = lines.lines().take_while(|line| !line.is_empty());
        let keys: Vec<_> = keys.map(|line| format!("`{line}`")).collect();
        let row = format!("| `{name}` | {} |\n", keys.join(", "));
        assert!(include_str!("../../docs/methods.md").contains(&row), "{row}");
    }
}

#[test]
fn each_layer_goes_over_those_below_it_whichever_there_are() {
    let place = Place::new();
    place.file("in/a.pgm", ramp());
    let made_with = |strength: &str| {
        place
            .run(&format!("in --out plain{strength} --folder-settings=false --strength {strength}"))
            .exits(0);
        place.read(format!("plain{strength}/a.pgm"))
    };
    let layers = ["0.9", "0.8", "0.7"].map(made_with);
    let (of_preset, of_defaults) = (made_with("0.5"), made_with("1"));
    for [has_flag, has_folder, has_file, has_preset] in subsets() {
        let say = |says: bool, text: &str| if says { text.to_owned() } else { String::new() };
        place.file("in/histeqd.toml", say(has_folder, "strength = 0.8"));
        place.file("my.toml", say(has_file, "strength = 0.7"));
        let typed = say(has_flag, "--strength 0.9") + &say(has_preset, " --preset photo");
        let ran = place
            .run(&format!("in --out out --overwrite --config my.toml --method global --exposure 0 {typed}"));
        assert!(!ran.exits(0).stderr().contains("effect") && !ran.stderr().contains("Note: the"), "{ran}");
        let highest = [has_flag, has_folder, has_file].iter().position(|says| *says);
        let below = if has_preset { &of_preset } else { &of_defaults };
        let expected = highest.map_or(below, |layer| &layers[layer]);
        assert!(place.read("out/a.pgm") == *expected, "{typed} {has_folder} {has_file}");
    }
}

#[test]
fn the_preset_itself_is_that_of_the_highest_layer_that_names_one() {
    let place = Place::new();
    write_pictures(&place, "in");
    let made_by = |preset: &str| {
        place.run(&format!("in --out plain-{preset} --folder-settings=false --preset {preset}")).exits(0);
        outputs(&place, &format!("plain-{preset}"))
    };
    let names = ["photo", "scan", "microscopy", "none"];
    let made = names.map(made_by);
    assert!((0..4).all(|a| (0..a).all(|b| made[a] != made[b])), "they can be told apart");
    for says in subsets::<3>() {
        let say = |layer: usize, text: &str| if says[layer] { text.to_owned() } else { String::new() };
        place.file("in/histeqd.toml", say(1, "preset = 'scan'"));
        place.file("my.toml", say(2, "preset = 'microscopy'"));
        let typed = say(0, "--preset photo");
        place.run(&format!("in --out out --overwrite --config my.toml {typed}")).exits(0);
        let highest = says.iter().position(|says| *says).unwrap_or(3);
        assert!(outputs(&place, "out") == made[highest], "{says:?}");
    }
    place.file("in/histeqd.toml", "preset = 'scan'");
    place.run("in --out out --overwrite --preset none").exits(0);
    assert!(outputs(&place, "out") == made[3], "a flag undoes it");
}

#[test]
fn a_preset_makes_the_bytes_and_the_record_of_the_keys_that_it_stands_for() {
    let place = Place::new();
    write_pictures(&place, "in");
    for (name, keys) in presets(&place) {
        let written_out = flags(&keys);
        place.run(&format!("in --out {name} --preset {name}")).exits(0).says("Done: 3 pictures");
        place.run(&format!("in --out {name}-written {written_out}")).exits(0);
        assert!(outputs(&place, &name) == outputs(&place, &format!("{name}-written")), "{name}");
        for (out, again) in [(&name, &written_out), (&format!("{name}-written"), &format!("--preset {name}"))]
        {
            place.run(&format!("in --out {out} {again}")).exits(0).says("Skipped: 3 already done");
        }
        place.run(&format!("in --out {name}-ledger --resume --preset {name}")).exits(0);
        let again = place.run(&format!("in --out {name}-ledger --resume {written_out}"));
        again.exits(0).says("Skipped: 3 already done");
        let other = place.run(&format!("in --out {name}-ledger --resume {written_out} --segmentations"));
        other.exits(0).says("Done: 3 pictures");
    }
}

#[test]
fn keys_that_a_preset_sets_are_not_complained_of_and_flags_that_need_them_are_taken() {
    let place = Place::new();
    place.file("in/a.pgm", ramp());
    place.run("in --out out --preset photo --method global --quiet").exits(0).is_silent();
    place.run("in --out out --preset scan --method clahe --quiet").exits(0).is_silent();
    place.run("in --out out --preset photo --clip-limit 3 --quiet").exits(0).is_silent();
    let ran = place.run("in --out out --preset scan --clip-limit 3");
    ran.exits(2).says("--clip-limit has no effect without --method clahe");
    place.file("my.toml", "preset = 'photo'\nmethod = 'stretch'\nclip-low = 1\n");
    place.run("in --out out --config my.toml --quiet").exits(0).is_silent();
    let ran = place.run("in --out out --preset photo --together file");
    ran.exits(2).says("but --method clahe makes one per tile (--preset photo sets --method)");
    let table = place.run("histogram in --equalized --preset photo --format json --bins 4").exits(0).json();
    let written = "--exposure 0.8 --method clahe --tiles 12x12 --noise 96 --strength 0.5";
    let written = format!("histogram in --equalized {written} --format json --bins 4");
    assert_eq!(table, place.run(&written).exits(0).json());
}

#[test]
fn an_unknown_preset_is_refused_with_those_that_there_are() {
    let place = Place::new();
    place.file("in/a.pgm", ramp());
    let all = "none, photo, scan, xray, dicom, microscopy, satellite, thermal, training";
    place.run("in --out out --preset portrait").exits(2).says(&format!("[possible values: {all}]"));
    let quoted = format!("\"{}\"", all.replace(", ", "\", \""));
    let why = format!("toml:1: preset: must be one of {quoted}");
    place.file("my.toml", "preset = 'portrait'\n");
    place.run("in --out out --config my.toml").exits(2).says(&why);
    place.file("in/histeqd.toml", "preset = 'portrait'\n");
    place.run("in --out out").exits(1).says(&why);
}

#[test]
fn a_copy_of_the_defaults_goes_over_a_preset_and_that_is_told() {
    let place = Place::new();
    place.file("in/b/a.pgm", ramp());
    let copy = place.run("--print-config").exits(0).stdout();
    place.file("my.toml", copy.replace("preset = \"none\"", "preset = \"photo\""));
    let why = "the configuration file repeats the defaults of color, exposure, method, noise, strength, tiles, which override --preset photo";
    place.run("in --out out --config my.toml").exits(0).says(why);
    place.file("my.toml", copy);
    place.file("in/b/histeqd.toml", "preset = 'photo'\n");
    place.run("in --out out --config my.toml").exits(0).says(why);
}
