//! The boxes of a JPEG XL file (ISO/IEC 18181-2): the codestream, EXIF and XMP.
//!
//! The decoder gets the codestream alone, because it would unpack every compressed box, even unused
//! ones, to any length.

use std::io::Read;

use brotli_decompressor::Decompressor;

use super::malformed;
use crate::CodecError;

/// The first bytes of a file with boxes.
const SIGNATURE: &[u8] = b"\0\0\0\x0cJXL \r\n\x87\n";

/// The most bytes of EXIF, of XMP, and of a profile.
pub(super) const LONGEST: usize = 8 << 20;

/// The size of the buffers that boxes are unpacked with.
const BUFFER: usize = 4096;

/// The boxes that are read.
#[derive(Default)]
pub(super) struct Boxes<'b> {
    /// The pieces of the codestream.
    pub(super) codestream: Vec<&'b [u8]>,
    pub(super) exif: Option<Content<'b>>,
    pub(super) xmp: Option<Content<'b>>,
}

/// The content of a box.
#[derive(Clone, Copy)]
pub(super) enum Content<'b> {
    Plain(&'b [u8]),
    /// By Brotli.
    Compressed(&'b [u8]),
}

impl<'b> Boxes<'b> {
    /// Finds the boxes of a file, which may be a bare codestream.
    pub(super) fn of(bytes: &'b [u8]) -> Result<Self, CodecError> {
        let mut boxes = Self::default();
        let Some(mut rest) = bytes.strip_prefix(SIGNATURE) else {
            boxes.codestream.push(bytes);
            return Ok(boxes);
        };
        while let Some((kind, content, behind)) = split(rest)? {
            boxes.add(kind, content)?;
            rest = behind;
        }
        Ok(boxes)
    }

    /// Takes a box; of several of EXIF or XMP the first.
    fn add(&mut self, kind: [u8; 4], content: &'b [u8]) -> Result<(), CodecError> {
        match &kind {
            b"jxlc" => self.codestream.push(content),
            // Before each piece is its number.
            b"jxlp" => self.codestream.push(content.get(4..).ok_or_else(cut)?),
            b"Exif" => drop(self.exif.get_or_insert(Content::Plain(content))),
            b"xml " => drop(self.xmp.get_or_insert(Content::Plain(content))),
            b"brob" => match content.split_first_chunk() {
                Some((b"Exif", packed)) => drop(self.exif.get_or_insert(Content::Compressed(packed))),
                Some((b"xml ", packed)) => drop(self.xmp.get_or_insert(Content::Compressed(packed))),
                Some(_) => {}
                None => return Err(cut()),
            },
            _ => {}
        }
        Ok(())
    }
}

impl Content<'_> {
    /// Returns the bytes, unpacked.
    pub(super) fn read(self) -> Result<Vec<u8>, CodecError> {
        let mut bytes = Vec::new();
        let read = match self {
            Self::Plain(plain) => plain.take(LONGEST as u64 + 1).read_to_end(&mut bytes),
            Self::Compressed(packed) => {
                Decompressor::new(packed, BUFFER).take(LONGEST as u64 + 1).read_to_end(&mut bytes)
            }
        };
        read.map_err(|_| malformed("its EXIF or XMP cannot be unpacked"))?;
        if bytes.len() > LONGEST {
            let limit = LONGEST >> 20;
            return Err(malformed(format!("its EXIF or XMP has more than {limit} MiB")));
        }
        Ok(bytes)
    }
}

/// The kind and the content of the first box, and the rest of the file; `None` at the end.
type Split<'b> = Option<([u8; 4], &'b [u8], &'b [u8])>;

fn split(bytes: &[u8]) -> Result<Split<'_>, CodecError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (size, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
    let (kind, rest) = rest.split_first_chunk().ok_or_else(cut)?;
    let (length, rest) = match u32::from_be_bytes(*size) {
        0 => (rest.len(), rest),
        1 => {
            let (size, rest) = rest.split_first_chunk().ok_or_else(cut)?;
            (
                usize::try_from(u64::from_be_bytes(*size))
                    .ok()
                    .and_then(|size| size.checked_sub(16))
                    .ok_or_else(cut)?,
                rest,
            )
        }
        size => ((size as usize).checked_sub(8).ok_or_else(cut)?, rest),
    };
    // The decoder reports content that is cut short.
    let (content, behind) = rest.split_at(length.min(rest.len()));
    Ok(Some((*kind, content, behind)))
}

fn cut() -> CodecError {
    malformed("its boxes are damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&u32::try_from(content.len() + 8).unwrap().to_be_bytes()[..], kind, content].concat()
    }

    #[test]
    fn boxes_are_found_in_any_order_and_others_passed_over() {
        let large = [&1u32.to_be_bytes()[..], b"jxlp", &20u64.to_be_bytes(), b"\x80\0\0\x01"].concat();
        let file = [
            SIGNATURE,
            &boxed(b"ftyp", b"jxl "),
            &boxed(b"xml ", b"<x/>"),
            &boxed(b"jxlp", b"\0\0\0\0ab"),
            &boxed(b"xml ", b"<second/>"),
            &large,
            b"\0\0\0\0Exif\0\0\0\0MM",
        ]
        .concat();
        let boxes = Boxes::of(&file).unwrap();
        assert_eq!(boxes.codestream, [&b"ab"[..], b""]);
        assert_eq!(boxes.xmp.unwrap().read().unwrap(), b"<x/>");
        assert_eq!(boxes.exif.unwrap().read().unwrap(), b"\0\0\0\0MM");
        assert_eq!(Boxes::of(b"\xff\x0arest").unwrap().codestream, [b"\xff\x0arest"]);
    }

    #[test]
    fn damaged_boxes_are_errors() {
        let damaged: [&[u8]; 5] = [
            b"\0\0\0",
            b"\0\0\0\x08jx",
            b"\0\0\0\x07jxlc",
            b"\0\0\0\x01jxlc\0\0\0\0\0\0\0\x0f",
            b"\0\0\0\x0bbrobExi",
        ];
        for damaged in damaged {
            assert!(Boxes::of(&[SIGNATURE, damaged].concat()).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn what_unpacks_to_more_than_anybody_writes_is_refused() {
        assert_eq!(Content::Plain(&vec![0; LONGEST]).read().unwrap().len(), LONGEST);
        assert!(Content::Plain(&vec![0; LONGEST + 1]).read().is_err());
        // By the reference encoder of Brotli, of "abcd" and of one zero byte more than the most
        // that is read.
        let packed = [0x8b, 0x01, 0x80, b'a', b'b', b'c', b'd', 0x03];
        assert_eq!(Content::Compressed(&packed).read().unwrap(), b"abcd");
        assert!(Content::Compressed(&packed[..5]).read().is_err());
        let zeros = [
            0xcb, 0xff, 0xff, 0x3f, 0xf8, 0x27, 0x00, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x0f, 0x00, 0x00,
            0x01, 0x00, 0x03,
        ];
        let why = Content::Compressed(&zeros).read().unwrap_err().to_string();
        assert!(why.contains("more than 8 MiB"), "{why}");
    }
}
