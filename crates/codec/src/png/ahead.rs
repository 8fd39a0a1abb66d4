//! Decompresses image data from somewhere in the middle on, before it is known what is in front of it.
//!
//! A block is looked for, and decompressed with marks in place of the bytes in front of it, which are not known yet; matches copy marks as
//! they copy bytes. It is used only if the data in front turn out to end where the block begins. Then the marks are replaced with the bytes
//! that they stand for. (As in pugz: Kerbiriou and Chikhi, *Parallel decompression of gzip-compressed files and random access to DNA
//! sequences*, 2019.)

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use super::inflate::Compressed;
use crate::inflate::{Inflater, WINDOW, find_block};

/// Bytes in which a block has to begin: more than those of zlib and libpng take.
const SEARCH: usize = 128 << 10;
/// Bytes behind a piece, in which its last block should end.
const BEHIND: usize = SEARCH;
/// The most symbols that are decompressed: more than a photograph has in a piece. What has more is decompressed quickly without help.
const MAX_SYMBOLS: usize = 640 << 10;
/// The first mark; what is below are bytes.
const MARK: u16 = 1 << 8;
/// Symbols that are replaced with bytes at a time.
const GROUP: usize = 32;
/// How often no block may be found, more often than one is, before nothing more is decompressed ahead.
const PATIENCE: isize = 4;

/// What is to be expected of decompressing ahead.
pub(super) struct Prospects {
    /// How often no block may still be found.
    patience: AtomicIsize,
    /// The number of the piece that is needed next. Whoever works on it ahead keeps others waiting.
    next: AtomicUsize,
}

impl Default for Prospects {
    fn default() -> Self {
        Self { patience: AtomicIsize::new(PATIENCE), next: AtomicUsize::new(0) }
    }
}

impl Prospects {
    /// The next piece is there.
    pub(super) fn advance(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }

    fn are_good(&self, number: usize) -> bool {
        number > self.next.load(Ordering::Relaxed) && self.patience.load(Ordering::Relaxed) > 0
    }

    fn learn(&self, was_found: bool) {
        self.patience.fetch_add(if was_found { 1 } else { -1 }, Ordering::Relaxed);
    }
}

/// What has been decompressed of a piece.
pub(super) struct Ahead {
    /// The bit where it begins, if there is anything.
    start: Option<usize>,
    /// The bit at which the piece ends, together with the block there.
    until: usize,
    input: Vec<u8>,
    /// If it was ever needed: the marks of the window in front, the symbols behind them, and room for more.
    symbols: Vec<u16>,
    filled: usize,
    inflater: Inflater,
}

impl Ahead {
    pub(super) fn new() -> Self {
        let (input, symbols) = (Vec::new(), Vec::new());
        Self { start: None, until: 0, input, symbols, filled: 0, inflater: Inflater::new(0) }
    }

    /// Decompresses a piece of `length` bytes of the data, as far as there is room, if prospects are good.
    pub(super) fn decompress(
        &mut self,
        data: &Compressed<'_>,
        number: usize,
        length: usize,
        prospects: &Prospects,
    ) {
        let from = number * length;
        let end = from + length;
        self.start = None;
        self.until = if end < data.bytes { 8 * end } else { usize::MAX };
        if !prospects.are_good(number) {
            return;
        }
        data.copy(from, length + BEHIND, &mut self.input);
        let found = find_block(&self.input, 0, 8 * SEARCH.min(length));
        prospects.learn(found.is_some());
        let Some(start) = found.map(|bit| 8 * from + bit) else { return };
        if self.symbols.is_empty() {
            self.symbols.extend(MARK..MARK + WINDOW as u16);
            self.symbols.resize(WINDOW + MAX_SYMBOLS, 0);
        }
        self.inflater.restart(start);
        // If the data are damaged, that is told when they are needed.
        let data = (self.input.as_slice(), from);
        if let Ok((filled, _)) = self.inflater.run(data, &mut self.symbols, WINDOW, self.until) {
            (self.start, self.filled) = (Some(start), filled);
        }
    }

    /// Returns the bit where what was decompressed begins, if anything was.
    pub(super) fn start(&self) -> Option<usize> {
        self.start
    }

    /// Returns the bit where the piece ends.
    pub(super) fn until(&self) -> usize {
        self.until
    }

    /// Returns the symbols that were decompressed.
    pub(super) fn symbols(&self) -> &[u16] {
        &self.symbols[WINDOW..self.filled]
    }

    /// Returns the inflater, which is behind the last symbol.
    pub(super) fn inflater(&mut self) -> &mut Inflater {
        &mut self.inflater
    }
}

/// What marks stand for.
pub(super) struct Marks {
    /// The bytes, which stand for themselves, and behind them those that the marks stand for.
    bytes: Vec<u8>,
}

impl Marks {
    pub(super) fn new(window: &[u8; WINDOW]) -> Self {
        Self { bytes: (0..=u8::MAX).chain(window.iter().copied()).collect() }
    }

    /// Writes the bytes of as many symbols.
    pub(super) fn replace(&self, symbols: &[u16], bytes: &mut [u8]) {
        for (symbols, bytes) in symbols.chunks(GROUP).zip(bytes.chunks_mut(GROUP)) {
            if symbols.iter().fold(0, |all, symbol| all | symbol) < MARK {
                bytes.iter_mut().zip(symbols).for_each(|(byte, &symbol)| *byte = symbol as u8);
            } else {
                bytes
                    .iter_mut()
                    .zip(symbols)
                    .for_each(|(byte, &symbol)| *byte = self.bytes[usize::from(symbol)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::super::chunks::ImageData;
    use super::*;
    use crate::inflate::Halt;
    use crate::samples::tests::noise;

    const PIECE: usize = 60_000;

    fn deflated(data: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn chunk(stream: &[u8]) -> Vec<u8> {
        [&(stream.len() as u32).to_be_bytes(), b"IDAT", stream, &[0; 4]].concat()
    }

    #[test]
    fn pieces_begin_where_the_stream_gets_and_have_its_bytes() {
        let noise = noise(900_000, 5);
        let data: Vec<u8> = noise.iter().enumerate().map(|(at, byte)| (at / 777) as u8 ^ byte >> 4).collect();
        let stream = deflated(&data, 6);
        let chunk = chunk(&stream);
        let compressed = Compressed::new(ImageData::new(&chunk));
        let (mut inflater, mut bytes, mut filled) = (Inflater::new(0), vec![0; data.len()], 0);
        let (mut ahead, prospects) = (Ahead::new(), Prospects::default());
        let pieces = stream.len().div_ceil(PIECE);
        assert!(pieces > 4, "{pieces} pieces");
        for number in 1..pieces {
            ahead.decompress(&compressed, number, PIECE, &prospects);
            let position = 8 * number * PIECE;
            (filled, _) = inflater.run((&stream, 0), &mut bytes, filled, position).unwrap();
            // In the last piece, there may be the middle of the last block alone.
            if number + 1 < pieces {
                assert_eq!(ahead.start(), Some(inflater.position()), "piece {number}");
                let mut replaced = vec![0; ahead.symbols().len()];
                Marks::new(bytes[..filled].last_chunk().unwrap()).replace(ahead.symbols(), &mut replaced);
                assert!(data[filled..].starts_with(&replaced), "piece {number}");
                assert!(replaced.len() > PIECE / 2, "piece {number}");
            }
        }
        assert_eq!(inflater.run((&stream, 0), &mut bytes, filled, usize::MAX).unwrap().1, Halt::End);
    }

    #[test]
    fn nothing_is_looked_for_where_it_is_needed_at_once_or_never_found() {
        let noise = noise(10 * PIECE, 5);
        let stream = deflated(&noise, 0);
        let chunk = chunk(&stream);
        let compressed = Compressed::new(ImageData::new(&chunk));
        let (mut ahead, prospects) = (Ahead::new(), Prospects::default());
        for number in 1..=PATIENCE as usize {
            assert!(prospects.are_good(number));
            ahead.decompress(&compressed, number, PIECE, &prospects);
            assert_eq!(ahead.start(), None);
        }
        assert!(!prospects.are_good(9));
        let prospects = Prospects::default();
        prospects.advance();
        assert!(!prospects.are_good(0) && !prospects.are_good(1) && prospects.are_good(2));
    }

    #[test]
    fn marks_are_replaced_among_bytes_and_alone() {
        let window: [u8; WINDOW] = noise(WINDOW, 3).try_into().unwrap();
        let places = noise(1000, 4);
        let symbols: Vec<u16> = (0..1000_u16)
            .map(|at| if at > 500 && places[usize::from(at)] > 200 { MARK + at * 32 } else { at % 256 })
            .collect();
        let mut bytes = vec![0; symbols.len()];
        Marks::new(&window).replace(&symbols, &mut bytes);
        for (&symbol, &byte) in symbols.iter().zip(&bytes) {
            let expected = if symbol < MARK { symbol as u8 } else { window[usize::from(symbol - MARK)] };
            assert_eq!(byte, expected);
        }
    }
}
