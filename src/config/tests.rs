//! Tests of the settings as a whole.

use super::layers::{SHIPPED, uncommented};
use super::*;
use codec::PngLevel;
use equalize::colour::Gray;
use equalize::{Clahe, Colour, Method, Tiles};

fn parse(text: &str) -> Written {
    file::parse(Path::new("config.toml"), text).unwrap()
}

#[test]
fn the_shipped_file_sets_nothing_and_misses_no_key() {
    assert_eq!(parse(SHIPPED), Written::default());
    let file: toml::Table = uncommented(SHIPPED).parse().unwrap();
    for key in keys::KEYS {
        assert!(file.contains_key(key.name), "{} has no default", key.name);
    }
}

#[test]
fn every_key_of_the_shipped_file_has_a_comment() {
    let mut above = "";
    for line in SHIPPED.lines() {
        let is_text = |line: &str| line == "#" || line.starts_with("# ");
        assert!(line.is_empty() || is_text(line) || is_text(above), "{line}");
        above = line;
    }
}

#[test]
fn one_line_in_the_shipped_file_sets_one_key() {
    let in_force = |text: &str| Settings::resolve(parse(text), Request::default()).unwrap().in_brief();
    let photo = "method clahe, exposure 0.8, strength 0.5, clip-low 0.175, clip-high 0.175, clip-limit auto, tiles 12x12, noise 96, color hue, format keep, depth keep";
    assert_eq!(in_force(&format!("{SHIPPED}preset = \"photo\"\n")), photo);
    let uncommented_line = |key: &str| SHIPPED.replace(&format!("\n#{key} "), &format!("\n{key} "));
    for key in keys::KEYS {
        let text = uncommented_line(key.name);
        assert_eq!(text.parse::<toml::Table>().unwrap().keys().collect::<Vec<_>>(), [key.name]);
    }
    let chosen = uncommented_line("preset").replace("\npreset = \"none\"", "\npreset = \"photo\"");
    assert_eq!(in_force(&chosen), photo);
}

#[test]
fn flags_go_over_the_file_and_the_file_over_defaults() {
    let file = parse("threads = 3\nmemory = '1GiB'\noverwrite = true\ninclude = ['*.png']");
    let flags = Written { memory: "2GiB".parse().ok(), overwrite: Some(false), ..Written::default() };
    let settings = Settings::resolve(flags.over(file), Request::default()).unwrap();
    assert_eq!((settings.threads, settings.memory), (3, 2 << 30));
    assert_eq!(settings.existing, Existing::Skip);
    assert_eq!(settings.picture.target.png_level, PngLevel::Fast);
    assert!(!settings.selection.takes_file(Path::new("a.jpg")));
}

#[test]
fn what_is_printed_is_read_back_the_same() {
    let text = "preset = 'scan'\nmethod = 'clahe'\nexposure = 0.9\nstrength = 0.75\nclip-low = 0.25\nclip-high = 1\nplateau = 1.5\nreference = 'a b.tif'\nclip-limit = 2.5\ntiles = '4x2'\ntile-size = 32\nnoise = 7\ncolor = 'gray'\nrange = '-1000..3000.5'\nlevels = 4096\nshift = 4\nmask = '/masks'\nmask-keep = true\nno-data = -9999.5\nsegmentations = true\nformat = 'webp'\ndepth = '8'\nquality = 92\npng-level = 'small'\n\
                overwrite = true\nprefix-folder = true\ndurability = 'fast'\ninclude = ['a \"b\"', '*.png']\nexclude = ['x/']\n\
                links = 'inside'\nmax-pixels = 12345\nmax-bytes = '3MiB'\nthreads = 7\nmemory = '1.5GiB'\n\
                devices = '0,GPU-6a1b'\njpeg = 'gpu'\ndeflate = 'cpu'\ndevice-timeout = '1500ms'\n\
                settle = '1s'\nrescan = '1min'\npoll = '2s'\nafter = 'move:/kept'\non-collision = 'wait'\nfailed = '/failed'\nstate = '/s'\n\
                listen = '[::1]:9464'";
    let written = parse(text).resolved();
    assert_eq!(parse(&written.to_toml()), written);
    let machine = Written::default().resolved();
    assert_eq!(parse(&machine.to_toml()), machine);
    for line in ["quality = 92\n", "clip-limit = 2.5\n", "strength = 0.75\n", "devices = \"0,GPU-6a1b\"\n"] {
        assert!(written.to_toml().contains(line), "{}", written.to_toml());
    }
}

#[test]
fn a_name_that_looks_like_a_number_is_read_back_the_same() {
    for name in ["007", "1e3", "1.0", "nan", "+1", "42", "-1.5"] {
        let written = parse(&format!("reference = '{name}'\nfailed = '{name}'"));
        assert_eq!(parse(&written.to_toml()), written);
    }
}

#[test]
fn tiles_come_from_the_layer_that_names_them() {
    let tiles = |flags: &str, file: &str| {
        let clahe = "method = 'clahe'\n";
        let written = parse(&format!("{clahe}{flags}")).over(parse(file));
        match Settings::resolve(written, Request::default()).unwrap().picture.operation.method {
            Method::Clahe(Clahe { clip_limit: equalize::ClipLimit::Auto, tiles, noise: 0 }) => tiles,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(tiles("", ""), Tiles::Grid { x: 8, y: 8 });
    assert_eq!(tiles("", "tile-size = 32"), Tiles::Pixels(32));
    assert_eq!(tiles("tiles = '4x2'", "tile-size = 32"), Tiles::Grid { x: 4, y: 2 });
    assert_eq!(tiles("tile-size = 32", "tiles = '4x2'"), Tiles::Pixels(32));
    assert_eq!(tiles("tile-size = 'off'", "tile-size = 32"), Tiles::Grid { x: 8, y: 8 });
}

#[test]
fn what_changes_outputs_changes_the_fingerprint_and_nothing_else_does() {
    let of = |text: &str| {
        let settings = Settings::resolve(parse(text), Request::default()).unwrap();
        settings.picture.fingerprint(None, &settings.limits)
    };
    let usual = of("");
    for text in [
        "method = 'clahe'",
        "color = 'gray'",
        "color = 'per-channel'",
        "range = '0..1'",
        "window = '40,400'",
        "segmentations = true",
        "frames = 'split'",
        "overviews = 'drop'",
        "levels = 'auto'",
        "levels = 4096",
        "shift = 4",
        "mask = '.'",
        "mask-keep = true",
        "no-data = -9999",
        "format = 'png'",
        "strength = 0.5",
        "exposure = 0.5",
        "method = 'clahe'\nnoise = 5",
        "depth = 8",
        "quality = 92",
        "png-level = 'small'",
        "max-pixels = 12345",
        "max-bytes = '3MiB'",
        "jpeg = 'cpu'",
        "deflate = 'cpu'",
    ] {
        assert_ne!(of(text), usual, "with {text}, a ledger knows nothing of what was done without");
    }
    assert_ne!(of("method = 'clahe'"), of("method = 'clahe'\nclip-limit = 2"));
    assert_eq!(
        of("preset = 'photo'"),
        of("exposure = 0.8\nmethod = 'clahe'\ntiles = '12x12'\nnoise = 96\nstrength = 0.5\ncolor = 'hue'")
    );
    for text in ["threads = 3", "memory = '1GiB'", "durability = 'fast'", "device-timeout = '5s'"] {
        assert_eq!(of(text), usual, "{text} must not cost any rework");
    }
}

#[test]
fn what_a_record_says_of_the_settings_is_the_same_in_every_version() {
    let of = |text: &str| {
        let settings = Settings::resolve(parse(text), Request::default()).unwrap();
        settings.picture.of_outputs().to_owned()
    };
    assert_eq!(of(&uncommented(SHIPPED)), "", "a key that a later version adds is not there either");
    assert_eq!(of("max-pixels = 12345\nmax-bytes = '3MiB'"), "", "a limit changes no output");
    let others = "clip-limit = 3\ntiles = '4x2'\nclip-low = 3\nreference = 'a.png'";
    assert_eq!(of(others), "", "it has no effect");
    assert_eq!(
        of("method = 'stretch'\nclip-high = 0\nclip-limit = 3"),
        "method = \"stretch\"\nclip-high = 0\n"
    );
    assert_eq!(
        of("quality = 92\njpeg = 'cpu'\ntiles = '4x2'\nclip-limit = 3\nmethod = 'clahe'"),
        "method = \"clahe\"\nclip-limit = 3\ntiles = \"4x2\"\nquality = 92\njpeg = \"cpu\"\n"
    );
}

#[test]
fn what_a_folder_cannot_set_its_preset_does_not_set_either() {
    let below = |run: &str, folder: &str| {
        let settings = Settings::resolve(parse(run), Request::default()).unwrap();
        settings.below(&parse(folder)).unwrap().of_outputs().to_owned()
    };
    assert_eq!(below("", "preset = 'training'"), "method = \"clahe\"\n", "it leaves JPEGs to the run");
    let photo = "method = \"clahe\"\nexposure = 0.8\nstrength = 0.5\ntiles = \"12x12\"\nnoise = 96\ncolor = \"hue\"\n";
    let hue = "# --color hue with less colour for dark pixels\n";
    assert_eq!(
        below("preset = 'training'", "preset = 'photo'"),
        format!("{photo}jpeg = \"cpu\"\ndeflate = \"cpu\"\n{hue}")
    );
    assert_eq!(below("preset = 'photo'", "strength = 0.25"), photo.replace("0.5", "0.25") + hue);
    assert_eq!(below("preset = 'photo'", "preset = 'none'"), "");
}

#[test]
fn the_brief_names_the_method_and_what_has_an_effect() {
    let of = |text: &str| Settings::resolve(parse(text), Request::default()).unwrap().in_brief();
    assert_eq!(of("tiles = '4x2'"), "method global, strength 1, color luma, format keep, depth keep");
    assert_eq!(
        of("method = 'clahe'\nclip-limit = 3\nstrength = 0.5\nquality = 92\nthreads = 3"),
        "method clahe, strength 0.5, clip-limit 3, tiles 8x8, color luma, format keep, depth keep, quality 92"
    );
    assert_eq!(
        of("method = 'stretch'\nclip-low = 1"),
        "method stretch, strength 1, clip-low 1, clip-high 0.175, color luma, format keep, depth keep"
    );
    assert_eq!(
        of("method = 'clahe'\ntile-size = 32\nnoise = 7\ncolor = 'gray'\nformat = 'png'\ndepth = '8'"),
        "method clahe, strength 1, clip-limit auto, tile-size 32, noise 7, color gray, format png, depth 8"
    );
    assert_eq!(
        of("preset = 'photo'"),
        "method clahe, exposure 0.8, strength 0.5, clip-low 0.175, clip-high 0.175, clip-limit auto, tiles 12x12, noise 96, color hue, format keep, depth keep"
    );
}

#[test]
fn colour_decides_what_is_decoded_and_what_is_equalized() {
    for (color, gray, needs_rgb, colour) in [
        ("luma", None, false, Colour::Luma),
        ("hue", None, false, Colour::Hue),
        ("lab", None, true, Colour::Lab),
        ("gray", Some(Gray::Luma), false, Colour::Luma),
        ("red", Some(Gray::Red), false, Colour::Luma),
        ("green", Some(Gray::Green), false, Colour::Luma),
        ("blue", Some(Gray::Blue), false, Colour::Luma),
        ("per-channel", None, true, Colour::PerChannel),
        ("linked", None, true, Colour::Linked),
    ] {
        let settings = Settings::resolve(parse(&format!("color = '{color}'")), Request::default()).unwrap();
        assert_eq!((settings.picture.target.gray, settings.picture.target.needs_rgb), (gray, needs_rgb));
        assert_eq!(settings.picture.operation.colour, colour);
        assert_eq!(settings.picture.target.keeps_hue, colour == Colour::Hue);
    }
    for key in ["mask = '.'\nmask-keep = true", "no-data = 0"] {
        let settings =
            Settings::resolve(parse(&format!("color = 'hue'\n{key}")), Request::default()).unwrap();
        assert!(settings.picture.target.needs_rgb && !settings.picture.target.keeps_hue, "{key}");
    }
}
