//! Reading the entropy-coded data of a scan (T.81, G.2).
//!
//! Throughout, `None` means that the data are damaged or irregular, or that memory ran out.

use std::ops::Range;

use super::bits::{BitReader, RST0, end_of_data, unstuff};
use super::huffman::{Decoder, extended};
use super::{Block, Grid, band, vectorized};

/// The coefficients in a scan, and which of their bits.
///
/// The coefficients are those from `first` to `last` (T.81's Ss and Se).
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub(super) first: u32,
    pub(super) last: u32,
    /// The lowest bit known from earlier scans (Ah); 0 if this scan is the first.
    pub(super) known: u32,
    /// The lowest bit in this scan (Al).
    pub(super) lowest: u32,
}

/// A component in a scan of DC coefficients.
pub(super) struct DcComponent<'a, 'w> {
    pub(super) grid: &'a mut Grid<'w>,
    /// Its blocks in an MCU, across and down.
    pub(super) factors: (usize, usize),
    pub(super) decoder: Option<&'a Decoder>,
}

/// Reads the data of a scan, one restart interval after the other.
///
/// `read` gets the range of units in each interval, and returns the bit reader. (It takes the
/// reader by value to keep it in registers.) Returns the rest of the file, from the marker after
/// the scan on.
pub(super) fn read_intervals(
    bytes: &[u8],
    interval: usize,
    units: usize,
    mut read: impl for<'d> FnMut(BitReader<'d>, Range<usize>) -> Option<BitReader<'d>>,
) -> Option<&[u8]> {
    let mut data = Vec::new();
    each_interval(bytes, interval, units, |stuffed, units| {
        unstuff(stuffed, &mut data)?;
        read(BitReader::new(&data), units)?.finish()
    })
}

/// Finds the data of each restart interval of a scan.
///
/// Calls `each` with them and with the range of units in them. Returns the rest of the file, from
/// the marker after the scan on.
pub(super) fn each_interval<'b>(
    mut bytes: &'b [u8],
    interval: usize,
    units: usize,
    mut each: impl FnMut(&'b [u8], Range<usize>) -> Option<()>,
) -> Option<&'b [u8]> {
    let step = if interval == 0 { units } else { interval };
    for (number, first) in (0..units).step_by(step).enumerate() {
        let (end, marker, behind) = end_of_data(bytes)?;
        each(&bytes[..end], first..units.min(first + step))?;
        if first + step < units {
            if marker != RST0 + (number % 8) as u8 {
                return None;
            }
            bytes = behind;
        } else {
            // The marker after the scan is left to the caller.
            bytes = &bytes[bytes.len() - behind.len() - 2..];
        }
    }
    Some(bytes)
}

/// Reads DC coefficients, interleaved if there are several components.
///
/// `mcus` are numbered row by row.
pub(super) fn read_dc<'d>(
    mut bits: BitReader<'d>,
    selection: Selection,
    components: &mut [DcComponent<'_, '_>],
    mcus_across: usize,
    mcus: Range<usize>,
) -> Option<BitReader<'d>> {
    let mut before = [0i32; 4];
    for mcu in mcus {
        let (row, column) = (mcu / mcus_across, mcu % mcus_across);
        for (component, dc) in components.iter_mut().zip(&mut before) {
            let (across, down) = component.factors;
            for block in 0..across * down {
                let (x, y) = (column * across + block % across, row * down + block / across);
                bits.fill();
                let value = if selection.known > 0 {
                    i32::from(bits.take(1) == 1) << selection.lowest
                } else {
                    *dc += read_difference(&mut bits, component.decoder?)?;
                    dc.checked_mul(1 << selection.lowest)?
                };
                let value = i16::try_from(value).ok()?;
                // MCUs at the right and bottom edges may have blocks outside the picture.
                let grid = &mut *component.grid;
                if let (true, Some(dc)) = (x < grid.across, grid.dc.get_mut(y * grid.across + x)) {
                    *dc |= value;
                }
            }
        }
    }
    Some(bits)
}

#[inline(always)]
pub(super) fn read_difference(bits: &mut BitReader<'_>, decoder: &Decoder) -> Option<i32> {
    const MAX_SIZE: u8 = 15;
    let size = decoder.take(bits).filter(|size| *size <= MAX_SIZE)?;
    Some(read_value(bits, u32::from(size)))
}

/// Takes a value of `size` bits.
#[inline(always)]
pub(super) fn read_value(bits: &mut BitReader<'_>, size: u32) -> i32 {
    extended(bits.take(size), size)
}

/// The next element of a scan of AC coefficients (T.81, G.1.2.2).
enum Symbol {
    /// This many zeros, and the value after them.
    Value(u32, i32),
    /// Sixteen zeros.
    Zeros,
    /// A run of this many blocks, including the current one.
    ///
    /// They have no further coefficients in this scan.
    EndOfBand(usize),
}

#[inline(always)]
fn next_symbol(bits: &mut BitReader<'_>, decoder: &Decoder) -> Option<Symbol> {
    if let Some((zeros, value)) = decoder.take_valued(bits) {
        return Some(Symbol::Value(zeros, value.into()));
    }
    let symbol = decoder.take(bits)?;
    Some(match (u32::from(symbol >> 4), u32::from(symbol & 15)) {
        (15, 0) => Symbol::Zeros,
        (size, 0) => Symbol::EndOfBand(((1 << size) + bits.take(size)) as usize),
        (zeros, size) => Symbol::Value(zeros, read_value(bits, size)),
    })
}

/// Reads AC coefficients in their first scan.
#[inline(always)]
pub(super) fn read_first<'d>(
    mut bits: BitReader<'d>,
    selection: Selection,
    decoder: &Decoder,
    blocks: &mut [Block],
    nonzero: &mut [u64],
) -> Option<BitReader<'d>> {
    let mut next = 0;
    while next < blocks.len() {
        let (block, mask) = (&mut blocks[next], &mut nonzero[next]);
        next += 1;
        let mut k = selection.first;
        while k <= selection.last {
            bits.fill();
            let (zeros, value) = match next_symbol(&mut bits, decoder)? {
                Symbol::Value(zeros, value) => (zeros, value),
                Symbol::Zeros => {
                    k += 16;
                    continue;
                }
                Symbol::EndOfBand(run) => {
                    next += run - 1;
                    break;
                }
            };
            k += zeros;
            if k > selection.last {
                return None;
            }
            // A coefficient that overflows could wrap to zero, and the mask, on which later scans
            // depend, would be wrong.
            let value = i16::try_from(value << selection.lowest).ok().filter(|value| *value != i16::MIN)?;
            *block.get_mut(k as usize)? = value;
            *mask |= 1 << k;
            k += 1;
        }
    }
    // A run may not continue after a restart.
    (next == blocks.len()).then_some(bits)
}

/// Reads another bit of AC coefficients.
#[inline(always)]
pub(super) fn read_refinement<'d>(
    mut bits: BitReader<'d>,
    selection: Selection,
    decoder: &Decoder,
    blocks: &mut [Block],
    nonzero: &mut [u64],
) -> Option<BitReader<'d>> {
    let band = band(selection.first, selection.last);
    let mut run = 0;
    for (block, mask) in blocks.iter_mut().zip(nonzero) {
        let known = *mask & band;
        let mut change = Change::default();
        // The part of the band still to be read.
        let mut rest = band;
        while run == 0 && rest != 0 {
            bits.fill();
            let (zeros, sign) = match next_symbol(&mut bits, decoder)? {
                Symbol::Value(zeros, sign) => (zeros, sign),
                Symbol::Zeros => (15, 0),
                Symbol::EndOfBand(length) => {
                    run = length;
                    break;
                }
            };
            if sign.abs() > 1 {
                return None;
            }
            // The symbol skips `zeros` zero coefficients, and is about the next one.
            let at = vectorized::deposit(1 << zeros, rest & !known);
            if at == 0 {
                return None;
            }
            change.read_next(&mut bits, rest & known & (at - 1));
            change.new |= if sign != 0 { at } else { 0 };
            change.negative |= if sign < 0 { at } else { 0 };
            rest &= !(at | (at - 1));
        }
        if run > 0 {
            change.read_next(&mut bits, rest & known);
            run -= 1;
        }
        change.apply(1 << selection.lowest, known, block);
        *mask |= change.new;
    }
    (run == 0).then_some(bits)
}

/// The change of a block's coefficients by a refinement scan.
#[derive(Default)]
struct Change {
    /// The next bit of each coefficient that is already known to be nonzero.
    ///
    /// The bit of the last one is the lowest.
    next: u64,
    /// The number of bits in `next`.
    count: u32,
    /// A mask of the coefficients that become nonzero.
    new: u64,
    /// A mask of those in `new` that are negative.
    negative: u64,
}

impl Change {
    /// Takes another bit for each coefficient in `which`.
    #[inline(always)]
    fn read_next(&mut self, bits: &mut BitReader<'_>, which: u64) {
        let mut missing = which.count_ones();
        while missing > 0 {
            const MAX_AT_ONCE: u32 = 32;
            bits.fill();
            let count = missing.min(MAX_AT_ONCE);
            self.next = self.next << count | u64::from(bits.take(count));
            self.count += count;
            missing -= count;
        }
    }

    #[inline(always)]
    fn apply(&self, unit: i16, known: u64, block: &mut Block) {
        let next = self.next.reverse_bits().checked_shr(64 - self.count).unwrap_or(0);
        let further = vectorized::deposit(next, known);
        vectorized::refine(block, unit, further | self.new, self.negative);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coefficient_that_overflows_is_refused() {
        // The only code is 0, for no zeros and a value of 10 bits. The data are that code and 512,
        // which are looked up in one step, and the padding.
        let mut counts = [0; 16];
        counts[0] = 1;
        let decoder = Decoder::new(&counts, &[0x0a]).unwrap();
        let data = [&[0b0100_0000, 0][..], &[0; 8]].concat();
        let read = |lowest| {
            let selection = Selection { first: 63, last: 63, known: 0, lowest };
            let (mut block, mut nonzero) = ([[0; 64]], [0]);
            read_first(BitReader::new(&data), selection, &decoder, &mut block, &mut nonzero)?;
            Some((block[0][63], nonzero[0]))
        };
        assert_eq!(read(0), Some((512, 1 << 63)));
        assert_eq!(read(5), Some((512 << 5, 1 << 63)));
        assert_eq!(read(6), None, "32768");
        assert_eq!(read(7), None, "65536, which is 0 in 16 bits");
    }
}
