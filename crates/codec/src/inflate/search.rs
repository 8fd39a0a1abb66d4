//! Finding blocks in the middle of a stream, as in pugz (Kerbiriou and Chikhi, *Parallel decompression of gzip-compressed files and random
//! access to DNA sequences*, 2019).

use super::bits::Bits;
use super::codes::CodeLengths;

/// Returns the position of the first bit from `from` on, and before `to`, that looks like the beginning of a block with dynamic codes, other
/// than the last block. Random bits seldom do, because they seldom make complete codes.
pub(crate) fn find_block(data: &[u8], from: usize, to: usize) -> Option<usize> {
    let words = (from / 64..to.div_ceil(64))
        .map_while(|word| Some((64 * word, data.get(8 * word..)?.first_chunk()?)));
    words
        .flat_map(|(position, &word)| {
            let next = data.get(position / 8 + 8).copied().unwrap_or(0);
            dynamic(u64::from_le_bytes(word), next).map(move |bit| position + bit)
        })
        .find(|&position| (from..to).contains(&position) && is_header(data, position))
}

/// Returns the places of the bits 0, 0 and 1: not the last block, and dynamic codes. `next` are the bits behind the word.
fn dynamic(word: u64, next: u8) -> impl Iterator<Item = usize> {
    let one_behind = word >> 1 | u64::from(next) << 63;
    let two_behind = word >> 2 | u64::from(next) << 62;
    let mut places = !word & !one_behind & two_behind;
    std::iter::from_fn(move || {
        let place = (places != 0).then_some(places.trailing_zeros() as usize);
        places &= places.wrapping_sub(1);
        place
    })
}

fn is_header(data: &[u8], position: usize) -> bool {
    let Some(&bits) = data[position / 8..].first_chunk() else { return false };
    may_be_header(u128::from_le_bytes(bits) >> (position % 8)) && {
        let mut bits = Bits::new(data, position + 3);
        CodeLengths::read(&mut bits).is_ok() && !bits.is_past_end()
    }
}

/// Returns whether the numbers of codes are possible and the code of code lengths is complete.
fn may_be_header(bits: u128) -> bool {
    let head = bits as u64;
    if head >> 3 & 31 > 29 || head >> 8 & 31 > 29 {
        return false;
    }
    let count = (head >> 13 & 15) + 4;
    let lengths = (bits >> 17) as u64 & ((1 << (3 * count)) - 1);
    let space: u16 = (0..5).map(|four| SPACE[(lengths >> (12 * four)) as usize % SPACE.len()]).sum();
    space == 1 << 7
}

/// The code space that four code lengths of three bits take, in codes of seven bits.
const SPACE: [u16; 1 << 12] = {
    let mut space = [0; 1 << 12];
    let mut lengths = 0;
    while lengths < space.len() {
        let mut at = 0;
        while at < 12 {
            space[lengths] += (1 << 7 >> (lengths >> at & 7)) & 0x7f;
            at += 3;
        }
        lengths += 1;
    }
    space
};
