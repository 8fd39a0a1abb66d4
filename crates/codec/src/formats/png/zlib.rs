//! Compression by zlib, with its search for matches, in pieces of whole bytes.

use flate2::{Compress, Compression, FlushCompress};

use crate::io::output::Output;

/// The longest reach of a match (RFC 1951).
pub(super) const WINDOW: usize = 32 << 10;
/// Bytes of output that zlib may write at once.
///
/// It is always the same number, as the compressed data depend on it.
const ROOM: usize = 64 << 10;

/// Compresses one piece of a stream.
///
/// It is never reused, lest another piece influence the output.
pub(super) struct Zlib(Compress);

impl Zlib {
    /// Begins a piece, at one of zlib's levels.
    ///
    /// Matches may reach into the last [`WINDOW`] bytes of `before`, the data in front of the
    /// piece.
    pub(super) fn new(level: u32, before: &[u8]) -> Self {
        let mut compress = Compress::new(Compression::new(level), false);
        if !before.is_empty() {
            let window = &before[before.len().saturating_sub(WINDOW)..];
            compress.set_dictionary(window).expect("a piece that is not begun takes a dictionary");
        }
        Self(compress)
    }

    /// Appends data to the piece.
    pub(super) fn append(&mut self, data: &[u8], out: &mut Output) {
        self.compress(data, FlushCompress::None, out);
    }

    /// Ends the piece on a byte boundary, and the stream with it if this is the `last` piece.
    pub(super) fn end(&mut self, last: bool, out: &mut Output) {
        self.compress(&[], if last { FlushCompress::Finish } else { FlushCompress::Sync }, out);
    }

    fn compress(&mut self, mut data: &[u8], flush: FlushCompress, out: &mut Output) {
        loop {
            let (read, written) = (self.0.total_in(), self.0.total_out());
            self.0.compress(data, &mut out.room(ROOM)[..ROOM], flush).expect("any bytes can be compressed");
            let written = (self.0.total_out() - written) as usize;
            data = &data[(self.0.total_in() - read) as usize..];
            out.advance(written);
            // If there is room left, zlib has nothing more to write.
            if data.is_empty() && written < ROOM {
                return;
            }
        }
    }
}
