//! Huffman codes for a sequential picture, from a sample of it.
//!
//! Optimal codes would need a first pass over the whole picture, and the standard's example codes
//! make files a twentieth longer. A sample costs next to no time and saves nearly all of that.

use super::coefficients::Coefficients;
use super::dct::Quantizer;
use super::huffman::{AcEncoder, Encoder};
use super::rows::{Part, Rows};
use super::symbols::{Counter, ScanSymbols, scan};
use super::vectorized;
use crate::formats::jpeg::BLOCK;

/// The least number of rows of blocks sampled in a component of the picture's height.
///
/// If there are fewer, all are sampled.
const ROWS: usize = 8;

/// At least one of this many rows of blocks is sampled.
///
/// The number is odd since patterns tend to repeat after even numbers of rows.
const MAX_STEP: usize = 15;

/// The codes for DC and for AC coefficients.
pub(super) struct Codes {
    pub(super) dc: Encoder,
    pub(super) ac: AcEncoder,
}

/// The counts of the symbols for DC and for AC coefficients.
type Counters = [Counter; 2];

/// Returns the counters for the first component, and those for the others.
///
/// Symbols that are not in the sample may occur outside it: up to 11 bits for a difference of DC
/// coefficients, and up to 10 for the rest.
fn starting() -> [Counters; 2] {
    [(); 2].map(|()| {
        let dc = Counter::starting(|symbol| u32::from(symbol <= 11));
        let ac = Counter::starting(|symbol| {
            u32::from((1..=10).contains(&(symbol & 15)) || symbol == 0 || symbol == 0xf0)
        });
        [dc, ac]
    })
}

/// Returns the distance between sampled rows of blocks in a picture of this height.
pub(super) fn step(height: u32) -> usize {
    (height as usize / BLOCK / ROWS).clamp(1, MAX_STEP)
}

impl Codes {
    fn new([dc, ac]: Counters) -> Self {
        let [dc, ac] = [dc, ac].map(|counter| Encoder::optimal(&counter.frequencies));
        Self { dc, ac: AcEncoder::new(ac) }
    }
}

/// Makes the codes for the first component, and those for the others.
///
/// `None` if memory runs out.
pub(super) fn codes(height: u32, quantizers: &[Quantizer], parts: &[Part<'_>]) -> Option<[Codes; 2]> {
    let mut counters = starting();
    let step = step(height);
    for (component, (part, quantizer)) in parts.iter().zip(quantizers).enumerate() {
        let rows = Rows::new(part, quantizer);
        vectorized::run(
            #[inline(always)]
            || count(rows, step, &mut counters[component.min(1)]),
        )?;
    }
    Some(counters.map(Codes::new))
}

/// Makes the same codes from counts of the sample.
///
/// They are for DC and for AC coefficients, in the first component and in the others.
pub(super) fn codes_of_sample(counted: &[[[u32; 256]; 2]; 2]) -> [Codes; 2] {
    let mut counters = starting();
    for (component, counters) in counters.iter_mut().enumerate() {
        for (counter, counted) in counters.iter_mut().zip(counted) {
            for (frequency, count) in counter.frequencies.iter_mut().zip(counted[component]) {
                *frequency += count;
            }
        }
    }
    counters.map(Codes::new)
}

#[inline(always)]
fn count(mut rows: Rows<'_>, step: usize, [dc_counter, ac_counter]: &mut [Counter; 2]) -> Option<()> {
    let mut space = Coefficients::of_rows(rows.across());
    let mut dc_symbols = ScanSymbols::new(scan(0, 0, 0), 0);
    let mut ac_symbols = ScanSymbols::new(scan(0, 1, 63), 0);
    loop {
        let mut row = rows.take_first(1).blocks(&mut space)?.peekable();
        if row.peek().is_none() {
            return Some(());
        }
        for (dc, nonzero, values) in row {
            dc_symbols.block(dc, nonzero, values, dc_counter);
            ac_symbols.block(dc, nonzero, values, ac_counter);
            // In a sequential scan every block has an end of its own: the symbol of an end-of-band
            // run of one.
            ac_symbols.finish(ac_counter);
        }
        rows.take_first(step - 1);
    }
}
