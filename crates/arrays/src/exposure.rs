//! Exposure: tables that planes go through before the method.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::{Depth, Exposure, Strength};
use histeqd_kernels::GLOBAL16;

use crate::batch::{BatchPlanes, Counts};
use crate::kernels::Kernels;

/// Threads of a block of these kernels.
const THREADS: u32 = 1024;

/// The place of the tables of an exposure.
#[derive(Clone, Copy)]
pub(crate) struct ExposureTables {
    /// The address of the first table.
    pub(crate) at: Address,
    /// The address for the counts of exposed levels, 64 bits each; `None` if these are not needed.
    pub(crate) mapped: Option<Address>,
}

impl Kernels {
    /// Makes the tables of planes with these counts, each for the first `levels` levels.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn expose(
        &self,
        stream: &Stream,
        counts: Counts,
        planes: BatchPlanes,
        levels: u32,
        exposure: Exposure,
        to: ExposureTables,
    ) -> Result<()> {
        let name = match planes.depth {
            Depth::Eight => "expose8",
            Depth::Sixteen => "expose16",
        };
        let name = (name, if counts.are_wide { "_sums" } else { "_counts" });
        let (share, low, high) = (u32::from(exposure.share), exposure.ends.low, exposure.ends.high);
        let launch = Launch { grid: (planes.number as u32, 1, 1), block: (THREADS, 1, 1), shared: 0 };
        let (counts, tables, mapped) = (counts.at, to.at, to.mapped.unwrap_or(0));
        let arguments = arguments![counts, levels, share, low, high, tables, mapped];
        // SAFETY: the arguments match the parameters of expose*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, name, launch, arguments) }
    }

    /// Makes the LUTs of planes from exposure tables and `luts`, at this strength.
    ///
    /// A level goes through the table first, and then through the LUT.
    ///
    /// # Safety
    /// As [`Kernels::expose`].
    pub(crate) unsafe fn compose(
        &self,
        stream: &Stream,
        tables: Address,
        luts: Address,
        planes: BatchPlanes,
        strength: Strength,
        to: Address,
    ) -> Result<()> {
        let name = match planes.depth {
            Depth::Eight => "compose8",
            Depth::Sixteen => "compose16",
        };
        let strength = strength.in_thousandths();
        let launch = Launch { grid: (planes.number as u32, 1, 1), block: (THREADS, 1, 1), shared: 0 };
        let arguments = arguments![tables, luts, strength, to];
        // SAFETY: the arguments match the parameters of compose*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, (name, ""), launch, arguments) }
    }
}
