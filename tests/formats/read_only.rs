//! JPEG XL and JPEG 2000, which are read and written in other formats.

use crate::harness::project;
use codec::{CodecError, Format, Limits, Target};

use super::{LIMITS, TARGET, decode, decode_file, encode, pixels};

fn path(name: &str) -> std::path::PathBuf {
    project().join("tests/data/codec").join(name)
}

#[test]
fn they_become_tiffs_unless_another_format_is_asked_for() {
    for name in ["jxl-rgba.jxl", "jp2-rgba-tiles.jp2"] {
        becomes_another(&std::fs::read(path(name)).unwrap());
    }
}

fn becomes_another(bytes: &[u8]) {
    for (format, written) in
        [(None, Format::Tiff), (Some(Format::Png), Format::Png), (Some(Format::WebP), Format::WebP)]
    {
        let target = Target { format, ..TARGET };
        let (decoded, slot) = decode(bytes, &target).unwrap();
        assert!(!decoded.format.is_written());
        let before = pixels(&decoded, &slot).to_vec();
        let (again, slot) = decode(&encode(&decoded, slot, &target).unwrap(), &TARGET).unwrap();
        assert_eq!(again.format, written);
        assert!(pixels(&again, &slot) == before, "{written}");
    }
}

#[test]
fn they_are_not_written() {
    for format in [Format::JpegXl, Format::Jpeg2000] {
        let target = Target { format: Some(format), ..TARGET };
        let error = decode(b"P5 2 1 255 \x10\x20", &target).unwrap_err();
        assert!(matches!(error, CodecError::CannotRepresent { .. }), "{error}");
    }
}

#[test]
fn sizes_are_checked_and_no_part_may_be_missing() {
    let limits = Limits { max_pixels: 479, ..LIMITS };
    let error = decode_file(&path("jxl-lossy.jxl"), &limits, &TARGET).unwrap_err();
    assert!(error.to_string().contains("24x20 pixels exceeds the limit"), "{error}");
    for name in ["jxl-lossy.jxl", "jxl-rgba.jxl", "jxl-gray-16.jxl", "jp2-gray-16.jp2", "jp2-rgb.j2k"] {
        let whole = std::fs::read(path(name)).unwrap();
        for end in [2, 12, 20, whole.len() / 2, whole.len() - 1] {
            let error = decode(&whole[..end], &TARGET).map(|_| ()).unwrap_err();
            let is_told = matches!(error, CodecError::Malformed { .. } | CodecError::NotAPicture);
            assert!(is_told, "{name}, {end}: {error:?}");
        }
    }
}

#[test]
fn lossy_jpeg_xl_has_the_colours_of_its_profile() {
    // Loss of less than 0.0005 of the light is 8 levels next to black.
    let wide = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 128, 128], [255, 255, 0], [30, 90, 200]];
    let (decoded, slot) = decode(&std::fs::read(path("jxl-wide.jxl")).unwrap(), &TARGET).unwrap();
    assert!(decoded.metadata.icc.is_some());
    for (patch, expected) in wide.into_iter().enumerate() {
        let at = 3 * (12 * decoded.layout.width as usize + 24 * patch + 12);
        let found = &pixels(&decoded, &slot)[at..at + 3];
        assert!(
            found.iter().zip(expected).all(|(found, level)| found.abs_diff(level) <= 8),
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn jpeg_xl_that_the_decoder_misreads_is_read() {
    // Gray that is coded as three colours.
    let (decoded, slot) = decode(&std::fs::read(path("jxl-gray-three.jxl")).unwrap(), &TARGET).unwrap();
    let expected = (0..20).flat_map(|y| (0..24).map(move |x| 40 + 7 * x + 2 * y));
    assert_eq!((decoded.layout.pixel.channels(), pixels(&decoded, &slot).len()), (1, 20 * 24));
    assert!(pixels(&decoded, &slot).iter().zip(expected).all(|(found, level)| found.abs_diff(level) <= 4));
    // A preview that is larger than the picture. The mean is that of libjxl.
    let (decoded, slot) = decode(&std::fs::read(path("jxl-preview.jxl")).unwrap(), &TARGET).unwrap();
    assert_eq!((decoded.layout.width, decoded.layout.height), (64, 64));
    for (channel, expected) in [204.3, 26.2, 26.6].into_iter().enumerate() {
        let samples = pixels(&decoded, &slot).iter().skip(channel).step_by(3);
        let mean = samples.map(|sample| f64::from(*sample)).sum::<f64>() / f64::from(64 * 64);
        assert!((mean - expected).abs() < 1.0, "{channel}: {mean}");
    }
}

#[test]
fn codestreams_that_are_valid_are_read_whatever_the_decoder_takes_them_for() {
    // The samples are those of OpenJPEG.
    for (name, size, crc) in [
        ("j2k-open-length.j2k", (80, 64), 0xa841_2d6b),
        ("j2k-padding.j2k", (80, 64), 0xa841_2d6b),
        ("j2k-subsampled.j2k", (70, 60), 0x217c_a199),
        ("jp2-rest.jp2", (70, 60), 0x37b6_c94a),
    ] {
        let (decoded, slot) = decode(&std::fs::read(path(name)).unwrap(), &TARGET).unwrap();
        assert_eq!((decoded.layout.width, decoded.layout.height), size, "{name}");
        let mut sum = flate2::Crc::new();
        sum.update(pixels(&decoded, &slot));
        assert_eq!(sum.sum(), crc, "{name}: {:08x}", sum.sum());
    }
    // A part of the end, or of the packets, is missing.
    let whole = std::fs::read(path("j2k-padding.j2k")).unwrap();
    for end in [whole.len() - 1, whole.len() - 40, whole.len() / 2] {
        assert!(decode(&whole[..end], &TARGET).is_err(), "{end}");
    }
}
