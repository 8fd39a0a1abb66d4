//! Writing a picture: the luma of the slot, the chroma kept for it, and the file's metadata.

use std::fs::File;
use std::io::Write;

use super::coding::{self, Part};
use super::libjpeg::{self, Fault, Frame, QuantTable, Space, Tables};
use super::markers::{APP1, APP2, Density, EXIF, Factors, ICC, Segment, XMP};
use super::rgb::{Planes, Sampled};
use super::{Chroma, ChromaSize, MAX_SEGMENT, Native, PlaneSize, compressed, encode_malformed};
use crate::io::cores::Cores;
use crate::metadata::Metadata;
use crate::{CodecError, Decoded, Format, JpegQuality};
use equalize::{Layout, Pixel};

/// Returns the bytes of heap that encoding pixels takes.
///
/// They are those of the planes, and of a file of half the pixels' length, which only noise at a
/// high quality exceeds.
pub(crate) fn encoder_bytes(layout: &Layout) -> u64 {
    let planes = Sampled::new(PlaneSize::of_pixels(layout), &new_components(layout.pixel));
    layout.bytes() / 2 + planes.map_or(0, |planes| planes.bytes())
}

/// Writes the picture in `slot`, with the help of idle cores, and returns the bytes written.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &[u8],
    quality: JpegQuality,
    scratch: &mut Vec<u8>,
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let native = decoded.native_of::<Native>();
    let owned;
    let segments = match native {
        Some(native) => {
            native.kept.iter().map(|(marker, content)| Segment { marker: *marker, content }).collect()
        }
        None => {
            owned = new_segments(&decoded.metadata, layout.pixel)?;
            owned.iter().map(|(marker, content)| Segment { marker: *marker, content }).collect()
        }
    };
    let new_components = new_components(layout.pixel);
    let frame = Frame {
        width: layout.width,
        height: layout.height,
        space: native
            .map_or(if layout.pixel == Pixel::Gray { Space::Gray } else { Space::YCbCr }, |n| n.space),
        components: native.map_or(&new_components, |n| &n.components),
        tables: match (quality, native) {
            (JpegQuality::Value(quality), _) => Tables::Quality(quality),
            (JpegQuality::Keep, Some(native)) => Tables::Own(&native.tables),
            (JpegQuality::Keep, None) => Tables::Quality(JpegQuality::DEFAULT),
        },
        progressive: native.is_some_and(|n| n.progressive),
        restart_interval: native.map_or(0, |n| n.restart_interval),
        density: native.map_or_else(|| Some(Density::new(decoded.metadata.resolution)), |n| n.density),
        segments,
    };
    write_slot(scratch, &frame, native, quality, slot, cores).map_err(encode_error)?;
    out.write_all(scratch)?;
    Ok(scratch.len() as u64)
}

/// Encodes gray or RGB pixels of 8 bits at a quality, and returns the file.
pub(crate) fn encode_packed(
    layout: &Layout,
    pixels: &[u8],
    quality: u8,
    metadata: &Metadata,
) -> Result<Vec<u8>, CodecError> {
    let (is_gray, segments) = (layout.pixel == Pixel::Gray, new_segments(metadata, layout.pixel)?);
    let frame = Frame {
        width: layout.width,
        height: layout.height,
        space: if is_gray { Space::Gray } else { Space::YCbCr },
        components: &new_components(layout.pixel),
        tables: Tables::Quality(quality),
        progressive: false,
        restart_interval: 0,
        density: Some(Density::new(None)),
        segments: segments.iter().map(|(marker, content)| Segment { marker: *marker, content }).collect(),
    };
    let size = PlaneSize::of_pixels(layout);
    let mut file = Vec::new();
    let written = if is_gray {
        coding::write(&mut file, &frame, &[Part::Samples(size.plane(pixels))], &Cores::none())
    } else {
        write_rgb(&mut file, &frame, pixels, &Cores::none())
    };
    written.map_err(encode_error)?;
    Ok(file)
}

/// Encodes the pixels in `slot` and the chroma that was kept for them.
fn write_slot(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    native: Option<&Native>,
    quality: JpegQuality,
    slot: &[u8],
    cores: &Cores,
) -> Result<(), Fault> {
    let size = PlaneSize { width: frame.width as usize, rows: frame.height as usize };
    let chroma = native.and_then(|native| native.chroma.as_ref());
    if chroma.is_none() && frame.space != Space::Gray {
        return write_rgb(out, frame, &slot[..Space::Rgb.components() * size.bytes()], cores);
    }
    let luma = &slot[..size.bytes()];
    let mut parts = vec![Part::Samples(size.plane(luma))];
    let followed;
    let follows = native.filter(|native| native.covered.is_some());
    match (chroma, follows) {
        (None, _) => {}
        (Some(chroma), Some(native)) => {
            followed = native.following(chroma, luma, quality, cores)?;
            parts.extend(followed.parts());
        }
        (Some(Chroma::Coefficients(chroma)), None) => parts.extend(chroma.iter().map(Part::Coefficients)),
        (Some(Chroma::Samples(size, samples)), None) => parts.extend(size.planes(samples).map(Part::Samples)),
    }
    coding::write(out, frame, &parts, cores)
}

/// Encodes RGB pixels.
///
/// libjpeg does it if the components are RGB too, or have a sampling that no encoder chooses.
fn write_rgb(out: &mut Vec<u8>, frame: &Frame<'_>, rgb: &[u8], cores: &Cores) -> Result<(), Fault> {
    let size = PlaneSize { width: frame.width as usize, rows: frame.height as usize };
    let sampled = Sampled::new(size, frame.components).filter(|_| frame.space == Space::YCbCr);
    let Some(sampled) = sampled else { return libjpeg::write(out, frame, Space::Rgb, rgb) };
    let planes = Planes::of_rgb(&sampled, rgb).ok_or_else(Fault::out_of_memory)?;
    coding::write(out, frame, &planes.planes().map(Part::Samples), cores)
}

/// Chroma after it has followed luma.
pub(super) enum Followed {
    Coefficients([coding::Coefficients; 2]),
    Samples(ChromaSize, Vec<u8>),
}

impl Followed {
    /// Returns the chroma as parts of a picture.
    fn parts(&self) -> [Part<'_>; 2] {
        match self {
            Self::Coefficients(chroma) => chroma.each_ref().map(Part::Coefficients),
            Self::Samples(size, samples) => size.planes(samples).map(Part::Samples),
        }
    }
}

impl Native {
    /// Returns chroma that follows these samples of luma, quantized for the output.
    ///
    /// # Panics
    /// If it is not to follow luma.
    pub(super) fn following(
        &self,
        chroma: &Chroma,
        luma: &[u8],
        quality: JpegQuality,
        cores: &Cores,
    ) -> Result<Followed, Fault> {
        let following = self.covered.as_ref().expect("it is to follow luma").follow(luma);
        match chroma {
            Chroma::Coefficients(all) => {
                let new = new_tables(quality)?;
                let to = new.as_ref().unwrap_or(&self.tables);
                let both = [&all[0], &all[1]];
                coding::recoloured(
                    both,
                    [&self.tables[1], &self.tables[2]],
                    [&to[1], &to[2]],
                    &following,
                    cores,
                )
                .map(Followed::Coefficients)
                .ok_or_else(Fault::out_of_memory)
            }
            Chroma::Samples(size, samples) => {
                let mut samples = samples.clone();
                follow_in_samples(size.planes_mut(&mut samples), following);
                Ok(Followed::Samples(*size, samples))
            }
        }
    }
}

/// Changes planes of chroma, which may be padded, to follow luma.
fn follow_in_samples([blue, red]: [libjpeg::Plane<&mut [u8]>; 2], mut following: super::hue::Following<'_>) {
    let size = following.size();
    let rows = blue.data.chunks_exact_mut(blue.width).zip(red.data.chunks_exact_mut(red.width)).enumerate();
    let mut last = (Vec::new(), Vec::new());
    for (row, (blue, red)) in rows {
        if row < size.rows {
            following.begin(row..row + 1);
            following.change(0, 0..size.width, &mut blue[..size.width], &mut red[..size.width]);
            for plane in [&mut *blue, &mut *red] {
                let edge = plane[size.width - 1];
                plane[size.width..].fill(edge);
            }
            last = (blue.to_vec(), red.to_vec());
        } else {
            blue.copy_from_slice(&last.0);
            red.copy_from_slice(&last.1);
        }
    }
}

/// Returns the quantization tables of all components of a requantized picture.
///
/// `None` if it keeps its own.
pub(super) fn new_tables(quality: JpegQuality) -> Result<Option<Vec<QuantTable>>, Fault> {
    match quality {
        JpegQuality::Value(quality) => Tables::Quality(quality).of(Space::YCbCr.components()).map(Some),
        JpegQuality::Keep => Ok(None),
    }
}

/// Writes the picture from the stream that a GPU encoded, and returns the bytes written.
pub(crate) fn write_encoded(decoded: &Decoded, stream: &[u8], out: &mut File) -> Result<u64, CodecError> {
    match decoded.native_of::<Native>() {
        Some(native) => compressed::write(native, &decoded.layout, stream, out),
        None => Err(encode_malformed("its source is not a JPEG")),
    }
}

/// Makes segments for the metadata of a picture from another format.
fn new_segments(metadata: &Metadata, pixel: Pixel) -> Result<Vec<(u8, Vec<u8>)>, CodecError> {
    let mut segments = Vec::new();
    for (what, name, content) in [("EXIF", EXIF, &metadata.exif), ("XMP", XMP, &metadata.xmp)] {
        let Some(content) = content else { continue };
        if name.len() + content.len() > MAX_SEGMENT {
            return Err(no_room(format!("{} bytes of {what}", content.len())));
        }
        segments.push((APP1, [name, content].concat()));
    }
    if let Some(icc) = metadata.icc_in(Format::Jpeg, pixel) {
        let parts = icc.chunks(MAX_SEGMENT - ICC.len() - 2);
        let count = u8::try_from(parts.len())
            .map_err(|_| no_room(format!("an ICC profile of {} bytes", icc.len())))?;
        segments.extend(
            parts.zip(1..=count).map(|(part, number)| (APP2, [ICC, &[number, count], part].concat())),
        );
    }
    Ok(segments)
}

/// Returns the sampling factors for a picture from another format: 4:2:0, libjpeg's default.
fn new_components(pixel: Pixel) -> Vec<Factors> {
    match pixel {
        Pixel::Gray => vec![Factors::FULL],
        _ => {
            vec![Factors { horizontal: 2, vertical: 2 }, Factors::FULL, Factors::FULL]
        }
    }
}

fn no_room(what: String) -> CodecError {
    CodecError::cannot_represent(Format::Jpeg, what, "use --format png or tiff")
}

fn encode_error(fault: Fault) -> CodecError {
    if fault.out_of_memory {
        CodecError::OutOfMemory { bytes: None }
    } else {
        CodecError::encoder(Format::Jpeg, fault.message)
    }
}
