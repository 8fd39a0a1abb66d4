//! JPEGs that are lossless or have samples of 12 bits.

use crate::harness::project;
use codec::{CodecError, Format, Target};

use super::{TARGET, decode, encode, pixels};

fn file(name: &str) -> Vec<u8> {
    std::fs::read(project().join("tests/data/codec").join(name)).unwrap()
}

#[test]
fn lossless_and_12_bit_pictures_are_written_in_formats_that_hold_them() {
    let into = |format| Target { format, ..TARGET };
    let eight = Target { eight_bit: true, ..TARGET };
    for (name, told) in [
        ("jpeg-lossless-gray.jpg", "use --format png or tiff, or --format jpeg if it may be lossy"),
        ("jpeg-lossless-10.jpg", "use --format png or tiff, or --format jpeg if it may be lossy"),
        ("jpeg-12-420.jpg", "use --depth 8, or --format png, tiff or pnm"),
    ] {
        let bytes = file(name);
        let why = decode(&bytes, &into(None)).unwrap_err();
        assert!(
            matches!(&why, CodecError::CannotRepresent { remedy, .. } if remedy == told),
            "{name}: {why}"
        );
        for format in [Format::Png, Format::Tiff, Format::Pnm] {
            let (decoded, slot) = decode(&bytes, &into(Some(format))).unwrap();
            let before = pixels(&decoded, &slot).to_vec();
            let (again, slot) =
                decode(&encode(&decoded, slot, &into(Some(format))).unwrap(), &TARGET).unwrap();
            assert!(pixels(&again, &slot) == before, "{name} as {format}");
        }
    }
    assert!(decode(&file("jpeg-12-420.jpg"), &eight).is_ok());
    let lossy = into(Some(Format::Jpeg));
    let (decoded, slot) = decode(&file("jpeg-lossless-rgb.jpg"), &lossy).unwrap();
    assert!(decode(&encode(&decoded, slot, &lossy).unwrap(), &TARGET).is_ok());
}

#[test]
fn a_lossless_picture_that_is_damaged_or_cut_short_is_refused() {
    let target = Target { format: Some(Format::Tiff), ..TARGET };
    for name in ["jpeg-lossless-gray.jpg", "jpeg-12-444.jpg"] {
        let whole = file(name);
        for end in [20, 60, 150, whole.len() / 2, whole.len() - 2] {
            let cut = [&whole[..end], b"\xff\xd9"].concat();
            let error = decode(&cut, &target).map(|_| ()).err();
            assert!(
                end == whole.len() - 2 || matches!(error, Some(CodecError::Malformed { .. })),
                "{end}: {error:?}"
            );
        }
    }
}
