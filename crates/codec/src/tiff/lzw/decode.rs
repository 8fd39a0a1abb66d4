//! Decompression, string by string. A new string is the last one and a byte more, and is already in the output: a table entry tells where.
//! The entry also has the string's first bytes, so that short strings, which photographs are made of, are written as one word without
//! reading the output, and no differently from single bytes.

use std::ops::Range;

use super::{CLEAR, END, FIRST, LONGEST_CODE, SHORTEST_CODE};

/// Bytes of a word, by which strings are copied.
const WORD: usize = 8;
/// Bytes of any value that must follow the data, because codes are read as words.
pub(in crate::tiff) const PADDING: usize = WORD;
/// Entries of the table.
const ENTRIES: usize = 1 << LONGEST_CODE;

/// Bytes of a decoder's table.
pub(in crate::tiff) const DECODER_BYTES: u64 = (size_of::<Entry>() * ENTRIES) as u64;

/// What is wrong with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiff) enum Damage {
    /// The data end before the output is full.
    Short,
    /// A code has no meaning at its place.
    Code,
}

/// A string in one word, so that the table is no larger than a first-level cache: 24 bits for its first bytes, the very first one lowest;
/// 12 bits for its length; 28 bits for where it begins in the output since the table was cleared. (Strings of all possible lengths, one
/// after the other, have fewer than 2^23 bytes.)
#[derive(Clone, Copy)]
struct Entry(u64);

/// Bytes of a string that fit into its entry.
const HEAD: usize = 3;

impl Entry {
    const LENGTH: u32 = 24;
    const START: u32 = 36;

    fn byte(byte: u8) -> Self {
        Self(u64::from(byte) | 1 << Self::LENGTH)
    }

    fn first(self) -> u8 {
        self.0 as u8
    }

    fn head(self) -> u32 {
        self.0 as u32
    }

    fn length(self) -> usize {
        (self.0 >> Self::LENGTH) as usize & 0xfff
    }

    fn start(self) -> usize {
        (self.0 >> Self::START) as usize
    }

    /// Returns the string and a byte more, which begins at `start` in the output.
    fn with(self, byte: u8, start: usize) -> Self {
        let length = self.length();
        let byte = if length < HEAD { u64::from(byte) << (8 * length) } else { 0 };
        let kept = self.0 & ((1 << Self::START) - 1);
        Self((kept | byte | (start as u64) << Self::START) + (1 << Self::LENGTH))
    }
}

/// The table of strings, worth reusing.
pub(in crate::tiff) struct Decoder {
    table: Box<[Entry; ENTRIES]>,
}

impl Default for Decoder {
    fn default() -> Self {
        let mut table = Box::new([Entry::byte(0); ENTRIES]);
        for (byte, entry) in (0..=u8::MAX).zip(table.iter_mut()) {
            *entry = Entry::byte(byte);
        }
        Self { table }
    }
}

impl Decoder {
    /// Fills `target` from `data`, whose last [`PADDING`] bytes are not part of the compressed data. Data beyond what is needed are
    /// ignored.
    pub(in crate::tiff) fn decode(&mut self, data: &[u8], target: &mut [u8]) -> Result<(), Damage> {
        let mut codes = Codes { data, at: 0 };
        let filled = self.fill(&mut codes, target);
        // The padding may have been taken for codes.
        if codes.at > 8 * (data.len() - PADDING) { Err(Damage::Short) } else { filled }
    }

    fn fill(&mut self, codes: &mut Codes<'_>, mut target: &mut [u8]) -> Result<(), Damage> {
        while !target.is_empty() {
            let filled = self.until_cleared(codes, target)?;
            target = &mut target[filled..];
        }
        Ok(())
    }

    /// Decodes until the next Clear code or the end of `target`, starting with an empty table; returns the number of bytes.
    fn until_cleared(&mut self, codes: &mut Codes<'_>, target: &mut [u8]) -> Result<usize, Damage> {
        let first = loop {
            match codes.next(SHORTEST_CODE)? {
                CLEAR => {}
                code if code < CLEAR => break self.table[code],
                _ => return Err(Damage::Code),
            }
        };
        target[0] = first.first();
        let mut text = Text { target, filled: 1, last: first, start: 0 };
        for width in SHORTEST_CODE..=LONGEST_CODE {
            // Codes get longer one code earlier than necessary.
            let strings =
                if width == SHORTEST_CODE { FIRST } else { (1 << (width - 1)) - 1 }..(1 << width) - 1;
            if self.add(strings, width, codes, &mut text)? {
                return Ok(text.filled.min(text.target.len()));
            }
        }
        // The table is as full as it gets, except for its last entry.
        let _ = self.add(ENTRIES - 1..usize::MAX, LONGEST_CODE, codes, &mut text)?;
        Ok(text.filled.min(text.target.len()))
    }

    /// Reads codes, each of which makes one of the `strings`. Returns whether a Clear code came, or the end of the target.
    fn add(
        &mut self,
        strings: Range<usize>,
        width: u32,
        codes: &mut Codes<'_>,
        text: &mut Text<'_>,
    ) -> Result<bool, Damage> {
        for next in strings {
            if text.filled >= text.target.len() {
                return Ok(true);
            }
            let code = codes.next(width)?;
            if code & !1 == CLEAR {
                return if code == END { Err(Damage::Short) } else { Ok(true) };
            }
            if code >= next {
                // The string that is about to be made: the byte it adds is its own first byte.
                if code > next {
                    return Err(Damage::Code);
                }
                self.table[code % ENTRIES] = text.last.with(text.last.first(), text.start);
            }
            let entry = self.table[code % ENTRIES];
            if next < ENTRIES {
                self.table[next] = text.last.with(entry.first(), text.start);
            }
            text.put(entry);
        }
        Ok(false)
    }
}

/// The output, and its last string.
struct Text<'t> {
    target: &'t mut [u8],
    filled: usize,
    last: Entry,
    /// Where the last string begins.
    start: usize,
}

impl Text<'_> {
    #[inline(always)]
    fn put(&mut self, entry: Entry) {
        let (at, length) = (self.filled, entry.length());
        if let Some(word) = self.target.get_mut(at..at + 4)
            && length <= HEAD
        {
            word.copy_from_slice(&entry.head().to_le_bytes());
        } else {
            copy(self.target, entry, at);
        }
        (self.last, self.start) = (entry, at);
        self.filled += length;
    }
}

/// Copies a string to `at` from where it first began, as much of it as there is room for.
#[inline(never)]
fn copy(target: &mut [u8], entry: Entry, at: usize) {
    let (start, length) = (entry.start(), entry.length());
    if length == 1 {
        target[at] = entry.first();
    } else if at + length.next_multiple_of(WORD) > target.len() {
        for i in 0..length.min(target.len() - at) {
            target[at + i] = target[start + i];
        }
    } else {
        // A string that was only just made overlaps its own copy by one byte.
        target[at] = entry.first();
        for done in (0..length).step_by(WORD) {
            let word: [u8; WORD] = target[start + done..][..WORD].try_into().expect("it is a word");
            target[at + done..][..WORD].copy_from_slice(&word);
        }
    }
}

/// Reads codes, the highest bit first.
struct Codes<'d> {
    data: &'d [u8],
    /// The index of the next bit.
    at: usize,
}

impl Codes<'_> {
    #[inline(always)]
    fn next(&mut self, width: u32) -> Result<usize, Damage> {
        let word = self.data.get(self.at / 8..).and_then(|rest| rest.first_chunk()).ok_or(Damage::Short)?;
        let code = u64::from_be_bytes(*word) << (self.at % 8) >> (u64::BITS - width);
        self.at += width as usize;
        Ok(code as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;

    fn compressed(text: &[u8]) -> Vec<u8> {
        weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(text).unwrap()
    }

    fn decoded(data: &[u8], length: usize) -> Result<Vec<u8>, Damage> {
        let mut target = vec![0xee; length];
        let padded = [data, &[0xff; PADDING]].concat();
        Decoder::default().decode(&padded, &mut target).map(|()| target)
    }

    fn texts() -> Vec<Vec<u8>> {
        let noise = noise(60_000, 1);
        let repeated = |length: usize| noise[..length].iter().copied().cycle().take(60_000).collect();
        vec![
            noise.clone(),
            noise.iter().map(|byte| byte >> 6).collect(),
            noise.iter().map(|byte| byte.count_ones() as u8).collect(),
            repeated(1),
            repeated(2),
            repeated(7),
            repeated(300),
        ]
    }

    #[test]
    fn texts_of_any_length_come_back() {
        for (number, text) in texts().iter().enumerate() {
            for length in (1..40).chain([250, 255, 256, 511, 1000, 3900, 5000, 20_000, 60_000]) {
                let data = compressed(&text[..length]);
                assert!(decoded(&data, length).as_deref() == Ok(&text[..length]), "text {number}, {length}");
                // A strip may hold more rows than the picture.
                for cut in 1..length.min(20) {
                    let expected = &text[..length - cut];
                    assert!(
                        decoded(&data, length - cut).as_deref() == Ok(expected),
                        "text {number}, {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn data_that_end_early_are_told() {
        for text in texts() {
            let data = compressed(&text);
            for length in [0, 1, 2, data.len() / 2, data.len() - 4] {
                assert_eq!(decoded(&data[..length], text.len()), Err(Damage::Short), "{length} bytes");
            }
            assert_eq!(decoded(&data, text.len() + 1), Err(Damage::Short), "the end comes first");
        }
    }

    #[test]
    fn codes_without_a_meaning_are_told() {
        let bits = |codes: &[u16]| -> Vec<u8> {
            let text: String = codes.iter().map(|code| format!("{code:09b}")).collect();
            let byte = |bits: &[u8]| bits.iter().enumerate().map(|(i, bit)| (bit - b'0') << (7 - i)).sum();
            text.as_bytes().chunks(8).map(byte).collect()
        };
        // A string right behind the Clear code, and one that does not exist yet.
        for codes in [&[256, 258][..], &[256, 65, 259], &[256, 65, 258, 260]] {
            assert_eq!(decoded(&bits(codes), 100), Err(Damage::Code), "{codes:?}");
        }
        // The longest strings that are possible so early, each a byte longer than the last.
        let codes: Vec<u16> = [256, 65].into_iter().chain(258..400).collect();
        let length = (1..=143).sum();
        assert_eq!(decoded(&bits(&codes), length), Ok(vec![65; length]));
        // The Clear code at the start may be missing, and there may be two in a row.
        assert_eq!(decoded(&bits(&[65, 66, 256, 256, 67, 258]), 5).as_deref(), Ok(&b"ABCCC"[..]));
    }

    #[test]
    fn a_table_may_stay_full() {
        // Noise without a further Clear code, in codes of 12 bits from the string with the code 2,047 on.
        let text = noise(9000, 2);
        let mut bits = String::from("100000000");
        for (byte, next) in text.iter().zip(FIRST - 1..) {
            let width =
                (usize::BITS - (next + 1).leading_zeros()).clamp(SHORTEST_CODE, LONGEST_CODE) as usize;
            bits.push_str(&format!("{byte:0width$b}"));
        }
        let byte = |bits: &[u8]| bits.iter().enumerate().map(|(i, bit)| (bit - b'0') << (7 - i)).sum();
        let data: Vec<u8> = bits.as_bytes().chunks(8).map(byte).collect();
        assert!(decoded(&data, text.len()).as_ref() == Ok(&text));
    }
}
