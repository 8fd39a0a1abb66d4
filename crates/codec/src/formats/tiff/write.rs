//! The pixels of a picture that is written as a TIFF, made ready and put into strips or tiles.

pub(crate) mod compress;
pub(crate) mod deflated;
pub(crate) mod directories;
pub(crate) mod overviews;
pub(crate) mod packed;
pub(crate) mod press;
pub(crate) mod whole;
pub(crate) mod writer;
pub(crate) mod written;

use std::sync::Arc;

use crate::coding::streams::Help;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::pyramid::Pyramid;
use crate::formats::tiff::read::other;
pub(crate) use crate::formats::tiff::strips::Interleaved;
use crate::formats::tiff::strips::{Put, Raster, STRIP, Strip, Strips};
use crate::formats::tiff::tiles::tiles;
use crate::formats::tiff::write::compress::write_strips;
use crate::formats::tiff::write::written::{Role, Written};
use crate::formats::tiff::{Native, tags};
use crate::io::cores::Cores;
use crate::metadata::ifd::Value;
use crate::samples::mapped::bytes_of_rows;
use crate::samples::mapped::{Kind, Mapped, NoData, Pixels};
use crate::samples::pixels_of;
use crate::samples::swap_bytes;
use crate::{CodecError, Decoded, Format};
use equalize::{Depth, Layout};

/// The pyramid of pictures that came without overviews.
static NO_PYRAMID: Pyramid = Pyramid::NONE;

/// Returns the bytes of rows that an encoder holds beyond the pixels, where a strip is a row.
///
/// They are its differences, and one stream of up to one and a half rows, in buffers that double.
/// Strips of several rows are small change.
pub(crate) fn heap_bytes(layout: &Layout) -> u64 {
    bytes_of_rows(u64::from(layout.width) * layout.pixel_bytes() as u64)
}

/// A picture that is ready to be written.
pub(crate) struct Samples<'s> {
    raster: Raster,
    compression: Compression,
    layout: Layout,
    /// The mapping that makes samples of levels, if `pixels` are levels of other samples.
    mapped: Option<&'s Mapped>,
    pixels: &'s [u8],
    /// The channels to be interleaved, if these are the samples instead of `pixels`.
    interleaved: Option<Interleaved<'s>>,
    pyramid: &'s Pyramid,
    /// The no-data value.
    no_data: Option<f64>,
    /// The highest sample, if there are levels above it that are not used.
    top: Option<u16>,
}

impl<'s> Samples<'s> {
    /// Takes the pixels of `slot`.
    pub(crate) fn new(decoded: &'s Decoded, slot: &'s mut [u8]) -> Self {
        let native = decoded.native_of::<Native>();
        let layout = decoded.layout;
        let mapped = decoded.restored();
        let other = native.and_then(|native| Some((native.other.as_deref()?, native)));
        let raster = match (mapped, other) {
            (Some(mapped), _) => Raster::of_form(mapped.form(), &layout),
            (None, Some((_, &Native { others, before_alpha, .. }))) => {
                Raster { before_alpha, ..Raster::of_levels(&layout, others) }
            }
            (None, None) => Raster::of_levels(&layout, 0),
        };
        let shape = native.and_then(|native| native.shape);
        let raster = Raster { shape, ..raster };
        let pixels = match other {
            Some((other, native)) => other::put_back(slot, &layout, native.others, other),
            None => pixels_of(&layout, slot),
        };
        if raster.before_alpha > 0 {
            let (pixel, colours, before) = (raster.channels(), raster.colours, raster.before_alpha);
            other::move_alpha(pixels, pixel, colours, before, raster.bytes, true);
        }
        if mapped.is_none() && cfg!(target_endian = "big") {
            swap_bytes(pixels, raster.bytes);
        }
        let compression = native.map_or(Compression::Deflate, |native| native.compression);
        let pyramid = native.map_or(&NO_PYRAMID, |native| &native.pyramid);
        let no_data = match mapped {
            Some(mapped) => mapped.form().no_data.and_then(NoData::only),
            None => decoded.no_data.map(f64::from),
        };
        let top = decoded.scale.top_of_low(layout.depth).filter(|_| mapped.is_none());
        Self { raster, compression, layout, mapped, pixels, interleaved: None, pyramid, no_data, top }
    }

    pub(crate) fn raster(&self) -> &Raster {
        &self.raster
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn pyramid(&self) -> &'s Pyramid {
        self.pyramid
    }

    /// Returns the properties of the samples that means are made of.
    pub(crate) fn pixels_of_means(&self, are_labels: bool) -> Pixels {
        let Raster { colours, alpha, before_alpha, .. } = self.raster;
        let kind = match (self.mapped, self.layout.depth) {
            (Some(mapped), _) => mapped.form().kind,
            (None, Depth::Eight) => Kind::Unsigned8,
            (None, Depth::Sixteen) => Kind::Unsigned16,
        };
        Pixels {
            kind,
            samples: self.raster.channels(),
            colours,
            alpha: alpha.then_some(colours + before_alpha),
            no_data: self.no_data,
            top: self.top.map_or(f64::MAX, f64::from),
            are_labels,
            are_pictures: self.interleaved.is_some(),
        }
    }

    /// Calls `act` with all rows of samples, little-endian, from top to bottom.
    pub(crate) fn for_rows(
        &self,
        act: &mut dyn FnMut(&[u8]) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let mut buffer = Vec::new();
        let at_once = (STRIP / self.raster.row()).max(1);
        if let Some(channels) = self.interleaved {
            for rows in channels.strips(&Raster { shape: None, ..self.raster }) {
                rows.put_together(self.raster.bytes, &mut buffer)?;
                act(&buffer)?;
            }
        } else if let Some(mapped) = self.mapped {
            for piece in mapped.pieces(&self.layout, self.pixels, at_once) {
                act(Strip::Mapped(piece).samples(self.raster.bytes, &mut buffer)?)?;
            }
        } else {
            self.pixels.chunks(at_once * self.raster.row()).try_for_each(act)?;
        }
        Ok(())
    }

    /// Returns the bytes of all samples as [`Self::write_plain`] writes them.
    pub(crate) fn plain_bytes(&self) -> u64 {
        Raster { shape: None, ..self.raster }.all_bytes()
    }

    /// Returns the page of such a channel, with all of its channels.
    pub(crate) fn interleaved(self, channels: Interleaved<'s>) -> Self {
        let raster = Raster { others: channels.starts.len() - 1, ..self.raster };
        Self { raster, interleaved: Some(channels), ..self }
    }

    /// Writes all samples one after the other, as they are.
    pub(crate) fn write_plain(&self, cores: &Cores, put: &mut Put<'_>) -> Result<Strips, CodecError> {
        let raster = Raster { shape: None, ..self.raster };
        Self { compression: Compression::Stored, raster, ..*self }.write(cores.into(), put)
    }

    /// Writes the pixels strip by strip with the help of idle cores.
    ///
    /// `put` writes bytes, and returns their offset.
    pub(crate) fn write(&self, help: Help<'_>, put: &mut Put<'_>) -> Result<Strips, CodecError> {
        let Self { raster, compression, layout, mapped, pixels, interleaved, .. } = self;
        let pieces: Vec<Strip<'_>> = match (interleaved, mapped) {
            (Some(channels), _) => channels.strips(raster).map(Strip::Interleaved).collect(),
            (None, Some(mapped)) => {
                mapped.pieces(layout, pixels, raster.rows()).into_iter().map(Strip::Mapped).collect()
            }
            (None, None) => return write_rows(raster, pixels, *compression, help, put),
        };
        if raster.tile().is_none() {
            return write_strips(raster, pieces.into_iter(), *compression, help, put);
        }
        let (mut all, mut buffer) = (Strips::none(raster), Vec::new());
        for rows in pieces {
            let samples = rows.samples(raster.bytes, &mut buffer)?;
            let raster = Raster { height: (samples.len() / raster.row()) as u32, ..*raster };
            all.append(write_rows(&raster, samples, *compression, help, put)?);
        }
        Ok(all)
    }

    /// Returns the description of the picture for its directory, given its strips.
    pub(crate) fn written(&self, decoded: &Decoded, strips: Strips) -> Written {
        let native = decoded.native_of::<Native>();
        let kept = match native {
            Some(native) => Arc::clone(&native.kept),
            None => Arc::new(tags::from_metadata(&decoded.metadata)),
        };
        let icc = decoded.metadata.icc_in(Format::Tiff, self.layout.pixel);
        let icc = icc.map(|icc| Arc::new(Value::Data { kind: 7, bytes: icc.to_vec() }));
        let top = decoded.scale.top_of_low(self.layout.depth);
        let top = top.filter(|_| self.raster.format == tags::UNSIGNED);
        let states_no_data = native.is_some_and(|native| native.states_no_data);
        let no_data = decoded.no_data.filter(|_| states_no_data);
        Written {
            raster: self.raster,
            compression: self.compression,
            strips,
            kept,
            icc,
            top,
            no_data,
            pyramid: self.pyramid.clone(),
            overviews: Vec::new(),
            masks: Vec::new(),
            number: 0,
            is_copy: false,
            role: Role::Picture,
            says_smaller: false,
        }
    }
}

/// Writes rows of samples, little-endian, in the strips or tiles of a raster of their height.
pub(crate) fn write_rows(
    raster: &Raster,
    rows: &[u8],
    compression: Compression,
    help: Help<'_>,
    put: &mut Put<'_>,
) -> Result<Strips, CodecError> {
    if let Some(tile) = raster.tile() {
        let tiles = tiles(rows, raster.row(), raster.pixel(), tile).into_iter().map(Strip::Tile);
        return write_strips(raster, tiles, compression, help, put);
    }
    if compression == Compression::Stored {
        return Ok(Strips::of_stored(raster, put(rows)?));
    }
    let strips = rows.chunks(raster.rows() * raster.row()).map(Strip::Ready);
    write_strips(raster, strips, compression, help, put)
}
