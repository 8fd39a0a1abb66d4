//! The ladder: its sections and rungs, roughly in the order in which these methods were developed.

mod apply;
mod ceilings;
mod channels;
mod clahe;
mod cpu;
mod histogram;
mod lanes;
mod transfer;

use super::gpu::Gpu;
use super::measure::{Measured, Result};
use super::picture::TestPicture;

/// A section of the ladder: rungs that compute the same thing.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// The task of all of its rungs.
    pub(super) about: &'static str,
    pub(super) rungs: &'static [Rung],
}

/// A rung: one way of doing its section's task.
pub(super) struct Rung {
    pub(super) name: &'static str,
    /// The rung's way, in a sentence.
    pub(super) shows: &'static str,
    pub(super) run: Run,
}

/// The devices of a rung, and the function that measures it.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Cpu(fn(&TestPicture) -> Result<Measured>),
    Gpu(fn(&TestPicture, &Gpu) -> Result<Measured>),
    TwoGpus(fn(&TestPicture, &Gpu, &Gpu) -> Result<Measured>),
}

const fn rung(name: &'static str, run: Run, shows: &'static str) -> Rung {
    Rung { name, shows, run }
}

/// All sections of the ladder.
pub(super) const LADDER: &[Section] = &[
    Section {
        title: "Ceilings",
        about: "What no rung can beat: the picture is moved, and nothing is done to it.",
        rungs: &[
            rung(
                "device copy",
                Run::Gpu(ceilings::device_copy),
                "The picture is copied within the GPU's memory, read once and written once.",
            ),
            rung(
                "upload, pinned",
                Run::Gpu(ceilings::upload),
                "The picture goes from pinned host memory to the GPU.",
            ),
            rung(
                "download, pinned",
                Run::Gpu(ceilings::download),
                "The picture goes from the GPU to pinned host memory.",
            ),
            rung(
                "both at once",
                Run::Gpu(ceilings::both_ways),
                "One picture goes up while another comes down, on two streams.",
            ),
        ],
    },
    Section {
        title: "Histogram",
        about: "The 256 counts of the gray picture.",
        rungs: &[
            rung(
                "CPU, scalar loop",
                Run::Cpu(cpu::histogram),
                "One thread adds to one table, pixel by pixel.",
            ),
            rung(
                "histeqd, one CPU thread",
                Run::Cpu(cpu::own_histogram),
                "One thread counts bits in vectors where AVX-512 can do that, else pairs of neighbours.",
            ),
            rung(
                "global atomics",
                Run::Gpu(histogram::global),
                "A thread a pixel, and every pixel is an atomic addition in global memory.",
            ),
            rung(
                "shared, one a block",
                Run::Gpu(histogram::shared),
                "A thread a pixel; each block counts in its shared memory and adds that to global memory once.",
            ),
            rung(
                "shared, strided",
                Run::Gpu(histogram::strided),
                "The same with few blocks, whose threads go on through the whole picture.",
            ),
            rung(
                "shared, one a warp",
                Run::Gpu(histogram::replicated),
                "The same with a histogram for every warp of a block, so that fewer threads meet in one count.",
            ),
            rung(
                "histeqd",
                Run::Gpu(histogram::own),
                "16 bytes a load, and 32 copies of the histogram interleaved so that no two lanes of a warp share a bank.",
            ),
        ],
    },
    Section {
        title: "Applying the LUT",
        about: "The gray picture through a LUT that is there already.",
        rungs: &[
            rung("CPU, scalar loop", Run::Cpu(cpu::apply), "One thread looks up pixel by pixel."),
            rung(
                "LUT in global memory",
                Run::Gpu(apply::global),
                "A thread a pixel, each of which reads its entry from global memory.",
            ),
            rung(
                "LUT in shared memory",
                Run::Gpu(apply::shared),
                "Each block copies the LUT to its shared memory first.",
            ),
            rung(
                "LUT in constant memory",
                Run::Gpu(apply::constant),
                "Constant memory serves a warp at once only where all its threads want the same entry.",
            ),
            rung(
                "LUT in a texture",
                Run::Gpu(apply::texture),
                "Entries come through the texture unit and its cache.",
            ),
            rung(
                "histeqd",
                Run::Gpu(apply::own),
                "16 bytes a thread at a time, in place, the LUT in shared memory.",
            ),
        ],
    },
    Section {
        title: "Equalization",
        about: "Histogram, LUT and result of the gray picture; published kernels are the strided one and the LUT in shared memory.",
        rungs: &[
            rung("CPU, scalar loop", Run::Cpu(cpu::equalization), "One thread, one table, pixel by pixel."),
            rung(
                "histeqd, one CPU thread",
                Run::Cpu(cpu::own_equalization),
                "What one of histeqd's CPU lanes does.",
            ),
            rung(
                "LUT made on the host",
                Run::Gpu(transfer::host_lut),
                "The counts come back, the host makes the LUT and sends it: the GPU waits twice for the bus.",
            ),
            rung(
                "pageable memory",
                Run::Gpu(transfer::pageable),
                "All on the GPU, from ordinary host memory, which the driver copies through a pinned buffer of its own.",
            ),
            rung(
                "pinned memory, one stream",
                Run::Gpu(transfer::pinned),
                "The same from pinned host memory, which the GPU reads by itself: upload, kernels, download.",
            ),
            rung(
                "pinned memory, two streams",
                Run::Gpu(transfer::two_streams),
                "Each half of the picture has a stream; both wait for each other at the LUT.",
            ),
            rung(
                "mapped memory (zero-copy)",
                Run::Gpu(transfer::mapped),
                "The kernels reach over the bus into the host's memory, and read the picture there twice.",
            ),
            rung(
                "managed memory",
                Run::Gpu(transfer::managed),
                "The driver moves each page to whoever touches it, when it is touched.",
            ),
            rung(
                "histeqd, one lane",
                Run::Gpu(lanes::one),
                "Two kernels: counts in shared memory, then each block makes the LUT and sends its pixels through; in place, from a pinned slot.",
            ),
            rung(
                "histeqd, four lanes",
                Run::Gpu(lanes::four),
                "Four pictures at a time, as in a batch, so that uploads, kernels and downloads overlap; the time is one picture's share.",
            ),
        ],
    },
    Section {
        title: "CLAHE",
        about: "8 x 8 tiles, clip limit 2, of the gray picture.",
        rungs: &[
            rung(
                "histeqd, one CPU thread",
                Run::Cpu(cpu::own_clahe),
                "What one of histeqd's CPU lanes does.",
            ),
            rung(
                "tile LUTs made on the host",
                Run::Gpu(clahe::host_luts),
                "A block a tile counts; the host clips and makes the LUTs; a second kernel interpolates.",
            ),
            rung(
                "one kernel to the LUTs, texture",
                Run::Gpu(clahe::texture),
                "A block a tile counts, clips and makes the LUT; a second kernel interpolates between entries from a texture.",
            ),
            rung(
                "interpolated by the texture unit",
                Run::Gpu(clahe::filtered),
                "The same, but the texture unit interpolates, whose weights of 9 bits make some pixels come out otherwise.",
            ),
            rung(
                "histeqd",
                Run::Gpu(clahe::own),
                "Several blocks a tile; the four LUTs around a cell side by side in shared memory.",
            ),
        ],
    },
    Section {
        title: "Histograms of R, G and B",
        about: "256 counts a channel of the picture in colour.",
        rungs: &[
            rung(
                "CPU, scalar loop",
                Run::Cpu(cpu::channels),
                "One thread adds to three tables, pixel by pixel.",
            ),
            rung(
                "partial histograms, one GPU",
                Run::Gpu(channels::one_gpu),
                "Each block counts in global memory of its own, and a second kernel adds up.",
            ),
            rung(
                "partial histograms, two GPUs",
                Run::TwoGpus(channels::two_gpus),
                "Each GPU gets the whole picture for its share of the channels, and the host waits for one before it turns to the other.",
            ),
            rung(
                "histeqd",
                Run::Gpu(channels::own),
                "One pass over the picture for all three, counted in shared memory.",
            ),
        ],
    },
];
