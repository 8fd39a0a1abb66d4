//! Descriptions of how the samples are arranged, which may be false in the output.

use codec::{Remark, Target};
use equalize::colour::Gray;

use super::contrast::{DESCRIPTION, contains, pairs};
use super::{Form, HEIGHT, LENGTHS, OFFSETS, PLAIN, TARGET, WIDTH, decode, encode};

const PLANAR_CONFIGURATION: u16 = 284;

const GRAY: Target = Target { gray: Some(Gray::Luma), ..TARGET };

/// Returns whether the output of a file with this description has it too.
fn is_kept(form: Form, planes: bool, text: &str, target: &Target) -> bool {
    contains(&output(form, planes, text, target), text.as_bytes())
}

/// Returns the output of a file with this description.
fn output(form: Form, planes: bool, text: &str, target: &Target) -> Vec<u8> {
    let (picture, slot) = decode(&file(form, planes, text), target).unwrap();
    encode(&picture, slot, target).unwrap()
}

fn file(form: Form, planes: bool, text: &str) -> Vec<u8> {
    form.file(&form.samples(), |tags| {
        if planes {
            let plane = (WIDTH * HEIGHT * form.bytes) as u32;
            tags.retain(|(tag, _)| *tag != OFFSETS && *tag != LENGTHS);
            tags.push((OFFSETS, (0..3).map(|i| 8 + i * plane).collect()));
            tags.push((LENGTHS, vec![plane; 3]));
            tags.push((PLANAR_CONFIGURATION, vec![2]));
        }
        tags.push((DESCRIPTION, pairs(format!("{text}\0\0").as_bytes())));
        tags.sort_by_key(|(tag, _)| *tag);
    })
}

#[test]
fn descriptions_of_the_arrangement_are_left_out_where_it_changes() {
    let rgb = Form { channels: 3, ..PLAIN };
    for (form, planes, target, same_samples, same_planes) in [
        (PLAIN, false, &TARGET, true, true),
        (PLAIN, false, &GRAY, true, true),
        (rgb, false, &TARGET, true, true),
        (rgb, false, &GRAY, false, true),
        (rgb, true, &TARGET, true, false),
        (rgb, true, &GRAY, false, false),
    ] {
        let kept = |text| is_kept(form, planes, text, target);
        assert_eq!(kept(r#"{"shape": [3, 151, 203]} "#), same_samples && same_planes, "{form:?}");
        assert_eq!(kept("<OME><Pixels SizeC=\"3\"/></OME>"), same_samples, "{form:?}");
        assert!(kept("a description of a picture"), "{form:?}");
    }
}

#[test]
fn samples_that_bio_formats_counts_as_pictures_are_colours() {
    const COUNTS: &str = "ImageJ=\nhyperstack=true\nimages=3\nchannels=3\nslices=1\nframes=1\n";
    for rows_a_strip in [1, HEIGHT] {
        let rgb = Form { channels: 3, rows_a_strip, ..PLAIN };
        assert!(is_kept(rgb, false, COUNTS, &TARGET));
        let text = format!("{COUNTS}unit=um\n");
        let gray = output(rgb, false, &text, &GRAY);
        assert!(contains(&gray, b"ImageJ=\nunit=um\n") && !contains(&gray, b"images="));
    }
    assert!(is_kept(Form { channels: 3, ..PLAIN }, true, COUNTS, &TARGET));
}

#[test]
fn ome_of_a_picture_that_becomes_gray_says_so() {
    let ome = |samples: u32| {
        format!(
            "<OME><Pixels SizeC=\"{samples}\" PhysicalSizeX=\"0.5\"><Channel SamplesPerPixel=\"{samples}\"/></Pixels></OME>"
        )
    };
    let rgb = Form { channels: 3, ..PLAIN };
    for planes in [false, true] {
        let gray = output(rgb, planes, &ome(3), &GRAY);
        assert!(contains(&gray, ome(1).as_bytes()));
    }
}

#[test]
fn ome_that_is_left_out_is_told_of() {
    let rgb = Form { channels: 3, ..PLAIN };
    let one = "<OME><Pixels SizeC=\"3\"><Channel SamplesPerPixel=\"3\"/></Pixels></OME>";
    let several = "<OME><Pixels SizeC=\"3\"><Channel/><Channel/><Channel/></Pixels></OME>";
    for (text, target, told) in [
        (one, &TARGET, false),
        (one, &GRAY, false),
        (several, &TARGET, false),
        (several, &GRAY, true),
        (r#"{"shape": [151, 203, 3]}"#, &GRAY, false),
    ] {
        let (picture, _) = decode(&file(rgb, false, text), target).unwrap();
        assert_eq!(picture.remarks(target), [Remark::WithoutMetadata][..usize::from(told)], "{text}");
    }
}

#[test]
fn metadata_that_are_in_another_file_are_told_of() {
    let companion =
        r#"<OME UUID="urn:uuid:1"><BinaryOnly MetadataFile="x.companion.ome" UUID="urn:uuid:2"/></OME>"#;
    let file = file(PLAIN, false, companion);
    assert_eq!(decode(&file, &TARGET).unwrap().0.remarks(&TARGET), [Remark::MetadataElsewhere]);
    assert!(is_kept(PLAIN, false, companion, &TARGET));
}
