//! Reads the mask of a picture, within the memory that the picture may reserve.

use equalize::colour::Gray;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use crate::error::PictureError;
use crate::fs::input;
use crate::picture::mask::{MaskError, Masks};
use crate::slot::Held;
use codec::pages::{PageRef, Pages};
use codec::{CodecError, Cores, Limits, Mask, Opened, PngLevel, Size, Target};

/// Masks are decoded as gray.
const GRAY: Target = Target { png_level: PngLevel::Fast, gray: Some(Gray::Luma), ..Target::AS_STORED };

/// The part of a picture that a mask is for.
#[derive(Clone, Copy)]
pub(super) struct Covered {
    /// The number of the page, from 0.
    page: usize,
    /// The size of the page.
    size: Size,
    first_row: u32,
    rows: u32,
}

impl Covered {
    /// Returns the part that an opened picture is, which may be one of these pages or bands.
    pub(super) fn of(opened: &Opened<'_>, page: Option<PageRef<'_>>) -> Self {
        let layout = opened.layout();
        let rows = layout.height / opened.frames() as u32;
        let height = page.and_then(|page| page.pages.height_of_bands());
        let (page, first_row) = match page {
            Some(PageRef { pages, index }) => (pages.picture_of(index), pages.first_row(index)),
            None => (0, 0),
        };
        let size = Size { width: layout.width, height: height.unwrap_or(rows) };
        Self { page, size, first_row, rows }
    }

    fn rows(&self) -> Range<u32> {
        self.first_row..self.first_row + self.rows
    }
}

/// Reads the mask for a part of a picture from the file `path`. Its memory is reserved.
///
/// # Errors
/// [`PictureError::Mask`], or that there is no memory for it.
pub(super) fn mask_of(
    masks: &Masks,
    path: PathBuf,
    covered: Covered,
    limits: &Limits,
    held: &mut Held,
) -> Result<Mask, PictureError> {
    let mut reading = Reading { masks, path, covered, held, room: 0 };
    let (mut file, mut buffer) = (reading.open()?, Vec::new());
    let opened = codec::open_within(reading.held, &mut file, &mut buffer, limits, &GRAY);
    let mut opened = opened.map_err(|error| reading.of_codec(error))?;
    match opened.take_pages() {
        Some(pages) if pages.pictures() > 1 && covered.page >= pages.pictures() => {
            let (pages, page, path) = (pages.pictures(), covered.page + 1, reading.path);
            Err(MaskError::Pages { path, pages, page }.into())
        }
        Some(pages) if pages.are_bands() => {
            drop(opened);
            reading.bands(&pages, limits)
        }
        Some(pages) if covered.page > 0 => {
            drop(opened);
            let mask = reading.page(&pages, covered.page, limits)?;
            reading.whole(mask)
        }
        _ => {
            let mask = reading.decode(opened)?;
            reading.whole(mask)
        }
    }
}

/// A mask that is being read.
struct Reading<'r> {
    masks: &'r Masks,
    path: PathBuf,
    covered: Covered,
    held: &'r mut Held,
    /// Bytes reserved for decoding one page or band at a time.
    room: u64,
}

impl Reading<'_> {
    fn open(&self) -> Result<File, MaskError> {
        input::open(&self.path).map_err(|source| MaskError::Read { path: self.path.clone(), source })
    }

    fn of_codec(&self, error: CodecError) -> MaskError {
        MaskError::Codec { path: self.path.clone(), error }
    }

    /// Refuses a mask that is not as large as the picture.
    fn check(&self, mask: Size) -> Result<(), MaskError> {
        let picture = self.covered.size;
        if mask == picture { Ok(()) } else { Err(MaskError::Size { path: self.path.clone(), mask, picture }) }
    }

    /// Returns the covered rows of a mask for the whole page.
    fn whole(&self, mask: Mask) -> Result<Mask, PictureError> {
        self.check(mask.size())?;
        Ok(mask.rows(self.covered.rows()))
    }

    /// Assembles the covered rows from the bands that contain them.
    fn bands(&mut self, pages: &Pages, limits: &Limits) -> Result<Mask, PictureError> {
        let (wanted, mut found) = (self.covered.rows(), None::<Mask>);
        self.held.hold(u64::from(self.covered.size.width).saturating_mul(self.covered.rows.into()))?;
        let height = pages.height_of_bands().unwrap_or_default();
        // A mask with one page is for all pages.
        let picture = if pages.pictures() == 1 { 0 } else { self.covered.page };
        let each = pages.len() / pages.pictures();
        for index in picture * each..(picture + 1) * each {
            let first = pages.first_row(index);
            let end = if (index + 1) % each == 0 { height } else { pages.first_row(index + 1) };
            let rows = wanted.start.max(first)..wanted.end.min(end);
            if rows.is_empty() {
                continue;
            }
            let band = self.page(pages, index, limits)?;
            self.check(Size { height, ..band.size() })?;
            let band = band.rows(rows.start - first..rows.end - first);
            found = Some(match found {
                Some(above) => above.with_below(&band).map_err(|error| self.of_codec(error))?,
                None => band,
            });
        }
        let path = self.path.clone();
        let (mask, picture) = (Size { height, ..self.covered.size }, self.covered.size);
        found.ok_or_else(|| MaskError::Size { path, mask, picture }.into())
    }

    /// Reads a page or band.
    fn page(&mut self, pages: &Pages, index: usize, limits: &Limits) -> Result<Mask, PictureError> {
        let (mut file, mut buffer) = (self.open()?, Vec::new());
        let opened =
            codec::pages::open_page(self.held, &mut file, &mut buffer, limits, &GRAY, pages.page(index));
        let opened = opened.map_err(|error| self.of_codec(error))?;
        self.decode(opened)
    }

    fn decode(&mut self, opened: Opened<'_>) -> Result<Mask, PictureError> {
        let bytes = opened.slot_bytes();
        let needed =
            (bytes as u64).saturating_add(opened.heap_bytes()).saturating_add(opened.layout().pixels());
        self.held.hold(needed.saturating_sub(self.room))?;
        self.room = self.room.max(needed);
        // Aligned for samples of 16 bits.
        let (mut slot, words) = (Vec::<u64>::new(), bytes.div_ceil(size_of::<u64>()));
        let no_memory = CodecError::OutOfMemory { bytes: Some(bytes as u64) };
        slot.try_reserve_exact(words).map_err(|_| self.of_codec(no_memory))?;
        slot.resize(words, 0);
        let slot = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut slot)[..bytes];
        let decoded =
            opened.decode(slot, Vec::new(), &Cores::none()).map_err(|error| self.of_codec(error))?;
        if decoded.has_own_range() {
            return Err(MaskError::NoLevels(self.path.clone()).into());
        }
        Ok(Mask::new(&decoded, slot, self.masks.keeps).map_err(|error| self.of_codec(error))?)
    }
}
