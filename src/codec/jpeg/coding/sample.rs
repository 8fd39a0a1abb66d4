//! Huffman codes for a sequential picture, from a sample of it. The best codes would need a first pass over all of it, and those of the
//! standard's example are a twentieth longer; a sample costs next to nothing and gets nearly all of that.

use super::coefficients::Coefficients;
use super::dct::Quantizer;
use super::huffman::{DetailEncoder, Encoder};
use super::leaf;
use super::rows::{Part, Rows};
use super::write::{Counter, Walk, scan};
use crate::codec::jpeg::libjpeg::BLOCK;

/// In how many rows of blocks a sample is taken at least, where there are so many.
const ROWS: usize = 8;

/// Of so many rows of blocks at least one is looked at: an odd number, since patterns like to repeat after even ones.
const MOST: usize = 15;

/// The code for mean values, and that for the other coefficients.
pub(super) struct Codes {
    pub(super) means: Encoder,
    pub(super) details: DetailEncoder,
}

/// The codes for the first component, and those for the others. `None` if memory runs out.
pub(super) fn codes(height: u32, quantizers: &[Quantizer], parts: &[Part<'_>]) -> Option<[Codes; 2]> {
    // What is not in the sample may still come, with up to 11 bits for a mean value's difference and 10 for the others.
    let mean = |symbol: u32| u32::from(symbol <= 11);
    let detail = |symbol: u32| u32::from((1..=10).contains(&(symbol & 15)) || symbol == 0 || symbol == 0xf0);
    let mut counters = [(); 2].map(|()| [Counter::starting(mean), Counter::starting(detail)]);
    let step = (height as usize / BLOCK / ROWS).clamp(1, MOST);
    for (component, (part, quantizer)) in parts.iter().zip(quantizers).enumerate() {
        let rows = Rows::new(part, quantizer);
        leaf::run(
            #[inline(always)]
            || count(rows, step, &mut counters[component.min(1)]),
        )?;
    }
    Some(counters.map(|counters| {
        let [means, details] = counters.map(|counter| Encoder::optimal(&counter.frequencies));
        Codes { means, details: DetailEncoder::new(details) }
    }))
}

#[inline(always)]
fn count(mut rows: Rows<'_>, step: usize, [means, details]: &mut [Counter; 2]) -> Option<()> {
    let mut space = Coefficients::of_rows(rows.across());
    let (mut walk_means, mut walk_details) = (Walk::new(scan(0, 0, 0), 0), Walk::new(scan(0, 1, 63), 0));
    loop {
        let mut row = rows.take_first(1).blocks(&mut space)?.peekable();
        if row.peek().is_none() {
            return Some(());
        }
        for (mean, nonzero, values) in row {
            walk_means.block(mean, nonzero, values, means);
            walk_details.block(mean, nonzero, values, details);
            // The end of every block is told by itself: a run of one, which is the same symbol.
            walk_details.finish(details);
        }
        rows.take_first(step - 1);
    }
}
