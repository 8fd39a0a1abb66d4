//! A file that is read where it is asked for, so that pixels go from it straight into the slot.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::super::input::{HEAD, read_rest};
use super::super::{CodecError, Limits};
use super::ifd::Bytes;

/// How much is read at a time where little is wanted: tags, the rows of tiles.
const WINDOW: usize = HEAD as usize;

/// From so many bytes on a read goes past the window. Libtiff's strips are of 8 KiB.
const STRAIGHT: usize = 4 << 10;

/// A file, a part of which is in memory.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    file: &'a File,
    /// The part.
    window: &'a mut Vec<u8>,
    /// Where it begins.
    start: u64,
    /// Bytes of the whole file.
    length: u64,
    position: u64,
    /// What it says in other places than it does, and what.
    patches: Vec<(u64, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    /// A file whose head is in `buffer`.
    pub(super) fn new(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
    ) -> Result<Self, CodecError> {
        let about = file.metadata()?;
        let mut length = about.len();
        if !about.is_file() {
            // A pipe has no places, and no length until it ends.
            length = read_rest(file, buffer, limits)?.len() as u64;
        }
        Ok(Self { file, window: buffer, start: 0, length, position: 0, patches: Vec::new() })
    }

    /// Bytes of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.length
    }

    /// How much of it is in memory.
    pub(super) fn bytes_in_memory(&self) -> u64 {
        self.window.capacity() as u64
    }

    /// From now on the file reads as if these bytes stood at that place.
    pub(super) fn patch(&mut self, at: u64, bytes: Vec<u8>) {
        self.patches.push((at, bytes));
        apply(&self.patches, self.start, self.window);
    }

    /// What is in memory from an offset on.
    fn ready(&self, offset: u64) -> &[u8] {
        let skipped = offset.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        skipped.and_then(|skipped| self.window.get(skipped..)).unwrap_or_default()
    }

    /// Brings so many bytes into memory, or less if the file ends before.
    fn fill(&mut self, offset: u64, length: usize) -> io::Result<()> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = length.min(left);
        self.window.clear();
        // A large tag's room is not kept for the pixels' time.
        self.window.shrink_to(length.max(HEAD as usize));
        self.window.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        self.window.resize(length, 0);
        self.start = offset;
        let filled = self.file.read_exact_at(self.window, offset);
        if filled.is_err() {
            self.window.clear();
        }
        apply(&self.patches, offset, self.window);
        filled
    }

    /// Reads past the window.
    fn read_straight(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.position)?;
        apply(&self.patches, self.position, &mut into[..read]);
        self.position += read as u64;
        Ok(read)
    }
}

/// Puts patches over bytes that stand at `at`.
fn apply(patches: &[(u64, Vec<u8>)], at: u64, bytes: &mut [u8]) {
    for (place, patch) in patches {
        for (place, &byte) in (*place..).zip(patch) {
            let target = place.checked_sub(at).and_then(|i| bytes.get_mut(usize::try_from(i).ok()?));
            if let Some(target) = target {
                *target = byte;
            }
        }
    }
}

impl Bytes for Reader<'_> {
    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]> {
        if self.ready(offset as u64).len() < length {
            if offset.checked_add(length).is_none_or(|end| end > self.length()) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.fill(offset as u64, length.max(WINDOW))?;
        }
        Ok(&self.ready(offset as u64)[..length])
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ready(self.position).is_empty() {
            let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
            match into.len().min(left) {
                0 => return Ok(0),
                length @ STRAIGHT.. => return self.read_straight(&mut into[..length]),
                _ => self.fill(self.position, WINDOW)?,
            }
        }
        let ready = self.ready(self.position);
        let read = ready.len().min(into.len());
        into[..read].copy_from_slice(&ready[..read]);
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Reader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
        };
        self.position = position.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::input::read_head;
    use std::io::Write;

    const LIMITS: Limits = Limits { max_pixels: 0, max_bytes: 1 << 20 };

    /// Three windows and a bit.
    fn content() -> Vec<u8> {
        (0..3 * WINDOW as u32 + 100).map(|i| (i.wrapping_mul(2_654_435_761) >> 19) as u8).collect()
    }

    fn with_reader(content: &[u8], test: impl Fn(&mut Reader<'_>)) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        let mut buffer = Vec::new();
        read_head(&mut file, &mut buffer, &LIMITS).unwrap();
        test(&mut Reader::new(&mut file, &mut buffer, &LIMITS).unwrap());
    }

    #[test]
    fn any_read_anywhere_gives_the_files_bytes() {
        let mut expected = content();
        let patches = [(WINDOW - 4, vec![1; 12]), (2 * WINDOW + 100, vec![2; 20])];
        for (at, patch) in &patches {
            expected[*at..][..patch.len()].copy_from_slice(patch);
        }
        with_reader(&content(), |reader| {
            patches.iter().for_each(|(at, patch)| reader.patch(*at as u64, patch.clone()));
            let mut state = 1u32;
            let mut random = |below: usize| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as usize % below
            };
            for _ in 0..2_000 {
                let at = random(expected.len());
                let length = [1, 2, 100, STRAIGHT, 2 * WINDOW][random(5)].min(expected.len() - at);
                let wanted = &expected[at..at + length];
                if random(3) == 0 {
                    assert!(reader.at(at, length).unwrap() == wanted, "{length} bytes at {at}");
                } else {
                    let mut found = vec![0; length];
                    reader.seek(SeekFrom::Start(at as u64)).unwrap();
                    reader.read_exact(&mut found).unwrap();
                    assert!(found == wanted, "{length} bytes from {at} on");
                }
            }
        });
    }

    #[test]
    fn nothing_comes_from_behind_the_end() {
        let content = content();
        with_reader(&content, |reader| {
            for length in [1, STRAIGHT, 2 * WINDOW] {
                reader.seek(SeekFrom::End(10)).unwrap();
                assert_eq!(reader.read(&mut vec![0; length]).unwrap(), 0);
                reader.seek(SeekFrom::End(1 - length as i64)).unwrap();
                let error = reader.read_exact(&mut vec![0; length]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                let error = reader.at(content.len() + 1 - length, length).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            }
            assert_eq!(reader.at(usize::MAX, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
    }
}
