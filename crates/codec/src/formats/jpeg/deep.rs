//! JPEGs that are lossless or have samples of 12 bits.
//!
//! They are read, and written in other formats: JPEGs are written with 8 bits and with loss.

use super::coding::deep::{self, Planes, Trouble};
use super::markers::{FrameComponent, Markers};
use super::{coding, malformed, plane_size};
use crate::metadata::MetadataBytes;
use crate::picture::Other;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::rescale;
use crate::samples::size::Size;
use crate::samples::stated::Stated;
use crate::{CodecError, Format, Target};
use equalize::{Depth, Layout, Pixel};

/// An opened lossless or 12-bit JPEG.
#[derive(Debug)]
pub(crate) struct DeepSource<'a> {
    bytes: &'a [u8],
    markers: Markers<'a>,
    ycbcr: bool,
}

impl<'a> DeepSource<'a> {
    pub(super) fn new(bytes: &'a [u8], markers: Markers<'a>, target: &Target) -> Result<Self, CodecError> {
        if !matches!(markers.components.len(), 1 | 3) {
            let count = markers.components.len();
            return Err(CodecError::unsupported(
                format!("a lossless or 12-bit JPEG of {count} components"),
                "convert it first, as in `djpeg IN > OUT.ppm` (libjpeg-turbo 3)",
            ));
        }
        if markers.is_lossless && target.format.is_none() {
            return Err(CodecError::cannot_represent(
                Format::Jpeg,
                "a lossless JPEG's samples as they are (it is written with loss)",
                "use --format png or tiff, or --format jpeg if it may be lossy",
            ));
        }
        let ycbcr = is_ycbcr(&markers);
        Ok(Self { bytes, markers, ycbcr })
    }
}

impl DeepSource<'_> {
    fn layout(&self) -> Layout {
        let Markers { width, height, bits, ref components, .. } = self.markers;
        let pixel = if components.len() == 1 { Pixel::Gray } else { Pixel::Rgb };
        let depth = if bits > 8 { Depth::Sixteen } else { Depth::Eight };
        Layout { width, height, pixel, depth }
    }
}

impl Decode for DeepSource<'_> {
    fn facts(&self) -> Facts {
        Facts {
            stated: Some(Stated::spread(self.markers.bits.into())),
            metadata: MetadataBytes { native: 0, ..self.markers.metadata_bytes() },
            ..Facts::of(self.layout())
        }
    }

    /// Returns the needs for a copy of a scan without its stuffed bytes, and all samples.
    fn needs(&self) -> Needs {
        Needs::of_heap(self.bytes.len() as u64 + planes_bytes(&self.markers))
    }

    fn decode(self: Box<Self>, room: Room<'_>, _: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let layout = self.layout();
        let planes = deep::read(self.bytes).map_err(trouble)?;
        let most = (1 << planes.bits) - 1;
        rows(&planes, self.ycbcr, slot, layout.width as usize * layout.pixel_bytes(), |samples, row| {
            match layout.depth {
                Depth::Eight => row.iter_mut().zip(samples).for_each(|(to, &sample)| {
                    *to = rescale(sample.into(), most, 255) as u8;
                }),
                Depth::Sixteen => row.as_chunks_mut().0.iter_mut().zip(samples).for_each(|(to, &sample)| {
                    *to = (rescale(sample.into(), most, 65_535) as u16).to_ne_bytes();
                }),
            }
        });
        Ok(Payload {
            layout,
            metadata: self.markers.metadata(),
            native: Box::new(Other::default()),
            mapped: None,
        })
    }
}

/// Returns whether the components are to be converted to RGB, by libjpeg's rules.
fn is_ycbcr(markers: &Markers<'_>) -> bool {
    let ids: Vec<u8> = markers.frame.iter().map(|&FrameComponent { id, .. }| id).collect();
    match (&ids[..], markers.adobe) {
        ([_], _) => false,
        _ if markers.density.is_some() => true,
        (_, Some(transform)) => transform != 0,
        ([1, 2, 3], None) => !markers.is_lossless,
        ([b'R', b'G', b'B'], None) => false,
        _ => !markers.is_lossless,
    }
}

/// Returns the bytes of heap that the samples of all components take.
pub(super) fn planes_bytes(markers: &Markers<'_>) -> u64 {
    let Markers { width, height, ref components, .. } = *markers;
    deep::heap_bytes(components.iter().map(|&factors| plane_size(width, height, components, factors)))
}

/// Decodes a stream in a TIFF into as many rows as fit into `out`.
///
/// The samples have the form of stored ones.
pub(super) fn decode_part(
    stream: &[u8],
    markers: &Markers<'_>,
    ycbcr: bool,
    bits: u32,
    out: &mut [u8],
) -> Result<(), CodecError> {
    let planes = deep::read(stream).map_err(trouble)?;
    if planes.bits != bits {
        return Err(malformed(format!(
            "its samples of {} bits do not match the file that contains it",
            planes.bits
        )));
    }
    let samples = markers.width as usize * markers.components.len();
    rows(&planes, ycbcr, out, (samples * bits as usize).div_ceil(8), |samples, row| match bits {
        8 => row.iter_mut().zip(samples).for_each(|(to, &sample)| *to = sample as u8),
        16 => {
            row.as_chunks_mut()
                .0
                .iter_mut()
                .zip(samples)
                .for_each(|(to, &sample)| *to = sample.to_ne_bytes());
        }
        bits => pack(samples, bits, row),
    });
    Ok(())
}

/// Decodes a stream in another file that must have this size and this many components.
///
/// Returns the samples of its pixels, one pixel after the other.
pub(crate) fn decode_samples(stream: &[u8], size: Size, components: usize) -> Result<Vec<u16>, CodecError> {
    let markers = Markers::scan(stream)?;
    if (markers.width, markers.height) != (size.width, size.height) || markers.components.len() != components
    {
        return Err(malformed("its size or number of components does not match the file that contains it"));
    }
    let planes = deep::read(stream).map_err(trouble)?;
    let row = size.width as usize * components;
    let count = row * size.height as usize;
    let out_of_memory = CodecError::OutOfMemory { bytes: Some(2 * count as u64) };
    let mut samples = coding::zeros(count).ok_or(out_of_memory)?;
    samples.chunks_exact_mut(row).enumerate().for_each(|(y, row)| planes.row(y, false, row));
    Ok(samples)
}

/// Fills every row of `row` bytes of `out` by `put`, from the samples of its pixels.
fn rows(planes: &Planes, ycbcr: bool, out: &mut [u8], row: usize, put: impl Fn(&[u16], &mut [u8])) {
    let (width, _, components) = planes.size();
    let mut samples = vec![0; width * components];
    for (y, row) in out.chunks_exact_mut(row).enumerate() {
        planes.row(y, ycbcr, &mut samples);
        put(&samples, row);
    }
}

/// Packs samples of fewer than 16 bits, the highest bit first.
fn pack(samples: &[u16], bits: u32, row: &mut [u8]) {
    let (mut pending, mut held) = (0u32, 0);
    let mut bytes = row.iter_mut();
    let mut put = |byte: u32| bytes.next().into_iter().for_each(|to| *to = byte as u8);
    for &sample in samples {
        pending = pending << bits | u32::from(sample);
        held += bits;
        while held >= 8 {
            held -= 8;
            put(pending >> held);
        }
    }
    if held > 0 {
        put(pending << (8 - held));
    }
}

fn trouble(trouble: Trouble) -> CodecError {
    match trouble {
        Trouble::Damaged => malformed("its entropy-coded data or tables are damaged, or end early"),
        Trouble::Irregular => CodecError::unsupported(
            "a lossless or 12-bit JPEG of this subsampling or restart interval",
            "convert it first, as in `djpeg IN > OUT.ppm` (libjpeg-turbo 3)",
        ),
        Trouble::OutOfMemory => CodecError::OutOfMemory { bytes: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampling_factor_of_zero_is_damage() {
        for (factors, is_fine) in
            [(0x11, true), (0x44, true), (0xe0, false), (0x10, false), (0x01, false), (0x51, false)]
        {
            // SOI, SOF3 of 40 by 48 samples of 16 bits, SOS, EOI.
            let file = [
                &[0xff, 0xd8, 0xff, 0xc3, 0, 11, 16, 0, 48, 0, 40, 1, 1, factors, 0][..],
                &[0xff, 0xda, 0, 8, 1, 1, 0, 1, 0, 0, 0, 0xff, 0xd9],
            ]
            .concat();
            assert_eq!(Markers::scan(&file).is_ok(), is_fine, "{factors:02x}");
        }
    }
}
