//! Reading and writing, compared with libjpeg.

use super::*;
use crate::formats::jpeg::libjpeg::{self, Frame, Plane, QuantTable, Reader, Space, Tables};
use crate::formats::jpeg::markers::{Factors, Markers, largest_factors};
use crate::formats::jpeg::plane_size;
use crate::io::cores::Cores;

const fn component(horizontal: u8, vertical: u8) -> Factors {
    Factors { horizontal, vertical }
}

const FULL: Factors = component(1, 1);

const SAMPLINGS: [&[Factors]; 6] = [
    &[FULL],
    &[FULL, FULL, FULL],
    &[component(2, 2), FULL, FULL],
    &[component(2, 1), FULL, FULL],
    &[component(4, 1), FULL, FULL],
    &[component(2, 2), component(1, 2), component(2, 1)],
];

/// Sizes with all kinds of edges: less than a block, whole blocks, whole MCUs, a bit more.
const SIZES: [(u32, u32); 5] = [(1, 1), (16, 16), (33, 8), (45, 70), (130, 137)];

pub(super) fn noise(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns the sizes of a picture's planes in a slot.
fn sizes((width, height): (u32, u32), components: &[Factors]) -> Vec<PlaneSize> {
    let mut sizes: Vec<_> =
        components.iter().map(|component| plane_size(width, height, components, *component)).collect();
    sizes[0] = PlaneSize { width: width as usize, rows: height as usize };
    sizes
}

/// Makes planes with gradients, an edge, flat parts and noisy ones.
///
/// In their padding, the samples at the edges are repeated.
fn samples(size: (u32, u32), components: &[Factors]) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut sample = |i: usize, width: usize| {
        let (x, y) = (i % width, i / width);
        let smooth = 60 + x + y / 2 + if x > y { 80 } else { 0 };
        let grain = if y % 64 > 40 { noise(&mut state) % 50 } else { 0 };
        if x % 96 < 60 { (smooth as u64 + grain) as u8 } else { 128 }
    };
    let plane = |(plane, component): (&PlaneSize, &Factors)| {
        let mut samples: Vec<u8> = (0..plane.bytes()).map(|i| sample(i, plane.width)).collect();
        let (last_x, last_y) = place((size.0 as usize - 1, size.1 as usize - 1), *component, components);
        for i in 0..samples.len() {
            samples[i] = samples[last_x.min(i % plane.width) + last_y.min(i / plane.width) * plane.width];
        }
        samples
    };
    sizes(size, components).iter().zip(components).map(plane).collect()
}

/// Returns the column and row of a component's sample at a pixel.
fn place((x, y): (usize, usize), component: Factors, all: &[Factors]) -> (usize, usize) {
    let (most_h, most_v) = largest_factors(all);
    let scaled = |at: usize, factor: u8, most: u8| at * usize::from(factor) / usize::from(most);
    (scaled(x, component.horizontal, most_h), scaled(y, component.vertical, most_v))
}

/// Writes planes with libjpeg.
///
/// It gets whole pixels, with every sample repeated to make their mean the sample again.
fn write_by_libjpeg(write: WriteByLibjpeg, frame: &Frame<'_>, samples: &[Vec<u8>]) -> Vec<u8> {
    let sizes = sizes((frame.width, frame.height), frame.components);
    let planes = planes(samples, &sizes);
    let mut pixels = Vec::new();
    for pixel in (0..frame.height as usize).flat_map(|y| (0..frame.width as usize).map(move |x| (x, y))) {
        for (plane, component) in planes.iter().zip(frame.components) {
            let (x, y) = place(pixel, *component, frame.components);
            pixels.push(plane.data[y * plane.width + x]);
        }
    }
    let mut file = Vec::new();
    write(&mut file, frame, frame.space, &pixels).unwrap();
    file
}

type WriteByLibjpeg = fn(&mut Vec<u8>, &Frame<'_>, Space, &[u8]) -> Result<(), libjpeg::Fault>;

fn planes<D>(samples: impl IntoIterator<Item = D>, sizes: &[PlaneSize]) -> Vec<Plane<D>> {
    samples.into_iter().zip(sizes).map(|(data, size)| size.plane(data)).collect()
}

fn frame<'a>((width, height): (u32, u32), components: &'a [Factors], tables: Tables<'a>) -> Frame<'a> {
    Frame {
        width,
        height,
        space: if components.len() == 1 { Space::Gray } else { Space::YCbCr },
        components,
        tables,
        // For libjpeg, `write_refined` makes it progressive.
        progressive: false,
        restart_interval: 0,
        density: None,
        segments: Vec::new(),
    }
}

type Picture = (Vec<Vec<u8>>, Vec<QuantTable>);

fn read_ours(file: &[u8], sizes: &[PlaneSize]) -> Option<Picture> {
    let read_in = |workspace: &mut [u8]| {
        let mut samples: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0x5a; size.bytes()]).collect();
        let mut planes = planes(samples.iter_mut().map(Vec::as_mut_slice), sizes);
        let picture = read(file, &mut planes, Rest::Nothing, workspace)?;
        Some((samples, picture.tables))
    };
    let mut workspace = vec![0; workspace_bytes(sizes.iter().copied()) as usize];
    let picture = read_in(&mut workspace);
    let too_short = workspace.len() / 2;
    workspace.fill(0);
    for workspace in [&mut [], &mut workspace[..too_short]] {
        assert!(read_in(workspace) == picture, "whose memory it is makes no difference");
    }
    picture
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

/// Yields files of all sizes and samplings, written by libjpeg.
///
/// Progressive and sequential ones take turns.
fn files(quality: u8, interval: u16) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    let progressive = progressive_files(quality, interval);
    progressive.zip(sequential_files(quality, interval)).flat_map(|(one, other)| [one, other])
}

fn progressive_files(quality: u8, interval: u16) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    files_by(libjpeg::write_refined, quality, interval)
}

fn sequential_files(quality: u8, interval: u16) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    files_by(libjpeg::write, quality, interval)
}

fn files_by(
    write: WriteByLibjpeg,
    quality: u8,
    interval: u16,
) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    SIZES.into_iter().flat_map(move |size| {
        SAMPLINGS.into_iter().map(move |components| {
            let frame =
                Frame { restart_interval: interval, ..frame(size, components, Tables::Quality(quality)) };
            (write_by_libjpeg(write, &frame, &samples(size, components)), sizes(size, components))
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
fn flat_blocks_of_any_dc_are_those_of_libjpeg() {
    let (size, components) = ((8, 8), SAMPLINGS[0]);
    let frame = frame(size, components, Tables::Quality(50));
    let mut file = write_by_libjpeg(libjpeg::write, &frame, &[vec![255; 64]]);
    let table = file.windows(2).position(|bytes| bytes == [0xff, 0xdb]).unwrap() + 5;
    let (mut taken, mut left) = (0, 0);
    for divisor in 1..=255 {
        file[table] = divisor;
        let sizes = sizes(size, components);
        match read_ours(&file, &sizes) {
            Some(ours) => {
                assert!(Some(ours) == read_libjpeg(&file, &sizes), "{divisor}");
                taken += 1;
            }
            None => left += 1,
        }
    }
    assert!(taken >= 32 && left > 0, "{taken} {left}");
}

#[test]
fn only_the_first_planes_may_be_wanted() {
    for (file, sizes) in files(80, 0).filter(|(_, sizes)| sizes.len() == 3) {
        let (samples, _) = read_ours(&file, &sizes).unwrap();
        let (luma, tables) = read_ours(&file, &sizes[..1]).unwrap();
        assert!(luma == samples[..1] && tables.len() == 3);
    }
}

#[test]
fn a_file_of_others_is_read_as_libjpeg_reads_it() {
    // 15 scans; chroma of two resolutions.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/codec/weird_sampling_2.jpeg");
    let file = std::fs::read(file).unwrap();
    let markers = Markers::scan(&file).unwrap();
    let sizes = sizes((markers.width, markers.height), &markers.components);
    assert!(read_ours(&file, &sizes).unwrap() == read_libjpeg(&file, &sizes).unwrap());
}

#[test]
fn what_is_not_whole_is_left_to_libjpeg() {
    for (file, sizes) in
        [progressive_files(90, 7).nth(12), sequential_files(90, 7).nth(12)].map(Option::unwrap)
    {
        for length in 2..file.len() {
            assert!(read_ours(&file[..length], &sizes).is_none(), "{length} of {} bytes", file.len());
        }
    }
    let (file, sizes) = progressive_files(90, 7).nth(12).unwrap();
    // Whole, but without the last scan: libjpeg estimates the missing bits.
    let last = file.windows(2).rposition(|bytes| bytes == [0xff, 0xda]).unwrap();
    let early = [&file[..last], &[0xff, 0xd9]].concat();
    assert!(read_ours(&early, &sizes).is_none() && read_libjpeg(&early, &sizes).is_some());
}

#[test]
fn scans_of_no_coefficients_are_left_to_libjpeg() {
    const SOS: [u8; 2] = [0xff, 0xda];
    let (file, sizes) = progressive_files(90, 0).find(|(_, sizes)| sizes.len() == 1).unwrap();
    let scans = (0..file.len()).filter(|&at| file[at..].starts_with(&SOS));
    // The band comes after the marker, the length, the number of components, and the component with
    // its codes.
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

/// The number of times that each picture is damaged.
///
/// Decoding without optimization takes fifty times as long.
const DAMAGES: usize = if cfg!(debug_assertions) { 50 } else { 2000 };

#[test]
#[cfg_attr(
    scalar_libjpeg,
    ignore = "without nasm libjpeg has no vector instructions, and wraps samples that these saturate"
)]
fn damage_is_judged_as_libjpeg_does() {
    let mut state = 1;
    let mut read = 0;
    for (file, sizes) in files(60, 0).chain(files(60, 3)).filter(|(file, _)| file.len() > 1000) {
        for _ in 0..DAMAGES {
            let mut damaged = file.clone();
            let at = 2 + noise(&mut state) as usize % (file.len() - 2);
            damaged[at] = noise(&mut state) as u8;
            // A picture of another size needs other planes.
            let same = |markers: &Markers<'_>| {
                markers.components.len() == sizes.len()
                    && markers.components.iter().all(|c| c.horizontal > 0 && c.vertical > 0)
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

/// Writes a file with our own coder.
fn write_ours(
    size: (u32, u32),
    components: &[Factors],
    quality: u8,
    progressive: bool,
    interval: u16,
    samples: &[Vec<u8>],
) -> Vec<u8> {
    let sizes = sizes(size, components);
    let planes = planes(samples.iter().map(Vec::as_slice), &sizes);
    let parts: Vec<Part<'_>> = planes.into_iter().map(Part::Samples).collect();
    let frame = frame(size, components, Tables::Quality(quality));
    let mut file = Vec::new();
    write(&mut file, &Frame { progressive, restart_interval: interval, ..frame }, &parts, &Cores::new(0))
        .unwrap();
    file
}

#[test]
fn what_is_written_is_what_libjpeg_would_write() {
    for (quality, interval) in [15, 90, 100].into_iter().flat_map(|quality| [0, 1, 7].map(|i| (quality, i))) {
        for (size, components) in SIZES.iter().flat_map(|size| SAMPLINGS.map(|s| (*size, s))) {
            let sizes = sizes(size, components);
            let samples = samples(size, components);
            let frame =
                Frame { restart_interval: interval, ..frame(size, components, Tables::Quality(quality)) };
            let theirs = write_by_libjpeg(libjpeg::write, &frame, &samples);
            let expected = read_libjpeg(&theirs, &sizes).unwrap();
            for progressive in [false, true] {
                let case = format!("{size:?} {components:?} {quality} {progressive} {interval}");
                // The same coefficients, but with other scans or codes.
                let ours = write_ours(size, components, quality, progressive, interval, &samples);
                assert!(read_libjpeg(&ours, &sizes).expect(&case) == expected, "{case}");
                assert!(read_ours(&ours, &sizes).expect(&case) == expected, "{case}");
            }
        }
    }
}

#[test]
fn bands_make_one_file_whoever_codes_them() {
    // Three bands each, with restarts at the start of MCU rows, within them, or not at all. The
    // last MCU row and column extend beyond the picture.
    let size = (1101, 601);
    for (components, interval) in SAMPLINGS.into_iter().flat_map(|s| [0, 1, 69, 100].map(|i| (s, i))) {
        let case = format!("{components:?} {interval}");
        let sizes = sizes(size, components);
        let samples = samples(size, components);
        let frame = Frame { restart_interval: interval, ..frame(size, components, Tables::Quality(90)) };
        let theirs = write_by_libjpeg(libjpeg::write, &frame, &samples);
        let expected = read_libjpeg(&theirs, &sizes).unwrap();

        let parts: Vec<Part<'_>> =
            planes(samples.iter().map(Vec::as_slice), &sizes).into_iter().map(Part::Samples).collect();
        let by = |cores| {
            let mut file = Vec::new();
            write(&mut file, &frame, &parts, &Cores::new(cores)).unwrap();
            file
        };
        let alone = by(0);
        assert!(by(3) == alone, "{case}");
        assert!(read_libjpeg(&alone, &sizes).expect(&case) == expected, "{case}");
        let row_by_row = components[1..].iter().all(|component| component.vertical == 1);
        let coefficients = rewritten_chroma(&alone, &sizes, &samples[0], interval, components);
        assert!(coefficients == row_by_row.then_some(alone), "{case}");
    }
}

/// Writes luma from these samples, and chroma from the coefficients of a file.
///
/// `None` if the reader does not take them from such a file.
fn rewritten_chroma(
    file: &[u8],
    sizes: &[PlaneSize],
    luma: &[u8],
    interval: u16,
    components: &[Factors],
) -> Option<Vec<u8>> {
    let mut samples = vec![0; sizes[0].bytes()];
    let picture = read(file, &mut [sizes[0].plane(&mut samples[..])], Rest::Coefficients(None), &mut [])?;
    let mut parts = vec![Part::Samples(sizes[0].plane(luma))];
    parts.extend(picture.rest.iter().map(Part::Coefficients));
    let size = (sizes[0].width as u32, sizes[0].rows as u32);
    let frame = Frame { restart_interval: interval, ..frame(size, components, Tables::Own(&picture.tables)) };
    let mut out = Vec::new();
    write(&mut out, &frame, &parts, &Cores::new(2)).unwrap();
    Some(out)
}

/// Reads luma samples and chroma coefficients, and writes both.
///
/// The quantization tables are these or the file's own.
fn rewrite(file: &[u8], sizes: &[PlaneSize], tables: Option<&[QuantTable]>, progressive: bool) -> Vec<u8> {
    let markers = Markers::scan(file).unwrap();
    let mut luma = vec![0; sizes[0].bytes()];
    let wanted = Rest::Coefficients(tables);
    let picture = read(file, &mut [sizes[0].plane(&mut luma[..])], wanted, &mut []).unwrap();
    let parts: Vec<Part<'_>> = [Part::Samples(sizes[0].plane(&luma[..]))]
        .into_iter()
        .chain(picture.rest.iter().map(Part::Coefficients))
        .collect();
    let tables = Tables::Own(tables.unwrap_or(&picture.tables));
    let frame = frame((markers.width, markers.height), &markers.components, tables);
    let mut out = Vec::new();
    write(&mut out, &Frame { progressive, ..frame }, &parts, &Cores::new(0)).unwrap();
    out
}

/// Yields files with chroma that can be read as coefficients.
///
/// Those must come row by row: several rows of blocks in an MCU are left to libjpeg.
fn chroma_files(quality: u8) -> impl Iterator<Item = (Vec<u8>, Vec<PlaneSize>)> {
    files(quality, 0).filter(|(file, _)| {
        let components = Markers::scan(file).unwrap().components;
        components.len() == 3 && components[1].vertical == 1
    })
}

#[test]
fn coefficients_are_passed_on_without_loss() {
    for (quality, (file, sizes)) in
        [15, 90, 100].into_iter().flat_map(|q| chroma_files(q).map(move |f| (q, f)))
    {
        let chroma = |file: &[u8]| read_libjpeg(file, &sizes).unwrap().0.split_off(1);
        let expected = chroma(&file);
        for progressive in [false, true] {
            let case = format!("{sizes:?} {quality} {progressive}");
            assert!(chroma(&rewrite(&file, &sizes, None, progressive)) == expected, "{case}");
        }
    }
}

#[test]
fn coefficients_are_quantized_anew() {
    let mut pictures = 0;
    for (file, sizes) in chroma_files(100).filter(|(_, sizes)| sizes[1].bytes() > 1000) {
        let before = read_libjpeg(&file, &sizes).unwrap();
        let divisor = 7;
        let tables = vec![[divisor; 64]; 3];
        for progressive in [false, true] {
            let after = read_libjpeg(&rewrite(&file, &sizes, Some(&tables), progressive), &sizes).unwrap();
            assert_eq!(after.1, tables);
            for (before, after) in before.0.iter().zip(&after.0).skip(1) {
                // Each coefficient is off by at most half of the divisor; the root mean square,
                // which the transform keeps, is well below.
                let differences = before.iter().zip(after).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
                let deviation = (differences.sum::<f64>() / before.len() as f64).sqrt();
                assert!(deviation < f64::from(divisor) / 2.0, "{sizes:?}: {deviation}");
            }
            pictures += 1;
        }
    }
    assert!(pictures >= 10);
}

#[test]
fn long_runs_of_empty_blocks_are_written() {
    // More empty blocks than one symbol can express, and then one that is not empty.
    let size = PlaneSize { width: 1600, rows: 1600 };
    let mut samples = vec![128; size.bytes()];
    *samples.last_mut().unwrap() = 0;
    let file = write_ours((1600, 1600), &[FULL], 50, true, 0, &[samples]);
    assert!(read_ours(&file, &[size]).unwrap() == read_libjpeg(&file, &[size]).unwrap());
    assert_ne!(read_ours(&file, &[size]).unwrap().0[0].last(), Some(&128));
}

#[test]
fn tables_of_16_bits_are_kept() {
    let size = PlaneSize { width: 64, rows: 64 };
    let samples = samples((64, 64), &[FULL]);
    let table: QuantTable = std::array::from_fn(|i| 1 + 40 * i as u16);
    let tables = [table];
    for progressive in [false, true] {
        let mut file = Vec::new();
        let frame = Frame { progressive, ..frame((64, 64), &[FULL], Tables::Own(&tables)) };
        write(&mut file, &frame, &[Part::Samples(size.plane(&samples[0][..]))], &Cores::new(0)).unwrap();
        let (ours, theirs) = (read_ours(&file, &[size]).unwrap(), read_libjpeg(&file, &[size]).unwrap());
        assert!(ours == theirs && ours.1 == tables);
    }
}

#[test]
fn untouched_planes_keep_their_coefficients() {
    // Written, read and written again with the same tables, a file stays the same.
    for components in SAMPLINGS {
        let sizes = sizes((128, 96), components);
        let smooth = |size: &PlaneSize| {
            (0..size.bytes()).map(|i| (90 + i % size.width / 2 + i / size.width / 3) as u8).collect()
        };
        let mut samples: Vec<Vec<u8>> = sizes.iter().map(smooth).collect();
        let mut written = || {
            let file = write_ours((128, 96), components, 90, true, 0, &samples);
            samples = read_ours(&file, &sizes).unwrap().0;
            file
        };
        assert!(written() == written(), "{components:?}");
    }
}

#[test]
fn sampled_codes_make_files_shorter() {
    for quality in [15, 90, 100] {
        let (mut plain_length, mut coded_length) = (0, 0);
        for components in SAMPLINGS {
            let samples = samples((300, 500), components);
            let frame = frame((300, 500), components, Tables::Quality(quality));
            plain_length += write_by_libjpeg(libjpeg::write, &frame, &samples).len();
            coded_length += write_ours((300, 500), components, quality, false, 0, &samples).len();
        }
        assert!(coded_length < plain_length, "quality {quality}: {coded_length}, not {plain_length}");
    }
}
