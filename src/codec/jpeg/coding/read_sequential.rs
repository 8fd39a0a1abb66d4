//! The data of a sequential scan of all components, read (T.81, F.2). `None` throughout leaves the picture to libjpeg.

use std::ops::Range;

use super::bits::BitReader;
use super::huffman::{Decoder, Valued};
use super::scan::{read_difference, read_intervals, read_value};
use super::wanted::Wanted;
use super::{Block, leaf};

/// A component of the scan.
pub(super) struct Part<'a> {
    /// Blocks of it in an MCU, across and down.
    pub(super) factors: (usize, usize),
    /// Blocks of it in the picture, across and down.
    pub(super) size: (usize, usize),
    pub(super) means: &'a Decoder,
    pub(super) details: &'a Decoder,
    pub(super) wanted: Wanted<'a>,
}

/// Reads the scan, whose MCUs are so many across and down. Returns what follows from the marker behind it on.
pub(super) fn read<'b>(
    data: &'b [u8],
    interval: usize,
    (across, down): (usize, usize),
    parts: &mut [Part<'_>],
) -> Option<&'b [u8]> {
    read_intervals(data, interval, across * down, |bits, mcus| {
        leaf::run(
            #[inline(always)]
            || read_mcus(bits, across, mcus, parts),
        )
    })
}

#[inline(always)]
fn read_mcus<'d>(
    mut bits: BitReader<'d>,
    mcus_across: usize,
    mcus: Range<usize>,
    parts: &mut [Part<'_>],
) -> Option<BitReader<'d>> {
    let blocks: usize = parts.iter().map(|part| part.factors.0 * part.factors.1).sum();
    // Behind the data there are zeros without end, for which nobody should wait. A block takes two bits at least.
    if mcus.len() * blocks > bits.length() / 2 {
        return None;
    }
    let mut block = [0; 64];
    let mut means = [0; 4];
    for mcu in mcus {
        let (row, column) = (mcu / mcus_across, mcu % mcus_across);
        for (part, mean) in parts.iter_mut().zip(&mut means) {
            let (across, down) = part.factors;
            for y in row * down..(row + 1) * down {
                for x in column * across..(column + 1) * across {
                    bits.fill();
                    *mean += read_difference(&mut bits, part.means)?;
                    let nonzero = read_details(&mut bits, part.details, &mut block)?;
                    // MCUs at the right and the lower edge have blocks beyond the picture.
                    if x < part.size.0 && y < part.size.1 {
                        let mean = i16::try_from(*mean).ok()?;
                        part.wanted.take((x, y), mean, nonzero, &block)?;
                    }
                    block = [0; 64];
                }
            }
        }
    }
    Some(bits)
}

/// Reads the coefficients behind the mean into their places in a block of zeros, and tells which are not zero.
#[inline(always)]
fn read_details(bits: &mut BitReader<'_>, decoder: &Decoder, block: &mut Block) -> Option<u64> {
    let (mut next, mut nonzero) = (1, 0);
    while next < 64 {
        // A fill lasts for two of them, of 26 bits at most.
        bits.fill();
        for _ in 0..2 {
            let (zeros, value) = match decoder.take_valued_or_end(bits) {
                Some(valued) => valued,
                None => read_long(bits, decoder)?,
            };
            let k = next + zeros;
            if k >= 64 {
                return (zeros == Valued::END).then_some(nonzero);
            }
            block[k as usize] = value;
            nonzero |= u64::from(value != 0) << k;
            next = k + 1;
            if next == 64 {
                break;
            }
        }
    }
    Some(nonzero)
}

/// Reads a symbol and its value, where they are not read in one step. 16 zeros are 15 and a value of zero.
#[inline(always)]
fn read_long(bits: &mut BitReader<'_>, decoder: &Decoder) -> Option<(u32, i16)> {
    /// The most bits of a value (T.81, table F.2).
    const MOST: u32 = 10;
    let symbol = decoder.take(bits)?;
    match (u32::from(symbol >> 4), u32::from(symbol & 15)) {
        (0, 0) => Some((Valued::END, 0)),
        (15, 0) => Some((15, 0)),
        (zeros, size @ 1..=MOST) => Some((zeros, read_value(bits, size) as i16)),
        _ => None,
    }
}
