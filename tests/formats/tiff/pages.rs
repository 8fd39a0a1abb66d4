//! Files with several pages, which are refused by what the pages are to each other.

use super::{Form, PLAIN, Tags, decoded};

const KIND: u16 = 254;
const OLD_KIND: u16 = 255;
const SUB_IFDS: u16 = 330;
const GEO_KEYS: u16 = 34735;

/// Returns a file of a picture whose first directory comes first, with pages of these tags behind everything.
fn file(first: &[(u16, u32)], pages: &[(u16, u32)]) -> Vec<u8> {
    let add = |tags: &mut Tags, more: &[(u16, u32)]| {
        tags.extend(more.iter().map(|&(tag, value)| (tag, vec![value])));
        tags.sort();
    };
    let mut file = Form { directory_first: true, ..PLAIN }.file(&PLAIN.samples(), |tags| add(tags, first));
    let count = usize::from(u16::from_le_bytes([file[8], file[9]]));
    let mut link = 8 + 2 + 12 * count;
    for page in pages {
        file.resize(file.len().next_multiple_of(2), 0);
        let at = file.len();
        file[link..link + 4].copy_from_slice(&(at as u32).to_le_bytes());
        let mut tags = Tags::new();
        add(&mut tags, &[*page, (256, 1)]);
        file.extend(PLAIN.directory(&tags, at));
        link = at + 2 + 12 * tags.len();
    }
    file
}

fn refusal(file: &[u8]) -> String {
    decoded(file).unwrap_err().to_string()
}

#[test]
fn what_accompanies_the_only_picture_is_named_with_a_command_that_helps() {
    let smaller =
        "a TIFF of one picture with a smaller version of it (an overview or a thumbnail) is not supported";
    let tiffcp = |page| format!("copy the picture alone first: tiffcp IN.tif,{page} OUT.tif");
    for (first, pages, what, remedy) in [
        (&[][..], &[(KIND, 1)][..], smaller, tiffcp(0)),
        (&[], &[(OLD_KIND, 2)], smaller, tiffcp(0)),
        (&[(KIND, 1)], &[(KIND, 0)], smaller, tiffcp(1)),
        (&[], &[(KIND, 4)], "a TIFF of one picture with a mask is", tiffcp(0)),
        (
            &[(GEO_KEYS, 1)],
            &[(KIND, 1), (KIND, 4), (KIND, 1), (KIND, 5)],
            "a TIFF of one picture with 2 smaller versions of it (overviews) and 2 masks is",
            "copy the picture alone first: gdal_translate -mask none IN.tif OUT.tif".into(),
        ),
    ] {
        let why = refusal(&file(first, pages));
        assert!(why.starts_with(what) && why.ends_with(&remedy), "{why}");
    }
}

#[test]
fn overviews_in_sub_directories_are_named_too() {
    let sub = |kind| {
        let plain = file(&[(SUB_IFDS, 0)], &[]).len().next_multiple_of(2);
        let mut file = file(&[(SUB_IFDS, plain as u32)], &[]);
        file.resize(plain, 0);
        file.extend(PLAIN.directory(&vec![(KIND, vec![kind]), (256, vec![1])], plain));
        file
    };
    assert!(refusal(&sub(1)).starts_with("a TIFF of one picture with a smaller version of it"));
    assert!(refusal(&sub(0)).starts_with("a TIFF with further pictures in sub-directories"));
}

#[test]
fn several_pictures_are_counted() {
    assert!(refusal(&file(&[], &[(KIND, 2), (KIND, 2)])).starts_with("a TIFF of 3 pages is not supported"));
    assert!(refusal(&file(&[], &[(KIND, 0), (KIND, 1)])).starts_with("a TIFF of 3 pages is not supported"));
}
