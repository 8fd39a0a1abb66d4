//! Writing a file; progressive ones are written here. The symbols of all scans are counted while the coefficients are computed, block by
//! block, so that every scan gets an optimal Huffman code.

use super::bits::BitWriter;
use super::coefficients::{Blocks, Coefficients};
use super::dct::Quantizer;
use super::huffman::{Encoder, coded};
use super::rows::Part;
use super::{ZIGZAG, band, leaf, write_sequential};
use crate::cores::Cores;
use crate::jpeg::PlaneSize;
use crate::jpeg::libjpeg::{BLOCK, Fault, Frame, QuantTable};
use crate::jpeg::markers::{APP0, DHT, DQT, DRI, EOI, SOF0, SOF1, SOF2, SOI, SOS, write_segment};

/// What a scan contains: the coefficients of one component from `first` to `last`. There is no successive approximation: refinement scans
/// would take longer than everything else together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    component: usize,
    first: u32,
    last: u32,
}

pub(super) const fn scan(component: usize, first: u32, last: u32) -> Scan {
    Scan { component, first, last }
}

/// The DC coefficients, the coarse luma detail, the chroma, and the fine luma detail in two scans: the last one is mostly empty, which
/// end-of-band runs say in a few bits.
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

/// The longest end-of-band run that one symbol can express.
const LONGEST_RUN: u32 = 0x7fff;

/// Encodes a picture to `out`, which is cleared first. Idle cores help with a sequential one.
pub(in crate::jpeg) fn write(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    parts: &[Part<'_>],
    cores: &Cores,
) -> Result<(), Fault> {
    let tables = frame.quant_tables()?;
    out.clear();
    let written = match frame.progressive {
        true => write_progressive(out, frame, &tables, parts),
        false => write_sequential::write(out, frame, &tables, parts, cores),
    };
    written.ok_or_else(Fault::out_of_memory)?;
    out.extend([0xff, EOI]);
    Ok(())
}

/// Writes a progressive picture. `None` if memory runs out.
fn write_progressive(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    tables: &[QuantTable],
    parts: &[Part<'_>],
) -> Option<()> {
    let interval = u32::from(frame.restart_interval);
    let mut scans: Vec<(Scan, Counter)> = SCANS
        .iter()
        .filter(|scan| scan.component < parts.len())
        .map(|scan| (*scan, Counter::starting(|_| 0)))
        .collect();
    let mut transformed = Vec::new();
    for (component, (part, table)) in parts.iter().zip(tables).enumerate() {
        let mut counts: Vec<(ScanSymbols, &mut Counter)> = scans
            .iter_mut()
            .filter(|(scan, _)| scan.component == component)
            .map(|(scan, counter)| (ScanSymbols::new(*scan, interval), counter))
            .collect();
        transformed.push(leaf::run(
            #[inline(always)]
            || count(part, table, &mut counts),
        )?);
        counts.iter_mut().for_each(|(symbols, counter)| symbols.finish(*counter));
    }

    write_header(out, frame, tables);
    for (scan, counter) in &scans {
        let code = Encoder::optimal(&counter.frequencies);
        let blocks = match (&parts[scan.component], &transformed[scan.component]) {
            (Part::Coefficients(all), _) => all.blocks(),
            (_, transformed) => transformed.as_ref().map_or(Blocks::default(), Coefficients::blocks),
        };
        write_scan(out, *scan, &code, blocks, interval);
    }
    Some(())
}

/// Counts the symbols in all scans of a component. If it is given as samples, transforms them, one row of blocks at a time, and returns
/// the coefficients. `None` if memory runs out.
#[inline(always)]
fn count(
    part: &Part<'_>,
    divisors: &QuantTable,
    counts: &mut [(ScanSymbols, &mut Counter)],
) -> Option<Option<Coefficients>> {
    let plane = match part {
        Part::Samples(plane) => plane,
        Part::Coefficients(all) => {
            tell_all(all.blocks(), counts);
            return Some(None);
        }
    };
    let mut all = Coefficients::with_room(PlaneSize { width: plane.width, rows: plane.rows })?;
    let quantizer = Quantizer::new(divisors);
    for band in plane.data.chunks(plane.width * BLOCK) {
        tell_all(all.transform(band, plane.width, &quantizer)?, counts);
    }
    Some(Some(all))
}

#[inline(always)]
fn tell_all(blocks: Blocks<'_>, counts: &mut [(ScanSymbols, &mut Counter)]) {
    for (symbols, counter) in counts {
        symbols.blocks(blocks, *counter);
    }
}

/// Writes everything that comes before the scans and their Huffman tables.
pub(super) fn write_header(out: &mut Vec<u8>, frame: &Frame<'_>, tables: &[QuantTable]) {
    out.extend([0xff, SOI]);
    if let Some(density) = frame.density {
        write_segment(out, APP0, &density.jfif());
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
    let wide = tables.iter().flatten().any(|&divisor| divisor > 255);
    let process = match (frame.progressive, wide) {
        (true, _) => SOF2,
        (false, true) => SOF1,
        (false, false) => SOF0,
    };
    write_segment(out, process, &header);
    if frame.restart_interval > 0 {
        write_segment(out, DRI, &frame.restart_interval.to_be_bytes());
    }
}

fn write_scan(out: &mut Vec<u8>, scan: Scan, code: &Encoder, blocks: Blocks<'_>, interval: u32) {
    let class = if scan.first == 0 { 0 } else { 0x10 };
    write_segment(out, DHT, &code.definition(class));
    write_segment(out, SOS, &[1, scan.component as u8 + 1, 0, scan.first as u8, scan.last as u8, 0]);
    leaf::run(
        #[inline(always)]
        || {
            let mut emitter = Emitter { bits: BitWriter::new(out), code };
            let mut symbols = ScanSymbols::new(scan, interval);
            symbols.blocks(blocks, &mut emitter);
            symbols.finish(&mut emitter);
            emitter.bits.flush();
        },
    );
}

/// Takes the symbols of a scan.
pub(super) trait Sink {
    /// Takes a symbol, and the `count` bits that follow its code.
    fn symbol(&mut self, symbol: u8, bits: u32, count: u32);
    /// Ends a restart interval.
    fn restart(&mut self);
}

/// Counts symbols.
pub(super) struct Counter {
    pub(super) frequencies: [u32; 256],
}

impl Counter {
    /// Makes a counter with a starting count for every symbol.
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

/// Writes symbols.
struct Emitter<'a> {
    bits: BitWriter<'a>,
    code: &'a Encoder,
}

impl Sink for Emitter<'_> {
    #[inline(always)]
    fn symbol(&mut self, symbol: u8, bits: u32, count: u32) {
        let (code, length) = self.code.code(symbol);
        self.bits.put(code << count | bits, length + count);
    }

    #[inline(always)]
    fn restart(&mut self) {
        self.bits.restart();
    }
}

/// Turns the blocks of a scan, in order, into symbols (T.81, G.1.2).
pub(super) struct ScanSymbols {
    scan: Scan,
    band: u64,
    /// The DC coefficient of the previous block.
    dc: i32,
    /// The length of the current end-of-band run, which has not gone to the sink yet.
    run: u32,
    interval: u32,
    /// Blocks until the next restart.
    left: u32,
}

impl ScanSymbols {
    pub(super) fn new(scan: Scan, interval: u32) -> Self {
        Self { scan, band: band(scan.first, scan.last), dc: 0, run: 0, interval, left: interval }
    }

    /// Passes the symbols of the next blocks to `sink`.
    #[inline(always)]
    fn blocks(&mut self, blocks: Blocks<'_>, sink: &mut impl Sink) {
        for (dc, nonzero, ac) in blocks {
            self.block(dc, nonzero, ac, sink);
        }
    }

    /// Passes the symbols of the next block to `sink`. `ac` are its nonzero AC coefficients.
    #[inline(always)]
    pub(super) fn block(&mut self, dc: i16, nonzero: u64, ac: &[i16], sink: &mut impl Sink) {
        if self.interval > 0 {
            self.count_interval(sink);
        }
        if self.scan.first == 0 {
            let (bits, size) = coded(i32::from(dc) - self.dc);
            sink.symbol(size as u8, bits, size);
            self.dc = i32::from(dc);
        } else {
            let before = nonzero & ((1 << self.scan.first) - 1);
            self.ac(nonzero & self.band, &ac[before.count_ones() as usize..], sink);
        }
    }

    /// Passes the symbols of AC coefficients to `sink`. `ac` may continue with values beyond those of the scan.
    #[inline(always)]
    fn ac(&mut self, mut which: u64, ac: &[i16], sink: &mut impl Sink) {
        if which != 0 {
            self.finish(sink);
            let mut next = self.scan.first;
            for value in ac {
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

    /// Passes the end-of-band run to `sink`, if there is one.
    #[inline(always)]
    pub(super) fn finish(&mut self, sink: &mut impl Sink) {
        if self.run > 0 {
            let size = self.run.ilog2();
            sink.symbol((size << 4) as u8, self.run - (1 << size), size);
            self.run = 0;
        }
    }

    #[inline(always)]
    fn count_interval(&mut self, sink: &mut impl Sink) {
        if self.left == 0 {
            self.finish(sink);
            sink.restart();
            self.dc = 0;
            self.left = self.interval;
        }
        self.left -= 1;
    }
}
