//! Entropy-coded bits, with the byte stuffing of T.81, F.1.2.3.

/// The first of the eight restart markers.
pub(super) const RST0: u8 = 0xd0;

/// Zero bytes after the data of a [`BitReader`].
const PADDING: usize = 8;

/// Finds the end of entropy-coded data.
///
/// Returns their length in bytes up to the next marker, including stuffing; that marker; and the
/// rest. `None` if there is no marker, or if fill bytes are not followed by one (T.81, B.1.1.2).
pub(super) fn end_of_data(bytes: &[u8]) -> Option<(usize, u8, &[u8])> {
    let mut ends = memchr::memchr_iter(0xff, bytes);
    let end = ends.find(|at| bytes.get(at + 1).is_some_and(|&next| next != 0))?;
    let fill = bytes[end..].iter().take_while(|&&byte| byte == 0xff).count();
    let (&marker, behind) = bytes[end + fill..].split_first()?;
    (marker != 0).then_some((end, marker, behind))
}

/// Copies entropy-coded data without their stuffing, and pads them for [`BitReader`].
///
/// They end where [`end_of_data`] finds their end. `None` if there is not enough memory.
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

/// Reads bits from data that [`unstuff`] has prepared.
///
/// Zeros follow the end of the data; [`BitReader::finish`] checks that these were not taken.
pub(super) struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
    /// The next bits, starting with the most significant one.
    buffer: u64,
    /// The number of bits of the buffer that count as filled; there may be more.
    held: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, buffer: 0, held: 0 }
    }

    /// Returns the length of the data in bits.
    pub(super) fn length(&self) -> usize {
        (self.data.len() - PADDING) * 8
    }

    /// Fills the buffer with at least [`BitReader::FILLED`] bits.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        let next = self.data.get(self.at..).and_then(<[u8]>::first_chunk);
        self.buffer |= next.map_or(0, |bytes| u64::from_be_bytes(*bytes)) >> self.held;
        self.at += ((63 - self.held) / 8) as usize;
        self.held |= Self::FILLED;
    }

    /// The least number of bits in the buffer after a fill.
    pub(super) const FILLED: u32 = 56;

    /// Returns the next bits of the buffer, at most 32, without taking them.
    #[inline(always)]
    pub(super) fn peek(&self, bits: u32) -> u32 {
        (self.buffer >> 1 >> (63 - bits)) as u32
    }

    /// Skips bits of the buffer.
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

    /// Checks that the data have been read into their last byte, and not beyond it.
    ///
    /// `None` otherwise.
    pub(super) fn finish(&self) -> Option<()> {
        let taken = self.at * 8 - self.held as usize;
        self.length().checked_sub(taken).filter(|left| *left < 8).map(|_| ())
    }
}

/// Bits that do not make a whole word yet.
struct Pending {
    /// The pending bits, fewer than 64, are the lowest; those above them are arbitrary.
    bits: u64,
    /// The number of bits that complete a word.
    room: u32,
}

impl Default for Pending {
    fn default() -> Self {
        Self { bits: 0, room: u64::BITS }
    }
}

impl Pending {
    /// Appends the lowest `count` bits of `bits`, at most 32; the other bits must be zero.
    ///
    /// Passes a completed word to `write`.
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

    /// Appends a whole word, and passes the word that it completes to `write`.
    #[inline(always)]
    fn put_word(&mut self, word: u64, write: impl FnOnce(u64)) {
        let held = u64::BITS - self.room;
        write(if held == 0 { word } else { self.bits << self.room | word >> held });
        self.bits = word;
    }
}

/// Appends bits to a file, with byte stuffing.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: Pending,
    /// The number of restart markers written.
    restarts: usize,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: Pending::default(), restarts: 0 }
    }

    /// Appends the bits of a [`BitCollector`], with restart markers between its intervals.
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

    /// Pads the last byte with ones, and writes all pending bits.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        let missing = self.pending.room % 8;
        self.put((1 << missing) - 1, missing);
        let bytes = (u64::BITS - self.pending.room) as usize / 8;
        write_stuffed(self.out, &self.pending.bits.to_be_bytes()[8 - bytes..]);
        self.pending = Pending::default();
    }

    /// Appends the lowest `count` bits of `bits`, at most 32; the other bits must be zero.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u32, count: u32) {
        self.pending.put(bits, count, |word| write_word(self.out, word));
    }

    /// Ends a restart interval with a restart marker.
    #[inline(always)]
    pub(super) fn restart(&mut self) {
        self.flush();
        self.out.extend([0xff, RST0 + (self.restarts % 8) as u8]);
        self.restarts += 1;
    }
}

/// Collects bits to be appended to a file at a bit position that is not known yet.
#[derive(Default)]
pub(super) struct BitCollector {
    /// The bytes collected, up to `at`, followed by spare room.
    bytes: Vec<u8>,
    /// The number of whole bytes collected.
    at: usize,
    /// The bits that follow the whole bytes are the lowest; those above them are arbitrary.
    pending: u64,
    /// The number of bits after the whole bytes: fewer than 8.
    held: u32,
    /// For each finished interval, the index of its last byte and the number of bits in it.
    ///
    /// An interval begins at a new byte; its last one is incomplete.
    intervals: Vec<(usize, u32)>,
}

/// Bytes that are enough for a block.
///
/// It may have 64 symbols with their values, of at most 32 bits each, and the word written beyond
/// them.
const BLOCK_ROOM: usize = 64 * 4 + 8;

impl BitCollector {
    pub(super) fn clear(&mut self) {
        (self.at, self.held) = (0, 0);
        self.intervals.clear();
    }

    /// Appends the bits of a block, written by `put_bits`.
    ///
    /// `None` if there is no memory for them.
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

    /// Ends a restart interval.
    ///
    /// Once the last one has ended, the bits can be appended to a file.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        self.intervals.push((self.at, self.held));
        (self.at, self.held) = (self.at + 1, 0);
    }
}

/// Collects the bits of a block.
///
/// Each put writes a whole word after the last whole byte, over the end of the word before, which
/// needs no branches. Everything but the room can stay in registers.
pub(super) struct BlockBits<'a> {
    room: &'a mut [u8; BLOCK_ROOM],
    at: usize,
    pending: u64,
    held: u32,
}

impl BlockBits<'_> {
    /// Appends the lowest `count` bits of `bits`, at most 32; the other bits must be zero.
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
    // A byte of the word is 0xff if one of its complement is zero.
    if (!word).wrapping_sub(LOWEST) & word & (LOWEST << 7) == 0 {
        out.extend_from_slice(&word.to_be_bytes());
    } else {
        write_stuffed(out, &word.to_be_bytes());
    }
}

/// Writes bytes with stuffing.
///
/// It is not a method of [`BitWriter`], to let the writer's fields stay in registers.
#[cold]
fn write_stuffed(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0xff {
            out.push(0);
        }
    }
}
