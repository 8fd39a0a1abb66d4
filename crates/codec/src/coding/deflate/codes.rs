//! Length-limited Huffman codes for deflate (RFC 1951, section 3.2.2).

/// A symbol's code as it is written.
///
/// Its bits are in the lowest [`CODE_BITS`] bits, the first one lowest, and their number above.
type Code = u32;
const CODE_BITS: u32 = 16;

/// The codes of an alphabet of `N` symbols.
pub(super) struct Codes<const N: usize>([Code; N]);

impl<const N: usize> Codes<N> {
    /// Makes codes of at most `longest` bits for symbols with these frequencies.
    ///
    /// At least two must occur.
    pub(super) fn new(frequencies: &[u32; N], longest: usize) -> Self {
        let lengths = code_lengths(frequencies, longest);
        let mut next = [0_u16; CODE_BITS as usize];
        for length in 1..=longest {
            let shorter =
                lengths.iter().filter(|&&own| usize::from(own) == length - 1 && own > 0).count() as u16;
            next[length] = (next[length - 1] + shorter) << 1;
        }
        Self(lengths.map(|length| {
            let length = u32::from(length);
            let code = next[length as usize];
            next[length as usize] += u16::from(length > 0);
            u32::from(code.reverse_bits()).unbounded_shr(CODE_BITS - length) | length << CODE_BITS
        }))
    }

    /// Returns a symbol's code: its bits, and their number.
    #[inline(always)]
    pub(super) fn of(&self, symbol: usize) -> (u64, u32) {
        let code = self.0[symbol];
        (u64::from(code as u16), code >> CODE_BITS)
    }

    /// Returns the lengths of the codes up to the last one, but at least `least` of them.
    pub(super) fn lengths(&self, least: usize) -> impl Iterator<Item = u8> {
        let last = self.0.iter().rposition(|&code| code > 0).unwrap_or(0);
        self.0[..least.max(last + 1)].iter().map(|code| (code >> CODE_BITS) as u8)
    }
}

/// Returns the lengths of a Huffman code, at most `longest` bits each; 0 for unused symbols.
///
/// At least two symbols must occur.
fn code_lengths<const N: usize>(frequencies: &[u32; N], longest: usize) -> [u8; N] {
    let mut symbols: Vec<usize> = (0..N).filter(|&symbol| frequencies[symbol] > 0).collect();
    symbols.sort_by_key(|&symbol| frequencies[symbol]);
    let mut weights: Vec<u32> = symbols.iter().map(|&symbol| frequencies[symbol]).collect();
    depths(&mut weights);
    let mut of_length = [0_usize; CODE_BITS as usize];
    weights.iter().for_each(|&depth| of_length[(depth as usize).min(longest)] += 1);
    // Codes that were cut to the limit overfill the code space. Each step splits a shorter code
    // into two, one of which replaces one of the longest codes.
    let mut taken: usize = of_length
        .iter()
        .enumerate()
        .take(longest + 1)
        .map(|(length, &codes)| codes << (longest - length))
        .sum();
    while taken > 1 << longest {
        let shorter = (1..longest).rev().find(|&length| of_length[length] > 0).expect("some code is shorter");
        of_length[longest] -= 1;
        of_length[shorter] -= 1;
        of_length[shorter + 1] += 2;
        taken -= 1;
    }
    let mut lengths = [0; N];
    let by_length =
        (1..=longest).rev().flat_map(|length| std::iter::repeat_n(length as u8, of_length[length]));
    for (&symbol, length) in symbols.iter().zip(by_length) {
        lengths[symbol] = length;
    }
    lengths
}

/// Replaces weights, in ascending order, by the depths of their leaves in a Huffman tree.
///
/// The algorithm is that of Moffat and Katajainen, *In-Place Calculation of Minimum-Redundancy
/// Codes*, 1995.
fn depths(weights: &mut [u32]) {
    let count = weights.len();
    // Weights become the weights of inner nodes, and then the indices of their parents.
    let (mut leaf, mut root) = (0, 0);
    for next in 0..count - 1 {
        let mut lighter = |weights: &mut [u32]| {
            if leaf >= count || (root < next && weights[root] < weights[leaf]) {
                let weight = std::mem::replace(&mut weights[root], next as u32);
                root += 1;
                weight
            } else {
                leaf += 1;
                weights[leaf - 1]
            }
        };
        let sum = lighter(weights) + lighter(weights);
        weights[next] = sum;
    }
    // Parents become depths, from the root down.
    weights[count - 2] = 0;
    for node in (0..count - 2).rev() {
        weights[node] = weights[weights[node] as usize] + 1;
    }
    // At each depth, the places that are not inner nodes are leaves.
    let (mut places, mut depth, mut inner, mut leaf) = (1, 0, count as isize - 2, count);
    while places > 0 {
        let mut nodes = 0;
        while inner >= 0 && weights[inner as usize] == depth {
            nodes += 1;
            inner -= 1;
        }
        for _ in nodes..places {
            leaf -= 1;
            weights[leaf] = depth;
        }
        places = 2 * nodes;
        depth += 1;
    }
}
