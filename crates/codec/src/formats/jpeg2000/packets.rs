//! A check that a codestream is whole and lossless, by its packet headers (T.800, annex B).
//!
//! A device's decoder returns samples for many damaged codestreams; the CPU's does not. Only plain
//! codestreams are followed, with all tiles and components coded alike. Blocks are not decoded: any
//! bits in them stand for some samples.

mod bits;
mod coding;
mod tile;

use coding::Coding;
use tile::Tile;

use super::{EOC, SOT, SizSegment};

/// The mark after a tile-part's header, and those of segments without effect on samples: PLT, COM.
const SOD: u16 = 0xff93;
const PASSED_OVER: [u16; 2] = [0xff58, 0xff64];
/// Bytes of the first segment of a tile-part, with its mark.
const SOT_BYTES: usize = 12;
/// The least pixels of a tile, on average: the layout of each takes memory.
const LEAST_TILE: u64 = 32 * 32;

/// Returns whether a codestream has every packet, each with a valid header and no gap after it.
pub(super) fn are_whole(codestream: &[u8], size: &SizSegment) -> bool {
    follow(codestream, size).is_some()
}

fn follow(codestream: &[u8], size: &SizSegment) -> Option<()> {
    let (coding, mut at) = Coding::read(codestream, size)?;
    let grid = SizSegment::grid(codestream)?;
    let pixels = u64::from(size.width) * u64::from(size.height);
    if size.tiles > 1 + pixels / LEAST_TILE {
        return None;
    }
    let mut tiles: Vec<Option<Tile>> = Vec::new();
    tiles.resize_with(usize::try_from(size.tiles).ok()?, || None);
    while codestream.get(at..at + 2)? == SOT {
        let part = TilePart::read(codestream, at)?;
        let tile = tiles.get_mut(part.tile)?;
        let tile = match tile {
            Some(tile) => tile,
            none => none.insert(Tile::new(&coding, grid, part.tile, codestream.len())?),
        };
        tile.follow(&coding, &codestream[part.packets..part.end])?;
        at = part.end;
    }
    let is_ended = codestream.get(at..at + 2)? == EOC;
    let are_complete = tiles.iter().all(|tile| tile.as_ref().is_some_and(Tile::is_complete));
    (is_ended && are_complete).then_some(())
}

/// The place of a tile-part.
struct TilePart {
    tile: usize,
    packets: usize,
    end: usize,
}

impl TilePart {
    /// Reads the header at `at`. `None` if it changes the coding of this part.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let tile = usize::from(word(bytes, at + 4)?);
        let length = u32::from_be_bytes(*bytes.get(at + 6..)?.first_chunk()?) as usize;
        let end = at.checked_add(length).filter(|&end| end <= bytes.len())?;
        let mut packets = at + SOT_BYTES;
        loop {
            match word(bytes, packets)? {
                SOD => break,
                marker if PASSED_OVER.contains(&marker) => {
                    packets += 2 + usize::from(word(bytes, packets + 2)?);
                }
                _ => return None,
            }
        }
        let packets = packets + 2;
        (packets <= end).then_some(Self { tile, packets, end })
    }
}

/// Returns the number of two bytes at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{attempt, find, mend, plain};
    use super::*;

    /// Returns whether a file would be handed over, and whether the CPU's decoder accepts it.
    fn judged(mut file: Vec<u8>) -> [bool; 2] {
        let Some(start) = find(&file) else { return [false; 2] };
        mend(&mut file[start..]);
        let Some(size) = SizSegment::parse(&file[start..]) else { return [false; 2] };
        // A picture that is far larger than it was would take long.
        if u64::from(size.width) * u64::from(size.height) > 1 << 16 {
            return [false; 2];
        }
        let bytes = if size.bits > 8 { 2 } else { 1 };
        [plain(&file[start..], &size, bytes).is_some(), attempt(&file, &mut |_| ()).is_ok()]
    }

    #[test]
    fn what_is_handed_over_the_decoder_takes_however_it_is_damaged() {
        let mut seen = [0; 3];
        for name in ["jp2-rgb.j2k", "jp2-gray-16.jp2", "ht-12-twin.j2k"] {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/codec/");
            let file = fs::read(format!("{path}{name}")).unwrap();
            assert_eq!(judged(file.clone()), [true; 2], "{name}");
            let start = find(&file).unwrap();
            let cut = (start..file.len() - 2).step_by(37).map(|length| file[..length].to_vec());
            let flipped = (8 * start..8 * file.len()).step_by(29).map(|bit| {
                let mut damaged = file.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                damaged
            });
            for damaged in cut.chain(flipped) {
                let [is_plain, is_taken] = judged(damaged);
                assert!(is_taken || !is_plain, "{name}");
                seen[usize::from(is_plain) + usize::from(is_taken)] += 1;
            }
        }
        assert!(seen[0] > 200 && seen[2] > 500, "{seen:?}");
    }
}
