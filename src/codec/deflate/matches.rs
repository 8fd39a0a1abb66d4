//! What deflate writes as repetitions of what came before (RFC 1951, section 3.2.5).

use std::ops::Range;

/// How far back a match may be.
pub(super) const WINDOW: usize = 32 << 10;
pub(super) const LONGEST_MATCH: usize = 258;
/// What is written as a run begins with so many zeros, at a multiple of so many bytes. Shorter ones do as well as literals.
const RUN: usize = 16;
/// Places that are remembered: 2 to this power, two bytes each, so that they stay in the first-level cache.
const PLACES: u32 = 13;
/// The fewest bytes by which an earlier place is found, and the most.
const KEY: Range<u64> = 4..9;
/// After 2 to this power bytes without a match every second place is looked at, after twice as many every third, and so on: noise has
/// no matches.
const PATIENCE: u32 = 4;
/// Inner places of matches up to so long can be found later; of longer ones only the last few.
const SHORT: usize = 16;

/// A fraction of a bit, in which costs are counted.
pub(super) const BIT: u64 = 16;
/// About what the codes of a length and of a distance take together, without the bits that follow a distance's.
const CODES: u64 = 11 * BIT;

/// A repetition, and the literals before it.
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

/// What matches have to do at the beginning of a block.
pub(super) struct Trial {
    pub(super) bytes: usize,
    /// What they have to save there.
    pub(super) saved: u64,
}

/// Finds matches in blocks of a piece of data.
pub(super) struct Finder {
    /// Of the block, in its order.
    pub(super) matches: Vec<Match>,
    /// Where bytes with this hash were seen last, by the lowest 16 bits of the place. What is remembered of nothing, or of places too
    /// far back, is told from a match by comparing the bytes.
    places: Box<[u16; 1 << PLACES]>,
}

impl Default for Finder {
    fn default() -> Self {
        let places = vec![0; 1 << PLACES].try_into().expect("it has so many places");
        Self { matches: Vec::new(), places }
    }
}

impl Finder {
    /// Forgets what came before.
    pub(super) fn clear(&mut self) {
        self.places.fill(0);
    }

    /// Finds runs of zeros, and nothing else.
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

    /// Makes matches of a run, behind its first byte, which is a literal like those from `from` on. Where literals go on.
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

    /// Finds matches in a block of `data` with a byte of which costs about `literal`. Whether it was searched: there is a trial, and it
    /// went well.
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

/// A search under way.
struct Search<'d, 'f> {
    finder: &'f mut Finder,
    /// Up to the end of the block.
    data: &'d [u8],
    at: usize,
    /// Where literals begin that are not yet told of.
    from: usize,
    /// What a literal costs.
    literal: u64,
    /// Bits of eight bytes that do not belong to the key of a place.
    beside_key: u32,
    saved: u64,
}

impl<'d, 'f> Search<'d, 'f> {
    fn new(finder: &'f mut Finder, data: &'d [u8], start: usize, literal: u64) -> Self {
        // Bytes that cost less than twice a match's codes are everywhere, and pay nowhere.
        let key = (2 * CODES).div_ceil(literal.max(1)).clamp(KEY.start, KEY.end - 1);
        let beside_key = 64 - 8 * key as u32;
        Self { finder, data, at: start, from: start, literal, beside_key, saved: 0 }
    }

    /// Goes on up to a place, or a bit further.
    fn until(&mut self, end: usize) {
        let (data, stop) = (self.data, end.min((self.data.len() + 1).saturating_sub(8)));
        while self.at < stop {
            let here = word(data, self.at) << self.beside_key;
            let back = self.finder.replace(here, self.at);
            if back.wrapping_sub(1) < WINDOW.min(self.at)
                && word(data, self.at - back) << self.beside_key == here
                && self.take(back, stop)
            {
                continue;
            }
            self.at += 1 + ((self.at - self.from) >> PATIENCE);
        }
    }

    /// Takes the match so far back, if that pays.
    #[inline(always)]
    fn take(&mut self, back: usize, stop: usize) -> bool {
        let (literals, earlier) = (&self.data[self.from..self.at], &self.data[..self.at - back]);
        // What was passed over may belong to it.
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
            self.finder.replace(word(self.data, at) << self.beside_key, at);
        }
        true
    }
}

impl Finder {
    /// Remembers a place by its key. Returns how far back one with the same hash was.
    #[inline(always)]
    fn replace(&mut self, key: u64, at: usize) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - PLACES);
        let before = std::mem::replace(&mut self.places[hash as usize], at as u16);
        usize::from((at as u16).wrapping_sub(before))
    }
}

/// How many bits follow the code of a distance.
fn extra_bits(distance: usize) -> u32 {
    (distance as u32 - 1).checked_ilog2().map_or(0, |log| log.saturating_sub(1))
}

#[inline(always)]
fn word(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*data[at..].first_chunk().expect("eight bytes"))
}

/// How many bytes both begin with, at most the longest match; the earlier ones are more.
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
