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
//! [`equalize`] is the whole of it; a [`Strength`] weakens what it does. [`apply`] sends pictures through LUTs that were made of other counts,
//! such as those of a whole series. Its parts are there for other implementations, which can match it
//! byte for byte: [`histogram`] counts, [`lut`] makes the look-up tables, [`colour`] computes luma and applies its changes, [`clahe`] is the
//! adaptive method, whose clip limit is in [`clip`], and [`planes`] takes channels apart. [`count`] only counts, for colour histograms.
//!
//! There is no I/O, no thread and no C. With the feature `serde`, layouts and operations can be serialized.

mod byte_order;
mod bytes;
pub mod clahe;
pub mod clip;
pub mod colour;
pub mod count;
mod coverage;
pub mod histogram;
mod layout;
mod level;
mod levels;
pub mod lut;
pub mod planes;
mod portable;
mod sample;
#[doc(hidden)]
pub mod simd;
mod strength;

pub use byte_order::{ByteOrder, ByteOrders, swap_bytes};
use clahe::Stripe;
pub use clahe::{Clahe, Tiles};
pub use clip::ClipLimit;
use colour::Plane;
pub use coverage::is_narrow;
use histogram::{BLOCK, Counted, Tally};
pub use layout::{Depth, Layout, Pixel};
pub use level::Level;
pub use levels::Levels;
pub use lut::Stretch;
use lut::{Rule, of_plane};
pub use sample::Sample;
pub use strength::Strength;

/// How contrast is enhanced.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Method {
    /// One LUT for the whole picture, from the histogram of the whole picture.
    Global,
    /// One LUT for the whole picture, which spreads the levels between two percentiles over the whole range.
    Stretch(Stretch),
    /// One LUT for the whole picture, which makes its histogram like that of a reference.
    Match,
    /// A LUT for each tile, contrast-limited, interpolated between the tiles.
    Clahe(Clahe),
}

impl Method {
    /// Returns the rule for the LUT of a plane; `None` if the method has more than one LUT for a plane. `reference` has the counts of the
    /// reference for this plane, if there is one.
    pub const fn rule(self, reference: &[u64]) -> Option<Rule<'_>> {
        match self {
            Self::Global => Some(Rule::Equalize),
            Self::Stretch(stretch) => Some(Rule::Stretch(stretch)),
            Self::Match => Some(Rule::Match(reference)),
            Self::Clahe(_) => None,
        }
    }

    /// Returns whether the method has a reference, whose counts [`equalize_like`] takes.
    pub const fn has_reference(self) -> bool {
        matches!(self, Self::Match)
    }
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
    /// How many levels there are, before and after. No sample may be above them.
    pub levels: Levels,
}

impl Operation {
    /// Returns an operation on the luma of a colour picture, at full strength, with all levels.
    pub const fn new(method: Method) -> Self {
        Self { method, per_channel: false, strength: Strength::FULL, levels: Levels::All }
    }

    /// Returns whether colours may go beyond the highest level with their luma, so that they have to be clamped ([`Levels::clamp`]).
    pub const fn may_exceed_levels(&self, layout: &Layout) -> bool {
        !self.per_channel && layout.pixel.colour_channels() > 1 && self.levels.are_fewer(layout.depth)
    }

    /// Returns the number of planes that are equalized, each separately.
    pub const fn planes(&self, pixel: Pixel) -> usize {
        Plane::to_equalize(pixel, self.per_channel).len()
    }

    /// Returns the number of counts of the reference that a picture needs: one per level for each plane that is equalized, if the method has
    /// a reference.
    pub const fn reference_length(&self, layout: &Layout) -> usize {
        let planes = if self.method.has_reference() { self.planes(layout.pixel) } else { 0 };
        planes * layout.depth.levels()
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
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd address, or if the method is
/// [`Method::Match`], which is for [`equalize_like`].
pub fn equalize(pixels: &mut [u8], layout: &Layout, operation: &Operation, scratch: &mut Scratch) {
    equalize_like(pixels, layout, operation, &[], scratch);
}

/// Equalizes a picture in place, as [`equalize`] does. `reference` holds [`Operation::reference_length`] counts, for one plane after another.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd address, or if the length of `reference` is
/// another.
pub fn equalize_like(
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    reference: &[u64],
    scratch: &mut Scratch,
) {
    assert_eq!(reference.len(), operation.reference_length(layout), "the counts of a reference");
    equalize_bytes(pixels, layout, operation, (reference, None), scratch);
}

/// Equalizes the rows of a stripe of a picture in place by CLAHE, as [`equalize`] does. The rows that it needs ([`Stripe::needed`]) must be
/// those of the picture, and what the others hold afterwards is not specified: several stripes are equalized in a copy each.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd address, or if the method is not
/// [`Method::Clahe`].
pub fn equalize_stripe(
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    stripe: &Stripe,
    scratch: &mut Scratch,
) {
    assert!(matches!(operation.method, Method::Clahe(_)), "only CLAHE has stripes");
    equalize_bytes(pixels, layout, operation, (&[], Some(stripe)), scratch);
}

fn equalize_bytes(
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    (reference, stripe): (&[u64], Option<&Stripe>),
    scratch: &mut Scratch,
) {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    match layout.depth {
        Depth::Eight => equalize_samples::<u8>(pixels, layout, operation, (reference, stripe), scratch),
        Depth::Sixteen => {
            let samples = bytemuck::cast_slice_mut(pixels);
            equalize_samples::<u16>(samples, layout, operation, (reference, stripe), scratch);
        }
    }
    if operation.may_exceed_levels(layout) {
        operation.levels.clamp(pixels, layout, ByteOrder::Native);
    }
}

/// Sends a picture through LUTs in place: one for each plane that is equalized, in the order of [`Plane::to_equalize`], each with one entry per
/// level, as long as a sample. [`lut::fill`] makes such LUTs. Alpha is left as it is; a new luma changes colours as in [`equalize`].
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if there are more or fewer LUTs, or if either holds 16-bit values at an odd address.
pub fn apply(pixels: &mut [u8], layout: &Layout, per_channel: bool, luts: &[u8]) {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    match layout.depth {
        Depth::Eight => apply_samples(pixels, layout.pixel, per_channel, luts),
        Depth::Sixteen => {
            let samples: &mut [u16] = bytemuck::cast_slice_mut(pixels);
            apply_samples(samples, layout.pixel, per_channel, bytemuck::cast_slice(luts));
        }
    }
}

fn apply_samples<S: Sample>(samples: &mut [S], pixel: Pixel, per_channel: bool, luts: &[S]) {
    let planes = Plane::to_equalize(pixel, per_channel);
    assert_eq!(luts.len(), planes.len() * S::LEVELS, "a LUT for each plane");
    for (&plane, lut) in planes.iter().zip(luts.chunks(S::LEVELS)) {
        map_plane(samples, pixel, plane, lut);
    }
}

/// Equalizes one 8-bit gray plane globally, as [`equalize`] does.
pub fn equalize_gray8(samples: &mut [u8]) {
    let how = (Rule::Equalize, Strength::FULL, u8::LEVELS);
    through_lut(samples, 0, Pixel::Gray, Plane::Channel(0), how, &mut Buffers::default());
}

fn equalize_samples<S: Sample>(
    samples: &mut [S],
    layout: &Layout,
    operation: &Operation,
    (reference, stripe): (&[u64], Option<&Stripe>),
    scratch: &mut Scratch,
) {
    let buffers = S::buffers(scratch);
    let planes = Plane::to_equalize(layout.pixel, operation.per_channel);
    let levels = operation.levels.number(layout.depth);
    for (number, &plane) in planes.iter().enumerate() {
        if let Method::Clahe(clahe) = operation.method {
            let tally = buffers.tally.get_or_insert_with(|| Tally::new(S::LEVELS));
            let what = (&clahe, operation.strength, operation.levels);
            clahe::equalize(samples, layout, (plane, stripe), what, &mut buffers.clahe, tally);
        }
        if let Some(rule) = operation.method.rule(of_plane::<S>(reference, number)) {
            let how = (rule, operation.strength, levels);
            through_lut(samples, layout.width as usize, layout.pixel, plane, how, buffers);
        }
    }
}

/// Sends one plane through the LUT that follows from its counts. `samples` are whole rows of `width` pixels, or any number of pixels if `width`
/// is 0.
fn through_lut<S: Sample>(
    samples: &mut [S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
    (rule, strength, levels): (Rule<'_>, Strength, usize),
    buffers: &mut Buffers<S>,
) {
    let tally = buffers.tally.get_or_insert_with(|| Tally::new(S::LEVELS));
    tally.clear();
    histogram::add_plane(samples, width, pixel, plane, Counted::Visible, tally);
    buffers.lut.resize(S::LEVELS, S::zeroed());
    rule.fill_first(levels, tally.counts(), &mut buffers.lut);
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
