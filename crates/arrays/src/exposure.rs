//! Exposure: tables that planes go through before the method.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::{Depth, Exposure, Strength};
use histeqd_kernels::GLOBAL16;

use crate::kernels::Kernels;

/// Threads of a block of these kernels.
const THREADS: u32 = 1024;

impl Kernels {
    /// Makes the tables of `all` planes with these counts.
    ///
    /// Each table is for the first `number` levels. Unless `mapped` is 0, the counts of the tables'
    /// levels are stored there, 64 bits each. `counts` comes with a flag for 64 bits.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn expose(
        &self,
        stream: &Stream,
        (counts, wide): (Address, bool),
        (all, depth, number): (usize, Depth, u32),
        exposure: Exposure,
        (tables, mapped): (Address, Address),
    ) -> Result<()> {
        let name = match depth {
            Depth::Eight => "expose8",
            Depth::Sixteen => "expose16",
        };
        let name = (name, if wide { "_sums" } else { "_counts" });
        let (share, low, high) = (u32::from(exposure.share), exposure.ends.low, exposure.ends.high);
        let launch = Launch { grid: (all as u32, 1, 1), block: (THREADS, 1, 1), shared: 0 };
        let arguments = arguments![counts, number, share, low, high, tables, mapped];
        // SAFETY: the arguments match the parameters of expose*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, (&GLOBAL16, name), launch, arguments) }
    }

    /// Makes the LUTs of `all` planes from exposure tables and `luts`, at this strength.
    ///
    /// A level goes through the table first, and then through the LUT.
    ///
    /// # Safety
    /// As [`Kernels::expose`].
    pub(crate) unsafe fn compose(
        &self,
        stream: &Stream,
        (tables, luts): (Address, Address),
        (all, depth): (usize, Depth),
        strength: Strength,
        to: Address,
    ) -> Result<()> {
        let name = match depth {
            Depth::Eight => "compose8",
            Depth::Sixteen => "compose16",
        };
        let strength = strength.in_thousandths();
        let launch = Launch { grid: (all as u32, 1, 1), block: (THREADS, 1, 1), shared: 0 };
        let arguments = arguments![tables, luts, strength, to];
        // SAFETY: the arguments match the parameters of compose*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, (&GLOBAL16, (name, "")), launch, arguments) }
    }
}
