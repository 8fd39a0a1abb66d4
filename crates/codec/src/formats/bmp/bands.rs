//! A bitmap that is too large to be in memory as a whole.
//!
//! Its rows are decoded in bands, and bands of any picture are written to their places as they
//! come. Rows lie from the last to the first, unless the height is negative.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use image::codecs::bmp::BmpDecoder;
use image::{ImageDecoder, ImageError};

use super::{
    ALPHA_MASK, Alpha, BUFFER, FILE_HEADER, Form, Headers, INFO, decode_error, number, profile_at,
    profile_outside, write_rows,
};
use crate::io::budget::{Budget, SMALL_CHANGE, ask};
use crate::io::input::waiting_for_file;
use crate::io::output::FileAt;
use crate::metadata::MetadataBytes;
use crate::parts::banded::{BandPlace, Bands};
use crate::parts::bands::{BandRows, Cut};
use crate::parts::opening::{Found, Header, Opening, rows_together};
use crate::parts::pages;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::pixels_of;
use crate::samples::size::Size;
use crate::{CodecError, Decoded, Format, Limits};
use equalize::Layout;

/// The place of a band of a bitmap.
type Place = BandPlace<Picture>;

/// The description of a bitmap, without its pixels.
#[derive(Debug)]
struct Picture {
    headers: Headers,
    /// The bytes before the pixels.
    head: Vec<u8>,
    rows: StoredRows,
    icc: Option<Vec<u8>>,
}

/// The storage of rows without compression.
#[derive(Clone, Debug)]
struct StoredRows {
    /// The offset of their first byte.
    start: usize,
    /// Bytes of a row with its padding.
    stride: u64,
    /// The place of their number in the header, and whether that is negative.
    count_at: Range<usize>,
    is_negative: bool,
}

impl StoredRows {
    /// Returns the storage of the rows of a file with this front.
    ///
    /// `None` without whole headers before them, or if they are compressed.
    fn of(bytes: &[u8]) -> Option<Self> {
        const CORE: usize = 12;
        let (start, header) = (number(bytes, 10..14)?, number(bytes, 14..18)?);
        let is_core = header == CORE;
        let (sides, bits) = if is_core { ([18..20, 20..22], 24..26) } else { ([18..22, 22..26], 28..30) };
        let [width_at, count_at] = sides;
        let (width, bits) = (number(bytes, width_at)?, number(bytes, bits)?);
        let compression = if is_core { Self::RGB } else { number(bytes, 30..34)? };
        let colours = if is_core { 0 } else { number(bytes, 46..50)? };
        let entries = match (bits, colours) {
            (9.., _) => 0,
            (_, 0) => 1 << bits,
            _ => colours,
        };
        let palette = entries * if is_core { 3 } else { 4 };
        let masks = if compression == Self::BITFIELDS && header == INFO { 12 } else { 0 };
        let is_stored = [Self::RGB, Self::BITFIELDS].contains(&compression);
        let is_negative = !is_core && number(bytes, count_at.clone())? >> 31 == 1;
        let stride = (width as u64 * bits as u64).div_ceil(32) * 4;
        let are_behind = start >= FILE_HEADER + header + masks + palette;
        (is_stored && are_behind).then_some(Self { start, stride, count_at, is_negative })
    }

    /// The values for uncompressed pixels.
    const RGB: usize = 0;
    const BITFIELDS: usize = 3;

    /// Returns the headers of a bitmap of so many rows.
    fn head_of(&self, head: &[u8], count: u32) -> Vec<u8> {
        let mut head = head.to_vec();
        let number = if self.is_negative { count.wrapping_neg() } else { count };
        head[self.count_at.clone()].copy_from_slice(&number.to_le_bytes()[..self.count_at.len()]);
        head
    }
}

/// Opens a band of a file, unless the file is to be read as a whole.
pub(crate) fn open<'a, 'o>(mut opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let place = opening.place.take().and_then(pages::Place::into::<Place>);
    let bands = if place.is_none() {
        let cut = opening.cut(Format::Bmp);
        let Opening { file, buffer, limits, budget, target, .. } = &mut opening;
        let unit = |layout, is_gray| rows_together(layout, is_gray, Format::Bmp, target);
        find(file, buffer, limits, &mut **budget, cut, unit)?
    } else {
        None
    };
    let Some(place) = place.or_else(|| bands.as_ref().map(|bands| bands.place(0))) else {
        return Ok(Found::Whole(opening));
    };
    Ok(Found::Header(Header::of(Band { place, file: opening.file }).with_pages(bands)))
}

/// Finds the bands of a file, with its head given, if it is to be cut into bands.
///
/// Returns `None` if it is not, or cannot be: if it is run-length encoded. `unit` returns the
/// number of rows that no band divides, by the layout of pixels, and by whether colours are gray.
fn find(
    file: &File,
    head: &[u8],
    limits: &Limits,
    budget: &mut dyn Budget,
    cut: Cut,
    unit: impl FnOnce(Layout, bool) -> u32,
) -> Result<Option<Bands<Picture>>, CodecError> {
    let about = file.metadata()?;
    let is_possible = cut.most < u64::MAX && about.is_file();
    let rows = StoredRows::of(head).filter(|rows| rows.start as u64 <= SMALL_CHANGE.min(about.len()));
    let Some(rows) = rows.filter(|_| is_possible) else { return Ok(None) };
    let mut head = vec![0; rows.start];
    waiting_for_file(|| file.read_exact_at(&mut head, 0))?;
    let bands_of =
        |headers: &Headers, unit| cut.rows(Size::of(&headers.layout), headers.layout.bytes(), unit);
    if bands_of(&Headers::read(&head)?.1, 1).is_none() {
        return Ok(None);
    }
    // A file that is too long is refused for that.
    if about.len() <= limits.max_bytes {
        forget_empty_alpha(&mut head, file)?;
    }
    let headers = Headers::read(&head)?.1;
    let Some(bands) = bands_of(&headers, unit(headers.layout, headers.is_gray)) else { return Ok(None) };
    let icc = profile_at(&head)?.map(|at| profile(at, file, about.len(), budget)).transpose()?;
    Ok(Some(Bands::new(bands, Picture { headers, head, rows, icc })))
}

/// Reads the profile in these bytes of a file of this length.
fn profile(
    at: Range<usize>,
    file: &File,
    length: u64,
    budget: &mut dyn Budget,
) -> Result<Vec<u8>, CodecError> {
    if at.end as u64 > length {
        return Err(profile_outside());
    }
    ask(budget, at.len() as u64, "metadata")?;
    let mut profile = vec![0; at.len()];
    waiting_for_file(|| file.read_exact_at(&mut profile, at.start as u64))?;
    Ok(profile)
}

/// Clears the mask of alpha in the head of a file if alpha is 0 everywhere.
fn forget_empty_alpha(head: &mut [u8], file: &File) -> io::Result<()> {
    let Some(alpha) = Alpha::of(head) else { return Ok(()) };
    let at_once = (BUFFER / alpha.stride).max(1);
    let mut block = vec![0; at_once * alpha.stride];
    let mut from = FileAt { file, at: alpha.start as u64 };
    for first in (0..alpha.rows).step_by(at_once) {
        let filled = fill(&mut from, &mut block)?;
        if !alpha.is_empty_in(&block[..filled], at_once.min(alpha.rows - first)) {
            return Ok(());
        }
        if filled < block.len() {
            break;
        }
    }
    head[ALPHA_MASK].fill(0);
    Ok(())
}

/// Reads until `into` is full or the file ends; returns the number of bytes read.
fn fill(from: &mut FileAt<'_>, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A band of an opened bitmap.
#[derive(Debug)]
pub(crate) struct Band<'a> {
    place: Place,
    file: &'a File,
}

impl Band<'_> {
    fn layout(&self) -> Layout {
        Layout { height: self.place.count, ..self.place.picture.headers.layout }
    }
}

impl Decode for Band<'_> {
    fn facts(&self) -> Facts {
        let Picture { headers, icc, .. } = &*self.place.picture;
        let carried = icc.as_ref().map_or(0, Vec::len) as u64;
        let metadata = MetadataBytes { native: 0, carried };
        Facts { is_gray: headers.is_gray, metadata, ..Facts::of(self.layout()) }
    }

    /// Returns the needs for its headers and a row.
    fn needs(&self) -> Needs {
        let Picture { head, rows, .. } = &*self.place.picture;
        Needs::of_heap(head.len() as u64 + rows.stride)
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let layout = self.layout();
        let Place { picture, first, count, .. } = &self.place;
        let Picture { headers, head, rows, icc } = &**picture;
        let above = if rows.is_negative { *first } else { headers.layout.height - first - count };
        let at = rows.start as u64 + u64::from(above) * rows.stride;
        let head = rows.head_of(head, *count);
        let spliced = Spliced { head: &head, rows: FileAt { file: self.file, at }, at: 0 };
        let decoder = BmpDecoder::new(BufReader::with_capacity(BUFFER, spliced)).map_err(unread)?;
        decoder.read_image(slot).map_err(unread)?;
        Ok(Headers { layout, ..*headers }.payload(icc.as_deref()))
    }
}

/// Returns the error of a part of a file that cannot be read.
fn unread(error: ImageError) -> CodecError {
    match error {
        ImageError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => CodecError::Io(error),
        error => decode_error(error),
    }
}

/// A bitmap of some rows of a file, after headers of their own.
struct Spliced<'f> {
    head: &'f [u8],
    /// The first of the rows.
    rows: FileAt<'f>,
    at: u64,
}

impl Read for Spliced<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match self.at.checked_sub(self.head.len() as u64) {
            Some(behind) => FileAt { at: self.rows.at + behind, ..self.rows }.read(into)?,
            None => (&self.head[self.at as usize..]).read(into)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Spliced<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(_) => None,
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Writes a band to its place in an empty file; returns the bytes of the whole file.
pub(crate) fn write_band(
    rows: &BandRows,
    index: usize,
    decoded: &Decoded,
    slot: &mut [u8],
    out: &File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let whole = Layout { height: rows.height(), ..layout };
    let Form { header, stride, icc } = Form::of(decoded, &whole)?;
    let end = header.len() as u64 + stride as u64 * u64::from(whole.height);
    if index == 0 {
        out.write_all_at(&header, 0)?;
        out.write_all_at(icc, end)?;
    }
    let from_end = u64::from(rows.first_row(index) + layout.height) * stride as u64;
    let mut buffered = BufWriter::with_capacity(BUFFER, FileAt { file: out, at: end - from_end });
    write_rows(&layout, pixels_of(&layout, slot), stride, &mut Vec::new(), &mut buffered)?;
    buffered.flush()?;
    Ok(end + icc.len() as u64)
}
