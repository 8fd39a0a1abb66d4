//! JPEG-LS (ITU-T T.87): lossless and near-lossless.
//!
//! It reads 2 to 16 bits, one component or several in any interleaving. Not read are restart
//! markers, mapping tables, subsampled components and the transforms of part 2.

use super::markers::{DRI, EOI, SOF55, SOI, SOS, next_marker, segment};
use super::{coding, malformed};
use crate::CodecError;
use crate::samples::size::Size;

mod bits;
mod scan;

use scan::Parameters;

/// The preset parameters' marker (C.1.1).
const LSE: u8 = 0xf8;
/// The most components.
const COMPONENTS: usize = 4;

/// The interleaving of a scan's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interleave {
    /// There is only one component.
    None,
    Lines,
    Samples,
}

/// The content of a frame header.
#[derive(Clone, Copy)]
struct Frame {
    precision: u32,
    width: usize,
    height: usize,
    count: usize,
    ids: [u8; COMPONENTS],
}

/// The preset parameters of a stream (C.2.4.1.1); 0 for defaults.
#[derive(Clone, Copy, Default)]
struct Preset {
    most: u16,
    thresholds: [u16; 3],
    reset: u16,
}

/// Decodes a stream that must have this size and this many components.
///
/// Returns the samples of its pixels, one pixel after the other.
///
/// # Errors
/// If anything in it is damaged or not supported, or memory runs out.
pub(crate) fn decode(stream: &[u8], size: Size, components: usize) -> Result<Vec<u16>, CodecError> {
    let mut rest = stream.strip_prefix(&[0xff, SOI]).ok_or_else(|| malformed("it has no beginning"))?;
    let (mut frame, mut preset, mut decoded) = (None, Preset::default(), 0);
    let mut samples = Vec::new();
    while decoded < components {
        let (marker, behind) = next_marker(rest)?;
        if marker == EOI {
            return Err(malformed("a component is missing"));
        }
        let (found, behind) = segment(marker, behind)?;
        rest = behind;
        match marker {
            SOF55 if frame.is_none() => {
                let header = Frame::parse(found.content)?;
                let is_expected =
                    (header.width, header.height) == (size.width as usize, size.height as usize);
                if !is_expected || header.count != components {
                    return Err(malformed(
                        "its size or number of components does not match the file that contains it",
                    ));
                }
                let count = header.width * header.height * components;
                samples =
                    coding::zeros(count).ok_or(CodecError::OutOfMemory { bytes: Some(2 * count as u64) })?;
                frame = Some(header);
            }
            LSE => preset = Preset::parse(found.content)?,
            DRI => return Err(unsupported("restart markers")),
            // Colour transforms of one program.
            0xe8 if found.content.starts_with(b"mrfx") && found.content.get(4) != Some(&0) => {
                return Err(unsupported("transformed colours"));
            }
            SOS => {
                let frame = frame.ok_or_else(|| malformed("a scan comes before the frame header"))?;
                let (places, near, interleave) = scan_header(found.content, &frame)?;
                let parameters = Parameters::new(&frame, preset, near)?;
                rest = scan::read(rest, &frame, &parameters, &places, interleave, &mut samples)
                    .ok_or_else(|| malformed("its entropy-coded data are damaged or end early"))?;
                decoded += places.len();
            }
            _ => {}
        }
    }
    Ok(samples)
}

impl Frame {
    fn parse(content: &[u8]) -> Result<Self, CodecError> {
        const DAMAGED: &str = "its frame header is damaged";
        let (&[precision, h0, h1, w0, w1, count], components) =
            content.split_first_chunk().ok_or_else(|| malformed(DAMAGED))?;
        let (components, behind) = components.as_chunks::<3>();
        let count = usize::from(count);
        let is_valid = behind.is_empty() && components.len() == count && (1..=COMPONENTS).contains(&count);
        if !is_valid || !(2..=16).contains(&precision) {
            return Err(malformed(DAMAGED));
        }
        if count > 1 && components.iter().any(|component| component[1] != 0x11) {
            return Err(unsupported("components of different sizes"));
        }
        let mut ids = [0; COMPONENTS];
        ids.iter_mut().zip(components).for_each(|(id, component)| *id = component[0]);
        let (width, height) = (u16::from_be_bytes([w0, w1]).into(), u16::from_be_bytes([h0, h1]).into());
        Ok(Self { precision: precision.into(), width, height, count, ids })
    }
}

impl Preset {
    fn parse(content: &[u8]) -> Result<Self, CodecError> {
        match content {
            [1, words @ ..] if words.len() == 10 => {
                let [most, t1, t2, t3, reset] =
                    std::array::from_fn(|at| u16::from_be_bytes([words[2 * at], words[2 * at + 1]]));
                Ok(Self { most, thresholds: [t1, t2, t3], reset })
            }
            [2..=4, ..] => Err(unsupported("mapping tables or sides beyond 65535")),
            _ => Err(malformed("its parameters are damaged")),
        }
    }
}

/// Reads a scan header.
///
/// Returns the places of the scan's components in the frame, the greatest error of a sample, and
/// the components' interleaving.
fn scan_header(content: &[u8], frame: &Frame) -> Result<(Vec<usize>, i32, Interleave), CodecError> {
    let (&count, rest) = content.split_first().ok_or_else(damaged_scan)?;
    let (components, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or_else(damaged_scan)?;
    let &[near, interleave, _] = rest else { return Err(damaged_scan()) };
    let places = components.as_chunks().0.iter().map(|&[id, table]| match table {
        0 => frame.ids[..frame.count].iter().position(|own| *own == id).ok_or_else(damaged_scan),
        _ => Err(unsupported("mapping tables")),
    });
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let is_once = (1..places.len()).all(|at| !places[..at].contains(&places[at]));
    let interleave = match (places.len(), interleave) {
        (1, _) => Interleave::None,
        (_, 1) => Interleave::Lines,
        (_, 2) => Interleave::Samples,
        _ => return Err(damaged_scan()),
    };
    if places.is_empty() || !is_once {
        return Err(damaged_scan());
    }
    Ok((places, near.into(), interleave))
}

fn damaged_scan() -> CodecError {
    malformed("a scan's header is damaged")
}

fn unsupported(what: &str) -> CodecError {
    CodecError::unsupported(
        format!("a JPEG-LS with {what}"),
        "convert it first, as in `dcmdjpls IN OUT` (DCMTK)",
    )
}
