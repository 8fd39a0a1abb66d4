//! LUTs made from the histograms of several pictures.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::picture::counts::Counts;
use crate::picture::kind::Kind;
use crate::picture::reference::Reference;
use equalize::{Depth, Layout, Levels, Operation, lut};

/// The LUTs of pictures of several kinds.
#[derive(Debug)]
pub struct Luts(HashMap<Kind, Vec<u8>>);

impl Luts {
    /// Makes the LUTs of an operation from the sums of counts of each kind. Kinds that differ from
    /// the reference, if there is one, get no LUTs.
    pub fn of(sums: &Counts, operation: &Operation, reference: Option<&Reference>) -> Self {
        let made = sums.kinds().filter_map(|(kind, sums)| {
            let operation = &Operation { levels: kind.levels(), ..*operation };
            let counts = kind.equalized(sums, operation);
            let reference = match reference {
                Some(reference) => {
                    let (layout, levels) = (kind.layout(), kind.levels());
                    reference.counts(&layout, levels, kind.channel(), operation.colour).ok()?
                }
                None => Cow::default(),
            };
            Some((kind, luts(kind.depth(), &counts, operation, &reference)))
        });
        Self(made.collect())
    }

    /// Returns the LUTs for a picture of this layout, one after the other, if such a picture was
    /// counted. A channel gets those of the channel, or else of gray pictures.
    pub(crate) fn of_layout(&self, layout: &Layout, levels: Levels, channel: Option<u16>) -> Option<&[u8]> {
        let kind = Kind::of(layout, levels);
        self.0.get(&kind.of_channel(channel)).or_else(|| self.0.get(&kind)).map(Vec::as_slice)
    }
}

fn luts(depth: Depth, counts: &[u64], operation: &Operation, reference: &[u64]) -> Vec<u8> {
    let bytes = counts.len() * depth.bytes();
    // Entries of 16 bits need an even address.
    let mut room = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
    let luts = &mut bytemuck::cast_slice_mut(&mut room)[..bytes];
    lut::fill(operation, depth, counts, reference, luts);
    luts.to_vec()
}
