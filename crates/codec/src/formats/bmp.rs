//! Windows bitmaps, decoded by the `image` crate in every depth, with bit fields, RLE and alpha.
//!
//! Palettes become RGB, or gray if all their colours are gray. Output is uncompressed: 8-bit gray
//! (with a palette of grays), 24-bit RGB or 32-bit RGBA. An ICC profile is kept; a bitmap that
//! refers to a profile in another file is refused. A large uncompressed bitmap is read, and any
//! picture written, in bands of rows ([`bands`]).

use std::error::Error as _;
use std::fs::File;
use std::io::{self, BufWriter, Cursor, Write};
use std::ops::Range;

use image::codecs::bmp::BmpDecoder;
use image::error::{DecodingError, UnsupportedErrorKind};
use image::{ColorType, ImageDecoder, ImageError};

use crate::metadata::{Metadata, MetadataBytes, Resolution};
use crate::picture::decode::{Decode, Facts, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::pixels_of;
use crate::{CodecError, Decoded, Format, picture};
use equalize::{Depth, Layout, Pixel};

mod bands;

pub(crate) use bands::{open, write_band};

/// Pixels per metre that are written when the source states no density: 72 per inch.
const DEFAULT_DENSITY: [u8; 8] = [0x13, 0x0b, 0, 0, 0x13, 0x0b, 0, 0];

const FILE_HEADER: usize = 14;

/// The lengths of the headers that are written.
///
/// BITMAPINFOHEADER; BITMAPV4HEADER, with a mask for alpha; BITMAPV5HEADER, with a profile.
const INFO: usize = 40;
const V3: usize = 56;
const V4: usize = 108;
const V5: usize = 124;

/// The lengths of OS/2 2.x's header: whole, or cut off after the fields that every bitmap has.
const OS2: [u8; 2] = [64, 16];

/// Values of a header's colour space: a profile in the file, one in another file, or sRGB.
const EMBEDDED: &[u8; 4] = b"DEBM";
const LINKED: &[u8; 4] = b"KNIL";
const SRGB: &[u8; 4] = b"BGRs";

/// Returns whether a file that begins with these bytes is a bitmap.
///
/// Plain text may begin with "BM" too: the size of the bitmap header, which follows the file
/// header, must be plausible.
pub(super) fn is_head(head: &[u8]) -> bool {
    head.starts_with(b"BM") && matches!(head.get(14..18), Some([12..=124, 0, 0, 0]))
}

/// The part of a bitmap that is needed for writing it back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    /// Pixels per metre in x and y, as in the file.
    density: Option<[u8; 8]>,
}

impl picture::Native for Native {}

/// The decoder of a file in memory.
type WholeDecoder<'a> = BmpDecoder<Cursor<&'a [u8]>>;

/// The content of a bitmap's headers.
#[derive(Clone, Copy, Debug)]
struct Headers {
    layout: Layout,
    /// Whether it has a palette of grays.
    is_gray: bool,
    /// Pixels per metre in x and y, as in the file.
    density: Option<[u8; 8]>,
}

impl Headers {
    /// Reads the headers at the front of `bytes`; also returns a decoder.
    fn read(bytes: &[u8]) -> Result<(WholeDecoder<'_>, Self), CodecError> {
        if bytes.get(FILE_HEADER).is_some_and(|length| OS2.contains(length)) {
            return Err(CodecError::unsupported(
                "an OS/2 2.x BMP",
                "convert it first, as in `convert IN OUT.png` (ImageMagick)",
            ));
        }
        let decoder = BmpDecoder::new(Cursor::new(bytes)).map_err(decode_error)?;
        let is_gray =
            decoder.get_palette().is_some_and(|palette| palette.iter().all(|[r, g, b]| r == g && g == b));
        let pixel = match decoder.color_type() {
            ColorType::Rgb8 => Pixel::Rgb,
            ColorType::Rgba8 => Pixel::Rgba,
            other => {
                return Err(CodecError::unsupported(
                    format!("a BMP of {other:?}"),
                    "convert it first, as in `convert IN OUT.png` (ImageMagick)",
                ));
            }
        };
        let (width, height) = decoder.dimensions();
        if width == 0 || height == 0 {
            return Err(malformed("a width or height of 0"));
        }
        // BITMAPINFOHEADER and its successors have the density at byte 24.
        let long_header = bytes.get(FILE_HEADER).is_some_and(|&length| usize::from(length) >= INFO);
        let density = bytes.get(FILE_HEADER + 24..FILE_HEADER + 32).filter(|_| long_header);
        let density = density.and_then(|bytes| bytes.try_into().ok());
        let layout = Layout { width, height, pixel, depth: Depth::Eight };
        Ok((decoder, Self { layout, is_gray, density }))
    }

    /// Returns everything but the pixels, with a profile.
    fn payload(self, icc: Option<&[u8]>) -> Payload {
        let native = Box::new(Native { density: self.density });
        let resolution = self.density.and_then(|density| {
            let [x, y] = bytemuck::cast::<_, [[u8; 4]; 2]>(density).map(u32::from_le_bytes);
            Resolution::per_metre([x, y])
        });
        let metadata = Metadata { icc: icc.map(<[u8]>::to_vec), resolution, ..Metadata::default() };
        Payload { layout: self.layout, metadata, native, mapped: None }
    }
}

/// An opened bitmap.
pub(super) struct Source<'a> {
    decoder: WholeDecoder<'a>,
    headers: Headers,
    icc: Option<&'a [u8]>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// Reads the headers of a whole file, whose alpha is forgotten if it is empty.
    pub(super) fn mended(bytes: &'a mut [u8]) -> Result<Self, CodecError> {
        forget_empty_alpha(bytes);
        Self::open(bytes)
    }

    /// Reads the headers; `bytes` is the whole file.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (decoder, headers) = Headers::read(bytes)?;
        let icc = profile_at(bytes)?.map(|at| bytes.get(at).ok_or_else(profile_outside)).transpose()?;
        Ok(Self { decoder, headers, icc })
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let carried = self.icc.map_or(0, <[u8]>::len) as u64;
        let Headers { layout, is_gray, .. } = self.headers;
        Facts { is_gray, metadata: MetadataBytes { native: 0, carried }, ..Facts::of(layout) }
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        self.decoder.read_image(slot).map_err(decode_error)?;
        Ok(self.headers.payload(self.icc))
    }
}

/// The place of the mask of alpha in the header.
const ALPHA_MASK: Range<usize> = FILE_HEADER + 52..FILE_HEADER + V3;

/// Clears the mask of alpha in the header of a whole file if alpha is 0 everywhere.
///
/// Programs that do not know alpha leave it that way, and Windows shows such bitmaps opaque.
fn forget_empty_alpha(bytes: &mut [u8]) {
    let Some(alpha) = Alpha::of(bytes) else { return };
    if alpha.is_empty_in(bytes.get(alpha.start..).unwrap_or_default(), alpha.rows) {
        bytes[ALPHA_MASK].fill(0);
    }
}

/// The alpha of pixels, as a header states it.
struct Alpha {
    /// The bits of a pixel that are alpha.
    mask: [u8; 4],
    /// The offset of the rows.
    start: usize,
    /// Bytes of a pixel, of a row, and of a row with its padding.
    pixel: usize,
    row: usize,
    stride: usize,
    rows: usize,
}

impl Alpha {
    /// Returns it if the header at the front of `bytes` has a mask for it.
    fn of(bytes: &[u8]) -> Option<Self> {
        const BITFIELDS: usize = 3;
        let has_mask = number(bytes, 14..18)? >= V3 && number(bytes, 30..34)? == BITFIELDS;
        let (mask, start, bits) =
            (number(bytes, ALPHA_MASK)?, number(bytes, 10..14)?, number(bytes, 28..30)?);
        let (width, height) = (number(bytes, 18..22)?, number(bytes, 22..26)?);
        let row = width * (bits / 8);
        // A negative height means rows from the top down.
        let rows = (height as u32).cast_signed().unsigned_abs() as usize;
        let stride = row.next_multiple_of(4).max(4);
        let mask = (mask as u32).to_le_bytes();
        (has_mask && mask != [0; 4] && matches!(bits, 16 | 32)).then_some(Self {
            mask,
            start,
            pixel: bits / 8,
            row,
            stride,
            rows,
        })
    }

    /// Returns whether it is 0 in all of so many rows, as far as they are there.
    fn is_empty_in(&self, bytes: &[u8], rows: usize) -> bool {
        let lines = bytes.chunks(self.stride).take(rows);
        let mut pixels = lines.flat_map(|line| line[..self.row.min(line.len())].chunks_exact(self.pixel));
        pixels.all(|pixel| pixel.iter().zip(self.mask).all(|(byte, mask)| byte & mask == 0))
    }
}

/// Returns the number in these bytes of a file, if it has them.
fn number(bytes: &[u8], at: Range<usize>) -> Option<usize> {
    Some(bytes.get(at)?.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte)))
}

/// Returns the place of the ICC profile in a file with a BITMAPV5HEADER, given its front.
fn profile_at(bytes: &[u8]) -> Result<Option<Range<usize>>, CodecError> {
    let Some(header) = bytes.get(FILE_HEADER..FILE_HEADER + V5).filter(|header| header[0] == V5 as u8) else {
        return Ok(None);
    };
    match header[56..60].first_chunk() {
        Some(EMBEDDED) => {
            let place = number(header, 112..116).zip(number(header, 116..120));
            let (start, length) = place.ok_or_else(profile_outside)?;
            Ok(Some(FILE_HEADER + start..FILE_HEADER + start + length))
        }
        Some(LINKED) => Err(CodecError::unsupported(
            "a BMP whose colour profile is in another file",
            "convert it first, as in `convert IN OUT.png` (ImageMagick)",
        )),
        _ => Ok(None),
    }
}

fn profile_outside() -> CodecError {
    malformed("its colour profile lies outside the file")
}

/// Writes the pixels of `slot`.
pub(super) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    scratch: &mut Vec<u8>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let Form { header, stride, icc } = Form::of(decoded, &layout)?;
    let mut buffered = BufWriter::with_capacity(BUFFER, &mut *out);
    buffered.write_all(&header)?;
    write_rows(&layout, pixels_of(&layout, slot), stride, scratch, &mut buffered)?;
    buffered.write_all(icc)?;
    buffered.flush()?;
    Ok((header.len() + stride * layout.height as usize + icc.len()) as u64)
}

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 18;

/// The parts of a bitmap that is written, except for its pixels.
struct Form<'d> {
    /// The bytes before the pixels.
    header: Vec<u8>,
    /// Bytes of a row with its padding.
    stride: usize,
    /// The bytes after the pixels.
    icc: &'d [u8],
}

impl<'d> Form<'d> {
    /// Returns that of a decoded picture; the whole of it has this layout.
    fn of(decoded: &'d Decoded, layout: &Layout) -> Result<Self, CodecError> {
        let bytes = match layout.pixel {
            Pixel::Gray => 1,
            Pixel::Rgb => 3,
            Pixel::GrayAlpha | Pixel::Rgba => 4,
        };
        let stride = (layout.width as usize * bytes).next_multiple_of(4);
        let density = match (decoded.native_of::<Native>(), decoded.metadata.resolution) {
            (Some(native), _) => native.density,
            (None, resolution) => {
                resolution.map(|resolution| bytemuck::cast(resolution.metres().map(u32::to_le_bytes)))
            }
        };
        let icc = decoded.metadata.icc_in(Format::Bmp, layout.pixel).unwrap_or_default();
        let pixels = stride as u64 * u64::from(layout.height);
        let header = headers(layout, bytes, pixels, density.unwrap_or(DEFAULT_DENSITY), icc.len())?;
        Ok(Self { header, stride, icc })
    }
}

/// Writes rows of a layout from the last to the first, each with its padding.
///
/// `scratch` is worth reusing.
fn write_rows(
    layout: &Layout,
    pixels: &[u8],
    stride: usize,
    scratch: &mut Vec<u8>,
    out: &mut impl Write,
) -> io::Result<()> {
    scratch.clear();
    scratch.resize(stride, 0);
    for row in pixels.chunks_exact(layout.width as usize * layout.pixel_bytes()).rev() {
        arrange(row, layout.pixel, scratch);
        out.write_all(scratch)?;
    }
    Ok(())
}

fn word(header: &mut Vec<u8>, value: u32) {
    header.extend(value.to_le_bytes());
}

/// Returns the file header, the bitmap header, and a gray palette or the masks of the channels.
///
/// `bytes` is the size of a pixel, `pixels` that of all pixels; a profile of `profile` bytes
/// follows them.
fn headers(
    layout: &Layout,
    bytes: usize,
    pixels: u64,
    density: [u8; 8],
    profile: usize,
) -> Result<Vec<u8>, CodecError> {
    const BITFIELDS: u32 = 3;
    let palette = if bytes == 1 { 256 } else { 0 };
    let length = match (profile, bytes) {
        (1.., _) => V5,
        (0, 4) => V4,
        _ => INFO,
    };
    let offset = FILE_HEADER + length + 4 * palette;
    let too_large =
        |_| CodecError::cannot_represent(Format::Bmp, "more than 4 GiB", "use --format png, tiff or pnm");
    let file = u32::try_from(pixels + (offset + profile) as u64).map_err(too_large)?;
    let pixels = file - (offset + profile) as u32;
    let mut header = Vec::with_capacity(offset);
    header.extend(b"BM");
    word(&mut header, file);
    word(&mut header, 0);
    word(&mut header, offset as u32);
    word(&mut header, length as u32);
    word(&mut header, layout.width);
    word(&mut header, layout.height);
    header.extend(1u16.to_le_bytes());
    header.extend((8 * bytes as u16).to_le_bytes());
    word(&mut header, if bytes == 4 { BITFIELDS } else { 0 });
    word(&mut header, pixels);
    header.extend(density);
    word(&mut header, palette as u32);
    word(&mut header, 0);
    if length > INFO {
        let place = (offset - FILE_HEADER) as u32 + pixels;
        add_colour_space(&mut header, bytes, (profile > 0).then_some([place, profile as u32]));
        header.resize(FILE_HEADER + length, 0);
    }
    (0..palette as u32).for_each(|level| word(&mut header, level * 0x01_0101));
    Ok(header)
}

/// Adds the fields of BITMAPV4HEADER and, with a `profile` (place and length), BITMAPV5HEADER.
fn add_colour_space(header: &mut Vec<u8>, bytes: usize, profile: Option<[u32; 2]>) {
    const PERCEPTUAL: u32 = 4;
    let masks = if bytes == 4 { [0x00ff_0000, 0x0000_ff00, 0x0000_00ff, 0xff00_0000] } else { [0; 4] };
    masks.into_iter().for_each(|mask| word(header, mask));
    header.extend(if profile.is_some() { EMBEDDED } else { SRGB });
    if let Some([place, length]) = profile {
        header.resize(FILE_HEADER + V4, 0);
        [PERCEPTUAL, place, length].into_iter().for_each(|value| word(header, value));
    }
}

/// Arranges a row in the file's order: blue, green, red, alpha.
fn arrange(row: &[u8], pixel: Pixel, into: &mut [u8]) {
    match pixel {
        Pixel::Gray => into[..row.len()].copy_from_slice(row),
        Pixel::GrayAlpha => {
            for (to, [gray, alpha]) in into.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<2>().0) {
                *to = [*gray, *gray, *gray, *alpha];
            }
        }
        Pixel::Rgb => {
            for (to, [r, g, b]) in into.as_chunks_mut::<3>().0.iter_mut().zip(row.as_chunks::<3>().0) {
                *to = [*b, *g, *r];
            }
        }
        Pixel::Rgba => {
            for (to, [r, g, b, a]) in into.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<4>().0) {
                *to = [*b, *g, *r, *a];
            }
        }
    }
}

fn decode_error(error: ImageError) -> CodecError {
    match error {
        ImageError::IoError(_) => malformed("it is truncated"),
        ImageError::Decoding(error) if error.to_string().contains("Image too large") => {
            CodecError::unsupported(
                "a BMP with a side of more than 65535 pixels",
                "convert it first, as in `convert IN OUT.png` (ImageMagick)",
            )
        }
        ImageError::Unsupported(error) => {
            let what = match error.kind() {
                UnsupportedErrorKind::GenericFeature(what) => what,
                _ => error.to_string(),
            };
            CodecError::unsupported(
                format!("this kind of BMP ({what})"),
                "convert it first, as in `convert IN OUT.png` (ImageMagick)",
            )
        }
        ImageError::Decoding(error) if unknown_compression(&error).is_some() => CodecError::unsupported(
            format!("this kind of BMP (compression {})", unknown_compression(&error).unwrap_or_default()),
            "convert it first, as in `convert IN OUT.png` (ImageMagick)",
        ),
        // Only the cause, without the words that the library puts before it.
        other => malformed(other.source().map_or_else(|| other.to_string(), ToString::to_string)),
    }
}

/// Returns the number of a compression that the library does not know, if that is the error.
///
/// Windows CE's bit fields with alpha are one.
fn unknown_compression(error: &DecodingError) -> Option<String> {
    let cause = error.source()?.to_string();
    cause.strip_prefix("Unknown image compression type ").map(str::to_owned)
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Bmp, reason)
}
