//! JPEG 2000 codestreams inside other files, decoded by hayro-jpeg2000, which is written in safe Rust.

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};

use crate::CodecError;

const SOC_SIZ: [u8; 4] = *b"\xff\x4f\xff\x51";

/// Decodes a codestream that must have this size and this many components into samples of `bytes` bytes, the low one first, one pixel after
/// the other. Signed samples are in two's complement.
///
/// # Errors
/// If anything in it is damaged or not supported.
pub(crate) fn decode(
    stream: &[u8],
    size: (u32, u32),
    components: usize,
    bytes: usize,
    into: &mut [u8],
) -> Result<(), CodecError> {
    let damaged = |error: &dyn std::fmt::Display| malformed(error.to_string());
    let codestream = memchr::memmem::find(stream, &SOC_SIZ).ok_or_else(|| malformed("no codestream"))?;
    let header = Size::parse(&stream[codestream..]).ok_or_else(|| malformed("its header is damaged"))?;
    if header.size != size || header.components != components || !header.is_plain {
        return Err(malformed("its size or its components are not those of its place"));
    }
    if header.bits > 16 || header.bits as usize > 8 * bytes {
        return Err(malformed(format!("samples of {} bits", header.bits)));
    }
    let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
    let image = Image::new(&stream[codestream..], &settings).map_err(|error| damaged(&error))?;
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(|error| damaged(&error))?;
    let planes = decoded.components();
    let samples = into.len() / bytes / components;
    if planes.len() != components || planes.iter().any(|plane| plane.samples().len() != samples) {
        return Err(malformed("it has other samples than its header says"));
    }
    // The decoder takes signed samples for unsigned ones, which are half their range greater.
    let middle = if header.signed { 1 << (header.bits - 1) } else { 0 };
    let most = ((1_u32 << header.bits) - 1) as f32;
    for (component, plane) in planes.iter().enumerate() {
        let places = into.chunks_exact_mut(bytes).skip(component).step_by(components);
        for (to, &sample) in places.zip(plane.samples()) {
            let value = (sample + 0.5).clamp(0.0, most) as i32 - middle;
            to.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }
    Ok(())
}

/// What the first marker segment says (ITU-T T.800, A.5.1).
struct Size {
    size: (u32, u32),
    components: usize,
    bits: u32,
    signed: bool,
    /// Whether all components have all of their samples, of the same type.
    is_plain: bool,
}

impl Size {
    fn parse(codestream: &[u8]) -> Option<Self> {
        let content = codestream.get(SOC_SIZ.len() + 4..)?;
        let word = |at: usize| Some(u32::from_be_bytes(*content.get(4 * at..)?.first_chunk()?));
        let [x1, y1, x0, y0] = [word(0)?, word(1)?, word(2)?, word(3)?];
        let &[high, low] = content.get(32..)?.first_chunk()?;
        let components = usize::from(u16::from_be_bytes([high, low]));
        let (each, _) = content.get(34..)?.get(..3 * components)?.as_chunks::<3>();
        let &[depth, ..] = each.first()?;
        Some(Self {
            size: (x1.checked_sub(x0)?, y1.checked_sub(y0)?),
            components,
            bits: u32::from(depth & 0x7f) + 1,
            signed: depth & 0x80 != 0,
            is_plain: each.iter().all(|component| *component == [depth, 1, 1]),
        })
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(crate::Format::Dicom, reason)
}
