//! Strips and tiles of TIFFs that are handed to another coder: their selection, and the result.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Mutex;

use codec::coders::{CodedStreams, Help, StreamCoder, StreamWork, Streams, code_streams};
use codec::{CodecError, Cores, Decoded};
use equalize::{Depth, Layout, Pixel};

use super::{LIMITS, TARGET, pixels};
use crate::large::{Cut, tiff};
use crate::samples::Random;
use crate::stacks::Storage;

/// The fault of the coder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// It has no room.
    Declines,
    /// It leaves one of them to others.
    LeavesOne,
    /// It reports one as done, but with a changed byte.
    ChangesOne,
}

/// Inflates and deflates as the CPU does, except for a fault.
#[derive(Debug)]
struct Other {
    fault: Fault,
    asked: Mutex<Vec<StreamWork>>,
}

impl Other {
    fn new(fault: Fault) -> Self {
        Self { fault, asked: Mutex::default() }
    }
}

impl StreamCoder for Other {
    fn code(&self, streams: &Streams, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<CodedStreams<'_>> {
        if self.fault == Fault::Declines {
            return None;
        }
        let mut memory = vec![0x5a; streams.bytes as usize];
        if !fill(&mut memory) {
            return None;
        }
        self.asked.lock().unwrap().push(streams.work);
        code_streams(streams, &mut memory);
        let mut lengths = streams.lengths(&memory);
        match (self.fault, streams.work) {
            (Fault::LeavesOne, _) => lengths[3] = 0,
            (Fault::ChangesOne, StreamWork::Inflate) => memory[streams.start() + 3 * streams.stride()] ^= 1,
            // The one that is checked.
            (Fault::ChangesOne, StreamWork::Deflate) => {
                let places = streams.places_within(&lengths, memory.len()).unwrap();
                memory[places[places.len() / 2].start + 50] ^= 1;
            }
            _ => {}
        }
        streams.set_lengths(&mut memory, &lengths);
        Some(Box::new(memory))
    }
}

/// Decodes a file with the help of a coder, if there is one.
fn decode(file: &[u8], coder: Option<&dyn StreamCoder>) -> Result<(Decoded, Vec<u8>), CodecError> {
    let (mut source, mut buffer) = (tempfile::tempfile()?, Vec::new());
    source.write_all(file)?;
    source.rewind()?;
    let opened = codec::open(&mut source, &mut buffer, &LIMITS, &TARGET)?;
    let mut slot = vec![0x5a; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, Vec::new(), Help { cores: &Cores::new(2), coder })?;
    Ok((decoded, slot))
}

/// Encodes a picture with the help of a coder, if there is one.
fn encode(decoded: &Decoded, mut slot: Vec<u8>, coder: Option<&dyn StreamCoder>) -> Vec<u8> {
    let mut file: File = tempfile::tempfile().unwrap();
    let help = Help { cores: &Cores::new(2), coder };
    codec::encode(decoded, &mut slot, &TARGET, &mut Vec::new(), help, &mut file).unwrap();
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A picture of noise below `most`, on a ramp.
fn picture(layout: &Layout, cut: Cut, most: u64, storage: Storage) -> Vec<u8> {
    let mut random = Random(5);
    let count = layout.pixels() * layout.pixel.channels() as u64;
    let samples: Vec<u16> = (0..count).map(|at| (at * 100 / count + random.below(most)) as u16).collect();
    tiff(layout, &samples, cut, storage)
}

const GRAY: Layout = Layout { width: 100, height: 90, pixel: Pixel::Gray, depth: Depth::Sixteen };

#[test]
fn another_coder_makes_the_same_pictures_and_files() {
    for (pixel, depth) in [Pixel::Gray, Pixel::Rgb, Pixel::Rgba]
        .into_iter()
        .flat_map(|pixel| [(pixel, Depth::Eight), (pixel, Depth::Sixteen)])
    {
        let layout = Layout { pixel, depth, ..GRAY };
        for cut in [Cut::Strips(7), Cut::Strips(90), Cut::Tiles(32, 16)] {
            let file = picture(&layout, cut, 100, Storage::Deflate);
            let (decoded, slot) = decode(&file, None).unwrap();
            let expected = (pixels(&decoded, &slot).to_vec(), encode(&decoded, slot, None));
            for fault in [Fault::None, Fault::Declines, Fault::LeavesOne, Fault::ChangesOne] {
                let other = Other::new(fault);
                let (decoded, slot) = decode(&file, Some(&other)).unwrap();
                assert!(pixels(&decoded, &slot) == expected.0, "{layout:?} {cut:?} {fault:?}");
                assert!(encode(&decoded, slot, Some(&other)) == expected.1, "{layout:?} {cut:?} {fault:?}");
                let asked = other.asked.into_inner().unwrap();
                let expected: &[StreamWork] = match (fault, cut) {
                    (Fault::Declines, _) | (_, Cut::Strips(90)) => &[],
                    // The output is in one strip.
                    (_, Cut::Strips(_)) => &[StreamWork::Inflate],
                    (_, Cut::Tiles(..)) => &[StreamWork::Inflate, StreamWork::Deflate],
                };
                assert_eq!(asked, expected, "{layout:?} {cut:?} {fault:?}");
            }
        }
    }
}

#[test]
fn what_is_compressed_otherwise_or_by_matches_is_not_handed_over() {
    let cut = Cut::Tiles(32, 16);
    for storage in [Storage::Stored, Storage::Lzw] {
        let other = Other::new(Fault::None);
        let (decoded, slot) = decode(&picture(&GRAY, cut, 100, storage), Some(&other)).unwrap();
        encode(&decoded, slot, Some(&other));
        assert_eq!(other.asked.into_inner().unwrap(), []);
    }
    // Rows that repeat get much shorter by matches.
    let mut random = Random(9);
    let row: Vec<u16> = (0..GRAY.width).map(|_| random.below(60_000) as u16).collect();
    let file = tiff(&GRAY, &row.repeat(GRAY.height as usize), cut, Storage::Deflate);
    let other = Other::new(Fault::None);
    let (decoded, slot) = decode(&file, Some(&other)).unwrap();
    let expected = encode(&decoded, slot.clone(), None);
    assert!(encode(&decoded, slot, Some(&other)) == expected);
    assert_eq!(other.asked.into_inner().unwrap(), [StreamWork::Inflate]);
}

#[test]
fn damaged_strips_are_judged_as_without_another_coder() {
    let mut random = Random(3);
    let whole = picture(&GRAY, Cut::Strips(7), 1000, Storage::Deflate);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..1000 {
        let mut file = whole.clone();
        let end = u64::from(u32::from_le_bytes(file[4..8].try_into().unwrap()));
        let bit = 8 * 8 + random.below(8 * (end - 100));
        file[bit as usize / 8] ^= 1 << (bit % 8);
        let judged = |coder| decode(&file, coder).map(|(decoded, slot)| pixels(&decoded, &slot).to_vec());
        let other = Other::new(Fault::None);
        match (judged(None), judged(Some(&other))) {
            (Ok(expected), Ok(found)) => {
                assert!(expected == found);
                good += 1;
            }
            (Err(expected), Err(found)) => {
                assert_eq!(expected.to_string(), found.to_string());
                bad += 1;
            }
            (expected, found) => panic!("{:?} and {:?}", expected.err(), found.err()),
        }
    }
    assert!(bad > 900, "{good} good, {bad} bad");
}
