//! The launches that decode the entropy-coded data of JPEGs. See `kernels/jpeg_decode.cu`.

use std::ffi::c_void;

use bytemuck::{Pod, Zeroable};

use super::jpeg_codes::{Codes, MAX_CODES, PIECE, packed};
use super::{Kernels, Launch, arguments};
use crate::gpu::driver::{Address, Result, Stream};
use codec::baseline::BaselinePicture;
use histeqd_kernels::JPEG_DECODE;

/// Threads per block of the kernels that walk pieces. `THREADS` there.
const THREADS: u32 = 256;

/// Blocks that look for the end of a picture's data.
const SEEKING: u32 = 64;

/// Threads per block of the kernels that add up.
pub(super) const ADDING: u32 = 1024;

/// The number of launches for walks to synchronize.
///
/// After the first, a block of threads walks again only if its predecessor ended elsewhere than it
/// began.
const ROUNDS: u32 = 5;

pub(super) const MAX_COMPONENTS: usize = 3;

/// Mirrors `Component` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Component {
    across: u32,
    down: u32,
    mcu_across: u32,
    mcu_down: u32,
    first: u32,
}

/// A restart interval. Mirrors `Interval` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Interval {
    start: u32,
    end: u32,
    first_piece: u32,
}

/// The result of decoding a picture. Mirrors `Finding` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
pub struct Finding {
    faults: u32,
    intervals: u32,
}

/// The places of a picture's memory. Mirrors the first fields of `Picture` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Places {
    pub data: Address,
    pub intervals: Address,
    pub steps: Address,
    pub starts: Address,
    pub ends: Address,
    pub counts: Address,
    pub before: Address,
    pub coefficients: Address,
    pub dc: Address,
    pub finding: Address,
}

impl Places {
    /// Returns all places so many bytes further on.
    pub fn moved(self, by: u64) -> Self {
        let all: [Address; 10] = bytemuck::cast(self);
        bytemuck::cast(all.map(|at| at + by))
    }
}

/// Mirrors `Picture` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Picture {
    pub at: Places,
    number_of_intervals: u32,
    interval_mcus: u32,
    pieces: u32,
    mcus_across: u32,
    mcus: u32,
    mcu_blocks: u32,
    of_block: u64,
    bytes: u32,
    unused: u32,
    components: u32,
    component: [Component; MAX_COMPONENTS],
    codes: Codes,
}

const _: () = assert!(size_of::<Picture>() == 2568, "as the kernels say");

impl Picture {
    /// Describes a picture, still without places, and adds its intervals to `all`.
    ///
    /// `None` if it is for the CPU.
    pub fn new(picture: &BaselinePicture<'_>, all: &mut Vec<Interval>) -> Option<Self> {
        // Positions are counted in bits.
        let bytes = u32::try_from(picture.data.len()).ok().filter(|bytes| *bytes < u32::MAX / 16)?;
        let mut of_block = Vec::new();
        let mut codes = Vec::new();
        let mut component = [Component::zeroed(); MAX_COMPONENTS];
        for (number, one) in picture.components.iter().enumerate() {
            let (mcu_across, mcu_down) = one.in_mcu;
            *component.get_mut(number)? = Component {
                across: one.blocks.0 as u32,
                down: one.blocks.1 as u32,
                mcu_across: mcu_across as u32,
                mcu_down: mcu_down as u32,
                first: of_block.len() as u32,
            };
            for _ in 0..mcu_across * mcu_down {
                of_block.push(number);
                codes.push([one.dc(), one.ac()]);
            }
        }
        let mcus = picture.mcus.0 * picture.mcus.1;
        u32::try_from(mcus * of_block.len()).ok()?;
        let codes = Codes::new(&codes)?;
        let known = &picture.intervals;
        if known.iter().any(std::ops::Range::is_empty) {
            return None;
        }
        let mut pieces = 0;
        let all_data = std::iter::once(0..picture.data.len());
        for interval in known.iter().cloned().chain(all_data.filter(|_| known.is_empty())) {
            let (start, end) = (interval.start as u32, interval.end as u32);
            all.push(Interval { start, end, first_piece: pieces });
            pieces += (end - start).div_ceil(PIECE);
        }
        Some(Self {
            at: Places::zeroed(),
            number_of_intervals: known.len().max(1) as u32,
            interval_mcus: picture.interval as u32,
            pieces,
            mcus_across: picture.mcus.0 as u32,
            mcus: mcus as u32,
            mcu_blocks: of_block.len() as u32,
            of_block: packed(&of_block),
            bytes: if known.is_empty() { bytes } else { 0 },
            unused: 0,
            components: picture.components.len() as u32,
            component,
            codes,
        })
    }

    /// Returns the number of its restart intervals.
    pub const fn intervals(&self) -> u64 {
        self.number_of_intervals as u64
    }

    /// Returns the number of its pieces at most.
    pub const fn pieces(&self) -> u64 {
        self.pieces as u64
    }

    /// Returns the number of its blocks, including those of MCUs that extend beyond it.
    pub const fn blocks(&self) -> u64 {
        self.mcus as u64 * self.mcu_blocks as u64
    }

    /// Returns the number of its MCUs.
    pub const fn mcus(&self) -> u64 {
        self.mcus as u64
    }

    /// Returns the number of blocks of its first component.
    pub const fn first_blocks(&self) -> u64 {
        self.mcus as u64 * self.component[0].mcu_across as u64 * self.component[0].mcu_down as u64
    }

    /// Returns the number of blocks in a restart interval.
    pub const fn interval_blocks(&self) -> u32 {
        self.interval_mcus * self.mcu_blocks
    }

    /// Returns the number of rows of blocks in its first component, the highest of all.
    pub const fn rows(&self) -> u32 {
        self.component[0].down
    }

    /// Returns whether it has been decoded without a fault.
    pub const fn is_whole(&self, found: Finding) -> bool {
        found.faults == 0 && found.intervals == self.number_of_intervals
    }
}

impl Kernels {
    /// Decodes pictures; their descriptions are also at `at`.
    ///
    /// # Safety
    /// Only this stream may use the pictures' places until it is done. They must be as large as the
    /// pictures require, hold data and intervals, and be zero for findings and coefficients.
    pub unsafe fn decode_jpegs(&self, stream: &Stream, pictures: &[Picture], at: Address) -> Result<()> {
        let Some(most) = pictures.iter().map(|picture| picture.pieces).max() else { return Ok(()) };
        let number = pictures.len() as u32;
        let walking = Launch { grid: (most.div_ceil(THREADS), number, 1), block: (THREADS, 1, 1), shared: 0 };
        let adding = |grid| Launch { grid, block: (ADDING, 1, 1), shared: 0 };
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe {
            let run = |name, launch, arguments: &mut [*mut c_void]| {
                self.loaded().launch(stream, &JPEG_DECODE, (name, ""), launch, arguments)
            };
            let seeking = Launch { grid: (SEEKING, number, 1), ..walking };
            run("jpeg_ends", seeking, arguments![at])?;
            let making = Launch { grid: (MAX_CODES as u32, number, 1), ..walking };
            run("jpeg_steps", making, arguments![at])?;
            for round in 0..ROUNDS {
                run("jpeg_synchronize", walking, arguments![at, round])?;
            }
            run("jpeg_number", adding((number, 1, 1)), arguments![at])?;
            run("jpeg_coefficients", walking, arguments![at])?;
            let grid = (MAX_COMPONENTS as u32, number, 1);
            run("jpeg_dc", adding(grid), arguments![at])
        }
    }
}
