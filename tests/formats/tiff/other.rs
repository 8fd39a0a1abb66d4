//! A channel in addition to the colours that is not declared as alpha.

use codec::{Format, Remark, Target};
use equalize::colour::Gray;
use equalize::{Layout, Pixel};

use super::{Form, PLAIN, TARGET, Tags, decode, encode, first, pixels};

const EXTRA_SAMPLES: u16 = 338;

fn undeclared(tags: &mut Tags) {
    tags.retain(|(tag, _)| *tag != EXTRA_SAMPLES);
}

/// Returns the bytes of the channels before the last one, and those of the last one.
fn apart(form: Form, samples: &[u8]) -> [Vec<u8>; 2] {
    let colours = (form.channels - 1) * form.bytes;
    let split = |pixel: &[u8]| {
        let (colours, last) = pixel.split_at(colours);
        [colours.to_vec(), last.to_vec()]
    };
    let pixels = || samples.chunks(form.channels * form.bytes).map(split);
    [0, 1].map(|part| pixels().flat_map(|pixel| pixel[part].clone()).collect())
}

/// Returns the last channel of a file that is declared as anything, read as if it were alpha.
fn last_of(form: Form, mut file: Vec<u8>) -> Vec<u8> {
    let entry =
        [&EXTRA_SAMPLES.to_le_bytes()[..], &3_u16.to_le_bytes(), &1_u32.to_le_bytes(), &[0; 4]].concat();
    let at = file.windows(entry.len()).position(|bytes| bytes == entry).expect("it is declared as anything");
    file[at + 8] = 2;
    let (decoded, slot) = decode(&file, &TARGET).unwrap();
    let [_, last] = apart(form, pixels(&decoded, &slot));
    last
}

#[test]
fn it_is_no_part_of_the_pixels_and_is_written_back_as_it_was() {
    for (channels, bytes, big_endian) in [(4, 1, true), (4, 2, false)] {
        let form = Form { channels, bytes, big_endian, rows_a_strip: 20, ..PLAIN };
        let [colours, last] = apart(form, &form.samples());
        for file in
            [form.file(&form.samples(), undeclared), form.file(&form.samples(), first(EXTRA_SAMPLES, |_| 0))]
        {
            let (decoded, mut slot) = decode(&file, &TARGET).unwrap();
            assert_eq!(decoded.layout.pixel, Pixel::Rgb);
            assert!(pixels(&decoded, &slot) == colours, "{form:?}");
            assert_eq!(decoded.remarks(&TARGET), [Remark::ChannelAsItWas]);
            let pixels_end = decoded.layout.bytes() as usize;
            slot[..pixels_end].iter_mut().for_each(|byte| *byte = !*byte);
            let changed = slot[..pixels_end].to_vec();
            let written = encode(&decoded, slot, &TARGET).unwrap();
            let (again, slot) = decode(&written, &TARGET).unwrap();
            assert!(pixels(&again, &slot) == changed, "{form:?}");
            assert!(last_of(form, written) == last, "{form:?}");
        }
    }
}

#[test]
fn it_stays_when_colours_become_gray() {
    let (form, target) = (Form { channels: 4, ..PLAIN }, Target { gray: Some(Gray::Luma), ..TARGET });
    let file = form.file(&form.samples(), first(EXTRA_SAMPLES, |_| 0));
    let (decoded, slot) = decode(&file, &target).unwrap();
    let gray = pixels(&decoded, &slot).to_vec();
    let written = encode(&decoded, slot, &target).unwrap();
    let [_, last] = apart(form, &form.samples());
    let expected: Vec<u8> = gray.iter().zip(&last).flat_map(|(&gray, &last)| [gray, last]).collect();
    // The samples are stored after the header.
    assert!(written[8..8 + expected.len()] == expected);
}

#[test]
fn channels_that_are_no_colours_are_refused_where_they_cannot_be_told_apart() {
    const REMEDY: &str =
        "take each out first, as in `gdal_translate -b 1 IN OUT-1.tif` (GDAL), then -b 2 and so on";
    let with_alpha = "a TIFF page of 3 channels besides colours, with alpha";
    let in_jpeg = "a TIFF of 3 interleaved channels in JPEG (which may be YCbCr)";
    for (kinds, compression, what) in [(vec![0, 2, 0], 1, with_alpha), (vec![0, 0], 7, in_jpeg)] {
        let form = Form { channels: 1 + kinds.len(), ..PLAIN };
        for photometric in [0, 1] {
            let file = form.file(&form.samples(), |tags| {
                undeclared(tags);
                first(262, |_| photometric)(tags);
                first(259, |_| compression)(tags);
                tags.push((EXTRA_SAMPLES, kinds.clone()));
            });
            let why = decode(&file, &TARGET).unwrap_err().to_string();
            assert_eq!(why, format!("{what} is not supported; {REMEDY}"));
        }
    }
}

#[test]
fn a_format_without_a_place_for_it_gets_the_colours_alone_with_a_remark() {
    let form = Form { channels: 4, ..PLAIN };
    let file = form.file(&form.samples(), undeclared);
    for format in [Format::Png, Format::Jpeg, Format::Pnm, Format::Bmp, Format::WebP] {
        let target = Target { format: Some(format), ..TARGET };
        let (decoded, slot) = decode(&file, &target).unwrap();
        assert_eq!(decoded.remarks(&target), [Remark::WithoutChannel], "{format}");
        let (layout, colours) = (decoded.layout, pixels(&decoded, &slot).to_vec());
        let as_rgb = Target { needs_rgb: true, ..TARGET };
        let (again, slot) = decode(&encode(&decoded, slot, &target).unwrap(), &as_rgb).unwrap();
        assert_eq!(again.layout, Layout { pixel: Pixel::Rgb, ..layout }, "{format}");
        assert!(format == Format::Jpeg || pixels(&again, &slot) == colours, "{format}");
    }
}

#[test]
fn a_picture_of_which_nothing_can_be_seen_is_remarked() {
    let form = Form { channels: 4, ..PLAIN };
    let mut samples = form.samples();
    samples.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha = 0);
    let remarks = |samples: &[u8]| decode(&form.file(samples, |_| ()), &TARGET).unwrap().0.remarks(&TARGET);
    assert_eq!(remarks(&samples), [Remark::Invisible]);
    *samples.last_mut().unwrap() = 1;
    assert_eq!(remarks(&samples), []);
}

/// Returns the samples of pixels from one to another.
fn part(form: Form, samples: &[u8], channels: std::ops::Range<usize>) -> Vec<u8> {
    let of_pixel = |pixel: &[u8]| pixel[channels.start * form.bytes..channels.end * form.bytes].to_vec();
    samples.chunks_exact(form.channels * form.bytes).flat_map(of_pixel).collect()
}

#[test]
fn several_channels_stay_as_they_were_behind_colours_or_alpha() {
    for (channels, bytes, alpha) in [(5, 1, false), (6, 1, true), (6, 2, true), (7, 2, false), (19, 1, false)]
    {
        let form = Form { channels, bytes, rows_a_strip: 20, ..PLAIN };
        let kinds = move |tags: &mut Tags| {
            undeclared(tags);
            let mut kinds = vec![0; channels - 3];
            kinds[0] = if alpha { 2 } else { 0 };
            tags.push((EXTRA_SAMPLES, kinds));
        };
        let file = form.file(&form.samples(), kinds);
        let (decoded, slot) = decode(&file, &TARGET).unwrap();
        assert_eq!(decoded.layout.pixel, if alpha { Pixel::Rgba } else { Pixel::Rgb });
        let visible = if alpha { 4 } else { 3 };
        assert!(pixels(&decoded, &slot) == part(form, &form.samples(), 0..visible), "{form:?}");
        assert_eq!(decoded.remarks(&TARGET), [Remark::ChannelAsItWas]);
        let written = encode(&decoded, slot, &TARGET).unwrap();
        // They are stored after the header.
        assert!(written[8..8 + form.samples().len()] == form.samples(), "{form:?}");
        let png = Target { format: Some(Format::Png), ..TARGET };
        assert_eq!(decode(&file, &png).unwrap().0.remarks(&png), [Remark::WithoutChannel]);
    }
    let many = Form { channels: 20, ..PLAIN };
    let why = decode(&many.file(&many.samples(), undeclared), &TARGET).unwrap_err().to_string();
    assert!(
        why.contains("a TIFF of 17 channels besides its colours is not supported; choose channels"),
        "{why}"
    );
}

#[test]
fn alpha_may_lie_behind_others_and_goes_back_there() {
    for (kinds, place) in [(vec![0, 2], 4), (vec![0, 0, 2, 0], 5)] {
        let form = Form { channels: 3 + kinds.len(), ..PLAIN };
        let samples = form.samples();
        let file = form.file(&samples, |tags| tags.push((EXTRA_SAMPLES, kinds.clone())));
        let (decoded, slot) = decode(&file, &TARGET).unwrap();
        assert_eq!(decoded.layout.pixel, Pixel::Rgba);
        let (colours, alpha) = (part(form, &samples, 0..3), part(form, &samples, place..place + 1));
        let expected: Vec<u8> =
            colours.chunks(3).zip(&alpha).flat_map(|(colour, alpha)| [colour, &[*alpha]].concat()).collect();
        assert!(pixels(&decoded, &slot) == expected, "{kinds:?}");
        let written = encode(&decoded, slot, &TARGET).unwrap();
        // The samples are stored after the header.
        assert!(written[8..8 + samples.len()] == samples, "{kinds:?}");
        let (again, slot) = decode(&written, &TARGET).unwrap();
        assert!(again.layout == decoded.layout && pixels(&again, &slot) == expected, "{kinds:?}");
    }
}
