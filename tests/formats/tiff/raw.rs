//! Camera raw files, which are TIFFs too.

use super::{PLAIN, Tags, decoded};

/// Returns the error message for a plain file with these tags added or replaced, if it is refused.
fn refusal(more: &[(u16, u32)]) -> Option<String> {
    let change = |tags: &mut Tags| {
        tags.retain(|(tag, _)| more.iter().all(|(other, _)| other != tag));
        tags.extend(more.iter().map(|&(tag, value)| (tag, vec![value])));
        tags.sort_by_key(|(tag, _)| *tag);
    };
    let refused = decoded(&PLAIN.file(&PLAIN.samples(), change)).err();
    refused.map(|error| error.to_string())
}

#[test]
fn camera_raw_files_are_refused() {
    let raws: [&[(u16, u32)]; 4] = [
        // DNG, with a preview in its first directory; NEF and ARW; files without a preview.
        &[(330, 8), (50706, 1)],
        &[(254, 1), (271, 0), (330, 8)],
        &[(262, 32803), (271, 0)],
        &[(262, 34892), (50706, 1)],
    ];
    for raw in raws {
        let why = refusal(raw).unwrap();
        assert!(why.contains("a camera raw file") && why.contains("develop it"), "{raw:?}: {why}");
    }
}

#[test]
fn what_no_developer_knows_gets_a_command_that_works() {
    let why = refusal(&[(262, 32803)]).unwrap();
    assert!(
        why.starts_with("a TIFF of the samples behind a sensor's colour filter (CFA) is not supported"),
        "{why}"
    );
    assert!(why.contains("`cp IN OUT.tif && tiffset -s 262 1 OUT.tif` (libtiff)"), "{why}");
}

#[test]
fn what_libtiff_does_not_decompress_gets_another_command() {
    let why = refusal(&[(259, 34712)]).unwrap();
    assert!(why.contains("compressed by JPEG 2000") && why.contains("(tifffile with imagecodecs)"), "{why}");
    assert_eq!(
        refusal(&[(259, 34887)]).unwrap(),
        "a TIFF compressed by LERC is not supported; compress it otherwise first, as in `gdal_translate -co COMPRESS=DEFLATE IN OUT.tif` (GDAL)"
    );
}

#[test]
fn canons_raw_files_are_known_by_their_mark() {
    // The mark goes into the gap before the strip.
    let form = super::Form { gap: 8, ..PLAIN };
    let mut file = form.file(&form.samples(), |_| {});
    assert!(decoded(&file).is_ok());
    file[8..12].copy_from_slice(b"CR\x02\0");
    assert!(decoded(&file).unwrap_err().to_string().contains("a camera raw file"));
}

#[test]
fn tiffs_that_resemble_raw_files_are_not_taken_for_raw() {
    assert_eq!(refusal(&[(271, 0)]), None);
    assert_eq!(refusal(&[(254, 1), (271, 0)]), None);
    assert_eq!(refusal(&[(50706, 1)]), None);
    // They have invalid sub-directories.
    for tags in [&[(330, 8)][..], &[(254, 0), (271, 0), (330, 8)]] {
        assert!(refusal(tags).unwrap().contains("the directory of a page is outside the file or invalid"));
    }
}
