//! The launches that check whether the entropy-coded data of JPEGs are intact.
//!
//! See `kernels/jpeg_scan.cu`.

use bytemuck::{Pod, Zeroable};

use super::jpeg_codes::{Codes, PIECE};
use super::{Kernels, Launch, arguments};
use crate::gpu::driver::{Address, Result, Stream};
use codec::BaselineScan;
use histeqd_kernels::JPEG_SCAN;

/// Threads per block. `THREADS` in the kernels.
const THREADS: u32 = 256;

/// The number of rounds, in which pieces that began in the wrong place are walked again.
///
/// Photographs of 2 to 15 MP took 2 to 11 rounds.
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

/// Mirrors `Scan` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Scan {
    /// The address of the data.
    pub data: Address,
    bytes: u32,
    blocks: u32,
    first_piece: u32,
    unused: u32,
    codes: Codes,
}

const _: () = assert!(size_of::<Scan>() == 2408, "as the kernels say");

impl Scan {
    /// Describes a scan before its data and pieces are placed.
    ///
    /// `None` if it is not for the kernels: too large, or with too many components.
    pub fn new(scan: &BaselineScan<'_>) -> Option<Self> {
        // Positions are counted in bits.
        let bytes = u32::try_from(scan.data().len()).ok().filter(|bytes| *bytes < u32::MAX / 16)?;
        let blocks =
            u32::try_from(scan.blocks()).ok().filter(|blocks| bytes > 0 && *blocks < u32::MAX - 4)?;
        let codes = Codes::new(&scan.codes())?;
        Some(Self { data: 0, bytes, blocks, first_piece: 0, unused: 0, codes })
    }

    /// Places the data at this address, and the pieces among those of all pictures.
    ///
    /// `first_piece` is the number of the first.
    pub const fn placed(self, data: Address, first_piece: u32) -> Self {
        Self { data, first_piece, ..self }
    }

    /// Returns a description of the same data that claims four more blocks.
    ///
    /// This is more than the padding of intact data can pass for, since a block takes at least two
    /// bits.
    pub const fn with_extra_blocks(self) -> Self {
        Self { blocks: self.blocks + 4, ..self }
    }

    /// Returns the number of pieces of its data.
    pub const fn pieces(&self) -> u32 {
        self.bytes.div_ceil(PIECE)
    }
}

/// The places on the device of everything that the kernels need.
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
    /// Only this stream may use the memory until it is done. It must be as large as `scans`
    /// require, and hold `scans` at `memory.scans`.
    pub unsafe fn judge_scans(&self, stream: &Stream, scans: &[Scan], memory: ScanMemory) -> Result<()> {
        let ScanMemory { scans: at, starts, ends, counts, verdicts } = memory;
        let pictures = scans.len() as u32;
        let most = scans.iter().map(Scan::pieces).max().unwrap_or(0);
        let shape = |grid| Launch { grid, block: (THREADS, 1, 1), shared: 0 };
        for round in 0..ROUNDS {
            let launch = shape((most.div_ceil(THREADS), pictures, 1));
            let arguments = arguments![at, starts, ends, counts, round];
            // SAFETY: the arguments match the parameters of jpeg_scan_round; the rest is guaranteed
            // by the caller.
            unsafe {
                self.loaded().launch(stream, (&JPEG_SCAN, ("jpeg_scan_round", "")), launch, arguments)?;
            }
        }
        let arguments = arguments![at, starts, ends, counts, verdicts];
        let name = ("jpeg_scan_verdict", "");
        // SAFETY: the arguments match the parameters of jpeg_scan_verdict; the rest is guaranteed
        // by the caller.
        unsafe { self.loaded().launch(stream, (&JPEG_SCAN, name), shape((pictures, 1, 1)), arguments) }
    }
}
