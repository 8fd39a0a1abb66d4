//! A check on the GPU whether the entropy-coded data of JPEGs are intact.
//!
//! nvJPEG was seen to accept damaged data without an error, and the check on the CPU takes longer
//! than all of its other work.
#![allow(unsafe_code)]

use super::driver::{Buffer, Stream};
use super::equalizer::grow;
use super::kernels::{Kernels, Scan, ScanMemory, Verdict};
use crate::lane::{EngineError, LaneError};
use codec::BaselineScan;

/// The alignment of each part in device memory, in bytes.
const ALIGNMENT: u64 = 128;

/// The memory of a lane for checking the data of a batch.
#[derive(Default)]
pub(super) struct ScanCheck {
    memory: Buffer,
    scans: Vec<Scan>,
    verdicts: Vec<u32>,
    /// For each picture, its index in `scans`; `None` if it is not for the kernels.
    places: Vec<Option<usize>>,
    /// Whether the kernels have been seen to distinguish intact from damaged data.
    proven: bool,
}

impl ScanCheck {
    /// Starts checking these scans.
    ///
    /// `None` stands for a file without a usable scan, which counts as damaged.
    ///
    /// # Safety
    /// The data must stay valid and unwritten, and this must not be used for anything else, until
    /// the stream is through.
    pub(super) unsafe fn start(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        scans: &[Option<BaselineScan<'_>>],
    ) -> Result<(), LaneError> {
        let mut end = 0;
        let mut part = |bytes: u64| {
            let start = end;
            end = (start + bytes).next_multiple_of(ALIGNMENT);
            start
        };
        let pieces = self.describe(scans, &mut part);
        if self.scans.is_empty() {
            return Ok(());
        }
        let (places, counts) = (8 * u64::from(pieces), 4 * u64::from(pieces));
        let (described, verdicts) = (size_of_val(&*self.scans) as u64, size_of_val(&*self.verdicts) as u64);
        let parts = [places, places, counts, described, verdicts].map(part);
        let at = grow(&mut self.memory, end)?;
        self.scans.iter_mut().for_each(|scan| scan.data += at);
        let [starts, ends, counts, described, verdicts] = parts.map(|offset| at + offset);
        let memory = ScanMemory { scans: described, starts, ends, counts, verdicts };
        // SAFETY: each part is as large as its content, and this lane's own; the rest is guaranteed
        // by the caller.
        unsafe {
            for (scan, place) in scans.iter().zip(&self.places) {
                if let (Some(scan), Some(place)) = (scan, *place) {
                    stream.upload(scan.data(), self.scans[place].data)?;
                }
            }
            stream.upload(bytemuck::cast_slice(&self.scans), memory.scans)?;
            kernels.judge_scans(stream, &self.scans, memory)?;
            stream.download(memory.verdicts, bytemuck::cast_slice_mut(&mut self.verdicts))?;
        }
        Ok(())
    }

    /// Describes the scans for the kernels, with data still at offsets.
    ///
    /// Returns the number of pieces. Until the kernels are proven, each scan is followed by a twin
    /// that claims more blocks than there are, and must therefore be found damaged.
    fn describe(&mut self, scans: &[Option<BaselineScan<'_>>], mut part: impl FnMut(u64) -> u64) -> u32 {
        self.scans.clear();
        self.places.clear();
        let mut pieces = 0;
        for scan in scans {
            let described = scan.as_ref().and_then(Scan::new);
            self.places.push(described.map(|_| self.scans.len()));
            let (Some(scan), Some(described)) = (scan, described) else { continue };
            let data = part(scan.data().len() as u64);
            let twin = Some(described.with_extra_blocks()).filter(|_| !self.proven);
            for scan in std::iter::once(described).chain(twin) {
                self.scans.push(scan.placed(data, pieces));
                pieces += scan.pieces();
            }
        }
        self.verdicts.clear();
        self.verdicts.resize(self.scans.len(), 0);
        pieces
    }

    fn verdict(&self, place: Option<usize>) -> Verdict {
        place.map_or(Verdict::Unclear, |place| Verdict::read(self.verdicts[place]))
    }

    /// Returns whether each scan is intact, once the stream is through.
    ///
    /// The CPU checks unclear scans and, until the kernels have been seen to agree with it, all of
    /// them.
    ///
    /// # Errors
    /// If the kernels contradict the CPU.
    pub(super) fn are_whole(&mut self, scans: &[Option<BaselineScan<'_>>]) -> Result<Vec<bool>, EngineError> {
        let mut proven = self.proven;
        let mut is_whole = |(scan, &place): (&Option<BaselineScan<'_>>, &Option<usize>)| {
            let Some(scan) = scan else { return Ok(false) };
            let found = self.verdict(place);
            if self.proven && found != Verdict::Unclear {
                return Ok(found == Verdict::Whole);
            }
            let whole = scan.is_whole();
            if !self.proven {
                let short = self.verdict(place.map(|place| place + 1));
                let agrees = found == if whole { Verdict::Whole } else { Verdict::Damaged };
                if (found != Verdict::Unclear && !agrees) || (whole && short == Verdict::Whole) {
                    return Err(EngineError::wrong_results());
                }
                proven |= whole && agrees && short == Verdict::Damaged;
            }
            Ok(whole)
        };
        let whole = scans.iter().zip(&self.places).map(&mut is_whole).collect();
        self.proven = proven;
        whole
    }
}

#[cfg(test)]
mod tests {

    use super::super::driver::Event;
    use super::super::engine::GpuEngine;
    use super::*;

    /// Pseudo-random numbers (xorshift), the same each time.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    /// Makes entropy-coded data of `count` gray blocks, stuffed and padded.
    ///
    /// The codes are 0, 10 and 110: for DC differences of 0, 1 and 11 bits; for AC, the end of
    /// block, a coefficient of 2 bits after 3 zeros, and one of 10 bits after 0.
    fn blocks(count: u32, random: &mut Random) -> Vec<u8> {
        let mut bits = Vec::new();
        let mut put =
            |value: u64, length: u32| bits.extend((0..length).rev().map(|bit| value >> bit & 1 == 1));
        let mut symbol = |which: u64, sizes: [u32; 3], random: &mut Random| {
            let (code, length) = [(0, 1), (0b10, 2), (0b110, 3)][which as usize];
            put(code, length);
            let size = sizes[which as usize];
            // Many ones, to make stuffing occur.
            let value = random.below(1 << size) | if random.below(2) == 0 { (1 << size) - 1 } else { 0 };
            put(value, size);
        };
        for _ in 0..count {
            symbol(random.below(3), [0, 1, 11], random);
            for _ in 0..random.below(6) {
                symbol(1 + random.below(2), [0, 2, 10], random);
            }
            symbol(0, [0, 2, 10], random);
        }
        while bits.len() % 8 > 0 {
            bits.push(true);
        }
        let bytes = bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit)));
        bytes.flat_map(|byte| if byte == 0xff { vec![0xff, 0] } else { vec![byte] }).collect()
    }

    /// Makes a gray JPEG with `blocks` blocks in a row, with only the segments that are read.
    fn file(blocks: u32, data: &[u8]) -> Vec<u8> {
        let [.., high, low] = (8 * blocks).to_be_bytes();
        let table = |place: u8, symbols: [u8; 3]| {
            let counts = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            [&[0xff, 0xc4, 0, 22, place][..], &counts, &symbols].concat()
        };
        let frame = [0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 8, high, low, 1, 1, 0x11, 0];
        let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0];
        let (dc, ac) = (table(0, [0, 1, 11]), table(0x10, [0, 0x32, 0x0a]));
        [&frame[..], &dc, &ac, &scan, data, &[0xff, 0xd9]].concat()
    }

    /// Makes files of `count` blocks.
    ///
    /// They are intact, with one block fewer or more than their header declares, with a flipped
    /// bit, and cut short.
    fn files(count: u32, random: &mut Random) -> Vec<Vec<u8>> {
        let data = blocks(count, random);
        let mut changed = data.clone();
        changed[random.below(data.len() as u64) as usize] ^= 1 << random.below(8);
        let cut = &data[..random.below(data.len() as u64) as usize];
        let mut files =
            vec![file(count, &data), file(count + 1, &data), file(count, &changed), file(count, cut)];
        files.extend((count > 1).then(|| file(count - 1, &data)));
        files
    }

    #[test]
    fn the_gpu_says_of_any_data_what_the_processor_says() {
        let Some(engine) = GpuEngine::open_or_skip() else { return };
        let (stream, mut check, mut random) = (Stream::new().unwrap(), ScanCheck::default(), Random(1));
        let (mut whole, mut damaged) = (0, 0);
        for round in 0..40 {
            // From one byte to several pieces.
            let files: Vec<Vec<u8>> = (1..200).flat_map(|count| files(count, &mut random)).collect();
            let scans: Vec<_> = files.iter().map(|file| BaselineScan::read(file)).collect();
            // SAFETY: the files stay until it has waited.
            assert!(unsafe { check.start(&engine.kernels, &stream, &scans) }.is_ok());
            let done = Event::new().unwrap();
            done.record(&stream).unwrap();
            done.wait().unwrap();
            for (scan, &place) in scans.iter().zip(&check.places) {
                let Some(scan) = scan else { continue };
                let (found, is_whole) = (check.verdict(place), scan.is_whole());
                let expected = if is_whole { Verdict::Whole } else { Verdict::Damaged };
                assert_eq!(
                    found,
                    expected,
                    "round {round}: {} bytes, {} blocks",
                    scan.data().len(),
                    scan.blocks()
                );
                whole += usize::from(is_whole);
                damaged += usize::from(!is_whole);
            }
            check.are_whole(&scans).unwrap();
            assert!(check.proven);
        }
        assert!(whole > 5000 && damaged > 5000, "{whole} were whole, {damaged} damaged");
    }
}
