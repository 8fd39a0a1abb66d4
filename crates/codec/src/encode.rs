//! From a slot to a file: the last steps, which the output format takes.

use std::fs::File;

use crate::coding::streams::Help;
use crate::formats::{Encoding, jpeg};
use crate::picture::guard::guard;
use crate::samples::pixels_of;
use crate::{CodecError, Decoded, Target};

impl Decoded {
    /// Reduces frames to as many colours as a GIF holds, if a GIF is asked for, and notes the loss.
    ///
    /// To be called after [`Decoded::reduce_depth`].
    pub fn reduce_colours(&mut self, slot: &mut [u8], target: &Target) {
        if let Some(loss) =
            target.format.and_then(|to| to.reduce_colours(self, pixels_of(&self.layout, slot)))
        {
            self.quantized = Some(loss);
        }
    }
}

/// Encodes the picture in the slot, and writes it to `out` from its current position on.
///
/// Returns the number of bytes written. The encoder works in the slot, and its contents are lost.
/// `scratch` is worth reusing. Idle cores may `help`, or cores and a device for streams.
///
/// # Errors
/// [`CodecError::Io`], [`CodecError::CannotRepresent`] if the pixels or the metadata do not fit
/// into the format, or [`CodecError::Encoder`].
pub fn encode<'h>(
    decoded: &Decoded,
    slot: &mut [u8],
    target: &Target,
    scratch: &mut Vec<u8>,
    help: impl Into<Help<'h>>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let (format, help) = (target.format_for(decoded.format), help.into());
    format.check(&decoded.frame_layout())?;
    guard(
        format,
        |reason| CodecError::encoder(format, reason),
        || format.encode(decoded, slot, Encoding { target, scratch, help, out }),
    )
}

/// Writes a JPEG that a GPU encoded, with the picture's metadata, to `out` from its position on.
///
/// Returns the number of bytes written.
///
/// # Errors
/// [`CodecError::Io`], or [`CodecError::Encoder`] if the stream is invalid.
pub fn write_encoded(decoded: &Decoded, stream: &[u8], out: &mut File) -> Result<u64, CodecError> {
    jpeg::write_encoded(decoded, stream, out)
}
