//! CMYK JPEGs, read by libjpeg. They become RGB.

use super::libjpeg::Reader;
use super::markers::Markers;
use super::{coding, decode_error, plane_size};
use crate::CodecError;
use crate::metadata::MetadataBytes;
use crate::picture::Other;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::inks;
use equalize::{Depth, Layout, Pixel};

/// An opened CMYK JPEG.
#[derive(Debug)]
pub(crate) struct CmykSource<'a> {
    markers: Markers<'a>,
    reader: Reader<'a>,
}

impl<'a> CmykSource<'a> {
    pub(super) fn new(bytes: &'a [u8], markers: Markers<'a>) -> Result<Self, CodecError> {
        let reader = Reader::new(bytes).map_err(decode_error)?;
        Ok(Self { markers, reader })
    }
}

impl CmykSource<'_> {
    fn layout(&self) -> Layout {
        let Markers { width, height, .. } = self.markers;
        Layout { width, height, pixel: Pixel::Rgb, depth: Depth::Eight }
    }

    /// Returns the bytes of all coefficients of a picture in several scans.
    fn heap_bytes(&self) -> u64 {
        let Markers { width, height, ref components, .. } = self.markers;
        if !self.markers.progressive && self.markers.scans == 1 {
            return 0;
        }
        coding::heap_bytes(components.iter().map(|&factors| plane_size(width, height, components, factors)))
    }
}

impl Decode for CmykSource<'_> {
    fn facts(&self) -> Facts {
        let metadata = MetadataBytes { native: 0, ..self.markers.metadata_bytes() };
        Facts { metadata, ..Facts::of(self.layout()) }
    }

    fn needs(&self) -> Needs {
        Needs { beyond: self.layout().pixels(), ..Needs::of_heap(self.heap_bytes()) }
    }

    fn decode(mut self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        self.reader.read_inks(slot).map_err(decode_error)?;
        let mut metadata = self.markers.metadata();
        // Adobe's programs store inverted inks: 255 is no ink. Other programs follow them, even
        // without an Adobe segment.
        let is_inverted = true;
        inks::to_rgb(metadata.icc.take().as_deref(), slot, Depth::Eight, 0, is_inverted);
        Ok(Payload {
            layout: self.layout(),
            metadata,
            native: Box::new(Other { had_inks: true, ..Other::default() }),
            mapped: None,
        })
    }
}
