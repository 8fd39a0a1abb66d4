//! The configuration: flags override the file, which overrides the defaults.

use crate::harness::Place;

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config.toml");

#[test]
fn the_shipped_file_changes_nothing() {
    let place = Place::new();
    let plain = place.run("--print-config");
    let configured = place.run(&format!("--print-config --config {SHIPPED}"));
    assert_eq!(configured.exits(0).stdout(), plain.exits(0).stdout());
}

#[test]
fn a_preset_in_the_shipped_file_is_in_force() {
    let place = Place::new();
    let shipped = std::fs::read_to_string(SHIPPED).unwrap();
    place.file("my.toml", format!("preset = \"photo\"\n{shipped}"));
    let configured = place.run("--print-config --config my.toml");
    let named = place.run("--print-config --preset photo");
    assert_eq!(configured.exits(0).is_silent().stdout(), named.exits(0).stdout());
    configured.prints("method = \"clahe\"\n").prints("strength = 0.5\n").prints("color = \"hue\"\n");
}

#[test]
fn what_is_printed_can_be_read_back() {
    let place = Place::new();
    let printed = place.run("--print-config --threads 3 --include *.png --devices 0,2 --quality 80 --links follow --method clahe --clip-limit 1.5");
    place.file("mine.toml", printed.exits(0).stdout());
    assert_eq!(place.run("--print-config --config mine.toml").exits(0).stdout(), printed.stdout());
}

#[test]
fn what_the_machine_decides_is_printed_for_another_machine_too() {
    let place = Place::new();
    let printed = place.run("--print-config").exits(0).stdout();
    let line = |key: &str| printed.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let threads = std::thread::available_parallelism().unwrap();
    assert_eq!(line("threads"), format!("threads = \"auto\"  # here: {threads}"));
    assert!(line("memory").starts_with("memory = \"auto\"  # here: \""), "{printed}");
    let pinned = place.run("--print-config --threads 3 --memory 1GiB");
    pinned.exits(0).prints("threads = 3\n").prints("memory = \"1GiB\"\n");
}

#[test]
fn a_file_at_the_usual_place_is_read_unless_told_otherwise() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("xdg/histeqd/config.toml", "format = \"png\"\n");
    place.run("in --out done").exits(0);
    place.run("in --out plain --no-config").exits(0);
    place.run("in --out flag --format keep").exits(0);
    place.file("other.toml", "format = \"bmp\"\n");
    place.run("--print-config --config other.toml").exits(0).prints("format = \"bmp\"");
    assert_eq!(place.tree("done"), ["a.png"]);
    assert_eq!(place.tree("plain"), ["a.pgm"]);
    assert_eq!(place.tree("flag"), ["a.pgm"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_a_near_match() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("my.toml", "# mine\nthreads = 2\noverwite = true\n");
    let ran = place.run("in --out done --config my.toml");
    ran.exits(2).says("error: my.toml:3: unknown key `overwite`; did you mean `overwrite`?");
    assert!(!place.path("done").exists());
}

#[test]
fn a_wrong_value_is_refused_with_its_line() {
    let place = Place::new();
    place.file("my.toml", "\nthreads = \"many\"\n");
    place
        .run("--print-config --config my.toml")
        .exits(2)
        .says("error: my.toml:2: threads: \"many\" is not a whole number");
    place.file("my.toml", "\n\noverwrite = \"yes\"\n");
    place
        .run("--print-config --config my.toml")
        .exits(2)
        .says("error: my.toml:3: overwrite: must be true or false");
    let missing = place.run("--print-config --config none.toml");
    missing.exits(2).says("error: the configuration file none.toml cannot be read: No such file");
}

#[test]
fn a_value_out_of_range_is_refused_from_the_file_too() {
    let place = Place::new();
    for line in [
        "threads = 99999",
        "max-pixels = 0",
        "memory = '0GiB'",
        "memory = 12",
        "device-timeout = 0",
        "poll = 0",
    ] {
        place.file("my.toml", format!("\n{line}\n"));
        place.run("--print-config --config my.toml").exits(2).says("error: my.toml:2: ");
    }
    place.file("my.toml", "settle = 0\n");
    place.run("--print-config --config my.toml").exits(0).prints("settle = \"0ms\"");
}
