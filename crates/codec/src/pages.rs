//! The pages of a file: a microscope's stack, a scanned document.

use std::fs::File;

use super::cores::Cores;
use super::guard::guard;
use super::{CodecError, Decoded, Format, Target, tiff};

/// The pages of a file that has several, in the order in which they are written.
#[derive(Debug)]
pub struct Pages {
    stack: tiff::Stack,
}

impl Pages {
    pub(super) fn of_tiff(stack: tiff::Stack) -> Self {
        Self { stack }
    }

    /// Returns the number of pages, which is two or more.
    #[expect(clippy::len_without_is_empty, reason = "there are always several")]
    pub fn len(&self) -> usize {
        self.stack.count()
    }

    /// Returns what writes the pages into one file.
    pub fn writer(&self) -> PageWriter {
        PageWriter { writer: self.stack.writer() }
    }

    pub(super) fn place(&self, index: usize) -> tiff::Place {
        self.stack.place(index)
    }

    /// Checks that files in the output format have pages.
    pub(super) fn check(&self, format: Format, output: Format) -> Result<(), CodecError> {
        if output.has_pages() {
            return Ok(());
        }
        Err(CodecError::cannot_represent(
            output,
            format!("the {} pages of a {format}", self.len()),
            "write it as TIFF (--format tiff), or split it into single pictures first, as in `tiffsplit IN PAGE-` (libtiff)",
        ))
    }
}

/// Writes the pages of one file. They may come in any order, from several threads at once.
#[derive(Debug)]
pub struct PageWriter {
    writer: tiff::Writer,
}

impl PageWriter {
    /// Tells that the next page, in their order, has been opened, and how many bytes its samples will take if that is known
    /// ([`Opened::stored_page_bytes`](super::Opened::stored_page_bytes)).
    pub fn announce(&self, bytes: Option<u64>) {
        self.writer.announce(bytes);
    }

    /// Encodes page `index`, which has been announced and is in the slot, and writes it to `out`, or to `spill` until the pages before it are
    /// written. Both are files of this writer alone, empty at first. Returns the bytes of the file once all pages are in it. The encoder works
    /// in the slot, so its contents are lost. Idle `cores` may help.
    ///
    /// # Errors
    /// As for [`encode`](super::encode).
    pub fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        target: &Target,
        cores: &Cores,
        (out, spill): (&File, &File),
    ) -> Result<Option<u64>, CodecError> {
        let format = target.format_for(decoded.format);
        format.check(&decoded.layout)?;
        guard(
            format,
            |reason| CodecError::encoder(format, reason),
            || self.writer.write(index, decoded, slot, cores, out, spill),
        )
    }
}
