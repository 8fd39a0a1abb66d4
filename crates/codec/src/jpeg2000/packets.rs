//! Whether a codestream is whole, as far as the headers of its packets tell (T.800, annex B), and of a kind that is decoded without loss. A
//! device's decoder makes something of many damaged ones; the CPU's does not.
//!
//! Only plain ones are followed: all tiles and components are coded alike. Blocks are not decoded: whatever bits they have, they stand for some samples.

mod bits;
mod coding;
mod tile;

use coding::Coding;
use tile::Tile;

use super::{EOC, SOT, Size};

/// The mark of what follows the header of a tile-part, and those of segments in it that say nothing of samples: PLT and COM.
const SOD: u16 = 0xff93;
const PASSED_OVER: [u16; 2] = [0xff58, 0xff64];
/// Bytes of the first segment of a tile-part, with its mark.
const SOT_BYTES: usize = 12;
/// The least pixels of a tile, on average: what is laid out of each takes memory.
const LEAST_TILE: u64 = 32 * 32;

/// Returns whether every packet of a codestream is there, ends where the next one begins, and says what its blocks can have.
pub(super) fn are_whole(codestream: &[u8], size: &Size) -> bool {
    follow(codestream, size).is_some()
}

fn follow(codestream: &[u8], size: &Size) -> Option<()> {
    let (coding, mut at) = Coding::read(codestream, size)?;
    let grid = Size::grid(codestream)?;
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

/// Where a tile-part is.
struct TilePart {
    tile: usize,
    packets: usize,
    end: usize,
}

impl TilePart {
    /// Reads the header at `at`. `None` if it says anything of how this part is coded.
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
