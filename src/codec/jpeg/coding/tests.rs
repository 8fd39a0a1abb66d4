//! Reading and writing beside libjpeg.

use super::*;
use crate::codec::jpeg::libjpeg::{self, Frame, Pixels, Plane, QuantTable, Reader, Space, Tables};
use crate::codec::jpeg::markers::{Component, Markers};
use crate::codec::jpeg::plane_size;

const fn component(horizontal: u8, vertical: u8) -> Component {
    Component { horizontal, vertical }
}

const FULL: Component = component(1, 1);

const SAMPLINGS: [&[Component]; 6] = [
    &[FULL],
    &[FULL, FULL, FULL],
    &[component(2, 2), FULL, FULL],
    &[component(2, 1), FULL, FULL],
    &[component(4, 1), FULL, FULL],
    &[component(2, 2), component(1, 2), component(2, 1)],
];

/// Sizes with edges of all kinds: less than a block, whole blocks, whole MCUs, a bit more.
const SIZES: [(u32, u32); 5] = [(1, 1), (16, 16), (33, 8), (45, 70), (130, 137)];

fn noise(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The sizes of a picture's planes as a slot has them.
fn sizes((width, height): (u32, u32), components: &[Component]) -> Vec<PlaneSize> {
    let mut sizes: Vec<_> =
        components.iter().map(|component| plane_size(width, height, components, *component)).collect();
    sizes[0] = PlaneSize { width: width as usize, rows: height as usize };
    sizes
}

/// Planes with gradients, an edge, flat parts and noisy ones.
fn samples(sizes: &[PlaneSize]) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut sample = |i: usize, width: usize| {
        let (x, y) = (i % width, i / width);
        let smooth = 60 + x + y / 2 + if x > y { 80 } else { 0 };
        let grain = if y % 64 > 40 { noise(&mut state) % 50 } else { 0 };
        if x % 96 < 60 { (smooth as u64 + grain) as u8 } else { 128 }
    };
    sizes.iter().map(|size| (0..size.bytes()).map(|i| sample(i, size.width)).collect()).collect()
}

fn planes<D>(samples: impl IntoIterator<Item = D>, sizes: &[PlaneSize]) -> Vec<Plane<D>> {
    samples.into_iter().zip(sizes).map(|(data, size)| size.plane(data)).collect()
}

fn frame<'a>((width, height): (u32, u32), components: &'a [Component], tables: Tables<'a>) -> Frame<'a> {
    Frame {
        width,
        height,
        space: if components.len() == 1 { Space::Gray } else { Space::YCbCr },
        components,
        tables,
        // Those who write progressive files here do so without being told.
        progressive: false,
        restart_interval: 0,
        density: None,
        segments: Vec::new(),
        codes: None,
    }
}

type Picture = (Vec<Vec<u8>>, Vec<QuantTable>);

fn read_ours(file: &[u8], sizes: &[PlaneSize]) -> Option<Picture> {
    let mut samples: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0x5a; size.bytes()]).collect();
    let tables = read(file, &mut planes(samples.iter_mut().map(Vec::as_mut_slice), sizes))?;
    Some((samples, tables))
}

fn read_libjpeg(file: &[u8], sizes: &[PlaneSize]) -> Option<Picture> {
    let mut samples: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0xa5; size.bytes()]).collect();
    let mut reader = Reader::new(file).ok()?;
    let tables = if sizes.len() == 1 {
        reader.read_packed(Space::Gray, &mut samples[0])
    } else {
        reader.read_planes(&mut planes(samples.iter_mut().map(Vec::as_mut_slice), sizes))
    };
    Some((samples, tables.ok()?))
}

/// All sizes and samplings, as libjpeg writes them with a quality and a restart interval.
fn files(quality: u8, interval: u16) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    SIZES.into_iter().flat_map(move |size| {
        SAMPLINGS.into_iter().map(move |components| {
            let sizes = sizes(size, components);
            let samples = samples(&sizes);
            let planes = planes(samples.iter().map(Vec::as_slice), &sizes);
            let pixels = match &planes[..] {
                [gray] => Pixels::Packed(Space::Gray, gray.data),
                planes => Pixels::Planes(planes),
            };
            let frame =
                Frame { restart_interval: interval, ..frame(size, components, Tables::Quality(quality)) };
            let mut file = Vec::new();
            libjpeg::write_refined(&mut file, &frame, &pixels).unwrap();
            (file, sizes)
        })
    })
}

#[test]
fn samples_are_those_of_libjpeg() {
    for (quality, interval) in [(15, 0), (90, 0), (100, 0), (75, 1), (75, 7)] {
        for (file, sizes) in files(quality, interval) {
            let expected = read_libjpeg(&file, &sizes).unwrap();
            let case = format!("{sizes:?}, quality {quality}, restarts {interval}");
            assert!(read_ours(&file, &sizes).expect(&case) == expected, "{case}");
        }
    }
}

#[test]
fn only_the_first_planes_may_be_wanted() {
    let (file, sizes) = files(80, 0).last().unwrap();
    let (samples, _) = read_ours(&file, &sizes).unwrap();
    let (luma, tables) = read_ours(&file, &sizes[..1]).unwrap();
    assert!(luma == samples[..1] && tables.len() == 3);
}

#[test]
fn a_file_of_others_is_read_as_libjpeg_reads_it() {
    // 15 scans; chroma of two resolutions.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/codec/weird_sampling_2.jpeg");
    let file = std::fs::read(file).unwrap();
    let markers = Markers::scan(&file).unwrap();
    let sizes = sizes((markers.width, markers.height), &markers.components);
    assert!(read_ours(&file, &sizes).unwrap() == read_libjpeg(&file, &sizes).unwrap());
}

#[test]
fn what_is_not_whole_is_left_to_libjpeg() {
    let (file, sizes) = files(90, 7).nth(12).unwrap();
    for length in 2..file.len() {
        assert!(read_ours(&file[..length], &sizes).is_none(), "{length} of {} bytes", file.len());
    }
    // Whole, but the last scan is missing: libjpeg guesses what it would have told.
    let last = file.windows(2).rposition(|bytes| bytes == [0xff, 0xda]).unwrap();
    let early = [&file[..last], &[0xff, 0xd9]].concat();
    assert!(read_ours(&early, &sizes).is_none() && read_libjpeg(&early, &sizes).is_some());
}

#[test]
fn scans_of_no_coefficients_are_left_to_libjpeg() {
    const SOS: [u8; 2] = [0xff, 0xda];
    let (file, sizes) = files(90, 0).find(|(_, sizes)| sizes.len() == 1).unwrap();
    let scans = (0..file.len()).filter(|&at| file[at..].starts_with(&SOS));
    // Length, number of components, component and codes, and then the band.
    let bands: Vec<usize> = scans.map(|at| at + 7).filter(|&band| file[band] > 0).collect();
    assert!(bands.len() > 3);
    for band in bands {
        let mut empty = file.clone();
        empty[band + 1] = empty[band] - 1;
        assert!(read_ours(&empty, &sizes).is_none() && read_libjpeg(&empty, &sizes).is_none());
        (empty[band], empty[band + 1]) = (64, 63);
        assert!(read_ours(&empty, &sizes).is_none() && read_libjpeg(&empty, &sizes).is_none());
    }
}

#[test]
fn damage_is_judged_as_libjpeg_does() {
    let mut state = 1;
    let mut read = 0;
    for (file, sizes) in files(60, 0).chain(files(60, 3)).filter(|(file, _)| file.len() > 1000) {
        for _ in 0..2000 {
            let mut damaged = file.clone();
            let at = 2 + noise(&mut state) as usize % (file.len() - 2);
            damaged[at] = noise(&mut state) as u8;
            // A picture of another size needs other planes.
            let same = |markers: &Markers<'_>| {
                markers.components.len() == sizes.len()
                    && (0..sizes.len()).all(|i| sizes[i] == self::sizes_of(markers)[i])
            };
            if !Markers::scan(&damaged).is_ok_and(|markers| same(&markers)) {
                continue;
            }
            if let Some(picture) = read_ours(&damaged, &sizes) {
                assert!(read_libjpeg(&damaged, &sizes) == Some(picture), "byte {at} is {}", damaged[at]);
                read += 1;
            }
        }
    }
    assert!(read > 100, "only {read} files were read");
}

fn sizes_of(markers: &Markers<'_>) -> Vec<PlaneSize> {
    sizes((markers.width, markers.height), &markers.components)
}

#[test]
fn what_is_written_is_what_libjpeg_would_write() {
    for quality in [15, 90, 100] {
        for interval in [0, 1, 7] {
            for (size, components) in SIZES.iter().flat_map(|size| SAMPLINGS.map(|s| (*size, s))) {
                let sizes = sizes(size, components);
                let samples = samples(&sizes);
                let pixels = planes(samples.iter().map(Vec::as_slice), &sizes);
                let frame =
                    Frame { restart_interval: interval, ..frame(size, components, Tables::Quality(quality)) };
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                write(&mut ours, &frame, &pixels).unwrap();
                let packed = Pixels::Packed(Space::Gray, &samples[0]);
                let pixels = if components.len() == 1 { &packed } else { &Pixels::Planes(&pixels) };
                libjpeg::write_refined(&mut theirs, &frame, pixels).unwrap();

                let case = format!("{size:?} {components:?} {quality} {interval}");
                // The same coefficients, in other scans.
                let expected = read_libjpeg(&theirs, &sizes).unwrap();
                assert!(read_libjpeg(&ours, &sizes).expect(&case) == expected, "{case}");
                assert!(read_ours(&ours, &sizes).expect(&case) == expected, "{case}");
            }
        }
    }
}

#[test]
fn long_runs_of_empty_blocks_are_written() {
    // More empty blocks than one symbol can tell of, and then something.
    let size = PlaneSize { width: 1600, rows: 1600 };
    let mut samples = vec![128; size.bytes()];
    *samples.last_mut().unwrap() = 0;
    let frame = frame((1600, 1600), &[FULL], Tables::Quality(50));
    let mut file = Vec::new();
    write(&mut file, &frame, &[size.plane(&samples[..])]).unwrap();
    assert!(read_ours(&file, &[size]).unwrap() == read_libjpeg(&file, &[size]).unwrap());
    assert_ne!(read_ours(&file, &[size]).unwrap().0[0].last(), Some(&128));
}

#[test]
fn tables_of_16_bits_are_kept() {
    let size = PlaneSize { width: 64, rows: 64 };
    let samples = samples(&[size]);
    let table: QuantTable = std::array::from_fn(|i| 1 + 40 * i as u16);
    let mut file = Vec::new();
    let tables = [table];
    write(&mut file, &frame((64, 64), &[FULL], Tables::Own(&tables)), &[size.plane(&samples[0][..])])
        .unwrap();
    let (ours, theirs) = (read_ours(&file, &[size]).unwrap(), read_libjpeg(&file, &[size]).unwrap());
    assert!(ours == theirs && ours.1 == tables);
}

#[test]
fn untouched_planes_keep_their_coefficients() {
    // Written, read and written again with the same tables: the second file is the first.
    for components in SAMPLINGS {
        let sizes = sizes((128, 96), components);
        let smooth = |size: &PlaneSize| {
            (0..size.bytes()).map(|i| (90 + i % size.width / 2 + i / size.width / 3) as u8).collect()
        };
        let mut samples: Vec<Vec<u8>> = sizes.iter().map(smooth).collect();
        let mut files = [Vec::new(), Vec::new()];
        for file in &mut files {
            let pixels = planes(samples.iter().map(Vec::as_slice), &sizes);
            write(file, &frame((128, 96), components, Tables::Quality(90)), &pixels).unwrap();
            samples = read_ours(file, &sizes).unwrap().0;
        }
        assert!(files[0] == files[1], "{components:?}");
    }
}

#[test]
fn sampled_codes_make_files_shorter_and_change_nothing_else() {
    for quality in [15, 90, 100] {
        let (mut plain_length, mut coded_length) = (0, 0);
        for components in SAMPLINGS {
            let sizes = sizes((300, 500), components);
            let samples = samples(&sizes);
            let pixels = planes(samples.iter().map(Vec::as_slice), &sizes);
            let frame = frame((300, 500), components, Tables::Quality(quality));
            let codes = codes(&frame.quant_tables().unwrap(), &pixels);
            let packed = Pixels::Packed(Space::Gray, &samples[0]);
            let pixels = if components.len() == 1 { &packed } else { &Pixels::Planes(&pixels) };
            let (mut plain, mut coded) = (Vec::new(), Vec::new());
            libjpeg::write(&mut plain, &frame, pixels).unwrap();
            libjpeg::write(&mut coded, &Frame { codes: Some(codes), ..frame }, pixels).unwrap();
            assert!(read_libjpeg(&coded, &sizes).unwrap() == read_libjpeg(&plain, &sizes).unwrap());
            plain_length += plain.len();
            coded_length += coded.len();
        }
        assert!(coded_length < plain_length, "quality {quality}: {coded_length}, not {plain_length}");
    }
}
