//! JPEG, with a coder of our own for the usual files, and libjpeg-turbo for others.
//!
//! The others are unusual, damaged and RGB files.
//!
//! A YCbCr JPEG that becomes a JPEG again stays in its own planes: only Y is decoded to samples,
//! which are equalized. Cb and Cr are not decoded at all: their quantized coefficients are kept for
//! the encoder, and if the source's quantization tables are kept too, they are written back without
//! loss. Where hues are to stay, Cb and Cr follow the new luma, and unchanged blocks are passed on
//! as they are. (Where only libjpeg can read the picture, they are planes of samples.) There is no
//! conversion to RGB and no resampling. Progressive stays progressive, and restart intervals,
//! density and application data are kept.
//!
//! Lossless files and those of 12 bits are read too, but not written back as such, and CMYK files
//! become RGB. Files with several views are refused. Previews, gain maps and other data after the
//! picture match the old contrast; they are left out, with a remark. EXIF stays as it is, including
//! any preview in it.

use std::ops::Range;

use super::foreign::TO_RGB;
use crate::coding::compressed::CompressedJpeg;
use crate::metadata::{Resolution, icc_fits};
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::mapped::Mapped;
use crate::samples::shrink::SmallPlane;
use crate::{BytesBehind, CodecError, Format, JpegQuality, Remark, Target, WorkspaceNeeds, picture};
use equalize::colour::Gray;
use equalize::{Depth, Layout, Pixel};

mod cmyk;
mod coding;
mod compressed;
mod deep;
mod embedded;
mod encode;
mod hue;
mod libjpeg;
pub(super) mod ls;
mod markers;
mod more;
mod mpf;
mod planes;
mod preview;
mod process;
mod rgb;
mod small;
#[cfg(test)]
mod tests;
mod vectorized;

pub(super) use cmyk::CmykSource;
pub use coding::{BaselineComponent, BaselineOutput, BaselinePicture, CanonicalCode, Codebook, Divisors};
use coding::{Coefficients, Picture, Rest};
use compressed::Header;
pub(super) use deep::{DeepSource, decode_samples as decode_deep};
pub(super) use embedded::Embedded;
use encode::new_tables;
pub(crate) use encode::{encode, encode_packed, encoder_bytes, write_encoded};
use hue::Covered;
use libjpeg::{Fault, Plane, QuantTable, Reader, Space};
use markers::{
    APP1, Density, EXTENDED_XMP, Factors, MAX_BLOCKS, Markers, Segment, corrected, icc_part, largest_factors,
};
use more::More;
use planes::{ChromaSize, Cover, PlaneSize, plane_size};
pub(super) use process::{Process, is_ycbcr, process};
use rgb::{Planes, Sampled};

/// Returns whether a JPEG's own density can express this resolution.
pub(super) fn can_state(resolution: Resolution) -> bool {
    Density::new(Some(resolution)).resolution().is_some()
}

/// Copies a height that follows the first scan into the frame header of a whole file.
fn complete_frame(bytes: &mut [u8]) {
    if let Some((place, height)) = markers::late_height(bytes) {
        bytes[place].copy_from_slice(&height);
    }
}

/// Returns a file that begins like this one and ends where its first scan begins.
///
/// `None` if `head` ends before that.
pub(super) fn ended(head: &[u8]) -> Option<Vec<u8>> {
    let mut rest = head.get(2..)?;
    loop {
        let (marker, behind) = markers::next_marker(rest).ok()?;
        rest = markers::segment(marker, behind).ok()?.1;
        if marker == markers::SOS {
            let before = &head[..head.len() - rest.len()];
            return Some([before, &[0xff, markers::EOI]].concat());
        }
    }
}

/// The side of a block of coefficients, in samples.
const BLOCK: usize = 8;

/// The most bytes of content that a segment's 16-bit length allows.
const MAX_SEGMENT: usize = 65533;

/// The data of a source JPEG for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    chroma: Option<Chroma>,
    space: Space,
    components: Vec<Factors>,
    tables: Vec<QuantTable>,
    progressive: bool,
    restart_interval: u16,
    density: Option<Density>,
    kept: Vec<(u8, Vec<u8>)>,
    /// The luma that chroma covers, before equalization, if chroma is to follow the new luma.
    covered: Option<Covered>,
    /// Bytes of memory that the encoder needs for coefficients.
    encoder_bytes: u64,
    /// Other data in the file, such as thumbnails.
    pub(super) more: More,
    /// Whether a colour profile was left out, because the picture has become gray.
    pub(super) lost_profile: bool,
    /// Whether XMP was left out.
    ///
    /// It describes data that were left out, and is damaged, or too long to be corrected.
    pub(super) lost_xmp: bool,
}

impl Native {
    /// Returns whether the XMP continues in extended segments, which only JPEG has.
    fn has_extended_xmp(&self) -> bool {
        self.kept.iter().any(|(marker, content)| *marker == APP1 && content.starts_with(EXTENDED_XMP))
    }

    /// Returns the bytes of the chroma kept for the encoder, and of the encoder's memory.
    fn heap_bytes(&self) -> u64 {
        let waiting = match &self.chroma {
            Some(Chroma::Coefficients(components)) => components.iter().map(Coefficients::heap_bytes).sum(),
            Some(Chroma::Samples(_, samples)) => samples.len() as u64,
            None => 0,
        };
        waiting + self.covered.as_ref().map_or(0, Covered::bytes) + self.encoder_bytes
    }
}

impl picture::Native for Native {
    fn metadata_bytes(&self) -> u64 {
        self.kept.iter().map(|(_, content)| content.len() as u64).sum()
    }

    fn encoder_bytes(&self, _: &Layout, file_bytes: u64, _: bool) -> Option<u64> {
        Some(self.heap_bytes() + file_bytes)
    }

    fn small_chroma(
        &self,
        slot: &[u8],
        layout: &Layout,
        quality: JpegQuality,
        step: usize,
    ) -> Option<[SmallPlane; 2]> {
        self.small_planes_of(slot, layout, quality, step)
    }

    fn remarks(&self, _: &Target, to: Format, _: Option<&Mapped>) -> Vec<Option<Remark>> {
        let is_cut = self.has_extended_xmp() && to.supports_exif_and_xmp() && to != Format::Jpeg;
        let bytes = Some(BytesBehind(self.more.unknown)).filter(|bytes| bytes.0 > 0);
        vec![
            self.more.video.then_some(Remark::WithoutVideo),
            self.more.gain_map.then_some(Remark::WithoutGainMap),
            self.more.previews.then_some(Remark::WithoutPreviews),
            bytes.map(Remark::WithoutBytes),
            is_cut.then_some(Remark::PartOfXmp),
        ]
    }

    fn loses_metadata(&self) -> bool {
        self.lost_xmp
    }

    /// Its segments are passed on as they are.
    fn loses_profile(&self) -> Option<bool> {
        Some(self.lost_profile)
    }

    fn keeps_resolution(&self) -> bool {
        true
    }
}

/// The chroma of a picture in its own planes, kept for the encoder.
#[derive(Debug)]
enum Chroma {
    /// Coefficients, already quantized for the output.
    Coefficients(Vec<Coefficients>),
    Samples(ChromaSize, Vec<u8>),
}

/// An opened JPEG.
#[derive(Debug)]
pub(super) struct Source<'a> {
    bytes: &'a [u8],
    markers: Markers<'a>,
    reader: Reader<'a>,
    space: Space,
    /// The form in which it is decoded.
    form: Form,
    /// The luma that a chroma sample covers, if chroma is to follow it in its own planes.
    cover: Option<Cover>,
    /// Whether the output is gray.
    gray: bool,
    quality: JpegQuality,
}

/// The pixels that a file is decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Gray,
    Rgb,
    Planes(ChromaSize),
}

/// Reads the structure of a whole file, without decoding it.
///
/// A height that follows the first scan is copied into the frame header.
pub(crate) fn open<'a>(bytes: &'a mut [u8], target: &Target) -> Result<Box<dyn Decode + 'a>, CodecError> {
    complete_frame(bytes);
    let bytes = &*bytes;
    let markers = Markers::scan(bytes)?;
    if markers.is_deep() {
        return Ok(Box::new(DeepSource::new(bytes, markers, target)?));
    }
    if markers.components.len() == 4 {
        return Ok(Box::new(CmykSource::new(bytes, markers)?));
    }
    Ok(Box::new(Source::open(bytes, markers, target)?))
}

impl<'a> Source<'a> {
    fn open(bytes: &'a [u8], markers: Markers<'a>, target: &Target) -> Result<Self, CodecError> {
        let reader = Reader::new(bytes).map_err(decode_error)?;
        let Some(space) = reader.space() else {
            return Err(CodecError::unsupported(
                format!("a JPEG of {} components", markers.components.len()),
                TO_RGB,
            ));
        };
        if markers.components.len() != space.components() {
            return Err(malformed("its colour space does not fit its components"));
        }
        let to_jpeg = target.format_for(Format::Jpeg) == Format::Jpeg;
        let is_channel = target.gray.and_then(Gray::channel).is_some();
        let cover = if target.keeps_hue { Cover::of(&markers.components) } else { None };
        let needs_rgb = target.needs_rgb || is_channel || (target.keeps_hue && cover.is_none());
        let form = match space {
            Space::Gray => Form::Gray,
            Space::YCbCr if target.gray == Some(Gray::Luma) && markers.is_usual() => Form::Gray,
            Space::YCbCr if to_jpeg && !needs_rgb && markers.is_usual() => {
                Form::Planes(markers.chroma_size())
            }
            Space::YCbCr | Space::Rgb => Form::Rgb,
        };
        let gray = target.gray.is_some() || space == Space::Gray;
        let cover = cover.filter(|_| matches!(form, Form::Planes(_)));
        Ok(Self { bytes, markers, reader, space, form, cover, gray, quality: target.jpeg_quality })
    }

    /// Returns the components with coefficients that are kept for the encoder.
    fn wanted(&self) -> Range<usize> {
        if let Form::Planes(_) = self.form { 1..self.markers.components.len() } else { 0..0 }
    }

    /// Returns the most bytes that coefficients take during reading.
    ///
    /// Those of the `wanted` components are kept. A picture in several scans needs room for the
    /// coefficients of all components.
    fn in_memory(&self, wanted: Range<usize>) -> u64 {
        let whole = self.markers.progressive || self.markers.scans > 1;
        self.collected_bytes(if whole { 0..self.markers.components.len() } else { wanted })
    }

    /// Returns the most bytes that chroma takes again when it follows luma.
    fn recoloured_bytes(&self) -> u64 {
        if self.cover.is_some() { self.collected_bytes(1..self.markers.components.len()) } else { 0 }
    }

    /// Returns the bytes of the sums of luma that chroma covers.
    fn sum_bytes(&self) -> u64 {
        self.cover.map_or(0, |cover| cover.sum_bytes(PlaneSize::of_pixels(&self.layout())))
    }

    /// Returns the sampling of its planes, if it becomes RGB by our own reader.
    fn sampled(&self) -> Option<Sampled> {
        let size = PlaneSize::of_pixels(&self.layout());
        Sampled::new(size, &self.markers.components).filter(|_| self.form == Form::Rgb)
    }

    /// Returns the bytes of the planes between the picture and RGB.
    fn rgb_bytes(&self) -> u64 {
        self.sampled().map_or(0, |sampled| sampled.bytes())
    }

    /// Returns the most bytes that the coefficients of these components take.
    fn collected_bytes(&self, components: Range<usize>) -> u64 {
        coding::heap_bytes(components.map(|i| self.markers.plane_size(i)))
    }

    /// Decodes into `slot`, which is exactly as long as the pixels.
    fn decode_in(mut self, slot: &mut [u8], workspace: impl AsMut<[u8]>) -> Result<Payload, CodecError> {
        let luma = PlaneSize::of_pixels(&self.layout());
        let (tables, chroma) = match self.form {
            Form::Rgb => match self.read_rgb(slot, workspace) {
                Some(tables) => (tables, None),
                None => (self.read_packed(slot)?, None),
            },
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
                        let tables = self.reader.read_planes(&mut [luma.plane(&mut *slot), cb, cr]);
                        (tables.map_err(decode_error)?, Chroma::Samples(size, samples))
                    }
                };
                (tables, Some(chroma))
            }
        };
        let covered = match self.cover {
            Some(cover) => Some(
                Covered::new(cover, luma, slot)
                    .ok_or(CodecError::OutOfMemory { bytes: Some(cover.sum_bytes(luma)) })?,
            ),
            None => None,
        };
        Ok(self.payload(tables, chroma, covered))
    }

    /// Decodes Y with our own reader, and takes the coefficients of Cb and Cr.
    ///
    /// They are quantized for the output unless they are to follow luma.
    fn read_luma(
        &self,
        plane: Plane<&mut [u8]>,
        workspace: impl AsMut<[u8]>,
    ) -> Result<Option<Picture>, CodecError> {
        let quality = if self.cover.is_some() { JpegQuality::Keep } else { self.quality };
        let tables = new_tables(quality).map_err(decode_error)?;
        let picture = self.read(&mut [plane], Rest::Coefficients(tables.as_deref()), workspace);
        let are_usual = |Picture { tables, rest }: &Picture| {
            self.cover.is_none()
                || rest.iter().zip(&tables[1..]).all(|(chroma, table)| chroma.are_usual(table))
        };
        Ok(picture.filter(are_usual))
    }

    /// Decodes to RGB with our own reader.
    ///
    /// Returns the quantization tables.
    fn read_rgb(&self, slot: &mut [u8], workspace: impl AsMut<[u8]>) -> Option<Vec<QuantTable>> {
        let sampled = self.sampled()?;
        let mut planes = Planes::zeros(&sampled)?;
        let picture = self.read(&mut planes.planes_mut(), Rest::Nothing, workspace)?;
        planes.write_rgb(&sampled, self.space, slot)?;
        Some(picture.tables)
    }

    /// Decodes with our own reader.
    ///
    /// Takes the workspace by value to release it before libjpeg, the fallback, allocates as much.
    fn read(
        &self,
        planes: &mut [Plane<&mut [u8]>],
        rest: Rest<'_>,
        mut workspace: impl AsMut<[u8]>,
    ) -> Option<Picture> {
        coding::read(self.bytes, planes, rest, workspace.as_mut())
    }

    /// Decodes to gray or RGB with libjpeg.
    fn read_packed(&mut self, slot: &mut [u8]) -> Result<Vec<QuantTable>, CodecError> {
        let space = if self.form == Form::Rgb { Space::Rgb } else { Space::Gray };
        self.reader.read_packed(space, slot).map_err(decode_error)
    }

    fn payload(self, tables: Vec<QuantTable>, chroma: Option<Chroma>, covered: Option<Covered>) -> Payload {
        Payload {
            mapped: None,
            layout: self.layout(),
            metadata: self.markers.metadata(),
            native: Box::new(self.native(tables, chroma, covered)),
        }
    }

    /// Returns the data for writing the picture back.
    fn native(self, mut tables: Vec<QuantTable>, chroma: Option<Chroma>, covered: Option<Covered>) -> Native {
        // Chroma that follows luma, or the planes between the picture and RGB.
        let more_planes = self.recoloured_bytes() + self.rgb_bytes();
        let encoder_bytes = match &chroma {
            _ if !self.markers.progressive => 0,
            Some(Chroma::Coefficients(_)) => self.collected_bytes(0..1),
            _ => self.collected_bytes(0..self.markers.components.len()),
        };
        let Self { markers, form, .. } = self;
        let more = More::of(&markers);
        let is_cut = markers.has_false_extension();
        let (space, components) = match form {
            _ if self.gray => {
                tables.truncate(1);
                (Space::Gray, vec![Factors::FULL])
            }
            // Sampling factors that no encoder would choose are not kept.
            Form::Rgb if !markers.is_usual() => (self.space, vec![Factors::FULL; 3]),
            _ => (self.space, markers.components),
        };
        // A colour profile does not apply to a picture that has become gray.
        let lost_profile = self.gray && self.space != Space::Gray && has_colour_profile(&markers.kept);
        let kept = markers.kept.iter().filter(|segment| !lost_profile || icc_part(segment).is_none());
        let mut lost_xmp = false;
        let kept = kept.filter_map(|segment| {
            let content = corrected(segment, is_cut);
            lost_xmp |= content.is_none();
            Some((segment.marker, content?.into_owned()))
        });
        let kept = kept.collect();
        Native {
            chroma,
            space,
            components,
            tables,
            progressive: markers.progressive,
            restart_interval: markers.restart_interval,
            density: markers.density,
            kept,
            covered,
            encoder_bytes: encoder_bytes + more_planes,
            more,
            lost_profile,
            lost_xmp,
        }
    }
}

impl Source<'_> {
    fn layout(&self) -> Layout {
        let pixel = if self.form == Form::Rgb { Pixel::Rgb } else { Pixel::Gray };
        Layout { width: self.markers.width, height: self.markers.height, pixel, depth: Depth::Eight }
    }

    /// Returns the most bytes of heap that decoding takes.
    ///
    /// They are for a copy of a scan without its stuffed bytes, for the chroma, and for all
    /// coefficients of a picture in several scans.
    fn heap_bytes(&self) -> u64 {
        self.in_memory(self.wanted()) + self.bytes.len() as u64 + self.sum_bytes() + self.rgb_bytes()
    }

    /// Returns the workspace for a progressive picture's coefficients.
    ///
    /// The wanted ones are copied out while the whole workspace is still in use, whereas memory of
    /// the reader's own would be freed after each component.
    fn workspace(&self) -> WorkspaceNeeds {
        let sizes = (0..self.markers.components.len()).map(|i| self.markers.plane_size(i));
        match self.markers.progressive {
            true => WorkspaceNeeds {
                bytes: coding::workspace_bytes(sizes),
                additional: self.collected_bytes(self.wanted()) + self.rgb_bytes(),
            },
            false => WorkspaceNeeds::default(),
        }
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        Facts { metadata: self.markers.metadata_bytes(), ..Facts::of(self.layout()) }
    }

    fn needs(&self) -> Needs {
        let chroma = if let Form::Planes(chroma) = self.form { chroma.bytes() as u64 } else { 0 };
        Needs { chroma, workspace: self.workspace(), ..Needs::of_heap(self.heap_bytes()) }
    }

    /// Its coefficients are those of the decoder, and its output is about as long as a scan.
    fn encoder_bytes(&self, to: Format, _layout: &Layout) -> Option<u64> {
        (to == Format::Jpeg).then(|| self.heap_bytes() + self.recoloured_bytes())
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        self.decode_in(room.slot, Workspace(room.workspace))
    }

    fn compressed(&self, target: &Target) -> Option<CompressedJpeg> {
        let pixel = match self.form {
            _ if target.format_for(Format::Jpeg) != Format::Jpeg => return None,
            Form::Rgb if self.space == Space::YCbCr && !self.gray && self.markers.is_usual() => Pixel::Rgb,
            Form::Rgb => return None,
            Form::Gray if self.space != Space::Gray => return None,
            Form::Gray | Form::Planes(_) => Pixel::Gray,
        };
        Header::read(self.bytes)?.describe(self.bytes.len(), pixel, target.jpeg_quality)
    }

    fn has_scan(&self) -> bool {
        compressed::has_scan(self.bytes, self.quality)
    }

    fn pass_on(self: Box<Self>, slot: &mut [u8]) -> Payload {
        slot[..self.bytes.len()].copy_from_slice(self.bytes);
        Payload {
            mapped: None,
            layout: self.layout(),
            metadata: self.markers.metadata(),
            native: Box::new(self.native(Vec::new(), None, None)),
        }
    }
}

/// Memory of any owner, which is released as soon as it is not needed any more.
struct Workspace<'w>(Box<dyn AsMut<[u8]> + 'w>);

impl AsMut<[u8]> for Workspace<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        (*self.0).as_mut()
    }
}

impl Markers<'_> {
    /// Returns whether Y has one sample per pixel, and a scan can interleave the components.
    ///
    /// The latter depends on their sampling factors.
    fn is_usual(&self) -> bool {
        let blocks: u32 =
            self.components.iter().map(|c| u32::from(c.horizontal) * u32::from(c.vertical)).sum();
        let luma = self.components.first().map(|y| (y.horizontal, y.vertical));
        luma == Some(largest_factors(&self.components)) && blocks <= MAX_BLOCKS
    }
}

/// Returns whether these segments have an ICC profile for colour.
fn has_colour_profile(segments: &[Segment<'_>]) -> bool {
    let first = segments.iter().filter_map(icc_part).find(|(number, ..)| *number == 1);
    first.is_some_and(|(.., data)| icc_fits(data, Pixel::Rgb))
}

fn decode_error(fault: Fault) -> CodecError {
    if fault.out_of_memory {
        return CodecError::OutOfMemory { bytes: None };
    }
    // libjpeg's message if the luma's sampling factors are not multiples of the chroma's.
    if fault.message.starts_with("Fractional sampling") {
        let remedy = "leave out --format and --color, or convert it to 4:4:4 or 4:2:0 first";
        return CodecError::unsupported("converting a JPEG of this chroma subsampling to RGB", remedy);
    }
    malformed(fault.message)
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Jpeg, reason)
}

/// Makes the error for an invalid stream from a GPU.
fn encode_malformed(reason: impl Into<String>) -> CodecError {
    CodecError::encoder(Format::Jpeg, reason)
}
