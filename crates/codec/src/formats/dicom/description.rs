//! The description of a data set's pixels (PS3.3, C.7.6.3), checked.

use super::dataset::{DataSet, PixelData};
use super::items::Scope;
use super::palette::Palette;
use super::transfer::Compression;
use super::{malformed, tags, unsupported};
use crate::CodecError;
use crate::formats::elements::Tag;
use crate::samples::mapped::{Form, Kind, NoData};
use crate::samples::size::Size;
use equalize::{Depth, Layout, Pixel};

/// More frames than any file has. Each takes some memory once its place is known.
const MAX_FRAMES: u32 = 1 << 20;

/// The meaning of a pixel's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Photometric {
    /// Gray; the least value is white.
    Monochrome1,
    /// Gray; the least value is black.
    Monochrome2,
    Rgb,
    /// Y, Cb and Cr over the full range of 8 bits.
    Ybr,
    /// The same; two pixels have Cb and Cr in common.
    Ybr422,
    /// Numbers of colours.
    Palette,
}

/// The pixels of a file.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) frames: u32,
    /// The samples of a pixel in the file: 1 or 3.
    pub(super) samples: usize,
    pub(super) photometric: Photometric,
    /// Whether all samples of one kind lie together.
    pub(super) planar: bool,
    /// Bits that a sample occupies: 1, 8, 12, 16, 32 or 64.
    pub(super) allocated: u32,
    /// Bits of these that are the sample.
    pub(super) stored: u32,
    /// The number of the sample's lowest bit.
    pub(super) shift: u32,
    pub(super) signed: bool,
    /// The type of samples that are floats.
    float: Option<Kind>,
    /// Whether compressed samples may have overlays in bits outside the stored ones.
    pub(super) may_have_overlays: bool,
    /// The values of pixels without data.
    pub(super) padding: Option<NoData>,
    pub(super) palette: Option<Palette>,
    pub(super) compression: Compression,
    /// Whether samples of several bytes, or pairs of one byte, begin with the higher one.
    pub(super) swapped: bool,
}

impl Description {
    /// Returns the size of a frame.
    pub(super) fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }

    pub(super) fn new(
        set: &DataSet,
        pixels: &PixelData,
        compression: Compression,
        big_endian: bool,
    ) -> Result<Self, CodecError> {
        let width = needed(set, tags::COLUMNS, "number of columns")?;
        let height = needed(set, tags::ROWS, "number of rows")?;
        let frames = frames(set)?;
        let float = match pixels.tag {
            tags::FLOATS => Some(Kind::Float32),
            tags::DOUBLES => Some(Kind::Float64),
            _ => None,
        };
        let samples = set.u16(tags::SAMPLES).unwrap_or(1);
        let photometric = photometric(set, samples, compression)?;
        let allocated = match float {
            Some(kind) => 8 * kind.bytes() as u32,
            None => needed(set, tags::BITS_ALLOCATED, "number of bits allocated")?,
        };
        let stored = set.u16(tags::BITS_STORED).filter(|_| float.is_none()).map_or(allocated, u32::from);
        let high = set.u16(tags::HIGH_BIT).filter(|_| float.is_none()).map_or(stored - 1, u32::from);
        if !matches!(allocated, 1 | 8 | 12 | 16 | 32) && float.is_none() {
            return Err(unsupported(format!("a DICOM file of {allocated}-bit samples"), super::CONVERT));
        }
        if stored == 0 || stored > allocated || high >= allocated {
            return Err(malformed(format!("{stored} bits up to bit {high} in samples of {allocated} bits")));
        }
        let signed = set.u16(tags::REPRESENTATION) == Some(1) && float.is_none();
        let palette = match photometric {
            Photometric::Palette => Some(Palette::read(set, signed)?),
            _ => None,
        };
        let description = Self {
            width,
            height,
            frames,
            samples: samples.into(),
            photometric,
            planar: samples > 1 && set.u16(tags::PLANAR) == Some(1),
            allocated,
            stored,
            shift: (high + 1).saturating_sub(stored),
            signed,
            float,
            may_have_overlays: has_overlays(set),
            padding: padding(set, pixels.tag, signed),
            palette,
            compression,
            swapped: big_endian && (allocated > 8 || pixels.kind == Some(*b"OW")),
        };
        description.check()?;
        description.refuse_tiles(set)?;
        Ok(description)
    }

    /// Refuses frames that are tiles of one picture (PS3.3, C.7.6.17.3), such as a slide under a
    /// microscope: each would be equalized by itself, and seams would show.
    fn refuse_tiles(&self, set: &DataSet) -> Result<(), CodecError> {
        let [width, height] = tags::TOTAL_MATRIX
            .map(|tag| Scope::Whole(set).find(tag).and_then(|size| size.longs().first().copied()));
        let is_tiled = match width.zip(height) {
            Some((width, height)) => width > self.width || height > self.height,
            None => {
                let organization = set.text(tags::ORGANIZATION_TYPE);
                self.frames > 1 && matches!(organization, Some("TILED_FULL" | "TILED_SPARSE"))
            }
        };
        if !is_tiled {
            return Ok(());
        }
        let whole =
            width.zip(height).map_or(String::new(), |(width, height)| format!(" of {width}x{height} pixels"));
        Err(unsupported(
            format!(
                "a slide in DICOM, whose frames are tiles of one picture{whole} and would be equalized one by one,"
            ),
            "write it as one TIFF first, as in `vips openslideload IN.dcm 'OUT.tif[tile,pyramid,bigtiff]'` (libvips with OpenSlide 4)",
        ))
    }

    /// Refuses combinations that no program writes, or that no rule defines.
    fn check(&self) -> Result<(), CodecError> {
        let is_colour = self.samples > 1;
        let is_ybr = matches!(self.photometric, Photometric::Ybr | Photometric::Ybr422);
        if is_colour && (self.signed || self.float.is_some() || !matches!(self.allocated, 8 | 16)) {
            return Err(unsupported(
                "a DICOM file of colours other than unsigned bytes or words",
                super::TO_TIFF,
            ));
        }
        if is_ybr && (self.allocated, self.stored) != (8, 8) {
            return Err(unsupported("a DICOM file of luma and chroma of more than 8 bits", super::CONVERT));
        }
        if self.photometric == Photometric::Ybr422 && !self.width.is_multiple_of(2) {
            return Err(malformed("pixels share their chroma, but their number in a row is odd"));
        }
        if self.is_packed() && (self.compression != Compression::None || self.signed || self.swapped) {
            let what = format!("a DICOM file of packed samples of {} bits in this form", self.allocated);
            return Err(unsupported(what, super::DECOMPRESS));
        }
        if self.palette.is_some() && !matches!(self.allocated, 8 | 16) {
            return Err(malformed(format!("a palette for samples of {} bits", self.allocated)));
        }
        Ok(())
    }

    /// Returns the type of samples once they are read.
    pub(super) fn kind(&self) -> Kind {
        match (self.float, self.allocated, self.signed) {
            (Some(kind), _, _) => kind,
            (None, 16, true) => Kind::Signed16,
            (None, 12 | 16, false) => Kind::Unsigned16,
            (None, 32, true) => Kind::Signed32,
            (None, 32, false) => Kind::Unsigned32,
            (None, _, true) => Kind::Signed8,
            (None, _, false) => Kind::Unsigned8,
        }
    }

    /// Returns whether samples are gray, and not numbers of colours.
    pub(super) fn is_gray(&self) -> bool {
        self.samples == 1 && self.palette.is_none()
    }

    /// Returns the form of samples that are not levels, of which the least is black.
    ///
    /// All bits of bytes, and of colours, are levels.
    pub(super) fn form(&self) -> Option<Form> {
        if self.palette.is_some() {
            return None;
        }
        let is_whole = !self.signed && self.stored == self.allocated && self.float.is_none();
        let kind = self.kind();
        if self.samples > 1 {
            let most = f64::from((1_u32 << self.stored) - 1);
            let form = Form {
                colours: 3,
                ends: Some((0.0, most)),
                stated: Some(1 << self.stored),
                ..Form::of(kind)
            };
            return (!is_whole).then_some(form);
        }
        if is_whole && self.allocated == 8 && self.padding.is_none() {
            return None;
        }
        Some(Form {
            no_data: self.padding,
            // Longer samples are not stored as so many levels.
            stated: (self.float.is_none() && self.stored <= 16).then(|| 1 << self.stored),
            ..Form::of(kind)
        })
    }

    /// Returns whether samples share bytes with others.
    pub(super) fn is_packed(&self) -> bool {
        !self.allocated.is_multiple_of(8)
    }

    /// Returns whether the least value is white, after any modality transformation.
    pub(super) fn is_inverted(&self) -> bool {
        self.photometric == Photometric::Monochrome1
    }

    /// Returns the layout of the levels.
    pub(super) fn layout(&self) -> Layout {
        let (width, height) = (self.width, self.height);
        if let Some(form) = self.form() {
            return form.layout(Size { width, height });
        }
        let depth = match &self.palette {
            Some(palette) => palette.depth(),
            None if self.allocated == 16 => Depth::Sixteen,
            None => Depth::Eight,
        };
        let pixel = if self.samples > 1 || self.palette.is_some() { Pixel::Rgb } else { Pixel::Gray };
        Layout { width, height, pixel, depth }
    }

    /// Returns the bytes of a sample once it is read: whole bytes, in the machine's order.
    pub(super) fn sample_bytes(&self) -> usize {
        (self.allocated as usize).div_ceil(8)
    }

    /// Returns the bytes of a pixel once it is read.
    pub(super) fn pixel_bytes(&self) -> usize {
        match &self.palette {
            Some(palette) => 3 * palette.depth().bytes(),
            None => self.samples * self.sample_bytes(),
        }
    }

    /// Returns the samples of a frame.
    pub(super) fn frame_samples(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * self.samples as u64
    }

    /// Returns the bits of a frame that is not compressed.
    pub(super) fn frame_bits(&self) -> u64 {
        let samples = self.frame_samples();
        let samples = if self.photometric == Photometric::Ybr422 { samples / 3 * 2 } else { samples };
        samples * u64::from(self.allocated)
    }
}

/// Returns the number of frames; 1 unless it is stated.
fn frames(set: &DataSet) -> Result<u32, CodecError> {
    let Some(text) = set.text(tags::FRAMES) else { return Ok(1) };
    match text.parse() {
        Ok(0) => Ok(1),
        Ok(frames @ 1..=MAX_FRAMES) => Ok(frames),
        _ => Err(malformed(format!("{text:?} frames"))),
    }
}

fn photometric(set: &DataSet, samples: u16, compression: Compression) -> Result<Photometric, CodecError> {
    let name = set.text(tags::PHOTOMETRIC).unwrap_or(if samples == 1 { "MONOCHROME2" } else { "RGB" });
    let wavelet = compression == Compression::Jpeg2000;
    let photometric = match name {
        "MONOCHROME1" => Photometric::Monochrome1,
        "MONOCHROME2" => Photometric::Monochrome2,
        "PALETTE COLOR" => Photometric::Palette,
        "RGB" => Photometric::Rgb,
        // The decoder makes RGB of them.
        "YBR_RCT" | "YBR_ICT" if wavelet => Photometric::Rgb,
        "YBR_FULL" => Photometric::Ybr,
        "YBR_FULL_422" if compression == Compression::None => Photometric::Ybr422,
        "YBR_FULL_422" => Photometric::Ybr,
        _ => {
            return Err(unsupported(format!("a DICOM file of the colours {name}"), super::CONVERT));
        }
    };
    let is_single =
        matches!(photometric, Photometric::Monochrome1 | Photometric::Monochrome2 | Photometric::Palette);
    let expected = if is_single { 1 } else { 3 };
    if samples != expected {
        return Err(malformed(format!("{samples} samples in a pixel of {name}")));
    }
    Ok(photometric)
}

/// Returns whether there are overlays without bytes of their own.
fn has_overlays(set: &DataSet) -> bool {
    let groups = set.elements.keys().map(|tag| tag >> 16).filter(|group| tags::OVERLAYS.contains(group));
    groups.into_iter().any(|group| set.value(group << 16 | tags::OVERLAY_DATA).is_none())
}

/// Returns a number that every picture has, and that is not 0.
fn needed(set: &DataSet, tag: Tag, name: &str) -> Result<u32, CodecError> {
    let number = set.u16(tag).filter(|&n| n > 0).map(u32::from);
    number.ok_or_else(|| malformed(format!("its {name} is missing or 0")))
}

/// Returns the values of pixels without data: one, or all from one to another, which may be less.
fn padding(set: &DataSet, pixels: Tag, signed: bool) -> Option<NoData> {
    let (value, limit) = match pixels {
        tags::FLOATS => (tags::FLOAT_PADDING, tags::FLOAT_PADDING_LIMIT),
        tags::DOUBLES => (tags::DOUBLE_PADDING, tags::DOUBLE_PADDING_LIMIT),
        _ => (tags::PADDING, tags::PADDING_LIMIT),
    };
    let [value, limit]: [Option<f64>; 2] = [value, limit].map(|tag| {
        let bytes = set.value(tag)?;
        match pixels {
            tags::FLOATS => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            tags::DOUBLES => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
            _ if signed => Some(set.u16(tag)?.cast_signed().into()),
            _ => Some(set.u16(tag)?.into()),
        }
    });
    let value = value?;
    Some(NoData::between(value, limit.unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Made;
    use super::tags;

    #[test]
    fn frames_that_are_tiles_of_one_picture_are_refused() {
        let tiles = |frames: usize| Made::new([2, 2], &vec![5; 4 * frames]);
        let matrix = |made: Made, width: u32, height: u32| {
            let [columns, rows] = tags::TOTAL_MATRIX;
            made.with(columns, b"UL", &width.to_le_bytes()).with(rows, b"UL", &height.to_le_bytes())
        };
        let organized = |made: Made, kind: &str| made.with(tags::ORGANIZATION_TYPE, b"CS", kind.as_bytes());
        for refused in [matrix(tiles(4), 4, 4), matrix(tiles(1), 2, 3), organized(tiles(4), "TILED_SPARSE")] {
            let error = refused.known().unwrap_err().to_string();
            assert!(error.starts_with("a slide in DICOM, whose frames are tiles of one picture"), "{error}");
            assert!(error.contains("; write it as one TIFF first, as in `vips openslideload"), "{error}");
        }
        // A label or overview is one frame; several may be planes of focus.
        for read in [matrix(tiles(1), 2, 2), matrix(tiles(3), 2, 2), organized(tiles(4), "3D"), tiles(4)] {
            assert!(read.known().is_ok());
        }
    }
}
