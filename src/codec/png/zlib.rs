//! Compression by zlib, which looks for matches, in pieces that begin and end at a byte.

use flate2::{Compress, Compression, FlushCompress};

use crate::codec::output::Output;

/// How far back a match may be (RFC 1951).
pub(super) const WINDOW: usize = 32 << 10;
/// Output that is asked for at once. Always as much: what zlib writes depends on how much it can write at once.
const ROOM: usize = 64 << 10;

/// Compresses a piece of a stream. It is for one piece alone, so that nothing of another one can tell in it.
pub(super) struct Zlib(Compress);

impl Zlib {
    /// Begins a piece, at one of zlib's levels. Matches may be found in what comes `before` it, of which the last [`WINDOW`] bytes
    /// count.
    pub(super) fn new(level: u32, before: &[u8]) -> Self {
        let mut compress = Compress::new(Compression::new(level), false);
        if !before.is_empty() {
            let window = &before[before.len().saturating_sub(WINDOW)..];
            compress.set_dictionary(window).expect("a piece that is not begun takes a dictionary");
        }
        Self(compress)
    }

    /// Appends to the piece.
    pub(super) fn append(&mut self, data: &[u8], out: &mut Output) {
        self.compress(data, FlushCompress::None, out);
    }

    /// Ends the piece at a byte, and the stream with it if it is the `last`.
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
            // What has room left has nothing more to write.
            if data.is_empty() && written < ROOM {
                return;
            }
        }
    }
}
