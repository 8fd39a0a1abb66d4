//! The chunks of a PNG (PNG third edition, <https://www.w3.org/TR/png-3/>, sections 5 and 11).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::malformed;
use crate::CodecError;
use crate::io::budget::SMALL_CHANGE;
use crate::io::input::waiting_for_file;
use equalize::{Depth, Layout, Pixel};

/// Ancillary chunks about the picture as a whole that a new contrast does not make wrong.
const KEPT: [&[u8; 4]; 14] = [
    b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"cICP", b"mDCV", b"cLLI", b"pHYs", b"eXIf", b"tEXt", b"zTXt",
    b"iTXt", b"sCAL", b"sTER",
];

/// The first bytes of a file.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Bytes of a chunk in addition to its content: length, type and checksum.
pub(super) const FRAME: usize = 12;

/// The chunks of a file.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    /// The layout of the decoded pixels: expanded to at least 8 bits, to colours and to alpha.
    pub(super) layout: Layout,
    /// Whether the pixels are numbers of colours.
    is_palette: bool,
    /// The content of the animation control chunk, which has to precede the image data.
    pub(super) animation_control: Option<&'a [u8]>,
    /// The image data, if they are the layout's pixels row after row.
    ///
    /// They are neither interlaced nor to be expanded.
    pub(super) rows: Option<ImageData<'a>>,
    /// The storage of rows, if they are not interlaced.
    pub(super) stored: Option<Stored>,
    /// The file from its first chunk on.
    all: Walk<'a>,
}

/// The storage of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    /// Bytes of a row.
    pub(super) row: usize,
    /// Bytes of a pixel, at least one.
    pub(super) step: usize,
    /// Whether they are rows of the layout's pixels: no palette, transparent colour or packed bits.
    pub(super) is_direct: bool,
}

/// Goes from chunk to chunk up to IEND.
///
/// There may be any number of them, and they are therefore not stored.
#[derive(Clone, Copy, Debug)]
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (rest, chunk) = split(self.rest).ok()?;
        self.rest = rest;
        (chunk.kind != *b"IEND").then_some(chunk)
    }
}

/// Chunks to pass on, one after the other as in their file.
#[derive(Debug)]
pub(super) struct Kept(Vec<u8>);

impl Kept {
    /// Returns the bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the type and content of each.
    pub(super) fn chunks(&self) -> impl Iterator<Item = ([u8; 4], &[u8])> {
        Walk { rest: &self.0 }.map(|chunk| (chunk.kind, chunk.content))
    }
}

/// The contents of consecutive IDAT chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageData<'a> {
    rest: &'a [u8],
}

impl<'a> ImageData<'a> {
    /// Takes chunks that begin with an IDAT chunk.
    pub(super) fn new(chunks: &'a [u8]) -> Self {
        Self { rest: chunks }
    }
}

impl<'a> Iterator for ImageData<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (rest, chunk) = split(self.rest).ok()?;
        (chunk.kind == *b"IDAT").then(|| {
            self.rest = rest;
            chunk.content
        })
    }
}

impl<'a> Chunks<'a> {
    /// Walks the chunks from IHDR to IEND. Whatever follows IEND is ignored.
    pub(super) fn scan(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let all = Walk { rest: &bytes[SIGNATURE.len()..] };
        let (mut rest, first) = split(all.rest)?;
        if first.kind != *b"IHDR" {
            return Err("it does not begin with an IHDR chunk");
        }
        let header = Header::parse(first.content)?;
        let (mut animation_control, mut transparent) = (None, false);
        let mut data = None;
        let mut before = first.kind;
        loop {
            let (behind, chunk) = split(rest)?;
            match &chunk.kind {
                b"IDAT" if data.is_some() && before != *b"IDAT" => {
                    return Err("its image data are interrupted by another chunk");
                }
                b"IDAT" => data = data.or(Some(ImageData::new(rest))),
                b"IEND" => break,
                b"acTL" if data.is_none() => {
                    animation_control = animation_control.or(Some(chunk.content));
                }
                b"PLTE" if !chunk.content.len().is_multiple_of(3) => {
                    return Err("its palette ends within a colour");
                }
                b"tRNS" => transparent = true,
                kind if is_kept(*kind) => {}
                [b'A'..=b'Z', ..] if ![b"IHDR", b"PLTE"].contains(&&chunk.kind) => {
                    return Err("it has a critical chunk that is unknown");
                }
                _ => {}
            }
            (rest, before) = (behind, chunk.kind);
        }
        let stored = header.stored(transparent);
        let rows = data.filter(|_| stored.is_some_and(|stored| stored.is_direct));
        let is_palette = header.colour == 3;
        Ok(Self { layout: header.layout(transparent), is_palette, animation_control, rows, stored, all })
    }

    /// Returns the chunks up to IEND.
    pub(super) fn walk(&self) -> impl Iterator<Item = Chunk<'a>> {
        self.all
    }

    /// Returns the contents of all chunks of a kind.
    pub(super) fn all(&self, kind: &[u8; 4]) -> impl Iterator<Item = &'a [u8]> {
        self.all.filter(move |chunk| chunk.kind == *kind).map(|chunk| chunk.content)
    }

    /// Returns the stated number of significant bits of the colours' samples.
    ///
    /// Only if it is less than their depth, and the same for each colour.
    pub(super) fn significant_bits(&self) -> Option<u32> {
        let Self { layout, is_palette, .. } = *self;
        let content = self.all(b"sBIT").next().filter(|_| !is_palette)?;
        let (first, others) = content.get(..layout.pixel.colour_channels())?.split_first()?;
        let is_one = others.iter().all(|other| other == first);
        let most = 8 * layout.depth.bytes() as u32;
        Some(u32::from(*first)).filter(|bits| is_one && (1..most).contains(bits))
    }

    /// Returns the bytes of the chunks to pass on.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_chunks().map(|chunk| chunk.whole.len() as u64).sum()
    }

    /// Returns copies of the chunks to pass on.
    pub(super) fn kept(&self) -> Kept {
        let mut kept = Vec::with_capacity(self.kept_bytes() as usize);
        self.kept_chunks().for_each(|chunk| kept.extend_from_slice(chunk.whole));
        Kept(kept)
    }

    fn kept_chunks(&self) -> impl Iterator<Item = Chunk<'a>> {
        self.all.filter(|chunk| is_kept(chunk.kind))
    }
}

/// Returns whether chunks of a kind are passed on.
fn is_kept(kind: [u8; 4]) -> bool {
    KEPT.contains(&&kind) || safe_to_copy(kind)
}

/// Returns whether a file is Apple's variant of PNG for iOS, which its first chunk marks.
///
/// In it, blue comes before red, colours are multiplied by alpha, and the image data are not
/// wrapped in zlib's format.
pub(super) fn is_apples(bytes: &[u8]) -> bool {
    bytes.get(12..16) == Some(b"CgBI")
}

/// Returns whether an unknown chunk is ancillary and safe to copy: letters 1 and 4 in lower case.
fn safe_to_copy(kind: [u8; 4]) -> bool {
    kind[0].is_ascii_lowercase() && kind[3].is_ascii_lowercase()
}

/// A chunk.
pub(super) struct Chunk<'a> {
    pub(super) kind: [u8; 4],
    pub(super) content: &'a [u8],
    /// All of it, from its length to its checksum.
    pub(super) whole: &'a [u8],
}

impl Chunk<'_> {
    /// Returns whether its checksum is that of its type and content.
    pub(super) fn is_intact(&self) -> bool {
        let mut crc = flate2::Crc::new();
        crc.update(&self.kind);
        crc.update(self.content);
        self.whole.ends_with(&crc.sum().to_be_bytes())
    }
}

/// Splits off the first chunk; returns the rest, and the chunk.
fn split(bytes: &[u8]) -> Result<(&[u8], Chunk<'_>), &'static str> {
    let (length, behind) = bytes.split_first_chunk::<4>().ok_or(SHORT)?;
    let (kind, behind) = behind.split_first_chunk::<4>().ok_or(SHORT)?;
    if !kind.iter().all(u8::is_ascii_alphabetic) {
        return Err("a chunk has an invalid name");
    }
    let length = u32::from_be_bytes(*length) as usize;
    if bytes.len() < FRAME || bytes.len() - FRAME < length {
        return Err(SHORT);
    }
    let content = &behind[..length];
    let (whole, behind) = bytes.split_at(FRAME + length);
    Ok((behind, Chunk { kind: *kind, content, whole }))
}

/// Returns a file that begins like this one and ends before its image data.
///
/// `None` if they are not reached, or it is an animation.
pub(crate) fn ended(head: &[u8]) -> Option<Vec<u8>> {
    let mut rest = head.get(SIGNATURE.len()..)?;
    while let Some((_, kind)) = rest.split_first_chunk::<4>() {
        match kind.first_chunk()? {
            b"IDAT" => {
                let before = &head[..head.len() - rest.len()];
                let empty = |kind: &[u8; 4]| [&[0; 4], &kind[..], &[0; 4]].concat();
                return Some([before, &empty(b"IDAT"), &empty(b"IEND")].concat());
            }
            b"acTL" => return None,
            _ => rest = split(rest).ok()?.0,
        }
    }
    None
}

/// Returns the layout by the first chunk of a file, with alpha, as another chunk may add it.
///
/// `None` if it cannot be read, or if rows are interlaced.
pub(super) fn layout_of_rows(head: &[u8]) -> Option<Layout> {
    let (_, first) = split(head.get(SIGNATURE.len()..)?).ok()?;
    let header = Header::parse(first.content).ok()?;
    (!header.is_interlaced).then(|| header.layout(true))
}

/// Returns the length and kind of the chunk at an offset of a file of this length.
pub(super) fn frame_at(file: &File, at: u64, length: u64) -> Result<(u32, [u8; 4]), CodecError> {
    let mut frame = [0; 8];
    waiting_for_file(|| file.read_exact_at(&mut frame, at)).map_err(unread)?;
    let [l0, l1, l2, l3, kind @ ..] = frame;
    let size = u32::from_be_bytes([l0, l1, l2, l3]);
    let is_there = at + FRAME as u64 + u64::from(size) <= length;
    if is_there { Ok((size, kind)) } else { Err(malformed(SHORT)) }
}

/// Returns a file without the data of pictures and frames; `None` if it is too long for a head.
pub(crate) fn without_data(file: &File, length: u64) -> Result<Option<Vec<u8>>, CodecError> {
    let (mut all, mut at) = (SIGNATURE.to_vec(), SIGNATURE.len() as u64);
    loop {
        let (size, kind) = frame_at(file, at, length)?;
        let bytes = FRAME as u64 + u64::from(size);
        if [b"IDAT", b"fdAT"].contains(&&kind) {
            all.extend([&[0; 4], &kind[..], &[0; 4]].concat());
        } else if all.len() as u64 + bytes > SMALL_CHANGE {
            return Ok(None);
        } else {
            let from = all.len();
            all.resize(from + bytes as usize, 0);
            waiting_for_file(|| file.read_exact_at(&mut all[from..], at)).map_err(unread)?;
        }
        if kind == *b"IEND" {
            return Ok(Some(all));
        }
        at += bytes;
    }
}

/// Returns the error of a part of a file that cannot be read.
pub(super) fn unread(error: io::Error) -> CodecError {
    if error.kind() == io::ErrorKind::UnexpectedEof { malformed(SHORT) } else { CodecError::Io(error) }
}

const SHORT: &str = "it is truncated";

struct Header {
    width: u32,
    height: u32,
    depth: u8,
    colour: u8,
    is_interlaced: bool,
}

impl Header {
    fn parse(content: &[u8]) -> Result<Self, &'static str> {
        let &[w0, w1, w2, w3, h0, h1, h2, h3, depth, colour, _, _, interlaced] = content else {
            return Err("its IHDR chunk has the wrong length");
        };
        let (width, height) = (u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]));
        if width == 0 || height == 0 || width > i32::MAX as u32 || height > i32::MAX as u32 {
            return Err("a width or height of 0 or beyond 31 bits");
        }
        let valid = match colour {
            0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
            3 => matches!(depth, 1 | 2 | 4 | 8),
            2 | 4 | 6 => matches!(depth, 8 | 16),
            _ => false,
        };
        if valid {
            Ok(Self { width, height, depth, colour, is_interlaced: interlaced != 0 })
        } else {
            Err("a colour type and depth that do not exist")
        }
    }

    /// Returns the storage of rows, if they are not interlaced.
    fn stored(&self, transparent: bool) -> Option<Stored> {
        let samples = match self.colour {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        };
        let bits = samples * usize::from(self.depth);
        let row = (self.width as usize).checked_mul(bits)?.div_ceil(8);
        let is_direct = self.depth >= 8 && self.colour != 3 && !transparent;
        (!self.is_interlaced).then_some(Stored { row, step: bits.div_ceil(8), is_direct })
    }

    fn layout(&self, transparent: bool) -> Layout {
        let pixel = match (self.colour, transparent) {
            (0, false) => Pixel::Gray,
            (0, true) | (4, _) => Pixel::GrayAlpha,
            (2 | 3, false) => Pixel::Rgb,
            _ => Pixel::Rgba,
        };
        let depth = if self.depth == 16 { Depth::Sixteen } else { Depth::Eight };
        Layout { width: self.width, height: self.height, pixel, depth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), kind, content, &[0; 4]].concat()
    }

    #[test]
    fn what_depends_on_the_samples_is_not_passed_on() {
        let named = |kind: &&[u8; 4]| chunk(kind, b"content");
        let kinds = [b"sCAL", b"bKGD", b"oFFs", b"pCAL", b"prVt", b"prVT", b"sTER"];
        let header = chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
        let chunks: Vec<u8> = kinds.iter().flat_map(named).collect();
        let file = [&[0; 8], &*header, &chunks, &chunk(b"IDAT", b"x"), &chunk(b"IEND", b"")].concat();
        let kept = Chunks::scan(&file).unwrap().kept();
        let kinds: Vec<_> = kept.chunks().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [*b"sCAL", *b"oFFs", *b"prVt", *b"sTER"]);
        assert!(kept.chunks().all(|(_, content)| content == b"content"));
        assert_eq!(kept.bytes(), 4 * (FRAME + b"content".len()) as u64);
    }

    #[test]
    fn image_data_have_to_be_together() {
        let header = chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
        let (data, text, end) = (chunk(b"IDAT", b"x"), chunk(b"tEXt", b"a\0b"), chunk(b"IEND", b""));
        let scanned = |chunks: &[&Vec<u8>]| {
            let chunks = chunks.iter().flat_map(|chunk| chunk.iter().copied());
            let file: Vec<u8> = [0; 8].into_iter().chain(header.iter().copied()).chain(chunks).collect();
            Chunks::scan(&file).err()
        };
        assert_eq!(scanned(&[&text, &data, &data, &text, &end]), None);
        let why = Some("its image data are interrupted by another chunk");
        assert_eq!(scanned(&[&data, &text, &data, &end]), why);
    }
}
