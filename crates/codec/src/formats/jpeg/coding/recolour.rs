//! Chroma that changes between reading and writing.
//!
//! Unchanged blocks pass on their coefficients; the others become samples, and are transformed
//! again.

use std::ops::Range;

use super::coefficients::{Blocks, Coefficients, Requantizer, samples_of_blocks};
use super::component::{BlockPlace, ComponentOutput, whole_block};
use super::dct::{Quantizer, forward};
use super::{ZIGZAG, vectorized};
use crate::formats::jpeg::hue::Following;
use crate::formats::jpeg::libjpeg::QuantTable;
use crate::formats::jpeg::{BLOCK, PlaneSize};
use crate::io::cores::Cores;

/// The fewest samples of a band of one component, which is made of whole rows of blocks.
const BAND: usize = 64 << 10;

/// Returns the coefficients of Cb and Cr after they followed luma, with the help of idle cores.
///
/// They are quantized by the tables `from` before and `to` after it, in natural order. The
/// coefficients must be [usual](Coefficients::are_usual). `None` if memory runs out.
pub(in crate::formats::jpeg) fn recoloured(
    chroma: [&Coefficients; 2],
    from: [&QuantTable; 2],
    to: [&QuantTable; 2],
    following: &Following<'_>,
    cores: &Cores,
) -> Option<[Coefficients; 2]> {
    let (size, across) = (following.size(), chroma[0].across());
    let whole = PlaneSize { width: across * BLOCK, rows: size.rows };
    let mut all = [Coefficients::with_room(whole)?, Coefficients::with_room(whole)?];
    let rows = BAND.div_ceil(size.width * BLOCK) * BLOCK;
    let mut left = chroma.map(Coefficients::blocks);
    let bands = (0..size.rows.div_ceil(rows)).map(|number| Band {
        rows: number * rows..size.rows.min((number + 1) * rows),
        blocks: left.each_mut().map(|blocks| blocks.take_first(rows / BLOCK * across)),
    });
    let recolourer = || Recolourer {
        following: following.clone(),
        changes: Vec::with_capacity(across),
        components: [0, 1].map(|which| Component::new(from[which], to[which], size.width, across)),
        done: None,
    };
    let joined = cores.in_order(bands, recolourer, Recolourer::recolour, |recolourer| {
        recolourer.done.ok_or(())?;
        for (all, part) in all.iter_mut().zip(&recolourer.components) {
            all.join(&part.changed).ok_or(())?;
        }
        Ok::<_, ()>(())
    });
    joined.ok().map(|()| all)
}

/// Consecutive rows of chroma, and their blocks.
struct Band<'c> {
    rows: Range<usize>,
    blocks: [Blocks<'c>; 2],
}

/// A thread's means to recolour bands.
struct Recolourer<'c> {
    following: Following<'c>,
    /// Whether each block of a row changes.
    changes: Vec<bool>,
    components: [Component; 2],
    /// `None` if memory ran out.
    done: Option<()>,
}

/// Cb or Cr.
struct Component {
    /// The divisors of its coefficients, in zigzag order.
    divisors: QuantTable,
    quantizer: Quantizer,
    /// For blocks that stay, unless the divisors do.
    requantizer: Option<Requantizer>,
    /// Samples of the blocks that change, in a row of blocks.
    samples: Vec<u8>,
    /// The coefficients of a band afterwards.
    changed: Coefficients,
}

impl Recolourer<'_> {
    /// Makes the coefficients of a band, in place of those of the one before.
    fn recolour(&mut self, band: Band<'_>) {
        self.components.iter_mut().for_each(|component| component.changed.clear());
        self.done = self.try_recolour(band);
    }

    fn try_recolour(&mut self, Band { rows, mut blocks }: Band<'_>) -> Option<()> {
        let Self { following, changes, components, .. } = self;
        let (width, across) = (following.size().width, components[0].changed.across());
        let columns = |blocks: Range<usize>| blocks.start * BLOCK..width.min(blocks.end * BLOCK);
        for first in rows.clone().step_by(BLOCK) {
            let rows = first..rows.end.min(first + BLOCK);
            let size = PlaneSize { width, rows: rows.len() };
            following.begin(rows);
            changes.clear();
            changes.extend((0..across).map(|block| following.changes(columns(block..block + 1))));
            let row = blocks.each_mut().map(|blocks| blocks.take_first(across));
            for (component, &row) in components.iter_mut().zip(&row) {
                component.decode(row, size, changes)?;
            }
            let [blue, red] = &mut *components;
            vectorized::run(
                #[inline(always)]
                || {
                    for row in 0..size.rows {
                        let mut block = 0;
                        for run in changes.chunk_by(|one, next| one == next) {
                            let columns = columns(block..block + run.len());
                            block += run.len();
                            if run[0] {
                                let place = row * width + columns.start..row * width + columns.end;
                                let blue = &mut blue.samples[place.clone()];
                                following.change(row, columns, blue, &mut red.samples[place]);
                            }
                        }
                    }
                },
            );
            for (component, row) in components.iter_mut().zip(row) {
                component.encode(row, size, changes)?;
            }
        }
        Some(())
    }
}

impl Component {
    fn new(from: &QuantTable, to: &QuantTable, width: usize, across: usize) -> Self {
        let divisors = ZIGZAG.map(|place| from[usize::from(place)]);
        Self {
            divisors,
            quantizer: Quantizer::new(to),
            requantizer: (from != to).then(|| Requantizer::new(&divisors, to)),
            samples: vec![0; width * BLOCK],
            changed: Coefficients::of_rows(across),
        }
    }

    /// Makes samples of the blocks of a row that change.
    fn decode(&mut self, row: Blocks<'_>, size: PlaneSize, changes: &[bool]) -> Option<()> {
        let mut plane = size.plane(&mut self.samples[..size.bytes()]);
        let padded = PlaneSize { width: changes.len() * BLOCK, rows: BLOCK };
        let mut output = ComponentOutput::samples(&mut plane, padded, &self.divisors);
        vectorized::run(
            #[inline(always)]
            || {
                for (x, ((dc, nonzero, values), changes)) in row.zip(changes).enumerate() {
                    if *changes {
                        output.take(BlockPlace { x, y: 0 }, dc, nonzero, &whole_block(nonzero, values));
                    }
                }
            },
        );
        output.finish().map(drop)
    }

    /// Appends a row of blocks.
    ///
    /// Blocks that change are made from their samples, the others stay as they are.
    fn encode(&mut self, row: Blocks<'_>, size: PlaneSize, changes: &[bool]) -> Option<()> {
        let Self { quantizer, requantizer, samples, changed, .. } = self;
        let samples = &samples[..size.bytes()];
        vectorized::run(
            #[inline(always)]
            || {
                let mut pair = [(0, [0; 64]); 2];
                for (x, ((dc, nonzero, values), changes_here)) in row.zip(changes).enumerate() {
                    let is_second = x % 2 == 1;
                    if *changes_here && (!is_second || !changes[x - 1]) {
                        pair = forward(&samples_of_blocks(samples, size.width, x / 2 * 2 * BLOCK), quantizer);
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
