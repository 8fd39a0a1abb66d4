//! `histeqd histogram`: its tables against a count that is as simple as can be, its plots, its
//! messages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use equalize::Depth;
use serde_json::Value;

use crate::harness::{DULL, Place, Ran};
use crate::samples::{PIXELS, Random, layout, pam};

/// A picture with known samples.
#[derive(Clone)]
struct Picture {
    width: usize,
    height: usize,
    channels: usize,
    levels: u64,
    samples: Vec<u64>,
}

impl Picture {
    /// A picture of noise; with alpha, every third pixel is transparent.
    fn new(width: usize, height: usize, channels: usize, levels: u64) -> Self {
        let mut random = Random((width * channels) as u64);
        let sample = || random.below(levels) * random.below(5) / 4;
        let mut samples: Vec<u64> = std::iter::repeat_with(sample).take(width * height * channels).collect();
        if channels.is_multiple_of(2) {
            samples.chunks_mut(channels).step_by(3).for_each(|pixel| pixel[channels - 1] = 0);
        }
        Self { width, height, channels, levels, samples }
    }

    /// Returns the picture as a PAM file (netpbm).
    fn pam(&self) -> Vec<u8> {
        let depth = if self.levels == 256 { Depth::Eight } else { Depth::Sixteen };
        let layout = layout(self.width as u32, self.height as u32, PIXELS[self.channels - 1], depth);
        let samples: Vec<u16> = self.samples.iter().map(|&sample| sample as u16).collect();
        pam(&layout, &samples)
    }

    /// Returns the counts that the table must have, by channel.
    fn counts(&self, bins: u64) -> BTreeMap<&'static str, Vec<u64>> {
        let names: &[&str] = match self.channels {
            1 => &["gray"],
            2 => &["gray", "A"],
            3 => &["R", "G", "B"],
            _ => &["R", "G", "B", "A"],
        };
        let mut counts = BTreeMap::new();
        let mut add = |name, value: u64| {
            counts.entry(name).or_insert_with(|| vec![0; bins as usize])
                [(value * bins / self.levels) as usize] += 1;
        };
        for pixel in self.samples.chunks(self.channels) {
            let visible = self.channels % 2 == 1 || pixel[self.channels - 1] > 0;
            for (&name, &value) in names.iter().zip(pixel) {
                if visible || name == "A" {
                    add(name, value);
                }
            }
            if visible && self.channels > 2 {
                add("luma", (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 32768) >> 16);
            }
        }
        counts
    }
}

/// Pictures of every depth and number of channels, by file name.
fn pictures() -> impl Iterator<Item = (String, Picture)> {
    [256, 65536].into_iter().flat_map(|levels| {
        (1..=4)
            .map(move |channels| (format!("{channels}-{levels}.pam"), Picture::new(61, 43, channels, levels)))
    })
}

fn place() -> Place {
    let place = Place::new();
    pictures().for_each(|(name, picture)| place.file(Path::new("in").join(name), picture.pam()));
    place
}

/// The counts of one picture, by stage and channel.
type Channels = BTreeMap<(String, String), Vec<u64>>;

fn from_json(ran: &Ran) -> BTreeMap<String, Channels> {
    let mut pictures: BTreeMap<String, Channels> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for object in ran.json().as_array().unwrap() {
        let counts: Vec<u64> =
            object["counts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        assert_eq!(object["pixels"], counts.iter().sum::<u64>());
        let key = (text(&object["stage"]), text(&object["channel"]));
        assert!(pictures.entry(text(&object["picture"])).or_default().insert(key, counts).is_none());
    }
    pictures
}

fn from_csv(text: &str) -> BTreeMap<String, Channels> {
    let mut pictures: BTreeMap<String, Channels> = BTreeMap::new();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("picture,width,height,bits,stage,channel,pixels,0,"), "{head}");
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), head.split(',').count());
        let counts: Vec<u64> = fields[7..].iter().map(|count| count.parse().unwrap()).collect();
        assert_eq!(fields[6].parse(), Ok(counts.iter().sum::<u64>()));
        let key = (fields[4].to_owned(), fields[5].to_owned());
        assert!(pictures.entry(fields[0].to_owned()).or_default().insert(key, counts).is_none());
    }
    pictures
}

/// Returns the counts of [`pictures`] by [`Picture::counts`].
fn expected(bins: u64) -> BTreeMap<String, Channels> {
    let original = |(name, counts): (&str, Vec<u64>)| (("original".to_owned(), name.to_owned()), counts);
    pictures()
        .map(|(name, picture)| {
            (format!("in/{name}"), picture.counts(bins).into_iter().map(original).collect())
        })
        .collect()
}

#[test]
fn every_kind_of_picture_is_counted_right_on_the_cpu_and_by_workers() {
    let place = place();
    for devices in ["cpu", "cpu-workers:2"] {
        for bins in [1, 10, 256] {
            let line = format!("histogram in --format json --bins {bins} --devices {devices}");
            let ran = place.run(&line);
            ran.exits(0);
            assert!(from_json(&ran) == expected(bins), "{line}");
        }
    }
}

#[test]
fn csv_says_the_same_as_json_in_the_order_of_the_pictures() {
    let place = place();
    let csv = place.run("histogram in --bins 16 -j 4").stdout();
    assert!(from_csv(&csv) == expected(16));
    let names: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert!(names.is_sorted());
}

#[test]
fn sixteen_bits_have_up_to_65536_bins_and_eight_have_not() {
    let place = place();
    let ran = place.run("histogram in --format json --bins 65536");
    ran.exits(1).says(
        "failed: 4 x its samples have only 256 levels, fewer than 65536 bins; lower --bins: in/1-256.pam, ",
    );
    let sixteen: BTreeMap<_, _> =
        expected(65536).into_iter().filter(|(name, _)| name.contains("-65536")).collect();
    assert!(from_json(&ran) == sixteen);
    assert!(place.run("histogram in --bins 65537").exits(2).stderr().contains("65537"));
    place.run("histogram in --bins 0").exits(2);
}

#[test]
fn equalized_pictures_have_the_histograms_of_what_histeqd_writes() {
    let place = place();
    let methods = [
        "--color luma",
        "--color per-channel",
        "--method clahe --tiles 3x2",
        "--method stretch --clip-low 2",
    ];
    for method in methods {
        place.run(&format!("in --out done --overwrite {method}")).exits(0);
        let written = from_json(&place.run("histogram done --format json"));
        let both = from_json(&place.run(&format!("histogram in --format json --equalized {method}")));
        let original = expected(256);
        for (name, channels) in both {
            let after = &written[&name.replace("in/", "done/")];
            for ((stage, channel), counts) in channels {
                let key = ("original".to_owned(), channel);
                let right = if stage == "original" { &original[&name][&key] } else { &after[&key] };
                assert!(&counts == right, "{name} {stage} {key:?} {method}");
            }
        }
    }
}

#[test]
fn a_jpeg_is_counted_in_rgb() {
    let place = Place::new();
    place.file(
        "a.ppm",
        b"P6\n16 8\n255\n".iter().copied().chain([200, 100, 50].repeat(128)).collect::<Vec<u8>>(),
    );
    place.run("a.ppm --out out --format jpeg --method clahe --clip-limit 1 --tiles 1x1").exits(0);
    let ran = place.run("histogram out/a.jpg --format json");
    let counted = from_json(ran.exits(0));
    assert_eq!(
        counted["out/a.jpg"].keys().map(|(_, channel)| channel.as_str()).collect::<Vec<_>>(),
        ["B", "G", "R", "luma"]
    );
}

#[test]
fn a_failed_picture_is_named_and_the_others_are_counted() {
    let place = place();
    place.file("in/2-broken.png", b"\x89PNG\r\n\x1a\nnothing");
    let ran = place.run("histogram in --format json");
    ran.exits(1).says("failed: in/2-broken.png: ");
    assert!(from_json(&ran) == expected(256));
}

#[test]
fn nothing_to_count_is_an_empty_table() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    assert_eq!(place.run("histogram in --format json").exits(0).json(), Value::Array(Vec::new()));
    assert!(from_csv(&place.run("histogram in").stdout()).is_empty());
    place.run("histogram missing.png").exits(1).says("failed: missing.png: ");
}

#[test]
fn a_table_in_a_file_appears_whole() {
    let place = place();
    assert_eq!(place.run("histogram in --bins 16 --out counts/all.csv").exits(0).stdout(), "");
    assert!(from_csv(&String::from_utf8(place.read("counts/all.csv")).unwrap()) == expected(16));
    assert_eq!(place.tree("counts"), ["all.csv"]);
}

#[test]
fn a_table_that_has_no_room_is_named_and_does_not_appear() {
    let place = place();
    let script = "histogram in --out out/all.csv; code=$?; ls -A out; exit $code";
    let Some(ran) = place.run_with_mount("size=4k", script) else { return };
    ran.exits(3).says("error: out/all.csv cannot be written: No space left on device");
    assert_eq!((ran.stderr().lines().count(), ran.stdout()), (1, String::new()), "{ran}");
}

#[test]
fn a_picture_is_replaced_by_no_table_and_no_plot() {
    let place = Place::with(&["in/a.pgm", "in/unnamed"]);
    place.link("in/a.pgm", "link.svg");
    let lines = [
        "in/a.pgm --out ./in/a.pgm",
        "in --out in/a.pgm",
        "in --out in/unnamed",
        "in --out link.svg",
        "in/a.pgm --plot link.svg",
    ];
    for line in lines {
        let ran = place.run(&format!("histogram {line}"));
        ran.exits(2).says("would replace an input; choose another name");
        assert_eq!((place.read("in/a.pgm"), place.read("in/unnamed")), (DULL.to_vec(), DULL.to_vec()));
        assert_eq!(ran.stdout(), "", "nothing is counted");
    }
    for line in ["--plot x.png --out x.png", "--plot ./x.svg --out x.svg"] {
        let ran = place.run(&format!("histogram in/a.pgm {line}"));
        ran.exits(2).says("is the name of both the table and a plot; choose another");
        assert!(!place.path("x.png").exists() && !place.path("x.svg").exists());
    }
    for _ in 0..2 {
        place.run("histogram in --out in/counts.csv").exits(0);
    }
}

#[test]
fn a_pipe_is_written_to_and_a_link_leads_to_the_file_that_is_written() {
    let place = place();
    let table = place.run("histogram in --bins 4 --out -").exits(0).stdout();
    assert!(from_csv(&table) == expected(4));
    let script = format!(
        "mkfifo table plot.svg || exit
        timeout 60 cat plot.svg >plotted & timeout 60 cat table >copy &
        '{}' histogram in/1-256.pam --bins 4 --out table --plot plot.svg --quiet && wait && test -p table -a -p plot.svg",
        crate::harness::binary()
    );
    let ran = Ran::from(place.command("sh", ["-c", &script]));
    ran.exits(0).is_silent();
    assert_eq!(place.read("copy").iter().filter(|&&byte| byte == b'\n').count(), 2);
    assert!(place.read("plotted").starts_with(b"<svg "));

    place.file("kept/old.csv", "old");
    place.link("kept/old.csv", "to-old");
    place.link("kept/new.csv", "to-new");
    for (link, file) in [("to-old", "kept/old.csv"), ("to-new", "kept/new.csv")] {
        place.run(&format!("histogram in --bins 4 --out {link}")).exits(0);
        assert!(place.path(link).is_symlink());
        assert_eq!(place.read(file), table.as_bytes());
    }
}

#[test]
fn the_same_picture_is_counted_once_and_pictures_of_one_name_each() {
    let place = Place::with(&["a/x.pgm", "b/x.pgm"]);
    let csv = place.run("histogram a a/x.pgm b/x.pgm --bins 2").exits(0).stdout();
    let names: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(names, ["a/x.pgm", "b/x.pgm"]);
}

#[test]
fn links_to_one_picture_are_counted_each_under_its_name() {
    let place = Place::with(&["in/a.pgm"]);
    fs::hard_link(place.path("in/a.pgm"), place.path("in/b.pgm")).unwrap();
    place.link("a.pgm", "in/d.pgm");
    let ran = place.run("histogram in ./in/a.pgm in/b.pgm --bins 1");
    let table = ran.exits(0).stdout();
    let named: Vec<_> = table.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    assert_eq!(named, ["in/a.pgm", "in/b.pgm", "in/d.pgm"]);
}

#[test]
fn a_plot_is_a_picture() {
    let place = place();
    place.run("histogram in/4-256.pam --plot one.png --log").exits(0);
    assert!(place.read("one.png").starts_with(b"\x89PNG\r\n\x1a\n"));
    place.run("histogram in/3-65536.pam --plot one.svg --equalized").exits(0);
    let svg = String::from_utf8(place.read("one.svg")).unwrap();
    for words in
        ["<svg ", "3-65536.pam", "61 × 43 pixels, 16 bit", "red", "luma", "Original", "Equalized", "65535"]
    {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn several_plots_need_names_of_their_own() {
    let place = place();
    place.run("histogram in --plot one.png").exits(2).says("use {} for the picture's path");
    place.run("histogram in/1-256.pam --plot one.gif").exits(2).says(".png or .svg");
    place.run("histogram in/1-256.pam --log").exits(2).says("--plot");
    place.run("histogram in --plot plots/{}.svg").exits(0);
    let names: Vec<String> = pictures().map(|(name, _)| name + ".svg").collect();
    assert_eq!(place.tree("plots").len(), names.len());
    assert!(names.iter().all(|name| place.tree("plots").contains(name)));
    place.file("other/1-256.pam", Picture::new(3, 3, 1, 256).pam());
    let ran = place.run("histogram in/1-256.pam other/1-256.pam --plot plots/{}.svg");
    ran.exits(1).says("would have the same output");
}

/// A picture large enough that several threads split it into its channels.
fn large() -> Vec<u8> {
    Picture::new(1201, 901, 3, 256).pam()
}

#[test]
fn split_channels_count_the_same() {
    let place = place();
    place.file("in/large.pam", large());
    for flags in ["", "--equalized --color per-channel", "--color gray"] {
        let line = format!("histogram in --bins 256 {flags} --devices");
        let whole = place.run(&format!("{line} cpu")).exits(0).stdout();
        for devices in ["cpu-workers:3 -v", "cpu-workers:2 -v", "cpu -j1", "cpu -j8"] {
            let split = place.run(&format!("{line} {devices} --split-channels"));
            assert!(split.exits(0).stdout() == whole, "{flags} {devices}");
            if devices == "cpu-workers:3 -v" && flags.is_empty() {
                split.says("done: in/large.pam (cpu-worker0+cpu-worker1+cpu-worker2)");
                split.says("done: in/4-65536.pam (cpu-worker0+cpu-worker1+cpu-worker2)");
            }
        }
    }
}

#[test]
fn split_channels_equalize_to_the_same_bytes() {
    let place = place();
    place.file("in/large.pam", large());
    for method in ["global", "clahe --tiles 3x5"] {
        let line = format!("in --color per-channel --overwrite --method {method}");
        place.run(&format!("{line} --out whole --devices cpu")).exits(0);
        place.run(&format!("{line} --out split --devices cpu-workers:3 --split-channels")).exits(0);
        for name in place.tree("in") {
            let read = |out: &str| place.read(Path::new(out).join(&name));
            assert!(read("whole") == read("split"), "{name} {method}");
            assert!(read("whole") != place.read(Path::new("in").join(&name)), "{name} {method}");
        }
    }
}

#[test]
fn a_device_that_fails_in_the_middle_of_a_split_picture_costs_nothing() {
    let place = place();
    place.file("in/large.pam", large());
    (0..20).for_each(|n| place.file(format!("in/more-{n}.pam"), Picture::new(300 + n, 70, 3, 256).pam()));
    let count = "histogram in --devices";
    let equalize = "in --color per-channel --overwrite --out";
    let counts = place.run(&format!("{count} cpu")).exits(0).stdout();
    place.run(&format!("{equalize} whole --devices cpu")).exits(0);
    for (fault, words) in [
        ("exit@2", "ended by signal 9"),
        ("fail@5", "a test asked for this failure"),
        ("hang@3", "took longer than --device-timeout"),
        ("exit@1*", "given up"),
        // A declined picture is no failure and needs no report.
        ("decline@2", ""),
    ] {
        let workers = "cpu-workers:3 --split-channels --device-timeout 1s";
        let mut command = place.histeqd(&format!("{count} {workers}"));
        command.env("HISTEQD_FAULT", fault);
        let ran = Ran::from(command);
        assert!(ran.exits(0).says(words).stdout() == counts, "{fault}");
        let mut command = place.histeqd(&format!("{equalize} split --devices {workers}"));
        command.env("HISTEQD_FAULT", fault);
        Ran::from(command).exits(0).says(words);
        for name in place.tree("in") {
            let read = |out: &str| place.read(Path::new(out).join(&name));
            assert!(read("whole") == read("split"), "{name} {fault}");
        }
    }
}

#[test]
fn splitting_has_its_conditions() {
    let place = Place::with(&["in.pgm"]);
    place
        .run("in.pgm --out out --split-channels")
        .exits(2)
        .says("--split-channels needs --color per-channel");
    place.run("histogram in.pgm --equalized --split-channels").exits(2).says("--color per-channel");
    place.file("large.pam", large());
    let small = "large.pam --out out --color per-channel --devices cpu --memory 4MiB";
    place.run(&format!("{small} --split-channels")).exits(1).says("--memory");
    place.run(small).exits(0);
}

#[test]
fn the_help_tells_what_is_counted() {
    let place = Place::new();
    place
        .run("histogram --help")
        .exits(0)
        .prints("v * BINS / L")
        .prints("--equalized")
        .prints("plots/{}.svg");
    place.run("--help").prints("histeqd histogram");
    place.run("histogram").exits(2).says("<PICTURE>");
}
