//! A JPEG stream that is part of a picture in another format.
//!
//! The other format's file declares the components.

use super::libjpeg::{Fault, Reader};
use super::markers::Markers;
use super::{deep, malformed};
use crate::CodecError;

/// The containing file's description of such a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedded {
    pub(crate) width: u32,
    /// The most rows that it may have.
    pub(crate) rows: u32,
    pub(crate) components: usize,
    /// Bits of a sample.
    ///
    /// The samples of lossless streams and of those of 12 bits are stored as the file would store
    /// them, 16 bits in native order.
    pub(crate) bits: u32,
    /// Whether the components are Y, Cb and Cr, to be converted to RGB.
    ///
    /// Others are left as they are.
    pub(crate) ycbcr: bool,
}

impl Embedded {
    /// Decodes a whole stream, and keeps as many of its first rows as fit into `out`.
    ///
    /// # Errors
    /// If anything in it is damaged, its size or number of components is wrong, or memory runs out.
    pub(crate) fn decode(&self, stream: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let markers = Markers::scan(stream)?;
        let Markers { width, height, ref components, .. } = markers;
        let wanted = out.len() / (self.width as usize * self.components * self.bits as usize).div_ceil(8);
        let fits = width == self.width && (wanted..=self.rows as usize).contains(&(height as usize));
        if !fits || components.len() != self.components {
            let found = format!("{width}x{height} pixels of {} components", components.len());
            return Err(malformed(format!("its {found} do not match the file that contains it")));
        }
        if markers.is_deep() {
            return deep::decode_part(stream, &markers, self.ycbcr, self.bits, out);
        }
        if self.bits != 8 {
            return Err(malformed("its samples of 8 bits do not match the file that contains it"));
        }
        let mut reader = Reader::new(stream).map_err(decode_error)?;
        reader.read_part(self.ycbcr, out).map_err(decode_error)
    }
}

fn decode_error(fault: Fault) -> CodecError {
    if fault.out_of_memory { CodecError::OutOfMemory { bytes: None } } else { malformed(fault.message) }
}
