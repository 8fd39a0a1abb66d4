//! The file formats, and what each of them can hold.

use std::fmt;
use std::path::Path;

use super::{CodecError, Depth, Layout};

/// A file format, for reading and for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, baseline and progressive.
    Jpeg,
    /// TIFF and BigTIFF.
    Tiff,
    /// PBM, PGM, PPM and PAM.
    Pnm,
    /// Windows bitmap.
    Bmp,
    /// WebP; always written losslessly.
    WebP,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 6] = [Self::Png, Self::Jpeg, Self::Tiff, Self::Pnm, Self::Bmp, Self::WebP];

    /// Returns the name that users know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Tiff => "TIFF",
            Self::Pnm => "PNM",
            Self::Bmp => "BMP",
            Self::WebP => "WebP",
        }
    }

    /// Returns the usual file name extensions in lower case; new files get the first.
    pub const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Png => &["png"],
            Self::Jpeg => &["jpg", "jpeg", "jpe", "jfif"],
            Self::Tiff => &["tif", "tiff"],
            Self::Pnm => &["pnm", "pgm", "ppm", "pam", "pbm"],
            Self::Bmp => &["bmp", "dib"],
            Self::WebP => &["webp"],
        }
    }

    /// Returns the format that the extension of a file's name stands for, in any case.
    pub fn of_name(path: &Path) -> Option<Self> {
        let own = path.extension()?.to_str()?;
        let has = |format: &Self| format.extensions().iter().any(|known| known.eq_ignore_ascii_case(own));
        Self::ALL.into_iter().find(has)
    }

    /// How many bytes at the start of a file are enough to detect its format.
    pub const HEAD: usize = 18;

    /// Detects the format from the first bytes of a file, [`Format::HEAD`] or more.
    pub fn sniff(head: &[u8]) -> Option<Self> {
        match head {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Self::Tiff),
            [b'P', kind @ b'1'..=b'7', header @ ..] => is_pnm(*kind, header).then_some(Self::Pnm),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            // Plain text may begin with "BM" too, so the size of the bitmap header, which follows the file header, must also be plausible.
            [b'B', b'M', ..] => matches!(head.get(14..18), Some([12..=124, 0, 0, 0])).then_some(Self::Bmp),
            _ => None,
        }
    }

    /// Checks that the format can hold pixels of this layout.
    ///
    /// # Errors
    /// [`CodecError::CannotRepresent`], which names formats that can.
    pub fn check(self, layout: &Layout) -> Result<(), CodecError> {
        let refuse = |what: String, others| {
            Err(CodecError::cannot_represent(self, what, format!("use --format {others}")))
        };
        let eight_bit_only = matches!(self, Self::Jpeg | Self::Bmp | Self::WebP);
        if eight_bit_only && layout.depth == Depth::Sixteen {
            return refuse("16-bit samples".into(), "png, tiff or pnm");
        }
        if self == Self::Jpeg && layout.pixel.has_alpha() {
            return refuse("transparency".into(), "png, tiff, webp or pnm");
        }
        if layout.width.max(layout.height) > self.max_side() {
            return refuse(format!("{}x{} pixels", layout.width, layout.height), "png, tiff or pnm");
        }
        Ok(())
    }

    /// Returns whether the format has a place for XMP and for EXIF.
    pub(super) const fn supports_exif_and_xmp(self) -> bool {
        !matches!(self, Self::Pnm | Self::Bmp)
    }

    /// Returns whether the format has a place for the resolution besides EXIF.
    pub(super) const fn supports_resolution(self) -> bool {
        !matches!(self, Self::Pnm | Self::WebP)
    }

    /// Returns the largest width and height, in pixels.
    const fn max_side(self) -> u32 {
        match self {
            Self::Jpeg => 65500, // libjpeg's limit, a little below the standard's
            Self::WebP => 16383,
            Self::Png | Self::Bmp => i32::MAX as u32,
            Self::Tiff | Self::Pnm => u32::MAX,
        }
    }
}

/// Returns whether a PNM's header goes on like this behind its magic, as far as it is there. Texts begin with "P1 " too, so width and height
/// have to follow, or the first keyword of a PAM, or a comment.
fn is_pnm(kind: u8, header: &[u8]) -> bool {
    const KEYWORDS: [&[u8]; 6] = [b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL", b"TUPLTYPE", b"ENDHDR"];
    let mut rest = header;
    for _ in 0..2 {
        let field = rest.trim_ascii_start();
        if matches!(field, [] | [b'#', ..]) {
            return true;
        }
        let length = field.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_apart = field.len() < rest.len();
        if !is_apart || kind == b'7' || length == 0 {
            return is_apart && kind == b'7' && KEYWORDS.iter().any(|word| field.starts_with(word));
        }
        rest = &field[length..];
    }
    true
}

/// Returns the name of a picture format that the first bytes of a file belong to, but that is not supported here.
pub(super) fn foreign(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("a GIF"),
        [0x76, 0x2f, 0x31, 0x01, ..] => Some("an OpenEXR picture"),
        [b'8', b'B', b'P', b'S', ..] => Some("a Photoshop document"),
        [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => Some("a JPEG XL"),
        [0xff, 0x4f, 0xff, 0x51, ..] | [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] => Some("a JPEG 2000"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f' | b's', ..] => Some("an AVIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i' | b'v', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i', b'f', b'1', ..] => Some("a HEIF"),
        _ if head.get(128..132) == Some(b"DICM") => Some("a DICOM file"),
        _ => None,
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_begins_like_a_pnm_is_none() {
        let is_pnm = |head: &[u8]| Format::sniff(head) == Some(Format::Pnm);
        for text in
            ["P1 is urgent", "P5\tone", "P2 5 things", "P3 4:2:0", "P7 is", "P7\n1 2", "P5x", "P512 512 255 "]
        {
            assert!(!is_pnm(text.as_bytes()), "{text}");
        }
        let pnms =
            ["P5 1 1 255 ", "P5\r\n# by hand\n1 1\n255\n", "P7\nWIDTH 4", "P7\n#\n", "P5", "P6\n", "P2\n3"];
        for pnm in pnms {
            assert!(is_pnm(pnm.as_bytes()), "{pnm}");
        }
    }
}
