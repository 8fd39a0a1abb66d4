//! The symbols of a scan, and their sinks.

use super::band;
use super::coefficients::Blocks;
use super::huffman::coded;

/// The longest end-of-band run that one symbol can express.
const LONGEST_RUN: u32 = 0x7fff;

/// The content of a scan: the coefficients of one component from `first` to `last`.
///
/// There is no successive approximation: refinement scans would take longer than everything else
/// together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) component: usize,
    pub(super) first: u32,
    pub(super) last: u32,
}

pub(super) const fn scan(component: usize, first: u32, last: u32) -> Scan {
    Scan { component, first, last }
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
    pub(super) fn blocks(&mut self, blocks: Blocks<'_>, sink: &mut impl Sink) {
        for (dc, nonzero, ac) in blocks {
            self.block(dc, nonzero, ac, sink);
        }
    }

    /// Passes the symbols of the next block to `sink`.
    ///
    /// `ac` are its nonzero AC coefficients.
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

    /// Passes the symbols of AC coefficients to `sink`.
    ///
    /// `ac` may continue with values beyond those of the scan.
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
