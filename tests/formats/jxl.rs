//! JPEG XL, which is read and written in other formats.

use std::path::Path;

use codec::{CodecError, Format, Limits, Target};

use super::{LIMITS, TARGET, decode, decode_file, encode, pixels};

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/codec").join(name)
}

#[test]
fn it_becomes_a_tiff_unless_another_format_is_asked_for() {
    let bytes = std::fs::read(path("jxl-rgba.jxl")).unwrap();
    for (format, written) in
        [(None, Format::Tiff), (Some(Format::Png), Format::Png), (Some(Format::WebP), Format::WebP)]
    {
        let target = Target { format, ..TARGET };
        let (decoded, slot) = decode(&bytes, &target).unwrap();
        assert_eq!(decoded.format, Format::JpegXl);
        let before = pixels(&decoded, &slot).to_vec();
        let (again, slot) = decode(&encode(&decoded, slot, &target).unwrap(), &TARGET).unwrap();
        assert_eq!(again.format, written);
        assert!(pixels(&again, &slot) == before, "{written}");
    }
}

#[test]
fn it_is_not_written() {
    let target = Target { format: Some(Format::JpegXl), ..TARGET };
    let error = decode(b"P5 2 1 255 \x10\x20", &target).unwrap_err();
    assert!(matches!(error, CodecError::CannotRepresent { .. }), "{error}");
}

#[test]
fn its_size_is_checked_and_no_part_of_it_may_be_missing() {
    let limits = Limits { max_pixels: 479, ..LIMITS };
    let error = decode_file(&path("jxl-lossy.jxl"), &limits, &TARGET).unwrap_err();
    assert!(error.to_string().contains("24x20 pixels exceeds the limit"), "{error}");
    for name in ["jxl-lossy.jxl", "jxl-rgba.jxl", "jxl-gray-16.jxl"] {
        let whole = std::fs::read(path(name)).unwrap();
        for end in [2, 12, 20, whole.len() / 2, whole.len() - 1] {
            let error = decode(&whole[..end], &TARGET).map(|_| ()).unwrap_err();
            let is_told = matches!(error, CodecError::Malformed { .. } | CodecError::NotAPicture);
            assert!(is_told, "{name}, {end}: {error:?}");
        }
    }
}
