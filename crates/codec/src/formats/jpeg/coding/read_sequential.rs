//! Reading the entropy-coded data of a sequential scan of all components (T.81, F.2).
//!
//! Throughout, `None` leaves the picture to libjpeg.

use std::ops::Range;

use super::bits::BitReader;
use super::component::{BlockPlace, ComponentOutput};
use super::huffman::{Decoder, Valued};
use super::scan::{read_difference, read_intervals, read_value};
use super::{Block, vectorized};

/// A component in the scan.
pub(super) struct ScanComponent<'a> {
    /// Its blocks in an MCU, across and down.
    pub(super) factors: (usize, usize),
    /// Its blocks in the picture, across and down.
    pub(super) size: (usize, usize),
    pub(super) dc: &'a Decoder,
    pub(super) ac: &'a Decoder,
    pub(super) wanted: ComponentOutput<'a>,
}

/// Reads the scan, of so many MCUs, `across` of them in a row.
///
/// Returns the rest of the file, from the marker after the scan on.
pub(super) fn read<'b>(
    data: &'b [u8],
    interval: usize,
    across: usize,
    mcus: usize,
    components: &mut [ScanComponent<'_>],
) -> Option<&'b [u8]> {
    read_intervals(data, interval, mcus, |bits, mcus| {
        vectorized::run(
            #[inline(always)]
            || read_mcus(bits, across, mcus, components),
        )
    })
}

#[inline(always)]
fn read_mcus<'d>(
    mut bits: BitReader<'d>,
    mcus_across: usize,
    mcus: Range<usize>,
    components: &mut [ScanComponent<'_>],
) -> Option<BitReader<'d>> {
    let blocks: usize = components.iter().map(|component| component.factors.0 * component.factors.1).sum();
    // The bit reader returns endless zeros after the data: data that are too short must not be
    // walked. A block takes at least two bits.
    if mcus.len() * blocks > bits.length() / 2 {
        return None;
    }
    let mut block = [0; 64];
    let mut before = [0; 4];
    for mcu in mcus {
        let (row, column) = (mcu / mcus_across, mcu % mcus_across);
        for (component, dc) in components.iter_mut().zip(&mut before) {
            let (across, down) = component.factors;
            for y in row * down..(row + 1) * down {
                for x in column * across..(column + 1) * across {
                    bits.fill();
                    *dc += read_difference(&mut bits, component.dc)?;
                    let nonzero = read_ac(&mut bits, component.ac, &mut block)?;
                    // MCUs at the right and bottom edges may have blocks outside the picture.
                    if x < component.size.0 && y < component.size.1 {
                        let dc = i16::try_from(*dc).ok()?;
                        component.wanted.take(BlockPlace { x, y }, dc, nonzero, &block)?;
                    }
                    block = [0; 64];
                }
            }
        }
    }
    Some(bits)
}

/// Reads the AC coefficients into their places in a block of zeros.
///
/// Returns a mask of the nonzero ones.
#[inline(always)]
fn read_ac(bits: &mut BitReader<'_>, decoder: &Decoder, block: &mut Block) -> Option<u64> {
    let (mut next, mut nonzero) = (1, 0);
    while next < 64 {
        // One fill is enough for two coefficients, of at most 26 bits each.
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

/// Reads a symbol and its value if they cannot be read in one step.
///
/// A run of 16 zeros is returned as 15 zeros and a value of zero.
#[inline(always)]
fn read_long(bits: &mut BitReader<'_>, decoder: &Decoder) -> Option<(u32, i16)> {
    /// The most bits of a value (T.81, table F.2).
    const MAX_BITS: u32 = 10;
    let symbol = decoder.take(bits)?;
    match (u32::from(symbol >> 4), u32::from(symbol & 15)) {
        (0, 0) => Some((Valued::END, 0)),
        (15, 0) => Some((15, 0)),
        (zeros, size @ 1..=MAX_BITS) => Some((zeros, read_value(bits, size) as i16)),
        _ => None,
    }
}
