//! Inflate (RFC 1951), for PNG and TIFF: from any block on, and as far as there is data or room. Several literals are found by one look into
//! a table, as in fdeflate.

use thiserror::Error;

mod bits;
mod codes;
mod search;

use bits::Bits;
use codes::{CodeLengths, Codes, Entry};

pub(super) use search::find_block;

/// How far back a match may reach.
pub(super) const WINDOW: usize = 32 << 10;
/// The longest match.
const LONGEST_MATCH: usize = 258;
/// Symbols that are copied at a time.
const GROUP: usize = 16;
/// The most symbols that are written by one round of [`Inflater::quickly`].
const ROUND: usize = 8 + LONGEST_MATCH + GROUP;

/// The bits of a zlib header (RFC 1950).
pub(super) const ZLIB_HEADER: usize = 16;

/// Checks the header of a zlib stream.
///
/// # Errors
/// Says that it is none, or one that needs a dictionary.
pub(super) fn check_zlib_header(header: [u8; 2]) -> Result<(), Damage> {
    let is_deflate = header[0] & 15 == 8 && header[0] >> 4 <= 7;
    let has_dictionary = header[1] & 0x20 != 0;
    let is_valid = is_deflate && !has_dictionary && u16::from_be_bytes(header).is_multiple_of(31);
    if is_valid { Ok(()) } else { Err(Damage("invalid zlib header")) }
}

/// What is wrong with compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct Damage(&'static str);

const TOO_FAR: Damage = Damage("a match reaches too far back");

/// Why decompression stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// There is no room left. (If nothing else would have come, it is the end of the block or of the stream that counts.)
    Full,
    /// There are no data left.
    Data,
    /// The next block begins at the bit `until`, or behind it.
    Block,
    /// The last block has ended.
    End,
}

/// Decompresses a stream piece by piece.
pub(super) struct Inflater {
    /// The position of the next bit in the data.
    position: usize,
    within: Within,
    is_last_block: bool,
    codes: Codes,
    /// The distance of the last match, and how many symbols are still to be copied.
    rest: (usize, usize),
}

/// Where the next bit is.
#[derive(Clone, Copy)]
enum Within {
    /// In front of a block.
    Header,
    /// In a block with codes.
    Codes,
    /// In front of so many bytes that are stored.
    Stored(usize),
}

impl Inflater {
    /// Makes an inflater for the blocks from the bit `position` on.
    pub(super) fn new(position: usize) -> Self {
        Self { position, within: Within::Header, is_last_block: false, codes: Codes::new(), rest: (0, 0) }
    }

    /// Begins anew, with the block at the bit `position`.
    pub(super) fn restart(&mut self, position: usize) {
        (self.position, self.within, self.is_last_block, self.rest) =
            (position, Within::Header, false, (0, 0));
    }

    /// Returns the position of the next bit.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns whether the next bit is the first one of a block, and not behind the last block.
    pub(super) fn is_before_block(&self) -> bool {
        matches!(self.within, Within::Header) && !self.is_last_block
    }

    /// Appends to the `filled` symbols of `out`, among which are all that matches may refer to. `data` are the stream from the byte `offset`
    /// on. Returns how many symbols are in `out` then, and why there are no more.
    ///
    /// # Errors
    /// Says how the data are damaged. The content of `out` is void then.
    pub(super) fn run<T: Copy + From<u8>>(
        &mut self,
        (data, offset): (&[u8], usize),
        out: &mut [T],
        mut filled: usize,
        until: usize,
    ) -> Result<(usize, Halt), Damage> {
        let begin = 8 * offset;
        self.position -= begin;
        let stop = loop {
            let is_through = match self.within {
                Within::Header if self.is_last_block => break Halt::End,
                Within::Header if begin + self.position >= until => break Halt::Block,
                Within::Header => self.header(data),
                Within::Codes => self.coded(data, out, &mut filled),
                Within::Stored(left) => Ok(self.stored(left, data, out, &mut filled)),
            };
            match is_through {
                Ok(true) => {}
                // Whatever follows what there was room for is of no interest.
                _ if filled == out.len() => break Halt::Full,
                Ok(false) => break Halt::Data,
                Err(damage) => return Err(damage),
            }
        };
        self.position += begin;
        Ok((filled, stop))
    }

    /// Reads the beginning of a block, unless the data end in it. Returns whether it was read.
    fn header(&mut self, data: &[u8]) -> Result<bool, Damage> {
        let mut bits = Bits::new(data, self.position);
        let is_last = bits.take(1) == 1;
        let within = self.kind(&mut bits);
        if bits.is_past_end() {
            return Ok(false);
        }
        (self.is_last_block, self.within, self.position) = (is_last, within?, bits.position());
        Ok(true)
    }

    fn kind(&mut self, bits: &mut Bits<'_>) -> Result<Within, Damage> {
        match bits.take(2) {
            0 => {
                bits.align();
                bits.fill();
                let (length, complement) = (bits.take(16), bits.take(16));
                if length != complement ^ 0xffff {
                    return Err(Damage("invalid length of stored data"));
                }
                return Ok(Within::Stored(length));
            }
            1 => self.codes.fix(),
            2 => self.codes.fill(&CodeLengths::read(bits)?),
            _ => return Err(Damage("invalid kind of block")),
        }
        Ok(Within::Codes)
    }

    /// Copies stored bytes. Returns whether that were all.
    fn stored<T: From<u8>>(&mut self, left: usize, data: &[u8], out: &mut [T], filled: &mut usize) -> bool {
        let data = &data[self.position / 8..];
        let room = &mut out[*filled..];
        let count = left.min(data.len()).min(room.len());
        room.iter_mut().zip(&data[..count]).for_each(|(to, &byte)| *to = byte.into());
        *filled += count;
        self.position += 8 * count;
        self.within = if count == left { Within::Header } else { Within::Stored(left - count) };
        count == left
    }

    /// Decompresses what has codes. Returns whether it is the end of the block that has been reached.
    fn coded<T: Copy + From<u8>>(
        &mut self,
        data: &[u8],
        out: &mut [T],
        filled: &mut usize,
    ) -> Result<bool, Damage> {
        self.copy_rest(out, filled)?;
        let mut bits = Bits::new(data, self.position);
        let mut next = self.quickly(&mut bits, out, filled)?;
        loop {
            match next {
                Next::Nothing => return Ok(false),
                Next::Code => {
                    self.position = bits.position();
                    if self.rest.1 > 0 {
                        return Ok(false);
                    }
                    next = self.carefully(&mut bits, out, filled)?;
                }
                Next::Block => {
                    (self.within, self.position) = (Within::Header, bits.position());
                    return Ok(true);
                }
            }
        }
    }

    /// Decompresses as long as there are plenty of data and room.
    ///
    /// A fill's 56 bits are enough for four look-ups in the table of 12 bits each, or for the 48 bits of a match at most: 15 and 5 for its
    /// length, 15 and 13 for its distance. There is one fill behind the literals of a round, and one behind its match.
    #[inline(always)]
    fn quickly<T: Copy + From<u8>>(
        &self,
        bits: &mut Bits<'_>,
        out: &mut [T],
        filled: &mut usize,
    ) -> Result<Next, Damage> {
        let symbols = &self.codes.symbols;
        bits.fill();
        let mut entry = symbols.look_up(bits, 0);
        while bits.has_fills(2)
            && let Some(room) = out.get_mut(*filled..).and_then(<[T]>::first_chunk_mut::<ROUND>)
        {
            if entry.literals() > 0 {
                // All are looked up before it is known whether they are needed, so that no look-up has to wait for a branch.
                let two = entry.bits();
                let second = symbols.look_up(bits, two);
                let three = two + second.bits();
                let third = symbols.look_up(bits, three);
                let four = three + third.bits();
                let fourth = symbols.look_up(bits, four);
                let count = put(entry, room, 0);
                if second.literals() == 0 {
                    *filled += count;
                    bits.drop(two);
                    entry = second;
                } else {
                    let count = put(second, room, count);
                    if third.literals() > 0 {
                        *filled += put(third, room, count);
                        bits.drop(four);
                        bits.fill();
                        entry = fourth;
                        continue;
                    }
                    *filled += count;
                    bits.drop(three);
                    entry = third;
                }
                bits.fill();
            }
            if entry.is_rare() {
                entry = symbols.resolve(entry, bits, 0)?;
                if entry.is_end_of_block() {
                    bits.drop(entry.bits());
                    return Ok(Next::Block);
                }
                if entry.literals() > 0 {
                    out[*filled] = entry.values()[0].into();
                    *filled += 1;
                    bits.drop(entry.bits());
                    bits.fill();
                    entry = symbols.look_up(bits, 0);
                    continue;
                }
            }
            let (distance, length) = self.take_match(entry, bits)?;
            bits.fill();
            entry = symbols.look_up(bits, 0);
            copy(out, *filled, distance, length)?;
            *filled += length;
        }
        Ok(Next::Code)
    }

    /// Takes the bits of a match, of which `entry` is the length's; returns its distance and its length.
    #[inline(always)]
    fn take_match(&self, entry: Entry, bits: &mut Bits<'_>) -> Result<(usize, usize), Damage> {
        let distances = &self.codes.distances;
        let mut used = entry.bits();
        let length = entry.base() + bits.peek(used, entry.extra());
        used += entry.extra();
        let mut entry = distances.look_up(bits, used);
        if entry.is_rare() {
            entry = distances.resolve(entry, bits, used)?;
        }
        used += entry.bits();
        let distance = entry.base() + bits.peek(used, entry.extra());
        bits.drop(used + entry.extra());
        Ok((distance, length))
    }

    /// Decompresses one literal or one match, as far as there is room for it, unless the data end in it.
    fn carefully<T: Copy + From<u8>>(
        &mut self,
        bits: &mut Bits<'_>,
        out: &mut [T],
        filled: &mut usize,
    ) -> Result<Next, Damage> {
        bits.fill();
        let code = self.code(bits);
        if bits.is_past_end() {
            return Ok(Next::Nothing);
        }
        match code? {
            Code::EndOfBlock => return Ok(Next::Block),
            _ if *filled == out.len() => return Ok(Next::Nothing),
            Code::Literal(value) => {
                out[*filled] = value.into();
                *filled += 1;
            }
            Code::Match(rest) => {
                self.rest = rest;
                self.copy_rest(out, filled)?;
            }
        }
        Ok(Next::Code)
    }

    fn code(&self, bits: &mut Bits<'_>) -> Result<Code, Damage> {
        let symbols = &self.codes.symbols;
        let mut entry = symbols.look_up(bits, 0).first();
        if entry.is_rare() {
            entry = symbols.resolve(entry, bits, 0)?;
        }
        if entry.literals() == 0 && !entry.is_end_of_block() {
            return self.take_match(entry, bits).map(Code::Match);
        }
        bits.drop(entry.bits());
        Ok(if entry.is_end_of_block() { Code::EndOfBlock } else { Code::Literal(entry.values()[0]) })
    }

    /// Copies the rest of a match, as far as there is room for it.
    fn copy_rest<T: Copy>(&mut self, out: &mut [T], filled: &mut usize) -> Result<(), Damage> {
        let (distance, length) = self.rest;
        let end = out.len().min(*filled + length);
        if end > *filled && distance > *filled {
            return Err(TOO_FAR);
        }
        self.rest.1 -= end - *filled;
        for at in *filled..end {
            out[at] = out[at - distance];
        }
        *filled = end;
        Ok(())
    }
}

/// What comes next in a block with codes.
enum Next {
    Code,
    /// The next block, or nothing if this was the last one.
    Block,
    /// Nothing, without more data or more room.
    Nothing,
}

/// A code, or those of a match.
enum Code {
    Literal(u8),
    EndOfBlock,
    /// A distance and a length.
    Match((usize, usize)),
}

/// Writes two symbols behind the first `count` ones, and returns how many there are if those count that are meant.
#[inline(always)]
fn put<T: From<u8>>(entry: Entry, room: &mut [T; ROUND], count: usize) -> usize {
    let [first, second] = entry.values();
    room[count] = first.into();
    room[count + 1] = second.into();
    count + entry.literals()
}

/// Copies a match to `at`, and up to a group more.
#[inline(always)]
fn copy<T: Copy>(out: &mut [T], at: usize, distance: usize, length: usize) -> Result<(), Damage> {
    let from = at.checked_sub(distance).ok_or(TOO_FAR)?;
    if distance >= GROUP {
        let first: [T; GROUP] = *out[from..].first_chunk().expect("there is a group of room");
        *out[at..].first_chunk_mut().expect("there is a group of room") = first;
        for done in (GROUP..length).step_by(GROUP) {
            out.copy_within(from + done..from + done + GROUP, at + done);
        }
    } else if distance == 1 {
        let value = out[from];
        out[at..at + length].fill(value);
    } else {
        for at in at..at + length {
            out[at] = out[at - distance];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
