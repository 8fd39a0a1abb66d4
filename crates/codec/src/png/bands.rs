//! A PNG that is too large to be in memory as a whole: its rows are decoded in bands ([`read`]), and bands of any picture make one ([`write`]).

mod read;
mod write;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::chunks::{self, Chunk, SIGNATURE};
use super::stream::Division;
use super::{CHECKSUM, Source, malformed};
use crate::bands::{BandRows, Cut};
use crate::budget::{Budget, ask};
use crate::decode::Describe;
use crate::input::check_length;
use crate::{CodecError, LevelCount, Limits};
use equalize::{Depth, Layout, Pixel};

use read::Rereading;
pub(crate) use read::{Band, Place};
pub(crate) use write::Writer;

/// The bands of a PNG, from top to bottom.
#[derive(Debug)]
pub(crate) struct Bands {
    pub(crate) rows: BandRows,
    picture: Arc<Rereading>,
}

impl Bands {
    /// Returns where a band is.
    pub(crate) fn place(&self, index: usize) -> Place {
        Place { picture: Arc::clone(&self.picture), index }
    }
}

/// Returns the rows that each band but the last needs at least, so that no piece of the compressed data is made of more than two: those of a piece, and
/// those above it that matter, if each pixel has one byte.
pub(crate) fn least_rows(width: u32) -> u32 {
    let division = Division::of(&Layout { width, height: 1, pixel: Pixel::Gray, depth: Depth::Eight });
    (division.piece + division.above()) as u32
}

/// Returns the bytes of rows that a writer of bands holds for each beside it: those that wait for a band above or below, and those of a piece of both.
pub(crate) fn waiting_bytes(layout: &Layout) -> u64 {
    let division = Division::of(layout);
    4 * (division.piece + division.above()) as u64 * division.row as u64
}

/// Finds the bands of a file, whose head is given, and that is cut into such; nothing if it is not, or cannot be: if it is interlaced or an animation, or if the
/// samples of all tell how levels lie in them.
/// `unit` tells how many rows no band divides if the pixels have a layout.
pub(crate) fn find(
    (file, head): (&File, &[u8]),
    (limits, budget): (&Limits, &mut dyn Budget),
    (cut, levels): (Cut, LevelCount),
    unit: impl FnOnce(Layout) -> u32,
) -> Result<Option<Bands>, CodecError> {
    let about = file.metadata()?;
    // Alpha may be told by a chunk that is not seen yet.
    let most = chunks::layout_of(head).map_or(0, |layout| Layout { pixel: Pixel::Rgba, ..layout }.bytes());
    if most <= cut.most || !about.is_file() {
        return Ok(None);
    }
    let Some((outline, data)) = outline(file, head, about.len(), limits, budget)? else { return Ok(None) };
    let source = Source::open(&outline)?;
    let (layout, stored) = (source.chunks.layout, source.chunks.stored);
    let (None, Some(stored)) = (&source.frames, stored) else { return Ok(None) };
    if source.stated().is_some() && matches!(levels, LevelCount::Stated | LevelCount::Number(_)) {
        return Ok(None);
    }
    let Some(rows) = cut.rows((layout.width, layout.height), layout.bytes(), unit(layout)) else {
        return Ok(None);
    };
    let is_whole = outline.ends_with(b"IEND\xae\x42\x60\x82");
    if !source.chunks.walk().filter(is_needed).all(|chunk| chunk.is_intact()) || !is_whole {
        return Err(malformed(CHECKSUM));
    }
    // The decoder takes memory for a row, and what is over the limits is refused for that.
    let is_within = limits.check(&layout, layout.bytes(), || None).is_ok();
    let form = if is_within { Some(read::form_of(source.reader()?.info())) } else { None };
    let form = form.filter(|_| !stored.is_direct).map(Box::new);
    let picture = Arc::new(Rereading::new(outline, data, (rows, stored, form)));
    Ok(Some(Bands { rows, picture }))
}

/// Returns whether samples depend on a chunk.
fn is_needed(chunk: &Chunk<'_>) -> bool {
    chunk.kind[0].is_ascii_uppercase() || chunk.kind == *b"tRNS"
}

/// Returns a file like this one without image data, and where the content of its first chunk of such begins, with its length; nothing if it is an animation.
/// Of a file that is too long, what lies behind the data is not looked at.
fn outline(
    file: &File,
    head: &[u8],
    length: u64,
    limits: &Limits,
    budget: &mut dyn Budget,
) -> Result<Option<(Vec<u8>, (u64, u32))>, CodecError> {
    const EMPTY: &[u8] = b"\0\0\0\0IDAT\x35\xaf\x06\x1e";
    const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    let too_long = check_length(length, limits);
    let (mut at, mut data, mut behind) = (SIGNATURE.len() as u64, None, None);
    loop {
        let (size, kind) = chunks::frame_at(file, at, length)?;
        let end = at + chunks::FRAME as u64 + u64::from(size);
        match &kind {
            b"IDAT" if data.is_none() => data = Some((at, size)),
            b"acTL" if data.is_none() => return Ok(None),
            b"IDAT" => {}
            _ if data.is_some() => behind = behind.or(Some(at)),
            _ => {}
        }
        at = end;
        if kind == *b"IEND" || data.is_some() && too_long.is_err() {
            break;
        }
    }
    let Some((start, size)) = data else { return Ok(None) };
    let rest = behind.map_or(0, |behind| at - behind);
    // One copy is shared, and each band has another.
    ask(budget, 2 * (start + rest), "metadata")?;
    let mut outline = vec![0; start as usize];
    file.read_exact_at(&mut outline, 0)?;
    debug_assert!(outline.starts_with(&head[..SIGNATURE.len()]));
    outline.extend_from_slice(EMPTY);
    match behind {
        Some(behind) => {
            let from = outline.len();
            outline.resize(from + rest as usize, 0);
            file.read_exact_at(&mut outline[from..], behind)?;
        }
        None => outline.extend_from_slice(END),
    }
    Ok(Some((outline, (start + 8, size))))
}
