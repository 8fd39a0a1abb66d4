//! Channels that are not colours: each is enhanced by itself, whether it is a page of its own or
//! samples of one, and the channels of a stack may have a table of levels each.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::slice;

use crate::harness::{Place, Ran, other_readers_agree};
use crate::samples::Random;
use crate::stacks::Storage;
use crate::together::table;

const WIDTH: usize = 37;
const HEIGHT: usize = 23;
const PIXELS: usize = WIDTH * HEIGHT;
const DESCRIPTION: u16 = 270;
const OFFSETS: u16 = 273;
const LENGTHS: u16 = 279;
const PLANAR_CONFIGURATION: u16 = 284;
const PREDICTOR: u16 = 317;
const EXTRA_SAMPLES: u16 = 338;
/// A value of PhotometricInterpretation.
const RGB: u32 = 2;

/// The samples of a channel of a page, in 16 bits whatever the file has.
type Channel = Vec<u16>;

/// Returns a ramp with noise, with other levels for every number, below `top`.
fn channel(number: usize, top: u64) -> Channel {
    let mut random = Random(number as u64 + 1);
    let low = number as u64 * 7 % (top / 2);
    (0..PIXELS as u64)
        .map(|at| ((low + at * top / 3 / PIXELS as u64 + random.below(9)) % top) as u16)
        .collect()
}

/// The arrangement of a page's channels, and their storage.
#[derive(Clone, Copy, Debug)]
struct Form {
    planar: bool,
    bytes: usize,
    storage: Storage,
}

impl Form {
    fn raster(self, samples: impl Iterator<Item = u16>) -> Vec<u8> {
        samples.flat_map(|sample| sample.to_le_bytes()[..self.bytes].to_vec()).collect()
    }

    /// The strips of a page, a few rows each.
    fn strips(self, channels: &[Channel]) -> Vec<Vec<u8>> {
        let rows = 5 * WIDTH;
        if self.planar || channels.len() == 1 {
            let strips = channels.iter().flat_map(|channel| channel.chunks(rows));
            return strips.map(|strip| self.raster(strip.iter().copied())).collect();
        }
        let pixels: Vec<u16> =
            (0..PIXELS).flat_map(|at| channels.iter().map(move |channel| channel[at])).collect();
        pixels.chunks(rows * channels.len()).map(|strip| self.raster(strip.iter().copied())).collect()
    }

    /// A TIFF of pages of these channels, with a description of the first.
    fn file(self, pages: &[Vec<Channel>], description: &str) -> Vec<u8> {
        self.file_called(pages, description, 1)
    }

    /// The same with this photometric interpretation.
    fn file_called(self, pages: &[Vec<Channel>], description: &str, photometric: u32) -> Vec<u8> {
        let mut file = b"II*\0\0\0\0\0".to_vec();
        let mut link = 4;
        for (number, channels) in pages.iter().enumerate() {
            let count = channels.len();
            let packed: Vec<Vec<u8>> =
                self.strips(channels).iter().map(|strip| self.storage.packed(strip)).collect();
            let mut offsets = Vec::new();
            for strip in &packed {
                offsets.push(file.len() as u32);
                file.extend(strip);
            }
            file.resize(file.len().next_multiple_of(2), 0);
            let mut tags = vec![
                (256, 4, vec![WIDTH as u32]),
                (257, 4, vec![HEIGHT as u32]),
                (258, 3, vec![8 * self.bytes as u32; count]),
                (259, 3, vec![self.storage.number()]),
                (262, 3, vec![photometric]),
                (OFFSETS, 4, offsets),
                (277, 3, vec![count as u32]),
                (278, 4, vec![5]),
                (LENGTHS, 4, packed.iter().map(|strip| strip.len() as u32).collect()),
                (PLANAR_CONFIGURATION, 3, vec![if self.planar { 2 } else { 1 }]),
            ];
            if photometric == RGB && count == 4 {
                tags.push((EXTRA_SAMPLES, 3, vec![2]));
            } else if photometric != RGB && count > 1 {
                tags.push((EXTRA_SAMPLES, 3, vec![0; count - 1]));
            }
            if number == 0 && !description.is_empty() {
                tags.push((DESCRIPTION, 2, format!("{description}\0").bytes().map(u32::from).collect()));
            }
            link = append_directory(&mut file, tags, link);
        }
        file
    }
}

/// Appends a directory of tags, each with its type and values, and makes the `link` lead to it.
/// Returns the place of the next link.
fn append_directory(file: &mut Vec<u8>, mut tags: Vec<(u16, u16, Vec<u32>)>, link: usize) -> usize {
    tags.sort_by_key(|(tag, ..)| *tag);
    let mut entries = (tags.len() as u16).to_le_bytes().to_vec();
    for (tag, kind, values) in tags {
        let size = [0, 1, 1, 2, 4][usize::from(kind)];
        let mut bytes: Vec<u8> =
            values.iter().flat_map(|value| value.to_le_bytes()[..size].to_vec()).collect();
        if bytes.len() > 4 {
            let at = file.len() as u32;
            file.extend(&bytes);
            file.resize(file.len().next_multiple_of(2), 0);
            bytes = at.to_le_bytes().to_vec();
        }
        bytes.resize(4, 0);
        entries.extend([&tag.to_le_bytes()[..], &kind.to_le_bytes()].concat());
        entries.extend([&(values.len() as u32).to_le_bytes()[..], &bytes].concat());
    }
    let at = file.len();
    file[link..link + 4].copy_from_slice(&(at as u32).to_le_bytes());
    file.extend(entries);
    file.extend([0; 4]);
    file.len() - 4
}

/// A page as it is in a file, read by this test alone.
struct Page {
    tags: Vec<(u16, Vec<u32>)>,
    channels: Vec<Channel>,
}

impl Page {
    fn numbers(&self, tag: u16) -> &[u32] {
        self.tags
            .iter()
            .find_map(|(other, numbers)| (*other == tag).then_some(&numbers[..]))
            .unwrap_or_default()
    }
}

/// Reads the pages of a little-endian TIFF that is stored, or compressed by deflate or LZW with or
/// without differences.
fn read(path: &Path) -> Vec<Page> {
    let file = fs::read(path).unwrap();
    let number =
        |at: usize, bytes: usize| (0..bytes).fold(0, |sum, i| sum | u32::from(file[at + i]) << (8 * i));
    let (mut pages, mut at) = (Vec::new(), number(4, 4) as usize);
    while at > 0 {
        let entries = number(at, 2) as usize;
        let tags = (0..entries).map(|entry| at + 2 + 12 * entry).map(|entry| {
            let size = match number(entry + 2, 2) {
                3 => 2,
                4 => 4,
                _ => 1,
            };
            let count = number(entry + 4, 4) as usize;
            let values = if count * size > 4 { number(entry + 8, 4) as usize } else { entry + 8 };
            (number(entry, 2) as u16, (0..count).map(|i| number(values + i * size, size)).collect())
        });
        let mut page = Page { tags: tags.collect(), channels: Vec::new() };
        page.channels = channels_of(&page, &file);
        pages.push(page);
        at = number(at + 2 + 12 * entries, 4) as usize;
    }
    pages
}

fn channels_of(page: &Page, file: &[u8]) -> Vec<Channel> {
    let count = page.numbers(258).len();
    let is_planar = page.numbers(PLANAR_CONFIGURATION) == [2];
    let (between, bytes) = (if is_planar { 1 } else { count }, page.numbers(258)[0] as usize / 8);
    let strips = page.numbers(OFFSETS).iter().zip(page.numbers(LENGTHS));
    let samples = strips.flat_map(|(&at, &length)| {
        let strip = unpacked(&file[at as usize..][..length as usize], page.numbers(259)[0]);
        let mut samples: Vec<u16> = strip
            .chunks(bytes)
            .map(|sample| u16::from_le_bytes([sample[0], *sample.get(1).unwrap_or(&0)]))
            .collect();
        if page.numbers(PREDICTOR) == [2] {
            let most = if bytes == 1 { 0xff } else { 0xffff };
            for row in samples.chunks_mut(WIDTH * between) {
                (between..row.len()).for_each(|at| row[at] = row[at].wrapping_add(row[at - between]) & most);
            }
        }
        samples
    });
    let samples: Vec<u16> = samples.collect();
    match is_planar {
        true => samples.chunks(PIXELS).map(<[u16]>::to_vec).collect(),
        false => {
            (0..count).map(|first| samples.iter().skip(first).step_by(count).copied().collect()).collect()
        }
    }
}

fn unpacked(strip: &[u8], compression: u32) -> Vec<u8> {
    let mut samples = Vec::new();
    match compression {
        1 => samples.extend(strip),
        5 => {
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            samples = decoder.decode(strip).unwrap();
        }
        _ => drop(flate2::read::ZlibDecoder::new(strip).read_to_end(&mut samples).unwrap()),
    }
    samples
}

/// All ways in which channels may be stored.
fn forms() -> impl Iterator<Item = Form> {
    [false, true].into_iter().flat_map(|planar| {
        [1, 2].into_iter().flat_map(move |bytes| {
            let all = [Storage::Stored, Storage::Lzw, Storage::Deflate];
            all.into_iter().map(move |storage| Form { planar, bytes, storage })
        })
    })
}

fn top(form: Form) -> u64 {
    if form.bytes == 1 { 200 } else { 9000 }
}

#[test]
fn each_channel_becomes_what_it_becomes_as_a_file_of_its_own() {
    let place = Place::new();
    for (number, form) in forms().enumerate() {
        let channels: Vec<_> = (0..2 + number % 4).map(|at| channel(at, top(form))).collect();
        place.file(format!("in/{number}.tif"), form.file(slice::from_ref(&channels), "what it shows"));
        for (at, channel) in channels.iter().enumerate() {
            place.file(format!("apart/{number}-{at}.tif"), form.file(&[vec![channel.clone()]], ""));
        }
    }
    place.file(
        "reference.pgm",
        [b"P5 16 16 255\n".to_vec(), (0..=255).map(|level| level / 2).collect()].concat(),
    );
    let ways = [
        "global",
        "stretch",
        "clahe --tiles 3x2",
        "clahe --clip-limit 40",
        "match --reference reference.pgm",
    ];
    for (way, method) in ways.into_iter().enumerate() {
        // The reference has 8 bits.
        let taken = forms().enumerate().filter(|(_, form)| !method.starts_with("match") || form.bytes == 1);
        let taken: Vec<_> = taken.collect();
        let names: String = taken
            .iter()
            .map(|(number, _)| format!(" --include {number}.tif --include {number}-*.tif"))
            .collect();
        for folder in ["in", "apart"] {
            place
                .run(&format!("{folder} --out {folder}{way} --method {method} --threads {}{names}", way + 1))
                .exits(0);
        }
        for (number, form) in taken {
            let [page] = &read(&place.path(format!("in{way}/{number}.tif")))[..] else { panic!("one page") };
            assert_eq!(page.channels.len(), 2 + number % 4, "{form:?}");
            for (at, channel) in page.channels.iter().enumerate() {
                let alone = read(&place.path(format!("apart{way}/{number}-{at}.tif")));
                assert!(alone[0].channels == [channel.clone()], "{form:?}, channel {at} by {method}");
            }
            assert_eq!(page.numbers(PLANAR_CONFIGURATION) == [2], form.planar, "{form:?}");
            assert_eq!(page.numbers(259), [form.storage.number()], "{form:?}");
            assert_eq!(page.numbers(EXTRA_SAMPLES), vec![0; page.channels.len() - 1], "{form:?}");
            assert!(
                page.numbers(DESCRIPTION)
                    .iter()
                    .copied()
                    .eq(b"what it shows\0".iter().copied().map(u32::from))
            );
        }
    }
}

#[test]
fn pages_of_channels_come_back_in_their_order_from_any_number_of_threads() {
    let place = Place::new();
    for (number, form) in forms().enumerate() {
        let pages: Vec<Vec<_>> =
            (0..7).map(|page| (0..3).map(|at| channel(3 * page + at, top(form))).collect()).collect();
        place.file(format!("in/{number}.tif"), form.file(&pages, ""));
    }
    place.run("in --out one --threads 1").exits(0).says("Done: 12 pictures");
    place.run("in --out few --threads 5 --memory 1MiB").exits(0);
    place.run("in --out worker --devices cpu-workers:2").exits(0);
    for (number, form) in forms().enumerate() {
        let name = format!("{number}.tif");
        for other in ["few", "worker"] {
            assert!(
                place.read(format!("one/{name}")) == place.read(format!("{other}/{name}")),
                "{form:?} {other}"
            );
        }
        let pages = read(&place.path(format!("one/{name}")));
        assert_eq!(pages.len(), 7, "{form:?}");
        for (page, found) in pages.iter().enumerate() {
            for (at, found) in found.channels.iter().enumerate() {
                let levels = if form.bytes == 1 { 256 } else { 65_536 };
                let expected = equalized(&[&channel(3 * page + at, top(form))], levels);
                assert!(expected == [found.clone()], "{form:?}, page {page}, channel {at}");
            }
        }
    }
}

/// Returns channels equalized by one table of all of them, by the textbook.
fn equalized(channels: &[&Channel], levels: usize) -> Vec<Channel> {
    let lut = table(channels.iter().flat_map(|channel| channel.iter().copied()), levels);
    let through = |channel: &Channel| channel.iter().map(|&sample| lut[usize::from(sample)]).collect();
    channels.iter().map(|channel| through(channel)).collect()
}

#[test]
fn a_channel_of_a_stack_has_one_table_over_all_slices_and_times() {
    const OME: &str = "<OME UUID=\"urn:uuid:1\"><Image><Pixels DimensionOrder=\"XYZCT\" Type=\"uint16\" SizeC=\"2\" SizeZ=\"3\" SizeT=\"2\">\
                       <Channel/><Channel/><TiffData/></Pixels></Image></OME>";
    let place = Place::new();
    let form = Form { planar: false, bytes: 2, storage: Storage::Deflate };
    let channels: Vec<_> = (0..12).map(|number| channel(number, 9000)).collect();
    let pages: Vec<_> = channels.iter().map(|channel| vec![channel.clone()]).collect();
    let by_channel = |channel: usize, count: usize| (0..12).filter(move |page| page % count == channel);
    let czt = |channel| by_channel(channel, 2).collect::<Vec<_>>();
    let zct = |channel| (0..12).filter(|page| page / 3 % 2 == channel).collect::<Vec<_>>();
    for (name, description, order) in [
        (
            "imagej",
            "ImageJ=1.53\nimages=12\nchannels=2\nslices=3\nframes=2\nhyperstack=true\n",
            [czt(0), czt(1)],
        ),
        ("ome", OME, [zct(0), zct(1)]),
        ("axes", "{\"shape\": [2, 2, 3, 23, 37], \"axes\": \"TCZYX\"}", [zct(0), zct(1)]),
    ] {
        place.file(format!("in/{name}.tif"), form.file(&pages, description));
        for (run, flags) in
            ["--threads 1", "--threads 3 --memory 1MiB", "--devices cpu-workers:2"].iter().enumerate()
        {
            place.run(&format!("in/{name}.tif --out {name}{run} --together channel {flags}")).exits(0);
            let found = read(&place.path(format!("{name}{run}/{name}.tif")));
            for pages in &order {
                let expected =
                    equalized(&pages.iter().map(|&page| &channels[page]).collect::<Vec<_>>(), 65_536);
                for (page, expected) in pages.iter().zip(expected) {
                    assert!(found[*page].channels == [expected], "{name} {flags}: page {page}");
                }
            }
        }
    }
    // A file without channels has one, and samples of a page are channels wherever they lie.
    place.file("plain.tif", form.file(&pages, ""));
    for (together, out) in [("channel", "c"), ("file", "f")] {
        place.run(&format!("plain.tif --out {out}.tif --together {together}")).exits(0);
    }
    assert!(place.read("c.tif") == place.read("f.tif"));
    for planar in [false, true] {
        let pages: Vec<_> = channels.chunks(2).map(<[Channel]>::to_vec).collect();
        place.file("in.tif", Form { planar, ..form }.file(&pages, ""));
        place.run("in.tif --out out.tif --together channel").exits(0);
        let found = read(&place.path("out.tif"));
        for at in 0..2 {
            let of_channel: Vec<_> = pages.iter().map(|page| &page[at]).collect();
            for (page, expected) in found.iter().zip(equalized(&of_channel, 65_536)) {
                assert!(page.channels[at] == expected, "planar: {planar}");
            }
        }
    }
}

#[test]
fn planes_that_are_called_rgb_are_times_slices_or_channels_where_the_description_says_so() {
    let place = Place::new();
    let form = Form { planar: true, bytes: 2, storage: Storage::Stored };
    for (number, (axes, shape, pages, planes)) in [
        ("TYX", "4, 23, 37", 1, 4),
        ("ZYX", "3, 23, 37", 1, 3),
        ("CYX", "3, 23, 37", 1, 3),
        ("TZYX", "2, 4, 23, 37", 2, 4),
    ]
    .into_iter()
    .enumerate()
    {
        let channels: Vec<_> = (0..pages * planes).map(|number| channel(number, 9000)).collect();
        let by_page: Vec<_> = channels.chunks(planes).map(<[Channel]>::to_vec).collect();
        let description = format!("{{\"shape\": [{shape}], \"axes\": \"{axes}\"}}");
        place.file(format!("in/{number}.tif"), form.file_called(&by_page, &description, RGB));
        let alone: Vec<_> = channels.iter().map(|channel| vec![channel.clone()]).collect();
        place.file(format!("pages/{number}.tif"), form.file(&alone, &description));
        for (run, flags) in ["--together page", "--together channel", "--together file"].iter().enumerate() {
            let found = |folder: &str| {
                place.run(&format!("{folder}/{number}.tif --out {folder}{run} {flags}")).exits(0);
                read(&place.path(format!("{folder}{run}/{number}.tif")))
            };
            let (found, expected) = (found("in"), found("pages"));
            let expected = expected.into_iter().flat_map(|page| page.channels);
            assert!(found.iter().flat_map(|page| page.channels.clone()).eq(expected), "{axes} {flags}");
            assert!(found.iter().all(|page| page.numbers(262) == [1]), "{axes} {flags}");
            let text = description.bytes().map(u32::from).chain([0]);
            assert!(found[0].numbers(DESCRIPTION).iter().copied().eq(text), "{axes} {flags}");
        }
        if axes.contains('Z') {
            for folder in ["in", "pages"] {
                place
                    .run(&format!("{folder}/{number}.tif --out {folder}-3d --method clahe --tiles 2x2x2"))
                    .exits(0);
            }
            let [of_planes, of_pages] = ["in", "pages"].map(|folder| {
                let pages = read(&place.path(format!("{folder}-3d/{number}.tif")));
                pages.into_iter().flat_map(|page| page.channels).collect::<Vec<_>>()
            });
            assert!(of_planes == of_pages, "{axes}");
        }
    }
    // Samples of colours are colours.
    let colours = (0..3).map(|number| channel(number, 9000)).collect::<Vec<_>>();
    let description = "{\"shape\": [3, 23, 37], \"axes\": \"SYX\"}";
    place.file("rgb.tif", form.file_called(&[colours], description, RGB));
    place.run("rgb.tif --out out.tif").exits(0);
    assert_eq!(read(&place.path("out.tif"))[0].numbers(262), [RGB]);
}

#[test]
fn a_stack_that_does_not_tell_its_channels_is_refused_with_a_remedy() {
    let place = Place::new();
    let form = Form { planar: true, bytes: 1, storage: Storage::Stored };
    let pages: Vec<_> = (0..4).map(|number| vec![channel(number, 200)]).collect();
    let ome = "<OME><Image><Pixels DimensionOrder=\"XYZCT\" SizeC=\"2\" SizeZ=\"2\" SizeT=\"1\"><TiffData IFD=\"1\"/></Pixels></Image></OME>";
    place.file("in/a.tif", form.file(&pages, ome));
    for flags in ["", "--dry-run"] {
        place
            .run(&format!("in --out out --together channel {flags}"))
            .exits(1)
            .says("a.tif: its description does not assign its pages to its channels")
            .says("use --together file or page");
    }
    place.run("in --out out --together file").exits(0);
}

#[test]
fn a_stack_is_done_by_channels_where_these_are_told_and_by_pages_elsewhere() {
    let place = Place::new();
    let form = Form { planar: true, bytes: 2, storage: Storage::Deflate };
    let pages: Vec<_> = (0..4).map(|number| vec![channel(number, 9000)]).collect();
    let unknown = "<OME><Image><Pixels DimensionOrder=\"XYZCT\" SizeC=\"2\" SizeZ=\"2\" SizeT=\"1\"><TiffData IFD=\"1\"/></Pixels></Image></OME>";
    place.file("in/told.tif", form.file(&pages, "ImageJ=1.53\nimages=4\nchannels=2\nslices=2\n"));
    place.file("in/untold.tif", form.file(&pages, unknown));
    place.file("in/one.tif", form.file(&pages[..1], ""));
    let floats =
        |page: usize| (0..20_u16).flat_map(move |at| (f32::from(at) * (1.0 + page as f32)).to_le_bytes());
    let pfm = |page: usize| b"Pf\n5 4\n-1\n".iter().copied().chain(floats(page)).collect::<Vec<u8>>();
    place.file("in/float.pfm", pfm(2));
    place.run("in --out page --method stretch --levels auto --together page").exits(0);
    place.run("in/told.tif --out channel --method stretch --levels auto --together channel").exits(0);
    for flags in ["", "--overwrite --threads 1 --memory 1MiB", "--overwrite --dry-run", "--resume"] {
        place
            .run(&format!("in --out stack --method stretch --levels auto --together stack {flags}"))
            .exits(0);
        for name in ["untold.tif", "one.tif", "float.pfm"] {
            assert!(
                place.read(format!("stack/{name}")) == place.read(format!("page/{name}")),
                "{name} {flags}"
            );
        }
        assert!(place.read("stack/told.tif") == place.read("channel/told.tif"), "{flags}");
    }
    assert!(place.read("page/told.tif") != place.read("channel/told.tif"));
    // The preset accepts everything that it did page by page.
    for flags in [
        "--method clahe",
        "--color per-channel",
        "--frames split",
        "--method clahe --tiles 2x2x1 --levels full",
    ] {
        place.run(&format!("in/told.tif --out other --overwrite --preset microscopy {flags}")).exits(0);
    }
    place.run("histogram in/told.tif --counts counts.json").exits(0);
    place.run("in/told.tif --out lut --preset microscopy --levels full --lut counts.json").exits(0);
}

#[test]
fn pages_of_floats_have_tables_of_their_own_in_a_stack_of_others() {
    let place = Place::new();
    let page = |number: usize| {
        let samples = (0..PIXELS).map(|at| (at * (number + 1)) as f32 / 7.0);
        samples.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    };
    let mut file = b"II*\0\0\0\0\0".to_vec();
    let mut link = 4;
    for number in 0..3 {
        let at = file.len() as u32;
        file.extend(page(number));
        let tags = vec![
            (256, 4, vec![WIDTH as u32]),
            (257, 4, vec![HEIGHT as u32]),
            (258, 3, vec![32]),
            (259, 3, vec![1]),
            (262, 3, vec![1]),
            (OFFSETS, 4, vec![at]),
            (277, 3, vec![1]),
            (278, 4, vec![HEIGHT as u32]),
            (LENGTHS, 4, vec![4 * PIXELS as u32]),
            (339, 3, vec![3]),
        ];
        file.resize(file.len().next_multiple_of(2), 0);
        link = append_directory(&mut file, tags, link);
    }
    place.file("in/a.tif", file);
    place.run("in --out page --method stretch").exits(0);
    place.run("in --out stack --method stretch --together stack").exits(0);
    assert!(place.read("stack/a.tif") == place.read("page/a.tif"));
    place.run("in --out refused --method stretch --together channel").exits(1).says("--range");
}

#[test]
fn bands_of_several_files_have_a_table_each() {
    let place = Place::new();
    let form = |planar| Form { planar, bytes: 2, storage: Storage::Deflate };
    let files: Vec<Vec<Channel>> =
        (0..2).map(|file| (0..3).map(|band| channel(3 * file + band, 9000)).collect()).collect();
    for (name, file) in ["a", "b"].iter().zip(&files) {
        place.file(format!("in/{name}.tif"), form(*name == "b").file(slice::from_ref(file), ""));
        for (band, samples) in file.iter().enumerate() {
            place.file(format!("{band}/{name}.tif"), form(false).file(&[vec![samples.clone()]], ""));
        }
    }
    let band_of = |out: &str, name: &str, band: usize| {
        read(&place.path(format!("{out}/{name}.tif")))[0].channels[band].clone()
    };
    for flags in [
        "--together all",
        "--together folder --memory 1MiB",
        "--together-by '^()'",
        "--together all --devices cpu-workers:2",
    ] {
        place.run(&format!("in --out all --overwrite {}", flags.replace('\'', ""))).exits(0);
        for (band, (a, b)) in files[0].iter().zip(&files[1]).enumerate() {
            let expected = equalized(&[a, b], 65_536);
            for (name, expected) in ["a", "b"].iter().zip(expected) {
                assert!(band_of("all", name, band) == expected, "{flags}, {name}, band {band}");
            }
        }
    }
    place.run("histogram in --counts counts.json").exits(0);
    place.run("in --out lut --lut counts.json").exits(0);
    for name in ["a", "b"] {
        assert!(place.read(format!("lut/{name}.tif")) == place.read(format!("all/{name}.tif")), "{name}");
    }
    place.run("histogram in/b.tif --counts b.json").exits(0);
    for (reference, together) in [("in/b.tif", "page"), ("b.json", "page"), ("in/b.tif", "channel")] {
        let line = format!(
            "in/a.tif --out match --overwrite --method match --reference {reference} --together {together}"
        );
        place.run(&line).exits(0);
        for band in 0..3 {
            let alone = format!(
                "{band}/a.tif --out alone/{band} --overwrite --method match --reference {band}/b.tif"
            );
            place.run(&alone).exits(0);
            let expected = band_of(&format!("alone/{band}"), "a", 0);
            assert!(band_of("match", "a", band) == expected, "{reference}, {together}, band {band}");
        }
    }
    // Gray has no band, and a picture with more bands than the reference fails.
    place.run("in/a.tif --out gray --method match --reference 0/b.tif").exits(0);
    place.file("two.tif", form(false).file(&[files[0][..2].to_vec()], ""));
    place
        .run("in/a.tif --out two --method match --reference two.tif")
        .exits(1)
        .says("it has a channel 3, and the reference two.tif has 2; use a reference with as many channels");
    // One table for a file is one for all of its bands.
    place.run("in/a.tif --out file --together file").exits(0);
    for (band, expected) in equalized(&files[0].iter().collect::<Vec<_>>(), 65_536).into_iter().enumerate() {
        assert!(band_of("file", "a", band) == expected, "band {band}");
    }
}

#[test]
fn a_service_and_a_run_that_resumes_take_channels() {
    let place = Place::new();
    let form = Form { planar: false, bytes: 2, storage: Storage::Lzw };
    let pages: Vec<_> = (0..4).map(|number| vec![channel(number, 9000)]).collect();
    let description = "ImageJ=1.53\nimages=4\nchannels=2\nslices=2\n";
    place.file("in/a.tif", form.file(&pages, description));
    place.run("in --out expected --together channel").exits(0);
    place.run("in --out out --together file --resume").exits(0).says("Done: 1 picture");
    place.run("in --out out --together channel --resume").exits(0).says("Done: 1 picture");
    assert!(place.read("out/a.tif") == place.read("expected/a.tif"));
    place.run("in --out out --together channel --resume").exits(0).says("1 already done");
}

#[test]
fn channels_go_into_files_of_their_own_or_are_refused_where_there_is_one_picture() {
    let place = Place::new();
    let form = Form { planar: false, bytes: 1, storage: Storage::Stored };
    let channels: Vec<_> = (0..3).map(|number| channel(number, 200)).collect();
    place.file("a.tif", form.file(slice::from_ref(&channels), "{\"shape\": [23, 37, 3], \"axes\": \"YXC\"}"));
    let pages: Vec<_> = channels.iter().map(|channel| vec![channel.clone()]).collect();
    place.file("b.tif", form.file(&pages, "ImageJ=1.53\nimages=3\nchannels=3\nunit=um\n"));
    place
        .run("a.tif --out out --format png")
        .exits(1)
        .says("PNG cannot hold the 3 channels (bands) of a TIFF; write each into a file of its own")
        .says("or choose channels first, as in `gdal_translate -b 1 -b 2 -b 3 -co PHOTOMETRIC=RGB");
    place.run("b.tif --out out --format png").exits(1).says("PNG cannot hold the 3 pages of a TIFF");
    place.run("a.tif b.tif --out out --frames split").exits(0);
    for (number, channel) in channels.iter().enumerate() {
        for (name, first) in [("a", ""), ("b", "ImageJ=1.53\nunit=um\n\0")] {
            let [page] = &read(&place.path(format!("out/{name}/{name}-{:05}.tif", number + 1)))[..] else {
                panic!("one page")
            };
            assert!(page.channels == equalized(&[channel], 256), "{name}, {number}");
            assert!(page.numbers(EXTRA_SAMPLES).is_empty());
            // Its remaining pages have no description.
            let told: Vec<u8> = page.numbers(DESCRIPTION).iter().map(|&byte| byte as u8).collect();
            assert_eq!(told, if number == 0 { first.as_bytes() } else { b"" }, "{name}, {number}");
        }
    }
}

/// A gray picture of 8 bits.
fn pgm(levels: &[u8]) -> Vec<u8> {
    [format!("P5\n{} 1\n255\n", levels.len()).into_bytes(), levels.to_vec()].concat()
}

#[test]
fn files_whose_paths_name_one_group_have_one_table() {
    let place = Place::new();
    let levels = |number: u8| -> Vec<u8> { (0..40).map(|at| 3 * number + at % (11 + number)).collect() };
    let files = ["a/x_w1.pgm", "a/x_w2.pgm", "a/y_w1.pgm", "a/y_w2.pgm", "b/x_w1.pgm"];
    for (number, file) in files.iter().enumerate() {
        place.file(format!("in/{file}"), pgm(&levels(number as u8)));
    }
    let run = |out: &str, flags: &str| {
        let mut command = place.histeqd(&format!("in --out {out} {flags}"));
        command.args(["--together-by", "_w([0-9])"]);
        Ran::from(command)
    };
    run("out", "").exits(0);
    run("small", "--memory 1MiB --threads 2").exits(0);
    for group in [&[0, 2][..], &[1, 3], &[4]] {
        let channels: Vec<Channel> =
            group.iter().map(|&number| levels(number).into_iter().map(u16::from).collect()).collect();
        let expected = equalized(&channels.iter().collect::<Vec<_>>(), 256);
        for (&number, expected) in group.iter().zip(expected) {
            let name = files[usize::from(number)];
            let expected: Vec<u8> = expected.iter().map(|&level| level as u8).collect();
            assert!(place.read(format!("out/{name}")) == pgm(&expected), "{name}");
            assert!(place.read(format!("small/{name}")) == pgm(&expected), "{name}");
        }
    }
    run("out", "").exits(0).says("5 already done");
    // Settings of folders go over the flag's configuration, and not over the flag.
    place.file("in/a/z.pgm", pgm(&levels(7)));
    place.file("in/a/notes.txt", "no picture");
    let why =
        "z.pgm: --together-by _w([0-9]) does not match its path below the input folder, so it has no group";
    run("out", "").exits(1).says(why);
    run("out", "--dry-run").exits(1).says(why);
    run("out", "--exclude z.pgm").exits(0);
    place.run("in --out other --together folder").exits(0).says("Done: 6 pictures");
    run("other", "").exits(1).says("Done: 5 pictures");
}

#[test]
fn an_expression_of_a_folder_and_one_that_cannot_be_used() {
    let place = Place::new();
    for name in ["a_1", "b_1", "c_2"] {
        place.file(
            format!("in/{name}.pgm"),
            pgm(&(0..30).map(|at| at * 2 + name.len() as u8).collect::<Vec<_>>()),
        );
    }
    place.file("in/histeqd.toml", "together-by = '_(\\d)'\n");
    place.run("in --out file").exits(0);
    place.file("in/histeqd.toml", "");
    let mut command = place.histeqd("in --out flag");
    command.args(["--together-by", r"_(\d)"]);
    Ran::from(command).exits(0);
    for name in ["a_1", "b_1", "c_2"] {
        assert!(place.read(format!("file/{name}.pgm")) == place.read(format!("flag/{name}.pgm")), "{name}");
    }
    for (flags, why) in [
        (
            "--together-by _w([0-9)",
            "is not a regular expression: unclosed character class, at character 4: [0-9)",
        ),
        ("--together-by _w", "has no group; put the part that names it in parentheses"),
        (
            "--together-by _(.) --together all",
            "--together all and --together-by both set which pictures have a common histogram",
        ),
        ("--together-by _(.) --method clahe", "--together-by needs one LUT"),
        ("--together-by _(.) --watch", "--together-by needs all pictures, which --watch never has"),
        ("--together-by _(.) --shard 1/2", "--together-by needs all pictures, but --shard 1/2"),
        ("--together-by _(.) --resume", "--together-by counts all pictures again"),
        ("--together channel --method clahe", "--together channel needs one LUT"),
    ] {
        place.run(&format!("in --out out {flags}")).exits(2).says(why);
    }
    place.file("in/histeqd.toml", "together-by = '_('\n");
    place.run("in --out out").exits(1).says("is not a regular expression: unclosed group, at character 2: (");
}

#[test]
fn other_readers_find_channels_of_12_bits_and_of_jpeg_enhanced_by_their_definition() {
    other_readers_agree("channels");
}
