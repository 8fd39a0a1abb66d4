//! A JPEG stream that is part of a picture in another format, whose file says what the components are.

use super::libjpeg::{Fault, Reader};
use super::malformed;
use super::markers::Markers;
use crate::CodecError;

/// What the containing file says about such a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedded {
    pub(crate) width: u32,
    /// The most rows that it may have.
    pub(crate) rows: u32,
    pub(crate) components: usize,
    /// Whether the components are Y, Cb and Cr, to be converted to RGB; others are left as they are.
    pub(crate) ycbcr: bool,
}

impl Embedded {
    /// Decodes a whole stream, and keeps as many of its first rows as fit into `out`.
    ///
    /// # Errors
    /// If anything in it is damaged, its size or number of components is wrong, or memory runs out.
    pub(crate) fn decode(&self, stream: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let Markers { width, height, components, .. } = Markers::scan(stream)?;
        let wanted = out.len() / (self.width as usize * self.components);
        let fits = width == self.width && (wanted..=self.rows as usize).contains(&(height as usize));
        if !fits || components.len() != self.components {
            let found = format!("{width}x{height} pixels of {} components", components.len());
            return Err(malformed(format!("its {found} are not those of its place")));
        }
        let mut reader = Reader::new(stream).map_err(decode_error)?;
        reader.read_part(self.ycbcr, out).map_err(decode_error)
    }
}

fn decode_error(fault: Fault) -> CodecError {
    if fault.out_of_memory { CodecError::OutOfMemory { bytes: None } } else { malformed(fault.message) }
}
