//! Huffman codes for a sequential picture, from a sample of it. The best codes would need a first pass over all of it, and those of the
//! standard's example are a twentieth longer; a sample costs next to nothing and gets nearly all of that.

use super::dct::{Quantizer, forward};
use super::huffman::Encoder;
use super::leaf;
use super::write::{Counter, Walk, samples, scan};
use crate::codec::jpeg::libjpeg::{BLOCK, Codes, Plane, QuantTable};

/// In how many rows of blocks a sample is taken at least, where there are so many.
const ROWS: usize = 8;

/// Of so many rows of blocks at least one is looked at: an odd number, since patterns like to repeat after even ones.
const MOST: usize = 15;

/// The codes for the first component, and those for the others.
pub(in crate::codec::jpeg) fn codes(tables: &[QuantTable], planes: &[Plane<&[u8]>]) -> [Codes; 2] {
    // What is not in the sample may still come, with up to 11 bits for a mean value's difference and 10 for the others.
    let mean = |symbol: u32| u32::from(symbol <= 11);
    let detail = |symbol: u32| u32::from((1..=10).contains(&(symbol & 15)) || symbol == 0 || symbol == 0xf0);
    let mut counters = [(); 2].map(|()| [Counter::starting(mean), Counter::starting(detail)]);
    for (component, (plane, table)) in planes.iter().zip(tables).enumerate() {
        let [means, details] = &mut counters[component.min(1)];
        let quantizer = Quantizer::new(table);
        leaf::run(
            #[inline(always)]
            || count(plane, &quantizer, means, details),
        );
    }
    counters.map(|counters| counters.map(|counter| Encoder::optimal(&counter.frequencies).into()))
}

#[inline(always)]
fn count(plane: &Plane<&[u8]>, quantizer: &Quantizer, means: &mut Counter, details: &mut Counter) {
    let (mut walk_means, mut walk_details) = (Walk::new(scan(0, 0, 0), 0), Walk::new(scan(0, 1, 63), 0));
    let mut values = Vec::new();
    let step = (plane.rows / BLOCK / ROWS).clamp(1, MOST);
    for band in plane.data.chunks(plane.width * BLOCK).step_by(step) {
        for x in (0..plane.width).step_by(BLOCK) {
            values.clear();
            let (mean, nonzero) = forward(&samples(band, plane.width, x), quantizer, &mut values);
            walk_means.block(mean, nonzero, &values, means);
            walk_details.block(mean, nonzero, &values, details);
            // The end of every block is told by itself: a run of one, which is the same symbol.
            walk_details.finish(details);
        }
    }
}
