//! PBM, PGM, PPM and PAM (netpbm's formats; <https://netpbm.sourceforge.net/doc/>).
//!
//! Binary pixels are read from the file straight into the slot and written straight from it.
//! Samples with a maxval other than 255 and 65535 are scaled to the full range of their depth,
//! rounding halves up, which keeps distinct values distinct. Output has maxval 255 or 65535, or
//! that of fewer levels, and the binary form: P5, P6, or P7 if the source is P7 or has alpha. A
//! file of several pictures is refused.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use crate::io::budget::Budget;
use crate::io::cores::Cores;
use crate::io::input::{HEAD, read_full, read_rest};
use crate::parts::banded::Bands;
use crate::parts::bands::Cut;
use crate::parts::opening::{Found, Opening};
use crate::picture::decode::{Decode, Facts, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::size::Size;
use crate::samples::stated::{Place as StatedPlace, Stated};
use crate::samples::{LINE, pixels_of, rescale, swap_big_endian, unpack};
use crate::{CodecError, Decoded, Format, Limits, Metadata, picture};
use equalize::{ByteOrder, Depth, Layout, Pixel};

mod bands;
mod header;
mod pfm;

use bands::Place;
pub(crate) use bands::write_band;
use header::{Header, Raster, blank};

/// Opens a file, or a band of it.
pub(super) fn open<'a, 'o>(opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    if pfm::is_pfm(opening.buffer) { pfm::open(opening) } else { bands::open(opening) }
}

/// Returns whether a file that begins with these bytes is a PNM.
pub(super) fn is_head(head: &[u8]) -> bool {
    matches!(head, [b'P', kind @ (b'1'..=b'7' | b'F' | b'f'), header @ ..] if goes_on(*kind, header))
}

/// Returns whether a PNM's header goes on like this after its magic, as far as it is there.
///
/// Texts begin with "P1 " too: width and height have to follow, or the first keyword of a PAM, or a
/// comment.
fn goes_on(kind: u8, header: &[u8]) -> bool {
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

/// The part of a PNM that is needed for writing it back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    pam: bool,
}

impl picture::Native for Native {}

/// An opened PNM.
#[derive(Debug)]
pub(super) struct Source<'a> {
    header: Header,
    /// The offset of the raster in the file.
    start: usize,
    /// The bytes read after the header: all of a text raster, the beginning of a binary one.
    body: &'a [u8],
    file: &'a mut File,
    /// The rows that are decoded, if they are not all.
    band: Option<Place>,
}

impl<'a> Source<'a> {
    /// Reads the header from `buffer`, which holds the file's head.
    pub(super) fn open(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
        budget: &mut dyn Budget,
    ) -> Result<Self, CodecError> {
        let header = header::parse(buffer).map_err(|reason| {
            malformed(if (buffer.len() as u64) < HEAD {
                reason
            } else {
                "no whole header within the first 16 KiB"
            })
        })?;
        let mut start = header.length;
        if matches!(header.raster, Raster::Text | Raster::TextBits) {
            read_rest(file, buffer, limits, budget)?;
        } else if buffer[start - 1..].starts_with(b"\r\n") {
            // A header written in text mode on Windows ends in two bytes. Only the length of the
            // file distinguishes it from a header before a raster that begins with byte 10.
            let behind = file.metadata()?.len().saturating_sub(start as u64);
            start += usize::from(behind == header.raster_bytes() + 1);
        }
        Ok(Self { header, start, body: &buffer[start..], file, band: None })
    }

    /// Returns the bands that it is cut into if it is large enough.
    ///
    /// Those of a text cannot be found. No band divides `unit` rows.
    pub(super) fn bands(&self, unit: u32, cut: Cut) -> Option<Bands<()>> {
        let layout = self.header.layout;
        let rows = cut.rows(Size::of(&layout), layout.bytes(), unit)?;
        self.is_binary().then(|| Bands::new(rows, ()))
    }

    /// Restricts decoding to a band of it.
    pub(super) fn narrow(self, band: Place) -> Self {
        Self { band: Some(band), ..self }
    }

    fn is_binary(&self) -> bool {
        matches!(self.header.raster, Raster::Binary | Raster::Bits)
    }

    /// Fills `raster` with the decoded rows; after the last one, checks the end of the file.
    fn read_rows(self, raster: &mut [u8]) -> Result<(), CodecError> {
        let Some(Place { first, count, .. }) = self.band else { return self.read_binary(raster) };
        let (all, height) = (self.header.raster_bytes(), self.header.layout.height);
        let before = all / u64::from(height) * u64::from(first);
        self.file.seek(SeekFrom::Start(self.start as u64 + before))?;
        let filled = read_full(self.file, raster)?;
        if filled < raster.len() {
            return Err(truncated(before + filled as u64, all));
        }
        if first + count < height { Ok(()) } else { check_end_of(&[], self.file) }
    }

    /// Fills `raster` from the bytes that have been read and from the file, and checks its end.
    fn read_binary(self, raster: &mut [u8]) -> Result<(), CodecError> {
        let ready = self.body.len().min(raster.len());
        raster[..ready].copy_from_slice(&self.body[..ready]);
        let filled = ready + read_full(self.file, &mut raster[ready..])?;
        if filled < raster.len() {
            return Err(truncated(filled as u64, raster.len() as u64));
        }
        check_end_of(&self.body[ready..], self.file)
    }
}

impl Source<'_> {
    fn layout(&self) -> Layout {
        let layout = self.header.layout;
        Layout { height: self.band.as_ref().map_or(layout.height, |band| band.count), ..layout }
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let Header { layout, raster, maxval, .. } = self.header;
        let is_binary = raster == Raster::Binary;
        let is_straight = self.band.is_none() && is_binary && self.start.is_multiple_of(layout.depth.bytes());
        let is_deep = is_binary && maxval == u16::MAX;
        Facts {
            // Levels by maxval are spread over the range.
            stated: Some(Stated { top: maxval, place: StatedPlace::Spread }),
            // The header of the output usually has the same length.
            lead: if is_straight { self.start % LINE } else { 0 },
            byte_order: if is_deep { ByteOrder::BIG_ENDIAN } else { ByteOrder::Native },
            ..Facts::of(self.layout())
        }
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let layout = self.layout();
        let Header { raster, maxval, pam, .. } = self.header;
        match raster {
            Raster::Text => check_text_end(read_numbers(self.body, layout.depth, maxval, slot)?)?,
            Raster::TextBits => check_text_end(read_digits(self.body, slot)?)?,
            Raster::Binary => {
                self.read_rows(slot)?;
                to_full_range(slot, layout.depth, maxval, wanted.byte_order)?;
            }
            Raster::Bits => {
                // The packed rows go to the end of the slot and are unpacked from there to its
                // front.
                let packed = layout.width.div_ceil(8) as usize * layout.height as usize;
                let at = slot.len() - packed;
                self.read_rows(&mut slot[at..])?;
                unpack(slot, at, layout.width as usize, 1);
                slot.iter_mut().for_each(|sample| *sample = !*sample); // 1 is black
            }
        }
        Ok(Payload { layout, metadata: Metadata::default(), native: Box::new(Native { pam }), mapped: None })
    }
}

/// Writes the pixels of `slot`, as a PFM if they came from one and are made samples again.
pub(super) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    match (decoded.native_of(), decoded.restored()) {
        (Some(native), Some(mapped)) => pfm::encode(decoded, native, mapped, slot, cores, out),
        _ => encode_levels(decoded, slot, out),
    }
}

/// Writes the pixels of `slot`.
fn encode_levels(decoded: &Decoded, slot: &mut [u8], out: &mut File) -> Result<u64, CodecError> {
    let pixels = stored(decoded, slot);
    let header = header_of(decoded, &decoded.layout);
    out.write_all(header.as_bytes())?;
    out.write_all(pixels)?;
    Ok((header.len() + pixels.len()) as u64)
}

/// Returns the pixels at the front of `slot` as they are stored.
fn stored<'s>(decoded: &Decoded, slot: &'s mut [u8]) -> &'s [u8] {
    let pixels = pixels_of(&decoded.layout, slot);
    if decoded.layout.depth == Depth::Sixteen {
        swap_big_endian(pixels, decoded.byte_orders.to);
    }
    pixels
}

/// Returns the header of a decoded picture; the whole of it has this layout.
fn header_of(decoded: &Decoded, layout: &Layout) -> String {
    let pam = matches!(decoded.native_of(), Some(Native { pam: true }));
    header_for(layout, decoded.scale.top_written(layout.depth), pam)
}

fn header_for(layout: &Layout, maxval: u16, pam: bool) -> String {
    let Layout { width, height, pixel, .. } = *layout;
    let kind = match pixel {
        Pixel::Gray if !pam => return format!("P5\n{width} {height}\n{maxval}\n"),
        Pixel::Rgb if !pam => return format!("P6\n{width} {height}\n{maxval}\n"),
        Pixel::Gray => "GRAYSCALE",
        Pixel::GrayAlpha => "GRAYSCALE_ALPHA",
        Pixel::Rgb => "RGB",
        Pixel::Rgba => "RGB_ALPHA",
    };
    let channels = pixel.channels();
    format!(
        "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {maxval}\nTUPLTYPE {kind}\nENDHDR\n"
    )
}

/// Checks the bytes after the pixels.
///
/// White space and zeros are padding; anything else would be lost, and is an error.
pub(super) fn check_end(rest: &[u8]) -> Result<(), CodecError> {
    let rest = &rest[rest.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0).count()..];
    match rest {
        [] => Ok(()),
        [b'P', b'1'..=b'7', ..] => Err(CodecError::unsupported(
            "a PNM file of several pictures",
            "split it, with netpbm's pamsplit for example",
        )),
        _ => Err(malformed("more bytes than its header's width and height call for")),
    }
}

/// Checks the rest of a file after the pixels, as much of it as a head has.
///
/// Its first bytes may be `ready`.
fn check_end_of(ready: &[u8], file: &mut File) -> Result<(), CodecError> {
    let mut rest = vec![0; HEAD as usize];
    let there = ready.len().min(rest.len());
    rest[..there].copy_from_slice(&ready[..there]);
    let read = read_full(file, &mut rest[there..])?;
    check_end(&rest[..there + read])
}

/// Like [`check_end`], for text, where comments may follow too.
fn check_text_end(rest: &[u8]) -> Result<(), CodecError> {
    check_end(&rest[blank(rest)..])
}

/// Scales samples of `0..=maxval` to the full range of the depth, in this byte order.
///
/// 16-bit samples are big-endian before.
///
/// Samples to be scaled have to be in the machine's order.
fn to_full_range(samples: &mut [u8], depth: Depth, maxval: u16, order: ByteOrder) -> Result<(), CodecError> {
    let mut highest = 0;
    match depth {
        Depth::Eight if maxval == 255 => {}
        Depth::Eight => {
            for sample in samples {
                highest = highest.max(u16::from(*sample));
                *sample = widen(*sample, maxval);
            }
        }
        Depth::Sixteen => {
            swap_big_endian(samples, order);
            if maxval < u16::MAX {
                for bytes in samples.as_chunks_mut::<2>().0 {
                    let sample = u16::from_ne_bytes(*bytes);
                    highest = highest.max(sample);
                    *bytes = widen_16(sample, maxval).to_ne_bytes();
                }
            }
        }
    }
    if highest > maxval { Err(over_maxval(u32::from(highest), maxval)) } else { Ok(()) }
}

/// Scales an 8-bit sample to the full range; values above maxval saturate.
fn widen(sample: u8, maxval: u16) -> u8 {
    rescale(u32::from(sample), u32::from(maxval), 255).min(255) as u8
}

/// Scales a 16-bit sample to the full range; values above maxval saturate.
fn widen_16(sample: u16, maxval: u16) -> u16 {
    rescale(u32::from(sample), u32::from(maxval), 65535).min(65535) as u16
}

/// Reads decimal samples into `slot`; returns the rest of the text.
fn read_numbers<'t>(
    mut text: &'t [u8],
    depth: Depth,
    maxval: u16,
    slot: &mut [u8],
) -> Result<&'t [u8], CodecError> {
    for sample in slot.chunks_exact_mut(depth.bytes()) {
        text = &text[blank(text)..];
        let mut value = 0u32;
        let mut length = 0;
        while let Some(digit @ b'0'..=b'9') = text.get(length) {
            value = value.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            length += 1;
        }
        if length == 0 {
            return Err(malformed(if text.is_empty() {
                "truncated: samples are missing"
            } else {
                "a sample is not a number"
            }));
        }
        if value > u32::from(maxval) {
            return Err(over_maxval(value, maxval));
        }
        match depth {
            Depth::Eight => sample[0] = widen(value as u8, maxval),
            Depth::Sixteen => sample.copy_from_slice(&widen_16(value as u16, maxval).to_ne_bytes()),
        }
        text = &text[length..];
    }
    Ok(text)
}

/// Reads the digits of a P1, which need no space between them; returns the rest of the text.
fn read_digits<'t>(mut text: &'t [u8], slot: &mut [u8]) -> Result<&'t [u8], CodecError> {
    for sample in slot {
        text = &text[blank(text)..];
        *sample = match text.first() {
            Some(b'0') => 255,
            Some(b'1') => 0,
            Some(_) => return Err(malformed("a pixel that is neither 0 nor 1")),
            None => return Err(malformed("truncated: pixels are missing")),
        };
        text = &text[1..];
    }
    Ok(text)
}

fn truncated(there: u64, all: u64) -> CodecError {
    malformed(format!("truncated: only {there} of {all} bytes of pixels are there"))
}

fn over_maxval(sample: u32, maxval: u16) -> CodecError {
    malformed(format!("a sample of {sample}, above its maxval of {maxval}"))
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Pnm, reason)
}
