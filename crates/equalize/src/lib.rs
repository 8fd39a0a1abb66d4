//! Histogram equalization of pictures in memory, global or adaptive (CLAHE).
//!
//! The arithmetic is exact: the same bytes on every processor.
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
//! let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 2, y: 1 }, noise: 0 };
//! equalize(&mut pixels, &layout, &Operation::new(Method::Clahe(clahe)), &mut scratch);
//! ```
//!
//! [`equalize`] does everything; a [`Strength`] weakens its effect. [`apply`] sends pictures
//! through LUTs made from other counts, such as the counts of a whole series. The parts are public
//! for other implementations, which can match the bytes exactly: [`histogram`] counts, [`lut`]
//! makes the look-up tables, [`colour`] computes luma and applies its changes, [`clahe`] is the
//! adaptive method, with its clip limit in [`clip`], and [`planes`] takes channels apart. [`count`]
//! only counts, for colour histograms.
//!
//! There is no I/O, no thread and no C; [`equalize_on`] has the threads of an [`Executor`] share
//! one picture. With the feature `serde`, layouts and operations can be serialized.

mod byte_order;
mod bytes;
pub mod clahe;
pub mod clip;
pub mod colour;
pub mod count;
mod coverage;
mod executor;
mod exposure;
pub mod histogram;
mod hue;
mod lab;
mod layout;
mod level;
mod levels;
pub mod lut;
mod percentiles;
mod piece;
pub mod planes;
mod portable;
mod sample;
#[doc(hidden)]
pub mod simd;
mod strength;

pub use byte_order::{ByteOrder, ByteOrders, swap_bytes};
pub use clahe::{Clahe, Tiles};
pub use clip::ClipLimit;
pub use colour::Colour;
use colour::{Plane, Relight};
pub use coverage::{NARROW, is_narrow};
pub use executor::{Executor, SAMPLES_A_THREAD, Sequential};
use executor::{Pool, Team};
pub use exposure::Exposure;
use histogram::{BLOCK, Counted};
pub use lab::lab_tables;
pub use layout::{Depth, Layout, Pixel};
pub use level::Level;
pub use levels::Levels;
pub use lut::Plateau;
use lut::Rule;
pub use percentiles::Stretch;
use piece::Piece;
pub use sample::Sample;
pub use strength::Strength;

/// The method that enhances contrast.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Method {
    /// One LUT for the whole picture, from the histogram of the whole picture.
    Global,
    /// One LUT for the whole picture, from counts that are capped at a share of the samples.
    ///
    /// The cap keeps large flat areas from taking more of the range than they need.
    Plateau(Plateau),
    /// One LUT for the whole picture: the levels between two percentiles fill the whole range.
    Stretch(Stretch),
    /// One LUT for the whole picture: its histogram becomes like that of a reference.
    Match,
    /// A LUT for each tile, contrast-limited, interpolated between the tiles.
    Clahe(Clahe),
}

impl Method {
    /// Returns the rule for the LUT of a plane; `None` if the method has several LUTs for a plane.
    ///
    /// `reference` holds the reference's counts for this plane, if the method has a reference.
    pub const fn rule(self, reference: &[u64]) -> Option<Rule<'_>> {
        match self {
            Self::Global => Some(Rule::Equalize),
            Self::Plateau(plateau) => Some(Rule::Plateau(plateau)),
            Self::Stretch(stretch) => Some(Rule::Stretch(stretch)),
            Self::Match => Some(Rule::Match(reference)),
            Self::Clahe(_) => None,
        }
    }

    /// Returns whether tiles are boxes ([`clahe::Volume`]).
    ///
    /// A box has pixels of several pages of a stack.
    pub const fn has_boxes(self) -> bool {
        matches!(self, Self::Clahe(Clahe { tiles: Tiles::Boxes { .. }, .. }))
    }

    /// Returns whether the method has a reference: the counts that [`equalize_like`] takes.
    pub const fn has_reference(self) -> bool {
        matches!(self, Self::Match)
    }
}

/// The settings for the samples of a picture.
///
/// Gray output needs no case here: the decoder then delivers gray.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Operation {
    /// The method that enhances contrast.
    pub method: Method,
    /// The planes of a colour picture that are equalized.
    pub colour: Colour,
    /// Brightening before the method; `None` leaves the picture as it is.
    pub exposure: Option<Exposure>,
    /// Blend between the picture's own levels, after its exposure, and the equalized ones.
    pub strength: Strength,
    /// Number of levels, before and after. No sample may be above them.
    pub levels: Levels,
}

impl Operation {
    /// Returns an operation on the luma of a colour picture, at full strength, with all levels.
    pub const fn new(method: Method) -> Self {
        Self { method, colour: Colour::Luma, exposure: None, strength: Strength::FULL, levels: Levels::All }
    }

    /// Returns whether colours may exceed the highest level when their luma changes.
    ///
    /// Such colours have to be clamped ([`Levels::clamp`]).
    pub const fn may_exceed_levels(&self, layout: &Layout) -> bool {
        matches!(self.colour, Colour::Luma)
            && layout.pixel.colour_channels() > 1
            && self.levels.are_fewer(layout.depth)
    }

    /// Returns whether each channel of a colour picture is equalized by itself.
    pub const fn is_per_channel(&self) -> bool {
        matches!(self.colour, Colour::PerChannel)
    }

    /// Returns whether red, green and blue go through LUTs, instead of following a new luma.
    pub const fn maps_channels(&self) -> bool {
        matches!(self.colour, Colour::PerChannel | Colour::Linked)
    }

    /// Returns the planes that are equalized, each separately.
    pub const fn to_equalize(&self, pixel: Pixel) -> &'static [Plane] {
        self.colour.to_equalize(pixel)
    }

    /// Returns the number of planes that are equalized.
    pub const fn planes(&self, pixel: Pixel) -> usize {
        self.to_equalize(pixel).len()
    }

    /// Returns whether the operation supports pictures of this layout.
    ///
    /// L*a*b* needs 8 bits and all 256 levels; linked colours cannot be equalized tile by tile.
    pub const fn can_equalize(&self, layout: &Layout) -> bool {
        let is_gray = layout.pixel.colour_channels() == 1;
        let has_bytes = matches!(layout.depth, Depth::Eight) && !self.levels.are_fewer(layout.depth);
        match self.colour {
            Colour::Lab => is_gray || has_bytes,
            Colour::Linked => is_gray || !matches!(self.method, Method::Clahe(_)),
            Colour::Luma | Colour::Hue | Colour::PerChannel => true,
        }
    }

    /// Returns the number of reference counts that a picture needs.
    ///
    /// It is one per level for each equalized plane, or 0 if the method has no reference.
    pub const fn reference_length(&self, layout: &Layout) -> usize {
        let planes = if self.method.has_reference() { self.planes(layout.pixel) } else { 0 };
        planes * layout.depth.levels()
    }

    /// Returns the change of colours that follows from a new luma, for pictures of this depth.
    const fn relight(&self, depth: Depth) -> Relight {
        match self.colour {
            Colour::Luma | Colour::Lab | Colour::PerChannel | Colour::Linked => Relight::Shift,
            Colour::Hue => Relight::KeepHue { highest: (self.levels.number(depth) - 1) as u16 },
        }
    }
}

/// The buffers that [`equalize`] reuses from picture to picture.
///
/// For global equalization their size is fixed; for CLAHE see [`clahe::Geometry::scratch_bytes`].
#[derive(Default)]
pub struct Scratch {
    eight: Buffers<u8>,
    sixteen: Buffers<u16>,
}

/// The part of a [`Scratch`] for pictures of one depth.
struct Buffers<S> {
    threads: Pool<clahe::Thread<S>>,
    luts: Vec<S>,
    clahe: clahe::Buffers<S>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self { threads: Pool::default(), luts: Vec::new(), clahe: clahe::Buffers::default() }
    }
}

/// Equalizes a picture in place.
///
/// Alpha is left as it is. The result depends only on the arguments.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd
/// address, or if the method is [`Method::Match`], which is for [`equalize_like`].
pub fn equalize(pixels: &mut [u8], layout: &Layout, operation: &Operation, scratch: &mut Scratch) {
    equalize_like(pixels, layout, operation, &[], scratch);
}

/// Equalizes a picture in place, as [`equalize`] does, with the counts of a reference.
///
/// `reference` holds [`Operation::reference_length`] counts, one plane after another.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if it holds 16-bit samples at an odd
/// address, or if `reference` has another length.
pub fn equalize_like(
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    reference: &[u64],
    scratch: &mut Scratch,
) {
    equalize_on(&Sequential, None, pixels, layout, operation, reference, scratch);
}

/// Equalizes a picture as [`equalize_like`] does, with the threads of an [`Executor`].
///
/// The bytes are the same. It works in place, or from a `source` to `pixels`; each part of `pixels`
/// is first touched by the thread that writes it. A small picture is left to the calling thread.
///
/// # Panics
/// As [`equalize_like`], and if `source` and `pixels` differ in length.
pub fn equalize_on(
    executor: &impl Executor,
    source: Option<&[u8]>,
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    reference: &[u64],
    scratch: &mut Scratch,
) {
    assert_eq!(reference.len(), operation.reference_length(layout), "the counts of a reference");
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    assert!(source.is_none_or(|source| source.len() == pixels.len()), "as many pixels from as to");
    assert!(operation.can_equalize(layout), "colours that the operation takes");
    match layout.depth {
        Depth::Eight => {
            let picture = Piece { source, samples: pixels };
            equalize_samples(picture, layout, operation, reference, &mut scratch.eight, executor);
        }
        Depth::Sixteen => {
            let source = source.map(bytemuck::cast_slice);
            let picture = Piece { source, samples: bytemuck::cast_slice_mut(pixels) };
            equalize_samples::<u16>(picture, layout, operation, reference, &mut scratch.sixteen, executor);
        }
    }
}

/// Sends a picture through the LUTs of an operation, in place.
///
/// There is one LUT for each equalized plane, in the order of [`Colour::to_equalize`], with one
/// sample-sized entry per level. [`lut::fill`] makes such LUTs. Alpha is left as it is; a new luma
/// changes colours as in [`equalize`].
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], if the number of LUTs is wrong, or if either
/// holds 16-bit values at an odd address.
pub fn apply(pixels: &mut [u8], layout: &Layout, operation: &Operation, luts: &[u8]) {
    apply_on(&Sequential, pixels, layout, operation, luts);
}

/// Sends a picture through LUTs as [`apply`] does, with the threads of an [`Executor`].
///
/// # Panics
/// As [`apply`].
pub fn apply_on(
    executor: &impl Executor,
    pixels: &mut [u8],
    layout: &Layout,
    operation: &Operation,
    luts: &[u8],
) {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    match layout.depth {
        Depth::Eight => apply_samples(pixels, layout, operation, luts, executor),
        Depth::Sixteen => {
            let samples = bytemuck::cast_slice_mut(pixels);
            apply_samples::<u16>(samples, layout, operation, bytemuck::cast_slice(luts), executor);
        }
    }
}

/// Equalizes one 8-bit gray plane globally, as [`equalize`] does.
pub fn equalize_gray8(samples: &mut [u8]) {
    let operation = Operation::new(Method::Global);
    let team = Team::new(&Sequential, samples.len());
    let picture = Piece::in_place(samples);
    through_luts(picture, 0, Pixel::Gray, &operation, &[], &mut Buffers::default(), &team);
}

fn equalize_samples<S: Sample>(
    picture: Piece<'_, S>,
    layout: &Layout,
    operation: &Operation,
    reference: &[u64],
    buffers: &mut Buffers<S>,
    executor: &impl Executor,
) {
    let Piece { mut source, samples } = picture;
    let team = Team::new(executor, samples.len());
    if let Method::Clahe(clahe) = operation.method {
        for &plane in operation.to_equalize(layout.pixel) {
            let picture = Piece { source: source.take(), samples };
            clahe::equalize(picture, layout, plane, &clahe, operation, buffers, &team);
        }
    } else {
        let (picture, width) = (Piece { source, samples }, layout.width as usize);
        through_luts(picture, width, layout.pixel, operation, reference, buffers, &team);
    }
    clamp(samples, layout, operation, &team);
    // The buffers of the other threads are not kept.
    if team.threads() > 1 {
        buffers.threads.all().truncate(1);
    }
}

/// Clamps colours to the highest level.
fn clamp<S: Sample, E: Executor>(
    samples: &mut [S],
    layout: &Layout,
    operation: &Operation,
    team: &Team<'_, E>,
) {
    if operation.may_exceed_levels(layout) {
        let highest = S::from_level(operation.levels.number(layout.depth) as u32 - 1);
        let pieces = Piece::in_place(samples).cut(layout.pixel, team);
        team.for_each(pieces, |piece| levels::clamp_samples(piece.samples, layout.pixel, highest));
    }
}

/// Sends all equalized planes through the LUTs that follow from their counts.
///
/// The picture has whole rows of `width` pixels, or any number of pixels if `width` is 0.
fn through_luts<S: Sample, E: Executor>(
    picture: Piece<'_, S>,
    width: usize,
    pixel: Pixel,
    operation: &Operation,
    reference: &[u64],
    buffers: &mut Buffers<S>,
    team: &Team<'_, E>,
) {
    let planes = operation.to_equalize(pixel);
    let Buffers { threads, luts, .. } = buffers;
    luts.resize(planes.len() * S::LEVELS, S::zeroed());
    for (number, (&plane, lut)) in planes.iter().zip(luts.chunks_exact_mut(S::LEVELS)).enumerate() {
        let old = picture.old();
        let counts = histogram::count_plane(old, width, pixel, plane, Counted::Visible, threads, team);
        lut::fill_plane(operation, number, counts, reference, lut);
    }
    map_planes(picture, pixel, operation, luts, team);
}

fn apply_samples<S: Sample>(
    samples: &mut [S],
    layout: &Layout,
    operation: &Operation,
    luts: &[S],
    executor: &impl Executor,
) {
    assert_eq!(luts.len(), operation.planes(layout.pixel) * S::LEVELS, "a LUT for each plane");
    let team = Team::new(executor, samples.len());
    map_planes(Piece::in_place(samples), layout.pixel, operation, luts, &team);
    clamp(samples, layout, operation, &team);
}

/// Applies a LUT to each plane that is equalized.
fn map_planes<S: Sample, E: Executor>(
    picture: Piece<'_, S>,
    pixel: Pixel,
    operation: &Operation,
    luts: &[S],
    team: &Team<'_, E>,
) {
    let band = BAND * pixel.channels();
    team.for_each(picture.cut(pixel, team), |Piece { source, samples }| {
        for (number, samples) in samples.chunks_mut(band).enumerate() {
            if let Some(source) = source {
                samples.copy_from_slice(&source[number * band..][..samples.len()]);
            }
            let planes = operation.to_equalize(pixel);
            for (&plane, lut) in planes.iter().zip(luts.chunks_exact(S::LEVELS)) {
                map_plane(samples, pixel, plane, operation.relight(S::DEPTH), lut);
            }
        }
    });
}

/// Pixels copied and changed at a time: few enough to stay in the L2 cache between the passes.
const BAND: usize = 1 << 15;

/// Applies a LUT to one plane of interleaved samples.
fn map_plane<S: Sample>(samples: &mut [S], pixel: Pixel, plane: Plane, relight: Relight, lut: &[S]) {
    if plane.is_of_all_samples(pixel) {
        return S::map(samples, lut);
    }
    let mut before = [S::zeroed(); BLOCK];
    let mut after = [S::zeroed(); BLOCK];
    for block in samples.chunks_mut(BLOCK * pixel.channels()) {
        let length = block.len() / pixel.channels();
        for &plane in plane.parts() {
            colour::read(block, pixel, plane, &mut before[..length]);
            after[..length].copy_from_slice(&before[..length]);
            S::map(&mut after[..length], lut);
            colour::write(block, pixel, plane, relight, &before[..length], &after[..length]);
        }
    }
}
