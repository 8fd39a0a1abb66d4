//! Masks of valid pixels: pages that belong to a picture, or to a smaller version of it.
//!
//! What that of the picture hides does not count. All are written back as they are, byte by byte.

use std::ops::Range;
use std::sync::Arc;

use crate::CodecError;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::pages::Companion;
use crate::formats::tiff::read::parts::Parts;
use crate::formats::tiff::read::values::FirstPage;
use crate::formats::tiff::strips::{Put, Strips};
use crate::formats::tiff::{io_error, tags};
use crate::io::budget::SMALL_CHANGE;
use crate::io::cores::Cores;
use crate::io::reader::{Reader, resize};
use crate::metadata::ifd::{Directory, Form, Numbers, Outline, Value};
use crate::samples::size::Size;
use crate::samples::{uncounted, unpack};

/// The most bytes of the masks of a picture that are kept, while it is in memory.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// A mask that is written back.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    pub(crate) companion: Companion,
    /// Its tags but the places of its strips or tiles.
    pub(crate) kept: Arc<Directory>,
    /// What it says of its pixels, if these are read as gray.
    header: Header,
    /// The offset and length of each strip or tile; both are 0 if it was never written.
    places: Vec<(u64, u64)>,
    /// Its strips or tiles, one after the other, once they are loaded.
    data: Arc<Vec<u8>>,
}

impl Mask {
    /// Reads the directory of a mask.
    ///
    /// `None` if it is one that marks no pixels as valid, or whose pixels are not one sample of up
    /// to 8 bits.
    pub(crate) fn read(
        file: &mut Reader<'_>,
        form: Form,
        companion: Companion,
        first_page: &FirstPage,
    ) -> Result<Option<Self>, CodecError> {
        let Ok(offset) = usize::try_from(companion.place) else { return Ok(None) };
        let outline = match Outline::read(file, form, offset) {
            Ok(outline) if outline.bytes() <= SMALL_CHANGE => outline,
            Err(error) if error.raw_os_error().is_some() => return Err(error.into()),
            Ok(_) | Err(_) => return Ok(None),
        };
        let mut directory = outline.fill(file)?;
        if directory.number(tags::PHOTOMETRIC) != Some(tags::MASK.into()) {
            return Ok(None);
        }
        directory.set(tags::PHOTOMETRIC, Value::shorts(&[tags::BLACK_IS_ZERO]));
        let Ok(mut header) = Header::new(&directory, form, first_page, 0, None) else { return Ok(None) };
        // What was never written is not valid.
        header.filling = 0.0;
        let is_plain = header.samples == 1 && header.bits <= 8 && header.kind.is_none();
        let (offsets, lengths) = match header.tiled {
            true => (tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS),
            false => (tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS),
        };
        let numbers = |tag| directory.numbers(tag).into_iter().flat_map(Numbers::iter);
        let places: Vec<_> = numbers(offsets).zip(numbers(lengths)).collect();
        if !is_plain || header.is_one_stream || places.len() != header.all_parts() {
            return Ok(None);
        }
        directory.set(tags::PHOTOMETRIC, Value::shorts(&[tags::MASK]));
        let is_kept = |tag: u16| !tags::PLACES.contains(&tag) && tag != tags::SUB_IFDS;
        directory.entries.retain(|(tag, _)| is_kept(*tag));
        let (kept, data) = (Arc::new(directory), Arc::default());
        Ok(Some(Self { companion, kept, header, places, data }))
    }

    /// Returns its width and height.
    pub(crate) fn size(&self) -> Size {
        self.header.size()
    }

    pub(crate) fn is_tiled(&self) -> bool {
        self.header.tiled
    }

    /// Returns the number of its strips or tiles, and their bytes.
    pub(crate) fn parts(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.places.iter().fold(0, |bytes, (_, length)| bytes.saturating_add(*length))
    }

    /// Returns the bytes of heap that [`Self::counts`] takes for so many rows.
    pub(crate) fn heap_bytes(&self, rows: u32) -> u64 {
        let rows = u64::from(rows) + 2 * self.header.rows() as u64;
        u64::from(self.header.layout.width).saturating_mul(rows).saturating_add(self.header.part_bytes())
    }

    /// Returns which pixels of some rows of the picture are valid.
    pub(crate) fn counts(
        &self,
        file: &Reader<'_>,
        wanted: Range<u32>,
        cores: &Cores,
    ) -> Result<uncounted::Mask, CodecError> {
        let mut directory = (*self.kept).clone();
        let (offsets, lengths): (Vec<u64>, Vec<u64>) = self.places.iter().copied().unzip();
        directory.set(self.tag_of_offsets(), Value::longs(&offsets));
        directory.set(self.tag_of_lengths(), Value::longs(&lengths));
        // Whole strips or tiles are read.
        let (mut header, part) = (self.header.clone(), self.header.part.height);
        let start = wanted.start - wanted.start % part;
        let end = wanted.end.next_multiple_of(part).min(header.file_rows);
        header.narrow(start, end - start);
        let (width, parts) = (header.layout.width as usize, Parts::new(file, &header, &directory)?);
        let mut counts = Vec::new();
        resize(&mut counts, width * (end - start) as usize)?;
        let packed = counts.len() - header.row_bytes(header.layout.width) * (end - start) as usize;
        parts.read(&mut counts[packed..], cores)?;
        if header.is_packed() {
            unpack(&mut counts, packed, width, header.bits);
        }
        counts.truncate((wanted.end - start) as usize * width);
        counts.drain(..(wanted.start - start) as usize * width);
        Ok(uncounted::Mask::of_picture(
            Size { width: header.layout.width, height: wanted.end - wanted.start },
            counts,
        ))
    }

    /// Loads its strips or tiles.
    pub(crate) fn load(&mut self, file: &Reader<'_>) -> Result<(), CodecError> {
        let (mut data, mut at) = (Vec::new(), 0);
        resize(&mut data, self.bytes() as usize)?;
        for &(offset, length) in &self.places {
            let end = at + length as usize;
            file.read_at(&mut data[at..end], offset).map_err(io_error)?;
            at = end;
        }
        self.data = Arc::new(data);
        Ok(())
    }

    /// Writes its strips or tiles, which have been loaded. Returns their places.
    pub(crate) fn write(&self, put: &mut Put<'_>) -> Result<Strips, CodecError> {
        let (mut strips, mut rest) = (Strips::of_rows(self.header.part.height.into()), &self.data[..]);
        for &(_, length) in &self.places {
            let (part, further) = rest.split_at(length as usize);
            if part.is_empty() {
                strips.add_none();
            } else {
                strips.add(put(part)?, length);
            }
            rest = further;
        }
        Ok(strips)
    }

    const fn tag_of_offsets(&self) -> u16 {
        if self.header.tiled { tags::TILE_OFFSETS } else { tags::STRIP_OFFSETS }
    }

    const fn tag_of_lengths(&self) -> u16 {
        if self.header.tiled { tags::TILE_BYTE_COUNTS } else { tags::STRIP_BYTE_COUNTS }
    }
}
