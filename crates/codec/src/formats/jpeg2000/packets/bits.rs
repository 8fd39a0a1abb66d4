//! The bits of packet headers.

/// Reads bits, the highest of a byte first. A byte after one of 255 has seven (T.800, B.10.1).
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// The place of the next byte.
    at: usize,
    /// The byte before it, and the number of its bits that are left.
    byte: u8,
    left: u32,
}

impl<'a> Bits<'a> {
    /// Begins at a byte.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, byte: 0, left: 0 }
    }

    pub(super) fn bit(&mut self) -> Option<bool> {
        if self.left == 0 {
            self.next_byte()?;
        }
        self.left -= 1;
        Some(self.byte >> self.left & 1 == 1)
    }

    fn next_byte(&mut self) -> Option<()> {
        self.left = if self.byte == 0xff { 7 } else { 8 };
        self.byte = *self.bytes.get(self.at)?;
        self.at += 1;
        // The bit that is left out is zero.
        (self.left == 8 || self.byte < 0x80).then_some(())
    }

    /// Reads a number of at most 32 bits.
    pub(super) fn number(&mut self, bits: u32) -> Option<u32> {
        if bits > 32 {
            return None;
        }
        (0..bits).try_fold(0, |number, _| Some(number << 1 | u32::from(self.bit()?)))
    }

    /// Returns the place of the byte after the header.
    pub(super) fn end(mut self) -> Option<usize> {
        if self.byte == 0xff {
            self.next_byte()?;
        }
        Some(self.at)
    }
}

/// A tag tree: numbers of places in rows, read only as far as they are asked for (T.800, B.10.2).
pub(super) struct TagTree {
    /// The width of each level and the number of its first node, from the leaves on.
    levels: Vec<(usize, usize)>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Default)]
struct Node {
    /// The least value of the number.
    least: u32,
    is_known: bool,
}

impl TagTree {
    pub(super) fn new(across: usize, down: usize) -> Self {
        let (mut size, mut levels, mut count) = ((across, down), Vec::new(), 0);
        loop {
            levels.push((size.0, count));
            count += size.0 * size.1;
            if size.0 * size.1 <= 1 {
                break;
            }
            size = (size.0.div_ceil(2), size.1.div_ceil(2));
        }
        Self { levels, nodes: vec![Node::default(); count] }
    }

    /// Reads until it is known whether the number of a place is less than `bound`.
    ///
    /// Returns whether it is, and its least value.
    pub(super) fn read(
        &mut self,
        bits: &mut Bits<'_>,
        (x, y): (usize, usize),
        bound: u32,
    ) -> Option<(bool, u32)> {
        let mut least = 0;
        let mut is_known = false;
        for (level, &(across, start)) in self.levels.iter().enumerate().rev() {
            let node = &mut self.nodes[start + (y >> level) * across + (x >> level)];
            node.least = node.least.max(least);
            while !node.is_known && node.least < bound {
                match bits.bit()? {
                    true => node.is_known = true,
                    false => node.least += 1,
                }
            }
            (least, is_known) = (node.least, node.is_known);
        }
        Some((is_known && least < bound, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_behind_255_has_seven_bits() {
        let mut bits = Bits::new(&[0xff, 0x55, 0x80], 0);
        assert_eq!(bits.number(8), Some(0xff));
        assert_eq!(bits.number(7), Some(0x55));
        assert_eq!((bits.number(1), bits.end()), (Some(1), Some(3)));
        assert_eq!(Bits::new(&[0xff, 0x80], 0).number(9), None, "that is a mark");
        let mut bits = Bits::new(&[0xff, 0x00, 7], 0);
        assert_eq!(
            (bits.number(8), bits.end()),
            (Some(0xff), Some(2)),
            "the byte behind it is of the header"
        );
    }

    #[test]
    fn a_tag_tree_is_read_as_in_the_standard() {
        // The example of T.800, B.10.2: the numbers of the first row are 1, 3, 2 and 3, and take
        // 01111, 001, 101 and so on.
        let bits = [0b0111_1001, 0b1010_0000];
        let mut bits = Bits::new(&bits, 0);
        let mut tree = TagTree::new(6, 3);
        let read = [0, 1, 2].map(|x| tree.read(&mut bits, (x, 0), u32::MAX).unwrap());
        assert_eq!(read, [(true, 1), (true, 3), (true, 2)]);
    }
}
