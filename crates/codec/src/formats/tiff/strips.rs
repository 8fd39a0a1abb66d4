//! The pixels of a TIFF that is written, cut into strips or tiles, and the places of these.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::CodecError;
use crate::formats::tiff::read::channels;
use crate::formats::tiff::tags;
use crate::formats::tiff::tiles::Tile;
use crate::io::reader::resize;
use crate::samples::mapped::{Form, Piece};
use crate::samples::size::Size;
use crate::samples::swap_bytes;
use equalize::Layout;

/// Approximate bytes of an uncompressed strip: enough to compress well, few enough for the cache.
pub(super) const STRIP: usize = 256 << 10;

/// Writes bytes, and returns their offset.
pub(super) type Put<'p> = dyn FnMut(&[u8]) -> io::Result<u64> + 'p;

/// The cut of samples into strips or tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Strips of so many rows.
    Strips { rows: u32 },
    /// Tiles, with sides that are multiples of 16.
    Tiles { width: u32, height: u32 },
}

/// The samples that are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Raster {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Samples of a pixel that are colours.
    pub(super) colours: usize,
    /// Whether a sample after them is alpha.
    pub(super) alpha: bool,
    /// The number of other samples after them.
    pub(super) others: usize,
    /// The number of these that lie before alpha.
    pub(super) before_alpha: usize,
    /// Bytes of a sample.
    pub(super) bytes: usize,
    /// The value of the tag SampleFormat.
    pub(super) format: u64,
    /// Whether the least value is white.
    pub(super) inverted: bool,
    /// The cut, if not into strips of about [`STRIP`] bytes.
    pub(super) shape: Option<Shape>,
    /// Whether each channel lies by itself.
    pub(super) planar: bool,
}

impl Raster {
    pub(super) fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// Returns the raster of levels with this many further samples in each pixel.
    pub(super) fn of_levels(layout: &Layout, others: usize) -> Self {
        let Layout { width, height, pixel, depth } = *layout;
        let (colours, alpha, bytes) = (pixel.colour_channels(), pixel.has_alpha(), depth.bytes());
        Self {
            width,
            height,
            colours,
            alpha,
            others,
            before_alpha: 0,
            bytes,
            format: tags::UNSIGNED,
            inverted: false,
            shape: None,
            planar: false,
        }
    }

    /// Returns the raster of samples that are made of levels.
    pub(super) fn of_form(form: &Form, layout: &Layout) -> Self {
        let Form { kind, alpha, others, inverted, .. } = *form;
        let format = match kind {
            _ if kind.is_float() => tags::FLOAT,
            _ if kind.is_signed() => tags::SIGNED,
            _ => tags::UNSIGNED,
        };
        let (bytes, alpha) = (kind.bytes(), alpha.is_some());
        Self { bytes, alpha, format, inverted, ..Self::of_levels(layout, others) }
    }

    pub(super) fn channels(&self) -> usize {
        self.colours + self.behind()
    }

    /// Returns the number of samples after the colours.
    pub(super) fn behind(&self) -> usize {
        usize::from(self.alpha) + self.others
    }

    /// Returns whether there is a predictor for the samples.
    pub(super) fn is_predicted(&self) -> bool {
        self.bytes != 3
    }

    /// Returns the bytes of a pixel.
    pub(super) fn pixel(&self) -> usize {
        self.channels() * self.bytes
    }

    /// Returns the bytes of a row.
    pub(super) fn row(&self) -> usize {
        self.width as usize * self.pixel()
    }

    /// Returns the size of the tiles, if it is cut into tiles.
    pub(super) fn tile(&self) -> Option<Size> {
        if let Some(Shape::Tiles { width, height }) = self.shape {
            Some(Size { width, height })
        } else {
            None
        }
    }

    /// Returns the bytes of a row of a strip or tile.
    pub(super) fn part_row(&self) -> usize {
        self.tile().map_or(self.row(), |tile| tile.width as usize * self.pixel())
    }

    /// Returns the rows of a strip or tile.
    pub(super) fn rows(&self) -> usize {
        let rows = match self.shape {
            Some(Shape::Tiles { height, .. }) => return height as usize,
            Some(Shape::Strips { rows }) => rows as usize,
            None => STRIP / self.row(),
        };
        rows.clamp(1, self.height as usize)
    }

    /// Returns the bytes of all strips or tiles.
    pub(super) fn all_bytes(&self) -> u64 {
        match self.tile() {
            None => (self.row() as u64).saturating_mul(u64::from(self.height)),
            Some(Size { width, height }) => {
                let tiles =
                    u64::from(self.width.div_ceil(width)).saturating_mul(self.height.div_ceil(height).into());
                tiles.saturating_mul((self.part_row() * self.rows()) as u64)
            }
        }
    }
}

/// The samples of a strip or tile.
#[derive(Clone, Copy)]
pub(crate) enum Strip<'s> {
    /// As they are written.
    Ready(&'s [u8]),
    /// As the levels that they are made of.
    Mapped(Piece<'s>),
    /// Among those of the neighbouring tiles.
    Tile(Tile<'s>),
    /// As channels that lie by themselves and are to be interleaved.
    Interleaved(Rows<'s>),
}

/// Channels that lie one after the other in a file, and are to be interleaved.
#[derive(Clone, Copy)]
pub(crate) struct Interleaved<'s> {
    pub(super) spill: &'s File,
    /// The offset of each.
    pub(super) starts: &'s [u64],
}

/// Some rows of such channels.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'s> {
    channels: Interleaved<'s>,
    /// Their offset in each channel.
    at: u64,
    /// Their bytes in each channel.
    bytes: usize,
}

impl<'s> Interleaved<'s> {
    /// Returns the strips of all channels.
    pub(super) fn strips(self, raster: &Raster) -> impl ExactSizeIterator<Item = Rows<'s>> {
        let row = raster.width as usize * raster.bytes;
        let (rows, height) = (raster.rows(), raster.height as usize);
        (0..height.div_ceil(rows)).map(move |number| {
            let first = number * rows;
            Rows { channels: self, at: (first * row) as u64, bytes: rows.min(height - first) * row }
        })
    }
}

impl Rows<'_> {
    /// Puts the samples, of `bytes` bytes each, into `buffer`, with those of a pixel together.
    pub(super) fn put_together(&self, bytes: usize, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        let starts = self.channels.starts;
        let (mut plane, all) = (Vec::new(), self.bytes * starts.len());
        resize(&mut plane, self.bytes)?;
        resize(buffer, all)?;
        for (channel, start) in starts.iter().enumerate() {
            self.channels.spill.read_exact_at(&mut plane, start + self.at)?;
            channels::put(buffer, &plane, channel, starts.len(), bytes);
        }
        Ok(())
    }
}

impl<'s> Strip<'s> {
    /// Returns the samples, little-endian, which are put into `buffer` if they are not ready.
    pub(super) fn samples<'b>(&self, bytes: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], CodecError>
    where
        's: 'b,
    {
        match self {
            Self::Ready(samples) => return Ok(samples),
            Self::Mapped(piece) => {
                piece.make_samples(buffer);
                if cfg!(target_endian = "big") {
                    swap_bytes(buffer, bytes);
                }
            }
            Self::Tile(tile) => tile.gather(buffer),
            Self::Interleaved(rows) => rows.put_together(bytes, buffer)?,
        }
        Ok(buffer)
    }
}

/// The places of the strips in the file.
#[derive(Clone, Debug)]
pub(crate) struct Strips {
    pub(super) rows: u64,
    pub(super) offsets: Vec<u64>,
    pub(super) lengths: Vec<u64>,
    /// The offset after the last strip.
    pub(super) end: u64,
}

impl Strips {
    pub(super) fn none(raster: &Raster) -> Self {
        Self::of_rows(raster.rows() as u64)
    }

    /// Returns no strips, of so many rows each.
    pub(super) fn of_rows(rows: u64) -> Self {
        Self { rows, offsets: Vec::new(), lengths: Vec::new(), end: 0 }
    }

    /// Returns the offset of the first strip, if each begins where the one before ends.
    pub(super) fn consecutive(&self) -> Option<u64> {
        let first = *self.offsets.first()?;
        let mut next = first;
        let are = self.offsets.iter().zip(&self.lengths).all(|(&offset, length)| {
            let is_next = offset == next;
            next += length;
            is_next
        });
        are.then_some(first)
    }

    /// Returns the places of the strips if all samples were written as they are from `at` on.
    pub(super) fn of_stored(raster: &Raster, at: u64) -> Self {
        let mut strips = Self::none(raster);
        strips.end = at;
        let end = at + raster.all_bytes();
        let strip = (raster.rows() * raster.row()) as u64;
        while strips.end < end {
            strips.add(strips.end, strip.min(end - strips.end));
        }
        strips
    }

    /// Adds strips that are below these.
    pub(super) fn append(&mut self, below: Self) {
        self.offsets.extend(below.offsets);
        self.lengths.extend(below.lengths);
        self.end = below.end;
    }

    pub(super) fn add(&mut self, at: u64, length: u64) {
        self.offsets.push(at);
        self.lengths.push(length);
        self.end = at + length;
    }

    /// Adds a strip that has no bytes in the file.
    pub(super) fn add_none(&mut self) {
        self.offsets.push(0);
        self.lengths.push(0);
    }

    /// Moves the strips to where `put` writes them, given the offset and length of each.
    pub(super) fn put_again(&mut self, mut put: impl FnMut(u64, u64) -> io::Result<u64>) -> io::Result<()> {
        for (offset, &length) in self.offsets.iter_mut().zip(&self.lengths) {
            *offset = put(*offset, length)?;
            self.end = *offset + length;
        }
        Ok(())
    }

    /// Moves the strips to consecutive places from `to` on; `copy` copies their bytes.
    pub(super) fn move_to(
        &mut self,
        mut to: u64,
        mut copy: impl FnMut(u64, u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let places = self.offsets.iter_mut().zip(&self.lengths);
        for (offset, &length) in places.filter(|(_, length)| **length > 0) {
            copy(*offset, to, length)?;
            *offset = to;
            to += length;
        }
        self.end = to;
        Ok(())
    }

    /// Returns the offset and the length of each.
    pub(super) fn parts_mut(&mut self) -> impl Iterator<Item = (&mut u64, u64)> {
        self.offsets.iter_mut().zip(self.lengths.iter().copied())
    }

    /// Sets the end after the offset of the last one has changed.
    pub(super) fn find_end(&mut self) {
        let ends = self.offsets.iter().zip(&self.lengths).map(|(offset, length)| offset + length);
        self.end = ends.max().unwrap_or(self.end);
    }
}
