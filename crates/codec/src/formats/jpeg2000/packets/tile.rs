//! A tile's packets: their number, their order, and their headers.

use super::bits::{Bits, TagTree};
use super::coding::{Coding, Order};
use crate::coding::codestream::BlockCoder;

/// Numbers of places between two lines of a grid, across and down: the first, and the end.
type Span = [[u64; 2]; 2];

/// A tile, and the packets that have not been followed yet.
pub(super) struct Tile {
    /// Precincts by component and resolution.
    places: Vec<Vec<Vec<Precinct>>>,
    /// The packets that are left, the next one last.
    left: Vec<Packet>,
}

struct Packet {
    layer: u16,
    component: usize,
    resolution: usize,
    precinct: usize,
}

/// The parts of the sub-bands in a precinct.
struct Precinct {
    bands: Vec<Area>,
}

/// The code-blocks of a sub-band in a precinct.
struct Area {
    /// The number of them in a row.
    across: usize,
    blocks: Vec<Block>,
    included: TagTree,
    missing: TagTree,
    /// The most bit-planes.
    planes: u8,
}

#[derive(Clone)]
struct Block {
    is_included: bool,
    passes: u32,
    most_passes: u32,
    length_bits: u32,
}

impl Tile {
    /// Lays out the tile of this number in a codestream of so many bytes.
    ///
    /// `None` if there are more packets than these can have, if their order goes by the places of
    /// precincts, or if decoders differ in their results.
    pub(super) fn new(coding: &Coding, grid: [u32; 8], number: usize, bytes: usize) -> Option<Self> {
        let span = tile_span(grid, number as u64)?;
        if (0..=coding.levels).any(|shrunk| span.iter().any(|side| is_ambiguous(*side, shrunk))) {
            return None;
        }
        let of_component = || -> Vec<Vec<Precinct>> {
            (0..=coding.levels).map(|resolution| precincts(coding, span, resolution)).collect()
        };
        let places: Vec<_> = std::iter::repeat_with(of_component).take(coding.components).collect();
        let number = places.iter().flatten().map(Vec::len).sum::<usize>() * usize::from(coding.layers);
        let mut left = if number <= bytes { packets(coding, &places)? } else { return None };
        left.reverse();
        Some(Self { places, left })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left.is_empty()
    }

    /// Follows the packets of a tile-part, which have these bytes.
    pub(super) fn follow(&mut self, coding: &Coding, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let packet = self.left.pop()?;
            let precinct = &mut self.places[packet.component][packet.resolution][packet.precinct];
            let (end, content) = precinct.read_header(coding, packet.layer, bytes, at)?;
            at = end.checked_add(content).filter(|&at| at <= bytes.len())?;
        }
        if self.is_complete() {
            self.places.clear();
        }
        Some(())
    }
}

impl Precinct {
    /// Reads a packet's header at `at`; returns its end, and the number of bytes that follow it.
    fn read_header(
        &mut self,
        coding: &Coding,
        layer: u16,
        bytes: &[u8],
        at: usize,
    ) -> Option<(usize, usize)> {
        let mut bits = Bits::new(bytes, at);
        let mut content = 0_usize;
        if bits.bit()? {
            for area in &mut self.bands {
                content = content.checked_add(area.read(coding.coder, layer.into(), &mut bits)?)?;
            }
        }
        Some((bits.end()?, content))
    }
}

impl Area {
    fn new(across: usize, down: usize, planes: u8) -> Self {
        let block = Block { is_included: false, passes: 0, most_passes: 0, length_bits: 3 };
        Self {
            across,
            blocks: vec![block; across * down],
            included: TagTree::new(across, down),
            missing: TagTree::new(across, down),
            planes,
        }
    }

    /// Reads the part of a packet's header about each block; returns the bytes of all blocks.
    fn read(&mut self, coder: BlockCoder, layer: u32, bits: &mut Bits<'_>) -> Option<usize> {
        let mut content = 0_usize;
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let place = (number % self.across, number / self.across);
            let comes = match block.is_included {
                true => bits.bit()?,
                false => self.included.read(bits, place, layer + 1)?.0,
            };
            if !comes {
                continue;
            }
            if !block.is_included {
                let (_, missing) = self.missing.read(bits, place, u32::from(self.planes) + 1)?;
                let planes = u32::from(self.planes).checked_sub(missing).filter(|planes| *planes > 0)?;
                (block.is_included, block.most_passes) = (true, 3 * planes - 2);
            }
            content = content.checked_add(block.read_lengths(coder, bits)?)?;
        }
        Some(content)
    }
}

impl Block {
    /// Reads the number and the lengths of coding passes; returns the bytes of them all.
    ///
    /// Source: T.800, B.10.6 and B.10.7; T.814, B.3.
    fn read_lengths(&mut self, coder: BlockCoder, bits: &mut Bits<'_>) -> Option<usize> {
        let passes = passes(bits)?;
        while bits.bit()? {
            self.length_bits += 1;
        }
        self.passes += passes;
        match coder {
            BlockCoder::Usual if self.passes <= self.most_passes => self.read_length(passes, bits),
            // The passes after the first have a piece of their own.
            BlockCoder::HighThroughput if self.passes <= self.most_passes.min(3) && self.passes == passes => {
                let cleanup = self.read_length(1, bits)?;
                let refinement = if passes > 1 { self.read_length(passes - 1, bits)? } else { 0 };
                cleanup.checked_add(refinement)
            }
            _ => None,
        }
    }

    fn read_length(&self, passes: u32, bits: &mut Bits<'_>) -> Option<usize> {
        bits.number(self.length_bits + passes.ilog2()).map(|length| length as usize)
    }
}

/// Reads the number of coding passes that a packet has of a block (T.800, table B.4).
fn passes(bits: &mut Bits<'_>) -> Option<u32> {
    for (width, before) in [(1, 1), (1, 2), (2, 3), (5, 6), (7, 37)] {
        let more = bits.number(width)?;
        if more + 1 < 1 << width {
            return Some(before + more);
        }
    }
    None
}

/// Returns the place of a tile (T.800, B.3), with samples as far apart as the lines of the grid.
fn tile_span(grid: [u32; 8], number: u64) -> Option<Span> {
    let [x1, y1, x0, y0, width, height, left, top] = grid.map(u64::from);
    let across = x1.checked_sub(left)?.div_ceil(width);
    let side = |number: u64, first: u64, size: u64, low: u64, high: u64| {
        let start = first + number * size;
        [start.max(low), (start + size).min(high)]
    };
    Some([side(number % across, left, width, x0, x1), side(number / across, top, height, y0, y1)])
}

/// Returns whether a side of a tile is a single high sample after so many halvings.
///
/// Decoders differ in their results, and OpenJPEG encodes another.
fn is_ambiguous(side: [u64; 2], shrunk: u8) -> bool {
    let [start, end] = side.map(|line| line.div_ceil(1 << shrunk));
    end.checked_sub(start) == Some(1) && start % 2 == 1
}

/// Returns the precincts of a resolution of a tile (T.800, B.5 to B.7).
fn precincts(coding: &Coding, tile: Span, resolution: u8) -> Vec<Precinct> {
    let sides = coding.precincts[usize::from(resolution)];
    let shrunk = u32::from(coding.levels - resolution);
    let span = tile.map(|side| side.map(|line| line.div_ceil(1 << shrunk)));
    let numbers = [0, 1].map(|axis| places(span[axis], sides[axis]));
    let rows = numbers[1][0]..numbers[1][1];
    let each = rows.flat_map(|y| (numbers[0][0]..numbers[0][1]).map(move |x| [x, y]));
    each.map(|place| Precinct { bands: areas(coding, tile, resolution, place) }).collect()
}

/// Returns the numbers of the cells of 2^`exponent` at least partly between two lines.
fn places([start, end]: [u64; 2], exponent: u8) -> [u64; 2] {
    if start >= end { [0; 2] } else { [start >> exponent, end.div_ceil(1 << exponent)] }
}

/// Returns the code-blocks of each sub-band in a precinct.
fn areas(coding: &Coding, tile: Span, resolution: u8, place: [u64; 2]) -> Vec<Area> {
    // Low in both directions; else one, the other or both are high.
    let kinds: &[[u64; 2]] = if resolution == 0 { &[[0, 0]] } else { &[[1, 0], [0, 1], [1, 1]] };
    let is_halved = u8::from(resolution > 0);
    let shrunk = u32::from(coding.levels - resolution + is_halved);
    let first = if resolution == 0 { 0 } else { 3 * usize::from(resolution) - 2 };
    let band = |(number, high): (usize, &[u64; 2])| {
        let [across, down] = [0, 1].map(|axis| {
            let exponent = coding.precincts[usize::from(resolution)][axis] - is_halved;
            let line = |line: u64| {
                // Half of the step that the transform skips.
                let skipped = high[axis] << shrunk >> 1;
                line.saturating_sub(skipped).div_ceil(1 << shrunk)
            };
            let [start, end] = tile[axis].map(line);
            let (low, high) = (place[axis] << exponent, (place[axis] + 1) << exponent);
            let [first, behind] = places([start.max(low), end.min(high)], coding.block[axis].min(exponent));
            (behind - first) as usize
        });
        Area::new(across, down, coding.planes[first + number])
    };
    kinds.iter().enumerate().map(band).collect()
}

/// Returns all packets in their order (T.800, B.12).
fn packets(coding: &Coding, places: &[Vec<Vec<Precinct>>]) -> Option<Vec<Packet>> {
    let resolutions = 0..=usize::from(coding.levels);
    let of_place = |layer: u16, resolution: usize, component: usize| {
        let numbers = 0..places[component][resolution].len();
        numbers.map(move |precinct| Packet { layer, component, resolution, precinct })
    };
    let (layers, components) = (0..coding.layers, 0..coding.components);
    // Where each resolution is one precinct, it has one position.
    let is_single = places.iter().flatten().all(|precincts| precincts.len() <= 1);
    let packets: Vec<Packet> = match coding.order {
        Order::Layers => layers
            .flat_map(|layer| resolutions.clone().map(move |resolution| (layer, resolution)))
            .flat_map(|(l, r)| components.clone().flat_map(move |c| of_place(l, r, c)))
            .collect(),
        Order::Resolutions => resolutions
            .flat_map(|resolution| layers.clone().map(move |layer| (layer, resolution)))
            .flat_map(|(l, r)| components.clone().flat_map(move |c| of_place(l, r, c)))
            .collect(),
        Order::Positions if is_single => resolutions
            .flat_map(|resolution| components.clone().map(move |component| (resolution, component)))
            .flat_map(|(r, c)| layers.clone().flat_map(move |l| of_place(l, r, c)))
            .collect(),
        Order::Components if is_single => components
            .flat_map(|component| resolutions.clone().map(move |resolution| (resolution, component)))
            .flat_map(|(r, c)| layers.clone().flat_map(move |l| of_place(l, r, c)))
            .collect(),
        _ => return None,
    };
    Some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_samples_that_are_high_ones_are_left_to_the_cpu() {
        // The last column of 301, after tiles of 100: 300, 150, 75.
        assert_eq!([0, 1, 2, 3].map(|shrunk| is_ambiguous([300, 301], shrunk)), [false, false, true, false]);
        assert_eq!([0, 1, 7].map(|shrunk| is_ambiguous([0, 301], shrunk)), [false; 3]);
    }
}
