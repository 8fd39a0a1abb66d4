//! The Huffman codes of a block (RFC 1951, section 3.2), as tables in which the next bits are looked up.

use std::iter::repeat_n;
use std::ops::Range;

use super::super::deflate::{END_OF_BLOCK, LENGTH_BASES};
use super::Damage;
use super::bits::Bits;

/// The longest code.
pub(super) const LONGEST: usize = 15;
/// The most symbols for literals, the end of the block and match lengths, and for distances. Some only fixed codes have, and no data.
const SYMBOLS: usize = 288;
const DISTANCES: usize = 32;

/// What a code stands for. The number of its bits is in the lowest six bits; then, for
///
/// - a literal: its value from bit 8 on;
/// - two literals whose codes together fit into the table: the values from bits 8 and 16 on, the length of the first code from bit 24 on;
/// - a match length or a distance: the number of extra bits from bit 8 on, the base from bit 12 on.
#[derive(Clone, Copy)]
pub(super) struct Entry(u32);

impl Entry {
    const INVALID: Self = Self(Self::RARE);
    const END_OF_BLOCK: Self = Self(Self::RARE | 1 << 8);

    /// Neither a literal nor a match length or distance.
    const RARE: u32 = 1 << 6;
    /// Longer than the codes in the table: there are further entries from the base on.
    const TOO_LONG: u32 = Self::RARE | 1 << 7;
    const LITERAL: u32 = 1 << 30;
    const LITERALS: u32 = 2 << 30;

    fn of_symbol(symbol: usize) -> Self {
        match symbol {
            0..END_OF_BLOCK => Self(Self::LITERAL | (symbol as u32) << 8),
            END_OF_BLOCK => Self::END_OF_BLOCK,
            _ => {
                let number = symbol - END_OF_BLOCK - 1;
                let extra = if number < 8 || number == 28 { 0 } else { number / 4 - 1 };
                LENGTH_BASES.get(number).map_or(Self::INVALID, |&base| Self::based(base, extra))
            }
        }
    }

    fn of_distance(symbol: usize) -> Self {
        let extra = (symbol / 2).saturating_sub(1);
        match symbol {
            0..4 => Self::based(symbol as u16 + 1, extra),
            4..30 => Self::based(((2 | symbol as u16 & 1) << extra) + 1, extra),
            _ => Self::INVALID,
        }
    }

    fn based(base: u16, extra: usize) -> Self {
        Self(u32::from(base) << 12 | (extra as u32) << 8)
    }

    fn pair(first: Self, second: Self) -> Self {
        let values = first.0 & 0xff00 | (second.0 & 0xff00) << 8;
        Self(Self::LITERALS | values | first.bits() << 24 | (first.bits() + second.bits()))
    }

    fn too_long(base: usize) -> Self {
        Self(Self::TOO_LONG | (base as u32) << 12)
    }

    fn is_too_long(self) -> bool {
        self.0 & Self::TOO_LONG == Self::TOO_LONG
    }

    fn with_bits(self, bits: usize) -> Self {
        Self(self.0 | bits as u32)
    }

    /// Returns the number of bits of the code, or of both codes.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 & 63
    }

    /// Returns the number of literals.
    #[inline(always)]
    pub(super) fn literals(self) -> usize {
        (self.0 >> 30) as usize
    }

    /// Returns the values of two literals. If there is only one, the second one is meaningless.
    #[inline(always)]
    pub(super) fn values(self) -> [u8; 2] {
        [(self.0 >> 8) as u8, (self.0 >> 16) as u8]
    }

    /// Returns the first of two literals, and anything else as it is.
    pub(super) fn first(self) -> Self {
        if self.literals() == 2 { Self(Self::LITERAL | self.0 & 0xff00 | self.0 >> 24 & 15) } else { self }
    }

    #[inline(always)]
    pub(super) fn is_rare(self) -> bool {
        self.0 & Self::RARE != 0
    }

    pub(super) fn is_end_of_block(self) -> bool {
        self.0 & !63 == Self::END_OF_BLOCK.0
    }

    /// Returns the base of a match length or distance.
    #[inline(always)]
    pub(super) fn base(self) -> usize {
        (self.0 >> 12) as usize
    }

    /// Returns the number of bits behind the code to add to the base.
    #[inline(always)]
    pub(super) fn extra(self) -> u32 {
        self.0 >> 8 & 15
    }
}

/// The lengths of a block's codes.
pub(super) struct CodeLengths {
    symbols: [u8; SYMBOLS],
    distances: [u8; DISTANCES],
}

impl CodeLengths {
    /// Returns those of fixed codes (section 3.2.6).
    fn fixed() -> Self {
        let mut symbols = [8; SYMBOLS];
        symbols[144..256].fill(9);
        symbols[256..280].fill(7);
        Self { symbols, distances: [5; DISTANCES] }
    }

    /// Reads those of dynamic codes (section 3.2.7).
    pub(super) fn read(bits: &mut Bits<'_>) -> Result<Self, Damage> {
        const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        bits.fill();
        let (symbols, distances) = (bits.take(5) + 257, bits.take(5) + 1);
        if symbols > 286 || distances > 30 {
            return Err(Damage("too many codes"));
        }
        let mut own = [0; ORDER.len()];
        let count = bits.take(4) + 4;
        for &symbol in &ORDER[..count] {
            bits.fill();
            own[symbol] = bits.take(3) as u8;
        }
        if space_left(&own) != 0 {
            return Err(Damage("invalid codes"));
        }
        let mut table = [(0_u8, 0_u8); 1 << 7];
        for (symbol, length, code) in Order::new(&own).codes() {
            let entries = table[code..].iter_mut().step_by(1 << length);
            entries.for_each(|entry| *entry = (symbol as u8, length as u8));
        }
        let mut lengths = [0; SYMBOLS + DISTANCES];
        let (mut at, all) = (0, symbols + distances);
        while at < all {
            bits.fill();
            let (symbol, length) = table[bits.peek(0, 7)];
            bits.drop(u32::from(length));
            let (value, times) = match symbol {
                0..16 => (symbol, 1),
                16 if at == 0 => return Err(Damage("invalid codes")),
                16 => (lengths[at - 1], bits.take(2) + 3),
                17 => (0, bits.take(3) + 3),
                _ => (0, bits.take(7) + 11),
            };
            lengths[..all].get_mut(at..at + times).ok_or(Damage("invalid codes"))?.fill(value);
            at += times;
        }
        let mut read = Self { symbols: [0; SYMBOLS], distances: [0; DISTANCES] };
        read.symbols[..symbols].copy_from_slice(&lengths[..symbols]);
        read.distances[..distances].copy_from_slice(&lengths[symbols..all]);
        if read.are_valid() { Ok(read) } else { Err(Damage("invalid codes")) }
    }

    /// Returns whether each code is complete or, as zlib allows, a single code of one bit; there need not be distances.
    fn are_valid(&self) -> bool {
        let is_valid = |lengths: &[u8]| match space_left(lengths) {
            0 => true,
            left => left > 0 && lengths.iter().all(|&length| length <= 1),
        };
        self.symbols[END_OF_BLOCK] > 0 && is_valid(&self.symbols) && is_valid(&self.distances)
    }
}

/// Returns how many codes of the longest kind could be added to codes of these lengths; negative if there are too many codes already.
fn space_left(lengths: &[u8]) -> i32 {
    let used =
        lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (LONGEST - usize::from(length)));
    (1 << LONGEST) - used.sum::<i32>()
}

/// The symbols that have codes, in the order of their codes: by length, then by number.
struct Order<const N: usize> {
    /// The number of codes of each length.
    of_length: [usize; LONGEST + 1],
    symbols: [u16; N],
}

impl<const N: usize> Order<N> {
    fn new(lengths: &[u8; N]) -> Self {
        let mut of_length = [0; LONGEST + 1];
        lengths.iter().for_each(|&length| of_length[usize::from(length)] += 1);
        of_length[0] = 0;
        let mut places = [0; LONGEST + 1];
        for length in 1..=LONGEST {
            places[length] = places[length - 1] + of_length[length - 1];
        }
        let mut symbols = [0; N];
        for (symbol, &length) in lengths.iter().enumerate().filter(|&(_, &length)| length > 0) {
            let place = &mut places[usize::from(length)];
            symbols[*place] = symbol as u16;
            *place += 1;
        }
        Self { of_length, symbols }
    }

    /// Returns each symbol, the length of its code, and its code as it is read: the first bit lowest.
    fn codes(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let lengths = (1..=LONGEST).flat_map(|length| repeat_n(length, self.of_length[length]));
        let (mut next, mut before) = (0_u32, 0);
        lengths.zip(&self.symbols).map(move |(length, &symbol)| {
            let code = next << (length - before);
            (next, before) = (code + 1, length);
            (usize::from(symbol), length, (code.reverse_bits() >> (u32::BITS - length as u32)) as usize)
        })
    }
}

/// A code of up to `N` symbols, with an entry for each of the `SIZE` values of the next bits.
pub(super) struct Table<const N: usize, const SIZE: usize> {
    entries: Box<[Entry; SIZE]>,
    /// Entries by the further bits of longer codes: groups of [`Table::GROUP`], each for one value of the first bits.
    longer: Vec<Entry>,
    entry_of: fn(usize) -> Entry,
}

impl<const N: usize, const SIZE: usize> Table<N, SIZE> {
    const BITS: usize = SIZE.ilog2() as usize;
    const GROUP: usize = 1 << (LONGEST - Self::BITS);

    fn new(entry_of: fn(usize) -> Entry) -> Self {
        Self { entries: Box::new([Entry::INVALID; SIZE]), longer: Vec::new(), entry_of }
    }

    fn fill(&mut self, lengths: &[u8; N]) {
        let order = Order::new(lengths);
        // Each code with its entry, and which of each length are literals, which come first.
        let mut codes = [(0, Entry::INVALID); N];
        let mut literals: [Range<usize>; LONGEST + 1] = Default::default();
        for (place, ((symbol, length, code), slot)) in order.codes().zip(&mut codes).enumerate() {
            let entry = (self.entry_of)(symbol).with_bits(length);
            *slot = (code, entry);
            if entry.literals() > 0 {
                let first = if literals[length].end == 0 { place } else { literals[length].start };
                literals[length] = first..place + 1;
            }
        }
        self.entries[0] = Entry::INVALID;
        let mut rest = codes.as_slice();
        for length in 1..=Self::BITS {
            // What is known from fewer bits holds for either value of the next bit.
            let half = 1 << (length - 1);
            self.entries.copy_within(..half, half);
            let (own, longer) = rest.split_at(order.of_length[length]);
            own.iter().for_each(|&(code, entry)| self.entries[code] = entry);
            rest = longer;
            for first in 1..length {
                for &(code, entry) in &codes[literals[first].clone()] {
                    for &(behind, second) in &codes[literals[length - first].clone()] {
                        self.entries[code | behind << first] = Entry::pair(entry, second);
                    }
                }
            }
        }
        self.fill_longer(&rest[..order.of_length[Self::BITS + 1..].iter().sum()]);
    }

    fn fill_longer(&mut self, codes: &[(usize, Entry)]) {
        self.longer.clear();
        for &(code, entry) in codes {
            let prefix = &mut self.entries[code % SIZE];
            if !prefix.is_too_long() {
                *prefix = Entry::too_long(self.longer.len());
                self.longer.resize(self.longer.len() + Self::GROUP, Entry::INVALID);
            }
            let group = &mut self.longer[prefix.base()..][..Self::GROUP];
            let further = entry.bits() as usize - Self::BITS;
            group[code / SIZE..].iter_mut().step_by(1 << further).for_each(|slot| *slot = entry);
        }
    }

    /// Returns what the bits after the next `skip` bits stand for.
    #[inline(always)]
    pub(super) fn look_up(&self, bits: &Bits<'_>, skip: u32) -> Entry {
        self.entries[bits.peek(skip, Self::BITS as u32) % SIZE]
    }

    /// Returns what is meant by an entry that is rare: the end of the block, or a code longer than those in the table.
    #[cold]
    pub(super) fn resolve(&self, entry: Entry, bits: &Bits<'_>, skip: u32) -> Result<Entry, Damage> {
        let entry = if entry.is_too_long() {
            self.longer[entry.base() + bits.peek(skip + Self::BITS as u32, (LONGEST - Self::BITS) as u32)]
        } else {
            entry
        };
        let is_invalid = entry.is_rare() && !entry.is_end_of_block();
        if is_invalid { Err(Damage("invalid code")) } else { Ok(entry) }
    }
}

/// The codes of a block.
pub(super) struct Codes {
    /// Literals, the end of the block, and match lengths.
    pub(super) symbols: Table<SYMBOLS, 4096>,
    pub(super) distances: Table<DISTANCES, 1024>,
    are_fixed: bool,
}

impl Codes {
    pub(super) fn new() -> Self {
        let (symbols, distances) = (Table::new(Entry::of_symbol), Table::new(Entry::of_distance));
        Self { symbols, distances, are_fixed: false }
    }

    pub(super) fn fill(&mut self, lengths: &CodeLengths) {
        self.symbols.fill(&lengths.symbols);
        self.distances.fill(&lengths.distances);
        self.are_fixed = false;
    }

    /// Fills in fixed codes, unless they are there already: a file may be nothing but blocks of ten bits that have them.
    pub(super) fn fix(&mut self) {
        if !self.are_fixed {
            self.fill(&CodeLengths::fixed());
            self.are_fixed = true;
        }
    }
}
