//! ICC profile, EXIF, XMP and resolution through every pair of formats that have a place for them.

use codec::{Format, Georeference, Metadata, Remark, Resolution, Target};
use equalize::colour::Gray;

use super::{TARGET, decode, encode};

const WITH_METADATA: [Format; 4] = [Format::Png, Format::Jpeg, Format::Tiff, Format::WebP];

/// Bytes with the header of an RGB profile, more than one JPEG segment can hold.
fn icc() -> Vec<u8> {
    let mut icc = vec![7; 70_000];
    icc[..4].copy_from_slice(&70_000u32.to_be_bytes());
    icc[16..20].copy_from_slice(b"RGB ");
    icc[36..40].copy_from_slice(b"acsp");
    icc
}

/// Little-endian EXIF: orientation 6 and a rating of 4 in the first directory, an exposure time in
/// the EXIF directory.
fn exif() -> Vec<u8> {
    let mut exif = b"II*\0\x08\0\0\0".to_vec();
    exif.extend(b"\x03\0");
    exif.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0");
    exif.extend(b"\x46\x47\x03\0\x01\0\0\0\x04\0\0\0");
    exif.extend(b"\x69\x87\x04\0\x01\0\0\0\x32\0\0\0");
    exif.extend(b"\0\0\0\0");
    exif.extend(b"\x01\0\x9a\x82\x05\0\x01\0\0\0\x44\0\0\0\0\0\0\0");
    exif.extend(b"\x01\0\0\0\x3c\0\0\0");
    exif
}

fn metadata() -> Metadata {
    Metadata {
        icc: Some(icc()),
        exif: Some(exif()),
        xmp: Some(b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>".to_vec()),
        ..Metadata::default()
    }
}

fn target(format: Format) -> Target {
    Target { format: Some(format), ..TARGET }
}

/// A file of the format with all the metadata.
fn file(format: Format) -> Vec<u8> {
    let ppm = [&b"P6 4 2 255\n"[..], &[90; 24]].concat();
    let (mut decoded, slot) = decode(&ppm, &target(format)).unwrap();
    decoded.metadata = metadata();
    encode(&decoded, slot, &target(format)).unwrap()
}

#[test]
fn metadata_travels_between_formats() {
    for from in WITH_METADATA {
        let source = file(from);
        for to in WITH_METADATA {
            let (decoded, slot) = decode(&source, &target(to)).unwrap();
            assert!((decoded.format, &decoded.metadata) == (from, &metadata()), "from {from}");
            let written = encode(&decoded, slot, &target(to)).unwrap();
            let (again, _) = decode(&written, &TARGET).unwrap();
            assert!((again.format, again.metadata) == (to, metadata()), "from {from} to {to}");
        }
    }
}

#[test]
fn the_resolution_travels_between_formats() {
    const WITH_RESOLUTION: [Format; 4] = [Format::Png, Format::Jpeg, Format::Tiff, Format::Bmp];
    let resolution = Some(Resolution { x: 30_000, y: 60_000 });
    let ppm = [&b"P6 4 2 255\n"[..], &[90; 24]].concat();
    let same = |found: Option<Resolution>, what: String| {
        // Whole numbers of pixels per metre are not whole numbers per inch.
        let near = |found: u32, told: u32| found.abs_diff(told) <= 1;
        assert!(found.is_some_and(|r| near(r.x, 30_000) && near(r.y, 60_000)), "{found:?} {what}");
    };
    for from in WITH_RESOLUTION {
        let (mut decoded, slot) = decode(&ppm, &target(from)).unwrap();
        decoded.metadata.resolution = resolution;
        let source = encode(&decoded, slot, &target(from)).unwrap();
        for to in WITH_RESOLUTION {
            let (decoded, slot) = decode(&source, &target(to)).unwrap();
            same(decoded.metadata.resolution, format!("in {from}"));
            let written = encode(&decoded, slot, &target(to)).unwrap();
            same(decode(&written, &TARGET).unwrap().0.metadata.resolution, format!("from {from} to {to}"));
        }
    }
}

#[test]
fn a_bitmap_keeps_its_profile() {
    let rgb = Target { format: Some(Format::Bmp), ..TARGET };
    let gray = Target { gray: Some(Gray::Luma), ..rgb };
    let rgba = b"P7\nWIDTH 4\nHEIGHT 2\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n";
    let opaque = file(Format::Png);
    let transparent = [&rgba[..], &[90; 32]].concat();
    for (source, target) in [(&opaque, rgb), (&opaque, gray), (&transparent, rgb)] {
        let (mut decoded, slot) = decode(source, &target).unwrap();
        decoded.metadata.icc = Some(icc());
        let (layout, pixels) = (decoded.layout, slot.clone());
        let written = encode(&decoded, slot, &target).unwrap();
        let (again, slot) = decode(&written, &TARGET).unwrap();
        assert_eq!(
            (again.layout, &slot[..layout.bytes() as usize]),
            (layout, &pixels[..layout.bytes() as usize])
        );
        assert_eq!(again.metadata.icc, Some(icc()), "{layout:?}");

        let mut linked = written.clone();
        linked[70..74].copy_from_slice(b"KNIL");
        assert!(decode(&linked, &TARGET).unwrap_err().to_string().contains("in another file"));
        let mut outside = written;
        outside[130..134].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&outside, &TARGET).unwrap_err().to_string().contains("lies outside the file"));
    }
}

#[test]
fn a_colour_profile_does_not_go_with_gray() {
    for format in [Format::Png, Format::Jpeg, Format::Tiff] {
        let gray = Target { gray: Some(Gray::Luma), ..TARGET };
        let (decoded, slot) = decode(&file(format), &gray).unwrap();
        assert_eq!(decoded.remarks(&gray), [Remark::WithoutMetadata], "{format}");
        let written = encode(&decoded, slot, &gray).unwrap();
        let (again, _) = decode(&written, &TARGET).unwrap();
        assert!(again.metadata == Metadata { icc: None, ..metadata() }, "{format}");
    }
}

#[test]
fn a_profile_for_other_pixels_is_told_of() {
    let pgm = [&b"P5 4 2 255\n"[..], &[90; 8]].concat();
    let mut gray_icc = icc();
    gray_icc[16..20].copy_from_slice(b"GRAY");
    for (icc, losing) in [(icc(), [Format::Png, Format::Tiff]), (gray_icc, [Format::WebP, Format::Bmp])] {
        for to in [Format::Png, Format::Tiff, Format::WebP, Format::Bmp] {
            let (mut decoded, slot) = decode(&pgm, &target(to)).unwrap();
            decoded.metadata.icc = Some(icc.clone());
            let remarks = decoded.remarks(&target(to));
            let (again, _) = decode(&encode(&decoded, slot, &target(to)).unwrap(), &TARGET).unwrap();
            assert_eq!(again.metadata.icc.is_none(), losing.contains(&to), "{to}");
            assert_eq!(remarks, [Remark::WithoutMetadata][..usize::from(losing.contains(&to))], "{to}");
        }
    }
}

#[test]
fn metadata_without_a_place_is_told_of() {
    let with_all = file(Format::Png);
    let remark = |metadata: Metadata, to| {
        let (mut decoded, _) = decode(&with_all, &target(to)).unwrap();
        decoded.metadata = metadata;
        decoded.remarks(&target(to))
    };
    let profile = Metadata { icc: Some(icc()), ..Metadata::default() };
    let exif = Metadata { exif: Some(exif()), ..Metadata::default() };
    for to in WITH_METADATA {
        assert_eq!(remark(metadata(), to), [], "{to}");
    }
    assert_eq!(remark(profile.clone(), Format::Bmp), []);
    for (metadata, to) in [(profile, Format::Pnm), (exif.clone(), Format::Pnm), (exif, Format::Bmp)] {
        assert_eq!(remark(metadata, to), [Remark::WithoutMetadata], "{to}");
    }
    assert_eq!(remark(Metadata::default(), Format::Pnm), []);
}

#[test]
fn a_georeference_goes_into_tiffs_alone() {
    // GeoTIFF's tags in a TIFF structure: keys that name UTM 33N, of which the last is the code.
    let mut tags = b"II*\0\x08\0\0\0\x01\0\xaf\x87\x03\0\x08\0\0\0\x1a\0\0\0\0\0\0\0".to_vec();
    let keys = [1, 1, 0, 1, 3072, 0, 1, 32633].map(u16::to_le_bytes).concat();
    tags.extend(&keys);
    for georeference in [Georeference::Tags(tags), Georeference::Gml] {
        let has_tags = georeference != Georeference::Gml;
        let (mut decoded, slot) = decode(&file(Format::Png), &target(Format::Tiff)).unwrap();
        decoded.metadata = Metadata { georeference: Some(georeference), ..Metadata::default() };
        let lost = [Remark::WithoutGeoreference];
        assert_eq!(decoded.remarks(&target(Format::Png)), lost);
        assert_eq!(decoded.remarks(&target(Format::Tiff)), lost[..usize::from(!has_tags)]);
        let written = encode(&decoded, slot, &target(Format::Tiff)).unwrap();
        assert_eq!(written.windows(keys.len()).any(|window| window == keys), has_tags);
        let again = decode(&written, &target(Format::Png)).unwrap().0;
        assert_eq!(again.remarks(&target(Format::Png)), lost[..usize::from(has_tags)]);
        assert_eq!(again.remarks(&TARGET), []);
    }
}

/// EXIF with a resolution of 300 pixels per inch alone.
fn exif_of_300_dpi() -> Vec<u8> {
    let mut exif = b"MM\0*\0\0\0\x08\0\x02".to_vec();
    exif.extend(b"\x01\x1a\0\x05\0\0\0\x01\0\0\0\x26\x01\x1b\0\x05\0\0\0\x01\0\0\0\x26\0\0\0\0");
    exif.extend(b"\0\0\x01\x2c\0\0\0\x01");
    exif
}

#[test]
fn a_resolution_without_a_place_is_told_of() {
    let remark = |metadata: &Metadata, to| {
        let (mut decoded, _) = decode(&file(Format::Png), &target(to)).unwrap();
        decoded.metadata = metadata.clone();
        decoded.remarks(&target(to))
    };
    let resolution = Some(Resolution { x: 30_000, y: 30_000 });
    let bare = Metadata { resolution, ..Metadata::default() };
    let of_exif = Metadata { exif: Some(exif_of_300_dpi()), ..bare.clone() };
    for to in [Format::Png, Format::Jpeg, Format::Tiff, Format::Bmp] {
        assert_eq!(remark(&bare, to), [], "{to}");
    }
    for to in [Format::WebP, Format::Pnm] {
        assert_eq!(remark(&bare, to), [Remark::WithoutResolution], "{to}");
    }
    // 40 nm per pixel are more pixels per inch than a JPEG's density can hold.
    let dense = Metadata { resolution: Some(Resolution { x: 63_500_000, y: 63_500_000 }), ..bare.clone() };
    assert_eq!(remark(&dense, Format::Jpeg), [Remark::WithoutResolution]);
    assert_eq!(remark(&dense, Format::Tiff), []);
    assert_eq!(remark(&of_exif, Format::WebP), []);
    assert_eq!(remark(&Metadata { exif: Some(exif()), ..bare }, Format::WebP), [Remark::WithoutResolution]);
    assert_eq!(remark(&of_exif, Format::Pnm), [Remark::WithoutMetadata, Remark::WithoutResolution]);
}

#[test]
fn jfif_density_without_unit_is_no_resolution() {
    let ppm = [&b"P6 4 2 255\n"[..], &[90; 24]].concat();
    let (decoded, slot) = decode(&ppm, &target(Format::Jpeg)).unwrap();
    let jpeg = encode(&decoded, slot, &target(Format::Jpeg)).unwrap();
    assert_eq!(&jpeg[6..11], b"JFIF\0");
    let remarks = |unit: u8| {
        let mut jpeg = jpeg.clone();
        jpeg[13..18].copy_from_slice(&[unit, 1, 44, 1, 44]);
        decode(&jpeg, &target(Format::WebP)).unwrap().0.remarks(&target(Format::WebP))
    };
    assert_eq!(
        [0, 1, 2].map(remarks),
        [vec![], vec![Remark::WithoutResolution], vec![Remark::WithoutResolution]]
    );
}

#[test]
fn what_a_format_has_no_room_for_is_refused() {
    let ppm = [&b"P6 4 2 255\n"[..], &[90; 24]].concat();
    let (mut decoded, slot) = decode(&ppm, &target(Format::Jpeg)).unwrap();
    decoded.metadata.xmp = Some(vec![b' '; 70_000]);
    let error = encode(&decoded, slot, &target(Format::Jpeg)).unwrap_err();
    assert!(error.to_string().contains("70000 bytes of XMP"), "{error}");
}
