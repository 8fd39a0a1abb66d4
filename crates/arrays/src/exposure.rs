//! Exposure: tables that planes go through before the method.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::{Depth, Exposure, Strength};
use histeqd_kernels::GLOBAL16;

use crate::kernels::Kernels;

/// Threads of a block of these kernels.
const THREADS: u32 = 1024;

impl Kernels {
    /// Makes the tables of `all` planes with these counts, of the first `number` levels, and unless it is 0, at `mapped` the counts of the levels that
    /// they give, 64 bits each. `counts`: and whether they have 64 bits.
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
        // SAFETY: the arguments match the parameters of expose*; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&GLOBAL16, name), launch, arguments) }
    }

    /// Makes the LUTs of `all` planes that lead through these tables and then through `luts`, at this strength.
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
        // SAFETY: the arguments match the parameters of compose*; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&GLOBAL16, (name, "")), launch, arguments) }
    }
}
