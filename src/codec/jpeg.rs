//! JPEG, by coders of our own, and by libjpeg-turbo what is unusual, damaged, or RGB.
//!
//! A YCbCr JPEG that becomes a JPEG again stays in its own planes: only Y is decoded to the samples that get equalized. Cb and Cr are not
//! decoded at all: their quantized coefficients wait for the encoder, and where the source's tables are kept they are written back as
//! they were, without loss. (For a GPU that encodes, and in a picture that only libjpeg reads, they are planes of samples.)
//! Nothing is converted to RGB or resampled. Progressive stays progressive, and restart intervals, density and application data are kept. Arithmetic-coded, lossless, 12-bit
//! and CMYK files are refused, and so are files of several views. Previews, gain maps and whatever else lies behind the picture in
//! its file belong to the old contrast and are left out, which is remarked. EXIF stays as it is, with the preview in it.

use std::ops::Range;

use super::metadata::icc_fits;
use super::{CodecError, Format, JpegQuality, Native as AnyNative, Payload, Target, WorkspaceNeeds};
use crate::picture::{Depth, Layout, Pixel};

mod coding;
mod compressed;
mod encode;
mod libjpeg;
mod markers;
mod mpf;
mod part;

pub use coding::BaselineScan;
pub(crate) use coding::CanonicalCode;
use coding::{Coefficients, Picture, Rest};
use compressed::Header;
pub use compressed::{CompressedJpeg, Sampling};
use encode::new_tables;
pub(super) use encode::{encode, write_encoded};
use libjpeg::{BLOCK, Fault, Plane, QuantTable, Reader, Space};
use markers::{APP1, Component, Density, EXTENDED_XMP, MOST_BLOCKS, Markers, Segment, icc_part};
pub(super) use part::Part;

/// The sides of chroma planes in a slot are padded to multiples of so many samples.
pub const CHROMA_PADDING: u32 = BLOCK as u32;

/// The most content that a segment can have, by its 16-bit length.
const MOST_SEGMENT: usize = 65533;

/// What is remembered of a JPEG for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    chroma: Option<Chroma>,
    space: Space,
    components: Vec<Component>,
    tables: Vec<QuantTable>,
    progressive: bool,
    restart_interval: u16,
    density: Option<Density>,
    kept: Vec<(u8, Vec<u8>)>,
    /// Bytes that the encoder collects coefficients in.
    encoder_bytes: u64,
    /// Whether the file had more than its picture.
    pub(super) had_more: bool,
}

impl Native {
    /// Whether the XMP goes on in segments that no other format has.
    pub(super) fn has_extended_xmp(&self) -> bool {
        self.kept.iter().any(|(marker, content)| *marker == APP1 && content.starts_with(EXTENDED_XMP))
    }

    /// What waits for the encoder, and what it takes.
    pub(super) fn heap_bytes(&self) -> u64 {
        let waiting = match &self.chroma {
            Some(Chroma::Coefficients(components)) => components.iter().map(Coefficients::heap_bytes).sum(),
            Some(Chroma::Samples(_, samples)) => samples.len() as u64,
            Some(Chroma::InSlot(..)) | None => 0,
        };
        waiting + self.encoder_bytes
    }
}

/// Where the chroma of a picture in its own planes waits for the encoder.
#[derive(Debug)]
enum Chroma {
    /// Quantized as it will be written.
    Coefficients(Vec<Coefficients>),
    Samples(ChromaSize, Vec<u8>),
    /// Samples, behind those of Y, and then the file of so many bytes, which has the coefficients.
    InSlot(ChromaSize, usize),
}

/// The sizes of chroma planes in whole blocks: of Cb, and of Cr behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChromaSize {
    blue: PlaneSize,
    red: PlaneSize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlaneSize {
    width: usize,
    rows: usize,
}

impl PlaneSize {
    /// Of a plane with a sample for every pixel.
    fn of_pixels(layout: &Layout) -> Self {
        Self { width: layout.width as usize, rows: layout.height as usize }
    }

    fn bytes(self) -> usize {
        self.width * self.rows
    }

    fn plane<D>(self, data: D) -> Plane<D> {
        Plane { data, width: self.width, rows: self.rows }
    }
}

impl ChromaSize {
    fn bytes(self) -> usize {
        self.blue.bytes() + self.red.bytes()
    }

    fn planes_mut(self, samples: &mut [u8]) -> [Plane<&mut [u8]>; 2] {
        let (cb, cr) = samples.split_at_mut(self.blue.bytes());
        [self.blue.plane(cb), self.red.plane(cr)]
    }

    fn planes(self, samples: &[u8]) -> [Plane<&[u8]>; 2] {
        let (cb, cr) = samples[..self.bytes()].split_at(self.blue.bytes());
        [self.blue.plane(cb), self.red.plane(cr)]
    }
}

/// An opened JPEG.
#[derive(Debug)]
pub(super) struct Source<'a> {
    bytes: &'a [u8],
    markers: Markers<'a>,
    reader: Reader<'a>,
    space: Space,
    /// How it is going to be decoded.
    form: Form,
    /// Whether what is written will be gray.
    gray: bool,
    quality: JpegQuality,
}

/// What pixels are taken from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Gray,
    Rgb,
    Planes(ChromaSize),
}

impl<'a> Source<'a> {
    /// Reads the structure of a whole file; decodes nothing.
    pub(super) fn open(bytes: &'a [u8], target: &Target) -> Result<Self, CodecError> {
        let markers = Markers::scan(bytes)?;
        let reader = Reader::new(bytes).map_err(decode_error)?;
        let Some(space) = reader.space() else {
            return Err(CodecError::unsupported(
                format!("a JPEG of {} components (CMYK or the like)", markers.components.len()),
                "convert it to RGB with its ink profile first",
            ));
        };
        if markers.components.len() != space.components() {
            return Err(malformed("its colour space does not fit its components"));
        }
        let to_jpeg = target.format_for(Format::Jpeg) == Format::Jpeg;
        let form = match space {
            Space::Gray => Form::Gray,
            Space::YCbCr if target.gray && markers.is_usual() => Form::Gray,
            Space::YCbCr if to_jpeg && !target.per_channel && markers.is_usual() => {
                Form::Planes(markers.chroma_size())
            }
            Space::YCbCr | Space::Rgb => Form::Rgb,
        };
        let gray = target.gray || space == Space::Gray;
        Ok(Self { bytes, markers, reader, space, form, gray, quality: target.jpeg_quality })
    }

    /// What a GPU has to know to do it alone, if one can: a picture in its own planes, of a usual kind.
    pub(super) fn compressed(&self, target: &Target) -> Option<CompressedJpeg> {
        let in_planes = matches!(self.form, Form::Planes(_)) || self.space == Space::Gray;
        if !in_planes || target.format_for(Format::Jpeg) != Format::Jpeg {
            return None;
        }
        Header::read(self.bytes)?.describe(self.bytes.len(), target.jpeg_quality)
    }

    /// Whether its codes are codes, and its data end; of a picture that a GPU can do.
    pub(super) fn has_scan(&self) -> bool {
        BaselineScan::read(self.bytes).is_some()
    }

    /// Copies the file into the front of `slot` as it is, for a GPU.
    pub(super) fn pass_on(self, slot: &mut [u8]) -> Payload {
        slot[..self.bytes.len()].copy_from_slice(self.bytes);
        Payload {
            layout: self.layout(),
            metadata: self.markers.metadata(),
            native: AnyNative::Jpeg(Box::new(self.native(Vec::new(), None))),
        }
    }

    pub(super) fn layout(&self) -> Layout {
        let pixel = if self.form == Form::Rgb { Pixel::Rgb } else { Pixel::Gray };
        Layout { width: self.markers.width, height: self.markers.height, pixel, depth: Depth::Eight }
    }

    /// Bytes of its chroma planes in a slot.
    pub(super) fn chroma_bytes(&self) -> u64 {
        if let Form::Planes(chroma) = self.form { chroma.bytes() as u64 } else { 0 }
    }

    /// A scan is copied without its stuffing; a progressive picture's coefficients are collected in memory, and so is the chroma.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.in_memory(self.wanted()) + self.bytes.len() as u64
    }

    /// A workspace for a progressive picture's coefficients. The wanted ones are taken from it while it is still there, where memory
    /// of the reader's own would be free as soon as a component is through.
    pub(super) fn workspace(&self) -> WorkspaceNeeds {
        let sizes = (0..self.markers.components.len()).map(|i| self.markers.plane_size(i));
        match self.markers.progressive && self.form != Form::Rgb {
            true => WorkspaceNeeds {
                bytes: coding::workspace_bytes(sizes),
                beside: self.collected_bytes(self.wanted()),
            },
            false => WorkspaceNeeds::default(),
        }
    }

    /// The components whose coefficients wait for the encoder.
    fn wanted(&self) -> Range<usize> {
        if let Form::Planes(_) = self.form { 1..self.markers.components.len() } else { 0..0 }
    }

    /// What coefficients take at most while they are read, of which these components' are wanted: those of a picture in several scans
    /// are collected all together.
    fn in_memory(&self, wanted: Range<usize>) -> u64 {
        let whole = self.markers.progressive || self.markers.scans > 1;
        self.collected_bytes(if whole { 0..self.markers.components.len() } else { wanted })
    }

    /// What coefficients of these components take at most.
    fn collected_bytes(&self, components: Range<usize>) -> u64 {
        coding::heap_bytes(components.map(|i| self.markers.plane_size(i)))
    }

    /// Decodes into `slot`, which is as long as pixels.
    pub(super) fn decode(
        mut self,
        slot: &mut [u8],
        workspace: impl AsMut<[u8]>,
    ) -> Result<Payload, CodecError> {
        let luma = PlaneSize::of_pixels(&self.layout());
        let (tables, chroma) = match self.form {
            Form::Rgb => (self.read_packed(slot)?, None),
            Form::Gray => match self.read(&mut [luma.plane(&mut *slot)], Rest::Nothing, workspace) {
                Some(picture) => (picture.tables, None),
                None => (self.read_packed(slot)?, None),
            },
            Form::Planes(size) => {
                let (tables, chroma) = match self.read_luma(luma.plane(&mut *slot), workspace)? {
                    Some(Picture { tables, rest }) => (tables, Chroma::Coefficients(rest)),
                    None => {
                        let mut samples = coding::zeros(size.bytes())
                            .ok_or(CodecError::OutOfMemory { bytes: Some(size.bytes() as u64) })?;
                        let [cb, cr] = size.planes_mut(&mut samples);
                        let tables = self.reader.read_planes(&mut [luma.plane(slot), cb, cr]);
                        (tables.map_err(decode_error)?, Chroma::Samples(size, samples))
                    }
                };
                (tables, Some(chroma))
            }
        };
        Ok(self.payload(tables, chroma))
    }

    /// Decodes into `slot`, which is as long as pixels, chroma and file, for a GPU that encodes it. The file lies last.
    pub(super) fn decode_planes(
        mut self,
        slot: &mut [u8],
        workspace: impl AsMut<[u8]>,
    ) -> Result<Payload, CodecError> {
        let (planes, file) = slot.split_at_mut(slot.len() - self.bytes.len());
        file.copy_from_slice(self.bytes);
        let Form::Planes(size) = self.form else { return self.decode(planes, workspace) };
        let luma = PlaneSize::of_pixels(&self.layout());
        let (y, chroma) = planes.split_at_mut(luma.bytes());
        let [cb, cr] = size.planes_mut(chroma);
        let mut planes = [luma.plane(y), cb, cr];
        let tables = match self.read(&mut planes, Rest::Nothing, workspace) {
            Some(picture) => picture.tables,
            None => self.reader.read_planes(&mut planes).map_err(decode_error)?,
        };
        let in_slot = Chroma::InSlot(size, self.bytes.len());
        Ok(self.payload(tables, Some(in_slot)))
    }

    /// Decodes Y by our own reader, and takes the coefficients of the others, quantized as they are going to be written.
    fn read_luma(
        &self,
        plane: Plane<&mut [u8]>,
        workspace: impl AsMut<[u8]>,
    ) -> Result<Option<Picture>, CodecError> {
        let tables = new_tables(self.quality).map_err(decode_error)?;
        Ok(self.read(&mut [plane], Rest::Coefficients(tables.as_deref()), workspace))
    }

    /// Decodes by our own reader. Libjpeg, should it have to, takes as much memory of its own, so the workspace is given back first.
    fn read(
        &self,
        planes: &mut [Plane<&mut [u8]>],
        rest: Rest<'_>,
        mut workspace: impl AsMut<[u8]>,
    ) -> Option<Picture> {
        coding::read(self.bytes, planes, rest, workspace.as_mut())
    }

    /// Decodes gray or RGB by libjpeg.
    fn read_packed(&mut self, slot: &mut [u8]) -> Result<Vec<QuantTable>, CodecError> {
        let space = if self.form == Form::Rgb { Space::Rgb } else { Space::Gray };
        self.reader.read_packed(space, slot).map_err(decode_error)
    }

    fn payload(self, tables: Vec<QuantTable>, chroma: Option<Chroma>) -> Payload {
        Payload {
            layout: self.layout(),
            metadata: self.markers.metadata(),
            native: AnyNative::Jpeg(Box::new(self.native(tables, chroma))),
        }
    }

    /// What to write back, for the components that have been taken.
    fn native(self, mut tables: Vec<QuantTable>, chroma: Option<Chroma>) -> Native {
        let encoder_bytes = match &chroma {
            // Its coefficients are read again.
            Some(Chroma::InSlot(_, bytes)) => {
                self.in_memory(1..self.markers.components.len()) + *bytes as u64
            }
            _ if !self.markers.progressive => 0,
            Some(Chroma::Coefficients(_)) => self.collected_bytes(0..1),
            _ => self.collected_bytes(0..self.markers.components.len()),
        };
        let Self { markers, form, .. } = self;
        let (space, components) = match form {
            _ if self.gray => {
                tables.truncate(1);
                (Space::Gray, vec![Component::FULL])
            }
            // Sampling that no encoder would choose is not repeated.
            Form::Rgb if !markers.is_usual() => (self.space, vec![Component::FULL; 3]),
            _ => (self.space, markers.components),
        };
        // A profile for colour means nothing on what has become gray.
        let obsolete = self.gray && self.space != Space::Gray && has_colour_profile(&markers.kept);
        let kept = markers.kept.iter().filter(|segment| !obsolete || icc_part(segment).is_none());
        Native {
            chroma,
            space,
            components,
            tables,
            progressive: markers.progressive,
            restart_interval: markers.restart_interval,
            density: markers.density,
            kept: kept.map(|segment| (segment.marker, segment.content.to_vec())).collect(),
            encoder_bytes,
            had_more: markers.has_more,
        }
    }
}

impl Markers<'_> {
    /// Whether Y has a sample for every pixel, and the components can be written interleaved with their sampling factors.
    fn is_usual(&self) -> bool {
        let blocks: u32 =
            self.components.iter().map(|c| u32::from(c.horizontal) * u32::from(c.vertical)).sum();
        let luma = self.components.first().map(|y| (y.horizontal, y.vertical));
        luma == Some(largest_factors(&self.components)) && blocks <= MOST_BLOCKS
    }

    fn plane_size(&self, component: usize) -> PlaneSize {
        plane_size(self.width, self.height, &self.components, self.components[component])
    }

    fn chroma_size(&self) -> ChromaSize {
        ChromaSize { blue: self.plane_size(1), red: self.plane_size(2) }
    }
}

/// The size of a component's plane in whole blocks (T.81, A.1.1 and A.2.4), among all components of a picture.
fn plane_size(width: u32, height: u32, all: &[Component], component: Component) -> PlaneSize {
    let (most_h, most_v) = largest_factors(all);
    let padded = |side: u32, factor: u8, most: u8| {
        (side as usize * usize::from(factor)).div_ceil(usize::from(most) * BLOCK) * BLOCK
    };
    PlaneSize {
        width: padded(width, component.horizontal, most_h),
        rows: padded(height, component.vertical, most_v),
    }
}

fn largest_factors(components: &[Component]) -> (u8, u8) {
    let largest = |factor: fn(&Component) -> u8| components.iter().map(factor).max().unwrap_or(1);
    (largest(|c| c.horizontal), largest(|c| c.vertical))
}

impl Component {
    /// A sample for every pixel.
    const FULL: Self = Self { horizontal: 1, vertical: 1 };
}

/// Whether the profile in these segments, if there is one, is for colour.
fn has_colour_profile(segments: &[Segment<'_>]) -> bool {
    let first = segments.iter().filter_map(icc_part).find(|(number, ..)| *number == 1);
    first.is_some_and(|(.., data)| icc_fits(data, Pixel::Rgb))
}

fn decode_error(fault: Fault) -> CodecError {
    if fault.out_of_memory {
        return CodecError::OutOfMemory { bytes: None };
    }
    // libjpeg's words for luma whose factors are no multiples of chroma's.
    if fault.message.starts_with("Fractional sampling") {
        let remedy = "leave out --format and --color, or convert it to 4:4:4 or 4:2:0 first";
        return CodecError::unsupported(
            "a JPEG of this subsampling, but as a JPEG with its luma equalized",
            remedy,
        );
    }
    malformed(fault.message)
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Jpeg, reason)
}
