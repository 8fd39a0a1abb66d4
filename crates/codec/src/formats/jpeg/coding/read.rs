//! Reading a file, from its first segment to its last.
//!
//! Throughout, `None` leaves it to libjpeg.

use super::coefficients::Coefficients;
use super::component::{BlockPlace, ComponentOutput, Rest};
use super::huffman::{Codes, Decoder};
use super::read_sequential::{self, ScanComponent};
use super::scan::{DcComponent, Selection, read_dc, read_first, read_intervals, read_refinement};
use super::{Block, Grid, natural, vectorized};
use crate::formats::jpeg::libjpeg::{Plane, QuantTable};
use crate::formats::jpeg::markers::{
    DHT, DNL, DQT, DRI, EOI, Factors, FrameHeader, MAX_BLOCKS, SOF0, SOF1, SOF2, SOS, Segment, next_marker,
    segment,
};
use crate::formats::jpeg::{BLOCK, PlaneSize, plane_size};
use crate::samples::size::Size;

/// In place of a coefficient's lowest known bit: no scan has had the coefficient yet.
const UNKNOWN: u32 = u32::MAX;

/// The data read in addition to the planes.
pub(in crate::formats::jpeg) struct Picture {
    /// The components' quantization tables.
    pub(in crate::formats::jpeg) tables: Vec<QuantTable>,
    /// The coefficients of the components after those with planes, if requested.
    pub(in crate::formats::jpeg) rest: Vec<Coefficients>,
}

/// Reads a whole picture.
///
/// The first components are decoded into `planes`, which must not be larger than the components;
/// `wanted_rest` chooses the output for the others. A progressive picture's coefficients are
/// collected in `workspace`, which must be all zero, as far as it reaches, and then in memory of
/// the reader's own.
pub(in crate::formats::jpeg) fn read(
    bytes: &[u8],
    planes: &mut [Plane<&mut [u8]>],
    wanted_rest: Rest<'_>,
    workspace: &mut [u8],
) -> Option<Picture> {
    let mut reader = Reader::default();
    let picture = reader.walk(bytes, &mut whole_blocks(workspace), |reader, header, data| {
        reader.only_scan(header, data, planes, wanted_rest)
    })?;
    if reader.progressive { reader.finish(planes, wanted_rest) } else { picture }
}

/// Returns the workspace as blocks.
///
/// (It is empty if the workspace is misaligned, at an odd address; then the reader allocates its
/// own.)
fn whole_blocks(workspace: &mut [u8]) -> &mut [Block] {
    let whole = workspace.len() / size_of::<Block>() * size_of::<Block>();
    bytemuck::try_cast_slice_mut(&mut workspace[..whole]).unwrap_or_default()
}

pub(super) struct Component<'w> {
    id: u8,
    pub(super) factors: Factors,
    divisors: usize,
    size: PlaneSize,
    /// The coefficients, if the picture is progressive.
    grid: Option<Grid<'w>>,
    /// The lowest known bit of each coefficient.
    known: [u32; 64],
}

#[derive(Default)]
pub(super) struct Reader<'w> {
    /// The quantization tables, in zigzag order.
    divisors: [Option<QuantTable>; 4],
    codes: Codes,
    progressive: bool,
    /// MCUs of a restart interval; 0 if there are no restarts.
    pub(super) interval: usize,
    pub(super) components: Vec<Component<'w>>,
    /// The width and height of the picture.
    pub(super) size: Size,
    /// MCUs across and down in a scan of all components.
    mcus: (usize, usize),
    scans: u32,
    /// Whether progressive pictures are refused.
    only_sequential: bool,
}

impl<'w> Reader<'w> {
    /// Returns a reader that refuses progressive pictures.
    pub(super) fn of_sequential() -> Self {
        Self { only_sequential: true, ..Self::default() }
    }

    /// Walks through a file, from its first segment to its last.
    ///
    /// The scans of a progressive picture are read. The only scan of a sequential one is left to
    /// `only_scan`: from the scan's header and the rest of the file, it returns its result and the
    /// rest after the scan.
    pub(super) fn walk<'b, T>(
        &mut self,
        bytes: &'b [u8],
        workspace: &mut &'w mut [Block],
        mut only_scan: impl FnMut(&Self, &[u8], &'b [u8]) -> Option<(T, &'b [u8])>,
    ) -> Option<Option<T>> {
        let mut found = None;
        let mut rest = bytes.get(2..)?;
        while rest.first() == Some(&0xff) {
            let (marker, behind) = next_marker(rest).ok()?;
            if marker == EOI {
                return Some(found);
            }
            let (segment, behind) = segment(marker, behind).ok()?;
            rest = behind;
            match marker {
                DHT => self.codes.define(segment.content)?,
                DQT => self.define_divisors(segment.content)?,
                DRI => self.interval = usize::from(u16::from_be_bytes(segment.content.try_into().ok()?)),
                SOF0 | SOF1 | SOF2 => self.begin(segment, workspace)?,
                SOS if self.progressive => rest = self.scan(segment.content, rest)?,
                SOS if found.is_none() => {
                    let (whole, behind) = only_scan(self, segment.content, rest)?;
                    (found, rest) = (Some(whole), behind);
                }
                DNL | 0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
        None
    }

    fn define_divisors(&mut self, mut content: &[u8]) -> Option<()> {
        // A table that changes between scans would apply to some components and not to others.
        if self.scans > 0 {
            return None;
        }
        while let Some((&which, rest)) = content.split_first() {
            let (table, rest) = match which >> 4 {
                0 => rest.split_first_chunk::<64>().map(|(bytes, rest)| (bytes.map(u16::from), rest))?,
                1 => {
                    let (bytes, rest) = rest.split_first_chunk::<128>()?;
                    let (words, _) = bytes.as_chunks::<2>();
                    (std::array::from_fn(|i| u16::from_be_bytes(words[i])), rest)
                }
                _ => return None,
            };
            *self.divisors.get_mut(usize::from(which & 15))? = Some(table);
            content = rest;
        }
        Some(())
    }

    /// Takes the frame header.
    fn begin(&mut self, segment: Segment<'_>, workspace: &mut &'w mut [Block]) -> Option<()> {
        let frame = FrameHeader::parse(segment).ok()?;
        let all = frame.factors();
        let is_refused = frame.progressive && self.only_sequential;
        if is_refused || !self.components.is_empty() || !matches!(all.len(), 1 | 3) {
            return None;
        }
        for component in &frame.components {
            let size = plane_size(frame.width, frame.height, &all, component.factors);
            let grid = if frame.progressive { Some(Grid::new(size, workspace)?) } else { None };
            self.components.push(Component {
                id: component.id,
                factors: component.factors,
                divisors: component.table,
                size,
                grid,
                known: [UNKNOWN; 64],
            });
        }
        self.progressive = frame.progressive;
        self.size = Size { width: frame.width, height: frame.height };
        self.mcus = frame.mcus();
        Some(())
    }

    /// Reads the only scan of a sequential picture; returns the picture and the rest of the file.
    fn only_scan<'b>(
        &self,
        header: &[u8],
        data: &'b [u8],
        planes: &mut [Plane<&mut [u8]>],
        rest: Rest<'_>,
    ) -> Option<(Picture, &'b [u8])> {
        let selected = self.selected_codes(header)?;
        let divisors = self.component_divisors()?;
        let alone = self.components.len() == 1;
        let mut parts = Vec::new();
        let wanted = self.wanted(&divisors, planes, rest)?;
        for ((component, (dc, ac)), wanted) in self.components.iter().zip(selected).zip(wanted) {
            let row_by_row = alone || component.factors.vertical == 1;
            if matches!(wanted, ComponentOutput::Coefficients(..)) && !row_by_row {
                return None;
            }
            let (factors, size) = (self.factors_in_scan(component), component.blocks());
            parts.push(ScanComponent { factors, size, dc, ac, wanted });
        }
        let (across, down) = self.mcus_of_scan();
        let behind = read_sequential::read(data, self.interval, across, across * down, &mut parts)?;
        let rest = parts.into_iter().map(|part| part.wanted.finish()).collect::<Option<Vec<_>>>()?;
        let rest = rest.into_iter().flatten().collect();
        Some((Picture { tables: divisors.iter().map(natural).collect(), rest }, behind))
    }

    /// Returns the codes of each component, for DC and AC coefficients.
    ///
    /// `header` is that of a scan of all components.
    pub(super) fn selected_codes(&self, header: &[u8]) -> Option<Vec<(&Decoder, &Decoder)>> {
        let [count, ref selectors @ .., 0, 63, 0] = *header else { return None };
        let (selectors, more) = selectors.as_chunks::<2>();
        let same_number = selectors.len() == self.components.len() && usize::from(count) == selectors.len();
        if !same_number || !more.is_empty() || self.blocks_together() > MAX_BLOCKS as usize {
            return None;
        }
        let of_component = |(component, &[id, numbers]): (&Component<'_>, &[u8; 2])| {
            let dc = self.codes.dc.get(usize::from(numbers >> 4))?.as_ref()?;
            let ac = self.codes.ac.get(usize::from(numbers & 15))?.as_ref()?;
            (id == component.id).then_some((dc, ac))
        };
        self.components.iter().zip(selectors).map(of_component).collect()
    }

    /// Returns the number of a component's blocks in an MCU of a scan of all components.
    ///
    /// It is for both directions, across and down. A single component has MCUs of one block,
    /// whatever its factors (T.81, A.2.2).
    pub(super) fn factors_in_scan(&self, component: &Component<'_>) -> (usize, usize) {
        if self.components.len() == 1 { (1, 1) } else { component.blocks_of_mcu() }
    }

    /// Returns the number of MCUs of a scan of all components, across and down.
    pub(super) fn mcus_of_scan(&self) -> (usize, usize) {
        if let [alone] = &self.components[..] { alone.blocks() } else { self.mcus }
    }

    /// Returns the components' quantization tables, in zigzag order.
    pub(super) fn component_divisors(&self) -> Option<Vec<QuantTable>> {
        self.components.iter().map(|c| self.divisors.get(c.divisors).copied().flatten()).collect()
    }

    /// Returns the output for each component.
    fn wanted<'p>(
        &self,
        divisors: &'p [QuantTable],
        planes: &'p mut [Plane<&mut [u8]>],
        rest: Rest<'_>,
    ) -> Option<Vec<ComponentOutput<'p>>> {
        let mut planes = planes.iter_mut();
        let components = self.components.iter().zip(divisors).enumerate();
        let wanted = components.map(|(i, (component, divisors))| match planes.next() {
            Some(plane) => Some(ComponentOutput::samples(plane, component.size, divisors)),
            None => ComponentOutput::of_rest(rest, i, component.size, divisors),
        });
        wanted.collect()
    }

    /// Returns the number of blocks in an MCU of all components.
    fn blocks_together(&self) -> usize {
        self.components.iter().map(Component::blocks_of_mcu).map(|(across, down)| across * down).sum()
    }

    /// Reads a scan of a progressive picture; returns the rest of the file.
    fn scan<'b>(&mut self, header: &[u8], data: &'b [u8]) -> Option<&'b [u8]> {
        let (&count, rest) = header.split_first()?;
        let (which, rest) = rest.split_at_checked(2 * usize::from(count))?;
        let &[first, last, bits] = rest else { return None };
        let selection = Selection {
            first: first.into(),
            last: last.into(),
            known: u32::from(bits >> 4),
            lowest: u32::from(bits & 15),
        };
        self.scans += 1;
        let which = which.as_chunks::<2>().0;
        let places: Vec<usize> = which
            .iter()
            .map(|[id, _]| self.components.iter().position(|component| component.id == *id))
            .collect::<Option<_>>()?;
        if !places.is_sorted_by(|a, b| a < b) {
            return None;
        }
        for &place in &places {
            self.components[place].select(selection)?;
        }
        match (selection.first, which) {
            (0, which) if selection.last == 0 => {
                let codes: Vec<usize> = which.iter().map(|[_, codes]| usize::from(codes >> 4)).collect();
                self.scan_dc(selection, &places, &codes, data)
            }
            (1.., [[_, codes]]) => {
                let decoder = self.codes.ac.get(usize::from(codes & 15))?.as_ref()?;
                let grid = self.components[places[0]].grid.as_mut()?;
                scan_others(selection, decoder, grid, self.interval, data)
            }
            _ => None,
        }
    }

    fn scan_dc<'b>(
        &mut self,
        selection: Selection,
        places: &[usize],
        codes: &[usize],
        data: &'b [u8],
    ) -> Option<&'b [u8]> {
        let together = places.len() > 1;
        let mut components = Vec::new();
        for (place, component) in self.components.iter_mut().enumerate() {
            let Some(code) = places.iter().position(|p| *p == place).map(|i| codes[i]) else { continue };
            let factors = component.blocks_of_mcu();
            components.push(DcComponent {
                grid: component.grid.as_mut()?,
                factors: if together { factors } else { (1, 1) },
                decoder: self.codes.dc.get(code)?.as_ref(),
            });
        }
        let blocks: usize = components.iter().map(|c| c.factors.0 * c.factors.1).sum();
        if blocks > MAX_BLOCKS as usize {
            return None;
        }
        let alone = components.first()?.grid.size();
        let (across, down) = if together { self.mcus } else { alone };
        read_intervals(data, self.interval, across * down, |bits, mcus| {
            read_dc(bits, selection, &mut components, across, mcus)
        })
    }

    /// Passes a progressive picture's coefficients on, if all of them are known to the last bit.
    ///
    /// Otherwise libjpeg would estimate the missing bits; the picture is then left to it.
    fn finish(self, planes: &mut [Plane<&mut [u8]>], rest: Rest<'_>) -> Option<Picture> {
        let divisors = self.component_divisors()?;
        if divisors.is_empty() || self.components.iter().any(|component| component.known != [0; 64]) {
            return None;
        }
        let mut taken = Vec::new();
        let wanted = self.wanted(&divisors, planes, rest)?;
        for (component, mut wanted) in self.components.into_iter().zip(wanted) {
            let grid = component.grid?;
            vectorized::run(
                #[inline(always)]
                || hand_on(&grid, &mut wanted),
            )?;
            taken.extend(wanted.finish()?);
        }
        Some(Picture { tables: divisors.iter().map(natural).collect(), rest: taken })
    }
}

impl Component<'_> {
    /// Returns the number of its blocks in an MCU, across and down.
    ///
    /// The scan is one of several components.
    fn blocks_of_mcu(&self) -> (usize, usize) {
        (self.factors.horizontal.into(), self.factors.vertical.into())
    }

    /// Returns the number of its blocks in the picture, across and down.
    pub(super) fn blocks(&self) -> (usize, usize) {
        (self.size.width / BLOCK, self.size.rows / BLOCK)
    }

    /// Records which bits a scan has.
    ///
    /// `None` if the scan is out of order.
    fn select(&mut self, selection: Selection) -> Option<()> {
        /// The most low bits left to later scans: more than any encoder leaves.
        ///
        /// Shifts by at most as many cannot overflow.
        const LOWEST: u32 = 7;
        let Selection { first, last, known, lowest } = selection;
        let before = if known == 0 { UNKNOWN } else { known };
        if first > last || lowest > LOWEST || (known > 0 && known != lowest + 1) {
            return None;
        }
        let coefficients = self.known.get_mut(first as usize..=last as usize)?;
        if coefficients.iter().any(|known| *known != before) {
            return None;
        }
        coefficients.fill(lowest);
        Some(())
    }
}

fn scan_others<'b>(
    selection: Selection,
    decoder: &Decoder,
    grid: &mut Grid<'_>,
    interval: usize,
    data: &'b [u8],
) -> Option<&'b [u8]> {
    let (blocks, nonzero) = (grid.ac.blocks_mut(), &mut grid.nonzero);
    read_intervals(data, interval, blocks.len(), |bits, range| {
        let (blocks, nonzero) = (&mut blocks[range.clone()], &mut nonzero[range]);
        vectorized::run(
            #[inline(always)]
            || match selection.known {
                0 => read_first(bits, selection, decoder, blocks, nonzero),
                _ => read_refinement(bits, selection, decoder, blocks, nonzero),
            },
        )
    })
}

/// Passes on the blocks of a component.
#[inline(always)]
fn hand_on(grid: &Grid<'_>, wanted: &mut ComponentOutput<'_>) -> Option<()> {
    let blocks = grid.ac.blocks().iter().zip(&grid.nonzero).zip(&grid.dc);
    for (i, ((block, nonzero), dc)) in blocks.enumerate() {
        wanted.take(BlockPlace { x: i % grid.across, y: i / grid.across }, *dc, *nonzero, block)?;
    }
    Some(())
}
