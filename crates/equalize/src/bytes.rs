//! Counting 8-bit samples in plain Rust.

use super::portable::TABLES_8;

/// The fewest samples for which clearing and summing a table of all pairs of levels pays off.
const WORTH_PAIRING: usize = 128 << 10;

/// Samples read at a time: one for each of the tables that take turns.
const WORD: usize = TABLES_8;

/// A count for each pair of neighbouring samples.
///
/// The first sample of a pair is the low byte of its index.
type Pairs = [u32; 1 << 16];

/// Adds samples to the tables of a [`crate::histogram::Tally`].
pub(super) fn count(samples: &[u8], tables: &mut [u32]) {
    let tables: &mut [[u32; 256]; TABLES_8] =
        tables.as_chunks_mut().0.try_into().expect("a tally of 8-bit samples has so many tables");
    if samples.len() < WORTH_PAIRING {
        return count_words(samples, tables);
    }
    count_pairs(samples, &mut tables[0]);
}

fn count_words(samples: &[u8], tables: &mut [[u32; 256]; TABLES_8]) {
    let (words, rest) = samples.as_chunks::<WORD>();
    for word in words.iter().map(|&word| u64::from_le_bytes(word)) {
        for (place, table) in tables.iter_mut().enumerate() {
            table[usize::from((word >> (8 * place)) as u8)] += 1;
        }
    }
    rest.iter().for_each(|&sample| tables[0][usize::from(sample)] += 1);
}

/// Counts two samples at a time.
///
/// In a table of all pairs of levels they take one addition to memory instead of two, and the time
/// of counting is in these additions. Most pairs of a picture lie near the diagonal of the table:
/// the part in use fits the L1 cache.
fn count_pairs(samples: &[u8], table: &mut [u32; 256]) {
    let mut pairs: Box<Pairs> =
        vec![0; 1 << 16].into_boxed_slice().try_into().expect("it is as long as it was made");
    let (blocks, rest) = samples.as_chunks();
    blocks.iter().for_each(|block| count_block(block, &mut pairs));
    for (second, row) in pairs.as_chunks::<256>().0.iter().enumerate() {
        table[second] += row.iter().sum::<u32>();
        table.iter_mut().zip(row).for_each(|(count, part)| *count += part);
    }
    rest.iter().for_each(|&sample| table[usize::from(sample)] += 1);
}

/// Counts the pairs of a block.
///
/// If all its words are equal, as in a white margin, they are added together: one by one, each
/// addition would wait for the one before it.
fn count_block(block: &[u8; 8 * WORD], pairs: &mut Pairs) {
    let words: [u64; 8] = std::array::from_fn(|i| u64::from_le_bytes(block.as_chunks().0[i]));
    let mut add = |word: u64, times| {
        [0, 16, 32, 48].into_iter().for_each(|shift| pairs[usize::from((word >> shift) as u16)] += times);
    };
    let different = words.iter().fold(0, |different, word| different | (word ^ words[0]));
    if different == 0 {
        return add(words[0], words.len() as u32);
    }
    words.into_iter().for_each(|word| add(word, 1));
}
