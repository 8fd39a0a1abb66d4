//! JPEG's transform and entropy coding (ITU-T T.81), for pictures in their own planes: progressive ones are read and written in half of
//! libjpeg's time, sequential ones somewhat faster and with better Huffman codes, and of both the chroma can stay what it is in a
//! file: coefficients, which are passed on without loss, or quantized anew without a way through samples. It also tells whether a
//! sequential file's data are whole.
//!
//! A progressive picture (annex G) passes through memory once a scan, so what costs is how much of it each scan touches and how many
//! steps each bit takes. Beside every block stands a mask of the coefficients that are not zero. A refining scan knows from it how many
//! bits a block takes, and applies them without a look at the zeros; most blocks of a scan are told by their mask alone to have nothing
//! in it; the writer goes from one coefficient that counts to the next.
//!
//! The reader takes whole, regular pictures only. To all else, damage included, it says `None`, and libjpeg has the last word.
//! Its samples are libjpeg's to the bit, and the writer's coefficients too, so nobody can tell who coded a picture.

use memmap2::{Advice, MmapMut, MmapOptions};

mod bits;
mod coefficients;
mod dct;
mod huffman;
mod leaf;
mod read;
mod read_sequential;
mod rows;
mod sample;
mod scan;
mod walk;
mod wanted;
mod write;
mod write_sequential;

#[cfg(test)]
mod tests;

pub(super) use coefficients::Coefficients;
pub(crate) use huffman::CanonicalCode;
pub(super) use read::{Picture, read};
pub(super) use rows::Part;
pub use walk::BaselineScan;
pub(super) use wanted::Rest;
pub(super) use write::write;

use super::PlaneSize;
use super::libjpeg::{BLOCK, QuantTable};

/// The coefficients of a block, quantized, in zigzag order.
type Block = [i16; 64];

/// Where each coefficient in zigzag order stands in natural order.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// All coefficients of a component, as they are read.
#[derive(Debug)]
struct Grid<'w> {
    /// Blocks in a row.
    across: usize,
    /// The mean values of the blocks. They stand apart because half of the scans need only them.
    means: Vec<i16>,
    /// The other coefficients; those of a block begin with a place that stays zero.
    details: Details<'w>,
    /// For every block, bit `k` tells whether coefficient `k`, other than the mean, is not zero.
    nonzero: Vec<u64>,
}

/// Where the coefficients of a grid are.
#[derive(Debug)]
enum Details<'w> {
    InWorkspace(&'w mut [Block]),
    Own(MmapMut),
}

impl<'w> Details<'w> {
    /// So many blocks, all zero, from the front of a workspace that has them; `None` if there is no memory for them.
    fn new(blocks: usize, workspace: &mut &'w mut [Block]) -> Option<Self> {
        if let Some(details) = workspace.split_off_mut(..blocks) {
            return Some(Self::InWorkspace(details));
        }
        let own = MmapOptions::new().len(blocks * size_of::<Block>()).map_anon().ok()?;
        // Without huge pages it is slower, nothing else.
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
    /// A grid for a plane, all zero; `None` if there is no memory for it.
    fn new(size: PlaneSize, workspace: &mut &'w mut [Block]) -> Option<Self> {
        let (across, down) = (size.width / BLOCK, size.rows / BLOCK);
        let blocks = across * down;
        let details = Details::new(blocks, workspace)?;
        Some(Self { across, means: zeros(blocks)?, details, nonzero: zeros(blocks)? })
    }

    /// Blocks across and down.
    fn size(&self) -> (usize, usize) {
        (self.across, self.nonzero.len() / self.across)
    }
}

/// So many zeros, if there is memory for them.
pub(super) fn zeros<T: Clone + Default>(count: usize) -> Option<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count).ok()?;
    zeros.resize(count, T::default());
    Some(zeros)
}

/// Bytes of a workspace for reading a progressive picture with planes of these sizes.
pub(super) fn workspace_bytes(planes: impl Iterator<Item = PlaneSize>) -> u64 {
    planes.map(|size| (size.bytes() * size_of::<i16>()) as u64).sum()
}

/// Bytes of heap that reading takes, its workspace among them, and then writing again, for planes of these sizes.
pub(super) fn heap_bytes(planes: impl Iterator<Item = PlaneSize>) -> u64 {
    // Of every block its coefficients, its mean value, and its mask. The writer needs as much for a picture of nothing but noise.
    let block = size_of::<Block>() + size_of::<i16>() + size_of::<u64>();
    planes.map(|size| (size.bytes() / (BLOCK * BLOCK) * block) as u64).sum()
}

/// A table in zigzag order, in natural order.
fn natural(table: &QuantTable) -> QuantTable {
    let mut natural = [0; 64];
    for (divisor, &place) in table.iter().zip(&ZIGZAG) {
        natural[usize::from(place)] = *divisor;
    }
    natural
}

/// The bits from `first` to `last`, both among them.
const fn band(first: u32, last: u32) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}
