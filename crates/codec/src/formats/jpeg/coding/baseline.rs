//! Baseline pictures, described for a decoder on a GPU.
//!
//! The description has their blocks, their codes, and the places of their data. A picture that
//! [`read`](super::read) refuses for its headers is refused here, too.

use std::ops::Range;

use super::component::{BlockGrid, ComponentOutput};
use super::huffman::{CanonicalCode, Decoder};
use super::read::Reader;
use super::read_sequential::{self, ScanComponent};
use super::scan::each_interval;
use crate::formats::jpeg::markers::{EOI, Factors};
use crate::samples::size::Size;

/// The end of a file.
const END: [u8; 2] = [0xff, EOI];

/// A baseline picture in one scan of all components.
#[derive(Debug)]
pub struct BaselinePicture<'a> {
    /// Its width and height.
    pub size: Size,
    /// The components, in the order of their blocks in an MCU.
    pub components: Vec<BaselineComponent>,
    /// MCUs across and down.
    pub mcus: (usize, usize),
    /// MCUs of a restart interval; all if there are no restarts.
    pub interval: usize,
    /// The interval as stated in the file; 0 if there are no restarts.
    pub(super) stated_interval: u16,
    /// The entropy-coded data, and the rest of the file.
    pub data: &'a [u8],
    /// The place of each restart interval in the data.
    ///
    /// Without restarts this is empty: the data end at the first marker, and intact ones with the
    /// end of the picture.
    pub intervals: Vec<Range<usize>>,
}

/// A component of a [`BaselinePicture`].
#[derive(Debug)]
pub struct BaselineComponent {
    /// Its sampling factors.
    pub(super) factors: Factors,
    /// Its blocks in an MCU, across and down.
    pub in_mcu: (usize, usize),
    /// Its blocks in the picture, across and down. MCUs at the edges may have more.
    pub blocks: (usize, usize),
    /// The divisors of its coefficients, in zigzag order.
    pub divisors: [u16; 64],
    dc: Decoder,
    ac: Decoder,
}

impl BaselineComponent {
    /// Returns whether its codes have only the symbols of baseline pictures.
    ///
    /// Decoders disagree on others.
    fn is_usual(&self) -> bool {
        self.dc.is_of_baseline_dc() && self.ac.is_of_baseline_ac()
    }

    /// Returns its code for DC coefficients.
    pub fn dc(&self) -> CanonicalCode<'_> {
        self.dc.canonical()
    }

    /// Returns its code for AC coefficients.
    pub fn ac(&self) -> CanonicalCode<'_> {
        self.ac.canonical()
    }
}

impl<'a> BaselinePicture<'a> {
    /// Describes the picture in a file, unless its headers are damaged or those of another kind.
    ///
    /// The entropy-coded data are not read.
    pub fn read(file: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::of_sequential();
        reader.walk(file, &mut <_>::default(), Self::of_scan)?
    }

    /// Describes the scan with this header and these data.
    ///
    /// Also returns the rest of the file.
    fn of_scan(reader: &Reader<'_>, header: &[u8], data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut components = Vec::new();
        let codes = reader.selected_codes(header)?;
        let parts = reader.components.iter().zip(reader.component_divisors()?).zip(codes);
        for ((component, divisors), (dc, ac)) in parts {
            let in_mcu = reader.factors_in_scan(component);
            let (dc, ac) = (dc.clone(), ac.clone());
            let (factors, blocks) = (component.factors, component.blocks());
            components.push(BaselineComponent { factors, in_mcu, blocks, divisors, dc, ac });
        }
        let (size, mcus) = (reader.size, reader.mcus_of_scan());
        let number = mcus.0 * mcus.1;
        let mut intervals = Vec::new();
        if number == 0 || !components.iter().all(BaselineComponent::is_usual) {
            return None;
        }
        let place = |part: &[u8]| {
            let start = part.as_ptr().addr() - data.as_ptr().addr();
            start..start + part.len()
        };
        let behind = match reader.interval {
            // The search for the end of the data is left to the GPU.
            0 => &END[..],
            interval => each_interval(data, interval, number, |data, _| {
                intervals.push(place(data));
                Some(())
            })?,
        };
        let interval = if reader.interval == 0 { number } else { reader.interval.min(number) };
        let stated_interval = reader.interval as u16;
        let picture = Self { size, components, mcus, interval, stated_interval, data, intervals };
        // A block takes at least two bits.
        (picture.blocks_of_mcu() * number <= data.len() * 4).then_some((picture, behind))
    }

    /// Returns the number of blocks in an MCU.
    pub fn blocks_of_mcu(&self) -> usize {
        self.components.iter().map(|component| component.in_mcu.0 * component.in_mcu.1).sum()
    }

    /// Decodes the coefficients of all components.
    ///
    /// Each has its blocks, row by row, in zigzag order. `None` if the data are damaged. This is
    /// slow, and for comparison with a GPU.
    pub fn coefficients(&self) -> Option<Vec<Vec<[i16; 64]>>> {
        let (mut parts, (across, down)) = (Vec::new(), self.mcus);
        for BaselineComponent { in_mcu, blocks, dc, ac, .. } in &self.components {
            let wanted = ComponentOutput::Blocks(BlockGrid::new(blocks.0, blocks.1)?);
            parts.push(ScanComponent { factors: *in_mcu, size: *blocks, dc, ac, wanted });
        }
        let behind = read_sequential::read(self.data, self.interval, across, across * down, &mut parts)?;
        if self.intervals.is_empty() && !behind.starts_with(&END) {
            return None;
        }
        let blocks = parts.into_iter().map(|part| match part.wanted {
            ComponentOutput::Blocks(grid) => Some(grid.blocks),
            _ => None,
        });
        blocks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::jpeg::coding::{Rest, read};

    /// Returns a file of the test data.
    macro_rules! file {
        ($name:literal) => {
            &include_bytes!(concat!("../../../../../../tests/data/jpeg/", $name))[..]
        };
    }

    #[test]
    fn coefficients_are_those_of_the_reader() {
        for file in [
            file!("420.jpg"),
            file!("422.jpg"),
            file!("444.jpg"),
            file!("411.jpg"),
            file!("restart.jpg"),
            file!("restarts.jpg"),
            file!("odd-tables.jpg"),
        ] {
            let picture = BaselinePicture::read(file).unwrap();
            let read = read(file, &mut [], Rest::Coefficients(None), &mut []).unwrap();
            let found = picture.coefficients().unwrap();
            assert_eq!(found.len(), picture.components.len());
            for ((component, found), expected) in
                picture.components.iter().zip(&found).skip(1).zip(&read.rest)
            {
                assert_eq!(found.len(), component.blocks.0 * component.blocks.1);
                for (found, (dc, nonzero, ac)) in found.iter().zip(expected.blocks()) {
                    let values: Vec<i16> = found[1..].iter().copied().filter(|value| *value != 0).collect();
                    let is_set = |k: usize| nonzero >> k & 1 == 1;
                    assert!((1..64).all(|k| is_set(k) == (found[k] != 0)));
                    assert_eq!((found[0], &values[..]), (dc, ac));
                }
            }
        }
    }

    #[test]
    fn other_pictures_and_damage_are_refused() {
        assert!(BaselinePicture::read(file!("progressive.jpg")).is_none());
        let intact = file!("restarts.jpg");
        let marker = intact.windows(2).position(|pair| pair == [0xff, 0xd1]).unwrap();
        let mut disordered = intact.to_vec();
        disordered[marker + 1] = 0xd2;
        assert!(BaselinePicture::read(&disordered).is_none(), "a restart marker out of turn");
        assert!(BaselinePicture::read(&intact[..intact.len() - 2]).is_none(), "no end");
        let damaged = BaselinePicture::read(file!("damaged.jpg")).unwrap();
        assert!(damaged.coefficients().is_none(), "a third of the data is missing");
        let mut unended = file!("420.jpg").to_vec();
        let last = unended.len() - 1;
        unended[last] = 0xd8;
        assert!(BaselinePicture::read(&unended).unwrap().coefficients().is_none(), "another marker");
    }
}
