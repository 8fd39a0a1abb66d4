//! CCITT's codes for black and white: runs, or changes against the row before.
//!
//! Runs are T.4, one-dimensional; changes are T.4, two-dimensional, and T.6.
//!
//! The tables of codes are those of the `fax` crate.

use fax::maps::{Mode, black, mode, white};

use crate::CodecError;
use crate::formats::tiff::{malformed, unsupported};

/// The coding of rows, and the alignment of their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Runs; each row begins on a byte.
    Rle,
    /// Runs; each row begins on a pair of bytes.
    RleWords,
    /// Runs, or changes in some rows if `changes` is set; each row follows a code that ends lines.
    Group3 { changes: bool },
    /// Changes.
    Group4,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Rle | Self::RleWords => "CCITT RLE",
            Self::Group3 { .. } => "CCITT group 3",
            Self::Group4 => "CCITT group 4",
        }
    }
}

/// The code that ends a line: eleven zeros, or more, and a one.
const ZEROS: u8 = 11;

/// The data have ended, or no code begins with the next bits.
struct Damage;

/// Decodes rows of `row` bytes and `width` pixels; the bits of black ones are set.
pub(crate) fn decode(
    coding: Coding,
    data: &[u8],
    width: u32,
    row: usize,
    target: &mut [u8],
) -> Result<(), CodecError> {
    let name = coding.name();
    let Ok(_) = u16::try_from(width) else {
        return Err(unsupported(format!("a TIFF of {name} wider than 65535 pixels")));
    };
    let mut bits = Bits::new(data);
    let (mut above, mut current) = (Changes::default(), Changes::default());
    for row in target.chunks_exact_mut(row) {
        current.0.clear();
        read_row(coding, &mut bits, width, &above, &mut current)
            .map_err(|Damage| malformed(format!("its {name} data are damaged or end early")))?;
        draw(&current.0, width as usize, row);
        std::mem::swap(&mut above, &mut current);
    }
    Ok(())
}

/// The changes of colour in a row that begins with white, at least one pixel apart.
#[derive(Default)]
struct Changes(Vec<u32>);

impl Changes {
    /// Adds a change; two at the same place cancel each other.
    fn add(&mut self, at: u32, width: u32) {
        match self.0.last() {
            Some(&last) if last == at => drop(self.0.pop()),
            _ if at < width => self.0.push(at),
            _ => {}
        }
    }

    /// Returns the place of a change, by its number; the end of the row after the last one.
    #[inline]
    fn at(&self, number: usize, width: u32) -> u32 {
        self.0.get(number).copied().unwrap_or(width)
    }
}

fn read_row(
    coding: Coding,
    bits: &mut Bits<'_>,
    width: u32,
    above: &Changes,
    row: &mut Changes,
) -> Result<(), Damage> {
    match coding {
        Coding::Rle => bits.align(8)?,
        Coding::RleWords => bits.align(16)?,
        Coding::Group3 { changes } => {
            let begins = bits.skip_end_of_line()?;
            if changes && (!begins || bits.next()? == 0) {
                return if begins { read_changes(bits, width, above, row) } else { Err(Damage) };
            }
        }
        Coding::Group4 => return read_changes(bits, width, above, row),
    }
    read_runs(bits, width, row)
}

fn read_runs(bits: &mut Bits<'_>, width: u32, row: &mut Changes) -> Result<(), Damage> {
    let (mut at, mut is_black) = (0, false);
    while at < width {
        at += bits.run(is_black, width - at)?;
        row.add(at, width);
        is_black = !is_black;
    }
    Ok(())
}

fn read_changes(bits: &mut Bits<'_>, width: u32, above: &Changes, row: &mut Changes) -> Result<(), Damage> {
    let (mut at, mut is_black, mut is_first) = (0, false, true);
    // The first change above that lies after `at`.
    let mut next = 0;
    while at < width {
        while !is_first && above.0.get(next).is_some_and(|&change| change <= at) {
            next += 1;
        }
        // The first one of these to the opposite colour: changes to black have even numbers.
        let opposite = next + usize::from((next % 2 == 1) != is_black);
        match mode::decode(bits).ok_or(Damage)? {
            Mode::Pass => at = above.at(opposite + 1, width),
            Mode::Vertical(delta) => {
                let to = i64::from(above.at(opposite, width)) + i64::from(delta);
                at = u32::try_from(to).ok().filter(|to| (at..=width).contains(to)).ok_or(Damage)?;
                row.add(at, width);
                is_black = !is_black;
            }
            Mode::Horizontal => {
                for colour in [is_black, !is_black] {
                    at += bits.run(colour, width - at)?;
                    row.add(at, width);
                }
            }
            Mode::Extension | Mode::EOF => return Err(Damage),
        }
        is_first = false;
    }
    Ok(())
}

/// Bits that are read, the highest of a byte first.
///
/// Zeros, with which no code begins, follow the last byte.
struct Bits<'d> {
    data: &'d [u8],
    /// The number of bytes that have been taken into the window, with zeros after the last.
    taken: usize,
    /// The next bits, the first one highest.
    window: u64,
    /// How many bits are in the window, more than any code has.
    held: u32,
}

impl<'d> Bits<'d> {
    fn new(data: &'d [u8]) -> Self {
        let mut bits = Self { data, taken: 0, window: 0, held: 0 };
        bits.fill();
        bits
    }

    /// Fills the window.
    fn fill(&mut self) {
        if self.held > 32 {
            return;
        }
        let next = match self.data.get(self.taken..).and_then(<[u8]>::first_chunk) {
            Some(next) => u32::from_be_bytes(*next),
            None => u32::from_be_bytes(
                [0, 1, 2, 3].map(|further| self.data.get(self.taken + further).copied().unwrap_or(0)),
            ),
        };
        self.window |= u64::from(next) << (32 - self.held);
        self.taken += 4;
        self.held += 32;
    }

    /// Returns how many bits have been read.
    fn position(&self) -> usize {
        8 * self.taken - self.held as usize
    }

    fn look(&self, count: u8) -> u16 {
        (self.window >> 1 >> (63 - u32::from(count))) as u16
    }

    fn skip(&mut self, count: u32) -> Result<(), Damage> {
        self.window <<= count;
        self.held -= count;
        self.fill();
        if self.position() <= 8 * self.data.len() { Ok(()) } else { Err(Damage) }
    }

    /// Skips bits up to a multiple of 8 or 16 of them.
    fn align(&mut self, bits: usize) -> Result<(), Damage> {
        let position = self.position();
        self.skip((position.next_multiple_of(bits) - position) as u32)
    }

    fn next(&mut self) -> Result<u16, Damage> {
        let bit = self.look(1);
        self.skip(1).map(|()| bit)
    }

    /// Skips the code that ends a line, if it is next.
    fn skip_end_of_line(&mut self) -> Result<bool, Damage> {
        if self.look(ZEROS) != 0 {
            return Ok(false);
        }
        while self.next()? == 0 {}
        Ok(true)
    }

    /// Reads a run of one colour, of at most `most` pixels.
    fn run(&mut self, is_black: bool, most: u32) -> Result<u32, Damage> {
        let mut length = 0;
        loop {
            let code = if is_black { black::decode(self) } else { white::decode(self) };
            let part = code.ok_or(Damage)?;
            length += u32::from(part);
            if length > most {
                return Err(Damage);
            }
            if part < 64 {
                return Ok(length);
            }
        }
    }
}

impl fax::BitReader for Bits<'_> {
    type Error = Damage;

    #[inline(always)]
    fn peek(&self, bits: u8) -> Option<u16> {
        Some(self.look(bits))
    }

    #[inline(always)]
    fn consume(&mut self, bits: u8) -> Result<(), Damage> {
        self.skip(bits.into())
    }

    fn bits_to_byte_boundary(&self) -> u8 {
        (self.held % 8) as u8
    }
}

/// Sets the black pixels of a row: from every other change to the next, or to the end.
fn draw(changes: &[u32], width: usize, row: &mut [u8]) {
    row.fill(0);
    for black in changes.chunks(2) {
        let end = black.get(1).map_or(width, |&end| end as usize).min(width);
        let start = (black[0] as usize).min(end);
        for bit in start..end.min(start.next_multiple_of(8)) {
            row[bit / 8] |= 0x80 >> (bit % 8);
        }
        let (first, last) = (start.div_ceil(8), end / 8);
        if first <= last {
            row[first..last].fill(0xff);
            for bit in last * 8..end {
                row[last] |= 0x80 >> (bit % 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_black_are_drawn_to_the_bit() {
        const WIDTH: usize = 43;
        for start in 0..WIDTH {
            for end in start + 1..=WIDTH {
                let changes: Vec<u32> =
                    [start, end].into_iter().filter(|&at| at < WIDTH).map(|at| at as u32).collect();
                let mut row = [0xff; WIDTH.div_ceil(8)];
                draw(&changes, WIDTH, &mut row);
                let black: Vec<usize> =
                    (0..8 * row.len()).filter(|bit| row[bit / 8] & 0x80 >> (bit % 8) != 0).collect();
                assert_eq!(black, (start..end).collect::<Vec<_>>(), "{start}..{end}");
            }
        }
        let mut row = [0; 2];
        draw(&[1, 2, 4, 12], 16, &mut row);
        assert_eq!(row, [0b0100_1111, 0b1111_0000]);
    }
}
