//! Every layout through every format that can hold it.

use std::io::{Seek, Write};

use codec::{self, Cores, Decoded, Format, Remark, Target};
use equalize::colour::Gray;
use equalize::{ByteOrder, ByteOrders, Depth, Layout, Pixel};

use super::{LIMITS, TARGET, decode, encode, pixels};
use crate::samples::{Data, Random, every_layout, pam, samples};

/// Returns a PAM file of noise, and its samples in native byte order.
fn noise(layout: &Layout) -> (Vec<u8>, Vec<u8>) {
    let samples = samples(layout, Data::Random, &mut Random(1));
    let native = match layout.depth {
        Depth::Eight => samples.iter().map(|sample| *sample as u8).collect(),
        Depth::Sixteen => samples.iter().flat_map(|sample| sample.to_ne_bytes()).collect(),
    };
    (pam(layout, &samples), native)
}

fn layouts() -> impl Iterator<Item = Layout> {
    [(1, 1), (7, 3), (64, 33)].into_iter().flat_map(|(width, height)| every_layout(width, height))
}

#[test]
fn what_encoding_takes_is_asked_for_before_decoding() {
    let pgm = [&b"P5 300 200 255\n"[..], &[90; 60_000]].concat();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&pgm).unwrap();
    for (format, least) in [(Format::WebP, 5 * 60_000), (Format::Jpeg, 30_000), (Format::Pnm, 0)] {
        let target = Target { format: Some(format), ..TARGET };
        file.rewind().unwrap();
        let mut buffer = Vec::new();
        let opened = codec::open(&mut file, &mut buffer, &LIMITS, &target).unwrap();
        let before = opened.heap_bytes();
        let after = decode(&pgm, &target).unwrap().0.heap_bytes(&target);
        assert!(before >= after && after >= least, "{format}: {before}, {after}");
    }
}

#[test]
fn lossless_formats_keep_every_pixel() {
    for format in [Format::Pnm, Format::Png, Format::Tiff] {
        for layout in layouts() {
            let target = Target { format: Some(format), ..TARGET };
            let (file, native) = noise(&layout);
            let (decoded, slot) = decode(&file, &target).unwrap();
            assert_eq!(decoded.layout, layout);
            assert_eq!(slot, native);
            let written = encode(&decoded, slot, &target).unwrap();
            let (again, slot) = decode(&written, &TARGET).unwrap();
            assert_eq!((again.format, again.layout), (format, layout));
            assert!(pixels(&again, &slot) == native, "{format} changed {layout:?}");
        }
    }
}

/// Decodes a file into a slot that keeps byte orders where that saves work.
fn decode_keeping(bytes: &[u8], target: &Target) -> (Decoded, Vec<u8>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let mut buffer = Vec::new();
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, target).unwrap().keep_byte_orders();
    let mut slot = vec![0; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, Vec::new(), &Cores::none()).unwrap();
    (decoded, slot)
}

#[test]
fn samples_keep_the_byte_orders_of_files_if_they_are_to() {
    const BIG_ENDIAN: [Format; 2] = [Format::Pnm, Format::Png];
    for layout in layouts() {
        let (pam, native) = noise(&layout);
        for from in [Format::Pnm, Format::Png, Format::Tiff] {
            let target = Target { format: Some(from), ..TARGET };
            let (decoded, slot) = decode(&pam, &target).unwrap();
            let file = encode(&decoded, slot, &target).unwrap();
            for (to, gray, eight_bit) in [
                (Format::Pnm, false, false),
                (Format::Png, false, false),
                (Format::Tiff, false, false),
                (Format::Pnm, true, false),
                (Format::Pnm, false, true),
            ] {
                let gray = gray.then_some(Gray::Luma);
                let target = Target { format: Some(to), gray, eight_bit, ..TARGET };
                let (mut decoded, mut slot) = decode_keeping(&file, &target);
                let what = format!("{layout:?} from {from} to {to}, gray {gray:?}, 8 bits {eight_bit}");
                let order = |is_big_endian| {
                    let has_order = layout.depth == Depth::Sixteen && is_big_endian;
                    if has_order { ByteOrder::BIG_ENDIAN } else { ByteOrder::Native }
                };
                let is_made_gray = gray.is_some() && layout.pixel.colour_channels() > 1;
                let expected = ByteOrders {
                    from: order(BIG_ENDIAN.contains(&from) && !is_made_gray),
                    to: order(BIG_ENDIAN.contains(&to) && !eight_bit),
                };
                assert_eq!(decoded.byte_orders, expected, "{what}");
                expected.from.convert(&mut slot);
                assert!(is_made_gray || slot == native, "{what}");
                expected.to.convert(&mut slot);
                decoded.reduce_depth(&mut slot, &target);
                let (mut plain, mut plain_slot) = decode(&file, &target).unwrap();
                plain.reduce_depth(&mut plain_slot, &target);
                let written = encode(&decoded, slot, &target).unwrap();
                assert!(written == encode(&plain, plain_slot, &target).unwrap(), "{what}");
            }
        }
    }
}

#[test]
fn eight_bit_formats_keep_every_pixel() {
    for layout in layouts().filter(|layout| layout.depth == Depth::Eight) {
        for format in [Format::Bmp, Format::WebP] {
            let target = Target { format: Some(format), ..TARGET };
            let (file, native) = noise(&layout);
            let (decoded, slot) = decode(&file, &target).unwrap();
            let written = encode(&decoded, slot, &target).unwrap();
            // WebP has no gray, and BMP no gray with alpha: they come back as colour unless gray is
            // asked for.
            let (again, slot) = decode(
                &written,
                &Target { gray: (layout.pixel.colour_channels() == 1).then_some(Gray::Luma), ..TARGET },
            )
            .unwrap();
            if format == Format::Bmp && decoded.remarks(&target).contains(&Remark::Invisible) {
                // A bitmap with an alpha of 0 everywhere is opaque.
                assert!(!again.layout.pixel.has_alpha(), "{layout:?}");
                continue;
            }
            assert_eq!((again.format, again.layout), (format, layout));
            assert!(pixels(&again, &slot) == native, "{format} changed {layout:?}");
        }
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused_before_decoding() {
    for layout in layouts() {
        let (file, _) = noise(&layout);
        for format in Format::ALL {
            let target = Target { format: Some(format), ..TARGET };
            let is_narrow = matches!(format, Format::Jpeg | Format::Bmp | Format::WebP | Format::Gif);
            let deep = layout.depth == Depth::Sixteen && is_narrow;
            let clear = layout.pixel.has_alpha() && format == Format::Jpeg;
            // DICOM is made of DICOM only.
            let refused = deep || clear || !format.is_written() || format == Format::Dicom;
            assert_eq!(decode(&file, &target).is_err(), refused, "{layout:?} as {format}");
        }
    }
}

#[test]
fn gray_is_luma_in_every_lossless_format() {
    for layout in layouts() {
        let (file, native) = noise(&layout);
        let (decoded, slot) = decode(&file, &Target { gray: Some(Gray::Luma), ..TARGET }).unwrap();
        let expected = if layout.pixel.has_alpha() { Pixel::GrayAlpha } else { Pixel::Gray };
        assert_eq!(decoded.layout, Layout { pixel: expected, ..layout });
        let mut whole = native.clone();
        equalize::colour::to_gray(&mut whole, &layout, Gray::Luma);
        let length = pixels(&decoded, &slot).len();
        assert!(pixels(&decoded, &slot) == &whole[..length], "{layout:?}");
    }
}

#[test]
fn limits_hold_before_pixels_are_decoded() {
    let bomb = b"P5 60000 60000 255\n";
    let error = decode(bomb, &TARGET).unwrap_err().to_string();
    assert!(error.contains("60000x60000 pixels") && error.contains("--max-pixels"), "{error}");
    let limits = codec::Limits { max_pixels: 100, max_bytes: 20 };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"P3 3 3 65535\n1 2 3\n").unwrap();
    let error = super::decode_file(file.path(), &limits, &TARGET).unwrap_err().to_string();
    assert!(error.contains("54 bytes") && error.contains("--max-bytes"), "{error}");
}

#[test]
fn a_file_longer_than_the_limit_is_refused_whatever_is_in_it() {
    let limits = codec::Limits { max_bytes: 1000, ..LIMITS };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[&b"P5 2 1 255\n"[..], &[7; 1000]].concat()).unwrap();
    let error = super::decode_file(file.path(), &limits, &TARGET).unwrap_err().to_string();
    assert!(error.contains("a file of 1011 bytes") && error.contains("--max-bytes"), "{error}");
}

#[test]
fn chroma_counts_towards_what_a_picture_takes() {
    let open = |bytes: &[u8], max_bytes: usize| {
        let limits = codec::Limits { max_bytes: max_bytes as u64, ..LIMITS };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut buffer = Vec::new();
        codec::open(&mut file, &mut buffer, &limits, &TARGET)
            .map(|opened| opened.slot_bytes())
            .map_err(|error| error.to_string())
    };
    let jpeg = include_bytes!("../data/jpeg/444.jpg");
    let luma = open(jpeg, 1 << 24).unwrap();
    let error = open(jpeg, 3 * luma - 1).unwrap_err();
    assert!(error.contains("--max-bytes"), "{error}");
}

/// Allows this many bytes, and records the requests.
struct Allowance {
    bytes: u64,
    asked: Vec<u64>,
}

impl codec::Budget for Allowance {
    fn hold(&mut self, bytes: u64) -> Result<(), u64> {
        self.asked.push(bytes);
        if bytes <= self.bytes { Ok(()) } else { Err(self.bytes) }
    }
}

#[test]
fn a_long_file_is_asked_for_before_it_is_read() {
    let bmp = include_bytes!("../data/codec/pal4gs.bmp");
    let opened = |length: usize, allowed: u64| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bmp).unwrap();
        file.set_len(length as u64).unwrap();
        file.rewind().unwrap();
        let (mut buffer, mut budget) = (Vec::new(), Allowance { bytes: allowed, asked: Vec::new() });
        let opened = codec::open_within(&mut budget, &mut file, &mut buffer, &LIMITS, &TARGET);
        let outcome = opened.map(|_| ()).map_err(|error| error.to_string());
        (outcome, budget.asked, buffer.capacity())
    };
    let long = 5 << 20;
    assert!(opened(bmp.len(), 0).1.is_empty(), "small change");
    let (outcome, asked, _) = opened(long, long as u64);
    assert_eq!((outcome, asked), (Ok(()), vec![long as u64]));
    let (outcome, asked, capacity) = opened(long, long as u64 - 1);
    assert_eq!(asked, [long as u64]);
    assert!(capacity < 1 << 20, "nothing was read");
    let why = "a file of 5242880 bytes takes more memory than the 5242879 bytes that --memory allows";
    assert!(outcome.unwrap_err().contains(why));
}

#[test]
fn other_maxvals_are_scaled_to_full_range() {
    let (decoded, slot) = decode(b"P5 3 1 100\n\x00\x32\x64", &TARGET).unwrap();
    assert_eq!(slot, [0, 128, 255]);
    assert_eq!(encode(&decoded, slot, &TARGET).unwrap(), b"P5\n3 1\n255\n\x00\x80\xff");
    let (_, slot) = decode(b"P2 2 1 1023\n0 1023 # white", &TARGET).unwrap();
    assert_eq!(slot, [0, 0, 0xff, 0xff]);
    for bad in [
        &b"P5 1 1 100\n\x65"[..],
        b"P5 1 1 255\n",
        b"P5 1 1 255\nab",
        b"P2 1 1 9\n10",
        b"P5 1 1 255\naP5 1 1 255\nb",
    ] {
        assert!(decode(bad, &TARGET).is_err(), "{}", String::from_utf8_lossy(bad));
    }
    // A header with the line ends of Windows' text mode; and a bitmap (PBM), in which 1 is black.
    assert_eq!(decode(b"P5\r\n2 1\r\n255\r\nab", &TARGET).unwrap().1, b"ab");
    assert_eq!(decode(b"P4 9 1\n\x80\x80", &TARGET).unwrap().1, [0, 255, 255, 255, 255, 255, 255, 255, 0]);
}
