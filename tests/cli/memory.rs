//! The bound of `--memory`, which includes files and their metadata, before they are read.

use std::fs::File;
use std::io::Write;
use std::iter;

use crate::harness::{Place, project};

/// A PNG of one gray row per item, with these chunks before its pixels. The pixels are stored,
/// which makes its file as long as they are.
fn png(width: usize, rows: usize, chunks: &[u8]) -> Vec<u8> {
    let size = [(width as u32).to_be_bytes(), (rows as u32).to_be_bytes()].concat();
    let mut pixels = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
    for row in 0..rows {
        let samples = (0..width).map(|x| (x / 7 + row) as u8 / 2);
        pixels.write_all(&iter::once(0).chain(samples).collect::<Vec<_>>()).unwrap();
    }
    [
        b"\x89PNG\r\n\x1a\n",
        &*chunk(*b"IHDR", &[&size[..], &[8, 0, 0, 0, 0]].concat()),
        chunks,
        &*chunk(*b"IDAT", &pixels.finish().unwrap()),
        &*chunk(*b"IEND", b""),
    ]
    .concat()
}

fn chunk(kind: [u8; 4], content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(&kind);
    crc.update(content);
    [&(content.len() as u32).to_be_bytes(), &kind, content, &crc.sum().to_be_bytes()].concat()
}

/// A TIFF of 8x8 gray pixels with a tag of this many bytes, all of which are a hole in its file.
fn tiff_with_tag(file: &mut File, bytes: u32) {
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    let entries = [
        entry(256, 3, 1, 8),
        entry(257, 3, 1, 8),
        entry(258, 3, 1, 8),
        entry(262, 3, 1, 1),
        entry(273, 4, 1, 8),
        entry(279, 4, 1, 64),
        entry(65000, 7, bytes, 512),
    ];
    let samples: Vec<u8> = (0..64).collect();
    let head = [&b"II*\0\x48\0\0\0"[..], &samples, &[7, 0], &entries.concat(), &[0; 4]].concat();
    file.write_all(&head).unwrap();
    file.set_len(512 + u64::from(bytes)).unwrap();
}

#[test]
fn a_huge_tag_is_refused_before_it_is_read() {
    let place = Place::new();
    place.file("a.tif", "");
    tiff_with_tag(&mut File::create(place.path("a.tif")).unwrap(), 900 << 20);
    let limit = place.run("a.tif --out out --memory 256MiB");
    limit.exits(1).says("failed: a.tif: metadata of 9437");
    limit.says("bytes takes more memory than the 268435456 bytes that --memory allows; raise --memory");
}

#[test]
fn a_file_longer_than_the_memory_is_refused_before_it_is_read() {
    let place = Place::new();
    place.file("a.png", png(8, 8, b""));
    File::options().append(true).open(place.path("a.png")).unwrap().set_len(500 << 20).unwrap();
    let ran = place.run("a.png --out out --memory 256MiB");
    ran.exits(1).says("failed: a.png: a file of 524288000 bytes takes more memory than the 268435456");
}

#[test]
fn chunks_that_are_passed_on_count_as_memory() {
    let place = Place::new();
    // A million chunks without content: 12 bytes of the file each, read and kept.
    place.file("a.png", png(8, 8, &chunk(*b"aaAb", b"").repeat(1_000_000)));
    place.run("a.png --out out --memory 20MiB").exits(1).says("but --memory allows 20971520; raise --memory");
    place.run("a.png --out out --memory 32MiB").exits(0);
    assert!(place.read("out/a.png").len() > 12_000_000, "they are still there");
}

#[test]
fn what_a_few_bytes_unpack_to_counts_as_memory() {
    let place = Place::new();
    let mut packet = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packet.write_all(&vec![b' '; 15 << 20]).unwrap();
    let xmp = [b"XML:com.adobe.xmp\0\x01\0\0\0", &*packet.finish().unwrap()].concat();
    place.file("a.png", png(8, 8, &chunk(*b"iTXt", &xmp)));
    place.run("a.png --out out --format tiff --memory 14MiB").exits(1).says("raise --memory");
    place.run("a.png --out out --format tiff --memory 100MiB").exits(0);
}

/// Each has less than 2 KiB: a block for each sample in 32 layers, in the main header, in that of a
/// tile-part, and after a segment of a wrong length; 40 orders of its packets; many tiles of many
/// steps.
#[test]
fn what_the_header_of_a_jpeg_2000_asks_for_counts_as_memory() {
    let place = Place::new();
    for name in ["block-a-sample", "own-coding", "hidden-coding", "orders", "tiles-of-steps"] {
        let kept = project().join("fuzz/kept/jp2").join(name).with_extension("j2k");
        place.file("a.j2k", std::fs::read(kept).unwrap());
        place
            .run("a.j2k --out out --memory 20MiB")
            .exits(1)
            .says("but --memory allows 20971520; raise --memory");
    }
    place.file("a.j2k", include_bytes!("../data/codec/jp2-rgb.j2k"));
    place.run("a.j2k --out out --format png --memory 20MiB").exits(0);
}

#[test]
fn a_profile_that_unpacks_to_more_than_any_is_refused() {
    let place = Place::new();
    // Its header claims 256 MiB for the packed form alone.
    place.file("a.jxl", std::fs::read(project().join("fuzz/kept/jxl/long-profile.jxl")).unwrap());
    place.run("a.jxl --out out").exits(1).says("its colour profile has more than 8 MiB");
}

#[test]
fn application_data_without_end_are_refused() {
    let place = Place::new();
    let tiny = include_bytes!("../data/jpeg/tiny.jpg");
    let segments = [0xff, 0xe3, 0, 2].repeat(20_001);
    place.file("a.jpg", [&tiny[..2], &segments, &tiny[2..]].concat());
    place.run("a.jpg --out out").exits(1).says("it has more than 20000 segments of application data");
}

#[test]
fn large_honest_metadata_are_kept() {
    let place = Place::new();
    let exif = [&b"II*\0\x08\0\0\0\0\0"[..], &vec![7; 20 << 20]].concat();
    place.file("a.png", png(8, 8, &chunk(*b"eXIf", &exif)));
    tiff_with_tag(&mut File::create(place.path("b.tif")).unwrap(), 60 << 20);
    place.run("a.png b.tif --out out").exits(0);
    assert!(place.read("out/a.png").windows(exif.len()).any(|window| window == exif));
    assert!(place.read("out/b.tif").len() > 60 << 20);
}

/// The tables of a row are for each of its columns, and the rows that pad it are copies of it.
#[test]
fn a_row_of_clahe_takes_no_more_memory_than_it_asks_for() {
    const WIDTH: u64 = 1 << 24;
    /// Memory that does not count: the program's own, and some for each thread.
    const BESIDES: u64 = 24 << 20;
    let place = Place::new();
    place.file("row.pgm", format!("P5\n{WIDTH} 1\n255\n"));
    let row = File::options().append(true).open(place.path("row.pgm")).unwrap();
    row.set_len(row.metadata().unwrap().len() + WIDTH).unwrap();
    let run = "row.pgm --out out --devices cpu --threads 2 --method clahe --memory";
    let refused = place.run(&format!("{run} 20MiB"));
    refused.exits(1).says("but --memory allows 20971520; raise --memory to ");
    let told = refused.stderr();
    let enough = told.split_once("raise --memory to ").unwrap().1.split(':').next().unwrap();
    let mut child = place.histeqd(&format!("{run} {enough}")).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
        most = peak.map_or(most, |peak| peak.trim().parse::<u64>().unwrap() << 10);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(child.wait().unwrap().success());
    let enough: u64 = enough.parse().unwrap();
    assert!((2 * WIDTH..enough + BESIDES).contains(&most), "{most} bytes of {enough}");
}

#[test]
fn pictures_that_do_not_fit_into_memory_together_wait_for_each_other() {
    let place = Place::new();
    // Each takes some 2 MB for its file and as much for its pixels: four threads may hold four
    // files and have no room for pixels.
    let picture = png(1000, 2000, b"");
    for number in 0..8 {
        place.file(format!("in/{number}.png"), &picture);
    }
    for memory in ["6MiB", "9MiB", "14MiB"] {
        let out = format!("out-{memory}");
        place.run(&format!("in --out {out} --threads 4 --memory {memory}")).exits(0);
        assert_eq!(place.tree(&out).len(), 8);
    }
}

#[test]
fn all_limits_that_a_picture_exceeds_are_named_at_once() {
    let place = Place::new();
    // The file is longer than its pixels, and that counts too.
    place.file("a.pgm", [&b"P5 3000 2000 255\n"[..], &[7; 6_000_000]].concat());
    let large = "a.pgm: too large: 3000x2000 pixels in 6000017 bytes exceeds the limits of 1000000 pixels";
    let both = "a.pgm --out out --max-pixels 1MP --max-bytes 2MB";
    for more in ["", " --dry-run"] {
        let ran = place.run(&format!("{both}{more}"));
        ran.exits(1).says(&format!(
            "{large} and 2000000 bytes; raise them with --max-pixels 6000000 and --max-bytes 6000017\n"
        ));
    }
    // A JPEG cannot be made of bands.
    let ran = place.run(&format!("{both} --memory 4MiB --format jpeg"));
    ran.exits(1)
        .says(&format!("{large}, 2000000 bytes and 4"))
        .says("; raise them with --max-pixels 6000000, --max-bytes 6000017 and --memory ");
    // The named values are enough.
    let flags = ran.stderr();
    let flags = flags.split_once("raise them with ").unwrap().1.lines().next().unwrap();
    place
        .run(&format!("a.pgm --out raised --format jpeg {}", flags.replace([','], "").replace(" and", "")))
        .exits(0);
    place
        .run("a.pgm --out out --max-pixels 6MP --max-bytes 6000016")
        .exits(1)
        .says("a file of 6000017 bytes");
    place.run("a.pgm --out out --max-pixels 6MP --max-bytes 6000017").exits(0);
}
