//! A sequential file, written: all components in one scan, MCU by MCU (T.81, A.2.3).

use super::bits::BitWriter;
use super::coefficients::{Blocks, Quantized};
use super::huffman::Encoder;
use super::leaf;
use super::rows::{Part, Rows};
use super::sample::{Codes, codes};
use super::write::{coded, write_header, write_segment};
use crate::codec::jpeg::largest_factors;
use crate::codec::jpeg::libjpeg::{BLOCK, Frame, QuantTable};
use crate::codec::jpeg::markers::{Component as Factors, DHT, SOS};

/// Writes header and scan. `None` if memory runs out.
pub(super) fn write(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    tables: &[QuantTable],
    parts: &[Part<'_>],
) -> Option<()> {
    let codes = codes(frame.height, tables, parts)?;
    write_header(out, frame, tables);
    for (number, [means, details]) in (0..).zip(&codes).take(parts.len()) {
        write_segment(out, DHT, &means.definition(number));
        write_segment(out, DHT, &details.definition(0x10 | number));
    }
    let selectors = (0..).zip(parts).flat_map(|(i, _)| [i + 1, if i == 0 { 0 } else { 0x11 }]);
    let header: Vec<u8> = [parts.len() as u8].into_iter().chain(selectors).chain([0, 63, 0]).collect();
    write_segment(out, SOS, &header);
    let mut scan = Scan::new(frame, tables, parts, &codes);
    leaf::run(
        #[inline(always)]
        || scan.write(BitWriter::new(out)),
    )
}

/// The largest sampling factor (T.81, B.2.2).
const MOST_FACTOR: usize = 4;

struct Scan<'a> {
    components: Vec<Component<'a>>,
    /// MCUs across and down.
    mcus: (usize, usize),
    /// MCUs between restarts; 0 for none.
    interval: usize,
}

struct Component<'a> {
    rows: Rows<'a>,
    /// Blocks of it in an MCU.
    factors: Factors,
    codes: &'a Codes,
    /// The mean before.
    mean: i32,
}

impl<'a> Scan<'a> {
    fn new(frame: &Frame<'_>, tables: &[QuantTable], parts: &[Part<'a>], codes: &'a [Codes; 2]) -> Self {
        // A component alone goes block by block (T.81, A.2.2).
        let factors = if parts.len() == 1 { &[Factors::FULL] } else { frame.components };
        let (horizontal, vertical) = largest_factors(factors);
        let mcus = |side: u32, factor: u8| (side as usize).div_ceil(BLOCK * usize::from(factor));
        let mut components = Vec::new();
        for (i, ((part, table), &factors)) in parts.iter().zip(tables).zip(factors).enumerate() {
            let codes = &codes[i.min(1)];
            components.push(Component { rows: Rows::new(part, table), factors, codes, mean: 0 });
        }
        Self {
            components,
            mcus: (mcus(frame.width, horizontal), mcus(frame.height, vertical)),
            interval: frame.restart_interval.into(),
        }
    }

    /// Writes all MCUs. `None` if memory runs out.
    #[inline(always)]
    fn write(&mut self, mut bits: BitWriter<'_>) -> Option<()> {
        let (across, down) = self.mcus;
        for row in 0..down {
            let mut components = Vec::new();
            // Not collected: what runs inside of the iterator would not be compiled for this processor.
            for component in &mut self.components {
                components.push(component.next_row()?);
            }
            for mcu in row * across..(row + 1) * across {
                if self.interval > 0 && mcu > 0 && mcu % self.interval == 0 {
                    bits.restart(mcu / self.interval - 1);
                    components.iter_mut().for_each(|component| *component.mean = 0);
                }
                for component in &mut components {
                    component.write_mcu(&mut bits);
                }
            }
        }
        bits.flush();
        Some(())
    }
}

impl Component<'_> {
    /// The blocks of its next row of MCUs.
    #[inline(always)]
    fn next_row(&mut self) -> Option<McuRow<'_>> {
        let across = self.rows.across();
        let down = usize::from(self.factors.vertical);
        let mut blocks = self.rows.next(down)?;
        let mut rows = [Blocks::default(); MOST_FACTOR];
        for row in &mut rows[..down] {
            *row = blocks.take_first(across);
        }
        Some(McuRow {
            rows,
            across: self.factors.horizontal.into(),
            down,
            codes: self.codes,
            mean: &mut self.mean,
        })
    }
}

/// What is left of the blocks of a component in a row of MCUs.
struct McuRow<'a> {
    rows: [Blocks<'a>; MOST_FACTOR],
    /// Blocks of an MCU.
    across: usize,
    down: usize,
    codes: &'a Codes,
    mean: &'a mut i32,
}

impl McuRow<'_> {
    #[inline(always)]
    fn write_mcu(&mut self, bits: &mut BitWriter<'_>) {
        for row in &mut self.rows[..self.down] {
            for _ in 0..self.across {
                // An MCU may reach beyond the component: the shortest block there is.
                let block = row.next().unwrap_or((*self.mean as i16, 0, &[]));
                *self.mean = write_block(bits, self.codes, *self.mean, block);
            }
        }
    }
}

/// Writes a block behind one with that mean (T.81, F.1.2). Returns its own.
#[inline(always)]
fn write_block(
    bits: &mut BitWriter<'_>,
    [means, details]: &Codes,
    mean_before: i32,
    (mean, mut nonzero, values): Quantized<'_>,
) -> i32 {
    let mut put = |encoder: &Encoder, symbol: u32, further: u32, count: u32| {
        let (code, length) = encoder.code(symbol as u8);
        bits.put(code << count | further, length + count);
    };
    let mean = i32::from(mean);
    let (further, size) = coded(mean - mean_before);
    put(means, size, further, size);
    let mut next = 1;
    for &value in values {
        let k = nonzero.trailing_zeros();
        nonzero &= nonzero - 1;
        let mut zeros = k - next;
        while zeros > 15 {
            put(details, 0xf0, 0, 0);
            zeros -= 16;
        }
        let (further, size) = coded(value.into());
        put(details, zeros << 4 | size, further, size);
        next = k + 1;
    }
    if next < 64 {
        put(details, 0, 0, 0);
    }
    mean
}
