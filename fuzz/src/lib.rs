//! What every fuzz target does with its input.

use std::fs::File;
use std::io::{Read, Seek, Write};

use codec::Cores;
use codec::{self, BaselineScan, CodecError, Decoded, Format, Limits, Pages, Range, Target, Unbounded};
use equalize::{Depth, Layout};
use rustix::fs::{MemfdFlags, memfd_create};

/// Small limits, so that the time goes into the decoders and not into pixels.
const LIMITS: Limits = Limits { max_pixels: 1 << 18, max_bytes: 1 << 24 };

/// What is asked of a picture that only has to be read.
const PLAIN: Target = Target::AS_STORED;

/// Lets panics pass that the library catches in other people's decoders and turns into errors. libFuzzer's panic hook would end the
/// process at every panic; it still does at all others.
pub fn silence_contained_panics() {
    codec::silence_contained_panics();
}

/// Reads the bytes as a picture of this format. What can be read must also be written, and be read back as the same picture.
///
/// # Panics
/// If it is not.
pub fn picture(data: &[u8], format: Format) {
    if Format::sniff(data) != Some(format) {
        return;
    }
    if format == Format::WebP {
        animated_webp(data);
    }
    // The bytes themselves, by their sum, choose the way through the codec, so that a case stays a single file.
    let choice = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    // Lossless JPEGs are not written as such.
    let elsewhere = format == Format::Jpeg && choice / 8 % 2 == 1;
    let target = Target {
        format: elsewhere.then_some(Format::Tiff),
        gray: choice % 4 == 1,
        needs_rgb: choice % 4 == 2,
        range: if choice % 8 == 3 { Range::new(-1.0, 1.5) } else { None },
        ..PLAIN
    };
    pass_through(data, &target);
    pages(data, &target);
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
    // The same target again: BMP and WebP store gray as colour, so gray has to be asked for once more.
    let again = match read(&mut out, &target, &mut slot, 0, 2) {
        // Beside gray a further channel has the same standing, so that reading does not know which one to enhance.
        Err(CodecError::Unsupported { what, .. }) if target.gray && what.contains("no colours") => return,
        again => again.expect("what was written can be read"),
    };
    if format == Format::Jpeg {
        // A JPEG of unusual sampling is read as RGB, but what is written of it is read as luma and chroma.
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
        // Gray samples need not reach as far as the colours did, so that other levels stand for them.
        let is_mapped = decoded.is_mapped() || again.is_mapped();
        let has_other_range = is_mapped && target.gray && target.range.is_none();
        let stay = has_other_range || stay(&decoded, &pixels, &slot[..pixels.len()]);
        assert!(stay, "the pixels stay");
    }
}

/// Makes an animation of two frames of a still WebP, one of which covers a part of the other, and reads it; its first frame must be that picture.
fn animated_webp(data: &[u8]) {
    let mut slot = Vec::new();
    let Ok(still) = read(&mut file_of(data), &PLAIN, &mut slot, 0, 0) else { return };
    if still.frames() != 1 || still.format != Format::WebP {
        return;
    }
    let (layout, choice) = (still.layout, data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    let before = slot.clone();
    let Ok(moving) = read(&mut file_of(&animation_of(data, &layout, choice)), &PLAIN, &mut slot, 0xff, 0)
    else {
        return;
    };
    assert_eq!(moving.frames(), 2, "no frame is lost");
    let channels = layout.pixel_bytes();
    for (number, pixel) in before[..layout.bytes() as usize].chunks_exact(channels).enumerate() {
        let (row, column) = (number / layout.width as usize, number % layout.width as usize);
        let at = 4 * (row * moving.layout.width as usize + column + 2);
        assert!(slot[at..at + channels] == *pixel, "the first frame is the picture");
    }
}

/// Returns a file of two frames, both of which are the picture of `data`: two pixels to the right, and at the left. The last bits of `choice` are
/// the flags of the frames.
fn animation_of(data: &[u8], layout: &Layout, choice: u8) -> Vec<u8> {
    let short = |number: u32| number.to_le_bytes()[..3].to_vec();
    let chunk = |kind: &[u8], content: &[u8]| {
        let padding = &[0][..content.len() % 2];
        [kind, &(content.len() as u32).to_le_bytes(), content, padding].concat()
    };
    let (mut rest, mut inside) = (&data[12..], Vec::new());
    while let Some(head) = rest.first_chunk::<8>() {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let end = (8 + length.next_multiple_of(2)).min(rest.len());
        if [&b"ALPH"[..], b"VP8 ", b"VP8L"].contains(&&head[..4]) {
            inside.extend(&rest[..end]);
        }
        rest = &rest[end..];
    }
    let sides = [short(layout.width - 1), short(layout.height - 1)].concat();
    let frame = |left: u32, flags: u8| {
        let place = [short(left), short(0), sides.clone(), short(40), vec![flags & 3]].concat();
        chunk(b"ANMF", &[place, inside.clone()].concat())
    };
    let canvas = [vec![0x12, 0, 0, 0], short(layout.width + 1), short(layout.height - 1)].concat();
    let parts = [chunk(b"VP8X", &canvas), chunk(b"ANIM", &[0; 6]), frame(1, choice), frame(0, choice >> 2)];
    chunk(b"RIFF", &[b"WEBP".to_vec(), parts.concat()].concat())
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

/// Reads all pages of a file, if it has several. If all can be read, they must also be written, and be read back as the same pages.
fn pages(data: &[u8], target: &Target) {
    const MOST: usize = 64;
    let Some(pages) = pages_of(data, target).filter(|pages| pages.len() <= MOST) else { return };
    let writer = pages.writer();
    let mut read = Vec::new();
    for index in 0..pages.len() {
        let mut slot = Vec::new();
        let Ok((decoded, bytes)) = read_page(data, target, (&pages, index), &mut slot) else { return };
        writer.announce(bytes);
        read.push((decoded, slot));
    }
    let before: Vec<_> =
        read.iter().map(|(decoded, slot)| slot[..decoded.layout.bytes() as usize].to_vec()).collect();
    let (mut out, spill) = (file_of(&[]), file_of(&[]));
    let mut bytes = None;
    // The last page first, so that most have to wait for their turn.
    for (index, (decoded, slot)) in read.iter_mut().enumerate().rev() {
        let written = writer.write(index, decoded, slot, target, &Cores::none(), (&out, &spill));
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
            read_page(&content, target, (&again, index), &mut slot).expect("what was written can be read");
        assert_eq!(page.layout, decoded.layout, "the layout stays");
        let has_other_range = decoded.is_mapped() && target.gray && target.range.is_none();
        assert!(
            has_other_range || stay(decoded, before, &slot[..before.len()]),
            "the pixels of page {index} stay"
        );
    }
}

/// Returns the pages of a file, if it can be opened and has several.
fn pages_of(data: &[u8], target: &Target) -> Option<Pages> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    codec::open(&mut file, &mut buffer, &LIMITS, target).ok()?.take_pages()
}

/// Decodes a page; returns the bytes that it takes in an output too, if that is known.
fn read_page(
    data: &[u8],
    target: &Target,
    page: (&Pages, usize),
    slot: &mut Vec<u8>,
) -> Result<(Decoded, Option<u64>), CodecError> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let opened = codec::open_page(&mut Unbounded, &mut file, &mut buffer, &LIMITS, target, page)?;
    slot.resize(opened.slot_bytes(), 0);
    let bytes = opened.stored_page_bytes();
    let workspace = vec![0; opened.workspace().bytes as usize];
    Ok((opened.decode(slot, workspace, &Cores::none())?, bytes))
}

/// Returns whether pixels stay the same, but for a level here and there if they stand for samples that are no levels.
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
    if !BaselineScan::read(data).is_some_and(|scan| scan.is_whole()) {
        return;
    }
    let mut slot = vec![0; jpeg.slot_bytes() as usize];
    let Ok(decoded) = opened.pass_on(&mut slot) else { return };
    let mut out = file_of(&[]);
    match codec::write_encoded(&decoded, &slot[..data.len()], &mut out) {
        Ok(_) => {}
        // The input goes on behind the picture's end, which no stream from a GPU does.
        Err(CodecError::Encoder { .. }) => return,
        Err(error) => panic!("it was read, but cannot be written: {error}"),
    }
    out.rewind().expect("a file can be rewound");
    let again = codec::open(&mut out, &mut buffer, &LIMITS, target).expect("what was written can be read");
    assert_eq!(again.compressed(target).map(|again| again.layout), Some(jpeg.layout), "the layout stays");
}

fn file_of(data: &[u8]) -> File {
    let fd = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory for a file");
    let mut file = File::from(fd);
    file.write_all(data).expect("there is memory for a file");
    file
}

/// Decodes into a slot that is filled with `before`, with the help of `idle` cores.
fn read(
    file: &mut File,
    target: &Target,
    slot: &mut Vec<u8>,
    before: u8,
    idle: usize,
) -> Result<Decoded, CodecError> {
    file.rewind().expect("a file can be rewound");
    let mut buffer = Vec::new();
    let opened = codec::open(file, &mut buffer, &LIMITS, target)?;
    slot.clear();
    slot.resize(opened.slot_bytes(), before);
    let workspace = vec![0; opened.workspace().bytes as usize];
    opened.decode(slot, workspace, &Cores::new(idle))
}
