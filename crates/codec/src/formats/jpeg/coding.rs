//! JPEG's transform and entropy coding (ITU-T T.81), for pictures in their own planes.
//!
//! Progressive pictures take half of libjpeg's time to read and write; sequential ones are somewhat
//! faster and get better Huffman codes. In both, the chroma can stay coefficients, as it is in the
//! file: they are passed on without loss, or requantized without becoming samples in between. This
//! module also checks whether the entropy-coded data of a sequential file are complete and
//! undamaged.
//!
//! A progressive picture (annex G) passes through memory once per scan; its time depends on the
//! memory that each scan touches and on the steps that each bit takes. Every block therefore has a
//! mask of its nonzero coefficients. From it, a refinement scan knows how many bits a block takes,
//! and applies them without looking at the zeros; for most blocks the mask alone shows that a scan
//! has no bits for them; and the writer steps from one nonzero coefficient to the next.
//!
//! The reader only takes complete, regular pictures. For anything else, including damage, it
//! returns `None`, and libjpeg decides. Its samples are bit-identical to libjpeg's, and so are the
//! writer's coefficients.

use memmap2::{Advice, MmapMut, MmapOptions};

mod baseline;
mod baseline_output;
mod bits;
mod coefficients;
mod component;
mod dct;
pub(super) mod deep;
mod header;
mod huffman;
mod idct12;
mod read;
mod read_sequential;
mod recolour;
mod rows;
mod sample;
mod scan;
mod symbols;
mod write;
mod write_sequential;

#[cfg(test)]
mod tests;

pub use baseline::{BaselineComponent, BaselinePicture};
pub use baseline_output::{BaselineOutput, Codebook, Divisors};
pub(super) use coefficients::Coefficients;
pub(super) use component::Rest;
pub use huffman::CanonicalCode;
pub(super) use read::{Picture, read};
pub(super) use recolour::recoloured;
pub(super) use rows::Part;
pub(super) use write::write;

use super::libjpeg::QuantTable;
use super::{PlaneSize, vectorized};
use crate::formats::jpeg::BLOCK;

/// The quantized coefficients of a block, in zigzag order.
type Block = [i16; 64];

/// The index in natural order of each coefficient in zigzag order.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// All coefficients of a component of a progressive picture, while it is being read.
#[derive(Debug)]
struct Grid<'w> {
    /// Blocks in a row.
    across: usize,
    /// The DC coefficients.
    ///
    /// They are stored separately because half of the scans need only them.
    dc: Vec<i16>,
    /// The AC coefficients.
    ///
    /// The first entry of each block, in place of the DC coefficient, stays zero.
    ac: AcCoefficients<'w>,
    /// A mask for every block: bit `k` is set if AC coefficient `k` is not zero.
    nonzero: Vec<u64>,
}

/// The memory for the AC coefficients of a grid.
#[derive(Debug)]
enum AcCoefficients<'w> {
    InWorkspace(&'w mut [Block]),
    Own(MmapMut),
}

impl<'w> AcCoefficients<'w> {
    /// Takes this many blocks, all zero, from the front of the workspace.
    ///
    /// If the workspace is too short, it allocates them. `None` if there is no memory for them.
    fn new(blocks: usize, workspace: &mut &'w mut [Block]) -> Option<Self> {
        if let Some(ac) = workspace.split_off_mut(..blocks) {
            return Some(Self::InWorkspace(ac));
        }
        let own = MmapOptions::new().len(blocks * size_of::<Block>()).map_anon().ok()?;
        // Huge pages are only for speed: failure is harmless.
        let _ = own.advise(Advice::HugePage);
        Some(Self::Own(own))
    }

    fn blocks(&self) -> &[Block] {
        match self {
            Self::InWorkspace(blocks) => blocks,
            Self::Own(bytes) => bytemuck::cast_slice(bytes),
        }
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        match self {
            Self::InWorkspace(blocks) => blocks,
            Self::Own(bytes) => bytemuck::cast_slice_mut(bytes),
        }
    }
}

impl<'w> Grid<'w> {
    /// Makes a grid for a plane, all zero. `None` if there is no memory for it.
    fn new(size: PlaneSize, workspace: &mut &'w mut [Block]) -> Option<Self> {
        let (across, down) = (size.width / BLOCK, size.rows / BLOCK);
        let blocks = across * down;
        let ac = AcCoefficients::new(blocks, workspace)?;
        Some(Self { across, dc: zeros(blocks)?, ac, nonzero: zeros(blocks)? })
    }

    /// Returns the number of blocks across and down.
    fn size(&self) -> (usize, usize) {
        (self.across, self.nonzero.len() / self.across)
    }
}

/// Returns `count` zeros, or `None` if there is no memory for them.
pub(super) fn zeros<T: Clone + Default>(count: usize) -> Option<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count).ok()?;
    zeros.resize(count, T::default());
    Some(zeros)
}

/// Returns the bytes of workspace for reading a progressive picture with planes of these sizes.
pub(super) fn workspace_bytes(planes: impl Iterator<Item = PlaneSize>) -> u64 {
    planes.map(|size| (size.bytes() * size_of::<i16>()) as u64).sum()
}

/// Returns the bytes of heap that reading takes, for planes of these sizes.
///
/// They include the workspace; writing takes as much again afterwards.
pub(super) fn heap_bytes(planes: impl Iterator<Item = PlaneSize>) -> u64 {
    // For every block: its coefficients, its DC coefficient and its mask. The writer needs as much
    // at worst, for a picture of pure noise.
    let block = size_of::<Block>() + size_of::<i16>() + size_of::<u64>();
    planes.map(|size| (size.bytes() / (BLOCK * BLOCK) * block) as u64).sum()
}

/// Converts a quantization table from zigzag to natural order.
fn natural(table: &QuantTable) -> QuantTable {
    let mut natural = [0; 64];
    for (divisor, &place) in table.iter().zip(&ZIGZAG) {
        natural[usize::from(place)] = *divisor;
    }
    natural
}

/// Returns a mask of the bits from `first` to `last`, inclusive.
const fn band(first: u32, last: u32) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}
