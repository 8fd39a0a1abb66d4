//! Files with several pages: the relations between the pages.

use std::cell::RefCell;
use std::io::{Seek, Write};

use codec::{Cores, Remark, Unbounded};
use equalize::Pixel;

use super::contrast::{DESCRIPTION, pairs};
use super::{Form, LIMITS, PLAIN, TARGET, Tags, decoded, first};

const KIND: u16 = 254;
const OLD_KIND: u16 = 255;
const SUB_IFDS: u16 = 330;

/// Returns a file of a picture that begins with its first directory and ends with pages of these
/// tags.
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

fn remarks(file: &[u8]) -> Vec<Remark> {
    let mut from = tempfile::tempfile().unwrap();
    from.write_all(file).unwrap();
    from.rewind().unwrap();
    let mut buffer = Vec::new();
    let mut opened = codec::open(&mut from, &mut buffer, &LIMITS, &TARGET).unwrap();
    assert!(opened.take_pages().is_none());
    let mut slot = vec![0; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, &mut [], &Cores::none()).unwrap();
    assert!(slot == PLAIN.samples());
    decoded.remarks(&TARGET)
}

#[test]
fn what_accompanies_the_only_picture_is_left_out_and_told() {
    for (first, pages, told) in [
        (&[][..], &[(KIND, 1)][..], &[Remark::WithoutOverviews][..]),
        (&[], &[(OLD_KIND, 2)], &[Remark::WithoutOverviews]),
        (&[], &[(KIND, 4)], &[Remark::WithoutMasks]),
        // A smaller version without a full-size picture is the picture.
        (&[(KIND, 1)], &[], &[]),
        (&[(KIND, 4)], &[], &[]),
        (&[(KIND, 1)], &[(KIND, 1)], &[Remark::WithoutOverviews]),
        (
            &[],
            &[(KIND, 1), (KIND, 4), (KIND, 1), (KIND, 5)],
            &[Remark::WithoutOverviews, Remark::WithoutMasks],
        ),
    ] {
        assert_eq!(remarks(&file(first, pages)), told, "{first:?} {pages:?}");
    }
}

#[test]
fn overviews_in_sub_directories_are_left_out_and_pictures_there_are_refused() {
    let sub = |kind| {
        let plain = file(&[(SUB_IFDS, 0)], &[]).len().next_multiple_of(2);
        let mut file = file(&[(SUB_IFDS, plain as u32)], &[]);
        file.resize(plain, 0);
        file.extend(PLAIN.directory(&vec![(KIND, vec![kind]), (256, vec![1])], plain));
        file
    };
    assert_eq!(remarks(&sub(1)), [Remark::WithoutOverviews]);
    let why = decoded(&sub(0)).unwrap_err().to_string();
    assert!(why.starts_with("a TIFF with further pictures in sub-directories"), "{why}");
}

/// Returns a file of two pages with the same samples and a palette. The first one alone is
/// described.
fn described(form: Form, text: &[u8], map: &[u32]) -> Vec<u8> {
    const COLOUR_MAP: u16 = 320;
    let second = RefCell::new(Tags::new());
    let mut file = Form { directory_first: true, ..form }.file(&form.samples(), |tags| {
        first(262, |_| 3)(tags);
        tags.push((COLOUR_MAP, map.to_vec()));
        *second.borrow_mut() = tags.clone();
        tags.push((DESCRIPTION, pairs(text)));
        tags.sort();
    });
    file.resize(file.len().next_multiple_of(2), 0);
    let (link, at) = (8 + 2 + 12 * usize::from(file[8]), file.len());
    file[link..link + 4].copy_from_slice(&(at as u32).to_le_bytes());
    [file, form.directory(&second.borrow(), at)].concat()
}

#[test]
fn a_palette_for_display_is_one_on_every_page_of_imagejs_file_and_of_channels() {
    let imagej = &b"ImageJ=1.54f\nimages=2\nslices=2\n\0"[..];
    let another = &b"another program of two slices\n\0\0"[..];
    let channels = &b"<OME><Image><Pixels SizeC=\"2\" SizeZ=\"1\" SizeT=\"1\"/></Image></OME>\0\0"[..];
    let times = &b"<OME><Image><Pixels SizeC=\"1\" SizeZ=\"1\" SizeT=\"2\"/></Image></OME>\0\0"[..];
    let deep = Form { bytes: 2, ..PLAIN };
    let steps: Vec<u32> = (0..768).map(|level| level * 85).collect();
    let uneven: Vec<u32> = (0..3 << 16).map(|level| level * 7 % 65_536).collect();
    let green = |rounded: fn(u32) -> u32| -> Vec<u32> {
        (0..3 << 16).map(|at| if at >> 16 == 1 { rounded(at & 0xffff) } else { 0 }).collect()
    };
    let (fine, coarse) = (green(|level| level), green(|level| level >> 8 << 8));
    for (form, text, map, pixel) in [
        (PLAIN, imagej, &steps, Pixel::Gray),
        (PLAIN, another, &steps, Pixel::Rgb),
        (PLAIN, channels, &steps, Pixel::Gray),
        (PLAIN, times, &steps, Pixel::Rgb),
        (deep, imagej, &uneven, Pixel::Gray),
        (deep, another, &fine, Pixel::Rgb),
        (deep, channels, &uneven, Pixel::Gray),
        (deep, times, &uneven, Pixel::Rgb),
        (deep, times, &fine, Pixel::Gray),
        (deep, times, &coarse, Pixel::Gray),
    ] {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&described(form, text, map)).unwrap();
        let mut buffer = Vec::new();
        from.rewind().unwrap();
        let mut opened = codec::open(&mut from, &mut buffer, &LIMITS, &TARGET).unwrap();
        assert_eq!(opened.layout().pixel, pixel);
        let pages = opened.take_pages().unwrap();
        drop(opened);
        from.rewind().unwrap();
        let page = pages.page(1);
        let second =
            codec::pages::open_page(&mut Unbounded, &mut from, &mut buffer, &LIMITS, &TARGET, page).unwrap();
        assert_eq!(second.layout().pixel, pixel);
        let mut slot = vec![0; second.slot_bytes()];
        second.decode(&mut slot, &mut [], &Cores::none()).unwrap();
        assert_eq!(slot == form.samples(), pixel == Pixel::Gray);
    }
}

#[test]
fn several_pictures_are_counted() {
    for (pages, count) in [(&[(KIND, 2), (KIND, 2)][..], 3), (&[(KIND, 0), (KIND, 1), (KIND, 4)], 2)] {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&file(&[], pages)).unwrap();
        from.rewind().unwrap();
        let mut buffer = Vec::new();
        let mut opened = codec::open(&mut from, &mut buffer, &LIMITS, &TARGET).unwrap();
        assert_eq!(opened.take_pages().map(|pages| pages.len()), Some(count));
    }
}

#[test]
fn a_page_beyond_the_end_is_told_after_the_only_one_and_refused_after_others() {
    let with_next = |pages: &[(u16, u32)], offset: u32| {
        let mut file = file(&[], pages);
        let first = 8 + 2 + 12 * usize::from(file[8]);
        let next = u32::from_le_bytes(file[first..first + 4].try_into().unwrap()) as usize;
        let link = if next == 0 { first } else { next + 2 + 12 * usize::from(file[next]) };
        file[link..link + 4].copy_from_slice(&offset.to_le_bytes());
        file
    };
    let length = file(&[], &[]).len() as u32;
    for offset in [length, 0x7fff_fff0, u32::MAX] {
        assert_eq!(remarks(&with_next(&[], offset)), [Remark::PageBeyondEnd], "{offset}");
    }
    let why = decoded(&with_next(&[], length - 1)).unwrap_err().to_string();
    assert!(why.contains("the directory of a page is outside the file or invalid"), "{why}");
    let why = decoded(&with_next(&[(KIND, 2)], u32::MAX)).unwrap_err().to_string();
    assert!(why.contains("the directory of a page is outside the file or invalid"), "{why}");
}
