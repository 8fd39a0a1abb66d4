//! The coding of all tiles and components of a codestream, by its main header.

use super::super::{SOC_SIZ, SOT, SizSegment};
use super::word;
use crate::coding::codestream::BlockCoder;

const CAP: u16 = 0xff50;
const COD: u16 = 0xff52;
const QCD: u16 = 0xff5c;
/// Segments without effect on samples: TLM, PLM, CRG and COM.
const PASSED_OVER: [u16; 4] = [0xff55, 0xff57, 0xff63, 0xff64];

/// The only flag of a coding style that is followed: precincts have stated sizes.
///
/// nvJPEG2000 does not know packets with marks before or in them.
const WITH_PRECINCTS: u8 = 1;

/// More decomposition levels than any picture needs.
///
/// With the least sides of blocks and precincts, as exponents, they bound the layout of tiles.
const MAX_LEVELS: u8 = 12;
const LEAST_BLOCK: u8 = 4;
const LEAST_PRECINCT: u8 = 5;

/// The lossless transform.
const REVERSIBLE: u8 = 1;

/// The order of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// LRCP.
    Layers,
    /// RLCP.
    Resolutions,
    /// RPCL.
    Positions,
    /// PCRL, and CPRL.
    Components,
}

pub(super) struct Coding {
    pub(super) components: usize,
    pub(super) order: Order,
    pub(super) layers: u16,
    pub(super) levels: u8,
    /// The exponents of the sides of code-blocks.
    pub(super) block: [u8; 2],
    pub(super) coder: BlockCoder,
    /// The exponents of the sides of precincts, of each resolution.
    pub(super) precincts: Vec<[u8; 2]>,
    /// The most bit-planes of each sub-band.
    pub(super) planes: Vec<u8>,
}

impl Coding {
    /// Reads the main header; also returns the offset of the first tile-part.
    pub(super) fn read(codestream: &[u8], size: &SizSegment) -> Option<(Self, usize)> {
        let (mut coding, mut planes, mut has_capabilities) = (None, None, false);
        let mut at = SOC_SIZ.len() - SOT.len();
        // The first segment has been read.
        at += 2 + usize::from(word(codestream, at + 2)?);
        loop {
            let marker = word(codestream, at)?;
            if marker.to_be_bytes() == SOT {
                break;
            }
            let end = at + 2 + usize::from(word(codestream, at + 2)?);
            let content = codestream.get(at + 4..end)?;
            match marker {
                CAP => has_capabilities = true,
                COD if coding.is_none() => coding = Some(Self::of(content, size)?),
                QCD if planes.is_none() => planes = Some(bit_planes(content)?),
                _ if PASSED_OVER.contains(&marker) => {}
                _ => return None,
            }
            at = end;
        }
        let coding = Self { planes: planes?, ..coding? };
        let is_stated = has_capabilities == (coding.coder == BlockCoder::HighThroughput);
        let is_complete = coding.planes.len() == 3 * usize::from(coding.levels) + 1;
        (is_stated && is_complete).then_some((coding, at))
    }

    /// Reads the coding style.
    fn of(content: &[u8], size: &SizSegment) -> Option<Self> {
        let &[flags, order, high, low, transform_of_components, ref rest @ ..] = content else { return None };
        let &[levels, across, down, style, transform, ref precincts @ ..] = rest else { return None };
        let is_known = flags & !WITH_PRECINCTS == 0
            && levels <= MAX_LEVELS
            && across.max(down) <= 8
            && across + down <= 8
            && across.min(down) + 2 >= LEAST_BLOCK
            && transform == REVERSIBLE
            && transform_of_components <= u8::from(size.components == 3);
        let coder = match style {
            0 => BlockCoder::Usual,
            0x40 => BlockCoder::HighThroughput,
            _ => return None,
        };
        let order = match order {
            0 => Order::Layers,
            1 => Order::Resolutions,
            2 => Order::Positions,
            3 | 4 => Order::Components,
            _ => return None,
        };
        let number = usize::from(levels) + 1;
        let precincts: Vec<[u8; 2]> = match flags & WITH_PRECINCTS {
            0 => vec![[15; 2]; number],
            _ => precincts.iter().map(|sides| [sides & 15, sides >> 4]).collect(),
        };
        let are_possible =
            precincts.len() == number && precincts.iter().flatten().all(|&side| side >= LEAST_PRECINCT);
        (is_known && are_possible).then_some(Self {
            components: size.components,
            order,
            layers: u16::from_be_bytes([high, low]),
            levels,
            block: [across + 2, down + 2],
            coder,
            precincts,
            planes: Vec::new(),
        })
    }
}

/// Returns the most bit-planes of each sub-band (T.800, E.1.1), if there is no quantization.
fn bit_planes(content: &[u8]) -> Option<Vec<u8>> {
    let (&style, exponents) = content.split_first()?;
    let guard_bits = style >> 5;
    let planes = |exponent: &u8| ((exponent >> 3) + guard_bits).checked_sub(1).filter(|planes| *planes <= 31);
    if style & 0x1f == 0 { exponents.iter().map(planes).collect() } else { None }
}
