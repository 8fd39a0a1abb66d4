use std::io::{Read, Write};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compress, Compression, FlushCompress};

use super::*;
use crate::samples::tests::noise;

/// Data that compress in different ways: with literals, short and long matches, codes of every length.
fn samples() -> Vec<Vec<u8>> {
    const LENGTH: usize = 150_000;
    let noise = noise(LENGTH, 1);
    let skewed = noise.iter().map(|&byte| (byte.trailing_zeros() * 17) as u8);
    let smooth = noise.iter().enumerate().map(|(at, byte)| (at / 777) as u8 ^ byte >> 5);
    // Words at random places of a text, some of them 32 KiB back.
    let words = noise
        .chunks(2)
        .flat_map(|pair| noise[usize::from(pair[0] >> 3) * 9..][..3 + usize::from(pair[1] >> 4)].to_vec());
    let far = noise[..WINDOW]
        .iter()
        .chain(&noise[..WINDOW])
        .chain(&noise[40_000..40_300])
        .chain(&noise[40_000..40_300]);
    vec![
        vec![],
        vec![7],
        vec![7; LENGTH],
        skewed.collect(),
        smooth.collect(),
        words.take(LENGTH).collect(),
        far.copied().collect(),
        (0..LENGTH).map(|at| (at % 13 * (at / 5000)) as u8).collect(),
        noise,
    ]
}

/// Compresses by zlib, in blocks of various kinds.
fn deflated(data: &[u8], level: u32) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(level), false);
    let mut stream = Vec::with_capacity(2 * data.len() + 1000);
    for (number, part) in data.chunks(40_000).enumerate() {
        let flush = if number % 2 == 0 { FlushCompress::None } else { FlushCompress::Sync };
        compress.compress_vec(part, &mut stream, flush).unwrap();
    }
    compress.compress_vec(&[], &mut stream, FlushCompress::Finish).unwrap();
    stream
}

/// Decompresses a whole stream into room for `length` symbols.
fn inflated(stream: &[u8], length: usize) -> Result<(Vec<u8>, Halt), Damage> {
    let mut out = vec![0; length];
    let (filled, stop) = Inflater::new(0).run((stream, 0), &mut out, 0, usize::MAX)?;
    out.truncate(filled);
    Ok((out, stop))
}

#[test]
fn what_zlib_makes_comes_back() {
    for (number, data) in samples().iter().enumerate() {
        for level in [0, 1, 4, 6, 9] {
            let stream = deflated(data, level);
            let back = inflated(&stream, data.len()).unwrap();
            assert!(back == (data.clone(), Halt::End), "sample {number}, level {level}");
        }
    }
}

#[test]
fn data_and_room_may_come_in_pieces() {
    for (number, data) in samples().iter().enumerate() {
        for (level, seed) in [(0, 1), (1, 2), (9, 3)] {
            let stream = deflated(data, level);
            let mut sizes =
                noise(1 << 16, seed).into_iter().map(|byte| usize::from(byte) * usize::from(byte) / 16);
            let mut inflater = Inflater::new(0);
            let (mut out, mut filled, mut room, mut end) = (vec![0; data.len()], 0, 0, 0);
            loop {
                let start = inflater.position() / 8;
                let input = (&stream[start..end.max(start)], start);
                let stop;
                (filled, stop) = inflater.run(input, &mut out[..room], filled, usize::MAX).unwrap();
                match stop {
                    Halt::Full if room < data.len() => {
                        room = data.len().min(room + sizes.next().unwrap() + 1);
                    }
                    Halt::Full | Halt::Data => end = stream.len().min(end + sizes.next().unwrap() + 1),
                    Halt::End | Halt::Block => break,
                }
            }
            assert!(out == *data && filled == data.len(), "sample {number}, level {level}");
        }
    }
}

#[test]
fn streams_that_are_cut_give_what_is_in_front_of_the_cut() {
    let data = &samples()[4][..20_000];
    let stream = deflated(data, 6);
    for length in (0..stream.len()).step_by(7) {
        let (out, stop) = inflated(&stream[..length], data.len()).unwrap();
        assert!(data.starts_with(&out) && stop == Halt::Data, "{length} of {} bytes", stream.len());
        assert!(out.len() >= length.saturating_sub(2000), "{length} bytes");
    }
}

#[test]
fn fixed_and_dynamic_codes_may_take_turns() {
    let data = &samples()[5][..60_000];
    let mut compress = Compress::new(Compression::new(6), false);
    let mut stream = Vec::with_capacity(2 * data.len());
    for part in data.chunks(6000).flat_map(|part| [&part[..50], &part[50..100], &part[100..]]) {
        compress.compress_vec(part, &mut stream, FlushCompress::Partial).unwrap();
    }
    compress.compress_vec(&[], &mut stream, FlushCompress::Finish).unwrap();
    assert!(inflated(&stream, data.len()).unwrap() == (data.to_vec(), Halt::End));
}

#[test]
fn room_that_is_full_is_enough() {
    let data = &samples()[5];
    let stream = deflated(data, 6);
    for length in [0, 1, 1000, 70_001, data.len() - 1] {
        assert!(
            inflated(&stream, length).unwrap() == (data[..length].to_vec(), Halt::Full),
            "{length} bytes"
        );
    }
}

#[test]
fn blocks_are_found_and_can_be_begun_with() {
    let data = &samples()[3];
    let stream = deflated(data, 6);
    let mut inflater = Inflater::new(0);
    let mut out = vec![0; data.len()];
    let (mut begun, mut filled) = (0, 0);
    for from in (3..8 * stream.len()).step_by(20_011) {
        let stop;
        (filled, stop) = inflater.run((&stream, 0), &mut out, filled, from).unwrap();
        let Some(found) = find_block(&stream, from, 8 * stream.len()) else { continue };
        // Blocks that are stored, and the last one, are passed by.
        while inflater.position() < found {
            (filled, _) = inflater.run((&stream, 0), &mut out, filled, inflater.position() + 1).unwrap();
        }
        assert_eq!((inflater.position(), stop), (found, Halt::Block));
        let mut marked: Vec<u16> = (256..256 + WINDOW as u16).collect();
        marked.resize(WINDOW + data.len() - filled, 0);
        let offset = found / 8;
        let (end, stop) =
            Inflater::new(found).run((&stream[offset..], offset), &mut marked, WINDOW, usize::MAX).unwrap();
        assert_eq!((end, stop), (marked.len(), Halt::End));
        let byte_of = |symbol: u16| {
            u8::try_from(symbol).unwrap_or_else(|_| out[filled + usize::from(symbol) - 256 - WINDOW])
        };
        let bytes: Vec<u8> = marked[WINDOW..].iter().map(|&symbol| byte_of(symbol)).collect();
        assert!(bytes == data[filled..], "from bit {found}");
        begun += 1;
    }
    assert!(begun > 2, "{begun} blocks");
}

#[test]
fn no_blocks_are_found_in_noise_or_behind_the_end() {
    let noise = noise(1 << 20, 9);
    assert_eq!(find_block(&noise, 0, 8 << 20), None);
    let stream = deflated(&samples()[4], 6);
    let block = find_block(&stream, 0, 8 * stream.len()).unwrap();
    assert_eq!(find_block(&stream, block, block + 1), Some(block));
    assert_eq!(find_block(&stream, 0, block), None);
    assert_eq!(find_block(&stream[..block / 8 + 12], 0, usize::MAX / 2), None);
}

#[test]
fn damage_is_told() {
    for (stream, damage) in [
        (&[0b111_u8][..], "invalid kind of block"),
        (&[1, 5, 0, 0, 0], "invalid length of stored data"),
        // 287 symbols, 31 distances.
        (&[0b1111_0101, 0, 0], "too many codes"),
        (&[0b0000_0101, 0b1_1110, 0], "too many codes"),
        // No code for code lengths.
        (&[5, 0, 0, 0], "invalid codes"),
        // A literal and then a match of distance 2, by fixed codes.
        (&[0x73, 0x04, 0x11, 0], "a match reaches too far back"),
    ] {
        let padded = [stream, &[0; 20]].concat();
        assert_eq!(inflated(&padded, 100).unwrap_err().0, damage, "{stream:?}");
    }
    assert!(check_zlib_header([0x78, 0x9c]).is_ok());
    for header in [[0x79, 0x9c], [0x88, 0x1c], [0x78, 0x9d], [0x78, 0xbb]] {
        assert!(check_zlib_header(header).is_err(), "{header:?}");
    }
}

#[test]
fn what_zlib_takes_is_taken_and_what_it_refuses_is_refused() {
    let mut taken = 0;
    for (seed, data) in samples().iter().enumerate().skip(1) {
        let data = &data[..data.len().min(3000)];
        for level in [1, 9] {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(data).unwrap();
            let stream = encoder.finish().unwrap();
            let places = noise(1200, seed as u32);
            for place in places.chunks(3) {
                let mut damaged = stream.clone();
                // Half of the damage is in the header.
                let at = usize::from(place[0]) * if place[2] > 127 { 1 } else { 1 + stream.len() / 256 };
                let at = at % stream.len();
                damaged[at] ^= 1 << (place[1] & 7);
                let mut expected = Vec::new();
                let by_zlib = DeflateDecoder::new(damaged.as_slice()).take(10_000).read_to_end(&mut expected);
                let ours = inflated(&damaged, 10_000);
                let is_taken = matches!(ours, Ok((_, Halt::End | Halt::Full)));
                assert_eq!(
                    is_taken,
                    by_zlib.is_ok(),
                    "sample {seed}, level {level}, bit {} of byte {at}",
                    place[1] & 7
                );
                if is_taken {
                    assert!(ours.unwrap().0 == expected, "sample {seed}, level {level}, byte {at}");
                    taken += 1;
                }
            }
        }
    }
    assert!(taken > 100, "{taken} were taken");
}
