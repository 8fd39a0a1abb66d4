//! The search for deflate's matches, which repeat earlier data (RFC 1951, section 3.2.5).

use std::ops::Range;

/// The longest reach of a match.
pub(super) const WINDOW: usize = 32 << 10;
pub(super) const LONGEST_MATCH: usize = 258;
/// A run begins with this many zeros, at a multiple of this many bytes.
///
/// Shorter ones are written just as well as literals.
const RUN: usize = 16;
/// The base-2 logarithm of the number of places in the table.
///
/// At two bytes each, they stay in the first-level cache.
const PLACES: u32 = 13;
/// The possible numbers of bytes of a key, by which earlier places are found.
const KEY: Range<u64> = 4..9;
/// The base-2 logarithm of the misses after which places are skipped.
///
/// After so many bytes without a match, only every second place is tried, after twice as many every
/// third, and so on: noise has no matches.
const MISSES: u32 = 4;
/// The longest match with all inner places in the table; of longer matches only the last few are.
const SHORT: usize = 16;

/// Costs are counted in fractions of a bit; this many make one bit.
pub(super) const BIT: u64 = 16;
/// The approximate cost of the codes of a length and a distance, without the latter's extra bits.
const CODES: u64 = 11 * BIT;

/// A match, and the number of literals before it.
#[derive(Clone, Copy)]
pub(super) struct Match {
    pub(super) literals: u32,
    /// `3..=258`
    pub(super) length: u16,
    /// `1..=32768`
    pub(super) distance: u16,
}

impl Match {
    fn new(literals: usize, length: usize, distance: usize) -> Self {
        Self { literals: literals as u32, length: length as u16, distance: distance as u16 }
    }
}

/// The condition that matches have to meet at the beginning of a block.
pub(super) struct Trial {
    pub(super) bytes: usize,
    /// The cost that they have to save there.
    pub(super) saved: u64,
}

/// Finds matches in blocks of a piece of data.
pub(super) struct Finder {
    /// The matches of the block, in order.
    pub(super) matches: Vec<Match>,
    /// The last place of bytes with this hash, by its lowest 16 bits.
    ///
    /// Empty entries and places too far back are detected by comparing the bytes.
    places: Box<[u16; 1 << PLACES]>,
}

impl Default for Finder {
    fn default() -> Self {
        let places = vec![0; 1 << PLACES].try_into().expect("it has so many places");
        Self { matches: Vec::new(), places }
    }
}

impl Finder {
    /// Forgets earlier data.
    pub(super) fn clear(&mut self) {
        self.places.fill(0);
    }

    /// Finds only runs of zeros.
    pub(super) fn runs(&mut self, block: &[u8]) {
        self.matches.clear();
        let (words, _) = block.as_chunks::<RUN>();
        let (mut at, mut literals_from) = (0, 0);
        while let Some(found) = words[at..].iter().position(|word| *word == [0; RUN]) {
            let start = (at + found) * RUN;
            let zeros =
                block[start..].as_chunks::<RUN>().0.iter().take_while(|word| **word == [0; RUN]).count();
            let end = start + zeros * RUN;
            let length = zeros * RUN + block[end..].iter().take_while(|&&byte| byte == 0).count();
            literals_from = self.run(literals_from, start, length);
            at += found + zeros;
        }
    }

    /// Makes matches of a run, except for its first byte, a literal like those from `from` on.
    ///
    /// Returns the place of the next literals.
    fn run(&mut self, mut from: usize, start: usize, length: usize) -> usize {
        let (longest, rest) = ((length - 1) / LONGEST_MATCH, (length - 1) % LONGEST_MATCH);
        let last = (rest >= 3).then_some(rest);
        let mut at = start + 1;
        for length in std::iter::repeat_n(LONGEST_MATCH, longest).chain(last) {
            self.matches.push(Match::new(at - from, length, 1));
            at += length;
            from = at;
        }
        from
    }

    /// Searches for matches in a block of `data` in which a byte costs about `literal`.
    ///
    /// Returns whether the block was searched to its end: there was a trial, and it succeeded.
    pub(super) fn search(
        &mut self,
        data: &[u8],
        block: Range<usize>,
        literal: u64,
        trial: Option<Trial>,
    ) -> bool {
        self.matches.clear();
        let Some(trial) = trial else { return false };
        let mut search = Search::new(self, &data[..block.end], block.start, literal);
        search.until(block.start + trial.bytes);
        if search.saved < trial.saved {
            return false;
        }
        search.until(block.end);
        true
    }
}

/// A search in progress.
struct Search<'d, 'f> {
    finder: &'f mut Finder,
    /// The data up to the end of the block.
    data: &'d [u8],
    at: usize,
    /// The place of the literals after the last match.
    from: usize,
    /// The cost of a literal.
    literal: u64,
    /// The number of bits in an eight-byte word that do not belong to a place's key.
    key_shift: u32,
    saved: u64,
}

impl<'d, 'f> Search<'d, 'f> {
    fn new(finder: &'f mut Finder, data: &'d [u8], start: usize, literal: u64) -> Self {
        // Keys of bytes that cost less than twice a match's codes are everywhere, and pay off
        // nowhere.
        let key = (2 * CODES).div_ceil(literal.max(1)).clamp(KEY.start, KEY.end - 1);
        let key_shift = 64 - 8 * key as u32;
        Self { finder, data, at: start, from: start, literal, key_shift, saved: 0 }
    }

    /// Searches up to `end`, or a bit further.
    fn until(&mut self, end: usize) {
        let (data, stop) = (self.data, end.min((self.data.len() + 1).saturating_sub(8)));
        while self.at < stop {
            let here = word(data, self.at) << self.key_shift;
            let back = self.finder.replace(here, self.at);
            if back.wrapping_sub(1) < WINDOW.min(self.at)
                && word(data, self.at - back) << self.key_shift == here
                && self.take(back, stop)
            {
                continue;
            }
            self.at += 1 + ((self.at - self.from) >> MISSES);
        }
    }

    /// Takes the match that begins `back` bytes earlier, if that pays off; returns whether it did.
    #[inline(always)]
    fn take(&mut self, back: usize, stop: usize) -> bool {
        let (literals, earlier) = (&self.data[self.from..self.at], &self.data[..self.at - back]);
        // Bytes that were skipped may belong to it.
        let before =
            literals.iter().rev().zip(earlier.iter().rev()).take_while(|(one, other)| one == other).count();
        let start = self.at - before;
        let length = common(&self.data[start - back..], &self.data[start..]);
        let (literals, codes) = (length as u64 * self.literal, CODES + u64::from(extra_bits(back)) * BIT);
        if literals <= codes {
            return false;
        }
        self.saved += literals - codes;
        self.finder.matches.push(Match::new(start - self.from, length, back));
        let end = start + length;
        let inner = if length <= SHORT { self.at + 1 } else { end - 3 };
        (self.at, self.from) = (end, end);
        for at in inner..end.min(stop) {
            self.finder.replace(word(self.data, at) << self.key_shift, at);
        }
        true
    }
}

impl Finder {
    /// Remembers a place by its key. Returns the distance to the last place with the same hash.
    #[inline(always)]
    fn replace(&mut self, key: u64, at: usize) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - PLACES);
        let before = std::mem::replace(&mut self.places[hash as usize], at as u16);
        usize::from((at as u16).wrapping_sub(before))
    }
}

/// Returns the number of extra bits of a distance.
fn extra_bits(distance: usize) -> u32 {
    (distance as u32 - 1).checked_ilog2().map_or(0, |log| log.saturating_sub(1))
}

#[inline(always)]
fn word(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*data[at..].first_chunk().expect("eight bytes"))
}

/// Returns the length of the common beginning of both, at most [`LONGEST_MATCH`].
///
/// `earlier` must be no shorter than `later`.
#[inline(always)]
fn common(earlier: &[u8], later: &[u8]) -> usize {
    let most = later.len().min(LONGEST_MATCH);
    let mut length = 0;
    while length + 8 <= most {
        let different = word(earlier, length) ^ word(later, length);
        if different != 0 {
            return length + different.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + (length..most).take_while(|&at| earlier[at] == later[at]).count()
}
