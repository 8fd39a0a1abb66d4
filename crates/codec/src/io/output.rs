//! Destinations of bytes: the buffer of a compressor, and a file from an offset on.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use super::input::waiting_for_file;

/// A buffer that bytes are appended to. It is reused without being zeroed again.
#[derive(Default)]
pub(crate) struct Output {
    /// The bytes that were appended, and spare room after them.
    bytes: Vec<u8>,
    filled: usize,
}

impl Output {
    /// Forgets the bytes, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Returns room for at least `count` more bytes.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        let needed = self.filled + count;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Appends the first `count` bytes of the room.
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// Returns the bytes that were appended.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

/// A file that is read or written from an offset on.
#[derive(Clone, Copy)]
pub(crate) struct FileAt<'f> {
    pub(crate) file: &'f File,
    pub(crate) at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = waiting_for_file(|| self.file.read_at(into, self.at))?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Write for FileAt<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
