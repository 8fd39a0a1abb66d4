//! The memory that hayro-jpeg2000 0.5 takes, by the headers of a codestream.
//!
//! It has no limit of its own, and few bytes can ask for a block and a precinct for each sample, in
//! many layers, and for the steps of many tiles. Headers are walked as the decoder does: it goes by
//! the content of a segment, not by the length that most of them state.

use super::SizSegment;

/// Bytes of a sample that is decoded, and of a coefficient.
const SAMPLE: u64 = 4;
/// Bytes of a code-block, with its nodes in two tag trees.
///
/// Each tree has twice as many nodes in a row as there are blocks.
const BLOCK: u64 = 48 + 2 * 2 * 48;
/// Bytes of a code-block's layer.
const LAYER: u64 = 24;
/// Bytes of a piece of a code-block's data.
const SEGMENT: u64 = 24;
/// The most pieces of a code-block beyond one a layer, if coding passes end in their own pieces.
const PASSES: u64 = 255;
/// Bytes of a precinct in its sub-band, and in the order of packets.
const PRECINCT: u64 = 160;
const ORDERED: u64 = 24;
/// Bytes of a tile, of each of its components, and of each step of these.
const TILE: u64 = 160;
const COMPONENT: u64 = 256;
const STEP: u64 = 4;
/// Bytes of a tile-part.
const PART: u64 = 128;
/// A vector that grows has room for twice as much, and is copied.
const GROWTH: u64 = 3;

/// The most decomposition levels (T.800, A.6.1).
const MAX_LEVELS: u8 = 32;

const SOT: u16 = 0xff90;
const COD: u16 = 0xff52;
const COC: u16 = 0xff53;
const QCD: u16 = 0xff5c;
const QCC: u16 = 0xff5d;
const RGN: u16 = 0xff5e;
const POC: u16 = 0xff5f;
/// Segments that are kept only as their own bytes: TLM, PLM, PLT, PPM, PPT, CRG and COM.
const PASSED_OVER: [u16; 7] = [0xff55, 0xff57, 0xff58, 0xff60, 0xff61, 0xff63, 0xff64];

/// Returns the most bytes of heap for decoding into `channels` channels, beyond the data twice.
///
/// If its headers are damaged, it is the least that is known.
pub(crate) fn decoder_bytes(codestream: &[u8], size: &SizSegment, channels: usize) -> u64 {
    let mut asked = Asked::new(size);
    // The decoder comes no further than this either.
    let _ = asked.read(codestream);
    let pixels = u64::from(size.width).saturating_mul(size.height.into());
    // Channels are sorted in a copy.
    let planes = (size.components as u64).saturating_add((2 * channels) as u64);
    [
        pixels.saturating_mul(SAMPLE).saturating_mul(planes),
        // The coefficients of a component, and the input and output of its transform.
        pixels.saturating_mul(3 * SAMPLE),
        asked.bytes_of_blocks(),
        asked.bytes_of_tiles(size.tiles),
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

/// The needs that headers state.
struct Asked {
    components: u64,
    /// The width and height of the largest tile.
    tile: [u64; 2],
    /// The most in any tile, of all components.
    blocks: u64,
    precincts: u64,
    /// The most of any tile.
    layers: u64,
    pieces: u64,
    /// The most steps of a component in the main header, and those of all tile-parts.
    steps: u64,
    own_steps: u64,
    /// How often orders of packets are changed.
    orders: u64,
    parts: u64,
}

/// The coding of a component.
struct Coding {
    block: [u8; 2],
    /// Whether coding passes may end in pieces of their own.
    has_pieces: bool,
    /// The exponents of the sides of precincts, a byte a resolution; missing ones are the largest.
    precincts: Vec<u8>,
    levels: u8,
}

impl Asked {
    fn new(size: &SizSegment) -> Self {
        Self {
            components: size.components as u64,
            tile: size.largest_tile.map(u64::from),
            blocks: 0,
            precincts: 0,
            layers: 1,
            pieces: 0,
            steps: 0,
            own_steps: 0,
            orders: 0,
            parts: 0,
        }
    }

    /// Reads the headers. Ends early if they are damaged.
    fn read(&mut self, codestream: &[u8]) -> Option<()> {
        let mut at = SizSegment::COMPONENTS + 3 * usize::try_from(self.components).ok()?;
        while word(codestream, at)? != SOT {
            at = self.take_segment(codestream, at, false)?;
        }
        while word(codestream, at)? == SOT {
            let length = u32::from_be_bytes(*codestream.get(at + 6..)?.first_chunk()?) as usize;
            let end = if length == 0 { codestream.len() } else { at.checked_add(length)? };
            self.parts += 1;
            let mut inner = at + 12;
            while let Some(next) = self.take_segment(codestream.get(..end)?, inner, true) {
                inner = next;
            }
            at = end;
        }
        Some(())
    }

    /// Takes a segment of the main header, or of that of a tile-part, into account.
    ///
    /// Returns its end; `None` if the decoder does not know it.
    fn take_segment(&mut self, bytes: &[u8], at: usize, in_part: bool) -> Option<usize> {
        let (marker, content) = (word(bytes, at)?, bytes.get(at + 4..));
        if (0xff30..=0xff3f).contains(&marker) {
            return Some(at + 2);
        }
        let (length, content) = (usize::from(word(bytes, at + 2)?), content?);
        let of_component = if self.components < 257 { 1 } else { 2 };
        let used = match marker {
            COD => {
                self.layers = self.layers.max(word(content, 2)?.into());
                self.take_coding(content, 5, *content.first()?)? + 5
            }
            COC => {
                self.take_coding(content, of_component + 1, *content.get(of_component)?)? + of_component + 1
            }
            QCD => self.take_steps(content, length.checked_sub(2)?, 0, in_part)?,
            QCC => self.take_steps(content, length.checked_sub(2)?, of_component, in_part)?,
            RGN => of_component + 2,
            POC => {
                self.orders += length as u64 / 7;
                length.checked_sub(2)?
            }
            known if PASSED_OVER.contains(&known) => length.checked_sub(2)?,
            _ => return None,
        };
        Some(at + 4 + used)
    }

    /// Takes the coding of a component from the bytes at `at`. Returns their number.
    fn take_coding(&mut self, content: &[u8], at: usize, flags: u8) -> Option<usize> {
        let &[levels, width, height, style, _transform, ref rest @ ..] = content.get(at..)? else {
            return None;
        };
        let has_precincts = flags & 1 != 0;
        let said = if has_precincts { usize::from(levels) + 1 } else { 0 };
        if levels > MAX_LEVELS || width > 8 || height > 8 {
            return None;
        }
        let coding = Coding {
            block: [width + 2, height + 2],
            has_pieces: style & 0b101 != 0,
            precincts: rest.get(..said)?.to_vec(),
            levels,
        };
        let (blocks, precincts) = coding.counts(self.tile);
        self.blocks = self.blocks.max(blocks.saturating_mul(self.components));
        self.precincts = self.precincts.max(precincts.saturating_mul(self.components));
        self.pieces = self.pieces.max(if coding.has_pieces { PASSES } else { 0 });
        Some(5 + said)
    }

    /// Takes the steps of a quantization of `bytes` bytes, from `at` on; returns the bytes read.
    fn take_steps(&mut self, content: &[u8], bytes: usize, at: usize, in_part: bool) -> Option<usize> {
        const DERIVED: u8 = 1;
        const EXPOUNDED: u8 = 2;
        let (style, steps) = (*content.get(at)? & 0x1f, bytes.checked_sub(at + 1)?);
        let used = match style {
            DERIVED => 2,
            EXPOUNDED => steps / 2 * 2,
            _ => steps,
        };
        let steps = steps as u64;
        match in_part {
            true => self.own_steps += steps * self.components,
            false => self.steps = self.steps.max(steps),
        }
        Some(at + 1 + used)
    }

    /// Returns the bytes of the largest tile's blocks and precincts; other tiles reuse them.
    fn bytes_of_blocks(&self) -> u64 {
        let pieces = if self.pieces == 0 { self.layers } else { self.layers + self.pieces };
        let block = BLOCK + LAYER * self.layers + SEGMENT * pieces;
        let ordered = ORDERED.saturating_mul(1 + self.orders);
        let blocks = self.blocks.saturating_mul(block);
        blocks.saturating_add(self.precincts.saturating_mul(PRECINCT + ordered)).saturating_mul(GROWTH)
    }

    fn bytes_of_tiles(&self, tiles: u64) -> u64 {
        let component = COMPONENT + STEP * self.steps;
        let tiles = tiles.saturating_mul(TILE + self.components * component);
        tiles.saturating_add(GROWTH * (self.parts * PART + self.own_steps * STEP))
    }
}

impl Coding {
    /// Returns the most code-blocks and precincts of a component in a tile of these sides.
    fn counts(&self, tile: [u64; 2]) -> (u64, u64) {
        let (mut blocks, mut precincts) = (0_u64, 0_u64);
        for resolution in 0..=self.levels {
            let exponents =
                self.precincts.get(usize::from(resolution)).map_or([15; 2], |byte| [byte & 15, byte >> 4]);
            let (bands, level) = match resolution {
                0 => (1, self.levels),
                _ => (3, self.levels - resolution + 1),
            };
            let [across, down] = [0, 1].map(|axis| {
                let exponent = exponents[axis].saturating_sub(u8::from(resolution > 0));
                most_along(tile[axis] >> level, exponent.min(self.block[axis]))
            });
            blocks = blocks.saturating_add((bands * across).saturating_mul(down));
            let [across, down] =
                [0, 1].map(|axis| most_along(tile[axis] >> (self.levels - resolution), exponents[axis]));
            precincts = precincts.saturating_add((bands * across).saturating_mul(down));
        }
        (blocks, precincts)
    }
}

/// Returns the most cells of 2^`exponent` samples along a side.
///
/// They are two more than fit, as grids need not begin where tiles do.
fn most_along(side: u64, exponent: u8) -> u64 {
    (side >> exponent) + 3
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that states the length of its content, and `more`.
    fn segment(marker: u16, content: &[u8], more: usize) -> Vec<u8> {
        let length = (content.len() + 2 + more) as u16;
        [&marker.to_be_bytes()[..], &length.to_be_bytes(), content].concat()
    }

    /// A coding of all components in `layers` layers, with precincts of one sample or the largest.
    fn coding(layers: u8, are_large: bool) -> Vec<u8> {
        let start = [u8::from(!are_large), 0, 0, layers, 0, 0, 4, 4, 0, 1];
        if are_large { start.to_vec() } else { [&start[..], &[0]].concat() }
    }

    fn size(side: u32, tile: u32) -> Vec<u8> {
        let grid = [side, side, 0, 0, tile, tile, 0, 0];
        let grid: Vec<u8> = grid.iter().flat_map(|number| number.to_be_bytes()).collect();
        segment(0xff51, &[&[0, 0][..], &grid, &[0, 1, 7, 1, 1]].concat(), 0)
    }

    /// A codestream of one gray picture with these segments in its headers.
    ///
    /// `main` are those of the main header, `part` those of its only tile-part.
    fn codestream((side, tile): (u32, u32), main: &[Vec<u8>], part: &[Vec<u8>]) -> Vec<u8> {
        let body = [&part.concat()[..], b"\xff\x93"].concat();
        let length = (12 + body.len() as u32).to_be_bytes();
        let part = [b"\xff\x90\0\x0a\0\0", &length[..], b"\0\x01", &body, b"\xff\xd9"].concat();
        [b"\xff\x4f", &size(side, tile)[..], &main.concat(), &part].concat()
    }

    fn counted(codestream: &[u8]) -> u64 {
        decoder_bytes(codestream, &SizSegment::parse(codestream).unwrap(), 1)
    }

    fn steps(bytes: usize) -> Vec<u8> {
        segment(QCD, &vec![0x40; bytes], 0)
    }

    #[test]
    fn a_block_for_each_sample_counts_wherever_it_is_asked_for() {
        let sides = (128, 128);
        let (large, small) = (segment(COD, &coding(1, true), 0), segment(COD, &coding(32, false), 0));
        let ordinary = codestream(sides, &[large.clone(), steps(2)], &[]);
        assert!(counted(&ordinary) < 64 * 128 * 128, "{}", counted(&ordinary));
        let hidden = segment(COD, &coding(1, true), small.len());
        for asking in [
            codestream(sides, &[small.clone(), steps(2)], &[]),
            codestream(sides, &[large.clone(), steps(2), small.clone()], &[]),
            codestream(sides, &[large.clone(), steps(2)], std::slice::from_ref(&small)),
            codestream(sides, &[hidden, small, steps(2)], &[]),
        ] {
            // The decoder took 20,611,952 bytes for `fuzz/kept/jp2/block-a-sample.j2k`, which asks
            // for the same.
            assert!(counted(&asking) > 20_611_952, "{}", counted(&asking));
        }
    }

    #[test]
    fn steps_count_for_each_tile_and_orders_for_each_precinct() {
        let large = segment(COD, &coding(1, true), 0);
        let of_tiles = |tile| counted(&codestream((256, tile), &[large.clone(), steps(60_000)], &[]));
        assert!(of_tiles(1) > 65_536 * 4 * 59_999 && of_tiles(256) < 4 << 20);
        let small = segment(COD, &coding(1, false), 0);
        let orders = segment(POC, &[0; 7 * 1000], 0);
        let of_orders = |part: &[_]| counted(&codestream((128, 128), &[small.clone(), steps(2)], part));
        assert!(of_orders(&[orders]) - of_orders(&[]) > 1000 * 24 * 128 * 128);
    }

    #[test]
    fn headers_may_end_anywhere() {
        let main = [segment(COD, &coding(2, false), 0), steps(5), segment(RGN, &[0, 0, 3], 0)];
        let whole = codestream(
            (16, 8),
            &main,
            &[segment(QCC, &[0, 0x22, 1, 2], 0), segment(COC, &[0, 0, 1, 2, 2, 0, 1], 0)],
        );
        let size = SizSegment::parse(&whole).unwrap();
        let counts: Vec<_> = (0..=whole.len()).map(|end| decoder_bytes(&whole[..end], &size, 3)).collect();
        assert!(counts.is_sorted() && counts[whole.len()] > counts[0], "{counts:?}");
    }
}
