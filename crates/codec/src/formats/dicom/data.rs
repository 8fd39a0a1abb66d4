//! The bytes that hold a data set: the file, or its inflated content.

use std::io::{self, ErrorKind, Read};

use flate2::read::DeflateDecoder;

use super::malformed;
use crate::io::budget::{Budget, ask};
use crate::io::reader::{Bytes, Reader, resize};
use crate::{CodecError, Limits};

/// The bytes that hold a data set.
#[derive(Debug)]
pub(super) struct Data<'a> {
    file: Reader<'a>,
    /// The inflated content, in the place of the file's bytes.
    inflated: Option<Vec<u8>>,
}

impl<'a> Data<'a> {
    pub(super) fn new(file: Reader<'a>) -> Self {
        Self { file, inflated: None }
    }

    /// Returns the number of bytes that are in memory.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.inflated.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Returns a decoder that inflates the bytes of the file from `start` on.
    fn inflater(&self, start: u64) -> DeflateDecoder<FileFrom<'_, 'a>> {
        DeflateDecoder::new(FileFrom { file: &self.file, at: start })
    }

    /// Inflates the bytes from `start` on (PS3.5, A.5), and puts them after the bytes before.
    ///
    /// A first pass finds their length, before memory is taken.
    pub(super) fn inflate(
        &mut self,
        start: u64,
        limits: &Limits,
        budget: &mut dyn Budget,
    ) -> Result<(), CodecError> {
        let most = limits.max_bytes.saturating_add(1);
        let length = io::copy(&mut self.inflater(start).take(most), &mut io::sink()).map_err(not_inflated)?;
        if length > limits.max_bytes {
            return Err(CodecError::too_long("what is deflated in it", limits.max_bytes, None));
        }
        ask(budget, start + length, "a deflated data set")?;
        let mut bytes = Vec::new();
        resize(&mut bytes, (start + length) as usize)?;
        let (before, behind) = bytes.split_at_mut(start as usize);
        self.file.read_at(before, 0)?;
        self.inflater(start).read_exact(behind).map_err(not_inflated)?;
        self.inflated = Some(bytes);
        Ok(())
    }

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the bytes are not all there; otherwise the system's.
    pub(super) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(bytes) = &self.inflated else { return self.file.read_at(into, offset) };
        let from = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let found = from.and_then(|bytes| bytes.get(..into.len())).ok_or(ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(found);
        Ok(())
    }
}

impl Bytes for Data<'_> {
    fn length(&self) -> usize {
        self.inflated.as_ref().map_or_else(|| self.file.length(), Vec::len)
    }

    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]> {
        match &self.inflated {
            Some(bytes) => {
                let found = offset.checked_add(length).and_then(|end| bytes.get(offset..end));
                found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
            }
            None => self.file.at(offset, length),
        }
    }
}

/// A file that is read from an offset to its end.
struct FileFrom<'f, 'a> {
    file: &'f Reader<'a>,
    at: u64,
}

impl Read for FileFrom<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.file.file_bytes().saturating_sub(self.at);
        let length = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.read_at(&mut into[..length], self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

fn not_inflated(error: io::Error) -> CodecError {
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.into(),
        ErrorKind::UnexpectedEof => malformed("truncated: its deflated data set ends early"),
        _ => malformed("its deflated data set is damaged"),
    }
}
