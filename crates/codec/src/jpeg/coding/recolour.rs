//! Chroma that changes between reading and writing.
//!
//! Unchanged blocks pass on their coefficients; the others become samples, and are transformed
//! again.

use std::ops::Range;

use super::coefficients::{Blocks, Coefficients, Requantizer, samples_of_blocks};
use super::component::{ComponentOutput, whole_block};
use super::dct::{Quantizer, forward};
use super::{ZIGZAG, vectorized};
use crate::jpeg::hue::Following;
use crate::jpeg::libjpeg::QuantTable;
use crate::jpeg::{BLOCK, PlaneSize};

/// Cb or Cr.
struct Component<'c> {
    blocks: Blocks<'c>,
    /// The divisors of its coefficients, in zigzag order.
    divisors: QuantTable,
    quantizer: Quantizer,
    /// For unchanged blocks, unless the divisors are unchanged too.
    requantizer: Option<Requantizer>,
    /// Samples of the changed blocks in a row of blocks.
    band: Vec<u8>,
    changed: Coefficients,
}

/// Returns the coefficients of Cb and Cr after they followed luma.
///
/// They are quantized by the tables `from` before, and by the tables `to` after; tables are in
/// natural order. The coefficients must be [usual](Coefficients::are_usual). `None` if memory runs
/// out.
pub(in crate::jpeg) fn recoloured(
    chroma: [&Coefficients; 2],
    from: [&QuantTable; 2],
    to: [&QuantTable; 2],
    mut following: Following<'_>,
) -> Option<[Coefficients; 2]> {
    let (size, across) = (following.size(), chroma[0].across());
    let new = |which: usize| {
        let divisors = ZIGZAG.map(|place| from[which][usize::from(place)]);
        Some(Component {
            blocks: chroma[which].blocks(),
            divisors,
            quantizer: Quantizer::new(to[which]),
            requantizer: (from[which] != to[which]).then(|| Requantizer::new(&divisors, to[which])),
            band: vec![0; size.width * BLOCK],
            changed: Coefficients::with_room(PlaneSize { width: across * BLOCK, rows: size.rows })?,
        })
    };
    let mut components = [new(0)?, new(1)?];
    let mut changes = Vec::with_capacity(across);
    for first in (0..size.rows).step_by(BLOCK) {
        let rows = first..size.rows.min(first + BLOCK);
        following.begin(rows.clone());
        let columns = |blocks: Range<usize>| blocks.start * BLOCK..size.width.min(blocks.end * BLOCK);
        changes.clear();
        changes.extend((0..across).map(|block| following.changes(columns(block..block + 1))));
        for component in &mut components {
            component.decode(PlaneSize { width: size.width, rows: rows.len() }, &changes)?;
        }
        let [blue, red] = &mut components;
        vectorized::run(
            #[inline(always)]
            || {
                for row in 0..rows.len() {
                    let mut block = 0;
                    for run in changes.chunk_by(|one, next| one == next) {
                        let columns = columns(block..block + run.len());
                        block += run.len();
                        if run[0] {
                            let place = row * size.width + columns.start..row * size.width + columns.end;
                            let (blue, red) = (&mut blue.band[place.clone()], &mut red.band[place]);
                            following.change(row, columns, blue, red);
                        }
                    }
                }
            },
        );
        for component in &mut components {
            component.encode(PlaneSize { width: size.width, rows: rows.len() }, &changes)?;
        }
    }
    Some(components.map(|component| component.changed))
}

impl Component<'_> {
    /// Makes samples of the blocks of the next row that change.
    fn decode(&mut self, size: PlaneSize, changes: &[bool]) -> Option<()> {
        // The blocks are only taken when they are encoded.
        let mut blocks = self.blocks;
        let row = blocks.take_first(changes.len());
        let mut plane = size.plane(&mut self.band[..size.bytes()]);
        let padded = PlaneSize { width: changes.len() * BLOCK, rows: BLOCK };
        let mut output = ComponentOutput::samples(&mut plane, padded, &self.divisors);
        vectorized::run(
            #[inline(always)]
            || {
                for (x, ((dc, nonzero, values), changes)) in row.zip(changes).enumerate() {
                    if *changes {
                        output.take((x, 0), dc, nonzero, &whole_block(nonzero, values));
                    }
                }
            },
        );
        output.finish().map(drop)
    }

    /// Appends the next row of blocks.
    ///
    /// Blocks that change are made from their samples, the others stay as they are.
    fn encode(&mut self, size: PlaneSize, changes: &[bool]) -> Option<()> {
        let row = self.blocks.take_first(changes.len());
        let Self { quantizer, requantizer, band, changed, .. } = self;
        let band = &band[..size.bytes()];
        vectorized::run(
            #[inline(always)]
            || {
                let mut pair = [(0, [0; 64]); 2];
                for (x, ((dc, nonzero, values), changes_here)) in row.zip(changes).enumerate() {
                    let is_second = x % 2 == 1;
                    if *changes_here && (!is_second || !changes[x - 1]) {
                        pair = forward(&samples_of_blocks(band, size.width, x / 2 * 2 * BLOCK), quantizer);
                    }
                    if *changes_here {
                        let (nonzero, block) = &pair[usize::from(is_second)];
                        changed.push(block[0], *nonzero, block, None)?;
                    } else {
                        changed.push(dc, nonzero, &whole_block(nonzero, values), requantizer.as_ref())?;
                    }
                }
                Some(())
            },
        )
    }
}
