//! Histogram equalization of pictures in memory, global or adaptive (CLAHE), in exact arithmetic: the same bytes on every processor.
//!
//! ```
//! use histeqd_equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize};
//!
//! let layout = Layout { width: 4, height: 1, pixel: Pixel::Gray, depth: Depth::Eight };
//! let mut scratch = Scratch::default();
//!
//! let mut pixels = [100, 101, 102, 103];
//! equalize(&mut pixels, &layout, &Operation::new(Method::Global), &mut scratch);
//! assert_eq!(pixels, [0, 85, 170, 255]);
//!
//! let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 2, y: 1 } };
//! equalize(&mut pixels, &layout, &Operation::new(Method::Clahe(clahe)), &mut scratch);
//! ```
//!
//! [`equalize`] is the whole of it; a [`Strength`] weakens what it does. Its parts are there for other implementations, which can match it
//! byte for byte: [`histogram`] counts, [`lut`] makes the look-up table, [`colour`] computes luma and applies its changes, [`clahe`] is the
//! adaptive method, whose clip limit is in [`clip`], and [`planes`] takes channels apart. [`count`] only counts, for colour histograms.
//!
//! There is no I/O, no thread and no C. With the feature `serde`, layouts and operations can be serialized.

mod bytes;
pub mod clahe;
pub mod clip;
pub mod colour;
pub mod count;
mod coverage;
pub mod histogram;
mod layout;
mod level;
pub mod lut;
pub mod planes;
mod portable;
mod sample;
#[doc(hidden)]
pub mod simd;
mod strength;

pub use clahe::{Clahe, Tiles};
pub use clip::ClipLimit;
use colour::Plane;
pub use coverage::is_narrow;
use histogram::{BLOCK, Counted, Tally};
pub use layout::{ByteOrder, ByteOrders, Depth, Layout, Pixel, swap_bytes};
pub use level::Level;
pub use sample::Sample;
pub use strength::Strength;

/// How contrast is enhanced.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Method {
    /// One LUT for the whole picture, from the histogram of the whole picture.
    Global,
    /// A LUT for each tile, contrast-limited, interpolated between the tiles.
    Clahe(Clahe),
}

/// How the samples of a picture are equalized. (Gray output needs no case of its own: the decoder then delivers gray.)
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Operation {
    /// How contrast is enhanced.
    pub method: Method,
    /// Whether each channel of a colour picture is equalized separately, instead of its luma.
    pub per_channel: bool,
    /// How far the levels go from the picture's own to the equalized ones.
    pub strength: Strength,
}

impl Operation {
    /// Returns an operation on the luma of a colour picture, at full strength.
    pub const fn new(method: Method) -> Self {
        Self { method, per_channel: false, strength: Strength::FULL }
    }
}

/// The buffers that [`equalize`] reuses from picture to picture. For global equalization their size is fixed; for CLAHE see
/// [`clahe::Geometry::scratch_bytes`].
#[derive(Default)]
pub struct Scratch {
    eight: Buffers<u8>,
    sixteen: Buffers<u16>,
}

/// The part of a [`Scratch`] for pictures of one depth.
pub struct Buffers<S> {
    /// Created for the first picture of this depth.
    tally: Option<Tally>,
    lut: Vec<S>,
    clahe: clahe::Buffers<S>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self { tally: None, lut: Vec::new(), clahe: clahe::Buffers::default() }
    }
}

/// Equalizes a picture in place.
///
/// Alpha is left as it is. The result depends on nothing but the arguments.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], or if it holds 16-bit samples at an odd address.
pub fn equalize(pixels: &mut [u8], layout: &Layout, operation: &Operation, scratch: &mut Scratch) {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    match layout.depth {
        Depth::Eight => equalize_samples::<u8>(pixels, layout, operation, scratch),
        Depth::Sixteen => {
            equalize_samples::<u16>(bytemuck::cast_slice_mut(pixels), layout, operation, scratch);
        }
    }
}

/// Equalizes one 8-bit gray plane globally, as [`equalize`] does.
pub fn equalize_gray8(samples: &mut [u8]) {
    global(samples, 0, Pixel::Gray, Plane::Channel(0), Strength::FULL, &mut Buffers::default());
}

fn equalize_samples<S: Sample>(
    samples: &mut [S],
    layout: &Layout,
    operation: &Operation,
    scratch: &mut Scratch,
) {
    let buffers = S::buffers(scratch);
    for &plane in Plane::to_equalize(layout.pixel, operation.per_channel) {
        match operation.method {
            Method::Global => {
                global(samples, layout.width as usize, layout.pixel, plane, operation.strength, buffers);
            }
            Method::Clahe(clahe) => {
                let tally = buffers.tally.get_or_insert_with(|| Tally::new(S::LEVELS));
                let what = (&clahe, operation.strength);
                clahe::equalize(samples, layout, plane, what, &mut buffers.clahe, tally);
            }
        }
    }
}

/// Equalizes one plane globally. `samples` are whole rows of `width` pixels, or any number of pixels if `width` is 0.
fn global<S: Sample>(
    samples: &mut [S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
    strength: Strength,
    buffers: &mut Buffers<S>,
) {
    let tally = buffers.tally.get_or_insert_with(|| Tally::new(S::LEVELS));
    tally.clear();
    histogram::add_plane(samples, width, pixel, plane, Counted::Visible, tally);
    buffers.lut.resize(S::LEVELS, S::zeroed());
    lut::fill(tally.counts(), &mut buffers.lut);
    strength.weaken_lut(&mut buffers.lut);
    map_plane(samples, pixel, plane, &buffers.lut);
}

/// Applies a LUT to one plane of interleaved samples.
fn map_plane<S: Sample>(samples: &mut [S], pixel: Pixel, plane: Plane, lut: &[S]) {
    if pixel == Pixel::Gray {
        return S::map(samples, lut);
    }
    let mut before = [S::zeroed(); BLOCK];
    let mut after = [S::zeroed(); BLOCK];
    for block in samples.chunks_mut(BLOCK * pixel.channels()) {
        let length = block.len() / pixel.channels();
        colour::read(block, pixel, plane, &mut before[..length]);
        after[..length].copy_from_slice(&before[..length]);
        S::map(&mut after[..length], lut);
        colour::write(block, pixel, plane, &before[..length], &after[..length]);
    }
}
