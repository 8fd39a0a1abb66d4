//! A PNG that is too large to be in memory as a whole.
//!
//! Its rows are decoded in bands ([`read`]), and bands of any picture make one ([`write`]).

mod read;
mod write;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use ::png::Info;

use super::chunks::{self, SIGNATURE};
use super::stream::Division;
use super::{Source, decode_error};
use crate::io::budget::{Budget, ask};
use crate::io::input::check_length;
use crate::parts::banded::Bands;
use crate::parts::bands::Cut;
use crate::parts::opening::{Found, Header, Opening, rows_together};
use crate::parts::pages;
use crate::picture::decode::Decode;
use crate::samples::size::Size;
use crate::{CodecError, Format, LevelCount, Limits};
use equalize::{Depth, Layout, Pixel};

use read::{ChunkData, Place, Rereading};
pub(crate) use write::Writer;

/// Returns the least rows of each band but the last.
///
/// With these, no piece of the compressed data is made of more than two bands. They are the rows of
/// a piece, and those above it that matter, if each pixel has one byte.
pub(crate) fn least_rows(width: u32) -> u32 {
    let division = Division::of(&Layout { width, height: 1, pixel: Pixel::Gray, depth: Depth::Eight });
    (division.piece + division.above()) as u32
}

/// Returns the bytes of rows that a writer of bands holds for each, in addition to the band.
///
/// They are the rows that wait for a band above or below, and those of a piece of both.
pub(crate) fn waiting_bytes(layout: &Layout) -> u64 {
    let division = Division::of(layout);
    4 * (division.piece + division.above()) as u64 * division.row as u64
}

/// Opens a band of a file, unless the file is to be read as a whole.
pub(crate) fn open<'a, 'o>(mut opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let place = opening.place.take().and_then(pages::Place::into::<Place>);
    let bands = if place.is_none() {
        let cut = opening.cut(Format::Png);
        let Opening { file, buffer, limits, budget, target, .. } = &mut opening;
        let unit = |layout| rows_together(layout, false, Format::Png, target);
        find(file, buffer, limits, &mut **budget, cut, target.levels, unit)?
    } else {
        None
    };
    let is_further = place.is_some();
    let Some(place) = place.or_else(|| bands.as_ref().map(|bands| bands.place(0))) else {
        return Ok(Found::Whole(opening));
    };
    let Opening { file, buffer, budget, .. } = opening;
    let file_bytes = place.bytes();
    // The budget of the first one was asked for when the bands were found.
    let band = place.open(file, buffer, if is_further { Some(budget) } else { None })?;
    Ok(Found::Header(Header { file_bytes, ..Header::of(band).with_pages(bands) }))
}

/// Finds the bands of a file, with its `head` given, if it is to be cut into bands.
///
/// Returns `None` if it is not, or cannot be: if it is interlaced or an animation, or if the levels
/// are to be found in the samples of all bands. `unit` returns the number of rows that no band
/// divides, by the layout of the pixels.
fn find(
    file: &File,
    head: &[u8],
    limits: &Limits,
    budget: &mut dyn Budget,
    cut: Cut,
    levels: LevelCount,
    unit: impl FnOnce(Layout) -> u32,
) -> Result<Option<Bands<Rereading>>, CodecError> {
    let about = file.metadata()?;
    let most = chunks::layout_of_rows(head).map_or(0, |layout| layout.bytes());
    if most <= cut.most || !about.is_file() {
        return Ok(None);
    }
    let Some(places) = Places::find(file, about.len(), limits)? else { return Ok(None) };
    let outline = places.outline(file, budget)?;
    let source = Source::open(&outline)?;
    let (layout, stored) = (source.chunks.layout, source.chunks.stored);
    let (None, Some(stored)) = (&source.frames, stored) else { return Ok(None) };
    if source.facts().stated.is_some() && (levels.is_stated() || matches!(levels, LevelCount::Number(_))) {
        return Ok(None);
    }
    let Some(rows) = cut.rows(Size::of(&layout), layout.bytes(), unit(layout)) else {
        return Ok(None);
    };
    // The decoder takes memory for a row, and a picture over the limits is refused for that.
    let is_within = limits.check(&layout, layout.bytes(), || None).is_ok();
    let form = if is_within { Some(source.checked_form()?) } else { None };
    let form = form.filter(|_| !stored.is_direct).map(Box::new);
    let first_data = ChunkData { at: places.data + 8, bytes: places.size };
    Ok(Some(Bands::new(rows, Rereading::new(outline, first_data, rows, stored, form))))
}

impl Source<'_> {
    /// Returns the stored form of pixels, after checking all chunks of an outline.
    fn checked_form(&self) -> Result<Info<'static>, CodecError> {
        let mut reader = self.reader()?;
        let form = read::form_of(reader.info(), self.chunks.all(b"tRNS").next());
        reader.finish().map_err(decode_error)?;
        Ok(form)
    }
}

/// The places of the parts of a file.
struct Places {
    /// The first chunk of image data, and the length of its content.
    data: u64,
    size: u32,
    /// The chunks after the image data, unless these are not read.
    behind: Option<Range<u64>>,
}

impl Places {
    /// Finds them in a file of this length.
    ///
    /// Returns `None` if there are no image data before its end, or if it is an animation. The
    /// chunks after the data are not read if the file is too long.
    fn find(file: &File, length: u64, limits: &Limits) -> Result<Option<Self>, CodecError> {
        let is_too_long = check_length(length, limits).is_err();
        let (mut at, mut data, mut behind) = (SIGNATURE.len() as u64, None, None);
        loop {
            let (size, kind) = chunks::frame_at(file, at, length)?;
            match (&kind, data) {
                (b"IDAT", None) => data = Some((at, size)),
                (b"acTL", None) => return Ok(None),
                (b"IDAT", Some(_)) | (_, None) => {}
                (_, Some(_)) => behind = behind.or(Some(at)),
            }
            at += chunks::FRAME as u64 + u64::from(size);
            if kind == *b"IEND" || data.is_some() && is_too_long {
                let behind = behind.map(|behind| behind..at);
                return Ok(data.map(|(data, size)| Self { data, size, behind }));
            }
        }
    }

    /// Returns a file like this one with empty image data.
    fn outline(&self, file: &File, budget: &mut dyn Budget) -> Result<Vec<u8>, CodecError> {
        const EMPTY: &[u8] = b"\0\0\0\x08IDAT\x78\x01\x03\0\0\0\0\x01\xc6\x19\x9e\x2e";
        let Range { start, end } = self.behind.clone().unwrap_or_default();
        // One copy is shared, and each band has another.
        ask(budget, 2 * (self.data + end - start), "metadata")?;
        let mut outline = vec![0; self.data as usize];
        file.read_exact_at(&mut outline, 0)?;
        outline.extend_from_slice(EMPTY);
        match self.behind {
            Some(_) => {
                let from = outline.len();
                outline.resize(from + (end - start) as usize, 0);
                file.read_exact_at(&mut outline[from..], start)?;
            }
            None => outline.extend_from_slice(END),
        }
        Ok(outline)
    }
}

/// The last chunk.
const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
