//! A file that is read at any offset, with pixels going from it straight into the slot.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use super::budget::Budget;
use super::input::{HEAD, read_rest, waiting_for_file};
use crate::{CodecError, Limits};

/// Bytes that are read at a time where few are wanted.
const WINDOW: usize = HEAD as usize;

/// Bytes with random access, in memory or in a file.
pub(crate) trait Bytes {
    /// Returns the number of bytes.
    fn length(&self) -> usize;

    /// Returns `length` bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if they are not all there; otherwise the system's.
    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]>;

    /// Returns a copy of `length` bytes from `offset` on.
    ///
    /// # Errors
    /// As for [`Bytes::at`].
    fn copy(&mut self, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        self.at(offset, length).map(<[u8]>::to_vec)
    }
}

impl Bytes for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]> {
        let found = offset.checked_add(length).and_then(|end| self.get(offset..end));
        found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

/// A file, part of which is in memory.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    file: &'a File,
    /// The part in memory.
    window: &'a mut Vec<u8>,
    /// The offset of that part.
    start: u64,
    /// Bytes of the whole file.
    length: u64,
}

impl<'a> Reader<'a> {
    /// Makes a reader for a file whose head is in `buffer`.
    pub(crate) fn new(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
        budget: &mut dyn Budget,
    ) -> Result<Self, CodecError> {
        let about = file.metadata()?;
        let mut length = about.len();
        if !about.is_file() {
            // A pipe cannot be read at an offset, and has no length until it ends.
            length = read_rest(file, buffer, limits, budget)?.len() as u64;
        }
        Ok(Self { file, window: buffer, start: 0, length })
    }

    /// Returns the length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.length
    }

    /// Checks that the file has `length` bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if it does not.
    pub(crate) fn check(&self, offset: u64, length: u64) -> io::Result<()> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if inside { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// As for [`Reader::check`], and the system's.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(offset, into.len() as u64)?;
        let ready = self.ready(offset);
        let (known, further) = into.split_at_mut(ready.len().min(into.len()));
        known.copy_from_slice(&ready[..known.len()]);
        if further.is_empty() {
            return Ok(());
        }
        waiting_for_file(|| self.file.read_exact_at(further, offset + known.len() as u64))
    }

    /// Returns the bytes in memory from an offset on.
    fn ready(&self, offset: u64) -> &[u8] {
        let skipped = offset.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        skipped.and_then(|skipped| self.window.get(skipped..)).unwrap_or_default()
    }

    /// Reads `length` bytes into memory, or fewer if the file ends first.
    fn fill(&mut self, offset: u64, length: usize) -> io::Result<()> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = length.min(left);
        self.window.clear();
        // The room for a large directory is not kept while the pixels are read.
        self.window.shrink_to(length.max(HEAD as usize));
        self.window.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        self.window.resize(length, 0);
        self.start = offset;
        let filled = waiting_for_file(|| self.file.read_exact_at(self.window, offset));
        if filled.is_err() {
            self.window.clear();
        }
        filled
    }
}

impl Bytes for Reader<'_> {
    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]> {
        if self.ready(offset as u64).len() < length {
            self.check(offset as u64, length as u64)?;
            self.fill(offset as u64, length.max(WINDOW))?;
        }
        Ok(&self.ready(offset as u64)[..length])
    }

    /// A large value does not go through the window.
    fn copy(&mut self, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        if length <= WINDOW {
            return self.at(offset, length).map(<[u8]>::to_vec);
        }
        let mut data = Vec::new();
        data.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        data.resize(length, 0);
        self.read_at(&mut data, offset as u64)?;
        Ok(data)
    }
}

pub(crate) fn resize(buffer: &mut Vec<u8>, length: usize) -> Result<(), CodecError> {
    let further = length.saturating_sub(buffer.len());
    buffer.try_reserve_exact(further).map_err(|_| CodecError::OutOfMemory { bytes: Some(length as u64) })?;
    buffer.resize(length, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::budget::Unbounded;
    use crate::io::input::read_head;
    use std::io::{Seek, Write};

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
        read_head(&mut file, &mut buffer).unwrap();
        test(&mut Reader::new(&mut file, &mut buffer, &LIMITS, &mut Unbounded).unwrap());
    }

    #[test]
    fn any_read_anywhere_gives_the_files_bytes() {
        let expected = content();
        with_reader(&expected, |reader| {
            let mut state = 1u32;
            let mut random = |below: usize| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as usize % below
            };
            for _ in 0..2_000 {
                let at = random(expected.len());
                let length = [1, 2, 100, 4096, 2 * WINDOW][random(5)].min(expected.len() - at);
                let wanted = &expected[at..at + length];
                match random(4) {
                    0 => assert!(reader.at(at, length).unwrap() == wanted, "{length} bytes at {at}"),
                    1 => assert!(reader.copy(at, length).unwrap() == wanted, "{length} copied from {at} on"),
                    _ => {
                        let mut found = vec![0; length];
                        reader.read_at(&mut found, at as u64).unwrap();
                        assert!(found == wanted, "{length} bytes from {at} on");
                    }
                }
            }
        });
    }

    #[test]
    fn nothing_comes_from_behind_the_end() {
        let content = content();
        with_reader(&content, |reader| {
            for length in [1, 4096, 2 * WINDOW] {
                let at = content.len() + 1 - length;
                let error = reader.read_at(&mut vec![0; length], at as u64).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                assert_eq!(reader.at(at, length).unwrap_err().kind(), ErrorKind::UnexpectedEof);
                assert_eq!(reader.copy(at, length).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            }
            assert_eq!(reader.at(usize::MAX, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert_eq!(reader.check(u64::MAX, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
    }
}
