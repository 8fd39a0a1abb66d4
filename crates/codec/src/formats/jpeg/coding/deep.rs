//! Pictures for neither the coder for samples of 8 bits nor libjpeg.
//!
//! They are lossless ones (T.81, annex H), of 2 to 16 bits, and sequential ones of 12 bits (F.2).
//! They are rare; the code is therefore short rather than fast. Samples of 12 bits are identical to
//! libjpeg-turbo's.

use super::bits::BitReader;
use super::huffman::Codes;
use super::scan::{read_difference, read_intervals, read_value};
use super::{QuantTable, idct12, natural};
use crate::formats::jpeg::markers::{
    DHT, DNL, DQT, DRI, EOI, FrameHeader, MAX_BLOCKS, SOF1, SOF3, SOS, Segment, largest_factors, next_marker,
    segment,
};
use crate::formats::jpeg::{BLOCK, PlaneSize, plane_size};

/// A picture, component by component.
pub(in crate::formats::jpeg) struct Planes {
    width: usize,
    height: usize,
    /// Bits of a sample.
    pub(in crate::formats::jpeg) bits: u32,
    planes: Vec<Samples>,
}

/// The samples of a component.
struct Samples {
    /// The width of a row in memory.
    stride: usize,
    /// The number of samples of a row, and of rows, within the picture.
    size: (usize, usize),
    /// The number of pixels across and down that share a sample.
    shared: (usize, usize),
    samples: Vec<u16>,
}

/// Returns the bytes of heap that the planes of a picture take.
pub(in crate::formats::jpeg) fn heap_bytes(sizes: impl Iterator<Item = PlaneSize>) -> u64 {
    sizes.map(|size| 2 * size.bytes() as u64).sum()
}

/// The reason why a picture could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats::jpeg) enum Trouble {
    Damaged,
    /// Components with samples not shared by a constant whole number of pixels, or otherwise mixed.
    Irregular,
    OutOfMemory,
}

/// Reads a whole picture.
pub(in crate::formats::jpeg) fn read(bytes: &[u8]) -> Result<Planes, Trouble> {
    let mut reader = Reader::default();
    let mut rest = bytes.get(2..).ok_or(Trouble::Damaged)?;
    loop {
        let (marker, behind) = next_marker(rest).map_err(|_| Trouble::Damaged)?;
        if marker == EOI {
            return reader.finish();
        }
        let (segment, behind) = segment(marker, behind).map_err(|_| Trouble::Damaged)?;
        rest = behind;
        match marker {
            SOF1 | SOF3 => reader.begin(segment)?,
            SOS => rest = reader.scan(segment.content, rest)?,
            DHT => reader.codes.define(segment.content).ok_or(Trouble::Damaged)?,
            DQT => reader.define_divisors(segment.content).ok_or(Trouble::Damaged)?,
            DRI => {
                let interval = segment.content.try_into().map_err(|_| Trouble::Damaged)?;
                reader.interval = usize::from(u16::from_be_bytes(interval));
            }
            DNL | 0xe0..=0xef | 0xfe => {}
            _ => return Err(Trouble::Damaged),
        }
    }
}

#[derive(Default)]
struct Reader {
    frame: Option<FrameHeader>,
    divisors: [Option<QuantTable>; 4],
    codes: Codes,
    interval: usize,
    planes: Vec<Samples>,
    /// Whether each component has had its scan.
    had: Vec<bool>,
}

/// A component in a scan: its number, and those of its codes.
struct Part {
    component: usize,
    dc: usize,
    ac: usize,
}

impl Reader {
    fn begin(&mut self, segment: Segment<'_>) -> Result<(), Trouble> {
        let frame = FrameHeader::parse_any(segment).map_err(|_| Trouble::Damaged)?;
        if self.frame.is_some() || !frame.is_deep() {
            return Err(Trouble::Damaged);
        }
        let all = frame.factors();
        let (most_h, most_v) = largest_factors(&all);
        for factors in &all {
            let (h, v) = (factors.horizontal, factors.vertical);
            let is_whole = most_h.is_multiple_of(h) && most_v.is_multiple_of(v);
            if !is_whole || frame.lossless && (h, v) != (most_h, most_v) {
                return Err(Trouble::Irregular);
            }
            let shared = (usize::from(most_h / h), usize::from(most_v / v));
            let size =
                ((frame.width as usize).div_ceil(shared.0), (frame.height as usize).div_ceil(shared.1));
            let padded = plane_size(frame.width, frame.height, &all, *factors);
            let (stride, rows) = if frame.lossless { size } else { (padded.width, padded.rows) };
            let mut samples = Vec::new();
            samples.try_reserve_exact(stride * rows).map_err(|_| Trouble::OutOfMemory)?;
            samples.resize(stride * rows, 0);
            self.planes.push(Samples { stride, size, shared, samples });
        }
        self.had = vec![false; all.len()];
        self.frame = Some(frame);
        Ok(())
    }

    fn define_divisors(&mut self, mut content: &[u8]) -> Option<()> {
        while let Some((&which, rest)) = content.split_first() {
            let wide = usize::from(which >> 4);
            let (table, rest) = rest.split_at_checked(64 << wide.min(2))?;
            let divisors = std::array::from_fn(|at| match wide {
                0 => u16::from(table[at]),
                _ => u16::from_be_bytes([table[2 * at], table[2 * at + 1]]),
            });
            *self.divisors.get_mut(usize::from(which & 15)).filter(|_| wide < 2)? = Some(divisors);
            content = rest;
        }
        Some(())
    }

    /// Reads a scan; returns the data after it.
    fn scan<'b>(&mut self, header: &[u8], data: &'b [u8]) -> Result<&'b [u8], Trouble> {
        let frame = self.frame.as_ref().ok_or(Trouble::Damaged)?;
        let (&count, rest) = header.split_first().ok_or(Trouble::Damaged)?;
        let (selectors, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or(Trouble::Damaged)?;
        let &[first, _, bits] = rest else { return Err(Trouble::Damaged) };
        let mut parts = Vec::new();
        for &[id, codes] in selectors.as_chunks::<2>().0 {
            let component = frame.components.iter().position(|component| component.id == id);
            let component = component.ok_or(Trouble::Damaged)?;
            if std::mem::replace(&mut self.had[component], true) {
                return Err(Trouble::Damaged);
            }
            parts.push(Part { component, dc: usize::from(codes >> 4), ac: usize::from(codes & 15) });
        }
        if !(1..=4).contains(&parts.len()) {
            return Err(Trouble::Damaged);
        }
        // The selection of coefficients has no meaning in a sequential scan, and some programs
        // leave it empty.
        let behind = match (frame.lossless, first) {
            (true, 1..=7) if bits < frame.bits => self.read_differences(&parts, first, bits, data)?,
            (true, _) => None,
            (false, _) => self.read_blocks(&parts, data),
        };
        behind.ok_or(Trouble::Damaged)
    }

    /// Reads a scan of differences from the predictions of `predictor`.
    ///
    /// The lowest `shift` bits are missing.
    fn read_differences<'b>(
        &mut self,
        parts: &[Part],
        predictor: u8,
        shift: u8,
        data: &'b [u8],
    ) -> Result<Option<&'b [u8]>, Trouble> {
        let Self { frame: Some(frame), codes, interval, planes, .. } = self else { return Ok(None) };
        let (width, height) = (frame.width as usize, frame.height as usize);
        if !interval.is_multiple_of(width) {
            return Err(Trouble::Irregular);
        }
        let most = (1u32 << (frame.bits - shift)) - 1;
        let middle = 1 << (frame.bits - shift - 1);
        let codes: Option<Vec<_>> = parts.iter().map(|part| codes.dc.get(part.dc)?.as_ref()).collect();
        let Some(codes) = codes else { return Ok(None) };
        let behind = read_intervals(data, *interval, width * height, |mut bits, pixels| {
            // The bit reader returns endless zeros after the data. A difference takes at least one
            // bit.
            if pixels.len().checked_mul(parts.len())? > bits.length() {
                return None;
            }
            for at in pixels.clone() {
                let (x, is_first_row) = (at % width, at < pixels.start + width);
                for (part, code) in parts.iter().zip(&codes) {
                    let samples = &mut planes[part.component].samples;
                    let back = |count: usize| i32::from(samples[at - count]);
                    let predicted = match (is_first_row, x) {
                        (true, 0) => middle,
                        (true, _) => back(1),
                        (false, 0) => back(width),
                        (false, _) => predict(predictor, back(1), back(width), back(width + 1)),
                    };
                    bits.fill();
                    let difference = match code.take(&mut bits)? {
                        16 => 1 << 15,
                        size => read_value(&mut bits, size.into()),
                    };
                    // Differences are counted modulo 2^16 (H.1.2.1).
                    let sample = (predicted + difference) as u16;
                    samples[at] = Some(sample).filter(|&sample| u32::from(sample) <= most)?;
                }
            }
            Some(bits)
        });
        for part in parts {
            planes[part.component].samples.iter_mut().for_each(|sample| *sample <<= shift);
        }
        Ok(behind)
    }

    /// Reads a scan of blocks of coefficients.
    fn read_blocks<'b>(&mut self, parts: &[Part], data: &'b [u8]) -> Option<&'b [u8]> {
        let Self { frame: Some(frame), divisors, codes, interval, planes, .. } = self else { return None };
        let mut tables = Vec::new();
        for part in parts {
            let divisors = divisors.get(frame.components[part.component].table)?.as_ref()?;
            tables.push((
                natural(divisors),
                codes.dc.get(part.dc)?.as_ref()?,
                codes.ac.get(part.ac)?.as_ref()?,
            ));
        }
        let factors = |part: &Part| match parts.len() {
            1 => (1, 1),
            _ => {
                let factors = frame.components[part.component].factors;
                (usize::from(factors.horizontal), usize::from(factors.vertical))
            }
        };
        let (across, down) = match parts {
            [part] => {
                let (width, height) = planes[part.component].size;
                (width.div_ceil(BLOCK), height.div_ceil(BLOCK))
            }
            _ => frame.mcus(),
        };
        let blocks: usize = parts.iter().map(factors).map(|(across, down)| across * down).sum();
        if blocks > MAX_BLOCKS as usize {
            return None;
        }
        read_intervals(data, *interval, across * down, |mut bits, mcus| {
            // A block takes at least two bits.
            if mcus.len() * blocks > bits.length() / 2 {
                return None;
            }
            let mut before = [0i32; 4];
            for mcu in mcus {
                let (row, column) = (mcu / across, mcu % across);
                for ((part, (divisors, dc_code, ac_code)), dc) in parts.iter().zip(&tables).zip(&mut before) {
                    let (across, down) = factors(part);
                    for y in row * down..(row + 1) * down {
                        for x in column * across..(column + 1) * across {
                            bits.fill();
                            *dc = dc.checked_add(read_difference(&mut bits, dc_code)?)?;
                            let block = read_block(&mut bits, *dc, ac_code, divisors)?;
                            planes[part.component].put(x, y, &idct12::samples(&block));
                        }
                    }
                }
            }
            Some(bits)
        })
    }

    fn finish(self) -> Result<Planes, Trouble> {
        let frame = self.frame.filter(|_| self.had.iter().all(|&had| had)).ok_or(Trouble::Damaged)?;
        let (width, height) = (frame.width as usize, frame.height as usize);
        Ok(Planes { width, height, bits: frame.bits.into(), planes: self.planes })
    }
}

/// Returns the prediction from the samples to the left, above, and above to the left.
///
/// See T.81, table H.1.
fn predict(predictor: u8, left: i32, above: i32, corner: i32) -> i32 {
    match predictor {
        1 => left,
        2 => above,
        3 => corner,
        4 => left + above - corner,
        5 => left + ((above - corner) >> 1),
        6 => above + ((left - corner) >> 1),
        _ => (left + above) >> 1,
    }
}

/// Reads the AC coefficients of a block with a known DC coefficient.
///
/// Returns all in natural order, multiplied by their divisors.
fn read_block(
    bits: &mut BitReader<'_>,
    dc: i32,
    code: &super::huffman::Decoder,
    divisors: &QuantTable,
) -> Option<[i32; 64]> {
    /// The most bits of a value (T.81, table F.7).
    const MAX_BITS: u32 = 14;
    let mut block = [0; 64];
    let scaled = |value: i32, place: usize| value.checked_mul(i32::from(divisors[place]));
    block[0] = scaled(dc, 0)?;
    let mut next = 1;
    while next < 64 {
        bits.fill();
        let symbol = code.take(bits)?;
        match (usize::from(symbol >> 4), u32::from(symbol & 15)) {
            (0, 0) => break,
            (15, 0) => next += 16,
            (zeros, size @ 1..=MAX_BITS) => {
                next += zeros;
                let place = usize::from(*super::ZIGZAG.get(next)?);
                block[place] = scaled(read_value(bits, size), place)?;
                next += 1;
            }
            _ => return None,
        }
    }
    (next <= 64).then_some(block)
}

impl Samples {
    /// Copies a block into its place, unless that is beyond the component.
    fn put(&mut self, x: usize, y: usize, block: &[u16; 64]) {
        if x * BLOCK >= self.stride {
            return;
        }
        let rows = self.samples.chunks_exact_mut(self.stride).skip(y * BLOCK);
        for (row, samples) in rows.zip(block.chunks_exact(BLOCK)) {
            row[x * BLOCK..][..BLOCK].copy_from_slice(samples);
        }
    }

    fn row(&self, y: usize) -> &[u16] {
        &self.samples[y.min(self.size.1 - 1) * self.stride..][..self.size.0]
    }

    /// Writes a row of pixels of this component into every `step`th sample of `row`.
    ///
    /// Shared samples are smoothed as libjpeg does.
    fn spread(&self, y: usize, row: &mut [u16], step: usize) {
        let (across, down) = self.shared;
        let near = self.row(y / down);
        let is_upper = y.is_multiple_of(2);
        let far = if is_upper { self.row((y / down).saturating_sub(1)) } else { self.row(y / down + 1) };
        // Three quarters of the nearer row, and one of the other; in quarters.
        let mixed = |x: usize| 3 * u32::from(near[x]) + u32::from(far[x]);
        let last = near.len() - 1;
        let is_smoothed = near.len() > 2;
        for (x, to) in row.iter_mut().step_by(step).enumerate() {
            let at = x / across;
            // The nearer column, and the other one.
            let (beside, is_left) =
                if x % 2 == 0 { (at.saturating_sub(1), true) } else { ((at + 1).min(last), false) };
            *to = match (across, down) {
                (2, 1) if is_smoothed => {
                    let (own, other) = (u32::from(near[at]), u32::from(near[beside]));
                    (3 * own + other + if is_left { 1 } else { 2 }) >> 2
                }
                (2, 2) if is_smoothed => (3 * mixed(at) + mixed(beside) + if is_left { 8 } else { 7 }) >> 4,
                (1, 2) => (mixed(at) + if is_upper { 1 } else { 2 }) >> 2,
                _ => near[at].into(),
            } as u16;
        }
    }
}

impl Planes {
    pub(in crate::formats::jpeg) fn size(&self) -> (usize, usize, usize) {
        (self.width, self.height, self.planes.len())
    }

    /// Fills a row with the samples of pixels, converted from YCbCr to RGB if requested.
    pub(in crate::formats::jpeg) fn row(&self, y: usize, ycbcr: bool, row: &mut [u16]) {
        let count = self.planes.len();
        for (plane, first) in self.planes.iter().zip(0..) {
            plane.spread(y, &mut row[first..], count);
        }
        if ycbcr {
            row.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| *pixel = to_rgb(*pixel, self.bits));
        }
    }
}

/// Returns a factor times 2 to the power of 16.
const fn fixed(factor: f64) -> i64 {
    (factor * 65536.0 + 0.5) as i64
}

/// Converts a pixel as libjpeg does (JFIF).
fn to_rgb([y, cb, cr]: [u16; 3], bits: u32) -> [u16; 3] {
    const HALF: i64 = 1 << 15;
    let most = (1i64 << bits) - 1;
    let [y, cb, cr] = [i64::from(y), i64::from(cb) - (1 << (bits - 1)), i64::from(cr) - (1 << (bits - 1))];
    let red = y + ((fixed(1.402) * cr + HALF) >> 16);
    let green = y + ((-fixed(0.344_14) * cb - fixed(0.714_14) * cr + HALF) >> 16);
    let blue = y + ((fixed(1.772) * cb + HALF) >> 16);
    [red, green, blue].map(|level| level.clamp(0, most) as u16)
}
