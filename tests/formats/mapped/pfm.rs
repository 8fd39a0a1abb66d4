//! PFM: rows from bottom to top, in either byte order.

use codec::{CodecError, Cores, Format, Target};
use equalize::colour::Gray;
use equalize::{ByteOrder, ByteOrders};

use super::super::{LIMITS, TARGET, decode};
use super::{GLOBAL, HEIGHT, WIDTH, model::How, picture, processed, samples_of};

/// Returns a PFM of little-endian samples in rows from top to bottom.
fn pfm(how: How, picture: &[u8], scale: &str) -> Vec<u8> {
    let magic = if how.colours == 3 { "PF" } else { "Pf" };
    let header = format!("{magic}\n{WIDTH} {HEIGHT}\n{scale}\n").into_bytes();
    let mut samples: Vec<u8> = picture.rchunks(WIDTH * how.pixel_bytes()).flatten().copied().collect();
    if !scale.starts_with('-') {
        samples.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    [header, samples].concat()
}

#[test]
fn a_pfm_comes_out_as_the_model_says_in_its_own_form() {
    for (colours, scale) in [(1, "-1.0"), (1, "2.5"), (3, "-0.001"), (3, "1")] {
        let how = How::new((3, 32), colours);
        let picture = picture(how, true);
        let file = pfm(how, &picture, scale);
        let (written, decoded) = processed(&file, &GLOBAL, &TARGET);
        assert_eq!((decoded.format, decoded.layout), (Format::Pnm, how.layout(53, 47, true)));
        assert!(written == pfm(how, &how.equalized(&picture), scale), "{colours} {scale}");
        let tiff = Target { format: Some(Format::Tiff), ..TARGET };
        let (written, _) = processed(&file, &GLOBAL, &tiff);
        assert!(samples_of(&written, how) == how.equalized(&picture), "a TIFF of the same samples");
    }
}

#[test]
fn gray_of_a_pfm_is_a_pfm_of_gray_and_levels_are_a_pgm() {
    let how = How::new((3, 32), 3);
    let file = pfm(how, &picture(how, false), "-1.0");
    let (written, _) = processed(&file, &GLOBAL, &Target { gray: Some(Gray::Luma), ..TARGET });
    let header = format!("Pf\n{WIDTH} {HEIGHT}\n-1.0\n");
    assert!(written.starts_with(header.as_bytes()));
    assert_eq!(written.len(), header.len() + 4 * WIDTH * HEIGHT);
    let (written, _) = processed(&file, &GLOBAL, &Target { eight_bit: true, ..TARGET });
    assert!(written.starts_with(format!("P6\n{WIDTH} {HEIGHT}\n255\n").as_bytes()));
}

#[test]
fn a_pfm_that_is_too_short_or_too_long_is_refused() {
    let how = How::new((3, 32), 1);
    let file = pfm(how, &picture(how, false), "-1.0");
    assert!(decode(&[&file[..], b"\n"].concat(), &TARGET).is_ok());
    for (broken, told) in [
        (file[..file.len() - 1].to_vec(), "samples are missing"),
        (file[..8].to_vec(), "its header is truncated"),
        ([&file[..], b"more"].concat(), "more bytes than its header"),
        ([&b"Pf\n0 2\n1\n"[..], &file].concat(), "a width or height"),
    ] {
        let error = decode(&broken, &TARGET).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { format: Format::Pnm, .. }), "{error:?}");
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
    let windows = [b"Pf\r\n53 47\r\n-1.0\r\n", &file[b"Pf\n53 47\n-1.0\n".len()..]].concat();
    let [(_, from_windows), (_, plain)] = [windows, file].map(|file| decode(&file, &TARGET).unwrap());
    assert!(from_windows == plain);
}

#[test]
fn a_pfm_is_read_from_a_pipe_too() {
    use std::io::Write;
    let how = How::new((3, 32), 3);
    let file = pfm(how, &picture(how, true), "1.0");
    let (_, expected) = decode(&file, &TARGET).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let writer = std::thread::spawn(move || writer.write_all(&file));
    let mut pipe = std::fs::File::from(std::os::fd::OwnedFd::from(reader));
    let mut buffer = Vec::new();
    let opened = codec::open(&mut pipe, &mut buffer, &LIMITS, &TARGET).unwrap();
    let mut slot = vec![0; opened.slot_bytes()];
    opened.decode(&mut slot, Vec::new(), &Cores::none()).unwrap();
    assert!(slot == expected);
    writer.join().unwrap().unwrap();
}

#[test]
fn levels_of_which_samples_are_made_keep_the_machines_byte_order() {
    let how = How::new((3, 32), 1);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &pfm(how, &picture(how, false), "1.0")).unwrap();
    for (format, orders) in [
        (None, ByteOrders::NATIVE),
        (Some(Format::Png), ByteOrders { to: ByteOrder::BIG_ENDIAN, ..ByteOrders::NATIVE }),
    ] {
        std::io::Seek::rewind(&mut file).unwrap();
        let (mut buffer, target) = (Vec::new(), Target { format, ..TARGET });
        let opened = codec::open(&mut file, &mut buffer, &LIMITS, &target).unwrap().keep_byte_orders();
        let mut slot = vec![0; opened.slot_bytes()];
        let decoded = opened.decode(&mut slot, Vec::new(), &Cores::none()).unwrap();
        assert_eq!(decoded.byte_orders, orders);
    }
}
