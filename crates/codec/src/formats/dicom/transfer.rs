//! Transfer syntaxes (PS3.5, annex A): how elements and pixels are encoded.

use super::unsupported;
use crate::CodecError;

pub(super) const IMPLICIT: &str = "1.2.840.10008.1.2";
pub(super) const EXPLICIT: &str = "1.2.840.10008.1.2.1";
const BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";

/// How pixels are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Rle,
    /// Any process of JPEG: baseline, extended, lossless.
    Jpeg,
    JpegLs,
    Jpeg2000,
    /// JPEG 2000 of high throughput.
    HighThroughput,
}

/// The properties of a transfer syntax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) compression: Compression,
    pub(super) big_endian: bool,
    pub(super) deflated: bool,
    /// Whether compressing has changed the pixels.
    pub(super) lossy: bool,
}

impl Transfer {
    /// The properties for a file that does not state its transfer syntax.
    pub(super) const UNKNOWN: Self =
        Self { compression: Compression::None, big_endian: false, deflated: false, lossy: false };

    /// Returns the properties of the transfer syntax of this UID.
    pub(super) fn of(uid: &str) -> Result<Self, CodecError> {
        let plain = Self::UNKNOWN;
        match uid {
            IMPLICIT | EXPLICIT => return Ok(plain),
            BIG_ENDIAN => return Ok(Self { big_endian: true, ..plain }),
            DEFLATED => return Ok(Self { deflated: true, ..plain }),
            _ => {}
        }
        let (compression, lossy) = match uid.strip_prefix("1.2.840.10008.1.2.") {
            Some("5") => (Compression::Rle, false),
            Some("4.50" | "4.51" | "4.52" | "4.53" | "4.54" | "4.55" | "4.56") => (Compression::Jpeg, true),
            Some("4.57" | "4.58" | "4.70") => (Compression::Jpeg, false),
            Some("4.80") => (Compression::JpegLs, false),
            Some("4.81") => (Compression::JpegLs, true),
            Some("4.90") => (Compression::Jpeg2000, false),
            Some("4.91") => (Compression::Jpeg2000, true),
            Some("4.201" | "4.202") => (Compression::HighThroughput, false),
            Some("4.203") => (Compression::HighThroughput, true),
            Some("1.98") => (Compression::None, false),
            Some("4.92" | "4.93") => return Err(refused("JPEG 2000 of several components at once")),
            Some("4.110" | "4.111" | "4.112") => return Err(refused("JPEG XL")),
            Some(video) if video.starts_with("4.10") || video.starts_with("7.") => {
                return Err(unsupported(
                    "a DICOM video",
                    "extract the frames first, as in `ffmpeg -i IN OUT-%03d.png`",
                ));
            }
            _ => return Err(refused(&format!("the transfer syntax {uid}"))),
        };
        Ok(Self { compression, lossy, ..plain })
    }
}

fn refused(name: &str) -> CodecError {
    unsupported(format!("a DICOM file of {name}"), super::DECOMPRESS)
}
