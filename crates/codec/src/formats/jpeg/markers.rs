//! The marker segments of a JPEG (ITU-T T.81, annex B), read without decoding.

use std::borrow::Cow;
use std::ops::Range;

use super::{malformed, mpf};
use crate::CodecError;
use crate::formats::jpeg::BLOCK;
use crate::metadata::{Metadata, MetadataBytes, Resolution, strip_exif_prefix, xmp};

pub(super) const SOF0: u8 = 0xc0;
pub(super) const SOF1: u8 = 0xc1;
pub(super) const SOF2: u8 = 0xc2;
/// The frame header of a lossless picture.
pub(super) const SOF3: u8 = 0xc3;
pub(super) const DHT: u8 = 0xc4;
/// The frame headers of sequential and of progressive pictures that are arithmetic-coded.
pub(super) const SOF9: u8 = 0xc9;
pub(super) const SOF10: u8 = 0xca;
pub(super) const SOI: u8 = 0xd8;
pub(super) const EOI: u8 = 0xd9;
pub(super) const SOS: u8 = 0xda;
pub(super) const DQT: u8 = 0xdb;
pub(super) const DRI: u8 = 0xdd;
pub(super) const APP0: u8 = 0xe0;
pub(super) const APP1: u8 = 0xe1;
pub(super) const APP2: u8 = 0xe2;
/// Defines the number of lines.
pub(super) const DNL: u8 = 0xdc;
const APP11: u8 = 0xeb;
pub(super) const APP14: u8 = 0xee;
pub(super) const APP15: u8 = 0xef;
/// The frame header of JPEG-LS (ITU-T T.87, C.1.1).
pub(super) const SOF55: u8 = 0xf7;
pub(super) const COM: u8 = 0xfe;

pub(super) const EXIF: &[u8] = b"Exif\0\0";
pub(super) const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
/// Name of the segments with XMP beyond the segment of [`XMP`] (XMP part 3, 1.1.3.1).
pub(super) const EXTENDED_XMP: &[u8] = b"http://ns.adobe.com/xmp/extension/\0";
pub(super) const ICC: &[u8] = b"ICC_PROFILE\0";

/// Name of the segment that announces a gain map after the picture (ISO 21496-1, annex C).
pub(super) const GAIN_MAP: &[u8] = b"urn:iso:std:iso:ts:21496:-1\0";

/// Name of the segments of JPEG's boxes (ISO/IEC 18477-3, B.3).
///
/// They hold data about the pixels: content credentials (C2PA), which would report that the picture
/// was tampered with, or the additions of a JPEG XT encoder.
const BOXES: &[u8] = b"JP";

/// The remedy for a JPEG of an unsupported coding process.
const REMEDY: &str = "convert it first, as in `djpeg IN > OUT.ppm` (libjpeg-turbo 3)";

/// The most scans: more than any encoder writes.
///
/// Each of them may touch the whole picture; without a limit a small file could keep a core busy
/// for hours.
const MAX_SCANS: u32 = 300;

/// The most segments of application data and comments: more than any program writes.
///
/// Their content counts as memory, but not their bookkeeping.
const MAX_KEPT: usize = 20_000;

/// The most blocks in an MCU (B.2.3).
pub(super) const MAX_BLOCKS: u32 = 10;

/// A marker and the content of its segment, without the length field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) marker: u8,
    pub(super) content: &'a [u8],
}

/// The content of a frame header.
#[derive(Debug)]
pub(super) struct FrameHeader {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) progressive: bool,
    pub(super) components: Vec<FrameComponent>,
    /// Bits of a sample.
    pub(super) bits: u8,
    /// Whether samples are predicted rather than transformed.
    pub(super) lossless: bool,
}

/// A component in a frame header.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameComponent {
    pub(super) id: u8,
    pub(super) factors: Factors,
    /// The number of its quantization table.
    pub(super) table: usize,
}

/// The sampling factors of a component: its sampling density relative to other components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factors {
    pub(super) horizontal: u8,
    pub(super) vertical: u8,
}

impl FrameHeader {
    /// Reads a frame header (B.2.2) of samples of 8 bits that were transformed.
    ///
    /// # Errors
    /// If it is damaged, or of a coding process or depth that is not supported.
    pub(super) fn parse(segment: Segment<'_>) -> Result<Self, CodecError> {
        let header = Self::parse_any(segment)?;
        if header.is_deep() {
            return Err(malformed("its frame header is that of a lossless or a 12-bit picture"));
        }
        Ok(header)
    }

    /// Returns whether neither libjpeg nor the coder for samples of 8 bits reads the picture.
    pub(super) fn is_deep(&self) -> bool {
        self.lossless || self.bits != 8
    }

    /// Reads a frame header (B.2.2).
    ///
    /// # Errors
    /// If it is damaged, or of a coding process or depth that is not supported.
    pub(super) fn parse_any(segment: Segment<'_>) -> Result<Self, CodecError> {
        let &[precision, h0, h1, w0, w1, count, ref components @ ..] = segment.content else {
            return Err(malformed("its frame header is cut short"));
        };
        let progressive = matches!(segment.marker, SOF2 | SOF10);
        match (segment.marker, precision) {
            (SOF0 | SOF1 | SOF2 | SOF9 | SOF10, 8) | (SOF1, 12) | (SOF3, 2..=16) => {}
            (SOF0..=SOF3 | SOF9 | SOF10, _) => {
                let kind = match segment.marker {
                    SOF9 | SOF10 => "arithmetic-coded ",
                    _ if progressive => "progressive ",
                    _ => "",
                };
                return Err(CodecError::unsupported(format!("{kind}{precision}-bit JPEG"), REMEDY));
            }
            (0xcb, _) => return Err(CodecError::unsupported("lossless arithmetic-coded JPEG", REMEDY)),
            _ => return Err(CodecError::unsupported("hierarchical JPEG", REMEDY)),
        }
        if components.len() != 3 * usize::from(count) || count == 0 {
            return Err(malformed("its frame header has the wrong length"));
        }
        let (width, height) = (u16::from_be_bytes([w0, w1]), u16::from_be_bytes([h0, h1]));
        if width == 0 || height == 0 {
            return Err(malformed("its width or height is 0"));
        }
        // T.81, B.2.2.
        let (triples, _) = components.as_chunks::<3>();
        let mut factors = triples.iter().flat_map(|[_, factors, _]| [factors >> 4, factors & 15]);
        if !factors.all(|factor| (1..=4).contains(&factor)) {
            return Err(malformed("its frame header has sampling factors that are not 1 to 4"));
        }
        let components = triples.iter().map(|&[id, factors, table]| FrameComponent {
            id,
            factors: Factors { horizontal: factors >> 4, vertical: factors & 15 },
            table: table.into(),
        });
        Ok(Self {
            width: width.into(),
            height: height.into(),
            progressive,
            bits: precision,
            lossless: segment.marker == SOF3,
            components: components.collect(),
        })
    }

    /// Returns the components' sampling factors.
    pub(super) fn factors(&self) -> Vec<Factors> {
        self.components.iter().map(|component| component.factors).collect()
    }

    /// Returns the number of MCUs across and down in a scan of all components.
    pub(super) fn mcus(&self) -> (usize, usize) {
        let (horizontal, vertical) = largest_factors(&self.factors());
        [(self.width, horizontal), (self.height, vertical)]
            .map(|(side, factor)| (side as usize).div_ceil(BLOCK * usize::from(factor)))
            .into()
    }
}

impl Factors {
    /// Factors of 1 each way: one sample per pixel, unless another component has larger factors.
    pub(super) const FULL: Self = Self { horizontal: 1, vertical: 1 };
}

pub(super) fn largest_factors(components: &[Factors]) -> (u8, u8) {
    let horizontal = components.iter().map(|factors| factors.horizontal).max();
    let vertical = components.iter().map(|factors| factors.vertical).max();
    (horizontal.unwrap_or(1), vertical.unwrap_or(1))
}

/// The pixel density in a JFIF segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Density {
    pub(super) unit: u8,
    pub(super) x: u16,
    pub(super) y: u16,
}

impl Density {
    /// Returns the density of a picture from another format.
    ///
    /// Without a resolution that fits, it only declares square pixels.
    pub(super) fn new(resolution: Option<Resolution>) -> Self {
        const PER_INCH: u8 = 1;
        let fitting = resolution.map(|resolution| resolution.inches().map(u16::try_from));
        match fitting {
            Some([Ok(x @ 1..), Ok(y @ 1..)]) => Self { unit: PER_INCH, x, y },
            _ => Self { unit: 0, x: 1, y: 1 },
        }
    }

    /// Returns the content of a JFIF segment without a thumbnail, version 1.01 like libjpeg's.
    pub(super) fn jfif(self) -> [u8; 14] {
        let Self { unit, x, y } = self;
        let ([x0, x1], [y0, y1]) = (x.to_be_bytes(), y.to_be_bytes());
        [b'J', b'F', b'I', b'F', 0, 1, 1, unit, x0, x1, y0, y1, 0, 0]
    }

    pub(super) fn resolution(self) -> Option<Resolution> {
        let counts = [f64::from(self.x), f64::from(self.y)];
        match self.unit {
            1 => Resolution::per_inch(counts),
            2 => Resolution::per_centimetre(counts),
            _ => None,
        }
    }
}

/// The contents of a JPEG's marker segments.
#[derive(Debug)]
pub(super) struct Markers<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: Vec<Factors>,
    pub(super) frame: Vec<FrameComponent>,
    pub(super) progressive: bool,
    /// Bits of a sample.
    pub(super) bits: u8,
    /// Whether it is lossless.
    pub(super) is_lossless: bool,
    pub(super) scans: u32,
    pub(super) restart_interval: u16,
    pub(super) density: Option<Density>,
    /// The colour transform in Adobe's segment.
    pub(super) adobe: Option<u8>,
    /// The application data and comments to keep, in their order.
    pub(super) kept: Vec<Segment<'a>>,
    /// Whether a segment holds a small version of the picture.
    pub(super) has_thumbnail: bool,
    /// The bytes after the end of the picture.
    pub(super) behind: &'a [u8],
}

impl<'a> Markers<'a> {
    /// Returns whether neither libjpeg nor the coder for samples of 8 bits reads the picture.
    pub(super) fn is_deep(&self) -> bool {
        self.is_lossless || self.bits != 8
    }

    /// Walks the segments from SOI to EOI.
    ///
    /// A file without EOI is reported as cut short.
    pub(super) fn scan(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut found = Found::default();
        let mut rest = &bytes[2..];
        loop {
            let (marker, behind) = next_marker(rest)?;
            rest = behind;
            match marker {
                EOI => {
                    found.behind = rest;
                    break;
                }
                0x01 | 0xd0..=0xd7 => continue, // TEM and restart markers have no content
                SOI => return Err(malformed("a second picture begins inside it")),
                _ => {}
            }
            let (segment, behind) = segment(marker, rest)?;
            rest = behind;
            if marker == SOS {
                found.scans += 1;
            } else {
                found.take(segment)?;
            }
        }
        found.finish()
    }

    /// Returns the rest of the first application segment that begins with this name.
    fn first_app1(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut segments = self.kept.iter().filter(|segment| segment.marker == APP1);
        segments.find_map(|segment| segment.content.strip_prefix(name))
    }

    /// Returns the metadata, assembled from the segments.
    pub(super) fn metadata(&self) -> Metadata {
        Metadata {
            icc: self.icc(),
            exif: self.first_app1(EXIF).and_then(strip_exif_prefix).map(<[u8]>::to_vec),
            // Other formats have no place for its extension.
            xmp: self.first_app1(XMP).and_then(|packet| xmp::corrected(packet, true)).map(Cow::into_owned),
            resolution: self.density.and_then(Density::resolution),
            georeference: None,
        }
    }

    /// Returns the bytes of the metadata after decoding.
    pub(super) fn metadata_bytes(&self) -> MetadataBytes {
        let carried = self.kept.iter().filter(|segment| {
            let names = [EXIF, XMP];
            segment.marker == APP1 && names.iter().any(|name| segment.content.starts_with(name))
                || icc_part(segment).is_some()
        });
        MetadataBytes {
            native: self.kept.iter().map(|segment| segment.content.len() as u64).sum(),
            carried: carried.map(|segment| segment.content.len() as u64).sum(),
        }
    }

    /// Returns whether the XMP has extended segments that describe data that are left out.
    ///
    /// Their parts are named after a checksum of the whole, which would become false; all of them
    /// are therefore left out.
    pub(super) fn has_false_extension(&self) -> bool {
        self.kept.iter().any(|segment| is_extended_xmp(segment) && xmp::tells_of_more(segment.content))
    }

    /// Joins the parts of the ICC profile (ICC.1:2022, annex B.4).
    ///
    /// Each begins with its number and their count. An incomplete set counts as no profile.
    fn icc(&self) -> Option<Vec<u8>> {
        let mut parts: Vec<(u8, u8, &[u8])> =
            self.kept.iter().filter_map(|segment| icc_part(segment)).collect();
        parts.sort_by_key(|(number, ..)| *number);
        let whole = !parts.is_empty()
            && parts.iter().zip(1..).all(|((number, count, _), expected)| {
                *number == expected && usize::from(*count) == parts.len()
            });
        whole.then(|| parts.iter().flat_map(|(.., data)| *data).copied().collect())
    }
}

fn is_extended_xmp(segment: &Segment<'_>) -> bool {
    segment.marker == APP1 && segment.content.starts_with(EXTENDED_XMP)
}

/// Returns the content of a segment to keep, with corrected XMP.
///
/// XMP about data that are left out is removed, including its own extension if that `is_cut`.
/// `None` if no part of it can be kept.
pub(super) fn corrected<'a>(segment: &Segment<'a>, is_cut: bool) -> Option<Cow<'a, [u8]>> {
    if is_cut && is_extended_xmp(segment) {
        return None;
    }
    match segment.content.strip_prefix(XMP).filter(|_| segment.marker == APP1) {
        Some(packet) => match xmp::corrected(packet, is_cut)? {
            Cow::Borrowed(_) => Some(Cow::Borrowed(segment.content)),
            Cow::Owned(packet) => Some(Cow::Owned([XMP, &packet].concat())),
        },
        None => Some(Cow::Borrowed(segment.content)),
    }
}

/// Returns the number, count and data of a part of an ICC profile; `None` for other segments.
pub(super) fn icc_part<'a>(segment: &Segment<'a>) -> Option<(u8, u8, &'a [u8])> {
    let data = segment.content.strip_prefix(ICC).filter(|_| segment.marker == APP2)?;
    if let [number, count, data @ ..] = data { Some((*number, *count, data)) } else { None }
}

#[derive(Default)]
struct Found<'a> {
    frame: Option<Segment<'a>>,
    scans: u32,
    restart_interval: u16,
    density: Option<Density>,
    adobe: Option<u8>,
    kept: Vec<Segment<'a>>,
    has_thumbnail: bool,
    behind: &'a [u8],
}

impl<'a> Found<'a> {
    fn take(&mut self, segment: Segment<'a>) -> Result<(), CodecError> {
        match (segment.marker, segment.content) {
            (0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf, _) if self.frame.is_some() => {
                return Err(malformed("it has two frame headers"));
            }
            (0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf, _) => self.frame = Some(segment),
            (SOF55, _) => {
                return Err(CodecError::unsupported("JPEG-LS", "convert it to an 8-bit baseline JPEG first"));
            }
            (DRI, &[high, low]) if self.scans == 0 => self.restart_interval = u16::from_be_bytes([high, low]),
            // Readers, including libjpeg, ignore a shorter segment; that decides whether a JPEG is
            // RGB.
            (APP0, &[b'J', b'F', b'I', b'F', 0, _, _, unit, x0, x1, y0, y1, _, _, ..]) => {
                let (x, y) = (u16::from_be_bytes([x0, x1]), u16::from_be_bytes([y0, y1]));
                self.density = Some(Density { unit, x, y });
            }
            // A JFXX thumbnail shows the old contrast.
            (APP0, content) => self.has_thumbnail |= content.starts_with(b"JFXX\0"),
            // Adobe's marker holds the colour transform; libjpeg writes a new one where needed.
            (APP14, [b'A', b'd', b'o', b'b', b'e', _, _, _, _, _, _, transform, ..]) => {
                self.adobe = Some(*transform);
            }
            (APP14, _) => {}
            (APP2, content) if content.starts_with(mpf::NAME) => {
                mpf::refuse_views(&content[mpf::NAME.len()..])?;
            }
            (APP2, content) if content.starts_with(GAIN_MAP) => {}
            (APP11, content) if content.starts_with(BOXES) => {}
            (APP1..=APP15 | COM, _) if self.kept.len() == MAX_KEPT => {
                return Err(malformed(format!("it has more than {MAX_KEPT} segments of application data")));
            }
            (APP1..=APP15 | COM, _) => self.kept.push(segment),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Markers<'a>, CodecError> {
        let frame = FrameHeader::parse_any(self.frame.ok_or_else(|| malformed("it has no frame header"))?)?;
        if self.scans == 0 || self.scans > MAX_SCANS {
            return Err(malformed(format!("it has {} scans", self.scans)));
        }
        Ok(Markers {
            width: frame.width,
            height: frame.height,
            components: frame.factors(),
            frame: frame.components,
            progressive: frame.progressive,
            bits: frame.bits,
            is_lossless: frame.lossless,
            scans: self.scans,
            restart_interval: self.restart_interval,
            density: self.density,
            adobe: self.adobe,
            kept: self.kept,
            has_thumbnail: self.has_thumbnail,
            behind: self.behind,
        })
    }
}

/// Returns the height after the first scan, and its place in the frame header.
///
/// The height there is 0 if it follows the first scan (T.81, B.2.5). Cameras that send rows before
/// the number of rows is known write it so, and no decoder at hand reads it.
pub(super) fn late_height(bytes: &[u8]) -> Option<(Range<usize>, [u8; 2])> {
    let (mut rest, mut place) = (bytes.get(2..)?, None);
    loop {
        let (marker, behind) = next_marker(rest).ok()?;
        let (segment, behind) = segment(marker, behind).ok()?;
        rest = behind;
        // The precision comes before the height.
        let height = bytes.len() - behind.len() - segment.content.len() + 1;
        match (marker, segment.content) {
            (SOF0 | SOF1 | SOF2, [_, 0, 0, ..]) => place = Some(height..height + 2),
            (SOF0 | SOF1 | SOF2, _) => return None,
            (SOS, _) => break,
            _ => {}
        }
    }
    let place = place?;
    loop {
        let (marker, behind) = next_marker(rest).ok()?;
        match marker {
            0xd0..=0xd7 => rest = behind,
            DNL => return Some((place, segment(marker, behind).ok()?.0.content.try_into().ok()?)),
            _ => return None,
        }
    }
}

fn truncated() -> CodecError {
    malformed("it is truncated")
}

/// Finds the next marker, and returns it and the bytes after it.
///
/// Entropy-coded data before it, in which each 0xff is followed by 0, are skipped.
pub(super) fn next_marker(bytes: &[u8]) -> Result<(u8, &[u8]), CodecError> {
    let mut rest = bytes;
    loop {
        let at = memchr::memchr(0xff, rest).ok_or_else(truncated)?;
        let fill = rest[at..].iter().take_while(|&&byte| byte == 0xff).count();
        let (&marker, behind) = rest[at + fill..].split_first().ok_or_else(truncated)?;
        if marker != 0 {
            return Ok((marker, behind));
        }
        rest = behind;
    }
}

/// Splits the segment after a marker from the bytes after it.
pub(super) fn segment(marker: u8, bytes: &[u8]) -> Result<(Segment<'_>, &[u8]), CodecError> {
    let (length, _) = bytes.split_first_chunk::<2>().ok_or_else(truncated)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length < 2 {
        return Err(malformed("a segment's length is less than its own"));
    }
    let (segment, behind) = bytes.split_at_checked(length).ok_or_else(truncated)?;
    Ok((Segment { marker, content: &segment[2..] }, behind))
}

/// Writes a segment; its content must be no longer than [`MAX_SEGMENT`](super::MAX_SEGMENT).
pub(super) fn write_segment(out: &mut Vec<u8>, marker: u8, content: &[u8]) {
    let length = u16::try_from(content.len() + 2).expect("a segment's content is short enough");
    out.extend([0xff, marker]);
    out.extend(length.to_be_bytes());
    out.extend(content);
}
