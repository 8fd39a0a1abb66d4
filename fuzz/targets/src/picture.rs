//! Pictures of one format each: read, and written back.

use std::collections::HashSet;
use std::io::{Read, Seek};

use codec::baseline::BaselinePicture;
use codec::pages::{PageOutput, PageRef, Pages};
use codec::{CodecError, Cores, Decoded, Format, Range, Target, Unbounded};
use equalize::colour::Gray;
use equalize::{Depth, Layout};

use super::animated;
use super::bands;
use super::reading::{LIMITS, PLAIN, file_of, read};

/// Reads the bytes as a picture of this format.
///
/// A picture that can be read must also be written, and be read back as the same picture.
///
/// # Panics
/// If it is not.
pub fn check(data: &[u8], format: Format) {
    if Format::sniff(data) != Some(format) {
        return;
    }
    if format == Format::WebP {
        animated::check(data);
    }
    // The bytes themselves, by their sum, choose the way through the codec, which keeps a case a
    // single file.
    let choice = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    // Lossless JPEGs are not written as such.
    let elsewhere = format == Format::Jpeg && choice / 8 % 2 == 1;
    let target = Target {
        format: elsewhere.then_some(Format::Tiff),
        gray: (choice % 4 == 1).then_some(if choice % 16 == 5 { Gray::Green } else { Gray::Luma }),
        needs_rgb: choice % 4 == 2,
        keeps_hue: choice % 4 == 3,
        range: if choice % 8 == 3 { Range::new(-1.0, 1.5) } else { None },
        ..PLAIN
    };
    pass_through(data, &target);
    pages(data, &target);
    if matches!(format, Format::Bmp | Format::Png | Format::Pnm) {
        bands::check(data, &target);
    }
    let mut slot = Vec::new();
    let Ok(decoded) = read(&mut file_of(data), &target, &mut slot, 0xff, 0) else { return };
    let pixels = slot[..decoded.layout.bytes() as usize].to_vec();
    read(&mut file_of(data), &target, &mut slot, 0, 2).expect("what was read can be read again");
    assert!(slot[..pixels.len()] == pixels, "neither what was in the slot before nor help shows");
    let mut out = file_of(&[]);
    match codec::encode(&decoded, &mut slot, &target, &mut Vec::new(), &Cores::new(1), &mut out) {
        Ok(_) => {}
        Err(CodecError::CannotRepresent { .. }) => return,
        Err(error) => panic!("it was read, but cannot be written: {error}"),
    }
    // The same target again: BMP and WebP store gray as colour, and gray has to be asked for once
    // more.
    let again = match read(&mut out, &target, &mut slot, 0, 2) {
        // With gray, a further channel has the same standing, and both cannot have the same alpha.
        Err(CodecError::Unsupported { what, .. })
            if target.gray.is_some() && what.contains("besides colours") =>
        {
            return;
        }
        again => again.expect("what was written can be read"),
    };
    if format == Format::Jpeg {
        // A JPEG of unusual sampling is read as RGB, but its output is read as luma and chroma.
        let size = |layout: Layout| (layout.width, layout.height);
        assert_eq!(size(again.layout), size(decoded.layout), "the size stays");
    } else {
        if format == Format::Gif {
            // Alpha goes where no pixel is transparent.
            let before = rgba(&decoded.layout, &pixels);
            assert!(rgba(&again.layout, &slot) == before, "the pixels stay");
            return;
        }
        assert_eq!(again.layout, decoded.layout, "the layout stays");
        // Gray samples need not reach as far as the colours did: other levels may stand for them.
        let is_mapped = decoded.is_mapped() || again.is_mapped();
        let has_other_range = is_mapped && target.gray.is_some() && target.range.is_none();
        let stay = has_other_range || stay(&decoded, &pixels, &slot[..pixels.len()]);
        assert!(stay, "the pixels stay");
    }
}

/// Returns 8-bit pixels as RGBA, with zeros where they are transparent.
fn rgba(layout: &Layout, pixels: &[u8]) -> Vec<[u8; 4]> {
    let pixels = &pixels[..layout.bytes() as usize];
    let shown = |pixel: &[u8]| match *pixel {
        [gray] => [gray, gray, gray, 255],
        [gray, alpha] if alpha > 0 => [gray, gray, gray, alpha],
        [red, green, blue] => [red, green, blue, 255],
        [red, green, blue, alpha] if alpha > 0 => [red, green, blue, alpha],
        _ => [0; 4],
    };
    pixels.chunks_exact(layout.pixel_bytes()).map(shown).collect()
}

/// Reads all pages of a file, if it has several.
///
/// If all can be read, they must also be written, and be read back as the same pages.
fn pages(data: &[u8], target: &Target) {
    const MOST: usize = 64;
    let Some(pages) = pages_of(data, target).filter(|pages| pages.len() <= MOST) else { return };
    volumes(&pages);
    let writer = pages.writer();
    let mut read = Vec::new();
    for index in 0..pages.len() {
        let mut slot = Vec::new();
        let Ok((decoded, bytes)) = read_page(data, target, pages.page(index), &mut slot) else { return };
        writer.announce(bytes);
        read.push((decoded, slot));
    }
    let before: Vec<_> =
        read.iter().map(|(decoded, slot)| slot[..decoded.layout.bytes() as usize].to_vec()).collect();
    let (mut out, spill) = (file_of(&[]), file_of(&[]));
    let mut bytes = None;
    // The last page first: most have to wait for their turn.
    for (index, (decoded, slot)) in read.iter_mut().enumerate().rev() {
        let none = Cores::none();
        let to = PageOutput { target, help: (&none).into(), out: (&out).into(), spill: &spill };
        let written = writer.write(index, decoded, slot, to);
        bytes = written.expect("what was read can be written");
    }
    assert!(
        bytes.is_some_and(|bytes| out.metadata().is_ok_and(|about| about.len() == bytes)),
        "it is complete"
    );
    out.rewind().expect("a file can be rewound");
    let mut content = Vec::new();
    out.read_to_end(&mut content).expect("there is memory for a file");
    let again = pages_of(&content, target).expect("it has several pages");
    assert_eq!(again.len(), pages.len(), "no page is lost");
    for (index, ((decoded, _), before)) in read.iter().zip(&before).enumerate() {
        let mut slot = Vec::new();
        let (page, _) =
            read_page(&content, target, again.page(index), &mut slot).expect("what was written can be read");
        assert_eq!(page.layout, decoded.layout, "the layout stays");
        let has_other_range = decoded.is_mapped() && target.gray.is_some() && target.range.is_none();
        assert!(
            has_other_range || stay(decoded, before, &slot[..before.len()]),
            "the pixels of page {index} stay"
        );
    }
}

/// Checks that each slice of a volume is one page, if pages are slices.
fn volumes(pages: &Pages) {
    let Ok(volumes) = pages.volumes() else { return };
    let all: HashSet<_> =
        (0..pages.len()).map(|page| volumes.slice(page)).map(|slice| (slice.volume, slice.index)).collect();
    let are_within = (0..pages.len()).map(|page| volumes.slice(page)).all(|slice| slice.index < slice.of);
    assert!(
        are_within && all.len() == pages.len() && all.iter().all(|(volume, _)| *volume < volumes.count())
    );
}

/// Returns the pages of a file, if it can be opened and has several.
fn pages_of(data: &[u8], target: &Target) -> Option<Pages> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    codec::open(&mut file, &mut buffer, &LIMITS, target).ok()?.take_pages()
}

/// Decodes a page; also returns the bytes that it takes in an output, if they are known.
fn read_page(
    data: &[u8],
    target: &Target,
    page: PageRef<'_>,
    slot: &mut Vec<u8>,
) -> Result<(Decoded, Option<u64>), CodecError> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let opened = codec::pages::open_page(&mut Unbounded, &mut file, &mut buffer, &LIMITS, target, page)?;
    slot.resize(opened.slot_bytes(), 0);
    let bytes = opened.stored_page_bytes();
    let workspace = vec![0; opened.workspace().bytes as usize];
    Ok((opened.decode(slot, workspace, &Cores::none())?, bytes))
}

/// Returns whether pixels stay the same.
///
/// A level here and there may differ if they stand for samples that are not levels.
fn stay(decoded: &Decoded, before: &[u8], after: &[u8]) -> bool {
    let words = |pixels: &[u8]| -> Vec<u16> {
        pixels.chunks_exact(2).map(|sample| u16::from_ne_bytes([sample[0], sample[1]])).collect()
    };
    before == after
        || decoded.is_mapped()
            && decoded.layout.depth == Depth::Sixteen
            && words(before).iter().zip(words(after)).all(|(before, after)| before.abs_diff(after) <= 1)
}

/// Checks that a file that may go to a GPU as it is can be read again if it comes back unchanged.
fn pass_through(data: &[u8], target: &Target) {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let Ok(opened) = codec::open(&mut file, &mut buffer, &LIMITS, target) else { return };
    let Some(jpeg) = opened.compressed(target) else { return };
    if BaselinePicture::read(data).is_none_or(|picture| picture.coefficients().is_none()) {
        return;
    }
    let mut slot = vec![0; jpeg.slot_bytes() as usize];
    let Ok(decoded) = opened.pass_on(&mut slot) else { return };
    let mut out = file_of(&[]);
    match codec::write_encoded(&decoded, &slot[..data.len()], &mut out) {
        Ok(_) => {}
        // The input goes on after the picture's end, which no stream from a GPU does.
        Err(CodecError::Encoder { .. }) => return,
        Err(error) => panic!("it was read, but cannot be written: {error}"),
    }
    out.rewind().expect("a file can be rewound");
    let again = codec::open(&mut out, &mut buffer, &LIMITS, target).expect("what was written can be read");
    assert_eq!(again.compressed(target).map(|again| again.layout), Some(jpeg.layout), "the layout stays");
}
