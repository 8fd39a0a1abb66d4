//! A picture after its pixels have been written: their places, and the content of its directory.

use std::io;
use std::iter;
use std::mem;
use std::sync::Arc;

use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::describe::gdal;
use crate::formats::tiff::pyramid::mask::Mask;
use crate::formats::tiff::pyramid::{Overview, Pyramid};
use crate::formats::tiff::strips::{Raster, Shape, Strips};
use crate::formats::tiff::tags;
use crate::metadata::ifd::{Directory, Value};
use crate::samples::size::Size;

/// Copies so many bytes from an offset of one file to one of another: from, to and length.
pub(crate) type Copy<'c> = dyn FnMut(u64, u64, u64) -> io::Result<()> + 'c;

/// The places of a picture's strips, and the content of its directory.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) raster: Raster,
    pub(crate) compression: Compression,
    pub(crate) strips: Strips,
    /// The tags that the picture had, or those that are made of its metadata.
    pub(crate) kept: Arc<Directory>,
    pub(crate) icc: Option<Arc<Value>>,
    /// The highest level, if there are fewer than samples have room for.
    pub(crate) top: Option<u16>,
    /// The level of pixels without data, if the picture states it.
    pub(crate) no_data: Option<u16>,
    pub(crate) pyramid: Pyramid,
    /// The overviews that have been made, in the order of the pyramid.
    pub(crate) overviews: Vec<Self>,
    /// The masks of the picture and of its overviews.
    pub(crate) masks: Vec<Self>,
    /// The number of an overview or a mask among the directories of the picture.
    pub(crate) number: usize,
    /// Whether its tags but the places are those that it had, as of masks.
    pub(crate) is_copy: bool,
    pub(crate) role: Role,
    /// Whether it is marked as a smaller version of another.
    pub(crate) says_smaller: bool,
}

/// The relation of a directory to that of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Picture,
    /// An overview with a directory after it.
    Behind,
    /// An overview with a directory below it.
    Below,
}

impl Written {
    /// Makes one picture of its bands, from top to bottom.
    pub(crate) fn joined(bands: Vec<Self>) -> Option<Self> {
        bands.into_iter().reduce(|mut all, band| {
            all.raster.height += band.raster.height;
            all.strips.append(band.strips);
            all.top = all.top.filter(|top| band.top == Some(*top));
            all
        })
    }

    /// Returns the page with another plane after those that it has.
    pub(crate) fn with_plane(mut self, plane: Self) -> Self {
        self.raster.others += 1;
        self.raster.planar = true;
        self.strips.offsets.extend(plane.strips.offsets);
        self.strips.lengths.extend(plane.strips.lengths);
        let overviews = mem::take(&mut self.overviews).into_iter().zip(plane.overviews);
        self.overviews = overviews.map(|(overview, plane)| overview.with_plane(plane)).collect();
        self
    }

    pub(crate) fn is_below(&self) -> bool {
        self.role == Role::Below
    }

    /// Returns the picture with the overviews of its pyramid, given their strips or tiles.
    pub(crate) fn with_overviews(self, strips: Vec<Strips>) -> Self {
        let overviews = self.pyramid.overviews.iter().zip(strips);
        let overviews = overviews.map(|(overview, strips)| self.overview(overview, strips)).collect();
        Self { overviews, pyramid: Pyramid::default(), ..self }
    }

    /// Returns the picture with the masks of its pyramid, given their strips or tiles.
    pub(crate) fn with_masks(mut self, strips: Vec<Strips>) -> Self {
        let masks = self.pyramid.masks.iter().zip(strips);
        self.masks = masks.map(|(mask, strips)| self.mask(mask, strips)).collect();
        self
    }

    fn mask(&self, mask: &Mask, strips: Strips) -> Self {
        let Size { width, height } = mask.size();
        let shape = mask.is_tiled().then_some(Shape::Tiles { width: 16, height: 16 });
        Self {
            raster: Raster { width, height, shape, ..self.raster },
            compression: Compression::Stored,
            strips,
            kept: Arc::clone(&mask.kept),
            icc: None,
            top: None,
            no_data: None,
            pyramid: Pyramid::default(),
            overviews: Vec::new(),
            masks: Vec::new(),
            number: self.pyramid.number_of(mask.companion.place),
            is_copy: true,
            role: if mask.companion.is_below { Role::Below } else { Role::Behind },
            says_smaller: false,
        }
    }

    /// Returns whether it has neither overviews nor masks.
    pub(crate) fn is_alone(&self) -> bool {
        self.overviews.is_empty() && self.masks.is_empty()
    }

    /// Returns the overviews and masks in the order of their directories.
    pub(crate) fn companions(&self) -> Vec<&Self> {
        let mut all: Vec<_> = self.overviews.iter().chain(&self.masks).collect();
        all.sort_by_key(|one| one.number);
        all
    }

    fn overview(&self, overview: &Overview, strips: Strips) -> Self {
        let kept = Arc::clone(&overview.kept);
        Self {
            raster: overview.raster(&self.raster),
            compression: overview.compression,
            strips,
            icc: self.icc.clone().filter(|_| kept.get(tags::ICC).is_some()),
            kept,
            top: self.top,
            no_data: self.no_data,
            pyramid: Pyramid::default(),
            overviews: Vec::new(),
            masks: Vec::new(),
            number: self.pyramid.number_of(overview.place),
            is_copy: false,
            role: if overview.is_below { Role::Below } else { Role::Behind },
            says_smaller: overview.says_so,
        }
    }

    /// Returns the offset after all strips or tiles.
    pub(crate) fn end(&self) -> u64 {
        let ends = self.overviews.iter().chain(&self.masks).map(|of| of.strips.end);
        ends.fold(self.strips.end, u64::max)
    }

    /// Moves all strips or tiles to consecutive places from `to` on; `copy` copies their bytes.
    ///
    /// They keep the order in which they were written, in which the pieces of several overviews
    /// alternate. A page then has the same bytes whether it waited for its place or not.
    pub(crate) fn move_to(&mut self, mut to: u64, copy: &mut Copy<'_>) -> io::Result<()> {
        let companions = self.overviews.iter_mut().chain(&mut self.masks);
        let all = iter::once(&mut self.strips).chain(companions.map(|of| &mut of.strips));
        let mut all: Vec<_> = all.collect();
        let mut parts: Vec<_> = all.iter_mut().flat_map(|strips| strips.parts_mut()).collect();
        parts.sort_by_key(|(offset, _)| **offset);
        for (offset, length) in parts.into_iter().filter(|(_, length)| *length > 0) {
            copy(*offset, to, length)?;
            *offset = to;
            to += length;
        }
        all.into_iter().for_each(Strips::find_end);
        Ok(())
    }

    /// Moves overviews from their strips or tiles in another file to the offset `to`.
    ///
    /// If they are to lie before the picture, the smallest comes first and the picture last.
    /// Returns the offset after all.
    pub(crate) fn place_overviews(
        &mut self,
        strips: Vec<Strips>,
        are_first: bool,
        mut to: u64,
        copy: &mut Copy<'_>,
    ) -> io::Result<u64> {
        let pyramid = &self.pyramid;
        let mut overviews: Vec<Self> = pyramid
            .overviews
            .iter()
            .zip(strips)
            .map(|(overview, strips)| self.overview(overview, strips))
            .collect();
        for number in pyramid.by_size().into_iter().rev() {
            overviews[number].strips.move_to(to, &mut *copy)?;
            to = overviews[number].strips.end;
        }
        self.overviews = overviews;
        if are_first {
            self.strips.move_to(to, copy)?;
            to = self.strips.end;
        }
        Ok(to)
    }

    /// Moves all strips or tiles to places from `to` on: masks and the smallest overview first, the
    /// picture last.
    ///
    /// Returns the offset after all.
    pub(crate) fn move_behind_overviews(&mut self, mut to: u64, copy: &mut Copy<'_>) -> io::Result<u64> {
        let mut all: Vec<&mut Self> = self.overviews.iter_mut().collect();
        all.sort_by_key(|overview| u64::from(overview.raster.width) * u64::from(overview.raster.height));
        let all = self.masks.iter_mut().chain(all);
        for strips in all.map(|of| &mut of.strips).chain([&mut self.strips]) {
            strips.move_to(to, &mut *copy)?;
            to = strips.end;
        }
        Ok(to)
    }

    /// Returns the tags that describe the storage of the samples.
    pub(crate) fn describe(&self) -> Directory {
        if self.is_copy {
            return places(&self.raster, &self.strips);
        }
        let mut directory = describe(&self.raster, self.compression, &self.strips);
        if self.kept.get(tags::COLOUR_MAP).is_some() {
            directory.set(tags::PHOTOMETRIC, Value::shorts(&[tags::PALETTE]));
        }
        if let Some(top) = self.top {
            directory.set(tags::MAX_SAMPLE, Value::shorts(&vec![top; self.raster.channels()]));
        }
        if self.says_smaller {
            directory.set(tags::KIND, Value::longs(&[tags::SMALLER]));
        }
        if let Some(level) = self.no_data {
            directory.set(tags::GDAL_NODATA, gdal::no_data_text(level.into()));
        }
        directory
    }

    /// Returns all tags, in their order; `described` are those of [`Written::describe`].
    pub(crate) fn entries<'e>(&'e self, described: &'e Directory) -> Vec<(u16, &'e Value)> {
        let mut entries = self.kept.borrowed();
        entries.retain(|(tag, _)| *tag != tags::ICC && described.get(*tag).is_none());
        entries.extend(described.borrowed());
        entries.extend(self.icc.iter().map(|icc| (tags::ICC, &**icc)));
        entries.sort_by_key(|(tag, _)| *tag);
        entries
    }

    /// Returns whether two pictures without overviews differ in the places of their strips at most.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            (one.raster, one.compression, one.strips.rows, one.top, one.no_data, one.role, one.says_smaller)
        };
        let is_plain = |one: &Self| one.is_alone() && one.pyramid.overviews.is_empty();
        of(self) == of(other)
            && self.kept == other.kept
            && self.icc == other.icc
            && is_plain(self)
            && is_plain(other)
    }

    /// Shares the memory of the tags with another picture that has the same.
    pub(crate) fn share_kept(&mut self, other: &Self) {
        if self.kept == other.kept {
            self.kept = Arc::clone(&other.kept);
        }
        if self.icc == other.icc {
            self.icc.clone_from(&other.icc);
        }
    }
}

/// Returns the tags of the places of strips or tiles.
fn places(raster: &Raster, strips: &Strips) -> Directory {
    let (offsets, lengths) = match raster.tile() {
        Some(_) => (tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS),
        None => (tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS),
    };
    let mut directory = Directory::default();
    directory.set(offsets, Value::longs(&strips.offsets));
    directory.set(lengths, Value::longs(&strips.lengths));
    directory
}

/// Returns the tags that describe the storage of the samples.
fn describe(raster: &Raster, compression: Compression, strips: &Strips) -> Directory {
    let mut directory = places(raster, strips);
    let channels = raster.channels();
    let colour = match raster.colours {
        1 if raster.inverted => tags::WHITE_IS_ZERO,
        1 => tags::BLACK_IS_ZERO,
        _ => tags::RGB,
    };
    directory.set(tags::WIDTH, Value::longs(&[u64::from(raster.width)]));
    directory.set(tags::HEIGHT, Value::longs(&[u64::from(raster.height)]));
    directory.set(tags::BITS_PER_SAMPLE, Value::shorts(&vec![8 * raster.bytes as u16; channels]));
    directory.set(tags::COMPRESSION, Value::shorts(&[compression.number()]));
    directory.set(tags::PHOTOMETRIC, Value::shorts(&[colour]));
    directory.set(tags::SAMPLES_PER_PIXEL, Value::shorts(&[channels as u16]));
    if let Some(Size { width, height }) = raster.tile() {
        directory.set(tags::TILE_WIDTH, Value::longs(&[width.into()]));
        directory.set(tags::TILE_LENGTH, Value::longs(&[height.into()]));
    } else {
        directory.set(tags::ROWS_PER_STRIP, Value::longs(&[strips.rows]));
    }
    if raster.planar {
        directory.set(tags::PLANAR_CONFIGURATION, Value::shorts(&[2]));
    }
    if compression != Compression::Stored && raster.is_predicted() {
        let predictor = if raster.format == tags::FLOAT { 3 } else { 2 };
        directory.set(tags::PREDICTOR, Value::shorts(&[predictor]));
    }
    if raster.behind() > 0 {
        let mut kinds = vec![tags::UNSPECIFIED as u16; raster.behind()];
        if raster.alpha {
            kinds[raster.before_alpha] = tags::UNASSOCIATED as u16;
        }
        directory.set(tags::EXTRA_SAMPLES, Value::shorts(&kinds));
    }
    if raster.format != tags::UNSIGNED {
        directory.set(tags::SAMPLE_FORMAT, Value::shorts(&vec![raster.format as u16; channels]));
    }
    directory
}
