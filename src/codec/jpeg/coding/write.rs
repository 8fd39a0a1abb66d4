//! A progressive file, written. The coefficients are counted while they are made, block by block; every scan then has the code that
//! suits it best.

use std::ops::Range;

use super::bits::BitWriter;
use super::huffman::Encoder;
use super::{ZIGZAG, band, dct, leaf, zeros};
use crate::codec::jpeg::libjpeg::{BLOCK, Fault, Frame, Plane, QuantTable};
use crate::codec::jpeg::markers::{APP0, DHT, DQT, DRI, Density, EOI, SOF2, SOI, SOS};

/// What a scan tells: some coefficients of one component. None of them is split by bits, since later refinements would take longer
/// than all else together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    component: usize,
    first: u32,
    last: u32,
}

pub(super) const fn scan(component: usize, first: u32, last: u32) -> Scan {
    Scan { component, first, last }
}

/// The mean values, the coarse detail, the chroma, the fine detail in two parts: the last of them is mostly empty, which a run of
/// blocks says in a few bits.
const SCANS: [Scan; 8] = [
    scan(0, 0, 0),
    scan(1, 0, 0),
    scan(2, 0, 0),
    scan(0, 1, 5),
    scan(2, 1, 63),
    scan(1, 1, 63),
    scan(0, 6, 20),
    scan(0, 21, 63),
];

/// The longest run of blocks with nothing to tell that a symbol can say.
const LONGEST_RUN: u32 = 0x7fff;

/// Encodes; `out` is cleared first.
pub(in crate::codec::jpeg) fn write(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    planes: &[Plane<&[u8]>],
) -> Result<(), Fault> {
    let tables = frame.quant_tables()?;
    let interval = u32::from(frame.restart_interval);
    let mut scans: Vec<(Scan, Counter)> = SCANS
        .iter()
        .filter(|scan| scan.component < planes.len())
        .map(|scan| (*scan, Counter::starting(|_| 0)))
        .collect();
    let mut coefficients = Vec::new();
    for (component, (plane, table)) in planes.iter().zip(&tables).enumerate() {
        let mut counted: Vec<(Walk, &mut Counter)> = scans
            .iter_mut()
            .filter(|(scan, _)| scan.component == component)
            .map(|(scan, counter)| (Walk::new(*scan, interval), counter))
            .collect();
        let quantizer = dct::Quantizer::new(table);
        let transformed = leaf::run(
            #[inline(always)]
            || Coefficients::of(plane, &quantizer, &mut counted),
        );
        coefficients.push(transformed.ok_or_else(Fault::out_of_memory)?);
        counted.iter_mut().for_each(|(walk, counter)| walk.finish(*counter));
    }

    out.clear();
    write_header(out, frame, &tables);
    for (scan, counter) in &scans {
        let code = Encoder::optimal(&counter.frequencies);
        write_scan(out, *scan, &code, &coefficients[scan.component], interval);
    }
    out.extend([0xff, EOI]);
    Ok(())
}

/// The coefficients of a component. Those that are not zero are next to each other, which is a fraction of all, so writing a scan
/// is quick to get at them.
struct Coefficients {
    means: Vec<i16>,
    /// For every block, bit `k` tells whether coefficient `k`, other than the mean, is not zero.
    nonzero: Vec<u64>,
    /// The coefficients that are not zero.
    details: Vec<i16>,
}

impl Coefficients {
    /// Transforms and quantizes a plane, row of blocks by row, and counts what scans will tell of it. `None` if memory runs out.
    #[inline(always)]
    fn of(
        plane: &Plane<&[u8]>,
        quantizer: &dct::Quantizer,
        scans: &mut [(Walk, &mut Counter)],
    ) -> Option<Self> {
        let (across, down) = (plane.width.div_ceil(BLOCK), plane.rows.div_ceil(BLOCK));
        let (means, nonzero) = (zeros(across * down)?, zeros(across * down)?);
        let mut all = Self { means, nonzero, details: Vec::new() };
        for (row, band) in plane.data.chunks(plane.width * BLOCK).enumerate() {
            let (blocks, first) = (row * across..(row + 1) * across, all.details.len());
            all.details.try_reserve(across * BLOCK * BLOCK).ok()?;
            for (i, block) in blocks.clone().enumerate() {
                let samples = samples(band, plane.width, i * BLOCK);
                (all.means[block], all.nonzero[block]) = dct::forward(&samples, quantizer, &mut all.details);
            }
            for (walk, counter) in &mut *scans {
                all.tell(blocks.clone(), &all.details[first..], walk, *counter);
            }
        }
        Some(all)
    }

    /// Tells a sink of some blocks, whose details are these.
    #[inline(always)]
    fn tell(&self, blocks: Range<usize>, mut details: &[i16], walk: &mut Walk, sink: &mut impl Sink) {
        for (mean, nonzero) in self.means[blocks.clone()].iter().zip(&self.nonzero[blocks]) {
            let (of_block, rest) = details.split_at(nonzero.count_ones() as usize);
            walk.block(*mean, *nonzero, of_block, sink);
            details = rest;
        }
    }
}

/// The samples of a block from a column of a band on. What lies beyond the band repeats its edge, which costs the fewest bits.
#[inline(always)]
pub(super) fn samples(band: &[u8], width: usize, x: usize) -> [[u8; BLOCK]; BLOCK] {
    if x + BLOCK <= width && band.len() == width * BLOCK {
        return std::array::from_fn(|y| *band[y * width + x..].first_chunk().expect("it is inside"));
    }
    let lowest = band.len() / width - 1;
    std::array::from_fn(|y| std::array::from_fn(|i| band[y.min(lowest) * width + (x + i).min(width - 1)]))
}

fn write_header(out: &mut Vec<u8>, frame: &Frame<'_>, tables: &[QuantTable]) {
    out.extend([0xff, SOI]);
    if let Some(Density { unit, x, y }) = frame.density {
        let ([x0, x1], [y0, y1]) = (x.to_be_bytes(), y.to_be_bytes());
        write_segment(out, APP0, &[b'J', b'F', b'I', b'F', 0, 1, 1, unit, x0, x1, y0, y1, 0, 0]);
    }
    for segment in &frame.segments {
        write_segment(out, segment.marker, segment.content);
    }
    // Components with equal tables share one.
    let number = |table: &QuantTable| tables.iter().position(|other| other == table).unwrap_or_default();
    for (i, table) in tables.iter().enumerate().filter(|(i, table)| number(table) == *i) {
        let divisors = ZIGZAG.iter().map(|&place| table[usize::from(place)]);
        let number = i as u8;
        let content: Vec<u8> = match divisors.clone().map(u8::try_from).collect::<Result<Vec<u8>, _>>() {
            Ok(bytes) => [&[number][..], &bytes].concat(),
            Err(_) => [0x10 | number].into_iter().chain(divisors.flat_map(u16::to_be_bytes)).collect(),
        };
        write_segment(out, DQT, &content);
    }
    let ([h0, h1], [w0, w1]) = ((frame.height as u16).to_be_bytes(), (frame.width as u16).to_be_bytes());
    let mut header = vec![8, h0, h1, w0, w1, tables.len() as u8];
    for (i, (factors, table)) in frame.components.iter().zip(tables).enumerate() {
        header.extend([i as u8 + 1, factors.horizontal << 4 | factors.vertical, number(table) as u8]);
    }
    write_segment(out, SOF2, &header);
    if frame.restart_interval > 0 {
        write_segment(out, DRI, &frame.restart_interval.to_be_bytes());
    }
}

fn write_segment(out: &mut Vec<u8>, marker: u8, content: &[u8]) {
    out.extend([0xff, marker]);
    out.extend((content.len() as u16 + 2).to_be_bytes());
    out.extend(content);
}

fn write_scan(out: &mut Vec<u8>, scan: Scan, code: &Encoder, coefficients: &Coefficients, interval: u32) {
    let (counts, symbols) = code.definition();
    let class = if scan.first == 0 { 0 } else { 0x10 };
    write_segment(out, DHT, &[&[class], &counts[..], symbols].concat());
    write_segment(out, SOS, &[1, scan.component as u8 + 1, 0, scan.first as u8, scan.last as u8, 0]);
    let mut emitter = Emitter { bits: BitWriter::new(out), code, restarts: 0 };
    let mut walk = Walk::new(scan, interval);
    let blocks = 0..coefficients.means.len();
    leaf::run(
        #[inline(always)]
        || coefficients.tell(blocks, &coefficients.details, &mut walk, &mut emitter),
    );
    walk.finish(&mut emitter);
    emitter.bits.flush();
}

/// Takes what a scan says.
pub(super) trait Sink {
    /// A symbol, and so many further bits.
    fn symbol(&mut self, symbol: u8, bits: u32, count: u32);
    /// The end of a restart interval.
    fn restart(&mut self);
}

/// Counts the symbols.
pub(super) struct Counter {
    pub(super) frequencies: [u32; 256],
}

impl Counter {
    /// Has seen every symbol so often already.
    pub(super) fn starting(often: impl Fn(u32) -> u32) -> Self {
        Self { frequencies: std::array::from_fn(|symbol| often(symbol as u32)) }
    }
}

impl Sink for Counter {
    #[inline(always)]
    fn symbol(&mut self, symbol: u8, _: u32, _: u32) {
        self.frequencies[usize::from(symbol)] += 1;
    }

    fn restart(&mut self) {}
}

/// Writes them.
struct Emitter<'a> {
    bits: BitWriter<'a>,
    code: &'a Encoder,
    restarts: u8,
}

impl Sink for Emitter<'_> {
    #[inline(always)]
    fn symbol(&mut self, symbol: u8, bits: u32, count: u32) {
        let (code, length) = self.code.code(symbol);
        self.bits.put(code << count | bits, length + count);
    }

    fn restart(&mut self) {
        self.bits.flush();
        self.bits.out.extend([0xff, 0xd0 + self.restarts]);
        self.restarts = (self.restarts + 1) % 8;
    }
}

/// A walk through the blocks of a scan in their order (T.81, G.1.2).
pub(super) struct Walk {
    scan: Scan,
    band: u64,
    /// The mean value before.
    mean: i32,
    /// Blocks that have had nothing more to tell, and are still to be told of.
    run: u32,
    interval: u32,
    /// Blocks until the restart.
    left: u32,
}

impl Walk {
    pub(super) fn new(scan: Scan, interval: u32) -> Self {
        Self { scan, band: band(scan.first, scan.last), mean: 0, run: 0, interval, left: interval }
    }

    /// Tells of the next block. `details` are those of its coefficients that are not zero.
    #[inline(always)]
    pub(super) fn block(&mut self, mean: i16, nonzero: u64, details: &[i16], sink: &mut impl Sink) {
        if self.interval > 0 {
            self.count_interval(sink);
        }
        if self.scan.first == 0 {
            let (bits, size) = coded(i32::from(mean) - self.mean);
            sink.symbol(size as u8, bits, size);
            self.mean = i32::from(mean);
        } else {
            let before = nonzero & ((1 << self.scan.first) - 1);
            self.details(nonzero & self.band, &details[before.count_ones() as usize..], sink);
        }
    }

    /// Tells of details, of which there may be more than are in the scan.
    #[inline(always)]
    fn details(&mut self, mut which: u64, details: &[i16], sink: &mut impl Sink) {
        if which != 0 {
            self.finish(sink);
            let mut next = self.scan.first;
            for value in details {
                let k = which.trailing_zeros();
                which &= which - 1;
                let mut zeros = k - next;
                while zeros > 15 {
                    sink.symbol(0xf0, 0, 0);
                    zeros -= 16;
                }
                let (bits, size) = coded(i32::from(*value));
                sink.symbol((zeros << 4 | size) as u8, bits, size);
                next = k + 1;
                if which == 0 {
                    break;
                }
            }
            if next > self.scan.last {
                return;
            }
        }
        self.run += 1;
        if self.run == LONGEST_RUN {
            self.finish(sink);
        }
    }

    /// Tells of the blocks that are still to be told of.
    #[inline(always)]
    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        if self.run > 0 {
            let size = self.run.ilog2();
            sink.symbol((size << 4) as u8, self.run - (1 << size), size);
            self.run = 0;
        }
    }

    fn count_interval(&mut self, sink: &mut impl Sink) {
        if self.left == 0 {
            self.finish(sink);
            sink.restart();
            self.mean = 0;
            self.left = self.interval;
        }
        self.left -= 1;
    }
}

/// A value's bits and how many they are (T.81, F.1.2.1).
#[inline(always)]
fn coded(value: i32) -> (u32, u32) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let bits = (value + (value >> 31)) as u32 & ((1 << size) - 1);
    (bits, size)
}
