//! CMYK pictures, which become RGB.

use crate::harness::project;
use codec::{Format, Remark, Target};
use equalize::Pixel;

use super::{TARGET, decode, encode, pixels};

fn file(name: &str) -> Vec<u8> {
    std::fs::read(project().join("tests/data/codec").join(name)).unwrap()
}

#[test]
fn a_profile_says_which_colours_the_inks_make_and_does_not_describe_these() {
    let (decoded, slot) = decode(&file("cmyk-profile.tif"), &TARGET).unwrap();
    assert_eq!(decoded.layout.pixel, Pixel::Rgb);
    assert_eq!((decoded.metadata.icc.as_ref(), decoded.remarks(&TARGET)), (None, vec![Remark::NowRgb]));
    // Pixels of 0, 64, 128 or 255 of each ink, and the colours that interpolating the profile's
    // perceptual table gives. Its colorimetric one is white everywhere.
    let colours = [
        (0, [255, 255, 255]),
        (1, [195, 195, 195]),
        (5, [202, 192, 163]),
        (16 * 2 + 3, [39, 39, 39]),
        (16 * 5 + 2, [125, 120, 134]),
        (16 * 9 + 6, [110, 114, 117]),
        (16 * 15 + 15, [39, 39, 39]),
    ];
    for (at, colour) in colours {
        let found = &pixels(&decoded, &slot)[3 * at..][..3];
        let is_near = found.iter().zip(colour).all(|(&found, level)| found.abs_diff(level) <= 5);
        assert!(is_near, "{at}: {found:?} instead of {colour:?}");
    }
    let written = encode(&decoded, slot, &TARGET).unwrap();
    let (again, _) = decode(&written, &TARGET).unwrap();
    assert_eq!((again.layout, again.metadata.icc.as_ref()), (decoded.layout, None));
}

#[test]
fn inks_are_told_of_in_every_format() {
    for name in ["cmyk-extra.tif", "pil_sample_cmyk.jpg"] {
        for format in [None, Some(Format::Png), Some(Format::Jpeg)] {
            let target = Target { format, ..TARGET };
            let (decoded, slot) = decode(&file(name), &target).unwrap();
            assert!(decoded.remarks(&target).contains(&Remark::NowRgb), "{name}");
            let (again, _) = decode(&encode(&decoded, slot, &target).unwrap(), &TARGET).unwrap();
            assert_eq!(
                (again.layout.width, again.layout.height),
                (decoded.layout.width, decoded.layout.height)
            );
            assert!(!again.remarks(&TARGET).contains(&Remark::NowRgb), "{name}");
        }
    }
}
