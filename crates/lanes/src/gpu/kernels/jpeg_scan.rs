//! The launches that check whether the entropy-coded data of JPEGs are intact. See `kernels/jpeg_scan.cu`.

use bytemuck::{Pod, Zeroable};

use super::{Kernels, Launch, arguments};
use crate::gpu::driver::{Address, Result, Stream};
use codec::{BaselineScan, CanonicalCode};
use histeqd_kernels::JPEG_SCAN;

/// Bytes of data that one thread walks. `PIECE` in the kernels.
const PIECE: u32 = 256;

/// Threads per block. `THREADS` in the kernels.
const THREADS: u32 = 256;

/// The most Huffman codes of a picture: three components with two each (DC and AC). `MAX_CODES` in the kernels.
const MAX_CODES: usize = 6;

/// The most blocks whose code numbers fit into 64 bits. (An MCU has ten at most.)
const MAX_BLOCKS: usize = 16;

/// The number of rounds, in which pieces that began in the wrong place are walked again. Photographs of 2 to 15 MP took 2 to 11 rounds.
const ROUNDS: u32 = 24;

/// The verdict on the data of a JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Whole,
    Damaged,
    /// Undecided: too many codes in a row fit wherever a walk begins, as in an empty page.
    Unclear,
}

impl Verdict {
    /// Converts the number that the kernel writes.
    pub const fn read(number: u32) -> Self {
        match number {
            1 => Self::Whole,
            2 => Self::Damaged,
            _ => Self::Unclear,
        }
    }
}

/// Mirrors `Code` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Pod, Zeroable)]
struct Code {
    end: [u32; 17],
    place: [i32; 17],
    symbols: [u8; 256],
}

impl Code {
    fn new(code: &CanonicalCode<'_>) -> Self {
        let mut symbols = [0; 256];
        symbols[..code.symbols.len()].copy_from_slice(code.symbols);
        Self { end: *code.end, place: *code.place, symbols }
    }
}

/// Mirrors `Scan` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Scan {
    /// The address of the data.
    pub data: Address,
    dc: u64,
    ac: u64,
    bytes: u32,
    blocks: u32,
    period: u32,
    first_piece: u32,
    codes: u32,
    dc_codes: u32,
    code: [Code; MAX_CODES],
}

const _: () = assert!(size_of::<Scan>() == 2400, "as the kernels say");

impl Scan {
    /// Describes a scan whose data and pieces are yet to be placed. `None` if it is not for the kernels: too large, or with too many
    /// components.
    pub fn new(scan: &BaselineScan<'_>) -> Option<Self> {
        // Positions are counted in bits.
        let bytes = u32::try_from(scan.data().len()).ok().filter(|bytes| *bytes < u32::MAX / 16)?;
        let blocks =
            u32::try_from(scan.blocks()).ok().filter(|blocks| bytes > 0 && *blocks < u32::MAX - 4)?;
        let of_blocks = scan.codes();
        let column =
            |which: usize| -> Vec<Code> { of_blocks.iter().map(|codes| Code::new(&codes[which])).collect() };
        let ((dc, dc_numbers), (ac, ac_numbers)) = (numbered(&column(0)), numbered(&column(1)));
        if dc.len() + ac.len() > MAX_CODES || of_blocks.len() > MAX_BLOCKS {
            return None;
        }
        let mut code = [Code::zeroed(); MAX_CODES];
        for (place, one) in code.iter_mut().zip(dc.iter().chain(&ac)) {
            *place = *one;
        }
        let ac_numbers: Vec<usize> = ac_numbers.iter().map(|number| dc.len() + number).collect();
        Some(Self {
            data: 0,
            dc: packed(&dc_numbers),
            ac: packed(&ac_numbers),
            bytes,
            blocks,
            period: period(&dc_numbers, &ac_numbers) as u32,
            first_piece: 0,
            codes: (dc.len() + ac.len()) as u32,
            dc_codes: dc.len() as u32,
            code,
        })
    }

    /// Places the data at this address, and the pieces at `first_piece` among those of all pictures.
    pub const fn placed(self, data: Address, first_piece: u32) -> Self {
        Self { data, first_piece, ..self }
    }

    /// Returns a description of the same data that claims four more blocks: more than the padding of intact data can pass for, since a
    /// block takes at least two bits.
    pub const fn with_extra_blocks(self) -> Self {
        Self { blocks: self.blocks + 4, ..self }
    }

    /// Returns the number of pieces of its data.
    pub const fn pieces(&self) -> u32 {
        self.bytes.div_ceil(PIECE)
    }
}

/// Returns the distinct codes, and for each block the number of its code.
fn numbered(of_blocks: &[Code]) -> (Vec<Code>, Vec<usize>) {
    let mut different: Vec<Code> = Vec::new();
    let number = |code: &Code| {
        different.iter().position(|known| known == code).unwrap_or_else(|| {
            different.push(*code);
            different.len() - 1
        })
    };
    let numbers = of_blocks.iter().map(number).collect();
    (different, numbers)
}

/// Packs numbers into four bits each, the first one lowest.
fn packed(numbers: &[usize]) -> u64 {
    numbers.iter().rev().fold(0, |packed, &number| packed << 4 | number as u64)
}

/// Returns the number of blocks after which the codes repeat. The fewer, the more often a walk that began in the wrong block synchronizes.
fn period(dc: &[usize], ac: &[usize]) -> usize {
    let repeats = |period: &usize| {
        let is_same = |i: usize| dc[i] == dc[i - period] && ac[i] == ac[i - period];
        dc.len().is_multiple_of(*period) && (*period..dc.len()).all(is_same)
    };
    (1..=dc.len()).find(repeats).unwrap_or(1)
}

/// Where everything the kernels need lies on the device.
#[derive(Clone, Copy)]
pub struct ScanMemory {
    /// A [`Scan`] for each picture.
    pub scans: Address,
    /// A place for each piece, of 8 bytes, both here and in `ends`.
    pub starts: Address,
    pub ends: Address,
    /// A count for each piece, of 4 bytes.
    pub counts: Address,
    /// A [`Verdict`] for each picture, of 4 bytes.
    pub verdicts: Address,
}

impl Kernels {
    /// Finds a verdict for each picture.
    ///
    /// # Safety
    /// Only this stream may use the memory until it is done. It must be as large as `scans` require, and hold `scans` at `memory.scans`.
    pub unsafe fn judge_scans(&self, stream: &Stream, scans: &[Scan], memory: ScanMemory) -> Result<()> {
        let ScanMemory { scans: at, starts, ends, counts, verdicts } = memory;
        let pictures = scans.len() as u32;
        let most = scans.iter().map(Scan::pieces).max().unwrap_or(0);
        let shape = |grid| Launch { grid, block: (THREADS, 1, 1), shared: 0 };
        for round in 0..ROUNDS {
            let launch = shape((most.div_ceil(THREADS), pictures, 1));
            let arguments = arguments![at, starts, ends, counts, round];
            // SAFETY: the arguments match the parameters of jpeg_scan_round; the rest is guaranteed by the caller.
            unsafe {
                self.loaded().launch(stream, (&JPEG_SCAN, ("jpeg_scan_round", "")), launch, arguments)?;
            }
        }
        let arguments = arguments![at, starts, ends, counts, verdicts];
        let name = ("jpeg_scan_verdict", "");
        // SAFETY: the arguments match the parameters of jpeg_scan_verdict; the rest is guaranteed by the caller.
        unsafe { self.loaded().launch(stream, (&JPEG_SCAN, name), shape((pictures, 1, 1)), arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_repeat_after_as_few_blocks_as_they_do() {
        assert_eq!(period(&[0], &[1]), 1);
        assert_eq!(period(&[0, 0, 0, 0, 0, 0], &[1, 1, 1, 1, 1, 1]), 1);
        assert_eq!(period(&[0, 1, 0, 1], &[2, 3, 2, 3]), 2);
        assert_eq!(period(&[0, 1, 0, 1], &[2, 3, 2, 2]), 4);
        assert_eq!(period(&[0, 0, 0, 0, 1, 1], &[2, 2, 2, 2, 3, 3]), 6);
    }

    #[test]
    fn the_first_block_is_the_lowest() {
        assert_eq!(packed(&[1, 2, 0xf]), 0xf21);
    }

    #[test]
    fn a_scan_has_each_code_once_with_dc_first() {
        let file = include_bytes!("../../../../../tests/data/jpeg/420.jpg");
        let scan = Scan::new(&BaselineScan::read(file).unwrap()).unwrap();
        assert_eq!((scan.codes, scan.dc_codes, scan.period), (4, 2, 6));
        assert_eq!((scan.dc, scan.ac), (0x11_0000, 0x33_2222));
        let gray = include_bytes!("../../../../../tests/data/jpeg/gray.jpg");
        let scan = Scan::new(&BaselineScan::read(gray).unwrap()).unwrap();
        assert_eq!((scan.codes, scan.dc_codes, scan.period), (2, 1, 1));
    }
}
