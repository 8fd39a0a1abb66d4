//! Strips and tiles, made and compressed.

use crate::CodecError;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::compression::{deflate, lzw, predictor};
use crate::formats::tiff::strips::{Raster, Strip};
use crate::formats::tiff::tags;
use crate::io::output::Output;

/// Makes and compresses strips, one after the other.
pub(crate) struct Press<'r> {
    raster: &'r Raster,
    /// `None` if samples are stored as they are made.
    encoder: Option<Encoder>,
    /// Samples that are made of levels.
    samples: Vec<u8>,
    differences: Vec<u8>,
    /// The last strip in compressed form.
    out: Output,
}

enum Encoder {
    Lzw(lzw::Encoder),
    Deflate(deflate::Encoder),
}

impl<'r> Press<'r> {
    pub(crate) fn new(raster: &'r Raster, compression: Compression) -> Self {
        let encoder = match compression {
            Compression::Lzw => Some(Encoder::Lzw(lzw::Encoder::new())),
            Compression::Deflate => Some(Encoder::Deflate(deflate::Encoder::new())),
            Compression::Stored => None,
        };
        Self { raster, encoder, samples: Vec::new(), differences: Vec::new(), out: Output::default() }
    }

    pub(crate) fn press(&mut self, strip: Strip<'_>) -> Result<(), CodecError> {
        if self.encoder.is_none() {
            strip.samples(self.raster.bytes, &mut self.samples)?;
            return Ok(());
        }
        self.predict(strip)?;
        self.out.clear();
        match &mut self.encoder {
            Some(Encoder::Lzw(encoder)) => encoder.encode(&self.differences, &mut self.out),
            Some(Encoder::Deflate(encoder)) => encoder.encode(&self.differences, &mut self.out),
            None => {}
        }
        Ok(())
    }

    /// Makes the differences, or samples, of a strip that are compressed.
    pub(crate) fn predict(&mut self, strip: Strip<'_>) -> Result<(), CodecError> {
        let (row, channels, bytes) = (self.raster.part_row(), self.raster.channels(), self.raster.bytes);
        let samples = strip.samples(bytes, &mut self.samples)?;
        self.differences.clear();
        if !self.raster.is_predicted() {
            self.differences.extend_from_slice(samples);
        } else if self.raster.format == tags::FLOAT {
            predictor::apply_float(samples, row, channels, bytes, &mut self.differences);
        } else {
            predictor::apply(samples, row, channels, bytes, &mut self.differences);
        }
        Ok(())
    }

    /// Returns the result of [`Press::predict`].
    pub(crate) fn predicted(&self) -> &[u8] {
        &self.differences
    }

    /// Returns the last strip as it is written.
    pub(crate) fn written(&self) -> &[u8] {
        if self.encoder.is_some() { self.out.bytes() } else { &self.samples }
    }
}
