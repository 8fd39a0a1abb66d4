//! Huffman codes for a sequential picture, from a sample of it. The best codes would need a first pass over all of it, and those of the
//! standard's example are a twentieth longer; a sample costs next to nothing and gets nearly all of that.

use super::huffman::Encoder;
use super::leaf;
use super::rows::{Part, Rows};
use super::write::{Counter, Walk, scan};
use crate::codec::jpeg::libjpeg::{BLOCK, QuantTable};

/// In how many rows of blocks a sample is taken at least, where there are so many.
const ROWS: usize = 8;

/// Of so many rows of blocks at least one is looked at: an odd number, since patterns like to repeat after even ones.
const MOST: usize = 15;

/// The code for mean values, and that for the other coefficients.
pub(super) type Codes = [Encoder; 2];

/// The codes for the first component, and those for the others. `None` if memory runs out.
pub(super) fn codes(height: u32, tables: &[QuantTable], parts: &[Part<'_>]) -> Option<[Codes; 2]> {
    // What is not in the sample may still come, with up to 11 bits for a mean value's difference and 10 for the others.
    let mean = |symbol: u32| u32::from(symbol <= 11);
    let detail = |symbol: u32| u32::from((1..=10).contains(&(symbol & 15)) || symbol == 0 || symbol == 0xf0);
    let mut counters = [(); 2].map(|()| [Counter::starting(mean), Counter::starting(detail)]);
    let step = (height as usize / BLOCK / ROWS).clamp(1, MOST);
    for (component, (part, table)) in parts.iter().zip(tables).enumerate() {
        let mut rows = Rows::new(part, table);
        leaf::run(
            #[inline(always)]
            || count(&mut rows, step, &mut counters[component.min(1)]),
        )?;
    }
    Some(counters.map(|counters| counters.map(|counter| Encoder::optimal(&counter.frequencies))))
}

#[inline(always)]
fn count(rows: &mut Rows<'_>, step: usize, [means, details]: &mut [Counter; 2]) -> Option<()> {
    let (mut walk_means, mut walk_details) = (Walk::new(scan(0, 0, 0), 0), Walk::new(scan(0, 1, 63), 0));
    loop {
        let mut row = rows.next(1)?.peekable();
        if row.peek().is_none() {
            return Some(());
        }
        for (mean, nonzero, values) in row {
            walk_means.block(mean, nonzero, values, means);
            walk_details.block(mean, nonzero, values, details);
            // The end of every block is told by itself: a run of one, which is the same symbol.
            walk_details.finish(details);
        }
        rows.skip(step - 1);
    }
}
