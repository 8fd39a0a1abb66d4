//! The Huffman codes of a JPEG as arguments of kernels.
//!
//! See `kernels/jpeg_walk.cuh`.

use bytemuck::{Pod, Zeroable};

use codec::baseline::CanonicalCode;

/// Bytes of data that one thread walks: `PIECE` in the kernels.
pub(super) const PIECE: u32 = 256;

/// The most Huffman codes of a picture: three components with two each (DC and AC).
///
/// It is `MAX_CODES` in the kernels.
pub(super) const MAX_CODES: usize = 6;

/// The bytes of the tables of all of a picture's codes: `Steps` in the kernels.
pub const STEPS: u64 = 2 * (1024 + 1024) * MAX_CODES as u64;

/// The most blocks with code numbers that fit into 64 bits.
///
/// (An MCU has ten at most.)
const MAX_BLOCKS: usize = 16;

/// Mirrors `Code` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Pod, Zeroable)]
struct Code {
    end: [u32; 17],
    place: [i32; 17],
    symbols: [u8; 256],
}

impl Code {
    fn new(code: &CanonicalCode<'_>) -> Self {
        let mut symbols = [0; 256];
        symbols[..code.symbols.len()].copy_from_slice(code.symbols);
        Self { end: *code.end, place: *code.place, symbols }
    }
}

/// Mirrors `Codes` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Codes {
    dc: u64,
    ac: u64,
    period: u32,
    number: u32,
    dc_number: u32,
    unused: u32,
    code: [Code; MAX_CODES],
}

impl Codes {
    /// Describes the codes of each block of an MCU, for DC and for AC.
    ///
    /// `None` if they are too many for the kernels.
    pub(super) fn new(of_blocks: &[[CanonicalCode<'_>; 2]]) -> Option<Self> {
        let column =
            |which: usize| -> Vec<Code> { of_blocks.iter().map(|codes| Code::new(&codes[which])).collect() };
        let ((dc, dc_numbers), (ac, ac_numbers)) = (numbered(&column(0)), numbered(&column(1)));
        if dc.len() + ac.len() > MAX_CODES || of_blocks.len() > MAX_BLOCKS {
            return None;
        }
        let mut code = [Code::zeroed(); MAX_CODES];
        for (place, one) in code.iter_mut().zip(dc.iter().chain(&ac)) {
            *place = *one;
        }
        let ac_numbers: Vec<usize> = ac_numbers.iter().map(|number| dc.len() + number).collect();
        Some(Self {
            dc: packed(&dc_numbers),
            ac: packed(&ac_numbers),
            period: period(&dc_numbers, &ac_numbers) as u32,
            number: (dc.len() + ac.len()) as u32,
            dc_number: dc.len() as u32,
            unused: 0,
            code,
        })
    }
}

/// Returns the distinct codes, and for each block the number of its code.
fn numbered(of_blocks: &[Code]) -> (Vec<Code>, Vec<usize>) {
    let mut different: Vec<Code> = Vec::new();
    let number = |code: &Code| {
        different.iter().position(|known| known == code).unwrap_or_else(|| {
            different.push(*code);
            different.len() - 1
        })
    };
    let numbers = of_blocks.iter().map(number).collect();
    (different, numbers)
}

/// Packs numbers into four bits each, the first one lowest.
pub(super) fn packed(numbers: &[usize]) -> u64 {
    numbers.iter().rev().fold(0, |packed, &number| packed << 4 | number as u64)
}

/// Returns the number of blocks after which the codes repeat.
///
/// The fewer, the more often a walk that began in the wrong block synchronizes.
fn period(dc: &[usize], ac: &[usize]) -> usize {
    let repeats = |period: &usize| {
        let is_same = |i: usize| dc[i] == dc[i - period] && ac[i] == ac[i - period];
        dc.len().is_multiple_of(*period) && (*period..dc.len()).all(is_same)
    };
    (1..=dc.len()).find(repeats).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::baseline::BaselinePicture;

    #[test]
    fn codes_repeat_after_as_few_blocks_as_they_do() {
        assert_eq!(period(&[0], &[1]), 1);
        assert_eq!(period(&[0, 0, 0, 0, 0, 0], &[1, 1, 1, 1, 1, 1]), 1);
        assert_eq!(period(&[0, 1, 0, 1], &[2, 3, 2, 3]), 2);
        assert_eq!(period(&[0, 1, 0, 1], &[2, 3, 2, 2]), 4);
        assert_eq!(period(&[0, 0, 0, 0, 1, 1], &[2, 2, 2, 2, 3, 3]), 6);
    }

    #[test]
    fn the_first_block_is_the_lowest() {
        assert_eq!(packed(&[1, 2, 0xf]), 0xf21);
    }

    /// Returns the codes of a file.
    fn of(file: &[u8]) -> Codes {
        let picture = BaselinePicture::read(file).unwrap();
        let of_block = picture.components.iter().flat_map(|component| {
            let blocks = component.in_mcu.0 * component.in_mcu.1;
            std::iter::repeat_n([component.dc(), component.ac()], blocks)
        });
        Codes::new(&of_block.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_scan_has_each_code_once_with_dc_first() {
        let codes = of(include_bytes!("../../../../../tests/data/jpeg/420.jpg"));
        assert_eq!((codes.number, codes.dc_number, codes.period), (4, 2, 6));
        assert_eq!((codes.dc, codes.ac), (0x11_0000, 0x33_2222));
        let codes = of(include_bytes!("../../../../../tests/data/jpeg/gray.jpg"));
        assert_eq!((codes.number, codes.dc_number, codes.period), (2, 1, 1));
    }
}
