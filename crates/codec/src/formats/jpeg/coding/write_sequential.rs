//! Writing a sequential file: all components in one scan, MCU by MCU (T.81, A.2.3).
//!
//! The scan is split into bands of MCU rows, which are coded independently, on idle cores if there
//! are any. From the band before, each only needs the DC coefficients of its last blocks. The file
//! is the same for any number of cores.

use std::ops::Range;

use super::bits::{BitCollector, BitWriter, BlockBits};
use super::coefficients::{Blocks, Coefficients, Quantized};
use super::dct::Quantizer;
use super::header::write_header;
use super::rows::{Part, Rows};
use super::sample::{Codes, codes};
use super::vectorized;
use crate::formats::jpeg::BLOCK;
use crate::formats::jpeg::libjpeg::{Frame, QuantTable};
use crate::formats::jpeg::markers::{DHT, Factors, SOS, largest_factors, write_segment};
use crate::io::cores::Cores;

/// The least number of pixels in a band, which consists of whole MCU rows.
const BAND: usize = 256 << 10;

/// The largest sampling factor (T.81, B.2.2).
const MAX_FACTOR: usize = 4;

/// Writes the headers and the scan.
///
/// `None` if memory runs out.
pub(super) fn write(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    tables: &[QuantTable],
    parts: &[Part<'_>],
    cores: &Cores,
) -> Option<()> {
    let quantizers: Vec<Quantizer> = tables.iter().map(Quantizer::new).collect();
    let codes = codes(frame.height, &quantizers, parts)?;
    write_header(out, frame, tables);
    write_codes(out, parts.len(), &codes);

    let scan = Scan::new(frame, &quantizers, parts, &codes);
    let mut bits = BitWriter::new(out);
    // With longer rows, the helpers' buffers would take more memory than is accounted for.
    let nobody = Cores::none();
    let cores = if scan.row_samples() > 2 * BAND { &nobody } else { cores };
    let written = cores.in_order(
        scan.bands(),
        || Coder::new(&scan.components),
        Coder::code,
        |coder| {
            coder.coded.ok_or(())?;
            bits.append(&coder.bits);
            Ok::<_, ()>(())
        },
    );
    written.ok()?;
    bits.flush();
    Some(())
}

/// Writes the codes, and the header of the scan of this many components.
pub(super) fn write_codes(out: &mut Vec<u8>, components: usize, codes: &[Codes; 2]) {
    for (number, Codes { dc, ac }) in (0..).zip(codes).take(components) {
        write_segment(out, DHT, &dc.definition(number));
        write_segment(out, DHT, &ac.definition(0x10 | number));
    }
    let selectors = (0..components as u8).flat_map(|i| [i + 1, if i == 0 { 0 } else { 0x11 }]);
    let header: Vec<u8> = [components as u8].into_iter().chain(selectors).chain([0, 63, 0]).collect();
    write_segment(out, SOS, &header);
}

struct Scan<'a> {
    components: Vec<Component<'a>>,
    mcus: Mcus,
}

/// The division of a picture into MCUs.
#[derive(Clone, Copy)]
struct Mcus {
    /// MCUs across and down.
    across: usize,
    down: usize,
    /// Pixels in an MCU.
    pixels: usize,
    /// MCUs between restarts; 0 for no restarts.
    interval: usize,
}

#[derive(Clone, Copy)]
struct Component<'a> {
    rows: Rows<'a>,
    /// Its blocks in an MCU.
    factors: Factors,
    codes: &'a Codes,
    /// The DC coefficient of the previous block.
    dc: i16,
}

/// Consecutive MCU rows.
struct Band<'a> {
    components: Vec<Component<'a>>,
    mcus: Mcus,
    /// The numbers of these rows in the picture.
    rows: Range<usize>,
}

impl<'a> Scan<'a> {
    fn new(
        frame: &Frame<'_>,
        quantizers: &'a [Quantizer],
        parts: &[Part<'a>],
        codes: &'a [Codes; 2],
    ) -> Self {
        // A single component is not interleaved: its MCU is one block, whatever its factors (T.81,
        // A.2.2).
        let factors = if parts.len() == 1 { &[Factors::FULL] } else { frame.components };
        let (horizontal, vertical) = largest_factors(factors);
        let [width, height] = [horizontal, vertical].map(|factor| BLOCK * usize::from(factor));
        let components = parts.iter().enumerate().map(|(i, part)| Component {
            rows: Rows::new(part, &quantizers[i]),
            factors: factors[i],
            codes: &codes[i.min(1)],
            dc: 0,
        });
        let mcus = Mcus {
            across: (frame.width as usize).div_ceil(width),
            down: (frame.height as usize).div_ceil(height),
            pixels: width * height,
            interval: frame.restart_interval.into(),
        };
        Self { components: components.collect(), mcus }
    }

    /// Returns the number of samples in an MCU row, of all components.
    fn row_samples(&self) -> usize {
        let factors = self.components.iter().map(|component| component.factors);
        let blocks =
            factors.map(|Factors { horizontal, vertical }| usize::from(horizontal) * usize::from(vertical));
        self.mcus.across * blocks.sum::<usize>() * BLOCK * BLOCK
    }

    fn bands(&self) -> impl ExactSizeIterator<Item = Band<'a>> {
        let in_band = BAND.div_ceil(self.mcus.across * self.mcus.pixels);
        let (mut left, mcus) = (self.components.clone(), self.mcus);
        (0..mcus.down.div_ceil(in_band)).map(move |number| Band {
            components: left.iter_mut().map(|component| component.take_first(in_band)).collect(),
            mcus,
            rows: number * in_band..((number + 1) * in_band).min(mcus.down),
        })
    }
}

impl Component<'_> {
    /// Splits off and returns the first `rows` MCU rows.
    fn take_first(&mut self, rows: usize) -> Self {
        let first = self.rows.take_first(rows * usize::from(self.factors.vertical));
        let dc = self.dc;
        self.dc = first.last_dc().unwrap_or(dc);
        Self { rows: first, dc, ..*self }
    }
}

/// Codes bands, reusing its memory from one to the next.
struct Coder {
    /// For each component, the coefficients of an MCU row.
    spaces: Vec<Coefficients>,
    bits: BitCollector,
    /// `None` if memory ran out.
    coded: Option<()>,
}

impl Coder {
    fn new(components: &[Component<'_>]) -> Self {
        let spaces = components.iter().map(|component| Coefficients::of_rows(component.rows.across()));
        let spaces = spaces.collect();
        Self { spaces, bits: BitCollector::default(), coded: None }
    }

    /// Codes a band.
    fn code(&mut self, mut band: Band<'_>) {
        self.bits.clear();
        self.coded = vectorized::run(
            #[inline(always)]
            || band.code(&mut self.spaces, &mut self.bits),
        );
    }
}

impl Band<'_> {
    /// Codes all MCUs.
    ///
    /// `None` if memory runs out.
    #[inline(always)]
    fn code(&mut self, spaces: &mut [Coefficients], bits: &mut BitCollector) -> Option<()> {
        let Mcus { across, interval, .. } = self.mcus;
        for row in self.rows.clone() {
            let mut components = Vec::new();
            // No `collect`: a closure inside an iterator would not be compiled for the features
            // that `vectorized::run` enables.
            for (component, space) in self.components.iter_mut().zip(&mut *spaces) {
                components.push(component.next_row(space)?);
            }
            for mcu in row * across..(row + 1) * across {
                if interval > 0 && mcu > 0 && mcu % interval == 0 {
                    bits.finish();
                    components.iter_mut().for_each(|component| *component.dc = 0);
                }
                for component in &mut components {
                    component.code_mcu(bits)?;
                }
            }
        }
        bits.finish();
        Some(())
    }
}

impl Component<'_> {
    /// Takes the blocks of the next MCU row.
    ///
    /// `None` if memory runs out.
    #[inline(always)]
    fn next_row<'r>(&'r mut self, space: &'r mut Coefficients) -> Option<McuRow<'r>> {
        let across = self.rows.across();
        let down = usize::from(self.factors.vertical);
        let mut blocks = self.rows.take_first(down).blocks(space)?;
        let mut rows = [Blocks::default(); MAX_FACTOR];
        for row in &mut rows[..down] {
            *row = blocks.take_first(across);
        }
        Some(McuRow {
            rows,
            across: self.factors.horizontal.into(),
            down,
            codes: self.codes,
            dc: &mut self.dc,
        })
    }
}

/// The remaining blocks of a component in an MCU row.
struct McuRow<'a> {
    rows: [Blocks<'a>; MAX_FACTOR],
    /// Blocks in an MCU, across and down.
    across: usize,
    down: usize,
    codes: &'a Codes,
    dc: &'a mut i16,
}

impl McuRow<'_> {
    #[inline(always)]
    fn code_mcu(&mut self, bits: &mut BitCollector) -> Option<()> {
        for row in &mut self.rows[..self.down] {
            for _ in 0..self.across {
                // An MCU may extend beyond the component; there it gets blocks with the shortest
                // code.
                let block = row.next().unwrap_or((*self.dc, 0, &[]));
                bits.block(
                    #[inline(always)]
                    |bits| code_block(bits, self.codes, *self.dc, block),
                )?;
                *self.dc = block.0;
            }
        }
        Some(())
    }
}

/// Codes a block (T.81, F.1.2).
///
/// `before` is the DC coefficient of the block before it.
#[inline(always)]
fn code_block(
    bits: &mut BlockBits<'_>,
    codes: &Codes,
    before: i16,
    (dc, mut nonzero, values): Quantized<'_>,
) {
    bits.put(codes.dc.valued(0, i32::from(dc) - i32::from(before)));
    let mut next = 1;
    for &value in values {
        let k = nonzero.trailing_zeros();
        nonzero &= nonzero - 1;
        let mut zeros = k - next;
        while zeros > 15 {
            bits.put(codes.ac.code(0xf0));
            zeros -= 16;
        }
        bits.put(codes.ac.valued(zeros, value));
        next = k + 1;
    }
    if next < 64 {
        bits.put(codes.ac.code(0));
    }
}
