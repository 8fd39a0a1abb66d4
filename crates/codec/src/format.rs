//! The file formats, and the content that each can hold.

use std::fmt;
use std::io::Read;
use std::path::Path;

use super::elements;

/// A file format, for reading and for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, baseline and progressive.
    Jpeg,
    /// TIFF and BigTIFF.
    Tiff,
    /// PBM, PGM, PPM, PAM and PFM.
    Pnm,
    /// Windows bitmap.
    Bmp,
    /// WebP; always written losslessly.
    WebP,
    /// GIF.
    Gif,
    /// JPEG XL; never written.
    JpegXl,
    /// JPEG 2000; never written.
    Jpeg2000,
    /// DICOM; written only of DICOM.
    Dicom,
    /// OME-Zarr, whose pictures are folders; written only of OME-Zarr.
    Zarr,
}

impl Format {
    /// Every format of files.
    pub const ALL: [Self; 10] = [
        Self::Png,
        Self::Jpeg,
        Self::Tiff,
        Self::Pnm,
        Self::Bmp,
        Self::WebP,
        Self::Gif,
        Self::JpegXl,
        Self::Jpeg2000,
        Self::Dicom,
    ];

    /// Returns the default output format of pictures of this one.
    ///
    /// It is the same format, if that is written at all.
    pub const fn written(self) -> Self {
        match self {
            Self::JpegXl | Self::Jpeg2000 => Self::Tiff,
            format => format,
        }
    }

    /// Returns whether pictures are written in this format.
    pub fn is_written(self) -> bool {
        self.written() == self
    }

    /// Returns the name that users know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Tiff => "TIFF",
            Self::Pnm => "PNM",
            Self::Bmp => "BMP",
            Self::WebP => "WebP",
            Self::Gif => "GIF",
            Self::JpegXl => "JPEG XL",
            Self::Jpeg2000 => "JPEG 2000",
            Self::Dicom => "DICOM",
            Self::Zarr => "OME-Zarr",
        }
    }

    /// Returns the usual file name extensions in lower case; new files get the first.
    pub const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Png => &["png", "apng"],
            Self::Jpeg => &["jpg", "jpeg", "jpe", "jfif"],
            Self::Tiff => &["tif", "tiff", "svs"],
            Self::Pnm => &["pnm", "pgm", "ppm", "pam", "pbm", "pfm"],
            Self::Bmp => &["bmp", "dib"],
            Self::WebP => &["webp"],
            Self::Gif => &["gif"],
            Self::JpegXl => &["jxl"],
            Self::Jpeg2000 => &["jp2", "j2k", "j2c", "jph", "jpx", "jpf"],
            Self::Dicom => &["dcm", "dicom", "ima"],
            Self::Zarr => &["zarr"],
        }
    }

    /// Returns the media type that files in the format are served with.
    ///
    /// PNM has no registered one; this is the customary one.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Tiff => "image/tiff",
            Self::Pnm => "image/x-portable-anymap",
            Self::Bmp => "image/bmp",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
            Self::JpegXl => "image/jxl",
            Self::Jpeg2000 => "image/jp2",
            Self::Dicom => "application/dicom",
            Self::Zarr => "application/vnd.zarr",
        }
    }

    /// Returns the format that the extension of a file's name stands for, in any case.
    pub fn of_name(path: &Path) -> Option<Self> {
        let own = path.extension()?.to_str()?;
        Self::ALL
            .into_iter()
            .find(|format| format.extensions().iter().any(|known| known.eq_ignore_ascii_case(own)))
    }

    /// Returns whether files in the format may have several pages.
    pub(super) const fn has_pages(self) -> bool {
        matches!(self, Self::Tiff | Self::Dicom | Self::Zarr)
    }

    /// Returns whether files in the format may be animations.
    pub(super) const fn has_frames(self) -> bool {
        matches!(self, Self::Gif | Self::Png | Self::WebP)
    }

    /// How many bytes at the start of a file are enough to detect its format.
    pub const HEAD: usize = 2 << 10;

    /// Detects the format from the first bytes of a file, [`Format::HEAD`] or more.
    pub fn sniff(head: &[u8]) -> Option<Self> {
        match head {
            // The preamble is free for use, and some begin as a TIFF.
            _ if elements::has_preamble(head) => Some(Self::Dicom),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Self::Tiff),
            [b'P', kind @ (b'1'..=b'7' | b'F' | b'f'), header @ ..] => {
                is_pnm(*kind, header).then_some(Self::Pnm)
            }
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => Some(Self::JpegXl),
            [0xff, 0x4f, 0xff, 0x51, ..] | [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] => Some(Self::Jpeg2000),
            // Plain text may begin with "BM" too: the size of the bitmap header, which follows the
            // file header, must be plausible.
            [b'B', b'M', ..] => matches!(head.get(14..18), Some([12..=124, 0, 0, 0])).then_some(Self::Bmp),
            _ => elements::is_bare(head).then_some(Self::Dicom),
        }
    }

    /// Returns whether the format has a place for XMP and for EXIF.
    pub(super) const fn supports_exif_and_xmp(self) -> bool {
        !matches!(self, Self::Pnm | Self::Bmp | Self::Gif | Self::Dicom | Self::Zarr)
    }

    /// Returns whether the format has a place for the resolution outside EXIF.
    pub(super) const fn supports_resolution(self) -> bool {
        !matches!(self, Self::Pnm | Self::WebP | Self::Gif | Self::Zarr)
    }
}

/// Returns whether a file of this name may have several pages, before it is opened.
pub fn may_have_pages(path: &Path) -> bool {
    Format::of_name(path).is_none_or(Format::has_pages)
}

/// Returns whether a PNM's header goes on like this after its magic, as far as it is there.
///
/// Texts begin with "P1 " too: width and height have to follow, or the first keyword of a PAM, or a
/// comment.
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

/// Returns the name of an unsupported picture format that the first bytes of a file belong to.
pub(super) fn foreign(head: &[u8]) -> Option<&'static str> {
    if let [0x1f, 0x8b, 8, ..] = head {
        return compressed(head);
    }
    match head {
        [0x76, 0x2f, 0x31, 0x01, ..] => Some("an OpenEXR picture"),
        [b'8', b'B', b'P', b'S', ..] => Some("a Photoshop document"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f' | b's', ..] => Some("an AVIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i' | b'v', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i', b'f', b'1', ..] => Some("a HEIF"),
        _ if head.starts_with(b"SIMPLE  =") => Some("a FITS file"),
        _ if is_nifti(head) => Some("a NIfTI volume"),
        _ => None,
    }
}

/// Returns whether a file begins with a NIfTI header, version 1 or 2.
///
/// That is its own length and, elsewhere, a magic (<https://nifti.nimh.nih.gov/>).
fn is_nifti(head: &[u8]) -> bool {
    let Some((length, _)) = head.split_first_chunk::<4>() else { return false };
    let lengths = [u32::from_le_bytes(*length), u32::from_be_bytes(*length)];
    lengths.contains(&348) && matches!(head.get(344..348), Some(b"n+1\0" | b"ni1\0"))
        || lengths.contains(&540) && matches!(head.get(4..8), Some(b"n+2\0" | b"ni2\0"))
}

/// Returns the name of the picture format in a gzip file, as of volumes and telescopes' pictures.
fn compressed(head: &[u8]) -> Option<&'static str> {
    const NEEDED: u64 = 544;
    let mut start = Vec::new();
    // Data missing after the head makes no difference.
    let _ = flate2::read::GzDecoder::new(head).take(NEEDED).read_to_end(&mut start);
    match start {
        _ if start.starts_with(b"SIMPLE  =") => Some("a compressed FITS file"),
        _ if is_nifti(&start) => Some("a compressed NIfTI volume"),
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
    use std::io::Write;

    #[test]
    fn scientific_formats_are_known_from_their_first_bytes() {
        let padded = |head: &[u8], at: usize, mark: &[u8]| {
            let mut bytes = head.to_vec();
            bytes.resize(at, 0);
            bytes.extend(mark);
            bytes.resize(1000, 0);
            bytes
        };
        let gzipped = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let fits = padded(b"SIMPLE  =                    T", 80, b"BITPIX  =");
        let nifti = padded(&348_u32.to_le_bytes(), 344, b"n+1\0");
        for (bytes, name) in [
            (padded(&348_u32.to_be_bytes(), 344, b"ni1\0"), "a NIfTI volume"),
            (padded(&540_u32.to_le_bytes(), 4, b"n+2\0"), "a NIfTI volume"),
            (gzipped(&nifti), "a compressed NIfTI volume"),
            (nifti, "a NIfTI volume"),
            (gzipped(&fits), "a compressed FITS file"),
            (fits, "a FITS file"),
        ] {
            assert_eq!(foreign(&bytes), Some(name));
        }
        let texts: [&[u8]; 3] = [b"SIMPLE THINGS", b"n+1", b"\x1f\x8b\x08"];
        for bytes in texts.into_iter().chain([&gzipped(b"a text")[..]]) {
            assert_eq!(foreign(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn dicom_is_known_with_and_without_its_preamble() {
        let explicit = [&b"\x08\0\x05\0CS\x02\0ab"[..], b"\x08\0\x08\0CS\x02\0cd"].concat();
        let implicit = [&b"\x08\0\0\0\x04\0\0\0abcd"[..], b"\x08\0\x08\0\x02\0\0\0cd"].concat();
        let big_endian = [&b"\0\x08\0\x05CS\0\x02ab"[..], b"\0\x08\0\x08CS\0\x02cd"].concat();
        let mut marked = b"II*\0\x08\0\0\0".to_vec();
        marked.resize(128, 0);
        marked.extend(b"DICM");
        for head in [&explicit, &implicit, &big_endian, &marked] {
            assert_eq!(Format::sniff(head), Some(Format::Dicom), "{head:?}");
        }
        marked.insert(128, 0);
        assert_eq!(Format::sniff(&marked), Some(Format::Tiff));
        for head in [&explicit[10..], &explicit[..17], &explicit[..10]] {
            assert_eq!(Format::sniff(head), None, "{head:?}");
        }
    }

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
