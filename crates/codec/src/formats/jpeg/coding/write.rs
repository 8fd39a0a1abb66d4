//! Writing a file; progressive ones are written here.
//!
//! The symbols of all scans are counted while the coefficients are computed, block by block, which
//! gives every scan an optimal Huffman code.

use super::bits::BitWriter;
use super::coefficients::{Blocks, Coefficients};
use super::dct::Quantizer;
use super::header::write_header;
use super::huffman::Encoder;
use super::rows::Part;
use super::symbols::{Counter, Scan, ScanSymbols, Sink, scan};
use super::{vectorized, write_sequential};
use crate::formats::jpeg::libjpeg::{Fault, Frame, QuantTable};
use crate::formats::jpeg::markers::{DHT, EOI, SOS, write_segment};
use crate::formats::jpeg::{BLOCK, PlaneSize};
use crate::io::cores::Cores;

/// The scans of a progressive picture.
///
/// They are the DC coefficients, the coarse luma detail, the chroma, and the fine luma detail in
/// two scans: the last one is mostly empty, which end-of-band runs express in a few bits.
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

/// Encodes a picture to `out`, which is cleared first.
///
/// Idle cores help with a sequential one.
pub(in crate::formats::jpeg) fn write(
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

/// Writes a progressive picture.
///
/// `None` if memory runs out.
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
        let mut counts: Vec<Counting<'_>> = scans
            .iter_mut()
            .filter(|(scan, _)| scan.component == component)
            .map(|(scan, counter)| Counting { symbols: ScanSymbols::new(*scan, interval), counter })
            .collect();
        transformed.push(vectorized::run(
            #[inline(always)]
            || count(part, table, &mut counts),
        )?);
        counts.iter_mut().for_each(|scan| scan.symbols.finish(scan.counter));
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

/// The counts of the symbols of a scan.
struct Counting<'c> {
    symbols: ScanSymbols,
    counter: &'c mut Counter,
}

/// Counts the symbols in all scans of a component.
///
/// Samples are transformed, one row of blocks at a time, and their coefficients are returned.
/// `None` if memory runs out.
#[inline(always)]
fn count(
    part: &Part<'_>,
    divisors: &QuantTable,
    counts: &mut [Counting<'_>],
) -> Option<Option<Coefficients>> {
    let plane = match part {
        Part::Samples(plane) => plane,
        Part::Coefficients(all) => {
            count_in_all(all.blocks(), counts);
            return Some(None);
        }
    };
    let mut all = Coefficients::with_room(PlaneSize { width: plane.width, rows: plane.rows })?;
    let quantizer = Quantizer::new(divisors);
    for band in plane.data.chunks(plane.width * BLOCK) {
        count_in_all(all.transform(band, plane.width, &quantizer)?, counts);
    }
    Some(Some(all))
}

#[inline(always)]
fn count_in_all(blocks: Blocks<'_>, counts: &mut [Counting<'_>]) {
    for Counting { symbols, counter } in counts {
        symbols.blocks(blocks, *counter);
    }
}

fn write_scan(out: &mut Vec<u8>, scan: Scan, code: &Encoder, blocks: Blocks<'_>, interval: u32) {
    let class = if scan.first == 0 { 0 } else { 0x10 };
    write_segment(out, DHT, &code.definition(class));
    write_segment(out, SOS, &[1, scan.component as u8 + 1, 0, scan.first as u8, scan.last as u8, 0]);
    vectorized::run(
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
