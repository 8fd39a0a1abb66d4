//! OME-Zarr images: folders that are one picture each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::harness::{Place, other_readers_agree};

/// An image of 8 bits with uncompressed chunks, in the form of Zarr 2 and OME-Zarr 0.4.
pub(crate) struct Image {
    /// Channels, rows and columns.
    shape: [usize; 3],
    /// Rows and columns of a chunk of one channel.
    chunk: [usize; 2],
    samples: Vec<u8>,
}

impl Image {
    /// Returns an image with channels of different brightness.
    pub(crate) fn of(shape: [usize; 3], chunk: [usize; 2]) -> Self {
        let [channels, rows, columns] = shape;
        let places =
            (0..channels).flat_map(|c| (0..rows).flat_map(move |y| (0..columns).map(move |x| (c, y, x))));
        let samples =
            places.map(|(c, y, x)| (20 + 60 * c + (x * 7 + y * y * 3 + x * y) % 41) as u8).collect();
        Self { shape, chunk, samples }
    }

    fn at(&self, [c, y, x]: [usize; 3]) -> u8 {
        self.samples[(c * self.shape[1] + y) * self.shape[2] + x]
    }

    /// Returns the image of half the rows and columns: means of four, halves up.
    fn halved(&self) -> Self {
        let [channels, rows, columns] = [self.shape[0], self.shape[1] / 2, self.shape[2] / 2];
        let mut samples = Vec::new();
        for c in 0..channels {
            for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let four = [[0, 0], [0, 1], [1, 0], [1, 1]];
                let sum: u32 =
                    four.iter().map(|[dy, dx]| u32::from(self.at([c, 2 * y + dy, 2 * x + dx]))).sum();
                samples.push(((sum + 2) / 4) as u8);
            }
        }
        Self { shape: [channels, rows, columns], chunk: self.chunk, samples }
    }

    /// Returns the image with each channel equalized: `floor((2 * (c[i] - h[m]) * 255 + d) / (2 *
    /// d))`.
    fn equalized(&self) -> Self {
        let samples = self.samples.chunks(self.shape[1] * self.shape[2]).flat_map(|channel| {
            let up_to = |level: u8| channel.iter().filter(|sample| **sample <= level).count();
            let darkest = up_to(*channel.iter().min().unwrap());
            let others = channel.len() - darkest;
            let table: Vec<u8> = (0..=255)
                .map(|level| ((2 * up_to(level).saturating_sub(darkest) * 255 + others) / (2 * others)) as u8)
                .collect();
            channel.iter().map(|sample| table[usize::from(*sample)]).collect::<Vec<_>>()
        });
        Self { samples: samples.collect(), ..*self }
    }

    /// Returns the files of the chunks of an array, with their names.
    fn chunks(&self) -> Vec<(String, Vec<u8>)> {
        let [channels, rows, columns] = self.shape;
        let [high, wide] = self.chunk;
        let mut chunks = Vec::new();
        for c in 0..channels {
            for (top, left) in
                (0..rows).step_by(high).flat_map(|y| (0..columns).step_by(wide).map(move |x| (y, x)))
            {
                let within = |y, x| if y < rows && x < columns { self.at([c, y, x]) } else { 0 };
                let samples = (top..top + high).flat_map(|y| (left..left + wide).map(move |x| (y, x)));
                let samples = samples.map(|(y, x)| within(y, x)).collect();
                chunks.push((format!("{c}/{}/{}", top / high, left / wide), samples));
            }
        }
        chunks
    }

    fn write_array(&self, place: &Place, folder: &str) {
        let about = format!(
            r#"{{"zarr_format": 2, "shape": {:?}, "chunks": [1, {}, {}], "dtype": "|u1", "compressor": null, "fill_value": 0, "order": "C",
                "filters": null, "dimension_separator": "/"}}"#,
            self.shape, self.chunk[0], self.chunk[1]
        );
        place.file(format!("{folder}/.zarray"), about);
        self.chunks().into_iter().for_each(|(name, samples)| place.file(format!("{folder}/{name}"), samples));
    }

    /// Writes the image with a smaller array, and with labels.
    pub(crate) fn write(&self, place: &Place, folder: &str) {
        place.file(format!("{folder}/.zgroup"), r#"{"zarr_format": 2}"#);
        place.file(format!("{folder}/.zattrs"), ATTRIBUTES.replace("PATH", "1"));
        self.write_array(place, &format!("{folder}/0"));
        self.halved().write_array(place, &format!("{folder}/1"));
        place.file(format!("{folder}/labels/.zgroup"), r#"{"zarr_format": 2}"#);
        place.file(format!("{folder}/labels/cells/0/0"), "labels");
    }

    /// Checks that a folder holds this image, and the labels.
    fn is_in(&self, place: &Place, folder: &str) {
        for (array, image) in [("0", self), ("1", &self.halved())] {
            let [_, rows, columns] = image.shape;
            for (name, expected) in image.chunks() {
                let found = place.read(format!("{folder}/{array}/{name}"));
                let [_, top, left] =
                    [0, 1, 2].map(|at| name.split('/').nth(at).unwrap().parse::<usize>().unwrap());
                let [high, wide] = image.chunk;
                let is_within =
                    |at: usize| top * high + at / wide < rows && left * wide + at % wide < columns;
                let differ =
                    (0..high * wide).filter(|&at| is_within(at) && found[at] != expected[at]).count();
                assert_eq!((found.len(), differ), (high * wide, 0), "{folder}/{array}/{name}");
            }
        }
        assert_eq!(place.read(format!("{folder}/labels/cells/0/0")), b"labels");
        assert_eq!(place.read(format!("{folder}/.zattrs")), ATTRIBUTES.replace("PATH", "1").as_bytes());
    }
}

const ATTRIBUTES: &str = r#"{"multiscales": [{"version": "0.4", "axes": [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"},
    {"name": "x", "type": "space"}], "datasets": [{"path": "0"}, {"path": "PATH"}]}], "omero": {"name": "kept"}}"#;

/// The bytes of all files below a folder.
fn content(place: &Place, folder: &str) -> Vec<(String, Vec<u8>)> {
    place
        .tree(folder)
        .into_iter()
        .map(|name| (name.clone(), place.read(format!("{folder}/{name}"))))
        .collect()
}

#[test]
fn zarr_python_and_numpy_agree_with_what_is_made_of_images_of_every_kind() {
    other_readers_agree("zarr");
}

#[test]
fn each_channel_is_equalized_and_the_rest_is_made_of_it_or_stays() {
    let (place, image) = (Place::new(), Image::of([2, 50, 60], [16, 32]));
    image.write(&place, "in/plate/a.zarr");
    image.write(&place, "in/b");
    place.run("in --out out --devices cpu").exits(0).says("2 pictures");
    for folder in ["out/plate/a.zarr", "out/b"] {
        image.equalized().is_in(&place, folder);
    }
    place.run("in/b --out by-name --devices cpu").exits(0);
    assert_eq!(content(&place, "by-name/b"), content(&place, "out/b"));
    place.run("in/b --out little --devices cpu --memory 4MiB --threads 1").exits(0);
    assert_eq!(content(&place, "little/b"), content(&place, "out/b"));
    let counted = place.run("histogram in/b --devices cpu");
    assert!(counted.has_succeeded(), "{counted}");
}

#[test]
fn windows_of_channels_become_those_of_their_new_levels() {
    let (place, image) = (Place::new(), Image::of([2, 50, 60], [16, 32]));
    image.write(&place, "in/a.zarr");
    let window = r#"{"window": {"start": 20, "end": 60, "min": 0, "max": 99}, "color": "FF0000"}"#;
    let shown = format!("{{\"channels\": [{window}, {window}, {window}]}}");
    let attributes = ATTRIBUTES.replace("PATH", "1").replace(r#"{"name": "kept"}"#, &shown);
    place.file("in/a.zarr/.zattrs", &attributes);
    place.run("in --out out --devices cpu").exits(0);
    let found: serde_json::Value = serde_json::from_slice(&place.read("out/a.zarr/.zattrs")).unwrap();
    let smaller = image.equalized().halved();
    for (channel, samples) in smaller.samples.chunks(25 * 30).enumerate() {
        let window = &found["omero"]["channels"][channel]["window"];
        let ends = [samples.iter().min(), samples.iter().max()].map(|end| serde_json::json!(end));
        assert_eq!([&window["start"], &window["end"]], [&ends[0], &ends[1]]);
        assert_eq!([&window["min"], &window["max"]], [&serde_json::json!(0), &ends[1]]);
    }
    // The window of a channel that does not exist stays.
    assert_eq!(found["omero"]["channels"][2]["window"]["end"], 60);
    let told: serde_json::Value = serde_json::from_str(&attributes).unwrap();
    assert_eq!(found["multiscales"], told["multiscales"]);
}

#[test]
fn an_image_is_done_again_when_any_of_it_changed_and_takes_the_place_of_its_output_alone() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    image.write(&place, "in/a.zarr");
    place.run("in --out out --devices cpu").exits(0).says("1 picture");
    place.run("in --out out --devices cpu").exits(0).says("1 already done");
    sleep(Duration::from_millis(20));
    place.file("in/a.zarr/0/0/0/0", vec![200; 256]);
    place.run("in --out out --devices cpu").exits(0).says("Done: 1 picture");
    assert_ne!(place.read("out/a.zarr/0/0/0/0"), image.equalized().chunks()[0].1);
    // A chunk that is written in place while another has a later time.
    let write = |name: &str, level: u8, seconds: u64| {
        place.file(name, vec![level; 256]);
        let time = SystemTime::now() + Duration::from_secs(seconds);
        fs::File::options().append(true).open(place.path(name)).unwrap().set_modified(time).unwrap();
    };
    write("in/a.zarr/0/0/2/2", 100, 3600);
    place.run("in --out out --devices cpu").exits(0).says("Done: 1 picture");
    write("in/a.zarr/0/0/1/1", 7, 0);
    place.run("in --out out --devices cpu").exits(0).says("Done: 1 picture");
    place.run("in --out out --devices cpu").exits(0).says("1 already done");
    assert_eq!(place.tree("out").iter().filter(|name| name.contains(".histeqd")).count(), 0);
    // A folder that is no image is foreign, and stays.
    place.file("other/a.zarr/precious", "kept");
    place.run("in --out other --devices cpu").exits(1).says("a folder is in the way of the output");
    assert_eq!(place.tree("other"), ["a.zarr/precious"]);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_remedy_and_leaves_nothing() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    let about = |name: &str, from: &str, to: &str| {
        let array = String::from_utf8(place.read(format!("{name}/0/.zarray"))).unwrap();
        assert!(array.contains(from), "{array}");
        place.file(format!("{name}/0/.zarray"), array.replace(from, to));
    };
    // The head of a buffer of blosc: version, flags and size of a sample, and then the bytes of
    // samples, of a block and of all.
    let head = [&[2, 1, 1, 1][..], &(512_u32 << 20).to_le_bytes(), &256_u32.to_le_bytes(), &[20, 0, 0, 0]];
    let bomb = || {
        about(
            "bomb",
            r#""compressor": null"#,
            r#""compressor": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}"#,
        );
        image.chunks().iter().for_each(|(name, _)| place.file(format!("bomb/0/{name}"), head.concat()));
    };
    let cases: [(&str, &dyn Fn(), &str); 12] = [
        ("bomb", &bomb, "it unpacks to more than the 256 bytes of its samples"),
        (
            "codec",
            &|| about("codec", r#""compressor": null"#, r#""compressor": {"id": "bz2", "level": 1}"#),
            "with the codec bz2 (array 0) is not supported",
        ),
        (
            "separator",
            &|| about("separator", r#""dimension_separator": "/""#, r#""dimension_separator": ".""#),
            "chunks under other names than its metadata give them",
        ),
        (
            "labels/cells",
            &|| place.file("labels/.zattrs", r#"{"labels": ["cells"]}"#),
            "its group lists it among labels",
        ),
        (
            "up",
            &|| place.file("up/.zattrs", ATTRIBUTES.replace("PATH", "../b/0")),
            "does not lie below the group",
        ),
        ("same", &|| place.file("same/.zattrs", ATTRIBUTES.replace("PATH", "0")), "are at one place"),
        ("missing", &|| fs::remove_dir_all(place.path("missing/1")).unwrap(), "array 1"),
        ("damaged", &|| place.file("damaged/0/0/1/2", "short"), "chunk 0/0/1/2"),
        ("long", &|| place.file("long/0/0/1/0", vec![0; 3 << 20]), "0/0/1/0: it has 3145728 bytes"),
        ("link", &|| link(&place, "../../../../b/0/0/0/0", "link/0/0/0/0"), "0/0/0/0 is a link"),
        ("beside", &|| link(&place, "../b", "beside/other"), "other is a link or a special file"),
        (
            "smaller",
            &|| Image::of([1, 15, 20], [16, 16]).write_array(&place, "smaller/1"),
            "is not a whole-number reduction",
        ),
    ];
    image.write(&place, "b");
    for (name, change, told) in cases {
        image.write(&place, name);
        change();
        place.run(&format!("{name} --out out --devices cpu")).exits(1).says(told);
    }
    for (flags, told) in [
        ("--format png --out out", "leave --format and --frames out for it"),
        ("--frames split --out out", "leave --format and --frames out for it"),
        ("--mask b --out out", "leave --mask out for it"),
        (
            "--max-pixels 1000 --out out",
            "40x40 pixels exceeds the limit of 1000 pixels; raise it with --max-pixels",
        ),
    ] {
        place.run(&format!("b {flags} --devices cpu")).exits(1).says(told);
    }
    Image::of([1, 1100, 1000], [1100, 1000]).write(&place, "large");
    place.run("large --out out --devices cpu --memory 1MiB").exits(1).says("raise --memory");
    assert_eq!(place.tree("out"), Vec::<String>::new());
}

#[test]
fn what_takes_more_memory_than_there_is_is_refused_before_it_does() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    image.write(&place, "in/a.zarr");
    let with_channels = |count: u32| {
        for array in ["0", "1"] {
            let name = format!("in/a.zarr/{array}/.zarray");
            let about = String::from_utf8(place.read(&name)).unwrap();
            let (before, after) = about.split_once("\"shape\": [").unwrap();
            let (_, after) = after.split_once(',').unwrap();
            place.file(&name, format!("{before}\"shape\": [{count},{after}"));
        }
    };
    let run = |memory: &str| place.run(&format!("in --out out --devices cpu --memory {memory}"));
    with_channels(1_000_000);
    run("1GiB").exits(1).says("more than 65536 channels");
    with_channels(20_000);
    run("16MiB").exits(1).says("tables of levels for 20000 channels").says("--memory");
    with_channels(2);
    run("16MiB").exits(0);
    let attributes = ATTRIBUTES.replace("PATH", "1");
    let rest = attributes.strip_prefix('{').unwrap();
    place.file("in/a.zarr/.zattrs", format!("{{\"x\": [{}0], {rest}", "0, ".repeat(400_000)));
    run("16MiB").exits(1).says("metadata in .zattrs").says("--memory");
    run("256MiB").exits(0);
}

#[test]
fn the_metadata_of_a_collection_go_with_its_images() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    image.write(&place, "in/plate/A/1");
    image.write(&place, "in/file/0");
    place.file("in/plate/.zattrs", r#"{"plate": {}}"#);
    place.file("in/plate/A/.zgroup", "{}");
    place.file("in/file/.zattrs", r#"{"bioformats2raw.layout": 3}"#);
    place.file("in/file/OME/METADATA.ome.xml", "<OME/>");
    place.file("in/file/OME/thumbnail.png.txt", "left");
    place.file("in/.zgroup", "{}");
    place.file("in/other/.zattrs", r#"{"plate": {}}"#);
    place.run("in --out out --devices cpu").exits(0);
    let copied = ["plate/.zattrs", "plate/A/.zgroup", "file/.zattrs", "file/OME/METADATA.ome.xml"];
    for name in copied {
        assert_eq!(place.read(format!("out/{name}")), place.read(format!("in/{name}")), "{name}");
    }
    let is_of_image = |name: &String| name.starts_with("plate/A/1/") || name.starts_with("file/0/");
    assert_eq!(place.tree("out").iter().filter(|name| !is_of_image(name)).count(), copied.len());
    place.run("in/file --out alone --devices cpu").exits(0);
    assert_eq!(place.read("alone/OME/METADATA.ome.xml"), b"<OME/>");
}

#[test]
fn metadata_of_a_collection_that_cannot_be_copied_have_failed_with_a_remedy() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    image.write(&place, "in/file/0");
    place.file("in/file/.zattrs", r#"{"bioformats2raw.layout": 3}"#);
    place.file("elsewhere.xml", "<OME/>");
    place.file("out/file/.zattrs", "another");
    fs::create_dir(place.path("in/file/OME")).unwrap();
    link(&place, "../../gone.xml", "in/file/OME/METADATA.ome.xml");
    let run = "in --out out --devices cpu";
    let told = [
        "in/file/.zattrs: these metadata of a collection are not copied: \
         out/file/.zattrs is another file of that name; move it away and run again",
        "in/file/OME/METADATA.ome.xml: cannot be read",
    ];
    for done in ["Done: 1 picture", "Skipped: 1 already done"] {
        let ran = place.run(run);
        ran.exits(1).says(done).says(told[0]).says(told[1]).says("Failed: 2");
    }
    let json = place.run(&format!("{run} --json")).exits(1).json();
    let failed = json["failed"].as_array().unwrap();
    assert!(failed.len() == 2 && failed[1]["input"].as_str().unwrap().ends_with(".zattrs"), "{json}");
    assert_eq!(place.read("out/file/.zattrs"), b"another");
    fs::remove_file(place.path("out/file/.zattrs")).unwrap();
    fs::remove_file(place.path("in/file/OME/METADATA.ome.xml")).unwrap();
    link(&place, "../../../elsewhere.xml", "in/file/OME/METADATA.ome.xml");
    place.run(&format!("{run} --links never")).exits(1).says("it is a link");
    place.run(run).exits(0);
    assert_eq!(place.read("out/file/.zattrs"), place.read("in/file/.zattrs"));
    assert_eq!(place.read("out/file/OME/METADATA.ome.xml"), b"<OME/>");
    fs::set_permissions(place.path("in/file/.zattrs"), fs::Permissions::from_mode(0o000)).unwrap();
    let Some(ran) = place.run_without_privileges("in --out other --devices cpu") else { return };
    ran.exits(1).says("in/file/.zattrs: these metadata of a collection are not copied: it cannot be read");
}

#[test]
fn chunks_that_were_never_written_are_told_and_those_of_the_fill_value_are_not() {
    let (place, image) = (Place::new(), Image::of([1, 40, 40], [16, 16]));
    image.write(&place, "in/a.zarr");
    fs::remove_file(place.path("in/a.zarr/0/0/1/1")).unwrap();
    let filled = place.run("in --out filled --devices cpu");
    assert!(!filled.exits(0).stderr().contains("never written"), "{filled}");
    let about = String::from_utf8(place.read("in/a.zarr/0/.zarray")).unwrap();
    place.file("in/a.zarr/0/.zarray", about.replace(r#""fill_value": 0"#, r#""fill_value": null"#));
    place.run("in --out out --devices cpu").exits(0).says("1 picture: parts that were never written");
    assert_eq!(place.tree("out/a.zarr/0"), place.tree("filled/a.zarr/0"));
}

/// Puts a link in the place of a file.
fn link(place: &Place, target: &str, name: &str) {
    let _ = fs::remove_file(place.path(name));
    place.link(target, name);
}

#[test]
fn a_run_that_is_killed_leaves_nothing_under_the_name_of_the_output() {
    let (place, image) = (Place::new(), Image::of([2, 900, 900], [64, 64]));
    image.write(&place, "in/a.zarr");
    for delay in [5, 20, 40, 60, 80, 120, 160, 240] {
        let mut child = place.histeqd("in --out out --devices cpu --overwrite").spawn().unwrap();
        sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        if Path::new(&place.path("out/a.zarr")).exists() {
            image.equalized().is_in(&place, "out/a.zarr");
        }
    }
    place.run("in --out out --devices cpu --overwrite").exits(0);
    image.equalized().is_in(&place, "out/a.zarr");
}

/// Returns the temporary folders of outputs in a folder.
fn temporaries(place: &Place, out: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(place.path(out)).into_iter().flatten().flatten().map(|entry| entry.path());
    found.filter(|path| path.join("0").is_dir() && path.to_string_lossy().contains("/.histeqd-")).collect()
}

/// Returns whether a temporary folder has each chunk of the largest array whole, in C order.
fn noted(folder: &Path) -> Vec<bool> {
    let noted = fs::read(folder.join("0/.histeqd-written")).unwrap_or_default();
    noted.into_iter().map(|byte| byte == 1).collect()
}

/// Runs histeqd and kills it once it has written so many chunks of an image to `out`. Returns its
/// temporary folder.
fn kill_at(place: &Place, arguments: &str, chunks: usize) -> PathBuf {
    let has_so_many = |folder: &PathBuf| noted(folder).iter().filter(|is_whole| **is_whole).count() >= chunks;
    for _ in 0..20 {
        let mut child = place.histeqd(arguments).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if temporaries(place, "out").iter().any(has_so_many) {
                child.kill().unwrap();
            }
            sleep(Duration::from_millis(1));
        }
        if let Some(folder) = temporaries(place, "out").into_iter().find(has_so_many) {
            assert!(!place.path("out/a.zarr").exists());
            return folder;
        }
        // The run ended first.
        fs::remove_dir_all(place.path("out")).unwrap();
    }
    panic!("{arguments} could not be killed in time");
}

/// Returns the chunks that are noted in a temporary folder, with the times at which they were
/// written.
fn times(image: &Image, folder: &Path) -> Vec<(String, SystemTime)> {
    let names = image.chunks().into_iter().map(|(name, _)| name).zip(noted(folder));
    let times = names.filter(|(_, is_whole)| *is_whole).map(|(name, _)| {
        let time = fs::metadata(folder.join("0").join(&name)).unwrap().modified().unwrap();
        (name, time)
    });
    times.collect()
}

/// Returns the name of a chunk with `at_once` noted chunks of a temporary folder on both sides: no
/// more are under way at once.
fn amid(image: &Image, folder: &Path, at_once: usize) -> String {
    let noted = noted(folder);
    let is_amid = |at: &usize| noted[at - at_once..at + at_once].iter().all(|is_whole| *is_whole);
    let at = (at_once..noted.len() - at_once).find(is_amid).unwrap();
    image.chunks().swap_remove(at).0
}

/// Changes a file in a way that can only be seen by reading it.
fn change_secretly(place: &Place, name: &str) {
    let time = fs::metadata(place.path(name)).unwrap().modified().unwrap();
    place.file(name, vec![255; place.read(name).len()]);
    fs::File::options().append(true).open(place.path(name)).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_run_goes_on_where_others_were_killed_and_makes_the_same_bytes() {
    // The number of chunks under way at once may change between runs.
    for (shape, flags, [little, more], at_once) in [
        ([2, 1600, 1000], "", ["--memory 4MiB --threads 1", "--memory 6MiB --threads 2"], 200),
        ([8, 320, 320], "--method clahe", ["--threads 1", "--threads 2"], 50),
    ] {
        let (place, image) = (Place::new(), Image::of(shape, [32, 64]));
        image.write(&place, "in/a.zarr");
        place.run(&format!("in --out whole --devices cpu --durability fast {flags}")).exits(0);
        let again = |amount| format!("in --out out --devices cpu --durability fast {flags} {amount}");
        let all = image.chunks().len();
        let kills = [(little, all / 4), (more, all / 2), (little, all / 2 + all / 8)];
        let left = kills.map(|(amount, chunks)| kill_at(&place, &again(amount), chunks));
        assert_eq!(left[0], left[2], "each goes on with the same folder");
        let before = times(&image, &left[2]);
        change_secretly(&place, &format!("in/a.zarr/0/{}", amid(&image, &left[2], at_once)));
        place.run(&again(more)).exits(0).says("1 picture");
        assert_eq!(content(&place, "out"), content(&place, "whole"), "{flags}");
        for (name, time) in before {
            let chunk = fs::metadata(place.path("out/a.zarr/0").join(&name)).unwrap();
            assert_eq!(chunk.modified().unwrap(), time, "{flags}: {name} was whole");
        }
    }
}

#[test]
fn with_other_settings_or_another_input_a_run_begins_anew() {
    let (place, mut image) = (Place::new(), Image::of([4, 320, 320], [32, 32]));
    image.write(&place, "in/a.zarr");
    let left = kill_at(&place, "in --out out --devices cpu --threads 1 --memory 4MiB", 200);
    let before = times(&image, &left);
    for (flags, is_other) in [("--strength 0.5", false), ("--overwrite", true)] {
        if is_other {
            image.samples.reverse();
            image.write(&place, "in/a.zarr");
        }
        place.run(&format!("in --out out --devices cpu {flags}")).exits(0).says("1 picture");
        place.run(&format!("in --out whole --devices cpu --durability fast {flags}")).exits(0);
        assert_eq!(content(&place, "out/a.zarr"), content(&place, "whole/a.zarr"), "{flags}");
    }
    image.equalized().is_in(&place, "out/a.zarr");
    image.samples.reverse();
    assert_eq!(times(&image, &left), before, "what is left of the first may be gone on with");
}
