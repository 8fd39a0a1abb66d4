//! The headers of P1 to P7.

use equalize::{Depth, Layout, Pixel};

/// The storage of the pixels after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raster {
    /// One or two bytes per sample, big-endian (P5, P6, P7).
    Binary,
    /// One bit per pixel, rows padded to whole bytes, 1 is black (P4).
    Bits,
    /// Decimal numbers (P2, P3).
    Text,
    /// The digits 0 and 1, 1 is black (P1).
    TextBits,
}

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) layout: Layout,
    pub(super) raster: Raster,
    /// The sample value that is white; 1 to 65535.
    pub(super) maxval: u16,
    /// Whether this is a PAM (P7).
    pub(super) pam: bool,
    /// Bytes of the header, including the white space byte that ends it.
    pub(super) length: usize,
}

impl Header {
    /// Returns the bytes of a binary raster in the file.
    pub(super) fn raster_bytes(&self) -> u64 {
        match self.raster {
            Raster::Bits => u64::from(self.layout.width.div_ceil(8)) * u64::from(self.layout.height),
            Raster::Binary | Raster::Text | Raster::TextBits => self.layout.bytes(),
        }
    }
}

type Parsed<T> = Result<T, &'static str>;

/// Parses the header at the front of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Parsed<Header> {
    let mut fields = Fields { bytes, at: 2 };
    let (raster, pixel) = match bytes[1] {
        b'1' => (Raster::TextBits, Pixel::Gray),
        b'2' => (Raster::Text, Pixel::Gray),
        b'3' => (Raster::Text, Pixel::Rgb),
        b'4' => (Raster::Bits, Pixel::Gray),
        b'5' => (Raster::Binary, Pixel::Gray),
        b'6' => (Raster::Binary, Pixel::Rgb),
        _ => return parse_pam(fields),
    };
    let width = fields.number()?;
    let height = fields.number()?;
    let maxval = if matches!(raster, Raster::Bits | Raster::TextBits) { 1 } else { fields.number()? };
    fields.end()?;
    header(width, height, pixel, maxval, raster, false, fields.at)
}

/// Parses the lines of a PAM's header.
fn parse_pam(mut fields: Fields<'_>) -> Parsed<Header> {
    let (mut width, mut height, mut depth, mut maxval, mut kind) = (None, None, None, None, None);
    loop {
        match fields.word()? {
            b"WIDTH" => width = Some(fields.number()?),
            b"HEIGHT" => height = Some(fields.number()?),
            b"DEPTH" => depth = Some(fields.number()?),
            b"MAXVAL" => maxval = Some(fields.number()?),
            b"TUPLTYPE" => kind = Some(fields.word()?),
            b"ENDHDR" => break,
            _ => return Err("a PAM header line of an unknown kind"),
        }
    }
    if fields.next() != Some(b'\n') {
        return Err("no line end after ENDHDR");
    }
    let pixel = match (kind, depth) {
        (Some(b"BLACKANDWHITE" | b"GRAYSCALE") | None, Some(1)) => Pixel::Gray,
        (Some(b"BLACKANDWHITE_ALPHA" | b"GRAYSCALE_ALPHA") | None, Some(2)) => Pixel::GrayAlpha,
        (Some(b"RGB") | None, Some(3)) => Pixel::Rgb,
        (Some(b"RGB_ALPHA") | None, Some(4)) => Pixel::Rgba,
        _ => return Err("a PAM whose TUPLTYPE and DEPTH are not gray or RGB, with or without alpha"),
    };
    let missing = "a PAM header without WIDTH, HEIGHT or MAXVAL";
    let (width, height) = (width.ok_or(missing)?, height.ok_or(missing)?);
    header(width, height, pixel, maxval.ok_or(missing)?, Raster::Binary, true, fields.at)
}

fn header(
    width: u64,
    height: u64,
    pixel: Pixel,
    maxval: u64,
    raster: Raster,
    pam: bool,
    length: usize,
) -> Parsed<Header> {
    let side =
        |n: u64| u32::try_from(n).ok().filter(|&n| n > 0).ok_or("a width or height of 0 or beyond 32 bits");
    let maxval = u16::try_from(maxval).ok().filter(|&m| m > 0).ok_or("a maxval that is not 1 to 65535")?;
    let depth = if maxval < 256 { Depth::Eight } else { Depth::Sixteen };
    let layout = Layout { width: side(width)?, height: side(height)?, pixel, depth };
    Ok(Header { layout, raster, maxval, pam, length })
}

/// The fields of a header: words with white space and comments between them.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// Reads the next word, but not the byte after it.
    fn word(&mut self) -> Parsed<&'a [u8]> {
        self.at += blank(&self.bytes[self.at.min(self.bytes.len())..]);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(u8::is_ascii_whitespace).ok_or("its header is truncated")?;
        self.at += length;
        Ok(&rest[..length])
    }

    /// Reads the next number, but not the byte after it: white space, or the start of a comment.
    fn number(&mut self) -> Parsed<u64> {
        let start = self.at + blank(self.bytes.get(self.at..).unwrap_or_default());
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'#');
        let length = length.ok_or("its header is truncated")?;
        self.at = start + length;
        let digits = &rest[..length];
        let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        text.and_then(|text| text.parse().ok()).ok_or("a header field is not a whole number")
    }

    /// Reads the white space that ends the header: one byte, or a comment with its line end.
    fn end(&mut self) -> Parsed<()> {
        let mut byte = self.next();
        if byte == Some(b'#') {
            while byte.is_some_and(|byte| byte != b'\n') {
                byte = self.next();
            }
        }
        byte.filter(u8::is_ascii_whitespace).map(|_| ()).ok_or("no white space after the header")
    }
}

/// Returns the number of bytes of white space and comments that `bytes` begins with.
pub(super) fn blank(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'#' => at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at),
            _ if byte.is_ascii_whitespace() => at += 1,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_comments_and_any_white_space() {
        let header = parse(b"P5 # made by hand\n# twice\n 3\t2\r\n255\nabcdef").unwrap();
        let layout = Layout { width: 3, height: 2, pixel: Pixel::Gray, depth: Depth::Eight };
        assert_eq!(header, Header { layout, raster: Raster::Binary, maxval: 255, pam: false, length: 36 });
    }

    #[test]
    fn comments_may_begin_right_behind_a_number() {
        for (text, length) in [
            (&b"P5\n3 2# c\n255\nabcdef"[..], 14),
            (b"P5 3#\n2 255 abcdef", 12),
            (b"P5 3 2 255# c\n\nabcde", 14),
        ] {
            let header = parse(text).unwrap();
            let Layout { width, height, .. } = header.layout;
            assert_eq!((width, height, header.maxval, header.length), (3, 2, 255, length));
        }
        assert!(parse(b"P5 3 2 255# no end").is_err() && parse(b"P5 3 2# c").is_err());
    }

    #[test]
    fn reads_pam_in_any_order() {
        let header =
            parse(b"P7\nMAXVAL 1000\nWIDTH 3\n# c\nHEIGHT 2\nTUPLTYPE RGB_ALPHA\nDEPTH 4\nENDHDR\n").unwrap();
        assert_eq!((header.layout.pixel, header.layout.depth), (Pixel::Rgba, Depth::Sixteen));
        assert!(header.pam);
    }

    #[test]
    fn refuses_nonsense() {
        for bad in [
            &b"P5 0 1 255\n"[..],
            b"P5 1 0 255\n",
            b"P5 -1 1 255\n",
            b"P5 1 1 65536\n",
            b"P5 1 1 0\n",
            b"P5 1 1\n",
            b"P5 1 1 255",
            b"P5 4294967296 1 255\n",
            b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 5\nMAXVAL 255\nENDHDR\n",
            b"P7\nWIDTH 1\nHEIGHT 1\nENDHDR\n",
            b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR",
        ] {
            assert!(parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
