//! Tags about the contrast, which have become false in the output.

use super::{Form, PLAIN, TARGET, decode, encode};

pub(super) const DESCRIPTION: u16 = 270;
const GDAL_METADATA: u16 = 42112;
const GDAL_NODATA: u16 = 42113;
const IMAGEJ_LENGTHS: u16 = 50838;
const IMAGEJ: u16 = 50839;

/// Returns the output for a plain file with these tags.
fn written(form: Form, more: &[(u16, Vec<u32>)]) -> Vec<u8> {
    let file = form.file(&form.samples(), |tags| {
        tags.extend(more.iter().cloned());
        tags.sort_by_key(|(tag, _)| *tag);
    });
    let (picture, slot) = decode(&file, &TARGET).unwrap();
    assert_eq!(picture.remarks(&TARGET), []);
    encode(&picture, slot, &TARGET).unwrap()
}

fn bytes(text: &[u8]) -> Vec<u32> {
    text.iter().map(|&byte| byte.into()).collect()
}

/// Returns a text as SHORTs, the type that the files here have for it.
pub(super) fn pairs(text: &[u8]) -> Vec<u32> {
    text.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair).into()).collect()
}

pub(super) fn contains(file: &[u8], text: &[u8]) -> bool {
    file.windows(text.len()).any(|found| found == text)
}

#[test]
fn imagejs_display_range_is_left_out_and_the_rest_of_its_metadata_kept() {
    let description = b"ImageJ=1.53t\nunit=um\nmin=100.0\nmax=4000.0\nc0=0.5\nc1=2.0\ncf=0\n\0\0";
    let little = b"JIJIofni\x01\0\0\0gnar\x01\0\0\0Z\0e\0i\0s\0s\0RANGERANGERANGE!";
    let big = b"IJIJinfo\0\0\0\x01rang\0\0\0\x01\0Z\0e\0i\0s\0sRANGERANGERANGE!";
    for (big_endian, metadata) in [(false, little), (true, big)] {
        let form = Form { big_endian, ..PLAIN };
        let tags = [
            (DESCRIPTION, pairs(description)),
            (IMAGEJ_LENGTHS, vec![20, 10, 16]),
            (IMAGEJ, bytes(metadata)),
        ];
        let file = written(form, &tags);
        assert!(contains(&file, b"ImageJ=1.53t\nunit=um\n\0"), "{form:?}");
        assert!(contains(&file, b"JIJIofni\x01\0\0\0Z\0e\0i\0s\0s\0"), "{form:?}");
        assert!(contains(&file, &[&12u32.to_le_bytes()[..], &10u32.to_le_bytes()].concat()), "{form:?}");
        for gone in [&b"min="[..], b"max=", b"c0=", b"cf=", b"RANGE", b"gnar"] {
            assert!(!contains(&file, gone), "{form:?}");
        }
    }
}

#[test]
fn gdals_statistics_are_left_out() {
    let xml = b"<GDALMetadata><Item name=\"STATISTICS_MEAN\">7</Item><Item name=\"BAND\">red</Item></GDALMetadata>\0";
    // No level is -9.
    let file = written(PLAIN, &[(GDAL_METADATA, bytes(xml)), (GDAL_NODATA, vec![0x2d, 0x39])]);
    assert!(contains(&file, b"<GDALMetadata><Item name=\"BAND\">red</Item></GDALMetadata>\0"));
    assert!(!contains(&file, &GDAL_NODATA.to_le_bytes()));
}

#[test]
fn hamamatsus_tags_of_a_slide_are_left_out() {
    const NDPI: u16 = 65420;
    let has = |file: &[u8], tag: u16| contains(file, [tag, 3].map(u16::to_le_bytes).as_flattened());
    let others = [(65426, vec![7]), (65458, vec![8])];
    let slide = written(PLAIN, &[&[(NDPI, vec![1])][..], &others].concat());
    assert!(![NDPI, 65426, 65458].iter().any(|&tag| has(&slide, tag)));
    // In other files these tags are somebody else's.
    let other = written(PLAIN, &others);
    assert!(others.iter().all(|&(tag, _)| has(&other, tag)));
}
