//! TIFFs in every arrangement: scattered strips, either byte order, the directory before or after
//! the pixels.

mod arrangement;
mod contrast;
mod jpeg;
mod lenient;
mod other;
mod pages;
mod planes;
mod raw;
mod tiles;
mod ycbcr;

use std::fs::File;
use std::io::{Seek, Write};

use codec::{self, CodecError, Cores, Limits, Remark};

use super::{LIMITS, TARGET, decode, decode_file, encode, pixels};

const WIDTH: usize = 203;
const HEIGHT: usize = 151;
const OFFSETS: u16 = 273;
const LENGTHS: u16 = 279;

/// The arrangement of an uncompressed file.
#[derive(Clone, Copy, Debug)]
struct Form {
    big_endian: bool,
    channels: usize,
    /// Bytes per sample.
    bytes: usize,
    rows_a_strip: usize,
    /// Unused bytes before each strip.
    gap: usize,
    directory_first: bool,
}

const PLAIN: Form =
    Form { big_endian: false, channels: 1, bytes: 1, rows_a_strip: HEIGHT, gap: 0, directory_first: false };

type Tags = Vec<(u16, Vec<u32>)>;
type Change = Box<dyn Fn(&mut Tags)>;

impl Form {
    fn number(self, value: u32, bytes: usize) -> Vec<u8> {
        let mut number = value.to_le_bytes()[..bytes].to_vec();
        if self.big_endian {
            number.reverse();
        }
        number
    }

    /// Returns a file of these samples, which are in native byte order; `change` may edit the tags
    /// before they are written.
    fn file(self, samples: &[u8], change: impl Fn(&mut Tags)) -> Vec<u8> {
        let mut samples = samples.to_vec();
        if self.bytes == 2 && self.big_endian != cfg!(target_endian = "big") {
            samples.chunks_exact_mut(2).for_each(<[u8]>::reverse);
        }
        let strips: Vec<&[u8]> =
            samples.chunks(self.rows_a_strip * WIDTH * self.channels * self.bytes).collect();
        let raster = strips.iter().flat_map(|strip| [&vec![0xee; self.gap], *strip].concat()).collect();
        let directory = |at: usize, raster_at: usize| {
            let mut end = raster_at;
            let place = |strip: &&[u8]| {
                end += self.gap + strip.len();
                (end - strip.len()) as u32
            };
            let mut tags = self.tags(strips.iter().map(place).collect(), &strips);
            change(&mut tags);
            self.directory(&tags, at)
        };
        let header = |at: usize| {
            let order = if self.big_endian { b"MM" } else { b"II" };
            [order.to_vec(), self.number(42, 2), self.number(at as u32, 4)].concat()
        };
        if self.directory_first {
            let raster_at = 8 + directory(8, 0).len();
            [header(8), directory(8, raster_at), raster].concat()
        } else {
            let at = 8 + raster.len();
            [header(at), raster, directory(at, 8)].concat()
        }
    }

    fn tags(self, offsets: Vec<u32>, strips: &[&[u8]]) -> Tags {
        let colour = if self.channels > 2 { 2 } else { 1 };
        let mut tags = vec![
            (256, vec![WIDTH as u32]),
            (257, vec![HEIGHT as u32]),
            (258, vec![8 * self.bytes as u32; self.channels]),
            (259, vec![1]),
            (262, vec![colour]),
            (OFFSETS, offsets),
            (277, vec![self.channels as u32]),
            (278, vec![self.rows_a_strip as u32]),
            (LENGTHS, strips.iter().map(|strip| strip.len() as u32).collect()),
        ];
        if self.channels.is_multiple_of(2) {
            tags.push((338, vec![2]));
        }
        tags
    }

    /// Returns the directory for offset `at`, followed by the values that do not fit into its
    /// entries.
    fn directory(self, tags: &Tags, at: usize) -> Vec<u8> {
        let mut directory = self.number(tags.len() as u32, 2);
        let (mut values, values_at) = (Vec::new(), at + 2 + 12 * tags.len() + 4);
        for (tag, numbers) in tags {
            let (kind, size) = match *tag {
                256 | 257 | OFFSETS | LENGTHS | 324 | 325 | 50838 => (4, 4),
                347 | 42112 | 42113 | 50839 => (7, 1),
                _ => (3, 2),
            };
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|&number| self.number(number, size)).collect();
            if bytes.len() > 4 {
                let place = self.number((values_at + values.len()) as u32, 4);
                values.extend(std::mem::replace(&mut bytes, place));
            }
            bytes.resize(4, 0);
            let head = [self.number((*tag).into(), 2), self.number(kind, 2)];
            directory.extend([head.concat(), self.number(numbers.len() as u32, 4), bytes].concat());
        }
        [directory, vec![0; 4], values].concat()
    }

    fn samples(self) -> Vec<u8> {
        let bytes = (WIDTH * HEIGHT * self.channels * self.bytes) as u32;
        (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }
}

/// Returns a change to the first value of a tag.
fn first(tag: u16, change: impl Fn(u32) -> u32) -> impl Fn(&mut Tags) {
    move |tags| {
        let numbers =
            tags.iter_mut().find_map(|(other, numbers)| (*other == tag).then_some(numbers)).unwrap();
        numbers[0] = change(numbers[0]);
    }
}

fn decoded(file: &[u8]) -> Result<Vec<u8>, CodecError> {
    decode(file, &TARGET).map(|(decoded, slot)| pixels(&decoded, &slot).to_vec())
}

#[test]
fn pixels_are_found_wherever_they_lie() {
    for (channels, bytes) in [1, 2, 3, 4].into_iter().flat_map(|channels| [(channels, 1), (channels, 2)]) {
        // Strips smaller and larger than the reader's window of 16 KiB.
        for (rows_a_strip, gap) in [(1, 0), (1, 3), (20, 0), (20, 50_000), (HEIGHT, 0), (HEIGHT, 1)] {
            for (big_endian, directory_first) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let form = Form { big_endian, channels, bytes, rows_a_strip, gap, directory_first };
                let samples = form.samples();
                let found = decoded(&form.file(&samples, |_| ())).unwrap();
                assert!(found == samples, "{form:?}");
            }
        }
    }
}

#[test]
fn white_may_be_zero_and_strips_in_any_order() {
    let form = Form { rows_a_strip: 50, ..PLAIN };
    let samples = form.samples();
    let inverted = decoded(&form.file(&samples, first(262, |_| 0))).unwrap();
    assert!(inverted.iter().zip(&samples).all(|(found, sample)| *found == !sample));
    let exchanged =
        form.file(&samples, |tags| tags.iter_mut().find(|tag| tag.0 == OFFSETS).unwrap().1.swap(0, 1));
    let strip = 50 * WIDTH;
    let expected = [&samples[strip..2 * strip], &samples[..strip], &samples[2 * strip..]].concat();
    assert!(decoded(&exchanged).unwrap() == expected);
}

/// Returns a file with alpha of this kind as the last channel.
fn with_alpha(form: Form, samples: &[u8], photometric: u32, kind: u32) -> Vec<u8> {
    form.file(samples, |tags| {
        tags.retain(|(tag, _)| *tag != 338);
        first(262, |_| photometric)(tags);
        tags.push((338, vec![kind]));
    })
}

#[test]
fn amounts_of_darkness_and_of_ink_are_divided_by_alpha_before_they_become_colours() {
    const SEPARATED: u32 = 5;
    for (channels, photometric) in [(2, 0), (5, SEPARATED)] {
        let form = Form { channels, ..PLAIN };
        // A fifth of each: 51 of 255, which makes dividing exact.
        let straight: Vec<u8> = form.samples().iter().map(|sample| sample / 5 * 5).collect();
        let of = |divisor: u8| {
            let mut samples = straight.clone();
            for pixel in samples.chunks_exact_mut(channels) {
                pixel.iter_mut().for_each(|sample| *sample /= divisor);
                pixel[channels - 1] = 51;
            }
            samples
        };
        let found = decoded(&with_alpha(form, &of(5), photometric, 1)).unwrap();
        assert!(found == decoded(&with_alpha(form, &of(1), photometric, 2)).unwrap(), "{channels}");
        if photometric == 0 {
            let expected: Vec<u8> = of(1).chunks_exact(2).flat_map(|pixel| [255 - pixel[0], 51]).collect();
            assert!(found == expected);
        }
    }
}

#[test]
fn what_is_written_is_read() {
    for (channels, bytes) in [(1, 1), (3, 2)] {
        for gap in [0, 1, 2, 40] {
            let form = Form { channels, bytes, gap, ..PLAIN };
            let (decoded_first, slot) = decode(&form.file(&form.samples(), |_| ()), &TARGET).unwrap();
            let written = encode(&decoded_first, slot, &TARGET).unwrap();
            assert!(decoded(&written).unwrap() == form.samples(), "{form:?}");
        }
    }
}

#[test]
fn missing_bits_per_sample_means_one_bit() {
    let samples = PLAIN.samples();
    let file = PLAIN.file(&samples, |tags| {
        tags.retain(|(tag, _)| *tag != 258);
        tags[0].1[0] *= 8;
    });
    let bits = samples.iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit & 1) * 255));
    assert!(decoded(&file).unwrap().into_iter().eq(bits));
}

#[test]
fn a_predictor_means_nothing_where_the_compression_has_none() {
    let predicted = |compression| {
        move |tags: &mut Tags| {
            first(259, |_| compression)(tags);
            tags.push((317, vec![2]));
        }
    };
    for channels in [1, 3] {
        let form = Form { channels, ..PLAIN };
        let stored = form.file(&form.samples(), predicted(1));
        assert!(decoded(&stored).unwrap() == form.samples(), "{channels} channels");
    }
    // PackBits: a count of -1 repeats the value twice.
    let samples: Vec<u8> = (0..WIDTH * HEIGHT).map(|i| (i / 2 * 7) as u8).collect();
    let packed = samples.chunks(2).flat_map(|run| [(1 - run.len() as i8) as u8, run[0]]).collect::<Vec<_>>();
    let form = Form { rows_a_strip: HEIGHT + 2, ..PLAIN };
    assert!(decoded(&form.file(&packed, predicted(32773))).unwrap() == samples);
    // Samples of 4 bits, for which no predictor is known.
    let bits = PLAIN.file(&PLAIN.samples(), |tags| {
        predicted(1)(tags);
        first(256, |width| 2 * width)(tags);
        first(258, |_| 4)(tags);
    });
    let halves = PLAIN.samples().into_iter().flat_map(|byte| [(byte >> 4) * 17, (byte & 15) * 17]);
    assert!(decoded(&bits).unwrap().into_iter().eq(halves));
}

#[test]
fn the_first_of_duplicate_tags_wins() {
    for (tag, second) in [(256, 7), (257, 7), (258, 1), (259, 5), (OFFSETS, 0)] {
        let form = Form { channels: 3, ..PLAIN };
        let file = form.file(&form.samples(), |tags| {
            let at = tags.iter().position(|(other, _)| *other == tag).unwrap();
            tags.insert(at + 1, (tag, vec![second]));
        });
        assert!(decoded(&file).unwrap() == form.samples(), "{tag}");
    }
}

#[test]
fn a_profile_that_is_cut_off_is_no_end_of_a_file() {
    const ICC: u16 = 34675;
    let file = PLAIN.file(&PLAIN.samples(), |tags| tags.push((ICC, vec![7; 100])));
    assert!(decoded(&file).is_ok());
    let error = decoded(&file[..file.len() - 1]).unwrap_err().to_string();
    assert!(error.contains("other metadata lie outside the file; it may be truncated"), "{error}");
}

#[test]
fn layers_are_left_out_with_a_remark() {
    const LAYERS: u16 = 37724;
    let file = PLAIN.file(&PLAIN.samples(), |tags| tags.push((LAYERS, vec![0xab; 40])));
    let (picture, slot) = decode(&file, &TARGET).unwrap();
    assert_eq!(picture.remarks(&TARGET), [Remark::WithoutLayers]);
    let (again, _) = decode(&encode(&picture, slot, &TARGET).unwrap(), &TARGET).unwrap();
    assert_eq!(again.remarks(&TARGET), []);
}

#[test]
fn a_stack_in_one_page_is_refused_or_whole() {
    const DESCRIPTION: u16 = 270;
    let of_form = |form: Form, tag, numbers: Vec<u32>| {
        decoded(&form.file(&form.samples(), |tags| {
            let at = tags.iter().position(|(other, _)| *other > tag).unwrap_or(tags.len());
            tags.insert(at, (tag, numbers.clone()));
        }))
    };
    let with = |tag, numbers: Vec<u32>| of_form(PLAIN, tag, numbers);
    let numbers = |text: &str| {
        let padded = format!("{text}\0\0");
        let pairs = padded.as_bytes().as_chunks::<2>().0;
        pairs.iter().map(|pair| u16::from_le_bytes(*pair).into()).collect::<Vec<u32>>()
    };
    let described = |text: &str| with(DESCRIPTION, numbers(text));
    let tifffiles = |shape: &str, more: &str| format!(r#"{{"shape": [{shape}{HEIGHT}, {WIDTH}]{more}}}"#);
    let tifffile = |shape: &str, more: &str| described(&tifffiles(shape, more));
    let truncated = r#", "truncated": true"#;
    for outcome in [with(32997, vec![3]), with(33629, vec![0; 2])] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("a stack of pictures in one TIFF page"), "{error}");
    }
    let told = [
        "ImageJ=1.11a\nimages=3\nchannels=3\n".into(),
        tifffiles("3, ", truncated),
        tifffiles("18446744073709551615, 2, ", truncated),
    ];
    for text in told {
        // A file taken out of a stack is whole; a truncated one has its directory in front.
        assert!(described(&text).unwrap() == PLAIN.samples(), "{text}");
        let error =
            of_form(Form { directory_first: true, ..PLAIN }, DESCRIPTION, numbers(&text)).unwrap_err();
        assert!(error.to_string().contains("but the file has room for 1; it may be truncated"), "{error}");
    }
    let single = [
        described("images=3"),
        tifffile("", truncated),
        tifffile("3, ", ""),
        with(32997, vec![1]),
        with(33629, vec![0]),
    ];
    assert!(single.into_iter().all(|outcome| outcome.unwrap() == PLAIN.samples()));
}

/// Returns a file of these compressed strips; `change` may edit the tags before they are written.
fn compressed(form: Form, strips: &[Vec<u8>], change: impl Fn(&mut Tags)) -> Vec<u8> {
    let strips: Vec<&[u8]> = strips.iter().map(Vec::as_slice).collect();
    let mut end = 8;
    let place = |strip: &&[u8]| {
        end += strip.len() as u32;
        end - strip.len() as u32
    };
    let mut tags = form.tags(strips.iter().map(place).collect(), &strips);
    change(&mut tags);
    tags.sort();
    [b"II*\0", &end.to_le_bytes()[..], &strips.concat(), &form.directory(&tags, end as usize)].concat()
}

/// Turns the tags of strips into those of tiles of `side` x `side` pixels.
fn in_tiles(side: usize, tags: &mut Tags) {
    tags.retain(|(tag, _)| *tag != 278);
    tags.extend([(322, vec![side as u32]), (323, vec![side as u32])]);
    for (tag, _) in tags {
        *tag = match *tag {
            OFFSETS => 324,
            LENGTHS => 325,
            other => other,
        };
    }
}

/// Returns a gray file of these compressed tiles of `side` x `side` pixels.
fn tiled(compression: u32, side: usize, tiles: &[Vec<u8>]) -> Vec<u8> {
    compressed(PLAIN, tiles, |tags| {
        first(259, |_| compression)(tags);
        in_tiles(side, tags);
    })
}

#[test]
fn lzw_tiles_of_few_codes_are_read_beyond_the_edge() {
    for side in [16, 48, 64, 128, 240] {
        let tile: Vec<u8> =
            (0..side * side).map(|i: usize| if i.is_multiple_of(side) { 255 } else { 0 }).collect();
        let mut lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
        let tiles = vec![lzw.encode(&tile).unwrap(); WIDTH.div_ceil(side) * HEIGHT.div_ceil(side)];
        let found = decoded(&tiled(5, side, &tiles)).unwrap();
        let expected = (0..WIDTH * HEIGHT).map(|i| if (i % WIDTH).is_multiple_of(side) { 255 } else { 0 });
        assert!(found.into_iter().eq(expected), "{side}");
    }
}

#[test]
fn tiles_may_lie_in_planes() {
    planes_in_tiles(64);
    // Tile rows as long as a row of the picture with all three channels.
    planes_in_tiles(3 * WIDTH);
}

fn planes_in_tiles(side: usize) {
    let form = Form { channels: 3, bytes: 2, ..PLAIN };
    let samples = form.samples();
    let (across, down) = (WIDTH.div_ceil(side), HEIGHT.div_ceil(side));
    let sample = |plane: usize, x: usize, y: usize| {
        let at = 2 * (3 * (y * WIDTH + x) + plane);
        let inside = x < WIDTH && y < HEIGHT;
        if inside { u16::from_ne_bytes([samples[at], samples[at + 1]]) } else { 0xeeee }.to_le_bytes()
    };
    let tile = |i: usize| -> Vec<u8> {
        let (plane, left, top) = (i / (across * down), i % across * side, i / across % down * side);
        (0..side * side).flat_map(|i| sample(plane, left + i % side, top + i / side)).collect()
    };
    let tiles: Vec<Vec<u8>> = (0..3 * across * down).map(tile).collect();
    let lzw = |tile: &Vec<u8>| {
        weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(tile).unwrap()
    };
    for (compression, tiles) in [
        (1, tiles.clone()),
        (5, tiles.iter().map(lzw).collect()),
        (8, tiles.iter().map(|tile| deflated(tile)).collect()),
    ] {
        let file = compressed(form, &tiles, |tags| {
            in_tiles(side, tags);
            first(259, |_| compression)(tags);
            tags.push((284, vec![2]));
        });
        assert!(decoded(&file).unwrap() == samples, "{compression}, {side}");
    }
}

#[test]
fn planes_of_ycbcr_are_refused_by_that_name() {
    let form = Form { channels: 3, ..PLAIN };
    let file = form.file(&form.samples(), |tags| {
        first(259, |_| 7)(tags);
        first(262, |_| 6)(tags);
        tags.push((284, vec![2]));
    });
    let why = decoded(&file).unwrap_err().to_string();
    assert!(why.starts_with("a YCbCr TIFF of JPEG in separate planes is not supported; "), "{why}");
}

#[test]
fn tiles_may_use_the_strip_tags() {
    let side = 16;
    let (across, down) = (WIDTH.div_ceil(side), HEIGHT.div_ceil(side));
    let samples = PLAIN.samples();
    let tile = |i: usize| -> Vec<u8> {
        let sample = |at: usize| {
            let (x, y) = (i % across * side + at % side, i / across * side + at / side);
            if x < WIDTH && y < HEIGHT { samples[y * WIDTH + x] } else { 0xee }
        };
        (0..side * side).map(sample).collect()
    };
    let tiles: Vec<Vec<u8>> = (0..across * down).map(tile).collect();
    let side = side as u32;
    let file = compressed(PLAIN, &tiles, |tags| tags.extend([(322, vec![side]), (323, vec![side])]));
    assert!(decoded(&file).unwrap() == samples);
}

#[test]
fn tiles_beyond_the_limits_are_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&tiled(5, 1000, &[Vec::new()])).unwrap();
    let limits = Limits { max_bytes: 100_000, ..LIMITS };
    let error = decode_file(file.path(), &limits, &TARGET).unwrap_err().to_string();
    assert!(error.contains("a tile of 1000x1000 pixels exceeds the limit of 100000 bytes"), "{error}");
}

#[test]
fn tiles_whose_rows_of_bits_end_within_a_byte_are_refused() {
    let file = PLAIN.file(&PLAIN.samples(), |tags| {
        first(258, |_| 1)(tags);
        tags.push((322, vec![20]));
    });
    let error = decoded(&file).unwrap_err().to_string();
    assert!(error.contains("tiles of 20 samples of 1 bits across"), "{error}");
}

#[test]
fn fill_order_2_is_supported() {
    let form = Form { channels: 3, bytes: 2, ..PLAIN };
    let samples = form.samples();
    let lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&samples);
    let packed = samples.chunks(128).flat_map(|run| [&[run.len() as u8 - 1], run].concat()).collect();
    for (compression, data) in
        [(1, samples.clone()), (5, lzw.unwrap()), (8, deflated(&samples)), (32773, packed)]
    {
        let turned = data.into_iter().map(u8::reverse_bits).collect();
        let file = compressed(form, &[turned], |tags| {
            first(259, |_| compression)(tags);
            tags.push((266, vec![2]));
        });
        assert!(decoded(&file).unwrap() == samples, "{compression}");
    }
}

pub(super) fn deflated(samples: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(samples).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn horizontal_predictor_is_undone() {
    for (channels, bytes) in [1, 2, 3, 4].into_iter().flat_map(|channels| [(channels, 1), (channels, 2)]) {
        let form = Form { channels, bytes, rows_a_strip: 40, ..PLAIN };
        let samples = form.samples();
        let difference = |row: &[u8]| -> Vec<u8> {
            let sample = |i: usize| match bytes {
                1 => u16::from(row[i]),
                _ => u16::from_ne_bytes([row[2 * i], row[2 * i + 1]]),
            };
            let before = |i: usize| i.checked_sub(channels).map_or(0, sample);
            let differences = (0..row.len() / bytes).map(|i| sample(i).wrapping_sub(before(i)));
            differences.flat_map(|difference| difference.to_le_bytes()[..bytes].to_vec()).collect()
        };
        let row = WIDTH * channels * bytes;
        let strips: Vec<Vec<u8>> = samples
            .chunks(40 * row)
            .map(|strip| deflated(&strip.chunks(row).flat_map(difference).collect::<Vec<_>>()))
            .collect();
        let file = compressed(form, &strips, |tags| {
            first(259, |_| 8)(tags);
            tags.push((317, vec![2]));
        });
        assert!(decoded(&file).unwrap() == samples, "{form:?}");
        let unknown = compressed(form, &strips, |tags| {
            first(259, |_| 8)(tags);
            tags.push((317, vec![3]));
        });
        let error = decoded(&unknown).unwrap_err().to_string();
        assert!(error.contains("a TIFF with predictor 3"), "{error}");
    }
}

#[test]
fn horizontal_predictor_works_big_endian_and_planar() {
    let form = Form { big_endian: true, channels: 3, bytes: 2, rows_a_strip: HEIGHT, ..PLAIN };
    let (samples, words) = (form.samples(), form.samples());
    let words = words.as_chunks::<2>().0;
    let sample = |plane: usize, at: usize| u16::from_ne_bytes(words[3 * at + plane]);
    let difference = |plane: usize, at: usize| match at % WIDTH {
        0 => sample(plane, at),
        _ => sample(plane, at).wrapping_sub(sample(plane, at - 1)),
    };
    let plane = |plane: usize| -> Vec<u8> {
        (0..WIDTH * HEIGHT).flat_map(|at| difference(plane, at).to_be_bytes()).collect()
    };
    let planes: Vec<Vec<u8>> = (0..3).map(|number| deflated(&plane(number))).collect();
    let file = big_endian(&compressed(form, &planes, |tags| {
        first(259, |_| 8)(tags);
        tags.extend([(284, vec![2]), (317, vec![2])]);
    }));
    assert!(decoded(&file).unwrap() == samples);
}

/// Replaces the little-endian header of a file that has a big-endian directory.
fn big_endian(file: &[u8]) -> Vec<u8> {
    let directory = u32::from_le_bytes(file[4..8].try_into().unwrap());
    [b"MM\0*", &directory.to_be_bytes()[..], &file[8..]].concat()
}

#[test]
fn group_4_of_several_samples_is_refused() {
    let file = compressed(Form { channels: 2, ..PLAIN }, &[vec![0xff; 100]], |tags| {
        first(258, |_| 1)(tags);
        tags.iter_mut().filter(|(tag, _)| *tag == 258).for_each(|(_, bits)| bits.fill(1));
        first(259, |_| 4)(tags);
    });
    let error = decoded(&file).unwrap_err().to_string();
    assert!(error.contains("2 samples a pixel compressed by CCITT's codes for faxes"), "{error}");
}

#[test]
fn data_that_end_before_the_last_row_are_refused() {
    let samples = PLAIN.samples();
    let lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&samples);
    let packed = samples.iter().flat_map(|&sample| [0, sample]).collect();
    // For each row one bit, the code V0: the row is like the one above. Then EOFB, which is EOL
    // twice (T.6).
    let group_4 = [&[0xff; HEIGHT.div_ceil(8)], &b"\0\x10\x01"[..]].concat();
    for (compression, data, name) in [
        (1, samples, ""),
        (4, group_4, "CCITT group 4"),
        (5, lzw.unwrap(), "LZW"),
        (32773, packed, "PackBits"),
    ] {
        let file = |data: &[u8]| {
            compressed(PLAIN, &[data.to_vec()], |tags| {
                first(259, |_| compression)(tags);
                first(258, |bits| if compression == 4 { 1 } else { bits })(tags);
            })
        };
        assert!(decoded(&file(&data)).is_ok(), "{compression}");
        let error = decoded(&file(&data[..data.len() - 4])).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{compression}: {error:?}");
        assert!(error.to_string().contains(name), "{compression}: {error}");
    }
}

#[test]
fn deflate_data_that_are_damaged_or_too_short_are_refused() {
    let samples = PLAIN.samples();
    let data = deflated(&samples);
    let file = |data: &[u8]| compressed(PLAIN, &[data.to_vec()], first(259, |_| 8));
    assert!(decoded(&file(&data)).unwrap() == samples);
    let error = decoded(&file(&data[..data.len() / 2])).unwrap_err().to_string();
    assert!(error.contains("its deflate data end before its last row"), "{error}");
    let mut damaged = data;
    *damaged.last_mut().unwrap() ^= 1;
    let error = decoded(&file(&damaged)).unwrap_err().to_string();
    assert!(error.contains("its deflate data are damaged"), "{error}");
}

#[test]
fn deflate_data_may_go_on_behind_the_last_row_if_they_are_undamaged() {
    let samples = PLAIN.samples();
    let file = |data: &[u8]| compressed(PLAIN, &[data.to_vec()], first(259, |_| 8));
    for (more, is_read) in [(1, true), (samples.len(), true), (samples.len() + 1, false), (1 << 20, false)] {
        let mut data = deflated(&[&samples[..], &vec![7; more]].concat());
        assert_eq!(decoded(&file(&data)).ok(), is_read.then(|| samples.clone()), "{more}");
        let error = decoded(&file(&data[..data.len() - 1])).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{more}: {error}");
        *data.last_mut().unwrap() ^= 1;
        let error = decoded(&file(&data)).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{more}: {error}");
    }
}

#[test]
fn strips_that_are_not_in_the_file_are_refused() {
    let form = Form { rows_a_strip: 50, ..PLAIN };
    let samples = form.samples();
    assert!(decoded(&form.file(&samples, |_| ())).is_ok());
    let inside = samples.len() as u32 + 100;
    // A strip may claim more bytes than the file has, as long as its rows are there.
    assert!(decoded(&form.file(&samples, first(LENGTHS, |_| 1 << 30))).unwrap() == samples);
    let refused: [(&str, Change); 5] = [
        ("behind the file", Box::new(first(OFFSETS, |_| 1 << 30))),
        ("across its end", Box::new(first(OFFSETS, move |_| inside))),
        ("shorter than its rows", Box::new(first(LENGTHS, |length| length - 1))),
        ("too few", Box::new(|tags| tags.iter_mut().find(|tag| tag.0 == OFFSETS).unwrap().1.truncate(2))),
        ("none", Box::new(|tags| tags.retain(|tag| tag.0 != OFFSETS))),
    ];
    for (what, change) in refused {
        let error = decoded(&form.file(&samples, change)).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{what}: {error:?}");
        assert!(!error.to_string().contains("crashed"), "{what}: {error}");
    }
}

#[test]
fn a_strip_that_claims_a_long_file_takes_no_memory_for_it() {
    let samples = PLAIN.samples();
    // The first claims 60 MiB of data, the second almost the greatest number of rows.
    for (compression, tag, number) in [(8, LENGTHS, 60 << 20), (7, 278, 65535)] {
        let mut file = tempfile::tempfile().unwrap();
        let change = |tags: &mut Tags| {
            first(259, |_| compression)(tags);
            first(tag, |_| number)(tags);
        };
        file.write_all(&compressed(PLAIN, &[deflated(&samples)], change)).unwrap();
        file.set_len(64 << 20).unwrap();
        file.rewind().unwrap();
        let mut buffer = Vec::new();
        let opened = codec::open(&mut file, &mut buffer, &LIMITS, &TARGET).unwrap();
        assert!(opened.heap_bytes() < 1 << 20, "{compression}: {} bytes", opened.heap_bytes());
        if compression == 8 {
            let mut slot = vec![0; opened.slot_bytes()];
            opened.decode(&mut slot, &mut [], &Cores::none()).unwrap();
            assert!(slot == samples);
        }
    }
}

#[test]
fn a_chain_of_pages_without_an_end_is_refused() {
    let file = PLAIN.file(&PLAIN.samples(), |_| ());
    let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let entries = usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let next = at + 2 + 12 * entries;
    let leading_to = |offset: usize| {
        let mut file = [&file[..], &file[at..]].concat();
        file[next..next + 4].copy_from_slice(&(offset as u32).to_le_bytes());
        decoded(&file).map_err(|error| error.to_string())
    };
    assert!(leading_to(0).unwrap() == PLAIN.samples());
    let why = leading_to(at).unwrap_err();
    assert_eq!(why, "damaged TIFF: its pages follow one another in a circle");
}

#[test]
fn samples_that_cannot_be_read_right_are_refused_by_name() {
    let colour = Form { channels: 3, ..PLAIN };
    let deep = Form { bytes: 2, ..PLAIN };
    let set = |changes: &'static [(u16, u32)]| -> Change {
        Box::new(move |tags| {
            for &(tag, number) in changes {
                tags.retain(|(other, _)| *other != tag);
                tags.push((tag, vec![number]));
            }
        })
    };
    let uneven: Change =
        Box::new(|tags| tags.iter_mut().find(|(tag, _)| *tag == 258).unwrap().1 = vec![8, 8, 4]);
    let refused = [
        (colour, uneven, "samples have different depths"),
        (PLAIN, set(&[(258, 4), (259, 5), (317, 2)]), "a predictor for samples of 4 bits"),
        (PLAIN, set(&[(258, 4), (259, 7)]), "4 bits compressed by JPEG or CCITT"),
        (PLAIN, set(&[(259, 4)]), "8 bits compressed by JPEG or CCITT"),
        (deep, set(&[(262, 3)]), "its palette is missing or has the wrong length"),
        (PLAIN, set(&[(322, 0), (323, 16)]), "its tiles have no width or length"),
    ];
    for (form, change, told) in refused {
        let why = decoded(&form.file(&form.samples(), change)).unwrap_err().to_string();
        assert!(why.contains(told), "{told}: {why}");
    }
}

#[test]
fn a_file_that_is_cut_short_is_refused_wherever() {
    let form = Form { rows_a_strip: 20, directory_first: true, ..PLAIN };
    let file = form.file(&form.samples(), |_| ());
    for end in [8, 9, 100, 200, 10_000, 16_384, 20_000, file.len() - 1] {
        let error = decoded(&file[..end]).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{end}: {error:?}");
    }
    assert!(decoded(&file).is_ok());
}

#[test]
fn a_pipe_is_read_too() {
    let form = Form { channels: 3, bytes: 2, ..PLAIN };
    let (samples, file) = (form.samples(), form.file(&form.samples(), |_| ()));
    let (reader, mut writer) = std::io::pipe().unwrap();
    let writer = std::thread::spawn(move || writer.write_all(&file));
    let mut pipe = File::from(std::os::fd::OwnedFd::from(reader));
    let mut buffer = Vec::new();
    let opened = codec::open(&mut pipe, &mut buffer, &LIMITS, &TARGET).unwrap();
    let mut slot = vec![0; opened.slot_bytes()];
    opened.decode(&mut slot, &mut [], &Cores::none()).unwrap();
    assert!(slot == samples);
    writer.join().unwrap().unwrap();
}
