//! Entropy-coded bits, with the stuffing of T.81, F.1.2.3.

/// The first restart marker of eight.
pub(super) const RST0: u8 = 0xd0;

/// Bytes of zeros behind the data of a reader.
const PADDING: usize = 8;

/// Where entropy-coded data end: how many bytes there are up to the next marker, their stuffing among them; that marker; and what
/// follows it. `None` if there is none, or if fill bytes lead to no marker (T.81, B.1.1.2).
pub(super) fn end_of_data(bytes: &[u8]) -> Option<(usize, u8, &[u8])> {
    let mut ends = memchr::memchr_iter(0xff, bytes);
    let end = ends.find(|at| bytes.get(at + 1).is_some_and(|&next| next != 0))?;
    let fill = bytes[end..].iter().take_while(|&&byte| byte == 0xff).count();
    let (&marker, behind) = bytes[end + fill..].split_first()?;
    (marker != 0).then_some((end, marker, behind))
}

/// Copies entropy-coded data without their stuffing, and pads them for [`BitReader`]. `None` if there is no memory for that.
pub(super) fn unstuff(mut stuffed: &[u8], data: &mut Vec<u8>) -> Option<()> {
    data.clear();
    data.try_reserve_exact(stuffed.len() + PADDING).ok()?;
    while let Some(at) = memchr::memchr(0xff, stuffed) {
        data.extend_from_slice(&stuffed[..=at]);
        stuffed = &stuffed[at + 2..];
    }
    data.extend_from_slice(stuffed);
    data.extend_from_slice(&[0; PADDING]);
    Some(())
}

/// Takes bits from the data of [`unstuff`]. Behind its end there are zeros; [`BitReader::finish`] tells whether they were needed.
pub(super) struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
    /// The next bits, the first one topmost.
    buffer: u64,
    /// How many of them are counted as there; more may be.
    held: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, buffer: 0, held: 0 }
    }

    /// Bits of the data.
    pub(super) fn length(&self) -> usize {
        (self.data.len() - PADDING) * 8
    }

    /// Has at least [`BitReader::FILLED`] bits there.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        let next = self.data.get(self.at..).and_then(<[u8]>::first_chunk);
        self.buffer |= next.map_or(0, |bytes| u64::from_be_bytes(*bytes)) >> self.held;
        self.at += ((63 - self.held) / 8) as usize;
        self.held |= Self::FILLED;
    }

    /// Bits that are there after a fill, at least.
    pub(super) const FILLED: u32 = 56;

    /// The next bits, at most 32, of those that are there.
    #[inline(always)]
    pub(super) fn peek(&self, bits: u32) -> u32 {
        (self.buffer >> 1 >> (63 - bits)) as u32
    }

    /// Leaves bits behind, of those that are there.
    #[inline(always)]
    pub(super) fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.held -= bits;
    }

    #[inline(always)]
    pub(super) fn take(&mut self, bits: u32) -> u32 {
        let taken = self.peek(bits);
        self.skip(bits);
        taken
    }

    /// Whether the data have been taken to their last byte, and no further.
    pub(super) fn finish(&self) -> Option<()> {
        let taken = self.at * 8 - self.held as usize;
        self.length().checked_sub(taken).filter(|left| *left < 8).map(|_| ())
    }
}

/// Bits that are not yet a word.
struct Pending {
    /// Fewer than 64; above them anything.
    bits: u64,
    /// How many more make a word.
    room: u32,
}

impl Default for Pending {
    fn default() -> Self {
        Self { bits: 0, room: u64::BITS }
    }
}

impl Pending {
    /// Appends the last `count` bits of `bits`, at most 32; the others are zero. Gives the word that they complete to `write`.
    #[inline(always)]
    fn put(&mut self, bits: u32, count: u32, write: impl FnOnce(u64)) {
        if count < self.room {
            self.bits = self.bits << count | u64::from(bits);
            self.room -= count;
        } else {
            let further = count - self.room;
            write(self.bits << self.room | u64::from(bits) >> further);
            self.bits = bits.into();
            self.room = u64::BITS - further;
        }
    }

    /// Appends a whole word; gives the word that it completes to `write`.
    #[inline(always)]
    fn put_word(&mut self, word: u64, write: impl FnOnce(u64)) {
        let held = u64::BITS - self.room;
        write(if held == 0 { word } else { self.bits << self.room | word >> held });
        self.bits = word;
    }
}

/// Appends bits to a file.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: Pending,
    /// Intervals that have ended.
    restarts: usize,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: Pending::default(), restarts: 0 }
    }

    /// Appends what was collected.
    pub(super) fn append(&mut self, collected: &BitCollector) {
        let mut first = 0;
        for (number, &(end, bits)) in collected.intervals.iter().enumerate() {
            if number > 0 {
                self.restart();
            }
            let (words, rest) = collected.bytes[first..end].as_chunks();
            for &word in words {
                self.pending.put_word(u64::from_be_bytes(word), |word| write_word(self.out, word));
            }
            for &byte in rest {
                self.put(byte.into(), 8);
            }
            if bits > 0 {
                self.put(u32::from(collected.bytes[end] >> (8 - bits)), bits);
            }
            first = end + 1;
        }
    }

    /// Fills the last byte with ones, and begins anew behind it.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        let missing = self.pending.room % 8;
        self.put((1 << missing) - 1, missing);
        let bytes = (u64::BITS - self.pending.room) as usize / 8;
        write_stuffed(self.out, &self.pending.bits.to_be_bytes()[8 - bytes..]);
        self.pending = Pending::default();
    }

    /// Appends the last `count` bits of `bits`, at most 32; the others are zero.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u32, count: u32) {
        self.pending.put(bits, count, |word| write_word(self.out, word));
    }

    /// Ends a restart interval.
    #[inline(always)]
    pub(super) fn restart(&mut self) {
        self.flush();
        self.out.extend([0xff, RST0 + (self.restarts % 8) as u8]);
        self.restarts += 1;
    }
}

/// Collects bits for which it is not yet known where in a byte they will begin.
#[derive(Default)]
pub(super) struct BitCollector {
    /// What counts ends at `at`; behind that there is room.
    bytes: Vec<u8>,
    /// Whole bytes.
    at: usize,
    /// The bits behind them are the lowest of these; above them anything.
    pending: u64,
    /// Fewer than 8.
    held: u32,
    /// Of each interval, which has bytes of its own: the number of its last byte, and how many bits are in that.
    intervals: Vec<(usize, u32)>,
}

/// Bytes that the bits of a block fit into: 64 symbols with their values, each of at most 32 bits, and the word written beyond them.
const BLOCK_ROOM: usize = 64 * 4 + 8;

impl BitCollector {
    pub(super) fn clear(&mut self) {
        (self.at, self.held) = (0, 0);
        self.intervals.clear();
    }

    /// Appends the bits of a block. `None` if there is no memory for them.
    #[inline(always)]
    pub(super) fn block(&mut self, put_bits: impl FnOnce(&mut BlockBits<'_>)) -> Option<()> {
        if self.bytes.len() < self.at + BLOCK_ROOM {
            self.grow()?;
        }
        let room = self.bytes[self.at..].first_chunk_mut()?;
        let mut bits = BlockBits { room, at: 0, pending: self.pending, held: self.held };
        put_bits(&mut bits);
        (self.pending, self.held) = (bits.pending, bits.held);
        self.at += bits.at;
        Some(())
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let more = self.bytes.len().max(1 << 16);
        self.bytes.try_reserve_exact(more).ok()?;
        self.bytes.resize(self.bytes.len() + more, 0);
        Some(())
    }

    /// Ends a restart interval, or the last one: then what is collected can be appended to a file.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        self.intervals.push((self.at, self.held));
        (self.at, self.held) = (self.at + 1, 0);
    }
}

/// The bits of a block. Each time a whole word is written over what is behind the last whole byte, so that there is nothing to decide,
/// and all but the room can be in registers.
pub(super) struct BlockBits<'a> {
    room: &'a mut [u8; BLOCK_ROOM],
    at: usize,
    pending: u64,
    held: u32,
}

impl BlockBits<'_> {
    /// Appends the last `count` bits of `bits`, at most 32; the others are zero.
    #[inline(always)]
    pub(super) fn put(&mut self, (bits, count): (u32, u32)) {
        self.pending = self.pending << count | u64::from(bits);
        self.held += count;
        let word = self.pending.wrapping_shl(u64::BITS - self.held);
        self.room[self.at..self.at + size_of_val(&word)].copy_from_slice(&word.to_be_bytes());
        self.at += self.held as usize / 8;
        self.held %= 8;
    }
}

#[inline(always)]
fn write_word(out: &mut Vec<u8>, word: u64) {
    const LOWEST: u64 = u64::MAX / 0xff;
    // Whether a byte of the word is 0xff: its complement has a byte of zero.
    if (!word).wrapping_sub(LOWEST) & word & (LOWEST << 7) == 0 {
        out.extend_from_slice(&word.to_be_bytes());
    } else {
        write_stuffed(out, &word.to_be_bytes());
    }
}

/// Not the writer's, which can stay in registers so.
#[cold]
fn write_stuffed(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0xff {
            out.push(0);
        }
    }
}
