//! Pictures that fail for good: when that is known, and how long it is told.

use super::service::{Service, drop_in};
use crate::harness::{Place, wait};

/// A TIFF of two gray pictures, of one pixel each.
fn two_pages() -> Vec<u8> {
    const ENTRIES: [(u16, u32); 8] =
        [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (278, 1), (279, 1)];
    let second = 12 + 2 + 12 * ENTRIES.len() + 4;
    let mut file = b"II*\0\x0c\0\0\0\x07\0\0\0".to_vec();
    for next in [second, 0] {
        file.extend((ENTRIES.len() as u16).to_le_bytes());
        for (tag, value) in ENTRIES {
            // One number of 32 bits.
            file.extend([tag.to_le_bytes(), 4u16.to_le_bytes()].concat());
            file.extend([1u32.to_le_bytes(), value.to_le_bytes()].concat());
        }
        file.extend((next as u32).to_le_bytes());
    }
    file
}

#[test]
fn what_no_further_bytes_can_mend_fails_at_once_and_what_may_be_incomplete_does_not() {
    let place = Place::new();
    let service = Service::start(&place, "--max-pixels 1000");
    let hopeless = [
        ("animation.gif", b"GIF89a\x01\0\x01\0\0\0\0;".to_vec(), "a GIF is not supported"),
        ("pages.tif", two_pages(), "a TIFF of 2 pages is not supported"),
        ("scan.dcm", [&[0; 128][..], b"DICM\x02\0\0\0"].concat(), "a DICOM file is not supported"),
        ("photo.raf", b"FUJIFILMCCD-RAW 0201".to_vec(), "a Fujifilm raw file is not supported"),
        // Only its name says what it is.
        ("brain.nii", vec![7; 400], "a NIfTI volume is not supported"),
        ("large.pgm", b"P5\n100 100\n255\n".to_vec(), "too large: 100x100 pixels"),
    ];
    let incomplete = [
        ("short.pgm", b"P5\n4 1\n255\n\x64".to_vec()),
        ("unknown.png", vec![0; 64]),
        ("empty.png", Vec::new()),
    ];
    for (name, content, _) in &hopeless {
        drop_in(&place, name, content);
    }
    for (name, content) in &incomplete {
        drop_in(&place, name, content);
    }
    for (name, _, why) in &hopeless {
        let told = format!("/in/{name}: {why}");
        wait(name, || service.log().contains(&told));
        let log = service.log();
        let line = log.lines().find(|line| line.contains(&told)).unwrap();
        assert!(line.contains(" WARN failed: "), "{line}");
    }
    for (name, _) in &incomplete {
        let pending = || {
            service
                .log()
                .lines()
                .any(|line| line.contains("not complete yet: ") && line.contains(&format!("/in/{name}: ")))
        };
        wait(name, pending);
    }
    assert_eq!(service.log().matches(" WARN failed: ").count(), hopeless.len(), "{}", service.log());
    assert_eq!(service.stop(), Some(0));
}
