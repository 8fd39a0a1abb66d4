//! A progressive file, read from its first segment to its last. `None` throughout leaves it to libjpeg.

use super::dct::Excess;
use super::huffman::{Codes, Decoder};
use super::scan::{Means, Selection, read_first, read_intervals, read_means, read_refinement};
use super::{Grid, ZIGZAG, dct, leaf};
use crate::codec::jpeg::libjpeg::{BLOCK, Plane, QuantTable};
use crate::codec::jpeg::markers::{
    Component as Factors, DHT, DQT, DRI, EOI, MOST_BLOCKS, SOF2, SOS, next_marker, segment,
};
use crate::codec::jpeg::{PlaneSize, plane_size};

/// No scan has told a coefficient yet.
const UNKNOWN: u32 = u32::MAX;

/// Reads a whole picture into its planes, which are as many as are wanted of its components, and are sized as those are. Returns the
/// components' quantization tables.
pub(in crate::codec::jpeg) fn read(bytes: &[u8], planes: &mut [Plane<&mut [u8]>]) -> Option<Vec<QuantTable>> {
    let mut reader = Reader::default();
    let mut rest = &bytes[2..];
    while rest.first() == Some(&0xff) {
        let (marker, behind) = next_marker(rest).ok()?;
        if marker == EOI {
            return reader.finish(planes);
        }
        let (segment, behind) = segment(marker, behind).ok()?;
        rest = behind;
        match marker {
            DHT => reader.codes.define(segment.content)?,
            DQT => reader.define_divisors(segment.content)?,
            DRI => reader.interval = usize::from(u16::from_be_bytes(segment.content.try_into().ok()?)),
            SOF2 => reader.begin(segment.content)?,
            SOS => rest = reader.scan(segment.content, rest)?,
            0xe0..=0xef | 0xfe => {}
            _ => return None,
        }
    }
    None
}

struct Component {
    id: u8,
    factors: Factors,
    divisors: usize,
    size: PlaneSize,
    grid: Grid,
    /// By coefficient: the lowest bit that is known.
    known: [u32; 64],
}

#[derive(Default)]
struct Reader {
    /// The quantization tables, in zigzag order.
    divisors: [Option<QuantTable>; 4],
    codes: Codes,
    interval: usize,
    components: Vec<Component>,
    /// MCUs across and down of a scan of all components.
    mcus: (usize, usize),
    scans: u32,
}

impl Reader {
    fn define_divisors(&mut self, mut content: &[u8]) -> Option<()> {
        // A table that changes between scans counts for some components and not for others.
        if self.scans > 0 {
            return None;
        }
        while let Some((&which, rest)) = content.split_first() {
            let (table, rest) = match which >> 4 {
                0 => rest.split_first_chunk::<64>().map(|(bytes, rest)| (bytes.map(u16::from), rest))?,
                1 => {
                    let (bytes, rest) = rest.split_first_chunk::<128>()?;
                    let (words, _) = bytes.as_chunks::<2>();
                    (std::array::from_fn(|i| u16::from_be_bytes(words[i])), rest)
                }
                _ => return None,
            };
            *self.divisors.get_mut(usize::from(which & 15))? = Some(table);
            content = rest;
        }
        Some(())
    }

    /// Takes the frame header.
    fn begin(&mut self, content: &[u8]) -> Option<()> {
        let &[8, h0, h1, w0, w1, count @ (1 | 3), ref components @ ..] = content else { return None };
        if !self.components.is_empty() || components.len() != 3 * usize::from(count) {
            return None;
        }
        let components = components.as_chunks::<3>().0;
        let factors = |c: &[u8; 3]| Factors { horizontal: c[1] >> 4, vertical: c[1] & 15 };
        let all: Vec<Factors> = components.iter().map(factors).collect();
        if all.iter().any(|f| !(1..=4).contains(&f.horizontal) || !(1..=4).contains(&f.vertical)) {
            return None;
        }
        let (width, height) = (u16::from_be_bytes([w0, w1]).into(), u16::from_be_bytes([h0, h1]).into());
        for (component, &factors) in components.iter().zip(&all) {
            let size = plane_size(width, height, &all, factors);
            self.components.push(Component {
                id: component[0],
                factors,
                divisors: usize::from(component[2]),
                size,
                grid: Grid::new(size)?,
                known: [UNKNOWN; 64],
            });
        }
        let largest = |factor: fn(&Factors) -> u8| usize::from(all.iter().map(factor).max().unwrap_or(1));
        self.mcus = (
            (width as usize).div_ceil(BLOCK * largest(|f| f.horizontal)),
            (height as usize).div_ceil(BLOCK * largest(|f| f.vertical)),
        );
        Some(())
    }

    /// Reads a scan; returns what follows it.
    fn scan<'b>(&mut self, header: &[u8], data: &'b [u8]) -> Option<&'b [u8]> {
        let (&count, rest) = header.split_first()?;
        let (which, rest) = rest.split_at_checked(2 * usize::from(count))?;
        let &[first, last, bits] = rest else { return None };
        let selection = Selection {
            first: first.into(),
            last: last.into(),
            known: u32::from(bits >> 4),
            lowest: u32::from(bits & 15),
        };
        self.scans += 1;
        let which = which.as_chunks::<2>().0;
        let places: Vec<usize> = which
            .iter()
            .map(|[id, _]| self.components.iter().position(|component| component.id == *id))
            .collect::<Option<_>>()?;
        if !places.is_sorted_by(|a, b| a < b) {
            return None;
        }
        for &place in &places {
            self.components[place].tell(selection)?;
        }
        match (selection.first, which) {
            (0, which) if selection.last == 0 => {
                let codes: Vec<usize> = which.iter().map(|[_, codes]| usize::from(codes >> 4)).collect();
                self.scan_means(selection, &places, &codes, data)
            }
            (1.., [[_, codes]]) => {
                let decoder = self.codes.details.get(usize::from(codes & 15))?.as_ref()?;
                let grid = &mut self.components[places[0]].grid;
                scan_others(selection, decoder, grid, self.interval, data)
            }
            _ => None,
        }
    }

    fn scan_means<'b>(
        &mut self,
        selection: Selection,
        places: &[usize],
        codes: &[usize],
        data: &'b [u8],
    ) -> Option<&'b [u8]> {
        let together = places.len() > 1;
        let mut components = Vec::new();
        for (place, component) in self.components.iter_mut().enumerate() {
            let Some(code) = places.iter().position(|p| *p == place).map(|i| codes[i]) else { continue };
            let Factors { horizontal, vertical } = component.factors;
            components.push(Means {
                grid: &mut component.grid,
                factors: if together { (horizontal.into(), vertical.into()) } else { (1, 1) },
                decoder: self.codes.means.get(code)?.as_ref(),
            });
        }
        let blocks: usize = components.iter().map(|c| c.factors.0 * c.factors.1).sum();
        if blocks > MOST_BLOCKS as usize {
            return None;
        }
        let alone = components.first()?.grid.size();
        let (across, down) = if together { self.mcus } else { alone };
        read_intervals(data, self.interval, across * down, |bits, mcus| {
            read_means(bits, selection, &mut components, across, mcus)
        })
    }

    /// Transforms the coefficients to samples, if all of them are known to the last bit: what is not would be guessed by libjpeg.
    fn finish(self, planes: &mut [Plane<&mut [u8]>]) -> Option<Vec<QuantTable>> {
        let divisors = |component: &Component| self.divisors.get(component.divisors).copied().flatten();
        let tables: Vec<QuantTable> = self.components.iter().map(divisors).collect::<Option<_>>()?;
        if tables.is_empty() || self.components.iter().any(|component| component.known != [0; 64]) {
            return None;
        }
        for ((plane, component), table) in planes.iter_mut().zip(&self.components).zip(&tables) {
            debug_assert!(plane.width <= component.size.width && plane.rows <= component.size.rows);
            let excess = leaf::run(
                #[inline(always)]
                || transform(&component.grid, table, plane),
            );
            if excess.found() {
                return None;
            }
        }
        Some(tables.iter().map(natural).collect())
    }
}

impl Component {
    /// Remembers what a scan tells; `None` if it is not this scan's turn.
    fn tell(&mut self, selection: Selection) -> Option<()> {
        /// More bits than anybody leaves for later; no coefficient overflows with them.
        const LOWEST: u32 = 7;
        let Selection { first, last, known, lowest } = selection;
        let before = if known == 0 { UNKNOWN } else { known };
        if first > last || lowest > LOWEST || (known > 0 && known != lowest + 1) {
            return None;
        }
        let coefficients = self.known.get_mut(first as usize..=last as usize)?;
        if coefficients.iter().any(|known| *known != before) {
            return None;
        }
        coefficients.fill(lowest);
        Some(())
    }
}

fn scan_others<'b>(
    selection: Selection,
    decoder: &Decoder,
    grid: &mut Grid,
    interval: usize,
    data: &'b [u8],
) -> Option<&'b [u8]> {
    let (blocks, nonzero) = (bytemuck::cast_slice_mut(&mut grid.details), &mut grid.nonzero);
    read_intervals(data, interval, blocks.len(), |bits, range| {
        let (blocks, nonzero) = (&mut blocks[range.clone()], &mut nonzero[range]);
        leaf::run(
            #[inline(always)]
            || match selection.known {
                0 => read_first(bits, selection, decoder, blocks, nonzero),
                _ => read_refinement(bits, selection, decoder, blocks, nonzero),
            },
        )
    })
}

/// Transforms a component back. Blocks may reach beyond the plane.
#[inline(always)]
fn transform(grid: &Grid, divisors: &QuantTable, plane: &mut Plane<&mut [u8]>) -> Excess {
    let mut excess = Excess::default();
    let rows = grid.details().chunks_exact(grid.across).zip(grid.nonzero.chunks_exact(grid.across));
    let rows = rows.zip(grid.means.chunks_exact(grid.across));
    for (band, ((blocks, nonzero), means)) in plane.data.chunks_mut(plane.width * BLOCK).zip(rows) {
        for (i, ((block, mask), mean)) in blocks.iter().zip(nonzero).zip(means).enumerate() {
            let samples = dct::inverse(*mean, *mask, block, divisors, &mut excess);
            let x = i * BLOCK;
            if x + BLOCK <= plane.width {
                for (row, samples) in band.chunks_exact_mut(plane.width).zip(&samples) {
                    row[x..x + BLOCK].copy_from_slice(samples);
                }
            } else {
                for (row, samples) in band.chunks_exact_mut(plane.width).zip(&samples) {
                    let inside = &mut row[x..];
                    inside.copy_from_slice(&samples[..inside.len()]);
                }
            }
        }
    }
    excess
}

/// A table in zigzag order, in natural order.
fn natural(table: &QuantTable) -> QuantTable {
    let mut natural = [0; 64];
    for (divisor, &place) in table.iter().zip(&ZIGZAG) {
        natural[usize::from(place)] = *divisor;
    }
    natural
}
